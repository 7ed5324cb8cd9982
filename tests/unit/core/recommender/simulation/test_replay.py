"""What a replay counts, derived by hand from traces whose answer is known beforehand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.orders.policy_options import BoundsOptions, ControlledResources, PolicyName
from agent.core.recommender.policy import Proposals
from agent.core.recommender.registry import make
from agent.core.recommender.simulation.figures import SimulatedOutcome, SimulatedResourceTotal, total
from agent.core.recommender.simulation.level_steps import demand_steps
from agent.core.recommender.simulation.replay import ReplayRules, simulate
from agent.core.recommender.simulation.trace import FineUsage, TraceSet
from agent.settings import Settings
from tests.examples import examples
from tests.traces import GIB, MIB, START_UNIX_MINUTE, FixedPolicy, trace_of

AT_ONCE = ReplayRules(min_span_seconds=0, cool_down_seconds=0)
AT_ANY_TIME: dict[str, Any] = {"shrink_interval_seconds": 0, "shrink_after_growth_seconds": 0, "shrink_ratio": 0}
"""Falls under credit as all others."""
"""A first answer after the first minute; no waiting between changes."""
LOOSE = BoundsOptions(
    min_memory_bytes=0,
    round_memory_bytes=1,
    smallest_cpu_change_millicores=0,
    smallest_memory_change_bytes=0,
    smallest_change_ratio=0,
)
"""Bounds that change next to nothing."""


def run(
    trace: TraceSet, policy: Any, rules: ReplayRules = AT_ONCE, options: BoundsOptions = LOOSE, **more: Any
) -> SimulatedOutcome:
    return simulate(trace, policy, options, rules, **more)


def test_perfect_request_for_a_constant_trace_has_no_slack() -> None:
    outcome = run(trace_of(cpu=[[500] * 61], memory=[[GIB] * 61]), FixedPolicy(cpu=500, memory=GIB))

    # The first minute is unsized; then an hour of 0.5 cores and of 1 GiB.
    assert (outcome.cpu.unsized_minutes[0], outcome.cpu.known_minutes[0]) == (1, 61)
    assert outcome.cpu.requested_amount_hours[0] == outcome.cpu.used_amount_hours[0] == 0.5
    assert outcome.memory.requested_amount_hours[0] == outcome.memory.used_amount_hours[0] == 1.0
    assert total((outcome,)).cpu.slack_ratio == total((outcome,)).memory.slack_ratio == 0.0
    assert (outcome.resizes[0], outcome.cpu.under_minutes[0], outcome.memory_limit.over_minutes[0]) == (0, 0, 0)


def test_request_of_twice_the_use_has_half_of_it_as_slack() -> None:
    outcome = run(trace_of(cpu=[[500] * 61]), FixedPolicy(cpu=1000))
    assert (outcome.cpu.requested_amount_hours[0], outcome.cpu.unused_amount_hours[0]) == (1.0, 0.5)


def test_request_too_small_is_counted_in_minutes_and_depth() -> None:
    outcome = run(trace_of(cpu=[[500] * 61]), FixedPolicy(cpu=400))
    # 60 minutes 100 millicores short: 0.1 core-hours
    assert outcome.cpu.under_minutes[0] == 60
    assert outcome.cpu.missing_amount_hours[0] == pytest.approx(0.1)


def test_starting_requests_hold_from_the_first_minute_on() -> None:
    rules = ReplayRules(min_span_seconds=600, cpu_request_millicores=1000, memory_request_bytes=GIB)
    outcome = run(trace_of(cpu=[[500] * 60], memory=[[GIB // 2] * 60]), FixedPolicy(cpu=500, memory=GIB // 2), rules)

    # Changed after the tenth minute: ten minutes 500 millicores too many, the rest without slack.
    assert outcome.cpu.unsized_minutes[0] == 0
    assert outcome.cpu.unused_amount_hours[0] == pytest.approx(10 / 60 * 0.5)
    assert outcome.memory.unused_amount_hours[0] == pytest.approx(10 / 60 * 0.5)
    assert (outcome.cpu.resizes[0], outcome.memory.resizes[0], outcome.resizes[0]) == (1, 1, 1)


def test_container_is_left_alone_until_it_was_measured_for_the_shortest_span() -> None:
    late = [None] * 5 + [500] * 20
    outcome = run(trace_of(cpu=[late]), FixedPolicy(cpu=500), ReplayRules(min_span_seconds=600))
    # Measured from minute 5 on, sized after the tenth of these.
    assert (outcome.cpu.known_minutes[0], outcome.cpu.unsized_minutes[0]) == (20, 10)


def test_decisions_come_at_their_interval() -> None:
    policy = FixedPolicy(cpu=500)
    run(trace_of(cpu=[[500] * 30]), policy, ReplayRules(decision_interval_seconds=600, min_span_seconds=0))
    ends = [(START_UNIX_MINUTE + minute) * 60.0 for minute in (10, 20, 30)]
    assert [now for now, _ in policy.presents] == ends


def test_policy_learns_every_minute_as_it_was() -> None:
    policy = FixedPolicy()
    run(trace_of(cpu=[[100, None, 300]], memory=[[1, 2, None]], psi=np.full((3, 1), 0.5, np.float32)), policy)

    assert [minute.unix_minute - START_UNIX_MINUTE for minute in policy.minutes] == [0, 1, 2]
    assert [minute.cpu_usage_millicores.tolist() for minute in policy.minutes] == [[100.0], [0.0], [300.0]]
    # PSI-adjusted: 100 x (1 + 0.5)
    assert [minute.cpu_peak_millicores.tolist() for minute in policy.minutes] == [[150.0], [0.0], [450.0]]
    assert [minute.has_cpu.tolist() for minute in policy.minutes] == [[True], [False], [True]]
    assert [minute.working_set_bytes.tolist() for minute in policy.minutes] == [[1.0], [2.0], [0.0]]


def test_peak_of_the_trace_goes_before_the_mean_and_is_never_below_it() -> None:
    policy = FixedPolicy()
    peaks = np.array([[250.0], [50.0]], np.float32)
    run(trace_of(cpu=[[100, 100]], cpu_peak_millicores=peaks), policy)
    assert [minute.cpu_peak_millicores.tolist() for minute in policy.minutes] == [[250.0], [100.0]]


def test_windows_of_a_decision_are_percentiles_of_the_last_minutes_adjusted() -> None:
    policy = FixedPolicy()
    cpu = [100.0 * minute for minute in range(1, 41)]
    memory = [minute * MIB for minute in range(1, 41)]
    run(trace_of(cpu=[cpu], memory=[memory], psi=np.ones((40, 1), np.float32)), policy)

    now, present = policy.presents[-1]
    assert now == (START_UNIX_MINUTE + 40) * 60.0
    # Minutes 31..40: P75 lies at rank 6.75 of 3100..4000, that is 3775; with all of the time waiting, twice that.
    assert present.cpu_base_millicores.tolist() == [2 * 3775.0]
    # Minutes 11..40: rank 21.75 of 11..40 MiB is 32.75 MiB.
    assert present.memory_base_bytes.tolist() == [32.75 * MIB]


def test_minute_of_which_nothing_is_known_is_neither_learnt_nor_decided_in() -> None:
    policy = FixedPolicy(cpu=500)
    outcome = run(trace_of(cpu=[[500, None, None, 500, 500]]), policy)

    assert [minute.unix_minute - START_UNIX_MINUTE for minute in policy.minutes] == [0, 3, 4]
    assert [now / 60 - START_UNIX_MINUTE for now, _ in policy.presents] == [1, 4, 5]
    # Of the window's four minutes two are gaps: more than a fifth.
    assert policy.presents[1][1].has_cpu.tolist() == [False]
    assert outcome.cpu.known_minutes[0] == 3


def test_row_in_a_gap_is_not_changed() -> None:
    # The policy wants more from minute 2 on, when nothing is known of the container.
    policy = FixedPolicy(cpu=lambda minute: 500 if minute < 2 else 900)
    outcome = run(trace_of(cpu=[[500, 500, None, None, 500, 500]]), policy)

    assert outcome.cpu.known_minutes[0] == 4
    # Known and sized: minutes 1 and 4 at 500, changed after minute 4, minute 5 at 900.
    assert outcome.cpu.requested_amount_hours[0] * 60_000 == pytest.approx(500 + 500 + 900)


def test_fall_waits_for_the_cool_down_and_a_rise_does_not() -> None:
    wanted = {0: 500, 1: 800, 2: 600, 3: 900}
    policy = FixedPolicy(cpu=lambda minute: wanted.get(minute, 400))
    outcome = run(trace_of(cpu=[[100] * 12]), policy, ReplayRules(min_span_seconds=0, cool_down_seconds=300))

    # In force: minute 1 500, 2 and 3 800 (600 has to wait), 4 to 8 900 (changed after minute 3; after minute 8 five
    # minutes have passed), from 9 on 400.
    assert (
        outcome.course.cpu_request_millicores[:, 0].tolist() == [0.0, 500.0, 800.0, 800.0] + [900.0] * 5 + [400.0] * 3
    )
    assert (outcome.cpu.resizes[0], outcome.resizes[0]) == (3, 3)  # the first is a sizing


def test_change_of_cpu_holds_a_fall_of_memory_back() -> None:
    policy = FixedPolicy(
        cpu=lambda minute: 500 if minute < 5 else 600, memory=lambda minute: 2 * GIB if minute < 6 else GIB
    )
    outcome = run(
        trace_of(cpu=[[100] * 20], memory=[[MIB] * 20]), policy, ReplayRules(min_span_seconds=0, cool_down_seconds=300)
    )
    # CPU changed after minute 5, so memory falls after minute 10.
    assert outcome.course.memory_request_bytes[:, 0].tolist() == [0.0] + [2.0 * GIB] * 10 + [1.0 * GIB] * 9


def test_small_changes_are_not_made() -> None:
    policy = FixedPolicy(cpu=lambda minute: 500 + minute)
    outcome = run(trace_of(cpu=[[100] * 10]), policy, options=BoundsOptions())
    assert outcome.cpu.resizes[0] == 0


# Memory over its limit


def test_memory_over_the_limit_is_a_kill_and_the_policy_is_told() -> None:
    policy = FixedPolicy(memory=GIB)
    options = BoundsOptions(min_memory_bytes=0, memory_in_use_ratio=1.0)
    outcome = run(trace_of(memory=[[GIB, GIB, 3 * GIB, 3 * GIB, GIB]]), policy, options=options)

    # Seen is memory up to the limit, so neither the policy nor the bounds learn of 3 GiB.
    assert outcome.memory_limit.over_minutes.tolist() == [2]
    assert outcome.memory_limit.excursions.tolist() == [1]
    assert outcome.memory_limit.kills.tolist() == [1]
    ((row, kill),) = policy.kills
    assert (row, kill.unix_seconds) == (0, (START_UNIX_MINUTE + 2) * 60.0)
    assert (kill.usage_bytes, kill.limit_bytes, kill.request_bytes) == (GIB, GIB, GIB)
    assert [minute.working_set_bytes[0] for minute in policy.minutes] == [GIB] * 5


def test_limit_newly_set_and_passed_again_is_another_kill_of_the_same_excursion() -> None:
    policy = FixedPolicy(memory=lambda minute: GIB if minute < 2 else 2 * GIB)
    outcome = run(trace_of(memory=[[GIB, GIB, 3 * GIB, 3 * GIB, 3 * GIB]]), policy)

    # Killed at 1 GiB in minute 2, at 2 GiB in minute 3; minute 4 meets the same limit as minute 3.
    assert (
        outcome.memory_limit.excursions[0],
        outcome.memory_limit.kills[0],
        outcome.memory_limit.over_minutes[0],
    ) == (1, 2, 3)
    assert [kill.limit_bytes for _, kill in policy.kills] == [GIB, 2 * GIB]


def test_excursion_goes_on_over_a_gap_and_a_later_one_is_new() -> None:
    memory = [GIB, 2 * GIB, None, 2 * GIB, GIB, 2 * GIB]
    outcome = run(trace_of(memory=[memory]), FixedPolicy(memory=GIB))
    assert (outcome.memory_limit.excursions[0], outcome.memory_limit.over_minutes[0]) == (2, 3)


def test_limit_follows_the_request_by_its_ratio() -> None:
    rules = ReplayRules(min_span_seconds=0, memory_limit_ratio=1.5)
    policy = FixedPolicy(memory=GIB)
    options = BoundsOptions(memory_in_use_ratio=1.0)
    outcome = run(trace_of(memory=[[GIB // 2, 1.5 * GIB]]), policy, rules, options)

    assert outcome.course.memory_limit_bytes[:, 0].tolist() == [0.0, 1.5 * GIB]
    assert outcome.memory_limit.over_minutes[0] == 0  # just at it
    assert outcome.memory.under_minutes[0] == 1


def test_starting_limit_is_in_force_at_once() -> None:
    rules = ReplayRules(memory_request_bytes=GIB, memory_limit_ratio=1.0)
    outcome = run(trace_of(memory=[[2 * GIB]]), FixedPolicy(), rules)
    assert (outcome.memory_limit.kills[0], outcome.memory.under_minutes[0]) == (1, 1)


def test_limit_that_the_policy_names_is_in_force_and_its_change_is_a_resize() -> None:
    limits = {0: 2 * GIB, 1: 2 * GIB, 2: 3 * GIB}
    policy = FixedPolicy(memory=GIB, memory_limit=lambda minute: limits.get(minute, 2.5 * GIB))
    outcome = run(trace_of(memory=[[GIB] * 7]), policy, ReplayRules(min_span_seconds=0, cool_down_seconds=120))

    # 3 GiB after minute 2; the fall to 2.5 GiB two minutes later, after minute 4.
    assert outcome.course.memory_limit_bytes[:, 0].tolist() == [
        0.0,
        2 * GIB,
        2 * GIB,
        3 * GIB,
        3 * GIB,
        2.5 * GIB,
        2.5 * GIB,
    ]
    assert (outcome.memory.resizes[0], outcome.resizes[0]) == (2, 2)


def test_limit_stays_when_the_policy_no_longer_names_one() -> None:
    policy = FixedPolicy(memory=GIB, memory_limit=lambda minute: 2 * GIB if minute == 0 else None)
    outcome = run(trace_of(memory=[[GIB] * 4]), policy)
    assert outcome.course.memory_limit_bytes[:, 0].tolist() == [0.0] + [2.0 * GIB] * 3


# The rest


def test_reaction_to_a_step_is_the_first_minute_that_covers_it() -> None:
    # Up from 100 to 400 in minute 90; the policy asks for 400 after minute 92, in force from minute 93 on.
    policy = FixedPolicy(cpu=lambda minute: 150 if minute < 92 else 400)
    trace = trace_of(cpu=[[100] * 90 + [400] * 60])
    outcome = run(trace, policy, steps=demand_steps(trace))

    steps = total((outcome,)).steps
    assert (steps.steps, steps.covered, steps.median_minutes) == (1, 1, 3.0)


def test_progress_ends_with_all_minutes() -> None:
    minutes: list[int] = []
    run(trace_of(cpu=[[100] * 130]), FixedPolicy(), on_progress=minutes.append)
    assert minutes == [60, 120, 130]


def test_course_is_thinned_to_a_few_hundred_points_with_the_largest_of_each() -> None:
    policy = FixedPolicy(cpu=lambda minute: 900 if minute == 600 else 100)
    outcome = run(trace_of(cpu=[[100] * 1300]), policy)

    # 1,300 minutes in stretches of three are 434 points; minute 601 lies in stretch 200.
    assert outcome.course.stretch_minutes == 3
    assert outcome.course.cpu_request_millicores.shape == (434, 1)
    assert outcome.course.cpu_request_millicores[200, 0] == 900


def test_containers_of_one_pod_are_told_to_the_policy() -> None:
    policy = FixedPolicy(2)
    run(trace_of(cpu=[[1], [1]], pod_containers=np.array([2, 2])), policy)
    assert policy.presents[0][1].pod_containers.tolist() == [2, 2]


def test_policy_that_never_answers_leaves_all_unsized() -> None:
    outcome = run(trace_of(cpu=[[100] * 5], memory=[[MIB] * 5]), FixedPolicy())
    assert (outcome.cpu.unsized_minutes[0], outcome.memory.unsized_minutes[0], outcome.resizes[0]) == (5, 5, 0)
    assert (outcome.policy, outcome.trace, outcome.span_seconds) == ("fixed", "made", 300.0)


def vars_of(figures: SimulatedResourceTotal) -> dict[str, float]:
    return {name: getattr(figures, name) for name in figures.__dataclass_fields__}


@examples(25)
@given(
    cpu=st.lists(st.none() | st.floats(0, 4000, width=32), min_size=30, max_size=90),
    name=st.sampled_from(list(PolicyName)),
)
def test_every_policy_balances_on_any_trace_and_a_row_does_not_mind_its_neighbours(
    cpu: list[float | None], name: PolicyName
) -> None:
    memory = [None if value is None else float(round(value) * MIB) for value in cpu]
    alone = run(trace_of(cpu=[cpu], memory=[memory]), make(name, Settings(), 1, requests_only=True), ReplayRules())
    beside = run(
        trace_of(cpu=[[1000.0] * len(cpu), cpu], memory=[[GIB] * len(cpu), memory]),
        make(name, Settings(), 2, requests_only=True),
        ReplayRules(),
    )

    for single, double in ((alone.cpu, beside.cpu), (alone.memory, beside.memory)):
        figures = single.of(0)
        # to the last digits of sums, which numpy adds up in another order
        assert vars_of(figures) == pytest.approx(vars_of(double.of(1)), rel=1e-12)
        used = figures.used_amount_hours - figures.missing_amount_hours
        assert figures.unused_amount_hours == pytest.approx(figures.requested_amount_hours - used, abs=1e-9)
    assert alone.memory_limit.kills[0] == beside.memory_limit.kills[1]


# Judging by rows, warm-up and reactions


def fine_usage(rows: Any, rows_per_minute: int, containers: int = 1) -> FineUsage:
    column = np.array([[np.nan if row is None else row] * containers for row in rows], np.float32)
    return FineUsage(rows_per_minute=rows_per_minute, cpu_millicores=np.nan_to_num(column), has_cpu=~np.isnan(column))


def test_seconds_inside_a_minute_are_judged_where_the_trace_has_them() -> None:
    # A mean of 500 all along; a request of 600 is short for the first six of its sixty seconds, by 400.
    seconds = ([1000] * 6 + [500] * 54) * 3
    trace = trace_of(cpu=[[550] * 3], fine=fine_usage(seconds, 60))
    outcome = run(trace, FixedPolicy(cpu=600), ReplayRules(min_span_seconds=0, cpu_request_millicores=600))

    assert outcome.cpu.known_minutes[0] == 3.0
    assert outcome.cpu.under_minutes[0] == pytest.approx(0.3)
    assert outcome.cpu.missing_amount_hours[0] * 60_000 == pytest.approx(0.3 * 400)


def test_warm_up_is_lived_through_and_not_judged() -> None:
    policy = FixedPolicy(cpu=lambda minute: 400 + 10 * minute, memory=GIB)
    cpu = [None] * 5 + [500] * 15
    memory = [None] * 5 + [4 * GIB] * 12 + [GIB] + [4 * GIB] * 2
    rules = ReplayRules(min_span_seconds=0, cool_down_seconds=0, warm_up_seconds=600, memory_request_bytes=GIB)
    outcome = run(trace_of(cpu=[cpu], memory=[memory]), policy, rules)

    # Of fifteen minutes ten are warming up: five are judged. Requests in them: 490, 500 ... 530m.
    assert (outcome.cpu.known_minutes[0], outcome.cpu.unsized_minutes[0], outcome.cpu.under_minutes[0]) == (
        5.0,
        0.0,
        1.0,
    )
    # One change before each of them, and the last minute's decision, which nobody lives with.
    assert (outcome.cpu.resizes[0], outcome.resizes[0]) == (6, 6)
    # The excursion that began before is none of them; the one that begins in the last but one is.
    assert (outcome.memory.known_minutes[0], outcome.memory.under_minutes[0]) == (5.0, 4.0)
    limit = outcome.memory_limit
    assert (limit.over_minutes[0], limit.excursions[0], limit.kills[0]) == (4, 1, 1)
    assert (outcome.node_cpu.known_minutes[0], outcome.node_memory.known_minutes[0]) == (5.0, 5.0)


def test_decisions_of_each_row_come_where_the_container_s_rows_end() -> None:
    policy = FixedPolicy(rows=2, cpu=lambda minute: 100 + minute)
    trace = trace_of(cpu=[[50] * 12, [None, None] + [50] * 10], row_minutes=5)
    rules = ReplayRules(min_span_seconds=0, cool_down_seconds=0, decision_interval_seconds=None)
    outcome = run(trace, policy, rules)

    # The first container's rows end with its minutes 4 and 9, those of the second two minutes later.
    assert [now / 60 - START_UNIX_MINUTE for now, _ in policy.presents] == [5, 7, 10, 12]
    # Sized after 5 minutes at 104, then 109; the second after minute 6 at 106, changed after the last.
    assert outcome.cpu.requested_amount_hours[0] * 60_000 == pytest.approx(5 * 104 + 2 * 109)
    assert outcome.cpu.requested_amount_hours[1] * 60_000 == pytest.approx(5 * 106)


def test_decisions_are_counted_from_each_container_s_first_minute() -> None:
    asked: list[tuple[int, list[int]]] = []

    class Asked(FixedPolicy):
        def recommend(self, rows: Any, present: Any, *, now_unix_seconds: float, steps: Any = None) -> Proposals:
            asked.append((round(now_unix_seconds / 60) - START_UNIX_MINUTE, rows.tolist()))
            assert present.cpu_base_millicores.size == rows.size
            return super().recommend(rows, present, now_unix_seconds=now_unix_seconds, steps=steps)

    trace = trace_of(cpu=[[500] * 30, [None] * 7 + [300] * 23, [500] * 30], pod_containers=np.array([2, 1, 2]))
    outcome = run(trace, Asked(3, cpu=600), ReplayRules(decision_interval_seconds=600, min_span_seconds=0))
    assert asked == [(10, [0, 2]), (17, [1]), (20, [0, 2]), (27, [1]), (30, [0, 2])]
    assert outcome.cpu.unsized_minutes.tolist() == [10.0, 10.0, 10.0]
    assert outcome.cpu.requested_amount_hours[1] * 60_000 == pytest.approx(13 * 600)


def test_reaction_ends_a_shortage_within_the_row() -> None:
    rules = ReplayRules(min_span_seconds=3600, cpu_request_millicores=400, reaction_seconds=15)
    outcome = run(trace_of(cpu=[[300, 500.5, 500, 300]]), FixedPolicy(cpu=100), rules)

    # A quarter of the second minute 100.5 short, then the request is 501.
    assert outcome.cpu.under_minutes[0] == 0.25
    assert outcome.cpu.missing_amount_hours[0] * 60_000 == pytest.approx(0.25 * 100.5)
    assert outcome.cpu.unused_amount_hours[0] * 60_000 == pytest.approx(100 + 0.75 * 0.5 + 1 + 201)
    assert (outcome.cpu.resizes[0], outcome.resizes[0]) == (1, 1)
    assert outcome.course.cpu_request_millicores[:, 0].tolist() == [400.0, 501.0, 501.0, 501.0]


def test_growth_holds_the_policy_s_fall_back_as_any_change_does() -> None:
    rules = ReplayRules(
        min_span_seconds=0, cool_down_seconds=180, cpu_request_millicores=400, reaction_seconds=0, **AT_ANY_TIME
    )
    outcome = run(trace_of(cpu=[[500, 100, 100, 100, 100]]), FixedPolicy(cpu=200), rules)
    # Grown in minute 0, the fall comes at the end of minute 3.
    assert outcome.course.cpu_request_millicores[:, 0].tolist() == [500.0, 500.0, 500.0, 500.0, 200.0]
    assert outcome.cpu.under_minutes[0] == 0.0
    assert outcome.cpu.resizes[0] == 2


def test_falls_are_asked_for_calmly_where_the_rules_say_so() -> None:
    wanted = {0: 800, 1: 700}
    policy = FixedPolicy(cpu=lambda minute: wanted.get(minute, 400))
    rules = ReplayRules(
        min_span_seconds=0,
        cool_down_seconds=0,
        cpu_request_millicores=1000,
        reaction_seconds=2,
        shrink_interval_seconds=600,
        shrink_ratio=0.3,
    )
    outcome = run(trace_of(cpu=[[100] * 40]), policy, rules)

    course = outcome.course.cpu_request_millicores[:, 0]
    # 800 is less than three tenths below, 700 at the end of minute 1 is not; the next stretch of ten minutes begins
    # with the end of minute 9.
    assert course[:10].tolist() == [1000.0] * 2 + [700.0] * 8
    assert course[10:].tolist() == [400.0] * 30
    assert outcome.cpu.resizes[0] == 2


def test_without_a_reaction_nobody_has_credit_and_falls_come_at_once() -> None:
    rules = ReplayRules(min_span_seconds=0, cool_down_seconds=0, cpu_request_millicores=1000)
    policy = FixedPolicy(cpu=900)
    outcome = run(trace_of(cpu=[[100] * 3]), policy, rules)
    assert outcome.course.cpu_request_millicores[:, 0].tolist() == [1000.0, 900.0, 900.0]
    assert {present.has_credit for _, present in policy.presents} == {None}


def test_falls_wait_after_a_growth() -> None:
    rules = ReplayRules(
        min_span_seconds=0,
        cool_down_seconds=0,
        cpu_request_millicores=400,
        reaction_seconds=2,
        shrink_after_growth_seconds=1200,
    )
    outcome = run(trace_of(cpu=[[500] + [100] * 29]), FixedPolicy(cpu=200), rules)
    course = outcome.course.cpu_request_millicores[:, 0]
    assert course.tolist() == [500.0] * 21 + [200.0] * 9


def test_reaction_to_a_step_is_told_by_the_growth_as_well() -> None:
    cpu = [100] * 60 + [400] * 20
    for seconds, minutes in ((2, 0), (60, 1), (150, 2)):
        rules = ReplayRules(min_span_seconds=0, cpu_request_millicores=200, reaction_seconds=seconds)
        outcome = run(trace_of(cpu=[cpu]), FixedPolicy(cpu=200), rules)
        assert total((outcome,)).steps.median_minutes == minutes


def test_nothing_grows_where_cpu_is_not_controlled_or_above_the_most_allowed() -> None:
    rules = ReplayRules(min_span_seconds=0, cpu_request_millicores=200, reaction_seconds=2)
    memory_only = replace(LOOSE, controlled_resources=ControlledResources.MEMORY)
    outcome = run(trace_of(cpu=[[500] * 5]), FixedPolicy(cpu=200), rules, memory_only)
    assert outcome.cpu.under_minutes[0] == 5.0
    outcome = run(trace_of(cpu=[[500] * 5]), FixedPolicy(cpu=200), rules, replace(LOOSE, max_cpu_millicores=300))
    assert outcome.course.cpu_request_millicores[:, 0].tolist() == [300.0] * 5


@examples(25)
@given(
    cells=st.lists(st.none() | st.floats(0, 4000), min_size=120, max_size=120),
    shorter=st.floats(0, 200),
    longer=st.floats(0, 200),
)
def test_any_reaction_leaves_no_more_missing_than_none(
    cells: list[float | None], shorter: float, longer: float
) -> None:
    trace = trace_of(cpu=[[500] * 2], fine=fine_usage(cells, 60))
    missing = []
    for seconds in (shorter, longer, None):
        rules = ReplayRules(min_span_seconds=9000, cpu_request_millicores=1000, reaction_seconds=seconds)
        missing.append(run(trace, FixedPolicy(), rules).cpu.missing_amount_hours[0])
    assert missing[2] >= missing[1] - 1e-9
    assert missing[2] >= missing[0] - 1e-9
