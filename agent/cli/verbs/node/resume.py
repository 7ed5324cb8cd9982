"""``plimsoll resume``: end the pause of this node; one of the whole cluster ends in its ConfigMap."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.cli.client.agent import SOCKET_OPTIONS
from agent.cli.client.orders import moment_text, order
from agent.cli.options.settings_options import add_options
from agent.cli.text.spans import harmless

if TYPE_CHECKING:
    from agent.node.orders.answers import OrderAnswer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = "Exit code: 0 this node's own pause is over, 1 no agent answers, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Resume."""
    return order(arguments, "resume", {}, _confirm)


def _confirm(answer: OrderAnswer) -> str:
    node, since = harmless(answer.node), answer.held_since_unix_seconds
    if since is None:
        return f"{node} was not paused"
    return f"{node} goes on: it was paused since {moment_text(since)}"
