from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.bucket_scheme import LinearScheme
from agent.core.numbers.histogram import Histograms
from agent.core.recommender.vpa.checkpoint import Checkpoint, CheckpointError, StateCheckpoint, load, load_state, save
from tests.histograms import add_series

UNITS = LinearScheme(10.0, 1.0)
MIDNIGHT = 1_700_006_400.0
HOUR = 3600.0


def histograms(half_life: float | None = None, epsilon: float = 1e-4) -> Histograms:
    return Histograms(UNITS, epsilon=epsilon, rows=1, half_life_seconds=half_life)


def filled(weights: dict[float, float], half_life: float | None = None) -> Histograms:
    histogram = histograms(half_life)
    values = np.array(list(weights), dtype=np.float64)
    add_series(histogram, 0, values, np.array(list(weights.values()), dtype=np.float64), np.full(values.size, MIDNIGHT))
    return histogram


def test_save_scales_the_largest_weight_to_10000_and_rounds_half_up() -> None:
    # 4 is the largest, so 1 becomes 2500; 0.0001 x 2500 = 0.25 is rounded to 0 and dropped; 0.0002 x 2500 = 0.5 up.
    saved = save(filled({1.0: 4.0, 2.0: 1.0, 3.0: 0.0001, 4.0: 0.0002}), 0)
    assert saved.bucket_weights == {1: 10000, 2: 2500, 4: 1}
    assert saved.total_weight == pytest.approx(5.0003)
    assert saved.reference_unix_seconds is None


def test_save_of_an_empty_row_has_no_weights() -> None:
    assert save(histograms(), 0) == Checkpoint(bucket_weights={}, total_weight=0.0)


def test_save_keeps_the_reference() -> None:
    assert save(filled({1.0: 1.0}, HOUR), 0).reference_unix_seconds == MIDNIGHT


def test_load_spreads_the_total_by_weight_and_sets_the_reference() -> None:
    histogram = histograms(HOUR)
    load(histogram, 0, Checkpoint(bucket_weights={0: 1, 1: 2}, total_weight=6.0, reference_unix_seconds=MIDNIGHT + 5))
    assert histogram.weights(0)[:2].tolist() == [2.0, 4.0]
    assert histogram.total_weights().tolist() == [6.0]
    assert histogram.references()[0].tolist() == [MIDNIGHT + 5]


@pytest.mark.parametrize("weights", [{}, {3: 0}])
def test_load_of_zero_weights_is_empty_whatever_the_total(weights: dict[int, int]) -> None:
    histogram = histograms()
    load(histogram, 0, Checkpoint(bucket_weights=weights, total_weight=6.0))
    assert histogram.is_empty().tolist() == [True]
    assert histogram.total_weights().tolist() == [0.0]


def test_load_does_not_come_out_empty_when_the_lowest_weight_falls_below_epsilon() -> None:
    # Autoscaler issue 7726: 1 of 10001 of a total of 1 is 0.9999e-4, just below epsilon.
    histogram = histograms()
    load(histogram, 0, Checkpoint(bucket_weights={0: 1, 5: 10000}, total_weight=1.0))
    assert histogram.is_empty().tolist() == [False]
    assert histogram.percentile(0.5).tolist() == [6.0]


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (None, "checkpoint of a histogram is missing"),
        (Checkpoint(bucket_weights={-1: 1}, total_weight=1.0), "bucket -1: 0 to 10 are allowed"),
        (Checkpoint(bucket_weights={11: 1}, total_weight=1.0), "bucket 11: 0 to 10 are allowed"),
        (Checkpoint(bucket_weights={1: -1}, total_weight=1.0), "weight -1 of bucket 1: 0 or more is allowed"),
        (Checkpoint(bucket_weights={1: 1}, total_weight=-1.0), "total weight -1.0: 0 or more"),
        (Checkpoint(bucket_weights={1: 1}, total_weight=math.nan), "total weight nan: 0 or more"),
        (Checkpoint(bucket_weights={1: 1}, total_weight=math.inf), "total weight inf: 0 or more"),
    ],
)
def test_load_refuses_what_is_out_of_range_and_adds_nothing(checkpoint: Checkpoint | None, message: str) -> None:
    histogram = histograms()
    with pytest.raises(CheckpointError, match=message) as caught:
        load(histogram, 0, checkpoint)
    assert "\n" not in str(caught.value)
    assert histogram.is_empty().tolist() == [True]


@given(
    st.dictionaries(st.integers(0, 10).map(float), st.floats(0.001, 1000.0), min_size=1),
    st.sampled_from([None, HOUR, 86400.0]),
)
def test_round_trip_keeps_weights_to_a_10000th_of_the_largest(weights: dict[float, float], half_life: Any) -> None:
    before, after = filled(weights, half_life), histograms(half_life)
    load(after, 0, save(before, 0))
    assert after.total_weights().tolist() == before.total_weights().tolist()
    assert after.references()[0].tolist() == before.references()[0].tolist()
    # Each of 11 weights is off by half a 10,000th of the largest, and their sum is spread over the same total.
    largest = float(before.weights(0).max())
    assert after.weights(0) == pytest.approx(before.weights(0), abs=largest * 11 * 0.5e-4 * 2)


def state(**changes: Any) -> StateCheckpoint:
    cpu, memory = (Checkpoint(bucket_weights={bucket: 10}, total_weight=33.0) for bucket in (1, 2))
    return StateCheckpoint(
        **{
            "first_sample_unix_seconds": None,
            "last_sample_unix_seconds": None,
            "samples": 20,
            "cpu": cpu,
            "memory": memory,
            **changes,
        }
    )


def test_load_state_fills_both_histograms() -> None:
    cpu, memory = histograms(), histograms()
    load_state(cpu, memory, 0, state())
    assert (cpu.weights(0)[1], memory.weights(0)[2]) == (33.0, 33.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "foo"}, "checkpoint of version 'foo': 'v3' is allowed"),
        ({"memory": Checkpoint(bucket_weights={99: 1}, total_weight=1.0)}, "bucket 99"),
    ],
)
def test_load_state_refuses_another_version_or_a_bad_histogram_and_adds_nothing(
    changes: dict[str, Any], message: str
) -> None:
    cpu, memory = histograms(), histograms()
    with pytest.raises(CheckpointError, match=message):
        load_state(cpu, memory, 0, state(**changes))
    assert cpu.is_empty().tolist() == memory.is_empty().tolist() == [True]
