from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.numbers.arrays import Floats
from agent.core.orders.policy_options import CruiseOptions
from agent.core.recommender.cruise.peak import PredictedPeak, merge_series, predict_peak

HOUR = 3600.0
DAY = 24 * HOUR


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def predict(now: str, *samples: tuple[str, float], neighbours: int = 0) -> PredictedPeak:
    moments = np.array([at(moment) for moment, _ in samples], dtype=np.float64)
    values = np.array([value for _, value in samples], dtype=np.float64)
    return predict_peak(moments, values, CruiseOptions(neighbour_hours=neighbours), now_unix_seconds=at(now))


def test_peak_is_the_larger_of_last_hour_and_same_hour() -> None:
    # Vector ck-peak-01: a second too old for the last 60 minutes, a day's neighbour, another hour.
    predicted = predict(
        "2026-01-28T14:05:31",
        ("2026-01-21T14:05:30", 3.0),
        ("2026-01-27T14:05:30", 2.0),
        ("2026-01-28T14:05:30", 1.0),
        ("2026-01-28T13:05:30", 5.0),
        ("2026-01-27T15:05:30", 4.0),
        ("2026-01-27T20:05:30", 9.0),
    )
    assert predicted == PredictedPeak(same_hour=3.0, last=1.0, peak=3.0)


def test_peak_counts_the_far_edge_of_the_last_hour() -> None:
    now = "2026-01-28T14:05:30.250"
    assert predict(now, ("2026-01-28T13:05:30.250", 5.0)).last == 5.0
    assert predict(now, ("2026-01-28T13:05:30.249", 5.0)).last is None


def test_peak_does_not_count_what_comes_after_now() -> None:
    now = "2026-01-28T14:05:30"
    assert predict(now, (now, 1.0), ("2026-01-28T14:05:30.001", 9.0), neighbours=1).peak == 1.0


def test_peak_without_samples_is_none() -> None:
    assert predict("2026-01-28T14:05:30") == PredictedPeak(same_hour=None, last=None, peak=None)
    only_old = predict("2026-01-28T14:05:30", ("2026-01-27T14:00:00", 2.0))
    assert only_old == PredictedPeak(same_hour=2.0, last=None, peak=2.0)


@pytest.mark.parametrize(("neighbours", "expected"), [(0, 2.0), (1, 6.0)])
def test_peak_with_neighbours_crosses_midnight(neighbours: int, expected: float) -> None:
    samples = (("2026-02-28T00:40:00", 2.0), ("2026-02-27T23:50:00", 6.0), ("2026-02-27T22:59:59", 8.0))
    assert predict("2026-03-01T00:10:00", *samples, neighbours=neighbours).same_hour == expected


@given(
    st.lists(st.tuples(st.integers(0, 9 * 86_400), st.floats(0, 1e6)), max_size=40),
    st.integers(0, 2),
)
def test_peak_does_not_depend_on_order_and_is_largest_of_its_parts(
    samples: list[tuple[int, float]], neighbours: int
) -> None:
    options = CruiseOptions(neighbour_hours=neighbours)
    now = 1_769_000_000.0
    moments = now - np.array([ago for ago, _ in samples], dtype=np.float64)
    values = np.array([value for _, value in samples], dtype=np.float64)
    predicted = predict_peak(moments, values, options, now_unix_seconds=now)
    assert predict_peak(moments[::-1], values[::-1], options, now_unix_seconds=now) == predicted
    parts = [part for part in (predicted.last, predicted.same_hour) if part is not None]
    assert predicted.peak == max(parts, default=None)


def series(*samples: tuple[float, float]) -> tuple[Floats, Floats]:
    return np.array([at for at, _ in samples], dtype=np.float64), np.array([amount for _, amount in samples])


def merged(*parts: tuple[Floats, Floats]) -> list[tuple[float, float]]:
    moments, values = merge_series(parts)
    return list(zip(moments.tolist(), values.tolist(), strict=True))


def test_merge_takes_the_maximum_at_each_moment() -> None:
    # Vector ck-merge-02.
    first, second, third = series((10, 1.0)), series((20, 2.0), (30, 0.5)), series((10, 0.25), (30, 0.75))
    assert merged(first, second, third) == [(10, 1.0), (20, 2.0), (30, 0.75)]


def test_merge_of_nothing_is_nothing() -> None:
    assert merged() == []
    assert merged(series()) == []


moments = st.lists(st.tuples(st.integers(0, 9), st.floats(-5, 5)), max_size=12)


@settings(deadline=None)
@given(st.lists(moments, max_size=4))
def test_merge_is_the_same_in_any_order_and_all_at_once(parts: list[list[tuple[int, float]]]) -> None:
    expected = sorted(
        {
            at: max(value for part in parts for when, value in part if when == at) for part in parts for at, _ in part
        }.items()
    )
    assert merged(*(series(*part) for part in parts)) == expected
    assert merged(*(series(*part[::-1]) for part in parts[::-1])) == expected
