"""The sampling clock: deadlines on a grid, halving and coming back, early sweeps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.window.sweep_pace import (
    CALM_SWEEPS_TO_DOUBLE,
    OVERRUNS_TO_HALVE,
    SLOWEST_FACTOR,
    ContentionPolicy,
    LaneState,
    LaneWatch,
    Pace,
    QuietBand,
    SkipReason,
    after_sweep,
    is_quiet,
    next_on_grid,
    quiet_band,
    watch_lanes,
)

SECOND = 10**9
PACE = Pace(base_interval_ns=SECOND, budget_ns=50_000_000, due_ns=100 * SECOND)


def test_a_sweep_in_time_is_followed_one_interval_after_its_deadline() -> None:
    pace, skipped = after_sweep(PACE, now_ns=100 * SECOND + 3_000_000, cost_ns=2_000_000)
    assert pace.due_ns == 101 * SECOND
    assert skipped == {}


@pytest.mark.parametrize(
    ("late_ns", "due_seconds", "late"),
    [
        (SECOND - 1, 101, 0),  # not yet the next deadline
        (SECOND, 102, 1),  # exactly on it: that one is skipped
        (int(3.5 * SECOND), 104, 3),  # 101, 102 and 103 have passed
    ],
)
def test_deadlines_that_have_passed_are_skipped_and_counted(late_ns: int, due_seconds: int, late: int) -> None:
    pace, skipped = after_sweep(PACE, now_ns=100 * SECOND + late_ns, cost_ns=1_000)
    assert pace.due_ns == due_seconds * SECOND
    assert skipped.get(SkipReason.LATE, 0) == late


def test_overruns_in_a_row_halve_the_rate_down_to_the_slowest() -> None:
    pace = PACE
    factors = []
    for _ in range(OVERRUNS_TO_HALVE * 5):
        pace, _ = after_sweep(pace, now_ns=pace.due_ns + 60_000_000, cost_ns=60_000_000)
        factors.append(pace.factor)
    assert factors[OVERRUNS_TO_HALVE - 2] == 1
    assert factors[OVERRUNS_TO_HALVE - 1] == 2
    assert factors[-1] == SLOWEST_FACTOR


def test_one_sweep_within_budget_starts_the_count_of_overruns_anew() -> None:
    pace = replace(PACE, overruns_in_a_row=OVERRUNS_TO_HALVE - 1)
    pace, _ = after_sweep(pace, now_ns=pace.due_ns, cost_ns=40_000_000)
    assert (pace.factor, pace.overruns_in_a_row) == (1, 0)


def test_calm_sweeps_double_the_rate_again_and_count_what_was_left_out() -> None:
    pace = replace(PACE, factor=2)
    slowed = 0
    for _ in range(CALM_SWEEPS_TO_DOUBLE):
        pace, skipped = after_sweep(pace, now_ns=pace.due_ns + 1, cost_ns=1_000_000)
        slowed += skipped.get(SkipReason.SLOWED, 0)
    assert pace.factor == 1
    assert slowed == CALM_SWEEPS_TO_DOUBLE - 1  # at half the rate one base sweep is left out between two


@given(st.lists(st.tuples(st.integers(0, 10 * SECOND), st.integers(0, SECOND)), max_size=60))
def test_deadlines_stay_on_the_grid_and_in_the_future(steps: list[tuple[int, int]]) -> None:
    pace, now_ns = PACE, PACE.due_ns
    for wait_ns, sweep_ns in steps:
        now_ns = max(now_ns, pace.due_ns) + wait_ns
        pace, _ = after_sweep(pace, now_ns=now_ns, cost_ns=sweep_ns)
        assert pace.due_ns > now_ns
        assert pace.due_ns % SECOND == 0
        assert 1 <= pace.factor <= SLOWEST_FACTOR


POLICY = ContentionPolicy(waiting_ratio=0.2, rearm_ratio=0.1, least_spacing_seconds=15)


def readings(tick: int, some_usec: int) -> dict[int, tuple[int, int]]:
    return {7: (tick * SECOND // 8, some_usec)}  # the lane is read at 8 Hz


def test_contention_that_rises_starts_one_sweep_until_it_falls_and_rises_again() -> None:
    watch, risen = watch_lanes(LaneWatch(), readings(0, 1000), POLICY)
    assert risen == ()  # the first reading is a baseline
    # 25,000 usec of waiting in 125,000 usec is 0.2: at the threshold.
    watch, risen = watch_lanes(watch, readings(1, 26_000), POLICY)
    assert risen == (7,)
    watch, risen = watch_lanes(watch, readings(1 + 16 * 8, 26_000 + 16_000_000), POLICY)
    assert risen == ()  # 16 s on, still contended: no news
    watch, risen = watch_lanes(watch, readings(2 + 16 * 8, 16_026_000), POLICY)
    assert risen == ()  # calm: armed again
    watch, risen = watch_lanes(watch, readings(3 + 16 * 8, 16_126_000), POLICY)
    assert risen == (7,)


def test_early_sweeps_keep_their_spacing_and_a_rise_within_it_is_told_afterwards() -> None:
    watch = LaneWatch(early_sweep_ns=0)
    watch, _ = watch_lanes(watch, readings(0, 0), POLICY)
    watch, risen = watch_lanes(watch, readings(1, 125_000), POLICY)
    assert risen == ()
    watch, risen = watch_lanes(watch, readings(1 + 15 * 8, 125_000 + 15_000_000), POLICY)
    assert risen == (7,)


def test_a_total_that_falls_or_a_clock_that_stands_is_a_new_baseline() -> None:
    watch, _ = watch_lanes(LaneWatch(), readings(10, 5_000_000), POLICY)
    watch, risen = watch_lanes(watch, readings(11, 0), POLICY)
    assert risen == ()
    _, risen = watch_lanes(watch, readings(11, 9_000_000), POLICY)
    assert risen == ()


@pytest.mark.parametrize(
    ("now", "following"),
    [
        (10, 13),  # on time
        (12, 13),
        (13, 16),  # the next one is due now: the one after it
        (21, 22),  # 13, 16 and 19 have passed
        (9, 13),  # early: one step on, never the same again
    ],
)
def test_the_next_deadline_lies_on_the_grid_and_after_now(now: int, following: int) -> None:
    assert next_on_grid(10, 3, now) == following


def test_the_interval_in_force_is_the_base_stretched() -> None:
    assert PACE.interval_ns == SECOND
    assert replace(PACE, factor=8).interval_ns == 8 * SECOND


def test_quiet_is_no_rise_of_an_armed_lane_and_no_fall_of_another() -> None:
    assert quiet_band(LaneState(0, 0), POLICY) == (0.0, POLICY.waiting_ratio)
    assert quiet_band(LaneState(0, 0, is_armed=False), POLICY) == (POLICY.rearm_ratio, math.inf)


@pytest.mark.parametrize(
    ("monotonic_ns", "some_usec", "expected"),
    [
        (SECOND, 1000, False),  # less than the least
        (SECOND, 101_000, True),
        (SECOND, 200_999, True),
        (SECOND, 201_000, False),  # the most is not included
        (SECOND, 999, False),  # the total went back
        (0, 101_000, False),  # no time passed
    ],
)
def test_a_reading_is_quiet_within_its_band(monotonic_ns: int, some_usec: int, expected: bool) -> None:
    assert is_quiet(LaneState(0, 1000), monotonic_ns, some_usec, QuietBand(0.1, 0.2)) is expected


@pytest.mark.parametrize("is_armed", [True, False])
@given(waited_usec=st.integers(0, 125_000))
def test_a_quiet_reading_changes_nothing_of_what_is_remembered_and_any_other_does(
    is_armed: bool, waited_usec: int
) -> None:
    before = LaneState(0, 1000, is_armed)
    band = quiet_band(before, POLICY)
    ratio = waited_usec / 125_000
    watch, risen = watch_lanes(LaneWatch(lanes={7: before}), readings(1, 1000 + waited_usec), POLICY)
    assert is_quiet(before, SECOND // 8, 1000 + waited_usec, band) == (band.least_ratio <= ratio < band.most_ratio)
    assert is_quiet(before, SECOND // 8, 1000 + waited_usec, band) == (
        not risen and watch.lanes[7].is_armed == is_armed
    )
