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
    NodeAccount,
    PolicyTotal,
    ResourceAccount,
    ResourceFigures,
    SimulatedOutcome,
    total,
    undominated,
    usage_course,
)
from agent.core.recommender.simulation.level_steps import StepReactions
from tests.traces import START_UNIX_MINUTE, trace_of


def account(usage: Sequence[float | None], request: Sequence[float | None]) -> ResourceFigures:
    cpu_account = ResourceAccount(1, amount_hour=CORE_HOUR)
    cpu_account.add(
        np.array([[value or 0.0] for value in usage]),
        np.array([[value is not None] for value in usage]),
        np.array([[value or 0.0] for value in request]),
        np.array([[value is not None] for value in request]),
    )
    return cpu_account.figures(np.array([0]))


def test_account_of_an_hour_at_half_the_request_has_half_of_it_as_slack() -> None:
    # 60 minutes at 500 of 1,000 millicores: 1 core-hour requested, half of it used, half not.
    figures = account([500.0] * 60, [1000.0] * 60).of(0)

    assert (figures.requested_amount_hours, figures.used_amount_hours, figures.unused_amount_hours) == (1.0, 0.5, 0.5)
    assert (figures.missing_amount_hours, figures.under_minutes, figures.slack_ratio, figures.under_ratio) == (
        0.0,
        0,
        0.5,
        0.0,
    )


def test_account_keeps_slack_and_missing_apart() -> None:
    # 30 minutes 400 below and 30 minutes 200 above a request of 600: 0.2 core-hours unused, 0.1 missing.
    figures = account([200.0] * 30 + [800.0] * 30, [600.0] * 60).of(0)

    assert figures.unused_amount_hours == pytest.approx(0.2)
    assert figures.missing_amount_hours == pytest.approx(0.1)
    assert (figures.under_minutes, figures.under_ratio) == (30, 0.5)


def test_account_leaves_gaps_and_unsized_minutes_out() -> None:
    figures = account([None, 500.0, 500.0, None], [1000.0, None, 1000.0, None]).of(0)

    assert (figures.known_minutes, figures.unsized_minutes) == (2, 1)
    assert figures.requested_amount_hours == pytest.approx(1 / 60)


def test_account_of_usage_equal_to_the_request_is_not_under_requested() -> None:
    assert account([500.0], [500.0]).of(0).under_minutes == 0


def test_ratios_of_nothing_are_none() -> None:
    figures = account([500.0], [None]).of(0)
    assert (figures.slack_ratio, figures.under_ratio) == (None, None)
    assert (figures.slack_of_used_ratio, figures.deficit_ratio, figures.changes_per_day) == (None, None, None)


def test_slack_and_deficit_are_shares_of_what_was_used() -> None:
    # 30 minutes 400 below and 30 minutes 200 above a request of 600: used are 0.5 core-hours, 0.2 more were requested
    # than used, 0.1 less.
    figures = account([200.0] * 30 + [800.0] * 30, [600.0] * 60).of(0)

    assert figures.slack_of_used_ratio == pytest.approx(0.4)
    assert figures.deficit_ratio == pytest.approx(0.2)


def test_changes_per_day_are_those_of_one_container() -> None:
    # Each of two containers was judged for 60 minutes; 1 and 2 changes in two hours are 18 a day.
    assert total((outcome(),)).cpu.changes_per_day == pytest.approx(3 * 1440 / 120)


def test_account_counts_rows_of_seconds_as_their_part_of_a_minute() -> None:
    cpu_account = ResourceAccount(1, amount_hour=CORE_HOUR, rows_per_minute=60)
    usage, yes = np.full((120, 1), 500.0), np.ones((120, 1), np.bool_)
    usage[:6] = 800.0
    cpu_account.add(usage, yes, np.full((120, 1), 600.0), yes)
    figures = cpu_account.figures(np.array([0])).of(0)

    # Two minutes, a tenth of one short by 200 millicores.
    assert (figures.known_minutes, figures.under_minutes) == (2.0, 0.1)
    assert figures.missing_amount_hours * CORE_HOUR == pytest.approx(0.1 * 200)


def test_account_of_a_request_that_grew_within_the_row_is_short_until_then() -> None:
    cpu_account = ResourceAccount(1, amount_hour=CORE_HOUR)
    yes = np.ones((1, 1), np.bool_)
    cpu_account.add(np.array([[800.0]]), yes, np.array([[600.0]]), yes, grown=np.array([[900.0]]), grown_share=0.75)
    figures = cpu_account.figures(np.array([1])).of(0)

    # A quarter of the minute 200 short, the rest 100 too many.
    assert figures.under_minutes == 0.25
    assert figures.missing_amount_hours * CORE_HOUR == pytest.approx(0.25 * 200)
    assert figures.unused_amount_hours * CORE_HOUR == pytest.approx(0.75 * 100)


def test_account_of_a_growth_at_the_very_end_of_the_row_does_not_see_it() -> None:
    cpu_account = ResourceAccount(1, amount_hour=CORE_HOUR)
    yes = np.ones((1, 1), np.bool_)
    cpu_account.add(np.array([[800.0]]), yes, np.array([[600.0]]), yes, grown=np.array([[900.0]]), grown_share=0.0)
    assert cpu_account.figures(np.array([1])).of(0).under_minutes == 1.0


def test_node_is_short_only_where_all_containers_together_are() -> None:
    usage = np.array([[300.0, 50.0], [300.0, 150.0], [300.0, 900.0]])
    request = np.array([[200.0, 200.0], [200.0, 200.0], [200.0, 200.0]])
    # The second container is not sized in the last minute: its use is not the node's fault.
    has_request = np.array([[True, True], [True, True], [True, False]])
    node = NodeAccount(amount_hour=CORE_HOUR)
    node.add(usage, np.ones((3, 2), np.bool_), request, has_request, grown=request + 50.0, grown_share=0.5)
    figures = node.figures(np.array([2, 3])).of(0)

    # 350 of 400, then 500; 450 of 400, then 500; 300 of 200, then 250.
    assert (figures.known_minutes, figures.unsized_minutes, figures.resizes) == (3.0, 0.0, 5)
    assert figures.under_minutes == 0.5 + 1.0
    assert figures.missing_amount_hours * CORE_HOUR == pytest.approx(0.5 * 50 + 0.5 * 100 + 0.5 * 50)
    assert figures.used_amount_hours * CORE_HOUR == pytest.approx(350 + 450 + 300)


def test_undominated_are_those_that_no_other_beats_in_both() -> None:
    def one(request: float | None) -> PolicyTotal:
        figures = ResourceAccount(1, amount_hour=CORE_HOUR)
        usage, yes = np.array([[100.0], [200.0]]), np.ones((2, 1), np.bool_)
        figures.add(usage, yes, np.full((2, 1), request or 0.0), yes & (request is not None))
        return total((outcome(cpu=figures.figures(np.array([0]))),))

    # Slack grows and deficit shrinks up to 200; 300 has more slack than 200 for the same deficit of none.
    assert undominated([one(100.0), one(150.0), one(200.0), one(300.0), one(None), one(200.0)]) == {0, 1, 2, 5}


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e6)), min_size=1, max_size=50))
def test_account_balances_and_is_never_negative(minutes: list[tuple[float | None, float | None]]) -> None:
    figures = account([usage for usage, _ in minutes], [request for _, request in minutes]).of(0)

    used_of_request = figures.used_amount_hours - figures.missing_amount_hours
    assert figures.unused_amount_hours == pytest.approx(figures.requested_amount_hours - used_of_request, abs=1e-9)
    assert min(figures.unused_amount_hours, figures.missing_amount_hours) >= 0
    assert figures.under_minutes <= figures.known_minutes - figures.unsized_minutes


def outcome(**more: Any) -> SimulatedOutcome:
    two = np.array([1, 2])
    nothing = np.zeros((1, 2), np.float32)
    figures = ResourceAccount(2, amount_hour=CORE_HOUR)
    ones = np.full((60, 2), 1000.0)
    figures.add(ones / 2, np.ones((60, 2), np.bool_), ones, np.ones((60, 2), np.bool_))
    node = NodeAccount(amount_hour=CORE_HOUR)
    node.add(ones / 2, np.ones((60, 2), np.bool_), ones, np.ones((60, 2), np.bool_))
    return SimulatedOutcome(
        **{
            "policy": "fixed",
            "trace": "made",
            "containers": ("a", "b"),
            "start_unix_minute": START_UNIX_MINUTE,
            "minutes": 60,
            "cpu": figures.figures(two),
            "memory": figures.figures(two),
            "node_cpu": node.figures(two),
            "node_planned_cpu": node.figures(np.zeros(1, np.int64)),
            "node_memory": node.figures(two),
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
