"""A pod that is boosted while it starts: its CPU stays until it is taken back, and makes nobody else go."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from agent.core.cluster.pod import ContainerStatus, PodCondition
from agent.core.numbers.units import MIB
from agent.core.orders import annotations as names
from agent.core.orders.order import Mode
from agent.core.plan.needs.demand import KeptReason, PodDemand, ReservedReason
from agent.core.plan.needs.given_boost import standing_boost
from agent.core.plan.plan import Plan, Share
from tests.planning import amounts, container, needs, node, pod_demand, wanted

BORN = 1_800_000_000.0


def boosted(
    name: str = "web", *, request: int = 1500, limit: int | None = None, demand: int | None = 200, **fields: Any
) -> PodDemand:
    """A pod that runs with 500 millicores and was given 1500 for its start."""
    amounts = {"requestMillicores": [500, 1500], "limitMillicores": [1000, 3000]}
    document = {"unixSeconds": BORN, "afterReadySeconds": 60, "timeoutSeconds": 600, "containers": {"app": amounts}}
    pod = {"annotations": {names.STARTUP_BOOSTED: json.dumps(document)}, "created_unix_seconds": BORN}
    need = pod_demand(
        name,
        containers=[container(cpu=request, cpu_limit=limit, memory=64 * MIB)],
        demands=[needs("app", None if demand is None else wanted(demand), wanted(32 * MIB))],
        pod=pod,
        **fields,
    )
    return PodDemand(
        **{field: getattr(need, field) for field in need.__slots__ if field != "boost"}, boost=standing_boost(need.pod)
    )


def cpu(plan: Plan, name: str = "web") -> Share:
    share = next(pod for pod in plan.pods if pod.ref.name == name).containers[0].cpu
    assert share is not None
    return share


def changed(plan: Plan) -> list[tuple[str, str]]:
    return [(change.container, change.resource.value) for step in plan.steps for change in step.changes]


def test_a_boosted_request_is_not_lowered_by_the_plan_and_its_memory_is_sized_as_ever() -> None:
    plan = node(boosted(limit=3000)).plan()
    assert (cpu(plan).kept, cpu(plan).applied, cpu(plan).limit_applied) == (KeptReason.BOOSTED, 1500, 3000)
    assert changed(plan) == [("app", "memory")]


def test_a_boost_counts_with_the_steady_request_whether_anything_is_predicted_or_not() -> None:
    for demand in (None, 200):
        plan = node(boosted(demand=demand)).plan()
        assert (cpu(plan).base, cpu(plan).final, plan.cpu.base_total) == (500, 500, 500)


def test_a_boost_of_the_limit_alone_keeps_both_as_they_stand() -> None:
    plan = node(boosted(request=400, limit=3000)).plan()
    assert (cpu(plan).base, cpu(plan).kept, cpu(plan).limit_applied) == (400, KeptReason.BOOSTED, 3000)


def test_what_was_taken_back_is_planned_as_ever() -> None:
    plan = node(boosted(request=500)).plan()
    assert cpu(plan).kept is None
    assert ("app", "cpu") in changed(plan)


def test_nobody_goes_for_a_boost_that_will_be_taken_back() -> None:
    # 2000 to hand out: 1500 of them boosted, of which 500 last, and 1200 for the other.
    other = pod_demand("other", demands=[needs("app", wanted(1200), wanted(32 * MIB))])
    assert node(boosted(), other, cpu=2000).plan().evictions == ()
    young = boosted(reserved=ReservedReason.TOO_YOUNG)
    plan = node(young, other, cpu=2000).plan()
    assert (plan.evictions, plan.cpu.available) == ((), 1500)


def test_a_boosted_pod_that_is_reserved_counts_though_a_resize_of_it_was_refused() -> None:
    # Somebody asked for more memory than the node has: what the boost leaves is in force all the same.
    young = boosted(reserved=ReservedReason.TOO_YOUNG)
    granted = ContainerStatus(name="app", allocated=amounts(1500, 64 * MIB))
    never = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
    refused = replace(young, pod=replace(young.pod, statuses=(granted,), conditions=(never,)))
    assert node(refused, cpu=2000).plan().cpu.available == 1500


def test_a_boost_that_nobody_may_take_back_counts_in_full() -> None:
    stays = boosted(reserved=ReservedReason.RECOMMEND, order={"mode": Mode.RECOMMEND})
    assert node(stays, cpu=2000).plan().cpu.available == 500
