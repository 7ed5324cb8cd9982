"""Whether one pod may be evicted, by all that is known of it. Core, pure; time is an argument.

Two looks: the first on what the webhook has in memory, which costs nothing; the second on the pod as the API server has
it now. Budgets over time come after both (``budget``), and disruption budgets are the API server's to judge.
Whatever is not known is a reason to leave the pod where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.facts import FrozenAxes, PodPlace
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import HOLDING_ANNOTATIONS, SYSTEM_CRITICAL_PRIORITY, Pod, QosClass
from agent.core.cluster.qos import pod_qos_class
from agent.core.cluster.resource import Resource
from agent.core.cluster.vpa import EvictionChangeRequirement, EvictionRequirement
from agent.core.cluster.workload import DAEMON_SET_KIND, Workload, workload_of
from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.proposal import Proposal, Reason, Ruling
from agent.core.numbers.amount_text import amount_text
from agent.core.orders.order import Mode, Orders, Ranking
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.orders.resolution import is_excluded, listed
from agent.core.orders.windows import Disruption, Windows, wait_of
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.needs.reserved_reason import reserved_reason
from agent.core.plan.node_room import counted
from agent.core.plan.pod_change import actuated

_STANDING: Final[Mapping[ReservedReason, Reason]] = {
    ReservedReason.OFF: Reason.MODE,
    ReservedReason.RECOMMEND: Reason.MODE,
    ReservedReason.NOT_IN_SHARE: Reason.MODE,
    ReservedReason.EXCLUDED: Reason.PROTECTED,
    ReservedReason.NAMESPACE_UNKNOWN: Reason.FACTS_UNKNOWN,
    ReservedReason.FAULTY_ANNOTATION: Reason.FAULTY_ANNOTATION,
    ReservedReason.GUARANTEED: Reason.GUARANTEED,
    ReservedReason.EXCLUSIVE_CPUS: Reason.GUARANTEED,
    ReservedReason.TOO_YOUNG: Reason.TOO_YOUNG,
    ReservedReason.NOT_RUNNING: Reason.NOT_RUNNING,
    ReservedReason.TERMINATING: Reason.TERMINATING,
}
"""What ``reserved_reason`` says, in the words of a ruling; all else is what the pod is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbiterRules:
    """What was configured for all pods."""

    arbiter: ArbiterOptions
    act: ActOptions
    """Its mode is what holds for the pod's workload by the cluster's rules, else the configured one."""
    plan: PlanOptions
    bounds: BoundsOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What the cluster says of the workload that the pod belongs to."""

    frozen: FrozenAxes
    left_alone_for: str | None
    """``VerticalPodAutoscaler shop/web``; None = nobody else sets its requests."""
    autoscaler: str = ""
    """``VPA shop/web`` of ours, which says the two below; empty = there is none."""
    running: int | None = None
    """Pods of the workload that run; None = not known."""
    min_replicas: int | None = None
    """With fewer that run nobody is evicted; None = as ``arbiter.singleReplicas`` and the share say."""
    requirements: tuple[EvictionRequirement, ...] = ()
    """All must hold of a pod that is evicted."""


def first_look(
    proposal: Proposal, node: str, place: PodPlace | None, owner: Owner | None, rules: ArbiterRules
) -> Ruling | None:
    """Return what speaks against an eviction by what is in memory; None = nothing, read the pod.

    The node is the one that the token names, never what the body says; the place is that of the pod with the proposal's
    uid, and the owner that of its workload.
    """
    ref = proposal.ref
    if place is None or owner is None:
        return Ruling(reason=Reason.UNKNOWN_POD, detail=f"no pod with uid {ref.uid} is known")
    if place.node != node:
        return Ruling(reason=Reason.OTHER_NODE, detail=f"it runs on {place.node or 'no node'}, not on {node}")
    if (place.namespace, place.name) != (ref.namespace, ref.name):
        named = f"uid {ref.uid} is of {place.namespace}/{place.name}, not of {ref}"
        return Ruling(reason=Reason.UNKNOWN_POD, detail=named)
    if place.is_terminating:
        return Ruling(reason=Reason.TERMINATING, detail="it is going already")
    if not place.is_running:
        return Ruling(reason=Reason.NOT_RUNNING, detail="it does not run")
    return _by_namespace(place.namespace, rules) or _by_workload(place.workload, proposal, owner, rules)


def second_look(
    proposal: Proposal,
    node: str,
    pod: Pod,
    orders: Orders,
    namespace: Namespace | None,
    rules: ArbiterRules,
    *,
    now_unix_seconds: float,
) -> Ruling | None:
    """Return what speaks against an eviction by the pod as the API server has it now; None = nothing."""
    if pod.uid != proposal.ref.uid:
        return Ruling(reason=Reason.GONE, detail=f"{proposal.ref} is another pod now, uid {pod.uid}")
    if pod.node_name != node:
        return Ruling(reason=Reason.OTHER_NODE, detail=f"it runs on {pod.node_name or 'no node'}, not on {node}")
    workload = workload_of(pod)
    if workload.kind == DAEMON_SET_KIND:
        return Ruling(reason=Reason.DAEMON_SET, detail="pods of DaemonSets are never evicted")
    if pod.priority is not None and pod.priority >= SYSTEM_CRITICAL_PRIORITY:
        return Ruling(reason=Reason.PROTECTED, detail=f"priority {pod.priority} is kept for the system")
    held = next((key for key, value in HOLDING_ANNOTATIONS.items() if pod.annotations.get(key) == value), None)
    if held is not None:
        return Ruling(reason=Reason.HELD, detail=f"annotation {held}: {pod.annotations[held]}")
    return _by_orders(pod, orders, workload, namespace, rules, now_unix_seconds)


def window_ruling(windows: Windows, *, now_unix_seconds: float, rules: ArbiterRules) -> Ruling | None:
    """Postpone an eviction that cannot end, its replacement warm, inside the times for it; None = it can."""
    wait = wait_of(windows, Disruption.EVICT, now_unix_seconds, rules.arbiter.replacement_seconds)
    return None if wait is None else Ruling(reason=Reason.WINDOW, detail=f"outside its windows, {wait.words}")


def gain_ruling(proposal: Proposal, pod: Pod, replacement: Pod) -> Ruling | None:
    """Refuse an eviction after which nothing would be different; None = its replacement is admitted with more.

    The pod has the largest of what it requests, what is allocated and what is in force.
    """
    resource = proposal.want.resource
    now, then = _now_and_then(pod, replacement, resource)
    if then > now:
        return None
    has, would = amount_text(now, resource.unit), amount_text(then, resource.unit)
    detail = f"it has {has} of {resource}, its replacement would be admitted with {would}: it would come back"
    return Ruling(reason=Reason.NOT_MORE, detail=detail)


def requirements_ruling(owner: Owner, pod: Pod, targets: Mapping[Resource, Pod | Ruling]) -> Ruling | None:
    """Refuse an eviction that an autoscaler's object does not want; None = all that it requires holds.

    Source:
        ``scaling_direction_pod_eviction_admission.go`` of VPA's updater: all entries, in each of them one resource.

    Args:
        owner: What the object says.
        pod: As it runs.
        targets: By resource, the pod with the requests that its replacement would have, or why these are not known.
    """
    for requirement in owner.requirements:
        if not any(_stands(pod, targets.get(resource), resource, requirement) for resource in requirement.resources):
            wanted = ", ".join(requirement.resources) or "no resource"
            detail = f"{owner.autoscaler} wants {requirement.direction} of {wanted}, which does not hold"
            return Ruling(reason=Reason.NO_EVICTION, detail=detail)
    return None


def _stands(pod: Pod, replacement: Pod | Ruling | None, resource: Resource, requirement: EvictionRequirement) -> bool:
    if replacement is None or isinstance(replacement, Ruling):
        return False
    now, then = _now_and_then(pod, replacement, resource)
    return then > now if requirement.direction is EvictionChangeRequirement.HIGHER else then < now


def _now_and_then(pod: Pod, replacement: Pod, resource: Resource) -> tuple[int, int]:
    """Return what a pod holds of its node and what its replacement would, overhead once each; millicores or bytes."""
    # What the replacement reports is of the pod that it is made of.
    now, then = counted(pod), counted(actuated(replacement))
    return (now[0], then[0]) if resource is Resource.CPU else (now[1], then[1])


def _by_namespace(namespace: str, rules: ArbiterRules) -> Ruling | None:
    if is_excluded(namespace, rules.act):
        return Ruling(reason=Reason.PROTECTED, detail=f"namespace {namespace} is in act.excludedNamespaces")
    if namespace in listed(rules.arbiter.protected_namespaces):
        return Ruling(reason=Reason.PROTECTED, detail=f"namespace {namespace} is one of the protected ones")
    return None


def _by_workload(workload: Workload, proposal: Proposal, owner: Owner, rules: ArbiterRules) -> Ruling | None:
    if workload.kind == DAEMON_SET_KIND:
        return Ruling(reason=Reason.DAEMON_SET, detail="pods of DaemonSets are never evicted")
    resource = proposal.want.resource
    if resource is Resource.MEMORY and not rules.plan.memory_applied:
        return Ruling(reason=Reason.NOT_APPLIED, detail="plan.memoryApplied is off: nobody goes for want of memory")
    alone = ControlledResources.CPU if resource is Resource.MEMORY else ControlledResources.MEMORY
    if rules.bounds.controlled_resources is alone:
        return Ruling(reason=Reason.NOT_APPLIED, detail=f"bounds.controlledResources leaves {resource} out")
    if owner.left_alone_for is not None:
        return Ruling(reason=Reason.VPA, detail=f"{owner.left_alone_for} sets its requests")
    if owner.min_replicas is not None and (owner.running is None or owner.running < owner.min_replicas):
        has = "an unknown number" if owner.running is None else str(owner.running)
        detail = f"{owner.autoscaler} wants {owner.min_replicas} pods that run (minReplicas); {has} do"
        return Ruling(reason=Reason.NO_EVICTION, detail=detail)
    frozen_for = owner.frozen.cpu_for if resource is Resource.CPU else owner.frozen.memory_for
    if frozen_for is not None:
        return Ruling(reason=Reason.HPA, detail=f"{frozen_for} scales on {resource}: requests stay as they are")
    return None


def _by_orders(
    pod: Pod,
    orders: Orders,
    workload: Workload,
    namespace: Namespace | None,
    rules: ArbiterRules,
    now_unix_seconds: float,
) -> Ruling | None:
    if pod_qos_class(pod) is QosClass.GUARANTEED:
        return Ruling(reason=Reason.GUARANTEED, detail="pods of class Guaranteed are never evicted")
    reserved = reserved_reason(
        pod,
        orders,
        workload,
        now_unix_seconds=now_unix_seconds,
        plan=rules.plan,
        act=rules.act,
        is_pinned=False,
        is_namespace_known=namespace is not None,
    )
    if reserved is not None:
        reason = _STANDING.get(reserved, Reason.NOT_MANAGED)
        return Ruling(reason=reason, detail=_reserved_text(reserved, pod, orders, workload, rules))
    if orders.mode is Mode.PROTECT:
        detail = f"mode {orders.mode}, by {orders.mode_source}: nobody is evicted in it"
        return Ruling(reason=Reason.MODE, detail=detail)
    if orders.ranking is Ranking.NO_EVICTION:
        return Ruling(reason=Reason.NO_EVICTION, detail=f"ranking no-eviction, by {orders.ranking_source}")
    return None


def _reserved_text(reserved: ReservedReason, pod: Pod, orders: Orders, workload: Workload, rules: ArbiterRules) -> str:
    if reserved in (ReservedReason.OFF, ReservedReason.RECOMMEND):
        return f"mode {orders.mode}, by {orders.mode_source}"
    if reserved is ReservedReason.NOT_IN_SHARE:
        return f"not in the enforced share of {orders.enforce_share}, by {orders.enforce_share_source}"
    if reserved is ReservedReason.FAULTY_ANNOTATION:
        return "; ".join(str(fault) for fault in orders.faults)
    if reserved is ReservedReason.NAMESPACE_UNKNOWN:
        return f"namespace {pod.namespace} is not known yet"
    if reserved is ReservedReason.TOO_YOUNG:
        return f"younger than plan.minAgeSeconds, {rules.plan.min_age_seconds:g} s"
    return f"{reserved.value.replace('_', ' ')}; {workload.kind} {workload.name}"
