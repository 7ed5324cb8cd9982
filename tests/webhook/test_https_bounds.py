"""Bounds of the server that a client meets before anything is asked, or after too much was."""

from __future__ import annotations

import base64
import contextlib
import random
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.node.webhook_client import WebhookClient
from agent.webhook.bodies import MAX_DISCARDED_BYTES, MAX_HEAD_BYTES, MAX_REVIEW_BYTES, MAX_REVIEWS_BYTES
from agent.webhook.server import MAX_BODIES, Answer, fault
from tests.webhook.https import Running, running, services


@pytest.mark.parametrize("kibibytes", [1500, 4000])
def test_an_agent_hears_that_its_report_is_too_large_however_large_it_is(tmp_path: Path, kibibytes: int) -> None:
    # It drops a report on this answer alone: a connection that closes while it writes makes it send the same for ever.
    assert kibibytes << 10 < MAX_DISCARDED_BYTES
    text = base64.b64encode(random.Random(1).randbytes(kibibytes << 10)).decode()
    with running(services(most_report_bytes=1 << 20), tmp_path) as one:
        client = WebhookClient(one.server.url, token_file=None, ca_file=one.authority, timeout_seconds=10)
        for _ in range(3):
            assert client.post("/v1/report", text).status == 413
        client.close()


def test_who_connects_and_never_begins_tls_is_hung_up_on(tmp_path: Path) -> None:
    with running(services(), tmp_path, request_seconds=0.2) as one:
        with socket.create_connection(one.address, timeout=20) as connection:
            assert connection.recv(1) == b""
        assert one.ask("GET", "/healthz").status == 200


def test_reviews_that_never_end_take_bounded_memory_and_small_ones_are_answered_meanwhile(tmp_path: Path) -> None:
    begun = b'{"request":{"uid":"u-9","object":"'
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MAX_REVIEW_BYTES
    held = MAX_REVIEWS_BYTES // 5
    assert held < MAX_REVIEW_BYTES
    with running(services(review=lambda _: b"reviewed"), tmp_path) as one, contextlib.ExitStack() as open_ones:
        for _ in range(5):
            connection = open_ones.enter_context(one.plain())
            connection.sendall(head + begun + b"x" * held)
        _await(lambda: one.app.bodies.reviews_bytes > 5 * (held - MAX_HEAD_BYTES))
        assert one.ask("POST", "/mutate", begun + b"x" * 1000).body == b"reviewed"
        reply = one.ask("POST", "/mutate", begun + b"x" * (1 << 20))
        assert reply.json()["response"] == {"uid": "u-9", "allowed": True}
        open_ones.close()
        _await(lambda: one.app.bodies.reviews_bytes == 0)
        assert one.ask("POST", "/mutate", begun + b"x" * (1 << 20)).body == b"reviewed"


def knows(_: str, authorization: str | None) -> str | Answer | None:
    """Know who sends a token, from memory; whoever sends none is not let in."""
    if authorization is None:
        return fault(401, "no token; allowed: Authorization: Bearer TOKEN")
    return authorization.removeprefix("Bearer ")


SLOW = b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 900\r\n\r\nslow"


def slow_ones(one: Running, number: int, head: bytes = b"", path: bytes = b"/v1/report") -> list[ssl.SSLSocket]:
    """Begin posts that never end."""
    found = []
    for _ in range(number):
        connection = one.plain()
        connection.sendall(SLOW % (path, head))
        found.append(connection)
    return found


def answer_on(connection: ssl.SSLSocket) -> bytes:
    connection.settimeout(20)
    return connection.recv(4000)


def test_who_has_no_token_holds_no_place_however_slowly_it_sends(tmp_path: Path) -> None:
    given = services(known=knows, entering=lambda *_: fault(401, "never asked"))
    with running(given, tmp_path, workers=1, waiting_requests=1, request_seconds=60) as one:
        # Ten times as many as there are places; with a place each they would keep agents out for a minute.
        strangers = [
            *slow_ones(one, 10),
            *slow_ones(one, 10, path=b"/v1/evictions"),
            *slow_ones(one, 10, path=b"/v1/taint"),
        ]
        _await(lambda: one.app._under_way == 0)
        assert one.ask("POST", "/v1/report", b"{}", Authorization="Bearer node-a").status == 200
        for stranger in strangers:
            assert answer_on(stranger).startswith(b"HTTP/1.1 401 ")
            stranger.close()


def test_one_sender_does_not_take_the_places_of_all(tmp_path: Path) -> None:
    rejected: list[str] = []
    given = services(known=knows, rejected=rejected.append)
    with running(given, tmp_path, workers=1, waiting_requests=9, request_seconds=60) as one:
        slow = slow_ones(one, MAX_BODIES, b"Authorization: Bearer node-a\r\n")
        _await(lambda: one.app._senders["node-a"] == MAX_BODIES)
        reply = one.ask("POST", "/v1/report", b"{}", Authorization="Bearer node-a")
        assert (reply.status, reply.json()) == (429, {"error": "4 requests of node-a are under way"})
        assert rejected == ["report"]
        assert one.ask("POST", "/v1/report", b"{}", Authorization="Bearer node-b").status == 200
        for connection in slow:
            connection.close()
        _await(lambda: not one.app._senders)
        assert one.ask("POST", "/v1/report", b"{}", Authorization="Bearer node-a").status == 200


def test_a_token_that_is_not_known_is_asked_about_before_the_body_is_read(tmp_path: Path) -> None:
    asked: list[tuple[str, str | None]] = []

    def entering(what: str, authorization: str | None) -> str | Answer:
        asked.append((what, authorization))
        return fault(403, "not you")

    with running(services(entering=entering), tmp_path, workers=1, request_seconds=60) as one:
        (slow,) = slow_ones(one, 1, b"Authorization: Bearer x\r\n", b"/v1/taint")
        assert answer_on(slow).startswith(b"HTTP/1.1 403 ")
        assert asked == [("taint", "Bearer x")]
        slow.close()


def test_an_agent_that_is_refused_hears_it_though_its_report_is_large(tmp_path: Path) -> None:
    text = base64.b64encode(random.Random(1).randbytes(700 << 10)).decode()
    with running(services(known=knows, most_report_bytes=1 << 20), tmp_path) as one:
        client = WebhookClient(one.server.url, token_file=None, ca_file=one.authority, timeout_seconds=10)
        for _ in range(3):
            assert client.post("/v1/report", text).status == 401
        client.close()


def test_a_judge_that_breaks_lets_nobody_in(tmp_path: Path) -> None:
    def entering(_: str, __: str | None) -> str:
        raise RuntimeError("broken")

    with running(services(entering=entering), tmp_path) as one:
        assert one.ask("POST", "/v1/report", b"{}").status == 500
        assert one.app._under_way == 0


def _await(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)
