"""What should be in the files of a kubelet's cgroups, one ``WantedValue`` per file. Core, pure.

The arithmetic is in ``cgroup_values`` and ``qos_cgroups``; here it meets file names, defaults, and what an audit cannot
know of the kubelet's configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.core.cluster.effective_resources import pod_limits, pod_requests
from agent.core.cluster.pod import CPU, MEMORY, Container, Partition, Pod, QosClass
from agent.core.cluster.qos import pod_qos_class
from agent.core.machine.cgroup_files import (
    CPU_MAX,
    CPU_WEIGHT,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MAX,
    MEMORY_MIN,
    MEMORY_OOM_GROUP,
    PIDS_MAX,
    LiveCgroup,
    Unlimited,
    hugetlb_file,
    hugetlb_page_size_bytes,
)
from agent.core.machine.cgroup_values import KubeletRules, ReservationPolicy, container_cgroup, memory_high, pod_cgroup
from agent.core.machine.comparison import AcceptedValue, WantedValue, Weights
from agent.core.machine.cpu_knobs import DEFAULT_PERIOD_USEC, MIN_SHARES, CpuMax
from agent.core.machine.qos_cgroups import QosLevels, QosRules, ReservedAmounts, kubepods_root, qos_levels
from agent.core.numbers.units import to_units

UNBOUNDED_HUGETLB_BYTES = 1 << 62
"""What the kubelet writes on QoS levels for "no limit" of huge pages."""

NO_POLICY_HINT = "is the kubelet's memoryReservationPolicy told? (--memory-reservation-policy)"
NO_FACTOR_HINT = "is the kubelet's memoryThrottlingFactor told? (--memory-throttling-factor)"
NO_PIDS_LIMIT = "podPidsLimit is not told (--pod-pids-limit)"
NO_QOS_RESERVED = "a reservation that is not told (--qos-reserved, --node-allocatable-memory)"
NO_CAPACITY_CPU = "the node's CPU is not told (--capacity-cpu, --kube-reserved, --system-reserved)"
NO_CAPACITY_MEMORY = "the node's memory is not told (--capacity-memory, --kube-reserved, --system-reserved)"
NO_ALLOCATABLE = "the node's allocatable memory is not told (--node-allocatable-memory)"
NO_PARTITION_LIMIT = "the partition's memoryLimit is not told (--system-partition-memory)"
SECOND_ATTEMPT = "a tier that uses more than its target gets its usage as limit"
AFTER_POD_RESIZE = "no request of its own under pod-level resources: the minimum since a pod-level resize"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRules:
    """What the audit is told of the node and its kubelet."""

    kubelet: KubeletRules = field(default_factory=KubeletRules)
    is_systemd: bool = False
    """systemd keeps the cgroups, and rounds quotas to whole percents of a CPU."""
    page_size_bytes: int = 4096
    """The kernel keeps memory limits as whole pages."""
    throttling_factor: float | None = None
    """memoryThrottlingFactor; None = unset, the default."""
    allocatable_memory_bytes: int | None = None
    reserved_memory_percent: int | None = None
    """qos-reserved; None = the option is absent."""
    capacity_millicores: int | None = None
    capacity_memory_bytes: int | None = None
    kube_reserved: ReservedAmounts = field(default_factory=lambda: ReservedAmounts(cpu_millicores=0, memory_bytes=0))
    system_reserved: ReservedAmounts = field(default_factory=lambda: ReservedAmounts(cpu_millicores=0, memory_bytes=0))
    pod_pids_limit: int | None = None
    """podPidsLimit; None = not told."""
    system_namespaces: Collection[str] = ()
    """Namespaces of the system partition; empty = take those whose pods are found there."""
    system_memory_bytes: int | None = None
    """The system partition's memoryLimit."""
    machine_memory_bytes: int | None = None
    """What the kubelet measures requests by for oom_score_adj; None = not known, and no score is compared."""


def pod_targets(pod: Pod, live: LiveCgroup, rules: AuditRules) -> tuple[WantedValue, ...]:
    """Return what should be in the files of a pod's cgroup."""
    values = pod_cgroup(pod, rules.kubelet)
    return (
        _weight(values.cpu_shares, takes_quadratic=False),
        _cpu_max(values.cpu_quota_usec, values.cpu_period_usec),
        _memory_limit(MEMORY_MAX, values.memory_bytes, rules),
        *_reservations(values.memory_min_bytes, values.memory_low_bytes, rules),
        _memory_high(_pod_memory_high(pod, rules), rules),
        *_hugepages(values.hugepage_limit_bytes, live),
        _pids_max(rules),
    )


def container_targets(pod: Pod, container: Container, rules: AuditRules) -> tuple[WantedValue, ...]:
    """Return what should be in the files of a container's cgroup."""
    values = container_cgroup(pod, container, rules.kubelet)
    weight = _weight(values.cpu_shares, takes_quadratic=True)
    if CPU not in container.resources.requests and pod.has_pod_level_resources and values.cpu_shares != MIN_SHARES:
        # A node of 1.37 wrote the share of the pod's limit at the start and the minimum at the first pod-level resize.
        least = Weights(shares=MIN_SHARES, takes_quadratic=True)
        weight = replace(weight, accepted=(AcceptedValue(target=least, note=AFTER_POD_RESIZE),))
    is_tiered = rules.kubelet.reservation is ReservationPolicy.TIERED
    request_bytes = (container.resources.memory_request_bytes or 0) if is_tiered else 0
    is_guaranteed = pod_qos_class(pod) is QosClass.GUARANTEED
    return (
        weight,
        _cpu_max(values.cpu_quota_usec, rules.kubelet.period_usec),
        _memory_limit(MEMORY_MAX, values.memory_bytes, rules),
        *_reservations(request_bytes if is_guaranteed else 0, 0 if is_guaranteed else request_bytes, rules),
        _container_memory_high(pod, container, rules),
        WantedValue(file=MEMORY_OOM_GROUP, target=int(values.oom_group), hint="singleProcessOOMKill?"),
    )


def tier_targets(
    qos: QosClass, levels: QosLevels, live: LiveCgroup, rules: AuditRules, *, doubt: str | None
) -> tuple[WantedValue, ...]:
    """Return what should be in the files of a tier's cgroup.

    Args:
        doubt: Why sums over the node's pods may be incomplete; None = they are complete.
    """
    is_burstable = qos is QosClass.BURSTABLE
    weight = _weight(levels.burstable_shares if is_burstable else levels.best_effort_shares, takes_quadratic=False)
    max_bytes = levels.burstable_memory_max_bytes if is_burstable else levels.best_effort_memory_max_bytes
    if max_bytes is None:
        limit = WantedValue(file=MEMORY_MAX, target=Unlimited.MAX, is_written=False, doubt=NO_QOS_RESERVED)
    else:
        limit = replace(_memory_limit(MEMORY_MAX, max_bytes, rules), doubt=doubt, hint=SECOND_ATTEMPT)
    low_bytes = levels.burstable_memory_low_bytes if is_burstable else 0
    memory_min, memory_low = _reservations(0, low_bytes, rules)
    return (
        replace(weight, doubt=doubt if is_burstable else None),
        _cpu_max(None, None),
        limit,
        memory_min,
        replace(memory_low, doubt=doubt if low_bytes else None),
        *(
            WantedValue(file=file, target=UNBOUNDED_HUGETLB_BYTES, is_written=False, at_least=True)
            for file in sorted(live.readings)
            if hugetlb_page_size_bytes(file) is not None
        ),
    )


def root_targets(levels: QosLevels, rules: AuditRules, *, doubt: str | None) -> tuple[WantedValue, ...]:
    """Return what should be in the files of ``kubepods`` itself.

    Args:
        doubt: Why sums over the node's pods may be incomplete; None = they are complete.
    """
    values = kubepods_root(
        ReservedAmounts(
            cpu_millicores=rules.capacity_millicores or 0,
            memory_bytes=rules.capacity_memory_bytes or 0,
        ),
        rules.kube_reserved,
        rules.system_reserved,
    )
    memory_min, memory_low = _reservations(levels.root_memory_min_bytes, levels.root_memory_low_bytes, rules)
    return (
        WantedValue(file=CPU_WEIGHT, target=None, doubt=NO_CAPACITY_CPU)
        if rules.capacity_millicores is None
        else _weight(values.cpu_shares, takes_quadratic=False),
        _cpu_max(None, None),
        WantedValue(file=MEMORY_MAX, target=None, doubt=NO_CAPACITY_MEMORY)
        if rules.capacity_memory_bytes is None
        else _memory_limit(MEMORY_MAX, values.memory_bytes, rules),
        replace(memory_min, doubt=doubt if levels.root_memory_min_bytes else None),
        replace(memory_low, doubt=doubt if levels.root_memory_low_bytes else None),
    )


def partition_targets(rules: AuditRules) -> tuple[WantedValue, ...]:
    """Return what should be in the files of ``kubepods/system``: of its arithmetic only the limit is published."""
    if rules.system_memory_bytes is None:
        return (WantedValue(file=MEMORY_MAX, target=None, doubt=NO_PARTITION_LIMIT),)
    return (_memory_limit(MEMORY_MAX, rules.system_memory_bytes, rules),)


def levels_of(pods: Iterable[Pod], partition: Partition, namespaces: Collection[str], rules: AuditRules) -> QosLevels:
    """Return the values of a partition's tiers.

    Args:
        pods: The node's active pods, of both partitions.
        namespaces: Whose pods live in the system partition.
    """
    is_system = partition is Partition.SYSTEM
    return qos_levels(
        pods,
        QosRules(
            allocatable_memory_bytes=rules.system_memory_bytes if is_system else rules.allocatable_memory_bytes,
            reserved_memory_percent=rules.reserved_memory_percent,
            reservation=rules.kubelet.reservation,
            partition=partition,
            system_namespaces=namespaces,
            claims=rules.kubelet.claims,
        ),
    )


def either(first: Sequence[WantedValue], other: Sequence[WantedValue], note: str) -> tuple[WantedValue, ...]:
    """Let the values of another computation pass too.

    Args:
        note: Said of a value that only the other one explains.
    """
    other_by_file = {wanted.file: wanted.target for wanted in other}
    merged: list[WantedValue] = []
    for wanted in first:
        target = other_by_file.get(wanted.file)
        if target is not None and target != wanted.target:
            wanted = replace(wanted, accepted=(*wanted.accepted, AcceptedValue(target=target, note=note)))
        merged.append(wanted)
    return tuple(merged)


def _weight(shares: int, *, takes_quadratic: bool) -> WantedValue:
    return WantedValue(file=CPU_WEIGHT, target=Weights(shares=shares, takes_quadratic=takes_quadratic))


def _cpu_max(quota_usec: int | None, period_usec: int | None) -> WantedValue:
    # 0 and -1 both end as `max`.
    is_limited = quota_usec is not None and quota_usec > 0
    return WantedValue(
        file=CPU_MAX,
        target=CpuMax(
            quota_usec=quota_usec if is_limited else None,
            period_usec=period_usec or DEFAULT_PERIOD_USEC,
        ),
        is_written=is_limited,
    )


def _memory_limit(file: str, limit_bytes: int | None, rules: AuditRules) -> WantedValue:
    return WantedValue(
        file=file,
        target=limit_bytes or Unlimited.MAX,
        is_written=bool(limit_bytes),
        granule_bytes=rules.page_size_bytes,
    )


def _reservations(min_bytes: int | None, low_bytes: int | None, rules: AuditRules) -> tuple[WantedValue, WantedValue]:
    is_tiered = rules.kubelet.reservation is ReservationPolicy.TIERED
    memory_min, memory_low = (
        WantedValue(
            file=file,
            target=amount_bytes or 0,
            is_written=bool(amount_bytes),
            granule_bytes=rules.page_size_bytes,
            hint=None if is_tiered else NO_POLICY_HINT,
        )
        for file, amount_bytes in ((MEMORY_MIN, min_bytes), (MEMORY_LOW, low_bytes))
    )
    return memory_min, memory_low


def _memory_high(high_bytes: int | None, rules: AuditRules) -> WantedValue:
    hint = NO_FACTOR_HINT if rules.throttling_factor is None else None
    return replace(_memory_limit(MEMORY_HIGH, high_bytes, rules), hint=hint)


def _pod_memory_high(pod: Pod, rules: AuditRules) -> int | None:
    """Return a pod's memory.high: only pod-level memory limits bring one (overhead included)."""
    if pod.resources is None or not pod.resources.limits.get(MEMORY):
        return None
    return memory_high(
        qos=pod_qos_class(pod),
        request_bytes=to_units(pod_requests(pod).get(MEMORY, 0)),
        limit_bytes=to_units(pod_limits(pod).get(MEMORY, 0)),
        node_allocatable_bytes=rules.allocatable_memory_bytes,
        throttling_factor=rules.throttling_factor,
        page_size_bytes=rules.page_size_bytes,
    )


def _container_memory_high(pod: Pod, container: Container, rules: AuditRules) -> WantedValue:
    limit_bytes = container.resources.memory_limit_bytes
    pod_limits_memory = pod.resources is not None and bool(pod.resources.limits.get(MEMORY))
    wanted = _memory_high(
        memory_high(
            qos=pod_qos_class(pod),
            request_bytes=container.resources.memory_request_bytes,
            limit_bytes=limit_bytes,
            node_allocatable_bytes=rules.allocatable_memory_bytes,
            throttling_factor=rules.throttling_factor,
            page_size_bytes=rules.page_size_bytes,
            pod_limits_memory=pod_limits_memory,
        ),
        rules,
    )
    is_by_node = not limit_bytes and not pod_limits_memory and pod_qos_class(pod) is not QosClass.GUARANTEED
    if is_by_node and rules.throttling_factor is not None and rules.allocatable_memory_bytes is None:
        return replace(wanted, target=None, doubt=NO_ALLOCATABLE)
    return wanted


def _hugepages(limit_bytes_by_size: Mapping[int, int], live: LiveCgroup) -> list[WantedValue]:
    """Return a limit for each size that the pod requests or the host has; sizes not requested get 0."""
    sizes = {size for file in live.readings if (size := hugetlb_page_size_bytes(file)) is not None}
    return [
        WantedValue(
            file=hugetlb_file(size),
            target=limit_bytes_by_size.get(size, 0),
            is_written=size in limit_bytes_by_size,
            granule_bytes=size,
        )
        for size in sorted(sizes | limit_bytes_by_size.keys())
    ]


def _pids_max(rules: AuditRules) -> WantedValue:
    if rules.pod_pids_limit is None:
        return WantedValue(file=PIDS_MAX, target=Unlimited.MAX, is_written=False, doubt=NO_PIDS_LIMIT)
    return WantedValue(file=PIDS_MAX, target=rules.pod_pids_limit)
