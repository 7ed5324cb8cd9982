"""A plan that is broken on purpose: each invariant notices, and the rest of them hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.node import NodeState
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import MIB
from agent.core.orders.order import Mode, Ranking
from agent.core.plan import invariants as plan_check
from agent.core.plan.invariants import check
from agent.core.plan.plan import Phase, Plan, PlanStep, PodPlan, ResourcePlan, Share
from agent.core.plan.pod_change import Change, Setting
from tests.planning import Situation, container, needs, node, pod_demand, requirements, wanted

APP = container(cpu=100, memory=64 * MIB, memory_limit=128 * MIB)
GROWING = pod_demand("a", containers=[APP], demands=[needs("app", wanted(200, 300), wanted(64 * MIB, limit=128 * MIB))])
SHRINKING = pod_demand("b", demands=[needs("app", wanted(50), wanted(64 * MIB))])
STILL = pod_demand("c", kind="DaemonSet", demands=[needs("app", wanted(100), wanted(64 * MIB))])
GOOD = node(GROWING, SHRINKING, STILL)


def faults(plan: Plan, situation: Situation = GOOD) -> list[str]:
    return [invariant.name for invariant in check(plan, situation.state) if not invariant.holds]


def with_share(plan: Plan, place: int, **fields: Any) -> Plan:
    """Return the plan with fields of one pod's CPU changed."""
    pod = plan.pods[place]
    share = pod.containers[0].cpu
    assert share is not None
    changed: Share = replace(share, **fields)
    return with_pod(plan, place, containers=(replace(pod.containers[0], cpu=changed),))


def with_pod(plan: Plan, place: int, **fields: Any) -> Plan:
    pods: list[PodPlan] = list(plan.pods)
    pods[place] = replace(pods[place], **fields)
    return replace(plan, pods=tuple(pods))


def with_cpu(plan: Plan, **fields: Any) -> Plan:
    cpu: ResourcePlan = replace(plan.cpu, **fields)
    return replace(plan, cpu=cpu)


def test_a_good_plan_says_every_invariant_and_that_it_holds() -> None:
    plan = GOOD.plan()
    assert [(step.phase, step.ref.name) for step in plan.steps] == [(Phase.SHRINK, "b"), (Phase.GROW, "a")]
    assert faults(plan) == []
    assert [invariant.name for invariant in plan.invariants] == [
        invariant.name for invariant in check(plan, GOOD.state)
    ]
    assert len({invariant.name for invariant in plan.invariants}) == 17
    assert plan.is_sound


def test_the_sums_of_a_plan_are_found_by_resource() -> None:
    plan = GOOD.plan()
    assert plan.cpu != plan.memory
    assert (plan.resource(Resource.CPU), plan.resource(Resource.MEMORY)) == (plan.cpu, plan.memory)


def test_a_plan_without_steps_asks_nothing_of_the_node() -> None:
    plan = replace(GOOD.plan(), steps=())
    assert [invariant for invariant in check(plan, NodeState(node=None, pods=())) if not invariant.holds] == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"spike": -1}, plan_check.SPIKE),
        ({"base": 301}, plan_check.WITHIN),
        ({"peak": 299}, plan_check.WITHIN),
        ({"limit_applied": 299}, plan_check.LIMITS),
        ({"applied": 250}, plan_check.IN_PLAN),
    ],
)
def test_a_share_that_is_wrong_is_told(fields: dict[str, Any], expected: str) -> None:
    assert expected in faults(with_share(GOOD.plan(), 0, **fields))


def test_finals_that_do_not_fit_are_told_and_daemon_sets_that_grew_with_them() -> None:
    plan = with_cpu(GOOD.plan(), final_total=5000)
    assert faults(plan) == [plan_check.FINALS_FIT]
    assert faults(with_share(plan, 2, final=101, peak=101)) == [plan_check.FINALS_FIT, plan_check.DAEMON_SETS]


def test_a_headroom_above_all_spikes_or_above_what_is_left_is_told() -> None:
    plan = GOOD.plan()
    spikes = sum(pod.containers[0].cpu.spike for pod in plan.pods if pod.containers[0].cpu is not None)
    assert plan.cpu.spike_total == spikes > 0
    assert faults(with_cpu(plan, headroom=spikes)) == []
    assert faults(with_cpu(plan, headroom=spikes + 1)) == [plan_check.HEADROOM]
    assert faults(with_cpu(plan, base_total=plan.cpu.available - plan.cpu.headroom + 1)) == [plan_check.HEADROOM]
    assert faults(with_cpu(plan, base_total=plan.cpu.available + 1, headroom=0)) == []


def test_an_infeasible_resource_is_not_written() -> None:
    assert faults(with_cpu(GOOD.plan(), is_infeasible=True)) == [plan_check.FINALS_FIT]
    assert faults(with_cpu(GOOD.plan(), is_applied=False)) == [plan_check.FINALS_FIT]
    assert faults(replace(with_cpu(GOOD.plan(), is_infeasible=True, final_total=9999), steps=())) == []


def test_more_after_all_steps_than_available_is_told_when_it_is_more_than_before() -> None:
    assert faults(with_cpu(GOOD.plan(), applied_total=5000)) == [plan_check.APPLIED_FIT]


def test_steps_that_do_not_fit_one_after_the_other_are_told() -> None:
    plan = GOOD.plan()
    tight = replace(GOOD, cpu=450)  # 300 now; grown before the shrink: 500
    assert faults(replace(plan, steps=plan.steps[::-1]), tight) == [plan_check.PREFIXES]
    assert plan_check.PREFIXES not in faults(plan, tight)


def test_a_step_whose_memory_does_not_fit_is_told() -> None:
    plan = GOOD.plan()
    grow = plan.steps[-1]
    more = Change(
        container="app", kind=None, resource=Resource.MEMORY, setting=Setting.REQUEST, before=64 * MIB, after=65 * MIB
    )
    broken = replace(plan, steps=(replace(grow, changes=(more,)),))
    assert plan_check.PREFIXES in faults(broken, replace(GOOD, memory=192 * MIB))
    assert plan_check.PREFIXES not in faults(broken, replace(GOOD, memory=193 * MIB))


def test_a_pod_that_the_plan_forgot_or_a_node_that_is_not_known_is_told() -> None:
    plan = GOOD.plan()
    assert plan_check.PREFIXES in faults(replace(plan, pods=plan.pods[:2]))
    assert [
        invariant.name for invariant in check(plan, NodeState(node=None, pods=GOOD.state.pods)) if not invariant.holds
    ] == [plan_check.PREFIXES]


def test_a_step_for_a_pod_that_is_gone_is_told() -> None:
    plan = GOOD.plan()
    assert faults(plan, replace(GOOD, demands=(SHRINKING, STILL))) == [plan_check.UNTOUCHED]


@pytest.mark.parametrize(("place", "fields"), [(1, {"is_evicted": True}), (0, {"mode": Mode.RECOMMEND})])
def test_a_step_for_a_pod_that_must_not_be_touched_is_told(place: int, fields: dict[str, Any]) -> None:
    # The headroom was shared out by its spike as well.
    violations = faults(with_pod(GOOD.plan(), place, **fields))
    assert [name for name in violations if name != plan_check.HEADROOM] == [plan_check.UNTOUCHED]


def test_a_step_for_a_reserved_pod_is_told() -> None:
    reserved = GOOD.plan().pods[0]
    plan = with_pod(GOOD.plan(), 0, reserved="pinned")
    assert plan_check.UNTOUCHED in faults(plan)
    assert reserved.reserved is None


def test_a_step_that_changes_nothing_or_breaks_a_pod_is_told() -> None:
    plan = GOOD.plan()

    def changed(*changes: Change) -> list[str]:
        steps: tuple[PlanStep, ...] = (replace(plan.steps[-1], changes=changes),)
        return faults(replace(plan, steps=steps))

    assert plan_check.MEANINGFUL in changed()
    limit = Change(
        container="app", kind=None, resource=Resource.MEMORY, setting=Setting.LIMIT, before=128 * MIB, after=MIB
    )
    assert plan_check.LIMITS in changed(limit)


def test_a_step_that_changes_the_class_is_told() -> None:
    nearly = pod_demand(
        containers=[container(cpu=100, cpu_limit=200, memory=MIB, memory_limit=MIB)],
        demands=[needs("app", wanted(150), wanted(MIB))],
    )
    situation = node(nearly)
    plan = situation.plan()
    request = next(change for change in plan.steps[0].changes if change.resource is Resource.CPU)
    step = replace(plan.steps[0], changes=(replace(request, after=200),))
    assert plan_check.QOS in faults(replace(plan, steps=(step,)), situation)


# Two pods of a base of 1000m that may grow by 1000m, on a node of 2500m: one goes.
CROWDED = node(
    *(pod_demand(name, demands=[needs("app", wanted(1000, 2000), wanted(64 * MIB))]) for name in ("a", "b")), cpu=2500
)


def with_eviction(**fields: Any) -> Plan:
    plan = CROWDED.plan()
    return replace(plan, evictions=(replace(plan.evictions[0], **fields),))


def test_in_mode_protect_a_fall_and_an_eviction_are_told() -> None:
    plan = GOOD.plan()
    shrunk = with_pod(plan, 1, mode=Mode.PROTECT)
    assert faults(shrunk) == [plan_check.ONLY_RISES]
    assert faults(replace(shrunk, steps=shrunk.steps[1:])) == [plan_check.ONLY_RISES]
    assert faults(with_pod(plan, 0, mode=Mode.PROTECT)) == []


def test_an_eviction_is_proposed_and_sound() -> None:
    plan = CROWDED.plan()
    assert [eviction.ref.name for eviction in plan.evictions] == ["a"]
    assert faults(plan, CROWDED) == []


def test_evictions_that_must_not_be_are_told() -> None:
    plan = CROWDED.plan()
    workload = Workload(namespace="shop", kind="DaemonSet", name="a")
    assert faults(with_eviction(workload=workload), CROWDED) == [plan_check.DAEMON_SETS]
    assert faults(with_eviction(ranking=Ranking.NO_EVICTION), CROWDED) == [plan_check.NO_EVICTION]
    assert faults(replace(plan, evictions=plan.evictions * 2), CROWDED) == [plan_check.EVICTED_ONCE]
    assert faults(with_pod(plan, 0, mode=Mode.PROTECT), CROWDED) == [plan_check.ONLY_RISES]
    gone = replace(plan.evictions[0].ref, uid="uid-gone")
    assert faults(with_eviction(ref=gone), CROWDED) == [plan_check.UNTOUCHED]


def test_an_eviction_whose_pod_would_come_back_is_told() -> None:
    for amount in ({"request": 2000}, {"applied": 2000}):
        plan = replace(with_share(CROWDED.plan(), 0, **amount), steps=())
        assert faults(plan, CROWDED) == [plan_check.EVICTED_LARGER]


def test_the_budget_of_an_evicted_pod_counts_and_not_its_containers() -> None:
    budgeted = pod_demand(
        "a",
        demands=[needs("app", wanted(1000, 2000), wanted(64 * MIB))],
        pod={"resources": requirements(500)},
    )
    situation = replace(CROWDED, demands=(budgeted, CROWDED.demands[1]))
    plan = situation.plan()
    assert [eviction.ref.name for eviction in plan.evictions] == ["a"]
    assert faults(plan, situation) == []
    budget = plan.pods[0].budget
    assert budget is not None
    assert budget.cpu is not None
    full = with_pod(plan, 0, budget=replace(budget, cpu=replace(budget.cpu, request=2000)))
    assert faults(full, situation) == [plan_check.EVICTED_LARGER]


def test_a_memory_limit_above_what_the_node_has_is_told_unless_it_was_there() -> None:
    plan = GOOD.plan()

    def limits(before: int, after: int) -> list[str]:
        pods = list(plan.pods)
        container_plan = pods[0].containers[0]
        memory = container_plan.memory
        assert memory is not None
        changed = replace(memory, limit=before, limit_applied=after)
        pods[0] = replace(pods[0], containers=(replace(container_plan, memory=changed),))
        return faults(replace(plan, pods=tuple(pods)))

    most = GOOD.memory
    assert plan_check.LIMIT_WITHIN not in limits(128 * MIB, most)
    assert plan_check.LIMIT_WITHIN in limits(128 * MIB, most + 1)
    assert plan_check.LIMIT_WITHIN not in limits(most + 1, most + 1)
