"""The thread ``proposing``: tells the webhook whom the node's plans want evicted, and tells people what it answered.

Node. The agent evicts nobody: no answer is no eviction. Plans come from the acting thread, which waits for nothing
here; what has stood for long enough (``core.arbiter_proposals``) goes out, at most every so often. Where the
webhook does not know yet what was measured until then, a report is hastened first. Made only where there is a webhook.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import PodRef
from agent.core.eviction.proposal import Proposal, Verdict
from agent.core.eviction.proposal_json import EVICTIONS_PATH, ProposalAnswer, answers_of, proposals_text
from agent.core.eviction.proposals import ProposalStanding, ProposeOptions, proposals_of
from agent.core.plan.plan import Plan
from agent.core.plan.room_maker import room_maker
from agent.core.resize.decision import Action, DecisionLog, Outcome
from agent.core.resize.event_rate import EventReason
from agent.kube.client.errors import CredentialsError, one_line
from agent.node.reports.client import WebhookAway, WebhookClient
from agent.turns import Turns

log = logging.getLogger(__name__)

LATEST_JITTER_RATIO: Final = 0.2
"""Of the interval, by lot, so that nodes do not propose in step."""
TOLD_AGAIN_SECONDS: Final = 600.0
"""The same answer about the same pod is told again after so long."""
FAILED_SECONDS: Final = 10.0
STOP_SECONDS: Final = 0.3
_OK: Final = 200
_OUTCOMES: Final[Mapping[Verdict, Outcome]] = {
    Verdict.GRANTED: Outcome.ACCEPTED,
    Verdict.RECOMMENDED: Outcome.PROPOSED,
    Verdict.REFUSED: Outcome.REJECTED,
    Verdict.LATER: Outcome.WITHHELD,
}
_EVENTS: Final[Mapping[Verdict, EventReason]] = {
    Verdict.GRANTED: EventReason.EVICTION_GRANTED,
    Verdict.REFUSED: EventReason.EVICTION_REFUSED,
}
"""What a pod's owner hears; the rest passes or is only advice."""


class ReportsHeard(Protocol):
    """How far the webhook knows what was measured; a ``Reporter`` is it. Moments of CLOCK_MONOTONIC, in seconds."""

    def reported_until_seconds(self) -> float | None:
        """Return up to when; None = nothing since the start."""

    def hasten(self, until_seconds: float) -> None:
        """Ask for a report of all until a moment; quick. ``reported`` is to be called when one was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerClocks:
    """The time, and the lot."""

    wall_now: Callable[[], float] = time.time
    """Unix seconds, of people."""
    monotonic: Callable[[], float] = time.monotonic
    lot: Callable[[], float] = random.random
    """Returns 0..1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalAudience:
    """Who is told what the webhook answered."""

    tell: DecisionLog
    event: Callable[[PodRef, EventReason, str], None]
    """Tells a pod's owner; quick, any thread."""
    count: Callable[[Verdict], None]
    """Counts an answer, for metrics."""


def unless_scheduler_makes_room(
    may_write: Callable[[], str | None], state: Callable[[], NodeState], wall_now: Callable[[], float] = time.time
) -> Callable[[], str | None]:
    """Return what tells why nothing may be proposed now: whatever holds writes, or the scheduler's turn."""

    def held() -> str | None:
        why = may_write()
        maker = room_maker(state(), wall_now()) if why is None else None
        return maker.note if maker is not None and maker.is_scheduler else why

    return held


class Proposer:
    """Takes the turns of the thread ``proposing``."""

    def __init__(
        self,
        *,
        options: ProposeOptions,
        node: str,  # This one, as its token names it
        poster: WebhookClient,
        # Why nothing may be asked for now (paused, no rights, ...); None = it may
        may_propose: Callable[[], str | None],
        audience: ProposalAudience,
        reports: ReportsHeard,  # What the webhook knows already
        clocks: ProposerClocks | None = None,  # The time; None = the machine's
    ) -> None:
        clocks = clocks or ProposerClocks()
        self._node, self._poster, self._may_propose = node, poster, may_propose
        self._audience, self._reports = audience, reports
        self._wall_now, self._clock, self._lot = clocks.wall_now, clocks.monotonic, clocks.lot
        self._interval_seconds = options.interval_seconds
        self._lock = threading.Lock()
        """Guards what follows."""
        self._standing = ProposalStanding(options)
        self._has_news = False
        self._told: dict[str, tuple[ProposalAnswer, float]] = {}
        """What was told last of each pod, and when. Of the thread alone."""
        self._trouble: str | None = None
        self._hasten_due_seconds = 0.0
        self._awaiting_since_seconds: float | None = None
        """Since when a proposal waits for nothing but a report; None = none does."""
        self.turns: Final = Turns("proposing", self._turn_if_news, failed=self._failed)

    def stop(self) -> None:
        """End the thread; one that waits for the webhook is left to end with the process."""
        self.turns.stop()
        self.turns.join(STOP_SECONDS)

    def take(self, plan: Plan) -> None:
        """Record the newest plan; quick, from the acting thread."""
        proposals = proposals_of(plan) if self._may_propose() is None else ()
        with self._lock:
            self._standing.take(proposals, self._clock())
            self._has_news = bool(proposals)
            if not proposals:
                self._awaiting_since_seconds = None
        self.turns.wake()

    def reported(self) -> None:
        """Record that a report was taken; quick, from the thread that reports."""
        with self._lock:
            self._has_news = True
        self.turns.wake()

    def notes(self) -> tuple[str, ...]:
        """Return what is degraded, one sentence each."""
        trouble, since = self._trouble, self._awaiting_since_seconds
        if trouble is None and since is not None and self._clock() - since > self._interval_seconds:
            trouble = "they wait until the webhook has taken a report of what they are about"
        return () if trouble is None else (f"evictions are not proposed: {trouble}",)

    def _turn_if_news(self) -> None:
        with self._lock:
            has_news, self._has_news = self._has_news, False
        if has_news:
            self.turn()

    def _failed(self, _: Exception) -> float:
        log.exception("proposing evictions failed")
        return FAILED_SECONDS

    def turn(self) -> None:
        """Propose what is due now; on the thread ``proposing``."""
        now, until = self._clock(), self._reports.reported_until_seconds()
        with self._lock:
            due = self._standing.due(now, reported_until_seconds=until)
            awaited = self._standing.awaited_report_seconds(now, reported_until_seconds=until)
            self._awaiting_since_seconds = None if awaited is None else self._awaiting_since_seconds or now
        if self._may_propose() is not None:
            return
        if awaited is not None and now >= self._hasten_due_seconds:
            self._hasten_due_seconds = now + self._interval_seconds
            self._reports.hasten(awaited)
        if not due:
            return
        quiet_seconds, answers = self._ask(due)
        now = self._clock()
        with self._lock:
            jitter = self._interval_seconds * LATEST_JITTER_RATIO * self._lot()
            self._standing.called(now + jitter, quiet_seconds=quiet_seconds)
            self._standing.answered({uid: answer.verdict for uid, answer in answers.items()}, now)
        self._told = {uid: entry for uid, entry in self._told.items() if now - entry[1] < TOLD_AGAIN_SECONDS}
        for proposal in due:
            answer = answers.get(proposal.ref.uid)
            if answer is not None:
                self._audience.count(answer.verdict)
                self._tell_of(proposal, answer, now)

    def _ask(self, due: tuple[Proposal, ...]) -> tuple[float | None, Mapping[str, ProposalAnswer]]:
        """Return for how long the webhook asks to be left alone, and its answers."""
        try:
            answer = self._poster.post(EVICTIONS_PATH, proposals_text(self._node, due))
        except (WebhookAway, CredentialsError) as error:
            self._note(str(error))
            return None, {}
        answers = answers_of(answer.body) if answer.status == _OK else None
        if answers is None:
            said = one_line(answer.body[:200].decode(errors="replace"))
            self._note(f"the webhook answered {answer.status}: {said}")
            return answer.retry_after_seconds, {}
        self._note(None)
        return None, answers

    def _note(self, trouble: str | None) -> None:
        if trouble is not None and self._trouble is None:
            log.warning("evictions are not proposed", extra={"cause": trouble})
        self._trouble = trouble

    def _tell_of(self, proposal: Proposal, answer: ProposalAnswer, now_seconds: float) -> None:
        entry = self._told.get(proposal.ref.uid)
        if entry is not None and (entry[0].verdict, entry[0].reason) == (answer.verdict, answer.reason):
            return
        self._told[proposal.ref.uid] = answer, now_seconds
        log.info(
            "eviction proposed",
            extra={
                "pod": str(proposal.ref),
                "verdict": answer.verdict,
                "reason": answer.reason,
                "detail": answer.detail,
            },
        )
        self._audience.tell(
            unix_seconds=self._wall_now(),
            action=Action.EVICTION,
            outcome=_OUTCOMES[answer.verdict],
            reason=answer.reason,
            detail=f"{answer.verdict}: {answer.detail}" if answer.detail else str(answer.verdict),
            pod=proposal.ref,
        )
        event = _EVENTS.get(answer.verdict)
        if event is not None:
            self._audience.event(
                proposal.ref, event, f"{answer.reason}: {answer.detail}" if answer.detail else answer.reason
            )
