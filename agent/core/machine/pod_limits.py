"""Limits of whole pods by the annotation ``plimsoll.dev/pod-limits``: what it says, what to write for it. Core, pure.

The containers of a pod share one budget. Where API server and kubelet know pod-level resources (1.34 and newer) the
webhook turns the annotation into ``spec.resources``; elsewhere the agent may write the pod's own cgroup. What it writes
is never looser than what the kubelet would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import CPU, MEMORY, Container, ContainerKind, ContainerState, Pod, has_ended
from agent.core.cluster.versions import Version, parse_version
from agent.core.machine.allocated_pod import allocated_pod
from agent.core.machine.cgroup_files import CPU_MAX, MEMORY_MAX, Amount, Unlimited
from agent.core.machine.cgroup_values import KubeletRules, pod_cgroup
from agent.core.machine.cpu_knobs import DEFAULT_PERIOD_USEC, NO_QUOTA_USEC, CpuMax, millicores_to_quota
from agent.core.numbers.amount_text import BYTES, MILLICORES, amount_text
from agent.core.numbers.units import INT64_MAX, to_millis, to_units
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.order import Mode, Orders, OrderSource
from agent.core.orders.pod_limits import POD_LIMITS_ALLOWED, PodLimits, PodLimitsError, parse_pod_limits

POD_LEVEL: Final = Version(1, 34)


class PodLimitHeld(StrEnum):
    """Why nothing is written for a pod that asks for limits. Also a metric label."""

    OFF = "off"
    """Mode off, an excluded namespace among it."""
    NAMESPACE_UNKNOWN = "namespace_unknown"
    """What its namespace orders is not known."""
    FAULTY_ANNOTATION = "faulty_annotation"
    """This annotation is not understood, or another: then the pod is treated as off."""
    BELOW_REQUESTS = "below_requests"
    """It contradicts itself or the containers: a limit below a request, or either below what they request."""
    POD_LEVEL_RESOURCES = "pod_level_resources"
    """``spec.resources`` is set: the kubelet limits the pod."""
    CLUSTER_KNOWS_THEM = "cluster_knows_them"
    """API server and kubelet know pod-level resources: the webhook sets them when the pod is made anew, once every
    Linux node knows them."""
    VERSION_UNKNOWN = "version_unknown"
    STARTING = "starting"
    """Its init containers have not ended: they are not limited."""
    ENDING = "ending"


TAKEN_BACK: Final = frozenset({PodLimitHeld.OFF, PodLimitHeld.FAULTY_ANNOTATION, PodLimitHeld.BELOW_REQUESTS})
"""Where limits written before are taken back; under the other reasons they stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimitsOrder:
    """What the annotation of one pod comes to."""

    wanted: Mapping[str, Amount]
    """By file name: ``cpu.max`` and ``memory.max``, as far as asked for; empty = nothing is to be written."""
    held: PodLimitHeld | None = None
    """Why ``wanted`` is empty."""
    text: str = ""
    """One sentence for people, where ``held``."""
    warnings: tuple[str, ...] = ()


def cluster_knows_pod_level(server_version: str | None, kubelet_version: str | None) -> bool | None:
    """Return whether pods may have resources of their own here.

    Returns:
        True = both are 1.34 or newer; False = one of them is older; None = it cannot be told.

    Source:
        KEP-2837: beta and on by default from 1.34.
    """
    versions = [parse_version(server_version), parse_version(kubelet_version)]
    if any(version is not None and version < POD_LEVEL for version in versions):
        return False
    return None if None in versions else True


def pod_limits_order(
    pod: Pod,
    *,
    cluster_knows_them: bool | None,
    rules: KubeletRules | None = None,
    orders: Orders | None = None,
    is_namespace_known: bool = True,
) -> PodLimitsOrder | None:
    """Return what the pod's annotation comes to.

    Args:
        cluster_knows_them: Whether both the API server and this node's kubelet have pod-level resources (1.34 or
            newer); None = a version is not known.
        orders: What holds for the pod; None = whether anything may be written for it is not asked.
        is_namespace_known: The orders were made with what its namespace says.

    Returns:
        What to write, or why nothing; None = the pod has no such annotation, or is static: the API takes no limits
        for those, and their cgroups are the node's own business.
    """
    text = pod.annotations.get(POD_LIMITS)
    if text is None or pod.is_static:
        return None
    withheld = None if orders is None else _by_orders(orders, is_namespace_known=is_namespace_known)
    if withheld is not None:
        return withheld
    try:
        limits = parse_pod_limits(text)
    except PodLimitsError as error:
        return _held(PodLimitHeld.FAULTY_ANNOTATION, f"{error}; allowed: {POD_LIMITS_ALLOWED}")
    if pod.resources is not None and pod.has_pod_level_resources:
        return _held(PodLimitHeld.POD_LEVEL_RESOURCES, "the pod has resources of its own (spec.resources)")
    if cluster_knows_them is None:
        return _held(PodLimitHeld.VERSION_UNKNOWN, "the version of the API server or of the kubelet is not known")
    refused = _contradiction(pod, limits)
    if refused is not None:
        return _held(PodLimitHeld.BELOW_REQUESTS, refused)
    warnings = _warnings(pod, limits) + (() if cluster_knows_them else _not_of_cgroups(limits))
    if cluster_knows_them:
        reason = (
            "API server and node know pod-level resources: the webhook sets them when the pod is made anew, once every "
            "Linux node knows them"
        )
        return PodLimitsOrder(wanted={}, held=PodLimitHeld.CLUSTER_KNOWS_THEM, text=reason, warnings=warnings)
    if pod.is_terminating or has_ended(pod):
        return _held(PodLimitHeld.ENDING, "the pod is ending")
    if pod.phase != "Running" or not all(_has_ended(pod, init_container) for init_container in pod.init_containers):
        reason = "written when the init containers have ended"
        return PodLimitsOrder(wanted={}, held=PodLimitHeld.STARTING, text=reason, warnings=warnings)
    return PodLimitsOrder(wanted=_wanted(pod, limits, rules or KubeletRules()), warnings=warnings)


def _by_orders(orders: Orders, *, is_namespace_known: bool) -> PodLimitsOrder | None:
    """Return why nothing is written for a pod whatever its limits are; None = it may be."""
    if orders.mode is Mode.OFF and orders.mode_source is OrderSource.RULE:
        return _held(PodLimitHeld.OFF, "its namespace is one of act.excludedNamespaces")
    if not is_namespace_known:
        return _held(PodLimitHeld.NAMESPACE_UNKNOWN, "what its namespace orders is not known")
    faults = [str(fault) for fault in orders.faults if fault.source is not OrderSource.SPEC]
    if faults:
        return _held(PodLimitHeld.FAULTY_ANNOTATION, "; ".join(faults))
    if orders.mode is not Mode.OFF or orders.mode_source is OrderSource.SPEC:
        return None  # a budget is no resize: its author states it, whatever a heap may be
    return _held(PodLimitHeld.OFF, f"mode {orders.mode} by the {orders.mode_source}")


def _held(held: PodLimitHeld, text: str) -> PodLimitsOrder:
    return PodLimitsOrder(wanted={}, held=held, text=text)


def _has_ended(pod: Pod, container: Container) -> bool:
    if container.kind is ContainerKind.SIDECAR:
        return True
    status = pod.status_of(container.name)
    return status is not None and status.state is ContainerState.TERMINATED


def _lasting(pod: Pod) -> tuple[Container, ...]:
    """Return the containers that share the budget: init containers have ended before it holds."""
    return tuple(container for container in pod.sized_containers() if container.kind is not ContainerKind.INIT)


def _contradiction(pod: Pod, limits: PodLimits) -> str | None:
    """Return what of the annotation contradicts itself or the containers, with the amounts; None = nothing does."""
    pages = {**limits.hugepages_limit_bytes, **limits.hugepages_request_bytes}
    for name, limit, request, rounded, unit in (
        (CPU, limits.cpu_limit_millicores, limits.cpu_request_millicores, to_millis, MILLICORES),
        (MEMORY, limits.memory_limit_bytes, limits.memory_request_bytes, to_units, BYTES),
        *(
            (name, limits.hugepages_limit_bytes.get(name), limits.hugepages_request_bytes.get(name), to_units, BYTES)
            for name in pages
        ),
    ):
        if limit is not None and request is not None and (request > limit or (name in pages and request < limit)):
            relation = "is not" if name in pages else "is above"
            return f"{name}: the request {amount_text(request, unit)} {relation} the limit {amount_text(limit, unit)}"
        inside = rounded(sum(container.resources.requests.get(name, 0) for container in _lasting(pod)))
        for word, amount in (("limit", limit), ("request", request)):
            if amount is not None and amount < inside:
                asked, held = amount_text(amount, unit), amount_text(inside, unit)
                text = f"the {word} {asked} is below the {held} that its containers request"
                return f"{name}: {text}; allowed: {held} or more"
    return None


def _not_of_cgroups(limits: PodLimits) -> tuple[str, ...]:
    """Return what of the annotation nobody carries out where pods have no resources of their own."""
    texts = []
    if limits.has_requests:
        texts.append(
            "requests: the scheduler counts those of the containers alone, as the cluster knows no pod-level resources"
        )
    if limits.hugepages_limit_bytes or limits.hugepages_request_bytes:
        texts.append("hugepages: each container has what it states, as the cluster knows no pod-level resources")
    return tuple(texts)


def _warnings(pod: Pod, limits: PodLimits) -> tuple[str, ...]:
    stated = [container.resources.memory_limit_bytes or 0 for container in _lasting(pod)]
    if limits.memory_limit_bytes is None or limits.memory_limit_bytes >= sum(stated):
        return ()
    asked, summed = amount_text(limits.memory_limit_bytes, BYTES), amount_text(sum(stated), BYTES)
    text = f"memory: the pod's limit {asked} is below the {summed} of its containers' limits: it is met before theirs"
    return (text,)


def _wanted(pod: Pod, limits: PodLimits, rules: KubeletRules) -> dict[str, Amount]:
    kubelet = kubelet_amounts(pod, rules)
    wanted: dict[str, Amount] = {}
    if limits.cpu_limit_millicores is not None:
        overhead_millicores = to_millis(pod.overhead.get(CPU, 0))
        quota_usec = millicores_to_quota(limits.cpu_limit_millicores + overhead_millicores, rules.period_usec)
        theirs = kubelet[CPU_MAX]
        if isinstance(theirs, CpuMax) and theirs.quota_usec is not None:
            quota_usec = min(quota_usec, theirs.quota_usec)
        wanted[CPU_MAX] = CpuMax(quota_usec=quota_usec, period_usec=rules.period_usec)
    if limits.memory_limit_bytes is not None:
        limit_bytes = min(limits.memory_limit_bytes + to_units(pod.overhead.get(MEMORY, 0)), INT64_MAX)
        held_to = kubelet[MEMORY_MAX]
        wanted[MEMORY_MAX] = min(limit_bytes, held_to) if isinstance(held_to, int) else limit_bytes
    return wanted


def kubelet_amounts(pod: Pod, rules: KubeletRules) -> dict[str, Amount]:
    """Return what the kubelet has in ``cpu.max`` and ``memory.max`` of the pod's cgroup."""
    values = pod_cgroup(allocated_pod(pod), rules)
    has_quota = values.cpu_quota_usec not in (None, 0, NO_QUOTA_USEC)
    return {
        CPU_MAX: CpuMax(
            quota_usec=values.cpu_quota_usec if has_quota else None,
            period_usec=values.cpu_period_usec or DEFAULT_PERIOD_USEC,
        ),
        MEMORY_MAX: values.memory_bytes or Unlimited.MAX,
    }


def is_in_force(wanted: Amount, reading: Amount | None, page_size_bytes: int) -> bool:
    """Return whether a file holds what was written: the kernel rounds memory down to whole pages."""
    if isinstance(wanted, int) and isinstance(reading, int):
        return wanted - wanted % page_size_bytes == reading - reading % page_size_bytes
    return wanted == reading


def memory_room_text(limit_bytes: int, in_use_bytes: int | None, margin_ratio: float) -> str | None:
    """Return why a memory limit may not be lowered to this now; None = it may.

    Below what is in use the kernel would reclaim, and then kill.

    Args:
        in_use_bytes: memory.current, page cache included; None = not known.
        margin_ratio: How many times what is in use the limit must be at least.
    """
    if in_use_bytes is None:
        return "how much memory the pod uses is not known"
    if limit_bytes >= in_use_bytes * margin_ratio:
        return None
    asked, used = amount_text(limit_bytes, BYTES), amount_text(in_use_bytes, BYTES)
    return f"memory limit {asked} is too near to the {used} in use ({margin_ratio:g} times that is the least)"


def amount_line(amount: Amount) -> str:
    """Return what is written into the file for an amount."""
    if isinstance(amount, CpuMax):
        return f"{'max' if amount.quota_usec is None else amount.quota_usec} {amount.period_usec}"
    return str(amount)
