"""The thread ``control``: evaluates at each interval, sums up each minute, learns from kills.

Node. It holds no rule; what fails is said, and the next turn goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from agent.metrics.loop_series import LoopTurns
from agent.node.history.learner import Learner
from agent.node.history.reported_kills import ToldKills
from agent.node.recommender.evaluation import Evaluator
from agent.node.sampling.listener import Tally
from agent.node.sampling.observer import MINUTE_NS
from agent.turns import Turns

log = logging.getLogger(__name__)

KILLS_NS: Final = 5_000_000_000
"""Between two evaluations that out-of-memory kills ask for."""
MINUTE_DELAY_NS: Final = 5_000_000_000
"""How long after its end a minute is summed up: the reading after the end, which its last pair needs, is there by then
unless sweeps come more than a gap apart."""


class ControlLoop:
    """Takes the turns of the thread ``control``."""

    def __init__(
        self,
        *,
        evaluate_interval_seconds: float,
        learner: Learner,
        evaluator: Evaluator,
        tally: Tally,
        # Looks before each evaluation for kills that only the pods tell of; None = nobody tells
        told_kills: ToldKills | None,
        evaluated: Callable[[], None],  # Called after each evaluation, on this thread
        counts: LoopTurns,
    ) -> None:
        self._learner, self._evaluator, self._tally = learner, evaluator, tally
        self._told_kills, self._evaluated = told_kills, evaluated
        self._interval_ns = int(evaluate_interval_seconds * 1e9)
        self._has_restored = self._is_restoring = False
        self._has_kills = False
        self._evaluate_due_ns = self._minute_due_ns = self._evaluated_ns = 0
        self.turns: Final = Turns("control", self._turn, failed=self._failed, counts=counts, last=learner.save)

    def hurry(self) -> None:
        """Request an early evaluation of a kill that the learner was told of; quick, any thread."""
        self._has_kills = True
        self.turns.wake()

    def _turn(self) -> float:
        """Do what is due; return the seconds until something is again."""
        if not self._has_restored:
            self._restore()
        if self._has_kills:
            self._has_kills = False
            self._learner.learn_kills()
            # What was killed is recommended more memory at once, but a crash loop is not followed kill by kill.
            self._evaluate_due_ns = min(self._evaluate_due_ns, max(self._evaluated_ns + KILLS_NS, time.monotonic_ns()))
        now_ns = time.monotonic_ns()
        if now_ns >= self._evaluate_due_ns:
            self._evaluated_ns = now_ns
            self._evaluate_due_ns += self._interval_ns * ((now_ns - self._evaluate_due_ns) // self._interval_ns + 1)
            self._evaluate()
        if time.monotonic_ns() >= self._minute_due_ns:
            self._minute_due_ns = _next_minute_ns(time.monotonic_ns())
            self._evaluator.roll_minutes(time.monotonic_ns(), self._is_stopping)
        return max(0.0, (min(self._evaluate_due_ns, self._minute_due_ns) - time.monotonic_ns()) / 1e9)

    def _restore(self) -> None:
        """Read the history back; a fault in it is not tried again: what was kept is lost, what comes is learnt."""
        self._has_restored = self._is_restoring = True
        try:
            self._learner.restore(self._is_stopping)
        finally:
            self._evaluate_due_ns = time.monotonic_ns()
            self._minute_due_ns = _next_minute_ns(self._evaluate_due_ns)
        self._is_restoring = False

    def _evaluate(self) -> None:
        if self._told_kills is not None:
            self._told_kills.look()
        self._evaluator.evaluate(self._is_stopping)
        self._evaluated()

    def _is_stopping(self) -> bool:
        return self.turns.is_stopping

    def _failed(self, error: Exception) -> float:
        self._tally.loop_failures += 1
        self._tally.newest_failure = f"{type(error).__name__}: {error}"
        log.exception("the history cannot be learnt from" if self._is_restoring else "an evaluation failed")
        self._is_restoring = False
        return 0.0  # what failed is due again at its own time only


def _next_minute_ns(now_ns: int) -> int:
    return (now_ns // MINUTE_NS + 1) * MINUTE_NS + MINUTE_DELAY_NS
