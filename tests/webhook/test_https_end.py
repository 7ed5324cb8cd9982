"""The end of the HTTPS server as API servers meet it, on the connections that they keep for the next admission."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.webhook.https import reply_of, running, services


def test_who_keeps_a_connection_is_answered_once_more_and_told_that_it_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.webhook.http.tls_server.LEAVE_SECONDS", 20.0)  # a busy machine takes a while to ask
    with running(services(), tmp_path) as hook:
        connection = hook.connect()
        connection.request("POST", "/mutate", body=b"{}")
        assert reply_of(connection).headers.get("connection") is None
        hook.server.stop()
        # Not at once: uvicorn sees the end at its next turn, and would close what is idle.
        asked = 0
        while hook.thread.is_alive():
            connection.request("POST", "/mutate", body=b"{}")
            reply = reply_of(connection)
            assert reply.status == 200
            asked += 1
            if reply.headers.get("connection") == "close":
                break
        assert asked >= 1
        hook.thread.join(60)
        assert not hook.thread.is_alive()


def test_who_asks_nothing_more_is_hung_up_on(tmp_path: Path) -> None:
    with running(services(), tmp_path) as hook:
        connection = hook.connect()
        connection.request("GET", "/healthz")
        assert reply_of(connection).status == 200
        hook.server.stop()
        hook.thread.join(60)
        assert not hook.thread.is_alive()
