"""Hours of the day in which a workload may be disrupted: two daily cron expressions, UTC. Core, pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ALLOWED: Final = "a daily cron expression: minute, hour, * * *; for instance 30 9 * * *"

_DAILY: Final = re.compile(r"(?P<minute>\d{1,2}) +(?P<hour>\d{1,2}) +\* +\* +\*\Z", re.ASCII)
_SECONDS_PER_MINUTE: Final = 60
_MINUTES_PER_HOUR: Final = 60
_HOURS_PER_DAY: Final = 24
_DAY_SECONDS: Final = _HOURS_PER_DAY * _MINUTES_PER_HOUR * _SECONDS_PER_MINUTE


class DisruptionWindowError(ValueError):
    """An expression that is not understood; the message says what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionWindow:
    """From a moment of the day to another one, which may be on the next day."""

    start_second: int
    """Of the UTC day; belongs to the window."""
    end_second: int
    """Does not belong to it; equal to the start = the window never closes."""

    def holds(self, unix_seconds: float) -> bool:
        """Return whether a moment is inside."""
        second = unix_seconds % _DAY_SECONDS
        if self.start_second == self.end_second:
            return True
        if self.start_second < self.end_second:
            return self.start_second <= second < self.end_second
        return second >= self.start_second or second < self.end_second


def window_of(start_cron: str, end_cron: str) -> DisruptionWindow:
    """Read a window.

    Raises:
        DisruptionWindowError: One of the two is no daily expression.
    """
    return DisruptionWindow(start_second=_second_of_day(start_cron), end_second=_second_of_day(end_cron))


def _second_of_day(cron: str) -> int:
    match = _DAILY.match(cron.strip())
    minute, hour = (int(match["minute"]), int(match["hour"])) if match is not None else (_MINUTES_PER_HOUR, 0)
    if minute >= _MINUTES_PER_HOUR or hour >= _HOURS_PER_DAY:
        raise DisruptionWindowError(f"{cron[:60]!r} is not understood; allowed: {ALLOWED}")
    return (hour * _MINUTES_PER_HOUR + minute) * _SECONDS_PER_MINUTE
