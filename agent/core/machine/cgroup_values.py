"""What the kubelet and the runtime write into the cgroups of a pod and of its containers. Core, pure.

A value that is None is not written. Amounts come from the spec as allocated; QoS levels and ``kubepods`` itself are in
``qos_cgroups``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.core.cluster.effective_resources import CountingRule, pod_limits, pod_requests
from agent.core.cluster.pod import CPU, HUGEPAGES_PREFIX, MEMORY, Container, Pod, QosClass
from agent.core.cluster.qos import pod_qos_class
from agent.core.machine.cpu_knobs import (
    DEFAULT_PERIOD_USEC,
    MIN_SHARES,
    NO_QUOTA_USEC,
    millicores_to_quota,
    millicores_to_shares,
)
from agent.core.numbers.quantity import QuantityError, parse_quantity
from agent.core.numbers.units import to_millis, to_units


class ReservationPolicy(StrEnum):
    """The kubelet's memoryReservationPolicy, spelt as its configuration spells it."""

    NONE = "None"
    TIERED = "TieredReservation"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletRules:
    """The options of a kubelet that decide what it writes."""

    enforce_cpu_limits: bool = True
    """cpuCFSQuota; off = quotas are written as "no limit"."""
    period_usec: int = DEFAULT_PERIOD_USEC
    """cpuCFSQuotaPeriod."""
    reservation: ReservationPolicy = ReservationPolicy.NONE
    """memoryReservationPolicy, with the gate MemoryQoS."""
    single_process_oom_kill: bool = False
    """singleProcessOOMKill; off = an out-of-memory kill takes the whole container."""
    claims: bool = False
    """Gate DRANodeAllocatableResources (alpha)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCgroup:
    """The values of a pod's cgroup."""

    cpu_shares: int
    """Becomes cpu.weight by the linear formula."""
    cpu_quota_usec: int | None = None
    """-1 = ``max``; 0 = written as ``max`` too, for a pod that is limited in name only."""
    cpu_period_usec: int | None = None
    memory_bytes: int | None = None
    hugepage_limit_bytes: Mapping[int, int] = field(default_factory=dict)
    """By page size in bytes; the host's other page sizes get 0."""
    memory_min_bytes: int | None = None
    memory_low_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCgroup:
    """The values of a container's cgroup."""

    cpu_shares: int
    """Becomes cpu.weight by the formula of the runtime's version."""
    cpu_quota_usec: int | None = None
    memory_bytes: int | None = None
    oom_group: bool = True


def pod_cgroup(pod: Pod, rules: KubeletRules) -> PodCgroup:
    """Return the values of a pod's cgroup.

    Source:
        ``ResourceConfigForPod`` of the kubelet's cm/helpers_linux.go (1.37.1).
    """
    counting = CountingRule(claims=rules.claims)
    requests, limits = pod_requests(pod, counting), pod_limits(pod, counting)
    qos = pod_qos_class(pod)
    memory_request_bytes = to_units(requests.get(MEMORY, 0))
    memory_min_bytes = memory_low_bytes = None
    if rules.reservation is ReservationPolicy.TIERED and memory_request_bytes > 0:
        if qos is QosClass.GUARANTEED:
            memory_min_bytes = memory_request_bytes
        else:
            memory_low_bytes = memory_request_bytes
    has_quota = qos is QosClass.GUARANTEED or (qos is QosClass.BURSTABLE and limits_bind(pod, CPU))
    has_memory = qos is QosClass.GUARANTEED or (qos is QosClass.BURSTABLE and limits_bind(pod, MEMORY))
    quota_usec = (
        millicores_to_quota(to_millis(limits.get(CPU, 0)), rules.period_usec)
        if rules.enforce_cpu_limits
        else NO_QUOTA_USEC
    )
    return PodCgroup(
        cpu_shares=(
            MIN_SHARES if qos is QosClass.BEST_EFFORT else millicores_to_shares(to_millis(requests.get(CPU, 0)))
        ),
        cpu_quota_usec=quota_usec if has_quota else None,
        cpu_period_usec=rules.period_usec if has_quota else None,
        memory_bytes=to_units(limits.get(MEMORY, 0)) if has_memory else None,
        hugepage_limit_bytes=_hugepage_limits(requests),
        memory_min_bytes=memory_min_bytes,
        memory_low_bytes=memory_low_bytes,
    )


def limits_bind(pod: Pod, name: str) -> bool:
    """Return whether the pod as a whole is limited: by every single container, or at pod level."""
    if pod.resources is not None and pod.has_pod_level_resources and pod.resources.limits.get(name):
        return True
    return all(container.resources.limits.get(name) for container in pod.sized_containers())


def _hugepage_limits(requests: Mapping[str, int]) -> dict[int, int]:
    limits: dict[int, int] = {}
    for name, amount in requests.items():
        size_bytes = page_size_bytes(name)
        if size_bytes is not None:
            limits[size_bytes] = limits.get(size_bytes, 0) + to_units(amount)
    return limits


def page_size_bytes(name: str) -> int | None:
    """Return the page size a resource name such as ``hugepages-2Mi`` stands for; None = it stands for none."""
    if not name.startswith(HUGEPAGES_PREFIX):
        return None
    try:
        return to_units(parse_quantity(name.removeprefix(HUGEPAGES_PREFIX)))
    except QuantityError:
        return None


def container_cgroup(pod: Pod, container: Container, rules: KubeletRules) -> ContainerCgroup:
    """Return the values of a container's cgroup.

    A container without a limit of its own gets the pod's in its own cgroup too, as runtimes such as the JVM read their
    own; without a request it gets shares by that limit. Memory requests are not written.

    Source:
        ``generateLinuxContainerResources`` of the kubelet's kuberuntime_container_linux.go (1.37.1).
    """
    claimed = _claimed_by(pod, container.name) if rules.claims else {}
    own_cpu_limit = _limit_in_force(pod, container, CPU)
    cpu_limit = own_cpu_limit + (claimed.get(CPU, 0) if container.resources.limits.get(CPU) else 0)
    memory_limit = _limit_in_force(pod, container, MEMORY)
    memory_limit += claimed.get(MEMORY, 0) if container.resources.limits.get(MEMORY) else 0
    cpu_request = container.resources.requests.get(CPU, own_cpu_limit)
    quota_usec = millicores_to_quota(to_millis(cpu_limit), rules.period_usec) if rules.enforce_cpu_limits else 0
    return ContainerCgroup(
        cpu_shares=millicores_to_shares(to_millis(cpu_request)),
        cpu_quota_usec=quota_usec or None,
        memory_bytes=to_units(memory_limit) or None,
        oom_group=not rules.single_process_oom_kill,
    )


def _limit_in_force(pod: Pod, container: Container, name: str) -> int:
    own = container.resources.limits.get(name, 0)
    if own == 0 and pod.resources is not None and pod.has_pod_level_resources:
        return pod.resources.limits.get(name, 0)
    return own


def _claimed_by(pod: Pod, container_name: str) -> dict[str, int]:
    claimed: dict[str, int] = {}
    for claim in pod.claims:
        if container_name not in claim.containers:
            continue
        costs = [*claim.mapping]
        costs += [(cost.resource, (cost.per_pod or 0) + (cost.per_container or 0)) for cost in claim.overhead]
        for name, amount in costs:
            claimed[name] = claimed.get(name, 0) + amount
    return claimed


def memory_high(
    *,
    qos: QosClass,
    request_bytes: int | None,
    limit_bytes: int | None,
    node_allocatable_bytes: int | None,
    throttling_factor: float | None,
    page_size_bytes: int,
    pod_limits_memory: bool = False,
) -> int | None:
    """Return a container's memory.high under MemoryQoS.

    It is decided per container: where the request equals the limit nothing is throttled, but a container with room
    between them is, even inside a pod that is Guaranteed by its pod-level resources.

    Args:
        qos: The pod's class. A container without limit in a Guaranteed pod stands under a pod-level limit.
        request_bytes: None or 0 = none.
        limit_bytes: None or 0 = none; the node's allocatable stands in.
        node_allocatable_bytes: None = not known.
        throttling_factor: memoryThrottlingFactor, above 0 up to 1; None = unset, the default since 1.37.
        page_size_bytes: The result is a whole number of these.
        pod_limits_memory: Whether the pod has a pod-level memory limit: then the pod's cgroup throttles a container
            that has no limit of its own.

    Returns:
        Bytes; None = not written.

    Source:
        KEP-2570; kuberuntime_container_linux.go. In double precision, in this order.
    """
    request, limit = request_bytes or 0, limit_bytes or 0
    if limit == 0 and (pod_limits_memory or qos is QosClass.GUARANTEED):
        return None
    ceiling = limit or node_allocatable_bytes or 0
    if throttling_factor is None or ceiling == 0 or (request == limit and request != 0):
        return None
    wanted = math.floor(float(request) + (float(ceiling) - float(request)) * throttling_factor)
    high_bytes = int(float(wanted) / float(page_size_bytes)) * page_size_bytes
    return high_bytes if high_bytes != 0 and high_bytes > request else None
