from __future__ import annotations

import argparse

import pytest

from agent.cli.audit.kubelet_options import add_kubelet_options, rules_from
from agent.core.machine.audit_targets import AuditRules
from agent.core.machine.cgroup_values import ReservationPolicy
from agent.core.machine.qos_cgroups import ReservedAmounts
from agent.core.numbers.units import GIB


def rules(*words: str, is_systemd: bool = False) -> AuditRules:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_kubelet_options(parser)
    return rules_from(parser.parse_args(words), is_systemd=is_systemd)


def test_nothing_told_is_the_kubelets_defaults() -> None:
    audit = rules()

    assert audit.kubelet.enforce_cpu_limits
    assert audit.kubelet.period_usec == 100_000
    assert audit.kubelet.reservation is ReservationPolicy.NONE
    assert audit.kube_reserved == ReservedAmounts(cpu_millicores=0, memory_bytes=0)
    assert (audit.capacity_millicores, audit.reserved_memory_percent, audit.throttling_factor) == (None, None, None)


def test_the_rules_know_whether_systemd_rounds() -> None:
    assert (rules(is_systemd=True).is_systemd, rules().is_systemd) == (True, False)


def test_everything_told() -> None:
    audit = rules(
        *("--capacity-cpu", "7500m", "--capacity-memory", "32Gi", "--kube-reserved", "cpu=500m, memory=1Gi"),
        *("--system-reserved", "memory=2Gi,ephemeral-storage=1Gi", "--node-allocatable-memory", "16Gi"),
        *("--qos-reserved", "memory=50%", "--no-cpu-cfs-quota", "--cpu-cfs-period", "5ms"),
        *("--memory-reservation-policy", "TieredReservation", "--memory-throttling-factor", "0.9"),
        *("--single-process-oom-kill", "--pod-pids-limit", "4096"),
        *("--system-namespaces", "kube-system, gpu", "--system-partition-memory", "4Gi"),
    )

    assert (audit.capacity_millicores, audit.capacity_memory_bytes) == (7500, 32 * GIB)
    assert audit.kube_reserved == ReservedAmounts(cpu_millicores=500, memory_bytes=GIB)
    assert audit.system_reserved == ReservedAmounts(cpu_millicores=0, memory_bytes=2 * GIB)
    assert (audit.allocatable_memory_bytes, audit.reserved_memory_percent) == (16 * GIB, 50)
    assert not audit.kubelet.enforce_cpu_limits
    assert audit.kubelet.period_usec == 5000
    assert audit.kubelet.reservation is ReservationPolicy.TIERED
    assert audit.kubelet.single_process_oom_kill
    assert (audit.throttling_factor, audit.pod_pids_limit) == (0.9, 4096)
    assert audit.system_namespaces == {"kube-system", "gpu"}
    assert audit.system_memory_bytes == 4 * GIB


@pytest.mark.parametrize(
    ("flag", "text", "allowed"),
    [
        ("--capacity-cpu", "0", "above 0"),
        ("--capacity-cpu", "eight", "not a quantity"),
        ("--kube-reserved", "cpu", "NAME=AMOUNT"),
        ("--kube-reserved", "gpu=1", "cpu, memory, ephemeral-storage, pid"),
        ("--system-reserved", "cpu=-1", "0 or more"),
        ("--system-reserved", "cpu=x", "not a quantity"),
        ("--qos-reserved", "memory=101%", "0 to 100"),
        ("--qos-reserved", "cpu=5%", "memory=N%"),
        ("--qos-reserved", "", "memory=N%"),
        ("--cpu-cfs-period", "100", "1ms to 1s"),
        ("--cpu-cfs-period", "2s", "1ms to 1s"),
        ("--memory-throttling-factor", "1.1", "above 0, at most 1"),
        ("--memory-throttling-factor", "nan", "above 0, at most 1"),
        ("--memory-throttling-factor", "much", "above 0, at most 1"),
        ("--pod-pids-limit", "-1", "above 0"),
        ("--pod-pids-limit", "²", "above 0"),
        ("--memory-reservation-policy", "tiered", "TieredReservation"),
    ],
)
def test_bad_value_names_flag_value_and_what_is_allowed(flag: str, text: str, allowed: str) -> None:
    with pytest.raises(argparse.ArgumentError) as caught:
        rules(f"{flag}={text}")

    message = str(caught.value)
    assert flag in message
    assert allowed in message
    assert "\n" not in message
