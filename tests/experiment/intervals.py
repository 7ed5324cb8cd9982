"""Quantiles and how sure they are: bootstrap intervals over groups and, within each, over its values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

RESAMPLES: Final = 2000
CONFIDENCE_RATIO: Final = 0.95
SEED: Final = 17

Groups = Sequence[Sequence[float]]
"""What was measured, by the pod it was measured in: repetitions in one pod are more alike than those in two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float
    count: int
    """Of the values behind it; of a ratio, of the arm with fewer."""

    def text(self, decimals: int = 1) -> str:
        """Return it as ``1.5 (1.2 to 1.9)``."""
        return f"{self.value:.{decimals}f} ({self.low:.{decimals}f} to {self.high:.{decimals}f})"


def median(groups: Groups) -> Estimate | None:
    """Return the median of all values; None = there is none."""
    return quantile(groups, 0.5)


def quantile(groups: Groups, level: float) -> Estimate | None:
    """Return a quantile of all values; None = there is none."""
    arrays = _kept(groups)
    if not arrays:
        return None
    value = float(np.quantile(np.concatenate(arrays), level))
    return _estimate(value, _resampled(arrays, SEED, level), sum(map(len, arrays)))


def ratio_of_medians(above: Groups, below: Groups) -> Estimate | None:
    """Return the median of one arm over that of another: see ``ratio_of_quantiles``."""
    return ratio_of_quantiles(above, below, 0.5)


def ratio_of_quantiles(above: Groups, below: Groups, level: float) -> Estimate | None:
    """Return a quantile of one arm over that of another; both are drawn anew each time.

    Returns:
        None = one of them has no value, or the quantile below is 0.
    """
    first, second = _kept(above), _kept(below)
    if not first or not second:
        return None
    divisor = float(np.quantile(np.concatenate(second), level))
    if divisor == 0.0:
        return None
    drawn = _resampled(second, SEED + 1, level)
    ratios = _resampled(first, SEED, level)[drawn > 0.0] / drawn[drawn > 0.0]
    value = float(np.quantile(np.concatenate(first), level)) / divisor
    return _estimate(value, ratios, min(sum(map(len, first)), sum(map(len, second))))


def _kept(groups: Groups) -> list[NDArray[np.float64]]:
    return [np.asarray(group, dtype=np.float64) for group in groups if len(group)]


def _resampled(groups: Sequence[NDArray[np.float64]], seed: int, level: float) -> NDArray[np.float64]:
    """Return the quantiles of samples of samples: so many groups, drawn with return, and of each so many values."""
    random = np.random.default_rng(seed)
    # One row a group, filled up with infinity, which is left out: all samples are drawn at once.
    sizes = np.array([len(group) for group in groups])
    table = np.full((len(groups), int(sizes.max())), np.inf)
    for row, group in enumerate(groups):
        table[row, : len(group)] = group
    pods = random.integers(len(groups), size=(RESAMPLES, len(groups)))
    places = (random.random((*pods.shape, table.shape[1])) * sizes[pods][..., None]).astype(np.intp)
    drawn = table[pods[..., None], places]
    drawn[np.arange(table.shape[1]) >= sizes[pods][..., None]] = np.inf
    # As numpy's nanquantile, which takes each row by itself.
    ordered = np.sort(drawn.reshape(RESAMPLES, -1), axis=1)
    place = (sizes[pods].sum(axis=1) - 1) * level
    below = place.astype(np.intp)
    above = np.minimum(below + 1, sizes[pods].sum(axis=1) - 1)
    rows = np.arange(RESAMPLES)
    quantiles: NDArray[np.float64] = ordered[rows, below] + (place - below) * (
        ordered[rows, above] - ordered[rows, below]
    )
    return quantiles


def _estimate(value: float, resampled: NDArray[np.float64], count: int) -> Estimate:
    tail = (1.0 - CONFIDENCE_RATIO) / 2.0
    low, high = np.quantile(resampled, [tail, 1.0 - tail])
    return Estimate(value=value, low=float(low), high=float(high), count=count)
