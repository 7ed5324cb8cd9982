"""Plans of pods whose containers are sized one by one (``orders.container_policies``)."""

from __future__ import annotations

from typing import Any

from agent.core.cluster.resource import Resource
from agent.core.numbers.units import MIB
from agent.core.orders.container_policies import ContainerPolicies, ContainerPolicy
from agent.core.orders.order import OrderSource
from agent.core.plan.needs.demand import KeptReason, PodDemand
from agent.core.plan.plan import Plan, Share
from tests.planning import container, needs, node, pod_demand, wanted


def pod(*policies: ContainerPolicy, **stated: Any) -> PodDemand:
    """Two containers of which each demands half as much CPU again, and twice its memory."""
    amounts = stated or {"cpu": 100, "memory": 64 * MIB}
    order: dict[str, Any] = {
        "container_policies": ContainerPolicies(policies=policies),
        "container_policies_source": OrderSource.AUTOSCALER,
    }
    return pod_demand(
        containers=[container("app", **amounts), container("proxy", **amounts)],
        demands=[needs(name, wanted(150), wanted(128 * MIB, limit=512 * MIB)) for name in ("app", "proxy")],
        order=order,
    )


def share(plan: Plan, name: str, resource: Resource = Resource.CPU) -> Share:
    (only_pod,) = plan.pods
    part = next(each for each in only_pod.containers if each.name == name)
    which = part.cpu if resource is Resource.CPU else part.memory
    assert which is not None
    return which


def test_a_container_that_is_off_stays_and_its_neighbour_is_sized() -> None:
    plan = node(pod(ContainerPolicy(container="app", is_off=True))).plan()
    assert (share(plan, "app").applied, share(plan, "app").kept) == (100, KeptReason.NOT_APPLIED)
    assert share(plan, "app", Resource.MEMORY).kept is KeptReason.NOT_APPLIED
    assert (share(plan, "proxy").applied, share(plan, "proxy").kept) == (150, None)


def test_a_resource_that_is_not_controlled_stays() -> None:
    plan = node(pod(ContainerPolicy(resources=(Resource.MEMORY,)))).plan()
    assert {share(plan, name).kept for name in ("app", "proxy")} == {KeptReason.NOT_APPLIED}
    assert share(plan, "app", Resource.MEMORY).applied == 128 * MIB


def test_each_container_has_its_own_bounds() -> None:
    bounds = (
        ContainerPolicy(container="app", max_cpu_millicores=120),
        ContainerPolicy(min_cpu_millicores=400, min_memory_bytes=200 * MIB),
    )
    plan = node(pod(*bounds)).plan()
    assert (share(plan, "app").applied, share(plan, "proxy").applied) == (120, 400)
    assert share(plan, "app", Resource.MEMORY).applied == 128 * MIB
    assert share(plan, "proxy", Resource.MEMORY).applied == 200 * MIB


def test_limits_that_are_kept_hold_the_request_below_them() -> None:
    stated = {"cpu": 100, "memory": 64 * MIB, "cpu_limit": 140, "memory_limit": 100 * MIB}
    plan = node(pod(ContainerPolicy(container="app", are_limits_kept=True), **stated)).plan()
    cpu, memory = share(plan, "app"), share(plan, "app", Resource.MEMORY)
    assert (cpu.applied, cpu.limit_applied) == (139, 140)
    assert (memory.applied, memory.limit_applied) == (100 * MIB - 1, 100 * MIB)
    # The neighbour's are moved as the policy says.
    assert share(plan, "proxy", Resource.MEMORY).limit_applied == 512 * MIB


def test_a_guaranteed_request_does_not_part_from_a_limit_that_is_kept() -> None:
    stated = {"cpu": 100, "memory": 64 * MIB, "cpu_limit": 100, "memory_limit": 64 * MIB}
    plan = node(pod(ContainerPolicy(are_limits_kept=True), **stated)).plan()
    assert {share(plan, name).kept for name in ("app", "proxy")} == {KeptReason.QOS}
    assert plan.steps == ()
