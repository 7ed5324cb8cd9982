"""Connections to a port of a pod, against a server of sockets; tests/chart has a real API server."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
from queue import SimpleQueue

import pytest

from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.kube.client.pod_forward import Forward
from tests.unit.kube.client.test_pod_exec import (
    PATIENCE_SECONDS,
    Behave,
    Server,
    answering,
    api_server,
    frame,
    sending,
    upgrade,
)
from tests.webhook_server import authority

PORTS = (frame(b"\x00\xfb\x20"), frame(b"\x01\xfb\x20"))
"""8443 in two bytes, the low one first, on both channels."""


def forward_to(server: Server, kind: type[Forward] = Forward) -> Forward:
    credentials = Credentials(server=server.url, origin="test", ca_file=authority("api").certificate, token="word")  # noqa: S106  no secret
    return kind(credentials, namespace="plimsoll", pod="webhook-1", port=8443)


def read_all(near: socket.socket) -> bytes:
    with near:
        near.settimeout(PATIENCE_SECONDS)
        return b"".join(iter(lambda: near.recv(1 << 16), b""))


def received(connection: ssl.SSLSocket) -> tuple[int, bytes]:
    """Read one frame of a client's: masked, shorter than 64 KiB."""

    def exactly(count: int) -> bytes:
        got = b""
        while len(got) < count:
            piece = connection.recv(count - len(got))
            if not piece:
                raise EOFError
            got += piece
        return got

    first, length = exactly(2)
    assert length & 0x80
    count = length & 0x7F
    if count == 126:
        [count] = struct.unpack("!H", exactly(2))
    mask, content = exactly(4), exactly(count)
    return first, bytes(byte ^ mask[index % 4] for index, byte in enumerate(content))


def echoing(connection: ssl.SSLSocket, head: str) -> None:
    upgrade(connection, head)
    connection.sendall(b"".join(PORTS))
    while True:
        first, content = received(connection)
        if first != 0x82:
            return
        connection.sendall(frame(content))


def test_bytes_go_both_ways_and_the_port_is_asked_for() -> None:
    sent = random.Random(1).randbytes(100_000)
    with api_server(echoing) as server:
        forward = forward_to(server)
        near = forward.connect(PATIENCE_SECONDS)
        near.settimeout(PATIENCE_SECONDS)
        near.sendall(sent)
        got = b""
        while len(got) < len(sent):
            got += near.recv(1 << 16)
        near.close()
        forward.close()
    assert got == sent
    assert server.heads[0].startswith("GET /api/v1/namespaces/plimsoll/pods/webhook-1/portforward?ports=8443 HTTP/1.1")
    assert "\r\nAuthorization: Bearer word\r\n" in server.heads[0]


def test_bytes_are_the_same_however_messages_are_cut() -> None:
    chance = random.Random(2)
    for _ in range(5):
        content = chance.randbytes(chance.randrange(1, 5000))
        stream, begin = b"\xfb\x20" + content, 0
        frames = []
        while begin < len(stream):
            end = begin + chance.randrange(0, 900)  # an empty message, and half a port's number, are among them
            frames.append(frame(b"\x00" + stream[begin:end]))
            if chance.random() < 0.2:
                frames.append(chance.choice([frame(b"ping", first=0x89), frame(b""), frame(b"\x07other channel")]))
            begin = end

        def behave(connection: ssl.SSLSocket, head: str, frames: list[bytes] = frames) -> None:
            upgrade(connection, head)
            text, begin = b"".join(frames), 0
            while begin < len(text):
                end = begin + chance.randrange(1, 700)
                connection.sendall(text[begin:end])
                begin = end

        with api_server(behave) as server:
            forward = forward_to(server)
            assert read_all(forward.connect(PATIENCE_SECONDS)) == content
            forward.close()


def test_what_the_pod_says_of_its_port_is_told() -> None:
    refused = frame(b"\x01error forwarding port 8443 to pod webhook-1:\n connection refused")
    with api_server(sending(*PORTS, refused, frame(b"", first=0x88))) as server:
        forward = forward_to(server)
        assert read_all(forward.connect(PATIENCE_SECONDS)) == b""
        forward.close()
    assert str(forward.fault) == (
        "port-forward plimsoll/webhook-1: error forwarding port 8443 to pod webhook-1: connection refused"
    )


def cut(connection: ssl.SSLSocket, head: str) -> None:
    upgrade(connection, head)
    connection.sendall(PORTS[0][:3])


@pytest.mark.parametrize(
    ("behave", "raised"),
    [
        (
            answering("403 Forbidden", b'{"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403}'),
            ApiError,
        ),
        (answering("200 OK"), ApiError),
        (lambda connection, _head: connection.close(), Unreachable),
    ],
)
def test_a_refusal_is_raised_where_the_connection_is_asked_for(behave: Behave, raised: type[Exception]) -> None:
    with api_server(behave) as server:
        forward = forward_to(server)
        with pytest.raises(raised):
            forward.connect(PATIENCE_SECONDS)
        forward.close()


def test_a_connection_that_breaks_off_ends_and_says_so() -> None:
    with api_server(cut) as server:
        forward = forward_to(server)
        assert read_all(forward.connect(PATIENCE_SECONDS)) == b""
        forward.close()
    assert isinstance(forward.fault, Unreachable)


def test_why_a_connection_broke_off_is_told_before_its_end_is_seen() -> None:
    may_break = threading.Event()
    had_ended: list[bool] = []

    def behave(connection: ssl.SSLSocket, head: str) -> None:
        upgrade(connection, head)
        may_break.wait(PATIENCE_SECONDS)
        connection.sendall(frame(b"x", first=0x8F))  # no frame of a WebSocket

    class Watched(Forward):
        """Looks at the connection's end when it is told why."""

        def __setattr__(self, name: str, value: object) -> None:
            if name == "fault" and value is not None:
                try:
                    had_ended.append(near.recv(1, socket.MSG_DONTWAIT) == b"")
                except BlockingIOError:
                    had_ended.append(False)
            super().__setattr__(name, value)

    with api_server(behave) as server:
        forward = forward_to(server, Watched)
        near = forward.connect(PATIENCE_SECONDS)
        may_break.set()
        assert read_all(near.dup()) == b""
        forward.close()
        near.close()
    assert had_ended == [False]


def test_close_ends_connections_that_nobody_closed() -> None:
    with api_server(echoing) as server:
        forward = forward_to(server)
        near = forward.connect(PATIENCE_SECONDS)
        forward.close()
        assert near.recv(1) == b""
        near.close()


class Unserved(Forward):
    """Connections that nobody carries anywhere; they end with their other end."""

    def __init__(self) -> None:
        super().__init__(Credentials(server="https://nobody", origin="test"), namespace="plimsoll", pod="w", port=8443)
        self.begun = 0

    def _carry(self, far: socket.socket, opened: SimpleQueue[KubeError | None], timeout_seconds: float) -> None:
        self.begun += 1
        opened.put(None)
        with far:
            assert far.recv(1) == b""


def test_close_ends_connections_that_several_threads_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = Unserved()
    made = [forward.connect(PATIENCE_SECONDS)]
    other = threading.Thread(target=lambda: made.append(forward.connect(PATIENCE_SECONDS)))
    [(_, carrying)] = forward._open
    held_up = [other]

    def is_alive() -> bool:
        """Hold whoever asks up for as long as another connection takes, if one can be made meanwhile."""
        if held_up:
            held_up.pop().start()
            other.join(0.3)
        return True

    monkeypatch.setattr(carrying, "is_alive", is_alive)
    made.append(forward.connect(PATIENCE_SECONDS))
    other.join(PATIENCE_SECONDS)
    assert (len(made), len(forward._open)) == (3, 3)
    forward.close()
    assert [read_all(near) for near in made] == [b""] * 3


def test_a_way_that_is_closed_makes_no_connection() -> None:
    forward = Unserved()
    forward.close()
    with pytest.raises(Unreachable, match="closed"):
        forward.connect(PATIENCE_SECONDS)
    assert forward.begun == 0
