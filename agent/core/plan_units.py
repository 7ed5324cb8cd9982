"""The planner's working values: pods with what shares a node's room, read from what is demanded. Core, pure.

A **unit** is what has one request and one limit of one resource: a container, or a pod's own budget where
``spec.resources`` carries the resource. A **side** is one resource of one pod, an **entry** one pod that may be
optimised. They are filled in from stage to stage and never leave the planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agent.core.container_sizing import Edges, below_limit, bounded, pair
from agent.core.demand import Constraint, ContainerDemand, Demand, Gates, Kept, PodDemand
from agent.core.model import QosClass
from agent.core.plan_options import DaemonSetGrowth, PlanOptions
from agent.core.planned import PodRef
from agent.core.pod import CPU, MEMORY, ContainerKind, Pod, Requirements
from agent.core.policies.bounds import Resource
from agent.core.policies.options import PolicyName
from agent.core.qos import computed_qos_class
from agent.core.recommendation import Withheld
from agent.core.units import NANOS_PER_MILLI, NANOS_PER_UNIT

DAEMON_SET_KIND: Final = "DaemonSet"
_SETS_NO_CPU_LIMIT: Final = frozenset({PolicyName.CRUISE, PolicyName.FORECAST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for every pod of this plan."""

    options: PlanOptions
    gates: Gates
    cpu: Edges
    memory: Edges
    allocatable_cpu_millicores: int


class Unit:
    """One request and limit of one resource."""

    # Defaults stand in the class: of the thousand units of a full node most never leave them.
    fixed: Kept | None = None
    """Why it is not planned at all: it counts as it stands."""
    is_pair = False
    """Its request is its limit as well, and they move together."""
    is_capped = False
    """Its limit stays, so its request is planned below that."""
    is_limit_fixed = False
    is_limit_raised = False
    """The limit, which cannot be taken away, is put out of the way."""
    is_lifted = False
    """It would be lower if there were a prediction."""
    limit_wish: int | None = None
    """What the policy would have as a limit; None = it stays."""
    spike = 0
    headroom = 0
    kept: Kept | None = None
    limit_kept: Kept | None = None
    wanted_base = 0
    """What a DaemonSet's container would have as its base if it might grow."""

    def __init__(
        self,
        name: str,
        kind: ContainerKind,
        request: int | None,
        limit: int | None,
        demand: Demand | None,
        withheld: Withheld | None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.demand = demand
        self.request = request
        """None = not stated; so is an explicit 0, as to Kubernetes."""
        self.withheld = withheld
        self.limit = self.limit_applied = limit
        self.base = self.peak = self.final = self.applied = request or 0


class Side:
    """One resource of one pod."""

    __slots__ = (
        "base_sum",
        "counted",
        "edges",
        "inside",
        "is_predicted",
        "is_spared",
        "literal_total",
        "overhead",
        "resource",
        "spike",
        "stages",
        "total",
        "units",
    )

    def __init__(self, resource: Resource, edges: Edges, units: list[Unit], counted: int) -> None:
        self.resource = resource
        self.edges = edges
        self.units = units
        """What shares: the containers, or the pod's budget alone."""
        self.inside: list[Unit] = []
        """Containers below a budget: shown only."""
        self.stages: Sequence[tuple[int, int]] = ()
        """Of each init container that ends: its request, and how many of the first units run beside it."""
        self.overhead = 0
        self.counted = counted
        """What the pod holds now, as the scheduler counts."""
        self.is_predicted = True
        self.is_spared = False
        """Others go, and this pod does not for one reason only: its successor would ask for no more than it has."""
        self.total = self.literal_total = self.base_sum = self.spike = 0

    def held(self, amounts: Sequence[int]) -> int:
        """Give what the pod would hold with such requests, one per unit, as the scheduler counts."""
        total = sum(amounts)
        for request, before in self.stages:
            total = max(total, request + sum(amounts[:before]))
        return total + self.overhead

    def held_applied(self) -> int:
        """Give what it holds after all steps."""
        return self.held([unit.applied for unit in self.units])

    def held_now(self) -> int:
        """Give what its spec asks for now."""
        return self.held([unit.request or 0 for unit in self.units])


class Entry:
    """One pod that may be optimised."""

    __slots__ = ("constraint", "cpu", "demand", "is_daemon", "is_evicted", "is_urgent", "memory", "name", "pod", "ref")

    def __init__(self, demand: PodDemand, pod: Pod, constraint: Constraint) -> None:
        self.demand = demand
        self.pod = pod
        self.constraint = constraint
        self.ref = PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        self.name = (pod.namespace, pod.name, pod.uid)
        self.is_daemon = demand.workload.kind == DAEMON_SET_KIND
        self.is_evicted = False
        self.is_urgent = False
        self.cpu: Side
        self.memory: Side

    def side(self, resource: Resource) -> Side:
        """Give one resource."""
        return self.cpu if resource is Resource.CPU else self.memory


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
        restarts = container.restarts_for_cpu if is_cpu else container.restarts_for_memory
        if fixed is None and restarts and not demand.orders.is_restart_allowed:
            unit.fixed = Kept.RESTART_POLICY
        else:
            unit.fixed = fixed
        _read(unit, reading, edges, is_cpu=is_cpu)
        if wanted is not None and wanted.is_urgent:
            reading.entry.is_urgent = True
        units.append(unit)
    side = Side(resource, edges, units, counted)
    side.is_predicted = is_predicted
    side.stages = stages
    if pod.resources is not None:
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
    _share(unit, base, peak, request or 0, is_upward_only=demand.is_upward_only, reading=reading)


def _share(unit: Unit, base: int, peak: int, request: int, *, is_upward_only: bool, reading: _Reading) -> None:
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
    if name not in resources.requests and name not in resources.limits:
        return
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
    _share(budget, base, peak, request, is_upward_only=is_upward_only, reading=reading)


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
    unit.is_pair = unit.is_limit_raised = unit.is_lifted = False
    unit.limit_wish = None
