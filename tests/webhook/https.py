"""A webhook's server on loopback: real TLS, real uvicorn, in a thread; and a client that trusts it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.metrics.exposition import MetricsPage
from agent.settings.webhook_sections import ListeningSettings
from agent.webhook.http.access import Caller, Sender
from agent.webhook.http.routes import Call, HttpAnswer, Services, WebhookApp
from agent.webhook.http.tls_server import HttpsServer
from tests.cluster.certificates import Authority, KeyPair


@dataclass(frozen=True)
class Reply:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    """A server that answers."""

    server: HttpsServer
    app: WebhookApp
    address: tuple[str, int]
    authority: Path
    thread: threading.Thread
    connections: list[http.client.HTTPSConnection] = field(default_factory=list)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    def connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(*self.address, context=self.context(), timeout=60)
        self.connections.append(connection)
        return connection

    def plain(self) -> ssl.SSLSocket:
        """A TLS connection to write anything into."""
        bare = socket.create_connection(self.address, timeout=60)
        return self.context().wrap_socket(bare, server_hostname=self.address[0])

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = self.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=named)
        return reply_of(connection)


def reply_of(connection: http.client.HTTPSConnection) -> Reply:
    with connection.getresponse() as response:
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, headers, response.read())


def echo(call: Call) -> HttpAnswer:
    """Return what a service is handed."""
    said = {
        "path": call.path,
        "body": call.body.decode(),
        "authorization": call.authorization,
        "encoding": call.content_encoding,
        "held": call.if_none_match,
        "query": dict(call.query),
        "names": dict(call.names),
    }
    return HttpAnswer(body=json.dumps(said).encode())


def sender_of(node: str) -> Sender:
    return Sender(Caller(username="agent"), node)


def services(**changes: Any) -> Services:
    """Services that echo, unless a test gives others."""
    ones: dict[str, Any] = {
        "review": lambda body, _: b'{"reviewed":' + body + b"}",
        "failed": lambda _: None,
        "known": lambda kind, authorization: None,
        "entering": lambda kind, authorization: sender_of("node-a"),
        "report": echo,
        "evictions": echo,
        "taint": echo,
        "history": echo,
        "runs": echo,
        "decisions": echo,
        "workloads": echo,
        "workload": echo,
        "forget": echo,
        "nodes": echo,
        "summary": echo,
        "events": echo,
        "policy": echo,
        "cost": echo,
        "buffers": echo,
        "buffer": echo,
        "rejected": lambda _: None,
        "page": lambda accept, encoding: MetricsPage(
            content_type="text/plain", content_encoding=None, body=b"series 1\n"
        ),
        "scrape_rejected": lambda: None,
        "ready": lambda: (True, "ready"),
        "openapi": b'{"openapi":"3.1.0"}',
        "most_report_bytes": 1000,
    }
    return Services(**{**ones, **changes})


def context_of(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@contextlib.contextmanager
def running(given: Services, folder: Path, *, names: Sequence[str] = (), **settings: Any) -> Iterator[Running]:
    """Serve inside the block, with a certificate for loopback and further names; at its end the server has ended.

    Requests have a minute to come whole, unless a test is about that: a busy machine keeps a client waiting.
    """
    given_settings = {"end_seconds": 5, "request_seconds": 60.0, **settings}
    listening = ListeningSettings(address="127.0.0.1", port=0, **given_settings)
    authority = Authority(folder / "tls")
    context = context_of(authority.server("webhook", ["127.0.0.1", "localhost", *names]))
    listener = socket.create_server(("127.0.0.1", 0))
    app = WebhookApp(given, listening)
    server = HttpsServer(app, listener, context, listening)
    thread = threading.Thread(target=server.run, name="server")
    thread.start()
    running_server = Running(server, app, listener.getsockname()[:2], authority.certificate, thread)
    try:
        until = time.monotonic() + 60.0
        while not server._server.started:
            assert time.monotonic() < until
            time.sleep(0.005)
        yield running_server
    finally:
        for connection in running_server.connections:  # else the server waits for each to ask once more
            connection.close()
        server.stop()
        thread.join(60)
        assert not thread.is_alive()
