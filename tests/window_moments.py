"""Moments around changes of clocks: when may a disruption begin? The product's answer against plain intervals.

``python -m tests.window_moments [MOMENTS [SEED]]`` compares many; the fast tier a few. The intervals are written down
day by day by the zones' own offsets, put together and cut, and hold no rule of the product.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from random import Random
from zoneinfo import ZoneInfo

from agent.calendar import ReadWindows
from agent.core.orders.windows import Disruption, wait_of

MOMENTS = 100_000
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia")
FIRST, DAYS = date(2024, 10, 1), 460
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_FIRST_SECONDS = float((FIRST - date(1970, 1, 1)).days * 86_400)
_LAST_SECONDS = _FIRST_SECONDS + DAYS * 86_400
_SPAN = (_FIRST_SECONDS - 30 * 86_400, _FIRST_SECONDS + (DAYS + 30) * 86_400)

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Daily:
    """A window that begins at a time of the wall, each day or on one weekday."""

    zone: str
    hour: int
    minute: int
    weekday: int | None
    minutes: int

    @property
    def text(self) -> str:
        """Return it as people write it."""
        day = "*" if self.weekday is None else _WEEKDAYS[self.weekday]
        return f"{self.zone} {self.minute} {self.hour} * * {day} for {self.minutes}m"

    def intervals(self) -> list[Interval]:
        """Return all of it, a month beyond the moments on either side; a window of two days may overlap the next."""
        days = (FIRST + timedelta(days=day) for day in range(-32, DAYS + 64))
        begins = (
            _begin(self.zone, day, self.hour, self.minute) for day in days if self.weekday in (None, day.weekday())
        )
        return [(begin, begin + self.minutes * 60) for begin in begins]


def _begin(zone_name: str, day: date, hour: int, minute: int) -> float:
    """Return when clocks show a time for the first time; one that is left out, when they are put forward."""
    zone, asked = ZoneInfo(zone_name), (day.year, day.month, day.day, hour, minute)
    moment = datetime(*asked, tzinfo=zone).timestamp()
    shown = datetime.fromtimestamp(moment, zone)
    if (shown.year, shown.month, shown.day, shown.hour, shown.minute) == asked:
        return moment
    return min(_changes(zone_name), key=lambda change: abs(change - moment))  # in a gap one is near


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals put together where they touch, in order."""
    result: list[Interval] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def without(intervals: Sequence[Interval], denied: Sequence[Interval]) -> list[Interval]:
    """Return what is left of intervals."""
    left: list[Interval] = []
    for begin, end in intervals:
        for cut_begin, cut_end in denied:
            if cut_end <= begin or cut_begin >= end:
                continue
            if cut_begin > begin:
                left.append((begin, cut_begin))
            begin = cut_end
        if begin < end:
            left.append((begin, end))
    return left


def first_time(free: Sequence[Interval], moment: float, lasting: float) -> float | None:
    """Return the first moment from which so long is free."""
    for begin, end in free[max(0, bisect_right(free, (moment, float("inf"))) - 1) :]:
        start = max(begin, moment)
        if end - start >= lasting:
            return start
    return None


@cache
def _changes(zone_name: str) -> Sequence[float]:
    """Return the moments at which clocks are changed, to the minute."""
    zone, moments = ZoneInfo(zone_name), []

    def offset(moment: float) -> timedelta | None:
        return datetime.fromtimestamp(moment, zone).utcoffset()

    for hour in range(-40 * 24, (DAYS + 70) * 24):
        start = _FIRST_SECONDS + hour * 3600
        if offset(start) != offset(start + 3600):
            minutes = (start + minute * 60 for minute in range(1, 61))
            moments.append(next(moment for moment in minutes if offset(moment) != offset(start)))
    return moments


def _daily(random: Random) -> Daily:
    return Daily(
        zone=random.choice(ZONES),
        hour=random.choice((0, 1, 2, 2, 3, 22, random.randrange(24))),
        minute=random.choice((0, 30, random.randrange(60))),
        weekday=None if random.random() < 0.6 else random.randrange(7),
        minutes=random.choice((1, 30, 60, 90, 240, 600, 1440, 2000)),
    )


def differences(moments: int, seed: int = 0) -> list[str]:
    """Return where the product's answer is another than the intervals'."""
    random, read, faults = Random(seed), ReadWindows(), []
    seen = 0
    while seen < moments:
        allowed = [_daily(random) for _ in range(random.choice((0, 1, 1, 2)))]
        denied = [_daily(random) for _ in range(random.choice((0, 0, 1)) if allowed else 1)]
        parts = [*(f"shrink: {rule.text}" for rule in allowed), *(f"deny: {rule.text}" for rule in denied)]
        windows = read("; ".join(parts))
        free = merged(part for rule in allowed for part in rule.intervals()) if allowed else [_SPAN]
        free = without(free, merged(part for rule in denied for part in rule.intervals()))
        changes = [
            at for rule in (*allowed, *denied) for at in _changes(rule.zone) if _FIRST_SECONDS <= at < _LAST_SECONDS
        ]
        changes = changes or [_FIRST_SECONDS + 30 * 86_400]
        for _ in range(min(250, moments - seen)):
            seen += 1
            moment = random.choice(changes) + random.randrange(-2 * 86_400, 2 * 86_400)
            lasting = random.choice((0, 1, 600, 3600))
            wait = wait_of(windows, Disruption.SHRINK, float(moment), lasting)
            answer = float(moment) if wait is None else wait.until_unix_seconds
            expected = first_time(free, float(moment), lasting)
            if expected is not None and expected > moment + 25 * 86_400:
                expected = answer  # beyond what is written down
            if answer != expected:
                faults.append(f"{windows.text!r} at {moment} for {lasting} s: {answer} instead of {expected}")
    return faults


def main() -> int:
    """Compare; print what differs and return 1 if anything does."""
    moments = int(sys.argv[1]) if len(sys.argv) > 1 else MOMENTS
    faults = differences(moments, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print("\n".join((*faults[:20], f"{moments} moments: {len(faults)} differ")))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
