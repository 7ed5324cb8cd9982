"""``plimsoll.dev/pod-limits`` of a new pod as resources of its own, where the cluster knows such. Core, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent.core.admission.answer import AdmissionFacts, LeftReason
from agent.core.admission.fit import Draft, class_fault, defaultings_of, node_fault, pods_of, with_drafts
from agent.core.admission.limit_ranges import UNIT_NANOS, quota_fault, range_fault
from agent.core.cluster.effective_resources import container_requests
from agent.core.cluster.pod import ContainerKind, Pod, QosClass, Requirements
from agent.core.cluster.pod_defaults import classes_at_creation
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.machine.pod_limits import PodLimitHeld, PodLimitsOrder, pod_limits_order
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.order import Orders
from agent.core.orders.pod_limits import parse_pod_limits
from agent.core.plan.pod_change import Setting

SET: Final = "set as spec.resources"
NOT_SET: Final = "not set as spec.resources"
_BY_AGENT: Final = (
    "left to the agent of its node: API server and kubelets do not all know pod-level resources; "
    "on a node where both do, nothing limits it"
)

_LEFT_TO_AGENT: Final = frozenset({None, PodLimitHeld.VERSION_UNKNOWN, PodLimitHeld.STARTING})
"""What an order is held for whose limits the agent of its node may write yet."""


def order_of(pod: Pod, facts: AdmissionFacts, orders: Orders) -> PodLimitsOrder | None:
    """Return what the annotation comes to at creation; None = there is none, or the pod can have no such limits."""
    if pod.is_static or pod.is_windows:
        return None
    return pod_limits_order(
        pod,
        cluster_knows_them=facts.knows_pod_level_resources,
        orders=orders,
        is_namespace_known=facts.namespace is not None,
    )


def wanted_budget(pod: Pod, order: PodLimitsOrder | None) -> Requirements | None:
    """Return what the annotation states, to be set; None = nothing is."""
    if order is None or order.held is not PodLimitHeld.CLUSTER_KNOWS_THEM:
        return None
    stated = parse_pod_limits(pod.annotations[POD_LIMITS])
    pages = {
        name: amount * NANOS_PER_UNIT
        for name, amount in (*stated.hugepages_request_bytes.items(), *stated.hugepages_limit_bytes.items())
    }
    return Requirements(
        requests=_nanos(stated.cpu_request_millicores, stated.memory_request_bytes) | pages,
        limits=_nanos(stated.cpu_limit_millicores, stated.memory_limit_bytes) | pages,
    )


def fit_pod_limits(pod: Pod, drafts: Sequence[Draft], order: PodLimitsOrder | None) -> None:
    """Leave out growth of requests that limits of the whole pod would not hold which the agent of its node is to write.

    It writes none that are below what the containers request, and takes off those it had written.
    """
    for resource in Resource:
        if is_above_pod_limits(pod, drafts, order, resource):
            for draft in drafts:
                draft.sides[resource].revert_growth(Setting.REQUEST, LeftReason.POD_BUDGET, POD_LIMITS)


def is_above_pod_limits(pod: Pod, drafts: Sequence[Draft], order: PodLimitsOrder | None, resource: Resource) -> bool:
    """Return whether containers would request more together than the pod's annotation states for an agent to write."""
    if order is None or order.held not in _LEFT_TO_AGENT:
        return False
    asked = parse_pod_limits(pod.annotations[POD_LIMITS])
    stated = {
        Resource.CPU: (asked.cpu_limit_millicores, asked.cpu_request_millicores),
        Resource.MEMORY: (asked.memory_limit_bytes, asked.memory_request_bytes),
    }[resource]
    lasting = [draft.sides[resource] for draft in drafts if draft.container.kind is not ContainerKind.INIT]
    inside = sum(side.request or 0 for side in lasting)
    return any(amount is not None and inside > amount for amount in stated)


def _nanos(cpu_millicores: int | None, memory_bytes: int | None) -> dict[str, int]:
    asked = {Resource.CPU: cpu_millicores, Resource.MEMORY: memory_bytes}
    return {resource.value: amount * UNIT_NANOS[resource] for resource, amount in asked.items() if amount is not None}


def limits_of(stated: Requirements | None) -> dict[Resource, int]:
    """Return the limits of CPU and memory that a pod states as a whole, rounded down; millicores or bytes."""
    limits = {} if stated is None else stated.limits
    return {
        resource: limits[resource.value] // UNIT_NANOS[resource] for resource in Resource if resource.value in limits
    }


def budget_resources(pod: Pod, drafts: Sequence[Draft], budget: Requirements) -> Requirements:
    """Return ``spec.resources``: what is asked for, and as requests that are not what the containers request together.

    Requests are stated although the API would fill them in, so that every version counts the same; where no container
    states one, the limit is the request, as the API has it.
    """
    asked = container_requests(with_drafts(pod, drafts))
    filled_in = {name: asked.get(name, 0) or limit for name, limit in budget.limits.items()}
    return Requirements(requests={**filled_in, **budget.requests}, limits=budget.limits)


def class_words(pod: Pod, resources: Requirements) -> str:
    """Return how the QoS class of a pod comes to be another by its budget; empty = it is the same."""
    before, after = computed_qos_class(pod), computed_qos_class(replace(pod, resources=resources))
    return "" if before is after else f"QoS class {after} instead of {before}"


def why_not(pod: Pod, drafts: Sequence[Draft], resources: Requirements, facts: AdmissionFacts) -> str | None:
    """Return why a pod cannot be given resources of its own; None = it can."""
    after = with_drafts(pod, drafts, resources)
    inside = container_requests(after)
    for word, amounts in (("limit", resources.limits), ("request", resources.requests)):
        for name, amount in amounts.items():
            if inside.get(name, 0) > amount:
                return f"an init container requests more {name} than the {word}"
    fault = class_fault(pod, after, defaultings_of(facts))
    if fault is not None and not _is_class_asked_for(pod, after, facts):
        return str(fault)
    lacking = node_fault(pod, after, facts)
    if lacking is not None:
        return f"no node can allocate the {lacking} that it would request"
    for resource in Resource:
        for setting in Setting:
            holder = quota_fault(pod, after, facts.quotas, resource, setting, pods=pods_of(drafts, facts))
            if holder is not None:
                return f"its {resource} has no room in {holder}"
        holder = range_fault(after, facts.limit_ranges, resource)
        if holder is not None:
            return f"{holder} would refuse its {resource}"
    return None


def _is_class_asked_for(pod: Pod, after: Pod, facts: AdmissionFacts) -> bool:
    """Return whether another QoS class is what the budget's author asks for.

    The class is frozen only when the pod is stored. A pod that states nothing of its own has whatever class its budget
    makes; one that is Burstable becomes Guaranteed where the annotation states its requests as well. No class sinks,
    and every API server that may store the pod must come to the same.
    """
    before = computed_qos_class(pod)
    classes = set(classes_at_creation(after, defaultings_of(facts)))
    if len(classes) > 1:
        return False
    if before is QosClass.BEST_EFFORT:
        return True
    is_stated = parse_pod_limits(pod.annotations[POD_LIMITS]).has_requests
    return before is QosClass.BURSTABLE and classes == {QosClass.GUARANTEED} and is_stated


def order_words(order: PodLimitsOrder | None) -> str:
    """Return what becomes of an annotation that is not turned into resources; empty = there is none."""
    if order is None:
        return ""
    return _BY_AGENT if order.held in (None, PodLimitHeld.STARTING) else order.text
