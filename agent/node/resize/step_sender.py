"""The hand of the thread ``acting``: one step, judged once more by the newest state, sent, and its answer heeded. Node.

Between a plan and a step of it time passes: a pod may have changed, a pause come up, the room be gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import workload_of
from agent.core.plan.demand import Kept
from agent.core.plan.node_room import part_that_fits
from agent.core.plan.plan import PlanStep
from agent.core.plan.reserved import reserved_reason
from agent.core.resize.answer import AnswerKind
from agent.core.resize.change_text import changes_text
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.event_rate import EventReason
from agent.core.resize.write_gate import Refusal, may_resize
from agent.node.cluster.rights import Rights
from agent.node.orders.holds import Holds
from agent.node.orders.journal import Journal
from agent.node.orders.restores import RestorePromises
from agent.node.recommender.planner import Planned, Planner
from agent.node.resize.barriers import Barriers
from agent.node.resize.teller import ActTeller
from agent.node.resize.writer import StepWriter
from agent.settings import Settings

log = logging.getLogger(__name__)


class StepSender:
    """Sends steps; see the module's docstring. On the thread ``acting`` alone."""

    def __init__(
        self,
        *,
        settings: Settings,
        state: Callable[[], NodeState],
        planner: Planner,
        writer: StepWriter,
        restoring: RestorePromises,
        holds: Holds,
        journal: Journal,
        rights: Rights,
        barriers: Barriers,
        teller: ActTeller,
        memory_in_use: Callable[[Pod], Mapping[str, int]],
        has_budget: Callable[[PlanStep, Action, Planned], bool],
        spent: Callable[[], None],
        ask_anew: Callable[[], None],
        now: Callable[[], float],
        wall_now: Callable[[], float],
    ) -> None:
        """Take the parts.

        Args:
            settings: How to plan and act.
            state: What the API told last.
            planner: Knows what is ordered of a pod.
            writer: Sends.
            restoring: Hears what came of the steps of restores.
            holds: Pauses and pins.
            journal: The decision log.
            rights: Are asked for anew when a step is forbidden.
            barriers: What stands in the way of everything.
            teller: Tells pods' owners.
            memory_in_use: Gives memory.current of a pod's containers, read just now; under the empty name of all.
            has_budget: Says whether a step may be sent in this minute.
            spent: Hears of each step that was sent.
            ask_anew: Asks for a turn, as soon as the server is to be asked again.
            now: The ledger's clock.
            wall_now: Unix seconds, of people.
        """
        self._settings, self._state, self._planner, self._writer = settings, state, planner, writer
        self._restoring, self._holds, self._journal, self._rights = restoring, holds, journal, rights
        self._barriers, self._teller, self._memory_in_use = barriers, teller, memory_in_use
        self._has_budget, self._spent, self._ask_anew = has_budget, spent, ask_anew
        self._now, self._wall_now = now, wall_now

    def send(self, step: PlanStep, planned: Planned, action: Action) -> bool:
        """Send one step if it may be sent now.

        Args:
            step: Of the plan, or of what the ledger wants put back.
            planned: The plan of this turn.
            action: What the step is sent for.

        Returns:
            Whether more may be sent in this turn.
        """
        wall_now = self._wall_now()
        state = self._state()
        pod = next((one for one in state.pods if one.uid == step.ref.uid), None)
        if pod is None or (action is Action.RESTORE and not self._restoring.may_send(pod.uid, wall_now)):
            return True
        barrier = self._barriers.barrier_of(state, planned.gates, wall_now)
        if barrier is not None and not barrier.lets_through(action):
            return False  # it has come up since the turn began
        orders, workload = self._planner.orders_of_pod(pod, state), workload_of(pod)
        directed = self._planner.directed()
        refusal = may_resize(
            step,
            pod,
            orders,
            reserved=None
            if action is Action.RESTORE
            else reserved_reason(
                pod,
                orders,
                workload,
                now_unix_seconds=wall_now,
                plan=self._settings.plan,
                act=self._settings.act,
                is_pinned=pod.uid in self._holds.pinned(wall_now),
                is_namespace_known=pod.namespace not in state.unknown_namespaces,
                by_cluster=directed.reserved(workload),
            ),
            plan=self._settings.plan,
            gates=planned.gates,
            memory_in_use_bytes=self._memory_in_use(pod),
            is_paused=action is not Action.RESTORE and self._holds.is_paused(wall_now),
            is_put_back=action is not Action.RESIZE,
            frozen=directed.frozen(workload),
        )
        if refusal is not None:
            log.debug("step left", extra={"pod": str(step.ref), "phase": step.phase, "reason": refusal})
            if action is Action.RESTORE:  # somebody waits for it
                self._left(step, action, refusal, wall_now)
            return refusal is not Kept.PAUSED
        # What a person wants back is written whether there is room or not, as at once: the kubelet puts it off.
        fitting = step if action is Action.RESTORE else part_that_fits(state, step)
        if fitting is None or (fitting != step and action is Action.RESIZE):
            log.debug("step waits for room", extra={"pod": str(step.ref)})
            if action is not Action.RESIZE:
                self._left(step, action, Kept.NODE_FULL, wall_now, ": waits for room")
            return True
        step = fitting
        if not self._has_budget(step, action, planned):
            return False
        decision, answer = self._writer.send(pod, step, action)
        if answer is None:
            return True  # nothing was sent
        self._spent()
        if action is Action.RESTORE:
            self._restoring.answered(step.ref.uid, answer, now_seconds=self._now(), wall_now_seconds=wall_now)
        if answer.is_done:
            if action is Action.REVERT:
                self._teller.event(step.ref, EventReason.RESIZE_REVERTED, step.reason)
            return True
        if answer.kind in (AnswerKind.THROTTLED, AnswerKind.UNAVAILABLE, AnswerKind.UNKNOWN):
            self._ask_anew()  # as soon as the server is to be asked again
            return False
        if answer.kind is AnswerKind.FORBIDDEN:
            self._rights.ask_soon()
        if answer.kind is AnswerKind.CONFLICT:
            self._ask_anew()  # decided anew, on what it has become
        if decision.outcome is Outcome.INFEASIBLE:
            self._teller.event(step.ref, EventReason.RESIZE_INFEASIBLE, answer.message)
        elif decision.outcome is Outcome.REJECTED:
            self._teller.event(step.ref, EventReason.RESIZE_REJECTED, answer.message)
        return True

    def _left(self, step: PlanStep, action: Action, reason: Refusal, wall_now: float, why: str = "") -> None:
        """Put down that a step is not sent for now."""
        self._journal.add(
            unix_seconds=wall_now,
            action=action,
            outcome=Outcome.WITHHELD,
            reason=reason,
            detail=changes_text(step.changes) + why,
            pod=step.ref,
        )
