"""The played kubelet answers resizes in the API as a kubelet of 1.37 does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster import objects
from tests.cluster.api import ApiError, Json
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelet_play import Answer, KubeletPlay
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

REQUESTS = {"cpu": "500m", "memory": "64Mi"}


@pytest.fixture
def kubelet(cluster: ControlPlane, node_name: str) -> Iterator[KubeletPlay]:
    """The kubelet of a node with two CPUs."""
    objects.create_node(cluster.admin, node_name, cpu="2", kubelet_version=f"v{cluster.version}")
    with KubeletPlay(cluster, node_name) as play:
        yield play


@pytest.fixture
def make(cluster: ControlPlane, namespace: str, node_name: str) -> Callable[..., Json]:
    """Create a running pod: ``make("web", cpu="500m")``."""

    def create(kubelet: KubeletPlay, name: str, cpu: str = "500m", **spec: Any) -> Json:
        requests = {"cpu": cpu, "memory": "64Mi"}
        own = objects.container(requests=requests, limits={"memory": "128Mi"})
        cluster.admin.create(objects.pod_path(namespace), objects.pod(name, node_name, own, **spec))
        return kubelet.wait_settled(namespace, name)

    return create


def cpu_request(amount: str) -> Json:
    return objects.resize_body(app={"requests": {"cpu": amount}})


def resize_conditions(pod: Json, *, tells_generations: bool) -> dict[str, str]:
    """Return the resize conditions of a pod: type to reason; each must be about the present generation."""
    kinds = (objects.RESIZE_PENDING, objects.RESIZE_IN_PROGRESS)
    conditions = [condition for condition in pod["status"].get("conditions", []) if condition["type"] in kinds]
    about = pod["metadata"]["generation"] if tells_generations else None
    assert [condition.get("observedGeneration") for condition in conditions] == [about] * len(conditions)
    return {condition["type"]: condition.get("reason", "") for condition in conditions}


def wait_conditions(cluster: ControlPlane, namespace: str, name: str, expected: dict[str, str]) -> Json:
    """Wait until the kubelet has seen the present generation and its conditions are the expected ones."""
    pods: list[Json] = []

    def holds() -> bool:
        pods[:] = [cluster.admin.get(objects.pod_path(namespace, name))]
        tells = cluster.tells_generations
        seen = not tells or pods[0]["status"].get("observedGeneration") == pods[0]["metadata"]["generation"]
        return seen and resize_conditions(pods[0], tells_generations=tells) == expected

    wait_for(holds, f"{name} has the conditions {expected}")
    return pods[0]


def test_new_pod_runs_with_what_it_asked_for(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane
) -> None:
    status = make(kubelet, "web")["status"]
    [app] = status["containerStatuses"]
    assert (app["resources"]["requests"], app["allocatedResources"]) == (REQUESTS, REQUESTS)
    assert app["containerID"].startswith("containerd://")
    assert status["qosClass"] == "Burstable"
    if cluster.version.startswith("1.37."):
        # 500m: shares 512, weight 1 + 510 * 9999 // 262142 = 20, back 2 + 19 * 262142 // 9999 = 500 shares, 489m.
        assert status["resources"]["requests"]["cpu"] == "489m"
        assert status["allocatedResources"]["cpu"] == "500m"


def test_resize_is_allocated_in_progress_and_then_actual(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    make(kubelet, "web")
    log = AuditLog(cluster.audit_log)
    resized = objects.resize(cluster.admin, namespace, "web", cpu_request("750m"))
    pod = kubelet.wait_settled(namespace, "web")
    seen = resized["metadata"]["generation"] if cluster.tells_generations else None
    assert pod["status"].get("observedGeneration") == seen
    [app] = pod["status"]["containerStatuses"]
    assert app["resources"]["requests"]["cpu"] == app["allocatedResources"]["cpu"] == "750m"
    assert app["resources"]["limits"] == {"memory": "128Mi"}
    assert app["restartCount"] == 0
    user = f"system:node:{pod['spec']['nodeName']}"
    # A change is seen by others before the server has written its line.
    wait_for(lambda: len(log.writes(user)) == 2, "both writes are in the audit log")
    first, last = [call.body["status"]["conditions"] for call in log.writes(user) if call.body is not None]
    assert [condition["type"] for condition in first] == ["PodResizeInProgress"]
    assert last == [{"type": "PodResizeInProgress", "$patch": "delete"}]


def test_in_progress_keeps_actual_behind_allocated_until_told(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    make(kubelet, "web")
    kubelet.answer(namespace, "web", Answer.IN_PROGRESS)
    objects.resize(cluster.admin, namespace, "web", cpu_request("250m"))
    pod = wait_conditions(cluster, namespace, "web", {"PodResizeInProgress": ""})
    [app] = pod["status"]["containerStatuses"]
    assert (app["allocatedResources"]["cpu"], app["resources"]["requests"]["cpu"]) == ("250m", "500m")
    kubelet.answer(namespace, "web", Answer.ACTUATE)
    [app] = kubelet.wait_settled(namespace, "web")["status"]["containerStatuses"]
    assert app["resources"]["requests"]["cpu"] == "250m"


def test_growth_without_room_is_deferred_until_another_pod_shrinks(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    make(kubelet, "web", cpu="1")
    make(kubelet, "other", cpu="900m")
    objects.resize(cluster.admin, namespace, "web", cpu_request("1500m"))  # 1500 + 900 > 2000
    pod = wait_conditions(cluster, namespace, "web", {"PodResizePending": "Deferred"})
    assert pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "1"
    objects.resize(cluster.admin, namespace, "other", cpu_request("500m"))  # 1500 + 500 = 2000
    [app] = kubelet.wait_settled(namespace, "web")["status"]["containerStatuses"]
    assert app["resources"]["requests"]["cpu"] == "1500m"


def test_deferred_by_order_is_done_when_told_and_vanishes_when_withdrawn(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    make(kubelet, "web")
    kubelet.answer(namespace, "web", Answer.DEFER)
    objects.resize(cluster.admin, namespace, "web", cpu_request("600m"))
    wait_conditions(cluster, namespace, "web", {"PodResizePending": "Deferred"})
    objects.resize(cluster.admin, namespace, "web", cpu_request("500m"))  # as it was
    wait_conditions(cluster, namespace, "web", {})
    objects.resize(cluster.admin, namespace, "web", cpu_request("600m"))
    wait_conditions(cluster, namespace, "web", {"PodResizePending": "Deferred"})
    kubelet.answer(namespace, "web", Answer.ACTUATE)
    kubelet.wait_settled(namespace, "web")


def test_infeasible_carries_its_message(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    make(kubelet, "web")
    kubelet.answer(namespace, "web", Answer.INFEASIBLE, "not here")
    objects.resize(cluster.admin, namespace, "web", cpu_request("600m"))
    pod = wait_conditions(cluster, namespace, "web", {"PodResizePending": "Infeasible"})
    assert "not here" in [condition.get("message") for condition in pod["status"]["conditions"]]


def test_error_in_progress_is_cleared_by_patching_back(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    if int(cluster.version.split(".")[1]) < 34:
        pytest.skip(f"an API server of {cluster.version} refuses to lower a memory limit")
    make(kubelet, "web")
    kubelet.answer(namespace, "web", Answer.ERROR)
    objects.resize(cluster.admin, namespace, "web", objects.resize_body(app={"limits": {"memory": "96Mi"}}))
    pod = wait_conditions(cluster, namespace, "web", {"PodResizeInProgress": "Error"})
    assert pod["status"]["containerStatuses"][0]["resources"]["limits"]["memory"] == "128Mi"
    objects.resize(cluster.admin, namespace, "web", objects.resize_body(app={"limits": {"memory": "128Mi"}}))
    wait_conditions(cluster, namespace, "web", {})


def test_silent_kubelet_observes_nothing(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    before = make(kubelet, "web")
    make(kubelet, "other")
    kubelet.answer(namespace, "web", Answer.SILENCE)
    objects.resize(cluster.admin, namespace, "web", cpu_request("600m"))
    # The other pod's resize came later: once it is done the silent one has been passed over.
    objects.resize(cluster.admin, namespace, "other", cpu_request("600m"))
    kubelet.wait_settled(namespace, "other")
    after = cluster.admin.get(objects.pod_path(namespace, "web"))
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    seen = before["metadata"]["generation"] if cluster.tells_generations else None
    assert after["status"].get("observedGeneration") == seen


def test_pod_level_resize_is_reported_at_the_pod(
    kubelet: KubeletPlay, make: Callable[..., Json], control_plane_1_37: ControlPlane, namespace: str
) -> None:
    make(kubelet, "web", resources={"requests": {"cpu": "1", "memory": "1Gi"}})
    objects.resize(control_plane_1_37.admin, namespace, "web", {"spec": {"resources": {"requests": {"cpu": "1500m"}}}})
    kubelet.wait_settled(namespace, "web")
    pod = wait_conditions(control_plane_1_37, namespace, "web", {})
    assert pod["status"]["resources"]["requests"] == {"cpu": "1500m", "memory": "1Gi"}
    assert pod["status"]["allocatedResources"] == {"cpu": "1500m", "memory": "1Gi"}


def test_kill_for_memory_is_reported_and_the_pod_runs_on(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    before = make(kubelet, "web")["status"]["containerStatuses"][0]
    kubelet.oom_kill(namespace, "web")
    after = cluster.admin.get(objects.pod_path(namespace, "web"))["status"]["containerStatuses"][0]
    assert after["restartCount"] == 1
    assert after["containerID"] != before["containerID"]
    assert after["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert (after["resources"], list(after["state"])) == (before["resources"], ["running"])


def test_deleted_pod_goes_and_its_room_is_free(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    make(kubelet, "web", cpu="1")
    make(kubelet, "leaving", cpu="900m", terminationGracePeriodSeconds=30)
    objects.resize(cluster.admin, namespace, "web", cpu_request("1500m"))
    wait_conditions(cluster, namespace, "web", {"PodResizePending": "Deferred"})
    cluster.admin.delete(objects.pod_path(namespace, "leaving"))
    kubelet.wait_settled(namespace, "web")
    assert not cluster.admin.exists(objects.pod_path(namespace, "leaving"))


def test_kubelet_goes_on_after_an_outage(
    kubelet: KubeletPlay, make: Callable[..., Json], cluster: ControlPlane, namespace: str
) -> None:
    make(kubelet, "web")
    with cluster.outage():
        pass
    objects.resize(cluster.admin, namespace, "web", cpu_request("600m"))
    kubelet.wait_settled(namespace, "web")


def test_kubelet_may_not_speak_for_another_node(kubelet: KubeletPlay, cluster: ControlPlane, namespace: str) -> None:
    with pytest.raises(ApiError) as refusal:
        objects.write_node_status(kubelet.api, "another-node", {"phase": "Running"})
    assert refusal.value.status in (403, 404)
