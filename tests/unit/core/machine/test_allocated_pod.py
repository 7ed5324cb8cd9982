from __future__ import annotations

from agent.core.cluster.pod import QosClass
from agent.core.machine.allocated_pod import allocated_pod
from agent.core.machine.memory_low import MemoryLow, memory_low_of
from agent.core.numbers.units import MIB
from tests.pods import container, make_pod, sidecar

WANTED = {"cpu": "200m", "memory": "200Mi"}


def test_pod_without_status_stands_as_its_spec() -> None:
    pod = make_pod(container("app", WANTED), initContainers=[sidecar("mesh", {"cpu": "10m"})])

    allocated = allocated_pod(pod)

    assert allocated.containers == pod.containers
    assert allocated.init_containers == pod.init_containers
    assert allocated.recorded_qos is QosClass.BURSTABLE


def test_allocated_requests_and_limits_in_force_go_before_the_spec() -> None:
    status = {
        "containerStatuses": [
            {
                "name": "app",
                "allocatedResources": {"cpu": "100m", "memory": "200Mi"},
                "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "300m"}},
            }
        ]
    }
    pod = make_pod(container("app", WANTED, {"cpu": "400m", "memory": "400Mi"}), status=status)

    (app,) = allocated_pod(pod).containers

    assert app.resources.cpu_request_millicores == 100
    assert app.resources.memory_request_bytes == 200 * MIB
    assert app.resources.cpu_limit_millicores == 300
    assert app.resources.memory_limit_bytes == 400 * MIB  # not reported: the spec stands


def test_requests_in_force_stand_in_for_allocated_ones() -> None:
    status = {"containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": "50m"}}}]}

    (app,) = allocated_pod(make_pod(container("app", WANTED), status=status)).containers

    assert app.resources.cpu_request_millicores == 50


def test_limit_that_only_the_status_has_is_not_the_containers_own() -> None:
    status = {"containerStatuses": [{"name": "app", "resources": {"limits": {"cpu": "1"}}}]}
    pod = make_pod(container("app"), resources={"limits": {"cpu": "1"}}, status=status)

    assert allocated_pod(pod).containers[0].resources.cpu_limit_millicores is None


def test_pod_level_resources_are_taken_as_allocated() -> None:
    pod = make_pod(
        container("app"),
        resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        status={"allocatedResources": {"cpu": "500m"}, "resources": {"limits": {"cpu": "1500m"}}},
    )

    resources = allocated_pod(pod).resources

    assert resources is not None
    assert (resources.cpu_request_millicores, resources.cpu_limit_millicores) == (500, 1500)


def test_class_stays_while_a_guaranteed_pod_is_between_two_sizes() -> None:
    status = {
        "containerStatuses": [
            {"name": "app", "allocatedResources": {"cpu": "2"}, "resources": {"limits": {"cpu": "1"}}},
        ]
    }
    two = {"cpu": "2", "memory": "64Mi"}

    assert allocated_pod(make_pod(container("app", two, two), status=status)).recorded_qos is QosClass.GUARANTEED


def test_overhead_that_is_reported_in_the_pods_own_amounts_is_taken_off() -> None:
    overhead = {"cpu": "250m", "memory": "120Mi"}
    stated = {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    with_it = {"cpu": "750m", "memory": "376Mi"}
    actual = {"requests": {"cpu": "731m", "memory": "376Mi"}, "limits": {"cpu": "1250m", "memory": "632Mi"}}
    settled = make_pod(
        container("app"),
        resources=stated,
        overhead=overhead,
        status={"allocatedResources": with_it, "resources": actual},
    )
    assert allocated_pod(settled).resources == settled.resources
    assert memory_low_of(settled) == MemoryLow(pod_bytes=376 * MIB, container_bytes={})
    # A kubelet that leaves it out.
    bare = {"allocatedResources": stated["requests"], "resources": stated}
    left_out = make_pod(container("app"), resources=stated, overhead=overhead, status=bare)
    assert allocated_pod(left_out).resources == settled.resources
    # A resize that is not allocated yet.
    wished = {"requests": {"cpu": "800m", "memory": "300Mi"}, "limits": stated["limits"]}
    asked = make_pod(
        container("app"),
        resources=wished,
        overhead=overhead,
        status={"allocatedResources": with_it, "resources": {}},
    )
    resources = allocated_pod(asked).resources
    assert resources is not None
    assert (resources.cpu_request_millicores, resources.memory_request_bytes) == (500, 256 * MIB)
