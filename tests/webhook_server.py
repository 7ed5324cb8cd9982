"""A small HTTPS server in place of the webhook: real TLS, answers as a test wants them, a memory of what was sent."""

from __future__ import annotations

import gzip
import json
import ssl
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate that signs itself, for 127.0.0.1."""

    certificate: Path
    key: Path


@cache
def authority(name: str) -> Authority:
    """Make one; the same name gives the same again."""
    directory = Path(mkdtemp(prefix="plimsoll-tls-"))
    pair = Authority(certificate=directory / "tls.crt", key=directory / "tls.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(pair.key), "-out", str(pair.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    """Names in small letters."""
    packed: bytes
    """The body as it came."""

    @property
    def document(self) -> Any:
        """Return the body."""
        return json.loads(gzip.decompress(self.packed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered; None in place of one = the connection is cut."""

    status: int = 200
    body: bytes = b'{"schema":1,"taken":0,"refused":[],"repeated":false,"etag":null,"directives":null}'
    headers: dict[str, str] = field(default_factory=dict)
    cut_bytes: int = 0
    """So many bytes of the body are never sent."""


class WebhookServer:
    """Serves between enter and exit; ``port`` may be taken again after an outage."""

    def __init__(
        self,
        behave: Callable[[Request], Answer | None] = lambda request: Answer(),
        *,
        port: int = 0,
        name: str = "webhook",
    ) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self._behave = behave
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = authority(name)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server = _Server(("127.0.0.1", port), _handler_of(self), context)
        self.port = self._server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def take(self, request: Request) -> Answer | None:
        """Remember a request, and say what to answer."""
        self.requests.append(request)
        return self._behave(request)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = False
    block_on_close = True

    def __init__(self, address: tuple[str, int], handler: type, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__(address, handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands on the connection's own thread."""
        request.settimeout(60)
        try:
            wrapped = self._context.wrap_socket(request, server_side=True)
        except (ssl.SSLError, OSError):
            return  # who does not trust us leaves
        with wrapped:
            self.RequestHandlerClass(wrapped, client_address, self)  # type: ignore[arg-type]  # as its own typeshed has it

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: connections are cut here on purpose."""


def _handler_of(server: WebhookServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            server.connections += 1

        def do_POST(self) -> None:
            packed = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.take(Request(path=self.path, headers=headers, packed=packed))
            self.close_connection = True
            if answer is None:
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            keeps = answer.headers.get("Connection") == "keep-alive"
            if not keeps:
                self.send_header("Connection", "close")
            self.close_connection = not keeps
            self.end_headers()
            self.wfile.write(answer.body[: len(answer.body) - answer.cut_bytes])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler
