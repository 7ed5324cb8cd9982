"""A least that is ordered beyond a pod's need makes nobody go and holds up nobody's growth."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.demand import PodDemand
from agent.core.plan_options import DaemonSetGrowth, PlanOptions
from agent.core.planned import ContainerPlan, Plan
from agent.core.pod import Requirements
from agent.core.units import MIB
from tests.planning import amounts, container, needs, node, pod_demand, situation_of, wanted

GROWING = [pod_demand(f"p{place}", demands=[needs("app", wanted(200), wanted(200 * MIB))]) for place in range(3)]


def web(least: int | None, request: int = 64 * MIB, **fields: object) -> PodDemand:
    return pod_demand(
        "web",
        containers=[container(cpu=100, memory=request)],
        demands=[needs("app", wanted(100), wanted(64 * MIB))],
        order={"min_memory_bytes": least},
        **fields,  # type: ignore[arg-type]
    )


def of_web(plan: Plan) -> ContainerPlan:
    (pod,) = [one for one in plan.pods if one.ref.name == "web"]
    return pod.containers[0]


def applied(plan: Plan) -> int:
    memory = of_web(plan).memory
    assert memory is not None
    assert memory.applied is not None
    return memory.applied


@pytest.mark.parametrize("least", [3000 * MIB, 4096 * MIB, 1000 << 40, (1 << 63) - 1])
def test_whatever_is_ordered_nobody_goes_and_the_others_grow_as_without_it(least: int) -> None:
    plan, calm = node(web(least), *GROWING).plan(), node(web(None), *GROWING).plan()
    assert (plan.is_sound, plan.evictions, plan.memory.is_infeasible) == (True, (), False)
    assert [step for step in plan.steps if step.ref.name != "web"] == [*calm.steps]
    # 4096 - 664 MiB are left: half of that is the most.
    assert applied(plan) <= (64 + 3432 // 2) * MIB


def test_where_there_is_room_a_request_is_raised_to_what_is_ordered() -> None:
    situation = node(web(256 * MIB), *GROWING)
    plan = situation.plan()
    assert applied(plan) == 256 * MIB
    assert situation.after(plan.steps).plan().steps == ()


def test_a_full_node_raises_nothing_and_what_stands_does_not_fall_below_it() -> None:
    full = pod_demand("full", containers=[container(cpu=100, memory=3584 * MIB)], demands=[])
    assert applied(node(web(1024 * MIB, 512 * MIB), full).plan()) == 512 * MIB
    plan = node(web(256 * MIB, 512 * MIB), full).plan()
    assert applied(plan) == 256 * MIB  # 448 are left, and half of that is more than the 192 it lacks


def test_what_falls_stays_at_what_is_ordered_where_nothing_is_left() -> None:
    grows = pod_demand("grows", demands=[needs("app", wanted(100), wanted(4032 * MIB))])
    plan = node(web(256 * MIB, 512 * MIB), grows).plan()
    assert (plan.is_sound, plan.evictions, applied(plan)) == (True, (), 256 * MIB)


def test_a_first_prediction_and_a_daemon_set_that_never_grows_are_not_raised() -> None:
    young = pod_demand(
        "web",
        demands=[needs("app", wanted(100), wanted(64 * MIB, is_upward_only=True))],
        order={"min_memory_bytes": 256 * MIB},
    )
    assert applied(node(young).plan()) == 64 * MIB
    never = PlanOptions(daemon_set_growth=DaemonSetGrowth.NEVER)
    assert applied(node(web(256 * MIB, kind="DaemonSet"), options=never).plan()) == 64 * MIB


def test_a_limit_that_stays_is_not_passed() -> None:
    limited = pod_demand(
        "web",
        containers=[container(cpu=100, memory=64 * MIB, memory_limit=128 * MIB)],
        demands=[needs("app", wanted(100), wanted(64 * MIB))],
        order={"min_memory_bytes": 256 * MIB},
    )
    assert applied(node(limited).plan()) == 128 * MIB - 1


def test_a_pod_s_own_budget_is_raised_in_the_same_way() -> None:
    budget = pod_demand(
        "web",
        demands=[needs("app", wanted(100), wanted(64 * MIB))],
        order={"min_memory_bytes": 256 * MIB},
        pod={"resources": Requirements(requests=amounts(100, 64 * MIB))},
    )
    plan = node(budget, *GROWING).plan()
    (pod,) = [one for one in plan.pods if one.ref.name == "web"]
    assert pod.budget is not None
    assert pod.budget.memory is not None
    assert (plan.is_sound, pod.budget.memory.applied) == (True, 256 * MIB)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_on_any_node_an_order_without_measure_makes_nobody_go(seed: int) -> None:
    situation, random = situation_of(seed), Random(seed)
    if not situation.demands:
        return
    chosen = random.choice(situation.demands)

    def plan(least: int | None) -> Plan:
        order = replace(
            chosen.orders,
            min_cpu_millicores=least,
            min_memory_bytes=least,
            max_cpu_millicores=None,
            max_memory_bytes=None,
        )
        mine = [replace(one, orders=order) if one is chosen else one for one in situation.demands]
        return replace(situation, demands=tuple(mine)).plan()

    ordered, calm = plan((1 << 63) - 1), plan(None)
    assert ordered.is_sound
    assert [one.ref for one in ordered.evictions] == [one.ref for one in calm.evictions]
    assert (ordered.cpu.is_infeasible, ordered.memory.is_infeasible) == (
        calm.cpu.is_infeasible,
        calm.memory.is_infeasible,
    )
