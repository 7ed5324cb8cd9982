"""The clocks of the world and cron, for ``core.orders.schedule``: zoneinfo and cronsim. Node, webhook and verbs.

cronsim is given times without a zone, so that what a change of clocks does to a window is decided in one place, core.
It never asks what time it is. Both are loaded with the first schedule: most clusters have none.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Final

from agent.core.orders.schedule import Calendar, CronBeginnings
from agent.core.orders.windows import Windows, WindowsError, parse_windows

MOST_KEPT: Final = 1000
"""Texts that stay read; each costs a few milliseconds to read where it seldom begins."""


class SystemCalendar:
    """The system's time zones, else those of the package tzdata; cron as Debian's cron reads it."""

    def zone(self, name: str) -> tzinfo | None:
        """Find a time zone; None = there is none of that name."""
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # not found; no file of zones; a directory such as Europe
            return None

    def beginnings(self, expression: str) -> CronBeginnings:
        """Read five cron fields."""
        from cronsim import CronSimError

        beginnings = _CronBeginnings(expression)
        try:
            beginnings.check()
        except CronSimError as error:
            raise ValueError(str(error).replace("Bad ", "not understood: ")) from error
        return beginnings


class _CronBeginnings:
    """One expression. For any thread: each question makes an iterator of its own."""

    def __init__(self, expression: str) -> None:
        self._expression = expression

    def check(self) -> None:
        """Read it."""
        self._from(datetime(2024, 1, 1), is_back=False)  # noqa: DTZ001  a time of the wall

    def before(self, wall: datetime) -> datetime | None:
        """Return the last one before a time."""
        return next(self._from(wall, is_back=True), None)

    def after(self, wall: datetime) -> datetime | None:
        """Return the first one after a time."""
        return next(self._from(wall, is_back=False), None)

    def _from(self, wall: datetime, *, is_back: bool) -> Iterator[datetime]:
        from cronsim import CronSim

        return CronSim(self._expression, wall, reverse=is_back)


class ReadWindows:
    """Reads ``plimsoll.dev/windows``, each text once. Any thread."""

    def __init__(self, calendar: Calendar | None = None) -> None:
        self._calendar = calendar if calendar is not None else SystemCalendar()
        self._lock = threading.Lock()
        self._read: OrderedDict[str, Windows | WindowsError] = OrderedDict()

    def __call__(self, text: str, /) -> Windows:
        """Return what a text says, or raise WindowsError."""
        with self._lock:
            outcome = self._read.get(text)
            if outcome is None:
                try:
                    outcome = parse_windows(text, self._calendar)
                except WindowsError as error:
                    outcome = error
                self._read[text] = outcome
            self._read.move_to_end(text)
            while len(self._read) > MOST_KEPT:
                self._read.popitem(last=False)
        if isinstance(outcome, WindowsError):
            raise WindowsError(str(outcome))
        return outcome
