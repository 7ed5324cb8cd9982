"""Restores that were promised: what a person asked for while a resize was under way, sent step by step after it. Node.

A promise holds no steps: what is still lacking is worked out anew each time, from the pod and from what it had.
"""

from __future__ import annotations

from typing import Final

from agent.core.cluster import NodeState
from agent.core.decisions import Action
from agent.core.ledger import Ledger
from agent.core.originals import Original, OriginalError, annotated_original, restore_steps
from agent.core.planned import PlanStep
from agent.core.pod import Pod
from agent.core.resize_answer import Answer, AnswerKind
from agent.node.holds import Holds

_PASSING: Final = frozenset(
    {AnswerKind.CONFLICT, AnswerKind.THROTTLED, AnswerKind.UNAVAILABLE, AnswerKind.UNKNOWN},
)
"""Answers that say nothing of the wish: it is sent again. Any other no ends the promise, as it ends one asked for."""


def known_original(holds: Holds, pod: Pod) -> Original | None:
    """Give what a pod had before its first resize; None = it is not known.

    Raises:
        OriginalError: Its annotation is not understood.
    """
    annotated = annotated_original(pod)
    return holds.original(pod.uid) if annotated is None else annotated


class Restoring:
    """Keeps the promises; on the thread ``acting`` alone."""

    def __init__(self, holds: Holds, ledger: Ledger) -> None:
        """Take the parts.

        Args:
            holds: Keeps what is promised, and what pods had.
            ledger: Knows what is under way; whoever asks ``due`` holds its lock.
        """
        self._holds, self._ledger = holds, ledger

    def due(
        self, state: NodeState, *, now_seconds: float, wall_now_seconds: float
    ) -> tuple[tuple[Action, PlanStep], ...]:
        """Give the next step of each pod that has one which may be sent now."""
        promised = self._holds.promised(wall_now_seconds)
        found: list[tuple[Action, PlanStep]] = []
        for pod in state.pods if promised else ():
            if pod.uid not in promised:
                continue
            try:
                original = known_original(self._holds, pod)
            except OriginalError:
                continue  # somebody has spoilt it since; who asks again is told
            steps = () if original is None else restore_steps(pod, original)
            if not steps:
                self._holds.promise(pod.uid, 0)
            elif self._ledger.may_send(steps[0], pod, now_seconds, Action.RESTORE) is None:
                found.append((Action.RESTORE, steps[0]))
        return tuple(found)

    def answered(self, uid: str, answer: Answer, *, wall_now_seconds: float) -> None:
        """Take down what the API server said to a step of ``due``."""
        left = self._holds.promised(wall_now_seconds).get(uid, 0)
        if left and answer.kind not in _PASSING:
            self._holds.promise(uid, left - 1 if answer.is_done else 0)
