from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.numbers.percentile import percentile

finite = st.floats(min_value=0, max_value=1e12, allow_nan=False)


@pytest.mark.parametrize(
    ("values", "ratio", "expected"),
    [
        ([0.37], 0.75, 0.37),  # a single value is its own percentile (vector ck-base-06)
        ([0.1, 0.2, 0.3, 0.4, 0.5], 0.75, 0.4),  # rank 0.75 x 4 = 3: the fourth (ck-base-01)
        ([0.5, 0.1], 0.75, 0.4),  # rank 0.75: 0.1 + 0.75 x 0.4
        ([3.0, 1.0, 2.0], 0.0, 1.0),
        ([3.0, 1.0, 2.0], 1.0, 3.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.5),  # rank 1.5
    ],
)
def test_percentile_is_linear_between_ranks(values: list[float], ratio: float, expected: float) -> None:
    assert percentile(np.array(values), ratio) == pytest.approx(expected, abs=1e-12)


def test_percentile_of_nothing_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="percentile of no values"):
        percentile(np.array([]), 0.5)


@pytest.mark.parametrize("ratio", [-0.01, 1.01, float("nan")])
def test_percentile_ratio_out_of_range_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        percentile(np.array([1.0]), ratio)


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=40), st.floats(min_value=0, max_value=1))
def test_percentile_lies_between_the_extremes_and_leaves_its_input(values: list[float], ratio: float) -> None:
    array = np.array(values)
    assert min(values) <= percentile(array, ratio) <= max(values)
    assert array.tolist() == values


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=40), st.floats(min_value=0, max_value=1))
def test_percentile_agrees_with_numpy(values: list[float], ratio: float) -> None:
    expected = float(np.quantile(np.array(values), ratio))
    assert percentile(np.array(values), ratio) == pytest.approx(expected, rel=1e-9, abs=1e-9)
