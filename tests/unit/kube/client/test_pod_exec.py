"""Commands in containers, against a server of sockets that does what no API server does; tests/chart has a real one."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError, Unreachable
from agent.kube.client.pod_channels import PROTOCOL, open_channels
from agent.kube.client.pod_exec import LONGEST_OUTPUT_BYTES, CommandEnd, execute
from tests.webhook_server import authority

PATIENCE_SECONDS = 60.0
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'
FORBIDDEN = {"kind": "Status", "reason": "Forbidden", "message": "pods/exec is forbidden", "code": 403}
Behave = Callable[[ssl.SSLSocket, str], None]


class Server:
    """Takes one connection after the other, reads a request's head, and does as the test says."""

    def __init__(self, behave: Behave) -> None:
        self.heads: list[str] = []
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = authority("api")
        self._context.load_cert_chain(pair.certificate, pair.key)
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_SECONDS)
        self._listener.close()
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            plain.settimeout(PATIENCE_SECONDS)
            # A client that has had enough breaks off.
            ends = contextlib.suppress(OSError, EOFError)
            with plain, ends, self._context.wrap_socket(plain, server_side=True) as connection:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    piece = connection.recv(1)
                    if not piece:
                        raise EOFError
                    head += piece
                self.heads.append(head.decode())
                self._behave(connection, self.heads[-1])


@contextlib.contextmanager
def api_server(behave: Behave) -> Iterator[Server]:
    server = Server(behave)
    try:
        yield server
    finally:
        server.close()


def frame(content: bytes, first: int = 0x82) -> bytes:
    if len(content) > 0xFFFF:
        return struct.pack("!BBQ", first, 127, len(content)) + content
    if len(content) > 125:
        return struct.pack("!BBH", first, 126, len(content)) + content
    return bytes((first, len(content))) + content


def upgrade(connection: ssl.SSLSocket, head: str, *, salt: str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11") -> None:
    match = re.search(r"Sec-WebSocket-Key: (\S+)", head)
    assert match
    digest = base64.b64encode(hashlib.sha1(f"{match[1]}{salt}".encode()).digest()).decode()  # noqa: S324
    lines = ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {digest}")
    answer = ("HTTP/1.1 101 Switching Protocols", *lines, f"Sec-WebSocket-Protocol: {PROTOCOL}", "", "")
    connection.sendall("\r\n".join(answer).encode())


def sending(*frames: bytes) -> Behave:
    def behave(connection: ssl.SSLSocket, head: str) -> None:
        upgrade(connection, head)
        connection.sendall(b"".join(frames))

    return behave


def answering(status: str, body: bytes = b"", *headers: str) -> Behave:
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""))
    return lambda connection, _: connection.sendall(head.encode() + body)


def credentials_of(at: Server, **changes: object) -> Credentials:
    known: dict[str, object] = {
        "server": at.url,
        "origin": "test",
        "ca_file": authority("api").certificate,
        "token": "secret-word",
    }
    return Credentials(**{**known, **changes})  # type: ignore[arg-type]


def run(at: Server, *, timeout_seconds: float = PATIENCE_SECONDS, **changes: object) -> CommandEnd:
    return execute(
        credentials_of(at, **changes),
        namespace="plimsoll",
        pod="agent-1",
        container="agent",
        command=("plimsoll", "restore", "--all"),
        timeout_seconds=timeout_seconds,
    )


def test_command_and_token_are_sent_and_the_outputs_come_in_their_order() -> None:
    frames = (
        frame(b"\x01one\n"),
        frame(b"\x02two\n", first=0x02), frame(b"three", first=0x00), frame(b"\n", first=0x80),  # one message in three
        frame(b"\x04an unknown channel"),
        frame(b""),
        frame(b"\x01\xff\n"),
        frame(SUCCESS),
    )  # fmt: skip
    with api_server(sending(*frames)) as server:
        assert run(server) == CommandEnd(code=0, output="one\ntwo\nthree\n\ufffd\n", fault=None)
    [head] = server.heads
    words = "container=agent&stdout=true&stderr=true&command=plimsoll&command=restore&command=--all"
    assert head.startswith(f"GET /api/v1/namespaces/plimsoll/pods/agent-1/exec?{words} HTTP/1.1\r\n")
    assert "\r\nAuthorization: Bearer secret-word\r\n" in head
    assert f"\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n" in head
    assert f"\r\nHost: {server.url.removeprefix('https://')}\r\n" in head
    assert "Origin" not in head


def test_to_look_before_anything_has_come_is_not_to_be_late() -> None:
    """A real kubelet takes its time to start a command, and the first look is at once."""
    has_looked = threading.Event()

    def behave(connection: ssl.SSLSocket, head: str) -> None:
        upgrade(connection, head)
        has_looked.wait(PATIENCE_SECONDS)
        connection.sendall(frame(b"\x01one\n"))

    with (
        api_server(behave) as server,
        open_channels(credentials_of(server), "/exec", "", timeout_seconds=PATIENCE_SECONDS) as channels,
    ):
        try:
            assert list(channels.arrived()) == []
        finally:
            has_looked.set()
        arrived = None
        while arrived is None:
            assert select.select([channels], [], [], PATIENCE_SECONDS)[0]
            arrived = next(channels.arrived(), None)
    assert arrived == (1, b"one\n")


def test_path_of_a_proxy_stands_in_front() -> None:
    with api_server(sending(frame(SUCCESS))) as server:
        run(server, server=f"{server.url}/k8s/clusters/one/", token=None)
    assert server.heads[0].startswith("GET /k8s/clusters/one/api/v1/namespaces/plimsoll/pods/agent-1/exec?")
    assert "Authorization" not in server.heads[0]


def test_a_ping_is_answered() -> None:
    pongs = []

    def behave(connection: ssl.SSLSocket, head: str) -> None:
        upgrade(connection, head)
        connection.sendall(frame(b"are you there", first=0x89))
        first, second, *mask = connection.recv(6)
        content = connection.recv(second & 0x7F)
        pongs.append((first, second >> 7, bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))))
        connection.sendall(frame(SUCCESS))

    with api_server(behave) as server:
        assert run(server).code == 0
    assert pongs == [(0x8A, 1, b"are you there")]


@pytest.mark.parametrize(
    ("status", "code", "fault"),
    [
        (
            {
                "status": "Failure",
                "message": "it failed",
                "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
            },
            3,
            "it failed",
        ),
        ({"status": "Failure", "message": "no such program"}, None, "no such program"),
        ([], None, "how it ended is not understood"),
    ],
)
def test_a_status_says_how_it_ended(status: object, code: int | None, fault: str) -> None:
    with api_server(sending(frame(b"\x03" + json.dumps(status).encode()))) as server:
        assert run(server) == CommandEnd(code=code, output="", fault=fault)


def test_output_is_cut_and_read_to_its_end() -> None:
    pieces = [frame(b"\x01" + b"x" * 600_000)] * 5  # together more than one message may have
    with api_server(sending(*pieces, frame(SUCCESS))) as server:
        done = run(server)
    assert (done.code, len(done.output)) == (0, LONGEST_OUTPUT_BYTES)


def test_a_refusal_is_told_as_the_server_tells_it() -> None:
    with api_server(answering("403 Forbidden", json.dumps(FORBIDDEN).encode())) as server:
        with pytest.raises(ApiError, match=r"^GET /api/v1/\S+/exec: 403 Forbidden: pods/exec is forbidden$") as caught:
            run(server)
        assert (caught.value.status, caught.value.reason) == (403, "Forbidden")


def test_a_token_is_not_taken_to_where_a_redirect_points() -> None:
    with api_server(sending(frame(SUCCESS))) as other:
        location = f"Location: {other.url.replace('https', 'wss')}/exec"
        with api_server(answering("302 Found", b"", location)) as server:
            with pytest.raises(ApiError, match=r": 302$"):
                run(server)
            assert len(server.heads) == 1
    assert other.heads == []


def pour(first: bytes, piece: bytes) -> Behave:
    """Send without end, until the client breaks off."""

    def behave(connection: ssl.SSLSocket, head: str) -> None:
        if not first.startswith(b"HTTP"):
            upgrade(connection, head)
        connection.sendall(first)
        while True:
            connection.sendall(piece)

    return behave


@pytest.mark.parametrize(
    "behave",
    [
        pour(struct.pack("!BBQ", 0x82, 127, 1 << 40), b"x" * 65_536),  # a message that says how much it is
        pour(frame(b"\x01", first=0x02), frame(b"x" * 60_000, first=0x00)),  # one of pieces without end
        pour(b"HTTP/1.1 500 X\r\nContent-Length: 1000000000000\r\n\r\n", b"x" * 65_536),
    ],
    ids=["message", "pieces", "refusal"],
)
def test_a_server_that_sends_without_end_is_left(behave: Behave) -> None:
    with api_server(behave) as server, pytest.raises(Unreachable, match="a message of more than 2097152 bytes"):
        run(server, timeout_seconds=60.0)


def upgrade_and_wait(connection: ssl.SSLSocket, head: str) -> None:
    upgrade(connection, head)
    connection.recv(1)


@pytest.mark.parametrize(
    "behave",
    [
        lambda connection, _: connection.recv(1),
        pour(b"HTTP/1.1 101 X\r\n", b"x"),  # byte by byte: each comes in time, all of it does not
        upgrade_and_wait,
    ],
    ids=["silent", "head", "command"],
)
def test_one_deadline_holds_for_all_of_it(behave: Behave) -> None:
    text = r"^exec plimsoll/agent-1: timed out$"
    with api_server(behave) as server, pytest.raises(Unreachable, match=text) as caught:
        run(server, timeout_seconds=0.3)
    assert caught.value.may_have_been_done


def test_the_deadline_holds_for_the_handshake_too() -> None:
    # The kernel takes the connection, and nobody reads from it.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        credentials = Credentials(server=f"https://127.0.0.1:{silent.getsockname()[1]}", origin="tests")
        for timeout_seconds in (0.0, 0.1):
            with pytest.raises(Unreachable, match=r"^exec plimsoll/agent-1: timed out$"):
                execute(
                    credentials,
                    namespace="plimsoll",
                    pod="agent-1",
                    container="agent",
                    command=("true",),
                    timeout_seconds=timeout_seconds,
                )


@pytest.mark.parametrize(
    ("behave", "text"),
    [
        (sending(), "exec plimsoll/agent-1: the connection ended too early"),
        (sending(frame(b"\x01half"), b"\x82"), "exec plimsoll/agent-1: the connection ended too early"),
        (sending(frame(b"", first=0x88)), "the server closed before it told how the command ended"),
        (lambda connection, _: connection.sendall(b"HTTP/1.1 101"), "the connection ended too early"),
        (lambda connection, _: connection.sendall(b"\xff\xfe\n\n"), "the answer is no WebSocket"),
        (lambda connection, _: connection.sendall(b"hello\n\n"), "the answer is no WebSocket"),
        (answering("101 Switching Protocols"), "the answer is no WebSocket"),
        (lambda connection, head: upgrade(connection, head, salt="wrong"), "the answer is no WebSocket"),
        (sending(frame(b"x", first=0x8F)), "exec plimsoll/agent-1: "),
    ],
)
def test_an_end_before_its_time_is_one_line(behave: Behave, text: str) -> None:
    with api_server(behave) as server, pytest.raises(Unreachable, match=text) as caught:
        run(server)
    assert "secret-word" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_head_is_a_refusal_without_a_number() -> None:
    with api_server(lambda connection, _: connection.sendall(b"\r\n")) as server, pytest.raises(ApiError) as caught:
        run(server)
    assert caught.value.status == 0


def test_a_server_whose_certificate_is_not_believed_gets_no_token() -> None:
    with api_server(sending(frame(SUCCESS))) as server:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            run(server, ca_file=authority("somebody else").certificate)
        with pytest.raises(Unreachable, match="certificate verify failed"):
            run(server, server_name="another.name")
        assert server.heads == []
        assert run(server, ca_file=authority("somebody else").certificate, is_verified=False).code == 0


def test_nobody_at_the_address_is_one_line() -> None:
    with api_server(sending()) as server, socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # so that nobody else is given the port meanwhile
        with pytest.raises(Unreachable, match=r"^exec plimsoll/agent-1: .*refused"):
            run(server, server=f"https://127.0.0.1:{deaf.getsockname()[1]}")


def test_the_library_is_not_loaded_before_a_command() -> None:
    names = ("agent.kube.client.pod_exec", "websocket")
    text = f"import sys, agent.cli.client.retire; print([name in sys.modules for name in {names}])"
    words = [sys.executable, "-c", text]
    done = subprocess.run(words, cwd=Path(__file__).parents[4], capture_output=True, text=True, check=True)
    assert done.stdout == "[True, False]\n"
