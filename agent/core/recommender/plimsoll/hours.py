"""What the hours have shown of CPU: the levels each finished hour reached, and how things looked when it began.

Core, pure. An hour is kept as four **levels**: its largest minute, and what all but a twelfth, a quarter and a half of
its minutes stayed within. When it begins, four **looks** back are kept beside them; hours that began alike are expected
to go on alike. All rows at once; 0 stands where nothing was measured.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.workloads.hour_peaks import MINUTES_PER_HOUR
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows, widened

DAY_HOURS: Final = 24
REACH_HOURS: Final = 132
"""Hours that count. With the running day (``dead_band``) and the twelve hours of a look these are the seven days that
the history keeps, so that a restart gives back every figure."""
LEVELS: Final = 4
LEVEL_TWELFTHS: Final = (0, 1, 3, 6)
"""Twelfths of an hour's minutes that were above each of its levels."""
LOOK_MINUTES: Final = (15, 60)
SIX_HOURS: Final = 6
HALF_DAY_HOURS: Final = 12
LOOKS: Final = 4
"""Largest of the last 15 min, of the last hour, of six hours; and the level that half of the minutes of the usual hour
among the last twelve stayed within."""
SLOTS: Final = 160
"""The hours that count for each hour of a day, and the running one."""
_TWELVE: Final = 12
_NEVER: Final = -(1 << 40)

Singles = NDArray[np.float32]


class LastMinutes:
    """CPU of the last hour's minutes, all rows; 300 bytes per row."""

    def __init__(self, rows: int) -> None:
        self._values = np.zeros((MINUTES_PER_HOUR, rows), dtype=np.float32)
        self._known = np.zeros((MINUTES_PER_HOUR, rows), dtype=np.bool_)
        self.newest: int | None = None
        """The newest minute; None = none yet."""

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        self._values, self._known = widened(self._values, rows), widened(self._known, rows)

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._values[:, rows] = 0.0
        self._known[:, rows] = False

    def fold(self, unix_minute: int, values: Singles, known: Bools) -> None:
        """Add one minute; a minute that comes again keeps the larger value.

        When the clock is set back, what was measured before goes on counting until its slot comes round.
        """
        slot = unix_minute % MINUTES_PER_HOUR
        if unix_minute == self.newest:
            np.maximum(self._values[slot], values, out=self._values[slot])
            self._known[slot] |= known
            return
        if self.newest is not None and unix_minute > self.newest + 1:
            skipped = np.arange(max(self.newest + 1, unix_minute - MINUTES_PER_HOUR), unix_minute) % MINUTES_PER_HOUR
            self._values[skipped] = 0.0
            self._known[skipped] = False
        self._values[slot] = values
        self._known[slot] = known
        self.newest = unix_minute

    def largest(self, minutes: int, before: int | None = None) -> Singles:
        """Return the maximum of the so many minutes before a later one, shape ``(n,)``; none of them known gives 0.

        Without one, or where it is not later, they are the newest.
        """
        top: Singles = self._values[self._slots(minutes, before)].max(axis=0, initial=0.0)
        return top

    def has_any(self, before: int | None = None) -> Bools:
        """Return which rows have a known minute in the hour before a later one, shape ``(n,)``; as ``largest``."""
        known: Bools = np.logical_or.reduce(self._known[self._slots(MINUTES_PER_HOUR, before)], axis=0)
        return known

    def _slots(self, minutes: int, before: int | None) -> Ints:
        """Return the slots of those minutes that have come, oldest first."""
        end = 0 if self.newest is None else self.newest + 1
        return np.arange(max(end, before or end) - minutes, end) % MINUTES_PER_HOUR

    def levels(self) -> tuple[Singles, NDArray[np.uint8]]:
        """Return levels of the newest minute's hour so far, shape ``(4, n)``, and how many of its minutes are known."""
        until = (self.newest or 0) % MINUTES_PER_HOUR + 1
        known = self._known[:until]
        falling = -np.sort(-np.where(known, self._values[:until], np.float32(-1.0)), axis=0)
        minutes = np.count_nonzero(known, axis=0)
        above = np.array(LEVEL_TWELFTHS)[:, np.newaxis] * minutes // _TWELVE
        levels = np.maximum(np.take_along_axis(falling, above, axis=0), np.float32(0.0))
        return levels, minutes.astype(np.uint8)


class HourRing:
    """Levels and looks of the newest hours; 5.4 kB per row."""

    def __init__(self, rows: int) -> None:
        self._levels = np.zeros((SLOTS, LEVELS, rows), dtype=np.float32)
        self._looks = np.zeros((SLOTS, LOOKS, rows), dtype=np.float32)
        self._has_looks = np.zeros((SLOTS, rows), dtype=np.bool_)
        self._minutes = np.zeros((SLOTS, rows), dtype=np.uint8)
        self._hours = np.full(SLOTS, _NEVER, dtype=np.int64)
        self._renewed_hours = np.full(rows, _NEVER, dtype=np.int64)
        """The first hour of each row's present image."""

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        more = max(rows - self._minutes.shape[1], 0)
        self._levels, self._looks = widened(self._levels, rows), widened(self._looks, rows)
        self._has_looks, self._minutes = widened(self._has_looks, rows), widened(self._minutes, rows)
        self._renewed_hours = np.pad(self._renewed_hours, (0, more), constant_values=_NEVER)

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._levels[:, :, rows] = 0.0
        self._looks[:, :, rows] = 0.0
        self._has_looks[:, rows] = False
        self._minutes[:, rows] = 0
        self._renewed_hours[rows] = _NEVER

    def renew(self, row: int, hour: int) -> None:
        """Record which hour is the first of a row's present image."""
        self._renewed_hours[row] = hour

    def image_since(self, hour: int) -> Ints:
        """Return the first hour of the image that each row runs in an hour, shape ``(n,)``; long ago = not known."""
        since: Ints = np.where(self._renewed_hours <= hour, self._renewed_hours, _NEVER)
        return since

    def open(self, hour: int, looks: Singles, has_looks: Bools) -> None:
        """Begin an hour with its looks back and which rows have some; the one that stood in its slot is forgotten."""
        slot = hour % SLOTS
        if self._hours[slot] != hour:
            self._levels[slot] = 0.0
            self._minutes[slot] = 0
            self._hours[slot] = hour
        self._looks[slot] = looks
        self._has_looks[slot] = has_looks

    def close(self, hour: int, levels: Singles, minutes: NDArray[np.uint8]) -> None:
        """Record what an hour that is open has shown so far, as often as one likes.

        Of an hour that comes twice, as the clock was set back, that time counts of which more minutes are known.
        """
        slot = hour % SLOTS
        is_more = minutes >= self._minutes[slot]
        np.copyto(self._levels[slot], levels, where=is_more)
        np.copyto(self._minutes[slot], minutes, where=is_more)

    def looks(self, hour: int) -> tuple[Singles, Bools] | None:
        """Return the looks of an hour's beginning, shape ``(4, n)``, and who has some; None = it never began."""
        slot = hour % SLOTS
        return (self._looks[slot], self._has_looks[slot]) if self._hours[slot] == hour else None

    def before(self, hour: int, reach_hours: int) -> Ints:
        """Return the slots of the hours that ended before one and lie within reach of it, oldest first."""
        slots: Ints = ((self._hours >= hour - reach_hours) & (self._hours < hour)).nonzero()[0]
        ordered: Ints = slots[np.argsort(self._hours[slots])]
        return ordered

    def largest_before(self, hour: int) -> Singles:
        """Return the largest of the last six hours before one, shape ``(n,)``."""
        top: Singles = self._levels[self.before(hour, SIX_HOURS), 0].max(axis=0, initial=0.0)
        return top

    def usual_before(self, hour: int) -> Singles:
        """Return the median over the last twelve hours before one of what half of an hour's minutes stayed within."""
        slots = self.before(hour, HALF_DAY_HOURS)
        median: Singles = median_of(self._levels[slots, LEVELS - 1].T, self._minutes[slots].T > 0).astype(np.float32)
        return median

    def kept(
        self, slots: Ints, rows: slice[int | None, int | None, None]
    ) -> tuple[Ints, Floats, Floats, Bools, Floats]:
        """Return what these slots hold of some rows that lie together, double and by row.

        Returns:
            Hours ``(p,)``, levels and looks ``(k, p, 4)``, whether there are looks and known minutes ``(k, p)``.
        """
        return (
            self._hours[slots],
            np.ascontiguousarray(self._levels[slots, :, rows].transpose(2, 0, 1), dtype=np.float64),
            np.ascontiguousarray(self._looks[slots, :, rows].transpose(2, 0, 1), dtype=np.float64),
            np.ascontiguousarray(self._has_looks[slots, rows].T),
            np.ascontiguousarray(self._minutes[slots, rows].T, dtype=np.float64),
        )


def median_of(values: Floats | Singles, known: Bools) -> Floats:
    """Return the lower median of the known values of each row, shapes ``(n, p)``; 0 where none is known."""
    if not values.shape[1]:
        return np.zeros(values.shape[0])
    rising = np.sort(np.where(known, values, np.inf), axis=1)
    count = np.count_nonzero(known, axis=1)
    middle = np.take_along_axis(rising, (np.maximum(count - 1, 0) // 2)[:, np.newaxis], axis=1)[:, 0]
    median: Floats = np.where(count > 0, middle, 0.0).astype(np.float64)
    return median
