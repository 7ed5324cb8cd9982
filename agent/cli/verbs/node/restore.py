"""``plimsoll restore``: give pods the requests and limits back that they had before the agent resized them."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from agent.cli.client.agent import SOCKET_OPTIONS, NoAnswerError, RefusedError, ask, ask_or_refuse, no_answer
from agent.cli.client.orders import one_or_all, warn
from agent.cli.options.settings_options import add_options
from agent.cli.text.figures import counted
from agent.cli.text.spans import harmless
from agent.cli.words.plan import changes_words
from agent.core.resize.decision import Action, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agent.node.orders.answers import Restored, RestoredPod

_TIMEOUT_SECONDS: Final = 120.0
"""Of one pod: two patches, each as long as ``kubernetes.requestTimeoutSeconds`` lets it."""
_GOOD: Final = (None, Outcome.ACCEPTED, Outcome.APPLIED, Outcome.DONE)
_INTERRUPTED: Final = 130
"""As a shell counts a Ctrl-C."""
LOOKS: Final = 3
"""At a pod that changes each time just before it is written; in a busy cluster one more is enough as a rule."""
AGAIN_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 120.0
"""From one pod that has all it had to the next, where a resize is under way and the agent sends the rest after it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("name", metavar="POD", nargs="?", help="name, namespace/name, uid or workload")
    parser.add_argument("--all", action="store_true", help="every pod of this node whose original requests are known")
    parser.add_argument("--dry-run", action="store_true", help="show what would be put back; nothing is done")
    add_options(parser, SOCKET_OPTIONS)
    parser.epilog = (
        "A restored pod is pinned, so that it stays as it is; plimsoll unpin POD, or --all, lets it be sized again. A "
        "pause does not stop a restore; Ctrl-C does, between two pods. Where a resize is still under way, the agent "
        "sends the rest after it, even if this command has ended, unless the pod is unpinned or the node is paused "
        "before. With --all, a pod that is deleted or ends meanwhile is reported and counted, and is no failure; the "
        "command ends when every pod has its requests back. Exit code: 0 done, 1 some pods were not restored, or no "
        "agent answers, 2 bad input (also an unknown pod), or the agent does not know its pods yet, 130 stopped by "
        "Ctrl-C."
    )


def run(arguments: argparse.Namespace) -> int:
    """Restore."""
    from agent.node.orders.answers import RESTORED

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
    code = _print_outcome(answer)
    warn("restore", answer.notes)
    return code


def _print_outcome(answer: Restored, number: str = "") -> int:
    """Print what became of pods; return the exit code."""
    has_failed = False
    for item in answer.items:
        is_good = item.outcome in _GOOD
        has_failed = has_failed or not is_good
        print(f"{number}{line_of(item, answer)}", file=sys.stdout if is_good else sys.stderr, flush=True)
    return 1 if has_failed else 0


def _each(arguments: argparse.Namespace, listed: Restored) -> int:
    """Restore pod by pod, so that no question lasts longer than one pod, and a Ctrl-C leaves the rest as it is."""
    walk = _Walk(arguments, listed)
    try:
        walk.go()
    except NoAnswerError as error:
        no_answer("restore", error)
        _tell_rest(walk)
        return 1
    except KeyboardInterrupt:
        through = len(listed.items) - len(walk.rest) - len(walk.waiting)
        print(f"\nplimsoll restore: stopped: {through} of {len(listed.items)} pods are done", file=sys.stderr)
        _tell_rest(walk)
        return _INTERRUPTED
    finally:
        warn("restore", tuple(walk.notes))
    return walk.code


class _Walk:
    """One after the other, and who changed meanwhile again, a few times."""

    def __init__(self, arguments: argparse.Namespace, listed: Restored) -> None:
        self._arguments = arguments
        self._count: Final = len(listed.items)
        self._left = [(number, item) for number, item in enumerate(listed.items, 1)]
        self._again: list[tuple[int, RestoredPod]] = []
        self._gone = 0
        self.waiting: Sequence[tuple[int, RestoredPod]] = ()
        """Those of ``_taken`` that are waited for."""
        self._taken: dict[str, tuple[int, RestoredPod]] = {}
        """Those that the agent said yes to, by uid, with their numbers: done, or to be done."""
        self.notes = dict.fromkeys(listed.notes)
        self.code = 0

    @property
    def rest(self) -> tuple[RestoredPod, ...]:
        """Return what is not through; the first of these is asked for."""
        return tuple(item for _, item in (*self._left, *self._again))

    def go(self) -> None:
        for look in range(1, LOOKS + 1):
            while self._left:
                number, item = self._left[0]
                is_through = self._is_through(number, item, is_last=look == LOOKS)
                self._left.pop(0)
                if not is_through:
                    self._again.append((number, item))
            if not self._again:
                break
            self._left, self._again = self._again, []
            time.sleep(AGAIN_SECONDS)  # for the agent's watch to bring what they have become
        self._settle()
        if self._gone and self._count > 1:
            print(f"{self._gone} of {self._count} pods are gone or have ended: nothing of them is left to restore")

    def _settle(self) -> None:
        """Wait until what the agent said yes to stands in the pods' specs, as long as pod after pod gets there."""
        self.waiting = self._lacking()
        if self.waiting:
            print(f"waiting for {counted(len(self.waiting), 'pod')}: a resize is under way there", flush=True)
        fewest, deadline = len(self.waiting), time.monotonic() + SETTLE_SECONDS
        while self.waiting and time.monotonic() < deadline:
            time.sleep(AGAIN_SECONDS)
            lacking = self._lacking()
            if len(lacking) < fewest:
                fewest, deadline = len(lacking), time.monotonic() + SETTLE_SECONDS
            self.waiting = lacking
        for number, item in self.waiting:
            self.code = 1
            print(f"{self._mark(number)}{_name(item)}: not restored yet: {self._why(item)}", file=sys.stderr)
        self.waiting = ()

    def _lacking(self) -> Sequence[tuple[int, RestoredPod]]:
        """Return those whose specs are not yet as they were, and tell of those that went; all where nobody knows."""
        if not self._taken:
            return ()
        try:
            listed = {pod.ref.uid: pod for pod in self._ask({"all": True, "dry_run": True}).items}
        except RefusedError:  # for a moment: that is no progress
            return self.waiting or tuple(self._taken.values())
        for number, item in [taken for uid, taken in self._taken.items() if uid not in listed]:
            self._is_gone(number, item)
            del self._taken[item.ref.uid]
        return tuple(taken for uid, taken in self._taken.items() if listed[uid].changes)

    def _why(self, item: RestoredPod) -> str:
        from agent.node.files.documents import DECISIONS

        asked = {"pod": item.ref.name, "namespace": item.ref.namespace, "actions": [str(Action.RESTORE)], "limit": 1}
        try:
            newest = ask_or_refuse(self._arguments, "events", asked, DECISIONS).items
        except RefusedError:
            newest = ()
        words = [
            f"{decision.outcome}: {decision.reason}{f': {decision.detail}' if decision.detail else ''}"
            for decision in newest
        ]
        return harmless("".join(words)) or "plimsoll events tells what is under way"

    def _is_gone(self, number: int, item: RestoredPod) -> None:
        self._gone += 1
        print(f"{self._mark(number)}{_name(item)}: is gone or has ended: nothing left to restore", flush=True)

    def _mark(self, number: int) -> str:
        return f"{number}/{self._count} " if self._count > 1 else ""

    def _is_through(self, number: int, item: RestoredPod, *, is_last: bool) -> bool:
        """Restore one; False = it changed meanwhile, and is to be restored as it has become."""
        mark = self._mark(number)
        try:
            answer = self._ask({"name": item.ref.uid})
        except RefusedError as error:
            if self._is_there(item):
                print(f"{mark}{_name(item)}: not restored: {harmless(str(error))}", file=sys.stderr)
                self.code = 1
                return True
        else:
            self.notes |= dict.fromkeys(answer.notes)
            outcomes = {pod.outcome for pod in answer.items} - set(_GOOD)
            if not outcomes or self._is_there(item):
                if outcomes == {Outcome.CONFLICT} and not is_last:
                    return False
                self.code = max(self.code, _print_outcome(answer, mark))
                if not outcomes:
                    self._taken[item.ref.uid] = number, item
                return True
        self._is_gone(number, item)
        return True

    def _is_there(self, item: RestoredPod) -> bool:
        """Return whether there is still something to restore; where the agent does not know, there is."""
        try:
            listed = self._ask({"all": True, "dry_run": True})
        except RefusedError:
            return True
        return any(pod.ref.uid == item.ref.uid for pod in listed.items)

    def _ask(self, asked: Mapping[str, object]) -> Restored:
        from agent.node.orders.answers import RESTORED

        return ask_or_refuse(self._arguments, "restore", asked, RESTORED, timeout_seconds=_TIMEOUT_SECONDS)


def _tell_rest(walk: _Walk) -> None:
    asked, untried = walk.rest[:1], walk.rest[1:]
    if asked:
        print(f"plimsoll restore: {_name(asked[0])}: sent, but no answer came: see plimsoll events", file=sys.stderr)
    if untried:
        print(f"plimsoll restore: not tried: {', '.join(map(_name, untried))}", file=sys.stderr)
    if walk.waiting:
        waiting = ", ".join(_name(item) for _, item in walk.waiting)
        print(f"plimsoll restore: the agent restores these as soon as it can: {waiting}", file=sys.stderr)


def _name(item: RestoredPod) -> str:
    return harmless(str(item.ref))


def line_of(item: RestoredPod, answer: Restored) -> str:
    """Return what became of one pod."""
    pod, changes = harmless(str(item.ref)), changes_words(item.changes, "to")
    if item.outcome not in _GOOD:
        failed = f"not restored ({item.outcome}{f': {harmless(item.detail)}' if item.detail else ''})"
        return f"{pod}: {failed}: {changes}" if changes else f"{pod}: {failed}"
    if answer.is_dry_run:
        return f"{pod}: would be restored: {changes}" if changes else f"{pod}: has its original requests"
    if not changes:
        return f"{pod}: has its original requests, and is pinned"
    later = f" ({harmless(item.detail)})" if item.detail else ""  # of a step that is promised
    return f"{pod}: restored and pinned: {changes}{later}"
