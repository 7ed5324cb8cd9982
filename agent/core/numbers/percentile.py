"""The one definition of a percentile. Core, pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def percentile(values: NDArray[np.float64], ratio: float) -> float:
    """Return a percentile, linear between ranks: rank = ratio x (n - 1) on the sorted values.

    Args:
        values: Finite, shape ``(n,)``, n >= 1, in any order; left as they are.
        ratio: 0..1; 0.75 is the P75.

    Returns:
        Between the smallest and the largest value; a single value is its own percentile.

    Raises:
        ValueError: There are no values, or ratio lies outside 0..1: a fault of the caller.

    Source:
        ``window_base`` in shared/vectors/cruisekube.json (Prometheus' quantile_over_time has the same ranks).
    """
    if values.size == 0:
        msg = "percentile of no values"
        raise ValueError(msg)
    if not 0.0 <= ratio <= 1.0:
        msg = f"percentile ratio {ratio} is outside 0..1"
        raise ValueError(msg)
    rank = ratio * (values.size - 1)
    below = int(rank)
    above = min(below + 1, values.size - 1)
    ordered = np.partition(values, (below, above))
    low, high = float(ordered[below]), float(ordered[above])
    return min(low + (rank - below) * (high - low), high)  # min: the product may round past the upper value
