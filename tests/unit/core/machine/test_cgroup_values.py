from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import Pod, QosClass
from agent.core.machine.cgroup_values import (
    ContainerCgroup,
    KubeletRules,
    PodCgroup,
    ReservationPolicy,
    container_cgroup,
    limits_bind,
    memory_high,
    page_size_bytes,
    pod_cgroup,
)
from agent.core.numbers.units import MIB
from tests.pods import container, make_pod

RULES = KubeletRules()
TIERED = KubeletRules(reservation=ReservationPolicy.TIERED)
SMALL = {"cpu": "100m", "memory": "100Mi"}
LARGE = {"cpu": "200m", "memory": "200Mi"}


def test_pod_cgroup_of_best_effort_is_the_minimum_and_nothing_else() -> None:
    assert pod_cgroup(make_pod(container()), RULES) == PodCgroup(cpu_shares=2)


def test_pod_cgroup_of_burstable_is_limited_where_every_container_is() -> None:
    pod = make_pod(container("a", SMALL, LARGE), container("b", SMALL, {"cpu": "100m"}))
    # shares 200 x 1024 / 1000 = 204; quota 300m of 100 ms; memory not, as b has no limit
    assert pod_cgroup(pod, RULES) == PodCgroup(cpu_shares=204, cpu_quota_usec=30_000, cpu_period_usec=100_000)


def test_pod_cgroup_of_guaranteed_has_all_values() -> None:
    pod = make_pod(container("a", SMALL, SMALL))
    expected = PodCgroup(cpu_shares=102, cpu_quota_usec=10_000, cpu_period_usec=100_000, memory_bytes=100 * MIB)
    assert pod_cgroup(pod, RULES) == expected


def test_pod_cgroup_without_quota_enforcement_asks_for_no_limit() -> None:
    values = pod_cgroup(make_pod(container("a", SMALL, SMALL)), KubeletRules(enforce_cpu_limits=False))
    assert (values.cpu_quota_usec, values.cpu_period_usec) == (-1, 100_000)


def test_pod_cgroup_follows_pod_level_limits_over_bare_containers() -> None:
    pod = make_pod(container("a"), resources={"requests": SMALL, "limits": {"memory": "200Mi"}})
    assert pod_cgroup(pod, RULES) == PodCgroup(cpu_shares=102, memory_bytes=200 * MIB)


def test_limits_bind_is_undone_by_an_init_container_without_limit() -> None:
    pod = make_pod(container("a", limits=LARGE), initContainers=[container("i", limits={"cpu": "1"})])
    assert (limits_bind(pod, "cpu"), limits_bind(pod, "memory")) == (True, False)


@pytest.mark.parametrize(
    ("pod", "memory_min_bytes", "memory_low_bytes"),
    [
        (make_pod(container("a", SMALL, SMALL)), 100 * MIB, None),
        (make_pod(container("a", SMALL)), None, 100 * MIB),
        (make_pod(container("a")), None, None),
        (make_pod(container("a"), overhead={"memory": "1Mi"}), None, MIB),  # BestEffort with overhead
    ],
)
def test_pod_cgroup_under_tiered_reservation_protects_by_class(
    pod: Pod, memory_min_bytes: int | None, memory_low_bytes: int | None
) -> None:
    values = pod_cgroup(pod, TIERED)
    assert (values.memory_min_bytes, values.memory_low_bytes) == (memory_min_bytes, memory_low_bytes)


def test_pod_cgroup_sums_huge_pages_of_one_size_and_passes_over_odd_names() -> None:
    requests = {"hugepages-2Mi": "4Mi", "hugepages-2048Ki": "2Mi", "hugepages-odd": "1", "pages-2Mi": "1"}
    assert pod_cgroup(make_pod(container("a", requests)), RULES).hugepage_limit_bytes == {2 * MIB: 6 * MIB}
    assert page_size_bytes("hugepages-1Gi") == 1024 * MIB


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        (None, None, ContainerCgroup(cpu_shares=2)),
        (SMALL, None, ContainerCgroup(cpu_shares=102)),
        (None, {"cpu": "1"}, ContainerCgroup(cpu_shares=1024, cpu_quota_usec=100_000)),  # request absent: the limit
        ({"cpu": "0"}, {"cpu": "1"}, ContainerCgroup(cpu_shares=2, cpu_quota_usec=100_000)),  # request stated as 0
        (SMALL, LARGE, ContainerCgroup(cpu_shares=102, cpu_quota_usec=20_000, memory_bytes=200 * MIB)),
        (SMALL, {"cpu": "0", "memory": "0"}, ContainerCgroup(cpu_shares=102)),
    ],
)
def test_container_cgroup_by_requests_and_limits(requests: Any, limits: Any, expected: ContainerCgroup) -> None:
    pod = make_pod(container("a", requests, limits))
    assert container_cgroup(pod, pod.containers[0], RULES) == expected


def test_container_cgroup_of_a_bare_container_gets_the_pods_limit() -> None:
    pod = make_pod(container("a"), resources={"requests": SMALL, "limits": LARGE})
    expected = ContainerCgroup(cpu_shares=204, cpu_quota_usec=20_000, memory_bytes=200 * MIB)
    assert container_cgroup(pod, pod.containers[0], RULES) == expected


def test_container_cgroup_follows_the_kubelets_options() -> None:
    pod = make_pod(container("a", SMALL, LARGE))
    rules = KubeletRules(enforce_cpu_limits=False, single_process_oom_kill=True)
    expected = ContainerCgroup(cpu_shares=102, memory_bytes=200 * MIB, oom_group=False)
    assert container_cgroup(pod, pod.containers[0], rules) == expected


def test_container_cgroup_adds_claims_to_its_own_limits_only() -> None:
    claims = [
        {
            "containers": ["a", "b"],
            "mapping": [{"name": "cpu", "quantity": "1"}],
            "overhead": [{"name": "memory", "perPod": "10Mi", "perContainer": "1Mi"}],
        },
        {"containers": ["c"], "mapping": [{"name": "cpu", "quantity": "9"}]},
    ]
    pod = make_pod(
        container("a", SMALL, LARGE), container("b"), status={"nodeAllocatableResourceClaimStatuses": claims}
    )
    rules = KubeletRules(claims=True)
    expected = ContainerCgroup(cpu_shares=102, cpu_quota_usec=120_000, memory_bytes=211 * MIB)
    assert container_cgroup(pod, pod.containers[0], rules) == expected
    assert container_cgroup(pod, pod.containers[1], rules) == ContainerCgroup(cpu_shares=2)


@pytest.mark.parametrize(
    ("request_bytes", "limit_bytes", "allocatable_bytes", "factor", "expected"),
    [
        (128 * MIB, 256 * MIB, None, 0.9, 255_012_864),  # 128 + 0.9 x 128 = 243.2 MiB, down to a page
        (128 * MIB, 256 * MIB, None, None, None),
        (256 * MIB, 256 * MIB, None, 0.9, None),
        (None, None, 1000 * MIB, 0.9, 900 * MIB),
        (None, None, None, 0.9, None),
        (None, 1000, None, 0.9, None),  # below one page
        (200 * MIB, 100 * MIB, None, 0.9, None),
    ],
)
def test_memory_high_lies_between_request_and_limit(
    request_bytes: int | None,
    limit_bytes: int | None,
    allocatable_bytes: int | None,
    factor: float | None,
    expected: int | None,
) -> None:
    got = memory_high(
        qos=QosClass.BURSTABLE,
        request_bytes=request_bytes,
        limit_bytes=limit_bytes,
        node_allocatable_bytes=allocatable_bytes,
        throttling_factor=factor,
        page_size_bytes=4096,
    )
    assert got == expected


@pytest.mark.parametrize(
    ("qos", "limit_bytes", "pod_limits_memory", "expected"),
    [
        (QosClass.BURSTABLE, None, False, 900 * MIB),
        (QosClass.BURSTABLE, None, True, None),  # the pod's own cgroup does it
        (QosClass.GUARANTEED, None, False, None),  # Guaranteed without a limit: the pod has one
        (QosClass.GUARANTEED, 100 * MIB, False, 90 * MIB),  # Guaranteed at pod level, Burstable by itself
    ],
)
def test_memory_high_under_a_pod_level_limit(
    qos: QosClass, limit_bytes: int | None, pod_limits_memory: bool, expected: int | None
) -> None:
    got = memory_high(
        qos=qos,
        request_bytes=None,
        limit_bytes=limit_bytes,
        node_allocatable_bytes=1000 * MIB,
        throttling_factor=0.9,
        page_size_bytes=MIB,
        pod_limits_memory=pod_limits_memory,
    )
    assert got == expected


@given(
    st.integers(min_value=0, max_value=2**40),
    st.integers(min_value=0, max_value=2**40),
    st.floats(min_value=0.01, max_value=1.0),
)
def test_memory_high_is_whole_pages_above_the_request(request_bytes: int, room_bytes: int, factor: float) -> None:
    limit_bytes = request_bytes + room_bytes
    high_bytes = memory_high(
        qos=QosClass.BURSTABLE,
        request_bytes=request_bytes,
        limit_bytes=limit_bytes,
        node_allocatable_bytes=None,
        throttling_factor=factor,
        page_size_bytes=4096,
    )
    assert high_bytes is None or (high_bytes % 4096 == 0 and request_bytes < high_bytes <= limit_bytes)
