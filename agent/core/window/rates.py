"""Rates over the pairs of one cgroup: sliding by the tick, and the largest between two readings.

Core, pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.window.policy import WindowPolicy
from agent.core.window.pressure import adjusted_demand
from agent.core.window.steps import MILLICORES_PER_USEC_PER_NS, NS, SHORT_NS, CpuSteps, Selection


def segment_starts(steps: CpuSteps) -> NDArray[np.intp] | None:
    """Return for each reading the oldest reading with no gap between the two; None = there is no gap at all."""
    if steps.gap_code is None:
        return None
    starts = np.zeros(steps.axis_ns.size, dtype=np.intp)
    starts[1:] = np.where(steps.good, 0, np.arange(1, steps.axis_ns.size))
    return np.maximum.accumulate(starts)


def burst_millicores(steps: CpuSteps, pairs: slice[int, int | None, None]) -> float | None:
    """Return the largest rate of the good pairs among these, in millicores; None when there is none.

    Pairs shorter than SHORT_NS do not count beside longer ones: one tick more or less would make a burst of them.
    """
    good, elapsed_ns, usage_millicores = steps.good[pairs], steps.elapsed_ns[pairs], steps.usage_millicores[pairs]
    long = good & (elapsed_ns >= SHORT_NS)
    if np.count_nonzero(long):
        good = long
    rates = usage_millicores[good]
    return float(np.maximum.reduce(rates)) if rates.size else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingRates:
    """Rates over the rate window, one per reading that has one; shape ``(m,)``, oldest first; millicores."""

    usage: NDArray[np.float64]
    adjusted: NDArray[np.float64] | None
    """usage x (1 + waiting); where waiting is not known, usage itself. None = waiting is known for none of them."""


def sliding_rates(steps: CpuSteps, policy: WindowPolicy, *, first: int, stop: int) -> SlidingRates:
    """Return the exact rate that ends at each reading in ``first <= i < stop``.

    Reading i is set against the newest reading j that is at least ``rate_window_seconds`` older, so a rate spans the
    rate window and at most one step more. Where a gap (or the start of the rings) is nearer, j is the first reading
    after it: the rate spans what there is, but no less than ``min_rate_seconds``, else i has no rate. The rate is the
    difference of the raw counters over the elapsed time, not a mean of rates. Waiting is the mean over those pairs
    between j and i that know it, weighted by their length.
    """
    axis_ns = steps.axis_ns
    ends_ns = axis_ns[first:stop]
    older = axis_ns.searchsorted(ends_ns - int(policy.rate_window_seconds * NS), side="right") - 1
    starts = segment_starts(steps)
    np.maximum(older, 0 if starts is None else starts[first:stop], out=older)
    span_ns = ends_ns - axis_ns[older]
    enough = span_ns >= int(min(policy.min_rate_seconds, policy.rate_window_seconds) * NS)
    newer: Selection = slice(first, stop)
    if np.count_nonzero(enough) < enough.size:
        older, span_ns = older[enough], span_ns[enough]
        newer = enough.nonzero()[0] + first
    used_usec: NDArray[np.int64] = (steps.usage_usec[newer] - steps.usage_usec[older]).view(np.int64)
    usage = np.minimum(used_usec * MILLICORES_PER_USEC_PER_NS / span_ns, policy.limit_millicores)
    known_ns = span_ns if steps.waiting_ns is steps.elapsed_ns else _between(steps.waiting_ns, older, newer)
    if not np.count_nonzero(known_ns):
        return SlidingRates(usage=usage, adjusted=None)
    waiting = _between(steps.waiting_usec, older, newer) * 1e3 / np.maximum(known_ns, 1)
    return SlidingRates(usage=usage, adjusted=adjusted_demand(usage, waiting))


def _between(values: NDArray[np.int64], older: NDArray[np.intp], newer: Selection) -> NDArray[np.int64]:
    """Sum the pairs between two readings, for many such spans."""
    total = np.zeros(values.size + 1, dtype=np.int64)
    np.cumsum(values, out=total[1:])
    between: NDArray[np.int64] = total[newer] - total[older]
    return between
