"""What pods just admitted take more from quotas than they came with, until the quotas show it. No I/O.

An API server counts a pod after it asked the webhooks about it, and the count comes back by a watch. Pods that are
created at the same moment would all be given the same room. Each replica of the webhook knows its own answers only, and
what a watch is behind by more than ``UNSEEN_SECONDS`` is not known: then the room may be given twice.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

UNSEEN_SECONDS: Final = 5.0
"""For so long growth is added to what a quota shows as used; some of it is counted twice then, and less growth made."""
MOST_ADMISSIONS: Final = 10_000
"""2,000 a second, a few megabytes; of more the oldest are forgotten."""


class RecentGrowth:
    """The growth of the last seconds, by namespace and the quotas' names; nanos. For any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin empty.

        Args:
            clock: Monotonic seconds.
        """
        self._clock = clock
        self._guard = threading.Lock()
        self._admissions: deque[tuple[float, str, Mapping[str, int]]] = deque()
        self._sums: dict[str, dict[str, int]] = {}
        """Of all admissions kept; a namespace or name without growth is not in it."""

    def add(self, namespace: str, grown: Mapping[str, int]) -> None:
        """Remember a pod that was admitted larger than it came."""
        with self._guard:
            self._admissions.append((self._clock(), namespace, grown))
            sums = self._sums.setdefault(namespace, {})
            for name, more in grown.items():
                sums[name] = sums.get(name, 0) + more
            self._forget()

    def of(self, namespace: str) -> dict[str, int]:
        """Give what quotas of a namespace may not show yet."""
        with self._guard:
            self._forget()
            return dict(self._sums.get(namespace, {}))

    def __len__(self) -> int:
        return len(self._admissions)

    def _forget(self) -> None:
        """Take away what is too old; the guard is held."""
        oldest = self._clock() - UNSEEN_SECONDS
        while self._admissions and (self._admissions[0][0] < oldest or len(self._admissions) > MOST_ADMISSIONS):
            _, namespace, grown = self._admissions.popleft()
            sums = self._sums[namespace]
            for name, more in grown.items():
                sums[name] -= more
                if not sums[name]:
                    del sums[name]
            if not sums:
                del self._sums[namespace]
