"""Who of a node has credit for seconds: whose starvation for CPU is answered in place, and has room for it. Core, pure.

Beside the conditions that a container and its pod meet or not, the node must keep room for the answer. What a container
lacks is how much its request of now lies below that at the full price. The two largest lacks must fit into what the
scheduler counts as free: one at a time is not safe on real nodes, two are passed as seldom as all together. As a
request falls its lack grows by no more than what becomes free, so credit never takes its own room away. Where the room
ends, those with the largest lacks go without: these are the fewest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.node import Node
from agent.core.cluster.versions import Gates
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import FREE, Constraint, KeptReason, PodDemand, ReservedReason
from agent.core.plan.needs.demands import Key
from agent.core.plan.pod_facts import PodFacts
from agent.core.recommender.credit import CPU_FULL_PRICE, CPU_IN_PLACE, Credit
from agent.core.recommender.recommendation import OWN_BASE, OWN_LIMIT, OWN_PEAK, Advice, Recommendation
from agent.core.window.overload import OVERLOAD_TAINT_KEY

MOST_INTERVAL_SECONDS: Final = 10.0
"""Of plans that pressure asks for: five times the default."""
MOST_WAITING_RATIO: Final = 0.5
"""Half of the time spent waiting is severe for whoever is served by it."""
_NOT_ENFORCED = frozenset(
    {
        ReservedReason.OFF,
        ReservedReason.RECOMMEND,
        ReservedReason.NOT_IN_SHARE,
        ReservedReason.SHARE_TAKEN_BACK,
        ReservedReason.EXCLUDED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditGrounds:
    """What holds for all containers of the node."""

    gates: Gates
    allocatable_cpu_millicores: int | None
    """None = not known: then there is no room."""
    is_paused: bool
    is_quick: bool
    """Starvation is answered soon (``answers_soon``)."""
    is_overloaded: bool
    """By the readings, or by the taint."""
    has_pressure: Set[Key]
    """Containers whose cpu.pressure was read lately."""


def answers_soon(act: ActOptions) -> bool:
    """Return whether starvation is answered within seconds, by what the settings ask for."""
    return act.urgent_interval_seconds <= MOST_INTERVAL_SECONDS and 0 < act.urgent_waiting_ratio <= MOST_WAITING_RATIO


def credits_of(
    demands: Iterable[PodDemand],
    recommendations: Iterable[Recommendation],
    facts: Iterable[PodFacts],
    constraints: Mapping[str, Constraint],
    grounds: CreditGrounds,
) -> dict[Key, Credit]:
    """Return whether each container has credit; those whose policy knows no second price are left out.

    Args:
        demands: Of all pods of the node.
        recommendations: Of their containers, with or without credit; only what they ask for at both prices counts.
        facts: Of all pods of the node.
        constraints: By uid of the pod.
        grounds: The rest.
    """
    known = {pod.ref.uid: pod for pod in facts}
    full_price = {
        (item.identity.pod_uid or "", item.identity.container or ""): item.cpu_millicores.extra[CPU_FULL_PRICE]
        for item in recommendations
        if CPU_IN_PLACE in item.cpu_millicores.extra
    }
    held = sum(pod.counted[0] for pod in known.values() if pod.holds_room)
    free = max(0, (grounds.allocatable_cpu_millicores or 0) - held)
    credits: dict[Key, Credit] = {}
    lacks: list[tuple[float, Key]] = []
    for demand in demands:
        pod = known.get(demand.pod.uid)
        if pod is None:
            continue
        of_pod = _of_pod(demand, pod, constraints.get(demand.pod.uid, FREE), grounds)
        for name, _, request, _, restarts, granted in pod.cpu.containers:
            key = (demand.pod.cgroup_uid, name)
            if key not in full_price:
                continue
            credits[key] = of_pod or _of_container(key, restarts=restarts, grounds=grounds)
            if credits[key] is Credit.GRANTED:
                in_force = granted if request is not None and granted is not None else request
                lacks.append((max(0.0, full_price[key] - (in_force or 0)), key))
    for key in _without_room(lacks, free):
        credits[key] = Credit.NO_ROOM
    return credits


def _of_pod(demand: PodDemand, pod: PodFacts, constraint: Constraint, grounds: CreditGrounds) -> Credit | None:
    """Return why no container of a pod has credit; None = nothing about the pod or the node speaks against it."""
    reserved = demand.reserved
    if reserved in _NOT_ENFORCED or demand.orders.mode is not Mode.ENFORCE:
        return Credit.NOT_ENFORCED
    if demand.is_cpu_frozen or reserved is ReservedReason.HPA:
        return Credit.HPA
    if reserved is not None or not pod.is_class_kept:
        return Credit.RESERVED
    if grounds.is_paused:
        return Credit.PAUSED
    if not grounds.gates.resize:
        return Credit.TOO_OLD
    if not grounds.is_quick:
        return Credit.SLOW
    if pod.cpu.is_pod_level:
        return Credit.POD_BUDGET
    if constraint.cpu_below_millicores is not None or constraint.urgent_grow not in (None, KeptReason.IN_FLIGHT):
        return Credit.REFUSED
    return Credit.NODE_PRESSED if grounds.is_overloaded else None


def _of_container(key: Key, *, restarts: bool, grounds: CreditGrounds) -> Credit:
    if restarts:
        return Credit.RESTARTS
    return Credit.GRANTED if key in grounds.has_pressure else Credit.NO_PRESSURE


def _without_room(lacks: Sequence[tuple[float, Key]], free: int) -> list[Key]:
    """Return who goes without for want of room, the largest lacks; equal ones in the order of their keys."""
    ordered = sorted(lacks)
    while ordered and sum(lack for lack, _ in ordered[-2:]) > free:
        ordered.pop()
    return [key for _, key in sorted(lacks)[len(ordered) :]]


def is_tainted(node: Node | None) -> bool:
    """Return whether a node carries the taint of its own overload."""
    return node is not None and any(taint.key == OVERLOAD_TAINT_KEY for taint in node.taints)


def saved_millicores(recommendations: Iterable[Recommendation]) -> float:
    """Return by how much those with credit ask for less than without."""
    advices = (item.cpu_millicores for item in recommendations)
    return sum(advice.extra[CPU_FULL_PRICE] - advice.extra[CPU_IN_PLACE] for advice in advices if advice.has_credit)


def at_prices(recommendations: Sequence[Recommendation], credits: Mapping[Key, Credit]) -> Sequence[Recommendation]:
    """Return recommendations as they are with these credits; the very same where nothing differs.

    Those that were made just before, with the credits of then, mostly are. Without room the full price is asked for as
    what others saw is: as far as there is room after everybody else's needs, so that nobody goes for it.
    """
    changed = [
        _at_price(item, credits.get((item.identity.pod_uid or "", item.identity.container or "")))
        for item in recommendations
    ]
    has_changed = any(after is not before for after, before in zip(changed, recommendations, strict=True))
    return changed if has_changed else recommendations


def _at_price(item: Recommendation, credit: Credit | None) -> Recommendation:
    advice = item.cpu_millicores
    if CPU_IN_PLACE not in advice.extra:
        return item
    has_credit = credit is Credit.GRANTED
    if has_credit != advice.has_credit:
        advice = _moved(advice, has_credit=has_credit)
    if credit is Credit.NO_ROOM:
        advice = _foreseen(advice)
    return item if advice is item.cpu_millicores else replace(item, cpu_millicores=advice)


def _moved(advice: Advice, *, has_credit: bool) -> Advice:
    """Return an advice at the other price; what its pod uses beside its containers stays in it."""
    if advice.proposed is None or advice.peak is None:
        return replace(advice, has_credit=has_credit)
    lack = advice.extra[CPU_FULL_PRICE] - advice.extra[CPU_IN_PLACE]
    difference = -lack if has_credit else lack
    own = f"cpu_{OWN_PEAK}"
    extra = {**advice.extra, own: advice.extra[own] + difference} if own in advice.extra else advice.extra
    proposed, peak = advice.proposed + difference, advice.peak + difference
    return replace(advice, proposed=proposed, peak=peak, extra=extra, has_credit=has_credit)


def _foreseen(advice: Advice) -> Advice:
    if advice.peak is None or advice.base is None:
        return advice
    lack = advice.extra[CPU_FULL_PRICE] - advice.extra[CPU_IN_PLACE]
    own = {
        f"cpu_{OWN_BASE}": advice.base,
        f"cpu_{OWN_LIMIT}": float(advice.limit or 0),
        **advice.extra,
    }
    own_peak = min(own.get(f"cpu_{OWN_PEAK}", advice.peak), advice.peak - lack)
    return replace(advice, extra={**own, f"cpu_{OWN_PEAK}": own_peak})
