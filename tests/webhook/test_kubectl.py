"""``kubectl plimsoll workloads``: TLS with a real webhook inside a forward; a server of sockets is the API server."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import select
import socket
import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent.cli.kubectl import main
from tests.unit.cli.test_kubectl import AGENTS, kubeconfig
from tests.unit.kube.client.test_pod_exec import answering, api_server, frame, upgrade
from tests.unit.kube.client.test_pod_forward import PORTS, received
from tests.webhook.https import running
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import stack

READER_PATH = "/api/v1/namespaces/plimsoll/serviceaccounts/plimsoll-webhook-reader/token"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll"
POD = {
    "metadata": {"name": "webhook-1"},
    "spec": {"containers": [{"name": "webhook", "ports": [{"name": "https", "containerPort": 8443}]}]},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


def carried(connection: ssl.SSLSocket, address: tuple[str, int]) -> None:
    """Carry a forward to where the webhook listens, as a kubelet does, until either side closes."""
    connection.sendall(b"".join(PORTS))
    with socket.create_connection(address) as pod, contextlib.suppress(EOFError, OSError):
        while True:
            if connection.pending() or connection in select.select([connection, pod], [], [])[0]:
                first, content = received(connection)
                if first != 0x82:
                    return
                assert content[:1] == b"\x00"
                pod.sendall(content[1:])
            else:
                piece = pod.recv(1 << 14)
                if not piece:
                    return
                connection.sendall(frame(b"\x00" + piece))


def test_the_webhook_is_asked_through_a_forward(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-plimsoll"])
    with stack(tmp_path) as one:
        one.report(packed(report_body(row_body(0), row_body(1))), content_encoding="gzip")
        one.follow()
        with running(one.services, tmp_path, names=("plimsoll-webhook.plimsoll.svc",)) as webhook:
            bundle = base64.b64encode(Path(webhook.authority).read_bytes()).decode()
            documents = {
                AGENTS: {"items": [POD]},
                READER_PATH: {"status": {"token": "good"}},
                CONFIGURATION: {"webhooks": [{"clientConfig": {"caBundle": bundle}}]},
            }

            def behave(connection: ssl.SSLSocket, head: str) -> None:
                path = urlsplit(head.split()[1]).path
                if path.endswith("/pods/webhook-1/portforward"):
                    upgrade(connection, head)
                    carried(connection, webhook.address)
                else:
                    sent = re.search(r"content-length: (\d+)", head, re.I)
                    connection.recv(int(sent[1]) if sent else 0)  # unread, it would have the answer lost
                    body = json.dumps(documents[path]).encode()
                    answering("200 OK", body, "Connection: close")(connection, head)

            with api_server(behave) as server:
                assert main(["workloads", kubeconfig(tmp_path, server.url)]) == 0
                assert [head.split()[1] for head in server.heads if "portforward" in head] == [
                    f"{AGENTS}/webhook-1/portforward?ports=8443"
                ]
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["shop", "Deployment", "web"]
