"""What came of the runs of a bench of reactions, and the figures of it. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import StrEnum


class Odd(StrEnum):
    """A run that has no time of its own."""

    EARLY = "early"
    """Resized before there was a reason: nothing to time, so it is left out and counted."""
    LATE = "late"
    """Not resized while the bench waited: it counts as having taken all of that time, which is too little."""


Outcome = float | Odd
"""Seconds, or why there are none."""


def figures(prefix: str, outcomes: Sequence[Outcome], *, patience_seconds: float) -> dict[str, float]:
    """Return p50, p99 and extremes of the times, seconds, and how many runs of which kind there were."""
    left_out = outcomes.count(Odd.EARLY)
    late = outcomes.count(Odd.LATE)
    counts = {
        f"{prefix}_runs": float(len(outcomes) - left_out),
        f"{prefix}_runs_left_out": float(left_out),
        f"{prefix}_runs_late": float(late),
    }
    timed = [outcome for outcome in outcomes if not isinstance(outcome, Odd)]
    seconds = sorted([*timed, *[patience_seconds] * late])
    if not seconds:
        return counts
    return {
        f"{prefix}_min_seconds": seconds[0],
        f"{prefix}_p50_seconds": statistics.median(seconds),
        f"{prefix}_p99_seconds": seconds[-1] if len(seconds) < 100 else seconds[int(len(seconds) * 0.99)],
        f"{prefix}_max_seconds": seconds[-1],
        **counts,
    }
