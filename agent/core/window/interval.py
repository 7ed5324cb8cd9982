"""The part of CPU readings that lies in an interval: which of them, and how much of each pair. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.window.steps import CpuSteps


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Readings and pairs of ``CpuSteps`` that an interval touches."""

    first: int
    """Index of the oldest reading inside."""
    stop: int
    """One past the newest reading inside."""
    pairs: slice[int, int, None]
    """Of the pairs that reach into it."""
    share: NDArray[np.float64]
    """How much of each of these pairs lies inside, 0..1; 0 for a gap."""
    covered_ns: int
    """Of the interval, by good pairs; above 0."""


def interval_of(steps: CpuSteps, *, start_ns: int, end_ns: int) -> Interval | None:
    """Find what lies in (start, end]; None = no good pair touches it."""
    axis_ns = steps.axis_ns
    if axis_ns.size == 0:
        return None
    first = int(axis_ns.searchsorted(start_ns, side="right"))
    stop = int(axis_ns.searchsorted(end_ns, side="right"))
    pairs = slice(max(first - 1, 0), int(axis_ns.searchsorted(end_ns, side="left")))  # those that begin before its end
    inside_ns = np.minimum(axis_ns[1:][pairs], end_ns) - np.maximum(axis_ns[:-1][pairs], start_ns)
    inside_ns *= steps.good[pairs]
    covered_ns = int(inside_ns.sum())
    if covered_ns <= 0:
        return None
    share = inside_ns / np.maximum(steps.elapsed_ns[pairs], 1)
    return Interval(first=first, stop=stop, pairs=pairs, share=share, covered_ns=covered_ns)
