"""Joins what was recommended for containers with the pods of a node: what the planner starts from. Core, pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import Container, ContainerKind, Pod
from agent.core.cluster.resource import LARGEST, Resource
from agent.core.cluster.workload import RUN_KINDS, Workload, workload_of
from agent.core.orders.order import Mode, Orders
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.orders.resolution import orders_of, windows_unread
from agent.core.orders.windows import NO_WAITS, Waits, Windows, waits_of
from agent.core.plan.needs.demand import ContainerDemand, Demand, PodDemand, ReservedReason, Urgent
from agent.core.plan.needs.directives import NOTHING_TOLD, NodeDirectives
from agent.core.plan.needs.given_boost import standing_boost
from agent.core.plan.needs.reserved_reason import reserved_reason
from agent.core.recommender.calm_falls import CalmFalls, calm_falls_of
from agent.core.recommender.recommendation import (
    OWN_BASE,
    OWN_LIMIT,
    OWN_PEAK,
    Advice,
    Bound,
    Recommendation,
    Withheld,
)

Key = tuple[str, str]
"""Uid of the pod, or its configuration's hash if it is static, and name of the container."""

FLOAT_NOISE: Final = 1e-9
"""0.25 cores x 1000 is 250 millicores, not 251; as in ``bounds``."""
_NOTHING_URGENT: Final[Mapping[Key, Urgent]] = {}
_CALM: Final = Urgent()


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSettings:
    """The parts of the settings that demands are made by."""

    act: ActOptions
    plan: PlanOptions
    bounds: BoundsOptions
    policy: PolicyName


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What the sampler saw last, beside the recommendations; a container that is missing is not known."""

    memory_current_bytes: Mapping[Key, int] = field(default_factory=dict)
    """Page cache included: what a memory limit must stay above."""
    working_set_bytes: Mapping[Key, int] = field(default_factory=dict)
    """What a memory request must not fall below, times ``bounds.memoryInUseRatio``."""
    cpu_pressure: frozenset[Key] = frozenset()
    """Containers whose cpu.pressure was read in the last seconds."""


NOTHING_MEASURED: Final = Measurements()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the demand of any container of the node is made of."""

    node: Node | None
    index: Mapping[Key, Recommendation]
    urgent: Mapping[Key, Urgent]
    measured: Measurements
    settings: DemandSettings
    calm_falls: CalmFalls


def demands(
    state: NodeState,
    recommendations: Iterable[Recommendation],
    *,
    settings: DemandSettings,
    pinned: frozenset[str],
    barred: Callable[[Workload], bool],
    now_unix_seconds: float,
    urgent: Mapping[Key, Urgent] = _NOTHING_URGENT,
    measured: Measurements = NOTHING_MEASURED,
    directed: NodeDirectives = NOTHING_TOLD,
    limit_held: Callable[[Workload, str], bool] = lambda workload, container: False,
    as_enforced: bool = False,
    read_windows: Callable[[str], Windows] = windows_unread,
) -> tuple[PodDemand, ...]:
    """Return what every pod of the node needs, in the order of the state; each pod by itself, whatever ails the others.

    Of two recommendations for one container (it was restarted) that of its present run counts, else the one with the
    newest reading. What is urgent is the least demand. ``barred`` says whether a workload may not be shrunk for now,
    ``limit_held`` whether a container's memory limit may not rise again yet. With ``as_enforced`` mode recommend is
    treated as enforce, to see what would be done.
    """
    known = _Known(
        node=state.node,
        index=_index(recommendations, state.pods),
        urgent=urgent,
        measured=measured,
        settings=settings,
        calm_falls=calm_falls_of(settings.act),
    )
    waits: dict[str, Waits] = {}
    pod_demands: list[PodDemand] = []
    for pod in state.pods:
        workload = workload_of(pod)
        orders = orders_of(
            pod,
            state.namespaces.get(pod.namespace),
            act=settings.act,
            recommend_policy=settings.policy,
            plan=settings.plan,
            replicas=directed.replicas(workload),
            rule=directed.rule(workload),
            autoscaler=directed.autoscaler(workload),
            read_windows=read_windows,
        )
        if as_enforced and orders.mode is Mode.RECOMMEND:
            orders = replace(orders, mode=Mode.ENFORCE)
        if as_enforced:
            orders = replace(orders, enforce_share=None)
        reserved = reserved_reason(
            pod,
            orders,
            workload,
            now_unix_seconds=now_unix_seconds,
            plan=settings.plan,
            act=settings.act,
            is_pinned=pod.uid in pinned,
            is_namespace_known=pod.namespace not in state.unknown_namespaces,
            by_cluster=directed.reserved(workload, orders.share_in_force),
        )
        frozen = directed.frozen_axes(workload)
        containers = tuple(
            _container_demand(
                pod,
                container,
                known,
                most_limit_bytes=_most_limit_bytes(
                    container, orders, known, is_held=limit_held(workload, container.name)
                ),
            )
            for container in (*filter(_runs_on, pod.init_containers), *pod.containers)
        )
        if reserved is None and all(container.cpu is None and container.memory is None for container in containers):
            reserved = ReservedReason.NO_DATA
        windows = orders.windows if reserved is None else None  # nothing waits of a pod that is left alone
        if windows is not None and windows not in waits:
            lasting_seconds = settings.act.deferred_patience_seconds
            waits[windows] = waits_of(read_windows(windows), now_unix_seconds, lasting_seconds)
        pod_demands.append(
            PodDemand(
                pod=pod,
                workload=workload,
                orders=orders,
                reserved=reserved,
                containers=containers,
                is_cpu_frozen=frozen.cpu_for is not None,
                is_memory_frozen=frozen.memory_for is not None,
                cpu_frozen_containers=frozen.cpu_containers,
                memory_frozen_containers=frozen.memory_containers,
                boost=standing_boost(pod),
                is_shrink_barred=barred(workload) or directed.is_shrink_barred(workload) or workload.kind in RUN_KINDS,
                waits=NO_WAITS if windows is None else waits[windows],
            )
        )
    return tuple(pod_demands)


def _runs_on(container: Container) -> bool:
    return container.kind is ContainerKind.SIDECAR


def _index(recommendations: Iterable[Recommendation], pods: Iterable[Pod]) -> dict[Key, Recommendation]:
    """Find recommendations by uid and container, of the run that goes on where there are two."""
    running = {
        (pod.cgroup_uid, status.name): status.container_id
        for pod in pods
        for status in pod.statuses
        if status.container_id is not None
    }
    newest: dict[Key, Recommendation] = {}

    def rank(recommendation: Recommendation) -> tuple[bool, float]:
        identity = recommendation.identity
        is_present = running.get((identity.pod_uid or "", identity.container or "")) == identity.container_id
        age_seconds = recommendation.basis.sample_age_seconds
        return is_present, -(age_seconds if age_seconds is not None else math.inf)

    for recommendation in recommendations:
        if recommendation.identity.pod_uid is None or recommendation.identity.container is None:
            continue
        key = (recommendation.identity.pod_uid, recommendation.identity.container)
        if key not in newest or rank(recommendation) >= rank(newest[key]):
            newest[key] = recommendation
    return newest


def _container_demand(
    pod: Pod, container: Container, known: _Known, *, most_limit_bytes: int | None
) -> ContainerDemand:
    key = (pod.cgroup_uid, container.name)
    recommendation = known.index.get(key)
    pressing = known.urgent.get(key, _CALM)
    cpu = recommendation.cpu_millicores if recommendation is not None else None
    memory = recommendation.memory_bytes if recommendation is not None else None
    cpu_demand = _cpu_demand(cpu, container, pressing, known)
    memory_demand = _memory_demand(memory, container, pressing, known)
    if memory_demand is not None:
        memory_demand = _above_use(memory_demand, key, container, pressing, known)
        memory_demand = _with_limits(memory_demand, recommendation, container, pressing, known, most_limit_bytes)
    if recommendation is not None and recommendation.policy == PolicyName.VPA:
        cpu_demand = None if cpu_demand is None else replace(cpu_demand, is_limit_proportional=True)
        if memory_demand is not None and not memory_demand.is_urgent:
            memory_demand = replace(memory_demand, is_limit_proportional=True)
    return ContainerDemand(
        name=container.name,
        kind=container.kind,
        cpu=cpu_demand,
        memory=memory_demand,
        cpu_withheld=_withheld(cpu, cpu_demand),
        memory_withheld=_withheld(memory, memory_demand),
    )


def _cpu_demand(advice: Advice | None, container: Container, pressing: Urgent, known: _Known) -> Demand | None:
    request, urgent = container.resources.cpu_request_millicores, pressing.cpu_millicores
    demand = _demand(advice, request, urgent, is_past=pressing.is_past)
    if advice is None or demand is None:
        return demand
    if advice.has_credit:
        demand = replace(demand, calm_falls=known.calm_falls)
    return _with_own(advice, demand, Resource.CPU, urgent, known.node)


def _memory_demand(advice: Advice | None, container: Container, pressing: Urgent, known: _Known) -> Demand | None:
    """Return the demand by advice and urgency alone."""
    stated, urgent = container.resources, pressing.memory_bytes
    demand = _demand(advice, stated.memory_request_bytes, urgent, is_past=pressing.is_past)
    if advice is None or demand is None:
        return demand
    demand = _with_own(advice, demand, Resource.MEMORY, urgent, known.node)
    return _within_limit(demand, stated.memory_limit_bytes) if Bound.LIMIT_UNFILLED in advice.bounds else demand


def _above_use(demand: Demand, key: Key, container: Container, pressing: Urgent, known: _Known) -> Demand:
    """Return a demand of memory that asks for no less than what is in use, or what the runtime has to have.

    With it goes what else was seen of the container.
    """
    held = math.ceil(known.measured.working_set_bytes.get(key, 0) * known.settings.bounds.memory_in_use_ratio)
    needed = 0 if container.runtime is None else container.runtime.request_floor_bytes(demand.peak)
    held = max(held, min(needed, container.resources.memory_request_bytes or 0))
    least = max(held, needed)
    base = max(demand.base, least)
    return replace(
        demand,
        base=base,
        peak=max(base, demand.peak),
        sustained=_at_least(least, demand.sustained),
        sustained_peak=_at_least(least, demand.sustained_peak),
        in_use=known.measured.memory_current_bytes.get(key),
        held=held or None,
        short=pressing.memory_short if demand.is_urgent else None,
    )


def _with_limits(
    demand: Demand,
    recommendation: Recommendation | None,
    container: Container,
    pressing: Urgent,
    known: _Known,
    most_limit_bytes: int | None,
) -> Demand:
    """Return a demand of memory with the limits that may be written: no fall after so short a time, none too high."""
    plan, stated, urgent = known.settings.plan, container.resources.memory_limit_bytes, pressing.memory_limit_bytes
    advised = demand.limit
    if advised is None and _is_pair_advised(container, recommendation):
        advised = stated  # no change is advised; without a limit it would be wished down to its peak
    advised = _known_long_enough(advised, stated, recommendation, plan)
    foreseen = demand.foreseen_limit
    if foreseen is not None:
        foreseen = _known_long_enough(foreseen, stated, recommendation, plan)
        foreseen = _limit(foreseen, stated, urgent, most_limit_bytes)
    return replace(
        demand,
        sustained_limit=None if urgent is None else advised or 0,
        limit=_limit(advised, stated, urgent, most_limit_bytes),
        foreseen_limit=foreseen,
        is_limit_read=recommendation is not None and Bound.READ_AT_START in recommendation.memory_bytes.bounds,
        is_limit_young=recommendation is not None
        and recommendation.basis.memory_measured_seconds < plan.memory_limit_history_seconds,
    )


def _is_pair_advised(container: Container, recommendation: Recommendation | None) -> bool:
    """Return whether a memory request that is its own limit is what is advised."""
    request_bytes, limit_bytes = container.resources.memory_request_bytes, container.resources.memory_limit_bytes
    return recommendation is not None and request_bytes == limit_bytes == recommendation.memory_bytes.request


def _demand(advice: Advice | None, request: int | None, urgent: int | None, *, is_past: bool) -> Demand | None:
    """Return the demand of one resource; None = there is no prediction, and nothing is urgent.

    With ``is_past`` the urgent demand was seen a while ago: it is a peak, and no demand by itself.
    """
    if advice is not None and advice.request is not None:
        base = _whole(advice.base if advice.base is not None else advice.proposed, advice.request)
        peak = _whole(advice.peak if advice.peak is not None else advice.proposed, advice.request)
        limit, is_upward_only = advice.limit, advice.is_upward_only
    elif urgent is not None and not (advice is not None and advice.withheld is Withheld.NOT_CONTROLLED):
        # Not predicted yet, but seen: it may grow to that, and nothing else.
        base = peak = request or 0
        limit, is_upward_only = None, True
    else:
        return None
    if urgent is None:
        return Demand(base=base, peak=max(base, peak), limit=limit, is_upward_only=is_upward_only)
    pressing = base if is_past else max(base, urgent)
    lasting = max(base, peak)
    is_all_sustained = urgent <= base or (is_past and urgent <= lasting)
    return Demand(
        base=pressing,
        peak=max(lasting, urgent),
        limit=limit,
        is_upward_only=is_upward_only,
        is_urgent=not is_past,
        sustained=None if is_all_sustained else base,
        sustained_peak=None if is_all_sustained else lasting,
    )


def _with_own(advice: Advice, demand: Demand, resource: Resource, urgent: int | None, node: Node | None) -> Demand:
    """Return a demand by what this node saw; what others saw is foreseen, no more than the node has."""
    own_base = advice.extra.get(f"{resource}_{OWN_BASE}")
    if own_base is None:
        return demand
    own_peak, own_limit = advice.extra[f"{resource}_{OWN_PEAK}"], advice.extra[f"{resource}_{OWN_LIMIT}"]
    base = _whole(own_base, 0)
    peak = max(base, _whole(own_peak, base))
    allocatable = None
    if node is not None:
        is_cpu = resource is Resource.CPU
        allocatable = node.allocatable_cpu_millicores if is_cpu else node.allocatable_memory_bytes
    foreseen_base = demand.base if demand.sustained is None else demand.sustained
    foreseen_peak = demand.peak if demand.sustained_peak is None else demand.sustained_peak
    if allocatable is not None:
        foreseen_base, foreseen_peak = min(foreseen_base, allocatable), min(foreseen_peak, allocatable)
    if demand.is_upward_only:  # once raised it could not fall again, and would count as its own need
        foreseen_base = foreseen_peak = base
    pressing = base if urgent is None or not demand.is_urgent else max(base, urgent)
    return replace(
        demand,
        base=pressing,
        peak=max(peak, urgent or 0),
        limit=int(own_limit) or None,
        sustained=None if urgent is None else base,
        sustained_peak=None if urgent is None else peak,
        foreseen_base=foreseen_base,
        foreseen_peak=max(foreseen_base, foreseen_peak),
        foreseen_limit=demand.limit,
    )


def _within_limit(demand: Demand, limit: int | None) -> Demand:
    """Return a demand that raises no limit which is of no use; what was seen in the last seconds may."""
    if limit is None or demand.is_urgent:
        return demand
    return replace(
        demand,
        base=min(demand.base, limit),
        peak=min(demand.peak, limit),
        limit=_at_most(limit, demand.limit),
        sustained=_at_most(limit, demand.sustained),
        sustained_peak=_at_most(limit, demand.sustained_peak),
        foreseen_base=_at_most(limit, demand.foreseen_base),
        foreseen_peak=_at_most(limit, demand.foreseen_peak),
        foreseen_limit=_at_most(limit, demand.foreseen_limit),
    )


def _at_most(most: int, amount: int | None) -> int | None:
    return None if amount is None else min(most, amount)


def _at_least(least: int, amount: int | None) -> int | None:
    return None if amount is None else max(least, amount)


def _known_long_enough(
    advised: int | None, stated: int | None, recommendation: Recommendation | None, plan: PlanOptions
) -> int | None:
    """Return the limit that is advised, but none that falls on the word of a container that was not known for long."""
    if advised is None or stated is None or advised >= stated or recommendation is None:
        return advised
    is_known = recommendation.basis.memory_measured_seconds >= plan.memory_limit_history_seconds
    return advised if is_known else None


def _limit(advised: int | None, stated: int | None, urgent: int | None, most: int | None) -> int | None:
    """Return what a memory limit should become; an urgent one is only ever raised, and a first one is never set.

    It is raised no further than ``most``; one that is higher already stays.
    """
    if stated is None:
        return advised
    wished = advised if urgent is None else max(advised or 0, stated, urgent)
    if wished is None or most is None:
        return wished
    return min(wished, max(most, stated))


def _most_limit_bytes(container: Container, orders: Orders, known: _Known, *, is_held: bool) -> int | None:
    """Return the most that a memory limit may be raised to: what was ordered for it, else what the node has.

    A limit costs no room, so nothing else would stop one that follows a leak; past the node's memory it is none. One
    that is held for now does not rise.
    """
    if is_held:
        return container.resources.memory_limit_bytes
    most = orders.bounds_of(container.name, Resource.MEMORY)[1]
    ordered = most if most is not None else known.settings.bounds.max_memory_bytes
    allocatable = known.node.allocatable_memory_bytes if known.node is not None else None
    amounts = [amount for amount in (ordered, allocatable) if amount is not None]
    return min(amounts, default=None)


def _whole(amount: float | None, otherwise: int) -> int:
    """Round up; what is not known, or no number, is what was recommended in the end."""
    if amount is None or not math.isfinite(amount):
        return otherwise
    return math.ceil(min(max(amount, 0.0), LARGEST) - FLOAT_NOISE)


def _withheld(advice: Advice | None, demand: Demand | None) -> Withheld | None:
    if demand is not None:
        return None
    return advice.withheld if advice is not None and advice.withheld is not None else Withheld.NO_DATA
