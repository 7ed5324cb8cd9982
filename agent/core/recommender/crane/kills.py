"""Out-of-memory kills of the policy ``crane``: how much memory they show to be needed. Core, pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.core.numbers.integer_amounts import scale

MIN_BUMP_BYTES: Final = 100 * (1 << 20)
"""After a kill, at least so much more than was requested."""


def needed_bytes(requested_bytes: Ints, bump_ratio: float) -> Ints:
    """Return the memory that kills at these requests call for: 100 MiB more, or the request x ratio when that is more.

    Source:
        recommendation/recommender/resource/recommend.go of Crane, which scales by the Vertical Pod Autoscaler's rule.
    """
    return np.maximum(requested_bytes + MIN_BUMP_BYTES, scale(requested_bytes, bump_ratio))


def protect(memory_bytes: Floats, needed: Floats, has_kill: Bools) -> Floats:
    """Raise memory to what kills call for, where there was one."""
    return np.where(has_kill, np.maximum(memory_bytes, needed), memory_bytes)


class CraneKills:
    """Kills of many containers, one row each: for each row those that no later and larger one outdoes.

    Crane takes the first record whose pod's name begins with the workload's. Here a row is a workload's container, so
    only its own kills count, and the largest within the look-back decides.
    """

    def __init__(self, *, history_seconds: float, bump_ratio: float, rows: int) -> None:
        self._history_seconds = history_seconds
        self._bump_ratio = bump_ratio
        # Columns are added as rows need them; a request of -1 marks an empty place.
        self._at_unix_seconds: Floats = np.zeros((rows, 1))
        self._requested_bytes: Ints = np.full((rows, 1), -1, dtype=np.int64)

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones know of no kill."""
        self._pad(max(rows - len(self._requested_bytes), 0), 0)

    def forget(self, rows: Rows) -> None:
        """Forget the kills of these rows."""
        self._requested_bytes[rows] = -1

    def record(self, row: int, *, unix_seconds: float, requested_bytes: int) -> None:
        """Record one kill, in any order of time."""
        at, requested = self._at_unix_seconds[row], self._requested_bytes[row]
        known = requested >= 0
        if np.any(known & (at >= unix_seconds) & (requested >= requested_bytes)):
            return
        outdone = known & (at <= unix_seconds) & (requested <= requested_bytes)
        expired = known & (at < unix_seconds - self._history_seconds)
        requested[outdone | expired] = -1
        empty = np.flatnonzero(requested < 0)
        if empty.size:
            column = int(empty[0])
        else:
            column = len(requested)
            self._pad(0, 1)
        self._at_unix_seconds[row, column] = unix_seconds
        self._requested_bytes[row, column] = requested_bytes

    def needed(self, rows: Rows, now_unix_seconds: float) -> tuple[Floats, Bools]:
        """Return the bytes that the kills inside the look-back (both ends count) call for, and where there was one."""
        is_recent = now_unix_seconds - self._at_unix_seconds[rows] <= self._history_seconds
        largest = np.where(is_recent, self._requested_bytes[rows], -1).max(axis=1)
        has_kill = largest >= 0
        return np.where(has_kill, needed_bytes(largest, self._bump_ratio), 0).astype(np.float64), has_kill

    def _pad(self, rows: int, columns: int) -> None:
        by = ((0, rows), (0, columns))
        self._at_unix_seconds = np.pad(self._at_unix_seconds, by)
        self._requested_bytes = np.pad(self._requested_bytes, by, constant_values=-1)
