from __future__ import annotations

from agent.core.cluster.pod import QosClass
from agent.core.machine.allocated_pod import allocated_pod
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
