"""The thread ``decisions``: tells the webhook what this node decided and did, and who ordered it.

Node. The decision log itself is the queue: what the webhook does not take stays in it, on disk too, until a thousand
newer decisions push it out; what goes untold is counted, and the count is told. Each decision is known by the log and
its number, so that one told twice is one: what the disk has not taken waits, as a restart would give its number again.
It calls core and holds no rule.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from agent.core.resize.told_decisions import DECISIONS_PATH, MAX_DECISIONS_A_POST, DecisionSource, decisions_text
from agent.metrics.loop_series import LoopTurns
from agent.node.orders.journal import Journal, JournalNews
from agent.node.reports.client import WebhookClient
from agent.node.reports.patient_posts import PatientPosts, PostEnd, PostWaits
from agent.node.reports.told_decisions_file import ToldDecisionsFile
from agent.turns import Turns

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 30.0
"""Between two posts: what is said again and again meanwhile is told once."""
MORE_SECONDS: Final = 2.5
"""Where more waits than one post takes: within what the webhook lets a node call a minute."""
AGAIN_SECONDS: Final = 30.0
"""After a post that was not taken, doubled each time ..."""
LONGEST_AGAIN_SECONDS: Final = 600.0
"""... up to this."""
STOP_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class TellerOptions:
    """Who tells."""

    node: str
    """As its token names it."""
    agent: str
    """The agent's version."""


class DecisionTeller:
    """Takes the turns of the thread ``decisions``."""

    def __init__(
        self,
        options: TellerOptions,
        *,
        journal: Journal,
        poster: WebhookClient,
        file: ToldDecisionsFile,
        counts: LoopTurns | None = None,
        unix_now: Callable[[], float] = time.time,  # The clock that stamps decisions
    ) -> None:
        waits = PostWaits(again_seconds=AGAIN_SECONDS, longest_again_seconds=LONGEST_AGAIN_SECONDS)
        self._posts = PatientPosts(poster, DECISIONS_PATH, what="decisions", waits=waits)
        self._options, self._journal, self._file = options, journal, file
        self._unix_now = unix_now
        self._told = file.read(last_sequence=journal.last_sequence)
        self._through: int | None = None
        """Of the log's changes, how far; None = what the file says counts."""
        self.turns: Final = Turns("decisions", self.turn, failed=self._failed, counts=counts)

    def _failed(self, _: Exception) -> float:
        log.exception("telling of decisions failed")
        return AGAIN_SECONDS

    def stop(self) -> None:
        """End; what was not told stays in the log for the next start."""
        self.turns.stop()
        if self.turns.join(STOP_SECONDS):
            self._posts.close()

    def turn(self) -> float:
        """Send what is new; return the seconds until something may be again."""
        news = self._news()
        if not news.decisions:
            self._through = news.through
            return LOOK_SECONDS
        if not self._journal.sync():
            return LOOK_SECONDS
        dropped = self._told.dropped + self._gone(news)
        source = DecisionSource(
            node=self._options.node,
            incarnation=self._told.incarnation,
            agent=self._options.agent,
            dropped=dropped,
        )
        end, wait_seconds = self._posts.post(decisions_text(source, news.decisions, unix_now=self._unix_now()))
        if end in (PostEnd.UNKNOWN, PostEnd.AWAY):
            return wait_seconds
        highest = max(self._told.sequence, *(decision.sequence for decision in news.decisions))
        dropped += len(news.decisions) if end is PostEnd.SPOILT else 0
        if (highest, dropped) != (self._told.sequence, self._told.dropped):
            self._told = replace(self._told, sequence=highest, dropped=dropped)
            self._file.keep(self._told)
        self._through = news.through
        return MORE_SECONDS if len(news.decisions) == MAX_DECISIONS_A_POST else LOOK_SECONDS

    def _news(self) -> JournalNews:
        if self._through is not None:
            return self._journal.news(self._through, MAX_DECISIONS_A_POST)
        # What was told before the start is passed over, but for what is said again from now on.
        through = 0
        while True:
            news = self._journal.news(through, MAX_DECISIONS_A_POST)
            fresh = tuple(decision for decision in news.decisions if decision.sequence > self._told.sequence)
            if fresh or not news.decisions:
                return replace(news, decisions=fresh)
            through = news.through

    def _gone(self, news: JournalNews) -> int:
        """Count what went out of the log between what was told last and what is there: numbers have no gaps else."""
        newest = max(decision.sequence for decision in news.decisions)
        sequences = [sequence for sequence in self._journal.kept_after(self._told.sequence) if sequence <= newest]
        return max(newest - self._told.sequence - len(sequences), 0)
