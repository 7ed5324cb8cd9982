"""Hours of a workload out of a checkpoint of the Vertical Pod Autoscaler: history without a Prometheus. Core, pure.

A checkpoint says how often which amount was used, and not when: so each of its hours is given the whole of it, at most
a day of them, which is every hour of the day once. Of memory it holds the peaks of days: hours of it are no smaller
than they were. Amounts are the ends of its buckets, as its own percentiles are.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution
from agent.core.history.reports.rollup_figures import distribution
from agent.core.history.reports.rollup_merge import CPU_SAMPLE_SECONDS, MEMORY_SAMPLE_SECONDS
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.imported import ImportedHour
from agent.core.numbers.arrays import Floats
from agent.core.numbers.bucket_scheme import ExponentialScheme
from agent.core.numbers.histogram import Histograms
from agent.core.recommender.vpa.checkpoint import CheckpointError, StateCheckpoint, load_state
from agent.core.recommender.vpa.state import CPU_SCHEME, EPSILON, MEMORY_SCHEME

MOST_HOURS: Final = 24
OLDEST_SECONDS: Final = 8 * 24 * HOUR_SECONDS
"""After so long without a sample the Vertical Pod Autoscaler itself drops what it knew."""
_MILLICORES: Final = 1000.0
_CPU_SAMPLES: Final = int(HOUR_SECONDS / CPU_SAMPLE_SECONDS)
_MEMORY_SAMPLES: Final = int(HOUR_SECONDS / MEMORY_SAMPLE_SECONDS)
"""Of an hour, as an agent takes them."""


def hours_of_checkpoint(
    state: StateCheckpoint, workload: Workload, container: str, *, now_unix_seconds: float
) -> list[ImportedHour]:
    """Return the whole hours before its last sample, the oldest first; at least one.

    Raises:
        CheckpointError: It holds nothing that counts, or cannot be loaded.
    """
    first, last = state.first_sample_unix_seconds, state.last_sample_unix_seconds
    if first is None or last is None or not state.samples:
        msg = "no sample in it yet"
        raise CheckpointError(msg)
    if not first <= last <= now_unix_seconds:
        msg = "its times are not in order, or lie ahead"
        raise CheckpointError(msg)
    if now_unix_seconds - last >= OLDEST_SECONDS:
        msg = "its last sample is older than eight days"
        raise CheckpointError(msg)
    cpu_histogram = Histograms(CPU_SCHEME, epsilon=EPSILON, rows=1)
    memory_histogram = Histograms(MEMORY_SCHEME, epsilon=EPSILON, rows=1)
    load_state(cpu_histogram, memory_histogram, 0, state)
    cpu = _distribution(cpu_histogram, CPU_SCHEME, CPU_BUCKETS, _MILLICORES, _CPU_SAMPLES)
    memory = _distribution(memory_histogram, MEMORY_SCHEME, MEMORY_BUCKETS, 1.0, _MEMORY_SAMPLES)
    if cpu is None and memory is None:
        msg = "both its histograms are empty"
        raise CheckpointError(msg)
    end = min(math.ceil(last / HOUR_SECONDS), int(now_unix_seconds // HOUR_SECONDS))
    begin = max(end - MOST_HOURS, min(int(first // HOUR_SECONDS), end - 1))
    return [
        ImportedHour(
            workload=workload,
            container=container,
            unix_hour=hour,
            covered_seconds=float(HOUR_SECONDS),
            pods=1,
            cpu=cpu,
            cpu_adjusted=None,
            memory=memory,
        )
        for hour in range(begin, end)
    ]


def _distribution(
    histograms: Histograms, scheme: ExponentialScheme, buckets: ExponentialScheme, unit: float, samples: int
) -> Distribution | None:
    """Return so many samples of an hour as the histogram has them; a bucket that counts at all has one at least."""
    weights = histograms.weights(0)[histograms.used(0)]
    total = float(weights.sum())
    if total <= 0.0:
        return None
    amounts: Floats = np.minimum(scheme.ends[histograms.used(0)] * unit, buckets.max_value)
    counts = np.maximum(np.floor(weights * (samples / total)), weights > 0.0).astype(np.int64)
    largest = int(counts.argmax())
    counts[largest] = max(counts[largest] + samples - int(counts.sum()), 1)
    return distribution(np.repeat(amounts, counts), buckets)
