"""What the webhook may do to pods once CapacityBuffers are on, by the chart's rights and policy on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import pytest

from tests.chart.release import Release
from tests.cluster import objects
from tests.cluster.api import Api, ApiError, Json, is_awaited
from tests.cluster.chart import NAMESPACE, RELEASE, helm
from tests.cluster.identities import create_service_account, fresh_name, node_bound_token
from tests.cluster.processes import wait_for
from tests.placeholders import BUFFER, OPTIONS, container, content, shape_of

pytestmark = pytest.mark.cluster

FORBIDDEN = 403
BUFFERS: Final = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers"


@pytest.fixture(scope="module")
def room(release: Release) -> Iterator[Release]:
    """The chart with buffers, in a namespace where pods may be made at once."""
    if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()
    if not release.plane.admin.exists("/api/v1/namespaces/default/serviceaccounts/default"):
        create_service_account(release.plane, "default", "default")
    release.install({"buffers": {"enabled": True, "placeholders": True}})
    kind = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer"}
    buffer = {**kind, "metadata": {"name": BUFFER.name}, "spec": {"podTemplateRef": {"name": "none"}, "replicas": 1}}

    def is_made() -> bool:  # its kind is served a moment after the chart brought it
        return is_awaited(
            lambda: release.plane.admin.create(BUFFERS, buffer), HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS
        )

    wait_for(is_made, "a buffer is there")
    yield release
    release.plane.admin.delete(f"{BUFFERS}/{BUFFER.name}")
    release.uninstall()


@pytest.fixture(scope="module")
def webhook(room: Release) -> Api:
    api = room.plane.api_with_token(node_bound_token(room.plane, NAMESPACE, "plimsoll-webhook", None))
    wait_for(lambda: "no others" in why_not(lambda: make(api, plain())), "role and policy are in force")
    return api


def plain() -> Json:
    return objects.pod(fresh_name("plain"), None, objects.container(requests={"cpu": "100m"}))


def placeholder(template: Json | None = None, *, image: str = OPTIONS.image, **spec: Any) -> Json:
    """Give a placeholder pod as the webhook makes it, with further fields of its spec."""
    shape = shape_of(
        template or content(container("app", cpu="100m")),
        replace(OPTIONS, image=image),
        replace(BUFFER, namespace="default"),
    )
    body: Any = shape.body
    metadata = {**body["metadata"], "name": fresh_name("room")}
    return {**body, "metadata": metadata, "spec": {**body["spec"], **spec}}


def with_container(**fields: Any) -> Json:
    """Give fields of a spec whose one container is a placeholder's with these fields of its own."""
    [first] = placeholder()["spec"]["containers"]
    return {"containers": [{**first, **fields}]}


def with_security(**fields: Any) -> Json:
    """Give the same of its securityContext; None takes a field away."""
    [first] = placeholder()["spec"]["containers"]
    context = {key: value for key, value in {**first["securityContext"], **fields}.items() if value is not None}
    return {"containers": [{**first, "securityContext": context}]}


def make(api: Api, manifest: Json, **query: str) -> Json:
    """Make a pod; one of the buffer has that very buffer's uid: the garbage collector takes what belongs to nobody."""
    for owner in manifest["metadata"].get("ownerReferences", []):
        if (owner["kind"], owner["name"]) == ("CapacityBuffer", BUFFER.name):
            owner["uid"] = api.get(f"{BUFFERS}/{BUFFER.name}")["metadata"]["uid"]
    return api.create(objects.pod_path("default"), manifest, **query)


def why_not(call: Callable[[], object]) -> str:
    try:
        call()
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return error.message
    return ""


def test_placeholder_is_made_resized_and_removed(webhook: Api) -> None:
    made = make(webhook, placeholder())
    name = made["metadata"]["name"]
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (-10, "Never")
    objects.resize(webhook, "default", name, objects.resize_body(room={"requests": {"cpu": "200m"}}))
    webhook.delete(objects.pod_path("default", name), gracePeriodSeconds="0")


def test_another_pod_is_tried_out_and_neither_stored_resized_nor_removed(room: Release, webhook: Api) -> None:
    make(webhook, plain(), dryRun="All")
    assert "no others" in why_not(lambda: make(webhook, plain()))
    other = make(room.plane.admin, plain())["metadata"]["name"]
    body = objects.resize_body(app={"requests": {"cpu": "200m"}})
    assert "no others" in why_not(lambda: objects.resize(webhook, "default", other, body))
    assert "no others" in why_not(lambda: webhook.delete(objects.pod_path("default", other)))
    assert "no others" in why_not(
        lambda: webhook.request("DELETE", objects.pod_path("default", other), query={"dryRun": "All"})
    )
    room.plane.admin.delete(objects.pod_path("default", other), gracePeriodSeconds="0")


def test_every_real_shape_is_made(webhook: Api) -> None:
    """Several containers, a pod-level request, a sidecar, Windows, another image from before an upgrade to remove."""
    sidecar = {**container("mesh", cpu="50m"), "restartPolicy": "Always"}
    for template in (
        content(container("app", cpu="100m"), container("log", cpu="50m", memory="8Mi"), initContainers=[sidecar]),
        content(container("app", {"cpu": "1", "memory": "64Mi"}, cpu="1", memory="64Mi")),
        content(os={"name": "windows"}, nodeSelector={"kubernetes.io/os": "windows"}),
    ):
        made = make(webhook, placeholder(template))
        webhook.delete(objects.pod_path("default", made["metadata"]["name"]), gracePeriodSeconds="0")


def test_placeholder_of_another_image_may_be_resized_and_removed(room: Release, webhook: Api) -> None:
    """After `webhook.settings.placeholders.image` was changed those of before must give way."""
    manifest = placeholder(image="registry.example/pause:1")
    assert "no others" in why_not(lambda: make(webhook, manifest))
    name = make(room.plane.admin, manifest)["metadata"]["name"]
    objects.resize(webhook, "default", name, objects.resize_body(room={"requests": {"cpu": "200m"}}))
    webhook.delete(objects.pod_path("default", name), gracePeriodSeconds="0")


COMMAND: Final = {"exec": {"command": ["sh"]}}
SHAPES: dict[str, dict[str, Any]] = {
    "a token": {"automountServiceAccountToken": True},
    "another class": {"priorityClassName": "plimsoll", "preemptionPolicy": "PreemptLowerPriority"},
    "a host's folder": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
    "the host's network": {"hostNetwork": True},
    "the host's processes": {"hostPID": True},
    "the host's shared memory": {"hostIPC": True},
    "a node of its choice": {"nodeName": "any"},
    "privileges": with_security(privileged=True, allowPrivilegeEscalation=None),
    "more privileges later": with_security(allowPrivilegeEscalation=True),
    "unsaid privileges later": with_security(allowPrivilegeEscalation=None),
    "a capability": with_security(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
    "the usual capabilities": with_security(capabilities=None),
    "root": with_security(runAsNonRoot=False, runAsUser=0),
    "root unless the image says otherwise": {"securityContext": {}},
    "every system call": with_security(seccompProfile={"type": "Unconfined"}),
    "every system call of the pod": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "Unconfined"}},
    },
    "a whole Windows": {
        "os": {"name": "windows"},
        "hostNetwork": True,
        "securityContext": {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}},
        "containers": [{**objects.container(requests={"cpu": "1m"}), "image": OPTIONS.image}],
    },
    "a container before": {"initContainers": [{"name": "first", "image": OPTIONS.image}]},
    "a second container": {
        "containers": [*placeholder()["spec"]["containers"], objects.container(requests={"cpu": "1m"})]
    },
    "another image": with_container(image="registry.example/miner:1"),
    "a command": with_container(command=["sh"]),
    "arguments": with_container(args=["-c", "true"]),
    "an environment": with_container(env=[{"name": "LD_PRELOAD", "value": "x"}]),
    "somebody's environment": with_container(envFrom=[{"secretRef": {"name": "s"}}]),
    "a port of the host": with_container(ports=[{"containerPort": 80, "hostPort": 80}]),
    "a command after its start": with_container(lifecycle={"postStart": COMMAND}),
    "a command as its probe": with_container(
        livenessProbe={**COMMAND, "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1}
    ),
    "a folder": {
        **with_container(volumeMounts=[{"name": "x", "mountPath": "/x"}]),
        "volumes": [{"name": "x", "emptyDir": {}}],
    },
    "a device": {"resourceClaims": [{"name": "x", "resourceClaimName": "x"}]},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_placeholder_that_would_be_more_than_room_is_refused(webhook: Api, shape: str) -> None:
    assert "no others" in why_not(lambda: make(webhook, placeholder(**SHAPES[shape])))


def test_label_alone_makes_no_placeholder(room: Release, webhook: Api) -> None:
    manifest = placeholder()
    del manifest["metadata"]["ownerReferences"]
    assert "no others" in why_not(lambda: make(webhook, manifest))
    somebodys = make(room.plane.admin, manifest)["metadata"]["name"]
    assert "no others" in why_not(lambda: webhook.delete(objects.pod_path("default", somebodys)))
    room.plane.admin.delete(objects.pod_path("default", somebodys), gracePeriodSeconds="0")


def test_server_finds_no_fault_in_the_expressions(room: Release) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def unchecked() -> list[str]:
        return [
            one["metadata"]["name"]
            for one in room.plane.admin.items(path)
            if "typeChecking" not in one.get("status", {})
        ]

    wait_for(lambda: not unchecked(), "all policies are checked")
    found = room.plane.admin.items(path)
    assert len(found) == 4
    assert [
        one["status"]["typeChecking"] for one in found if one["status"]["typeChecking"].get("expressionWarnings")
    ] == []


def test_without_placeholders_nothing_is_stored(room: Release, webhook: Api) -> None:
    room.upgrade({"buffers": {"enabled": True}})
    wait_for(lambda: "and write none" in why_not(lambda: make(webhook, placeholder())), "the policy says so")
    make(webhook, plain(), dryRun="All")
