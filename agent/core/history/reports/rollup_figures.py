"""The figures of a roll-up row, from the rings: counts, sums, maxima and sparse histograms of one interval. Core, pure.

Rates are those of the windows (``window.rates``), so that what a webhook merges and what a node sizes by are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution
from agent.core.history.reports.rollup_merge import MEMORY_SAMPLE_SECONDS, merged_samples
from agent.core.numbers.bucket_scheme import BucketScheme
from agent.core.window.cold_file import left_out_bytes
from agent.core.window.policy import WindowPolicy
from agent.core.window.rates import SlidingRates, sliding_rates
from agent.core.window.ring_rows import MEMORY_ROW, Has, Status
from agent.core.window.steps import NS, CpuSteps, column, cpu_steps, interval_of, selection

_EMPTY: Final = np.zeros(0, dtype=MEMORY_ROW)
_OK: Final = int(Status.OK)
_WORKING_SET: Final = np.uint32(Has.MEMORY | Has.MEMORY_STAT)
_USEC_PER_SECOND: Final = 1e6
_LEAST_SECONDS: Final = 0.001
"""What a report tells no shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupFigures:
    """What was measured of one container instance in one interval; the fields of a ``RollupRow`` of the same names."""

    covered_seconds: float
    cpu: Distribution | None
    cpu_adjusted: Distribution | None
    memory: Distribution | None
    throttled_seconds: float | None
    waiting_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cpu:
    covered_ns: int
    rates: SlidingRates
    throttled_seconds: float | None
    waiting_seconds: float | None


def rollup_figures(
    raw_pieces: Sequence[NDArray[np.void]],
    memory_pieces: Sequence[NDArray[np.void]],
    policy: WindowPolicy,
    *,
    start_ns: int,
    end_ns: int,
    cpu_start_ns: int = 0,
) -> RollupFigures | None:
    """Sum up the time (start, end] of CLOCK_MONOTONIC.

    CPU samples are the sliding rates that end at a reading inside, one per reading; a container too young for a rate
    has none. Covered, throttled and waiting time is that of good pairs of readings, those across an edge by the share
    that lies inside: consecutive intervals hand out each second once. A memory sample is the largest working set that
    one row saw (each looks back to the row before it), of rows stamped inside; less the end's cold file cache where
    that is left out.

    Args:
        raw_pieces: SAMPLE rows, oldest first; those of the rate window before the start are needed for the first
            rates, and the row after the end for the last pair.
        start_ns: Not in it.
        end_ns: In it.
        cpu_start_ns: What CPU was used before counts nowhere, nor in a rate that ends later.

    Returns:
        None when neither CPU nor memory was measured over any time. Where no pair of CPU readings is good, the covered
        time is that between the first and the last memory row.
    """
    step_ns = int(policy.max_step_seconds * NS)
    reach_ns = int(policy.rate_window_seconds * NS) + step_ns
    steps = cpu_steps(raw_pieces, policy, until_ns=end_ns + step_ns, since_ns=max(start_ns - reach_ns, cpu_start_ns, 0))
    cpu = None
    if cpu_start_ns < end_ns:
        cpu = _cpu(steps, policy, start_ns=max(start_ns, cpu_start_ns), end_ns=end_ns)
    left_out = left_out_bytes(memory_pieces, policy, end_monotonic_ns=end_ns)
    memory, memory_ns = _memory(memory_pieces, start_ns=start_ns, end_ns=end_ns, left_out=left_out)
    covered_ns = memory_ns if cpu is None else cpu.covered_ns
    if covered_ns <= 0:
        return None
    return RollupFigures(
        covered_seconds=covered_ns / NS,
        cpu=None if cpu is None else distribution(cpu.rates.usage, CPU_BUCKETS),
        cpu_adjusted=None
        if cpu is None or cpu.rates.adjusted is None
        else distribution(cpu.rates.adjusted, CPU_BUCKETS),
        memory=memory,
        throttled_seconds=None if cpu is None else cpu.throttled_seconds,
        waiting_seconds=None if cpu is None else cpu.waiting_seconds,
    )


def with_short_life(figures: RollupFigures | None, working_set_bytes: int, *, life_seconds: float) -> RollupFigures:
    """Return the figures of a container that ended young, with the largest working set that it may have had.

    It counts as one sample, where none was as large.

    Args:
        figures: What was measured of it; None = nothing.
        life_seconds: How long it lived in the interval; where nothing else was measured that is covered, but no more
            than one sample stands for.
    """
    peak = distribution(np.array([float(working_set_bytes)]), MEMORY_BUCKETS)
    if figures is None:
        covered_seconds = min(max(life_seconds, _LEAST_SECONDS), MEMORY_SAMPLE_SECONDS)
        return RollupFigures(
            covered_seconds=covered_seconds,
            cpu=None,
            cpu_adjusted=None,
            memory=peak,
            throttled_seconds=None,
            waiting_seconds=None,
        )
    if figures.memory is not None and figures.memory.max >= working_set_bytes:
        return figures
    return replace(figures, memory=merged_samples((figures.memory, peak)))


def distribution(values: NDArray[np.float64], scheme: BucketScheme) -> Distribution | None:
    """Return the counts, sum, maximum and histogram of samples; None when there is none.

    Args:
        values: Finite and not negative, shape ``(n,)``.
    """
    if values.size == 0:
        return None
    counts = np.bincount(scheme.find(values))
    buckets = counts.nonzero()[0]
    return Distribution(
        count=values.size,
        sum=float(values.sum()),
        max=float(values.max()),
        buckets=dict(zip(buckets.tolist(), counts[buckets].tolist(), strict=True)),
    )


def _cpu(steps: CpuSteps, policy: WindowPolicy, *, start_ns: int, end_ns: int) -> _Cpu | None:
    """Return the CPU figures; None when no good pair touches the interval."""
    inside = interval_of(steps, start_ns=start_ns, end_ns=end_ns)
    if inside is None:
        return None
    pairs, share = inside.pairs, inside.share
    return _Cpu(
        covered_ns=inside.covered_ns,
        rates=sliding_rates(steps, policy, first=inside.first, stop=inside.stop),
        throttled_seconds=_seconds(steps.throttled_usec[pairs], steps.throttled_ns[pairs], share),
        waiting_seconds=_seconds(steps.waiting_usec[pairs], steps.waiting_ns[pairs], share),
    )


def _seconds(usec: NDArray[np.int64], known_ns: NDArray[np.int64], share: NDArray[np.float64]) -> float | None:
    """Sum up a part of the time over pairs, each by its share; None = it is known of none of them."""
    if not float((known_ns * share).sum()) > 0:
        return None
    return float((usec * share).sum()) / _USEC_PER_SECOND


def _memory(
    pieces: Sequence[NDArray[np.void]], *, start_ns: int, end_ns: int, left_out: int
) -> tuple[Distribution | None, int]:
    """Return the working set's samples less what is left out, and the time between the first and the last of them."""
    stamps: NDArray[np.int64] = column(pieces, "monotonic_ns", _EMPTY).view(np.int64)
    has: NDArray[np.uint32] = column(pieces, "has", _EMPTY).view(np.uint32)
    good = (column(pieces, "status", _EMPTY) == _OK) & (has & _WORKING_SET == _WORKING_SET)
    chosen = selection((stamps > start_ns) & (stamps <= end_ns) & good)
    stamps = stamps[chosen]
    if stamps.size == 0:
        return None, 0

    def values(name: str) -> NDArray[np.float64]:
        return column(pieces, name, _EMPTY)[chosen].astype(np.float64)

    working_set = np.maximum(values("memory_current_bytes") - values("inactive_file_bytes"), 0.0)
    peaks = np.maximum(values("working_set_peak_bytes"), working_set)
    return distribution(np.maximum(peaks - left_out, 0.0), MEMORY_BUCKETS), int(stamps.max() - stamps.min())
