"""memory.low from requests: of containers and pods, and as sums above them."""

from __future__ import annotations

from agent.core.machine.memory_low import MemoryLow, memory_low_by_path, memory_low_of
from agent.core.numbers.units import MIB
from tests.pods import container, make_pod, sidecar

WEB = "/kubepods/burstable/podweb"
API = "/kubepods/podapi"


def test_a_pod_has_what_the_scheduler_counts_and_containers_what_they_request() -> None:
    pod = make_pod(
        container("app", {"memory": "64Mi"}),
        container("log"),
        initContainers=[sidecar("proxy", {"memory": "32Mi"})],
        overhead={"memory": "8Mi"},
    )
    assert memory_low_of(pod) == MemoryLow(pod_bytes=104 * MIB, container_bytes={"app": 64 * MIB, "proxy": 32 * MIB})


def test_what_stands_in_the_annotation_alone_is_not_protected() -> None:
    asks = {"plimsoll.dev/pod-limits": '{"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}'}
    assert memory_low_of(make_pod(container("app"), metadata={"annotations": asks})) is None


def test_a_resize_that_is_not_allocated_yet_does_not_count() -> None:
    status = {"name": "app", "allocatedResources": {"memory": "48Mi"}, "state": {"running": {}}}
    pod = make_pod(container("app", {"memory": "64Mi"}), status={"containerStatuses": [status]})
    assert memory_low_of(pod) == MemoryLow(pod_bytes=48 * MIB, container_bytes={"app": 48 * MIB})


def test_the_cgroups_above_hold_the_sums_up_to_kubepods() -> None:
    web = MemoryLow(pod_bytes=96 * MIB, container_bytes={"app": 64 * MIB, "log": 32 * MIB})
    api = MemoryLow(pod_bytes=128 * MIB, container_bytes={"api": 128 * MIB})
    by_path = memory_low_by_path([(WEB, web, {"app": f"{WEB}/a"}), (API, api, {"api": f"{API}/b"})], "/kubepods")
    assert by_path == {
        "/kubepods": 224 * MIB,
        "/kubepods/burstable": 96 * MIB,
        WEB: 96 * MIB,
        f"{WEB}/a": 64 * MIB,
        API: 128 * MIB,
        f"{API}/b": 128 * MIB,
    }


def test_a_pod_outside_the_tree_and_a_request_of_nothing_are_left_out() -> None:
    low = MemoryLow(pod_bytes=MIB, container_bytes={"app": 0})
    assert memory_low_by_path([("/other/podx", low, {})], "/kubepods") == {}
    assert f"{API}/a" not in memory_low_by_path([(API, low, {"app": f"{API}/a"})], "/kubepods")
