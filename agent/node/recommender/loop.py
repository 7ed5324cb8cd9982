"""The thread ``control``: windows and recommendations at each interval, rows of the rings at each minute.

Node. It holds no rule; what fails is said, and the next turn goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from agent.core.orders.policy_options import PolicyName
from agent.metrics.loop_series import LoopTurns
from agent.node.history.learner import Learner
from agent.node.recommender.evaluation import Teller
from agent.node.sampling.listener import Tally
from agent.node.sampling.observer import MINUTE_NS

log = logging.getLogger(__name__)

KILLS_NS: Final = 5_000_000_000
"""Between two evaluations that out-of-memory kills ask for."""
MINUTE_DELAY_NS: Final = 5_000_000_000
"""How long after its end a minute is summed up: the reading after the end, which its last pair needs, is there by then
unless sweeps come more than a gap apart."""


class ControlLoop:
    """Evaluates and sums up; see the module's docstring."""

    def __init__(
        self,
        *,
        evaluate_interval_seconds: float,
        learner: Learner,
        teller: Teller,
        tally: Tally,
        policies: Callable[[], Collection[PolicyName]] | None,
        evaluated: Callable[[], None],
        turns: LoopTurns,
        evaluating: Callable[[], None] | None = None,
    ) -> None:
        """Take the parts; nothing runs yet.

        Args:
            evaluate_interval_seconds: Between two evaluations.
            learner: Learns from minutes and kills.
            teller: Evaluates and sums up.
            tally: Counts failures.
            policies: Gives those that pods ask for, besides that of the settings; None = no pod can ask.
            evaluated: Is told of each evaluation, on this thread.
            turns: Counts the thread's turns.
            evaluating: Is told before each evaluation, on this thread; None = nobody is.
        """
        self._turns = turns
        self._evaluate_interval_seconds = evaluate_interval_seconds
        self._learner, self._teller, self._tally = learner, teller, tally
        self._policies, self._evaluated, self._evaluating = policies, evaluated, evaluating
        self._stopping = threading.Event()
        self._news = threading.Event()
        """There is something to do before the next deadline."""

    def hurry(self) -> None:
        """Hear of an out-of-memory kill that the learner has; quick, any thread."""
        self._news.set()

    def stop(self) -> None:
        """End the loop; any thread."""
        self._stopping.set()
        self._news.set()

    def run(self) -> None:
        """Read the history back, then evaluate and sum up until ``stop``; then save what was learnt."""
        try:
            self._learner.restore(self._stopping.is_set)
        except Exception as error:  # top of a thread: what was kept is lost, what comes is learnt
            self._note(error)
            log.exception("the history cannot be learnt from")
        evaluate_ns = int(self._evaluate_interval_seconds * 1e9)
        evaluate_due_ns = time.monotonic_ns()
        minute_due_ns = _next_minute_ns(time.monotonic_ns())
        evaluated_ns = 0
        while True:
            self._news.wait(max(0.0, (min(evaluate_due_ns, minute_due_ns) - time.monotonic_ns()) / 1e9))
            if self._stopping.is_set():
                break
            try:
                if self._news.is_set():
                    self._news.clear()
                    self._learner.learn_kills()
                    # What was killed is recommended more memory at once, but a crash loop is not followed kill by kill.
                    evaluate_due_ns = min(evaluate_due_ns, max(evaluated_ns + KILLS_NS, time.monotonic_ns()))
                if time.monotonic_ns() >= evaluate_due_ns:
                    evaluated_ns = time.monotonic_ns()
                    evaluate_due_ns += evaluate_ns * max(1, (time.monotonic_ns() - evaluate_due_ns) // evaluate_ns + 1)
                    if self._evaluating is not None:
                        self._evaluating()
                    if self._policies is not None:
                        self._learner.require(self._policies(), self._stopping.is_set)
                    self._teller.evaluate(self._stopping.is_set)
                    self._evaluated()
                if time.monotonic_ns() >= minute_due_ns:
                    minute_due_ns = _next_minute_ns(time.monotonic_ns())
                    self._teller.roll_minutes(time.monotonic_ns(), self._stopping.is_set)
            except Exception as error:  # top of a thread's loop: say it, go on
                self._note(error)
                log.exception("an evaluation failed")
            else:
                self._turns.done()
        self._learner.save()

    def _note(self, error: Exception) -> None:
        self._turns.failed()
        self._tally.loop_failures += 1
        self._tally.newest_failure = f"{type(error).__name__}: {error}"


def _next_minute_ns(now_ns: int) -> int:
    return (now_ns // MINUTE_NS + 1) * MINUTE_NS + MINUTE_DELAY_NS
