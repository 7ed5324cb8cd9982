"""Reviews go first: a thread that makes a long answer waits while a pod is being admitted. Webhook; any thread.

Answers to people take thousands of estimates, each under the lock of the histories, and a thread that takes a lock
again and again lets nobody else have it. With five people looking at 200 workloads of three containers, at 200
admissions a second, the longest admission took 75 ms without this and 37 ms with it (``tests/bench/webhook.py``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

BREATH_SECONDS: Final = 0.0005
"""Given up between pieces of other work, so that an admission that waits goes first."""
MOST_BREATHS: Final = 10
"""After which the other goes on all the same: somebody waits for its answer, too."""

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Precedence:
    """The number of reviews under way, and the wait of those who give way to them."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._lock = threading.Lock()
        self._reviews = 0

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
        """Wait while a review is under way, a few milliseconds at most; called without any lock."""
        for _ in range(MOST_BREATHS):
            if not self._reviews:
                return
            self._sleep(BREATH_SECONDS)
