"""Who is short of memory by a bound of its own: held back at memory.high, or stalling at its limit."""

from __future__ import annotations

import pytest

from agent.core.window.memory_shortage import MemoryReading, MemoryShort, MemoryShortage, memory_shortage, waiting_ratio

NS = 1_000_000_000


def reading(current: int, *, inactive: int = 0, limit: int | None = 1000, high: int | None = None) -> MemoryReading:
    return MemoryReading(
        monotonic_ns=NS, current_bytes=current, inactive_file_bytes=inactive, max_bytes=limit, high_bytes=high
    )


def shortage(of: MemoryReading, *, is_held: bool = False, is_stalled: bool = False) -> MemoryShortage | None:
    return memory_shortage(of, is_held=is_held, is_stalled=is_stalled, fill_ratio=0.9, limit_ratio=2.0)


def test_held_back_with_its_working_set_at_memory_high_raises_the_limit_in_proportion() -> None:
    # At 760 of memory.high 800: 0.95 of the bound, twice that of the limit of 1000.
    assert shortage(reading(760, high=800), is_held=True) == MemoryShortage(
        cause=MemoryShort.HELD, working_set_bytes=760, limit_bytes=1900
    )


def test_more_than_memory_high_counts_as_memory_high() -> None:
    # What overran it cannot make the limit more than twice as large.
    shortfall = shortage(reading(900, high=800), is_held=True)
    assert shortfall is not None
    assert shortfall.limit_bytes == 2000


def test_held_back_for_pages_that_may_go_is_short_only_if_it_waits() -> None:
    streaming = reading(790, inactive=600, high=800)
    assert shortage(streaming, is_held=True) is None
    shortfall = shortage(streaming, is_held=True, is_stalled=True)
    assert shortfall is not None
    assert (shortfall.cause, shortfall.working_set_bytes) == (MemoryShort.HELD, 190)


def test_stalling_at_its_limit_counts_page_cache() -> None:
    assert shortage(reading(1000, inactive=900), is_stalled=True) == MemoryShortage(
        cause=MemoryShort.STALLED, working_set_bytes=100, limit_bytes=2000
    )


@pytest.mark.parametrize(
    ("of", "flags"),
    [
        (reading(500, limit=None), {"is_stalled": True}),  # no bound of its own: the node is short, or its pod
        (reading(500), {"is_stalled": True}),  # not at its bound
        (reading(1000), {}),
        (reading(1000), {"is_held": True}),  # memory.high has been taken away since
        (reading(500, high=800), {"is_held": True}),  # it has given the memory back since
    ],
)
def test_what_is_not_short_by_its_own_bound_is_left_alone(of: MemoryReading, flags: dict[str, bool]) -> None:
    assert shortage(of, **flags) is None


def test_without_a_limit_there_is_none_to_raise_but_its_need_is_told() -> None:
    shortfall = shortage(reading(800, limit=None, high=800), is_held=True)
    assert shortfall == MemoryShortage(cause=MemoryShort.HELD, working_set_bytes=800, limit_bytes=None)


def test_a_bound_of_nothing_is_reached() -> None:
    shortfall = shortage(reading(0, limit=1000, high=0), is_held=True)
    assert shortfall is not None
    assert shortfall.limit_bytes == 2000


@pytest.mark.parametrize(
    ("seconds", "waited_seconds", "ratio"),
    [
        (0.25, 0.25, 0.25),  # of a whole second, as yet
        (1.0, 0.1, 0.1),
        (2.0, 1.0, 0.5),
        (1.0, 3.0, 1.0),  # the total is read after the clock
        (1.0, -5.0, 0.0),  # another cgroup's
    ],
)
def test_waiting_is_a_share_of_a_second_at_least(seconds: float, waited_seconds: float, ratio: float) -> None:
    before = (5 * NS, 7_000_000)
    after = (5 * NS + int(seconds * NS), 7_000_000 + int(waited_seconds * 1e6))
    assert waiting_ratio(before, after) == pytest.approx(ratio)
