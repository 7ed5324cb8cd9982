"""A wire to the API server that can be cut: bytes go through as they come, TLS stays between client and server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

_PIECE_BYTES: Final = 1 << 16


class Wire:
    """Listens on 127.0.0.1 and hands every connection on. ``wire`` starts and ends it."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        assert address.port is not None
        self._target = (address.hostname, address.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_refusing = False
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> None:
        """Break every connection; new ones go through."""
        with self._lock:
            broken = list(self._open)
        _shut(*broken)

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Break every connection, and each new one, inside the block."""
        with self._lock:
            self._is_refusing = True
        self.cut()
        try:
            yield
        finally:
            with self._lock:
                self._is_refusing = False

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                is_refusing = self._is_refusing
            far = None
            if not is_refusing:
                with contextlib.suppress(OSError):
                    far = socket.create_connection(self._target)
            if far is None:
                near.close()
                continue
            with self._lock:
                self._open |= {near, far}
                is_late = self._is_refusing  # `down` has cut the others meanwhile
            if is_late:
                _shut(near, far)
            for source, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, other), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                target.sendall(piece)
        _shut(source, target)
        with self._lock:
            self._open.discard(source)
        source.close()


def _shut(*connections: socket.socket) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wire(url: str) -> Iterator[Wire]:
    """Have a wire to a server inside the block."""
    link = Wire(url)
    try:
        yield link
    finally:
        link.close()
