"""``plimsoll restore``: give pods the requests and limits back that they had before the agent resized them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from agent.cli.asking import SOCKET_OPTIONS, NoAnswerError, ask, no_answer
from agent.cli.holding import warn
from agent.cli.options import add_options, fail
from agent.cli.plan_words import changes_words
from agent.cli.table import harmless
from agent.core.decisions import Outcome

if TYPE_CHECKING:
    from agent.node.holding_answers import Restored, RestoredPod

_TIMEOUT_SECONDS: Final = 120.0
"""A patch for each pod of the node."""
_GOOD: Final = (None, Outcome.ACCEPTED, Outcome.APPLIED, Outcome.DONE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("name", metavar="POD", nargs="?", help="name, namespace/name or uid")
    parser.add_argument("--all", action="store_true", help="every pod of this node whose original requests are known")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be put back; nothing is done")
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = (
        "What is restored is pinned, so that it stays; plimsoll unpin lets it be sized again. A pause does not stop a "
        "restore. Exit code: 0 done, 1 some could not be, or no agent answers, 2 bad input (an unknown pod, too)."
    )


def run(arguments: argparse.Namespace) -> int:
    """Restore."""
    from agent.node.holding_answers import RESTORED

    if arguments.all == (arguments.name is not None):
        fail("restore: allowed: POD or --all, one of them")
    asked = {"all": True} if arguments.all else {"name": arguments.name}
    try:
        answer = ask(
            arguments, "restore", {**asked, "dry_run": arguments.dry_run}, RESTORED, timeout_seconds=_TIMEOUT_SECONDS
        )
    except NoAnswerError as error:
        return no_answer("restore", error)
    if not answer.items:
        print(f"nothing to restore: no pod of {harmless(answer.node)} was resized by this agent")
    has_failed = False
    for item in answer.items:
        is_good = item.outcome in _GOOD
        has_failed = has_failed or not is_good
        print(line_of(item, answer), file=sys.stdout if is_good else sys.stderr)
    warn("restore", answer.notes)
    return 1 if has_failed else 0


def line_of(item: RestoredPod, answer: Restored) -> str:
    """Say what became of one pod."""
    pod, changes = harmless(str(item.ref)), changes_words(item.changes, "to")
    if item.outcome not in _GOOD:
        failed = f"not restored ({item.outcome}{f': {harmless(item.detail)}' if item.detail else ''})"
        return f"{pod}: {failed}: {changes}" if changes else f"{pod}: {failed}"
    if not changes:
        return f"{pod}: has its original requests"
    if answer.is_dry_run:
        return f"{pod}: would be restored: {changes}"
    return f"{pod}: restored and pinned: {changes}"
