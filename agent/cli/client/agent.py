"""One question to the running agent, and what it is worth telling when there is no answer. Face."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from agent.cli.options.settings_options import Option, fail, settings_from

if TYPE_CHECKING:
    from agent.node.files.documents import Document

SOCKET_OPTIONS: Final = (Option("--socket", "serving.socket", "PATH", "unix socket of the agent"),)
Kind = TypeVar("Kind")


class NoAnswerError(Exception):
    """No answer came; one line."""

    def __init__(self, message: str, *, is_absent: bool = False) -> None:
        super().__init__(message)
        self.is_absent: Final = is_absent
        """There is no agent at all, unlike one that will not answer."""


class RefusedError(Exception):
    """The agent takes an argument to be wrong; one line."""


def ask(
    arguments: argparse.Namespace,
    verb: str,
    asked: Mapping[str, object],
    document: Document[Kind],
    *,
    timeout_seconds: float = 5.0,
    told_as: str | None = None,
) -> Kind:
    """Ask the agent; ``told_as`` is the command's verb for messages, where it is another one.

    Raises:
        NoAnswerError: Nobody answers, or not in this release's words.
        SystemExit: The agent takes an argument to be wrong; one line, code 2.
    """
    try:
        return ask_or_refuse(arguments, verb, asked, document, timeout_seconds=timeout_seconds)
    except RefusedError as error:
        fail(f"{told_as or verb}: {error}")


def ask_or_refuse(
    arguments: argparse.Namespace,
    verb: str,
    asked: Mapping[str, object],
    document: Document[Kind],
    *,
    timeout_seconds: float = 5.0,
) -> Kind:
    """Ask the agent; as ``ask``, for one question of several.

    Raises:
        NoAnswerError: Nobody answers, or not in this release's words.
        RefusedError: An argument is wrong.
    """
    from agent.node.files.documents import DocumentFormatError
    from agent.node.sockets.control import ControlError, NoAgent, Refused, request

    socket_path = settings_from(arguments).serving.socket
    if socket_path is None:
        raise NoAnswerError("serving.socket is none: there is no agent to ask", is_absent=True)
    try:
        return document.from_json(request(socket_path, verb, asked, timeout_seconds=timeout_seconds))
    except Refused as error:
        raise RefusedError(error.reason) from error
    except ControlError as error:
        raise NoAnswerError(str(error), is_absent=isinstance(error, NoAgent)) from error
    except DocumentFormatError as error:
        raise NoAnswerError(f"agent at {socket_path}: {error}") from error


def no_answer(verb: str, error: NoAnswerError) -> int:
    """Print that there is no answer; return the exit code."""
    print(f"plimsoll {verb}: {error}", file=sys.stderr)
    return 1
