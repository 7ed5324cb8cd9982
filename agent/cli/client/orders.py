"""What ``pause``, ``resume``, ``pin``, ``unpin`` and ``restore`` share: time words in, one line of confirmation out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent.cli.client.agent import NoAnswerError, ask, no_answer
from agent.cli.options.settings_options import fail
from agent.cli.words.moments import span_argument

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.node.orders.answers import OrderAnswer


def add_for(parser: argparse.ArgumentParser, without: str) -> None:
    """Declare ``--for``; ``without`` is what holds without it."""
    parser.add_argument(
        "--for", dest="for_seconds", metavar="TIME", type=span, help=f"90s, 30m, 2h, 1d (default: {without})"
    )


def span(text: str) -> float:
    """Read the length of a hold, for ``type=`` of an argument."""
    seconds = span_argument(text)
    if seconds > 366 * 86_400.0:
        raise argparse.ArgumentTypeError(f"{text!r} is too long; allowed: up to 366d, or without an end")
    return seconds


def one_or_all(arguments: argparse.Namespace, verb: str) -> bool:
    """Return whether ``--all`` was given, and no pod; both or neither is one line on stderr and code 2."""
    is_all: bool = arguments.all
    if is_all == (arguments.name is not None):
        fail(
            f"{verb}: {'both POD and --all are' if is_all else 'neither POD nor --all is'} given; allowed: one of them"
        )
    return is_all


def order(
    arguments: argparse.Namespace, verb: str, asked: Mapping[str, object], confirm: Callable[[OrderAnswer], str]
) -> int:
    """Return an order to the agent and confirm it on one line; return the exit code."""
    from agent.node.orders.answers import ORDERED

    try:
        answer = ask(arguments, verb, {key: value for key, value in asked.items() if value is not None}, ORDERED)
    except NoAnswerError as error:
        return no_answer(verb, error)
    print(confirm(answer))
    warn(verb, answer.notes)
    return 0


def warn(verb: str, notes: Sequence[str]) -> None:
    """Print on stderr what is wrong beside the answer."""
    for note in notes:
        print(f"plimsoll {verb}: {note}", file=sys.stderr)


def until_text(until_unix_seconds: float | None, otherwise: str) -> str:
    """Return how long something holds."""
    return otherwise if until_unix_seconds is None else f"until {moment_text(until_unix_seconds)}"


def moment_text(unix_seconds: float) -> str:
    """Return a moment in local time."""
    return f"{datetime.fromtimestamp(unix_seconds, tz=UTC).astimezone():%Y-%m-%d %H:%M:%S}"
