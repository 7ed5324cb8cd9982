"""``plimsoll.dev/pod-limits`` of a new pod as resources of its own, where the cluster knows such. Core, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from agent.core.admission.answer import AdmissionFacts
from agent.core.admission.fit import Draft, class_fault, defaultings_of, node_fault, pods_of, with_drafts
from agent.core.admission.limit_ranges import UNIT_NANOS, quota_fault, range_fault
from agent.core.cluster.effective_resources import container_requests
from agent.core.cluster.pod import Pod, Requirements
from agent.core.cluster.resource import Resource
from agent.core.machine.pod_limits import PodLimitHeld, PodLimitsOrder, pod_limits_order
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.order import Orders
from agent.core.orders.pod_limits import parse_pod_limits
from agent.core.plan.pod_change import Setting

SET: Final = "set as spec.resources"
NOT_SET: Final = "not set as spec.resources"
_BY_AGENT: Final = "left to the agent of its node: API server and kubelets do not all know pod-level resources"

Budget = Mapping[Resource, int]
"""Limits of a pod as a whole, millicores or bytes."""


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


def wanted_budget(pod: Pod, order: PodLimitsOrder | None) -> dict[Resource, int]:
    """Return the limits to set; empty = none."""
    if order is None or order.held is not PodLimitHeld.CLUSTER_KNOWS_THEM:
        return {}
    limits = parse_pod_limits(pod.annotations[POD_LIMITS])
    asked = {Resource.CPU: limits.cpu_limit_millicores, Resource.MEMORY: limits.memory_limit_bytes}
    return {resource: amount for resource, amount in asked.items() if amount is not None}


def own_budget(pod: Pod) -> dict[Resource, int]:
    """Return the limits that the pod came with, rounded down."""
    stated = {} if pod.resources is None else pod.resources.limits
    return {
        resource: stated[resource.value] // UNIT_NANOS[resource] for resource in Resource if resource.value in stated
    }


def budget_resources(pod: Pod, drafts: Sequence[Draft], budget: Budget) -> Requirements:
    """Return ``spec.resources``: the limits, and as requests what the containers request together.

    Requests are stated although the API would fill them in, so that every version counts the same; where no container
    states one, the limit is the request, as the API has it.
    """
    asked = container_requests(with_drafts(pod, drafts))
    limits = {resource.value: amount * UNIT_NANOS[resource] for resource, amount in budget.items()}
    return Requirements(requests={name: asked.get(name, 0) or limit for name, limit in limits.items()}, limits=limits)


def why_not(pod: Pod, drafts: Sequence[Draft], resources: Requirements, facts: AdmissionFacts) -> str | None:
    """Return why a pod cannot be given resources of its own; None = it can."""
    for name, limit in resources.limits.items():
        if resources.requests[name] > limit:
            return f"an init container requests more {name} than the limit"
    after = with_drafts(pod, drafts, resources)
    fault = class_fault(pod, after, defaultings_of(facts))
    if fault is not None:
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


def order_words(order: PodLimitsOrder | None) -> str:
    """Return what becomes of an annotation that is not turned into resources; empty = there is none."""
    if order is None:
        return ""
    return _BY_AGENT if order.held in (None, PodLimitHeld.STARTING) else order.text
