"""One thread that takes requests on several sockets; it waits for no client and computes nothing.

HTTP and the control socket both are "read up to an end mark, answer once, close". The thread ``serving`` accepts, reads
and writes without blocking, each under a deadline, so that a slow client costs a socket and no more. What has to be
computed is computed in a worker thread. Knows neither HTTP nor JSON.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

log = logging.getLogger(__name__)

READ_SECONDS: Final = 5.0
"""For a whole request to arrive, from the connection on."""
WRITE_SECONDS: Final = 5.0
"""For a whole answer to be taken."""
DRAIN_SECONDS: Final = 0.5
"""For the client to close after its answer: a close over unread bytes resets the connection and loses the answer."""
MAX_CONNECTIONS: Final = 64
"""Open at once over all endpoints; the oldest that is still reading makes way for a new one."""
CLOSE_SECONDS: Final = 0.4
"""For workers to end when the loop is closed; they are daemons, so what overstays does not hold the process."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """An answer that takes computing: ``work`` runs in a worker thread."""

    work: Callable[[], bytes]
    finished: Callable[[], None]
    """Called exactly once, when the answer is written, given up or failed: where a slot is handed back."""


class Endpoint(Protocol):
    """What one listening socket speaks. All methods but ``Deferred.work`` run in the loop's thread and never block."""

    @property
    def name(self) -> str:
        """For log lines."""

    @property
    def listener(self) -> socket.socket:
        """Bound and listening."""

    def admits(self, connection: socket.socket) -> bool:
        """Say whether this peer may ask at all; if not it is closed without a word."""

    def request_end(self, received: bytearray) -> int | None:
        """Give the length of the complete request at the start of these bytes, or None while it is cut."""

    @property
    def max_request_bytes(self) -> int:
        """Beyond this it is refused."""

    def answer(self, request: bytes) -> bytes | Deferred:
        """Answer a complete request."""

    def refuse_too_large(self) -> bytes:
        """Answer one that passed ``max_request_bytes``."""

    def refuse_too_slow(self) -> bytes:
        """Answer one that did not arrive in time; empty closes without an answer."""

    def refuse_failed(self) -> bytes:
        """Answer one whose computation raised."""

    def close(self) -> None:
        """Close the listener and what belongs to it; a second call is fine."""


class _State(Enum):
    READING = "reading"
    WORKING = "working"
    WRITING = "writing"
    DRAINING = "draining"


@dataclass(slots=True, eq=False)
class _Connection:
    endpoint: Endpoint
    socket: socket.socket
    deadline: float
    """Seconds of ``time.monotonic``."""
    state: _State = _State.READING
    received: bytearray = field(default_factory=bytearray)
    outgoing: memoryview = field(default_factory=lambda: memoryview(b""))
    finished: Callable[[], None] | None = None


class ListeningLoop:
    """Serves endpoints from one thread until closed; it owns them and closes them too."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        read_seconds: float = READ_SECONDS,
        write_seconds: float = WRITE_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._read_seconds = read_seconds
        self._write_seconds = write_seconds
        self._max_connections = max_connections
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, _Connection] = {}
        self._done: deque[tuple[_Connection, bytes]] = deque()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._workers: set[threading.Thread] = set()
        self._stopping = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="serving", daemon=True)

    def start(self) -> None:
        """Begin to take requests."""
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        for endpoint in self._endpoints:
            endpoint.listener.setblocking(False)
            self._selector.register(endpoint.listener, selectors.EVENT_READ, endpoint)
        self._thread.start()

    def close(self) -> None:
        """Stop at once: what is half answered is cut off. Returns within about a second; a second call is fine."""
        if self._closed:
            return
        self._closed = True
        self._stopping = True
        self._wake()
        deadline = time.monotonic() + CLOSE_SECONDS
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)
        for worker in tuple(self._workers):
            worker.join(max(0.0, deadline - time.monotonic()))
        for endpoint in self._endpoints:
            endpoint.close()
        self._selector.close()
        self._wake_read.close()
        self._wake_write.close()

    def _wake(self) -> None:
        try:
            self._wake_write.send(b"\0")
        except OSError:
            return  # a full pipe wakes as well; a closed one has nobody to wake

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception:  # the top of a thread's loop: one bad connection must not end the service
                log.exception("serving failed in one turn; it goes on")
                time.sleep(0.1)  # should the fault stay, it must not spin
        for connection in tuple(self._connections.values()):
            self._drop(connection)

    def _turn(self) -> None:
        deadlines = [c.deadline for c in self._connections.values() if c.state is not _State.WORKING]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                self._wake_read.recv(4096)
            elif isinstance(key.data, _Connection):
                if key.data.socket in self._connections:  # not dropped by an event before it
                    self._advance(key.data)
            else:
                self._accept(key.data)
        while self._done:
            connection, body = self._done.popleft()
            if connection.socket in self._connections:
                self._write(connection, body)
        now = time.monotonic()
        for connection in tuple(self._connections.values()):
            if connection.state is not _State.WORKING and connection.deadline <= now:
                self._expire(connection)

    def _accept(self, endpoint: Endpoint) -> None:
        try:
            accepted, _ = endpoint.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # gone between the event and here
        except OSError as error:  # out of descriptors: the backlog holds the client, the next turn tries again
            log.warning("a connection could not be accepted", extra={"endpoint": endpoint.name, "reason": str(error)})
            time.sleep(0.05)
            return
        accepted.setblocking(False)
        if not endpoint.admits(accepted) or not self._has_room():
            accepted.close()
            return
        connection = _Connection(endpoint=endpoint, socket=accepted, deadline=time.monotonic() + self._read_seconds)
        self._connections[accepted] = connection
        self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _has_room(self) -> bool:
        if len(self._connections) < self._max_connections:
            return True
        oldest = next((c for c in self._connections.values() if c.state in (_State.READING, _State.DRAINING)), None)
        if oldest is not None:
            self._drop(oldest)
        return oldest is not None

    def _advance(self, connection: _Connection) -> None:
        try:
            if connection.state is _State.READING:
                self._read(connection)
            elif connection.state is _State.WRITING:
                sent = connection.socket.send(connection.outgoing)
                connection.outgoing = connection.outgoing[sent:]
                if not connection.outgoing:
                    self._drain(connection)
            elif not connection.socket.recv(65_536):
                self._drop(connection)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)  # the client went away: its right

    def _read(self, connection: _Connection) -> None:
        chunk = connection.socket.recv(16_384)
        if not chunk:
            self._drop(connection)  # half a request and no more: nobody waits for an answer
            return
        connection.received += chunk
        endpoint = connection.endpoint
        end = endpoint.request_end(connection.received)
        if (len(connection.received) if end is None else end) > endpoint.max_request_bytes:
            self._write(connection, endpoint.refuse_too_large())
        elif end is not None:
            self._answer(connection, bytes(connection.received[:end]))

    def _answer(self, connection: _Connection, request: bytes) -> None:
        try:
            reply = connection.endpoint.answer(request)
        except Exception:  # as in _run; the client is told
            log.exception("a request failed", extra={"endpoint": connection.endpoint.name})
            reply = connection.endpoint.refuse_failed()
        if isinstance(reply, bytes):
            self._write(connection, reply)
            return
        connection.state = _State.WORKING
        connection.finished = reply.finished
        self._selector.unregister(connection.socket)
        worker = threading.Thread(target=self._work, args=(connection, reply.work), name="serving-worker", daemon=True)
        worker.start()
        self._workers = {other for other in self._workers if other.is_alive()} | {worker}

    def _work(self, connection: _Connection, work: Callable[[], bytes]) -> None:
        try:
            body = work()
        except Exception:  # the top of a worker; the client is told
            log.exception("a request failed", extra={"endpoint": connection.endpoint.name})
            body = connection.endpoint.refuse_failed()
        self._done.append((connection, body))
        self._wake()

    def _write(self, connection: _Connection, body: bytes) -> None:
        was_registered = connection.state is not _State.WORKING
        connection.state = _State.WRITING
        connection.received.clear()
        connection.outgoing = memoryview(body)
        connection.deadline = time.monotonic() + self._write_seconds
        if was_registered:
            self._selector.modify(connection.socket, selectors.EVENT_WRITE, connection)
        else:
            self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        if body:
            self._advance(connection)  # most answers fit the socket's buffer: done without another turn
        else:
            self._drop(connection)

    def _drain(self, connection: _Connection) -> None:
        connection.state = _State.DRAINING
        connection.deadline = time.monotonic() + DRAIN_SECONDS
        self._finish(connection)
        connection.socket.shutdown(socket.SHUT_WR)
        self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _expire(self, connection: _Connection) -> None:
        if connection.state is _State.READING:
            self._write(connection, connection.endpoint.refuse_too_slow())
        else:
            self._drop(connection)

    def _finish(self, connection: _Connection) -> None:
        finished, connection.finished = connection.finished, None
        if finished is not None:
            finished()

    def _drop(self, connection: _Connection) -> None:
        if self._connections.pop(connection.socket, None) is None:
            return
        if connection.state is not _State.WORKING:
            self._selector.unregister(connection.socket)
        connection.socket.close()
        self._finish(connection)
