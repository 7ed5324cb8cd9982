"""Whether a process grew: the slope of its memory and of its descriptors over each of its lives. Pure.

A life's slope is measured between each sample and the one half a life later, which no single jump decides (as Theil and
Sen do with all pairs). Lives and the slopes in each are drawn again for the interval, as samples of one life are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.experiment.intervals import Estimate, median

FEWEST: Final = 8
"""Samples of a life after its warm-up; with fewer it tells no slope."""
HOUR_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a process had at one moment."""

    second: float
    """From the beginning of the run on."""
    age_seconds: float
    """Of the process."""
    rss_bytes: int
    descriptors: int
    """Open ones, but for those of the cgroups that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What a figure did over the lives of a process."""

    lives: int
    """With samples enough."""
    slope_per_hour: Estimate | None
    """None = no life was long enough."""
    life_seconds: float
    """The median of the lives, less the warm-up."""
    scatter: float
    """How far samples lie from their life's median, in the median: what one sees without any growth."""
    least: float
    """Below that nothing counts: what the kernel or an allocator moves by at once."""

    @property
    def over_a_life(self) -> float | None:
        """Return the growth over a life that is sure: the interval's low end; None = nothing is known."""
        return None if self.slope_per_hour is None else self.slope_per_hour.low * self.life_seconds / HOUR_SECONDS

    @property
    def noise(self) -> float:
        """Return what a growth over a life must be above."""
        return max(2.0 * self.scatter, self.least)

    @property
    def is_flat(self) -> bool:
        """Return whether no growth above noise is sure. Where nothing is known, it is not flat."""
        return self.over_a_life is not None and self.over_a_life <= self.noise


def growth(lives: Sequence[Sequence[Sample]], figure: str, *, warm_up_seconds: float, least: float) -> Growth:
    """Return how a figure (``rss_bytes``, ``descriptors``) grew."""
    warm_lives = [[sample for sample in life if sample.age_seconds >= warm_up_seconds] for life in lives]
    warm_lives = [life for life in warm_lives if len(life) >= FEWEST]
    slopes, lengths, distances = [], [], []
    for life in warm_lives:
        values = np.array([float(getattr(sample, figure)) for sample in life])
        seconds = np.array([sample.second for sample in life])
        half = len(life) // 2
        slopes.append(((values[half:] - values[:-half]) / (seconds[half:] - seconds[:-half]) * HOUR_SECONDS).tolist())
        lengths.append(seconds[-1] - seconds[0])
        distances.extend(np.abs(values - np.median(values)).tolist())
    return Growth(
        lives=len(warm_lives),
        slope_per_hour=median(slopes),
        life_seconds=float(np.median(lengths)) if lengths else 0.0,
        scatter=float(np.median(distances)) if distances else 0.0,
        least=least,
    )
