"""From what is demanded of a pod to the planner's working values: base, peak and spike of each unit. Core, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from agent.core.container_sizing import Edges, below_limit, bounded, pair
from agent.core.demand import Constraint, ContainerDemand, Demand, Kept, PodDemand
from agent.core.model import QosClass
from agent.core.plan_options import DaemonSetGrowth
from agent.core.plan_units import Entry, Rules, Side, Unit
from agent.core.pod import CPU, MEMORY, ContainerKind, Pod, Requirements
from agent.core.policies.bounds import Resource
from agent.core.policies.options import PolicyName
from agent.core.qos import computed_qos_class
from agent.core.recommendation import Withheld
from agent.core.units import NANOS_PER_MILLI, NANOS_PER_UNIT

_SETS_NO_CPU_LIMIT: Final = frozenset({PolicyName.CRUISE, PolicyName.FORECAST})


def entry_of(demand: PodDemand, pod: Pod, constraint: Constraint, rules: Rules, counted: tuple[int, int]) -> Entry:
    """Read one pod that may be optimised: base, peak and spike of each unit, and what the pod holds by them.

    Args:
        demand: What its containers need.
        pod: As the API has it now.
        constraint: What stands in the way of changing it.
        rules: What holds for every pod.
        counted: What it holds now; millicores and bytes.
    """
    entry = Entry(demand, pod, constraint)
    orders = demand.orders
    computed = _qos_class(pod)
    reading = _Reading(
        entry=entry,
        rules=rules,
        demands={one.name: one for one in demand.containers},
        is_guaranteed=computed is QosClass.GUARANTEED,
        # The API compares the class after a resize with the recorded one: where they differ already, nothing passes.
        fixed=Kept.QOS if pod.recorded_qos is not None and pod.recorded_qos is not computed else None,
    )
    cpu_edges = rules.cpu.narrowed(orders.min_cpu_millicores, orders.max_cpu_millicores)
    memory_edges = rules.memory.narrowed(orders.min_memory_bytes, orders.max_memory_bytes)
    entry.cpu = _side(reading, Resource.CPU, cpu_edges, counted[0])
    entry.memory = _side(reading, Resource.MEMORY, memory_edges, counted[1])
    return entry


def _qos_class(pod: Pod) -> QosClass:
    """Compute the class; of nearly every pod the first container says that it is Burstable."""
    if pod.resources is None and pod.containers:
        first = pod.containers[0].resources
        requests, limits = first.requests, first.limits
        if requests.get(CPU, 0) != limits.get(CPU, 0) or requests.get(MEMORY, 0) != limits.get(MEMORY, 0):
            return QosClass.BURSTABLE
    return computed_qos_class(pod)


class _Reading(NamedTuple):
    """What is known of one pod while its units are read."""

    entry: Entry
    rules: Rules
    demands: Mapping[str, ContainerDemand]
    is_guaranteed: bool
    fixed: Kept | None


def _side(reading: _Reading, resource: Resource, edges: Edges, counted: int) -> Side:
    pod = reading.entry.pod
    demand = reading.entry.demand
    is_cpu = resource is Resource.CPU
    name, nanos = (CPU, NANOS_PER_MILLI) if is_cpu else (MEMORY, NANOS_PER_UNIT)
    fixed = reading.fixed
    if fixed is None and (demand.is_cpu_frozen if is_cpu else demand.is_memory_frozen):
        fixed = Kept.HPA
    level = pod.resources
    is_pod_level = level is not None and (name in level.requests or name in level.limits)
    units: list[Unit] = []
    stages: list[tuple[int, int]] = []
    is_predicted = True
    for container in (*pod.init_containers, *pod.containers) if pod.init_containers else pod.containers:
        resources = container.resources
        request = -(-resources.requests.get(name, 0) // nanos) or None
        if container.kind is ContainerKind.INIT:
            if request is not None:
                stages.append((request, len(units)))
            continue
        limit = -(-resources.limits.get(name, 0) // nanos) or None if resources.limits else None
        known = reading.demands.get(container.name)
        wanted: Demand | None = None
        withheld: Withheld | None = Withheld.NO_DATA
        if known is not None:
            wanted = known.cpu if is_cpu else known.memory
            withheld = known.cpu_withheld if is_cpu else known.memory_withheld
        unit = Unit(container.name, container.kind, request, limit, wanted, withheld)
        if wanted is None or wanted.is_upward_only:
            is_predicted = False
        if is_pod_level:
            _read_inside(unit, edges)
        else:
            restarts = container.restarts_for_cpu if is_cpu else container.restarts_for_memory
            unit.fixed = fixed
            if fixed is None and restarts and not demand.orders.is_restart_allowed:
                unit.fixed = Kept.RESTART_POLICY
            _read(unit, reading, edges, is_cpu=is_cpu)
        if wanted is not None and wanted.is_urgent:
            reading.entry.is_urgent = True
        units.append(unit)
    side = Side(resource, edges, units, counted)
    side.is_predicted = is_predicted
    side.stages = stages
    if is_pod_level and pod.resources is not None:
        _read_pod_level(side, pod.resources, reading, name, nanos, fixed)
    if pod.overhead:
        side.overhead = -(-pod.overhead.get(name, 0) // nanos)
    _sum_up(side)
    return side


def _sum_up(side: Side) -> None:
    bases = 0
    for unit in side.units:
        bases += unit.base
        if unit.spike > side.spike:
            side.spike = unit.spike
    side.base_sum = bases
    if side.stages:
        side.total = side.held([unit.base for unit in side.units])
    else:
        side.total = bases + side.overhead
    side.literal_total = max(side.total, bases + side.spike + side.overhead)


def _read(unit: Unit, reading: _Reading, edges: Edges, *, is_cpu: bool) -> None:
    """Fill in base, peak and spike, and what becomes of the limit."""
    demand, request, limit = unit.demand, unit.request, unit.limit
    if demand is None:
        unit.fixed = unit.fixed or Kept.GAPS
    is_daemon = reading.entry.is_daemon
    if request is None and (demand is None or is_daemon):
        unit.fixed = Kept.NOT_STATED
    if unit.fixed is not None or demand is None:
        return
    base = bounded(demand.base, edges)
    peak = bounded(demand.peak, edges) if demand.peak > demand.base else base
    wish = None if demand.limit is None else max(-(-demand.limit // edges.unit) * edges.unit, edges.least)
    if limit is not None:
        if request == limit and (reading.is_guaranteed or (wish is not None and not is_cpu)):
            unit.is_pair = True
            base = peak = bounded(pair(peak, wish), edges)
        elif wish is not None:
            unit.limit_wish = wish
        elif is_cpu and is_cpu_limit_raised(reading):
            unit.limit_wish = reading.rules.allocatable_cpu_millicores
            unit.is_limit_raised = True
        else:
            unit.is_capped = True
            most = below_limit(limit)
            base, peak = min(base, most), min(peak, most)
    _fill(unit, base, peak, request or 0, is_upward_only=demand.is_upward_only, reading=reading)


def _read_inside(unit: Unit, edges: Edges) -> None:
    """Read what a container needs of its pod's budget; of one that nothing is known of, what it requests."""
    if unit.demand is not None:
        unit.base = bounded(unit.demand.base, edges)
        unit.spike = max(0, bounded(unit.demand.peak, edges) - unit.base)


def _fill(unit: Unit, base: int, peak: int, request: int, *, is_upward_only: bool, reading: _Reading) -> None:
    if is_upward_only:
        # Without a prediction the peak is the base: it is raised to what was seen, and has no claim to a spike.
        base = peak = max(base, request)
        unit.is_lifted = base == request
    if reading.entry.is_daemon:
        unit.base = min(base, request)
        unit.peak = peak if reading.rules.options.daemon_set_growth is DaemonSetGrowth.FITS else unit.base
        unit.peak = max(unit.peak, unit.base)
        unit.wanted_base = base
    else:
        unit.base = base
        unit.peak = peak
        unit.spike = peak - base
    unit.final = unit.base


def is_cpu_limit_raised(reading: _Reading) -> bool:
    """Say whether a CPU limit that the policy has no word for is put out of the way."""
    return reading.rules.options.cpu_limits_raised and reading.entry.demand.orders.policy in _SETS_NO_CPU_LIMIT


def _read_pod_level(
    side: Side, resources: Requirements, reading: _Reading, name: str, nanos: int, fixed: Kept | None
) -> None:
    """Let the pod's own budget stand for its containers, where it carries the resource.

    The containers share it: their bases in all, and the largest spike among them once. What they request inside stays,
    and is the least that the budget may be.
    """
    inside = side.units
    bases = sum(unit.base for unit in inside)
    spike = max((unit.spike for unit in inside), default=0)
    unknown = [unit for unit in inside if unit.demand is None]
    demands = [unit.demand for unit in inside if unit.demand is not None]
    for unit in inside:
        _stand(unit, Kept.POD_LEVEL)
    if name not in resources.requests:
        return  # the API fills in a request beside each limit: this is no pod from there, and counts as it stands
    request = -(-resources.requests[name] // nanos) or None
    limit = -(-resources.limits.get(name, 0) // nanos) or None
    in_use = [demand.in_use for demand in demands]
    known_in_use = [amount for amount in in_use if amount is not None]
    has_all_in_use = len(known_in_use) == len(inside)
    is_upward_only = bool(unknown) or any(demand.is_upward_only for demand in demands)
    floor = side.held([unit.request or 0 for unit in inside])
    budget = Unit("", ContainerKind.REGULAR, request, limit, None, None)
    side.inside, side.units, side.stages = inside, [budget], ()
    if request is None:
        budget.fixed = Kept.NOT_STATED
    elif fixed is not None:
        budget.fixed = fixed
    elif not reading.rules.gates.pod_level_resize:
        budget.fixed = Kept.TOO_OLD
    elif not demands:
        budget.fixed = Kept.GAPS
        budget.withheld = unknown[0].withheld if unknown else Withheld.NO_DATA
    if budget.fixed is not None or request is None:
        return
    edges = side.edges
    base = -(-max(bases, floor, edges.least) // edges.unit) * edges.unit
    peak = max(base, -(-(bases + spike) // edges.unit) * edges.unit)
    budget.demand = Demand(
        base=base,
        peak=peak,
        in_use=sum(known_in_use) if has_all_in_use else None,
        is_upward_only=is_upward_only,
        is_urgent=any(demand.is_urgent for demand in demands),
    )
    is_cpu = side.resource is Resource.CPU
    if limit is not None:
        if _restarts_with_budget(reading, name, is_cpu=is_cpu):
            most = below_limit(limit)
            base, peak = min(base, most), min(peak, most)
            budget.is_capped = budget.is_limit_fixed = True
            if reading.is_guaranteed:
                budget.fixed = Kept.RESTART_POLICY
                return
        elif reading.is_guaranteed:
            budget.is_pair = True
            # No container's own limit may be above the pod's.
            limits = [one.resources.limits.get(name, 0) for one in reading.entry.pod.sized_containers()]
            base = peak = max(peak, -(-max(limits) // nanos))
        elif is_cpu and is_cpu_limit_raised(reading):
            budget.limit_wish = reading.rules.allocatable_cpu_millicores
            budget.is_limit_raised = True
    _fill(budget, base, peak, request, is_upward_only=is_upward_only, reading=reading)


def _restarts_with_budget(reading: _Reading, name: str, *, is_cpu: bool) -> bool:
    """Say whether a new limit of the pod restarts a container that goes by it, which nobody allowed."""
    if reading.entry.demand.orders.is_restart_allowed:
        return False
    return any(
        (container.restarts_for_cpu if is_cpu else container.restarts_for_memory)
        and name not in container.resources.limits
        for container in reading.entry.pod.sized_containers()
    )


def _stand(unit: Unit, reason: Kept) -> None:
    """Let a unit count as it stands."""
    unit.fixed = reason
    unit.base = unit.peak = unit.final = unit.request or 0
    unit.spike = 0
