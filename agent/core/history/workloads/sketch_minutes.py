"""Minutes made up from an hour's sketch, for policies that learn by the minute. Core, pure.

An hour's histogram says how much was used for how long, not when. So as many values as the hour has minutes with data
are read off it at even distances (its quantiles, within a bucket on a straight line), the largest is set to the hour's
exact maximum, and they are scattered over the hour in a fixed order. What that keeps: the distribution of each hour to
the width of a bucket (5 %), each hour's maximum, and the hour of the day; what it loses: the order within the hour.
Samples of several replicas become those of one container that behaves as all of them in turn, as the Vertical Pod
Autoscaler aggregates them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from agent.core.history.minute.minutes import Minutes
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, MINUTES_PER_HOUR
from agent.core.history.workloads.hour_sketch import CPU_UNIT, HourSketch, Samples
from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.numbers.bucket_scheme import ExponentialScheme

_SCATTER: Final = 37
"""Shares no factor with 60: each quantile gets a minute of its own, its neighbours are far away."""
_SCATTERED: Final = np.arange(MINUTES_PER_HOUR, dtype=np.int64) * _SCATTER % MINUTES_PER_HOUR
_QUANTILES: Final = np.arange(MINUTES_PER_HOUR)
_MINUTE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HourMinutes:
    """One hour of several rows; shape ``(rows, 60)`` each, 0 beside a False mask."""

    unix_hour: int
    cpu_usage_millicores: Floats
    cpu_peak_millicores: Floats
    has_cpu: Bools
    working_set_bytes: Floats
    has_memory: Bools

    def minute(self, minute: int) -> Minutes:
        """Return one of the sixty minutes as policies take it."""
        return Minutes(
            unix_minute=self.unix_hour * MINUTES_PER_HOUR + minute,
            cpu_usage_millicores=self.cpu_usage_millicores[:, minute],
            cpu_peak_millicores=self.cpu_peak_millicores[:, minute],
            has_cpu=self.has_cpu[:, minute],
            working_set_bytes=self.working_set_bytes[:, minute],
            has_memory=self.has_memory[:, minute],
        )


def unfold(unix_hour: int, sketches: Mapping[int, HourSketch], rows: int) -> HourMinutes:
    """Make up the minutes of an hour."""
    minutes = _CoveredMinutes(unix_hour, sketches, rows)
    of_cpu = {row: sketch.cpu for row, sketch in sketches.items() if sketch.cpu.count}
    of_demand = {row: sketches[row].demand for row in of_cpu}
    of_memory = {row: sketch.memory for row, sketch in sketches.items() if sketch.memory.count}
    usage = minutes.values(of_cpu, CPU_BUCKETS, CPU_UNIT)
    demand = minutes.values(of_demand, CPU_BUCKETS, CPU_UNIT)
    return HourMinutes(
        unix_hour=unix_hour,
        cpu_usage_millicores=usage,
        cpu_peak_millicores=np.maximum(usage, demand),
        has_cpu=minutes.of_rows(list(of_cpu)),
        working_set_bytes=np.ceil(minutes.values(of_memory, MEMORY_BUCKETS, 1)),
        has_memory=minutes.of_rows(list(of_memory)),
    )


class _CoveredMinutes:
    """The minutes of an hour of which each row has data: from its first row's start to its last one's end.

    There is at least one. All rows at once, as an hour of a few dozen rows is over in less time than one row by itself.
    """

    def __init__(self, unix_hour: int, sketches: Mapping[int, HourSketch], rows: int) -> None:
        self._shape = rows, MINUTES_PER_HOUR
        start = unix_hour * HOUR_SECONDS
        first, after = np.zeros((2, rows), dtype=np.int64)
        for row, sketch in sketches.items():
            first[row] = min(max((sketch.first_unix_seconds - start) // _MINUTE_SECONDS, 0), MINUTES_PER_HOUR - 1)
            after[row] = max(-((start - sketch.last_unix_seconds) // _MINUTE_SECONDS), first[row] + 1)
        has = (first[:, np.newaxis] <= _SCATTERED) & (after[:, np.newaxis] > _SCATTERED)
        self._counts = np.count_nonzero(has, axis=1)
        self._order: Ints = _SCATTERED[np.argsort(~has, axis=1, kind="stable")]
        """Which minute each quantile is for; those beyond the row's count are for minutes that it does not have."""

    def of_rows(self, rows: list[int]) -> Bools:
        """Return the minutes of these rows, shape ``(rows, 60)``; of the others there is none."""
        has = np.zeros(self._shape, dtype=np.bool_)
        for row in rows:
            has[row, self._order[row, : self._counts[row]]] = True
        return has

    def values(self, samples: Mapping[int, Samples], scheme: ExponentialScheme, unit: int) -> Floats:
        """Read as many quantiles off each histogram as its row has minutes, rising; the last is the maximum.

        Returns:
            Shape ``(rows, 60)``, scattered; 0 in all other minutes.
        """
        amounts = np.zeros(self._shape)
        if not samples:
            return amounts
        rows = np.array(list(samples), dtype=np.int64)
        counts = self._counts[rows, np.newaxis]
        largest = np.array([histogram.largest / unit for histogram in samples.values()])[:, np.newaxis]
        read = _Histograms(list(samples.values()), scheme).at((_QUANTILES + 0.5) / counts)
        read = np.minimum(read, largest)
        np.copyto(read, largest, where=counts - 1 == _QUANTILES)
        read[counts <= _QUANTILES] = 0.0
        amounts[rows[:, np.newaxis], self._order[rows]] = read
        return amounts


class _Histograms:
    """Several histograms, one after the other in each array.

    Raises:
        ValueError: One of them is empty.
    """

    def __init__(self, samples: Sequence[Samples], scheme: ExponentialScheme) -> None:
        sizes = np.array([len(histogram.buckets) for histogram in samples], dtype=np.int64)
        if not all(any(histogram.buckets.values()) for histogram in samples):
            raise ValueError("samples that are counted are in no bucket")
        buckets = np.fromiter(chain.from_iterable(histogram.buckets for histogram in samples), np.int64)
        counts = np.fromiter(chain.from_iterable(histogram.buckets.values() for histogram in samples), np.int64)
        owners = np.repeat(np.arange(sizes.size), sizes)
        rising = np.lexsort((buckets, owners))
        buckets, counts = buckets[rising], counts[rising]
        self._all_reached = np.cumsum(counts)
        """Samples up to each bucket, those of all histograms before included: whole numbers, so nothing is rounded."""
        self._last = (np.cumsum(sizes) - 1)[:, np.newaxis]
        reached = self._all_reached[self._last]
        self._totals = np.diff(reached, axis=0, prepend=0)
        self._before = reached - self._totals
        self._counts = counts.astype(np.float64)
        self._reached = (self._all_reached - self._before[owners, 0]).astype(np.float64)
        self._starts = scheme.starts(buckets)
        self._widths = scheme.ends[buckets] - self._starts

    def at(self, ratios: Floats) -> Floats:
        """Return the values below which lie these shares of the samples, one row of both for each histogram."""
        ranks = ratios * self._totals
        # Counts are whole: the first bucket that reaches a rank is the first that reaches the next whole number.
        wanted = np.ceil(ranks).astype(np.int64) + self._before
        index = np.minimum(np.searchsorted(self._all_reached, wanted), self._last)
        within = 1.0 - (self._reached[index] - ranks) / self._counts[index]
        values: Floats = self._starts[index] + within * self._widths[index]
        return values
