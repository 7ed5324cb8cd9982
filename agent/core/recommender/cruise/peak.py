"""Base and peak of many rows; the peak that a series of samples predicts; one series out of several. Core, pure.

``CruisePolicy`` predicts from minutes, for many rows at once; ``predict_peak`` is the same rule for samples at any
moment, as a history that comes from elsewhere has them. Both go by ``hours.is_same_hour``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, hour_of, is_same_hour
from agent.core.numbers.arrays import Bools, Floats
from agent.core.orders.policy_options import CruiseOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One resource of the rows asked for, shape ``(k,)`` each; 0 beside a False mask."""

    base: Floats
    has_base: Bools
    last: Floats
    """Maximum of the last ``last_seconds``."""
    has_last: Bools
    same_hour: Floats
    """Maximum of this hour of the day and its neighbours, today and in the days before."""
    has_same_hour: Bools
    elsewhere: Floats
    """The same of other nodes, where they count."""
    has_elsewhere: Bools

    @property
    def is_predicted(self) -> Bools:
        """Return where there is more than the base to go by."""
        return self.has_last | self.has_same_hour | self.has_elsewhere

    @property
    def peak(self) -> Floats:
        """The largest of all; the base where there is no prediction, and 0 without a base: no base, no answer."""
        predicted = np.maximum(np.maximum(self.last, self.same_hour), self.elsewhere)
        return np.where(self.has_base, np.maximum(self.base, predicted), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedPeak:
    """What a series lets expect; None = it has no sample there. In the unit of the samples."""

    same_hour: float | None
    """Maximum of this UTC hour of the day and its neighbours, today and in the days before."""
    last: float | None
    """Maximum of the last ``last_seconds``."""
    peak: float | None
    """The larger of the two."""


def predict_peak(
    moments_unix_seconds: Floats, values: Floats, options: CruiseOptions, *, now_unix_seconds: float
) -> PredictedPeak:
    """Predict the peak from samples.

    Args:
        moments_unix_seconds: When, in UTC; shape ``(n,)``, in any order. Later ones than now do not count.
        values: Finite, shape ``(n,)``.
        now_unix_seconds: The moment of the prediction; the far edge of the last ``last_seconds`` belongs to them.
    """
    past = moments_unix_seconds <= now_unix_seconds
    hours = (moments_unix_seconds // HOUR_SECONDS).astype(np.int64)
    same = is_same_hour(hours, hour_of(now_unix_seconds), days=options.history_days, neighbours=options.neighbour_hours)
    last = moments_unix_seconds >= now_unix_seconds - options.last_seconds
    return PredictedPeak(
        same_hour=_largest(values, past & same),
        last=_largest(values, past & last),
        peak=_largest(values, past & (same | last)),
    )


def merge_series(series: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Make one series of those that followed each other under one workload: the maximum at each moment.

    Args:
        series: Moments and values, both of shape ``(n,)``, in any order; moments may repeat.

    Returns:
        Moments, rising, and values.
    """
    moments = np.concatenate([np.zeros(0), *(moments for moments, _ in series)])
    values = np.concatenate([np.zeros(0), *(values for _, values in series)])
    distinct, place = np.unique(moments, return_inverse=True)
    merged = np.full(distinct.size, -np.inf)
    np.maximum.at(merged, place, values)  # each place is hit at least once: nothing stays infinite
    return distinct, merged


def _largest(values: Floats, chosen: Bools) -> float | None:
    return float(values[chosen].max()) if chosen.any() else None
