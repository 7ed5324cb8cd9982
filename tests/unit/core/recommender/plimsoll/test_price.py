from __future__ import annotations

import numpy as np
import pytest

from agent.core.recommender.plimsoll.hours import HourRing
from agent.core.recommender.plimsoll.likeness import HourBook, open_book
from agent.core.recommender.plimsoll.price import cheapest_levels, level_of_share, masses, share_above


def book_of(*hours: tuple[float, float, float, float]) -> HourBook:
    """Return the book over hours of these levels, oldest first."""
    ring = HourRing(1)
    for number, levels in enumerate(hours):
        ring.open(number, np.zeros((4, 1), dtype=np.float32), np.array([True]))
        ring.close(number, np.array(levels, dtype=np.float32)[:, np.newaxis], np.array([60], dtype=np.uint8))
    return open_book(ring, len(hours), slice(None))


def cheapest(book: HourBook, weights: list[float], price: float) -> float:
    return float(cheapest_levels(book, np.array([weights]), [price])[0, 0])


def test_no_hour_known_has_no_level() -> None:
    assert cheapest(book_of(), [], 50.0) == 0.0


def test_hours_without_weight_have_none_either() -> None:
    assert np.isfinite(cheapest(book_of((4.0, 3.0, 2.0, 1.0)), [0.0], 50.0))


def test_a_constant_is_its_own_level_at_any_price() -> None:
    book = book_of(*[(7.0, 7.0, 7.0, 7.0)] * 3)
    for price in (1.0, 50.0, 1000.0):
        assert cheapest(book, [1.0, 0.5, 0.25], price) == 7.0


def test_the_level_rises_with_the_price() -> None:
    # One hour in ten bursts to 1000 for a twelfth of it, the others stay at 100.
    book = book_of(*[(100.0, 100.0, 100.0, 100.0)] * 29, (1000.0, 100.0, 100.0, 100.0))
    # At 100 a share of (1 + 0.5) / 12 / 30 = 0.42 % is 900 short: 3.75 x price, and blame, against 900 idle.
    assert cheapest(book, [1.0] * 30, 200.0) == 100.0
    assert cheapest(book, [1.0] * 30, 400.0) == 1000.0


def test_hours_that_count_more_decide() -> None:
    book = book_of((100.0, 100.0, 100.0, 100.0), (900.0, 900.0, 900.0, 900.0))
    assert cheapest(book, [1.0, 0.0001], 10.0) == 100.0
    assert cheapest(book, [0.0001, 1.0], 10.0) == 900.0


def test_blame_lifts_a_smooth_series_to_its_top() -> None:
    # 1 % above the rest for a twelfth of the time: too little depth for a price of 5, but each minute is blamed.
    assert cheapest(book_of(*[(101.0, 100.0, 100.0, 100.0)] * 50), [1.0] * 50, 5.0) == 101.0


def test_masses_are_shares_of_hours_in_the_order_of_levels() -> None:
    book = book_of((8.0, 6.0, 4.0, 2.0), (7.0, 5.0, 3.0, 1.0))
    mass = masses(book, np.array([[1.0, 2.0]]))[0]
    assert mass * 12 == pytest.approx([12.0, 6.0, 6.0, 3.0, 4.0, 2.0, 2.0, 1.0])
    assert level_of_share(book.levels[0], mass, 0.5) == 2.0
    assert level_of_share(book.levels[0], mass, 1.0) == 8.0
    assert share_above(book.levels[0], mass, 6.0) == pytest.approx(3 / 36)
    assert share_above(book.levels[0], mass, 8.0) == 0.0
