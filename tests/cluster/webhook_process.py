"""``plimsoll webhook`` as a process on loopback, against the tests' control plane; and agents' words to it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.cluster import chart
from tests.cluster.api import Json
from tests.cluster.certificates import KeyPair
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import node_bound_token
from tests.cluster.processes import Process, free_ports
from tests.webhook.https import Reply, reply_of
from tests.webhook.report_bodies import packed

REPOSITORY = Path(__file__).parents[2]
NAMESPACE, ACCOUNT, AUDIENCE = "plimsoll", "plimsoll-agent", "plimsoll-webhook"
SERVED_AS, SERVED_NAMES = "plimsoll-webhook", ("127.0.0.1", "localhost", "plimsoll-webhook.plimsoll.svc")
ANSWER_SECONDS: Final = 60.0
"""Until an answer is given up: a fault, and no measure of speed."""
END_SECONDS: Final = 60.0
"""What it gets to end in order, and to say so: on a busy machine five are not enough for that."""
UNBOUNDED: Final = "--set=access.requestsPerMinute=100000"
"""For nodes that report until something comes of it: more often than an agent may."""


class WebhookProcess:
    """One replica; ``ask`` speaks to it over TLS."""

    def __init__(self, process: Process, port: int, authority: Path) -> None:
        self.process = process
        self.port = port
        self._context = ssl.create_default_context(cafile=str(authority))

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
            return reply_of(connection)
        finally:
            connection.close()

    def post(self, path: str, body: Any, token: str | None) -> Reply:
        """Send a body as an agent does."""
        headers = {"Content_Type": "application/json", "Content_Encoding": "gzip"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.ask("POST", path, packed(body), **headers)

    def get(self, path: str, token: str | None = None) -> Reply:
        return self.ask("GET", path) if token is None else self.ask("GET", path, Authorization=f"Bearer {token}")

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False

    def certificate(self) -> str:
        """Return what it shows to a client that connects now, PEM."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_SECONDS) as plain,
            self._context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")

    def series(self, name: str) -> float:
        """Return one series of /metrics by its name with labels."""
        text = self.get("/metrics").body.decode()
        match = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
        assert match is not None, name
        return float(match[1])


@contextlib.contextmanager
def webhook(
    plane: ControlPlane,
    folder: Path,
    *,
    kubeconfig: Path | None = None,
    database: str | None = None,
    arguments: Sequence[str] = (),
) -> Iterator[WebhookProcess]:
    """Run a replica inside the block; it is ready.

    Args:
        plane: Its API server.
        folder: For database and log; kept for the next run.
        kubeconfig: As whom; the administrator unless told.
        database: Its URL; a file in the folder unless told.
        arguments: Further ones.
    """
    with webhook_started(plane, folder, kubeconfig=kubeconfig, database=database, arguments=arguments) as replica:
        replica.process.wait_until(replica.is_ready, f"127.0.0.1:{replica.port}/readyz")
        yield replica


@contextlib.contextmanager
def webhook_started(
    plane: ControlPlane,
    folder: Path,
    *,
    kubeconfig: Path | None = None,
    database: str | None = None,
    arguments: Sequence[str] = (),
    port: int | None = None,
    pair: KeyPair | None = None,
) -> Iterator[WebhookProcess]:
    """Run a replica inside the block, as ``webhook`` does; it has just begun. Port and certificate may be kept."""
    if port is None:
        (port,) = free_ports(1, "127.0.0.1")
    if pair is None:
        pair = plane.serving_certificate(SERVED_AS, SERVED_NAMES)
    command = [
        sys.executable,
        "-m",
        "agent",
        "webhook",
        f"--listen=127.0.0.1:{port}",
        f"--database={database or folder / 'webhook.db'}",
        f"--kubeconfig={kubeconfig or plane.kubeconfig}",
        f"--tls-cert={pair.certificate}",
        f"--tls-key={pair.key}",
        *arguments,
    ]
    process = Process("webhook", ["env", "-C", str(REPOSITORY), *command], folder / "webhook.log")
    replica = WebhookProcess(process, port, plane.authority)
    try:
        yield replica
    finally:
        process.stop(seconds=END_SECONDS)


def registration(port: int, namespace: str, authority: Path, *, seconds: int = 2) -> Json:
    """Return the chart's registration, but by an address and for one namespace, after which it is named.

    ``seconds``: how long the API server waits; two as shipped, in which a busy machine may not come to an answer.
    """
    (document,) = chart.parts(*chart.REGISTRATION)
    document["metadata"]["name"] = namespace
    hook = document["webhooks"][0]
    hook["timeoutSeconds"] = seconds
    hook["clientConfig"] = {
        "url": f"https://127.0.0.1:{port}/mutate",
        "caBundle": base64.b64encode(authority.read_bytes()).decode(),
    }
    hook["namespaceSelector"]["matchExpressions"].append(
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace]}
    )
    return document


def agent_token(plane: ControlPlane, node: str | None, *, audience: str = AUDIENCE, account: str = ACCOUNT) -> str:
    """Return a token of the agents' account, bound to a node."""
    return node_bound_token(plane, NAMESPACE, account, node, audiences=(audience,))


def may_import(plane: ControlPlane) -> bool:
    """Return whether the importer's right is in force: one that was refused is refused for ten seconds more."""
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    attributes = {"verb": "create", "path": "/v1/history"}
    spec = {"user": f"system:serviceaccount:{NAMESPACE}:plimsoll-webhook-importer", "nonResourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(plane.admin.create(path, review)["status"]["allowed"])


def answer_of(reply: Reply) -> Any:
    assert reply.status == 200, (reply.status, reply.body[:400])
    return json.loads(reply.body)
