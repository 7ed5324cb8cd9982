"""Asks the webhook whether this node may carry the overload taint: how many nodes may is decided for the whole cluster.

Node. The acting thread asks what the answer is and waits for nothing; a thread of its own gets
it. No answer is no taint. Made only where there is a webhook; without one nobody counts, and the node decides alone.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from agent.core.eviction.taint_cap import TAINT_PATH, TaintAnswer, taint_answer_of, taint_text
from agent.kube.client.errors import CredentialsError, one_line
from agent.node.keepers.taint_permission import ASKED, GRANTED, TaintPermission
from agent.node.reports.client import WebhookAnswer, WebhookAway, WebhookClient
from agent.turns import Turns

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 30.0
"""After a refusal, or no answer; doubled each time ..."""
LONGEST_AGAIN_SECONDS: Final = 300.0
"""... up to this."""
JITTER_RATIO: Final = 0.2
"""By lot: nodes that a load came over together do not ask in step."""
LAST_SECONDS: Final = 10.0
"""So much of a grant is left for the taint to be written in."""
AWAY: Final = "webhook_away"
"""The reason where there is no answer."""
_OK: Final = 200


class TaintAsker:
    """Asks, and remembers the answer; any thread."""

    def __init__(
        self,
        *,
        node: str,  # This one, as its token names it
        poster: WebhookClient,
        count: Callable[[str], None],  # Counts an answer, for metrics: ``granted``, ``refused`` or ``away``
        clock: Callable[[], float] = time.monotonic,  # Monotonic seconds
        lot: Callable[[], float] = random.random,  # Gives 0..1
    ) -> None:
        self._node, self._poster, self._count, self._clock, self._lot = node, poster, count, clock, lot
        self._lock = threading.Lock()
        self._granted_until_seconds = clock()
        self._refused: TaintPermission | None = None
        """The newest answer, where it was no grant."""
        self._is_asking = self._is_started = False
        self._due_seconds = clock()
        self._again_seconds = AGAIN_SECONDS
        self._turns = Turns("tainting", self._ask, failed=self._failed)

    def stop(self) -> None:
        """End the thread, if there is one; in a question it ends with the process."""
        self._turns.stop()

    def permission(self) -> TaintPermission:
        """Return whether the node may be tainted; not known, it is asked for, and a later call has the answer."""
        with self._lock:
            now = self._clock()
            if now < self._granted_until_seconds:
                return GRANTED
            if not self._is_asking and now >= self._due_seconds:
                self._is_asking = True
                if self._is_started:
                    self._turns.wake()
                else:
                    self._is_started = True
                    self._turns.start()
            return self._refused or ASKED

    def notes(self) -> tuple[str, ...]:
        """Return what is degraded, one sentence each."""
        refused = self._refused
        return () if refused is None or refused.reason != AWAY else (f"no overload taint is set: {refused.detail}",)

    def _ask(self) -> None:
        if not self._is_asking:
            return
        asked_seconds = self._clock()
        refused: TaintPermission | None
        seconds, asked_to_wait_seconds = 0.0, 0.0
        try:
            answer = self._poster.post(TAINT_PATH, taint_text(self._node))
            asked_to_wait_seconds = answer.retry_after_seconds or 0.0
            refused, seconds = _judged(answer)
        except (WebhookAway, CredentialsError) as error:
            refused = TaintPermission(reason=AWAY, detail=str(error))
        finally:
            self._poster.close()  # minutes until the next question: five thousand idle connections are the webhook's
        self._put(refused, asked_seconds, seconds, asked_to_wait_seconds)

    def _failed(self, _: Exception) -> float:
        log.exception("asking for the taint failed")
        # The next question must not wait for one that never ends.
        self._put(TaintPermission(reason=AWAY, detail="asking the webhook failed; see the agent's log"), 0.0, 0.0, 0.0)
        return 0.0

    def _put(
        self, refused: TaintPermission | None, asked_seconds: float, seconds: float, asked_to_wait_seconds: float
    ) -> None:
        with self._lock:
            self._is_asking, self._refused = False, refused
            if refused is None:
                self._granted_until_seconds = asked_seconds + max(0.0, seconds - LAST_SECONDS)
                self._again_seconds = AGAIN_SECONDS
            wait_seconds = max(self._again_seconds, asked_to_wait_seconds) * (1.0 + JITTER_RATIO * self._lot())
            self._due_seconds = self._clock() + wait_seconds
            if refused is not None:
                self._again_seconds = min(2 * self._again_seconds, LONGEST_AGAIN_SECONDS)
        self._count("granted" if refused is None else "away" if refused.reason == AWAY else "refused")


def _judged(answer: WebhookAnswer) -> tuple[TaintPermission | None, float]:
    """Return why not, else for how long the node may."""
    taint_answer: TaintAnswer | None = taint_answer_of(answer.body) if answer.status == _OK else None
    if taint_answer is None:
        said = one_line(answer.body[:200].decode(errors="replace"))
        return TaintPermission(reason=AWAY, detail=f"the webhook answered {answer.status}: {said}"), 0.0
    if taint_answer.is_granted:
        return None, taint_answer.seconds
    return TaintPermission(reason=taint_answer.reason, detail=taint_answer.detail), 0.0
