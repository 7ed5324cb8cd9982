"""The memory of a container that ended young: its peak, less the cache that was surely in it."""

from __future__ import annotations

import numpy as np
import pytest

from agent.core.window.ring_rows import Has, Status
from agent.core.window.short_life import (
    STEP_BYTES,
    cache_in_peak_bytes,
    peak_step_bytes,
    short_life_bytes,
    short_life_minute,
)
from tests.window_rows import Rows, memory

MIB = 1 << 20


def rows(*working_sets_mib: int, has: int | None = None, status: int = Status.OK) -> Rows:
    readings = np.concatenate([memory(at, set_peak=mib * MIB) for at, mib in enumerate(working_sets_mib, start=10)])
    readings["status"] = status
    if has is not None:
        readings["has"] = has
    return readings


def test_what_a_peak_is_made_of_is_asked_again_when_it_has_grown_by_a_share() -> None:
    assert peak_step_bytes(0) == peak_step_bytes(16 * MIB) == STEP_BYTES == 4 * MIB
    assert peak_step_bytes(320 * MIB) == 20 * MIB


@pytest.mark.parametrize(("current", "cache"), [(320, 200), (300, 200), (299, None)])
def test_cache_counts_as_part_of_a_peak_only_while_as_much_is_charged(current: int, cache: int | None) -> None:
    # Of a peak of 320 MiB a sixteenth is 20 MiB.
    cache_bytes = cache_in_peak_bytes(320 * MIB, current_bytes=current * MIB, inactive_file_bytes=200 * MIB)
    assert cache_bytes == (None if cache is None else cache * MIB)


def test_the_largest_of_what_was_read_and_of_the_peak_without_its_cache_counts() -> None:
    assert short_life_bytes((), peak_bytes=300 * MIB, cache_bytes=None) == 300 * MIB
    assert short_life_bytes((), peak_bytes=300 * MIB, cache_bytes=250 * MIB) == 50 * MIB
    assert short_life_bytes((rows(40, 80),), peak_bytes=300 * MIB, cache_bytes=250 * MIB) == 80 * MIB
    assert short_life_bytes((), peak_bytes=MIB, cache_bytes=2 * MIB) == 0  # it was charged more after the peak was read


def test_without_a_peak_only_working_sets_that_were_read_count() -> None:
    assert short_life_bytes((rows(40), rows(80, 60)), peak_bytes=None, cache_bytes=None) == 80 * MIB
    for unread in (rows(80, has=int(Has.MEMORY)), rows(80, status=Status.GONE)):
        assert short_life_bytes((unread,), peak_bytes=None, cache_bytes=None) is None
    assert short_life_bytes((), peak_bytes=None, cache_bytes=None) is None


def test_its_minute_knows_memory_alone_rounded_up() -> None:
    row = short_life_minute(300 * MIB + 1, monotonic_minute=7)
    assert row.shape == (1,)
    assert (int(row["monotonic_minute"][0]), int(row["working_set_peak_kib"][0])) == (7, 300 * 1024 + 1)
    assert (int(row["coverage_255"][0]), int(row["has"][0])) == (0, int(Has.MEMORY_STAT))
