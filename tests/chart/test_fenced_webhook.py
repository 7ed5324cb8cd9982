"""What the webhook may do to pods once CapacityBuffers are on, by the chart's rights and policy on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import pytest

from tests.chart.release import Release
from tests.cluster import objects
from tests.cluster.api import MERGE, Api, ApiError, Json, is_awaited
from tests.cluster.chart import NAMESPACE, RELEASE, helm, rendered
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_service_account, ensure_default_account, fresh_name, node_bound_token
from tests.cluster.processes import wait_for
from tests.placeholders import BUFFER, OPTIONS, container, content, shape_of

pytestmark = pytest.mark.cluster

FORBIDDEN = 403
ROOM: Final = {"buffers": {"enabled": True, "placeholders": True}}
BUFFERS: Final = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers"


@pytest.fixture(scope="module")
def room(release: Release) -> Iterator[Release]:
    """The chart with buffers, in a namespace where pods may be made at once."""
    if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()
    for account in ("default", "other"):
        if not release.plane.admin.exists(f"/api/v1/namespaces/default/serviceaccounts/{account}"):
            create_service_account(release.plane, "default", account)
    release.install(ROOM)
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
    """Return a placeholder pod as the webhook makes it, with further fields of its spec."""
    shape = shape_of(
        template or content(container("app", cpu="100m")),
        replace(OPTIONS, image=image),
        replace(BUFFER, namespace="default"),
    )
    body: Any = shape.body
    metadata = {**body["metadata"], "name": fresh_name("room")}
    return {**body, "metadata": metadata, "spec": {**body["spec"], **spec}}


def with_container(**fields: Any) -> Json:
    """Return fields of a spec whose one container is a placeholder's with these fields of its own."""
    [first] = placeholder()["spec"]["containers"]
    return {"containers": [{**first, **fields}]}


def with_security(**fields: Any) -> Json:
    """Return the same of its securityContext; None takes a field away."""
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
    pod = make(webhook, placeholder())
    name = pod["metadata"]["name"]
    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (-10, "Never")
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
        pod = make(webhook, placeholder(template))
        webhook.delete(objects.pod_path("default", pod["metadata"]["name"]), gracePeriodSeconds="0")


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
    "another class": {"priorityClassName": "system-node-critical", "preemptionPolicy": "PreemptLowerPriority"},
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
    "a grace period without end": {"terminationGracePeriodSeconds": 10**9},
    "names of its own for addresses": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["bank.example"]}]},
    "SELinux switched off": {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65535, "seLinuxOptions": {"type": "spc_t"}},
    },
    "SELinux switched off in a container": with_security(seLinuxOptions={"type": "spc_t"}),
    "root that is said not to be": {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}},
    "root that a container is said not to be": with_security(runAsUser=0),
    "root's group": {"securityContext": {"runAsNonRoot": True, "runAsUser": 65535, "supplementalGroups": [0]}},
    "settings of the kernel": {
        "securityContext": {"runAsNonRoot": True, "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
    },
    "another scheduler": {"schedulerName": "theirs"},
    "another account": {"serviceAccountName": "other"},
    "a name in somebody's service": {"hostname": "web-0", "subdomain": "web"},
    "each other's processes": {"shareProcessNamespace": True},
    "an end of its own": {"activeDeadlineSeconds": 60},
    "a gate of readiness": {"readinessGates": [{"conditionType": "example.com/a"}]},
    "a name of the whole": {"setHostnameAsFQDN": True},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_placeholder_that_would_be_more_than_room_is_refused(plane: ControlPlane, webhook: Api, shape: str) -> None:
    if shape == "a device" and int(plane.version.split(".")[1]) < 34:
        pytest.skip(f"an API server of {plane.version} drops spec.resourceClaims before any policy sees them")
    assert "no others" in why_not(lambda: make(webhook, placeholder(**SHAPES[shape])))


OWNER: Final = placeholder()["metadata"]["ownerReferences"][0]
HEADS: dict[str, dict[str, Any]] = {
    "a finalizer": {"finalizers": ["example.com/held"]},
    "a name by chance": {"generateName": "room-"},
    "a second owner": {"ownerReferences": [OWNER, {**OWNER, "name": "other", "controller": False, "uid": "other"}]},
    "an owner that does not control it": {"ownerReferences": [{**OWNER, "controller": False}]},
    "a buffer of a version that is not": {"ownerReferences": [{**OWNER, "apiVersion": "autoscaling.x-k8s.io/v9"}]},
    "a buffer without a label": {"labels": {"plimsoll.dev/placeholder": "true"}},
}


@pytest.mark.parametrize("head", HEADS)
def test_placeholder_whose_metadata_are_not_the_programs_is_refused(webhook: Api, head: str) -> None:
    manifest = placeholder()
    manifest["metadata"].update(HEADS[head])
    assert "no others" in why_not(lambda: make(webhook, manifest))


@pytest.mark.parametrize("protected", ["kube-system", "kube-public", NAMESPACE])
def test_no_placeholder_is_made_in_a_protected_namespace(room: Release, webhook: Api, protected: str) -> None:
    if not room.plane.admin.exists(f"/api/v1/namespaces/{protected}/serviceaccounts/default"):
        ensure_default_account(room.plane, protected)
    manifest = placeholder()
    manifest["metadata"]["namespace"] = protected
    assert "none in a protected namespace" in why_not(lambda: webhook.create(objects.pod_path(protected), manifest))


def test_placeholder_of_a_buffer_that_is_not_there_is_collected(room: Release, webhook: Api) -> None:
    """The policy cannot look for the buffer; the server's garbage collector does."""
    manifest = placeholder()
    webhook.create(objects.pod_path("default"), manifest)
    path = objects.pod_path("default", manifest["metadata"]["name"])
    wait_for(lambda: not room.plane.admin.exists(path), "it is collected")


def test_placeholder_passes_with_what_servers_and_other_webhooks_add(room: Release, webhook: Api) -> None:
    """Amounts of a range, tolerations, priority, account, its pull secrets; labels, DNS options, OpenShift's level."""
    admin, ranges = room.plane.admin, "/api/v1/namespaces/default/limitranges"
    amounts = {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"memory": "32Mi"}}
    admin.create(ranges, {"metadata": {"name": "range"}, "spec": {"limits": [amounts]}})
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    admin.patch(account, {"imagePullSecrets": [{"name": "registry"}]})
    context = {**placeholder()["spec"]["securityContext"], "seLinuxOptions": {"level": "s0:c1"}, "fsGroup": 1000}
    manifest = placeholder(
        tolerations=[{"key": "pool", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
        nodeSelector={"pool": "a"},
        dnsConfig={"options": [{"name": "ndots", "value": "2"}]},
        securityContext=context,
        schedulingGates=[{"name": "example.com/quota"}],
    )
    manifest["metadata"]["labels"]["team"] = "platform"
    manifest["metadata"]["annotations"]["example.com/seen"] = "true"
    limits = {"cpu": "1", "memory": "1Gi"}
    secrets = [{"name": "registry"}]

    def are_added() -> bool:
        tried = make(webhook, manifest, dryRun="All")["spec"]
        added = tried["containers"][0]["resources"].get("limits"), tried.get("imagePullSecrets")
        return added == (limits, secrets)

    # The server may see its own range a moment later, and its own account at another.
    wait_for(are_added, "range and account are in force")
    pod = make(webhook, manifest)
    spec = pod["spec"]
    assert spec["containers"][0]["resources"]["limits"] == limits
    assert "kubernetes.io/limit-ranger" in pod["metadata"]["annotations"]
    assert {"node.kubernetes.io/not-ready", "pool"} <= {toleration["key"] for toleration in spec["tolerations"]}
    assert (spec["serviceAccountName"], spec["imagePullSecrets"]) == ("default", secrets)
    webhook.delete(objects.pod_path("default", pod["metadata"]["name"]), gracePeriodSeconds="0")
    admin.delete(f"{ranges}/range")
    admin.patch(account, {"imagePullSecrets": None}, MERGE)


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
            policy["metadata"]["name"]
            for policy in room.plane.admin.items(path)
            if "typeChecking" not in policy.get("status", {})
        ]

    wait_for(lambda: not unchecked(), "all policies are checked")
    policies = room.plane.admin.items(path)
    parts = rendered(ROOM)
    fences = [policy["metadata"]["name"] for name in parts if name.startswith("fence/") for policy in parts[name][:1]]
    assert sorted(policy["metadata"]["name"] for policy in policies) == sorted(fences)
    assert [
        rule["status"]["typeChecking"] for rule in policies if rule["status"]["typeChecking"].get("expressionWarnings")
    ] == []


def test_further_scheduler_is_a_value(room: Release, webhook: Api) -> None:
    room.upgrade({"buffers": {"enabled": True, "placeholders": True, "schedulers": ["theirs"]}})
    wait_for(lambda: not why_not(lambda: make(webhook, placeholder(schedulerName="theirs"), dryRun="All")), "tried")

    def is_taken() -> bool:
        manifest = placeholder(schedulerName="theirs")
        if why_not(lambda: make(webhook, manifest)):
            return False
        webhook.delete(objects.pod_path("default", manifest["metadata"]["name"]), gracePeriodSeconds="0")
        return True

    wait_for(is_taken, "the policy takes it")
    assert "no others" in why_not(lambda: make(webhook, placeholder(schedulerName="another")))


def test_without_placeholders_nothing_is_stored(room: Release, webhook: Api) -> None:
    room.upgrade({"buffers": {"enabled": True}})
    wait_for(lambda: "and write none" in why_not(lambda: make(webhook, placeholder())), "the policy says so")
    make(webhook, plain(), dryRun="All")
