"""One event loop that takes requests on several sockets; it waits for no client and computes nothing.

HTTP and the control socket both are "read up to an end mark, answer once, close". In the thread ``serving`` each
connection is one coroutine, and each of its steps has a deadline, so that a slow client costs a socket and no more.
What has to be computed is computed in a worker thread. Knows neither HTTP nor JSON.

The loop is asyncio's, but its sockets are read as they are and not as streams: a stream takes in up to 256 KiB before
anybody asks for it, and ``start_server`` a whole backlog beyond the bound on connections. 64 clients that send without
end took 14 to 21 MiB of memory that way, and 3 MiB this way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

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
PAUSE_SECONDS: Final = 0.05
"""Until the next try where a connection cannot be accepted."""
CHUNK_BYTES: Final = 16 * 1024

_Answer = TypeVar("_Answer")


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
        """Return whether this peer may ask at all; if not it is closed without a word."""

    def request_end(self, received: bytearray) -> int | None:
        """Return the length of the complete request at the start of these bytes, or None while it is cut."""

    @property
    def max_request_bytes(self) -> int:
        """Beyond this it is refused."""

    def answer(self, request: bytes, connection: socket.socket) -> bytes | Deferred:
        """Answer a complete request; the connection only tells who asks."""

    def refuse_too_large(self) -> bytes:
        """Answer one that passed ``max_request_bytes``."""

    def refuse_too_slow(self) -> bytes:
        """Answer one that did not arrive in time; empty closes without an answer."""

    def refuse_failed(self) -> bytes:
        """Answer one whose computation raised."""

    def close(self) -> None:
        """Close the listener and what belongs to it; a second call is fine."""


@dataclass(slots=True, eq=False)
class _Connection:
    endpoint: Endpoint
    socket: socket.socket
    makes_way: bool = True
    """The client has the turn: it has not asked yet, or has its answer and has not closed."""


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
        self._connections: dict[_Connection, asyncio.Task[None]] = {}  # the oldest first
        self._workers: set[threading.Thread] = set()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="serving", daemon=True)

    def start(self) -> None:
        """Begin to take requests."""
        for endpoint in self._endpoints:
            endpoint.listener.setblocking(False)
        self._thread.start()

    def close(self) -> None:
        """Stop at once: what is half answered is cut off. Returns within about a second; a second call is fine."""
        if self._is_closed:
            return
        self._is_closed = True
        deadline = time.monotonic() + CLOSE_SECONDS
        if self._thread.ident is None:
            self._loop.close()
        else:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(CLOSE_SECONDS)
        for worker in tuple(self._workers):
            worker.join(max(0.0, deadline - time.monotonic()))
        for endpoint in self._endpoints:
            endpoint.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # its end cancels what still runs
            runner.run(self._serve())

    async def _serve(self) -> None:
        for endpoint in self._endpoints:
            self._listen(endpoint)
        await self._stopping.wait()
        for endpoint in self._endpoints:
            self._loop.remove_reader(endpoint.listener)

    def _listen(self, endpoint: Endpoint) -> None:
        # One client a turn, and not by sock_accept: that loses the socket if it is cancelled when it has one.
        if not self._stopping.is_set():
            self._loop.add_reader(endpoint.listener, self._accept, endpoint)

    def _accept(self, endpoint: Endpoint) -> None:
        try:
            accepted, _ = endpoint.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # gone between the event and here
        except OSError as error:  # out of descriptors: the backlog holds the client, the next try may have one
            log.warning("a connection could not be accepted", extra={"endpoint": endpoint.name, "reason": str(error)})
            self._loop.remove_reader(endpoint.listener)
            self._loop.call_later(PAUSE_SECONDS, self._listen, endpoint)
            return
        accepted.setblocking(False)
        if not endpoint.admits(accepted) or not self._has_room():
            accepted.close()
            return
        connection = _Connection(endpoint, accepted)
        task = self._loop.create_task(self._converse(connection))
        self._connections[connection] = task
        # Not at the coroutine's own end: one that is cancelled before it began has none.
        task.add_done_callback(lambda _: self._end(connection))

    def _has_room(self) -> bool:
        if len(self._connections) < self._max_connections:
            return True
        oldest = next((connection for connection in self._connections if connection.makes_way), None)
        if oldest is not None:
            self._connections.pop(oldest).cancel()
        return oldest is not None

    def _end(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)
        connection.socket.close()

    async def _converse(self, connection: _Connection) -> None:
        # An OSError is a client that went away, or that did not take its answer in time: its right.
        with contextlib.suppress(OSError), contextlib.ExitStack() as finished:
            reply = await self._reply_to(connection)
            connection.makes_way = False
            if isinstance(reply, Deferred):
                finished.callback(reply.finished)
                reply = await self._computed(connection.endpoint, reply.work)
            if not reply:
                return
            async with asyncio.timeout(self._write_seconds):
                await self._loop.sock_sendall(connection.socket, reply)
            finished.close()
            connection.makes_way = True
            connection.socket.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(DRAIN_SECONDS):
                while await self._received(connection):
                    pass

    async def _reply_to(self, connection: _Connection) -> bytes | Deferred:
        endpoint, received = connection.endpoint, bytearray()
        try:
            async with asyncio.timeout(self._read_seconds):
                while (end := endpoint.request_end(received)) is None:
                    if len(received) > endpoint.max_request_bytes:
                        return endpoint.refuse_too_large()
                    chunk = await self._received(connection)
                    if not chunk:
                        return b""  # half a request and no more: nobody waits for an answer
                    received += chunk
        except TimeoutError:
            return endpoint.refuse_too_slow()
        if end > endpoint.max_request_bytes:
            return endpoint.refuse_too_large()
        return _answered(endpoint, partial(endpoint.answer, bytes(received[:end]), connection.socket))

    async def _received(self, connection: _Connection) -> bytes:
        await asyncio.sleep(0)  # a client that sends without end must not keep the turn, nor outlast a deadline
        return await self._loop.sock_recv(connection.socket, CHUNK_BYTES)

    async def _computed(self, endpoint: Endpoint, work: Callable[[], bytes]) -> bytes:
        """Return what a thread of its own computes; asyncio's pool is waited for when the process ends."""
        computed: Future[bytes] = Future()
        computed.set_running_or_notify_cancel()
        worker = threading.Thread(
            target=lambda: computed.set_result(_answered(endpoint, work)), name="serving-worker", daemon=True
        )
        worker.start()
        self._workers = {other for other in self._workers if other.is_alive()} | {worker}
        return await asyncio.wrap_future(computed)


def _answered(endpoint: Endpoint, answer: Callable[[], _Answer]) -> _Answer | bytes:
    try:
        return answer()
    except Exception:  # the top of a request: it must not end the service, and the client is told
        log.exception("a request failed", extra={"endpoint": endpoint.name})
        return endpoint.refuse_failed()
