"""Which namespace is to be looked at next: events at once but gathered, failures ever later. No I/O; for any thread.

Work items are namespaces because quotas couple the buffers of one. A namespace is in the queue once at most, with the
earliest time that anybody asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

GATHER_SECONDS: Final = 0.1
"""What changes together is looked at once."""
SPACING_SECONDS: Final = 1.0
"""Between two looks at one namespace, whatever happens there, unless told otherwise."""
FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 60.0
"""What is watched is looked at when it changes; this is for what is not: a PriorityClass, a LimitRange, a kind."""
_MOST_DOUBLINGS: Final = 16


class NamespaceQueue:
    """The namespaces to look at, by when."""

    def __init__(
        self, *, clock: Callable[[], float], random: Callable[[], float], spacing_seconds: float = SPACING_SECONDS
    ) -> None:
        self._clock, self._random = clock, random
        self.spacing_seconds = spacing_seconds
        """Least time between two looks at one namespace."""
        self._changed = threading.Condition()
        self._due: dict[str, float] = {}
        self._done: dict[str, float] = {}
        """When each was looked at last."""
        self._failures: dict[str, int] = {}
        self._is_closed = False

    def wake(self, namespace: str) -> None:
        """Schedule it soon: something changed there. Ends no back-off's count, but does not wait for it either."""
        self._put(namespace, self._clock() + GATHER_SECONDS)

    def later(self, namespace: str, seconds: float) -> None:
        """Schedule it after so many seconds at the latest."""
        self._put(namespace, self._clock() + seconds)

    def retry(self, namespace: str) -> float:
        """Schedule it again after a failure: later after each further one.

        Returns:
            After how many seconds.
        """
        with self._changed:
            failures = self._failures.get(namespace, 0) + 1
            self._failures[namespace] = failures
        doubled = FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
        seconds = min(doubled, LONGEST_RETRY_SECONDS) * (0.5 + self._random())
        self._put(namespace, self._clock() + seconds)
        return seconds

    def succeeded(self, namespace: str) -> None:
        """Forget its failures."""
        with self._changed:
            self._failures.pop(namespace, None)

    def forget(self, namespace: str) -> None:
        """Nothing is there any more."""
        with self._changed:
            for by_namespace in (self._due, self._done, self._failures):
                by_namespace.pop(namespace, None)

    def take(self, timeout_seconds: float) -> str | None:
        """Wait for the next namespace whose time has come; None = none came, or the queue is closed."""
        until = self._clock() + timeout_seconds
        with self._changed:
            while not self._is_closed:
                now = self._clock()
                namespace = min(self._due, key=self._due.__getitem__, default=None)
                due = until if namespace is None else self._due[namespace]
                if namespace is not None and due <= now:
                    del self._due[namespace]
                    self._done[namespace] = now
                    return namespace
                if now >= until:
                    return None
                self._changed.wait(min(due, until) - now)
            return None

    def close(self) -> None:
        """Close: ``take`` returns None from now on, also to who waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return len(self._due)

    def _put(self, namespace: str, due: float) -> None:
        with self._changed:
            if namespace in self._done:
                due = max(due, self._done[namespace] + self.spacing_seconds)
            if namespace not in self._due or due < self._due[namespace]:
                self._due[namespace] = due
                self._changed.notify_all()
