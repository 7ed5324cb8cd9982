"""The door of ``plimsoll ui``: who gets in, once, and what is handed on; over real sockets of loopback."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.cli.client.page_door import KEY_HEADER, PageDoor
from agent.cli.client.webhook import NoWebhookAnswerError, PassedAnswer

HELD = PassedAnswer(
    status=200,
    headers={
        "content-type": "application/json",
        "etag": 'W/"1"',
        "WWW-Authenticate": "Bearer",
        "Set-Cookie": "a=b",
        "Content-Security-Policy": "default-src 'none'",
    },
    body=b'{"schema":1}',
)


@dataclass
class Asked:
    """What came through, and what is said to it."""

    questions: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    answer: PassedAnswer | NoWebhookAnswerError = HELD

    def __call__(self, target: str, headers: Mapping[str, str]) -> PassedAnswer:
        self.questions.append((target, dict(headers)))
        if isinstance(self.answer, NoWebhookAnswerError):
            raise self.answer
        return self.answer


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def door(asked: Asked) -> Iterator[PageDoor]:
    page_door = PageDoor(asked)
    page_door.start()
    yield page_door
    page_door.close()


def get(
    door: PageDoor, path: str, *, method: str = "GET", host: str | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(door.host, timeout=60)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", host or door.host)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def key_of(door: PageDoor) -> str:
    return parse_qs(urlsplit(door.url).fragment)["k"][0]


def entered(door: PageDoor) -> str:
    """Change the key for the cookie; return the header of those that come."""
    status, headers, _ = get(door, "/enter", **{KEY_HEADER: key_of(door)})
    assert status == 200
    return str(headers["Set-Cookie"]).partition(";")[0]


def test_the_address_is_loopback_and_its_key_has_256_bits(door: PageDoor) -> None:
    assert door.url.startswith("http://127.0.0.1:")
    assert len(key_of(door)) == 43  # 256 bits in sixes


def test_the_key_is_changed_once_for_a_cookie_that_scripts_and_sites_do_not_get(door: PageDoor) -> None:
    key = key_of(door)
    status, headers, _ = get(door, "/enter", **{KEY_HEADER: key})
    assert status == 200
    assert str(headers["Set-Cookie"]).endswith("; Path=/; HttpOnly; SameSite=Strict")
    (morsel,) = SimpleCookie(headers["Set-Cookie"]).values()
    assert morsel.value != key
    status, headers, body = get(door, "/enter", **{KEY_HEADER: key})
    assert (status, headers["Set-Cookie"]) == (401, None)
    assert "used already" in json.loads(body)["error"]


def test_nobody_without_the_cookie_gets_anything(door: PageDoor, asked: Asked) -> None:
    for cookie in ("", f"{door.cookie}=wrong", "other=1", f"{door.cookie}={key_of(door)}", "\x01;;="):
        for path in ("/ui/", "/v1/workloads", "/openapi.json"):
            status, _, body = get(door, path, Cookie=cookie)
            assert status == 401
            assert "plimsoll ui printed" in json.loads(body)["error"]
    status, _, _ = get(door, "/enter", **{KEY_HEADER: "wrong"})
    assert status == 401
    assert not asked.questions
    assert entered(door)  # a wrong key does not use up the right one


def test_a_question_is_handed_on_with_little_and_answered_with_little(door: PageDoor, asked: Asked) -> None:
    cookie = entered(door)
    status, headers, body = get(
        door,
        "/v1/workloads?q=a%20b",
        Cookie=cookie,
        If_None_Match='W/"0"',
        Authorization="Bearer mine",
        Accept_Encoding="gzip",
        X_Forwarded_For="1.2.3.4",
    )
    assert asked.questions == [("/v1/workloads?q=a%20b", {"If-None-Match": 'W/"0"', "Accept-Encoding": "gzip"})]
    assert (status, body) == (200, b'{"schema":1}')
    assert headers["ETag"] == 'W/"1"'
    assert headers["Content-Security-Policy"] == "default-src 'none'"
    assert headers["WWW-Authenticate"] is None
    assert headers["Set-Cookie"] is None


def test_nothing_changed_is_handed_back_without_a_body(door: PageDoor, asked: Asked) -> None:
    asked.answer = PassedAnswer(status=304, headers={"ETag": 'W/"1"'}, body=b"")
    status, _, body = get(door, "/v1/workloads", Cookie=entered(door))
    assert (status, body) == (304, b"")


def test_a_name_that_was_made_to_point_here_gets_nothing(door: PageDoor, asked: Asked) -> None:
    cookie = entered(door)
    port = door.host.partition(":")[2]
    for host in (f"evil.example:{port}", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}.evil.example"):
        for path in ("/", "/ui/", "/v1/workloads", "/enter"):
            status, _, body = get(door, path, host=host, Cookie=cookie)
            assert status == 403
            assert door.host in json.loads(body)["error"]
    assert not asked.questions


def test_another_page_of_the_browser_gets_nothing(door: PageDoor, asked: Asked) -> None:
    cookie = entered(door)
    foreign: list[dict[str, str]] = [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{door.host}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ]
    for headers in foreign:
        assert get(door, "/v1/workloads", Cookie=cookie, **headers)[0] == 403
    assert not asked.questions
    own = {"Origin": f"http://{door.host}", "Sec_Fetch_Site": "same-origin"}
    assert get(door, "/v1/workloads", Cookie=cookie, **own)[0] == 200


def test_two_hosts_are_one_too_many(door: PageDoor) -> None:
    with socket.create_connection(("127.0.0.1", int(door.host.partition(":")[2])), timeout=60) as plain:
        plain.sendall(f"GET / HTTP/1.1\r\nHost: {door.host}\r\nHost: evil.example\r\n\r\n".encode())
        assert plain.recv(100).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_it_only_reads(door: PageDoor, asked: Asked, method: str) -> None:
    status, headers, _ = get(door, "/v1/workloads", method=method, Cookie=entered(door))
    assert (status, headers["Allow"]) == (405, "GET")
    assert not asked.questions


@pytest.mark.parametrize("path", ["/metrics", "/mutate", "/healthz", "/v1", "/uix/", "http://evil.example/v1/x"])
def test_only_the_page_and_its_data_are_reached(door: PageDoor, asked: Asked, path: str) -> None:
    assert get(door, path, Cookie=entered(door))[0] == 404
    assert not asked.questions


def test_a_webhook_that_does_not_answer_is_told_of(door: PageDoor, asked: Asked) -> None:
    asked.answer = NoWebhookAnswerError("webhook at https://w.svc: no answer: Connection refused")
    status, _, body = get(door, "/v1/workloads", Cookie=entered(door))
    assert status == 502
    assert json.loads(body) == {"error": "webhook at https://w.svc: no answer: Connection refused"}


def test_the_entrance_is_fenced_and_holds_no_key(door: PageDoor) -> None:
    for path, kind in (("/", "text/html; charset=utf-8"), ("/enter.js", "text/javascript; charset=utf-8")):
        status, headers, body = get(door, path)
        assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, kind, "no-store")
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert key_of(door).encode() not in body


def test_a_reload_of_the_entrance_lets_in_who_was_let_in(door: PageDoor) -> None:
    cookie = entered(door)
    assert get(door, "/enter", Cookie=cookie)[0] == 200
    assert get(door, "/enter")[0] == 401


def test_a_port_that_is_taken_is_an_error(door: PageDoor, asked: Asked) -> None:
    with pytest.raises(OSError, match="in use"):
        PageDoor(asked, port=int(door.host.partition(":")[2]))
