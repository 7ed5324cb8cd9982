"""Run a command in a container, as ``kubectl exec`` does: the API server's WebSocket.

Kept apart from ``api``: nothing that runs all the time may do this. The library is loaded with the first command.

Source:
    RFC 6455 (WebSocket); the subprotocol v4.channel.k8s.io of Kubernetes: each message is a channel's number and bytes,
    1 output, 2 errors, 3 a Status that says how it ended.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlencode, urlsplit

from agent.kube.credentials import Authorization, Credentials
from agent.kube.errors import Unreachable, api_error
from agent.kube.paths import namespaced_path

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from websocket import WebSocket

PROTOCOL: Final = "v4.channel.k8s.io"
LONGEST_OUTPUT_BYTES: Final = 1 << 20
_MOST_MESSAGE_BYTES: Final = 2 * LONGEST_OUTPUT_BYTES
"""Of one message, and of the head before the first one."""
_STATUS: Final = 3
_OUTPUTS: Final = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """How a command ended."""

    code: int | None
    """Its exit code; None = it could not be run, or nobody knows."""
    output: str
    """What it wrote, output and errors in the order in which they came, cut at ``LONGEST_OUTPUT_BYTES``."""
    fault: str | None
    """What the server says of an end that was not good."""


def execute(
    credentials: Credentials,
    *,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    timeout_seconds: float,
) -> Executed:
    """Run a command and wait for its end.

    Args:
        credentials: Where, and as whom: verbs ``get`` and ``create`` on pods/exec.

    Raises:
        ApiError: The server refused.
        Unreachable: It did not answer, or broke off before the end was told.
        CredentialsError: There is no token.
    """
    from websocket import WebSocketException, WebSocketTimeoutException

    query = [
        ("container", container),
        ("stdout", "true"),
        ("stderr", "true"),
        *(("command", word) for word in command),
    ]
    where = namespaced_path(namespace, "pods", pod, "exec")
    try:
        with _connected(credentials, time.monotonic() + timeout_seconds) as connection:
            return _read(_upgraded(connection, credentials, where, urlencode(query)), connection)
    except (OSError, EOFError, WebSocketException) as error:
        is_late = isinstance(error, WebSocketTimeoutException)
        reason = "timed out" if is_late else str(error) or type(error).__name__
        raise Unreachable(f"exec {namespace}/{pod}: {reason}", may_have_been_done=True) from error


class _BoundedSocket(ssl.SSLSocket):
    """A connection with one deadline for all that is waited for, and a bound on what may still come.

    The library waits as long again for each piece, and takes as many bytes as a message says it has.
    """

    deadline: float = 0.0
    """On the monotonic clock."""
    left_bytes: int = _MOST_MESSAGE_BYTES
    """To be received before somebody sets it anew."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive within both bounds.

        Raises:
            EOFError: It ended.
            OSError: It broke off, took too long, or sends too much.
        """
        left_seconds = self.deadline - time.monotonic()
        if left_seconds <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left_seconds)
        piece = super().recv(buflen, flags)
        if not piece:
            raise EOFError("the connection ended before the command did")
        self.left_bytes -= len(piece)
        if self.left_bytes < 0:
            raise OSError(f"a message of more than {_MOST_MESSAGE_BYTES} bytes")
        return piece

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        """Send, unless nobody is there any more: an API server that has told the end does not wait for an answer."""
        with contextlib.suppress(OSError):  # what it said before is read first; then its end is seen there
            return super().send(data, flags)
        return memoryview(data).nbytes


def _connected(credentials: Credentials, deadline: float) -> _BoundedSocket:
    address = urlsplit(credentials.server)
    host = address.hostname or ""
    context = ssl.create_default_context(cafile=None if credentials.ca_file is None else str(credentials.ca_file))
    context.sslsocket_class = _BoundedSocket
    if not credentials.is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if credentials.certificate_file is not None:
        key = credentials.key_file
        context.load_cert_chain(str(credentials.certificate_file), None if key is None else str(key))
    plain = socket.create_connection((host, address.port or 443), timeout=deadline - time.monotonic())
    try:
        connection = context.wrap_socket(plain, server_hostname=credentials.server_name or host)
    except BaseException:
        plain.close()
        raise
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


def _read(channels: WebSocket, connection: _BoundedSocket) -> Executed:
    from websocket import ABNF

    output = b""
    status: bytes | None = None
    while status is None:
        connection.left_bytes = _MOST_MESSAGE_BYTES
        opcode, message = channels.recv_data()
        if opcode == ABNF.OPCODE_CLOSE:
            raise EOFError("the server closed before it told how the command ended")
        if message[:1] and message[0] in _OUTPUTS:
            output = (output + message[1:])[:LONGEST_OUTPUT_BYTES]
        elif message[:1] and message[0] == _STATUS:
            status = message[1:]
    code, fault = _end_of(status)
    return Executed(code=code, output=output.decode("utf-8", errors="replace"), fault=fault)


def _end_of(status: bytes) -> tuple[int | None, str | None]:
    try:
        document: object = json.loads(status)
    except ValueError:
        return None, "how it ended is not understood"
    if not isinstance(document, dict):
        return None, "how it ended is not understood"
    if document.get("status") == "Success":
        return 0, None
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else []:
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
            return int(str(cause["message"])), str(document.get("message"))
    return None, str(document.get("message"))
