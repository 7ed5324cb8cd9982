"""What the hours have shown of CPU: levels that this hour of the day, and of the week, may be expected to reach.

Core, pure. All levels come from one sketch per hour, its largest minute: kept for seven days, for all rows at once. A
quantile over days or hours of such maxima is a quantile of demand that a minute cannot hide in.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.hour_peaks import WEEK_HOURS, PeakRing, Peaks
from agent.core.numbers.arrays import Bools, Floats, Rows

DAYS: Final = 7
DAY_HOURS: Final = 24
MINUTES_PER_HOUR: Final = 60
SLOTS: Final = WEEK_HOURS + 2
"""The running hour, those of seven days, and the neighbour before the oldest: 1.7 kB per row."""
_SPARED_HOURS: Final = 2
"""Of the last day's hours so many may have been higher than ``LAST_DAY``: a burst or two do not make a day's level."""
_HOURS_PER_SPARED: Final = 4
"""Of a younger container's hours one in so many: its start is often its largest burst."""

Singles = NDArray[np.float32]


class Season(IntEnum):
    """Which level of the past is expected again; each is 0 where nothing was measured."""

    NONE = 0
    """None: the last minutes speak for themselves."""
    LAST_DAY = 1
    """What all but two hours of the last day stayed within."""
    HOUR_OF_WEEK = 2
    """This hour of the week and its neighbours, seven days ago; as ``LARGEST`` until there is such."""
    USUAL_DAY = 3
    """This hour of the day and its neighbours on the median day of the last seven; the higher of two medians."""
    LARGEST = 4
    """This hour of the day and its neighbours on any of the last seven days or today: the rule of peaks."""

    @property
    def words(self) -> str:
        """Return it in the field's terms."""
        return _WORDS[self]


_WORDS: Final = {
    Season.NONE: "the last minutes alone",
    Season.LAST_DAY: "all but two hours of the last day",
    Season.HOUR_OF_WEEK: "this hour of the week +- 1 h",
    Season.USUAL_DAY: "this hour of the usual day +- 1 h",
    Season.LARGEST: "this hour of any day +- 1 h",
}


def season_levels(days: Floats, has_day: Bools, last_day: Floats, has_hour: Bools, today: Floats) -> Singles:
    """Return the level of each ``Season``, shape ``(5, n)``.

    Args:
        days: Largest demand around this hour of the day, one row per day back from yesterday, shape ``(7, n)``.
        has_day: Which of them are known; 0 stands where one is not.
        last_day: Largest demand of each of the last 24 whole hours, shape ``(24, n)``.
        has_hour: Which of them are known.
        today: Largest demand of the hour before and of this one so far, shape ``(n,)``.
    """
    columns = np.arange(today.size)
    falling = -np.sort(-days, axis=0)  # unknown ones are 0 and sort behind
    known_days = np.count_nonzero(has_day, axis=0)
    hours = -np.sort(-last_day, axis=0)
    known_hours = np.count_nonzero(has_hour, axis=0)
    levels = np.zeros((len(Season), today.size), dtype=np.float32)
    levels[Season.LAST_DAY] = hours[np.minimum(known_hours // _HOURS_PER_SPARED, _SPARED_HOURS), columns]
    levels[Season.LARGEST] = np.maximum(falling[0], today)
    levels[Season.HOUR_OF_WEEK] = np.where(has_day[DAYS - 1], days[DAYS - 1], levels[Season.LARGEST])
    levels[Season.USUAL_DAY] = falling[np.maximum(known_days - 1, 0) // 2, columns]
    return levels


def levels_at(hours: PeakRing, rows: Rows, hour: int) -> Singles:
    """Return the levels of some rows for an hour since the epoch, shape ``(5, k)``."""

    def largest(first: int, last: int) -> Peaks:
        return hours.largest(rows, (hours.stretches >= first) & (hours.stretches <= last))

    days = [largest(hour - DAY_HOURS * day - 1, hour - DAY_HOURS * day + 1) for day in range(1, DAYS + 1)]
    last_day = [largest(hour - back, hour - back) for back in range(1, DAY_HOURS + 1)]
    return season_levels(
        np.stack([peaks.cpu_millicores for peaks in days]),
        np.stack([peaks.has_cpu for peaks in days]),
        np.stack([peaks.cpu_millicores for peaks in last_day]),
        np.stack([peaks.has_cpu for peaks in last_day]),
        largest(hour - 1, hour).cpu_millicores,
    )


def week_at(hours: PeakRing, rows: Rows, hour: int) -> Peaks:
    """Return the maxima of seven days and the running hour."""
    return hours.largest(rows, hour - hours.stretches <= WEEK_HOURS)


class LastMinutes:
    """CPU of the last hour's minutes, all rows; 240 bytes per row. 0 stands where nothing was measured."""

    def __init__(self, rows: int) -> None:
        self._values = np.zeros((MINUTES_PER_HOUR, rows), dtype=np.float32)
        self._newest: int | None = None

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        self._values = np.pad(self._values, ((0, 0), (0, max(rows - self._values.shape[1], 0))))

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._values[:, rows] = 0.0

    def fold(self, unix_minute: int, values: Singles) -> None:
        """Add one minute; a minute that comes again keeps the larger value.

        When the clock is set back, what was measured before goes on counting until its slot comes round.
        """
        slot = unix_minute % MINUTES_PER_HOUR
        if unix_minute == self._newest:
            np.maximum(self._values[slot], values, out=self._values[slot])
            return
        if self._newest is not None and unix_minute > self._newest + 1:
            skipped = np.arange(max(self._newest + 1, unix_minute - MINUTES_PER_HOUR), unix_minute)
            self._values[skipped % MINUTES_PER_HOUR] = 0.0
        self._values[slot] = values
        self._newest = unix_minute

    def largest(self, minutes: int) -> Singles:
        """Return the maximum of the newest so many minutes, shape ``(n,)``; nothing folded yet gives 0."""
        if minutes >= MINUTES_PER_HOUR or self._newest is None:
            top: Singles = self._values.max(axis=0)
        else:
            slots = np.arange(self._newest - minutes + 1, self._newest + 1) % MINUTES_PER_HOUR
            top = self._values[slots].max(axis=0)
        return top
