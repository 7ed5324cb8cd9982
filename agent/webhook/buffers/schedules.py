"""Whether CapacityBuffers are active, by the schedules in their annotations. Webhook."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from agent.calendar import SystemCalendar
from agent.core.buffers.buffer import Buffer
from agent.core.orders.annotations import SCHEDULE
from agent.core.orders.schedule import Calendar, Schedule, ScheduleError, activity_at, read_schedule
from agent.webhook.buffers.seams import ScheduleState

MOST_KEPT: Final = 1000
"""Schedules that stay read; each costs a few milliseconds to read where it seldom begins."""


class Schedules:
    """Whether buffers are active, by their annotation. For one thread."""

    def __init__(self, calendar: Calendar | None = None) -> None:
        self._calendar = calendar if calendar is not None else SystemCalendar()
        self._read: OrderedDict[str, Schedule | ScheduleError] = OrderedDict()

    def __call__(self, buffer: Buffer, now_unix_seconds: float, /) -> ScheduleState:
        """Return whether a buffer is active; one without a schedule always is."""
        text = buffer.annotations.get(SCHEDULE)
        if text is None:
            return ScheduleState()
        schedule = self._schedule(text)
        if isinstance(schedule, ScheduleError):
            return ScheduleState(fault=f"annotation {SCHEDULE}: {schedule}")
        activity = activity_at(schedule, now_unix_seconds)
        look = activity.next_look_unix_seconds
        return ScheduleState(
            inactive=None if activity.is_active else activity.words,
            changes_in_seconds=None if look is None else look - now_unix_seconds,
        )

    def _schedule(self, text: str) -> Schedule | ScheduleError:
        schedule = self._read.get(text)
        if schedule is None:
            try:
                schedule = read_schedule(text, self._calendar)
            except ScheduleError as error:
                schedule = error
            self._read[text] = schedule
        self._read.move_to_end(text)
        while len(self._read) > MOST_KEPT:
            self._read.popitem(last=False)
        return schedule
