"""What pods that are not lowered could do without: mode recommend, which writes nothing, and protect. Core, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.core.orders.order import Mode
from agent.core.orders.policy_options import BoundsOptions
from agent.core.plan.needs.demand import Demand, PodDemand, Reserved
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
    """Return the same of each mode that lowers nothing; pods in mode recommend are not in the plan's sums."""
    cpu = memory = 0
    for demand in demands:
        if demand.reserved is not Reserved.RECOMMEND:
            continue
        orders = demand.orders
        cpu_bounds = cpu_edges(bounds).narrowed(orders.min_cpu_millicores, orders.max_cpu_millicores)
        memory_bounds = memory_edges(bounds).narrowed(orders.min_memory_bytes, orders.max_memory_bytes)
        known = {container.name: container for container in demand.containers}
        for container in demand.pod.sized_containers():
            needed = known.get(container.name)
            if needed is not None:
                cpu += _saving(container.resources.cpu_request_millicores, needed.cpu, cpu_bounds)
                memory += _saving(container.resources.memory_request_bytes, needed.memory, memory_bounds)
    recommended = PossibleSavings(cpu_millicores=cpu, memory_bytes=memory)
    return {Mode.RECOMMEND: recommended, Mode.PROTECT: protected_savings(plan)}


def _saving(request: int | None, demand: Demand | None, edges: Edges) -> int:
    if request is None or demand is None or demand.is_upward_only:
        return 0
    return max(0, request - lasting_peak(demand, edges))
