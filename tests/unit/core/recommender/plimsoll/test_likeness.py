from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from agent.core.recommender.plimsoll.hours import HourRing
from agent.core.recommender.plimsoll.likeness import (
    FORMER_IMAGE,
    LOOK_LEAST,
    TIME_LEAST,
    UNSEEN_START,
    HourBook,
    open_book,
    weigh,
)

NOON_HOUR = 500_004
"""Hours since the epoch; 500,004 = 20,833 x 24 + 12."""


def looks(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)[:, np.newaxis]


def book_of(*hours: tuple[int, float], minutes: int = 60, has_looks: bool = True) -> HourBook:
    """Return the book of noon over hours so long ago, each with one figure for all looks and levels."""
    ring = HourRing(1)
    for ago, figure in hours:
        ring.open(NOON_HOUR - ago, looks(*[figure] * 4), np.array([has_looks]))
        ring.close(NOON_HOUR - ago, looks(*[figure] * 4), np.array([minutes], dtype=np.uint8))
    return open_book(ring, NOON_HOUR, slice(None))


def weights(book: HourBook, figure: float, *, at: float = NOON_HOUR, has_looks: bool = True) -> list[float]:
    known = np.array([has_looks])
    hour_weights: list[float] = weigh(book, looks(*[figure] * 4), known, at * 3600.0)[0].tolist()
    return hour_weights


def test_the_same_hour_of_five_days_ago_counts_half() -> None:
    assert weights(book_of((120, 100.0)), 100.0) == pytest.approx([0.5])


def test_an_hour_of_which_a_quarter_is_known_counts_a_quarter() -> None:
    assert weights(book_of((120, 100.0), minutes=15), 100.0) == pytest.approx([0.125])


def test_an_hour_of_a_former_image_counts_a_tenth_from_the_new_ones_first_hour_on() -> None:
    ring = HourRing(2)
    for ago in (3, 2, 1):
        ring.open(NOON_HOUR - ago, np.full((4, 2), 100.0, dtype=np.float32), np.array([True, True]))
        ring.close(NOON_HOUR - ago, np.full((4, 2), 100.0, dtype=np.float32), np.array([60, 60], dtype=np.uint8))

    def counted(hour: int) -> list[list[float]]:
        everybody = np.array([True, True])
        book = open_book(ring, hour, slice(None))
        hour_weights = weigh(book, np.full((4, 2), 100.0, dtype=np.float32), everybody, hour * 3600.0)
        return [[float(weight) for weight in row] for row in hour_weights]

    usual = counted(NOON_HOUR)[0]
    ring.renew(0, NOON_HOUR - 1)
    assert counted(NOON_HOUR) == [[pytest.approx(FORMER_IMAGE * weight) for weight in usual[:2]] + usual[2:], usual]
    # An hour before it is answered for as it was then.
    assert len({tuple(row) for row in counted(NOON_HOUR - 2)}) == 1
    ring.forget(np.array([0]))
    ring.grow(3)
    assert ring.image_since(NOON_HOUR).max() < 0


def test_another_time_of_day_counts_less_also_over_midnight() -> None:
    (half_day,) = weights(book_of((108, 100.0)), 100.0)
    assert half_day == pytest.approx(TIME_LEAST * 0.5 ** (108 / 120))
    one_hour = TIME_LEAST + (1 - TIME_LEAST) * np.exp(-0.5)
    assert weights(book_of((25, 100.0)), 100.0) == pytest.approx([one_hour * 0.5 ** (25 / 120)])
    assert weights(book_of((23, 100.0)), 100.0) == pytest.approx([one_hour * 0.5 ** (23 / 120)])


def test_the_time_of_day_runs_on_within_the_hour() -> None:
    (later,) = weights(book_of((23, 100.0)), 100.0, at=NOON_HOUR + 0.75)
    quarter = TIME_LEAST + (1 - TIME_LEAST) * np.exp(-(0.25**2) / 2)
    assert later == pytest.approx(quarter * 0.5 ** (23.75 / 120))


def test_what_looked_alike_counts_more() -> None:
    alike, other = weights(book_of((24, 1000.0), (48, 100.0)), 1000.0)[::-1]
    assert alike > 1000 * other > 0.0
    # Far apart in all four looks: nothing counts for nothing.
    (unlike,) = weights(book_of((24, 1.0)), 1e6)
    assert unlike == pytest.approx(LOOK_LEAST**4 * 0.5 ** (24 / 120), rel=1e-3)


def test_an_hour_before_which_nothing_was_seen_counts_a_tenth_and_all_count_alike_when_nothing_is_seen_now() -> None:
    assert weights(book_of((120, 0.0), has_looks=False), 0.0) == pytest.approx([0.5 * UNSEEN_START])
    assert weights(book_of((120, 100.0)), 0.0, has_looks=False) == pytest.approx([0.5])


def test_little_things_under_a_quarter_of_the_usual_look_alike() -> None:
    book = book_of((24, 1000.0), (48, 1000.0), (72, 1000.0))
    assert book.offsets.tolist() == [250.0]
    # A row that uses next to nothing goes by quarters of a millicore.
    assert weights(book_of((24, 0.001)), 0.01)[0] > 0.2


def test_hours_out_of_reach_or_unknown_do_not_count() -> None:
    assert weights(book_of((133, 100.0)), 100.0) == []
    assert weights(book_of((24, 100.0), minutes=0), 100.0) == [0.0]
    assert book_of((24, 100.0), minutes=0).has_hours.tolist() == [0.0]


def test_the_book_holds_levels_in_rising_order_and_where_they_come_from() -> None:
    ring = HourRing(1)
    ring.open(NOON_HOUR - 2, looks(1, 1, 1, 1), np.array([True]))
    ring.close(NOON_HOUR - 2, looks(8, 6, 4, 2), np.array([60], dtype=np.uint8))
    ring.open(NOON_HOUR - 1, looks(1, 1, 1, 1), np.array([True]))
    ring.close(NOON_HOUR - 1, looks(7, 5, 3, 1), np.array([60], dtype=np.uint8))
    book = open_book(ring, NOON_HOUR, slice(None))
    assert book.hours.tolist() == [NOON_HOUR - 2, NOON_HOUR - 1]
    assert book.levels.tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]
    assert book.places.tolist() == [[7, 3, 6, 2, 5, 1, 4, 0]]
