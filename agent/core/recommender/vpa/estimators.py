"""From a percentile to an amount, as the policy ``vpa`` does it: margin, confidence, minimum. Core, pure.

Every step truncates to whole amounts on its own; together they decide the last digit. One entry per container.

Source:
    recommender/logic/estimator.go and recommender.go of the Vertical Pod Autoscaler 1.8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from agent.core.numbers.arrays import Floats, Ints
from agent.core.numbers.integer_amounts import cpu_from_cores, memory_from_bytes, scale


@dataclass(frozen=True, slots=True)
class Widening:
    """How little history moves a bound: by the factor (1 + multiplier / confidence) ^ exponent."""

    multiplier: float
    exponent: int


LOWER_BOUND_WIDENING: Final = Widening(0.001, -2)
"""Times 0 without confidence, 0.996 with that of 12 hours: hardly a bound is lowered for long."""
UPPER_BOUND_WIDENING: Final = Widening(1.0, 1)
"""Without end without confidence, times 3 with that of 12 hours, times 2 with that of a day."""


def with_margin(amounts: Ints, fraction: float) -> Ints:
    """Add a share of each amount to it, the share truncated."""
    return amounts + scale(amounts, fraction)


def confidence(
    first_unix_seconds: Floats, last_unix_seconds: Floats, counts: ArrayLike, *, interval_seconds: float
) -> Floats:
    """Return how much history there is, in intervals: the smaller of its span and of its samples at one per minute.

    0 for no sample and for one. The samples are those of CPU: memory has no count of its own.
    """
    whole_minutes, rest_seconds = divmod(interval_seconds, 60.0)
    minutes = whole_minutes + rest_seconds / 60.0  # added up in this order upstream; it decides the last bit
    spans = (last_unix_seconds - first_unix_seconds) / interval_seconds
    return np.minimum(spans, np.asarray(counts, dtype=np.float64) / minutes)


def widening_factors(confidences: Floats, widening: Widening) -> Floats:
    """Return the factor of a bound per confidence; infinite or 0 for a confidence of 0.

    Powers are products (the quotient of 1 and a product, if negative) as in Go; a C library's power may differ in the
    last bit.
    """
    with np.errstate(divide="ignore", over="ignore"):
        bases = 1.0 + widening.multiplier / confidences
        powers = np.ones_like(bases)
        for _ in range(abs(widening.exponent)):
            powers *= bases
        return powers if widening.exponent >= 0 else 1.0 / powers


def cpu_minimums(pod_minimum_millicores: float, pod_containers: ArrayLike) -> Ints:
    """Return each container's share of the least CPU of its pod, millicores, truncated."""
    # Through cores and back, as upstream: 0.001 is no exact float, and truncation may show it.
    return _shares(cpu_from_cores(pod_minimum_millicores * 0.001), pod_containers)


def memory_minimums(pod_minimum_mib: float, pod_containers: ArrayLike) -> Ints:
    """Return each container's share of the least memory of its pod, bytes, truncated; MB of the flag are MiB."""
    return _shares(memory_from_bytes(pod_minimum_mib * 1024 * 1024), pod_containers)


def _shares(pod_minimum: Ints, pod_containers: ArrayLike) -> Ints:
    return scale(pod_minimum, 1.0 / np.asarray(pod_containers, dtype=np.float64))
