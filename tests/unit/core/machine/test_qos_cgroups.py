from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import Partition, Pod
from agent.core.machine.cgroup_values import ReservationPolicy
from agent.core.machine.qos_cgroups import (
    QosLevels,
    QosReservedError,
    QosRules,
    ReservedAmounts,
    RootCgroup,
    kubepods_root,
    parse_qos_reserved,
    qos_levels,
    qos_reserve_retry,
)
from agent.core.numbers.units import GIB, MIB
from tests.pods import container, make_pod

NONE = ReservedAmounts(cpu_millicores=0, memory_bytes=0)


def pod_of(namespace: str, requests: tuple[str, str] | None = None, limits: tuple[str, str] | None = None) -> Pod:
    amounts = [None if pair is None else {"cpu": pair[0], "memory": pair[1]} for pair in (requests, limits)]
    return make_pod(container("app", *amounts), metadata={"namespace": namespace})


PODS = [
    pod_of("shop", ("1", "1024Mi"), ("1", "1024Mi")),
    pod_of("kube-system", ("200m", "128Mi"), ("200m", "128Mi")),
    pod_of("shop", ("500m", "256Mi"), ("1", "512Mi")),
    pod_of("kube-system", ("100m", "64Mi"), ("200m", "128Mi")),
    pod_of("shop"),
    pod_of("kube-system"),
]


def test_qos_levels_without_options_are_cpu_shares_only() -> None:
    # Burstable: 500m + 100m = 600m, x 1024 / 1000 = 614 shares
    assert qos_levels(PODS, QosRules()) == QosLevels(burstable_shares=614)
    assert qos_levels([], QosRules()) == QosLevels(burstable_shares=2)


def test_qos_levels_of_the_default_partition_leave_room_for_the_system_partition() -> None:
    rules = QosRules(
        allocatable_memory_bytes=8192 * MIB,
        reserved_memory_percent=100,
        reservation=ReservationPolicy.TIERED,
        system_namespaces={"kube-system"},
    )
    others = 1024 + 128 + 64  # all Guaranteed pods and the other partition's Burstable one
    assert qos_levels(PODS, rules) == QosLevels(
        burstable_shares=512,
        root_memory_min_bytes=(1024 + 128 + 256 + 64) * MIB,
        root_memory_low_bytes=(256 + 64) * MIB,
        burstable_memory_low_bytes=256 * MIB,
        burstable_memory_max_bytes=(8192 - others) * MIB,
        best_effort_memory_max_bytes=(8192 - others - 256) * MIB,
    )


def test_qos_levels_of_the_system_partition_count_its_own_pods_and_limit() -> None:
    rules = QosRules(
        allocatable_memory_bytes=GIB,
        reserved_memory_percent=100,
        reservation=ReservationPolicy.TIERED,
        partition=Partition.SYSTEM,
        system_namespaces={"kube-system"},
    )
    assert qos_levels(PODS, rules) == QosLevels(
        burstable_shares=102,
        root_memory_min_bytes=(128 + 64) * MIB,
        root_memory_low_bytes=64 * MIB,
        burstable_memory_low_bytes=64 * MIB,
        burstable_memory_max_bytes=(1024 - 128) * MIB,
        best_effort_memory_max_bytes=(1024 - 128 - 64) * MIB,
    )


@pytest.mark.parametrize("allocatable_bytes", [None, 0])
def test_qos_levels_reserve_nothing_when_allocatable_is_unknown(allocatable_bytes: int | None) -> None:
    rules = QosRules(allocatable_memory_bytes=allocatable_bytes, reserved_memory_percent=50)
    assert qos_levels(PODS, rules).burstable_memory_max_bytes is None


@given(st.integers(min_value=0, max_value=100))
def test_qos_levels_reserve_more_with_a_higher_percentage(percent: int) -> None:
    levels = qos_levels(PODS, QosRules(allocatable_memory_bytes=8 * GIB, reserved_memory_percent=percent))
    assert levels.burstable_memory_max_bytes is not None
    assert levels.best_effort_memory_max_bytes is not None
    assert levels.best_effort_memory_max_bytes <= levels.burstable_memory_max_bytes <= 8 * GIB
    assert (percent == 0) == (levels.burstable_memory_max_bytes == 8 * GIB)


def test_qos_reserve_retry_moves_only_levels_over_their_target() -> None:
    targets = {"burstable": 4 * GIB, "besteffort": 3 * GIB, "kubepods": None, "other": 1}
    usage = {"burstable": 5 * GIB, "besteffort": GIB, "kubepods": 9 * GIB}
    expected = {"burstable": 5 * GIB, "besteffort": 3 * GIB, "kubepods": None, "other": 1}
    assert qos_reserve_retry(targets, usage) == expected


@pytest.mark.parametrize(
    ("option", "reserved"),
    [
        ("", {}),
        ("memory=0%", {"memory": 0}),
        ("memory=100%", {"memory": 100}),
        (" memory = 50% ,", {"memory": 50}),
        ("memory=200%,memory=20%", {"memory": 20}),  # the flag is a map: what came first is never judged
    ],
)
def test_parse_qos_reserved_reads_percents(option: str, reserved: dict[str, int]) -> None:
    assert parse_qos_reserved(option) == reserved


@pytest.mark.parametrize(
    "option",
    [
        *("memory", "cpu=10%", "memory=50", "memory=%", "memory=101%", "memory=-1%", "memory=1.5%", "memory=1_0%"),
        *("=5%", "memory=20%,memory=200%"),
    ],
)
def test_parse_qos_reserved_refuses_what_the_kubelet_refuses(option: str) -> None:
    with pytest.raises(QosReservedError, match=r"^qos-reserved: "):
        parse_qos_reserved(option)


def test_kubepods_root_is_capacity_less_reservations_while_enforced() -> None:
    capacity = ReservedAmounts(cpu_millicores=8000, memory_bytes=32 * GIB)
    reserved = ReservedAmounts(cpu_millicores=500, memory_bytes=GIB)
    assert kubepods_root(capacity, reserved, reserved) == RootCgroup(cpu_shares=7168, memory_bytes=30 * GIB)
    unenforced = kubepods_root(capacity, reserved, reserved, enforce_pods=False)
    assert unenforced == RootCgroup(cpu_shares=8192, memory_bytes=32 * GIB)
    assert kubepods_root(NONE, reserved, NONE) == RootCgroup(cpu_shares=2, memory_bytes=0)
