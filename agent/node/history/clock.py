"""The clock of the history: this machine's two clocks, and the axis of minutes that both are put on. Node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from agent.core.history.minute.minute_axis import MinuteAxis
from agent.node.sampling.row_source import RowSource

MINUTE_SECONDS: Final = 60
NS: Final = 1_000_000_000
MINUTE_NS: Final = MINUTE_SECONDS * NS


def newest_minute(rings: RowSource, slots: Iterable[int]) -> int | None:
    """Return the newest monotonic minute of which any of these slots has a minute row; None = none has one."""
    newest = (rings.minutes(slot, 1).joined()["monotonic_minute"] for slot in slots)
    return max((int(minute) for minutes in newest for minute in minutes), default=None)


class HistoryClock:
    """The time of the history: `MinuteAxis` over this machine's clocks. Policies are given it as now."""

    def __init__(
        self,
        *,
        newest_unix_minute: int | None,  # Of the history; None = it is empty
        # Of this boot, of which minute rows are kept; None = nothing was measured in it before now
        newest_monotonic_minute: int | None = None,
        # From CLOCK_MONOTONIC to the history's minutes where that is known, as of a history that stands
        # still; None = found out by the clocks
        offset_minutes: int | None = None,
        wall: Callable[[], float] = time.time,  # UTC seconds
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall, self._monotonic_ns = wall, monotonic_ns
        first = self._monotonic_minute() if newest_monotonic_minute is None else newest_monotonic_minute + 1
        self._axis = MinuteAxis(
            newest_unix_minute=newest_unix_minute,
            first_monotonic_minute=first,
            wall_offset_minutes=self._wall_offset_minutes() if offset_minutes is None else offset_minutes,
        )

    def _monotonic_minute(self) -> int:
        return self._monotonic_ns() // MINUTE_NS

    def _wall_offset_minutes(self) -> int:
        return round((self._wall() - self._monotonic_ns() / NS) / MINUTE_SECONDS)

    def observe(self) -> None:
        """Read the wall clock; once a minute."""
        self._axis.observe(self._monotonic_minute(), self._wall_offset_minutes())

    def now(self) -> float:
        """Return the history's UTC seconds: whole minutes off the wall clock, and further where that was wrong."""
        return self.unix_seconds(self._monotonic_ns())

    def wall_now(self) -> float:
        """Return the wall clock's UTC seconds, for people."""
        return self._wall()

    def believed_now(self) -> float:
        """Return the wall clock's UTC seconds; the history's where that clock has jumped ahead: nobody ages by it."""
        return self._axis.believed_seconds(self._monotonic_ns() / NS, self._wall())

    def unix_seconds(self, monotonic_ns: int) -> float:
        """Return the UTC of a moment of this boot."""
        return self._axis.unix_seconds(monotonic_ns / NS)

    def unix_minute(self, monotonic_minute: int) -> int:
        """Return the UTC minute of a minute since boot."""
        return self._axis.unix_minute(monotonic_minute)

    @property
    def ahead_minutes(self) -> int:
        """How far the history's time is ahead of the wall clock; negative: behind; 0 unless the clock was wrong."""
        return self._axis.ahead_minutes
