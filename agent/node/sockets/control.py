"""The unix socket through which ``plimsoll top`` and the other verbs ask a running agent, API server or not.

One line of JSON in, one line of JSON out, then the connection closes:
``{"verb": "snapshot", "arguments": {}}`` -> ``{"ok": true, "result": {...}}`` or ``{"ok": false, "error": "..."}``,
with ``"refused": true`` where the verb's arguments are to blame and asking again is no use.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from agent.node.sockets.loop import Deferred

MAX_REQUEST_BYTES: Final = 64 * 1024
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""A snapshot of 20,000 containers is 30 MB; beyond this the other side is no agent."""
MAX_VERBS_AT_ONCE: Final = 4
MODE: Final = 0o600
BACKLOG: Final = 16
CONNECT_SECONDS: Final = 1.0
"""To find out whether somebody listens on a socket that is already there."""

Verb = Callable[[Mapping[str, object]], Mapping[str, object]]
"""Takes the request's arguments, gives the result; what is wrong with the arguments it says by ControlError."""


_ASKER: Final[ContextVar[str | None]] = ContextVar("asker", default=None)


def asker() -> str | None:
    """Return who asked for what the calling thread does for the socket, ``root (uid 0)``; None = nobody did."""
    return _ASKER.get()


class ControlError(Exception):
    """The socket or the request cannot be served; one line that names the path or the value."""

    exit_code = 2


class SocketInUse(ControlError):  # noqa: N818 - a state of the world, named as one
    """Another agent answers at this path."""


class NoAgent(ControlError):  # noqa: N818
    """Nobody answers at this path."""


class Unable(ControlError):  # noqa: N818
    """The agent does nothing of the kind, whatever the arguments are: nobody answers such a question there."""


class Refused(ControlError):  # noqa: N818
    """The agent answers that an argument is wrong: a name that nothing goes by, a value out of its range."""

    def __init__(self, socket_path: Path, verb: str, reason: str) -> None:
        # Most verbs name themselves.
        self.reason: Final = reason.removeprefix(f"{verb}: ")
        super().__init__(f"agent at {socket_path}: {verb}: {self.reason}")


def open_control_listener(path: Path, *, makes_parents: bool = False) -> socket.socket:
    """Bind the socket, mode 0600, in a directory that is made 0700 if need be. One that nobody listens on is replaced.

    Args:
        makes_parents: Make what the directory stands in as well: for a place that nobody typed.

    Raises:
        SocketInUse: An agent listens there; the message names it.
        ControlError: Something that is no socket is in the way, or the place may not be used.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=makes_parents, exist_ok=True)
        _clear_way(path)
        listener.bind(str(path))
        # Between bind and listen nobody can connect, so nobody can before the mode is right.
        path.chmod(MODE)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ControlError(f"control socket {path}: {(error.strerror or str(error)).lower()}") from error
    except ControlError:
        listener.close()
        raise
    return listener


def _clear_way(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ControlError(f"control socket {path}: something that is no socket is in the way; remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except (TimeoutError, BlockingIOError):
            raise SocketInUse(f"control socket {path}: another agent listens there and does not answer") from None
        pid, uid = _peer(probe)
    raise SocketInUse(f"control socket {path}: another agent listens there: process {pid} ({_command(pid)}), uid {uid}")


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return (pid, uid) of the other side as the kernel knows them."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return int(pid), int(uid)


def _user_text(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:  # of another machine, or of an image without names
        return f"uid {uid}"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:120]
    except OSError:
        return "command not readable"


class ControlEndpoint:
    """The verbs of a running agent, as an ``Endpoint`` of the listening loop."""

    def __init__(self, listener: socket.socket, verbs: Mapping[str, Verb]) -> None:
        self.listener = listener
        self.name = "control"
        self.max_request_bytes = MAX_REQUEST_BYTES
        self._verbs = dict(verbs)
        self._slots = threading.BoundedSemaphore(MAX_VERBS_AT_ONCE)
        self._path = Path(listener.getsockname())
        self._inode = self._path.stat().st_ino

    def admits(self, connection: socket.socket) -> bool:
        """Take root and the agent's own user, whatever the file's mode has become."""
        return _peer(connection)[1] in (0, os.geteuid())

    def request_end(self, received: bytearray) -> int | None:
        """Find the end of the line."""
        at = received.find(b"\n")
        return at + 1 if at >= 0 else None

    def answer(self, request: bytes, connection: socket.socket) -> bytes | Deferred:
        """Find the verb and let a worker carry it out, in the name of who asks."""
        try:
            verb, arguments = self._parse(request)
            uid = _peer(connection)[1]
        except ControlError as error:
            return _failure(str(error))
        if not self._slots.acquire(blocking=False):
            return _failure(f"{MAX_VERBS_AT_ONCE} requests are under way; try again")

        def work() -> bytes:
            _ASKER.set(_user_text(uid))  # of this worker's thread alone, which ends with the request
            try:
                result = verb(arguments)
            except ControlError as error:
                return _failure(str(error), is_refusal=True, is_unable=isinstance(error, Unable))
            return _line({"ok": True, "result": dict(result)})

        return Deferred(work, self._slots.release)

    def refuse_too_large(self) -> bytes:
        """Name the limit."""
        return _failure(f"the request is too long; allowed: one line of at most {MAX_REQUEST_BYTES} bytes")

    def refuse_too_slow(self) -> bytes:
        """Return what was missing."""
        return _failure("the request did not arrive in time; allowed: one line of JSON, ended by a newline")

    def refuse_failed(self) -> bytes:
        """Point to the log."""
        return _failure("the agent failed on this request; see its log")

    def close(self) -> None:
        """Stop to listen and remove the socket file, unless another has been put in its place."""
        if self.listener.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        self.listener.close()

    def _parse(self, request: bytes) -> tuple[Verb, Mapping[str, object]]:
        try:
            content: object = json.loads(request)
        except (ValueError, RecursionError):
            raise ControlError("the request is not JSON; allowed: one line with a JSON object") from None
        if not isinstance(content, dict):
            raise ControlError('the request is no JSON object; allowed: {"verb": ..., "arguments": {...}}')
        strange = sorted(set(content) - {"verb", "arguments"})
        if strange:
            raise ControlError(f"the request has the unknown key {strange[0][:40]!r}; allowed: verb, arguments")
        name, arguments = content.get("verb"), content.get("arguments", {})
        if not isinstance(name, str) or name not in self._verbs:
            shown = repr(name)[:60]
            raise ControlError(f"verb {shown} is unknown; allowed: {', '.join(sorted(self._verbs))}")
        if not isinstance(arguments, dict):
            raise ControlError(f"arguments of {name} are no JSON object")
        return self._verbs[name], arguments


# allow_nan=False: a number that is not finite is a bug here and no JSON anywhere
_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_PIECES_DEPTH: Final = 4
"""Deep enough for {"result": {"snapshot": {"units": [...]}}}."""


def _pieces(value: object, depth: int = 0) -> Iterator[str]:
    """Write JSON in pieces of about one container each.

    The C encoder keeps the GIL for a whole value: 0.1 s for a snapshot of 1,000 containers, in which no sweep could
    begin. Between pieces the sampler's thread gets its turn.
    """
    if depth < _PIECES_DEPTH and value and isinstance(value, dict):
        for index, (key, inner) in enumerate(value.items()):
            yield f"{',' if index else '{'}{_encode(str(key))}:"
            yield from _pieces(inner, depth + 1)
        yield "}"
    elif depth < _PIECES_DEPTH and value and isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield "," if index else "["
            yield _encode(inner)
        yield "]"
    else:
        yield _encode(value)


def _line(content: Mapping[str, object]) -> bytes:
    return "".join(_pieces(content)).encode() + b"\n"


def _failure(message: str, *, is_refusal: bool = False, is_unable: bool = False) -> bytes:
    kind = {"unable": True} if is_unable else {"refused": True} if is_refusal else {}
    return _line({"ok": False, "error": " ".join(message.split()), **kind})


def request(
    socket_path: Path, verb: str, arguments: Mapping[str, object] | None = None, *, timeout_seconds: float = 5.0
) -> dict[str, object]:
    """Ask a running agent.

    Args:
        timeout_seconds: For the whole exchange.

    Raises:
        NoAgent: Nobody listens there.
        Refused: An argument is wrong.
        ControlError: No right to ask, no answer in time, or the agent cannot serve the request; one line.
    """
    line = _line({"verb": verb, "arguments": dict(arguments or {})})
    if len(line) > MAX_REQUEST_BYTES:
        raise ControlError(f"the request {verb} has {len(line)} bytes; allowed: at most {MAX_REQUEST_BYTES}")
    deadline = time.monotonic() + timeout_seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(timeout_seconds)
            connection.connect(str(socket_path))
            answer = _exchange(connection, line, deadline)
        except FileNotFoundError:
            raise NoAgent(
                f"no agent at {socket_path}: there is no such socket; start one with plimsoll run or agent"
            ) from None
        except ConnectionRefusedError:
            raise NoAgent(f"no agent at {socket_path}: the socket is left over, nobody listens on it") from None
        except PermissionError:
            raise ControlError(
                f"agent at {socket_path}: permission denied; ask as root or as the agent's user"
            ) from None
        except TimeoutError:
            raise ControlError(f"agent at {socket_path}: no answer to {verb} within {timeout_seconds:g} s") from None
        except OSError as error:
            raise ControlError(f"agent at {socket_path}: {error.strerror or error}") from error
    return _result_of(answer, socket_path, verb)


def _exchange(connection: socket.socket, line: bytes, deadline: float) -> bytes:
    with contextlib.suppress(BrokenPipeError):  # a refusal may be waiting to be read
        connection.sendall(line)
    chunks: list[bytes] = []
    received = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        chunk = connection.recv(1 << 18)
        chunks.append(chunk)
        received += len(chunk)
        if not chunk or chunk.endswith(b"\n") or received > MAX_RESPONSE_BYTES:
            return b"".join(chunks)


def _result_of(answer: bytes, socket_path: Path, verb: str) -> dict[str, object]:
    if not answer.endswith(b"\n"):
        what = "closed without an answer" if not answer else "gave an answer that is cut or too long"
        raise ControlError(f"agent at {socket_path}: {what} to {verb}")
    try:
        content: object = json.loads(answer)
    except (ValueError, RecursionError):
        raise ControlError(f"agent at {socket_path}: gave an answer to {verb} that is not JSON") from None
    if isinstance(content, dict):
        result = content.get("result")
        if content.get("ok") is True and isinstance(result, dict):
            return result
        if content.get("ok") is False:
            if content.get("refused") is True:
                raise Refused(socket_path, verb, str(content.get("error")))
            if content.get("unable") is True:
                raise Unable(f"agent at {socket_path}: {content.get('error')}")
            raise ControlError(f"agent at {socket_path}: {verb}: {content.get('error')}")
    raise ControlError(f"agent at {socket_path}: gave an answer to {verb} that is not understood")
