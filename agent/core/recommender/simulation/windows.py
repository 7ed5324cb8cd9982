"""The sliding windows behind a decision in a simulation: a percentile of the last minutes of every container at once.

Core, pure. What ``window`` and ``memory_window`` take from rings of seconds, this takes from a trace's minutes.
"""

from __future__ import annotations

import numpy as np

from agent.core.numbers.arrays import Bools, Floats


class SlidingPercentile:
    """Percentiles over (now - window, now] of ``n`` rows, fed minute by minute; linear between ranks.

    With more than ``max_gap_ratio`` of the window in gaps, from the first minute known on, there is no figure: so a
    young container has one at once.
    """

    def __init__(self, rows: int, *, minutes: int, ratio: float, max_gap_ratio: float) -> None:
        # Infinity marks a gap: it sorts behind every value, so that ranks count known minutes only. It never leaves.
        self._ring = np.full((rows, minutes), np.inf)
        self._known = np.zeros(rows, dtype=np.int64)
        self._observed = np.zeros(rows, dtype=np.int64)
        self._was_there = np.zeros((minutes, rows), dtype=np.bool_)
        self._first_of_row = np.arange(rows) * minutes
        self._slot = 0
        self._minutes = minutes
        self._ratio = ratio
        self._max_gap_ratio = max_gap_ratio

    def push(self, values: Floats, has: Bools) -> None:
        """Add the newest minute and let the oldest go; shape ``(n,)`` each."""
        slot = self._slot
        self._ring[:, slot] = np.where(has, values, np.inf)
        self._known += has
        self._known -= self._was_there[slot]
        self._was_there[slot] = has
        self._observed += (self._observed > 0) | has
        self._slot = (slot + 1) % self._minutes

    def read(self) -> tuple[Floats, Bools]:
        """Return the percentile of each row's known minutes and whether there is one, shape ``(n,)`` each."""
        observed = np.minimum(self._observed, self._minutes)
        has = (self._known > 0) & (observed - self._known <= self._max_gap_ratio * observed)
        ordered = np.sort(self._ring, axis=1).ravel()
        last = np.maximum(self._known - 1, 0)
        rank = self._ratio * last
        below = rank.astype(np.int64)
        low = np.where(has, ordered[self._first_of_row + below], 0.0)
        high = np.where(has, ordered[self._first_of_row + np.minimum(below + 1, last)], 0.0)
        # minimum: the product may round past the upper value
        return np.minimum(low + (rank - below) * (high - low), high), has
