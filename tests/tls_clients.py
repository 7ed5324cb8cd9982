"""A small TLS server on loopback over given settings, and clients that check what it serves."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

from cryptography import x509


@contextlib.contextmanager
def serving(context: ssl.SSLContext) -> Iterator[int]:
    """Serve inside the block: each client that completes a handshake is sent ``hi``; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, context), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(60.0)


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as channel:
            channel.sendall(b"hi")


def served(port: int, bundle_pem: bytes, name: str | None) -> x509.Certificate:
    """Connect as an API server does, trusting the bundle alone; give the certificate that was served.

    Raises:
        ssl.SSLError: It is not by the bundle, not for the name, not good now; or none is served.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    context.load_verify_locations(cadata=bundle_pem.decode())
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60.0) as connection,
        context.wrap_socket(connection, server_hostname=name) as channel,
    ):
        der = channel.getpeercert(binary_form=True)
        assert channel.recv(2) == b"hi"
    assert der is not None
    return x509.load_der_x509_certificate(der)


def is_trusted(port: int, bundle_pem: bytes, name: str | None) -> bool:
    """Return whether a client that trusts the bundle gets through."""
    try:
        served(port, bundle_pem, name)
    except ssl.SSLError:
        return False
    return True
