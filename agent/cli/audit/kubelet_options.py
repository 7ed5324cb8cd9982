"""The kubelet's options as flags of ``plimsoll audit``: spelt as the kubelet spells them, read as it reads them."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from typing import Final, TypeVar

from agent.core.cluster.pod import CPU, MEMORY
from agent.core.machine.audit_targets import AuditRules
from agent.core.machine.cgroup_values import KubeletRules, ReservationPolicy
from agent.core.machine.qos_cgroups import QosReservedError, ReservedAmounts, parse_qos_reserved
from agent.core.numbers.quantity import QuantityError, parse_quantity
from agent.core.numbers.units import to_millis, to_units

_Value = TypeVar("_Value")

_RESERVABLE: Final = (CPU, MEMORY, "ephemeral-storage", "pid")
_USEC_PER: Final = {"us": 1, "ms": 1000, "s": 1_000_000}
_DURATION: Final = re.compile(r"([0-9]{1,9})(us|ms|s)")
_PERIOD_RANGE_USEC: Final = (1000, 1_000_000)
"""cpuCFSQuotaPeriod: what the kubelet's validation lets pass."""


def add_kubelet_options(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that tell the audit how the node's kubelet is set up."""
    group = parser.add_argument_group(
        "the node's kubelet", "what depends on an option that is not given is shown as unknown"
    )
    group.add_argument("--capacity-cpu", metavar="CPU", type=_typed(_millicores), help="of the node, for instance 8")
    group.add_argument("--capacity-memory", metavar="SIZE", type=_typed(_bytes), help="of the node, for instance 32Gi")
    for name in ("kube", "system"):
        group.add_argument(
            f"--{name}-reserved", metavar="cpu=..,memory=..", type=_typed(_reserved), default=_reserved(""),
            help=f"{name}Reserved (default: nothing)",
        )  # fmt: skip
    group.add_argument(
        "--node-allocatable-memory", metavar="SIZE", type=_typed(_bytes),
        help="for --qos-reserved, and for --memory-throttling-factor where there is no limit",
    )  # fmt: skip
    group.add_argument(
        "--qos-reserved", metavar="memory=N%", type=_typed(_qos_reserved), help="qosReserved (default: absent)"
    )
    group.add_argument("--no-cpu-cfs-quota", action="store_true", help="cpuCFSQuota is off")
    group.add_argument(
        "--cpu-cfs-period", metavar="TIME", type=_typed(_period_usec), default=_period_usec("100ms"),
        help="cpuCFSQuotaPeriod (default: 100ms)",
    )  # fmt: skip
    group.add_argument(
        "--memory-reservation-policy", choices=[str(policy) for policy in ReservationPolicy],
        default=str(ReservationPolicy.NONE),
        help="memoryReservationPolicy (default: None)",
    )  # fmt: skip
    group.add_argument(
        "--memory-throttling-factor", metavar="F", type=_typed(_factor), help="memoryThrottlingFactor (default: unset)"
    )
    group.add_argument("--single-process-oom-kill", action="store_true", help="singleProcessOOMKill is on")
    group.add_argument("--pod-pids-limit", metavar="N", type=_typed(_count), help="podPidsLimit (default: not given)")
    group.add_argument(
        "--system-namespaces", metavar="NS,..", type=_typed(_names), default=frozenset(),
        help="systemPartition.namespaces (default: those whose pods are found there)",
    )  # fmt: skip
    group.add_argument(
        "--system-partition-memory", metavar="SIZE", type=_typed(_bytes), help="systemPartition.memoryLimit"
    )


def rules_from(arguments: argparse.Namespace, *, is_systemd: bool) -> AuditRules:
    """Return the rules of the audit; where systemd keeps the cgroups, quotas are rounded."""
    return AuditRules(
        kubelet=KubeletRules(
            enforce_cpu_limits=not arguments.no_cpu_cfs_quota,
            period_usec=arguments.cpu_cfs_period,
            reservation=ReservationPolicy(arguments.memory_reservation_policy),
            single_process_oom_kill=arguments.single_process_oom_kill,
        ),
        is_systemd=is_systemd,
        page_size_bytes=os.sysconf("SC_PAGE_SIZE"),
        machine_memory_bytes=arguments.capacity_memory or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        throttling_factor=arguments.memory_throttling_factor,
        allocatable_memory_bytes=arguments.node_allocatable_memory,
        reserved_memory_percent=arguments.qos_reserved,
        capacity_millicores=arguments.capacity_cpu,
        capacity_memory_bytes=arguments.capacity_memory,
        kube_reserved=arguments.kube_reserved,
        system_reserved=arguments.system_reserved,
        pod_pids_limit=arguments.pod_pids_limit,
        system_namespaces=arguments.system_namespaces,
        system_memory_bytes=arguments.system_partition_memory,
    )


def _typed(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Let a parser's own words reach the person: argparse hides those of a ValueError."""

    def convert(text: str) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def _positive(text: str) -> int:
    nanos = parse_quantity(text)
    if nanos <= 0:
        msg = f"{text!r} is not allowed (above 0)"
        raise QuantityError(msg)
    return nanos


def _millicores(text: str) -> int:
    return to_millis(_positive(text))


def _bytes(text: str) -> int:
    return to_units(_positive(text))


def _reserved(text: str) -> ReservedAmounts:
    nanos = {CPU: 0, MEMORY: 0}
    for pair in filter(None, text.split(",")):
        name, separator, amount = (part.strip() for part in pair.partition("="))
        if not separator or name not in _RESERVABLE:
            msg = f"{pair!r} is not allowed (NAME=AMOUNT with NAME one of {', '.join(_RESERVABLE)})"
            raise ValueError(msg)
        nanos[name] = parse_quantity(amount)
        if nanos[name] < 0:
            msg = f"{pair!r} is not allowed (0 or more)"
            raise ValueError(msg)
    return ReservedAmounts(cpu_millicores=to_millis(nanos[CPU]), memory_bytes=to_units(nanos[MEMORY]))


def _qos_reserved(text: str) -> int:
    reserved = parse_qos_reserved(text)
    if MEMORY not in reserved:
        msg = f"{text!r} is not allowed (memory=N%, N from 0 to 100)"
        raise QosReservedError(msg)
    return reserved[MEMORY]


def _period_usec(text: str) -> int:
    match = _DURATION.fullmatch(text)
    period_usec = int(match[1]) * _USEC_PER[match[2]] if match else 0
    least, most = _PERIOD_RANGE_USEC
    if not least <= period_usec <= most:
        msg = f"{text!r} is not allowed (1ms to 1s, for instance 100ms)"
        raise ValueError(msg)
    return period_usec


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.0 < factor <= 1.0:
        msg = f"{text!r} is not allowed (above 0, at most 1)"
        raise ValueError(msg)
    return factor


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 63):
        msg = f"{text!r} is not allowed (a whole number above 0)"
        raise ValueError(msg)
    return int(text)


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())
