from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.integer_amounts import MAX_AMOUNT, cpu_from_cores, from_float, memory_from_bytes, scale


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (100.9, 100),
        (-50.5, 0),
        (-0.0, 0),
        (1e14, MAX_AMOUNT),
        (1.1e14, MAX_AMOUNT),
        (math.inf, MAX_AMOUNT),
        (-math.inf, 0),
        (math.nan, 0),
    ],
)
def test_from_float_truncates_and_keeps_within_0_and_the_largest_amount(value: float, amount: int) -> None:
    assert int(from_float(value)) == amount
    assert from_float([value, 1.0]).tolist() == [amount, 1]


@given(st.lists(st.floats(), max_size=20))
def test_from_float_of_anything_is_an_amount(values: list[float]) -> None:
    amounts = from_float(values)
    assert amounts.dtype == np.int64
    assert all(0 <= amount <= MAX_AMOUNT for amount in amounts.tolist())


def test_cpu_from_cores_multiplies_before_truncating() -> None:
    # 0.29 is stored a little low, yet 0.29 x 1000 rounds to 290; the largest float overflows to the largest amount.
    assert cpu_from_cores([0.29, 0.0009, 1e308]).tolist() == [290, 0, MAX_AMOUNT]


def test_memory_from_bytes_truncates() -> None:
    # The third bucket of memory starts a hair below 31525000 in binary floating point.
    assert memory_from_bytes([31524999.999999996, 0.9]).tolist() == [31524999, 0]


def test_scale_truncates_each_amount_by_its_factor() -> None:
    # 4 x 2.124 = 8.496; 0 x infinity is no number and counts as 0; 1e14 x 2 is cut.
    assert scale([4, 0, 7, MAX_AMOUNT], [2.124, math.inf, math.inf, 2.0]).tolist() == [8, 0, MAX_AMOUNT, MAX_AMOUNT]
