"""Requests to the webhook against a real HTTPS server: trust, tokens, and answers that never come."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from agent.kube.client.errors import CredentialsError
from agent.node.reports import client as webhook_client
from agent.node.reports.client import WebhookAnswer, WebhookAway, WebhookClient
from agent.version import installed_version
from tests.webhook_server import Answer, Request, WebhookServer, authority

TEXT = '{"rows":[1,2,3]}'


def client(
    url: str, *, token_file: Path | None = None, ca_file: Path | None = None, timeout_seconds: float = 60.0
) -> WebhookClient:
    return WebhookClient(
        url,
        token_file=token_file,
        ca_file=ca_file or authority("webhook").certificate,
        timeout_seconds=timeout_seconds,
        wall_now=lambda: 1_800_000_000.0,
    )


def test_a_text_goes_out_packed_with_its_token_and_the_answer_comes_back(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with WebhookServer(lambda _: Answer(status=503, body=b"busy", headers={"Retry-After": "7"})) as server:
        asking = client(f"{server.url}/central/", token_file=token)
        answer = asking.post("/v1/report", TEXT, {"If-None-Match": '"e1"'})
        token.write_text("second-one\n")
        asking.post("/v1/report", TEXT)
        asking.close()
    assert answer == WebhookAnswer(status=503, body=b"busy", retry_after_seconds=7.0)
    first, second = server.requests
    assert first.path == "/central/v1/report"
    assert first.document == json.loads(TEXT)
    expected = {
        "content-encoding": "gzip",
        "content-type": "application/json",
        "authorization": "Bearer first",
        "if-none-match": '"e1"',
        "user-agent": f"plimsoll/{installed_version()} node-agent",
    }
    assert {name: first.headers[name] for name in expected} == expected
    assert second.headers["authorization"] == "Bearer second-one"
    assert "if-none-match" not in second.headers


def test_without_a_token_file_none_is_sent() -> None:
    with WebhookServer() as server:
        client(server.url).post("/v1/report", TEXT)
    assert "authorization" not in server.requests[0].headers


def test_a_token_that_is_not_there_yet_is_found_when_it_is(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with WebhookServer() as server:
        asking = client(server.url, token_file=token)
        with pytest.raises(CredentialsError, match=f"{token}: cannot be read"):
            asking.post("/v1/report", TEXT)
        token.write_text("late")
        assert asking.post("/v1/report", TEXT).status == 200
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer late"]


def test_only_the_authority_that_is_named_is_trusted_and_a_new_one_takes_effect(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    with WebhookServer() as server:
        asking = client(server.url, ca_file=ca)
        with pytest.raises(CredentialsError, match=f"{ca}: cannot be read"):
            asking.post("/v1/report", TEXT)
        shutil.copy(authority("another").certificate, ca)
        with pytest.raises(WebhookAway, match="certificate"):
            asking.post("/v1/report", TEXT)
        shutil.copy(authority("webhook").certificate, ca)
        assert asking.post("/v1/report", TEXT).status == 200
        untrusting = WebhookClient(server.url, token_file=None, ca_file=None, timeout_seconds=60.0)
        with pytest.raises(WebhookAway, match="certificate"):
            untrusting.post("/v1/report", TEXT)
    assert len(server.requests) == 1


def test_nobody_listening_is_one_line() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # so that nobody else is given the port meanwhile
        port = deaf.getsockname()[1]
        with pytest.raises(WebhookAway) as caught:
            client(f"https://127.0.0.1:{port}").post("/v1/report", TEXT)
    assert str(caught.value) == f"no answer from https://127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize("answer", [None, Answer(body=b"{}" * 100, cut_bytes=5)])
def test_an_answer_that_breaks_off_is_none_and_the_next_is_asked_anew(answer: Answer | None) -> None:
    answers = [answer, Answer(body=b"whole")]
    with WebhookServer(lambda _: answers.pop(0)) as server:
        asking = client(server.url)
        with pytest.raises(WebhookAway, match=f"no answer from {server.url}"):
            asking.post("/v1/report", TEXT)
        assert asking.post("/v1/report", TEXT).body == b"whole"


def test_a_server_that_says_nothing_is_left_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(WebhookAway, match="timed out"):
            client(url, timeout_seconds=0.1).post("/v1/report", TEXT)


def test_an_answer_that_comes_in_drops_is_left_when_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_client, "_TIMES", 0.0)  # it would take three timeouts
    with (
        WebhookServer(lambda _: Answer(body=b"x" * 100_000)) as server,
        pytest.raises(WebhookAway, match="timed out"),
    ):
        client(server.url).post("/v1/report", TEXT)


def test_an_endless_answer_is_left_and_its_status_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_client, "LONGEST_ANSWER_BYTES", 100_000)
    bodies = [b"x" * 100_001, b"short"]
    with WebhookServer(lambda _: Answer(body=bodies.pop(0))) as server:
        sender = client(server.url)
        first, second = sender.post("/v1/report", TEXT), sender.post("/v1/report", TEXT)
    assert (first.status, first.body, first.is_too_long) == (200, b"", True)
    assert (second.status, second.body, second.is_too_long) == (200, b"short", False)


def test_a_redirect_is_not_followed_the_token_stays_here(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    with WebhookServer() as elsewhere:

        def behave(_: Request) -> Answer:
            return Answer(status=307, headers={"Location": f"{elsewhere.url}/v1/report"})

        with WebhookServer(behave) as server:
            assert client(server.url, token_file=token).post("/v1/report", TEXT).status == 307
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        (" 30 ", 30.0),
        ("Fri, 15 Jan 2027 08:00:10 GMT", 10.0),  # 1,800,000,000 is 08:00:00
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("86400", 3600.0),  # a page of maintenance: nobody is silent for a day because of it
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0),
        ("-5", None),
        ("1e9", None),
        ("9" * 400, None),
        ("soon", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    with WebhookServer(lambda _: Answer(status=429, headers={"Retry-After": text})) as server:
        assert client(server.url).post("/v1/report", TEXT).retry_after_seconds == seconds


def test_a_connection_is_kept_until_it_is_closed() -> None:
    with WebhookServer(lambda _: Answer(headers={"Connection": "keep-alive"})) as server:
        asking = client(server.url)
        for _ in range(3):
            asking.post("/v1/report", TEXT)
        assert server.connections == 1
        asking.close()
        asking.post("/v1/report", TEXT)
        assert server.connections == 2
        asking.close()
