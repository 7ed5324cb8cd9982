from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.recommender.crane.kills import CraneKills, needed_bytes, protect

MIB = 1 << 20
DAY = 86_400.0
WEEK = 7 * DAY
NOW = 1.7e9


def make_kills(rows: int = 1, *, history_seconds: float = WEEK) -> CraneKills:
    return CraneKills(history_seconds=history_seconds, bump_ratio=1.2, rows=rows)


def needed(kills: CraneKills, row: int = 0, now: float = NOW) -> int | None:
    amounts, has_kill = kills.needed(np.array([row]), now)
    return int(amounts[0]) if has_kill[0] else None


@pytest.mark.parametrize(
    ("request_bytes", "needed"),
    [
        (0, 100 * MIB),
        (200 * MIB, 300 * MIB),
        (500 * MIB, 600 * MIB),  # both rules say 600 MiB
        (700 * MIB, 840 * MIB),
        (734_003_201, 880_803_841),  # 734003201 x 1.2 = 880803841.2, truncated
    ],
)
def test_needed_bytes_is_the_larger_of_100_mib_more_and_the_ratio(request_bytes: int, needed: int) -> None:
    assert needed_bytes(np.array([request_bytes]), 1.2).tolist() == [needed]


def test_protect_raises_but_never_lowers() -> None:
    raised = protect(np.array([1.0, 9.0, 1.0]), np.array([5.0, 5.0, 5.0]), np.array([True, True, False]))
    assert raised.tolist() == [5.0, 9.0, 1.0]


def test_needed_without_a_kill_is_nothing() -> None:
    assert needed(make_kills()) is None


def test_needed_counts_the_look_back_inclusive() -> None:
    kills = make_kills(history_seconds=DAY)
    kills.record(0, unix_seconds=NOW - DAY, requested_bytes=200 * MIB)
    assert needed(kills) == 300 * MIB
    assert needed(kills, now=NOW + 1.0) is None


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_needed_takes_the_largest_kill_that_still_counts(order: tuple[int, ...]) -> None:
    # The largest is the oldest; when it has expired the next larger one decides.
    recorded = [(NOW - 6 * DAY, 700 * MIB), (NOW - 3 * DAY, 600 * MIB), (NOW - 60.0, 300 * MIB)]
    kills = make_kills()
    for index in order:
        at, request_bytes = recorded[index]
        kills.record(0, unix_seconds=at, requested_bytes=request_bytes)
    assert needed(kills) == 840 * MIB
    assert needed(kills, now=NOW + 2 * DAY) == 720 * MIB
    assert needed(kills, now=NOW + 5 * DAY) == 400 * MIB
    assert needed(kills, now=NOW + 8 * DAY) is None


def test_record_of_a_kill_outdone_by_a_later_larger_one_changes_nothing() -> None:
    kills = make_kills()
    kills.record(0, unix_seconds=NOW, requested_bytes=300 * MIB)
    kills.record(0, unix_seconds=NOW - 60.0, requested_bytes=200 * MIB)
    kills.record(0, unix_seconds=NOW, requested_bytes=300 * MIB)
    assert needed(kills) == 400 * MIB


def test_kills_of_one_row_are_not_those_of_another_and_are_forgotten_alone() -> None:
    kills = make_kills(2)
    kills.grow(3)
    kills.record(0, unix_seconds=NOW, requested_bytes=200 * MIB)
    kills.record(2, unix_seconds=NOW, requested_bytes=300 * MIB)
    amounts, has_kill = kills.needed(np.array([2, 1, 0]), NOW)
    assert amounts.tolist() == [400.0 * MIB, 0.0, 300.0 * MIB]
    assert has_kill.tolist() == [True, False, True]
    kills.forget(np.array([2]))
    assert needed(kills, 2) is None
    assert needed(kills, 0) == 300 * MIB


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=30),
    st.integers(0, 25),
)
def test_needed_is_that_of_all_kills_kept_in_a_list(recorded: list[tuple[int, int]], now_day: int) -> None:
    kills = make_kills()
    for day, request_mib in recorded:
        kills.record(0, unix_seconds=day * DAY, requested_bytes=request_mib * MIB)
    # Only what a clock that went back would bring to life again is dropped: asked for from the newest kill on.
    now_day = max([now_day, *(day for day, _ in recorded)])
    recent = [request_mib for day, request_mib in recorded if now_day - day <= 7]
    assert needed(kills, now=now_day * DAY) == ((max(recent) + 100) * MIB if recent else None)
