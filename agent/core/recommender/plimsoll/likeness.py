"""How much each past hour tells of the one that begins now. Core, pure.

An hour counts by its age, by its time of day and by how like now things looked when it began: the largest demand of
the last 15 minutes, hour and six hours, and the usual level of the last half day. Each look is compared by the
logarithm, so that a tenth more is the same likeness at any size; what lies under a quarter of the row's usual level
makes no difference. An hour of a former image counts a tenth. No hour counts for nothing: one that is unlike in all
four looks keeps a hundred-thousandth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, MINUTES_PER_HOUR
from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.recommender.plimsoll.hours import DAY_HOURS, LEVELS, LOOKS, REACH_HOURS, HourRing, Singles, median_of

HALF_LIFE_HOURS: Final = 120.0
"""An hour of five days ago counts half."""
TIME_WIDTH_HOURS: Final = 1.0
TIME_LEAST: Final = 0.1
"""What an hour at another time of day counts."""
LOOK_WIDTHS: Final = (0.3, 0.3, 0.2, 0.15)
"""Logarithms apart at which a likeness is 1/e: a third more or less; of the usual level, which moves less, a sixth."""
LOOK_LEAST: Final = 0.05
UNSEEN_START: Final = 0.1
"""What an hour counts before which nothing was seen: a container's first, or one after a gap. It is like no other, but
it is all that is known of a start."""
FORMER_IMAGE: Final = 0.1
"""What an hour counts in which the container ran another image: it may well be another program."""
NO_DIFFERENCE_RATIO: Final = 0.25
LEAST_MILLICORES: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HourBook:
    """The hours before one, prepared for an answer: p hours of k rows, 16 kB per row."""

    hour: int
    hours: Ints
    """Which they are, oldest first, shape ``(p,)``."""
    known_ratio: Floats
    """Share of each hour's minutes that are known, shape ``(k, p)``."""
    image_since: Ints
    """The first hour of each row's image, shape ``(k,)``; before all hours where that is not known."""
    looks: tuple[Floats, ...]
    """Logarithms, shape ``(k, p)`` for each look."""
    has_looks: Bools
    """Which hours of which rows have any, shape ``(k, p)``."""
    offsets: Floats
    """What is added before a logarithm is taken, shape ``(k,)``; millicores."""
    levels: Floats
    """All levels of a row in rising order, shape ``(k, 4 p)``."""
    places: Ints
    """Which hour and level each of them is, as ``4 x hour + level``."""

    @property
    def has_hours(self) -> Bools:
        """Return which rows have an hour that is known, shape ``(k,)``."""
        known: Bools = np.logical_or.reduce(self.known_ratio > 0, axis=1)
        return known


def open_book(ring: HourRing, hour: int, rows: slice[int | None, int | None, None]) -> HourBook:
    """Prepare the hours before one, of some rows that lie together."""
    slots = ring.before(hour, REACH_HOURS)
    hours, levels, looks, has_looks, minutes = ring.kept(slots, rows)
    usual = median_of(levels[:, :, LEVELS - 1], minutes > 0)
    offsets = NO_DIFFERENCE_RATIO * np.maximum(usual, LEAST_MILLICORES)
    flat = levels.reshape(levels.shape[0], -1)
    places = np.argsort(flat, axis=1, kind="stable")
    return HourBook(
        hour=hour,
        hours=hours,
        known_ratio=minutes / MINUTES_PER_HOUR,
        image_since=ring.image_since(hour)[rows],
        looks=tuple(np.log(looks[:, :, look] + offsets[:, np.newaxis]) for look in range(LOOKS)),
        has_looks=has_looks,
        offsets=offsets,
        levels=np.take_along_axis(flat, places, axis=1),
        places=places,
    )


def weigh(book: HourBook, looks: Singles, has_looks: Bools, now_unix_seconds: float) -> Floats:
    """Return how much each hour of the book counts, shape ``(k, p)``.

    Args:
        book: Of the rows asked for.
        looks: How things look now, shape ``(4, k)``.
        has_looks: Which rows have looks at all; of others all hours are alike.
        now_unix_seconds: Within the book's hour.
    """
    age = now_unix_seconds / HOUR_SECONDS - book.hours
    apart = np.abs((age + DAY_HOURS / 2) % DAY_HOURS - DAY_HOURS / 2) / TIME_WIDTH_HOURS
    time = TIME_LEAST + (1.0 - TIME_LEAST) * np.exp(-apart * apart / 2)
    likeness = np.ones(book.known_ratio.shape)
    for then, now, width in zip(book.looks, looks.astype(np.float64), LOOK_WIDTHS, strict=True):
        here = np.log(now + book.offsets)
        difference = np.abs(then - here[:, np.newaxis])
        likeness *= LOOK_LEAST + (1.0 - LOOK_LEAST) * np.exp(difference / -width)
    likeness[~book.has_looks] = UNSEEN_START
    likeness[~has_looks] = 1.0
    likeness[book.hours < book.image_since[:, np.newaxis]] *= FORMER_IMAGE
    weights: Floats = likeness * book.known_ratio * (time * 0.5 ** (age / HALF_LIFE_HOURS))
    return weights
