"""The client against small real servers, for what an API server does not do on demand."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from urllib3.connection import HTTPConnection
from urllib3.response import HTTPResponse

import agent.kube.client.api as api_module
from agent.kube.client.api import MERGE_PATCH, HttpApi
from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError, CredentialsError, TooLong, Unreachable
from agent.version import installed_version

PATIENCE_SECONDS = 60.0
"""Until a test that waits gives up; none takes it."""
Behaviour = Callable[[socket.socket, bytes], None]
"""What a server does with one request: its connection, and the request as it came."""


@contextlib.contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Have a server that reads one request from each connection and then does as it is told."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(PATIENCE_SECONDS)
            request = b""
            while b"\r\n\r\n" not in request:
                piece = connection.recv(65_536)
                if not piece:
                    return  # nobody asks any more
                request += piece
            head, _, body = request.partition(b"\r\n\r\n")
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                ),
                0,
            )
            while len(body) < length:
                body += connection.recv(65_536)
            behaviour(connection, head + b"\r\n\r\n" + body)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for thread in threads:
            thread.join()


def answering(status: str, body: bytes, *headers: str) -> Behaviour:
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""))
    return lambda connection, _: connection.sendall(head.encode() + body)


def chunks(connection: socket.socket, *pieces: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in pieces:
        connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


@contextlib.contextmanager
def client(url: str, *, timeout_seconds: float = PATIENCE_SECONDS, token: str | None = None) -> Iterator[HttpApi]:
    api = HttpApi(Credentials(server=url, origin="tests", token=token), timeout_seconds=timeout_seconds)
    try:
        yield api
    finally:
        api.close()


def test_a_call_sends_what_it_is_given_and_gives_what_comes_back() -> None:
    seen: list[bytes] = []

    def behave(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        answering("200 OK", b'{"a": [1]}')(connection, request)

    with serving(behave) as url, client(f"{url}/prefix/", token="tok") as api:  # noqa: S106
        answer = api.call("PATCH", "/x", query={"a": "b c"}, body={"é": 1}, content_type=MERGE_PATCH)
    assert answer == {"a": [1]}
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"PATCH /prefix/x?a=b+c HTTP/1.1\r\n")
    for line in (
        b"Authorization: Bearer tok",
        b"Content-Type: application/merge-patch+json",
        b"Accept: application/json",
        f"User-Agent: plimsoll/{installed_version()} node-agent".encode(),
    ):
        assert line in head.split(b"\r\n")
    assert json.loads(body) == {"é": 1}


def test_an_empty_answer_is_none() -> None:
    with serving(answering("200 OK", b" \n")) as url, client(url) as api:
        assert api.call("GET", "/x") is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_throttled_request_says_for_how_long(stream: bool) -> None:
    body = b'{"kind":"Status","reason":"TooManyRequests","message":"slow down"}'
    with (
        serving(answering("429 Too Many Requests", body, "Retry-After: 7")) as url,
        client(url) as api,
        pytest.raises(ApiError) as refused,
    ):
        api.stream("/x") if stream else api.call("GET", "/x")
    assert (refused.value.status, refused.value.retry_after_seconds) == (429, 7.0)
    assert str(refused.value) == "GET /x: 429 TooManyRequests: slow down"


def test_a_redirect_is_not_followed_so_the_token_stays_here() -> None:
    with (
        serving(answering("302 Found", b"", "Location: http://127.0.0.1:1/")) as url,
        client(url, token="tok") as api,  # noqa: S106
        pytest.raises(ApiError) as refused,
    ):
        api.call("GET", "/x")
    assert refused.value.status == 302


@pytest.mark.parametrize(("method", "may_have_been_done"), [("GET", False), ("PATCH", True)])
@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        (answering("200 OK", b"<html>"), "answered 200 with something else than JSON"),
        (
            lambda connection, _: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
            "4 bytes read, 5 more",
        ),
        (lambda connection, _: None, "Remote end closed connection without response"),
        (lambda connection, _: connection.sendall(b"garbage\r\n\r\n"), "garbage"),
        (lambda connection, _: connection.recv(1), "timed out"),
    ],
)
def test_no_answer_says_whether_the_write_may_have_been_done(
    behaviour: Behaviour, cause: str, method: str, may_have_been_done: bool
) -> None:
    timeout_seconds = 0.3 if cause == "timed out" else PATIENCE_SECONDS
    with serving(behaviour) as url, client(url, timeout_seconds=timeout_seconds) as api:
        with pytest.raises(Unreachable) as lost:
            api.call(method, "/x")
        assert cause in str(lost.value)
        assert str(lost.value).startswith(f"{method} /x: ")
        assert str(lost.value).isprintable()
        assert lost.value.may_have_been_done is may_have_been_done


def test_what_was_never_sent_was_not_done() -> None:
    with client("http://127.0.0.1:1") as api, pytest.raises(Unreachable) as lost:
        api.call("POST", "/x", body={})
    assert str(lost.value) == "POST /x: no answer from http://127.0.0.1:1: Connection refused"
    assert not lost.value.may_have_been_done


@pytest.mark.parametrize("server", ["", "kubernetes", "ftp://x", "https://"])
def test_a_server_that_is_no_address_is_refused(server: str) -> None:
    with (
        pytest.raises(CredentialsError, match=r"tests: server .* is not allowed \(https://HOST:PORT\)"),
        client(server),
    ):
        pass


def test_a_stream_gives_lines_however_they_are_cut_into_chunks() -> None:
    def behave(connection: socket.socket, _: bytes) -> None:
        chunks(connection, b"one\ntw", b"o", b"\n", b"\nthree\nfo", b"ur", b"")

    with serving(behave) as url, client(url) as api:
        stream = api.stream("/x", accept="text/plain")
        assert list(stream) == [b"one\n", b"two\n", b"\n", b"three\n", b"four"]
        assert list(stream) == []


def test_a_line_that_is_longer_than_is_held_is_given_up_before_it_is_all_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_module, "LONGEST_LINE_BYTES", 3 << 20)
    has_been_closed = threading.Event()

    def behave(connection: socket.socket, _: bytes) -> None:
        chunks(connection, b"short\n", *[b"x" * (1 << 20)] * 3, b"\n")
        with contextlib.suppress(OSError):
            while True:  # a line without an end
                connection.sendall(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
        has_been_closed.set()

    with serving(behave) as url, client(url) as api:
        lines = iter(api.stream("/x"))
        assert next(lines) == b"short\n"
        assert len(next(lines)) == (3 << 20) + 1
        with pytest.raises(TooLong, match=r"^GET /x: an answer of more than 3 MiB in one line$"):
            next(lines)
        assert has_been_closed.wait(PATIENCE_SECONDS)


def test_a_stream_that_breaks_off_gives_what_came_and_then_says_so() -> None:
    with serving(lambda connection, _: chunks(connection, b"one\ntwo")) as url, client(url) as api:
        lines = iter(api.stream("/x"))
        assert next(lines) == b"one\n"
        with pytest.raises(Unreachable, match=r"^GET /x: no answer from http://127\.0\.0\.1"):
            next(lines)


def test_a_stream_that_is_silent_for_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    has_sent = threading.Event()

    def behave(connection: socket.socket, _: bytes) -> None:
        chunks(connection, b"one\n")
        has_sent.set()
        connection.recv(1)

    def answered(connection: HTTPConnection) -> HTTPResponse:
        assert has_sent.wait(PATIENCE_SECONDS)  # the clock of the first pause begins when the first line is here
        return get_response(connection)

    get_response = HTTPConnection.getresponse
    monkeypatch.setattr(HTTPConnection, "getresponse", answered)
    with serving(behave) as url, client(url) as api:
        lines = iter(api.stream("/x", timeout_seconds=0.5))
        assert next(lines) == b"one\n"
        with pytest.raises(Unreachable, match="timed out"):
            next(lines)


def test_a_stream_is_ended_from_another_thread_while_it_is_read() -> None:
    def behave(connection: socket.socket, _: bytes) -> None:
        chunks(connection, b"one\n")
        connection.recv(1)

    with serving(behave) as url, client(url) as api:
        stream = api.stream("/x")
        lines: list[bytes] = []
        has_begun = threading.Event()

        def read() -> None:
            for line in stream:
                lines.append(line)
                has_begun.set()

        reading = threading.Thread(target=read)
        reading.start()
        assert has_begun.wait(PATIENCE_SECONDS)
        stream.close()
        reading.join(PATIENCE_SECONDS)
        assert not reading.is_alive()
        assert lines == [b"one\n"]
        stream.close()


def test_a_stream_that_was_closed_before_it_was_read_is_empty() -> None:
    with serving(lambda connection, _: chunks(connection, b"one\n", b"")) as url, client(url) as api:
        stream = api.stream("/x")
        stream.close()
        assert list(stream) == []
