"""A WebSocket to a part of a pod (pods/exec, pods/portforward), as numbered channels of bytes.

Kept apart from ``api``: nothing that runs all the time may open one. The library is loaded with the first.

Source:
    RFC 6455 (WebSocket); the subprotocol v4.channel.k8s.io of Kubernetes: each message is a channel's number and bytes.
    API servers from 1.30 to 1.37 hand it to the kubelet as it is, which takes it for commands and for ports.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from agent.kube.client.credentials import Authorization, Credentials
from agent.kube.client.errors import CredentialsError, Unreachable, api_error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from websocket import WebSocket

PROTOCOL: Final = "v4.channel.k8s.io"
MOST_MESSAGE_BYTES: Final = 2 << 20
"""Of one message, and of the head before the first one."""
LONGEST_SENT_BYTES: Final = 1 << 14
"""Of one message to the pod: containers' runtimes read into a buffer of about that size."""
_SEND_SECONDS: Final = 20.0
"""How long a server may take to make room for what is sent."""


class _BoundedSocket(ssl.SSLSocket):
    """A connection with one deadline for all that is waited for, and a bound on what may still come.

    The library waits as long again for each piece, and takes as many bytes as a message says it has.
    """

    deadline: float = 0.0
    """On the monotonic clock."""
    left_bytes: int = MOST_MESSAGE_BYTES
    """To be received before somebody sets it anew."""
    waits: bool = True
    """False = a piece that is not there yet is SSLWantReadError, and the library goes on where it stopped."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive within both bounds.

        Raises:
            EOFError: It ended.
            OSError: It broke off, took too long, sends too much; SSLWantReadError where nobody waits.
        """
        left_seconds = self.deadline - time.monotonic() if self.waits else 0.0
        if self.waits and left_seconds <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left_seconds)
        piece = super().recv(buflen, flags)
        if not piece:
            raise EOFError("the connection ended too early")
        self.left_bytes -= len(piece)
        if self.left_bytes < 0:
            raise OSError(f"a message of more than {MOST_MESSAGE_BYTES} bytes")
        return piece

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        """Send, unless nobody is there any more: an API server that has told the end does not wait for an answer."""
        until = time.monotonic() + _SEND_SECONDS
        while True:
            try:
                return super().send(data, flags)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError) as error:
                wanted = select.POLLOUT if isinstance(error, ssl.SSLWantWriteError) else select.POLLIN
                poll = select.poll()
                poll.register(self, wanted)
                left_seconds = until - time.monotonic()
                if left_seconds <= 0 or not poll.poll(left_seconds * 1000):
                    raise TimeoutError("timed out") from error
            except OSError:  # what it said before is read first; then its end is seen there
                return memoryview(data).nbytes


class Channels:
    """The channels of one connection; for one thread."""

    def __init__(self, connection: _BoundedSocket, web_socket: WebSocket) -> None:
        self._connection, self._web_socket = connection, web_socket

    def fileno(self) -> int:
        """Return what to poll before ``arrived``."""
        return self._connection.fileno()

    def send(self, channel: int, content: bytes) -> None:
        """Send bytes on a channel, in as many messages as it takes."""
        for begin in range(0, len(content), LONGEST_SENT_BYTES):
            self._web_socket.send_binary(bytes((channel,)) + content[begin : begin + LONGEST_SENT_BYTES])

    def receive(self) -> tuple[int, bytes]:
        """Wait, until the deadline at most, for the next message that is not empty; return its channel and bytes.

        Raises:
            EOFError: The other side closed.
        """
        from websocket import ABNF

        while True:
            opcode, message = self._web_socket.recv_data()
            self._connection.left_bytes = MOST_MESSAGE_BYTES
            if opcode == ABNF.OPCODE_CLOSE:
                raise EOFError("the server closed before it told how the command ended")
            if message:
                return message[0], message[1:]

    def arrived(self) -> Iterator[tuple[int, bytes]]:
        """Return the messages that are there, without waiting for more; EOFError as ``receive``."""
        self._connection.waits = False
        self._connection.settimeout(0.0)  # of another one the library waits so long, and then calls it late
        while True:
            try:
                message = self.receive()
            except ssl.SSLWantReadError:
                return
            yield message

    def close(self) -> None:
        """Notify the other side, as far as it listens, and end the connection."""
        with contextlib.suppress(OSError, EOFError, ValueError), breaking_off("close"):
            self._web_socket.send_close()
        self._connection.close()


@contextlib.contextmanager
def breaking_off(what: str) -> Iterator[None]:
    """Raise what goes wrong with a connection inside the block as Unreachable, in words."""
    from websocket import WebSocketException, WebSocketTimeoutException

    try:
        yield
    except (OSError, EOFError, WebSocketException) as error:
        is_late = isinstance(error, WebSocketTimeoutException | TimeoutError)  # the latter before there is a WebSocket
        reason = "timed out" if is_late else str(error) or type(error).__name__
        raise Unreachable(f"{what}: {reason}", may_have_been_done=True) from error


@contextlib.contextmanager
def open_channels(credentials: Credentials, path: str, query: str, *, timeout_seconds: float) -> Iterator[Channels]:
    """Open the channels of a pod's subresource for the block.

    Args:
        credentials: Where, and as whom: verbs ``get`` and ``create`` on the subresource.
        timeout_seconds: For the connection, and for all that ``receive`` waits for.

    Raises:
        ApiError: The server refused.
        Unreachable: The answer is no WebSocket.
        OSError, EOFError, WebSocketException: It broke off, see ``breaking_off``.
        CredentialsError: There is no token, or the server is none to speak TLS with.
    """
    with _connected(credentials, time.monotonic() + timeout_seconds) as connection:
        channels = Channels(connection, _upgraded(connection, credentials, path, query))
        yield channels


def _connected(credentials: Credentials, deadline: float) -> _BoundedSocket:
    address = urlsplit(credentials.server)
    host = address.hostname or ""
    if address.scheme != "https":
        raise CredentialsError(
            f"{credentials.origin}: server {credentials.server!r} is not allowed (https://HOST:PORT)"
        )
    context = ssl.create_default_context(cafile=None if credentials.ca_file is None else str(credentials.ca_file))
    context.sslsocket_class = _BoundedSocket
    if not credentials.is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if credentials.certificate_file is not None:
        key = credentials.key_file
        context.load_cert_chain(str(credentials.certificate_file), None if key is None else str(key))
    left_seconds = max(deadline - time.monotonic(), 0.001)  # less than 0 is refused, and 0 does not wait for anything
    plain = socket.create_connection((host, address.port or 443), timeout=left_seconds)
    with contextlib.ExitStack() as undone:
        undone.callback(plain.close)
        connection = context.wrap_socket(plain, server_hostname=credentials.server_name or host)
        undone.pop_all()
    bounded = cast("_BoundedSocket", connection)
    bounded.deadline = deadline
    return bounded


def _upgraded(connection: _BoundedSocket, credentials: Credentials, path: str, query: str) -> WebSocket:
    from websocket import WebSocket, WebSocketBadStatusException, WebSocketException, WebSocketTimeoutException

    address = urlsplit(credentials.server)
    authorization = Authorization(credentials).header()
    channels = WebSocket(skip_utf8_validation=True)
    try:
        channels.connect(  # type: ignore[no-untyped-call]  # without types in an otherwise typed library
            f"wss://{address.netloc}{address.path.rstrip('/')}{path}?{query}",
            socket=connection,
            host=address.netloc,
            header=[f"Authorization: {authorization}"] if authorization else [],
            subprotocols=[PROTOCOL],
            suppress_origin=True,
            redirect_limit=0,  # a token goes to the server that it is for, and nowhere else
        )
    except WebSocketBadStatusException as error:
        # It has no status where the head is empty.
        raise api_error(f"GET {path}", error.status_code or 0, error.resp_body or b"") from error
    except WebSocketTimeoutException:
        raise
    except WebSocketException as error:
        if (status := channels.getstatus()) is not None:  # a redirect
            raise api_error(f"GET {path}", status, b"") from error
        raise Unreachable(f"GET {path}: the answer is no WebSocket ({error})") from error
    return channels
