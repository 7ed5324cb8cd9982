"""Resizes that a real server refuses, each in its own words: what the agent's classes of answers rest on."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.resource import Resource
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.answer import AnswerKind, ResizeAnswer
from agent.kube.client.api import HttpApi
from tests.cluster import fence, objects
from tests.cluster.api import ApiError, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_service_account, fresh_name, is_allowed, node_bound_token
from tests.cluster.processes import wait_for
from tests.cluster.resizing import BURSTABLE, GUARANTEED, MI, Scene, client, cpu, memory, scene_of, wait_node_known
from tests.pods import CONFIG_HASH

pytestmark = pytest.mark.cluster

LIMIT = Setting.LIMIT
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
RESIZES = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/resize"]}


@pytest.fixture(scope="module", autouse=True)
def _fenced(cluster: ControlPlane) -> None:
    fence.install(cluster)


@pytest.fixture
def scene(cluster: ControlPlane, namespace: str, node_name: str) -> Iterator[Scene]:
    node_scene = scene_of(cluster, namespace, node_name)
    yield node_scene
    node_scene.agent.close()


def refused(scene: Scene, pod: Pod, *changes: Change, api: HttpApi | None = None) -> ResizeAnswer:
    """Send a resize that must change nothing, and give its answer."""
    before = scene.read(pod)
    answer, after = scene.send(before, *changes, api=api)
    assert after is None
    assert not answer.is_done
    assert "\n" not in answer.message
    assert scene.read(pod) == before
    return answer


# Against the rules of a resize


@pytest.mark.parametrize(
    ("resources", "changes", "words"),
    [
        pytest.param({}, [cpu(100)], "Pod QOS Class may not change", id="BestEffort gains a request"),
        pytest.param(
            BURSTABLE,
            [cpu(500), memory(128 * MI)],
            "Pod QOS Class may not change",
            id="Burstable becomes equal everywhere",
        ),
        pytest.param(GUARANTEED, [cpu(90)], "Pod QOS Class may not change", id="Guaranteed request without its limit"),
        pytest.param(BURSTABLE, [cpu(501)], "must be less than or equal to cpu limit", id="request over limit"),
        pytest.param(BURSTABLE, [cpu(200, container="other")], "may not be added or removed", id="no such container"),
    ],
)
def test_what_no_pod_may_become_is_invalid(scene: Scene, resources: Json, changes: list[Change], words: str) -> None:
    pod = scene.make(objects.container(**resources))
    answer = refused(scene, pod, *changes)
    assert answer.kind is AnswerKind.INVALID
    assert words in answer.message
    assert "is invalid" not in answer.message  # the pod's name is known to whoever reads it


def test_mirror_of_a_static_pod_is_invalid(scene: Scene) -> None:
    node = scene.plane.admin.get(f"/api/v1/nodes/{scene.node}")
    manifest = objects.pod(
        fresh_name("static"),
        scene.node,
        annotations={f"kubernetes.io/config.{key}": CONFIG_HASH for key in ("mirror", "hash", "source")},
    )
    owner = {"apiVersion": "v1", "kind": "Node", "name": scene.node, "uid": node["metadata"]["uid"]}
    manifest["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    scene.plane.admin.create(objects.pod_path(scene.namespace), manifest)
    mirror = scene.make()
    mirror = scene.read(Pod(uid=mirror.uid, namespace=scene.namespace, name=manifest["metadata"]["name"]))
    assert mirror.is_static
    answer = refused(scene, mirror, cpu(200))
    assert answer.kind is AnswerKind.INVALID
    assert "static pods cannot be resized" in answer.message


# Of the node


def test_more_than_the_node_has_is_infeasible_and_names_the_resource(
    control_plane_1_37: ControlPlane, scene: Scene
) -> None:
    pod = scene.make(objects.container(requests={"cpu": "100m", "memory": "64Mi"}))
    answer = refused(scene, pod, cpu(4001))
    assert (answer.kind, answer.resources) == (AnswerKind.INFEASIBLE, (Resource.CPU,))
    assert "requested: 4001, allocatable: 4000" in answer.message
    both = refused(scene, pod, cpu(4001), memory(9 << 30))
    assert (both.kind, both.resources) == (AnswerKind.INFEASIBLE, (Resource.CPU, Resource.MEMORY))


def test_node_that_declares_no_pod_level_resize_is_a_missing_feature(
    control_plane_1_37: ControlPlane, namespace: str, node_name: str
) -> None:
    scene = scene_of(control_plane_1_37, namespace, node_name, declared_features=())
    budget = {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    pod = scene.make(resources=budget)
    answer = refused(scene, pod, cpu(600, container="", kind=None))
    assert answer.kind is AnswerKind.FEATURE_MISSING
    assert objects.POD_LEVEL_RESIZE in answer.message
    # What needs no feature goes through on the same pod.
    answer, _ = scene.send(pod, cpu(150))
    assert answer.is_done


def test_init_container_that_ends_is_a_missing_feature_until_the_node_declares_it(
    control_plane_1_37: ControlPlane, scene: Scene
) -> None:
    pod = scene.make(initContainers=[objects.container("setup", requests={"cpu": "50m"})])
    answer = refused(scene, pod, cpu(60, container="setup", kind=ContainerKind.INIT))
    assert answer.kind is AnswerKind.FEATURE_MISSING
    assert "InPlacePodVerticalScalingInitContainers" in answer.message


def test_server_too_old_for_pods_with_a_budget_is_a_missing_feature(scene: Scene) -> None:
    if not scene.plane.version.startswith("1.34."):
        pytest.skip(f"about Kubernetes 1.34; this run is against {scene.plane.version}")
    pod = scene.make(resources={"requests": {"cpu": "500m", "memory": "256Mi"}})
    setup = objects.container("setup", requests={"cpu": "50m"})
    # Not the budget, and not the containers inside it.
    for answer in (refused(scene, pod, cpu(600, container="", kind=None)), refused(scene, pod, cpu(150))):
        assert answer.kind is AnswerKind.FEATURE_MISSING
        assert "pods with pod-level resources cannot be resized" in answer.message
    answer = refused(scene, scene.make(initContainers=[setup]), cpu(60, container="setup", kind=ContainerKind.INIT))
    assert answer.kind is AnswerKind.FEATURE_MISSING


def test_node_of_another_platform_is_a_missing_feature(control_plane_1_37: ControlPlane, scene: Scene) -> None:
    pod = scene.make()
    windows = {"metadata": {"labels": {"kubernetes.io/os": "windows"}}}
    scene.plane.admin.patch(f"/api/v1/nodes/{scene.node}", windows)
    _until(scene, AnswerKind.FEATURE_MISSING, cpu(200))  # the server goes by its own watch of nodes
    answer = refused(scene, pod, cpu(200))
    assert answer.kind is AnswerKind.FEATURE_MISSING
    assert "only supported on linux nodes" in answer.message


def test_kubelet_that_reports_no_resources_is_a_missing_feature(scene: Scene) -> None:
    pod = scene.make()
    status = objects.running_status(scene.plane.admin.get(scene.path(pod)))
    for container_status in status["containerStatuses"]:
        del container_status["resources"]
    answer = refused(scene, scene.write_status(pod, status), cpu(200))
    assert answer.kind is AnswerKind.FEATURE_MISSING
    assert "node without support for resize" in answer.message


def test_node_object_that_is_gone_is_rejected(control_plane_1_37: ControlPlane, scene: Scene) -> None:
    # Its agent's token dies with it, so somebody else has to ask.
    pod = scene.make(node=fresh_name("nowhere"))
    admin = client(scene.plane, _token_of_an_administrator(scene))
    answer = refused(scene, pod, cpu(200), api=admin)
    assert answer.kind is AnswerKind.REJECTED
    assert "not found" in answer.message


# Of the namespace


def test_limit_range_rejects_the_amount(scene: Scene) -> None:
    pod = scene.make()
    limits = [{"type": "Container", "max": {"cpu": "600m"}, "min": {"cpu": "20m"}}]
    path = f"/api/v1/namespaces/{scene.namespace}/limitranges"
    scene.plane.admin.create(path, {"metadata": {"name": "sizes"}, "spec": {"limits": limits}})
    answer = _until(scene, AnswerKind.REJECTED, cpu(10))
    assert "minimum cpu usage per Container is 20m" in answer.message
    answer = refused(scene, pod, cpu(700), cpu(700, LIMIT))
    assert answer.kind is AnswerKind.REJECTED
    assert "maximum cpu usage per Container is 600m" in answer.message


def test_resource_quota_rejects_the_increase(scene: Scene) -> None:
    pod = scene.make(objects.container(requests={"cpu": "100m", "memory": "64Mi"}))
    path = f"/api/v1/namespaces/{scene.namespace}/resourcequotas"
    scene.plane.admin.create(path, {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "1"}}})

    def is_in_force() -> bool:
        # Admission goes by its own watch of quotas: one that it does not know refuses nothing, one that it does not
        # know to be counted refuses every pod.
        large = objects.pod(fresh_name("large"), scene.node, objects.container(requests={"cpu": "2"}))
        try:
            scene.plane.admin.create(objects.pod_path(scene.namespace), large, dryRun="All")
        except ApiError as error:
            return "exceeded quota: team" in error.message
        return False

    wait_for(is_in_force, "the quota is in force")
    answer = refused(scene, scene.make(objects.container(requests={"cpu": "10m", "memory": "64Mi"})), cpu(1001))
    assert answer.kind is AnswerKind.REJECTED
    assert "exceeded quota: team" in answer.message
    answer, _ = scene.send(pod, cpu(500))
    assert answer.is_done


# Of rights, policies and webhooks


def test_pod_of_another_node_is_forbidden_by_the_fence(scene: Scene) -> None:
    other = fresh_name("node")
    objects.create_node(scene.plane.admin, other)
    wait_node_known(scene.plane, scene.namespace, other)
    answer = refused(scene, scene.make(node=other), cpu(200))
    assert answer.kind is AnswerKind.FORBIDDEN
    assert "only pods of the own node may be resized" in answer.message


def test_pod_that_is_not_enforced_is_forbidden_by_the_fence(scene: Scene) -> None:
    pod = scene.make(annotations={"plimsoll.dev/mode": "recommend"})
    answer = refused(scene, pod, cpu(200))
    assert answer.kind is AnswerKind.FORBIDDEN
    assert "mode is recommend" in answer.message


def test_account_without_the_right_is_forbidden(scene: Scene) -> None:
    create_service_account(scene.plane, scene.namespace, "nobody")
    nobody = client(scene.plane, node_bound_token(scene.plane, scene.namespace, "nobody", scene.node))
    answer = refused(scene, scene.make(), cpu(200), api=nobody)
    assert answer.kind is AnswerKind.FORBIDDEN
    assert 'cannot patch resource "pods/resize"' in answer.message


def test_token_that_is_none_is_unavailable(scene: Scene) -> None:
    answer = refused(scene, scene.make(), cpu(200), api=client(scene.plane, "no-such-token"))
    assert (answer.kind, answer.message) == (AnswerKind.UNAVAILABLE, "Unauthorized")


@pytest.mark.parametrize("reason", [{}, {"reason": "Forbidden"}], ids=["422", "403"])
def test_policy_of_the_cluster_is_forbidden_with_and_without_a_reason(scene: Scene, reason: Json) -> None:
    with _policy(scene, {"expression": "false", "message": "exceeded quota: of patience", **reason}):
        answer = _until(scene, AnswerKind.FORBIDDEN, cpu(200))
    assert "exceeded quota: of patience" in answer.message


def test_webhook_that_denies_rejects_and_one_that_is_away_is_unavailable(scene: Scene) -> None:
    with _denying_webhook(scene.plane) as (url, authority), _webhook(scene, url, authority, failure_policy="Fail"):
        answer = _until(scene, AnswerKind.REJECTED, cpu(200))
        assert "denied the request: not on Fridays" in answer.message
    nobody = "https://127.0.0.1:1/"
    with _webhook(scene, nobody, scene.plane.authority.read_bytes(), failure_policy="Fail"):
        answer = _until(scene, AnswerKind.UNAVAILABLE, cpu(200))
        assert "failed calling webhook" in answer.message


# Of load


def test_server_that_sheds_load_throttles_and_says_for_how_long(scene: Scene) -> None:
    # A priority level without any room lets one request through at a time and rejects the second; a webhook that never
    # answers (its port takes connections and nobody accepts them) keeps the first there for a second.
    admin, name = scene.plane.admin, fresh_name("narrow")
    account = f"system:serviceaccount:{scene.namespace}:hurried"
    create_service_account(scene.plane, scene.namespace, "hurried")
    hurried = client(scene.plane, _token_of_an_administrator(scene, "hurried"))
    level = {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}}}
    subject = {"kind": "User", "user": {"name": account}}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    schema = {
        "matchingPrecedence": 2,
        "priorityLevelConfiguration": {"name": name},
        "rules": [{"subjects": [subject], "resourceRules": [everything]}],
    }
    pods = [scene.make(), scene.make()]
    answers: list[ResizeAnswer] = []

    def is_throttled() -> bool:
        with ThreadPoolExecutor(len(pods)) as threads:
            for answer, _ in threads.map(lambda pod: scene.send(scene.read(pod), cpu(200), api=hurried), pods):
                answers.append(answer)
        return any(answer.kind is AnswerKind.THROTTLED for answer in answers)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        try:
            admin.create(f"{FLOWS}/prioritylevelconfigurations", {"metadata": {"name": name}, "spec": level})
            admin.create(f"{FLOWS}/flowschemas", {"metadata": {"name": name}, "spec": schema})
            with _webhook(scene, url, scene.plane.authority.read_bytes(), failure_policy="Fail"):
                wait_for(is_throttled, "a second request is rejected")
        finally:
            admin.delete(f"{FLOWS}/flowschemas/{name}")
            admin.delete(f"{FLOWS}/prioritylevelconfigurations/{name}")
    throttled = next(answer for answer in answers if answer.kind is AnswerKind.THROTTLED)
    assert throttled.retry_after_seconds == 1.0


# Helpers


def _until(scene: Scene, kind: AnswerKind, *changes: Change, **resources: Any) -> ResizeAnswer:
    """Ask, for a new pod each time, until what the server has just been told is in force there."""
    answers: list[ResizeAnswer] = []

    def is_so() -> bool:
        answer, _ = scene.send(scene.make(objects.container(**(resources or BURSTABLE))), *changes)
        answers.append(answer)
        return answer.kind is kind

    with contextlib.suppress(TimeoutError):
        wait_for(is_so, f"{kind}")
    assert answers[-1].kind is kind, answers[-1]
    return answers[-1]


def _token_of_an_administrator(scene: Scene, name: str = "admin") -> str:
    """Return the token of an account that may do everything and that no fence knows."""
    with contextlib.suppress(Exception):
        create_service_account(scene.plane, scene.namespace, name)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": scene.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{scene.namespace}/rolebindings"
    scene.plane.admin.create(path, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    token = node_bound_token(scene.plane, scene.namespace, name, None)
    api = scene.plane.api_with_token(token)
    wait_for(
        lambda: is_allowed(api, "patch", "pods", subresource="resize", namespace=scene.namespace),
        f"{name} may do everything",
    )
    return token


def _only_here(scene: Scene) -> Json:
    return {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}


@contextlib.contextmanager
def _policy(scene: Scene, validation: Json) -> Iterator[None]:
    admin, name = scene.plane.admin, fresh_name("policy")
    constraints = {"resourceRules": [RESIZES], "namespaceSelector": _only_here(scene)}
    spec = {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": [validation]}
    admin.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    admin.create(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}})
    try:
        yield
    finally:
        admin.delete(f"{BINDINGS}/{name}")
        admin.delete(f"{POLICIES}/{name}")


@contextlib.contextmanager
def _webhook(scene: Scene, url: str, authority: bytes, *, failure_policy: str) -> Iterator[None]:
    admin, name = scene.plane.admin, f"{fresh_name('webhook')}.example.com"
    webhook = {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": failure_policy,
        "timeoutSeconds": 1,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [RESIZES],
        "namespaceSelector": _only_here(scene),
    }
    admin.create(WEBHOOKS, {"metadata": {"name": name}, "webhooks": [webhook]})
    try:
        yield
    finally:
        admin.delete(f"{WEBHOOKS}/{name}")


@contextlib.contextmanager
def _denying_webhook(plane: ControlPlane) -> Iterator[tuple[str, bytes]]:
    """Serve an admission webhook that denies everything; gives its URL and the authority of its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = plane.serving_certificate("webhook", ["127.0.0.1"])
    context.load_cert_chain(pair.certificate, pair.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Denier)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/", plane.authority.read_bytes()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Denier(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {
            "uid": review["request"]["uid"],
            "allowed": False,
            "status": {"message": "not on Fridays"},
        }
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""
