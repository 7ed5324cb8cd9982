"""HTTP for probes and Prometheus: /metrics, /healthz, /readyz. Answers from what it is handed; never I/O of its own.

Written on ``ListeningLoop`` and not on http.server, which takes a thread for each connection, without a bound.
Every answer closes its connection, so there is no keep-alive to bound.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.metrics.exposition import MetricsPage
from agent.node.sockets.loop import Deferred

MAX_REQUEST_BYTES: Final = 16 * 1024
MAX_SCRAPES: Final = 2
"""At once; a third is told 503. Each holds the GIL for some milliseconds and a page of up to 1.3 MB."""
HEARTBEAT_INTERVALS: Final = 3.0
HEARTBEAT_SLACK_SECONDS: Final = 2.0
"""The sampler counts as alive up to three intervals and two seconds after its last sweep."""
BACKLOG: Final = 64
EXIT_CODE: Final = 2

_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
_PHRASES: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_INDEX: Final = (
    b"Plimsoll node agent\n\n/metrics  Prometheus\n/healthz  the sampler's heartbeat\n/readyz   first window full\n"
)


class ServingError(Exception):
    """The agent cannot listen where it is told to; one line that names address and port."""

    exit_code = EXIT_CODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """When the sampler last swept, and how often it means to."""

    age_seconds: float | None
    """Since the last sweep ended; None = there was none yet."""
    interval_seconds: float
    """In force now; longer than the setting when the rate is halved."""

    @property
    def limit_seconds(self) -> float:
        """Beyond this age the sampler counts as stuck."""
        return HEARTBEAT_INTERVALS * self.interval_seconds + HEARTBEAT_SLACK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSources:
    """What the answers are made of; each may be called from the serving thread or a worker, and must not block."""

    page: Callable[[str, str], MetricsPage]
    """Builds /metrics from the headers Accept and Accept-Encoding: ``Metrics.page``."""
    heartbeat: Callable[[], Heartbeat]
    ready: Callable[[], tuple[bool, str]]
    """Whether the first window is full, and one line of why (not)."""
    scrape_rejected: Callable[[], None]
    """Counts a scrape that got 503: ``Metrics.count_rejected_scrape``."""


def open_listener(address: str, port: int) -> socket.socket:
    """Bind and listen; IPv4 or IPv6, and ``::`` takes IPv4 too.

    Raises:
        ServingError: The address is not this machine's, the port is taken, or it may not be used.
    """
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ServingError(f"serving.address {address}, serving.port {port}: {error.strerror}") from error
    except UnicodeError as error:  # of a label that DNS does not allow: empty, or too long
        raise ServingError(f"serving.address {address} is not allowed; allowed: an IPv4 or IPv6 address") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and hasattr(socket, "IPV6_V6ONLY"):
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(target)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise ServingError(
            f"cannot listen on {where}: {reason}; set serving.address or serving.port (0 = any free port)"
        ) from error
    return listener


class HttpEndpoint:
    """The agent's HTTP answers, as an ``Endpoint`` of the listening loop."""

    def __init__(self, listener: socket.socket, sources: HttpSources) -> None:
        self.listener = listener
        self.name = "http"
        self.max_request_bytes = MAX_REQUEST_BYTES
        self._sources = sources
        self._slots = threading.BoundedSemaphore(MAX_SCRAPES)

    @property
    def url(self) -> str:
        """Where it listens, with the port in force."""
        host, port = self.listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def port(self) -> int:
        """The port in force, also when the setting was 0."""
        port: int = self.listener.getsockname()[1]
        return port

    def admits(self, connection: socket.socket) -> bool:
        """Accept anyone who reaches the address."""
        return True

    def request_end(self, received: bytearray) -> int | None:
        """Find the empty line after the headers; a body, if any, is not waited for."""
        ends = [at + len(mark) for mark in (b"\r\n\r\n", b"\n\n") if (at := received.find(mark)) >= 0]
        return min(ends) if ends else None

    def answer(self, request: bytes, connection: socket.socket) -> bytes | Deferred:
        """Route one request."""
        parsed = parse_request(request)
        if parsed is None:
            return _response(400, _TEXT, b"not an HTTP/1 request\n")
        with_body = parsed.method != "HEAD"
        if parsed.method not in ("GET", "HEAD"):
            body = f"{parsed.method[:20]} is not allowed; allowed: GET, HEAD\n".encode("ascii", "replace")
            return _response(405, _TEXT, body, extra=("Allow: GET, HEAD",))
        if parsed.path == "/metrics":
            return self._scrape(parsed, with_body=with_body)
        if parsed.path == "/healthz":
            return self._health(with_body=with_body)
        if parsed.path == "/readyz":
            ready, reason = self._sources.ready()
            return _response(200 if ready else 503, _TEXT, f"{reason}\n".encode(), with_body=with_body)
        if parsed.path == "/":
            return _response(200, _TEXT, _INDEX, with_body=with_body)
        return _response(404, _TEXT, b"not here; there are /metrics, /healthz, /readyz\n", with_body=with_body)

    def refuse_too_large(self) -> bytes:
        """413."""
        return _response(413, _TEXT, f"a request has at most {MAX_REQUEST_BYTES} bytes\n".encode())

    def refuse_too_slow(self) -> bytes:
        """408."""
        return _response(408, _TEXT, b"the request did not arrive in time\n")

    def refuse_failed(self) -> bytes:
        """500; the reason is in the log, as it may name what the scraper need not know."""
        return _response(500, _TEXT, b"failed; see the agent's log\n")

    def close(self) -> None:
        """Stop to listen."""
        self.listener.close()

    def _scrape(self, request: Request, *, with_body: bool) -> bytes | Deferred:
        if not self._slots.acquire(blocking=False):
            self._sources.scrape_rejected()
            body = f"{MAX_SCRAPES} scrapes are under way\n".encode()
            return _response(503, _TEXT, body, extra=("Retry-After: 1",), with_body=with_body)

        def work() -> bytes:
            page = self._sources.page(request.accept, request.accept_encoding)
            extra: tuple[str, ...] = ("Vary: Accept, Accept-Encoding",)
            if page.content_encoding:
                extra += (f"Content-Encoding: {page.content_encoding}",)
            return _response(200, page.content_type, page.body, extra=extra, with_body=with_body)

        return Deferred(work, self._slots.release)

    def _health(self, *, with_body: bool) -> bytes:
        heartbeat = self._sources.heartbeat()
        alive = heartbeat.age_seconds is not None and heartbeat.age_seconds <= heartbeat.limit_seconds
        body = {
            "status": "ok" if alive else "no sweep yet" if heartbeat.age_seconds is None else "sampler stuck",
            "lastSweepAgeSeconds": None if heartbeat.age_seconds is None else round(heartbeat.age_seconds, 3),
            "limitSeconds": round(heartbeat.limit_seconds, 3),
        }
        text = json.dumps(body).encode() + b"\n"
        return _response(200 if alive else 503, _JSON, text, with_body=with_body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is looked at of a request."""

    method: str
    path: str
    """Without the query."""
    accept: str
    accept_encoding: str


def parse_request(request: bytes) -> Request | None:
    """Parse request line and headers.

    Returns:
        None for anything that is no HTTP/1 request: garbage, HTTP/0.9, TLS on the wrong port.
    """
    head, *lines = request.replace(b"\r\n", b"\n").split(b"\n")
    parts = head.decode("latin-1").split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not (parts[0].isascii() and parts[0].isalpha()):
        return None
    method, target, _ = parts
    if not target.startswith("/"):
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            key = name.lower()
            headers[key] = f"{headers[key]},{value.strip()}" if key in headers else value.strip()
    return Request(
        method=method,
        path=target.partition("?")[0],
        accept=headers.get("accept", ""),
        accept_encoding=headers.get("accept-encoding", ""),
    )


def _response(
    status: int, content_type: str, body: bytes, *, extra: tuple[str, ...] = (), with_body: bool = True
) -> bytes:
    lines = (
        f"HTTP/1.1 {status} {_PHRASES[status]}",
        f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime())}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *extra,
        "",
        "",
    )
    return "\r\n".join(lines).encode("latin-1") + (body if with_body else b"")
