"""Minutes made up from an hour's sketch, for policies that learn by the minute. Core, pure.

An hour's histogram says how much was used for how long, not when. So as many values as the hour has minutes with data
are read off it at even distances (its quantiles, within a bucket on a straight line), the largest is set to the hour's
exact maximum, and they are scattered over the hour in a fixed order. What that keeps: the distribution of each hour to
the width of a bucket (5 %), each hour's maximum, and the hour of the day; what it loses: the order within the hour.
Samples of several replicas become those of one container that behaves as all of them in turn, as the Vertical Pod
Autoscaler aggregates them, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.history.hour_peaks import HOUR_SECONDS, MINUTES_PER_HOUR
from agent.core.history.hour_sketch import CPU_UNIT, HourSketch, Samples
from agent.core.history.minutes import Minutes
from agent.core.history.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.numbers.bucket_scheme import ExponentialScheme

_SCATTER: Final = 37
"""Shares no factor with 60: each quantile gets a minute of its own, its neighbours are far away."""
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


def unfold(unix_hour: int, sketches: dict[int, HourSketch], rows: int) -> HourMinutes:
    """Make up the minutes of an hour."""
    shape = rows, MINUTES_PER_HOUR
    usage, peak, memory = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    has_cpu, has_memory = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for row, sketch in sketches.items():
        minutes = covered_minutes(unix_hour, sketch)
        if sketch.cpu.count:
            usage[row, minutes] = _values(sketch.cpu, CPU_BUCKETS, CPU_UNIT, minutes.size)
            demand = _values(sketch.demand, CPU_BUCKETS, CPU_UNIT, minutes.size)
            peak[row, minutes] = np.maximum(usage[row, minutes], demand)
            has_cpu[row, minutes] = True
        if sketch.memory.count:
            memory[row, minutes] = np.ceil(_values(sketch.memory, MEMORY_BUCKETS, 1, minutes.size))
            has_memory[row, minutes] = True
    return HourMinutes(
        unix_hour=unix_hour,
        cpu_usage_millicores=usage,
        cpu_peak_millicores=peak,
        has_cpu=has_cpu,
        working_set_bytes=memory,
        has_memory=has_memory,
    )


def covered_minutes(unix_hour: int, sketch: HourSketch) -> Ints:
    """Return the minutes of an hour from the first row's start to the last one's end, at least one, scattered."""
    start = unix_hour * HOUR_SECONDS
    first = min(max((sketch.first_unix_seconds - start) // _MINUTE_SECONDS, 0), MINUTES_PER_HOUR - 1)
    after = min(-((start - sketch.last_unix_seconds) // _MINUTE_SECONDS), MINUTES_PER_HOUR)
    scattered = np.arange(MINUTES_PER_HOUR, dtype=np.int64) * _SCATTER % MINUTES_PER_HOUR
    return scattered[(scattered >= first) & (scattered < max(after, first + 1))]


def _values(samples: Samples, scheme: ExponentialScheme, unit: int, count: int) -> Floats:
    """Read so many quantiles off a histogram, rising; the last is the maximum."""
    buckets = np.array(sorted(samples.buckets), dtype=np.int64)
    reached = np.cumsum([samples.buckets[bucket] for bucket in buckets.tolist()])
    starts = scheme.starts(buckets)
    largest = samples.largest / unit
    ranks = (np.arange(count) + 0.5) / count * reached[-1]
    index = np.minimum(np.searchsorted(reached, ranks), buckets.size - 1)
    within = 1.0 - (reached[index] - ranks) / np.diff(reached, prepend=0)[index]
    values: Floats = starts[index] + within * (scheme.ends[buckets[index]] - starts[index])
    values = np.minimum(values, largest)
    values[-1] = largest
    return values
