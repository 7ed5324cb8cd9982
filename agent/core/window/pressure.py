"""Pressure stall information: its rate, and what demand it betrays. Core, pure; ``cgroup_text`` reads the text."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Amount = TypeVar("Amount", float, NDArray[np.float64])

_USEC_PER_SECOND = 1_000_000


def psi_waiting_rate(t0_seconds: float, total0_usec: int, t1_seconds: float, total1_usec: int) -> float | None:
    """Return the share of time spent waiting between two readings of a PSI total.

    Returns:
        0..1; None where the pair says nothing: the total went back (another cgroup) or no time passed.
    """
    elapsed_seconds = t1_seconds - t0_seconds
    waited_usec = total1_usec - total0_usec
    if elapsed_seconds <= 0 or waited_usec < 0:
        return None
    return min(waited_usec / (elapsed_seconds * _USEC_PER_SECOND), 1.0)


def adjusted_demand(usage_millicores: Amount, waiting_ratio: Amount) -> Amount:
    """Return what would have been used without the wait: usage x (1 + waiting), of one time or of many."""
    return usage_millicores * (1.0 + waiting_ratio)
