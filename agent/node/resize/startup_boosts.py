"""Pods that have more CPU while they start: told of when they are seen first, and taken back when it is time. Node.

What is boosted stands in the pods themselves, so that an agent that begins in the midst of it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod, has_ended
from agent.core.cluster.workload import workload_of
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.needs.given_boost import BoostEnd, GivenBoost, boost_end, end_unix_seconds, standing_boost
from agent.core.plan.plan import PlanStep
from agent.core.resize.change_text import changes_text
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.ledger import Ledger
from agent.core.resize.originals import ref_of
from agent.core.resize.unboost import unboost_step
from agent.metrics.acting_series import ActingSeries
from agent.node.orders.journal import DecisionFilter, Journal

QUIET_LOOK_SECONDS: Final = 5.0
"""Between two looks whether a start has become quiet; each is a turn, as a plan is."""
AGAIN_SECONDS: Final = 2.0
"""Until the next try of what is due and may not be sent yet ..."""
AGAIN_RATIO: Final = 0.25
"""... or so much of the time for which it has been due, where that is more ..."""
LONGEST_AGAIN_SECONDS: Final = 60.0
"""... and no longer than this: in mode off, say, it may never be."""
BEGAN: Final = "startup_boost"
"""The reason in the decision log."""
_TOLD: Final = 20
"""Entries of one pod that are looked through after a restart."""


@dataclass(frozen=True, slots=True)
class _Standing:
    pod: Pod
    boost: GivenBoost
    end: BoostEnd | None


class StartupBoosts:
    """The boosts of this node's pods, and which of them are to be taken back. On the thread ``acting`` alone."""

    def __init__(
        self,
        *,
        ledger: Ledger,  # Knows what is under way; whoever asks ``due`` holds its lock
        journal: Journal,
        series: ActingSeries,
        quiet: Callable[[Pod, GivenBoost], frozenset[str]],  # Returns the containers whose CPU has become quiet
    ) -> None:
        self._ledger, self._journal, self._series, self._quiet = ledger, journal, series, quiet
        self._told: set[str] = set()
        self._ended: dict[str, tuple[BoostEnd, float]] = {}
        """Why and when the boosts of pods were found to be over: so it is told, however long it takes to end them."""
        self.next_look_seconds: float | None = None
        """Seconds until a boost may be over; None = nothing is boosted."""

    def due(self, state: NodeState, *, now_seconds: float, wall_now: float) -> tuple[PlanStep, ...]:
        """Return the steps that may be sent now; put down which pods began with a boost, and count those that ended."""
        standing = [startup for pod in state.pods if (startup := self._standing(pod, wall_now)) is not None]
        present = {startup.pod.uid for startup in standing}
        self._told &= present
        for pod in state.pods:
            # Seen in the pod, as the resize that did it may have got no answer.
            if pod.uid in self._ended and standing_boost(pod) is None:
                self._series.count_startup_boost(self._ended[pod.uid][0])
        self._ended = {
            startup.pod.uid: self._ended.get(startup.pod.uid, (startup.end, wall_now))
            for startup in standing
            if startup.end is not None
        }
        self._series.set_startup_boosts(len(standing))
        steps: list[PlanStep] = []
        looks: list[float] = []
        for startup in standing:
            self._tell(startup, wall_now)
            step = None if startup.end is None else unboost_step(startup.pod, startup.boost, startup.end)
            if step is None:
                looks.append(min(QUIET_LOOK_SECONDS, max(0.0, end_unix_seconds(startup.pod, startup.boost) - wall_now)))
                continue
            due_seconds = wall_now - self._ended[startup.pod.uid][1]
            looks.append(min(max(AGAIN_RATIO * due_seconds, AGAIN_SECONDS), LONGEST_AGAIN_SECONDS))
            obstacle = self._ledger.may_send(step, startup.pod, now_seconds, Action.UNBOOST)
            if obstacle is None:
                steps.append(step)
            else:
                self._tell_kept(step, obstacle, wall_now)
        self.next_look_seconds = min(looks, default=None)
        return tuple(steps)

    def _standing(self, pod: Pod, wall_now: float) -> _Standing | None:
        boost = standing_boost(pod)
        if boost is None or has_ended(pod) or pod.is_terminating:
            return None
        if pod.uid in self._ended:
            return _Standing(pod, boost, self._ended[pod.uid][0])
        end = boost_end(pod, boost, now_unix_seconds=wall_now, quiet=self._quiet(pod, boost))
        return _Standing(pod, boost, end)

    def _tell_kept(self, step: PlanStep, obstacle: KeptReason, wall_now: float) -> None:
        """Record why a boost that is over still stands."""
        self._journal.add(
            unix_seconds=wall_now,
            action=Action.UNBOOST,
            outcome=Outcome.WITHHELD,
            reason=obstacle,
            detail=changes_text(step.changes),
            pod=step.ref,
        )

    def _tell(self, startup: _Standing, wall_now: float) -> None:
        """Record once that a pod began with a boost; after a restart it may be in the log already."""
        pod, boost = startup.pod, startup.boost
        if pod.uid in self._told:
            return
        self._told.add(pod.uid)
        ref, workload = ref_of(pod), workload_of(pod)
        entries = self._journal.newest(_TOLD, DecisionFilter(pod=str(ref)))
        if any(entry.action is Action.BOOST and entry.pod == ref for entry in entries):
            return
        self._journal.add(
            unix_seconds=wall_now,
            action=Action.BOOST,
            outcome=Outcome.DONE,
            reason=BEGAN,
            detail=f"until {boost.after_ready_seconds:g} s after ready: {changes_text(boost.changes)}",
            pod=ref,
            workload=f"{workload.kind}/{workload.name}",
            changes=boost.changes,
        )
