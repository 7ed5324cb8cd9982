"""Restores that were promised: what a person asked for while a resize was under way, sent step by step after it. Node.

A promise holds no steps: what is still lacking is worked out anew each time, from the pod and from what it had.
"""

from __future__ import annotations

from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod, has_ended
from agent.core.plan.plan import PlanStep
from agent.core.resize.answer import ResizeAnswer, is_passing
from agent.core.resize.decision import Action
from agent.core.resize.ledger import Ledger
from agent.core.resize.originals import (
    Original,
    OriginalError,
    annotated_original,
    restore_steps,
    steps_left,
    with_added,
)
from agent.node.orders.holds import Holds

AGAIN_SECONDS: Final = 20.0
"""After trouble that passes: four tries while the command waits, and nothing taken from others."""


def known_original(holds: Holds, pod: Pod) -> Original | None:
    """Return what a pod had before its first resize; None = it is not known.

    Raises:
        OriginalError: Its annotation is not understood.
    """
    annotated, held_original = annotated_original(pod), holds.original(pod.uid)
    if annotated is None or held_original is None:
        return annotated or held_original
    return with_added(annotated, held_original)


class RestorePromises:
    """Keeps the promises; on the thread ``acting`` alone."""

    def __init__(
        self,
        holds: Holds,  # Keeps what is promised, and what pods had
        ledger: Ledger,  # Knows what is under way; whoever asks ``due`` holds its lock
    ) -> None:
        self._holds, self._ledger = holds, ledger
        self._again_seconds: dict[str, float] = {}
        """Of pods whose step met a moment's trouble: not before then, so that it takes nothing from others."""

    def promised(self, wall_now_seconds: float) -> frozenset[str]:
        """Return the pods that have a promise; asked before the state, which must not be older than what they saw.

        Else one that had its originals then, and was changed before the promise, would end it.
        """
        return frozenset(self._holds.promised(wall_now_seconds))

    def due(self, promised: frozenset[str], state: NodeState, *, now_seconds: float) -> tuple[PlanStep, ...]:
        """Return the next step of each pod that has one which may be sent now."""
        self._again_seconds = {uid: at for uid, at in self._again_seconds.items() if uid in promised}
        restores: list[PlanStep] = []
        for pod in state.pods if promised else ():
            if pod.uid not in promised or now_seconds < self._again_seconds.get(pod.uid, now_seconds):
                continue
            steps = self._lacking(pod)
            if not steps:
                self._holds.keep_promise(pod.uid, steps_left=0)
            elif self._ledger.may_send(steps[0], pod, now_seconds, Action.RESTORE) is None:
                restores.append(steps[0])
        return tuple(restores)

    def _lacking(self, pod: Pod) -> tuple[PlanStep, ...]:
        if has_ended(pod):
            return ()  # it requests nothing
        try:
            original = known_original(self._holds, pod)
        except OriginalError:
            return ()  # somebody has spoilt it since; who asks again is told
        return () if original is None else restore_steps(pod, original)

    def may_send(self, uid: str, wall_now_seconds: float) -> bool:
        """Return whether a step of ``due`` may still go: nobody has unpinned its pod since, nor paused the node."""
        return uid in self._holds.promised(wall_now_seconds)

    def answered(self, uid: str, answer: ResizeAnswer, *, now_seconds: float, wall_now_seconds: float) -> None:
        """Record what the API server said to a step of ``due``."""
        if is_passing(answer.kind):
            self._again_seconds[uid] = now_seconds + AGAIN_SECONDS
        promised = self._holds.promised(wall_now_seconds).get(uid)
        if promised is not None:  # nobody has unpinned the pod meanwhile
            self._holds.keep_promise(uid, steps_left=steps_left(promised, answer.kind))
