"""``plimsoll unpin``: a pod that was pinned may be sized again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.asking import SOCKET_OPTIONS
from agent.cli.holding import moment_text, order
from agent.cli.options import add_options
from agent.cli.table import harmless

if TYPE_CHECKING:
    from agent.node.holding_answers import Ordered


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("name", metavar="POD", help="name, namespace/name or uid")
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = "Exit code: 0 it is not pinned any more, 1 no agent answers, 2 bad input (an unknown pod, too)."


def run(arguments: argparse.Namespace) -> int:
    """Unpin."""
    return order(arguments, "unpin", {"name": arguments.name}, _confirm)


def _confirm(answer: Ordered) -> str:
    pod, since = harmless(str(answer.ref)), answer.held_since_unix_seconds
    if since is None:
        return f"{pod} was not pinned"
    return f"{pod} may be sized again: it was pinned since {moment_text(since)}"
