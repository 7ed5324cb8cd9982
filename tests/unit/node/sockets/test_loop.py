"""The loop's bounds on bytes, connections and time, with an endpoint that says back what it is asked."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from agent.node.sockets.loop import Deferred, ListeningLoop

PATIENCE_SECONDS = 60.0
"""Until a test that waits gives up; none takes it."""
MAX_REQUEST_BYTES = 40_000


class Listener(socket.socket):
    """One that fails to accept as often as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[Exception] = []

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            raise self.failures.pop()
        return super().accept()


class Echo:
    """An endpoint: ``wait`` and a newline is computed in a worker until the test lets it, all else is said back."""

    def __init__(self) -> None:
        self.name = "echo"
        self.listener = Listener()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.address: tuple[str, int] = self.listener.getsockname()
        self.max_request_bytes = MAX_REQUEST_BYTES
        self.is_admitting = True
        self.most_received = 0
        self.taken: list[socket.socket] = []
        self.most_open = 0
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.finished = threading.Semaphore(0)
        self.fault: Exception | None = None
        """Raised where the next peer is to be admitted."""

    def admits(self, connection: socket.socket) -> bool:
        if self.fault is not None:
            connection.close()
            fault, self.fault = self.fault, None
            raise fault
        self.taken = [taken for taken in (*self.taken, connection) if taken.fileno() >= 0]
        self.most_open = max(self.most_open, len(self.taken))
        return self.is_admitting

    def request_end(self, received: bytearray) -> int | None:
        self.most_received = max(self.most_received, len(received))
        at = received.find(b"\n")
        return at + 1 if at >= 0 else None

    def answer(self, request: bytes, connection: socket.socket) -> bytes | Deferred:
        return Deferred(partial(self._work, request), self.finished.release) if request == b"wait\n" else request

    def _work(self, request: bytes) -> bytes:
        self.begun.release()
        assert self.may_end.wait(PATIENCE_SECONDS)
        return request

    def refuse_too_large(self) -> bytes:
        return b"too large"

    def refuse_too_slow(self) -> bytes:
        return b""

    def refuse_failed(self) -> bytes:
        return b"failed"

    def close(self) -> None:
        self.listener.close()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@contextlib.contextmanager
def served(echo: Echo, *, read_seconds: float = PATIENCE_SECONDS, max_connections: int = 64) -> Iterator[None]:
    loop = ListeningLoop([echo], read_seconds=read_seconds, max_connections=max_connections)
    loop.start()
    try:
        yield
    finally:
        echo.may_end.set()
        loop.close()
        for thread in threading.enumerate():  # close waits for 0.4 s, in which a busy machine may not let them run
            if thread.name.startswith("serving"):
                thread.join(PATIENCE_SECONDS)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("serving")]


def connect(echo: Echo) -> socket.socket:
    return socket.create_connection(echo.address, timeout=PATIENCE_SECONDS)


def read_all(connection: socket.socket) -> bytes:
    chunks = []
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65_536):
            chunks.append(chunk)
    return b"".join(chunks)


def ask(echo: Echo, request: bytes) -> bytes:
    with connect(echo) as connection:
        connection.sendall(request)
        return read_all(connection)


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (b"x" * (MAX_REQUEST_BYTES - 1) + b"\n", b"x" * (MAX_REQUEST_BYTES - 1) + b"\n"),
        (b"x" * MAX_REQUEST_BYTES + b"\n", b"too large"),
        (b"x" * (MAX_REQUEST_BYTES + 1), b"too large"),
    ],
    ids=["as long as is allowed", "one byte more", "without an end"],
)
def test_the_bound_on_a_request_is_exact(echo: Echo, request_bytes: bytes, answer: bytes) -> None:
    with served(echo):
        assert ask(echo, request_bytes) == answer


@pytest.mark.slow
def test_a_client_that_sends_without_end_is_cut_off_and_keeps_nobody_waiting(echo: Echo) -> None:
    def pour(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b"x" * 65_536)

    with served(echo), connect(echo) as connection:
        thread = threading.Thread(target=pour, args=(connection,))
        thread.start()
        for _ in range(20):
            assert ask(echo, b"hello\n") == b"hello\n"
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()  # not a drain without end: whoever still sends is cut off
    assert echo.most_received <= MAX_REQUEST_BYTES + 16 * 1024  # and no more of it is held than one piece


def test_connections_are_never_more_than_the_bound(echo: Echo) -> None:
    with served(echo, max_connections=4), contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(echo)) for _ in range(60)]
        # Those that were let in last are still open and are answered; all before them have made way.
        for connection in idle[-4:]:
            connection.sendall(b"hello\n")
        assert [read_all(connection) for connection in idle[-4:]] == [b"hello\n"] * 4
        assert [read_all(connection) for connection in idle[:-4]] == [b""] * 56
    assert 4 < echo.most_open <= 4 + 3  # the one that comes, and those whose close has begun


def test_who_is_being_answered_makes_no_way(echo: Echo) -> None:
    with served(echo, max_connections=2), connect(echo) as one, connect(echo) as two:
        for connection in (one, two):
            connection.sendall(b"wait\n")
            assert echo.begun.acquire(timeout=PATIENCE_SECONDS)
        assert ask(echo, b"") == b""  # closed at once: there is no room
        echo.may_end.set()
        assert [read_all(one), read_all(two)] == [b"wait\n"] * 2


def test_who_is_not_admitted_takes_no_room(echo: Echo) -> None:
    with served(echo, max_connections=1), connect(echo) as first:
        first.sendall(b"hel")
        while echo.most_received < 3:
            threading.Event().wait(0.005)
        echo.is_admitting = False
        assert ask(echo, b"") == b""
        first.sendall(b"lo\n")
        assert read_all(first) == b"hello\n"


def test_too_slow_and_nothing_to_say_is_a_close(echo: Echo) -> None:
    with served(echo, read_seconds=0.1), connect(echo) as connection:
        connection.sendall(b"half")
        assert read_all(connection) == b""


def test_a_client_that_only_sends_no_more_is_answered(echo: Echo) -> None:
    with served(echo), connect(echo) as connection:
        connection.sendall(b"hello\n")
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b"hello\n"


def test_a_client_that_resets_is_forgotten_and_its_slot_given_back(echo: Echo) -> None:
    with served(echo):
        with connect(echo) as connection:
            connection.sendall(b"wait\n")
            assert echo.begun.acquire(timeout=PATIENCE_SECONDS)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        echo.may_end.set()
        assert echo.finished.acquire(timeout=PATIENCE_SECONDS)
        assert ask(echo, b"hello\n") == b"hello\n"


def test_a_worker_that_overstays_holds_no_close_and_gives_its_slot_back_once(echo: Echo) -> None:
    loop = ListeningLoop([echo])
    loop.start()
    with connect(echo) as connection:
        connection.sendall(b"wait\n")
        assert echo.begun.acquire(timeout=PATIENCE_SECONDS)
        loop.close()
        assert read_all(connection) == b""
    assert echo.finished.acquire(timeout=PATIENCE_SECONDS)
    [worker] = [thread for thread in threading.enumerate() if thread.name == "serving-worker"]
    assert worker.daemon
    echo.may_end.set()
    worker.join(PATIENCE_SECONDS)
    assert not worker.is_alive()
    assert not echo.finished.acquire(blocking=False)


def test_out_of_descriptors_is_told_and_the_client_waits_for_the_next_try(
    echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    echo.listener.failures = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]
    with served(echo):
        assert ask(echo, b"hello\n") == b"hello\n"
    assert caplog.messages == ["a connection could not be accepted"]


def test_a_fault_with_one_connection_is_told_and_does_not_end_the_service(
    echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    echo.fault = ValueError("a fault of ours")
    with served(echo):
        assert ask(echo, b"") == b""
        assert ask(echo, b"hello\n") == b"hello\n"
    assert caplog.text.count("a fault of ours") == 1
