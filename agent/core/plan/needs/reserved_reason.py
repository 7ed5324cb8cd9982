"""Why a pod may not be optimised at all. Core, pure; time is an argument.

The first reason that holds is told, in an order that answers "what would I have to change?": what people ordered to
leave alone, then what the pod is and stays, then orders that lift with a word, then what passes by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agent.core.cluster.pod import CPU, RUNNING, Pod, QosClass
from agent.core.cluster.qos import pod_qos_class
from agent.core.cluster.workload import POD_KIND, RUN_KINDS, Workload
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.orders.annotations import is_placeholder
from agent.core.orders.order import Mode, Orders, RunningJobs
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.resolution import is_excluded, listed
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.needs.share_ticket import share_ticket

_NATIVE_DOMAIN: Final = "kubernetes.io/"


def reserved_reason(
    pod: Pod,
    orders: Orders,
    workload: Workload,
    *,
    now_unix_seconds: float,
    plan: PlanOptions,
    act: ActOptions,
    is_pinned: bool,
    is_namespace_known: bool,
    by_cluster: ReservedReason | None = None,
) -> ReservedReason | None:
    """Return why a pod is only reserved for; None = it may be optimised, once something was measured of it.

    A pod of which nobody knows since when it runs is too young. ``by_cluster`` is what the webhook says of an HPA or
    VPA that sizes it.
    """
    if is_excluded(pod.namespace, act):
        return ReservedReason.EXCLUDED
    if not is_namespace_known:
        return ReservedReason.NAMESPACE_UNKNOWN
    if orders.faults:
        return ReservedReason.FAULTY_ANNOTATION
    if orders.mode is Mode.OFF:
        return ReservedReason.OFF
    lasting = _by_nature(pod, orders, workload, plan) or _by_class(pod, orders) or by_cluster
    if lasting is not None:
        return lasting
    if orders.mode is Mode.RECOMMEND:
        return ReservedReason.RECOMMEND
    share = orders.share_in_force
    if share is not None and not share.holds(share_ticket(pod)):
        return ReservedReason.NOT_IN_SHARE
    if is_pinned:
        return ReservedReason.PINNED
    if may_only_grow(orders, workload):  # else it would be over before it is old enough
        plan = replace(plan, min_age_seconds=0.0)
    return _for_now(pod, plan, now_unix_seconds)


def may_only_grow(orders: Orders, workload: Workload) -> bool:
    """Return whether a pod runs to an end and may grow, and never shrink, while it runs."""
    return workload.kind in RUN_KINDS and orders.jobs is RunningJobs.GROW


def _by_nature(pod: Pod, orders: Orders, workload: Workload, plan: PlanOptions) -> ReservedReason | None:
    if is_placeholder(pod):
        return ReservedReason.PLACEHOLDER
    if pod.is_static:
        return ReservedReason.STATIC
    if pod.is_windows:
        return ReservedReason.WINDOWS
    if workload.kind in RUN_KINDS:  # whatever plan.managedKinds says
        return None if may_only_grow(orders, workload) else ReservedReason.JOB
    if workload.kind in listed(plan.managed_kinds):
        return None
    return ReservedReason.BARE if workload.kind == POD_KIND else ReservedReason.UNKNOWN_OWNER


def _by_class(pod: Pod, orders: Orders) -> ReservedReason | None:
    qos = pod_qos_class(pod)
    if qos is QosClass.BEST_EFFORT:
        return ReservedReason.BEST_EFFORT
    if qos is QosClass.GUARANTEED and not orders.is_guaranteed_allowed:
        return ReservedReason.GUARANTEED
    if qos is QosClass.GUARANTEED and _has_whole_cores(pod):
        return ReservedReason.EXCLUSIVE_CPUS
    return ReservedReason.DEVICES if _has_devices(pod) else None


def _has_whole_cores(pod: Pod) -> bool:
    """Return whether a static CPU manager would give a container CPUs of its own: no node tells whether it has one."""
    requests = (container.resources.requests.get(CPU, 0) for container in pod.sized_containers())
    return any(nanos >= NANOS_PER_UNIT and nanos % NANOS_PER_UNIT == 0 for nanos in requests)


def _has_devices(pod: Pod) -> bool:
    """Return whether the pod holds extended resources, or claims some.

    Source:
        ``IsExtendedResourceName`` of pkg/apis/core/v1/helper: a domain that is not kubernetes.io.
    """
    return pod.has_resource_claims or any(
        amount and "/" in name and _NATIVE_DOMAIN not in name
        for container in pod.sized_containers()
        for amounts in (container.resources.requests, container.resources.limits)
        for name, amount in amounts.items()
    )


def _for_now(pod: Pod, plan: PlanOptions, now_unix_seconds: float) -> ReservedReason | None:
    if pod.is_terminating:
        return ReservedReason.TERMINATING
    if pod.phase != RUNNING:
        return ReservedReason.NOT_RUNNING
    since = pod.started_unix_seconds if pod.started_unix_seconds is not None else pod.created_unix_seconds
    is_old = since is not None and now_unix_seconds - since >= plan.min_age_seconds
    return None if is_old or not plan.min_age_seconds else ReservedReason.TOO_YOUNG
