"""``plimsoll pin``: leave one pod alone; without a name, tell what is pinned and paused."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.client.agent import SOCKET_OPTIONS, NoAnswerError, ask, no_answer
from agent.cli.client.orders import add_for, moment_text, order, until_text, warn
from agent.cli.options.settings_options import add_options, fail
from agent.cli.text.spans import harmless

if TYPE_CHECKING:
    from agent.node.orders.answers import OrderAnswer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "name",
        metavar="POD",
        nargs="?",
        help="name, namespace/name, uid or workload; without it, list what is pinned and paused",
    )
    add_for(parser, "until plimsoll unpin")
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = "A pin ends with its pod. Exit code: 0 done, 1 no agent answers, 2 bad input (also an unknown pod)."


def run(arguments: argparse.Namespace) -> int:
    """Pin, or tell."""
    if arguments.name is not None:
        return order(arguments, "pin", {"name": arguments.name, "for_seconds": arguments.for_seconds}, _confirm)
    if arguments.for_seconds is not None:
        fail("pin: --for without a pod; allowed: plimsoll pin POD --for TIME")
    return _tell(arguments)


def _confirm(answer: OrderAnswer) -> str:
    until = until_text(answer.until_unix_seconds, "until plimsoll unpin")
    since = answer.held_since_unix_seconds
    before = "" if since is None else f" (it was pinned since {moment_text(since)})"
    return f"{harmless(str(answer.ref))} is left alone {until}{before}"


def _tell(arguments: argparse.Namespace) -> int:
    from agent.node.orders.answers import HOLDING

    try:
        held = ask(arguments, "holds", {}, HOLDING, told_as="pin")
    except NoAnswerError as error:
        return no_answer("pin", error)
    node = harmless(held.node)
    if held.pause is not None:
        until = until_text(held.pause.until_unix_seconds, "until plimsoll resume")
        why = f" ({harmless(held.pause.reason)})" if held.pause.reason else ""
        print(f"{node} is paused since {moment_text(held.pause.since_unix_seconds)}, {until}{why}")
    for pin in held.pins:
        until = until_text(pin.until_unix_seconds, "until plimsoll unpin")
        print(f"{harmless(str(pin.ref))} is pinned since {moment_text(pin.since_unix_seconds)}, {until}")
    if held.pause is None and not held.pins:
        print(f"nothing is pinned or paused on {node}")
    warn("pin", held.notes)
    return 0
