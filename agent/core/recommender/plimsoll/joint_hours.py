"""What rows demanded at the same time, and what some of them may be expected to demand together. Core, pure.

Peaks of rows that are added up are no demand that ever was: some rows peak together, others never do. So of each five
minutes that one is kept, row by row, in which all rows together demanded the most. The sum over any of them, those of a
node's plan, is then what these demanded at once; a row that was not there counts with its base. The sums are answered
for as one row's demand is: hours like this one (``likeness``), at the price of being short (``price``).

All of it follows from the minutes of six days, as long as no row comes to stand for another: which of five minutes is
kept was decided with the rows of that time.
"""

from __future__ import annotations

from functools import cache
from typing import Final, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from agent.core.history.minute.minute_codec import MISSING, Codes, decode, encode
from agent.core.history.minute.minutes import CPU_STEPS
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, hour_of
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows, widened
from agent.core.recommender.plimsoll.hours import (
    HALF_DAY_HOURS,
    LEVEL_TWELFTHS,
    LEVELS,
    LOOK_MINUTES,
    LOOKS,
    REACH_HOURS,
    SIX_HOURS,
    Singles,
    median_of,
)
from agent.core.recommender.plimsoll.likeness import LEAST_MILLICORES, NO_DIFFERENCE_RATIO, HourBook, weigh
from agent.core.recommender.plimsoll.price import cheapest_levels
from agent.core.recommender.policy import SeenTogether

STRETCH_MINUTES: Final = 5
STRETCH_SECONDS: Final = 60 * STRETCH_MINUTES
HOUR_STRETCHES: Final = 12
SPAN_HOURS: Final = REACH_HOURS + HALF_DAY_HOURS
"""Hours before the running one: those that count, and those that the oldest of them looks back on."""
SLOTS: Final = (SPAN_HOURS + 1) * HOUR_STRETCHES
TOGETHER_STRETCHES: Final = HALF_DAY_HOURS * HOUR_STRETCHES
"""Added up together: what that takes beside the state is a tenth of it."""
_NEVER: Final = -(1 << 40)

_Kind = TypeVar("_Kind", np.float64, np.bool_)


@cache
def _millicores_by_code() -> Singles:
    """Return what each code of the history stands for, shape ``(65536,)``; 0 for what is missing."""
    amounts, _ = decode(np.arange(np.iinfo(np.uint16).max + 1, dtype=np.uint16))
    return (amounts / CPU_STEPS).astype(np.float32)


class JointHours:
    """The busiest minute of each five, all rows; 4 kB per row, as it is kept in the codes of the history."""

    def __init__(self, price: float, rows: int) -> None:
        self._price = price
        self._codes: Codes = np.zeros((SLOTS, rows), dtype=np.uint16)
        self._stretches = np.full(SLOTS, _NEVER, dtype=np.int64)
        self._totals = np.zeros(SLOTS, dtype=np.int64)
        """Of all rows; whole millicores, so that neither their order nor their number makes a difference."""
        self._minute: int | None = None
        self._minute_values = np.zeros(rows, dtype=np.float32)
        self._minute_known = np.zeros(rows, dtype=np.bool_)

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        more = max(rows - self._minute_values.size, 0)
        self._codes = widened(self._codes, rows)
        self._minute_values = np.pad(self._minute_values, (0, more))
        self._minute_known = np.pad(self._minute_known, (0, more))

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._codes[:, rows] = MISSING
        self._minute_values[rows] = 0.0
        self._minute_known[rows] = False

    def fold(self, unix_minute: int, values: Singles, known: Bools) -> None:
        """Add one minute of all rows, or a part of it; 0 where it is not known."""
        if unix_minute == self._minute:
            values, known = np.maximum(self._minute_values, values), self._minute_known | known
        self._minute, self._minute_values, self._minute_known = unix_minute, values.copy(), known.copy()
        stretch = unix_minute // STRETCH_MINUTES
        slot, total = stretch % SLOTS, int(np.rint(values).astype(np.int64).sum())
        if self._stretches[slot] != stretch or total > self._totals[slot]:
            self._stretches[slot], self._totals[slot] = stretch, total
            self._codes[slot] = encode(values * np.float64(CPU_STEPS), known)

    def together(self, rows: Rows, bases: Floats, now_unix_seconds: float) -> SeenTogether | None:
        """Return what these rows may be expected to demand together, as things looked when the hour began.

        It is never less than the last 15 minutes.

        Args:
            rows: Those of containers; containers that share a row count one by one.
            bases: What each counts with where it was not there; millicores, in their order.
            now_unix_seconds: The moment of asking.

        Returns:
            None where none of them was seen in an hour that is over.
        """
        hour, now_stretch = hour_of(now_unix_seconds), int(now_unix_seconds // STRETCH_SECONDS)
        first = (hour - SPAN_HOURS) * HOUR_STRETCHES
        demand, share = self._sums(first, rows, bases)
        book, looks, has_looks, stretches = _opened(hour, demand, share)
        if not book.hours.size:
            return None
        weights = weigh(book, looks, has_looks, hour * float(HOUR_SECONDS))
        amount = float(cheapest_levels(book, weights, (self._price,))[0, 0])
        stretch = int(stretches[book.places[book.levels == amount]].max())
        lately = np.arange(now_stretch - LOOK_MINUTES[0] // STRETCH_MINUTES, now_stretch + 1)
        late = demand[lately - first]
        if late.max() > amount:
            amount, stretch = float(late.max()), int(lately[late.argmax()])
        return SeenTogether(demand_millicores=amount, unix_seconds=float(stretch * STRETCH_SECONDS))

    def _sums(self, first_stretch: int, rows: Rows, bases: Floats) -> tuple[Floats, Floats]:
        """Return what some rows demanded from a stretch on, and the share of them that was there, by their bases.

        Shape ``(SLOTS,)`` each; 0 where none was there.
        """
        wanted = np.arange(first_stretch, first_stretch + SLOTS)
        slots = wanted % SLOTS
        is_there = self._stretches[slots] == wanted
        weights = np.maximum(bases, LEAST_MILLICORES)
        whole = max(float(weights.sum()), LEAST_MILLICORES)
        demand, known = np.zeros(SLOTS), np.zeros(SLOTS)
        for begin in range(0, SLOTS, TOGETHER_STRETCHES):
            some = slice(begin, begin + TOGETHER_STRETCHES)
            codes = self._codes[some, rows]
            demand[some] = _millicores_by_code()[codes].sum(axis=1, dtype=np.float64)
            known[some] = np.einsum("sr,r->s", codes != MISSING, weights)
        known = np.where(is_there, known[slots], 0.0)
        demand = demand[slots] + (whole - known)
        return np.where(known > 0, demand, 0.0), known / whole


def _opened(hour: int, demand: Floats, share: Floats) -> tuple[HourBook, Singles, Bools, Ints]:
    """Prepare the hours before one, as if the sums were one row.

    Returns:
        The hours; looks and whether there are any, as the hour begins; and the stretch in which each level was seen.
    """
    known = (share > 0).reshape(-1, HOUR_STRETCHES)
    order = np.argsort(-np.where(known, demand.reshape(-1, HOUR_STRETCHES), -1.0), axis=1, kind="stable")
    above = np.array(LEVEL_TWELFTHS) * np.count_nonzero(known, axis=1)[:, np.newaxis] // HOUR_STRETCHES
    places = np.take_along_axis(order, above, axis=1) + np.arange(0, SLOTS, HOUR_STRETCHES)[:, np.newaxis]
    levels = demand[places]
    usual = levels[:, LEVELS - 1]
    is_known: Bools = np.logical_or.reduce(known, axis=1)
    # Each hour that counts, and last the one that begins.
    looks = np.stack(
        (
            *(_largest_before(demand, minutes // STRETCH_MINUTES) for minutes in LOOK_MINUTES),
            _largest_before(demand, SIX_HOURS * HOUR_STRETCHES),
            median_of(_half_days(usual), _half_days(is_known)),
        )
    )
    has_looks = is_known[HALF_DAY_HOURS - 1 : -1]
    counted = HALF_DAY_HOURS + np.flatnonzero(is_known[HALF_DAY_HOURS:-1])
    middle = median_of(usual[np.newaxis, counted], is_known[np.newaxis, counted])
    offset = NO_DIFFERENCE_RATIO * np.maximum(middle, LEAST_MILLICORES)
    then = looks[:, counted - HALF_DAY_HOURS]
    flat = levels[counted].reshape(1, -1)
    rising = np.argsort(flat, axis=1, kind="stable")
    book = HourBook(
        hour=hour,
        hours=hour - SPAN_HOURS + counted,
        known_ratio=share.reshape(-1, HOUR_STRETCHES).mean(axis=1)[np.newaxis, counted],
        looks=tuple(np.log(then[[look]] + offset) for look in range(LOOKS)),
        has_looks=has_looks[np.newaxis, counted - HALF_DAY_HOURS],
        image_since=np.zeros(1, dtype=np.int64),  # of a sum no image is known
        offsets=offset,
        levels=np.take_along_axis(flat, rising, axis=1),
        places=rising,
    )
    stretches = (hour - SPAN_HOURS) * HOUR_STRETCHES + places[counted].reshape(-1)
    return book, looks[:, [-1]].astype(np.float32), has_looks[[-1]], stretches


def _largest_before(demand: Floats, stretches: int) -> Floats:
    """Return the largest of so many stretches before each hour that counts and before the running one."""
    first = HALF_DAY_HOURS * HOUR_STRETCHES - stretches
    largest: Floats = sliding_window_view(demand, stretches)[first::HOUR_STRETCHES].max(axis=1)
    return largest[: REACH_HOURS + 1]


def _half_days(hours: NDArray[_Kind]) -> NDArray[_Kind]:
    """Return of each hour that counts, and of the running one, the twelve hours before it."""
    return sliding_window_view(hours, HALF_DAY_HOURS)[: REACH_HOURS + 1]
