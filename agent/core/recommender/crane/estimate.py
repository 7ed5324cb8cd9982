"""From samples to amounts as the policy ``crane`` goes: weight, percentile, margin, target utilisation, truncation.

Core, pure. The order of operations decides the last place: the end of bucket 0.1 core gives 114 millicores, not 115.

Source:
    prediction/percentile (aggregate_signal.go, config.go, estimator.go) and recommendation/recommender/resource
    (recommend.go) of Crane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.numbers.arrays import Floats

LEAST_WEIGHT: Final = 1e-5
"""What a sample weighs at least: cores or bytes."""
EPSILON: Final = 1e-10
"""What a bucket holds at least; with less it counts as empty."""


def weigh(values: Floats, least_weight: float = LEAST_WEIGHT) -> Floats:
    """Return what samples weigh: their value, so that a percentile is one of usage, not of time."""
    return np.maximum(values, least_weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimation:
    """What is made of a histogram; the defaults are those of a model that is set up without them."""

    percentile: float = 0.99
    margin_fraction: float = 0.0
    target_utilization: float = 1.0

    def of_percentile(self, percentile_values: Floats) -> Floats:
        """Return estimates from percentile values, in their unit (cores or bytes)."""
        return percentile_values * (1 + self.margin_fraction) / self.target_utilization


def to_millicores(estimates_cores: Floats) -> Floats:
    """Return whole millicores, truncated."""
    return np.trunc(estimates_cores * 1000)


def to_bytes(estimates_bytes: Floats) -> Floats:
    """Return whole bytes, truncated."""
    return np.trunc(estimates_bytes)
