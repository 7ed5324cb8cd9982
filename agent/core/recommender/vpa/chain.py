"""One resource's way from percentiles to target and bounds, in the order of the original, told as it goes. Core, pure.

Source:
    recommender/logic/recommender.go of the Vertical Pod Autoscaler 1.8.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.numbers.integer_amounts import scale
from agent.core.recommender.policy import Narration
from agent.core.recommender.rounding import cap, round_up, whole_cores
from agent.core.recommender.vpa.estimators import (
    LOWER_BOUND_WIDENING,
    UPPER_BOUND_WIDENING,
    Widening,
    widening_factors,
    with_margin,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Lower and upper bound, shape ``(k,)`` each; millicores or bytes."""

    lower: Ints
    upper: Ints
    confidences: Floats
    """How much history they rest on; 1 = an interval's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """What comes out, shape ``(k,)`` each; millicores or bytes."""

    target: Ints
    uncapped_target: Ints
    bounds: Bounds | None
    """None = nobody asked for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """How the percentiles of one resource become target and bounds."""

    to_amounts: Callable[[Floats], Ints]
    """From cores or bytes, as the histogram has them."""
    target_percentile: float
    lower_bound_percentile: float
    upper_bound_percentile: float
    margin_fraction: float
    round_to: int
    """Rounded up to a multiple of this."""
    max_allowed: int | None
    """Most for any container; None = no bound."""

    def estimates(
        self,
        percentile: Callable[[float], Floats],
        minimums: Ints,
        *,
        confidences: Floats | None,
        wants_whole_cores: Bools | None,
        narration: Narration,
    ) -> Estimates:
        """Estimate for some rows, from a percentile of each row's histogram in cores or bytes.

        The minimums are the rows' shares of the pod minimum. Without confidences no bounds are asked for; without
        ``wants_whole_cores`` nothing is rounded up to whole cores.
        """

        def published(name: str, p: float, widening: Widening | None) -> Ints:
            amounts = self.to_amounts(percentile(p))
            narration.first(f"{name}: P{100 * p:g}", amounts, "upper end of its histogram bucket")
            amounts = with_margin(amounts, self.margin_fraction)
            narration.first(f"{name}: with margin", amounts, f"x {1 + self.margin_fraction:.4g}")
            if widening is not None and confidences is not None:
                amounts = scale(amounts, widening_factors(confidences, widening))
                formula = f"x (1 + {widening.multiplier:g} / confidence) ^ {widening.exponent}"
                narration.first(f"{name}: widened for want of history", amounts, formula)
            return self._processed(name, np.maximum(amounts, minimums), minimums, wants_whole_cores, narration)

        uncapped = published("target", self.target_percentile, None)
        target = self._capped("target", uncapped, narration)
        bounds = None
        if confidences is not None:
            lower = published("lower bound", self.lower_bound_percentile, LOWER_BOUND_WIDENING)
            upper = published("upper bound", self.upper_bound_percentile, UPPER_BOUND_WIDENING)
            bounds = Bounds(
                lower=self._capped("lower bound", lower, narration),
                upper=self._capped("upper bound", upper, narration),
                confidences=confidences,
            )
        return Estimates(target=target, uncapped_target=uncapped, bounds=bounds)

    def _processed(
        self, name: str, amounts: Ints, minimums: Ints, wants_whole_cores: Bools | None, narration: Narration
    ) -> Ints:
        if narration.is_wanted:
            share = f"its share of the pod's minimum: {narration.text(minimums[0])}"
            narration.first(f"{name}: at least the minimum", amounts, share)
        if self.round_to > 1:
            amounts = round_up(amounts, self.round_to)
            narration.first(f"{name}: rounded up", amounts, f"to a multiple of {narration.text(self.round_to)}")
        if wants_whole_cores is not None:
            amounts = whole_cores(amounts, wants_whole_cores)
            narration.first(f"{name}: whole cores", amounts, "where the pod asks for them by annotation")
        return amounts

    def _capped(self, name: str, amounts: Ints, narration: Narration) -> Ints:
        if not self.max_allowed:
            return amounts
        capped = cap(amounts, global_max_allowed=self.max_allowed)
        narration.first(
            f"{name}: at most what is allowed", capped, f"{narration.text(self.max_allowed)} for any container"
        )
        return capped
