"""``plimsoll unpin``: a pod that was pinned may be sized again; or all of them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.client.agent import SOCKET_OPTIONS, NoAnswerError, ask, no_answer
from agent.cli.client.orders import moment_text, one_or_all, order, warn
from agent.cli.options.settings_options import add_options
from agent.cli.text.spans import harmless

if TYPE_CHECKING:
    from agent.node.orders.answers import OrderAnswer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("name", metavar="POD", nargs="?", help="name, namespace/name, uid or workload")
    parser.add_argument("--all", action="store_true", help="every pod that is pinned on this node")
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = "Exit code: 0 not pinned any more, 1 no agent answers, 2 bad input (also an unknown pod)."


def run(arguments: argparse.Namespace) -> int:
    """Unpin."""
    if one_or_all(arguments, "unpin"):
        return _all(arguments)
    return order(arguments, "unpin", {"name": arguments.name}, _confirm)


def _all(arguments: argparse.Namespace) -> int:
    from agent.node.orders.answers import UNPINNED

    try:
        answer = ask(arguments, "unpin", {"all": True}, UNPINNED)
    except NoAnswerError as error:
        return no_answer("unpin", error)
    for pin in answer.pins:
        print(_freed(harmless(str(pin.ref)), pin.since_unix_seconds))
    if not answer.pins:
        print(f"nothing was pinned on {harmless(answer.node)}")
    warn("unpin", answer.notes)
    return 0


def _confirm(answer: OrderAnswer) -> str:
    pod, since = harmless(str(answer.ref)), answer.held_since_unix_seconds
    return f"{pod} was not pinned" if since is None else _freed(pod, since)


def _freed(pod: str, since_unix_seconds: float) -> str:
    return f"{pod} may be sized again: it was pinned since {moment_text(since_unix_seconds)}"
