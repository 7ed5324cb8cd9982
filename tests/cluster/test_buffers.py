"""The CapacityBuffer controller on a real control plane: what changes is followed, what is wrong is told and mended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from agent.core.buffers.buffer import PLACEHOLDER_PODS
from agent.kube.calls.scale import UNKNOWN_SECONDS
from agent.webhook.buffers.controller import BufferController
from agent.webhook.buffers.options import BufferMode
from tests.cluster.api import MERGE, ApiError, Json, is_awaited
from tests.cluster.audit import AuditLog
from tests.cluster.buffers import (
    CRD_PATH,
    Buffers,
    buffers_path,
    content,
    controller,
    install_crd,
    is_ready,
    templates_path,
)
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import pod_path
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

PROMPT_SECONDS = 60.0
"""For what is watched: far below the resync of five minutes, and room for a machine that is busy."""


@pytest.fixture(scope="module")
def running(cluster: ControlPlane) -> Iterator[BufferController]:
    install_crd(cluster)
    with controller(cluster) as buffer_controller:
        yield buffer_controller


@pytest.fixture
def room(cluster: ControlPlane, running: BufferController, namespace: str) -> Buffers:
    return Buffers(cluster, namespace)


def deployment(room: Buffers, name: str, replicas: int, template: Json | None = None) -> None:
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": template or content(labels=labels),
    }
    room.admin.create(deployments(room), {"metadata": {"name": name}, "spec": spec})


def deployments(room: Buffers, name: str = "") -> str:
    base = f"/apis/apps/v1/namespaces/{room.namespace}/deployments"
    return f"{base}/{name}" if name else base


def quotas(room: Buffers, name: str = "") -> str:
    base = f"/api/v1/namespaces/{room.namespace}/resourcequotas"
    return f"{base}/{name}" if name else base


def quota(room: Buffers, name: str, **hard: str) -> None:
    room.admin.create(quotas(room), {"metadata": {"name": name}, "spec": {"hard": hard}})
    wait_for(lambda: "hard" in room.admin.get(quotas(room, name)).get("status", {}), "the quota is counted")


def of_deployment(name: str) -> Json:
    return {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": name}}


# What changes is followed


def test_a_changed_template_is_followed_and_counted_at_once(room: Buffers) -> None:
    room.template("shape")
    quota(room, "q", **{"requests.cpu": "4"})
    room.create("b", podTemplateRef={"name": "shape"}, replicas=5)
    room.await_replicas("b", 4)
    room.admin.patch(templates_path(room.namespace, "shape"), {"template": content(cpu="2")})
    status = room.await_replicas("b", 2, PROMPT_SECONDS)  # not 4 for one more pass: the new template counts
    assert status["podTemplateGeneration"] == 2
    assert room.chunk("b") == {"cpu": "2"}
    assert room.condition("b", "LimitedByQuotas")["message"] == (  # type: ignore[index]
        "Buffer replicas limited from 5 to 2 due to quotas: q"
    )


def test_a_raised_quota_and_a_changed_buffer_are_followed(room: Buffers) -> None:
    room.template("shape")
    quota(room, "q", cpu="2")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=3)
    room.await_replicas("b", 2)
    room.admin.patch(quotas(room, "q"), {"spec": {"hard": {"cpu": "10"}}}, MERGE)
    room.await_replicas("b", 3, PROMPT_SECONDS)
    room.change("b", replicas=7, limits={"cpu": "6"})
    status = room.await_replicas("b", 6, PROMPT_SECONDS)
    assert {entry["type"]: (entry["status"], entry["observedGeneration"]) for entry in status["conditions"]} == {
        "ReadyForProvisioning": ("True", 2),
        "LimitedByQuotas": ("False", 2),
    }
    room.change("b", replicas=1, limits=None)
    room.await_replicas("b", 1, PROMPT_SECONDS)


def test_a_deployment_that_is_scaled_moves_its_percentage(room: Buffers) -> None:
    deployment(room, "web", 4)
    room.create("b", **of_deployment("web"), percentage=50)
    room.await_replicas("b", 2)
    room.admin.patch(f"{deployments(room, 'web')}/scale", {"spec": {"replicas": 9}}, MERGE)
    room.await_replicas("b", 5, PROMPT_SECONDS)
    room.admin.patch(f"{deployments(room, 'web')}/scale", {"spec": {"replicas": 0}}, MERGE)
    room.await_replicas("b", 0, PROMPT_SECONDS)
    assert is_ready(room.status("b"))


def test_a_change_right_after_a_buffer_began_to_refer_to_it_is_noticed(
    room: Buffers, running: BufferController
) -> None:
    deployment(room, "earlier", 1)
    room.create("a", **of_deployment("earlier"), replicas=1)
    room.await_replicas("a", 1)
    wait_for(lambda: running.watches.hears("apps", "Deployment"), "the kind is watched for another buffer's sake")
    deployment(room, "web", 4)
    room.create("b", **of_deployment("web"), percentage=50)
    room.await_replicas("b", 2)
    room.admin.patch(f"{deployments(room, 'web')}/scale", {"spec": {"replicas": 8}}, MERGE)
    room.await_replicas("b", 4, PROMPT_SECONDS)


def test_a_rollout_brings_the_shape_of_its_pods(room: Buffers) -> None:
    deployment(room, "web", 2)
    # The shape may become another live pod's once in five minutes: it has to be a pod's from the first.
    wait_for(lambda: len(room.admin.items(pod_path(room.namespace))) == 2, "its pods are there")
    room.create("b", **of_deployment("web"), replicas=1)
    room.await_replicas("b", 1)
    wait_for(lambda: room.chunk("b") == {"cpu": "1"}, "the shape is the pods'")
    assert room.managed("b")["metadata"]["generation"] == 1
    # Kubernetes knows a pod's creation to the second: pods of one second are the same age.
    newest = max(
        datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
        for pod in room.admin.items(pod_path(room.namespace))
    )
    wait_for(lambda: datetime.now(UTC) >= newest + timedelta(seconds=1), "the next pods are newer")
    spec = {"spec": {"template": content(labels={"app": "web"}, cpu="3", memory="1Gi")}}
    room.admin.patch(deployments(room, "web"), spec)
    wait_for(lambda: room.chunk("b") == {"cpu": "3", "memory": "1Gi"}, "the shape is the new pods'", PROMPT_SECONDS)
    room.await_status("b", lambda status: status["podTemplateGeneration"] == 2, "the status names it")
    template = room.managed("b")["template"]
    assert template["metadata"]["labels"]["app"] == "web"
    assert "nodeName" not in template["spec"]
    assert not [entry for entry in template["spec"].get("volumes", []) if entry["name"].startswith("kube-api-access")]


def rack(room: Buffers, kind: str, *, has_scale: bool = True) -> str:
    """Define a kind of its own that can be scaled, and give the path of its objects in the namespace."""
    group, plural = "racks.plimsoll.test", f"{kind.lower()}s"
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    subresources: Json = {"status": {}}
    if has_scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": subresources,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
    }
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
        "versions": [version],
    }
    room.admin.create(
        CRD_PATH,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": spec,
        },
    )
    return f"/apis/{group}/v1/namespaces/{room.namespace}/{plural}"


def is_served(room: Buffers, path: str) -> bool:
    try:
        room.admin.get(path)
    except ApiError:
        return False
    return True


def test_a_kind_of_ones_own_and_nothing_but_its_status_changed(room: Buffers) -> None:
    ref = {"scalableRef": {"apiGroup": "racks.plimsoll.test", "kind": "Shelf", "name": "s"}}
    room.create("b", **ref, percentage=30)
    room.await_not_ready("b", "no kind Shelf in racks.plimsoll.test")
    path = rack(room, "Shelf")
    wait_for(lambda: is_served(room, path), "the kind is served")
    head = {"apiVersion": "racks.plimsoll.test/v1", "metadata": {"name": "s"}}
    room.admin.create(path, {**head, "kind": "Shelf", "spec": {"replicas": 10}})
    pod = {"metadata": {"name": "s-0", "labels": {"shelf": "s"}}, "spec": {**content(cpu="500m")["spec"]}}
    room.admin.create(pod_path(room.namespace), pod)
    room.admin.patch(f"{path}/s/status", {"status": {"replicas": 10, "selector": "shelf=s"}}, MERGE)
    room.await_replicas("b", 3, 180.0)  # a kind that comes is looked for, not watched, and ever more seldom
    assert room.chunk("b") == {"cpu": "500m"}
    room.admin.patch(f"{path}/s/status", {"status": {"replicas": 21}}, MERGE)
    room.await_replicas("b", 7, PROMPT_SECONDS)


def test_an_empty_selector_selects_no_pod(room: Buffers) -> None:
    path = rack(room, "Crate")
    wait_for(lambda: is_served(room, path), "the kind is served")
    head = {"apiVersion": "racks.plimsoll.test/v1", "metadata": {"name": "c"}}
    room.admin.create(path, {**head, "kind": "Crate", "spec": {"replicas": 4}})
    room.admin.create(pod_path(room.namespace), {"metadata": {"name": "stranger"}, "spec": content(cpu="9")["spec"]})
    room.admin.patch(f"{path}/c/status", {"status": {"replicas": 4, "selector": ""}}, MERGE)
    room.create("b", scalableRef={"apiGroup": "racks.plimsoll.test", "kind": "Crate", "name": "c"}, replicas=1)
    room.await_not_ready("b", "has no pod that could be a model")
    assert "podTemplateRef" not in room.status("b")


def test_a_terminating_pod_is_no_model_while_there_is_another(room: Buffers) -> None:
    deployment(room, "web", 1)

    def is_counted() -> bool:
        status = room.admin.get(deployments(room, "web")).get("status") or {}
        return bool(status.get("replicas") == 1)

    # Each change of the Deployment has its pods looked at anew: none may come while `fat` is not terminating yet.
    wait_for(is_counted, "the Deployment's pod is counted")
    room.create("b", **of_deployment("web"), replicas=1)
    room.await_replicas("b", 1)
    pod = {
        "metadata": {"name": "fat", "labels": {"app": "web"}, "finalizers": ["plimsoll.test/keep"]},
        "spec": content(cpu="7")["spec"],
    }
    room.admin.create(pod_path(room.namespace), pod)
    room.admin.delete(pod_path(room.namespace, "fat"))
    room.change("b", replicas=2)
    room.await_replicas("b", 2)
    assert room.chunk("b") == {"cpu": "1"}
    path = pod_path(room.namespace, "fat")
    room.admin.patch(path, {"metadata": {"finalizers": None}}, MERGE)


# What is wrong is told, and mended at once


def test_a_missing_template_is_told_and_mended(room: Buffers) -> None:
    room.create("b", podTemplateRef={"name": "shape"}, replicas=2)
    room.await_not_ready("b", "PodTemplate shape does not exist")
    room.template("shape")
    room.await_replicas("b", 2, PROMPT_SECONDS)
    room.admin.delete(templates_path(room.namespace, "shape"))
    status = room.await_not_ready("b", "PodTemplate shape does not exist", PROMPT_SECONDS)
    assert not {"replicas", "podTemplateRef", "podTemplateGeneration"} & set(status)
    assert [entry["type"] for entry in status["conditions"]] == ["ReadyForProvisioning"]  # quotas are told of no more


def test_a_missing_deployment_is_told_and_mended(room: Buffers) -> None:
    room.create("b", **of_deployment("web"), percentage=100)
    room.await_not_ready("b", "Deployment.apps web does not exist")
    deployment(room, "web", 3)
    room.await_replicas("b", 3, PROMPT_SECONDS)


def test_a_kind_without_scale_is_told(room: Buffers) -> None:
    path = rack(room, "Brick", has_scale=False)
    wait_for(lambda: is_served(room, path), "the kind is served")
    room.admin.create(path, {"apiVersion": "racks.plimsoll.test/v1", "kind": "Brick", "metadata": {"name": "x"}})
    room.create("b", scalableRef={"apiGroup": "racks.plimsoll.test", "kind": "Brick", "name": "x"}, replicas=1)
    room.await_not_ready("b", "has no scale subresource")


def test_limits_that_name_nothing_are_told_and_mended(room: Buffers) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, limits={"example.com/gpu": "3"})
    status = room.await_not_ready("b", "resources in configured limits not found in the pod template")
    assert status["podTemplateRef"]["name"] == "capacitybuffer-b-pod-template"
    room.change("b", limits={"cpu": "3"})
    room.await_replicas("b", 3, PROMPT_SECONDS)


def test_no_reference_is_told_and_mended(room: Buffers) -> None:
    room.create("b", replicas=1)
    room.await_not_ready("b", "neither podTemplateRef nor scalableRef is set")
    room.template("shape")
    room.change("b", podTemplateRef={"name": "shape"})
    room.await_replicas("b", 1, PROMPT_SECONDS)


def test_a_percentage_on_a_template_says_nothing(room: Buffers) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=2, percentage=900)
    room.await_replicas("b", 2)


def test_a_pod_that_would_be_refused_is_told_with_the_servers_words(room: Buffers) -> None:
    template = content()
    template["spec"]["priorityClassName"] = "no-such-class"
    room.template("shape", template)
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
    room.await_not_ready("b", "no-such-class")
    room.admin.patch(templates_path(room.namespace, "shape"), {"template": {"spec": {"priorityClassName": None}}})
    room.await_replicas("b", 1, PROMPT_SECONDS)


def test_a_sizing_that_nobody_knows_is_told_and_mended(room: Buffers) -> None:
    room.template("shape")
    room.create("b", annotations={"plimsoll.dev/buffer-sizing": "huge"}, podTemplateRef={"name": "shape"}, replicas=1)
    room.await_not_ready("b", "'huge' is not allowed; allowed: recommended or template")
    annotations = {"metadata": {"annotations": {"plimsoll.dev/buffer-sizing": "template"}}}
    room.admin.patch(buffers_path(room.namespace, "b"), annotations, MERGE)
    room.await_replicas("b", 1, PROMPT_SECONDS)


def _statuses_written(log: AuditLog, namespace: str) -> set[str]:
    return {row.name for row in log.writes() if row.namespace == namespace and row.resource == "capacitybuffers/status"}


def test_bad_buffers_cost_no_loop(room: Buffers, cluster: ControlPlane, running: BufferController) -> None:
    before = AuditLog(cluster.audit_log)
    room.create("none", replicas=1)
    room.create("gone", podTemplateRef={"name": "gone"}, replicas=1)
    room.create("kind", scalableRef={"apiGroup": "nobody.test", "kind": "Nothing", "name": "n"}, replicas=1)
    for name in ("none", "gone", "kind"):
        room.await_status(name, lambda status: bool(status.get("conditions")), "it is told")
    # What is told may be seen before the line of its writing stands in the log.
    wait_for(lambda: _statuses_written(before, room.namespace) >= {"none", "gone", "kind"}, "the log has them")
    log, began = AuditLog(cluster.audit_log), time.monotonic()
    other = Buffers(cluster, room.namespace)
    other.template("clock")  # what else happens there wakes the namespace, and costs nothing for the bad ones
    other.create("good", podTemplateRef={"name": "clock"}, replicas=1)
    other.await_replicas("good", 1)
    other.change("good", replicas=2)
    other.await_replicas("good", 2)
    calls = [call for call in log.calls() if call.user_agent == "plimsoll-tests-buffers" and call.verb != "watch"]
    writes = [call for call in calls if call.is_write and call.namespace == room.namespace]
    assert {write.name for write in writes if write.resource.startswith("capacitybuffers")} == {"good"}
    asked = [call for call in calls if call.resource == "" and "nobody.test" in call.uri]
    assert len(asked) <= 2 + (time.monotonic() - began) // UNKNOWN_SECONDS  # a busy machine takes longer for all this


# Managed templates


def test_the_managed_template_belongs_to_its_buffer_and_goes_with_it(room: Buffers) -> None:
    room.template("shape")
    uid = room.create("b", podTemplateRef={"name": "shape"}, replicas=1)["metadata"]["uid"]
    room.await_replicas("b", 1)
    (owner,) = room.managed("b")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("CapacityBuffer", "b", uid, True)
    room.delete("b")
    name = templates_path(room.namespace, "capacitybuffer-b-pod-template")
    wait_for(lambda: not room.admin.exists(name), "the template goes with the buffer")


def test_a_template_of_somebody_else_is_never_written(room: Buffers) -> None:
    room.template("shape")
    theirs = room.template("capacitybuffer-b-pod-template", content(cpu="9"))
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
    room.await_not_ready("b", "stands already and is not this buffer's")
    assert room.managed("b")["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
    room.admin.delete(templates_path(room.namespace, "capacitybuffer-b-pod-template"))
    room.await_replicas("b", 1, PROMPT_SECONDS)
    assert room.chunk("b") == {"cpu": "1"}


def test_a_managed_template_that_was_edited_or_removed_is_put_right(room: Buffers) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
    room.await_replicas("b", 1)
    path = templates_path(room.namespace, "capacitybuffer-b-pod-template")
    room.admin.patch(path, {"template": content(cpu="8")})
    room.await_status("b", lambda status: status["podTemplateGeneration"] == 3, "it is put right", PROMPT_SECONDS)
    assert room.chunk("b") == {"cpu": "1"}
    room.admin.delete(path)
    wait_for(lambda: room.admin.exists(path), "it is made anew", PROMPT_SECONDS)
    room.await_status("b", lambda status: status["podTemplateGeneration"] == 1, "the status names it", PROMPT_SECONDS)


def test_a_limit_range_shapes_the_chunk(room: Buffers) -> None:
    item = {"type": "Container", "defaultRequest": {"memory": "256Mi"}, "default": {"memory": "512Mi"}}
    path = f"/api/v1/namespaces/{room.namespace}/limitranges"
    room.admin.create(path, {"metadata": {"name": "usual"}, "spec": {"limits": [item]}})
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, limits={"memory": "1Gi"})
    room.await_replicas("b", 4)
    assert room.chunk("b") == {"cpu": "1", "memory": "256Mi"}


def is_at_hand(room: Buffers, path: str) -> bool:
    """Return whether a list from the server's cache has what is stored."""

    def versions(**query: str) -> set[str]:
        return {item["metadata"]["resourceVersion"] for item in room.admin.items(path, **query)}

    return versions(resourceVersion="0") == versions()


def test_nothing_is_written_where_nothing_changed(room: Buffers, cluster: ControlPlane) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
    room.await_replicas("b", 1)
    # A controller that begins lists what the server has at hand, which may be behind what was written.
    for path in (buffers_path(room.namespace), templates_path(room.namespace)):
        wait_for(lambda path=path: is_at_hand(room, path), "the server's cache has what was written")  # type: ignore[misc]
    log, before = AuditLog(cluster.audit_log), room.get("b")["metadata"]["resourceVersion"]
    with controller(cluster) as second:  # as after a restart: all is found out anew
        wait_for(lambda: second.view(room.namespace) is not None, "it was looked at")
    assert room.get("b")["metadata"]["resourceVersion"] == before
    mine = [write for write in log.writes() if write.namespace == room.namespace]
    assert mine == [], [str(write) for write in mine]


# Strategies, and others who write


def test_a_strategy_that_nobody_serves_is_told_once_per_generation(room: Buffers, cluster: ControlPlane) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1, provisioningStrategy="other.test/warm")
    events = f"/apis/events.k8s.io/v1/namespaces/{room.namespace}/events"

    def told() -> list[Json]:
        return [event for event in room.admin.items(events) if event["regarding"]["name"] == "b"]

    wait_for(lambda: len(told()) == 1, "it is told")
    assert told()[0]["reason"] == "UnknownStrategy"
    assert "other.test/warm" in told()[0]["note"]
    with controller(cluster) as second:
        wait_for(lambda: second.view(room.namespace) is not None, "another replica looked")
        assert len(told()) == 1
    room.change("b", replicas=2)
    wait_for(lambda: len(told()) == 2, "the next generation is told of")
    assert room.status("b") == {}
    assert not room.admin.exists(templates_path(room.namespace, "capacitybuffer-b-pod-template"))


def written_by(room: Buffers, name: str, manager: str, **status: object) -> None:
    """Write a status as another controller does: an update, under its own name."""
    room.admin.patch(buffers_path(room.namespace, name, "status"), {"status": status}, MERGE, fieldManager=manager)


def test_an_autoscalers_condition_stays_its_own(room: Buffers, running: BufferController) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
    conditions = room.await_replicas("b", 1)["conditions"]
    injected = {
        "type": "Provisioning",
        "status": "True",
        "reason": "FakePodsInjected",
        "message": "",
        "lastTransitionTime": "2026-11-21T00:00:00Z",
    }
    written_by(room, "b", "cluster-autoscaler", conditions=[*conditions, injected])
    room.change("b", replicas=2)
    room.await_replicas("b", 2, PROMPT_SECONDS)  # it is no other controller of buffers
    assert room.condition("b", "Provisioning") == injected
    assert running.standing().contested_by is None


def test_it_steps_back_where_another_controller_writes_and_takes_over_when_told(
    room: Buffers, cluster: ControlPlane, running: BufferController
) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
    room.create("own", podTemplateRef={"name": "shape"}, replicas=1, provisioningStrategy=PLACEHOLDER_PODS)
    room.await_replicas("b", 1)
    written_by(room, "b", "cluster-autoscaler", replicas=9)
    wait_for(lambda: running.standing().contested_by is not None, "the other is seen", PROMPT_SECONDS)
    room.change("b", replicas=3)
    room.change("own", replicas=4)
    room.await_replicas("own", 4)  # the other does not know our own strategy
    assert room.status("b")["replicas"] == 9
    assert "cluster-autoscaler" in str(running.standing().contested_by)
    with controller(cluster, mode=BufferMode.ON):
        room.await_replicas("b", 3)
    wait_for(lambda: running.standing().contested_by is None, "the other's hand is gone")
    room.change("b", replicas=5)
    room.await_replicas("b", 5)


def test_what_a_person_wrote_into_a_status_is_put_right(room: Buffers) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
    room.await_replicas("b", 1)
    written_by(room, "b", "kubectl-edit", replicas=40)
    room.await_replicas("b", 1, PROMPT_SECONDS)


def test_a_buffer_made_anew_under_its_name_gets_its_own_template(room: Buffers) -> None:
    room.template("shape")
    room.create("b", podTemplateRef={"name": "shape"}, replicas=1)
    room.await_replicas("b", 1)
    room.delete("b")
    uid = room.create("b", podTemplateRef={"name": "shape"}, replicas=2)["metadata"]["uid"]
    room.await_replicas("b", 2, 60.0)

    def is_the_new_ones() -> bool:
        return bool(room.managed("b")["metadata"]["ownerReferences"][0]["uid"] == uid)

    # The garbage collector may take the old one's even when the new one has it; then it is made anew.
    wait_for(lambda: is_awaited(is_the_new_ones, 404), "it is the new one's")
