"""What pods that are not lowered could do without: mode recommend, which writes nothing, and protect. Core, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.core.cluster.resource import Resource
from agent.core.orders.order import Mode
from agent.core.orders.policy_options import BoundsOptions
from agent.core.plan.needs.demand import Demand, PodDemand, ReservedReason
from agent.core.plan.plan import Plan
from agent.core.plan.sizing.container_sizing import Edges, cpu_edges, memory_edges
from agent.core.plan.sizing.unit_levels import lasting_peak


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleSavings:
    """How much less some pods could request; what others lack is not set off against it."""

    cpu_millicores: int = 0
    memory_bytes: int = 0


def protected_savings(plan: Plan) -> PossibleSavings:
    """Return what pods in mode protect could do without, by the plan."""
    cpu = memory = 0
    for pod in plan.pods:
        for container in pod.containers if pod.budget is None else (*pod.containers, pod.budget):
            if container.cpu is not None and container.cpu.possible is not None:
                cpu += (container.cpu.request or 0) - container.cpu.possible
            if container.memory is not None and container.memory.possible is not None:
                memory += (container.memory.request or 0) - container.memory.possible
    return PossibleSavings(cpu_millicores=cpu, memory_bytes=memory)


def possible_savings(plan: Plan, demands: Iterable[PodDemand], bounds: BoundsOptions) -> Mapping[Mode, PossibleSavings]:
    """Return the same of each mode that lowers nothing; pods in mode recommend are not in the plan's sums.

    What would not be lowered in mode enforce either is none: what an HPA divides by, what a policy leaves as it stands,
    and what containers request inside a budget of their pod, which holds the room.
    """
    cpu = memory = 0
    for demand in demands:
        if demand.reserved is not ReservedReason.RECOMMEND:
            continue
        known = {container.name: container for container in demand.containers}
        for container in demand.pod.sized_containers():
            needed = known.get(container.name)
            if needed is None:
                continue
            stated = container.resources
            if _is_sized(demand, container.name, Resource.CPU):
                edges = _edges(demand, container.name, Resource.CPU, bounds)
                cpu += _saving(stated.cpu_request_millicores, needed.cpu, edges)
            if _is_sized(demand, container.name, Resource.MEMORY):
                edges = _edges(demand, container.name, Resource.MEMORY, bounds)
                memory += _saving(stated.memory_request_bytes, needed.memory, edges)
    recommended = PossibleSavings(cpu_millicores=cpu, memory_bytes=memory)
    return {Mode.RECOMMEND: recommended, Mode.PROTECT: protected_savings(plan)}


def _is_sized(demand: PodDemand, container: str, resource: Resource) -> bool:
    """Return whether the request of a container would be changed in mode enforce."""
    is_frozen, only = demand.is_memory_frozen, demand.memory_frozen_containers
    if resource is Resource.CPU:
        is_frozen, only = demand.is_cpu_frozen, demand.cpu_frozen_containers
    if is_frozen and (only is None or container in only):
        return False
    budget = demand.pod.resources
    if budget is not None and (resource in budget.requests or resource in budget.limits):
        return False
    return demand.orders.container_policies.of(container).sizes(resource)


def _edges(demand: PodDemand, container: str, resource: Resource, bounds: BoundsOptions) -> Edges:
    edges = cpu_edges(bounds) if resource is Resource.CPU else memory_edges(bounds)
    return edges.narrowed(*demand.orders.bounds_of(container, resource))


def _saving(request: int | None, demand: Demand | None, edges: Edges) -> int:
    if request is None or demand is None or demand.is_upward_only:
        return 0
    return max(0, request - lasting_peak(demand, edges))
