"""An odd pod, whatever a tenant or a status says of it, neither makes a plan unsound nor stops its node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.effective_resources import CountingRule, pod_requests
from agent.core.cluster.pod import CPU, MEMORY, RESIZE_PENDING, ContainerStatus, Pod, PodCondition, Reported
from agent.core.numbers.units import MIB, NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.plan.needs.demand import KeptReason, PodDemand, ReservedReason
from agent.core.plan.node_room import counted, granted_pod, holds_room
from agent.core.plan.plan import Plan, PlanStep
from agent.core.plan.pod_change import actuated, changed_pod
from tests.odd_pods import ODD, odd_situation
from tests.planning import Situation, amounts, container, needs, node, pod_demand, requirements, wanted

_AS_SCHEDULER = CountingRule(use_status=True)
_BLOCK = 250


def _held(pods: list[Pod]) -> tuple[int, int]:
    """Sum up as the scheduler does, by Kubernetes' own rule."""
    held = [pod_requests(pod, _AS_SCHEDULER) for pod in pods if holds_room(pod) and pod.resources is None]
    cpu = sum(-(-requests.get(CPU, 0) // NANOS_PER_MILLI) for requests in held)
    memory = sum(-(-requests.get(MEMORY, 0) // NANOS_PER_UNIT) for requests in held)
    # Pod-level status is overhead twice to the scheduler (facts, section 6.2): there ``counted`` is the rule.
    others = [counted(pod) for pod in pods if holds_room(pod) and pod.resources is not None]
    return cpu + sum(pair[0] for pair in others), memory + sum(pair[1] for pair in others)


def _of_others(plan: Plan) -> list[PlanStep]:
    return [step for step in plan.steps if step.ref.name != ODD]


def _odd_of(situation: Situation) -> Pod:
    return next(demand.pod for demand in situation.demands if demand.pod.name == ODD)


def blocks(count: int) -> list[Any]:
    """Return the numbers of so many blocks of situations; the fast tier looks at the first two."""
    return [pytest.param(number, marks=[pytest.mark.slow] if number > 1 else []) for number in range(count)]


@pytest.mark.parametrize("block", blocks(12))
def test_a_plan_with_an_odd_pod_is_sound_and_no_prefix_fills_the_node(block: int) -> None:
    for seed in range(block * _BLOCK, (block + 1) * _BLOCK):
        situation = odd_situation(seed)
        plan = situation.plan()
        assert [str(invariant) for invariant in plan.invariants if not invariant.holds] == [], seed
        assert not any("nothing is done" in note for note in plan.notes), seed
        pods = {demand.pod.uid: demand.pod for demand in situation.demands}
        before = _held([*pods.values()])
        for step in plan.steps:
            pods[step.ref.uid] = actuated(changed_pod(pods[step.ref.uid], step.changes))
            held = _held([*pods.values()])
            for now, then, most in zip(held, before, (situation.cpu, situation.memory), strict=True):
                assert now <= max(then, most), seed
            before = held


@pytest.mark.parametrize("block", blocks(8))
@pytest.mark.slow
def test_the_others_are_stepped_as_if_an_odd_pod_that_is_left_out_held_what_it_has_in_force(block: int) -> None:
    compared = 0
    for seed in range(block * _BLOCK, (block + 1) * _BLOCK):
        situation = odd_situation(seed)
        plan = situation.plan()
        odd = _odd_of(situation)
        planned = next((pod for pod in plan.pods if pod.ref.name == ODD), None)
        if planned is None or planned.reserved is None:
            continue
        if planned.reserved is ReservedReason.LEFT_OUT:
            assert any(f"shop/{ODD} is left out" in note for note in plan.notes), seed
        in_force = counted(granted_pod(odd))
        if counted(odd) != in_force:
            continue  # its wish is granted as soon as there is room: growth must leave it that, see below
        if min(situation.cpu - in_force[0], situation.memory - in_force[1]) < 0:
            continue
        compared += 1
        # A plain pod in its place, which is off.
        plain = pod_demand(
            "plain", containers=[container(cpu=in_force[0], memory=in_force[1])], reserved=ReservedReason.OFF
        )
        expected = replace(situation, demands=(*situation.demands[:-1], plain)).plan()
        assert _of_others(plan) == [*expected.steps], seed
    assert compared > 3


IDLE = [needs("app", wanted(0), wanted(0))]
GROWING = pod_demand("grows", demands=[needs("app", wanted(300), wanted(200 * MIB))])
FALLING = pod_demand(
    "shrinks", containers=[container(cpu=900, memory=900 * MIB)], demands=[needs("app", wanted(100), wanted(64 * MIB))]
)


@pytest.mark.parametrize(
    "order", [{"min_memory_bytes": 0}, {"min_cpu_millicores": 0}, {"min_cpu_millicores": 0, "min_memory_bytes": 0}]
)
def test_a_least_of_nothing_leaves_an_idle_pod_a_request_and_the_node_its_plan(order: dict[str, int]) -> None:
    plan = node(GROWING, FALLING, pod_demand("idle", order=order, demands=IDLE)).plan()
    assert plan.is_sound
    assert {step.ref.name for step in plan.steps} == {"grows", "shrinks", "idle"}
    (idle,) = [step for step in plan.steps if step.ref.name == "idle"]
    assert min(change.after for change in idle.changes) == 1


def _resizing(name: str, reason: str, *, cpu: int, granted: int, known: bool) -> PodDemand:
    """Return a pod whose resize to so many millicores waits, and of which so many are granted."""
    had = amounts(granted, 64 * MIB)
    return pod_demand(
        name,
        containers=[container(cpu=cpu, memory=64 * MIB)],
        demands=[needs("app", wanted(150), wanted(64 * MIB))] if known else [],
        pod={
            "statuses": (ContainerStatus(name="app", allocated=had, actual=Reported(requests=had)),),
            "conditions": (PodCondition(type=RESIZE_PENDING, status="True", reason=reason),),
        },
    )


def test_an_infeasible_resize_without_figures_is_left_out_and_the_rest_goes_on() -> None:
    plan = node(GROWING, FALLING, _resizing("big", "Infeasible", cpu=900_000, granted=100, known=False)).plan()
    assert plan.is_sound
    assert {step.ref.name for step in plan.steps} == {"grows", "shrinks"}
    assert plan.evictions == ()
    (big,) = [pod for pod in plan.pods if pod.ref.name == "big"]
    assert (big.reserved, big.cpu_counted_millicores) == (ReservedReason.LEFT_OUT, 100)
    assert [note for note in plan.notes if "shop/big is left out: its resize is infeasible" in note]


def test_an_infeasible_resize_is_taken_back_to_what_is_needed_where_figures_are_known() -> None:
    plan = node(GROWING, FALLING, _resizing("big", "Infeasible", cpu=900_000, granted=100, known=True)).plan()
    assert plan.is_sound
    (big,) = [step for step in plan.steps if step.ref.name == "big"]
    assert [(change.before, change.after) for change in big.changes] == [(900_000, 150)]


def test_a_deferred_wish_makes_nobody_go_and_nobody_shrink_less_and_growth_leaves_it_its_room() -> None:
    plan = node(GROWING, FALLING, _resizing("big", "Deferred", cpu=900_000, granted=100, known=False)).plan()
    assert plan.is_sound
    assert (plan.evictions, plan.cpu.is_infeasible) == ((), False)
    changes = {step.ref.name: [(change.resource.value, change.after) for change in step.changes] for step in plan.steps}
    assert changes == {"shrinks": [("cpu", 100), ("memory", 64 * MIB)], "grows": [("memory", 200 * MIB)]}
    (grows,) = [pod for pod in plan.pods if pod.ref.name == "grows"]
    assert grows.containers[0].cpu is not None
    assert grows.containers[0].cpu.kept is KeptReason.NODE_FULL


def test_an_infeasible_resize_beside_an_empty_room_is_left_out_where_taking_it_back_needs_more_than_there_is() -> None:
    full = pod_demand("full", containers=[container(cpu=3900, memory=64 * MIB)], reserved=ReservedReason.OFF)
    grows = _resizing("big", "Infeasible", cpu=900_000, granted=100, known=True)
    plan = node(full, grows, cpu=4000).plan()
    assert plan.is_sound
    assert plan.steps == ()
    assert {pod.ref.name: pod.reserved for pod in plan.pods}["big"] is not None or plan.cpu.is_infeasible


def test_many_pods_that_are_left_out_are_told_in_few_lines() -> None:
    odd = [_resizing(f"big{place}", "Infeasible", cpu=900_000, granted=10, known=False) for place in range(8)]
    plan = node(GROWING, *odd).plan()
    notes = [note for note in plan.notes if "left out" in note]
    assert len(notes) == 6
    assert notes[-1] == "3 more pods are left out"
    assert {step.ref.name for step in plan.steps} == {"grows"}


def test_what_is_only_wished_for_is_not_granted() -> None:
    pod = _resizing("big", "Deferred", cpu=900, granted=100, known=False).pod
    assert granted_pod(pod).containers[0].resources.requests == amounts(100, 64 * MIB)
    settled = replace(pod, containers=(container(cpu=100, memory=64 * MIB),))
    assert granted_pod(settled) is settled
    unreported = replace(pod, statuses=(ContainerStatus(name="app"),))
    assert granted_pod(unreported) is unreported
    never = replace(unreported, conditions=(PodCondition(type=RESIZE_PENDING, status="True", reason="Infeasible"),))
    assert granted_pod(never).containers[0].resources.requests == amounts(0, 0)
    level = replace(
        pod,
        resources=requirements(1000, 64 * MIB),
        allocated=amounts(500, 64 * MIB),
        statuses=(),
        actual=Reported(requests=amounts(600)),
    )
    resources = granted_pod(level).resources
    assert resources is not None
    assert resources.requests == amounts(600, 64 * MIB)
