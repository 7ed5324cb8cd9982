"""core/history/minute/minute_axis.py: the history's axis under clocks that are set, wrong and set right."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.minute.minute_axis import CONFIRM_MINUTES, DAY_MINUTES, TOLERANCE_MINUTES, MinuteAxis, offset_of

NOW = 29_000_000
"""A minute of 2025."""


def start(newest: int | None, *, clock: int, first: int = 100) -> MinuteAxis:
    """Begin at monotonic minute ``first``, at which the wall clock says minute ``clock``."""
    return MinuteAxis(newest_unix_minute=newest, first_monotonic_minute=first, wall_offset_minutes=clock - first)


def test_empty_history_takes_the_clock_at_its_word() -> None:
    axis = start(None, clock=NOW)
    assert axis.unix_minute(100) == NOW
    assert axis.unix_seconds(6000.5) == NOW * 60 + 0.5
    assert axis.ahead_minutes == 0


def test_the_wall_clock_is_believed_to_the_second_but_for_a_step_ahead() -> None:
    axis = start(None, clock=NOW)
    at, tolerated = 6000.5, TOLERANCE_MINUTES * 60 + 30
    axis_says = axis.unix_seconds(at)
    for off in (0.0, 24.6, -24.6, float(tolerated), -3600.0):  # rounded off, or a step that is put up with, or back
        assert axis.believed_seconds(at, axis_says + off) == axis_says + off
    for step in (tolerated + 1.0, 86_400.0):
        assert axis.believed_seconds(at, axis_says + step) == axis_says


def test_restart_within_a_day_leaves_a_gap_as_long_as_it_took() -> None:
    assert start(NOW - DAY_MINUTES, clock=NOW).unix_minute(100) == NOW


def test_clock_of_1970_at_boot_goes_on_after_the_newest_minute() -> None:
    axis = start(NOW, clock=3)
    assert [axis.unix_minute(minute) for minute in (100, 101)] == [NOW + 1, NOW + 2]
    assert axis.ahead_minutes == NOW + 1 - 3


def test_clock_that_is_set_right_after_boot_is_followed_when_it_has_lasted() -> None:
    axis = start(NOW, clock=3)
    # Three hours after the newest minute, as the clock finds out at monotonic minute 105.
    right = NOW + 180 - 105
    for minute in range(105, 105 + CONFIRM_MINUTES):
        axis.observe(minute, right)
        assert axis.unix_minute(minute) == NOW + 1 + minute - 100
    assert axis.ahead_minutes < 0
    axis.observe(105 + CONFIRM_MINUTES, right)
    assert axis.unix_minute(105 + CONFIRM_MINUTES) == NOW + 180 + CONFIRM_MINUTES
    assert axis.ahead_minutes == 0


def test_clock_of_the_far_future_at_boot_moves_nothing_when_it_is_set_right_soon() -> None:
    axis = start(NOW, clock=NOW * 2)
    axis.observe(100, NOW * 2 - 100)
    assert axis.unix_minute(100) == NOW + 1
    axis.observe(101, NOW + 5 - 101)
    axis.observe(101 + CONFIRM_MINUTES, NOW + 5 - 101)
    assert axis.unix_minute(101 + CONFIRM_MINUTES) == NOW + 5 + CONFIRM_MINUTES


def test_step_of_the_clock_backwards_moves_nothing() -> None:
    axis = start(NOW - 1, clock=NOW)
    for minute in range(101, 201):
        axis.observe(minute, NOW - 100 - 600)
        assert axis.unix_minute(minute) == NOW + minute - 100
    assert axis.ahead_minutes == 600


def test_clock_that_drifts_within_the_tolerance_moves_nothing() -> None:
    axis = start(NOW - 1, clock=NOW)
    for minute in range(101, 201):
        axis.observe(minute, NOW - 100 + TOLERANCE_MINUTES)
    assert axis.unix_minute(201) == NOW + 101
    assert axis.ahead_minutes == 0


def test_clock_that_says_something_else_each_minute_is_not_believed() -> None:
    axis = start(NOW - 1, clock=NOW)
    for minute in range(101, 201):
        axis.observe(minute, NOW + minute * 10)
        assert axis.unix_minute(minute) == NOW + minute - 100


@given(
    newest=st.none() | st.integers(0, 2 * NOW),
    clock=st.integers(0, 2 * NOW),
    steps=st.lists(st.tuples(st.integers(1, 30), st.integers(-2 * NOW, 2 * NOW) | st.just(0)), max_size=40),
)
def test_minutes_only_rise_whatever_the_clock_does(
    newest: int | None, clock: int, steps: list[tuple[int, int]]
) -> None:
    axis = start(newest, clock=clock)
    last, minute, offset = newest, 100, clock - 100
    for ahead, step in steps:
        placed = axis.unix_minute(minute)
        assert last is None or placed > last
        last = placed
        minute += ahead
        offset += step
        axis.observe(minute, offset)


def test_offset_of_what_was_left_behind_is_the_difference_of_the_newest_minutes() -> None:
    # A wall clock that was set back, by any amount, is not followed; a step of a minute or two is not worth a doubt.
    for wall in (0, 899, 900, 901, 902):
        offset = offset_of(
            newest_unix_minute=1000, newest_monotonic_minute=100, wall_offset_minutes=wall, is_settled=True
        )
        assert offset == 900


def test_offset_while_the_newest_minute_is_being_written_is_the_one_that_the_clock_confirms() -> None:
    # The history may lack minute 100 as yet: then 1000 is minute 99.
    for wall, expected in ((899, 900), (900, 900), (901, 901), (902, 900)):
        offset = offset_of(
            newest_unix_minute=1000, newest_monotonic_minute=100, wall_offset_minutes=wall, is_settled=False
        )
        assert offset == expected


def test_offset_of_a_history_that_could_not_be_written_for_a_while_is_that_of_the_clock() -> None:
    # Rows up to minute 100, the history up to the minute 30 before: a clock ahead would have been followed by then.
    offset = offset_of(newest_unix_minute=970, newest_monotonic_minute=100, wall_offset_minutes=900, is_settled=True)
    assert offset == 900
