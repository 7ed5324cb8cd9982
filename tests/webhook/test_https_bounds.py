"""Bounds of the server that a client meets before anything is asked, or after too much was."""

from __future__ import annotations

import base64
import contextlib
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.node.webhook_client import WebhookClient
from agent.webhook.server import MAX_DISCARDED_BYTES, MAX_HEAD_BYTES, MAX_REVIEW_BYTES, MAX_REVIEWS_BYTES
from tests.webhook.https import running, services


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
        _await(lambda: one.app._reviews_bytes > 5 * (held - MAX_HEAD_BYTES))
        assert one.ask("POST", "/mutate", begun + b"x" * 1000).body == b"reviewed"
        reply = one.ask("POST", "/mutate", begun + b"x" * (1 << 20))
        assert reply.json()["response"] == {"uid": "u-9", "allowed": True}
        open_ones.close()
        _await(lambda: one.app._reviews_bytes == 0)
        assert one.ask("POST", "/mutate", begun + b"x" * (1 << 20)).body == b"reviewed"


def _await(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)
