"""The samples of the last days, as the policy ``crane`` weighs them: a histogram that slides by the minute.

Core, pure. Crane builds its histogram anew for each run, from seven days of samples. Here each minute enters once and
leaves once. So that what enters leaves without residue, samples are whole numbers of a quantum fine enough: sums of
whole numbers below 2^53 are exact in 64-bit floats.

The minutes have to be kept until they leave: 4 bytes per sample, one packed block per hour. What a block packs to
depends on the load: 2 to 3 bytes per row and minute for CPU and memory together (8 unpacked), 250 rows over seven days
about 7 MB. The alternative, to let samples leave by the hour, would take less and give another window than Crane's.
"""

from __future__ import annotations

import zlib
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.core.numbers.bucket_scheme import LinearScheme
from agent.core.numbers.histogram import Histograms
from agent.core.recommender.crane.estimate import EPSILON, weigh

MINUTES_PER_HOUR: Final = 60
LEAST_QUANTUM_WEIGHT: Final = 1.0

Codes = NDArray[np.uint32]
"""Samples in quanta, plus 1; 0 = none."""

_LARGEST_CODE: Final = (1 << 32) - 1
_FAST: Final = 1
"""The level of zlib: the higher ones save two hundredths and take half as long again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantum:
    """How fine samples are kept."""

    per_unit: float
    """Quanta in one core or one byte."""
    weight: float
    """What a quantum weighs: a whole number, 1 or more. The least sample weighs 1."""


CPU_QUANTUM: Final = Quantum(per_unit=1e5, weight=1.0)
"""1e-5 core: Crane's least weight is one quantum. Exact up to 9 million cores kept busy for a week."""
MEMORY_QUANTUM: Final = Quantum(per_unit=1 / 4096, weight=1024.0)
"""A page, since the kernel counts in pages; up to 16 TiB. A page weighs 1024, so that a sample of 0, which weighs 1, is
as good as nothing beside others; exact up to 3 TiB in use for a week."""


@dataclass(frozen=True, slots=True)
class _Hour:
    first_minute: int
    rows: int
    packed: bytes


class SlidingHistograms:
    """Histograms of the newest minutes, 60 or more, of many containers, one row each; a sample weighs its value.

    Which bucket answers is followed sample by sample: from one minute to the next it rarely changes, so only few rows
    have to be walked through. No bucket is narrower than a quantum.
    """

    def __init__(
        self, scheme: LinearScheme, quantum: Quantum, *, percentile: float, window_minutes: int, rows: int
    ) -> None:
        self._scheme = scheme
        self._quantum = quantum
        self._percentile = percentile
        self.window_minutes: Final = window_minutes
        self._histograms = Histograms(scheme, epsilon=EPSILON, rows=rows)
        self._counts: Ints = np.zeros(rows, dtype=np.int64)
        # Of each row the bucket that answers, the weight of the buckets below it and its own.
        self._answers: Ints = np.zeros(rows, dtype=np.int64)
        self._below: Floats = np.zeros(rows)
        self._within: Floats = np.zeros(rows)
        # A row's samples of minutes before this one are another container's, and have left already.
        self._known_since: Ints = np.zeros(rows, dtype=np.int64)
        self._newest_minute: int | None = None
        self._open: Codes = np.zeros((MINUTES_PER_HOUR, rows), dtype=np.uint32)
        self._packed: deque[_Hour] = deque()
        self._leaving: Codes = self._open[:0]
        self._next_leaving_minute = 0

    @property
    def rows(self) -> int:
        """Return how many rows it holds."""
        return self._counts.size

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        more = rows - self.rows
        if more > 0:
            self._histograms.grow(rows)
            self._counts = np.pad(self._counts, (0, more))
            self._answers = np.pad(self._answers, (0, more))
            self._below = np.pad(self._below, (0, more))
            self._within = np.pad(self._within, (0, more))
            self._known_since = np.pad(self._known_since, (0, more))
            self._open = np.pad(self._open, ((0, 0), (0, more)))

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._histograms.forget(rows)
        for figures in (self._counts, self._answers, self._below, self._within):
            figures[rows] = 0
        self._known_since[rows] = 0 if self._newest_minute is None else self._newest_minute + 1

    def fold(self, unix_minute: int, values: Floats, has: Bools) -> None:
        """Add a minute, later than the one before, in cores or bytes; let go of those that are now too old."""
        newest = self._newest_minute
        if newest is not None and unix_minute <= newest:
            msg = f"minute {unix_minute} after minute {newest}: rising order is allowed"
            raise ValueError(msg)
        if newest is not None and unix_minute // MINUTES_PER_HOUR != newest // MINUTES_PER_HOUR:
            self._pack(newest // MINUTES_PER_HOUR * MINUTES_PER_HOUR)
        self._newest_minute = unix_minute
        self._let_go(unix_minute - self.window_minutes)
        codes = self._to_codes(values, has)
        self._open[unix_minute % MINUTES_PER_HOUR] = codes
        rows = np.flatnonzero(codes)
        values, weights = self._samples(codes[rows])
        self._histograms.add(rows, values, weights)
        self._counts[rows] += 1
        self._follow(rows, values, weights)
        self._walk()

    def percentiles(self, rows: Rows) -> Floats:
        """Return the end of the bucket in which the share of weight is reached; 0.0 where there is no sample."""
        return np.where(self._counts[rows] > 0, self._scheme.ends[self._answers[rows]], 0.0)

    def counts(self, rows: Rows) -> Ints:
        """Return how many samples count."""
        return self._counts[rows]

    def _to_codes(self, values: Floats, has: Bools) -> Codes:
        """Round samples to quanta, but never into another bucket than their own."""
        quanta = np.rint(values * self._quantum.per_unit)
        rounded, exact = self._scheme.find(quanta / self._quantum.per_unit), self._scheme.find(values)
        # No bucket is narrower than a quantum, so the quantum on the other side of the value is in the right one.
        quanta += np.sign(exact - rounded)
        return np.where(has, np.minimum(quanta + 1.0, _LARGEST_CODE), 0.0).astype(np.uint32)

    def _samples(self, codes: Codes) -> tuple[Floats, Floats]:
        """Return values and weights: the same when a sample leaves as when it came."""
        quanta = codes.astype(np.float64) - 1.0
        return quanta / self._quantum.per_unit, weigh(quanta * self._quantum.weight, LEAST_QUANTUM_WEIGHT)

    def _pack(self, first_minute: int) -> None:
        # The bytes of equal significance lie together, row by row: what changes little in an hour packs well.
        planes = np.ascontiguousarray(self._open.T).view(np.uint8).reshape(-1, 4).T
        self._packed.append(_Hour(first_minute, self.rows, zlib.compress(planes.tobytes(), _FAST)))
        self._open = np.zeros_like(self._open)

    def _unpack(self, hour: _Hour) -> Codes:
        planes = np.frombuffer(zlib.decompress(hour.packed), dtype=np.uint8).reshape(4, -1)
        codes: Codes = np.ascontiguousarray(planes.T).view(np.uint32).reshape(hour.rows, MINUTES_PER_HOUR).T
        return codes

    def _let_go(self, last_minute: int) -> None:
        """Remove all samples up to a minute from the histograms."""
        while True:
            leaving = self._leaving[: max(0, last_minute + 1 - self._next_leaving_minute)]
            for codes in leaving:
                self._take_out(self._next_leaving_minute, codes)
                self._next_leaving_minute += 1
            self._leaving = self._leaving[len(leaving) :]
            if len(self._leaving) or not self._packed or self._packed[0].first_minute > last_minute:
                return
            hour = self._packed.popleft()
            self._leaving = self._unpack(hour)
            self._next_leaving_minute = hour.first_minute

    def _take_out(self, minute: int, codes: Codes) -> None:
        rows = np.flatnonzero((codes != 0) & (self._known_since[: codes.size] <= minute))
        values, weights = self._samples(codes[rows])
        self._histograms.subtract(rows, values, weights)
        self._counts[rows] -= 1
        self._follow(rows, values, -weights)

    def _follow(self, rows: Rows, values: Floats, weights: Floats) -> None:
        """Keep up with samples that came (weight above 0) or left (below)."""
        buckets, answers = self._scheme.find(values), self._answers[rows]
        self._below[rows] += weights * (buckets < answers)
        self._within[rows] += weights * (buckets == answers)

    def _walk(self) -> None:
        """Find the answer anew for the rows in which the share is reached further down or up by now."""
        thresholds = self._percentile * self._histograms.total_weights()
        is_further_down = (self._below > 0) & (self._below >= thresholds)
        is_further_up = (self._within <= 0) | (self._below + self._within < thresholds)
        rows = np.flatnonzero((self._counts > 0) & (is_further_down | is_further_up))
        if rows.size:
            self._answers[rows], self._below[rows], self._within[rows] = self._histograms.reach(self._percentile, rows)
