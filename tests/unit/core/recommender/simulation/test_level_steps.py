"""Where a trace steps up, and how soon a request follows."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.recommender.simulation.level_steps import ReactionWatch, _median_of_five, _sliding_max, demand_steps
from tests.traces import trace_of

Cells = list[float | None]
LOW: Cells = [100.0]
HIGH: Cells = [400.0]
GAP: Cells = [None]


def found(*columns: Cells) -> list[tuple[int, int, int, float]]:
    steps = demand_steps(trace_of(cpu=list(columns)))
    return list(
        zip(
            steps.rows.tolist(),
            steps.first_minutes.tolist(),
            steps.end_minutes.tolist(),
            steps.level_millicores.tolist(),
            strict=True,
        )
    )


def test_step_begins_at_its_first_high_minute_and_ends_when_it_falls_below_the_middle() -> None:
    # 100 for 90 minutes, 400 for 60, 100 again. The middle of 100 and 400 is 250; the median of five minutes falls
    # below it when three of them are low, which is from the window of minutes 148..152 on.
    assert found(LOW * 90 + HIGH * 60 + LOW * 90) == [(0, 90, 148, 400.0)]


def test_step_that_lasts_ends_with_the_trace() -> None:
    assert found(LOW * 90 + HIGH * 60) == [(0, 90, 150, 400.0)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (100.0, 149.0),  # less than half as much again
        (20.0, 60.0),  # three times as much, but 40 millicores only
        (400.0, 100.0),  # down
    ],
)
def test_no_step_where_the_rise_is_small(before: float | None, after: float | None) -> None:
    assert found([before] * 90 + [after] * 60) == []


def test_no_step_where_the_level_stays_under_fifteen_minutes() -> None:
    # Twelve high minutes: of the third five minutes, two are high.
    assert found(LOW * 90 + HIGH * 12 + LOW * 60) == []


def test_no_step_where_the_hour_before_was_as_high_for_a_minute() -> None:
    assert found(LOW * 60 + HIGH + LOW * 30 + HIGH * 60) == []


def test_step_after_the_high_minute_is_an_hour_old_is_found() -> None:
    assert [step[1] for step in found(HIGH + LOW * 60 + HIGH * 60)] == [61]


def test_no_step_where_less_than_half_of_the_hour_before_is_known() -> None:
    assert found(LOW * 29 + GAP * 31 + HIGH * 60) == []
    assert [step[1] for step in found(LOW * 30 + GAP * 30 + HIGH * 60)] == [60]


def test_no_step_with_a_gap_in_its_first_fifteen_minutes() -> None:
    assert found(LOW * 60 + HIGH * 7 + GAP + HIGH * 60) == []


def test_two_steps_of_one_container_are_both_found() -> None:
    assert [step[1] for step in found(LOW * 60 + HIGH * 90 + [1000.0] * 90)] == [60, 150]


def test_second_rise_within_fifteen_minutes_belongs_to_the_first() -> None:
    # 200 for five minutes, then 400: the level is the median of 5 x 200 and 10 x 400.
    assert found(LOW * 60 + [200.0] * 5 + HIGH * 60) == [(0, 60, 125, 400.0)]


def test_steps_of_many_containers_are_found_in_their_rows() -> None:
    # More containers than are looked at together, a step in the last one.
    flat = LOW * 120
    assert found(*[flat] * 70, LOW * 90 + HIGH * 30) == [(70, 90, 120, 400.0)]


def test_trace_too_short_for_an_hour_and_a_step_has_none() -> None:
    assert found(LOW * 60 + HIGH * 14) == []
    assert len(found(LOW * 60 + HIGH * 15)) == 1


@given(st.lists(st.floats(0, 1e6, width=32), min_size=5, max_size=30))
def test_median_of_five_equals_the_median(values: list[float]) -> None:
    row = np.array([values], dtype=np.float32)
    assert _median_of_five(row)[0].tolist() == [median(row[0, at : at + 5].tolist()) for at in range(len(values) - 4)]


@given(st.lists(st.floats(0, 1e6, width=32), min_size=7, max_size=30), st.integers(1, 7))
def test_sliding_max_equals_the_maximum(values: list[float], length: int) -> None:
    row = np.array([values], dtype=np.float32)
    wanted = [max(row[0, at : at + length].tolist()) for at in range(len(values) - length + 1)]
    assert _sliding_max(row, length)[0].tolist() == wanted


# Reactions

STEP = LOW * 90 + HIGH * 60


def reaction(requests: list[float | None], *, piece: int = 60) -> tuple[int, bool, bool]:
    watch = ReactionWatch(demand_steps(trace_of(cpu=[STEP])))
    values = np.array([[request or 0.0] for request in requests])
    has = np.array([[request is not None] for request in requests])
    for first in range(0, len(requests), piece):
        watch.see(first, values[first : first + piece], has[first : first + piece])
    seen = watch.reactions()
    return int(seen.reaction_minutes[0]), bool(seen.is_covered[0]), bool(seen.is_sized[0])


@pytest.mark.parametrize("piece", [1, 7, 60, 150])
@pytest.mark.parametrize(
    ("requests", "wanted"),
    [
        ([500.0] * 150, (0, True, True)),  # large enough before
        ([150.0] * 97 + [400.0] * 53, (7, True, True)),  # from minute 97 on, the step began at 90
        ([150.0] * 97 + [399.0] * 53, (0, False, True)),  # never up to the level
        ([None] * 95 + [400.0] * 55, (5, True, False)),  # no request when it began
    ],
)
def test_reaction_is_counted_from_the_step_in_pieces_of_any_length(
    requests: list[float | None], wanted: tuple[int, bool, bool], piece: int
) -> None:
    assert reaction(requests, piece=piece) == wanted


def test_reaction_after_the_step_has_ended_does_not_count() -> None:
    watch = ReactionWatch(demand_steps(trace_of(cpu=[LOW * 90 + HIGH * 30 + LOW * 90])))
    requests = np.array([[150.0]] * 125 + [[400.0]] * 85)  # the step ended at 118

    watch.see(0, requests, np.ones(requests.shape, np.bool_))

    assert watch.reactions().is_covered.tolist() == [False]
