from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from agent.core.history.workloads.hour_peaks import MinutePeaks
from agent.core.recommender.plimsoll.memory_drift import START_MINUTES, MemoryDrift, margin_of
from tests.policy_rows import Figures, all_rows, make_minutes

MIDNIGHT = 500_016 * 60
GIB = float(1 << 30)


def fold(drift: MemoryDrift, memory: Iterable[Figures], start: int = MIDNIGHT) -> int:
    minute = start
    for figures in memory:
        drift.fold(minute, MinutePeaks.of(make_minutes(minute, [None] * len(figures), figures)))
        minute += 1
    return minute


def growth(drift: MemoryDrift, minute: int) -> float:
    return float(drift.growth(all_rows(1), minute // 60)[0])


def test_what_stands_still_does_not_grow() -> None:
    drift = MemoryDrift(1)
    minute = fold(drift, [[GIB]] * 300)
    assert growth(drift, minute) == 0.0
    assert drift.week(all_rows(1), minute // 60)[0].tolist() == [GIB]


def test_growth_is_that_of_the_largest_within_an_hour() -> None:
    drift = MemoryDrift(1)
    minute = fold(drift, [[GIB]] * 200)
    minute = fold(drift, [[1.1 * GIB]], minute)
    assert growth(drift, minute) == pytest.approx(0.1)
    # A fall is none, and neither is the rise after it up to what was there before.
    minute = fold(drift, [[0.5 * GIB]] * 100 + [[1.1 * GIB]] * 10, minute)
    assert growth(drift, minute) <= 0.1001


def test_the_start_is_no_growth() -> None:
    drift = MemoryDrift(1)
    minute = fold(drift, [[GIB * min(1.0, 0.1 * step)] for step in range(START_MINUTES)])
    assert growth(drift, minute) == 0.0
    fold(drift, [[1.2 * GIB]], minute)
    assert growth(drift, minute) == pytest.approx(0.2, rel=0.01)


def test_growth_counts_half_after_twelve_hours_and_nothing_after_three_days() -> None:
    drift = MemoryDrift(1)
    minute = fold(drift, [[GIB]] * 179 + [[1.5 * GIB]])
    assert growth(drift, minute - 1) == pytest.approx(0.5)
    assert growth(drift, minute - 1 + 12 * 60) == pytest.approx(0.25)
    assert growth(drift, minute + 80 * 60) == 0.0
    assert growth(drift, minute - 10 * 60) == 0.0  # the clock was set back


def test_a_gap_an_hour_ago_measures_no_growth() -> None:
    drift = MemoryDrift(1)
    minute = fold(drift, [[GIB]] * 200)
    minute = fold(drift, [[2 * GIB]] * 30, minute + 90)
    assert growth(drift, minute) == 0.0
    assert drift.week(all_rows(1), minute // 60)[0].tolist() == [2 * GIB]


def test_unknown_minutes_and_nothing_before_measure_no_growth() -> None:
    drift = MemoryDrift(2)
    minute = fold(drift, [[0.0, None]] * 200)
    minute = fold(drift, [[GIB, None]] * 10, minute)
    assert drift.growth(all_rows(2), minute // 60).tolist() == [0.0, 0.0]
    assert drift.week(all_rows(2), minute // 60)[1].tolist() == [True, False]


def test_rows_are_forgotten_and_grown() -> None:
    drift = MemoryDrift(1)
    minute = fold(drift, [[GIB]] * 179 + [[1.5 * GIB]])
    drift.grow(2)
    drift.grow(1)
    assert drift.growth(all_rows(2), minute // 60)[1] == 0.0
    drift.forget(all_rows(1))
    assert growth(drift, minute) == 0.0
    minute = fold(drift, [[GIB, GIB]], minute)
    assert drift.week(all_rows(2), minute // 60)[0].tolist() == [GIB, GIB]


def test_margin_is_the_growth_within_bounds() -> None:
    assert margin_of(np.array([0.0, 0.1, 0.9])).tolist() == [0.05, 0.1, 0.3]
