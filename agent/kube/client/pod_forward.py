"""Connections to a port of a pod through the API server, as ``kubectl port-forward`` has them; nothing listens here.

Each connection is a socket of this process whose other end a thread carries to the pod.

Source:
    The channels of pods/portforward: 0 the connection's bytes, 1 what went wrong; each begins with the port's number in
    two bytes. One connection ends with its WebSocket: this protocol cannot close one direction alone.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from queue import SimpleQueue
from typing import Final
from urllib.parse import urlencode

from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import KubeError, Unreachable, one_line
from agent.kube.client.paths import namespaced_path
from agent.kube.client.pod_channels import LONGEST_SENT_BYTES, Channels, breaking_off, open_channels

_DATA: Final = 0
_FAULT: Final = 1
_PORT_BYTES: Final = 2
_LONGEST_FAULT_BYTES: Final = 1 << 12
_JOIN_SECONDS: Final = 5.0


class Forward:
    """Makes connections to one port of one pod, and ends them all with ``close``; any thread."""

    def __init__(self, credentials: Credentials, *, namespace: str, pod: str, port: int) -> None:
        self._credentials: Final = credentials
        self._namespace, self._pod, self._port = namespace, pod, port
        self._lock = threading.Lock()
        """Guards the two that follow."""
        self._open: list[tuple[socket.socket, threading.Thread]] = []
        """Each connection's end here, and who carries it."""
        self._is_closed = False
        self.fault: KubeError | None = None
        """What went wrong with the latest connection, as far as anybody told; None = nothing."""

    def connect(self, timeout_seconds: float) -> socket.socket:
        """Return a new connection.

        Raises:
            ApiError: The server refused: verbs ``get`` and ``create`` on pods/portforward.
            Unreachable: It did not answer, or this is closed.
        """
        self.fault = None
        self._let_ended_go()
        near, far = socket.socketpair()
        # Its owner closes what it gets: the other descriptor of this end is for ``close`` here, at any time from now.
        given = near.dup()
        opened: SimpleQueue[KubeError | None] = SimpleQueue()
        thread = threading.Thread(target=self._carry, args=(far, opened, timeout_seconds), daemon=True, name="forward")
        with self._lock:
            if self._is_closed:
                for end in (near, far, given):
                    end.close()
                raise Unreachable(f"port-forward {self._namespace}/{self._pod}: closed")
            thread.start()  # first: ``close`` waits for whoever it finds
            self._open.append((near, thread))
        if (refused := opened.get()) is not None:
            given.close()
            raise refused
        return given

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._is_closed = True
            ending, self._open = self._open, []
        for near, _ in ending:
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)
            near.close()
        for _, thread in ending:
            thread.join(_JOIN_SECONDS)

    def _let_ended_go(self) -> None:
        """Close what is left of connections that have ended: who asks for hours makes many."""
        with self._lock:
            known = [(near, thread, thread.is_alive()) for near, thread in self._open]
            self._open = [(near, thread) for near, thread, is_alive in known if is_alive]
        for near, _, is_alive in known:
            if not is_alive:
                near.close()

    def _carry(self, far: socket.socket, opened: SimpleQueue[KubeError | None], timeout_seconds: float) -> None:
        """Carry one connection until one of its ends closes."""
        where = namespaced_path(self._namespace, "pods", self._pod, "portforward")
        query = urlencode({"ports": self._port})
        with far:  # closed last: whoever sees the end may ask at once why it ended
            try:
                with (
                    breaking_off(f"port-forward {self._namespace}/{self._pod}"),
                    open_channels(self._credentials, where, query, timeout_seconds=timeout_seconds) as channels,
                ):
                    opened.put(None)
                    try:
                        self._carry_both_ways(channels, far)
                    except EOFError:
                        self._note("the other side closed the connection")
            except KubeError as error:
                self.fault = self.fault or error
                opened.put(error)  # read by nobody where it had opened

    def _carry_both_ways(self, channels: Channels, far: socket.socket) -> None:
        parts = _Parts()
        poll = select.poll()
        poll.register(channels.fileno(), select.POLLIN)
        poll.register(far.fileno(), select.POLLIN)
        while True:
            for channel, content in channels.arrived():
                piece = parts.taken(channel, content)
                if parts.fault:
                    self.fault = None  # what came of it so far is replaced by all of it
                    self._note(one_line(parts.fault.decode("utf-8", errors="replace")))
                try:
                    far.sendall(piece)
                except OSError:  # its owner has closed it
                    channels.close()
                    return
            try:
                sent = far.recv(LONGEST_SENT_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                poll.poll()
                continue
            except OSError:
                sent = b""
            if not sent:
                channels.close()
                return
            channels.send(_DATA, sent)

    def _note(self, why: str) -> None:
        self.fault = self.fault or Unreachable(f"port-forward {self._namespace}/{self._pod}: {why}")


class _Parts:
    """What the channels bring, without the port's number at the beginning of each."""

    def __init__(self) -> None:
        self._left = {_DATA: _PORT_BYTES, _FAULT: _PORT_BYTES}
        self.fault = b""

    def taken(self, channel: int, content: bytes) -> bytes:
        """Return what a message adds to the connection's bytes."""
        left = self._left.get(channel)
        if left is None:
            return b""
        self._left[channel] = left - min(left, len(content))
        content = content[left:]
        if channel == _FAULT:
            self.fault = (self.fault + content)[:_LONGEST_FAULT_BYTES]
            return b""
        return content
