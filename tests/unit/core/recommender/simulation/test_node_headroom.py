"""What a plan would set aside for the containers of a trace, derived by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agent.core.orders.plan_options import HeadroomRule
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.policy import LimitRule, Proposals, SeenTogether
from agent.core.recommender.simulation.node_headroom import NodeHeadroom
from agent.core.recommender.simulation.replay import ReplayRules, simulate
from tests.traces import START_UNIX_MINUTE, FixedPolicy, trace_of

ALL = np.ones(3, np.bool_)
NONE = np.zeros(3, np.bool_)


class Together(FixedPolicy):
    """Knows what its rows demand together."""

    def __init__(self, demand: float | None) -> None:
        super().__init__(3, cpu=100)
        self.demand = demand
        self.asked: list[tuple[list[int], list[float], float]] = []

    def together(self, rows: Any, bases: Any, *, now_unix_seconds: float) -> SeenTogether | None:
        self.asked.append((rows.tolist(), bases.tolist(), now_unix_seconds))
        return None if self.demand is None else SeenTogether(demand_millicores=self.demand, unix_seconds=0.0)


def answers(bases: list[float], peaks: list[float], has: list[bool] | None = None) -> Proposals:
    base, peak, nothing = np.array(bases), np.array(peaks), np.zeros(3)
    return Proposals(
        cpu_request_millicores=peak,
        has_cpu=ALL if has is None else np.array(has),
        memory_request_bytes=nothing,
        has_memory=NONE,
        memory_limit_bytes=nothing,
        has_memory_limit=NONE,
        cpu_base_millicores=base,
        cpu_peak_millicores=peak,
        memory_base_bytes=nothing,
        memory_peak_bytes=nothing,
        cpu_upward_only=NONE,
        memory_upward_only=NONE,
        limit_rule=LimitRule.KEEP,
    )


def planned(
    policy: FixedPolicy, here: list[bool] | None = None, rule: HeadroomRule = HeadroomRule.JOINT
) -> list[float]:
    headroom = NodeHeadroom(policy, 3, rule)
    is_here = ALL if here is None else np.array(here)
    headroom.plan(7, is_here, ALL, answers([100.0, 200.0, 300.0], [400.0, 300.0, 300.0]))
    assert headroom.has.all()
    return [round(amount, 6) for amount in headroom.millicores.tolist()]


def test_the_largest_spike_is_shared_out_by_spikes() -> None:
    # Spikes 300, 100 and 0: 300 for all of them.
    assert planned(FixedPolicy(3, cpu=1)) == [325.0, 275.0, 300.0]


def test_what_was_seen_together_counts_where_it_is_more_up_to_all_spikes() -> None:
    assert planned(Together(None)) == planned(Together(650.0)) == [325.0, 275.0, 300.0]
    assert planned(Together(960.0)) == [370.0, 290.0, 300.0]  # 360 above the bases
    assert planned(Together(2000.0)) == [400.0, 300.0, 300.0]
    assert planned(Together(960.0), rule=HeadroomRule.SPIKE) == [325.0, 275.0, 300.0]
    policy = Together(960.0)
    assert planned(policy, [True, False, True]) == [400.0, 0.0, 300.0]
    assert policy.asked == [([0, 2], [100.0, 300.0], 480.0)]


def test_a_plan_stands_for_five_minutes_but_not_against_a_newcomer() -> None:
    headroom = NodeHeadroom(FixedPolicy(3, cpu=1), 3, HeadroomRule.JOINT)
    headroom.plan(100, ALL, ALL, answers([100.0] * 3, [100.0] * 3, [True, False, False]))
    assert headroom.has.tolist() == [True, False, False]
    headroom.plan(101, ALL, ALL, answers([200.0] * 3, [200.0] * 3, [True, False, False]))
    assert headroom.millicores.tolist() == [100.0, 0.0, 0.0]
    headroom.plan(102, ALL, ALL, answers([200.0] * 3, [200.0] * 3, [True, True, False]))
    assert headroom.millicores.tolist() == [200.0, 200.0, 0.0]
    headroom.plan(106, ALL, ALL, answers([300.0] * 3, [300.0] * 3, [True, True, False]))
    assert headroom.millicores.tolist() == [200.0, 200.0, 0.0]
    headroom.plan(107, ALL, ALL, answers([300.0] * 3, [300.0] * 3, [True, True, False]))
    assert headroom.millicores.tolist() == [300.0, 300.0, 0.0]


def test_who_is_not_due_keeps_what_it_was_answered() -> None:
    headroom = NodeHeadroom(FixedPolicy(3, cpu=1), 3, HeadroomRule.JOINT)
    headroom.plan(0, ALL, ALL, answers([100.0] * 3, [150.0] * 3))
    headroom.plan(10, ALL, np.array([True, False, False]), answers([300.0, 0.0, 0.0], [300.0, 0.0, 0.0]))
    assert headroom.millicores.tolist() == [300.0, 125.0, 125.0]


def test_a_simulation_judges_what_is_set_aside_against_what_all_use() -> None:
    # Two containers of which one at a time uses 300 beyond its 100; both ask for 400 each, with a base of 100.
    class Bursts(FixedPolicy):
        def recommend(self, rows: Any, present: Any, *, now_unix_seconds: float, steps: Any = None) -> Proposals:
            return answers([100.0, 100.0, 50.0], [400.0, 400.0, 50.0])

    cpu = [[400, 100] * 30, [100, 400] * 30, [None] * 30 + [50] * 30]
    rules = ReplayRules(min_span_seconds=0, cool_down_seconds=0)
    bounds = BoundsOptions(smallest_cpu_change_millicores=0, smallest_change_ratio=0)
    outcome = simulate(trace_of(cpu=cpu), Bursts(3), bounds, rules)
    planned, requested = outcome.node_planned_cpu, outcome.node_cpu
    # The first minute is unsized. Requests: 800, later 850. Set aside: 500, later 550, which is just what is used.
    assert planned.known_minutes[0] == requested.known_minutes[0] == 60
    assert planned.unsized_minutes[0] == 1
    assert planned.under_minutes[0] == 0
    assert planned.unused_amount_hours[0] == pytest.approx(0.0)
    assert requested.unused_amount_hours[0] * 60_000 == pytest.approx(59 * 300)
    assert planned.resizes[0] == 0
    assert outcome.start_unix_minute == START_UNIX_MINUTE
