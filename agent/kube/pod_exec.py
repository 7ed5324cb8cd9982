"""Run a command in a container, as ``kubectl exec`` does: the API server's WebSocket, spoken as far as that takes.

Kept apart from ``api``: nothing that runs all the time may do this, and a library for it would be the largest of all.

Source:
    RFC 6455 (WebSocket); the subprotocol v4.channel.k8s.io of Kubernetes: each message is a channel's number and bytes,
    1 output, 2 errors, 3 a Status that says how it ended.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import secrets
import socket
import ssl
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from agent.kube.credentials import Authorization, Credentials
from agent.kube.errors import Unreachable, api_error

PROTOCOL: Final = "v4.channel.k8s.io"
LONGEST_OUTPUT_BYTES: Final = 1 << 20
_STATUS: Final = 3
_OUTPUTS: Final = (1, 2)
_CLOSE: Final = 8
_PING: Final = 9
_SHORT: Final = 125
_TWO_BYTES: Final = 126


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
        namespace: Of the pod.
        pod: Its name.
        container: Which one.
        command: The program and its arguments.
        timeout_seconds: For all of it.

    Raises:
        ApiError: The server refused.
        Unreachable: It did not answer, or broke off before the end was told.
        CredentialsError: There is no token.
    """
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", one) for one in command)]
    where = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/exec"
    deadline = time.monotonic() + timeout_seconds
    try:
        with contextlib.closing(_connected(credentials, timeout_seconds)) as connection:
            _upgrade(connection, credentials, where, urlencode(query))
            return _read(_Frames(connection, deadline))
    except (OSError, EOFError) as error:
        raise Unreachable(
            f"exec {namespace}/{pod}: {str(error) or type(error).__name__}", may_have_been_done=True
        ) from error


def _connected(credentials: Credentials, timeout_seconds: float) -> socket.socket:
    address = urlsplit(credentials.server)
    host = address.hostname or ""
    context = ssl.create_default_context(cafile=None if credentials.ca_file is None else str(credentials.ca_file))
    if not credentials.is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if credentials.certificate_file is not None:
        key = credentials.key_file
        context.load_cert_chain(str(credentials.certificate_file), None if key is None else str(key))
    plain = socket.create_connection((host, address.port or 443), timeout=timeout_seconds)
    try:
        return context.wrap_socket(plain, server_hostname=credentials.server_name or host)
    except BaseException:
        plain.close()
        raise


def _upgrade(connection: socket.socket, credentials: Credentials, path: str, query: str) -> None:
    address = urlsplit(credentials.server)
    authorization = Authorization(credentials).header()
    lines = [
        f"GET {address.path.rstrip('/')}{path}?{query} HTTP/1.1",
        f"Host: {address.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(secrets.token_bytes(16)).decode()}",
        f"Sec-WebSocket-Protocol: {PROTOCOL}",
        *([f"Authorization: {authorization}"] if authorization else []),
    ]
    connection.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    answer = http.client.HTTPResponse(_Unbuffered(connection))  # type: ignore[arg-type]  # a socket as far as it asks
    try:
        answer.begin()
        if answer.status != http.client.SWITCHING_PROTOCOLS:
            raise api_error(f"GET {path}", answer.status, answer.read(), None)
    except http.client.HTTPException as error:
        raise Unreachable(f"GET {path}: the answer is no HTTP ({error!r})") from error


class _Unbuffered:
    """Hands http.client the bytes one by one, so that it takes none of what follows the head."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def makefile(self, mode: str) -> object:
        return self._connection.makefile("rb", buffering=0) if mode == "rb" else None


class _Frames:
    """Messages of the server, whole."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline

    def next(self) -> bytes | None:
        """Give the next message; None = the server closes.

        Raises:
            EOFError: It ended without.
            OSError: It broke off, or took too long.
        """
        message = b""
        while True:
            first, second = self._take(2)
            length = second & 0x7F
            if length > _SHORT:
                kind = "!H" if length == _TWO_BYTES else "!Q"
                (length,) = struct.unpack(kind, self._take(struct.calcsize(kind)))
            if length > 2 * LONGEST_OUTPUT_BYTES:
                raise OSError(f"a message of {length} bytes")
            content = self._take(length)
            code = first & 0x0F
            if code == _CLOSE:
                return None
            if code >= _CLOSE:
                if code == _PING:
                    self._connection.sendall(_masked(0x8A, content[:_SHORT]))
                continue
            message += content
            if first & 0x80:
                return message

    def _take(self, count: int) -> bytes:
        pieces = b""
        while len(pieces) < count:
            left_seconds = self._deadline - time.monotonic()
            if left_seconds <= 0:
                raise TimeoutError("timed out")
            self._connection.settimeout(left_seconds)
            piece = self._connection.recv(count - len(pieces))
            if not piece:
                raise EOFError("the connection ended before the command did")
            pieces += piece
        return pieces


def _masked(first: int, content: bytes) -> bytes:
    mask = secrets.token_bytes(4)
    return bytes((first, 0x80 | len(content))) + mask + bytes(one ^ mask[at % 4] for at, one in enumerate(content))


def _read(frames: _Frames) -> Executed:
    output = b""
    status: bytes | None = None
    while status is None:
        message = frames.next()
        if message is None:
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
