"""The hand of the thread ``acting``: one step, judged once more by the newest state, sent, and its answer heeded. Node.

Between a plan and a step of it time passes: a pod may have changed, a pause come up, the room be gone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import RUNNING, Pod
from agent.core.cluster.workload import workload_of
from agent.core.numbers.token_bucket import TokenBucket
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.needs.given_boost import given_boost, without_boost
from agent.core.plan.needs.reserved_reason import reserved_reason
from agent.core.plan.node_room import part_that_fits
from agent.core.plan.plan import PlanStep
from agent.core.resize.answer import AnswerKind, ResizeAnswer
from agent.core.resize.change_text import changes_text
from agent.core.resize.decision import Action, Decision, Outcome
from agent.core.resize.event_rate import EventReason
from agent.core.resize.write_gate import Refusal, lowers_protected, may_resize, window_wait
from agent.node.orders.restores import RestorePromises
from agent.node.recommender.planner import PlannedNode
from agent.node.resize.acting_parts import ActingParts
from agent.node.resize.barriers import Barriers
from agent.node.resize.teller import ActTeller
from agent.node.resize.writer import StepWriter

log = logging.getLogger(__name__)


RESERVE_RATIO: Final = 0.25
"""Of the budget, for reverts and for pods that starve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSent:
    """The step went to the API server, and the rest may follow."""

    asks_anew: bool = False
    """The answer asks for a new plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWaits:
    """The step was not sent; the rest may follow."""

    reason: str
    asks_anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsEnd:
    """Nothing more is sent in this turn."""

    reason: str
    detail: str = ""
    asks_anew: bool = False
    """As soon as the server may be asked again."""


StepResult = StepSent | StepWaits | StepsEnd


class StepSender:
    """Sends steps; on the thread ``acting`` alone."""

    def __init__(
        self,
        parts: ActingParts,
        *,
        writer: StepWriter,
        barriers: Barriers,
        teller: ActTeller,
        restoring: RestorePromises,  # Is told what came of the steps of restores
        bucket: TokenBucket,
    ) -> None:
        self._parts, self._writer, self._barriers, self._teller = parts, writer, barriers, teller
        self._restoring, self._bucket = restoring, bucket

    def send(self, step: PlanStep, planned: PlannedNode, action: Action) -> StepResult:
        """Send one step if it may be sent now."""
        clocks = self._parts.clocks
        wall_now = clocks.wall_now()
        state = self._parts.cluster.state()
        pod = next((pod for pod in state.pods if pod.uid == step.ref.uid), None)
        if pod is None:
            return StepWaits(reason="gone")
        if action is Action.RESTORE and not self._restoring.may_send(pod.uid, wall_now):
            return StepWaits(reason="not_promised")
        barrier = self._barriers.barrier_of(state, planned.gates, wall_now)
        if barrier is not None and not barrier.lets_through(action):
            return StepsEnd(reason=barrier.reason)  # it has come up since the turn began
        refusal = self._refusal(step, pod, state, planned, action, wall_now)
        if refusal is not None:
            log.debug("step left", extra={"pod": str(step.ref), "phase": step.phase, "reason": refusal})
            if action in (Action.RESTORE, Action.UNBOOST):  # somebody waits for it
                self._left(step, action, refusal, wall_now)
            return StepsEnd(reason=refusal) if refusal is KeptReason.PAUSED else StepWaits(reason=refusal)
        # What a person wants back is written whether there is room or not, as at once: the kubelet puts it off.
        fitting = step if action is Action.RESTORE else part_that_fits(state, step)
        if fitting is None or (fitting != step and action is Action.RESIZE):
            log.debug("step waits for room", extra={"pod": str(step.ref)})
            if action is not Action.RESIZE:
                self._left(step, action, KeptReason.NODE_FULL, wall_now, ": waits for room")
            return StepWaits(reason=KeptReason.NODE_FULL)
        shortage = self._shortage(fitting, action)
        if shortage is not None:
            return StepsEnd(reason=KeptReason.BUDGET, detail=shortage)
        decision, answer = self._writer.send(pod, fitting, action)
        if answer is None:
            return StepWaits(reason=decision.reason)
        self._bucket.take(clocks.monotonic())
        if action is Action.RESTORE:
            self._restoring.answered(step.ref.uid, answer, now_seconds=clocks.now(), wall_now_seconds=wall_now)
        return self._result(fitting, action, decision, answer)

    def _refusal(
        self, step: PlanStep, pod: Pod, state: NodeState, planned: PlannedNode, action: Action, wall_now: float
    ) -> Refusal | None:
        """Return why the pod, as it is by now, must not get this step; None = it may."""
        parts = self._parts
        orders, workload = parts.orders.of_pod(pod, state), workload_of(pod)
        directed = parts.orders.directed()
        if lowers_protected(step, orders, action):
            return KeptReason.PROTECT
        if action is Action.RESIZE and orders.windows is not None:
            lasting_seconds = parts.settings.act.deferred_patience_seconds
            windows = parts.orders.read_windows(orders.windows)
            if window_wait(step, pod, windows, now_unix_seconds=wall_now, lasting_seconds=lasting_seconds) is not None:
                return KeptReason.WINDOW
        reserved, plan, is_unboost = None, parts.settings.plan, action is Action.UNBOOST
        judged = pod
        if is_unboost:
            # It is over while a pod is young, or before it runs; and it is ours, whoever sizes the pod from now on.
            # Without it the pod is judged: with it a Guaranteed one may seem to hold CPUs of its own.
            boost, plan = given_boost(pod), replace(plan, min_age_seconds=0.0)
            judged = replace(pod if boost is None else without_boost(pod, boost), phase=RUNNING)
        if action is not Action.RESTORE:
            reserved = reserved_reason(
                judged,
                orders,
                workload,
                now_unix_seconds=wall_now,
                plan=plan,
                act=parts.settings.act,
                is_pinned=pod.uid in parts.holds.pinned(wall_now),
                is_namespace_known=pod.namespace not in state.unknown_namespaces,
                by_cluster=None if is_unboost else directed.reserved(workload, orders.share_in_force),
            )
        if action is Action.REVERT and reserved is ReservedReason.SHARE_TAKEN_BACK:
            reserved = None  # what is enforced no more gets back what it had
        return may_resize(
            step,
            pod,
            orders,
            reserved=reserved,
            plan=parts.settings.plan,
            gates=planned.gates,
            memory_in_use_bytes=parts.memory_in_use(pod),
            is_paused=action is not Action.RESTORE and parts.holds.is_paused(wall_now),
            is_put_back=action is not Action.RESIZE,
            frozen=directed.frozen_axes(workload),
        )

    def _shortage(self, step: PlanStep, action: Action) -> str | None:
        """Return why no more may be sent in this minute; None = it may. What can wait leaves a reserve."""
        now = self._parts.clocks.monotonic()
        can_wait = action is Action.RESTORE or (action is Action.RESIZE and not step.is_urgent)
        budget = self._parts.settings.act.resizes_per_minute
        reserve = reserve_of(budget) if can_wait else 0
        available = self._bucket.available(now)
        if available > reserve:
            return None
        if self._bucket.is_filling(now):
            why = f"the budget of {budget} resizes in a minute is filling up after the start"
        else:
            why = f"{budget - available} of {budget} resizes of this minute are sent"
        reserve_note = f" ({reserve} of them only for what is urgent)" if reserve else ""
        return f"{why}{reserve_note}; the rest waits"

    def _result(self, step: PlanStep, action: Action, decision: Decision, answer: ResizeAnswer) -> StepResult:
        """Heed the answer, and tell the pod's owner what concerns it."""
        if answer.is_done:
            if action is Action.REVERT:
                self._teller.event(step.ref, EventReason.RESIZE_REVERTED, step.reason)
            return StepSent()
        if answer.kind in (AnswerKind.THROTTLED, AnswerKind.UNAVAILABLE, AnswerKind.UNKNOWN):
            return StepsEnd(reason=answer.kind, asks_anew=True)
        if answer.kind is AnswerKind.FORBIDDEN:
            self._parts.rights.ask_soon()
        if decision.outcome is Outcome.INFEASIBLE:
            self._teller.event(step.ref, EventReason.RESIZE_INFEASIBLE, answer.message)
        elif decision.outcome is Outcome.REJECTED:
            self._teller.event(step.ref, EventReason.RESIZE_REJECTED, answer.message)
        return StepSent(asks_anew=answer.kind is AnswerKind.CONFLICT)  # decided anew, on what it has become

    def _left(self, step: PlanStep, action: Action, reason: Refusal, wall_now: float, why: str = "") -> None:
        """Record that a step is not sent for now."""
        self._parts.journal.add(
            unix_seconds=wall_now,
            action=action,
            outcome=Outcome.WITHHELD,
            reason=reason,
            detail=changes_text(step.changes) + why,
            pod=step.ref,
        )


def reserve_of(resizes_per_minute: int) -> int:
    """Return how many resizes of a minute are kept for what cannot wait."""
    return int(RESERVE_RATIO * resizes_per_minute)
