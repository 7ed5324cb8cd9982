"""The end of the HTTPS server as API servers meet it, on the connections that they keep for the next admission."""

from __future__ import annotations

from pathlib import Path

from tests.webhook.https import reply_of, running, services


def test_who_keeps_a_connection_is_answered_once_more_and_told_that_it_is_the_last(tmp_path: Path) -> None:
    with running(services(), tmp_path) as one:
        kept = one.connect()
        kept.request("POST", "/mutate", body=b"{}")
        assert reply_of(kept).headers.get("connection") is None
        one.server.stop()
        # Not at once: uvicorn sees the end at its next turn, and would close what is idle.
        asked = 0
        while one.thread.is_alive():
            kept.request("POST", "/mutate", body=b"{}")
            reply = reply_of(kept)
            assert reply.status == 200
            asked += 1
            if reply.headers.get("connection") == "close":
                break
        assert asked >= 1
        one.thread.join(20)
        assert not one.thread.is_alive()


def test_who_asks_nothing_more_is_hung_up_on(tmp_path: Path) -> None:
    with running(services(), tmp_path) as one:
        kept = one.connect()
        kept.request("GET", "/healthz")
        assert reply_of(kept).status == 200
        one.server.stop()
        one.thread.join(20)
        assert not one.thread.is_alive()
