"""The server over real TLS: routes, bounds of size, time and number, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.metrics.exposition import MetricsPage
from agent.webhook.admission.glance import MAX_REVIEW_BYTES, unchanged
from agent.webhook.http.routes import Call, HttpAnswer
from agent.webhook.http.tls_server import HttpsServer
from tests.cluster.processes import wait_for
from tests.webhook.https import Running, reply_of, running, services


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(services(), tmp_path_factory.mktemp("server")) as hook:
        yield hook


def test_an_admission_is_answered(served: Running) -> None:
    reply = served.ask("POST", "/mutate?timeout=2s", b'{"a":1}', Content_Type="application/json")
    assert (reply.status, reply.body) == (200, b'{"reviewed":{"a":1}}')
    assert reply.headers["content-type"] == "application/json"


def test_connections_of_api_servers_are_kept(served: Running) -> None:
    connection = served.connect()
    local = None
    for number in range(3):
        connection.request("POST", "/mutate", body=b'{"n":%d}' % number)
        assert reply_of(connection).json() == {"reviewed": {"n": number}}
        assert local in (None, connection.sock.getsockname())
        local = connection.sock.getsockname()


def test_those_of_agents_are_closed_after_their_report(served: Running) -> None:
    reply = served.ask("POST", "/v1/report", b"{}")
    assert reply.headers["connection"] == "close"


def test_services_are_handed_what_matters(served: Running) -> None:
    reply = served.ask(
        "POST", "/v1/report", b"{}", Authorization="Bearer t", Content_Encoding="gzip", If_None_Match='"e"'
    )
    assert reply.json() == {
        "path": "/v1/report",
        "body": "{}",
        "authorization": "Bearer t",
        "encoding": "gzip",
        "held": '"e"',
        "query": {},
        "names": {},
    }
    reply = served.ask("GET", "/v1/workloads/shop/Deployment/web?policy=vpa")
    assert reply.json()["names"] == {"namespace": "shop", "kind": "Deployment", "name": "web"}
    assert reply.json()["query"] == {"policy": "vpa"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/healthz", b"ok\n"),
        ("/readyz", b"ready\n"),
        ("/metrics", b"series 1\n"),
        ("/openapi.json", b'{"openapi":"3.1.0"}'),
    ],
)
def test_what_is_open_to_everybody(served: Running, path: str, body: bytes) -> None:
    reply = served.ask("GET", path)
    assert (reply.status, reply.body) == (200, body)
    assert reply.headers["cache-control"] == "no-store"


def test_what_is_not_there_is_an_error_of_one_line(served: Running) -> None:
    reply = served.ask("GET", "/admin")
    assert reply.status == 404
    assert reply.json() == {"error": "not here; /openapi.json lists what there is"}
    reply = served.ask("GET", "/mutate")
    assert reply.status == 405
    assert reply.headers["allow"] == "POST"


def test_old_tls_is_refused(served: Running) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError), socket.create_connection(served.address, timeout=60) as bare:
        context.wrap_socket(bare)


def test_no_byte_of_what_is_no_http_breaks_it(served: Running) -> None:
    for noise in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ):
        with served.plain() as connection:
            connection.sendall(noise)
            connection.recv(100)
    assert served.ask("GET", "/healthz").status == 200


# Size


def test_a_report_beyond_the_bound_is_refused_by_its_length(served: Running) -> None:
    reply = served.ask("POST", "/v1/report", b"x" * 1001)
    assert (reply.status, reply.json()) == (413, {"error": "the body has more than 1000 bytes"})
    assert served.ask("POST", "/v1/report", b"x" * 1000).status == 200


def test_and_one_that_states_no_length_when_it_is_too_long(served: Running) -> None:
    connection = served.connect()
    connection.request("POST", "/v1/report", body=iter([b"x" * 600] * 2), encode_chunked=True)
    assert reply_of(connection).status == 413


def test_a_review_beyond_the_bound_admits_the_pod_unchanged(served: Running) -> None:
    body = b'{"request":{"uid":"u-7","object":"' + b"x" * MAX_REVIEW_BYTES + b'"}}'
    connection = served.connect()
    connection.putrequest("POST", "/mutate")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    with pytest.MonkeyPatch.context():  # the server may answer before all is sent
        try:
            connection.send(body)
        except OSError:
            return
    reply = reply_of(connection)
    assert reply.status == 200
    assert reply.json()["response"] == {"uid": "u-7", "allowed": True}


def test_a_head_without_end_is_cut_off(tmp_path: Path) -> None:
    with running(services(), tmp_path, request_seconds=100) as hook:  # for its size, not for its time
        with hook.plain() as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
            assert _sent_until_cut_off(connection, b"X: " + b"y" * 1000 + b"\r\n", most=1000)
        assert hook.ask("GET", "/healthz").status == 200


def _sent_until_cut_off(connection: ssl.SSLSocket, piece: bytes, *, most: int) -> bool:
    """Send up to so many pieces; whether the server then hung up without a word. Buffers may take them all."""
    try:
        for _ in range(most):
            connection.sendall(piece)
        return connection.recv(1) == b""
    except OSError:
        return True


# Time


def test_who_says_nothing_or_not_all_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its time passes when all are where they are to be found: a busy machine takes as long as it likes to bring them.
    passed_seconds = [0.0]
    made = HttpsServer._loop

    def loop_of(server: HttpsServer) -> asyncio.AbstractEventLoop:
        loop = made(server)
        loop.time = lambda: time.monotonic() + passed_seconds[0]  # type: ignore[method-assign]
        return loop

    monkeypatch.setattr(HttpsServer, "_loop", loop_of)
    with running(services(), tmp_path, request_seconds=60) as hook, contextlib.ExitStack() as opened:
        state = hook.server._server.server_state

        def begun(said: bytes) -> ssl.SSLSocket:
            connection = opened.enter_context(hook.plain())
            connection.sendall(said)
            return connection

        def are_awaited(heads: int, bodies: int) -> bool:
            known: tuple[Any, ...] = tuple(state.connections)
            awaited = sum(connection._head_timer is not None for connection in known)
            return (len(known), awaited, len(state.tasks)) == (heads + bodies, heads, bodies)

        silent = [begun(b""), begun(b"GET /healthz HTTP/1.1\r\n")]
        answered = begun(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"ok\n"):
            piece = answered.recv(4000)
            assert piece, answer
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200 ")
        answered.sendall(b"GET /hea")  # the next request of a kept connection, begun and not ended
        wait_for(lambda: are_awaited(3, 0), "three heads are begun")
        half = b" HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345"
        posting = [begun(b"POST " + path + half) for path in (b"/v1/report", b"/mutate")]
        wait_for(lambda: are_awaited(3, 2), "and two bodies")

        def are_given_up() -> bool:
            passed_seconds[0] += 61.0  # once more where a body's time began after that
            return not state.tasks

        wait_for(are_given_up, "nobody waits for the bodies any more")
        for connection in (*silent, answered):
            assert not _rest(connection)
        for connection in posting:
            assert _rest(connection).startswith(b"HTTP/1.1 408 ")


def _rest(connection: Any) -> bytes:
    pieces = []
    try:
        while piece := connection.recv(4096):
            pieces.append(piece)
    except TimeoutError:
        raise  # it goes on
    except OSError:
        pass  # cut off: an end as well
    return b"".join(pieces)


# Number


def test_for_a_connection_beyond_the_bound_the_one_that_was_idle_for_longest_goes(tmp_path: Path) -> None:
    with running(services(), tmp_path, connections=10) as hook:
        connections = [hook.connect() for _ in range(10)]
        for connection in connections:
            connection.request("GET", "/healthz")
            assert reply_of(connection).status == 200
        assert hook.ask("GET", "/healthz").status == 200
        assert not _rest(connections[0].sock)
        connections[1].request("GET", "/healthz")  # the others go on
        assert reply_of(connections[1]).status == 200


class Held:
    """A service that answers when it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, call: Call) -> HttpAnswer:
        self.entered.release()
        assert self.go.wait(120)
        return HttpAnswer(body=b"{}")


def asked_in_threads(hook: Running, count: int, path: str) -> tuple[list[threading.Thread], list[Any]]:
    replies: list[Any] = []
    threads = [threading.Thread(target=lambda: replies.append(hook.ask("POST", path, b"{}"))) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, replies


def test_reports_beyond_workers_and_queue_come_again_while_admissions_go_on(tmp_path: Path) -> None:
    held = Held()
    rejected: list[str] = []
    given = services(report=held, rejected=rejected.append)
    with running(given, tmp_path, workers=1, waiting_requests=1) as hook:
        threads, replies = asked_in_threads(hook, 2, "/v1/report")
        try:
            assert held.entered.acquire(timeout=60)
            wait_for(lambda: hook.app._under_way == 2, "the other one waits, and there is no room")
            reply = hook.ask("POST", "/v1/report", b"{}")
            assert reply.status == 503
            assert int(reply.headers["retry-after"]) >= 1
            assert reply.json()["error"] == "2 requests are under way or wait"
            assert rejected == ["report"]
            assert hook.ask("POST", "/mutate", b"{}").json() == {"reviewed": {}}
            assert hook.ask("GET", "/healthz").status == 200
            assert hook.ask("GET", "/metrics").status == 200
        finally:
            held.go.set()
            for thread in threads:
                thread.join(60)
        assert [reply.status for reply in replies] == [200, 200]


def test_scrapes_beyond_two_are_refused(tmp_path: Path) -> None:
    entered, go = threading.Semaphore(0), threading.Event()
    rejected: list[int] = []

    def page(_: str, __: str) -> MetricsPage:
        entered.release()
        assert go.wait(120)
        return MetricsPage(content_type="text/plain", content_encoding="gzip", body=b"zipped")

    with running(services(page=page, scrape_rejected=lambda: rejected.append(1)), tmp_path) as hook:
        replies: list[Any] = []
        threads = [threading.Thread(target=lambda: replies.append(hook.ask("GET", "/metrics"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert entered.acquire(timeout=60)
            assert entered.acquire(timeout=60)
            assert hook.ask("GET", "/metrics").status == 503
            assert rejected == [1]
        finally:
            go.set()
            for thread in threads:
                thread.join(60)
        assert [reply.headers["content-encoding"] for reply in replies] == ["gzip", "gzip"]


# Faults


def failing(*_: object) -> Any:
    raise RuntimeError("broken")


def test_whatever_breaks_the_pod_is_admitted(tmp_path: Path) -> None:
    failed: list[str] = []
    with running(services(review=failing, failed=failed.append), tmp_path) as hook:
        reply = hook.ask("POST", "/mutate", b'{"kind":"AdmissionReview","request":{"uid": "705ab4f5-6393"}}')
        assert reply.status == 200
        assert reply.json() == {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": "705ab4f5-6393", "allowed": True},
        }
        assert failed == ["error"]
        assert hook.ask("POST", "/mutate", b"\xff\x00").json()["response"] == {"uid": "", "allowed": True}


@pytest.mark.parametrize(
    ("body", "uid"),
    [
        (b'{"request":{"uid":"a"}}', "a"),
        (b'"uid":"\xc3\xa9"', "é"),
        (b'"uid":"\xff"', ""),
        (b'"uid":"a\\"b\\u00e9"', 'a"bé'),
        (b'"uid":"\\ud800"', ""),
        (b'"uid":"a\nb"', ""),
        (b'"uid":"' + b"a" * 254 + b'"', ""),
        (b"", ""),
    ],
)
def test_the_uid_is_found_without_reading_the_rest(body: bytes, uid: str) -> None:
    assert json.loads(unchanged(body))["response"]["uid"] == uid


def test_a_service_that_breaks_tells_nobody_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(services(report=failing, page=lambda *_: failing(None)), tmp_path) as hook:
        reply = hook.ask("POST", "/v1/report", b"{}")
        assert (reply.status, reply.json()) == (500, {"error": "failed; see the webhook's log"})
        assert hook.ask("GET", "/metrics").status == 500
        assert hook.ask("GET", "/healthz").status == 200
    assert "broken" in caplog.text


# The end


def test_what_is_under_way_is_answered_at_the_end_and_readiness_goes_first(tmp_path: Path) -> None:
    held = Held()
    with running(services(report=held), tmp_path, end_seconds=60) as hook:
        probe = hook.connect()
        probe.request("GET", "/readyz")
        assert reply_of(probe).status == 200
        threads, replies = asked_in_threads(hook, 1, "/v1/report")
        assert held.entered.acquire(timeout=60)
        hook.server.stop()
        held.go.set()
        threads[0].join(60)
        assert replies[0].status == 200
        hook.thread.join(60)
        assert not hook.thread.is_alive()
        with pytest.raises(OSError, match=r".*"):
            hook.ask("GET", "/healthz")


def test_not_ready_says_why(tmp_path: Path) -> None:
    with running(services(ready=lambda: (False, "history: 3 of 5 hours")), tmp_path) as hook:
        reply = hook.ask("GET", "/readyz")
        assert (reply.status, reply.body) == (503, b"history: 3 of 5 hours\n")
        assert hook.ask("GET", "/healthz").status == 200


def test_head_and_body_of_an_answer_come_in_one_record(tmp_path: Path) -> None:
    with running(services(review=lambda *_: b"reviewed"), tmp_path) as hook, hook.plain() as connection:
        for _ in range(3):
            connection.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            answer = connection.recv(1 << 16)  # one record of TLS at most
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert answer.endswith(b"\r\n\r\nreviewed")
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(1 << 16).endswith(b"\r\n\r\n")


def test_a_sender_that_waits_to_be_asked_for_its_body_is_asked(tmp_path: Path) -> None:
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    with running(services(review=lambda *_: b"reviewed"), tmp_path) as hook, hook.plain() as connection:
        for _ in range(2):
            connection.sendall(head)
            assert connection.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(b"{}")
            assert connection.recv(1 << 16).endswith(b"\r\n\r\nreviewed")
