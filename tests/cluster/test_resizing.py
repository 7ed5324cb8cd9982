"""Resizes that a real server takes, through the agent's own call and rights: what is asked is what the pod holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.plan.pod_change import Setting
from agent.core.resize.answer import AnswerKind
from agent.core.resize.status import ResizeState, resize_status
from agent.kube.calls.resize import FIELD_MANAGER, resize
from tests.cluster import fence, objects
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.resizing import GUARANTEED, MI, Scene, cpu, memory, scene_of, step_of

pytestmark = pytest.mark.cluster

LIMIT = Setting.LIMIT


@pytest.fixture(scope="module", autouse=True)
def _fenced(cluster: ControlPlane) -> None:
    fence.install(cluster)


@pytest.fixture
def scene(cluster: ControlPlane, namespace: str, node_name: str) -> Iterator[Scene]:
    node_scene = scene_of(cluster, namespace, node_name)
    yield node_scene
    node_scene.agent.close()


def amounts(pod: Pod, name: str = "app") -> tuple[int | None, int | None, int | None, int | None]:
    container = pod.container(name)
    assert container is not None
    stated = container.resources
    return (
        stated.cpu_request_millicores,
        stated.cpu_limit_millicores,
        stated.memory_request_bytes,
        stated.memory_limit_bytes,
    )


def test_cpu_goes_up_and_down_and_the_rest_stays(scene: Scene) -> None:
    pod = scene.run(scene.make())
    answer, up = scene.send(pod, cpu(250))
    assert (answer.kind, answer.message) == (AnswerKind.ACCEPTED, "")
    assert up is not None
    assert amounts(up) == (250, 500, 64 * MI, 128 * MI)
    assert up.generation == (pod.generation or 0) + 1
    assert up.uid == pod.uid
    answer, down = scene.send(up, cpu(50))
    assert answer.is_done
    assert down is not None
    assert amounts(down) == (50, 500, 64 * MI, 128 * MI)
    assert scene.read(pod) == down


def test_odd_bytes_of_memory_come_back_exactly(scene: Scene) -> None:
    pod = scene.run(scene.make())
    _, up = scene.send(pod, memory(100 * MI + 1), memory(200 * MI + 3, LIMIT))
    assert up is not None
    assert amounts(up) == (100, 500, 100 * MI + 1, 200 * MI + 3)


def test_memory_request_and_limit_go_down(scene: Scene) -> None:
    # The API takes it from 1.34 on; whether it is safe is the kubelet's and the plan's question.
    pod = scene.run(scene.make())
    answer, down = scene.send(pod, memory(32 * MI), memory(96 * MI, LIMIT))
    if int(scene.plane.version.split(".")[1]) < 34:
        assert (answer.kind, down) == (AnswerKind.FEATURE_MISSING, None)
        assert "memory limits cannot be decreased" in answer.message
        return
    assert answer.is_done
    assert down is not None
    assert amounts(down) == (100, 500, 32 * MI, 96 * MI)


def test_several_containers_change_in_one_patch(scene: Scene) -> None:
    pod = scene.make(objects.container("a", requests={"cpu": "1"}), objects.container("b", requests={"cpu": "1"}))
    _, after = scene.send(pod, cpu(1500, container="b"), cpu(500, container="a"))
    assert after is not None
    assert (amounts(after, "a")[0], amounts(after, "b")[0]) == (500, 1500)
    assert [container.name for container in after.containers] == ["a", "b"]
    assert after.generation == (pod.generation or 0) + 1


def test_sidecar_is_resized_in_the_list_of_init_containers(scene: Scene) -> None:
    sidecar = {**objects.container("proxy", requests={"cpu": "50m"}), "restartPolicy": "Always"}
    pod = scene.run(scene.make(initContainers=[sidecar]))
    answer, after = scene.send(pod, cpu(75, container="proxy", kind=ContainerKind.SIDECAR))
    assert answer.is_done
    assert after is not None
    assert amounts(after, "proxy")[0] == 75


def test_container_that_restarts_for_a_resize_is_taken_by_the_api(scene: Scene) -> None:
    # The restart is the kubelet's doing; that it was allowed is the plan's to know.
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    container = {**objects.container(requests={"cpu": "100m", "memory": "64Mi"}), "resizePolicy": policy}
    pod = scene.run(scene.make(container))
    answer, after = scene.send(pod, memory(80 * MI))
    assert answer.is_done
    assert after is not None
    assert after.containers[0].restarts_for_memory


def test_guaranteed_pod_moves_request_and_limit_together(scene: Scene) -> None:
    pod = scene.run(scene.make(objects.container(**GUARANTEED)))
    answer, after = scene.send(pod, cpu(150), cpu(150, LIMIT), memory(80 * MI), memory(80 * MI, LIMIT))
    assert answer.is_done
    assert after is not None
    assert amounts(after) == (150, 150, 80 * MI, 80 * MI)
    assert after.recorded_qos == pod.recorded_qos


def test_budget_of_the_pod_and_a_container_in_it_are_resized(control_plane_1_37: ControlPlane, scene: Scene) -> None:
    budget = {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    pod = scene.run(scene.make(resources=budget))
    changes = (cpu(800, container="", kind=None), memory(600 * MI, LIMIT, container="", kind=None), cpu(200))
    answer, after = scene.send(pod, *changes)
    assert answer.is_done
    assert after is not None
    assert after.resources is not None
    assert (after.resources.cpu_request_millicores, after.resources.memory_limit_bytes) == (800, 600 * MI)
    assert (after.resources.cpu_limit_millicores, after.resources.memory_request_bytes) == (1000, 256 * MI)
    assert amounts(after)[0] == 200


def test_the_same_again_is_no_change_and_no_new_generation(scene: Scene) -> None:
    pod = scene.make()
    _, after = scene.send(pod, cpu(250))
    assert after is not None
    answer, again = scene.send(after, cpu(250))
    assert answer.kind is AnswerKind.NO_CHANGE
    assert again == after
    # Without a resourceVersion the generation tells.
    answer, _ = resize(scene.agent, step_of(pod, cpu(250)), None, pod=after)
    assert answer.kind is AnswerKind.NO_CHANGE
    answer, _ = resize(scene.agent, step_of(pod, cpu(260)), None, pod=after)
    assert answer.kind is AnswerKind.ACCEPTED


def test_writer_is_named_and_sends_nothing_but_the_patch(scene: Scene) -> None:
    pod = scene.make()
    log = AuditLog(scene.plane.audit_log)
    scene.send(pod, cpu(250))
    [write] = [write for write in log.writes(fence.USER) if write.node == scene.node]
    assert str(write) == f"patch pods/resize {pod.namespace}/{pod.name} 200"
    assert write.body == {
        "metadata": {"uid": pod.uid, "resourceVersion": pod.resource_version},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "250m"}}}]},
    }
    managers = scene.plane.admin.get(scene.path(pod))["metadata"]["managedFields"]
    assert [entry["manager"] for entry in managers if entry.get("subresource") == "resize"] == [FIELD_MANAGER]


# The pod is another one than was thought


def test_pod_changed_since_it_was_read_is_a_conflict_and_stays(scene: Scene) -> None:
    pod = scene.make()
    objects.resize(scene.plane.admin, pod.namespace, pod.name, objects.resize_body(app={"requests": {"cpu": "300m"}}))
    answer, after = scene.send(pod, cpu(250))
    assert answer.kind is AnswerKind.CONFLICT
    assert "has been modified" in answer.message
    assert after is None
    assert amounts(scene.read(pod))[0] == 300
    # Decided anew on the new state it goes through.
    answer, _ = scene.send(scene.read(pod), cpu(250))
    assert answer.is_done


def test_status_written_meanwhile_is_a_conflict_only_with_a_resource_version(scene: Scene) -> None:
    pod = scene.make()
    scene.run(pod)
    answer, _ = scene.send(pod, cpu(250))
    assert answer.kind is AnswerKind.CONFLICT
    answer, _ = resize(scene.agent, step_of(pod, cpu(250)), None)
    assert answer.kind is AnswerKind.ACCEPTED


def test_successor_of_the_same_name_is_never_touched(scene: Scene) -> None:
    pod = scene.make()
    scene.remove(pod)
    manifest = objects.pod(pod.name, scene.node, objects.container(requests={"cpu": "100m"}))
    successor = scene.plane.admin.create(objects.pod_path(pod.namespace), manifest)
    assert successor["metadata"]["uid"] != pod.uid
    answer, _ = resize(scene.agent, step_of(pod, cpu(250)), None)
    assert answer.kind is AnswerKind.GONE
    # With the successor's version the uid alone keeps it safe.
    answer, _ = resize(scene.agent, step_of(pod, cpu(250)), successor["metadata"]["resourceVersion"])
    assert answer.kind is AnswerKind.GONE
    assert amounts(scene.read(pod))[0] == 100


def test_deleted_pod_is_gone(scene: Scene) -> None:
    pod = scene.make()
    scene.remove(pod)
    answer, after = scene.send(pod, cpu(250))
    assert (answer.kind, after) == (AnswerKind.GONE, None)
    assert answer.message == f'pods "{pod.name}" not found'


# The way of a resize, its status written in the kubelet's words


def test_status_of_an_accepted_resize_from_unseen_to_done(scene: Scene) -> None:
    pod = scene.run(scene.make())
    assert resize_status(pod).state is ResizeState.DONE
    _, after = scene.send(pod, cpu(250))
    assert after is not None
    assert resize_status(after).state is ResizeState.UNSEEN

    generation = after.generation or 0
    condition = objects.deferred(generation)
    waiting = scene.write_status(after, {"observedGeneration": generation, "conditions": [condition]})
    assert resize_status(waiting).state is ResizeState.DEFERRED
    assert resize_status(waiting).message == "Node didn't have enough resource: cpu"

    gone = {"type": objects.RESIZE_PENDING, "$patch": "delete"}
    going = scene.write_status(after, {"conditions": [gone, objects.in_progress(generation)]})
    assert resize_status(going).state is ResizeState.IN_PROGRESS

    gone = {"type": objects.RESIZE_IN_PROGRESS, "$patch": "delete"}
    scene.write_status(after, {"conditions": [gone]})
    assert resize_status(scene.run(after)).state is ResizeState.DONE


def test_status_of_infeasible_and_of_an_error(scene: Scene) -> None:
    pod = scene.run(scene.make())
    _, after = scene.send(pod, memory(192 * MI, LIMIT))
    assert after is not None
    generation = after.generation or 0
    words = "failed to update container resources: the runtime said no"
    error = objects.in_progress(generation, error=words)
    failing = scene.write_status(after, {"observedGeneration": generation, "conditions": [error]})
    assert (resize_status(failing).state, resize_status(failing).error) == (ResizeState.ERROR, words)
    never = scene.write_status(after, {"conditions": [objects.infeasible(generation)]})
    assert (resize_status(never).state, resize_status(never).error) == (ResizeState.INFEASIBLE, words)


# The server does not answer


def test_stopped_server_is_unavailable_and_nothing_was_done(scene: Scene) -> None:
    pod = scene.make()
    with scene.plane.outage():
        answer, _ = scene.send(pod, cpu(250))
    assert answer.kind is AnswerKind.UNAVAILABLE
    assert scene.plane.url in answer.message
    assert scene.read(pod) == pod


def test_server_that_hangs_is_unknown_and_the_step_sent_again_is_done_once(scene: Scene) -> None:
    pod = scene.make()
    with scene.plane.freeze():
        answer, _ = scene.send(pod, cpu(250), timeout_seconds=0.3)
        assert answer.kind is AnswerKind.UNKNOWN
    answer, _ = scene.send(pod, cpu(250))
    # The first one was done or not; the resourceVersion lets only one of the two through.
    assert answer.kind in (AnswerKind.ACCEPTED, AnswerKind.CONFLICT)
    after = scene.read(pod)
    assert (amounts(after)[0], after.generation) == (250, (pod.generation or 0) + 1)
