from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from agent.core.recommender.plimsoll.hours import SLOTS, HourRing, LastMinutes, median_of
from tests.policy_rows import all_rows

YES = np.array([True])
NOON = 500_000 * 60
"""The minute that a UTC hour begins with."""


def fold(last: LastMinutes, unix_minute: int, *values: float | None) -> None:
    known = np.array([value is not None for value in values])
    last.fold(unix_minute, np.array([value or 0.0 for value in values], dtype=np.float32), known)


def singles(*rows: list[float]) -> NDArray[np.float32]:
    return np.array(rows, dtype=np.float32)


def test_last_minutes_nothing_folded_is_0_and_knows_no_minute() -> None:
    last = LastMinutes(2)
    assert last.newest is None
    assert last.largest(15).tolist() == [0.0, 0.0]
    assert last.has_any().tolist() == [False, False]
    levels, minutes = last.levels()
    assert levels.tolist() == [[0.0, 0.0]] * 4
    assert minutes.tolist() == [0, 0]


def test_largest_is_of_the_newest_minutes_alone() -> None:
    last = LastMinutes(1)
    for minute, value in enumerate([900.0, *[100.0] * 14]):
        fold(last, NOON + minute, value)
    assert last.largest(15).tolist() == [900.0]
    fold(last, NOON + 15, 100.0)
    assert last.largest(15).tolist() == [100.0]
    assert last.largest(60).tolist() == [900.0]


def test_a_minute_in_parts_keeps_the_larger_and_what_is_known_of_either() -> None:
    last = LastMinutes(2)
    fold(last, NOON, 5.0, None)
    fold(last, NOON, 3.0, 7.0)
    assert last.largest(1).tolist() == [5.0, 7.0]
    assert last.levels()[1].tolist() == [1, 1]
    assert last.has_any().tolist() == [True, True]


def test_minutes_that_were_skipped_are_forgotten() -> None:
    last = LastMinutes(1)
    fold(last, NOON, 900.0)
    fold(last, NOON + 2, 100.0)
    assert last.levels()[1].tolist() == [2]
    fold(last, NOON + 200, 50.0)
    assert last.largest(60).tolist() == [50.0]


@pytest.mark.parametrize(
    ("before", "quarter", "hour", "has_any"),
    [
        (10, 900.0, 900.0, True),  # gone by: the clock was set back
        (30, 900.0, 900.0, True),
        (44, 900.0, 900.0, True),
        (45, 0.0, 900.0, True),
        (89, 0.0, 900.0, True),
        (90, 0.0, 0.0, False),
        (300, 0.0, 0.0, False),
    ],
)
def test_before_a_later_minute_those_count_that_are_so_near_to_it(
    before: int, quarter: float, hour: float, has_any: bool
) -> None:
    last = LastMinutes(1)
    for minute in range(-60, 30):
        fold(last, NOON + minute, 900.0 if minute == 29 else None)
    assert last.largest(15, NOON + before).tolist() == [quarter]
    assert last.largest(60, NOON + before).tolist() == [hour]
    assert last.has_any(NOON + before).tolist() == [has_any]


def test_levels_are_what_a_twelfth_a_quarter_and_a_half_of_the_minutes_passed() -> None:
    last = LastMinutes(1)
    for minute in range(60):
        fold(last, NOON + minute, float(minute + 1))
    # Of 60 minutes 5, 15 and 30 were above the levels: the 1st, 6th, 16th and 31st largest of 60, 59, ..., 1.
    levels, minutes = last.levels()
    assert levels[:, 0].tolist() == [60.0, 55.0, 45.0, 30.0]
    assert minutes.tolist() == [60]


def test_levels_are_of_the_running_hour_and_of_known_minutes() -> None:
    last = LastMinutes(2)
    for minute in range(50, 60):
        fold(last, NOON - 60 + minute, 900.0, 900.0)
    for minute in range(12):
        fold(last, NOON + minute, float(minute), None)
    levels, minutes = last.levels()
    # Of 12 minutes 1, 3 and 6 were above: the 1st, 2nd, 4th and 7th largest of 11, 10, ..., 0.
    assert levels[:, 0].tolist() == [11.0, 10.0, 8.0, 5.0]
    assert levels[:, 1].tolist() == [0.0] * 4
    assert minutes.tolist() == [12, 0]


def ring_of(*hours: int) -> HourRing:
    ring = HourRing(1)
    for hour in hours:
        ring.open(hour, singles([1.0 * hour], [2.0], [3.0], [4.0]), YES)
        ring.close(hour, singles([10.0 * hour], [3.0], [2.0], [1.0 * hour]), np.array([60], dtype=np.uint8))
    return ring


def test_hours_before_are_those_within_reach_in_order() -> None:
    ring = ring_of(100, 101, 103, SLOTS + 2)
    slots = ring.before(104, 4)
    assert ring.kept(slots, slice(None))[0].tolist() == [100, 101, 103]
    assert ring.kept(ring.before(103, 2), slice(None))[0].tolist() == [101]
    assert ring.before(50, 10).size == 0


def test_an_hour_takes_the_slot_of_the_one_long_before() -> None:
    ring = ring_of(100)
    assert ring.looks(100) is not None
    ring.open(100 + SLOTS, singles([0.0], [0.0], [0.0], [0.0]), YES)
    assert ring.looks(100) is None
    assert ring.kept(ring.before(100 + SLOTS + 1, 1), slice(None))[1].tolist() == [[[0.0] * 4]]


def test_of_an_hour_that_comes_twice_the_time_counts_of_which_more_is_known() -> None:
    ring = ring_of(100)
    ring.close(100, singles([7.0], [7.0], [7.0], [7.0]), np.array([60], dtype=np.uint8))
    ring.open(100, singles([5.0], [5.0], [5.0], [5.0]), YES)
    ring.close(100, singles([1.0], [9.0], [1.0], [1.0]), np.array([30], dtype=np.uint8))
    hours, levels, looks, has_looks, minutes = ring.kept(ring.before(101, 1), slice(None))
    assert hours.tolist() == [100]
    assert levels.tolist() == [[[7.0] * 4]]
    assert looks.tolist() == [[[5.0] * 4]]
    assert has_looks.tolist() == [[True]]
    assert minutes.tolist() == [[60.0]]


def test_six_hours_and_the_usual_of_twelve() -> None:
    ring = ring_of(*range(100, 113))
    assert ring.largest_before(108).tolist() == [1070.0]
    assert ring.largest_before(120).tolist() == [0.0]
    # The median of 101 to 112, the lower of the two in the middle.
    assert ring.usual_before(113).tolist() == [106.0]
    assert ring.usual_before(200).tolist() == [0.0]


def test_rows_are_forgotten_and_grown() -> None:
    ring, last = ring_of(100), LastMinutes(1)
    fold(last, NOON, 5.0)
    ring.grow(2)
    last.grow(2)
    ring.grow(1)
    assert last.largest(1).tolist() == [5.0, 0.0]
    assert ring.kept(ring.before(101, 1), slice(None))[4].tolist() == [[60.0], [0.0]]
    ring.forget(all_rows(1))
    last.forget(all_rows(1))
    assert last.largest(1).tolist() == [0.0, 0.0]
    assert last.levels()[1].tolist() == [0, 0]
    _, levels, looks, has_looks, minutes = ring.kept(ring.before(101, 1), slice(None))
    assert not levels.any()
    assert not looks.any()
    assert not has_looks.any()
    assert not minutes.any()


@pytest.mark.parametrize(
    ("values", "known", "median"),
    [
        ([[3.0, 1.0, 2.0]], [[True, True, True]], 2.0),
        ([[3.0, 1.0, 2.0]], [[True, False, True]], 2.0),
        ([[3.0, 1.0]], [[True, False]], 3.0),
        ([[3.0, 1.0]], [[False, False]], 0.0),
    ],
)
def test_median_of_known_values(values: list[list[float]], known: list[list[bool]], median: float) -> None:
    assert median_of(np.array(values), np.array(known)).tolist() == [median]
