"""The sliding percentile against the one definition of a percentile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.percentile import percentile
from agent.core.recommender.simulation.windows import SlidingPercentile


def window(rows: int = 1, minutes: int = 4, ratio: float = 0.75, max_gap_ratio: float = 0.2) -> SlidingPercentile:
    return SlidingPercentile(rows, minutes=minutes, ratio=ratio, max_gap_ratio=max_gap_ratio)


def push(sliding_window: SlidingPercentile, *values: float | None) -> None:
    sliding_window.push(np.array([value or 0.0 for value in values]), np.array([value is not None for value in values]))


def test_window_knows_nothing_at_first() -> None:
    values, has = window(rows=2).read()
    assert (values.tolist(), has.tolist()) == ([0.0, 0.0], [False, False])


def test_window_of_one_minute_gives_that_minute() -> None:
    sliding_window = window()
    push(sliding_window, 5.0)
    assert sliding_window.read()[0].tolist() == [5.0]


def test_window_lets_the_oldest_go() -> None:
    sliding_window = window(ratio=1.0)
    for value in (9.0, 1.0, 2.0, 3.0, 4.0):
        push(sliding_window, value)
    assert sliding_window.read()[0].tolist() == [4.0]  # 9 is five minutes old


def test_window_with_more_gaps_than_allowed_has_no_figure() -> None:
    sliding_window = window(max_gap_ratio=0.25)
    for value in (1.0, None, 2.0, 3.0):
        push(sliding_window, value)
    assert sliding_window.read()[1].tolist() == [True]  # one of four
    push(sliding_window, None)
    assert sliding_window.read()[1].tolist() == [False]  # two of four: (None, 2, 3, None)


def test_window_counts_gaps_only_from_the_first_known_minute_on() -> None:
    sliding_window = window(max_gap_ratio=0.0)
    push(sliding_window, None)
    push(sliding_window, None)
    push(sliding_window, 7.0)
    values, has = sliding_window.read()
    assert (values.tolist(), has.tolist()) == ([7.0], [True])


def test_window_of_gaps_only_has_no_figure_even_if_all_may_be_gaps() -> None:
    sliding_window = window(minutes=2, max_gap_ratio=1.0)
    for value in (5.0, None, None):
        push(sliding_window, value)
    assert sliding_window.read()[1].tolist() == [False]


@given(
    columns=st.integers(1, 3).flatmap(
        lambda rows: st.lists(
            st.lists(st.none() | st.floats(0, 1e12), min_size=rows, max_size=rows), min_size=1, max_size=20
        )
    ),
    minutes=st.integers(1, 7),
    ratio=st.floats(0, 1),
)
def test_window_equals_the_percentile_of_the_known_minutes(
    columns: list[list[float | None]], minutes: int, ratio: float
) -> None:
    rows = len(columns[0])
    sliding_window = window(rows, minutes, ratio, max_gap_ratio=1.0)
    for now, values in enumerate(columns):
        push(sliding_window, *values)
        figures, has = sliding_window.read()
        for row in range(rows):
            known = [past[row] for past in columns[max(now - minutes + 1, 0) : now + 1] if past[row] is not None]
            assert bool(has[row]) is bool(known)
            wanted = percentile(np.array(known, dtype=np.float64), ratio) if known else 0.0
            assert figures[row] == pytest.approx(wanted, rel=1e-12)
