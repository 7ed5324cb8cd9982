"""An agent's socket, a webhook and an API server that answer from files: no code of the agent is in them."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

Json = dict[str, Any]
ALLOWED: Final = {"status": {"allowed": True}}
SERVER_NAME: Final = "plimsoll-webhook.plimsoll.svc"
_WATCH_SECONDS: Final = 60.0


@contextmanager
def control_socket(path: Path, answers: Mapping[str, object], asked: list[str]) -> Iterator[None]:
    """Answer each verb as the file has it; what was asked is noted."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(8)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as stream:
                line = stream.readline()
                if not line:
                    continue
                request = json.loads(line)
                asked.append(json.dumps(request, sort_keys=True))
                verb = request["verb"]
                known = verb in answers
                fault = {"ok": False, "refused": True, "error": f"{verb}: no such thing"}
                answer = {"ok": True, "result": answers[verb]} if known else fault
                stream.write(json.dumps(answer).encode() + b"\n")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        path.unlink(missing_ok=True)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for the webhook that signs itself, and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", f"/CN={SERVER_NAME}", "-keyout", str(key), "-out", str(certificate)),
            *("-addext", f"subjectAltName=DNS:{SERVER_NAME},IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


@dataclass(slots=True)
class Exchange:
    """One request."""

    method: str
    path: str
    """With the query."""
    body: bytes


Answering = Callable[[Exchange], tuple[int, object]]


@contextmanager
def http_server(answer: Answering, certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Serve JSON answers on loopback, over TLS with a certificate; give the address. Watches stay silent."""
    ending = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "watch=" in self.path and self.command == "GET":
                self._stay_silent()
                return
            status, content = answer(Exchange(self.command, self.path, body))
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _stay_silent(self) -> None:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.flush()
            ending.wait(_WATCH_SECONDS)

        def log_message(self, *_: object) -> None:
            pass

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.respond)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(slots=True)
class WebhookAnswers:
    """A webhook's answers by path; what is not there is not known."""

    answers: Mapping[str, object]
    asked: list[str] = field(default_factory=list)

    def __call__(self, exchange: Exchange) -> tuple[int, object]:
        self.asked.append(f"{exchange.method} {exchange.path}")
        answer = self.answers.get(urlsplit(exchange.path).path)
        return (200, answer) if answer is not None else (404, {"error": "nothing is known of it"})


class ClusterAnswers:
    """An API server with one node and its pods: all is allowed, resizes are taken."""

    def __init__(self, pods: list[Json], node: Json, namespaces: list[Json]) -> None:
        self.lists: Final[dict[str, list[Json]]] = {
            "/api/v1/pods": pods,
            "/api/v1/nodes": [node],
            "/api/v1/namespaces": namespaces,
        }
        for number, item in enumerate((*pods, node, *namespaces)):
            item["metadata"]["resourceVersion"] = str(number + 1)
        self.requests: Final[set[str]] = set()
        """Methods and paths that were asked for, each once."""

    def __call__(self, exchange: Exchange) -> tuple[int, object]:
        path = urlsplit(exchange.path).path
        self.requests.add(f"{exchange.method} {path}")
        body = json.loads(exchange.body) if exchange.body else {}
        if path == "/version":
            return 200, {"major": "1", "minor": "37", "gitVersion": "v1.37.1"}
        if exchange.method in ("POST", "PUT"):
            return 201, self._created(path, body)
        if exchange.method == "PATCH":
            return self._patched(path)
        if path in self.lists:
            return 200, self._list(self.lists[path])
        return self._found(path)

    def _created(self, path: str, body: Json) -> Json:
        if path.endswith("accessreviews"):
            return {**body, **ALLOWED}
        if path.endswith("/tokenreviews"):
            names = {"node-name": "worker-7", "pod-name": "agent-x", "pod-uid": "uid-agent-x"}
            extra = {f"authentication.kubernetes.io/{key}": [value] for key, value in names.items()}
            user = {"username": "system:serviceaccount:plimsoll:plimsoll-agent", "uid": "u", "extra": extra}
            return {"status": {"authenticated": True, "user": user, "audiences": body["spec"]["audiences"]}}
        if path.endswith("/selfsubjectreviews"):
            extra = {"authentication.kubernetes.io/node-name": ["worker-7"]}
            return {**body, "status": {"userInfo": {"username": "agent", "extra": extra}}}
        body.setdefault("metadata", {}).setdefault("resourceVersion", "100")
        return body

    def _patched(self, path: str) -> tuple[int, object]:
        if path.endswith(("/resize", "/status")):
            path = path.rpartition("/")[0]
        return self._found(path)

    def _found(self, path: str) -> tuple[int, object]:
        for item in (entry for items in self.lists.values() for entry in items):
            if path.endswith(f"/{item['metadata']['name']}"):
                return 200, item
        if path.rpartition("/")[2].endswith("s"):  # a kind of which there is nothing
            return 200, self._list([])
        return 404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}

    def _list(self, items: list[Json]) -> Json:
        return {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "100"}, "items": items}


def write_kubeconfig(path: Path, server: str) -> Path:
    """Write how to reach an API server as anybody."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "good"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
