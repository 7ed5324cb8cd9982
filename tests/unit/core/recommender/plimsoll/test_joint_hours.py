from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent.core.history.minute.minutes import Minutes
from agent.core.orders.policy_options import SizingOptions
from agent.core.recommender.plimsoll.joint_hours import JointHours
from agent.core.recommender.plimsoll.policy import PlimsollPolicy
from agent.core.recommender.policy import JointPolicy, SeenTogether
from tests.examples import examples
from tests.generated_traces import START_UNIX_MINUTE
from tests.policy_rows import Figures, masked

HOUR = 60
DAY = 1440
MIDNIGHT = START_UNIX_MINUTE


def fold(hours: JointHours, usage: NDArray[np.float64], *, start: int = MIDNIGHT) -> int:
    """Fold minutes of all rows; give the minute after them."""
    for offset, values in enumerate(usage.astype(np.float32)):
        hours.fold(start + offset, values, np.ones(values.size, np.bool_))
    return start + len(usage)


def fold_minute(hours: JointHours, minute: int, figures: Figures) -> None:
    values, known = masked(figures)
    hours.fold(minute, np.where(known, values, 0.0).astype(np.float32), known)


def ask(hours: JointHours, minute: int, bases: list[float], rows: list[int] | None = None) -> SeenTogether | None:
    chosen = np.arange(len(bases)) if rows is None else np.array(rows)
    return hours.together(chosen, np.array(bases), minute * 60.0)


def demand(hours: JointHours, minute: int, bases: list[float], rows: list[int] | None = None) -> float:
    seen = ask(hours, minute, bases, rows)
    assert seen is not None
    return seen.demand_millicores


def turns(days: int, *, together: bool) -> NDArray[np.float64]:
    """Give two rows of 100m that burst to 500m each hour: in the same ten minutes, or one after the other."""
    minute = np.arange(days * DAY) % HOUR
    first = np.where(minute < 10, 500.0, 100.0)
    second = first if together else np.where((minute >= 30) & (minute < 40), 500.0, 100.0)
    return np.stack((first, second), axis=1)


def test_rows_that_burst_together_are_expected_to_and_those_that_take_turns_are_not() -> None:
    for together, expected in ((True, 1000.0), (False, 600.0)):
        hours = JointHours(60.0, 2)
        assert demand(hours, fold(hours, turns(3, together=together)), [100.0, 100.0]) == pytest.approx(expected)


def test_steady_rows_are_expected_to_go_on_so() -> None:
    hours = JointHours(60.0, 3)
    minute = fold(hours, np.full((2 * DAY, 3), [100.0, 20.0, 3.0]))
    assert demand(hours, minute, [100.0, 20.0, 3.0]) == pytest.approx(123.0)


def test_it_is_told_when_that_was() -> None:
    usage = np.full((3 * DAY, 2), 100.0)
    nightly = np.arange(3 * DAY) % DAY
    usage[(nightly >= 2 * HOUR + 20) & (nightly < 2 * HOUR + 50)] = 700.0
    hours = JointHours(60.0, 2)
    fold(hours, usage[: -DAY + 2 * HOUR])
    seen = ask(hours, MIDNIGHT + 2 * DAY + 2 * HOUR, [100.0, 100.0])
    assert seen is not None
    assert seen.demand_millicores == pytest.approx(1400.0)
    # The second night's, of two that were as high; it went on for half an hour.
    assert MIDNIGHT + DAY + 2 * HOUR + 20 <= seen.unix_seconds / 60 < MIDNIGHT + DAY + 2 * HOUR + 50


def test_the_last_quarter_of_an_hour_is_the_least() -> None:
    hours = JointHours(60.0, 2)
    minute = fold(hours, np.full((DAY, 2), 100.0))
    minute = fold(hours, np.full((20, 2), 100.0), start=minute)
    fold_minute(hours, minute, [400.0, 350.0])
    seen = ask(hours, minute + 1, [100.0, 100.0])
    assert seen == SeenTogether(demand_millicores=750.0, unix_seconds=float(minute // 5 * 300))
    for later in range(minute + 1, minute + 20):
        fold_minute(hours, later, [100.0, 100.0])
    assert demand(hours, minute + 10, [100.0, 100.0]) == 750.0
    assert demand(hours, minute + 20, [100.0, 100.0]) == 200.0


def test_of_five_minutes_that_one_counts_in_which_all_demanded_the_most() -> None:
    hours = JointHours(60.0, 2)
    fold(hours, np.full((HOUR, 2), 10.0))
    # One row after the other: never more than 110 at once.
    minute = fold(hours, np.array([[100.0, 10.0], [10.0, 90.0], [10.0, 10.0]]), start=MIDNIGHT + HOUR)
    assert demand(hours, minute, [10.0, 10.0]) == 110.0
    assert demand(hours, minute, [10.0], [0]) == 100.0
    # Of the second alone its own larger minute is not kept: in it all demanded less.
    assert demand(hours, minute, [10.0], [1]) == 10.0


def test_a_minute_that_comes_in_parts_counts_as_a_whole() -> None:
    whole, parts = JointHours(60.0, 2), JointHours(60.0, 2)
    for hours in (whole, parts):
        fold(hours, np.full((HOUR, 2), 50.0))
    fold_minute(whole, MIDNIGHT + HOUR, [60.0, 200.0])
    fold_minute(parts, MIDNIGHT + HOUR, [60.0, None])
    fold_minute(parts, MIDNIGHT + HOUR, [None, 200.0])
    assert demand(parts, MIDNIGHT + HOUR + 1, [50.0, 50.0]) == demand(whole, MIDNIGHT + HOUR + 1, [50.0, 50.0]) == 260.0


def test_nothing_is_said_before_an_hour_is_over_or_of_nobody() -> None:
    hours = JointHours(60.0, 1)
    minute = fold(hours, np.full((HOUR - 1, 1), 100.0))
    assert ask(hours, minute, [100.0]) is None
    assert ask(hours, fold(hours, np.full((1, 1), 100.0), start=minute), [100.0]) is not None
    assert ask(hours, minute + 1, []) is None


def test_a_row_that_came_lately_counts_with_its_base_where_it_was_not_there() -> None:
    hours = JointHours(60.0, 2)
    minute = fold(hours, np.full((DAY, 1), 300.0).repeat(2, axis=1) * [1, 0])
    hours.forget(np.array([1]))
    assert demand(hours, minute, [250.0, 80.0]) == pytest.approx(380.0)
    assert demand(hours, minute, [250.0], [0]) == pytest.approx(300.0)
    hours.grow(3)
    assert demand(hours, minute, [250.0, 80.0, 20.0]) == pytest.approx(400.0)


def test_a_row_that_is_gone_has_no_part_any_more() -> None:
    hours = JointHours(60.0, 2)
    minute = fold(hours, np.full((DAY, 2), [300.0, 500.0]))
    assert demand(hours, minute, [300.0, 500.0]) == 800.0
    assert demand(hours, minute, [300.0], [0]) == 300.0
    hours.forget(np.array([1]))
    assert demand(hours, minute, [300.0, 100.0]) == pytest.approx(400.0)


def test_pods_that_share_a_row_count_each() -> None:
    hours = JointHours(60.0, 1)
    minute = fold(hours, np.full((DAY, 1), 300.0))
    assert demand(hours, minute, [200.0, 200.0], [0, 0]) == 600.0


def test_what_is_older_than_six_days_is_let_go_of() -> None:
    hours = JointHours(200.0, 1)
    minute = fold(hours, np.full((DAY, 1), 900.0))
    minute = fold(hours, np.full((7 * DAY, 1), 100.0), start=minute)
    assert demand(hours, minute, [100.0]) == 100.0


def test_a_gap_is_neither_little_demand_nor_much() -> None:
    hours = JointHours(60.0, 2)
    minute = fold(hours, np.full((DAY, 2), 200.0))
    assert demand(hours, minute + 3 * DAY, [200.0, 200.0]) == 400.0
    assert ask(hours, minute + 9 * DAY, [200.0, 200.0]) is None


def test_a_clock_that_was_set_back_is_lived_with() -> None:
    hours = JointHours(60.0, 1)
    minute = fold(hours, np.full((DAY, 1), 200.0))
    fold(hours, np.full((3 * HOUR, 1), 150.0), start=minute - 6 * HOUR)
    assert demand(hours, minute, [100.0]) == 200.0


@examples(20)
@given(st.integers(0, 2**32 - 1), st.floats(2.0, 50.0))
def test_permuted_rows_demand_the_same_and_scaled_ones_as_much_more(seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    usage = np.round(random.lognormal(5.0, 0.6, (2 * DAY, 4))) + 20.0
    order = random.permutation(4)
    here, there, more = JointHours(60.0, 4), JointHours(60.0, 4), JointHours(60.0, 4)
    minute = fold(here, usage)
    fold(there, usage[:, order])
    fold(more, usage * scale)
    bases = [50.0, 60.0, 70.0, 80.0]
    expected = demand(here, minute, bases)
    assert demand(there, minute, [bases[row] for row in order]) == pytest.approx(expected)
    assert demand(more, minute, [scale * base for base in bases]) == pytest.approx(scale * expected, rel=0.01)
    # Never above the most they ever demanded at once, nor below the last quarter of an hour.
    sums = usage.sum(axis=1)
    assert sums[-15:].max() - 1e-3 <= expected <= sums.max() + 1e-3


def test_a_restart_gives_back_what_was_known_bit_for_bit() -> None:
    random = np.random.default_rng(5)
    days = 9
    usage = np.round(random.lognormal(5.0, 0.7, (days * DAY, 3)), 1)
    known = random.random((days * DAY, 3)) < 0.9
    # A row that nobody has; and what is not known is anything but 0.
    usage, known = np.hstack((usage, usage[:, :1])), np.hstack((known, np.zeros((days * DAY, 1), dtype=np.bool_)))
    usage[~known] = 777.0

    def minute_of(index: int, rows: int) -> Minutes:
        return Minutes(
            unix_minute=MIDNIGHT + index,
            cpu_usage_millicores=usage[index, :rows],
            cpu_peak_millicores=usage[index, :rows],
            has_cpu=known[index, :rows],
            working_set_bytes=np.full(rows, 777.0),
            has_memory=np.zeros(rows, dtype=np.bool_),
        )

    first_kept = (days - 7) * DAY
    lived, restarted = PlimsollPolicy(SizingOptions(), 1), PlimsollPolicy(SizingOptions(), 4)
    lived.grow(3)
    for index in range(days * DAY):
        lived.fold(minute_of(index, 3))
        if index >= first_kept:
            restarted.fold(minute_of(index, 4))
    rows, bases = np.arange(3), np.array([120.0, 130.0, 140.0])
    for late in (0, 17, 59):
        now = (MIDNIGHT + days * DAY + late) * 60.0
        assert lived.together(rows, bases, now_unix_seconds=now) == restarted.together(
            rows, bases, now_unix_seconds=now
        )
    assert isinstance(lived, JointPolicy)
