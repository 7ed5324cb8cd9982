"""Reviews go first: a thread that makes a long answer waits while a pod is being admitted. Webhook; any thread.

Answers to people take thousands of estimates, each under the lock of the histories, and a thread that takes a lock
again and again lets nobody else have it. With five people looking at 200 workloads of three containers, at 200
admissions a second, the longest admission took 75 ms without this and 37 ms with it (``tests/bench/webhook.py``).

An admission gives the interpreter up at each read and write, and gets it back from a thread that works beside it half a
millisecond later: while a long answer is made, admissions are slower and queue. So an answer also rests, twice as long
as it worked. Before this the 99th percentile was 8.7 ms without those people and 11.8 ms with them; in two runs with it
8.5 and 7.9 ms, and 7.3 and 8.3 ms; in a third, on a machine that was slow itself, 12.2 and 18.7 ms.

For the same reason threads that work on reports take turns: the interpreter is given to any of those that wait for it,
so that of five an admission waits for four at each read and write, and of two for one. A turn begins, and goes on after
each piece, when the event loop waits and no review is under way: else what the loop does, of which a review is a part,
takes twice as long as its own work. Beside reports at the pace of 5,000 nodes the 99th percentile was 6.6 and 5.9 ms
where turns began whenever they could, 4.7 and 4.6 ms with this; on a slow machine 5.7, 6.3 and 7.8 ms with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, ParamSpec, TypeVar

BREATH_SECONDS: Final = 0.0005
"""Given up between pieces of other work, so that an admission that waits goes first."""
MOST_BREATHS: Final = 10
"""After which the other goes on all the same: somebody waits for its answer, too."""
PIECE_BREATHS: Final = 2
"""The same between pieces of a turn. A report of 60 containers has a dozen pieces in five turns: where the loop never
waits it is held up by some 40 ms. Measured with a loop that was said to be always at work: 18 reports a second went in,
on a slow machine, where 5,000 nodes send 17."""

REST_RATIO: Final = 2.0
"""Rest of a long answer by its work: it has a third of the interpreter at most."""
MOST_REST_SECONDS: Final = 0.01
"""At once; somebody waits for its answer, too."""

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Precedence:
    """The number of reviews under way, and the wait of those who give way to them."""

    def __init__(
        self, sleep: Callable[[float], None] = time.sleep, *, worked_seconds: Callable[[], float] = time.thread_time
    ) -> None:
        """Begin; ``worked_seconds`` is the CPU time of the thread that asks."""
        self._sleep, self._worked_seconds = sleep, worked_seconds
        self._lock = threading.Lock()
        self.turn: Final = _Turn(self._let_others_end)
        """Held by a thread that works on reports for a millisecond or two; not while it asks or waits for anybody."""
        self._reviews = 0
        self._is_loop_at_work = False
        self._of_thread = threading.local()

    def loop_works(self, is_at_work: bool) -> None:
        """Record that the event loop has something to do, or waits for it."""
        self._is_loop_at_work = is_at_work

    def first(self, review: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        """Return a review to which others give way."""

        def reviewed(*arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
            with self._lock:
                self._reviews += 1
            try:
                return review(*arguments, **named)
            finally:
                with self._lock:
                    self._reviews -= 1

        return reviewed

    def give_way(self) -> None:
        """Rest from what this thread worked, and wait while a review is under way; some milliseconds, without a lock.

        Work of less than a quarter of a millisecond is rested from later, with what follows.
        """
        worked = self._worked_seconds()
        rest_seconds = REST_RATIO * (worked - getattr(self._of_thread, "rested", worked))
        if rest_seconds >= BREATH_SECONDS:
            self._sleep(min(rest_seconds, MOST_REST_SECONDS))
        self._let_others_end()
        if rest_seconds >= BREATH_SECONDS or not hasattr(self._of_thread, "rested"):
            self._of_thread.rested = worked

    def breathe(self) -> None:
        """Wait between two pieces of work while a review is under way or the loop is at work; a millisecond at most."""
        self._let_others_end(PIECE_BREATHS)

    def _let_others_end(self, most_breaths: int = MOST_BREATHS) -> None:
        for _ in range(most_breaths):
            if not (self._reviews or self._is_loop_at_work):
                break
            self._sleep(BREATH_SECONDS)


class _Turn:
    """A lock whose holder lets others end before it begins."""

    def __init__(self, let_others_end: Callable[[], None]) -> None:
        self._let_others_end = let_others_end
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with ExitStack() as undone:
            undone.enter_context(self._lock)
            self._let_others_end()
            undone.pop_all()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
