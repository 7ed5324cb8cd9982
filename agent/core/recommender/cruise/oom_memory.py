"""How much memory out-of-memory kills have shown to be too little. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.numbers.arrays import Bools, Floats, Rows

KEPT: Final = 16
"""Kills kept per row. Only those count that no later kill equals or exceeds, so each is smaller than the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomFigure:
    """One kill that counts."""

    unix_seconds: float
    memory_bytes: float


def oom_figure_bytes(kill: OutOfMemory) -> int | None:
    """Return the memory that was too little: in use at the kill, else the limit in force; None = neither is known.

    0 is not known: what used nothing is not killed for want of memory, and a limit of 0 is none to Kubernetes.
    """
    return kill.usage_bytes or kill.limit_bytes or None


class OomMemory:
    """The largest figure of each row's kills within a retention time; a later, lower one never replaces it.

    A kill exactly as old as the retention counts still. So does one stamped later than now (the clock was set back):
    it did happen.
    """

    def __init__(self, rows: int, *, retention_seconds: float) -> None:
        self._retention_seconds = retention_seconds
        self._seconds = np.zeros((rows, KEPT))
        self._bytes = np.zeros((rows, KEPT))
        self._kept = np.zeros((rows, KEPT), dtype=np.bool_)
        self._has_any = False  # most nodes have seen no kill, and pay nothing for it

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones know of no kill."""
        more = ((0, max(rows - self._kept.shape[0], 0)), (0, 0))
        self._seconds = np.pad(self._seconds, more)
        self._bytes = np.pad(self._bytes, more)
        self._kept = np.pad(self._kept, more)

    def forget(self, rows: Rows) -> None:
        """Forget the kills of these rows."""
        self._kept[rows] = False

    def record(self, row: int, kill: OutOfMemory) -> None:
        """Record a kill; in any order, and twice is once. One without a figure changes nothing."""
        figure_bytes = oom_figure_bytes(kill)
        if figure_bytes is None:
            return
        known = [*self.figures(row), OomFigure(unix_seconds=kill.unix_seconds, memory_bytes=float(figure_bytes))]
        counting: list[OomFigure] = []  # newest first
        for figure in sorted(
            known, key=lambda kill_figure: (kill_figure.unix_seconds, kill_figure.memory_bytes), reverse=True
        ):
            if not counting or figure.memory_bytes > counting[-1].memory_bytes:
                counting.append(figure)
        if len(counting) > KEPT:
            oldest, second = counting.pop(), counting.pop()
            if oldest.unix_seconds >= counting[0].unix_seconds - self._retention_seconds:
                # One too many: the oldest is the largest and must not be lost, so it is kept as long as the second.
                second = OomFigure(unix_seconds=second.unix_seconds, memory_bytes=oldest.memory_bytes)
            counting.append(second)
        self._kept[row] = np.arange(KEPT) < len(counting)
        self._seconds[row, : len(counting)] = [figure.unix_seconds for figure in counting]
        self._bytes[row, : len(counting)] = [figure.memory_bytes for figure in counting]
        self._has_any = True

    def figures(self, row: int) -> tuple[OomFigure, ...]:
        """Return the kills of a row that are kept, newest first, each larger than the one before it.

        Some may be older than the retention.
        """
        return tuple(
            OomFigure(unix_seconds=float(self._seconds[row, index]), memory_bytes=float(self._bytes[row, index]))
            for index in self._kept[row].nonzero()[0]
        )

    def counting(self, row: int, now_unix_seconds: float) -> tuple[OomFigure, ...]:
        """Return those of ``figures`` within the retention."""
        reach_seconds = now_unix_seconds - self._retention_seconds
        return tuple(figure for figure in self.figures(row) if figure.unix_seconds >= reach_seconds)

    def largest(self, rows: Rows, now_unix_seconds: float) -> tuple[Floats, Bools]:
        """Return the largest figure within the retention, bytes, and which rows have one (0 beside False)."""
        if not self._has_any:
            return np.zeros(rows.size), np.zeros(rows.size, dtype=np.bool_)
        counts = self._kept[rows] & (self._seconds[rows] >= now_unix_seconds - self._retention_seconds)
        largest: Floats = np.where(counts, self._bytes[rows], 0.0).max(axis=1)
        has: Bools = np.logical_or.reduce(counts, axis=1)
        return largest, has
