"""Pods of an enforced share that is taken back: they get their original requests again. Node; no rule is here."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod, QosClass, has_ended
from agent.core.cluster.qos import pod_qos_class
from agent.core.cluster.workload import workload_of
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.plan import PlanStep
from agent.core.resize.decision import Action
from agent.core.resize.originals import OriginalError, restore_steps
from agent.node.orders.restores import known_original
from agent.node.resize.acting_parts import ActingParts

WORDS: Final = "enforced share taken back"


class ShareRestores:
    """The pods whose original requests are to be restored with a share. On the thread ``acting`` alone."""

    def __init__(self, parts: ActingParts) -> None:
        self._parts = parts

    def due(self, state: NodeState, *, now_seconds: float) -> tuple[PlanStep, ...]:
        """Return the next step of each pod that has one which may be sent now; the caller holds the ledger's lock."""
        directed = self._parts.orders.directed()
        restores: list[PlanStep] = []
        for pod in state.pods:
            workload = workload_of(pod)
            taken_back = directed.share_taken_back(workload)
            if taken_back is None or has_ended(pod) or pod.is_terminating:
                continue
            share = self._parts.orders.of_pod(pod, state).share_in_force
            if directed.reserved(workload, share) is not ReservedReason.SHARE_TAKEN_BACK:
                continue
            steps = self._lacking(pod)
            if not steps:
                continue
            step = replace(_rising_first(steps[0], pod), reason=f"{WORDS}: {taken_back.reason}", is_urgent=True)
            if self._parts.ledger.may_send(step, pod, now_seconds, Action.REVERT) is None:
                restores.append(step)
        return tuple(restores)

    def _lacking(self, pod: Pod) -> tuple[PlanStep, ...]:
        try:
            original = known_original(self._parts.holds, pod)
        except OriginalError:
            return ()  # nobody knows what it had
        return () if original is None else restore_steps(pod, original)


def _rising_first(step: PlanStep, pod: Pod) -> PlanStep:
    """Return the part of a step that gives something back, where there is one: the rest waits for a cool-down."""
    rising = tuple(change for change in step.changes if change.after > change.before)
    if not rising or pod_qos_class(pod) is QosClass.GUARANTEED:
        return step
    return replace(step, changes=rising)
