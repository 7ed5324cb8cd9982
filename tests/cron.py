"""A cron that looks at every minute: slow, and plain enough to be believed."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Final

MINUTE: Final = timedelta(minutes=1)
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_FIELDS: Final = ("minute", "hour", "day-of-month", "month", "day-of-week")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class MinuteCron:
    """Numbers, names, lists, ranges and steps; days as Debian's cron joins them."""

    def __init__(self, expression: str) -> None:
        fields = expression.lower().split()
        self._sets = [_parsed(field, number) for number, field in enumerate(fields)]
        self._both_days = fields[2].startswith("*") or fields[4].startswith("*")
        self._weekdays = {day % 7 for day in self._sets[4]}

    def strikes(self, wall: datetime) -> bool:
        return wall.minute in self._sets[0] and wall.hour in self._sets[1] and self._is_day(wall)

    def before(self, wall: datetime) -> datetime | None:
        floor = wall.replace(second=0, microsecond=0)
        return self._walk(floor if floor < wall else floor - MINUTE, -1)

    def after(self, wall: datetime) -> datetime | None:
        return self._walk(wall.replace(second=0, microsecond=0) + MINUTE, 1)

    def _is_day(self, wall: datetime) -> bool:
        in_month, in_week = wall.day in self._sets[2], wall.isoweekday() % 7 in self._weekdays
        is_day = in_month and in_week if self._both_days else in_month or in_week
        return wall.month in self._sets[3] and is_day

    def _walk(self, wall: datetime, step: int) -> datetime | None:
        for _ in range(366 * 9):
            if self._is_day(wall):
                day = wall.date()
                while wall.date() == day:
                    if self.strikes(wall):
                        return wall
                    wall += step * MINUTE
            elif step > 0:
                wall = wall.replace(hour=0, minute=0) + timedelta(days=1)
            else:
                wall = wall.replace(hour=0, minute=0) - MINUTE
        return None


@cache
def minute_cron(expression: str) -> MinuteCron:
    return MinuteCron(expression)


def _parsed(field: str, number: int) -> set[int]:
    low, high = _RANGES[number]
    field_values: set[int] = set()
    for part in field.split(","):
        term, _, step = part.partition("/")
        first, dash, last = term.partition("-")
        if term == "*":
            ends = low, high
        else:
            ends = _number(first, number), _number(last, number) if dash else high if step else _number(first, number)
        if not low <= ends[0] <= ends[1] <= high or step == "0":
            raise ValueError(f"not understood: {_FIELDS[number]}")
        field_values.update(range(ends[0], ends[1] + 1, int(step or 1)))
    return field_values


def _number(text: str, number: int) -> int:
    names = {3: _MONTHS, 4: _DAYS}.get(number, ())
    if text and text in names:
        return names.index(text)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not understood: {_FIELDS[number]}")
    return int(text)
