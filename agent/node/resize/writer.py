"""The hand: carries one step out and puts down what came of it. Node.

Whoever resizes (a plan, a shrink taken back, a person's restore) does it through here, one at a time, so that originals
are kept first, the ledger knows, and log, metric and decision tell the same story.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from agent.core.cluster.pod import Pod, PodRef
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import PlanStep
from agent.core.resize.answer import AnswerKind, ResizeAnswer
from agent.core.resize.decision import Action, Decision, Outcome
from agent.core.resize.record import FlightState, News
from agent.kube.calls.resize import resize
from agent.kube.client.errors import KubeError, Unreachable
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.pod_json import pod_from_json
from agent.node.resize.acting_parts import ActingParts

log = logging.getLogger(__name__)

_OUTCOMES: Final = {
    AnswerKind.ACCEPTED: Outcome.ACCEPTED,
    AnswerKind.NO_CHANGE: Outcome.APPLIED,
    AnswerKind.INFEASIBLE: Outcome.INFEASIBLE,
    AnswerKind.FEATURE_MISSING: Outcome.REJECTED,
    AnswerKind.FORBIDDEN: Outcome.REJECTED,
    AnswerKind.REJECTED: Outcome.REJECTED,
    AnswerKind.INVALID: Outcome.REJECTED,
    AnswerKind.CONFLICT: Outcome.CONFLICT,
    AnswerKind.GONE: Outcome.CONFLICT,
    AnswerKind.THROTTLED: Outcome.ERROR,
    AnswerKind.UNAVAILABLE: Outcome.ERROR,
    AnswerKind.UNKNOWN: Outcome.ERROR,
}
LOOK_UP_TIMEOUT_SECONDS: Final = 2.0
"""For reading one pod: the acting thread waits for it."""
NOT_KEPT: Final = "the disk does not take the original requests: nothing is changed that could not be restored"
NOT_KEPT_LEDGER: Final = "the disk does not take what is about to be done: after a crash nobody would know of it"


class StepWriter:
    """Sends steps; see the module's docstring. Any thread."""

    def __init__(self, parts: ActingParts) -> None:
        self._api, self._ledger, self._journal, self._holds = parts.api, parts.ledger, parts.journal, parts.holds
        self._series, self._cluster, self._keep = parts.series, parts.cluster, parts.keep_ledger
        self._now, self._wall_now = parts.clocks.now, parts.clocks.wall_now
        self._timeout_seconds = parts.settings.kubernetes.request_timeout_seconds
        self.lock: Final = threading.RLock()
        """Held while the ledger is used, and while a step is sent: never taken under another lock."""
        self.quiet_until_seconds = 0.0
        """Until when the API server is to be left alone, on the ledger's clock; may be read without the lock."""
        self.unanswered_uids: frozenset[str] = frozenset()
        """Pods with a resize that has no answer, as of the newest step; may be read without the lock."""

    def send(
        self, pod: Pod, step: PlanStep, action: Action = Action.RESIZE, *, timeout_seconds: float | None = None
    ) -> tuple[Decision, ResizeAnswer | None]:
        """Carry a step out, if nothing is under way for its pod.

        Args:
            pod: As it was when the step was decided: it is resized in no other version.

        Returns:
            The decision put down, and the server's answer; None = nothing was sent.
        """
        with self.lock:
            obstacle = self._ledger.may_send(step, pod, self._now(), action)
            if obstacle is not None:
                return self._put_down(step, action, Outcome.WITHHELD, obstacle, ""), None
            if not self._holds.keep_original(pod, now_unix_seconds=self._wall_now()):
                return self._put_down(step, action, Outcome.WITHHELD, "originals", NOT_KEPT), None
            if action is not Action.RESTORE and self._holds.is_paused(self._wall_now()):
                return self._put_down(step, action, Outcome.WITHHELD, KeptReason.PAUSED, ""), None  # while this waited
            self._ledger.sent(step, pod, self._now(), action)
            if not self._keep():  # before it is sent: after a crash in between, what became of it is looked up
                self._ledger.answered(step.ref.uid, ResizeAnswer(kind=AnswerKind.CONFLICT), self._now())
                return self._put_down(step, action, Outcome.WITHHELD, "ledger", NOT_KEPT_LEDGER), None
            self._note_unanswered()
            answer, fresh = resize(
                self._api,
                step,
                pod.resource_version,
                pod=pod,
                timeout_seconds=self._timeout_seconds if timeout_seconds is None else timeout_seconds,
            )
            if fresh is not None:
                self._cluster.put(fresh)
            now = self._now()
            self._ledger.answered(step.ref.uid, answer, now)
            self._note_unanswered()
            self.quiet_until_seconds = now + self._ledger.wait_seconds(now)
        outcome = _OUTCOMES[answer.kind]
        if action is Action.REVERT and answer.is_done:
            outcome = Outcome.REVERTED
        self._series.count_changes(step.changes, outcome)
        reason = step.reason if answer.is_done else str(answer.kind)
        decision = self._put_down(step, action, outcome, reason, answer.message if not answer.is_done else "")
        log.info(
            "resize",
            extra={"pod": str(step.ref), "phase": step.phase, "outcome": outcome, "detail": decision.detail},
        )
        return decision, answer

    def withhold(self, step: PlanStep, action: Action, reason: str, detail: str = "") -> Decision:
        """Record that a step was not sent."""
        return self._put_down(step, action, Outcome.WITHHELD, reason, detail)

    def unanswered(self) -> tuple[PodRef, ...]:
        """Return the pods of whose newest resize nobody knows whether it was done."""
        with self.lock:  # so that a call that is under way is over
            return tuple(
                record.ref
                for record in self._ledger.kept().pods
                if record.flight is not None and record.flight.state is FlightState.SENT
            )

    def look_up(self) -> tuple[News, ...]:
        """Read the pods of whose resizes no answer came; give what became of those that could be read.

        Without it such a pod would wait until its silence is long enough to mean "not done", however much it starves.
        """
        news: list[News] = []
        for ref in self.unanswered():
            path = namespaced_path(ref.namespace, "pods", ref.name)
            try:
                document = self._api.call("GET", path, timeout_seconds=LOOK_UP_TIMEOUT_SECONDS)
                pod = pod_from_json(document)
            except Unreachable as error:
                log.debug("no pod looked up", extra={"cause": str(error)})
                break  # the next one would wait as long
            except (KubeError, ConvertError) as error:
                log.debug("pod not looked up", extra={"pod": str(ref), "cause": str(error)})
                continue
            if pod.uid != ref.uid:
                continue  # its successor; the view forgets the one that is gone
            with self.lock:
                self._cluster.put(document)
                news.extend(self._ledger.confirmed(pod, self._now()))
                self._keep()
        return tuple(news)

    def _note_unanswered(self) -> None:
        self.unanswered_uids = frozenset(ref.uid for ref in self.unanswered())

    def _put_down(self, step: PlanStep, action: Action, outcome: Outcome, reason: str, detail: str) -> Decision:
        return self._journal.add(
            unix_seconds=self._wall_now(),
            action=action,
            outcome=outcome,
            reason=reason,
            detail=detail,
            pod=step.ref,
            workload=f"{step.workload.kind}/{step.workload.name}",
            changes=step.changes,
        )
