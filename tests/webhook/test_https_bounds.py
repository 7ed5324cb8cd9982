"""Bounds of the server that a client meets before anything is asked, or after too much was."""

from __future__ import annotations

import base64
import contextlib
import gc
import http.client
import json
import random
import resource
import socket
import ssl
import struct
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.metrics.call_result import CallKind
from agent.node.reports.client import WebhookClient
from agent.webhook.admission.glance import MAX_REVIEW_BYTES, Unread
from agent.webhook.admission.logged_reasons import MOST_REASONS
from agent.webhook.http.access import Sender
from agent.webhook.http.address_shares import BURST_SECONDS
from agent.webhook.http.bodies import MAX_DISCARDED_BYTES, MAX_HEAD_BYTES, MAX_REVIEWS_BYTES
from agent.webhook.http.routes import MAX_BODIES, HttpAnswer, fault
from agent.webhook.http.tls_server import OTHER_FILES, READ_BYTES
from tests.fakes import FakeClock
from tests.webhook.https import Running, running, sender_of, services


@pytest.mark.parametrize("kibibytes", [1500, 4000])
def test_an_agent_hears_that_its_report_is_too_large_however_large_it_is(tmp_path: Path, kibibytes: int) -> None:
    # It drops a report on this answer alone: a connection that closes while it writes makes it send the same for ever.
    assert kibibytes << 10 < MAX_DISCARDED_BYTES
    text = base64.b64encode(random.Random(1).randbytes(kibibytes << 10)).decode()
    with running(services(most_report_bytes=1 << 20), tmp_path) as hook:
        client = WebhookClient(hook.server.url, token_file=None, ca_file=hook.authority, timeout_seconds=60)
        for _ in range(3):
            assert client.post("/v1/report", text).status == 413
        client.close()


def test_who_connects_and_never_begins_tls_is_hung_up_on(tmp_path: Path) -> None:
    with running(services(), tmp_path, request_seconds=0.2) as hook:
        with socket.create_connection(hook.address, timeout=60) as connection:
            assert connection.recv(1) == b""
        await_health(hook)


def connected(hook: Running) -> ssl.SSLSocket:
    """Connect to a server that gives little time to begin TLS: a busy machine may use it up."""
    until = time.monotonic() + 60.0
    while True:
        try:
            return hook.plain()
        except OSError:
            assert time.monotonic() < until


def test_a_flood_of_one_kind_from_many_addresses_hides_no_other_kind_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(services(review=lambda *_: b"read"), tmp_path) as hook:
        for number in range(300):
            hook.app._count_unread(Unread.CONTAINERS, f"10.0.{number // 256}.{number % 256}")
        hook.app._count_unread(Unread.SHARE, "10.1.0.1")
    records = [vars(record) for record in caplog.records if record.message.startswith("a review is not read")]
    assert len(records) == MOST_REASONS + 1
    assert records[-1]["address"] == "10.1.0.1"


def await_health(hook: Running) -> None:
    """Ask until it answers: its bound of time is ours too."""

    def is_well() -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return hook.ask("GET", "/healthz").status == 200
        return False

    _await(is_well)


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_connection_that_ended_leaves_nothing_for_the_collector_or_a_timer(tmp_path: Path, is_reset: bool) -> None:
    with running(services(), tmp_path) as hook:
        connection = hook.plain()
        if is_reset:  # uvicorn's timer of idle connections outlives these
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer_on(connection).startswith(b"HTTP/1.1 200 ")
        (protocol,) = hook.server._server.server_state.connections
        # asyncio's own, with a buffer of 256 KiB.
        held = weakref.ref(protocol.transport._ssl_protocol)  # type: ignore[attr-defined]
        del protocol
        gc.disable()
        try:
            connection.close()
            _await(lambda: held() is None)
        finally:
            gc.enable()


def test_an_open_connection_takes_some_ten_kilobytes(tmp_path: Path) -> None:
    with running(services(), tmp_path) as hook, contextlib.ExitStack() as open_ones:
        tracemalloc.start()
        try:
            for _ in range(40):
                connection = open_ones.enter_context(hook.plain())
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert answer_on(connection).startswith(b"HTTP/1.1 200 ")
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert READ_BYTES < taken / 40 < 64 * 1024


def test_reviews_that_never_end_take_bounded_memory_and_small_ones_are_answered_meanwhile(tmp_path: Path) -> None:
    begun = b'{"request":{"uid":"u-9","more":"'
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MAX_REVIEW_BYTES
    number = MAX_REVIEWS_BYTES // MAX_REVIEW_BYTES + 1
    held = MAX_REVIEWS_BYTES // number
    assert held < MAX_REVIEW_BYTES
    given = services(review=lambda *_: b"reviewed")
    with running(given, tmp_path, request_seconds=120) as hook, contextlib.ExitStack() as open_ones:
        for _ in range(number):
            connection = open_ones.enter_context(hook.plain())
            connection.sendall(head + begun + b"x" * held)
        _await(lambda: hook.app.bodies.reviews_bytes > number * (held - MAX_HEAD_BYTES))
        assert hook.ask("POST", "/mutate", begun + b"x" * 1000 + b'"}}').body == b"reviewed"
        reply = hook.ask("POST", "/mutate", begun + b"x" * (1 << 20))
        assert reply.json()["response"] == {"uid": "u-9", "allowed": True}
        open_ones.close()
        _await(lambda: hook.app.bodies.reviews_bytes == 0)
        assert hook.ask("POST", "/mutate", begun + b"x" * (1 << 20) + b'"}}').body == b"reviewed"


def knows(_: CallKind, authorization: str | None) -> Sender | HttpAnswer:
    """Know who sends a token, from memory; whoever sends none is not let in."""
    if authorization is None:
        return fault(401, "no token; allowed: Authorization: Bearer TOKEN")
    return sender_of(authorization.removeprefix("Bearer "))


SLOW = b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 900\r\n\r\nslow"


def slow_ones(hook: Running, number: int, head: bytes = b"", path: bytes = b"/v1/report") -> list[ssl.SSLSocket]:
    """Begin posts that never end."""
    connections = []
    for _ in range(number):
        connection = hook.plain()
        connection.sendall(SLOW % (path, head))
        connections.append(connection)
    return connections


def answer_on(connection: ssl.SSLSocket) -> bytes:
    connection.settimeout(60)
    return connection.recv(4000)


def test_who_has_no_token_holds_no_place_however_slowly_it_sends(tmp_path: Path) -> None:
    given = services(known=knows, entering=lambda *_: fault(401, "never asked"))
    with running(given, tmp_path, workers=1, waiting_requests=1, request_seconds=60) as hook:
        # Ten times as many as there are places; with a place each they would keep agents out for a minute.
        strangers = [
            *slow_ones(hook, 10),
            *slow_ones(hook, 10, path=b"/v1/evictions"),
            *slow_ones(hook, 10, path=b"/v1/taint"),
        ]
        _await(lambda: hook.app._under_way == 0)
        assert hook.ask("POST", "/v1/report", b"{}", Authorization="Bearer node-a").status == 200
        for stranger in strangers:
            assert answer_on(stranger).startswith(b"HTTP/1.1 401 ")
            stranger.close()


def test_one_sender_does_not_take_the_places_of_all(tmp_path: Path) -> None:
    rejected: list[str] = []
    given = services(known=knows, rejected=rejected.append)
    with running(given, tmp_path, workers=1, waiting_requests=9, request_seconds=60) as hook:
        slow = slow_ones(hook, MAX_BODIES, b"Authorization: Bearer node-a\r\n")
        _await(lambda: hook.app._senders["node-a"] == MAX_BODIES)
        reply = hook.ask("POST", "/v1/report", b"{}", Authorization="Bearer node-a")
        assert (reply.status, reply.json()) == (429, {"error": "4 requests of node-a are under way"})
        assert rejected == ["report"]
        assert hook.ask("POST", "/v1/report", b"{}", Authorization="Bearer node-b").status == 200
        for connection in slow:
            connection.close()
        _await(lambda: not hook.app._senders)
        assert hook.ask("POST", "/v1/report", b"{}", Authorization="Bearer node-a").status == 200


def test_a_token_that_is_not_known_is_asked_about_before_the_body_is_read(tmp_path: Path) -> None:
    asked: list[tuple[str, str | None]] = []

    def entering(what: str, authorization: str | None) -> HttpAnswer:
        asked.append((what, authorization))
        return fault(403, "not you")

    with running(services(entering=entering), tmp_path, workers=1, request_seconds=60) as hook:
        (slow,) = slow_ones(hook, 1, b"Authorization: Bearer x\r\n", b"/v1/taint")
        assert answer_on(slow).startswith(b"HTTP/1.1 403 ")
        assert asked == [("taint", "Bearer x")]
        slow.close()


def test_an_agent_that_is_refused_hears_it_though_its_report_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.webhook.http.bodies.DRAIN_SECONDS", 60.0)  # a busy machine takes a while to send it
    text = base64.b64encode(random.Random(1).randbytes(700 << 10)).decode()
    with running(services(known=knows, most_report_bytes=1 << 20), tmp_path) as hook:
        client = WebhookClient(hook.server.url, token_file=None, ca_file=hook.authority, timeout_seconds=60)
        for _ in range(3):
            assert client.post("/v1/report", text).status == 401
        client.close()


def test_a_judge_that_breaks_lets_nobody_in(tmp_path: Path) -> None:
    def entering(_: str, __: str | None) -> str:
        raise RuntimeError("broken")

    with running(services(entering=entering), tmp_path) as hook:
        assert hook.ask("POST", "/v1/report", b"{}").status == 500
        assert hook.app._under_way == 0


# One address does not keep others out


class From:
    """Connects from an address of loopback."""

    def __init__(self, hook: Running, address: str) -> None:
        self.one, self.address = hook, address

    def plain(self) -> ssl.SSLSocket:
        bare = socket.create_connection(self.one.address, timeout=60, source_address=(self.address, 0))
        return self.one.context().wrap_socket(bare, server_hostname=self.one.address[0])

    def asked(self, connection: ssl.SSLSocket, head: bytes = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") -> bytes:
        connection.sendall(head)
        return body_on(connection)


def body_on(connection: ssl.SSLSocket) -> bytes:
    """Read a whole answer and give its body."""
    connection.settimeout(60)
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    assert answer.status == 200
    return answer.read()


def is_cut(connection: ssl.SSLSocket) -> bool:
    connection.settimeout(60)
    try:
        return connection.recv(1) == b""
    except OSError:
        return True


def is_kept_out(who: From) -> bool:
    """Whether an address gets no connection now."""
    try:
        with who.plain() as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            return is_cut(connection)
    except OSError:
        return True


def test_idle_connections_of_one_address_beyond_its_bound_go_the_oldest_first(tmp_path: Path) -> None:
    with (
        running(services(), tmp_path, idle_connections=10, request_seconds=120) as hook,
        contextlib.ExitStack() as open_ones,
    ):
        server, greedy = From(hook, "127.0.0.1"), From(hook, "127.0.0.2")
        own = open_ones.enter_context(server.plain())
        assert server.asked(own) == b"ok\n"
        connections = [open_ones.enter_context(greedy.plain()) for _ in range(25)]
        for connection in connections:
            assert greedy.asked(connection) == b"ok\n"
        assert is_cut(connections[0])
        _await(lambda: hook.server.connections.of("127.0.0.2") == 10)
        assert hook.server.connections.closed["idle"] == 15
        assert greedy.asked(connections[-1]) == b"ok\n"
        assert server.asked(own) == b"ok\n"


@pytest.mark.parametrize(
    "head", [b"", b"GET /healthz HTTP/1.1\r\nX: ", b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"]
)
def test_whatever_fills_all_places_an_address_that_has_none_gets_one(tmp_path: Path, head: bytes) -> None:
    with running(services(), tmp_path, connections=20, request_seconds=60) as hook, contextlib.ExitStack() as open_ones:
        greedy, server = From(hook, "127.0.0.2"), From(hook, "127.0.0.1")
        for _ in range(20):
            open_ones.enter_context(greedy.plain()).sendall(head)
        _await(lambda: hook.server.connections.of("127.0.0.2") == 20)
        connections = [open_ones.enter_context(server.plain()) for _ in range(5)]
        for connection in connections:
            assert server.asked(connection) == b"ok\n"
        _await(lambda: len(hook.server.connections) == 20)
        assert hook.server.connections.of("127.0.0.1") == 5
        assert is_kept_out(greedy)  # nothing of his own is idle, and nobody has more


def test_connections_that_never_begin_tls_count_too(tmp_path: Path) -> None:
    with running(services(), tmp_path, connections=20, request_seconds=60) as hook, contextlib.ExitStack() as open_ones:
        for _ in range(60):
            open_ones.enter_context(socket.create_connection(hook.address, timeout=60, source_address=("127.0.0.2", 0)))
        server = From(hook, "127.0.0.1")
        assert server.asked(open_ones.enter_context(server.plain())) == b"ok\n"
        assert len(hook.server.connections) <= 20
    _await(lambda: not len(hook.server.connections))


def test_open_files_are_raised_to_what_the_connections_need(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        with running(services(), tmp_path, connections=500):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 500 + OTHER_FILES
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Reviews of strangers


def review_of(containers: int, *, uid: str = "u-1", kind: str = "containers", annotation: str = "") -> bytes:
    pod = {
        "metadata": {"name": "web", "annotations": {"plimsoll.dev/pod-limits": annotation}},
        "spec": {kind: [{"name": f"c{number}"} for number in range(containers)]},
    }
    request = {"uid": uid, "operation": "CREATE", "resource": {"resource": "pods"}, "object": pod}
    return json.dumps({"request": request}).encode()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (review_of(251), Unread.CONTAINERS),
        (review_of(251, kind="initContainers"), Unread.CONTAINERS),
        (review_of(251, kind="ephemeralContainers"), Unread.CONTAINERS),
        (review_of(60_000), Unread.CONTAINERS),
        (review_of(1, annotation="x" * 66_000), Unread.ANNOTATIONS),
        (review_of(1) + b" " * (3 << 20), Unread.LARGE),
        (b'{"request":{"uid":"u-1","object":{"spec":{"containers":' + b"[" * 100_000, Unread.ERROR),
        (b'{"request":{"uid":"u-1","object":{"metadata":7}}}', Unread.ERROR),
    ],
)
def test_a_review_that_is_too_much_is_admitted_unread(tmp_path: Path, body: bytes, why: Unread) -> None:
    failed: list[Unread] = []
    with running(services(review=lambda *_: b"read", failed=failed.append), tmp_path) as hook:
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        reply = hook.ask("POST", "/mutate", body)
        assert (reply.status, reply.json()) == (200, {**answer, "response": {"uid": "u-1", "allowed": True}})
        assert failed == [why]
        assert hook.ask("POST", "/mutate", review_of(250)).body == b"read"


def test_what_takes_long_leaves_the_event_loop_and_who_sends_much_waits_behind_himself(tmp_path: Path) -> None:
    entered, go, threads = threading.Semaphore(0), threading.Event(), []
    failed: list[Unread] = []

    def review(body: bytes, peer: str) -> bytes:
        threads.append((peer, threading.current_thread().name))
        if len(body) > 1000:
            entered.release()
            assert go.wait(120)
        return b"read"

    with running(services(review=review, failed=failed.append), tmp_path) as hook, contextlib.ExitStack() as open_ones:
        greedy, server = From(hook, "127.0.0.2"), From(hook, "127.0.0.1")
        heavy = review_of(250)
        head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        connections = [open_ones.enter_context(greedy.plain()) for _ in range(20)]
        for connection in connections:
            connection.sendall(head % len(heavy) + heavy)
        for _ in range(2):
            assert entered.acquire(timeout=60)
        # Small ones are answered on the event loop meanwhile.
        small = review_of(1)
        assert server.asked(open_ones.enter_context(server.plain()), head % len(small) + small) == b"read"
        assert threads[-1] == ("127.0.0.1", "server")
        _await(lambda: len(failed) == 20 - 11)  # of half a second of work; the others are admitted as they came
        assert set(failed) == {Unread.BUSY}
        last = open_ones.enter_context(server.plain())
        last.sendall(head % len(heavy) + heavy)
        _await(lambda: hook.app._turns.seconds > 0.5)
        go.set()
        assert body_on(last) == b"read"
        names = [name for _, name in threads if name != "server"]
        assert {name.rpartition("_")[0] for name in names} == {"review"}
        # Of twelve: not behind all of greedy's.
        assert "127.0.0.1" in [peer for peer, name in threads if name != "server"][:8]


def test_who_used_up_the_share_of_an_address_waits_and_others_do_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[Unread] = []
    with running(services(review=lambda *_: b"read", failed=failed.append), tmp_path) as hook:
        now = time.monotonic()
        hook.app.shares._clock = lambda: now  # what is owed stays owed, however long this takes
        server, greedy = From(hook, "127.0.0.1"), From(hook, "127.0.0.2")
        with server.plain() as own, greedy.plain() as other:
            assert greedy.asked(other) == b"ok\n"
            hook.app.shares.charge("127.0.0.2", 1e9)
            body = review_of(1)
            head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            answer = greedy.asked(other, head + body)
            assert answer.endswith(b'"response":{"uid":"u-1","allowed":true}}')
            greedy.asked(other, head + body)
            assert failed == [Unread.SHARE, Unread.SHARE]
            [record] = [record for record in caplog.records if record.message.startswith("a review is not read")]
            assert vars(record)["address"] == "127.0.0.2"
            assert "listening.addressShareRatio" in vars(record)["reason"]
            assert server.asked(own, head + body) == b"read"
            hook.app.shares.charge("127.0.0.2", 1e9)
            assert is_kept_out(greedy)
            assert hook.server.connections.closed["share"] == 1


def test_what_a_review_takes_beyond_what_it_looked_like_is_its_address_s_too(tmp_path: Path) -> None:
    seconds = 3 * BURST_SECONDS  # of thread time, which this review pretends to have used

    def review(body: bytes, peer: str) -> bytes:
        clock.advance(seconds)
        return b"read"

    clock = FakeClock()
    failed: list[Unread] = []
    with (
        running(services(review=review, failed=failed.append), tmp_path) as hook,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(time, "thread_time", lambda: clock.seconds)
        greedy = From(hook, "127.0.0.2")
        body = review_of(250)  # answered in a thread
        head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        with greedy.plain() as other:
            assert greedy.asked(other, head + body) == b"read"
            _await(lambda: hook.app.shares.owed_seconds("127.0.0.2") > 0)
            greedy.asked(other, head + body)
            assert failed == [Unread.SHARE]


@pytest.mark.parametrize("host", [b"x/healthz?", b"x/healthz#", b"127.0.0.1", b"", b"[::1", b"x/healthz/../"])
def test_who_may_read_is_asked_of_the_path_that_is_answered(tmp_path: Path, host: bytes) -> None:
    # Starlette before 1.0.1 makes request.url of the header Host; that of another path may be anybody's to read.
    with running(services(), tmp_path) as hook, hook.plain() as connection:
        connection.sendall(b"GET /v1/workloads?limit=1 HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
        answer = b""
        while piece := connection.recv(4000):
            answer += piece
        assert b'"path": "/v1/workloads"' in answer


def _await(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


# What is no HTTP, or none that may be trusted, is answered by an error or a hang-up, and never as two requests

_SNEAKED = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000000000000000\r\n\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length : 2\r\n\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + _SNEAKED,
        b"POST /mutate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + _SNEAKED,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/%2e%2e/v1/nodes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /v1%2fnodes/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ],
)
def test_no_second_request_is_sneaked_in_and_the_server_goes_on(tmp_path: Path, sent: bytes) -> None:
    with running(services(), tmp_path, request_seconds=1) as hook:
        answer = b""
        with connected(hook) as connection, contextlib.suppress(OSError):
            connection.settimeout(60)
            connection.sendall(sent)
            while piece := connection.recv(4000):
                answer += piece
        assert b"series 1" not in answer
        assert b"HTTP/1.1 200 " not in answer
        await_health(hook)


@pytest.mark.parametrize("ciphers", ["NULL:@SECLEVEL=0", "AES128-SHA:@SECLEVEL=0", "AES256-GCM-SHA384:@SECLEVEL=0"])
def test_weak_ciphers_and_keys_without_forward_secrecy_are_refused(tmp_path: Path, ciphers: str) -> None:
    with running(services(), tmp_path) as hook:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
        with socket.create_connection(hook.address, timeout=60) as bare, pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(bare)
        assert hook.ask("GET", "/healthz").status == 200
