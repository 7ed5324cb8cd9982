"""The largest demand of each stretch of time (UTC hours, minutes), for many rows at once. Core, pure.

Time is what the minutes say: UTC, as the clock had it when they were measured. When the clock is set back, stretches
come again and keep the larger maximum. What now lies ahead stays in its slot until the ring comes round to it: it
counts in the last minutes and in the seven days, and for its hour of the day when that comes. When the clock is set
forward, the stretches between are gaps. Each stretch measured by a clock that was wrong by more than the ring is long
costs the one that stood in its slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.minute.minutes import Minutes
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows, widened


@dataclass(frozen=True, slots=True, kw_only=True)
class HourPeak:
    """The largest demand of one UTC hour; None = not measured in it."""

    hour_unix_seconds: int
    cpu_millicores: float | None
    working_set_bytes: float | None


HOUR_SECONDS: Final = 3600
MINUTES_PER_HOUR: Final = 60
WEEK_HOURS: Final = 168
_CPU: Final = 0
_MEMORY: Final = 1
_UPWARDS: Final = np.float32(np.inf)
_Singles = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Largest demand per row, shape ``(k,)`` each; 0 where its mask is False."""

    cpu_millicores: Floats
    has_cpu: Bools
    working_set_bytes: Floats
    has_memory: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class MinutePeaks:
    """One minute's peaks as the rings keep them; shape ``(2, n)``, CPU in millicores first, then memory in bytes."""

    values: _Singles
    """0 where not known."""
    known: Bools

    @classmethod
    def of(cls, minutes: Minutes) -> MinutePeaks:
        """Take the peaks of a minute in single precision, which halves the rings.

        CPU goes to the nearest value (6e-8 of it); memory upwards, so that no peak is ever told too small. Whole KiB up
        to 16 GiB stay exact.
        """
        # Each minute of each policy: np.stack would take longer than all the rest.
        known = np.empty((2, minutes.has_cpu.size), dtype=np.bool_)
        known[_CPU], known[_MEMORY] = minutes.has_cpu, minutes.has_memory
        exact = np.zeros(known.shape)
        np.copyto(exact[_CPU], minutes.cpu_peak_millicores, where=minutes.has_cpu)
        np.copyto(exact[_MEMORY], minutes.working_set_bytes, where=minutes.has_memory)
        values = exact.astype(np.float32)
        memory = values[_MEMORY]
        np.nextafter(memory, _UPWARDS, out=memory, where=memory < exact[_MEMORY])
        return cls(values=values, known=known)


class PeakRing:
    """Maxima of the newest stretches of time: a slot per stretch, all rows in it; 10 bytes per row and stretch.

    A stretch is a number that rises by one (minutes or hours since the epoch); its slot is that number modulo the
    number of slots, so a stretch that comes again finds its own slot.
    """

    def __init__(self, rows: int, slots: int) -> None:
        self._values = np.zeros((2, slots, rows), dtype=np.float32)
        self._known = np.zeros((2, slots, rows), dtype=np.bool_)
        self._stretches = np.zeros(slots, dtype=np.int64)
        self._used = np.zeros(slots, dtype=np.bool_)

    @property
    def rows(self) -> int:
        """How many rows it holds."""
        return self._values.shape[2]

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        self._values, self._known = widened(self._values, rows), widened(self._known, rows)

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._values[:, :, rows] = 0.0
        self._known[:, :, rows] = False

    def fold(self, stretch: int, demand: MinutePeaks) -> None:
        """Take the larger of what the stretch already has and this; the slot's former stretch is forgotten."""
        slot = stretch % self._stretches.size
        if self._used[slot] and self._stretches[slot] == stretch:
            np.maximum(self._values[:, slot], demand.values, out=self._values[:, slot])
            self._known[:, slot] |= demand.known
        else:
            self._values[:, slot] = demand.values
            self._known[:, slot] = demand.known
            self._stretches[slot] = stretch
            self._used[slot] = True

    @property
    def stretches(self) -> Ints:
        """Which stretch each slot holds, shape ``(slots,)``; means nothing in a slot that holds none yet."""
        return self._stretches

    def largest(self, rows: Rows, slots: Bools) -> Peaks:
        """Return the maxima over the stretches in these slots, shape ``(slots,)``; unused ones do not count."""
        peaks, has = self._maxima(slice(_CPU, None), rows, slots)
        return Peaks(
            cpu_millicores=peaks[_CPU],
            has_cpu=has[_CPU],
            working_set_bytes=peaks[_MEMORY],
            has_memory=has[_MEMORY],
        )

    def largest_bytes(self, rows: Rows, slots: Bools) -> tuple[Floats, Bools]:
        """Return the same of memory alone: the maxima, and where there is one."""
        peaks, has = self._maxima(slice(_MEMORY, None), rows, slots)
        return peaks[0], has[0]

    def _maxima(self, resources: slice[int, None, None], rows: Rows, slots: Bools) -> tuple[Floats, Bools]:
        """Return maxima and what is known of them, shape ``(resources, k)``.

        Picking single rows out of slots costs many times what going through them in order does, so rows are picked
        first only where they are few.
        """
        index = (slots & self._used).nonzero()[0]
        values, known = self._values[resources], self._known[resources]
        if rows.size * 8 < self.rows:
            values, known = values[:, index[:, None], rows], known[:, index[:, None], rows]
            rows = np.arange(rows.size)
        elif index.size < slots.size:
            values, known = values[:, index], known[:, index]
        peaks: Floats = values.max(axis=1, initial=0.0)[:, rows].astype(np.float64)
        has: Bools = np.logical_or.reduce(known, axis=1)[:, rows]
        return peaks, has

    def of_row(self, row: int) -> list[tuple[int, float | None, float | None]]:
        """Return stretch, CPU and memory of one row, oldest first; stretches in which nothing was known are absent."""
        there = (self._used & self._known[:, :, row].any(axis=0)).nonzero()[0]
        ordered = there[np.argsort(self._stretches[there])]
        return [
            (
                int(self._stretches[slot]),
                float(self._values[_CPU, slot, row]) if self._known[_CPU, slot, row] else None,
                float(self._values[_MEMORY, slot, row]) if self._known[_MEMORY, slot, row] else None,
            )
            for slot in ordered
        ]


def hour_of(unix_seconds: float) -> int:
    """Number the UTC clock hour that contains a moment, from the epoch; a full hour belongs to what it begins."""
    return int(unix_seconds // HOUR_SECONDS)


def is_same_hour(hours: Ints, hour_now: int, *, days: int, neighbours: int) -> Bools:
    """Return which UTC clock hours count as the same hour of the day as this one.

    Those are the hour itself in the running day and in each of the days before, and as many neighbours on either side
    of each. Hours run on over midnight, also at the far end: the hour before that of seven days ago counts.

    Args:
        hours: Hours since the epoch, shape ``(n,)``. Later ones than now count only as neighbours.
        hour_now: The hour since the epoch that contains now.
        days: How many days before the running one count.
        neighbours: How many hours on either side count as well; 0..12.
    """
    before = hour_now - hours
    nearest_day = np.clip((before + 12) // 24, 0, days)
    same: Bools = np.abs(before - nearest_day * 24) <= neighbours
    return same


class HourPeaks:
    """Maxima of the UTC hours of the last seven days and of the neighbour hours around them.

    1.7 kB per row with one neighbour hour, 1.8 kB with twelve.
    """

    def __init__(self, rows: int, *, history_days: int, neighbour_hours: int) -> None:
        self._history_days = history_days
        self._neighbour_hours = neighbour_hours
        # The running hour, those of seven days (memory limits go by them all), and a neighbour before the oldest.
        self._ring = PeakRing(rows, WEEK_HOURS + 1 + neighbour_hours)

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        self._ring.grow(rows)

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._ring.forget(rows)

    def fold(self, unix_minute: int, demand: MinutePeaks) -> None:
        """Learn one minute: it belongs to the hour in which it begins."""
        self._ring.fold(unix_minute // MINUTES_PER_HOUR, demand)

    def same_hour(self, rows: Rows, now_unix_seconds: float) -> Peaks:
        """Return the maxima of this hour of the day and its neighbours, today and in the days before."""
        return self._ring.largest(rows, self._is_same(self._ring.stretches, now_unix_seconds))

    def week_bytes(self, rows: Rows, now_unix_seconds: float) -> tuple[Floats, Bools]:
        """Return the largest memory of seven days, and where there is one.

        All seven, however few of them ``history_days`` lets count; the hour of seven days ago counts as a whole.
        """
        return self._ring.largest_bytes(rows, hour_of(now_unix_seconds) - self._ring.stretches <= WEEK_HOURS)

    def of_row(self, row: int) -> tuple[HourPeak, ...]:
        """Return the hours in which a row was measured, oldest first."""
        return tuple(
            HourPeak(hour_unix_seconds=hour * HOUR_SECONDS, cpu_millicores=cpu, working_set_bytes=memory)
            for hour, cpu, memory in self._ring.of_row(row)
        )

    def same_hours_of_row(self, row: int, now_unix_seconds: float) -> tuple[HourPeak, ...]:
        """Return those of a row's hours that ``same_hour`` goes by, oldest first."""
        hours = self.of_row(row)
        numbers = np.array([hour.hour_unix_seconds // HOUR_SECONDS for hour in hours], dtype=np.int64)
        same = self._is_same(numbers, now_unix_seconds)
        return tuple(hour for hour, is_same in zip(hours, same, strict=True) if is_same)

    def _is_same(self, hours: Ints, now_unix_seconds: float) -> Bools:
        return is_same_hour(hours, hour_of(now_unix_seconds), days=self._history_days, neighbours=self._neighbour_hours)
