"""What acting tells: decision log, metrics, log lines, and Kubernetes Events, all of one story. Node.

Driven by the thread ``acting``. Nothing is decided here.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, Protocol

from agent.core.cluster.pod import PodRef
from agent.core.eviction.proposal import Want
from agent.core.orders.annotations import unknown_keys
from agent.core.orders.resolution import is_excluded
from agent.core.orders.windows import waits_words
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import Eviction, Plan, waiting_for_windows
from agent.core.resize.change_text import changes_text
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.event_rate import EventReason, PodEvent
from agent.core.resize.record import News
from agent.node.recommender.planner import PlannedNode
from agent.node.resize.acting_parts import ActingParts
from agent.node.resize.barriers import Barriers

log = logging.getLogger(__name__)

PROPOSED_AGAIN_SECONDS: Final = 600.0
"""An eviction that stays proposed is told again after so long."""
MAX_UNTOLD: Final = 100
"""Kubernetes Events that wait; the decision log has what is dropped."""
MOST_UNKNOWN: Final = 400
"""Characters of the annotations of one pod that nobody knows; an owner may write 256 KiB of them."""

_EVENTS: Final = {
    Outcome.APPLIED: EventReason.RESIZED,
    Outcome.DEFERRED: EventReason.RESIZE_DEFERRED,
    Outcome.INFEASIBLE: EventReason.RESIZE_INFEASIBLE,
}


class Events(Protocol):
    """Tells pods' owners; ``kube.calls.events.EventWriter`` is one."""

    def send(self, event: PodEvent) -> bool:
        """Report; never raises."""


class ActTeller:
    """Tells; see the module's docstring."""

    def __init__(
        self,
        parts: ActingParts,
        barriers: Barriers,  # Whether anything may be written: an Event is a write too
        events: Events | None,  # Tells pods' owners; None = nobody is told
    ) -> None:
        self._journal, self._holds, self._series, self._events = parts.journal, parts.holds, parts.series, events
        self._options = parts.settings.act
        """The namespaces that are never touched: the API server refuses an agent's Events there."""
        self._may_write, self._now, self._wall_now = barriers.may_write, parts.clocks.now, parts.clocks.wall_now
        self._untold: deque[PodEvent] = deque(maxlen=MAX_UNTOLD)
        self._proposed: dict[tuple[str, str], float] = {}
        self._faults_told: dict[str, str] = {}
        self._owners_told: dict[str, str] = {}
        """Of the same faults, in Events: later, where nothing may be written at first."""
        self._unknown_told: dict[str, str] = {}
        self._gates_told: tuple[str, ...] = ()
        self._windows_told: dict[PodRef, float | None] = {}

    def put_down(self, news: News) -> None:
        """Record what the kubelet made of a resize."""
        self._journal.add(
            unix_seconds=self._wall_now(),
            action=news.action,
            outcome=news.outcome,
            reason=news.reason,
            detail=news.detail,
            pod=news.ref,
            workload=f"{news.workload.kind}/{news.workload.name}",
            changes=news.changes,
            seconds=news.seconds,
        )
        if news.outcome is not Outcome.WITHHELD:
            self._series.count_changes(news.changes, news.outcome)
        log.info("resize settled", extra={"pod": str(news.ref), "outcome": news.outcome, "detail": news.detail})
        if news.outcome is Outcome.APPLIED and news.seconds is not None:
            self._series.observe_resize(news.seconds)
        event = _EVENTS.get(news.outcome)
        if event is not None:
            self.event(news.ref, event, news.detail or changes_text(news.changes))

    def propose(self, planned: PlannedNode) -> None:
        """Report evictions that the plan asks for; nobody is evicted from here."""
        now = self._now()
        wanted = {(eviction.ref.uid, _want(eviction)) for eviction in planned.plan.evictions}
        self._proposed = {key: since for key, since in self._proposed.items() if key in wanted}
        for eviction in planned.plan.evictions:
            key = (eviction.ref.uid, _want(eviction))
            if now - self._proposed.get(key, -PROPOSED_AGAIN_SECONDS) < PROPOSED_AGAIN_SECONDS:
                continue
            self._proposed[key] = now
            self._series.count_eviction(eviction.resource)
            self._journal.add(
                unix_seconds=self._wall_now(),
                action=Action.EVICTION,
                outcome=Outcome.PROPOSED,
                reason=_want(eviction),
                detail=eviction.reason,
                pod=eviction.ref,
                workload=f"{eviction.workload.kind}/{eviction.workload.name}",
            )
            self.event(eviction.ref, EventReason.EVICTION_PROPOSED, eviction.reason)

    def tell_faults(self, planned: PlannedNode) -> None:
        """Report annotations that are not understood, once for each wording."""
        faulty = {
            uid: "; ".join(str(fault) for fault in demand.orders.faults)
            for uid, demand in planned.demands.items()
            if demand.orders.faults
        }
        self._series.set_annotation_faults(len(faulty))
        for uid, text in faulty.items():
            pod = planned.demands[uid].pod
            ref = PodRef(namespace=pod.namespace, name=pod.name, uid=uid)
            is_event_due = self._may_write() is None and has_enforced(planned.plan)
            if is_event_due and self._owners_told.get(uid) != text:
                self._owners_told[uid] = text
                self.event(ref, EventReason.ANNOTATION_NOT_UNDERSTOOD, text)
            if self._faults_told.get(uid) == text:
                continue
            log.warning("annotation not understood", extra={"pod": str(ref), "cause": text})
            self._notice("faulty_annotation", text, ref)
        self._tell_unknown(planned)
        self._faults_told = faulty
        self._owners_told = {uid: text for uid, text in self._owners_told.items() if uid in faulty}

    def _tell_unknown(self, planned: PlannedNode) -> None:
        """Report once annotations under our prefix that nobody knows: a slip makes no pod ``off``, but it is one."""
        unknown = {
            uid: ", ".join(unknown_keys(demand.pod.annotations))[:MOST_UNKNOWN]
            for uid, demand in planned.demands.items()
        }
        for uid, keys in unknown.items():
            if not keys or self._unknown_told.get(uid) == keys:
                continue
            pod = planned.demands[uid].pod
            ref = PodRef(namespace=pod.namespace, name=pod.name, uid=uid)
            log.warning("annotation not known", extra={"pod": str(ref), "keys": keys})
            self._notice("unknown_annotation", f"{keys}: not known, passed over", ref)
        self._unknown_told = unknown

    def tell_windows(self, planned: PlannedNode) -> None:
        """Report once for each pod until when what should fall, or would restart it, waits; tell how long of all."""
        waiting = waiting_for_windows(planned.plan)
        soonest = min((until for until in waiting.values() if until is not None), default=None)
        self._series.set_window_wait(None if soonest is None else max(0.0, soonest - planned.plan.taken_unix_seconds))
        for ref, until in waiting.items():
            if ref not in self._windows_told or self._windows_told[ref] != until:
                self._notice(KeptReason.WINDOW, waits_words(planned.demands[ref.uid].waits), ref)
        self._windows_told = waiting

    def tell_gates(self, planned: PlannedNode) -> None:
        """Report once each kind of step for which API server or kubelet are too old."""
        if not planned.state.is_complete:
            return
        for reason in planned.gates.reasons:
            if reason not in self._gates_told:
                log.info("some steps are withheld", extra={"reason": "versions", "detail": reason})
                self._notice("versions", reason)
        self._gates_told = planned.gates.reasons

    def _notice(self, reason: str, detail: str, ref: PodRef | None = None) -> None:
        self._journal.add(
            unix_seconds=self._wall_now(),
            action=Action.NOTICE,
            outcome=Outcome.WITHHELD,
            reason=reason,
            detail=detail,
            pod=ref,
        )

    def expire(self, wall_now: float) -> None:
        """Report pauses and pins whose time is up."""
        pause, pins = self._holds.expire(now_unix_seconds=wall_now)
        if pause is not None:
            self._journal.add(
                unix_seconds=wall_now,
                action=Action.RESUME,
                outcome=Outcome.DONE,
                reason="time is up",
                detail="the pause is over",
            )
        for pin in pins:
            self._journal.add(
                unix_seconds=wall_now,
                action=Action.UNPIN,
                outcome=Outcome.DONE,
                reason="time is up",
                detail="may be sized again",
                pod=pin.ref,
            )
        self._series.set_holding(is_paused=self._holds.is_paused(wall_now), pinned=len(self._holds.pinned(wall_now)))

    def event(self, ref: PodRef, reason: EventReason, note: str) -> None:
        """Leave something to tell a pod's owner for the end of the turn; nothing of one in an excluded namespace."""
        if self._events is not None and not is_excluded(ref.namespace, self._options):
            self._untold.append(PodEvent(ref=ref, reason=reason, note=note))

    def tell_owners(self) -> None:
        """Send events to pods' owners; at a turn's end, so that no resize waits for it.

        An Event is a write too: on a node that is paused, or may not write, they wait, the newest of them.
        """
        while self._events is not None and self._untold and self._may_write() is None:
            if not self._events.send(self._untold.popleft()):
                return  # a server that is slow, or a budget: the rest waits


def has_enforced(plan: Plan) -> bool:
    """Return whether some pod of the plan is in mode protect or enforce."""
    return any(pod.mode.resizes for pod in plan.pods)


def _want(eviction: Eviction) -> str:
    return str(Want.OUT_OF_MEMORY if eviction.is_out_of_memory else eviction.resource)
