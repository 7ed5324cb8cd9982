"""HTTP over loopback: routes, limits, slow and rude clients. No clock is asserted; conditions are waited for."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from agent.metrics.agent_series import Metrics
from agent.metrics.exposition import MetricsPage
from agent.node.sockets.http import (
    MAX_REQUEST_BYTES,
    Heartbeat,
    HttpEndpoint,
    HttpSources,
    ServingError,
    open_listener,
    parse_request,
)
from agent.node.sockets.loop import ListeningLoop

PATIENCE_SECONDS = 60.0
"""Until a test that waits gives up; none takes it."""


class Sources:
    """What the endpoint is made of, each part set by the test."""

    def __init__(self) -> None:
        self.metrics = Metrics(version="0", commit="", sampler="reference")
        self.heartbeat = Heartbeat(age_seconds=0.5, interval_seconds=1.0)
        self.ready = (True, "full")
        self.rendering = threading.Semaphore(0)  # released by each render that has begun
        self.may_render = threading.Event()
        self.may_render.set()
        self.extra = b""

    def page(self, accept: str, encoding: str) -> MetricsPage:
        may_render = self.may_render  # the one of now: a test may put another in its place for those that come later
        self.rendering.release()
        assert may_render.wait(PATIENCE_SECONDS)
        page = self.metrics.page(accept, encoding)
        return MetricsPage(
            content_type=page.content_type, content_encoding=page.content_encoding, body=page.body + self.extra
        )

    def as_http(self) -> HttpSources:
        return HttpSources(
            page=self.page,
            heartbeat=lambda: self.heartbeat,
            ready=lambda: self.ready,
            scrape_rejected=self.metrics.count_rejected_scrape,
        )


def endpoint_of(sources: Sources, address: str = "127.0.0.1") -> HttpEndpoint:
    return HttpEndpoint(open_listener(address, 0), sources.as_http())


@contextlib.contextmanager
def serving(
    sources: Sources,
    *,
    address: str = "127.0.0.1",
    endpoint: HttpEndpoint | None = None,
    read_seconds: float = PATIENCE_SECONDS,
    write_seconds: float = PATIENCE_SECONDS,
    max_connections: int = 64,
) -> Iterator[HttpEndpoint]:
    endpoint = endpoint or endpoint_of(sources, address)
    loop = ListeningLoop(
        [endpoint], read_seconds=read_seconds, write_seconds=write_seconds, max_connections=max_connections
    )
    loop.start()
    try:
        yield endpoint
    finally:
        sources.may_render.set()
        loop.close()
        loop.close()
        for thread in threading.enumerate():  # close waits for 0.4 s, in which a busy machine may not let them run
            if thread.name.startswith("serving"):
                thread.join(PATIENCE_SECONDS)
        assert not [t for t in threading.enumerate() if t.name.startswith("serving")]


@pytest.fixture
def sources() -> Sources:
    return Sources()


@pytest.fixture
def endpoint(sources: Sources) -> Iterator[HttpEndpoint]:
    with serving(sources) as endpoint:
        yield endpoint


def connect(endpoint: HttpEndpoint) -> socket.socket:
    return socket.create_connection(endpoint.listener.getsockname()[:2], timeout=PATIENCE_SECONDS)


def read_all(connection: socket.socket) -> bytes:
    chunks = []
    while chunk := connection.recv(65_536):
        chunks.append(chunk)
    return b"".join(chunks)


def ask(endpoint: HttpEndpoint, request: bytes) -> tuple[int, dict[str, str], bytes]:
    with connect(endpoint) as connection:
        connection.sendall(request)
        return split(read_all(connection))


def split(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", *headers, "", "")).encode()


def test_metrics_is_the_page_with_its_length(sources: Sources, endpoint: HttpEndpoint) -> None:
    status, headers, body = ask(endpoint, get("/metrics"))
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert int(headers["Content-Length"]) == len(body)
    assert body == sources.metrics.page().body


def test_metrics_gzip_and_openmetrics_when_asked(sources: Sources, endpoint: HttpEndpoint) -> None:
    status, headers, body = ask(
        endpoint, get("/metrics?x=1", "accept: application/openmetrics-text", "ACCEPT-ENCODING: gzip")
    )
    assert status == 200
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == sources.metrics.page("application/openmetrics-text").body


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/readyz", "/none"])
def test_head_is_get_without_a_body(endpoint: HttpEndpoint, path: str) -> None:
    status, headers, body = ask(endpoint, get(path))
    head_status, head_headers, head_body = ask(endpoint, get(path, method="HEAD"))
    assert head_body == b""
    assert (head_status, head_headers["Content-Length"]) == (status, headers["Content-Length"])
    assert int(headers["Content-Length"]) == len(body)


def test_index_names_the_pages_and_the_rest_is_not_here(endpoint: HttpEndpoint) -> None:
    assert b"/healthz" in ask(endpoint, get("/"))[2]
    assert ask(endpoint, get("/secret"))[0] == 404
    assert ask(endpoint, get("/metrics/"))[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_405_and_told_what_is_allowed(endpoint: HttpEndpoint, method: str) -> None:
    status, headers, _ = ask(endpoint, get("/metrics", "Content-Length: 3", method=method) + b"abc")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("age", "interval", "status", "word"),
    [
        (0.5, 1.0, 200, "ok"),
        (5.0, 1.0, 200, "ok"),  # 3 x 1 s + 2 s, just still alive
        (5.1, 1.0, 503, "sampler stuck"),
        (7.9, 2.0, 200, "ok"),  # the rate is halved: 3 x 2 s + 2 s
        (None, 1.0, 503, "no sweep yet"),
    ],
)
def test_healthz_follows_the_heartbeat(
    sources: Sources, endpoint: HttpEndpoint, age: float | None, interval: float, status: int, word: str
) -> None:
    sources.heartbeat = Heartbeat(age_seconds=age, interval_seconds=interval)
    answer = ask(endpoint, get("/healthz"))
    assert answer[0] == status
    assert json.loads(answer[2])["status"] == word


def test_readyz_says_why_not(sources: Sources, endpoint: HttpEndpoint) -> None:
    sources.ready = (False, "3 of 5 containers have a full rate window")
    assert ask(endpoint, get("/readyz"))[::2] == (503, b"3 of 5 containers have a full rate window\n")
    sources.ready = (True, "every container has a full rate window")
    assert ask(endpoint, get("/readyz"))[0] == 200


@pytest.mark.parametrize(
    "garbage",
    [b"\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\n\n", b"\x00\xff\n\n",
     b"GET metrics HTTP/1.1\n\n", b"GET  /metrics HTTP/1.1\n\n", b"{}\n\n"],
)  # fmt: skip
def test_garbage_is_400_and_harms_nobody(endpoint: HttpEndpoint, garbage: bytes) -> None:
    assert ask(endpoint, garbage)[0] == 400
    assert ask(endpoint, get("/healthz"))[0] == 200


def test_request_too_large_is_413_although_more_is_on_its_way(endpoint: HttpEndpoint) -> None:
    with connect(endpoint) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_REQUEST_BYTES // 4))
        assert split(read_all(connection))[0] == 413


def test_half_request_then_closed_leaves_nothing_behind(endpoint: HttpEndpoint) -> None:
    with connect(endpoint) as connection:
        connection.sendall(b"GET /metr")
    assert ask(endpoint, get("/healthz"))[0] == 200


def test_request_in_single_bytes_is_answered(endpoint: HttpEndpoint) -> None:
    with connect(endpoint) as connection:
        for byte in get("/readyz"):
            connection.sendall(bytes([byte]))
        assert split(read_all(connection))[0] == 200


def test_slow_request_is_408(sources: Sources) -> None:
    endpoint = endpoint_of(sources)
    with connect(endpoint) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")  # before anybody looks at the clock: the kernel holds it until then
        with serving(sources, endpoint=endpoint, read_seconds=0.1):
            assert split(read_all(slow))[0] == 408


def test_others_do_not_wait_for_a_slow_request(endpoint: HttpEndpoint) -> None:
    with connect(endpoint) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert ask(endpoint, get("/healthz"))[0] == 200
        slow.sendall(b"\r\n")
        assert split(read_all(slow))[0] == 200


def test_third_scrape_at_once_is_503_and_counted(sources: Sources, endpoint: HttpEndpoint) -> None:
    sources.may_render.clear()
    with connect(endpoint) as one, connect(endpoint) as two:
        for connection in (one, two):
            connection.sendall(get("/metrics"))
            assert sources.rendering.acquire(timeout=PATIENCE_SECONDS)
        status, headers, _ = ask(endpoint, get("/metrics"))
        assert (status, headers["Retry-After"]) == (503, "1")
        assert ask(endpoint, get("/healthz"))[0] == 200  # probes do not wait for scrapes
        sources.may_render.set()
        assert [split(read_all(connection))[0] for connection in (one, two)] == [200, 200]
    assert b"plimsoll_scrapes_rejected_total 1.0" in sources.metrics.page().body
    for _ in range(5):  # the slots have come back
        assert ask(endpoint, get("/metrics"))[0] == 200


def test_client_that_does_not_read_loses_its_answer_and_gives_its_slot_back(sources: Sources) -> None:
    # More than the kernel holds for both sides: 4 MiB (net.ipv4.tcp_wmem) and the receive buffer, which is held small.
    sources.extra = b"#" * (16 << 20)
    with serving(sources, write_seconds=0.2) as endpoint, socket.socket() as one, socket.socket() as two:
        for connection in (one, two):
            connection.settimeout(PATIENCE_SECONDS)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(endpoint.listener.getsockname()[:2])
            connection.sendall(get("/metrics"))
            assert sources.rendering.acquire(timeout=PATIENCE_SECONDS)
        wait = threading.Event()
        while (status := ask(endpoint, get("/metrics", method="HEAD"))[0]) == 503:
            wait.wait(0.02)
        assert status == 200
        # That was one slot. Whoever reads an answer before it was given up gets all of it, so both are waited for: a
        # third client has the first slot while others ask for the second.
        others = sources.may_render
        sources.may_render, sources.rendering = threading.Event(), threading.Semaphore(0)
        with connect(endpoint) as three:
            three.sendall(get("/metrics", method="HEAD"))
            assert sources.rendering.acquire(timeout=PATIENCE_SECONDS)
            sources.may_render, held = others, sources.may_render
            while ask(endpoint, get("/metrics", method="HEAD"))[0] == 503:
                wait.wait(0.02)
            held.set()
            assert split(read_all(three))[0] == 200
        for connection in (one, two):
            with contextlib.suppress(ConnectionResetError):
                assert len(read_all(connection)) < len(sources.extra)


def test_client_that_hangs_up_during_rendering_gives_its_slot_back(sources: Sources, endpoint: HttpEndpoint) -> None:
    wait = threading.Event()
    for _ in range(3):
        # An event of its own: one that is set and cleared again is missed by whoever looks late.
        sources.may_render = threading.Event()
        with connect(endpoint) as connection:
            connection.sendall(get("/metrics"))
            assert sources.rendering.acquire(timeout=PATIENCE_SECONDS)
        sources.may_render.set()
        while (status := ask(endpoint, get("/metrics"))[0]) == 503:  # until its answer is given up
            wait.wait(0.02)
        assert status == 200
        assert sources.rendering.acquire(timeout=PATIENCE_SECONDS)  # of the one that was answered


def test_many_idle_connections_make_way_for_a_new_one(sources: Sources) -> None:
    with serving(sources, max_connections=4) as endpoint, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(endpoint)) for _ in range(8)]
        assert ask(endpoint, get("/healthz"))[0] == 200
        with contextlib.suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""  # the oldest was closed


def test_page_that_raises_is_500_and_the_next_one_is_fine(
    sources: Sources, endpoint: HttpEndpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sources.metrics, "page", lambda *_: 1 / 0)
    assert ask(endpoint, get("/metrics"))[0] == 500
    assert "a request failed" in caplog.text
    monkeypatch.undo()
    assert ask(endpoint, get("/metrics"))[0] == 200


def test_ready_that_raises_is_500(sources: Sources, caplog: pytest.LogCaptureFixture) -> None:
    http = HttpSources(
        page=sources.page,
        heartbeat=lambda: sources.heartbeat,
        ready=lambda: (1 // 0 == 0, ""),
        scrape_rejected=sources.metrics.count_rejected_scrape,
    )
    endpoint = HttpEndpoint(open_listener("127.0.0.1", 0), http)
    loop = ListeningLoop([endpoint])
    loop.start()
    try:
        assert ask(endpoint, get("/readyz"))[0] == 500
        assert ask(endpoint, get("/healthz"))[0] == 200
    finally:
        loop.close()
    assert "ZeroDivisionError" in caplog.text


def test_port_in_use_is_one_line_with_address_and_port(endpoint: HttpEndpoint) -> None:
    with pytest.raises(
        ServingError, match=rf"cannot listen on 127\.0\.0\.1:{endpoint.port}: address already in use"
    ) as e:
        open_listener("127.0.0.1", endpoint.port)
    assert e.value.exit_code == 2
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("address", ["192.0.2.1", "no such host", "300.1.1.1", "a..b", f"{'a' * 64}.b"])
def test_address_that_is_not_ours_is_one_line(address: str) -> None:
    with pytest.raises(ServingError) as caught:
        open_listener(address, 1)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ipv6_is_served(sources: Sources) -> None:
    try:
        with serving(sources, address="::1") as endpoint:
            assert endpoint.url == f"http://[::1]:{endpoint.port}"
            assert ask(endpoint, get("/healthz"))[0] == 200
    except ServingError as error:
        pytest.skip(f"no IPv6 here: {error}")


def test_close_before_start_and_with_open_connections(sources: Sources) -> None:
    ListeningLoop([HttpEndpoint(open_listener("127.0.0.1", 0), sources.as_http())]).close()
    with serving(sources) as endpoint, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect(endpoint))


def test_parse_request_joins_a_header_given_twice() -> None:
    request = parse_request(b"GET /a?b HTTP/1.0\r\nAccept: x\r\nACCEPT: y\r\nBroken\r\n\r\n")
    assert request is not None
    assert (request.path, request.accept, request.accept_encoding) == ("/a", "x,y", "")
