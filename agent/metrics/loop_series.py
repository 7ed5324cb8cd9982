"""The series of loops that must never end: failed turns, and how long ago each loop last came round. Metrics.

A thread that hangs or has died answers no question; its age on the page grows, whoever asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class LoopTurns:
    """Counts the turns of one loop; any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.failures = 0
        self.ended_seconds = clock()
        """When the newest turn ended; at first, when the loop began."""

    def done(self) -> None:
        """Record that a turn has ended."""
        self.ended_seconds = self._clock()

    def failed(self) -> None:
        """Record that a turn came to nothing; it counts as one that ended, too."""
        self.failures += 1
        self.ended_seconds = self._clock()


class LoopSeries(Collector):
    """Collects of all loops of a process; any thread. Only loops that were begun are on the page."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._lock = threading.Lock()
        self._loops: dict[str, LoopTurns] = {}

    def begin(self, loop: str) -> LoopTurns:
        """Add a loop to the page, by the name of its thread; a second call gives the same."""
        with self._lock:
            if loop not in self._loops:
                self._loops[loop] = LoopTurns(self._clock)
            return self._loops[loop]

    def collect(self) -> Iterable[Metric]:
        """Return the series."""
        failures = CounterMetricFamily(
            "plimsoll_loop_failures", "Turns of a loop that failed and were left out; it goes on.", labels=("loop",)
        )
        ages = GaugeMetricFamily(
            "plimsoll_loop_turn_age_seconds",
            "Time since the loop last ended a turn; one that grows and grows hangs.",
            labels=("loop",),
            unit="seconds",
        )
        with self._lock:
            loops = sorted(self._loops.items())
        for name, turns in loops:
            failures.add_metric((name,), turns.failures)
            ages.add_metric((name,), max(0.0, self._clock() - turns.ended_seconds))
        yield failures
        yield ages
