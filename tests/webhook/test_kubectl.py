"""``kubectl plimsoll workloads``: TLS with a real webhook inside a forward; a server of sockets is the API server."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent.cli.kubectl import main
from tests.dying import dying_with_us
from tests.unit.cli.test_kubectl import AGENTS, kubeconfig
from tests.unit.kube.client.test_pod_exec import Server, answering, api_server, frame, upgrade
from tests.unit.kube.client.test_pod_forward import PORTS, received
from tests.webhook.https import running
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import stack

READER = "plimsoll/plimsoll-webhook-reader"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll"
POD = {
    "metadata": {"name": "webhook-1"},
    "spec": {"containers": [{"name": "webhook", "ports": [{"name": "https", "containerPort": 8443}]}]},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


def token_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"


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


@contextlib.contextmanager
def forwarding(folder: Path, account: str = READER) -> Iterator[Server]:
    """An API server that forwards to a webhook that knows one workload, and gives an account's tokens for it."""
    namespace, _, name = account.partition("/")
    with stack(folder) as backend:
        backend.server.forgettable = frozenset({"/v1/workloads/shop/Deployment/web"})
        backend.report(packed(report_body(row_body(0), row_body(1))), content_encoding="gzip")
        backend.follow()
        with running(backend.services, folder, names=(f"plimsoll-webhook.{namespace}.svc",)) as webhook:
            bundle = base64.b64encode(Path(webhook.authority).read_bytes()).decode()
            documents = {
                f"/api/v1/namespaces/{namespace}/pods": {"items": [POD]},
                token_path(namespace, name): {"status": {"token": "good"}},
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
                yield server


def test_the_webhook_is_asked_through_a_forward(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-plimsoll"])
    with forwarding(tmp_path) as server:
        assert main(["workloads", kubeconfig(tmp_path, server.url)]) == 0
        assert [head.split()[1] for head in server.heads if "portforward" in head] == [
            f"{AGENTS}/webhook-1/portforward?ports=8443"
        ]
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["shop", "Deployment", "web"]


def test_decisions_of_all_nodes_come_through_a_forward(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-plimsoll"])
    with forwarding(tmp_path) as server:
        assert main(["events", "--cluster", "-n", "shop", kubeconfig(tmp_path, server.url)]) == 0
        assert [head.split()[1] for head in server.heads if "portforward" in head or "exec" in head] == [
            f"{AGENTS}/webhook-1/portforward?ports=8443"
        ]
        assert "no decision about a pod in namespace shop" in capsys.readouterr().out
        with pytest.raises(SystemExit) as ended:
            main(["events", "worker-1", "--cluster", kubeconfig(tmp_path, server.url)])
    assert ended.value.code == 2
    assert "worker-1" in capsys.readouterr().err


def test_history_is_forgotten_as_the_forgetter_of_where_plimsoll_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-plimsoll"])
    words = ["workloads", "--forget", "shop/Deployment/web", "--yes", "--plimsoll-namespace", "ops"]
    with forwarding(tmp_path, "ops/plimsoll-webhook-forgetter") as server:
        assert main([*words, kubeconfig(tmp_path, server.url)]) == 0
        assert token_path("ops", "plimsoll-webhook-forgetter") in {head.split()[1] for head in server.heads}
    assert capsys.readouterr().out.startswith("forgotten: Deployment shop/web: 1 workload")


@pytest.mark.parametrize("command", ["agent.cli.main", "agent.cli.kubectl"])
def test_the_page_comes_through_a_forward_until_it_is_interrupted(tmp_path: Path, command: str) -> None:
    """``plimsoll ui`` makes the forward by itself, ``kubectl plimsoll ui`` as its other verbs do."""
    start = f"import sys; from {command} import main; sys.exit(main())"
    with forwarding(tmp_path) as server:
        words = [sys.executable, "-c", start, "ui", "--no-browser", kubeconfig(tmp_path, server.url)]
        with subprocess.Popen(
            dying_with_us(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            url = urlsplit(child.stdout.readline().split()[-1])
            assert url.hostname == "127.0.0.1"
            entrance = http.client.HTTPConnection(url.netloc, timeout=60)
            entrance.request("GET", "/enter", headers={"X-Plimsoll-Key": url.fragment.removeprefix("k=")})
            entered = entrance.getresponse()
            entered.read()
            cookie = {"Cookie": str(entered.headers["Set-Cookie"]).partition(";")[0]}
            entrance.request("GET", "/ui/", headers=cookie)
            assert b'<div id="page">' in entrance.getresponse().read()
            entrance.request("GET", "/v1/workloads", headers=cookie)
            assert [workload["name"] for workload in json.loads(entrance.getresponse().read())["workloads"]] == ["web"]
            entrance.close()
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (0, "")
