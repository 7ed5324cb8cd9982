"""What CPU each row may be expected to demand, from its minutes: state and answer. Core, pure.

All of it follows from the minutes of seven days, folded in rising order: nothing else is remembered. There is one
answer for each UTC hour and price, as things looked when it began, worked out when it is first asked for; within the
hour the last 15 minutes may raise it. Asking more often made more changes and no better ones.

Both prices are answered for at all times, each after its own answers of the hours before: which of the two counts for
a row is no part of the state, so a row that gains or loses its credit is asked for as if it had always been so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, MINUTES_PER_HOUR, hour_of
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.core.recommender.plimsoll.dead_band import follow
from agent.core.recommender.plimsoll.hours import DAY_HOURS, LOOK_MINUTES, HourRing, LastMinutes, Singles
from agent.core.recommender.plimsoll.likeness import HourBook, open_book, weigh
from agent.core.recommender.plimsoll.price import cheapest_levels, levels_of_share, masses

TOGETHER_ROWS: Final = 64
"""Rows worked out together: what one answer takes beside the state is 3 MiB then, however many containers there are."""
BASE_SHARE: Final = 0.75
"""Of the minutes of hours like this one, as of those of the window."""
_QUARTER: Final = 0
_HOUR: Final = 1


class Price(IntEnum):
    """What being short costs: the first axis of all answers."""

    FULL = 0
    """``sizing.price``."""
    IN_PLACE = 1
    """``sizing.priceInPlace``: where it is answered within seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedDemand:
    """What may be expected of some rows, shape ``(k,)`` each, or ``(2, k)`` by ``Price``."""

    begun_millicores: Floats
    """What was answered when the hour began, ``(2, k)``; where no hour is over yet, the largest of the last 60 min."""
    quarter_millicores: Floats
    """Largest of the last 15 minutes."""
    answer_millicores: Floats
    """``(2, k)``."""
    base_millicores: Floats
    """What three quarters of the minutes of the hours like this one stayed within; 0 where no hour is over yet."""
    known_minutes: Floats
    """Of the hours that count, the running one included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourBeginning:
    """How one row's answer of an hour's beginning came about, at one price."""

    hour: int
    """Since the epoch."""
    looks: tuple[float, ...]
    """Millicores, in the order of ``hours.LOOKS``."""
    has_looks: bool
    """Something was measured in the hour before."""
    hours: Ints
    """Those before it, oldest first, shape ``(p,)``."""
    likeness: Floats
    """What each counts, shape ``(p,)``."""
    levels: Floats
    """All their levels in rising order, shape ``(4 p,)``."""
    masses: Floats
    """What each of these counts."""
    cheapest_millicores: float
    """At the price; where no hour is over yet, the largest of the last 60 minutes."""
    image_since_hour: int | None
    """The first hour of the image that it runs; None = no other is remembered among these hours."""
    before_millicores: float
    """What was answered in the hour before; 0 where the day began."""
    answer_millicores: float


@dataclass(frozen=True, slots=True)
class _Wants:
    """What the hours before one say of all rows; without the hours themselves, which would be 14 kB per row."""

    amounts: Floats
    """Shape ``(2, n)``."""
    bases: Floats
    known_hours: Floats
    """Sum of the shares of each hour's minutes that are known."""
    has_hours: Bools


@dataclass(frozen=True, slots=True)
class _OpenedHour:
    """What holds for a whole hour, of all rows."""

    hour: int
    looks: Singles
    has_looks: Bools
    answers: Floats
    """Shape ``(2, n)``."""
    wants: _Wants


class DemandMemory:
    """Minutes and hours of all rows, and answers from them; 6 kB per row."""

    def __init__(self, prices: tuple[float, float], rows: int) -> None:
        self._prices = prices
        self._rows = rows
        self._last = LastMinutes(rows)
        self._ring = HourRing(rows)
        self._running: int | None = None
        self._opened: _OpenedHour | None = None
        self._chain_hour: int | None = None
        self._chain = np.zeros((len(Price), rows))
        """Answers of the hour before ``_chain_hour``; 0 where the day begins with it."""

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        more = max(rows - self._rows, 0)
        self._rows += more
        self._last.grow(rows)
        self._ring.grow(rows)
        self._chain = np.pad(self._chain, ((0, 0), (0, more)))
        self._opened = None

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._last.forget(rows)
        self._ring.forget(rows)
        self._chain[:, rows] = 0.0
        self._opened = None

    def fold(self, unix_minute: int, values: Singles, known: Bools) -> None:
        """Add one minute of all rows, or a part of it; 0 where it is not known."""
        hour = unix_minute // MINUTES_PER_HOUR
        if hour != self._running:
            self._close()
            self._ring.open(hour, *self._looks(hour))
            self._running = hour
        if self._opened is not None and hour < self._opened.hour:
            self._opened = None
        if self._chain_hour is not None and hour < self._chain_hour - 1:
            self._chain_hour = None
        self._last.fold(unix_minute, values, known)

    def record_image(self, row: int, since_unix_seconds: float) -> None:
        """Record since when a row runs another image; it counts from the next hour on."""
        self._ring.renew(row, hour_of(since_unix_seconds) + 1)
        self._opened = None

    def _close(self) -> None:
        """Bring the running hour's levels up to date in the ring; as often as one likes."""
        if self._running is not None:
            self._ring.close(self._running, *self._last.levels())

    def _looks(self, hour: int) -> tuple[Singles, Bools]:
        """Return the looks back as this hour begins, shape ``(4, n)``, and which rows have some."""
        begin = hour * MINUTES_PER_HOUR
        quarter, last = (self._last.largest(minutes, begin) for minutes in LOOK_MINUTES)
        six = np.maximum(self._ring.largest_before(hour), last)
        return np.stack((quarter, last, six, self._ring.usual_before(hour))), self._last.has_any(begin)

    def at(self, rows: Rows, now_unix_seconds: float) -> ExpectedDemand:
        """Answer for some rows: as when the hour began, but never less than the last 15 minutes used."""
        hour = hour_of(now_unix_seconds)
        opened = self._open_at(hour)
        quarter, last = (self._last.largest(minutes)[rows].astype(np.float64) for minutes in LOOK_MINUTES)
        begun = opened.answers[:, rows]
        begun = np.where(opened.wants.has_hours[rows], begun, np.maximum(begun, last))
        running = self._last.levels()[1] if self._running == hour else np.zeros(self._rows)
        return ExpectedDemand(
            begun_millicores=begun,
            quarter_millicores=quarter,
            answer_millicores=np.where(quarter > begun, follow(begun, quarter), begun),
            base_millicores=np.minimum(opened.wants.bases[rows], begun.min(axis=0)),
            known_minutes=opened.wants.known_hours[rows] * MINUTES_PER_HOUR + running[rows],
        )

    def beginning(self, row: int, price: Price, now_unix_seconds: float) -> HourBeginning:
        """Return how the answer of the hour's beginning came about at a price."""
        opened, rows = self._open_at(hour_of(now_unix_seconds)), slice(row, row + 1)
        book, looks = open_book(self._ring, opened.hour, rows), opened.looks[:, rows]
        weights = weigh(book, looks, opened.has_looks[rows], book.hour * float(HOUR_SECONDS))
        return HourBeginning(
            hour=book.hour,
            looks=tuple(looks[:, 0].tolist()),
            has_looks=bool(opened.has_looks[row]),
            hours=book.hours,
            likeness=weights[0],
            levels=book.levels[0],
            masses=masses(book, weights)[0],
            cheapest_millicores=float(self._cheapest(book, weights, looks)[price, 0]),
            image_since_hour=int(book.image_since[0]) if (book.hours < book.image_since[0]).any() else None,
            before_millicores=float(self._chain[price, row]),
            answer_millicores=float(opened.answers[price, row]),
        )

    def _open_at(self, hour: int) -> _OpenedHour:
        """Return what holds for an hour; it is worked out once, or when a minute before it comes late."""
        if self._opened is None or self._opened.hour != hour:
            self._close()
            self._follow_until(hour)
            looks, has_looks = self._ring.looks(hour) or self._looks(hour)
            wants = self._wants(hour, looks, has_looks)
            self._opened = _OpenedHour(hour, looks, has_looks, follow(self._chain, wants.amounts), wants)
        return self._opened

    def _follow_until(self, hour: int) -> None:
        """Bring the chain of the day's answers up to the hour before."""
        midnight = hour - hour % DAY_HOURS
        if self._chain_hour is None or not midnight < self._chain_hour <= hour:
            self._chain_hour, self._chain = midnight, np.zeros((len(Price), self._rows))
        for before in range(self._chain_hour, hour):
            begun = self._ring.looks(before)
            if begun is None:
                continue
            if self._opened is not None and self._opened.hour == before:
                self._chain = self._opened.answers  # by the same looks, whether or not the hour had begun by then
            else:
                self._chain = follow(self._chain, self._wants(before, *begun).amounts)
        self._chain_hour = hour

    def _wants(self, hour: int, looks: Singles, has_looks: Bools) -> _Wants:
        """Return what all rows want of an hour's beginning at each price, and their bases; some rows at a time."""
        wants = _Wants(
            amounts=np.zeros((len(Price), self._rows)),
            bases=np.zeros(self._rows),
            known_hours=np.zeros(self._rows),
            has_hours=np.zeros(self._rows, dtype=np.bool_),
        )
        for first in range(0, self._rows, TOGETHER_ROWS):
            rows = slice(first, first + TOGETHER_ROWS)
            book, theirs = open_book(self._ring, hour, rows), looks[:, rows]
            weights = weigh(book, theirs, has_looks[rows], hour * float(HOUR_SECONDS))
            wants.amounts[:, rows] = np.maximum(self._cheapest(book, weights, theirs), theirs[_QUARTER])
            wants.bases[rows] = levels_of_share(book, weights, BASE_SHARE)
            wants.known_hours[rows] = book.known_ratio.sum(axis=1)
            wants.has_hours[rows] = book.has_hours
        return wants

    def _cheapest(self, book: HourBook, weights: Floats, looks: Singles) -> Floats:
        return np.where(book.has_hours, cheapest_levels(book, weights, self._prices), looks[_HOUR])
