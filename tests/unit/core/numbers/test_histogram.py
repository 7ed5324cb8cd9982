"""The reference here is one histogram at a time, written plainly after facts/vpa.md sections 2 and 3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers import go_float
from agent.core.numbers.bucket_scheme import BucketScheme, ExponentialScheme, LinearScheme
from agent.core.numbers.histogram import YEAR_ONE, Histograms
from tests.histograms import add_series

UNITS = LinearScheme(10.0, 1.0)
"""Buckets 0 to 10, one wide."""
CPU = ExponentialScheme(1000.0, 0.01, 1.05)
MIDNIGHT = 1_700_006_400.0
"""2023-11-15T00:00Z"""
DAY = 86400.0
HOUR = 3600.0

Sample = tuple[float, float, float]
"""Value, weight, Unix seconds."""


class OneHistogram:
    """One histogram, sample by sample."""

    def __init__(self, scheme: BucketScheme, epsilon: float, half_life: float | None) -> None:
        self.scheme, self.epsilon, self.half_life = scheme, epsilon, half_life
        self.weights = [0.0] * scheme.count
        self.total, self.reference = 0.0, YEAR_ONE
        self.lowest, self.highest = scheme.count - 1, 0

    def add(self, value: float, weight: float, time: float) -> None:
        weight *= self._factor(time)
        bucket = int(self.scheme.find(np.array([value]))[0])
        self.weights[bucket] += weight
        self.total += weight
        if self.weights[bucket] >= self.epsilon:
            self.lowest, self.highest = min(self.lowest, bucket), max(self.highest, bucket)

    def subtract(self, value: float, weight: float, time: float) -> None:
        weight *= self._factor(time)
        bucket = int(self.scheme.find(np.array([value]))[0])
        self.total = self._left(self.total - weight)
        self.weights[bucket] = self._left(self.weights[bucket] - weight)
        self._tighten()

    def percentile(self, p: float) -> float:
        if self.weights[self.lowest] < self.epsilon:
            return 0.0
        threshold, reached, bucket = p * self.total, 0.0, self.lowest
        while bucket < self.highest:
            reached += self.weights[bucket]
            if reached >= threshold:
                break
            bucket += 1
        return float(self.scheme.starts(np.array([min(bucket + 1, self.scheme.count - 1)]))[0])

    def _left(self, weight: float) -> float:
        return 0.0 if weight < self.epsilon else weight

    def _factor(self, time: float) -> float:
        if self.half_life is None:
            return 1.0
        if time > self.reference + 100 * self.half_life:
            halves = math.floor((time - YEAR_ONE) / self.half_life * 2)
            shifted = YEAR_ONE + (halves + 1) // 2 * self.half_life
            factor = 2.0 ** max(math.floor((self.reference - shifted) / self.half_life + 0.5), -2000)
            for bucket in range(self.lowest, self.highest + 1):
                self.weights[bucket] *= factor
            self.total *= factor
            self.reference = shifted
            self._tighten()
        return float(go_float.exp2(np.array([(time - self.reference) / self.half_life]))[0])

    def _tighten(self) -> None:
        while self.weights[self.lowest] < self.epsilon and self.lowest < self.scheme.count - 1:
            self.lowest += 1
        while self.weights[self.highest] < self.epsilon and self.highest > 0:
            self.highest -= 1


def histograms(
    scheme: BucketScheme = UNITS, *, epsilon: float = 1e-4, rows: int = 1, half_life: float | None = None
) -> Histograms:
    return Histograms(scheme, epsilon=epsilon, rows=rows, half_life_seconds=half_life)


def columns(samples: Sequence[Sample]) -> tuple[Any, Any, Any]:
    array = np.array(samples, dtype=np.float64).reshape(-1, 3)
    return array[:, 0], array[:, 1], array[:, 2]


def filled(samples: Sequence[Sample], *, row: int = 0, rows: int = 1, **options: Any) -> Histograms:
    table = histograms(rows=rows, **options)
    add_series(table, row, *columns(samples))
    return table


def assert_same(many: Histograms, row: int, histogram: OneHistogram) -> None:
    assert many.weights(row).tolist() == histogram.weights
    assert many.total_weights()[row] == histogram.total
    assert many.used(row) == slice(histogram.lowest, histogram.highest + 1)
    for p in (-0.1, 0.0, 0.25, 0.5, 0.9, 0.95, 1.0, 1.1):
        assert many.percentile(p)[row] == histogram.percentile(p)


# --- percentiles and the used range


def test_percentile_of_an_empty_row_is_0() -> None:
    assert histograms(rows=2).percentile(0.5).tolist() == [0.0, 0.0]
    assert histograms(rows=2).is_empty().tolist() == [True, True]


def test_percentile_without_rows_is_an_empty_array() -> None:
    assert histograms(rows=0).percentile(0.5).tolist() == []


def test_percentile_is_the_end_of_the_bucket_where_the_share_is_reached() -> None:
    table = filled([(1.0, 1.0, 0), (2.0, 1.0, 0), (3.0, 2.0, 0)])
    # Weights 1, 1, 2 of 4 in buckets 1, 2, 3: a quarter ends with bucket 1, a half with bucket 2.
    assert [table.percentile(p)[0] for p in (-1.0, 0.0, 0.25, 0.26, 0.5, 0.51, 1.0, 2.0)] == [2, 2, 2, 3, 3, 4, 4, 4]


def test_percentile_of_the_last_bucket_is_its_start() -> None:
    assert filled([(99.0, 1.0, 0)]).percentile(0.5).tolist() == [10.0]


def test_percentile_of_chosen_rows_keeps_their_order() -> None:
    table = histograms(rows=4)
    table.add(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4))
    assert table.percentile(0.5, np.array([3, 0])).tolist() == [5.0, 2.0]
    assert table.total_weights(np.array([3, 0])).tolist() == [1.0, 1.0]
    table.add(np.array([2]), np.array([8.0]), np.array([5.0]))
    assert table.percentile(0.5, np.array([2])).tolist() == [9.0]
    assert table.percentile(0.5).tolist() == [2.0, 3.0, 9.0, 5.0]


def test_percentile_counts_past_255_buckets() -> None:
    table = histograms(LinearScheme(1000.0, 1.0), rows=2)
    table.add(np.arange(2), np.array([0.0, 0.0]), np.ones(2))
    table.add(np.arange(2), np.array([300.0, 700.0]), np.ones(2) * 9)
    assert table.percentile(0.5).tolist() == [301.0, 701.0]


def test_add_below_epsilon_stays_unseen_until_the_bucket_holds_epsilon() -> None:
    table = histograms(epsilon=0.5, rows=2)
    first = np.array([0])
    table.add(first, np.array([3.0]), np.array([0.25]))
    assert table.is_empty(first).tolist() == [True]
    assert table.total_weights().tolist() == [0.25, 0.0]
    table.add(first, np.array([3.0]), np.array([0.25]))
    assert table.is_empty().tolist() == [False, True]
    assert table.percentile(0.5).tolist() == [4.0, 0.0]


def test_a_residue_below_the_used_range_counts_in_the_total_and_in_no_walk() -> None:
    # Total 0.4 + 1 + 1; the walk begins at bucket 5: 1 of 2.4 is less than half, though 1.4 would be more.
    table = histograms(epsilon=0.5)
    add_series(table, 0, *columns([(1.0, 0.4, 0), (5.0, 1.0, 0), (8.0, 1.0, 0)]))
    assert table.percentile(0.5).tolist() == [9.0]
    assert table.percentile(0.4).tolist() == [6.0]


def test_subtract_leaves_nothing_negative_and_shrinks_the_used_range() -> None:
    table = filled([(3.0, 1.0, 0), (6.0, 1.0, 0)])
    table.subtract(np.array([0]), np.array([6.0]), np.array([5.0]))
    assert table.weights(0).tolist() == [0, 0, 0, 1.0, 0, 0, 0, 0, 0, 0, 0]
    assert table.total_weights().tolist() == [0.0]  # 2 - 5
    assert table.percentile(1.0).tolist() == [4.0]
    table.subtract(np.array([0]), np.array([3.0]), np.array([0.99995]))  # 0.00005 is below epsilon
    assert table.is_empty().tolist() == [True]
    assert table.weights(0).any() == False  # noqa: E712  # numpy's own bool


def test_forget_makes_rows_as_new() -> None:
    table = histograms(rows=2, half_life=DAY)
    table.add(np.arange(2), np.array([1.0, 2.0]), np.ones(2), np.full(2, MIDNIGHT))
    table.forget(np.array([0]))
    assert table.is_empty().tolist() == [True, False]
    assert table.percentile(0.5).tolist() == [0.0, 3.0]
    assert table.references()[1].tolist() == [False, True]
    assert table.total_weights().tolist() == [0.0, 1.0]


def test_grow_keeps_what_is_there_and_never_shrinks() -> None:
    table = filled([(1.0, 1.0, MIDNIGHT), (4.0, 1.0, MIDNIGHT)], half_life=DAY)
    before = table.percentile(0.9)[0]
    table.grow(3)
    table.grow(2)
    assert table.rows == 3
    assert table.percentile(0.9).tolist() == [before, 0.0, 0.0]
    assert table.references()[1].tolist() == [True, False, False]


def test_reach_tells_where_the_walk_ends_what_lies_below_and_what_the_bucket_holds() -> None:
    table = histograms(rows=2, epsilon=0.5)
    add_series(table, 0, *columns([(1.0, 0.25, 0), (2.0, 1.0, 0), (3.0, 2.0, 0)]))
    add_series(table, 1, *columns([(7.0, 4.0, 0), (9.0, 1.0, 0)]))
    # Half of 3.25 is reached by 1 + 2 in bucket 3, the residue in bucket 1 not counted; half of 5 by 4 in bucket 7.
    buckets, below, own = table.reach(0.5, np.array([1, 0]))
    assert (buckets.tolist(), below.tolist(), own.tolist()) == ([7, 3], [0.0, 1.0], [4.0, 2.0])


# --- decay


@pytest.mark.parametrize(
    ("unix_seconds", "half_life", "reference"),
    [
        (MIDNIGHT + 11 * HOUR, DAY, MIDNIGHT),
        (MIDNIGHT + 12 * HOUR, DAY, MIDNIGHT + DAY),  # halves go up
        (MIDNIGHT + 13 * HOUR, DAY, MIDNIGHT + DAY),
        (1234567890.0, HOUR, 1234569600.0),  # 23:31:30
        # Monday, 0001-01-01, is where weeks are counted from; the epoch was a Thursday. 2023-11-15 is a Wednesday.
        (MIDNIGHT, 7 * DAY, MIDNIGHT - 2 * DAY),
    ],
)
def test_first_sample_sets_the_reference_to_the_nearest_multiple_since_year_one(
    unix_seconds: float, half_life: float, reference: float
) -> None:
    table = filled([(1.0, 1.0, unix_seconds)], half_life=half_life)
    seconds, has = table.references()
    assert (seconds.tolist(), has.tolist()) == ([reference], [True])
    # 2^((t - reference) / half-life), to a few bits
    assert table.total_weights()[0] == pytest.approx(2 ** ((unix_seconds - reference) / half_life), rel=1e-15)


def test_reference_stays_for_100_half_lives_and_not_longer() -> None:
    table = filled([(1.0, 1.0, MIDNIGHT), (2.0, 1.0, MIDNIGHT + 100 * DAY)], half_life=DAY)
    assert table.references()[0].tolist() == [MIDNIGHT]
    assert table.weights(0)[1:3].tolist() == [1.0, 2.0**100]
    table.add(np.array([0]), np.array([3.0]), np.array([1.0]), np.array([MIDNIGHT + 100 * DAY + 1]))
    assert table.references()[0].tolist() == [MIDNIGHT + 100 * DAY]
    # The first sample is now 2^-100 of one: below epsilon, so the used range begins with the second.
    assert table.used(0).start == 2
    assert table.weights(0)[1:3].tolist() == [2.0**-100, 1.0]


def test_shift_rescales_the_used_range_only() -> None:
    table = histograms(epsilon=0.5, half_life=HOUR)
    add_series(table, 0, *columns([(1.0, 0.25, MIDNIGHT), (5.0, 1.0, MIDNIGHT)]))
    add_series(table, 0, *columns([(5.0, 1.0, MIDNIGHT + 101 * HOUR)]))
    assert table.weights(0)[[1, 5]].tolist() == [0.25, 1.0 + 2.0**-101]
    assert table.total_weights()[0] == 1.0 + 1.25 * 2.0**-101


def test_shift_that_empties_a_row_leaves_no_used_range() -> None:
    table = filled([(5.0, 1.0, MIDNIGHT)], half_life=HOUR)
    table.subtract(np.array([0]), np.array([5.0]), np.array([0.0]), np.array([MIDNIGHT + 2000 * HOUR]))
    assert table.is_empty().tolist() == [True]
    assert table.used(0) == slice(10, 1)


def test_a_sample_before_the_reference_counts_less() -> None:
    table = filled([(1.0, 1.0, MIDNIGHT), (2.0, 1.0, MIDNIGHT - DAY), (3.0, 1.0, MIDNIGHT - 2 * DAY)], half_life=DAY)
    assert table.weights(0)[1:4].tolist() == [1.0, 0.5, 0.25]


@pytest.mark.parametrize("operation", ["add", "subtract"])
def test_decaying_histograms_refuse_samples_without_a_time(operation: str) -> None:
    table = histograms(half_life=DAY)
    with pytest.raises(ValueError, match="need a time"):
        getattr(table, operation)(np.array([0]), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="need a time"):
        add_series(table, 0, np.ones(1), np.ones(1))


def test_histograms_that_do_not_decay_need_no_time_and_heed_none() -> None:
    table = histograms(rows=2)
    add_series(table, 0, np.array([1.0, 2.0]), np.ones(2))
    add_series(table, 1, np.array([1.0, 2.0]), np.ones(2), np.array([MIDNIGHT, 0.0]))
    assert table.weights(0).tolist() == table.weights(1).tolist()
    assert table.references()[1].tolist() == [False, False]


@pytest.mark.parametrize("options", [{"epsilon": 0.0}, {"epsilon": math.nan}, {"half_life": 0.0}, {"half_life": -1.0}])
def test_histograms_refuse_epsilon_and_half_life_that_are_not_positive(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="positive is allowed"):
        histograms(**options)


# --- merge


def test_merge_adds_the_used_range_and_the_total() -> None:
    table = histograms(rows=2, epsilon=0.5)
    add_series(table, 0, *columns([(1.0, 2.0, 0)]))
    add_series(table, 1, *columns([(3.0, 1.0, 0), (0.0, 0.25, 0)]))
    table.merge(0, table, 1)
    # The residue in bucket 0 counts in the total alone.
    assert table.weights(0)[:4].tolist() == [0.0, 2.0, 0.0, 1.0]
    assert table.total_weights().tolist() == [3.25, 1.25]
    assert table.percentile(1.0).tolist() == [4.0, 4.0]


def test_merge_of_an_empty_row_changes_nothing() -> None:
    table = histograms(rows=2)
    add_series(table, 0, *columns([(4.0, 2.0, 0)]))
    table.merge(0, table, 1)
    assert (table.used(0), table.total_weights()[0]) == (slice(4, 5), 2.0)


@pytest.mark.parametrize("older_row", [0, 1])
def test_merge_shifts_the_older_reference_to_the_younger_and_leaves_the_other_alone(older_row: int) -> None:
    table = histograms(rows=2, half_life=HOUR)
    add_series(table, older_row, *columns([(1.0, 1.0, MIDNIGHT)]))
    add_series(table, 1 - older_row, *columns([(5.0, 1.0, MIDNIGHT + 10 * HOUR)]))
    other = table.weights(1)
    table.merge(0, table, 1)
    assert table.references()[0][0] == MIDNIGHT + 10 * HOUR
    assert table.weights(0)[[1, 5]].tolist() == [2.0**-10, 1.0]
    assert table.weights(1).tolist() == other.tolist()


def test_merge_does_not_compensate_a_loaded_reference_between_multiples() -> None:
    table = histograms(rows=2, half_life=HOUR)
    weights = np.zeros(UNITS.count)
    weights[2] = 1.0
    table.load(0, weights, 1.0, MIDNIGHT)
    table.load(1, weights, 1.0, MIDNIGHT + 1.75 * HOUR)
    table.merge(0, table, 1)
    # To 02:00, two half-lives on; the other's weight enters as it is.
    assert table.references()[0][0] == MIDNIGHT + 2 * HOUR
    assert table.weights(0)[2] == 0.25 + 1.0


@pytest.mark.parametrize(
    "other", [histograms(CPU), histograms(epsilon=0.1), histograms(half_life=DAY)], ids=["scheme", "epsilon", "decay"]
)
def test_merge_refuses_histograms_of_another_kind(other: Histograms) -> None:
    with pytest.raises(ValueError, match="cannot be merged"):
        histograms().merge(0, other, 0)


# --- loading and arrays


def test_load_tightens_past_weights_below_epsilon() -> None:
    table = histograms(epsilon=0.5)
    table.load(0, np.array([0.25, 0, 2.0, 1.0, 0.25, 0, 0, 0, 0, 0, 0]), 3.5, None)
    assert (table.used(0), table.total_weights()[0]) == (slice(2, 4), 3.5)
    assert table.percentile(1.0).tolist() == [4.0]
    assert table.percentile(0.5).tolist() == [3.0]  # 2 of 3.5


def test_load_of_nothing_but_zeros_adds_not_even_the_total() -> None:
    table = histograms(half_life=HOUR)
    table.load(0, np.zeros(UNITS.count), 7.0, MIDNIGHT)
    assert (table.total_weights().tolist(), table.references()[0].tolist()) == ([0.0], [MIDNIGHT])


def test_a_row_loaded_without_reference_is_wiped_by_the_next_sample() -> None:
    table = histograms(half_life=DAY)
    table.load(0, np.eye(UNITS.count)[2], 1.0, None)
    assert table.percentile(0.5).tolist() == [3.0]
    add_series(table, 0, *columns([(7.0, 1.0, MIDNIGHT)]))
    assert table.weights(0).nonzero()[0].tolist() == [7]


def test_from_arrays_of_chosen_rows_holds_them_alone() -> None:
    table = histograms(rows=3)
    table.add(np.arange(3), np.array([1.0, 2.0, 3.0]), np.ones(3))
    again = Histograms.from_arrays(UNITS, table.to_arrays(np.array([2, 0])), epsilon=1e-4)
    assert again.percentile(0.5).tolist() == [4.0, 2.0]


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("entry_buckets", np.array([11]), "buckets 11 to 11 of 11"),
        ("entry_buckets", np.array([-1]), "buckets -1 to -1 of 11"),
        ("lowest_buckets", np.array([11]), "buckets 11 to 11 of 11"),
        ("entry_rows", np.array([1]), "out of bounds"),
        ("entry_rows", np.array([-1]), "row -1"),
        ("entry_weights", np.ones(2), "could not broadcast|shape mismatch"),
        ("highest_buckets", np.zeros(2, dtype=np.int64), "could not broadcast"),
        ("reference_unix_seconds", None, "reference_unix_seconds"),
    ],
)
def test_from_arrays_refuses_arrays_that_do_not_fit(name: str, array: Any, message: str) -> None:
    arrays = filled([(4.0, 1.0, 0)]).to_arrays()
    if array is None:
        del arrays[name]
    else:
        arrays[name] = array
    with pytest.raises(ValueError, match=message):
        Histograms.from_arrays(UNITS, arrays, epsilon=1e-4)


# --- properties

TIMES = st.integers(0, 400).map(lambda hours: MIDNIGHT + hours * HOUR / 2)
SAMPLES = st.tuples(st.floats(-1.0, 12.0), st.sampled_from([0.0, 0.1, 0.3, 1.0, 7.0]), TIMES)
HALF_LIVES = st.sampled_from([None, 600.0, HOUR, DAY])
OPERATIONS = st.tuples(st.sampled_from(["add", "add", "subtract"]), st.integers(0, 2), SAMPLES)


@given(st.lists(OPERATIONS, max_size=30), HALF_LIVES, st.sampled_from([1e-4, 0.2]), st.booleans())
def test_many_rows_at_once_are_one_histogram_each(
    operations: list[tuple[str, int, Sample]], half_life: float | None, epsilon: float, asks_between: bool
) -> None:
    many = histograms(rows=3, half_life=half_life, epsilon=epsilon)
    ones = [OneHistogram(UNITS, epsilon, half_life) for _ in range(3)]
    for operation, row, (value, weight, time) in operations:
        getattr(many, operation)(np.array([row]), np.array([value]), np.array([weight]), np.array([time]))
        getattr(ones[row], operation)(value, weight, time)
        if asks_between:
            assert many.percentile(0.5, np.array([row])).tolist() == [ones[row].percentile(0.5)]
    for row, histogram in enumerate(ones):
        assert_same(many, row, histogram)


@given(st.lists(SAMPLES, max_size=30), HALF_LIVES, st.sampled_from([1e-4, 0.2]))
def test_add_series_is_adding_one_by_one(samples: list[Sample], half_life: float | None, epsilon: float) -> None:
    histogram = OneHistogram(UNITS, epsilon, half_life)
    for sample in samples:
        histogram.add(*sample)
    assert_same(filled(samples, half_life=half_life, epsilon=epsilon), 0, histogram)


@given(
    st.lists(st.lists(SAMPLES, max_size=10), min_size=1, max_size=4), st.sampled_from([None, 3 * HOUR, DAY, 7 * DAY])
)
def test_merge_is_the_histogram_of_all_samples(parts: list[list[Sample]], half_life: float | None) -> None:
    table = histograms(rows=len(parts), half_life=half_life, epsilon=1e-30)
    for row, part in enumerate(parts):
        add_series(table, row, *columns(part))
    for row in range(1, len(parts)):
        table.merge(0, table, row)
    joint = filled([sample for part in parts for sample in part], half_life=half_life, epsilon=1e-30)
    # The parts' first samples set other references than the first of all: a power of two between the weights.
    factor = 2.0 ** ((table.references()[0][0] - joint.references()[0][0]) / half_life) if half_life else 1.0
    assert table.weights(0) * factor == pytest.approx(joint.weights(0), rel=1e-12)
    assert table.total_weights()[0] * factor == pytest.approx(joint.total_weights()[0], rel=1e-12)


@given(st.lists(st.tuples(st.floats(0.0, 12.0), st.sampled_from([0.25, 1.0, 4.0])), max_size=20), st.randoms())
def test_order_of_samples_of_one_time_does_not_matter(samples: list[tuple[float, float]], random: Any) -> None:
    # Weights are powers of two, so that sums are exact in any order.
    shuffled = random.sample(samples, len(samples))
    first, second = (
        filled([(value, weight, MIDNIGHT) for value, weight in order], half_life=DAY) for order in (samples, shuffled)
    )
    assert first.weights(0).tolist() == second.weights(0).tolist()
    assert first.percentile(0.9).tolist() == second.percentile(0.9).tolist()


@given(st.lists(SAMPLES, min_size=1), st.floats(0.0, 1.0), st.floats(0.0, 1.0), HALF_LIVES)
def test_percentile_rises_with_p(samples: list[Sample], one: float, other: float, half_life: float | None) -> None:
    table = filled(samples, half_life=half_life)
    low, high = sorted((one, other))
    assert table.percentile(low)[0] <= table.percentile(high)[0]


@given(st.lists(st.floats(0.0, 40.0), min_size=1), st.floats(0.0, 1.0), st.integers(-20, 20))
def test_percentile_scales_with_values_and_scheme(values: list[float], p: float, power: int) -> None:
    factor = 2.0**power
    plain, scaled = histograms(LinearScheme(40.0, 0.5)), histograms(LinearScheme(40.0 * factor, 0.5 * factor))
    add_series(plain, 0, np.array(values), np.ones(len(values)))
    add_series(scaled, 0, np.array(values) * factor, np.ones(len(values)))
    assert scaled.percentile(p)[0] == plain.percentile(p)[0] * factor


@given(st.lists(st.tuples(st.integers(0, 2), SAMPLES), max_size=20), HALF_LIVES, st.sampled_from([1e-4, 0.2]))
def test_arrays_lose_nothing(samples: list[tuple[int, Sample]], half_life: float | None, epsilon: float) -> None:
    table = histograms(rows=3, half_life=half_life, epsilon=epsilon)
    for row, sample in samples:
        add_series(table, row, *columns([sample]))
    again = Histograms.from_arrays(UNITS, table.to_arrays(), epsilon=epsilon, half_life_seconds=half_life)
    for some in (table, again):
        for row in range(3):
            add_series(some, row, *columns([(3.0, 0.1, MIDNIGHT + 50 * DAY)]))
    for row in range(3):
        assert again.weights(row).tolist() == table.weights(row).tolist()
        assert again.used(row) == table.used(row)
    for state, state_again in zip(table.to_arrays().values(), again.to_arrays().values(), strict=True):
        assert state_again.tolist() == state.tolist()
    assert again.percentile(0.9).tolist() == table.percentile(0.9).tolist()


def test_samples_below_epsilon_in_a_series_count_in_the_total_and_use_no_bucket() -> None:
    many = histograms()
    light = many.epsilon / 4
    add_series(many, 0, np.array([1.0, 2.0]), np.array([light, light]))
    assert many.percentile(0.5).tolist() == [0.0]
    assert many.total_weights().tolist() == [2 * light]
