"""What kube-proxy would do for one Service: its address leads each new connection to one of the ready pods."""

from __future__ import annotations

import contextlib
import itertools
import socket
import subprocess
import threading
from collections.abc import Iterator

Address = tuple[str, int]


class ServiceAddress:
    """Relays connections, each to the next of the ports that are led to; who is connected stays where he is."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ports: tuple[int, ...] = ()
        self._turn = itertools.count()
        self._lock = threading.Lock()
        self._relays: list[tuple[threading.Thread, socket.socket, socket.socket]] = []

    def lead_to(self, *ports: int) -> None:
        """Name the ports on loopback that new connections go to from now on."""
        self._ports = ports

    def connections(self) -> int:
        """Return how many connections were ever led on."""
        with self._lock:
            return len(self._relays)

    def run(self) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            ports = self._ports
            try:
                server = socket.create_connection(("127.0.0.1", ports[next(self._turn) % len(ports)]))
            except (OSError, ZeroDivisionError):
                client.close()
                continue
            relay = threading.Thread(target=_relay, args=(client, server), daemon=True)
            with self._lock:
                self._relays.append((relay, client, server))
            relay.start()

    def end(self) -> None:
        """Cut every connection."""
        with self._lock:
            for relay, *sides in self._relays:
                for side in sides:
                    with contextlib.suppress(OSError):
                        side.shutdown(socket.SHUT_RDWR)
                relay.join()


def _relay(client: socket.socket, server: socket.socket) -> None:
    with client, server:
        for connection in (client, server):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
        back.start()
        _pass_on(client, server)
        back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while received := source.recv(65536):
            target.sendall(received)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # Cut off, not ended: neither side goes on.
        for connection in (source, target):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def service_address(address: str, port: int = 443) -> Iterator[ServiceAddress]:
    """Have this machine answer at a Service's address inside the block (root)."""
    subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], capture_output=True, check=True)
    try:
        with socket.create_server((address, port), backlog=128) as listener:
            service = ServiceAddress(listener)
            thread = threading.Thread(target=service.run, daemon=True)
            thread.start()
            try:
                yield service
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()
                service.end()
    finally:
        subprocess.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"], capture_output=True, check=False)
