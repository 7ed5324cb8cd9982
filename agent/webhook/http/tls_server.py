"""uvicorn over TLS with the bounds that it leaves open, and an end in order. Webhook; ``server`` has the routes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import resource
import selectors
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable, Iterator
from typing import Final

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agent.settings.webhook_sections import ListeningSettings
from agent.webhook.http.bodies import MAX_HEAD_BYTES
from agent.webhook.http.connections import AcceptedConnection, Connections, GuardedListener
from agent.webhook.http.routes import WebhookApp

log = logging.getLogger(__name__)

LEAVE_SECONDS: Final = 2.0
"""For clients to ask once more on the connections that they keep, and to be told with the answer that it was the last.
Who asks on a connection at the moment it is closed gets no answer, and an API server then does without."""
LINGER_SECONDS: Final = 0.5
"""For a client to hang up after it was told the end."""
READ_BYTES: Final = 32 * 1024
"""Read from a connection at once, in a buffer of its own: two records of TLS. asyncio's 256 KiB would be 500 MiB where
`ListeningSettings.connections` are open."""
OTHER_FILES: Final = 256
"""Open beside connections: database, watches, agents' reports on their way to the API server."""


class _WholeAnswer:
    """Hands a transport the head of an answer together with its body.

    uvicorn writes them one by one: two records of TLS and two calls of the kernel. At 200 admissions a second those two
    calls were a quarter of what the event loop did.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Write with what is held; the first piece is held, to the end of this turn of the loop at most."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        else:
            self._held = data
            self._loop.call_soon(self._flush)

    def is_closing(self) -> bool:
        """Return whether the connection is about to end."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Write what is held, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)


class _BoundedConnection(HttpToolsProtocol):
    """A connection with what uvicorn leaves open: a head that never ends, in time or in size; and who is idle."""

    head_seconds = 10.0
    known: Connections
    _accepted: AcceptedConnection | None = None
    _head_timer: asyncio.TimerHandle | None = None
    _is_in_head = True
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._accepted = self.known.find(transport.get_extra_info("socket").fileno())
        if self._accepted is not None:
            self._accepted.hang_up = transport.abort
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn forgets it after an error: a minute and a half with all buffers

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._accepted is not None:
            self.known.busy(self._accepted)
        self._is_in_head, self._head_bytes = True, 0
        self._wait_for_head()

    def on_headers_complete(self) -> None:
        self._head_came()
        super().on_headers_complete()
        self.cycle.transport = _WholeAnswer(self.transport, self.loop)  # type: ignore[assignment]  # it asks for no more

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._accepted is not None and self.cycle.response_complete:  # else one was waiting
            self.known.idle(self._accepted)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head and self._head_timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.abort()

    def shutdown(self) -> None:
        # Closed twice, a TLS transport of Python 3.11 forgets its connection, and nothing can end it any more.
        if not self.transport.is_closing():
            super().shutdown()

    def _wait_for_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _head_came(self) -> None:
        self._is_in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _QuietServer(Server):
    """uvicorn's server without its signal handlers: whoever runs it decides when it ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End in order: answers that are under way are sent; who then does not hang up is hung up on."""
        await self._take_leave()
        sweeping = asyncio.create_task(self._hang_up())
        try:
            await super().shutdown(sockets)
        finally:
            sweeping.cancel()
            for connection in tuple(self.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0.01)  # the loop's turns in which they are lost

    async def _take_leave(self) -> None:
        # Of every answer that is begun from now on, also on new connections.
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        loop = asyncio.get_running_loop()
        until = loop.time() + LEAVE_SECONDS
        while self.server_state.connections and loop.time() < until:
            await asyncio.sleep(LEAVE_SECONDS / 40)

    async def _hang_up(self) -> None:
        # The end of TLS waits for the other side's, which an idle client sends when it next looks.
        while True:
            await asyncio.sleep(LINGER_SECONDS)
            for connection in tuple(self.server_state.connections):
                if connection.transport.is_closing():
                    connection.transport.abort()


class LoopStateSelector(selectors.EpollSelector):
    """Tells when the event loop begins to wait for something to do, and when it has it."""

    def __init__(self, loop_works: Callable[[bool], None]) -> None:
        super().__init__()
        self._loop_works = loop_works

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:  # type: ignore[explicit-any]
        """Return what is ready, as any selector does."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)  # there is something to do already
        self._loop_works(False)
        try:
            return super().select(timeout)
        finally:
            self._loop_works(True)


class HttpsServer:
    """Answers on a socket until it is told to stop."""

    def __init__(
        self,
        app: WebhookApp,
        listener: socket.socket,
        context: ssl.SSLContext,
        settings: ListeningSettings,
        *,
        loop_works: Callable[[bool], None] = lambda _is_at_work: None,
    ) -> None:
        """Prepare; what is loaded into ``context`` later counts for new connections.

        ``loop_works`` is told, on the loop's thread, when the event loop is at work and when it waits.
        """
        context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
        sslproto.SSLProtocol.max_size = READ_BYTES
        # Connections inherit it. asyncio sets it only where the listener was made with the protocol's number, and
        # without it the body of each answer waits 40 ms for the acknowledgement of its head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        most = raise_open_files(settings.connections)
        self.connections: Final = Connections(most, settings.idle_connections, app.shares)
        bounds = {"head_seconds": settings.request_seconds, "known": self.connections}
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # whatever strangers send is no news
        self._app, self._loop_works = app, loop_works
        self._listener = listener
        self._handshake_seconds = settings.request_seconds
        self._server = _QuietServer(
            Config(
                app.asgi,
                http=type("Bounded", (_BoundedConnection,), bounds),
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=1024,
                timeout_keep_alive=settings.keep_alive_seconds,
                timeout_graceful_shutdown=settings.end_seconds,
                ssl_context_factory=lambda *_: context,
            )
        )

    @property
    def url(self) -> str:
        """Where it listens, with the port in force."""
        host, port = self._listener.getsockname()[:2]
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def run(self) -> None:
        """Answer until ``stop``; requests under way are ended in order."""
        try:
            with asyncio.Runner(loop_factory=self._loop) as runner:
                runner.run(self._serve())
        finally:
            self._loop_works(False)
            self._listener.close()
            self._app.close()

    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(LoopStateSelector(self._loop_works))

    async def _serve(self) -> None:
        # uvicorn leaves a client a minute to begin TLS, and such a connection counts nowhere.
        loop = asyncio.get_running_loop()
        create = functools.partial(loop.create_server, ssl_handshake_timeout=self._handshake_seconds)
        loop.create_server = create  # type: ignore[method-assign]
        await self._server.serve(sockets=[GuardedListener(self._listener, self.connections)])

    def stop(self) -> None:
        """Take no more connections, answer what is under way, and come back from ``run``; from any thread."""
        self._app.end()
        self._server.should_exit = True


def raise_open_files(connections: int) -> int:
    """Let so many connections be open beside what else is; containers often start with 1,024 open files.

    Returns:
        How many connections may be open by the limit now in force.
    """
    wanted = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        except (OSError, ValueError):
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft < wanted:
            log.warning("fewer connections than set: open files are limited", extra={"files": soft, "wanted": wanted})
            return max(soft - OTHER_FILES, soft // 2)
    return connections
