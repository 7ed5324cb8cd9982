"""What the kubelet writes into ``kubepods`` and its QoS levels, qos-reserved included. Core, pure.

Source: the kubelet's cm/qos_container_manager_linux.go and cm/node_container_manager_linux.go (1.37.1); the system
partition is KEP-5894. A value that is None is not written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from agent.core.cluster.effective_resources import CountingRule, pod_requests
from agent.core.cluster.pod import CPU, MEMORY, Partition, Pod, QosClass
from agent.core.cluster.qos import pod_qos_class
from agent.core.machine.cgroup_values import ReservationPolicy
from agent.core.machine.cpu_knobs import MIN_SHARES, millicores_to_shares
from agent.core.numbers.units import divide_truncating, to_millis, to_units

_PERCENT = re.compile(r"[+-]?[0-9]+\Z")


class QosReservedError(ValueError):
    """A value of the option qos-reserved that the kubelet refuses at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QosRules:
    """What the kubelet is told about its QoS levels."""

    allocatable_memory_bytes: int | None = None
    """Of the node, or the system partition's memoryLimit; None or 0 = not known."""
    reserved_memory_percent: int | None = None
    """qos-reserved; None = the option is absent, which is not the same as 0."""
    reservation: ReservationPolicy = ReservationPolicy.NONE
    partition: Partition = Partition.DEFAULT
    """Whose levels are asked for."""
    system_namespaces: Collection[str] = ()
    """Namespaces whose pods live in the system partition; empty = there is none."""
    claims: bool = False
    """Gate DRANodeAllocatableResources (alpha)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QosLevels:
    """The values of one hierarchy's root (``kubepods``, or ``kubepods/system``) and of its two levels."""

    burstable_shares: int
    best_effort_shares: int = MIN_SHARES
    root_memory_min_bytes: int | None = None
    root_memory_low_bytes: int | None = None
    burstable_memory_low_bytes: int | None = None
    burstable_memory_max_bytes: int | None = None
    best_effort_memory_max_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedAmounts:
    """CPU and memory of a node, or a part of them set aside."""

    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCgroup:
    """The values of the ``kubepods`` cgroup itself."""

    cpu_shares: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemoryRequests:
    guaranteed_bytes: int
    burstable_bytes: int


def qos_levels(pods: Iterable[Pod], rules: QosRules) -> QosLevels:
    """Return the values of the QoS levels for the pods of a node.

    Each level counts its own hierarchy's pods, while a root counts every pod below it: the default partition's root
    holds the system partition too, and its burstable level leaves room for those pods.

    Args:
        pods: All active pods of the node, of both partitions.
    """
    everyone = tuple(pods)
    is_system = rules.partition is Partition.SYSTEM
    members = tuple(pod for pod in everyone if (pod.namespace in rules.system_namespaces) == is_system)
    own = _memory_requests(members, rules)
    below_root = own if is_system else _memory_requests(everyone, rules)
    tiered = rules.reservation is ReservationPolicy.TIERED
    burstable_max_bytes = best_effort_max_bytes = None
    if rules.reserved_memory_percent is not None and rules.allocatable_memory_bytes:
        percent = rules.reserved_memory_percent
        others_bytes = below_root.guaranteed_bytes + below_root.burstable_bytes - own.burstable_bytes
        burstable_max_bytes = rules.allocatable_memory_bytes - divide_truncating(others_bytes * percent, 100)
        best_effort_max_bytes = burstable_max_bytes - divide_truncating(own.burstable_bytes * percent, 100)
    return QosLevels(
        burstable_shares=millicores_to_shares(
            sum(
                to_millis(_requests(pod, rules).get(CPU, 0))
                for pod in members
                if pod_qos_class(pod) is QosClass.BURSTABLE
            )
        ),
        root_memory_min_bytes=below_root.guaranteed_bytes + below_root.burstable_bytes if tiered else None,
        root_memory_low_bytes=below_root.burstable_bytes if tiered else None,
        burstable_memory_low_bytes=own.burstable_bytes if tiered else None,
        burstable_memory_max_bytes=burstable_max_bytes,
        best_effort_memory_max_bytes=best_effort_max_bytes,
    )


def _requests(pod: Pod, rules: QosRules) -> dict[str, int]:
    return pod_requests(pod, CountingRule(claims=rules.claims))


def _memory_requests(pods: Iterable[Pod], rules: QosRules) -> _MemoryRequests:
    summed = {QosClass.GUARANTEED: 0, QosClass.BURSTABLE: 0, QosClass.BEST_EFFORT: 0}
    for pod in pods:
        summed[pod_qos_class(pod)] += to_units(_requests(pod, rules).get(MEMORY, 0))
    return _MemoryRequests(guaranteed_bytes=summed[QosClass.GUARANTEED], burstable_bytes=summed[QosClass.BURSTABLE])


def qos_reserve_retry(targets_bytes: Mapping[str, int | None], usage_bytes: Mapping[str, int]) -> dict[str, int | None]:
    """Return the limits of the second attempt, after a write of the first has failed.

    Args:
        targets_bytes: The wanted memory.max by QoS level; None = not written.
        usage_bytes: What each level uses now; a level that is absent keeps its target.

    Returns:
        Where a level uses more than its target its use, else the target; nothing is killed for a limit.
    """
    return {
        level: None if target is None else max(target, usage_bytes.get(level, target))
        for level, target in targets_bytes.items()
    }


def parse_qos_reserved(option: str) -> dict[str, int]:
    """Read the kubelet's option ``--qos-reserved``: ``memory=50%``.

    Returns:
        Percent (0 to 100) by resource, ``memory`` at most; empty for an empty option. Of a resource that is named
        twice the last counts, whatever the first was.

    Raises:
        QosReservedError: Another resource, no ``%``, not a whole number, or not 0 to 100.

    Source:
        ``ParseQOSReserved`` of cm/container_manager.go and the flag type MapStringString.
    """
    values: dict[str, str] = {}
    for pair in filter(None, option.split(",")):
        name, separator, value = (part.strip() for part in pair.partition("="))
        if not separator or name != MEMORY:
            msg = f"qos-reserved: {pair!r} is not allowed (memory=N%, N from 0 to 100)"
            raise QosReservedError(msg)
        values[name] = value
    reserved: dict[str, int] = {}
    for name, value in values.items():
        number = value.rstrip("%")
        if number == value or not _PERCENT.match(number) or not 0 <= int(number) <= 100:
            msg = f"qos-reserved: memory={value!r} is not allowed (N%, N a whole number from 0 to 100)"
            raise QosReservedError(msg)
        reserved[name] = int(number)
    return reserved


def kubepods_root(
    capacity: ReservedAmounts,
    kube_reserved: ReservedAmounts,
    system_reserved: ReservedAmounts,
    *,
    enforce_pods: bool = True,
) -> RootCgroup:
    """Return the values of the ``kubepods`` cgroup.

    Args:
        enforce_pods: Whether enforceNodeAllocatable names ``pods``; if not, the capacity stands. The hard eviction
            threshold is no part of this limit either way.
    """
    cpu_millicores, memory_bytes = capacity.cpu_millicores, capacity.memory_bytes
    if enforce_pods:
        cpu_millicores -= kube_reserved.cpu_millicores + system_reserved.cpu_millicores
        memory_bytes -= kube_reserved.memory_bytes + system_reserved.memory_bytes
    return RootCgroup(cpu_shares=millicores_to_shares(max(cpu_millicores, 0)), memory_bytes=max(memory_bytes, 0))
