"""Chunks of buffers are shaped by all that shapes pods: ranges of the namespace, Plimsoll's webhook, and others'.

The webhook's process looks after the buffers and answers the API server's admissions, its own dry runs among them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from agent.webhook.buffers.options import BufferMode
from agent.webhook.certificates.registration import PATH
from tests.cluster import chart
from tests.cluster.api import Api, ApiError, Json, kubeconfig
from tests.cluster.audit import AuditLog
from tests.cluster.buffers import Buffers, content, controller, install_crd, templates_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name, granted, is_allowed, node_bound_token
from tests.cluster.objects import create_node, pod_path
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import NAMESPACE, WebhookProcess, registration, webhook

pytestmark = pytest.mark.cluster

USER: Final = f"system:serviceaccount:{NAMESPACE}:plimsoll-webhook"
ENFORCED: Final = {"plimsoll.dev/mode": "enforce"}
LIMITED: Final = {**ENFORCED, "plimsoll.dev/pod-limits": json.dumps({"limits": {"cpu": "2", "memory": "768Mi"}})}
PROMPT_SECONDS: Final = 60.0


@pytest.fixture(scope="module")
def hook(
    cluster: ControlPlane, pods_have_resources: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WebhookProcess]:
    """The process with the chart's rights; and a node, as pods have own resources only where every node knows them."""
    install_crd(cluster)
    node = fresh_name("node")
    create_node(cluster.admin, node)
    folder = tmp_path_factory.mktemp("buffers")
    cluster.admin.apply_all(chart.parts("cluster/namespace", *chart.WEBHOOK))
    own = cluster.api_with_token(node_bound_token(cluster, NAMESPACE, "plimsoll-webhook", None))
    with granted(cluster, chart.parts("webhook/rights-buffers", values={"buffers": {"enabled": True}})):
        wait_for(partial(is_allowed, own, "create", "pods"), "its rights are in force")
        with webhook(cluster, folder, kubeconfig=kubeconfig(own, folder / "webhook.kubeconfig")) as process:
            yield process
    cluster.admin.delete(f"/api/v1/nodes/{node}")


@pytest.fixture
def room(cluster: ControlPlane, hook: WebhookProcess, namespace: str) -> Iterator[Buffers]:
    """A namespace about whose pods the process is asked, with a range of its own."""
    item = {"type": "Container", "defaultRequest": {"memory": "256Mi"}, "default": {"memory": "512Mi"}}
    path = f"/api/v1/namespaces/{namespace}/limitranges"
    cluster.admin.create(path, {"metadata": {"name": "usual"}, "spec": {"limits": [item]}})
    with registered(cluster, registration(hook.port, namespace, cluster.authority, seconds=10)):
        wait_for(lambda: "resources" in dry_run(cluster.admin, namespace, limited())["spec"], "the API server asks it")
        yield Buffers(cluster, namespace)


@contextlib.contextmanager
def registered(cluster: ControlPlane, document: Json) -> Iterator[None]:
    cluster.admin.apply(document)
    try:
        yield
    finally:
        cluster.admin.delete(f"{PATH}/{document['metadata']['name']}")


def dry_run(api: Api, namespace: str, template: Json) -> Json:
    body = {"metadata": {**template["metadata"], "name": "x"}, "spec": template["spec"]}
    return api.create(pod_path(namespace), body, dryRun="All")


def limited(annotations: Json | None = None) -> Json:
    """A chunk whose pod is to have limits of its own, which the webhook makes of the annotation."""
    template = content(cpu="500m")
    template["metadata"]["annotations"] = annotations or LIMITED
    return template


def test_a_chunk_is_shaped_by_the_range_and_by_our_own_webhook(room: Buffers, hook: WebhookProcess) -> None:
    asked = admissions(hook)
    room.template("shape", limited())
    room.create("b", podTemplateRef={"name": "shape"}, limits={"memory": "1Gi"})
    room.await_replicas("b", 4)  # the range's 256Mi
    template = room.managed("b")["template"]
    assert template["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "256Mi"},
        "limits": {"memory": "512Mi"},
    }
    assert template["spec"]["resources"]["limits"] == {"cpu": "2", "memory": "768Mi"}
    ours = {key for key in template["metadata"]["annotations"] if key.startswith("plimsoll.dev/")}
    assert ours == set(LIMITED)  # nothing that is of one pod
    assert admissions(hook) > asked
    # Looked at again, nothing is written again: what the webhook says of the moment is left out.
    room.change("b", limits={"memory": "512Mi"})
    assert room.await_replicas("b", 2)["podTemplateGeneration"] == 1


def admissions(hook: WebhookProcess) -> float:
    return hook.series('plimsoll_webhook_requests_total{result="patched"}')


# What the webhook says no to is told, and mended


def test_what_our_own_webhook_denies_is_told_and_mended(room: Buffers) -> None:
    too_little = {**ENFORCED, "plimsoll.dev/pod-limits": json.dumps({"limits": {"cpu": "200m"}})}
    room.template("shape", limited(too_little))
    room.create("b", podTemplateRef={"name": "shape"}, replicas=2)
    status = room.await_not_ready("b", 'admission webhook "pods.plimsoll.dev" denied the request')
    assert "plimsoll.dev/pod-limits" in status["conditions"][0]["message"]
    assert "a pod of PodTemplate shape is refused" in status["conditions"][0]["message"]
    room.admin.patch(templates_path(room.namespace, "shape"), {"template": limited()})
    room.await_replicas("b", 2, PROMPT_SECONDS)


# Webhooks that do not answer


@contextlib.contextmanager
def deaf(cluster: ControlPlane) -> Iterator[int]:
    """Take connections on a port, agree on TLS, and never say a word."""
    pair = cluster.serving_certificate("deaf", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    taken: list[socket.socket] = []

    def take(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the end
            while True:
                connection, _ = listener.accept()
                with contextlib.suppress(ssl.SSLError):
                    taken.append(context.wrap_socket(connection, server_side=True))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=take, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5.0)
    for client in taken:
        client.close()


@contextlib.contextmanager
def nobody() -> Iterator[int]:
    """Hold a port on which nobody listens, so that nobody else comes to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def another(room: Buffers, port: int, *, policy: str, seconds: int = 2) -> Json:
    """Return the registration of somebody else's webhook."""
    document = registration(port, room.namespace, room.cluster.authority)
    document["metadata"]["name"] = f"{room.namespace}-another"
    entry = document["webhooks"][0]
    document["webhooks"] = [{**entry, "name": "pods.another.test", "failurePolicy": policy, "timeoutSeconds": seconds}]
    return document


def is_refusing(room: Buffers) -> bool:
    """Return whether the API server makes no pod without a webhook that is down."""
    try:
        dry_run(room.cluster.admin, room.namespace, content())
    except ApiError as error:
        return "pods.another.test" in error.message
    return False


def is_waiting(room: Buffers) -> bool:
    """Return whether the API server waits for a webhook."""
    try:
        dry_run(replace(room.cluster.admin, timeout_seconds=1.0), room.namespace, content())
    except TimeoutError:
        return True
    return False


def dry_runs(log: AuditLog, room: Buffers) -> int:
    return sum(call.namespace == room.namespace and call.is_dry_run for call in log.calls(USER))


def test_a_webhook_that_is_down_and_may_be_passed_over_stops_nothing(room: Buffers) -> None:
    with nobody() as port, registered(room.cluster, another(room, port, policy="Ignore")):
        room.template("shape", limited())
        room.create("b", podTemplateRef={"name": "shape"}, limits={"memory": "1Gi"})
        room.await_replicas("b", 4)
        assert "resources" in room.managed("b")["template"]["spec"]  # ours was asked


def test_a_webhook_that_hangs_is_waited_for_as_long_as_the_server_does(room: Buffers) -> None:
    with deaf(room.cluster) as port, registered(room.cluster, another(room, port, policy="Ignore", seconds=14)):
        wait_for(lambda: is_waiting(room), "the API server waits for it")
        room.template("shape", limited())
        room.create("b", podTemplateRef={"name": "shape"}, limits={"memory": "1Gi"})
        room.await_replicas("b", 4, 60.0)


def test_a_new_leader_goes_on_with_all_but_what_a_webhook_bars(room: Buffers) -> None:
    room.template("shape", limited())
    room.create("before", podTemplateRef={"name": "shape"}, replicas=1)
    room.await_replicas("before", 1)
    room.create("wrong", replicas=2)
    room.await_not_ready("wrong", "neither podTemplateRef nor scalableRef is set")
    before = room.get("before")["metadata"]["resourceVersion"]
    with nobody() as port, registered(room.cluster, another(room, port, policy="Fail", seconds=10)):
        wait_for(lambda: is_refusing(room), "the API server asks it")
        with controller(room.cluster, mode=BufferMode.ON) as successor:  # it knows nothing of what was
            room.change("wrong", podTemplateRef={"name": "nobody"})
            room.await_not_ready("wrong", "PodTemplate nobody does not exist")
            wait_for(lambda: successor.view(room.namespace) is not None, "it looked")
            view = successor.view(room.namespace)
            assert view is not None
            assert set(view.troubles) == {"before"}
            assert "a pod of PodTemplate shape could not be tried out: " in view.troubles["before"]
            assert successor.fault(room.namespace) is None
    assert room.get("before")["metadata"]["resourceVersion"] == before


def told(log: AuditLog, room: Buffers, name: str) -> list[str]:
    """What was written into a buffer's status of why it is not ready, write by write.

    The namespaces of earlier tests are being removed meanwhile: their buffers lose their templates, and are told so.
    """
    writes = [write for write in log.writes(USER) if (write.namespace, write.name) == (room.namespace, name)]
    calls = [write for write in writes if write.resource == "capacitybuffers/status"]
    return [(call.body or {})["status"]["conditions"][0]["message"] for call in calls]


def test_a_webhook_that_is_down_and_must_be_asked_is_told_and_mended(room: Buffers) -> None:
    room.template("shape", limited())
    room.create("before", podTemplateRef={"name": "shape"}, replicas=1)
    room.await_replicas("before", 1)
    with nobody() as port, registered(room.cluster, another(room, port, policy="Fail", seconds=10)):
        wait_for(lambda: is_refusing(room), "the API server asks it")
        log = AuditLog(room.cluster.audit_log)
        room.template("other", limited())
        room.create("b", podTemplateRef={"name": "other"}, replicas=2)
        status = room.await_not_ready("b", "a pod of PodTemplate other could not be tried out: ")
        words = told(log, room, "b")  # it may have been seen before its template was
        assert 'failed calling webhook "pods.another.test"' in status["conditions"][0]["message"]
        # What is known of the other's shape holds; nobody is asked for it anew.
        room.change("before", replicas=3)
        room.await_replicas("before", 3, PROMPT_SECONDS)
        wait_for(lambda: dry_runs(log, room) >= 3, "it is tried again")
        assert told(log, room, "b") == words  # that it still is so is not written again
        assert 1 <= len(words) == len(set(words)) <= 2
    room.await_replicas("b", 2, 180.0)  # the next try may be a minute and a half away
    assert dry_runs(log, room) <= 12  # ever later: it is a minute at the most
