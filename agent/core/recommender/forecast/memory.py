"""How far above the largest memory of seven days ``forecast`` asks: as far as each row's own surprises say.

Core, pure. Each minute that needs more than the request that would be **in force** raises the row's margin by a
hundredth; every other lowers it so much that both balance when ``exceed_ratio`` is met (online quantile tracking). Flat
memory so gets no margin, creeping memory a few hundredths. The request in force is what the bounds' defaults would make
of the answers: a change must be large enough, but memory in use raises it at once.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from agent.core.numbers.arrays import Bools, Floats, Rows
from agent.core.orders.policy_options import BoundsOptions, ForecastOptions

STEP: Final = 0.01
MOST: Final = 0.1
"""Margin of memory that never stops growing; more would be a guess at how fast."""
_ACTING: Final = BoundsOptions()


class MemoryMargins:
    """Margins of all rows; 17 bytes per row."""

    def __init__(self, options: ForecastOptions, rows: int) -> None:
        self._options = options
        self._margin = np.zeros(rows)
        self._in_force = np.zeros(rows)
        self._is_sized = np.zeros(rows, dtype=np.bool_)

    def grow(self, rows: int) -> None:
        """Hold at least so many rows; the new ones know nothing."""
        more = max(rows - self._margin.size, 0)
        self._margin = np.pad(self._margin, (0, more))
        self._in_force = np.pad(self._in_force, (0, more))
        self._is_sized = np.pad(self._is_sized, (0, more))

    def forget(self, rows: Rows) -> None:
        """Make these rows know nothing again."""
        self._margin[rows] = 0.0
        self._is_sized[rows] = False

    def settle(self, working_set_bytes: Floats, has: Bools, peak_bytes: Floats) -> None:
        """Judge the request in force by one minute, then change it; shape ``(n,)`` each.

        Args:
            working_set_bytes: Of the minute; 0 where not known.
            has: Where it is known.
            peak_bytes: Largest of seven days, this minute included.
        """
        exceeds = working_set_bytes > self._in_force
        ratio = self._options.exceed_ratio
        step = np.where(exceeds, STEP, -STEP * ratio / (1.0 - ratio))
        self._margin = np.where(has & self._is_sized, np.clip(self._margin + step, 0.0, MOST), self._margin)
        wanted = peak_bytes * (1.0 + self._margin)
        least = np.maximum(self._in_force * _ACTING.smallest_change_ratio, float(_ACTING.smallest_memory_change_bytes))
        moves = has & (exceeds | ~self._is_sized | (np.abs(wanted - self._in_force) >= least))
        self._in_force = np.where(moves, wanted, self._in_force)
        self._is_sized = self._is_sized | has

    def margin(self, rows: Rows) -> Floats:
        """Give the margins of some rows, as a share of the peak."""
        return self._margin[rows]
