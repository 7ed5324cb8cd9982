"""How much memory may be above the largest that was seen: as much as it has lately been growing. Core, pure.

A request at the largest working set of seven days is passed by whatever grows. So there is a margin: as much as the
largest of four days has grown by within an hour, the greatest such growth counting half after twelve hours. A leak is
given the next hour's growth ahead, and what stands still is asked for with little above it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from agent.core.history.workloads.hour_peaks import MINUTES_PER_HOUR, WEEK_HOURS, MinutePeaks, PeakRing
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows, widened

GROWTH_MINUTES: Final = 60
LEAST_MARGIN: Final = 0.05
MOST_MARGIN: Final = 0.3
"""More would be a guess."""
HALF_LIFE_HOURS: Final = 12.0
GROWTH_HOURS: Final = 72
"""After so long a doubling counts less than the least margin."""
MOST_GROWTH: Final = 1.0
LARGEST_HOURS: Final = 96
"""Hours before the running one over which growth is measured; with those above seven days, which the history keeps."""
START_MINUTES: Final = GROWTH_MINUTES + 15
"""Growth counts after so long: before, it would be seen from the first quarter of an hour, in which all begin."""
_SPAN: Final = GROWTH_MINUTES + 1
_MEMORY: Final = 1
_NEVER: Final = -(1 << 40)


class MemoryDrift:
    """Largest working sets and their growth of all rows; 2.3 kB per row."""

    def __init__(self, rows: int) -> None:
        self._hours = PeakRing(rows, WEEK_HOURS + 2)
        self._largest = np.zeros(rows)
        """Of the hours over which growth is measured and the running one."""
        self._hour: int | None = None
        self._trail = np.zeros((_SPAN, rows), dtype=np.float32)
        self._trail_minutes = np.full(_SPAN, _NEVER, dtype=np.int64)
        self._growth = np.zeros((GROWTH_HOURS + 1, rows), dtype=np.float32)
        self._growth_hours = np.full(GROWTH_HOURS + 1, _NEVER, dtype=np.int64)
        self._first_minutes: Ints = np.full(rows, _NEVER, dtype=np.int64)

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        more = max(rows - self._largest.size, 0)
        self._hours.grow(rows)
        self._largest = np.pad(self._largest, (0, more))
        self._trail, self._growth = widened(self._trail, rows), widened(self._growth, rows)
        self._first_minutes = np.pad(self._first_minutes, (0, more), constant_values=_NEVER)

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._hours.forget(rows)
        self._largest[rows] = 0.0
        self._trail[:, rows] = 0.0
        self._growth[:, rows] = 0.0
        self._first_minutes[rows] = _NEVER

    def fold(self, unix_minute: int, demand: MinutePeaks) -> None:
        """Add one minute of all rows, or a part of it."""
        hour = unix_minute // MINUTES_PER_HOUR
        self._hours.fold(hour, demand)
        values, known = demand.values[_MEMORY], demand.known[_MEMORY]
        if hour == self._hour:
            np.maximum(self._largest, values, out=self._largest)
        else:
            ages = hour - self._hours.stretches
            self._largest, _ = self._hours.largest_bytes(np.arange(values.size), (ages >= 0) & (ages <= LARGEST_HOURS))
            self._hour = hour
        self._first_minutes[known & (self._first_minutes == _NEVER)] = unix_minute
        slot = unix_minute % _SPAN
        self._trail[slot], self._trail_minutes[slot] = self._largest, unix_minute
        then = (unix_minute - GROWTH_MINUTES) % _SPAN
        if self._trail_minutes[then] == unix_minute - GROWTH_MINUTES:
            before = self._trail[then].astype(np.float64)
            is_old = unix_minute - self._first_minutes >= START_MINUTES
            self._note(
                hour, np.where(known & is_old & (before > 0), self._largest / np.maximum(before, 1.0) - 1.0, 0.0)
            )

    def _note(self, hour: int, growth: Floats) -> None:
        slot = hour % (GROWTH_HOURS + 1)
        if self._growth_hours[slot] != hour:
            self._growth[slot], self._growth_hours[slot] = 0.0, hour
        # Rounded once, as it is kept; what is below 0 leaves what is there. np.clip would take as long as all the rest.
        largest = self._growth[slot]
        np.maximum(largest, np.minimum(growth, MOST_GROWTH), out=largest, casting="same_kind")

    def growth(self, rows: Rows, hour: int) -> Floats:
        """Return the largest growth within an hour, faded by its age, as a share of what was there before."""
        ages = hour - self._growth_hours
        fade = np.where(
            (ages >= 0) & (ages <= GROWTH_HOURS), 0.5 ** (np.clip(ages, 0, WEEK_HOURS) / HALF_LIFE_HOURS), 0.0
        )
        growth: Floats = (self._growth[:, rows] * fade[:, np.newaxis]).max(axis=0)
        return growth

    def week(self, rows: Rows, hour: int) -> tuple[Floats, Bools]:
        """Return the largest of seven days and the running hour, and where there is one."""
        return self._hours.largest_bytes(rows, hour - self._hours.stretches <= WEEK_HOURS)


def margin_of(growth: Floats) -> Floats:
    """Return the share of the largest to ask for above it."""
    margin: Floats = np.clip(growth, LEAST_MARGIN, MOST_MARGIN)
    return margin
