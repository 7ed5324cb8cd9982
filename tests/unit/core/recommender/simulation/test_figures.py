"""Amounts and times of what was requested and used, derived by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.recommender.simulation.figures import (
    CORE_HOUR,
    Course,
    LimitFigures,
    ResourceAccount,
    ResourceFigures,
    SimulatedOutcome,
    total,
    usage_course,
)
from agent.core.recommender.simulation.level_steps import StepReactions
from tests.traces import START_UNIX_MINUTE, trace_of


def account(usage: Sequence[float | None], request: Sequence[float | None]) -> ResourceFigures:
    one = ResourceAccount(1, amount_hour=CORE_HOUR)
    one.add(
        np.array([[value or 0.0] for value in usage]),
        np.array([[value is not None] for value in usage]),
        np.array([[value or 0.0] for value in request]),
        np.array([[value is not None] for value in request]),
    )
    return one.figures(np.array([0]))


def test_account_of_an_hour_at_half_the_request_has_half_of_it_as_slack() -> None:
    # 60 minutes at 500 of 1,000 millicores: 1 core-hour requested, half of it used, half not.
    one = account([500.0] * 60, [1000.0] * 60).of(0)

    assert (one.requested_amount_hours, one.used_amount_hours, one.unused_amount_hours) == (1.0, 0.5, 0.5)
    assert (one.missing_amount_hours, one.under_minutes, one.slack_ratio, one.under_ratio) == (0.0, 0, 0.5, 0.0)


def test_account_keeps_slack_and_missing_apart() -> None:
    # 30 minutes 400 below and 30 minutes 200 above a request of 600: 0.2 core-hours unused, 0.1 missing.
    one = account([200.0] * 30 + [800.0] * 30, [600.0] * 60).of(0)

    assert one.unused_amount_hours == pytest.approx(0.2)
    assert one.missing_amount_hours == pytest.approx(0.1)
    assert (one.under_minutes, one.under_ratio) == (30, 0.5)


def test_account_leaves_gaps_and_unsized_minutes_out() -> None:
    one = account([None, 500.0, 500.0, None], [1000.0, None, 1000.0, None]).of(0)

    assert (one.known_minutes, one.unsized_minutes) == (2, 1)
    assert one.requested_amount_hours == pytest.approx(1 / 60)


def test_account_of_usage_equal_to_the_request_is_not_under_requested() -> None:
    assert account([500.0], [500.0]).of(0).under_minutes == 0


def test_ratios_of_nothing_are_none() -> None:
    one = account([500.0], [None]).of(0)
    assert (one.slack_ratio, one.under_ratio) == (None, None)


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e6)), min_size=1, max_size=50))
def test_account_balances_and_is_never_negative(minutes: list[tuple[float | None, float | None]]) -> None:
    one = account([usage for usage, _ in minutes], [request for _, request in minutes]).of(0)

    used_of_request = one.used_amount_hours - one.missing_amount_hours
    assert one.unused_amount_hours == pytest.approx(one.requested_amount_hours - used_of_request, abs=1e-9)
    assert min(one.unused_amount_hours, one.missing_amount_hours) >= 0
    assert one.under_minutes <= one.known_minutes - one.unsized_minutes


def outcome(**more: Any) -> SimulatedOutcome:
    two = np.array([1, 2])
    nothing = np.zeros((1, 2), np.float32)
    figures = ResourceAccount(2, amount_hour=CORE_HOUR)
    ones = np.full((60, 2), 1000.0)
    figures.add(ones / 2, np.ones((60, 2), np.bool_), ones, np.ones((60, 2), np.bool_))
    return SimulatedOutcome(
        **{
            "policy": "fixed",
            "trace": "made",
            "containers": ("a", "b"),
            "start_unix_minute": START_UNIX_MINUTE,
            "minutes": 60,
            "cpu": figures.figures(two),
            "memory": figures.figures(two),
            "memory_limit": LimitFigures(over_minutes=two, excursions=two, kills=two),
            "resizes": two,
            "reactions": StepReactions(
                reaction_minutes=np.array([3, 9, 0, 5]),
                is_covered=np.array([True, True, False, True]),
                is_sized=np.array([True, True, True, False]),
            ),
            "course": Course(
                stretch_minutes=60,
                cpu_request_millicores=nothing,
                memory_request_bytes=nothing,
                memory_limit_bytes=nothing,
            ),
            **more,
        }
    )


def test_total_adds_up_containers_and_traces() -> None:
    both = total((outcome(), outcome()))

    assert (both.policy, both.containers, both.span_seconds) == ("fixed", 4, 7200.0)
    # 1 core-hour per container and trace requested, half of it used
    assert (both.cpu.requested_amount_hours, both.cpu.unused_amount_hours) == (4.0, 2.0)
    assert (both.cpu.resizes, both.memory.resizes, both.resizes) == (6, 6, 6)
    assert (both.kills, both.over_limit_excursions, both.over_limit_minutes) == (6, 6, 6)


def test_total_judges_only_steps_that_met_a_request() -> None:
    steps = total((outcome(),)).steps
    # Sized: 3, 9 and one never covered; the last step met no request.
    assert (steps.steps, steps.covered, steps.median_minutes, steps.max_minutes) == (3, 2, 6.0, 9)


def test_total_without_covered_steps_has_no_reaction() -> None:
    never = np.zeros(4, np.bool_)
    reactions = StepReactions(reaction_minutes=np.zeros(4, np.int64), is_covered=never, is_sized=~never)
    steps = total((outcome(reactions=reactions),)).steps
    assert (steps.steps, steps.covered, steps.median_minutes, steps.max_minutes) == (4, 0, None, None)


def test_usage_course_takes_the_largest_of_each_stretch() -> None:
    course = usage_course(trace_of(cpu=[[1, 5, None, None, 2]], memory=[[None, None, 7, 9, 8]]), 2)

    assert course.cpu_millicores[:, 0].tolist() == [5.0, 0.0, 2.0]
    assert course.has_cpu[:, 0].tolist() == [True, False, True]
    assert course.memory_bytes[:, 0].tolist() == [0.0, 9.0, 8.0]
