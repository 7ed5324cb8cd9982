"""Times that come again and again, as people write them. Core, pure; time is an argument.

Of CapacityBuffers (``plimsoll.dev/schedule``: when one is active) and of disruptions (``windows``: when a pod may be
disturbed). A schedule is one window or several, with ``;`` between: a time zone, the five fields of a cron expression
at which the window begins, and how long it lasts. A window without a zone has that of the window before::

    Europe/Berlin 0 7 * * mon-fri for 12h; 0 9 * * sat for 4h30m

It is active as long as any window lasts. A window begins at the time that clocks on the wall show, in winter
and summer alike. Where clocks are put forward, what should begin in the hour that is left out begins at the moment they
are put forward; where they are put back, what begins in the hour that comes twice begins the first time, once. How long
a window lasts is counted as a stop-watch does: one that spans such a night ends an hour later or earlier by the wall.

Cron fields and the rules of zones are other people's well-kept work: they come in as a ``Calendar``, so that nothing
here reads a file (``agent.calendar`` has it).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol

ALLOWED: Final = "ZONE MINUTE HOUR DAY MONTH WEEKDAY for TIME, such as Europe/Berlin 0 7 * * mon-fri for 12h"
MOST_WINDOWS: Final = 16
LONGEST_TEXT: Final = 1024
LONGEST_SECONDS: Final = 31 * 86_400
_FIELDS: Final = 5
_SHOWN: Final = 60
_MOST_JOINED: Final = 200
"""Windows that follow each other without a pause are put together; after so many it is looked again at their end."""
_ANY_MONDAY: Final = datetime(2024, 1, 1)  # noqa: DTZ001  a time of the wall, of no zone
"""A window that does not begin within fifty years from here never does."""
_MINUTE: Final = timedelta(minutes=1)
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}\Z")
_TIME: Final = re.compile(r"(?=[0-9])(?:([0-9]{1,2})d)?(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?\Z")


class ScheduleError(ValueError):
    """A schedule that is not understood; one line: what, and what is allowed."""


class CronBeginnings(Protocol):
    """The moments that one cron expression names, as times of the wall: no zone, whole minutes."""

    def before(self, wall: datetime) -> datetime | None:
        """Return the last one before a time, that time itself excluded; None = there is none."""

    def after(self, wall: datetime) -> datetime | None:
        """Return the first one after a time, that time itself excluded; None = there is none."""


class Calendar(Protocol):
    """What is known of the world's clocks and of cron."""

    def zone(self, name: str) -> tzinfo | None:
        """Find a time zone of the IANA database by name, with PEP 495's ``fold``; None = there is none."""

    def beginnings(self, expression: str) -> CronBeginnings:
        """Read five cron fields, or raise ValueError: which one is not understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time that comes again and again."""

    text: str
    """As it was written, for people."""
    zone: tzinfo
    zone_name: str
    beginnings: CronBeginnings
    duration_seconds: int
    """At least 60."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One window or several."""

    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Whether a schedule is active at a moment, and for how long that stays so."""

    is_active: bool
    next_look_unix_seconds: float | None
    """When it changes, or where that lies far off when to ask again. None = it does not change."""
    words: str
    """``inactive until 2026-11-23 07:00 CET, Europe/Berlin``; the zone is that of the window that begins or ends."""
    moment_words: str | None = None
    """The moment of that alone; None = it does not change."""


def read_schedule(text: str, calendar: Calendar) -> Schedule:
    """Read a schedule, or raise ScheduleError."""
    if len(text) > LONGEST_TEXT:
        raise ScheduleError(f"{len(text)} characters are not allowed (at most {LONGEST_TEXT})")
    parts = [" ".join(part.split()) for part in text.split(";")]
    if not parts[-1]:
        parts.pop()  # one at the end hurts nobody
    if not 1 <= len(parts) <= MOST_WINDOWS:
        count = f"{len(parts)} windows are" if parts else "an empty schedule is"
        raise ScheduleError(f"{count} not allowed (1 to {MOST_WINDOWS} of {ALLOWED})")
    windows: list[Window] = []
    for part in parts:
        windows.append(read_window(part, windows[-1] if windows else None, calendar))
    return Schedule(windows=tuple(windows))


def activity_at(schedule: Schedule, now_unix_seconds: float, *, enough_seconds: float = math.inf) -> Activity:
    """Return whether a schedule is active at a moment, and until when.

    Windows that follow each other are put together until so much time is active; then no further end is looked for.
    """
    now = datetime.fromtimestamp(now_unix_seconds, UTC)
    end = _last_end(schedule, now)
    if end is not None and end[0] > now:
        for _ in range(_MOST_JOINED):
            is_enough = (end[0] - now).total_seconds() >= enough_seconds
            further = None if is_enough else _last_end(schedule, end[0])
            if further is None or further[0] <= end[0]:
                return _activity(end, is_active=True)
            end = further
        return replace(_activity(end, is_active=True), words="active, and no end of it is near")
    nexts = [(begin, window) for window in schedule.windows if (begin := _next_begin(window, now)) is not None]
    if not nexts:
        return Activity(is_active=False, next_look_unix_seconds=None, words="inactive: no window of it comes again")
    return _activity(min(nexts, key=lambda beginning: beginning[0]), is_active=False)


def _activity(change: tuple[datetime, Window], *, is_active: bool) -> Activity:
    moment, window = change
    local = moment.astimezone(window.zone)
    zone = ", ".join(dict.fromkeys((local.tzname() or "", window.zone_name)))
    when = f"{local:%Y-%m-%d %H:%M} {zone}"
    return Activity(
        is_active=is_active,
        next_look_unix_seconds=moment.timestamp(),
        words=f"{'active' if is_active else 'inactive'} until {when}",
        moment_words=when,
    )


def _last_end(schedule: Schedule, now: datetime) -> tuple[datetime, Window] | None:
    """Return the end of the windows that have begun by a moment, the latest; it may be over. None = none has begun."""
    ends = [
        (begin + timedelta(seconds=window.duration_seconds), window)
        for window in schedule.windows
        if (begin := _last_begin(window, now)) is not None
    ]
    return max(ends, key=lambda end: end[0]) if ends else None


def _last_begin(window: Window, now: datetime) -> datetime | None:
    """Return the last beginning at a moment or before.

    Later times of the wall never begin before earlier ones (``_begins``), so walking back finds it.
    """
    local = now.astimezone(window.zone)
    wall = local.replace(tzinfo=None, fold=0)
    if local.fold:
        # The hour comes for the second time: all of it has begun the first time.
        wall += _offset(wall, window.zone, fold=0) - _offset(wall, window.zone, fold=1)
    time = window.beginnings.before(_next_minute(wall))
    while time is not None and (begin := _begins(time, window.zone)) > now:
        time = window.beginnings.before(time)
    return None if time is None else begin


def _next_begin(window: Window, now: datetime) -> datetime | None:
    wall = now.astimezone(window.zone).replace(tzinfo=None, fold=0)
    time = window.beginnings.after(wall)
    while time is not None and (begin := _begins(time, window.zone)) <= now:
        time = window.beginnings.after(time)  # in the hour that comes twice
    return None if time is None else begin


def _begins(wall: datetime, zone: tzinfo) -> datetime:
    """Return the moment of a time of the wall: the first of two, and the end of a gap for what lies in it."""
    before, after = _offset(wall, zone, fold=0), _offset(wall, zone, fold=1)
    moment = wall.replace(tzinfo=UTC) - before
    if after <= before:
        return moment
    # PEP 495: in a gap the first is the offset before, the second that after it. It was left out at a whole second.
    least, most = 0, int((after - before).total_seconds())
    start = moment - (after - before)
    while most - least > 1:
        middle = (least + most) // 2
        if (start + timedelta(seconds=middle)).astimezone(zone).utcoffset() == before:
            least = middle
        else:
            most = middle
    return start + timedelta(seconds=most)


def _offset(wall: datetime, zone: tzinfo, *, fold: int) -> timedelta:
    return wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta(0)


def _next_minute(wall: datetime) -> datetime:
    return wall.replace(second=0, microsecond=0) + _MINUTE


def read_window(text: str, before: Window | None, calendar: Calendar) -> Window:
    """Read one window, or raise ScheduleError; one that names no zone has that of the window before."""
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
    when, separator, length = text.rpartition(" for ")
    fields = when.split()
    if not separator or len(fields) not in (_FIELDS, _FIELDS + 1):
        raise ScheduleError(f"{shown} is not allowed ({ALLOWED})")
    if len(fields) > _FIELDS:
        zone_name = fields.pop(0)
        zone = calendar.zone(zone_name) if _ZONE.match(zone_name) else None
    elif before is not None:
        zone_name, zone = before.zone_name, before.zone
    else:
        raise ScheduleError(f"{shown} names no time zone (the first window must: {ALLOWED})")
    if zone is None:
        raise ScheduleError(f"{zone_name[:_SHOWN]!r} is no time zone (a name such as Europe/Berlin or UTC)")
    try:
        beginnings = calendar.beginnings(" ".join(fields))
    except ValueError as error:
        raise ScheduleError(f"{shown}: {error}") from error
    if beginnings.after(_ANY_MONDAY) is None:
        raise ScheduleError(f"{shown} never begins: there is no such day")
    return Window(
        text=text, zone=zone, zone_name=zone_name, beginnings=beginnings, duration_seconds=_seconds(length, shown)
    )


def _seconds(text: str, shown: str) -> int:
    match = _TIME.match(text)
    days, hours, minutes = (int(part or 0) for part in match.groups()) if match is not None else (0, 0, 0)
    seconds = days * 86_400 + hours * 3600 + minutes * 60
    if not 60 <= seconds <= LONGEST_SECONDS:
        raise ScheduleError(f"{shown} is not allowed: for {text!r} (12h, 90m, 1d or 1d12h30m; from 1m to 31d)")
    return seconds
