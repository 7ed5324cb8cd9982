"""The chart's MutatingWebhookConfiguration on a real API server: about whom the webhook is asked.

The certificate is the webhook's own; what answers is a few lines of this file.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent.kube.watch.reflector import WatchPace
from agent.webhook.certificates.certificates import Certificates
from agent.webhook.certificates.options import CertificateOptions
from agent.webhook.certificates.registration import PATH
from tests.cluster import chart
from tests.cluster.api import ApiError, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, fresh_name
from tests.cluster.objects import create_node, pod, pod_path
from tests.cluster.processes import wait_for
from tests.cluster.webhook_rights import configuration_rules, own_rules, webhook_api

pytestmark = pytest.mark.cluster

QUICK = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.05, longest_wait_seconds=0.3)


class Marking(http.server.BaseHTTPRequestHandler):
    """Allows every pod, and remembers it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body: Json = {"uid": review["request"]["uid"], "allowed": True}
        answer = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body}).encode()
        self.server.asked.append(review["request"]["namespace"] + "/" + review["request"]["name"])  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Over the certificate of the moment."""

    daemon_threads = True

    def __init__(self, certificates: Certificates) -> None:
        super().__init__(("127.0.0.1", 0), Marking)
        self.asked: list[str] = []
        context = certificates.served_context()
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, *_: Any) -> None:
        """Clients that do not trust us hang up."""


@pytest.fixture(scope="module")
def registered(cluster: ControlPlane) -> Iterator[tuple[Server, Certificates]]:
    """The manifest as it is, but for the way to the server: there is no network of services here."""
    name, namespace = fresh_name("webhook"), fresh_name("test")
    create_namespace(cluster, namespace)
    api = webhook_api(cluster, namespace, everywhere=configuration_rules(name), own=own_rules())
    options = CertificateOptions(secret="certificate", configuration=name, further_names="127.0.0.1")  # noqa: S106
    certificates = Certificates(
        options, namespace=namespace, api=api, is_leader=lambda: True, pace=QUICK, look_seconds=0.05
    )
    with Server(certificates) as server:
        (manifest,) = chart.parts(*chart.REGISTRATION)
        manifest["metadata"]["name"] = name
        url = f"https://127.0.0.1:{server.server_address[1]}/mutate"
        assert manifest["webhooks"][0]["timeoutSeconds"] == 2, "no pod waits for longer"
        # This process may be slower than that to answer, on a busy machine.
        manifest["webhooks"][0] |= {"clientConfig": {"url": url}, "timeoutSeconds": 10}
        cluster.admin.create(PATH, manifest)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        certificates.start()
        try:
            wait_for(lambda: certificates.status().is_registered is True, "it is registered")
            yield server, certificates
        finally:
            cluster.admin.delete(f"{PATH}/{name}")
            certificates.stop()
            server.shutdown()


def is_asked(cluster: ControlPlane, server: Server, namespace: str, manifest: Json) -> bool:
    name = fresh_name("pod")
    manifest["metadata"]["name"] = name
    cluster.admin.create(pod_path(namespace), manifest)
    with contextlib.suppress(ApiError):
        cluster.admin.delete(pod_path(namespace, name), gracePeriodSeconds="0")
    return f"{namespace}/{name}" in server.asked


def test_pods_are_asked_about_and_neither_mirrors_nor_the_namespaces_that_run_the_cluster(
    cluster: ControlPlane, registered: tuple[Server, Certificates], namespace: str, node_name: str
) -> None:
    server, _ = registered
    create_node(cluster.admin, node_name)
    wait_for(lambda: is_asked(cluster, server, namespace, pod("x", node_name)), "the API server asks")
    annotated = pod("x", node_name, annotations={"example.com/any": "thing"})
    assert is_asked(cluster, server, namespace, annotated)
    mirror = pod("x", node_name, annotations={"kubernetes.io/config.mirror": "1"}, automountServiceAccountToken=False)
    assert not is_asked(cluster, server, namespace, mirror)
    assert not is_asked(cluster, server, "kube-system", pod("x", node_name, automountServiceAccountToken=False))

    def asked_here() -> int:  # controllers may make pods in namespaces of others, which are asked about as well
        return sum(name.startswith(f"{namespace}/") for name in server.asked)

    before = asked_here()
    cluster.admin.create(pod_path(namespace), pod("kept", node_name))
    assert asked_here() == before + 1
    # Nothing but the making of pods: neither their updates nor their status.
    cluster.admin.patch(pod_path(namespace, "kept"), {"metadata": {"labels": {"a": "b"}}})
    cluster.admin.patch(pod_path(namespace, "kept", "status"), {"status": {"phase": "Running"}})
    assert asked_here() == before + 1
