from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.numbers.arrays import Floats
from agent.core.numbers.bucket_scheme import LinearScheme
from agent.core.numbers.histogram import Histograms
from agent.core.recommender.crane.estimate import EPSILON, weigh
from agent.core.recommender.crane.samples import CPU_QUANTUM, MEMORY_QUANTUM, Quantum, SlidingHistograms
from tests.histograms import add_series

CPU = LinearScheme(100.0, 0.1)
MIB = 1 << 20
MEMORY = LinearScheme(100_000.0 * MIB, 100.0 * MIB)
START = 28_000_000 - 28_000_000 % 60 + 17
"""A UTC minute that does not begin an hour."""
WINDOW_MINUTES = 90


def make_sliding(
    *,
    rows: int = 1,
    scheme: LinearScheme = CPU,
    quantum: Quantum = CPU_QUANTUM,
    percentile: float = 0.99,
    window_minutes: int = WINDOW_MINUTES,
) -> SlidingHistograms:
    return SlidingHistograms(scheme, quantum, percentile=percentile, window_minutes=window_minutes, rows=rows)


def fold(sliding: SlidingHistograms, minute: int, *values: float | None) -> None:
    has = np.array([value is not None for value in values])
    sliding.fold(START + minute, np.array([value or 0.0 for value in values]), has)


def answers(sliding: SlidingHistograms) -> list[float]:
    return [float(answer) for answer in sliding.percentiles(np.arange(sliding.rows))]


def anew(samples: Sequence[float], percentile: float = 0.99, scheme: LinearScheme = CPU) -> float:
    """The percentile as Crane has it: a histogram built from these samples alone."""
    histograms = Histograms(scheme, epsilon=EPSILON, rows=1)
    values: Floats = np.array(samples, dtype=np.float64)
    add_series(histograms, 0, values, weigh(values))
    return float(histograms.percentile(percentile)[0])


def test_percentiles_without_samples_are_zero() -> None:
    sliding = make_sliding(rows=2)
    assert answers(sliding) == [0.0, 0.0]
    fold(sliding, 0, None, None)
    assert answers(sliding) == [0.0, 0.0]
    assert sliding.counts(np.arange(2)).tolist() == [0, 0]


def test_a_sample_of_0_3_core_is_in_bucket_2() -> None:
    # 0.3 / 0.1 = 2.9999999999999996, so the bucket ends at 3 x 0.1 = 0.30000000000000004
    sliding = make_sliding()
    fold(sliding, 0, 0.3)
    assert answers(sliding) == [0.30000000000000004]


@pytest.mark.parametrize("value", [0.3999999, 0.4, 0.4000001, 0.7, 0.6999999999, 0.1 * 3, 99.999999, 100.0, 250.0, 1e6])
def test_a_sample_near_an_edge_stays_in_its_own_bucket(value: float) -> None:
    # Kept in steps of 1e-5 core, 0.3999999 would be 0.4 and fall into the next bucket.
    sliding = make_sliding()
    fold(sliding, 0, value)
    assert answers(sliding) == [anew([value])]


@pytest.mark.parametrize("size", [4096.0, 5000.0, 123_456.7, 100.0 * MIB])
@given(value=st.integers(0, 1 << 36))
def test_memory_of_any_bytes_stays_in_its_own_bucket(size: float, value: int) -> None:
    scheme = LinearScheme(1000 * size, size)
    sliding = make_sliding(scheme=scheme, quantum=MEMORY_QUANTUM)
    fold(sliding, 0, float(value))
    assert answers(sliding) == [anew([value], scheme=scheme)]


def test_samples_of_zero_are_samples_but_weigh_as_good_as_nothing() -> None:
    sliding = make_sliding(rows=2, scheme=MEMORY, quantum=MEMORY_QUANTUM, percentile=0.001, window_minutes=10_080)
    for minute in range(500):
        fold(sliding, minute, 0.0, 0.0)
    fold(sliding, 500, 0.0, 250.0 * MIB)
    # Alone they answer with the end of the first bucket; a single one of 250 MiB outweighs 500 of them a thousandfold.
    assert answers(sliding) == [100.0 * MIB, 300.0 * MIB]


def test_the_weight_of_a_sample_is_its_value() -> None:
    # 9 x 0.15 = 1.35 against 1 x 1.55: the upper bucket holds more than half of the weight.
    sliding = make_sliding(percentile=0.5)
    for minute in range(9):
        fold(sliding, minute, 0.15)
    assert answers(sliding) == [0.2]
    fold(sliding, 9, 1.55)
    assert answers(sliding) == [1.6]


def test_a_sample_counts_for_the_window_and_no_minute_longer() -> None:
    sliding = make_sliding()
    fold(sliding, 0, 5.05)
    for minute in range(1, WINDOW_MINUTES):
        fold(sliding, minute, 0.05)
    assert answers(sliding) == [5.1000000000000005]
    fold(sliding, WINDOW_MINUTES, 0.05)
    assert answers(sliding) == [0.1]
    assert sliding.counts(np.array([0])).tolist() == [WINDOW_MINUTES]


def test_percentile_zero_is_the_lowest_bucket_and_rises_when_that_leaves() -> None:
    sliding = make_sliding(percentile=0.0)
    fold(sliding, 0, 0.05)
    fold(sliding, 1, 0.25)
    assert answers(sliding) == [0.1]
    fold(sliding, WINDOW_MINUTES, None)
    assert answers(sliding) == [0.30000000000000004]
    fold(sliding, WINDOW_MINUTES + 1, None)
    assert answers(sliding) == [0.0]


def test_a_long_gap_lets_everything_go() -> None:
    sliding = make_sliding(rows=2)
    for minute in range(0, 400, 7):
        fold(sliding, minute, 3.0, 0.2)
    fold(sliding, 100_000, None, 0.7)
    # 0.7 / 0.1 = 6.999999999999999
    assert answers(sliding) == [0.0, 0.7000000000000001]
    assert sliding.counts(np.arange(2)).tolist() == [0, 1]


@pytest.mark.parametrize("minute", [5, 4, -100])
def test_a_minute_that_is_not_later_is_refused_and_changes_nothing(minute: int) -> None:
    sliding = make_sliding()
    fold(sliding, 5, 0.05)
    with pytest.raises(ValueError, match=f"minute {START + minute} after minute {START + 5}: rising order is allowed"):
        fold(sliding, minute, 9.0)
    assert answers(sliding) == [0.1]


def test_rows_that_come_later_and_rows_that_are_forgotten_keep_out_of_each_others_past() -> None:
    sliding = make_sliding(rows=0)
    fold(sliding, 0)
    sliding.forget(np.array([], dtype=np.intp))
    sliding.grow(2)
    sliding.grow(1)
    assert sliding.rows == 2
    for minute in range(1, 70):
        fold(sliding, minute, 4.05, 0.05)
    sliding.forget(np.array([0]))
    assert answers(sliding) == [0.0, 0.1]
    sliding.grow(3)
    fold(sliding, 70, 0.15, 0.05, 1.05)
    assert answers(sliding) == [0.2, 0.1, 1.1]
    # All that was before the row was forgotten leaves now, and must not be taken from the new container.
    for minute in range(71, 70 + WINDOW_MINUTES):
        fold(sliding, minute, None, None, None)
        assert answers(sliding) == [0.2, 0.1, 1.1]
    fold(sliding, 70 + WINDOW_MINUTES, None, None, None)
    assert answers(sliding) == [0.0, 0.0, 0.0]


def test_rows_forgotten_before_the_first_minute_learn_from_it() -> None:
    sliding = make_sliding()
    sliding.forget(np.array([0]))
    fold(sliding, 0, 0.05)
    assert answers(sliding) == [0.1]


Series = Mapping[int, Sequence[float | None]]

SAMPLES = st.one_of(
    st.none(),
    st.sampled_from([0.0, 0.1, 0.3, 1.5, 99.95, 300.0]),
    # Whole quanta, so that the sums of the histogram built anew weigh the same.
    st.integers(0, 400_000).map(lambda quanta: quanta / 1e5),
)
SERIES = st.dictionaries(st.integers(0, 400), st.tuples(SAMPLES, SAMPLES, SAMPLES), max_size=60)


@pytest.mark.slow
@settings(deadline=None)
@given(series=SERIES, percentile=st.sampled_from([0.0, 0.31, 0.5, 0.9, 0.99, 1.0]))
def test_sliding_equals_a_histogram_built_anew_from_the_window(series: Series, percentile: float) -> None:
    sliding = make_sliding(rows=3, percentile=percentile)
    for minute in sorted(series):
        fold(sliding, minute, *series[minute])
        for row, answer in enumerate(answers(sliding)):
            window = [series[old][row] for old in sorted(series) if minute - WINDOW_MINUTES < old <= minute]
            samples = [value for value in window if value is not None]
            assert sliding.counts(np.array([row]))[0] == len(samples)
            # Sums of floats may miss by some units in the last place; at the very edge of a bucket either answer is
            # right: so asked for a hair below and a hair above.
            hair = 1e-12
            assert anew(samples, percentile - hair) <= answer <= anew(samples, percentile + hair)


def test_a_week_of_minutes_leaves_no_residue() -> None:
    # Sums of a week come and go; what is left must be exactly what the last samples weigh.
    rng = np.random.default_rng(20_260_128)
    sliding = make_sliding(rows=4, percentile=0.5)
    has = np.ones(4, dtype=np.bool_)
    for minute in range(2000):
        sliding.fold(START + minute, rng.lognormal(0.0, 1.5, 4), has)
    fold(sliding, 2000 + WINDOW_MINUTES, 0.05, None, 0.05, None)
    assert answers(sliding) == [0.1, 0.0, 0.1, 0.0]
    fold(sliding, 2001 + WINDOW_MINUTES, 0.06, 0.25, 0.25, None)
    # Half of 5000 + 25000 quanta is reached in bucket 2.
    assert answers(sliding) == [0.1, 0.30000000000000004, 0.30000000000000004, 0.0]
