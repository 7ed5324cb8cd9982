"""Many samples into one row of histograms, as the agent's own come: one after the other."""

from __future__ import annotations

import numpy as np

from agent.core.numbers.arrays import Floats
from agent.core.numbers.histogram import Histograms


def add_series(
    histograms: Histograms, row: int, values: Floats, weights: Floats, unix_seconds: Floats | None = None
) -> None:
    """Add samples in their order; values and weights of shape ``(k,)``, times too where the histograms decay."""
    rows = np.array([row])
    for index in range(values.size):
        place = slice(index, index + 1)
        times = None if unix_seconds is None else unix_seconds[place]
        histograms.add(rows, values[place], weights[place], times)
