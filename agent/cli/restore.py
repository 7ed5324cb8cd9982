"""``plimsoll restore``: give pods the requests and limits back that they had before the agent resized them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from agent.cli.asking import SOCKET_OPTIONS, NoAnswerError, RefusedError, ask, ask_or_refuse, no_answer
from agent.cli.holding import one_or_all, warn
from agent.cli.options import add_options
from agent.cli.plan_words import changes_words
from agent.cli.spans import harmless
from agent.core.decisions import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.node.holding_answers import Restored, RestoredPod

_TIMEOUT_SECONDS: Final = 120.0
"""Of one pod: two patches, each as long as ``kubernetes.requestTimeoutSeconds`` lets it."""
_GOOD: Final = (None, Outcome.ACCEPTED, Outcome.APPLIED, Outcome.DONE)
_INTERRUPTED: Final = 130
"""As a shell counts a Ctrl-C."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("name", metavar="POD", nargs="?", help="name, namespace/name, uid or workload")
    parser.add_argument("--all", action="store_true", help="every pod of this node whose original requests are known")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be put back; nothing is done")
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = (
        "What is restored is pinned, so that it stays; plimsoll unpin POD, or --all, lets it be sized again. A pause "
        "does not stop a restore; Ctrl-C does, between two pods. Exit code: 0 done, 1 some could not be, or no agent "
        "answers, 2 bad input (an unknown pod, too), 130 stopped by Ctrl-C."
    )


def run(arguments: argparse.Namespace) -> int:
    """Restore."""
    from agent.node.holding_answers import RESTORED

    is_all = one_or_all(arguments, "restore")
    asked = {"all": True} if is_all else {"name": arguments.name}
    is_trial = is_all or arguments.dry_run  # of all, the list comes first: then pod by pod
    try:
        answer = ask(arguments, "restore", {**asked, "dry_run": is_trial}, RESTORED, timeout_seconds=_TIMEOUT_SECONDS)
    except NoAnswerError as error:
        return no_answer("restore", error)
    if not answer.items:
        print(f"nothing to restore: no pod of {harmless(answer.node)} was resized by this agent")
    if is_all and not arguments.dry_run:
        return _each(arguments, answer)
    code = _told(answer)
    warn("restore", answer.notes)
    return code


def _told(answer: Restored, number: str = "") -> int:
    """Say what became of pods; give the exit code."""
    has_failed = False
    for item in answer.items:
        is_good = item.outcome in _GOOD
        has_failed = has_failed or not is_good
        print(f"{number}{line_of(item, answer)}", file=sys.stdout if is_good else sys.stderr, flush=True)
    return 1 if has_failed else 0


def _each(arguments: argparse.Namespace, listed: Restored) -> int:
    """Restore pod by pod, so that no question lasts longer than one pod, and a Ctrl-C leaves the rest as it is."""
    from agent.node.holding_answers import RESTORED

    items, code, done = listed.items, 0, 0
    notes = dict.fromkeys(listed.notes)
    try:
        for item in items:
            number = f"{done + 1}/{len(items)} " if len(items) > 1 else ""
            try:
                answer = ask_or_refuse(
                    arguments, "restore", {"name": item.ref.uid}, RESTORED, timeout_seconds=_TIMEOUT_SECONDS
                )
            except RefusedError as error:  # it is gone, for instance
                print(f"{number}{harmless(str(item.ref))}: not restored: {harmless(str(error))}", file=sys.stderr)
                code = 1
            else:
                code = max(code, _told(answer, number))
                notes |= dict.fromkeys(answer.notes)
            done += 1
    except NoAnswerError as error:
        no_answer("restore", error)
        _tell_rest(items[done:])
        return 1
    except KeyboardInterrupt:
        print(f"\nplimsoll restore: stopped: {done} of {len(items)} pods are through", file=sys.stderr)
        _tell_rest(items[done:])
        return _INTERRUPTED
    finally:
        warn("restore", tuple(notes))
    return code


def _tell_rest(items: Sequence[RestoredPod]) -> None:
    """Say what was not done; the first of these was asked for."""
    if not items:
        return
    first = harmless(str(items[0].ref))
    print(f"plimsoll restore: {first}: asked for, with no answer: plimsoll events tells", file=sys.stderr)
    if len(items) > 1:
        rest = ", ".join(harmless(str(item.ref)) for item in items[1:])
        print(f"plimsoll restore: not tried: {rest}", file=sys.stderr)


def line_of(item: RestoredPod, answer: Restored) -> str:
    """Say what became of one pod."""
    pod, changes = harmless(str(item.ref)), changes_words(item.changes, "to")
    if item.outcome not in _GOOD:
        failed = f"not restored ({item.outcome}{f': {harmless(item.detail)}' if item.detail else ''})"
        return f"{pod}: {failed}: {changes}" if changes else f"{pod}: {failed}"
    if answer.is_dry_run:
        return f"{pod}: would be restored: {changes}" if changes else f"{pod}: has its original requests"
    if not changes:
        return f"{pod}: has its original requests, and is pinned"
    return f"{pod}: restored and pinned: {changes}"
