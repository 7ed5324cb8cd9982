"""When a pod may be disturbed: the annotation ``plimsoll.dev/windows``. Core, pure; time is an argument.

Windows as ``schedule`` reads them, each after the kinds of disruption it is for; one without kinds is for those of the
window before, one without a zone has that of the window before::

    shrink: Europe/Berlin 0 22 * * * for 6h; evict, restart: 0 3 * * sat for 4h; deny: 0 0 24 12 * for 3d

A kind that has windows happens in them alone, one that has none happens at any time, and ``deny`` takes its time off
all three. A disruption begins only where it can end, by its own timeout, before the window does. What a pod is given
since it is short, what is given without a restart, and what takes a change back are no disruptions and are never held;
nor is the size of a new pod.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.orders.schedule import (
    ALLOWED,
    LONGEST_TEXT,
    MOST_WINDOWS,
    Calendar,
    Schedule,
    ScheduleError,
    Window,
    activity_at,
    read_window,
)


class Disruption(StrEnum):
    """What windows hold."""

    SHRINK = "shrink"
    """A request or limit falls in place."""
    EVICT = "evict"
    RESTART = "restart"
    """A resize that restarts a container by its ``resizePolicy``, be it upwards; not where it is short now."""


DENY: Final = "deny"
KINDS: Final = (*Disruption, DENY)
WINDOWS_ALLOWED: Final = f"{', '.join(KINDS)} and a colon before {ALLOWED}; several separated by ;"
_KINDS: Final = re.compile(r"(?P<kinds>[a-z ]+(?:,[a-z ]+)*):(?P<window>.*)\Z", re.DOTALL)
_SHOWN: Final = 60
_MOST_HOPS: Final = 40
"""Ends and beginnings that are looked at for a time that is long enough: some weeks, where there is one a day."""
_MOST_LOOKS: Final = 240
"""At single windows, for that: a rare beginning takes long to find, and each pod may have its text."""


class WindowsError(ValueError):
    """Windows that are not understood; one line: what, and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """When a pod may be disturbed."""

    text: str
    """As it was written."""
    allowed: Mapping[Disruption, Schedule]
    """A kind that is missing may happen at any time."""
    denied: Schedule | None
    """None = there is no such time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A disruption may not begin now."""

    until_unix_seconds: float | None
    """None = no time is in sight that is long enough for it."""
    words: str
    """``waits until 2026-11-23 22:00 CET, Europe/Berlin``."""


Waits = Mapping[Disruption, Wait]
NO_WAITS: Final[Waits] = {}


def parse_windows(text: str, calendar: Calendar) -> Windows:
    """Read the annotation, or raise WindowsError."""
    if len(text) > LONGEST_TEXT:
        raise WindowsError(f"{len(text)} characters are not allowed (at most {LONGEST_TEXT})")
    parts = [" ".join(part.split()) for part in text.split(";")]
    if not parts[-1]:
        parts.pop()  # one at the end hurts nobody
    if not 1 <= len(parts) <= MOST_WINDOWS:
        count = f"{len(parts)} windows are" if parts else "an empty text is"
        raise WindowsError(f"{count} not allowed (1 to {MOST_WINDOWS}: {WINDOWS_ALLOWED})")
    by_kind: dict[str, list[Window]] = {}
    kinds: tuple[str, ...] = ()
    before: Window | None = None
    for part in parts:
        match = _KINDS.match(part)
        if match is not None:
            kinds = _kinds(match["kinds"])
        elif not kinds:
            raise WindowsError(f"{part[:_SHOWN]!r} says not what it is for ({WINDOWS_ALLOWED})")
        try:
            before = read_window(part if match is None else match["window"].strip(), before, calendar)
        except ScheduleError as error:
            raise WindowsError(str(error)) from error
        for kind in kinds:
            by_kind.setdefault(kind, []).append(before)
    schedules = {kind: Schedule(windows=tuple(windows)) for kind, windows in by_kind.items()}
    return Windows(
        text=text,
        allowed={kind: schedules[kind] for kind in Disruption if kind in schedules},
        denied=schedules.get(DENY),
    )


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(word.strip() for word in text.split(","))
    odd = next((kind for kind in kinds if kind not in KINDS), None)
    if odd is not None:
        raise WindowsError(f"{odd[:_SHOWN]!r} is no kind of window ({', '.join(KINDS)})")
    return tuple(dict.fromkeys(kinds))


def wait_of(windows: Windows, disruption: Disruption, now_unix_seconds: float, lasting_seconds: float) -> Wait | None:
    """Return until when a disruption waits that may last so long; None = it may begin now."""
    allowed, denied = windows.allowed.get(disruption), windows.denied
    moment, words = now_unix_seconds, ""
    count = sum(len(schedule.windows) for schedule in (allowed, denied) if schedule is not None)
    for _ in range(min(_MOST_HOPS, _MOST_LOOKS // max(count, 1))):
        later = None if allowed is None else _next_try(allowed, moment, lasting_seconds, is_open=True)
        if later is None and denied is not None:
            later = _next_try(denied, moment, lasting_seconds, is_open=False)
        if later is None:
            if moment == now_unix_seconds:
                return None
            return Wait(until_unix_seconds=moment, words=f"waits until {words}")
        if later[0] is None:
            break
        moment, words = later[0], later[1]
    return Wait(until_unix_seconds=None, words="waits: no time is in sight that is long enough for it")


def _next_try(
    schedule: Schedule, moment: float, lasting_seconds: float, *, is_open: bool
) -> tuple[float | None, str] | None:
    """Return when to look again, as what follows the moment is no time for it; None = it is.

    Args:
        is_open: The time is in the schedule's windows; else it is outside them.
    """
    activity = activity_at(schedule, moment, enough_seconds=lasting_seconds if is_open else 0.0)
    change = activity.next_look_unix_seconds
    if activity.is_active is is_open and (change is None or change - moment >= lasting_seconds):
        return None
    return change, activity.moment_words or ""


def waits_of(windows: Windows, now_unix_seconds: float, lasting_seconds: float) -> Waits:
    """Return what may not begin now, and until when."""
    alike = {windows.allowed.get(kind): kind for kind in Disruption}
    waits = {schedule: wait_of(windows, kind, now_unix_seconds, lasting_seconds) for schedule, kind in alike.items()}
    return {kind: wait for kind in Disruption if (wait := waits[windows.allowed.get(kind)]) is not None}


def waits_words(waits: Waits) -> str:
    """Return ``shrink waits until 2026-11-23 22:00 CET, Europe/Berlin; evict may be``, for people."""
    return "; ".join(f"{kind} {waits[kind].words if kind in waits else 'may be now'}" for kind in Disruption)
