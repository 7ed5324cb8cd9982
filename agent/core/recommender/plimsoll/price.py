"""The level at which a further millicore costs as much as it saves. Core, pure.

What is requested and idle costs 1 for each millicore; what is used and not requested costs ``sizing.price``, or
``sizing.priceInPlace`` where starvation is answered within seconds: then it is short for less long. The hours
weighed by their likeness say how often each level is passed; the cheapest level is the answer. Beside the depth, each
minute above the request costs something by itself (``BLAME``): a smooth series then sits on its top, not just below.
And a little is put to the largest level's account for what was never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from agent.core.numbers.arrays import Floats
from agent.core.recommender.plimsoll.likeness import HourBook

LEVEL_SHARES: Final = (1 / 12, 2 / 12, 3 / 12, 6 / 12)
"""Share of an hour that each of its levels stands for."""
BLAME: Final = 2.0
"""What a minute above the request costs, x the mean demand, however little it is above."""
UNSEEN: Final = 0.5 / 12
"""Share of one hour like this that may have been higher than all: half of its largest twelfth."""
_WHOLE: Final = 1.0 - 1e-9
"""Where hours are alike, levels end just at a share: rounding must not make it the next level."""


def cheapest_levels(book: HourBook, weights: Floats, prices: Sequence[float]) -> Floats:
    """Return the cheapest level of each row at each price, shape ``(len(prices), k)``; 0 where no hour is known.

    Args:
        book: Of the rows asked for.
        weights: What their hours count, shape ``(k, p)``.
        prices: What being short costs, x being idle.
    """
    if not weights.shape[1]:
        return np.zeros((len(prices), weights.shape[0]))
    values = book.levels
    mass = masses(book, weights)
    whole = np.maximum(weights.sum(axis=1), np.finfo(np.float64).tiny)
    mass[:, -1] += UNSEEN * (weights * weights).sum(axis=1) / whole
    below = np.cumsum(mass, axis=1)
    amount = np.cumsum(mass * values, axis=1)
    above = below[:, -1:] - below
    mean = amount[:, -1] / np.maximum(below[:, -1], np.finfo(np.float64).tiny)
    idle = values * below - amount
    short = (amount[:, -1:] - amount) - values * above
    cost = idle + (BLAME * mean)[:, np.newaxis] * above
    cheapest = [values[np.arange(weights.shape[0]), np.argmin(cost + price * short, axis=1)] for price in prices]
    return np.stack(cheapest)


def masses(book: HourBook, weights: Floats) -> Floats:
    """Return how much each of the book's levels counts, in their rising order, shape ``(k, 4 p)``."""
    shared = weights[:, :, np.newaxis] * np.array(LEVEL_SHARES)
    mass: Floats = np.take_along_axis(shared.reshape(weights.shape[0], -1), book.places, axis=1)
    return mass


def levels_of_share(book: HourBook, weights: Floats, share: float) -> Floats:
    """Return the least level that at least this share of each row's mass stays within, shape ``(k,)``; 0 = no hour."""
    if not weights.shape[1]:
        return np.zeros(weights.shape[0])
    reached = np.cumsum(masses(book, weights), axis=1)
    places = np.argmax(reached >= share * _WHOLE * reached[:, -1:], axis=1)
    levels: Floats = np.take_along_axis(book.levels, places[:, np.newaxis], axis=1)[:, 0]
    return levels


def level_of_share(levels: Floats, mass: Floats, share: float) -> float:
    """Return the least of a row's levels, rising, that at least this share of its mass stays within."""
    reached = np.cumsum(mass)
    place = int(np.searchsorted(reached, share * _WHOLE * reached[-1]))
    return float(levels[min(place, levels.size - 1)])


def share_above(levels: Floats, mass: Floats, level: float) -> float:
    """Return the share of a row's mass that lies above a level."""
    return float(mass[levels > level].sum() / mass.sum())
