"""What pods were seen to demand together, in the plan of their node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.core.cluster.pod import Requirements
from agent.core.orders.plan_options import HeadroomRule, PlanOptions
from agent.core.plan.needs.demand import PodDemand
from agent.core.plan.plan import JointSpike, Plan
from agent.core.plan.planner import build
from agent.core.recommender.policy import SeenTogether
from tests.planning import EXACT, JOINT_SECONDS, OPEN, Situation, amounts, container, needs, node, pod_demand, wanted

Bases = Mapping[tuple[str, str], int]


def pod(name: str, base: int = 100, peak: int = 300, **fields: Any) -> PodDemand:
    return pod_demand(name, demands=[needs(cpu=wanted(base, peak), memory=wanted(1 << 20))], **fields)


def planned(situation: Situation, demand: float | None, *, asked: list[Bases] | None = None) -> Plan:
    """Plan a node whose containers demand that much together; None = it is not known."""

    def together(bases: Bases) -> SeenTogether | None:
        if asked is not None:
            asked.append(bases)
        return None if demand is None else SeenTogether(demand_millicores=demand, unix_seconds=JOINT_SECONDS)

    return build(
        situation.state,
        situation.demands,
        constraints=situation.constraints,
        gates=OPEN,
        options=situation.options,
        bounds=EXACT,
        taken_unix_seconds=1.0,
        together=together,
    )


def finals(plan: Plan) -> list[int]:
    return [pod_plan.containers[0].cpu.final for pod_plan in plan.pods if pod_plan.containers[0].cpu is not None]


def test_headroom_is_how_far_the_pods_were_seen_above_their_bases_together() -> None:
    # Bases 100 each, demand 799.2 together: 500 above them, where the largest single spike is 200.
    plan = planned(node(pod("a"), pod("b"), pod("c", peak=250)), 799.2)
    assert plan.cpu.joint == JointSpike(amount=500, seen_unix_seconds=JOINT_SECONDS)
    assert (plan.cpu.spike_largest, plan.cpu.spike_total, plan.cpu.headroom) == (200, 550, 500)
    # Shared out by spikes: 500 x 200 / 550 and 500 x 150 / 550.
    assert finals(plan) == [282, 282, 236]
    assert plan.is_sound


def test_less_together_than_the_largest_spike_leaves_that() -> None:
    plan = planned(node(pod("a"), pod("b", peak=400)), 250.0)
    assert plan.cpu.joint == JointSpike(amount=50, seen_unix_seconds=JOINT_SECONDS)
    assert plan.cpu.headroom == plan.cpu.spike_largest == 300


def test_less_together_than_their_bases_is_no_spike_below_zero() -> None:
    plan = planned(node(pod("a"), pod("b")), 20.0)
    assert plan.cpu.joint == JointSpike(amount=0, seen_unix_seconds=JOINT_SECONDS)


def test_more_together_than_all_spikes_gives_each_its_peak_and_is_told() -> None:
    plan = planned(node(pod("a"), pod("b")), 900.0)
    assert (plan.cpu.joint or JointSpike(amount=0, seen_unix_seconds=0)).amount == 700
    assert plan.cpu.headroom == plan.cpu.spike_total == 400
    assert finals(plan) == [300, 300]


def test_what_does_not_fit_of_it_makes_nobody_go() -> None:
    # 200 for the bases and 200 for the largest spike fit into 450; the 350 seen together do not.
    plan = planned(node(pod("a"), pod("b"), cpu=450), 550.0)
    assert plan.evictions == ()
    assert not plan.cpu.is_infeasible
    assert plan.cpu.headroom == 250
    assert plan.cpu.final_total == plan.cpu.available == 450


def test_what_presses_now_goes_before_what_may_come() -> None:
    short = pod_demand(
        "a", demands=[needs(cpu=wanted(250, 300, sustained=100, sustained_peak=300, is_urgent=True), memory=None)]
    )
    plan = planned(node(short, pod("b"), cpu=560), 600.0)
    # 360 are left above the bases: 200 for the largest spike in any case, 150 for what presses.
    assert plan.cpu.headroom == 210
    first = plan.pods[0].containers[0].cpu
    assert first is not None
    assert first.final >= 250


def test_evicted_and_reserved_pods_are_not_asked_about_and_others_with_their_bases() -> None:
    asked: list[Bases] = []
    situation = node(pod("big", base=500, peak=900), pod("stays", base=150), pod("alone", reserved="off"), cpu=700)
    plan = planned(situation, 500.0, asked=asked)
    assert [eviction.ref.name for eviction in plan.evictions] == ["big"]
    # For the plan's end without it, and for what all have as long as it is still here.
    assert asked == [{("uid-stays", "app"): 150}, {("uid-big", "app"): 500, ("uid-stays", "app"): 150}]


def test_a_container_that_states_no_request_has_no_part_in_it() -> None:
    asked: list[Bases] = []
    bare = container("side", cpu=None, memory=1 << 20)
    both = pod_demand(
        "a",
        containers=(container(), bare),
        demands=[needs(cpu=wanted(100, 200)), needs("side", cpu=wanted(30, 80))],
    )
    planned(node(both), 500.0, asked=asked)
    assert asked == [{("uid-a", "app"): 100}]
    asked.clear()
    only = pod_demand("b", containers=(bare,), demands=[needs("side", cpu=wanted(30, 80))])
    assert planned(node(only), 500.0, asked=asked).cpu.joint is None
    assert asked == []


def test_a_daemon_set_counts_with_what_it_would_have_however_much_it_was_granted() -> None:
    for request in (40, 100):
        asked: list[Bases] = []
        daemon = pod("agent", kind="DaemonSet", containers=(container(cpu=request, memory=1 << 20),))
        planned(node(daemon, pod("web")), 500.0, asked=asked)
        assert asked == [{("uid-agent", "app"): 100, ("uid-web", "app"): 100}]


def test_what_presses_without_a_prediction_counts_as_its_base_since_it_stays() -> None:
    asked: list[Bases] = []
    pressing = wanted(250, 250, sustained=100, sustained_peak=100, is_urgent=True, is_upward_only=True)
    planned(node(pod_demand("a", demands=[needs(cpu=pressing)]), pod("b")), 500.0, asked=asked)
    assert asked == [{("uid-a", "app"): 250, ("uid-b", "app"): 100}]


def test_containers_below_a_budget_are_asked_about_one_by_one() -> None:
    asked: list[Bases] = []
    inside = (container("one", cpu=10, memory=1 << 20), container("two", cpu=10, memory=1 << 20))
    shared = pod_demand(
        "a",
        containers=inside,
        demands=[needs("one", cpu=wanted(60, 100)), needs("two", cpu=wanted(40, 300))],
        pod={"resources": Requirements(requests=amounts(500, 1 << 26), limits={})},
    )
    plan = planned(node(shared), 450.0, asked=asked)
    assert asked == [{("uid-a", "one"): 50, ("uid-a", "two"): 50}]  # the budget's base of 100, in equal parts
    assert plan.cpu.joint == JointSpike(amount=350, seen_unix_seconds=JOINT_SECONDS)
    assert plan.cpu.headroom == plan.cpu.spike_total == 260  # above the budget's base the larger spike


def test_the_cruisekube_rule_stays_where_it_is_asked_for_or_nothing_is_known() -> None:
    situation = node(pod("a"), pod("b"))
    alone = situation.plan()
    assert alone.cpu.joint is None
    assert alone.cpu.headroom == 200
    assert planned(situation, None) == alone
    literal = replace(situation, options=PlanOptions(headroom=HeadroomRule.SPIKE))
    assert planned(literal, 900.0) == alone


def test_memory_goes_by_the_largest_spike() -> None:
    grows = [pod_demand(name, demands=[needs(memory=wanted(1 << 24, 1 << 25), cpu=wanted(10))]) for name in "ab"]
    plan = planned(node(*grows), 4000.0)
    assert plan.memory.joint is None
    assert plan.memory.headroom == 1 << 24
