"""A kubelet as far as ``kubectl exec`` goes: takes the API server's WebSocket, and answers as a function says."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.cluster.control_plane import ControlPlane

_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command writes and how it ends; None = it breaks off before it tells."""

    output: Sequence[str] = ()
    code: int | None = 0


@dataclass
class ExecKubelet:
    """Where it listens, and what it was asked: ``/exec/NAMESPACE/POD/CONTAINER`` and the command."""

    answer: Callable[[str, list[str]], Reply]
    port: int = 0
    asked: list[tuple[str, list[str]]] = field(default_factory=list)

    def join(self, plane: ControlPlane, node: str) -> None:
        """Tell the API server that this node's kubelet is here."""
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
        }
        plane.admin.patch(f"/api/v1/nodes/{node}/status", {"status": status})


@contextlib.contextmanager
def exec_kubelet(plane: ControlPlane, answer: Callable[[str, list[str]], Reply]) -> Iterator[ExecKubelet]:
    """Run one inside the block, with a certificate that the API server believes."""
    kubelet = ExecKubelet(answer)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            command = parse_qs(address.query)["command"]
            kubelet.asked.append((address.path, command))
            digest = hashlib.sha1(f"{self.headers['Sec-WebSocket-Key']}{_ACCEPT}".encode()).digest()  # noqa: S324
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
            self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
            self.end_headers()
            reply = kubelet.answer(address.path, command)
            self.wfile.write(_frame(b"ping", first=0x89))
            for text in reply.output:
                half = len(text) // 2
                self.wfile.write(_frame(b"\x01" + text[:half].encode(), first=0x02))  # a message in two pieces
                self.wfile.write(_frame(text[half:].encode(), first=0x80))
            if reply.code is not None:
                self.wfile.write(_frame(b"\x03" + json.dumps(_status(reply.code)).encode()))
            self.wfile.write(_frame(b"", first=0x88))
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    pair = plane.serving_certificate("exec-kubelet", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        kubelet.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield kubelet
        finally:
            server.shutdown()
            thread.join()


def _frame(content: bytes, first: int = 0x82) -> bytes:
    if len(content) > 125:
        return struct.pack("!BBH", first, 126, len(content)) + content
    return bytes((first, len(content))) + content


def _status(code: int) -> dict[str, object]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: error executing command, exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
