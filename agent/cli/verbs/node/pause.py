"""``plimsoll pause``: no write on this node, from now on; measuring, recommending and planning go on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.client.agent import SOCKET_OPTIONS
from agent.cli.client.orders import add_for, moment_text, order, until_text
from agent.cli.options.settings_options import add_options
from agent.cli.text.spans import harmless

if TYPE_CHECKING:
    from agent.node.orders.answers import OrderAnswer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_for(parser, "until plimsoll resume")
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = "A pause outlives the agent. Exit code: 0 paused, 1 no agent answers, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Pause."""
    return order(arguments, "pause", {"for_seconds": arguments.for_seconds}, _confirm)


def _confirm(answer: OrderAnswer) -> str:
    until = until_text(answer.until_unix_seconds, "until plimsoll resume")
    since = answer.held_since_unix_seconds
    before = "" if since is None else f" (it was paused since {moment_text(since)})"
    return f"{harmless(answer.node)} is paused {until}: nothing is written{before}"
