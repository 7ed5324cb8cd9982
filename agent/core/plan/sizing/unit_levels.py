"""From what is demanded of a pod to the planner's working values: base, peak and spike of each unit. Core, pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from agent.core.cluster.pod import CPU, MEMORY, ContainerKind, Requirements
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.container_policies import NO_POLICY
from agent.core.orders.plan_options import DaemonSetGrowth
from agent.core.orders.policy_options import PolicyName
from agent.core.plan.needs.demand import Constraint, ContainerDemand, Demand, KeptReason, PodDemand
from agent.core.plan.pod_facts import PodFacts, StatedSide
from agent.core.plan.sizing.container_sizing import Edges, below_limit, bounded, pair
from agent.core.plan.sizing.entry import PlanRules, PodEntry, Side, Unit
from agent.core.recommender.recommendation import Withheld

_SETS_NO_CPU_LIMIT: Final = frozenset({PolicyName.CRUISE, PolicyName.PLIMSOLL})


def entry_of(demand: PodDemand, facts: PodFacts, constraint: Constraint, rules: PlanRules) -> PodEntry:
    """Read one pod that may be optimised: base, peak and spike of each unit, and what the pod holds by them."""
    entry = PodEntry(demand, facts, constraint)
    orders = demand.orders
    fixed: KeptReason | None = None
    if facts.pod.resources is not None and not rules.gates.pod_level_resize:
        fixed = KeptReason.TOO_OLD  # such an API server refuses to resize its containers as well
    elif not facts.is_class_kept:
        # The API compares the class after a resize with the recorded one: where they differ already, nothing passes.
        fixed = KeptReason.QOS
    reading = _Reading(entry, rules, facts.is_guaranteed, fixed)
    cpu_edges = rules.cpu.narrowed(orders.min_cpu_millicores, orders.max_cpu_millicores)
    memory_edges = rules.memory.narrowed(orders.min_memory_bytes, orders.max_memory_bytes)
    entry.cpu = _side(reading, Resource.CPU, cpu_edges, facts.cpu, facts.counted[0])
    entry.memory = _side(reading, Resource.MEMORY, memory_edges, facts.memory, facts.counted[1])
    return entry


class _Reading(NamedTuple):
    entry: PodEntry
    rules: PlanRules
    is_guaranteed: bool
    fixed: KeptReason | None


class _Levels(NamedTuple):
    """One demand within the bounds. base <= lasting <= peak, base <= pressing <= peak."""

    base: int
    lasting: int
    """The peak without what was seen of late."""
    peak: int
    pressing: int
    """The base with what was seen in the last seconds."""


def _side(reading: _Reading, resource: Resource, edges: Edges, stated: StatedSide, counted: int) -> Side:
    entry, _, _, fixed = reading
    demand = entry.demand
    is_cpu = resource is Resource.CPU
    frozen = demand.cpu_frozen_containers if is_cpu else demand.memory_frozen_containers
    if fixed is None and (demand.is_cpu_frozen if is_cpu else demand.is_memory_frozen):
        if frozen is None or stated.is_pod_level:
            fixed = KeptReason.HPA
    else:
        frozen = None
    is_restart_allowed = demand.orders.is_restart_allowed
    demands = demand.containers
    policies = demand.orders.container_policies
    boost = demand.boost if is_cpu else None
    boosted = set[str]() if boost is None else {change.container for change in boost.changes}
    steady_requests = {} if boost is None else boost.steady_requests()
    units: list[Unit] = []
    pod_edges = edges
    side = Side(resource, edges, units, counted, stated.stages, stated.overhead)
    for place, (name, kind, request, limit, restarts, granted) in enumerate(stated.containers):
        known: ContainerDemand | None
        if place < len(demands) and demands[place].name == name:  # nearly always
            known = demands[place]
        else:
            known = next((other for other in reversed(demands) if other.name == name), None)
        wanted: Demand | None = None
        withheld: Withheld | None = Withheld.NO_DATA
        if known is not None:
            wanted = known.cpu if is_cpu else known.memory
            withheld = known.cpu_withheld if is_cpu else known.memory_withheld
        unit = Unit(name, kind, request, limit, wanted, withheld)
        units.append(unit)
        policy = policies.of(name) if policies.policies else NO_POLICY
        if policy is not NO_POLICY:
            rules_edges = reading.rules.cpu if is_cpu else reading.rules.memory
            edges = unit.edges = rules_edges.narrowed(*demand.orders.bounds_of(name, resource))
        else:
            edges = pod_edges
        if granted != request:
            unit.granted = granted or 0
        if wanted is None:
            side.is_predicted = False
        else:
            if wanted.is_upward_only:
                side.is_predicted = False
            if wanted.is_urgent:
                entry.is_urgent = True
            if wanted.short is not None:
                entry.short = wanted.short
        if stated.is_pod_level:
            _read_inside(unit, edges)
            continue
        if fixed is not None:
            unit.fixed = fixed
        elif frozen is not None and name in frozen:
            unit.fixed = KeptReason.HPA
        elif not policy.sizes(resource):
            unit.fixed = KeptReason.NOT_APPLIED
        elif restarts and not is_restart_allowed:
            unit.fixed = KeptReason.RESTART_POLICY
        unit.is_limit_fixed = policy.are_limits_kept
        unit.is_restarted = restarts
        is_boosted = name in boosted
        if is_boosted:
            unit.fixed = unit.fixed or KeptReason.BOOSTED
        _read(unit, reading, edges, is_cpu=is_cpu)
        if unit.fixed is KeptReason.HPA and is_cpu and policy.sizes(resource) and not is_boosted:
            _free_limit(unit, reading)
        if unit.fixed is not None and unit.granted is not None:
            # It counts as it stands, and a wish does not stand.
            unit.base = unit.peak = unit.final = unit.granted
        if is_boosted:
            # Nor does a boost: nobody else goes for what is about to be taken back.
            unit.base = unit.peak = unit.final = min(unit.base, steady_requests.get(name, unit.base))
    if stated.is_pod_level and entry.pod.resources is not None:
        _read_pod_level(side, entry.pod.resources, reading, fixed)
        budget = side.units[0]
        if side.inside and stated.granted_budget is not None and stated.granted_budget < (budget.request or 0):
            budget.granted = stated.granted_budget
            if budget.fixed is not None:
                budget.base = budget.peak = budget.final = budget.granted
    elif stated.rounded_nanos and not stated.stages:
        side.overhead = _exact_overhead(units, stated, NANOS_PER_MILLI if is_cpu else NANOS_PER_UNIT)
    _sum_up(side)
    return side


def _exact_overhead(units: Sequence[Unit], stated: StatedSide, nanos: int) -> int:
    """Return the overhead less what rounding added to units that stay: the scheduler rounds their sum, not each.

    Many containers with fractions of a millicore would otherwise seem to hold more than they do, and make others go.
    """
    added = sum(
        rounded
        for unit, rounded in zip(units, stated.rounded_nanos, strict=True)
        if unit.fixed is not None and unit.granted is None
    )
    return -((added - stated.overhead_nanos) // nanos)


def _sum_up(side: Side) -> None:
    bases = spike = lasting_spike = 0
    for unit in side.units:
        bases += unit.base
        if unit.spike > spike:
            spike = unit.spike
        if unit.lasting_spike > lasting_spike:
            lasting_spike = unit.lasting_spike
        if unit.pressing > unit.base:
            side.is_pressed = True
    side.base_sum, side.spike, side.lasting_spike = bases, spike, lasting_spike
    total = side.held([unit.base for unit in side.units]) if side.stages else bases + side.overhead
    literal_total = bases + lasting_spike + side.overhead
    side.total = total
    side.literal_total = literal_total if literal_total > total else total


def _levels(demand: Demand, edges: Edges) -> _Levels:
    sustained = demand.base if demand.sustained is None else demand.sustained
    lasting = sustained + demand.peak - demand.base if demand.sustained_peak is None else demand.sustained_peak
    base, pressing = bounded(sustained, edges), bounded(demand.base, edges)
    lasting = max(base, bounded(lasting, edges))
    return _Levels(base, lasting, max(lasting, pressing, bounded(demand.peak, edges)), max(base, pressing))


def lasting_peak(demand: Demand, edges: Edges) -> int:
    """Return the most that a container is expected to need, without what was seen of late, within the bounds."""
    return _levels(demand, edges).lasting


def _read(unit: Unit, reading: _Reading, edges: Edges, *, is_cpu: bool) -> None:
    """Fill in base, peak and spike, and what becomes of the limit."""
    demand, request, limit = unit.demand, unit.request, unit.limit
    if demand is None:
        unit.fixed = unit.fixed or KeptReason.GAPS
    is_daemon = reading.entry.is_daemon
    if request is None and (demand is None or is_daemon):
        unit.fixed = KeptReason.NOT_STATED
    if unit.fixed is not None or demand is None:
        return
    if demand.held is not None and demand.held > edges.most:
        edges = edges.narrowed(None, demand.held)
        unit.is_held_over_most = True
    if demand.sustained is None and demand.sustained_peak is None:
        base = pressing = bounded(demand.base, edges)
        lasting = peak = bounded(demand.peak, edges) if demand.peak > demand.base else base
        is_plain = limit is None and not demand.is_upward_only and demand.foreseen_base is None
        if is_plain and not is_daemon and not reading.entry.only_rises:
            # Most units of a node are like that.
            unit.base = unit.final = unit.pressing = base
            unit.peak = peak
            unit.spike = unit.lasting_spike = peak - base
            return
    else:
        base, lasting, peak, pressing = _levels(demand, edges)
    if limit is not None:
        wish = _limit_wish(demand.limit, limit, reading, edges, is_cpu=is_cpu)
        is_raised = is_cpu and is_cpu_limit_raised(reading) and not (reading.is_guaranteed and request == limit)
        if unit.is_limit_fixed or is_raised:
            wish = None
        if unit.is_limit_fixed and request == limit and reading.is_guaranteed:
            unit.fixed = KeptReason.QOS  # the request alone may not part from its limit
            return
        if request == limit and (reading.is_guaranteed or (wish is not None and not is_cpu)):
            unit.is_pair = True
            pressing = peak = bounded(pair(peak, wish), edges)
            calm_limit = demand.limit if demand.sustained_limit is None else demand.sustained_limit
            calm_wish = _limit_wish(calm_limit, limit, reading, edges, is_cpu=is_cpu)
            base = lasting = min(peak, bounded(pair(lasting, calm_wish), edges))
        elif wish is not None:
            unit.limit_wish = unit.own_limit_wish = wish
            if demand.foreseen_limit is not None:
                foreseen = _limit_wish(demand.foreseen_limit, limit, reading, edges, is_cpu=is_cpu)
                unit.limit_wish = max(wish, foreseen or 0)
        elif is_raised and not unit.is_limit_fixed:
            unit.limit_wish = reading.rules.allocatable_cpu_millicores
            unit.is_limit_raised = True
        else:
            unit.is_capped = True
            most = below_limit(limit)
            base, lasting, peak, pressing = min(base, most), min(lasting, most), min(peak, most), min(pressing, most)
    if reading.entry.only_rises:
        is_killed = not is_cpu and unit.name in reading.entry.constraint.killed
        _protect(unit, _Levels(base, lasting, peak, pressing), reading, is_killed=is_killed)
        return
    _fill(unit, (base, lasting, peak, pressing), request or 0, is_upward_only=demand.is_upward_only, reading=reading)
    if demand.foreseen_base is not None:
        _foresee(unit, demand, demand.foreseen_base, reading, edges)


def _free_limit(unit: Unit, reading: _Reading) -> None:
    """Raise or remove the CPU limit of a container whose request stays, as an HPA divides by it.

    What the limit held back is used then, and the autoscaler sees that: a limit is no part of what it divides by.
    """
    if unit.demand is None or unit.limit is None or unit.is_limit_fixed or not is_cpu_limit_raised(reading):
        return
    if unit.is_restarted and not reading.entry.demand.orders.is_restart_allowed:
        return
    if reading.is_guaranteed and unit.request == unit.limit:
        return  # the limit alone may not part from its request
    if reading.entry.only_rises and not unit.demand.is_urgent:
        return
    unit.limit_wish = reading.rules.allocatable_cpu_millicores
    unit.is_limit_raised = True


def _foresee(unit: Unit, demand: Demand, base: int, reading: _Reading, edges: Edges) -> None:
    """Fill in what others saw of it, of a unit whose own figures are filled in already."""
    if reading.entry.is_daemon and reading.rules.options.daemon_set_growth is DaemonSetGrowth.NEVER:
        return
    peak = demand.foreseen_peak or base
    if unit.is_pair:
        peak = pair(peak, demand.foreseen_limit)
    base, peak = bounded(base, edges), bounded(peak, edges)
    if unit.is_capped and unit.limit is not None:
        base, peak = min(base, below_limit(unit.limit)), min(peak, below_limit(unit.limit))
    if peak > unit.peak:
        unit.foreseen_base, unit.foreseen_peak = base, peak


def _limit_wish(wish: int | None, limit: int, reading: _Reading, edges: Edges, *, is_cpu: bool) -> int | None:
    """Round what a limit should become up; memory's is raised no further than what the node has."""
    if wish is None:
        return None
    rounded = -(-wish // edges.unit) * edges.unit
    if rounded < edges.least:
        rounded = edges.least
    if is_cpu or rounded <= limit:
        return rounded
    return min(rounded, max(limit, reading.rules.allocatable_memory_bytes))


def _read_inside(unit: Unit, edges: Edges) -> None:
    """Read what a container needs of its pod's budget; of one that nothing is known of, what it requests."""
    unit.pressing = unit.base
    if unit.demand is not None:
        unit.base, lasting, peak, unit.pressing = _levels(unit.demand, edges)
        unit.lasting_spike = lasting - unit.base
        unit.spike = unit.lasting_spike if unit.pressing > unit.base else peak - unit.base


def _fill(
    unit: Unit, levels: tuple[int, int, int, int], request: int, *, is_upward_only: bool, reading: _Reading
) -> None:
    base, lasting, peak, pressing = levels
    if is_upward_only:
        # Without a prediction the peak is the base: it is raised to what was seen, and has no claim to a spike.
        unit.origin = base
        if unit.granted is not None:
            request = unit.granted
        base = lasting = base if base > request else request
        pressing = peak = max(base, pressing)
        unit.is_lifted = base == request
    if reading.entry.is_daemon:
        unit.base = min(base, request)
        unit.peak = peak if reading.rules.options.daemon_set_growth is DaemonSetGrowth.FITS else unit.base
        unit.peak = max(unit.peak, unit.base)
        unit.wanted_base = pressing
    else:
        unit.base = base
        unit.peak = peak
        unit.lasting_spike = lasting - base
        if unit.request is not None:
            unit.pressing = pressing
        # What presses is asked for by itself; what was seen some time ago takes part as any peak does.
        unit.spike = (peak if pressing == base else lasting) - base
    unit.final = unit.base


def _protect(unit: Unit, levels: _Levels, reading: _Reading, *, is_killed: bool) -> None:
    """Fill in a unit of a pod that is only given more: what it is short of, of the room that nobody else needs.

    It counts with what it has, like one that is not planned: nobody goes or waits for it, and it has no claim to a
    spike. It is short where that was seen in the last seconds, or where it was killed for want of memory.
    """
    demand, has = unit.demand, unit.request if unit.granted is None else unit.granted
    if demand is None or has is None:
        return  # nothing is stated that could rise
    need = max(levels.pressing if demand.is_urgent else 0, levels.peak if is_killed else 0)
    unit.base = unit.final = has
    unit.peak = max(has, need)
    unit.origin = 0  # whoever is short gets the same share of all it needs, whatever it was given of that before
    if not reading.entry.is_daemon:
        unit.pressing = unit.peak
    elif reading.rules.options.daemon_set_growth is DaemonSetGrowth.FITS:
        unit.wanted_base = unit.peak
    else:
        unit.peak = has
    if unit.limit is not None and unit.limit_wish is not None and not unit.is_pair:
        unit.is_limit_protected = unit.limit_wish < unit.limit
        unit.limit_wish = unit.own_limit_wish = max(unit.limit, unit.limit_wish) if need else None
    if not demand.is_upward_only and not need and levels.lasting < has:
        unit.possible = levels.lasting


def is_cpu_limit_raised(reading: _Reading) -> bool:
    """Return whether a CPU limit that the policy has no word for is put out of the way."""
    return reading.rules.options.cpu_limits_raised and reading.entry.demand.orders.policy in _SETS_NO_CPU_LIMIT


def _read_pod_level(side: Side, resources: Requirements, reading: _Reading, fixed: KeptReason | None) -> None:
    """Read the pod's own budget in place of its containers, where it carries the resource.

    The containers share it: their bases in all, and the largest spike among them once. What they request inside stays,
    and is the least that the budget may be.
    """
    is_cpu = side.resource is Resource.CPU
    name, nanos = (CPU, NANOS_PER_MILLI) if is_cpu else (MEMORY, NANOS_PER_UNIT)
    inside = side.units
    bases = sum(unit.base for unit in inside)
    pressing = sum(unit.pressing for unit in inside)
    spike = max((unit.spike for unit in inside), default=0)
    lasting_spike = max((unit.lasting_spike for unit in inside), default=0)
    unknown = [unit for unit in inside if unit.demand is None]
    demands = [unit.demand for unit in inside if unit.demand is not None]
    for unit in inside:
        _stand(unit, KeptReason.TOO_OLD if fixed is KeptReason.TOO_OLD else KeptReason.POD_LEVEL)
    if name not in resources.requests:
        return  # the API fills in a request beside each limit: this is no pod from there, and counts as it stands
    request = -(-resources.requests[name] // nanos) or None
    limit = -(-resources.limits.get(name, 0) // nanos) or None
    in_use = [demand.in_use for demand in demands]
    known_in_use = [amount for amount in in_use if amount is not None]
    has_all_in_use = len(known_in_use) == len(inside)
    is_upward_only = bool(unknown) or any(demand.is_upward_only for demand in demands)
    floor = side.held([unit.request or 0 for unit in inside]) - side.overhead
    budget = Unit("", ContainerKind.REGULAR, request, limit, None, None)
    side.inside, side.units, side.stages = inside, [budget], ()
    if request is None:
        budget.fixed = KeptReason.NOT_STATED
    elif fixed is not None:
        budget.fixed = fixed
    elif not demands:
        budget.fixed = KeptReason.GAPS
        budget.withheld = unknown[0].withheld if unknown else Withheld.NO_DATA
    if budget.fixed is not None or request is None:
        return
    edges = side.edges
    base, lasting, pressing, peak = (
        -(-max(amount, floor, edges.least) // edges.unit) * edges.unit
        for amount in (bases, bases + lasting_spike, pressing, max(pressing, bases + spike))
    )
    budget.demand = Demand(
        base=pressing,
        peak=peak,
        in_use=sum(known_in_use) if has_all_in_use else None,
        is_upward_only=is_upward_only,
        is_urgent=any(demand.is_urgent for demand in demands),
        is_limit_young=any(demand.is_limit_young for demand in demands),
    )
    if limit is not None:
        if _restarts_with_budget(reading, name, is_cpu=is_cpu):
            most = below_limit(limit)
            base, lasting, peak, pressing = min(base, most), min(lasting, most), min(peak, most), min(pressing, most)
            budget.is_capped = budget.is_limit_fixed = True
            if reading.is_guaranteed:
                budget.fixed = KeptReason.RESTART_POLICY
                return
        elif reading.is_guaranteed:
            budget.is_pair = True
            # No container's own limit may be above the pod's.
            limits = [container.resources.limits.get(name, 0) for container in reading.entry.pod.sized_containers()]
            least = -(-max(limits) // nanos)
            pressing = peak = max(peak, least)
            base = lasting = max(lasting, least)
        elif is_cpu and is_cpu_limit_raised(reading):
            budget.limit_wish = reading.rules.allocatable_cpu_millicores
            budget.is_limit_raised = True
    if reading.entry.only_rises:
        is_killed = not is_cpu and bool(reading.entry.constraint.killed)
        _protect(budget, _Levels(base, lasting, peak, pressing), reading, is_killed=is_killed)
        return
    _fill(budget, (base, lasting, peak, pressing), request, is_upward_only=is_upward_only, reading=reading)


def _restarts_with_budget(reading: _Reading, name: str, *, is_cpu: bool) -> bool:
    """Return whether a new limit of the pod restarts a container that goes by it, which nobody allowed."""
    if reading.entry.demand.orders.is_restart_allowed:
        return False
    return any(
        (container.restarts_for_cpu if is_cpu else container.restarts_for_memory)
        and name not in container.resources.limits
        for container in reading.entry.pod.sized_containers()
    )


def _stand(unit: Unit, reason: KeptReason) -> None:
    unit.fixed = reason
    unit.base = unit.peak = unit.final = unit.request or 0
    unit.spike = unit.lasting_spike = unit.pressing = 0
