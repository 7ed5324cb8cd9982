"""Run a command in a container, as ``kubectl exec`` does: the API server's WebSocket.

Source:
    The channels of pods/exec: 0 input, 1 output, 2 errors, 3 a Status that says how it ended, 4 the terminal's size.
"""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlencode

from agent.kube.client.credentials import Credentials
from agent.kube.client.paths import namespaced_path
from agent.kube.client.pod_channels import Channels, breaking_off, open_channels

LONGEST_OUTPUT_BYTES: Final = 1 << 20
_INPUT: Final = 0
_SIZE: Final = 4
_STATUS: Final = 3
_OUTPUTS: Final = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
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
) -> CommandEnd:
    """Run a command and wait for its end.

    Args:
        credentials: Where, and as whom: verbs ``get`` and ``create`` on pods/exec.

    Raises:
        ApiError: The server refused.
        Unreachable: It did not answer, or broke off before the end was told.
        CredentialsError: There is no token.
    """
    where, query = _request(namespace, pod, container, command)
    with (
        breaking_off(f"exec {namespace}/{pod}"),
        open_channels(credentials, where, urlencode(query), timeout_seconds=timeout_seconds) as channels,
    ):
        return _read(channels)


class Console(Protocol):
    """The terminal that a command is given."""

    def descriptors(self) -> Sequence[int]:
        """Return what tells, when polled, that ``typed`` or ``size`` has news."""

    def typed(self) -> bytes | None:
        """Return what was typed, without waiting; None = nobody will type any more."""

    def size(self) -> tuple[int, int] | None:
        """Return columns and rows where they are not those that were returned before."""


def converse(
    credentials: Credentials,
    *,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    show: Callable[[int, bytes], None],
    console: Console | None = None,
    connect_seconds: float = 20.0,
) -> CommandEnd:
    """Run a command for as long as it takes, and hand on what it writes as it comes.

    Args:
        credentials: Where, and as whom: verbs ``get`` and ``create`` on pods/exec.
        show: Gets 1 for output or 2 for errors, and the bytes.
        console: The terminal that the command is to have; None = it has none, and no input.
        connect_seconds: For the connection alone.

    Returns:
        How it ended; ``output`` is empty. Code None also where nobody will type any more: it was told to end.

    Raises:
        As ``execute``.
    """
    where, query = _request(namespace, pod, container, command)
    if console is not None:
        query = [("stdin", "true"), ("tty", "true"), *(part for part in query if part[0] != "stderr")]
    with (
        breaking_off(f"exec {namespace}/{pod}"),
        open_channels(credentials, where, urlencode(query), timeout_seconds=connect_seconds) as channels,
    ):
        return _conversed(channels, show, console)


def _conversed(channels: Channels, show: Callable[[int, bytes], None], console: Console | None) -> CommandEnd:
    poll = select.poll()
    for descriptor in (channels.fileno(), *(console.descriptors() if console is not None else ())):
        poll.register(descriptor, select.POLLIN)
    is_told = False
    try:
        while True:
            for channel, content in channels.arrived():
                if channel in _OUTPUTS:
                    show(channel, content)
                elif channel == _STATUS:
                    is_told = True
                    code, fault = _end_of(content)
                    return CommandEnd(code=code, output="", fault=fault)
            if console is not None:
                if (size := console.size()) is not None:
                    channels.send(_SIZE, json.dumps({"Width": size[0], "Height": size[1]}).encode())
                typed = console.typed()
                if typed is None:
                    return CommandEnd(code=None, output="", fault="the terminal went away")
                channels.send(_INPUT, typed)
            poll.poll()
    finally:
        if console is not None and not is_told:
            # Runtimes leave a command running whose connection has gone: it is interrupted as by Ctrl-C.
            channels.send(_INPUT, b"\x03")


def _request(namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    query = [
        ("container", container),
        ("stdout", "true"),
        ("stderr", "true"),
        *(("command", word) for word in command),
    ]
    return namespaced_path(namespace, "pods", pod, "exec"), query


def _read(channels: Channels) -> CommandEnd:
    output = b""
    while True:
        channel, content = channels.receive()
        if channel in _OUTPUTS:
            output = (output + content)[:LONGEST_OUTPUT_BYTES]
        elif channel == _STATUS:
            code, fault = _end_of(content)
            return CommandEnd(code=code, output=output.decode("utf-8", errors="replace"), fault=fault)


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
