"""core/history/minute/minute_codec.py: sixteen bits that never understate an amount."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.minute.minute_codec import LARGEST, MISSING, decode, encode

ALL_CODES = np.arange(2**16).astype(np.uint16)
AMOUNTS = st.floats(min_value=0, max_value=LARGEST, allow_nan=False)


def stored(*amounts: float) -> list[float]:
    """Return what amounts come back as."""
    values = np.array(amounts)
    back, has = decode(encode(values, np.ones(values.size, dtype=np.bool_)))
    assert has.all()
    return [float(amount) for amount in back]


def test_whole_amounts_below_4096_come_back_exactly() -> None:
    amounts = np.arange(4096.0)
    back, has = decode(encode(amounts, np.ones(4096, dtype=np.bool_)))
    assert np.array_equal(back, amounts)
    assert has.all()


def test_amounts_between_two_of_the_format_are_rounded_up() -> None:
    # Above 4,096 twelve bits are kept: steps of 2 up to 8,192, then of 4.
    assert stored(0.001, 1.5, 4095.5, 4096, 4097, 8191, 8193) == [1, 2, 4096, 4096, 4098, 8192, 8196]


def test_amount_past_the_largest_is_the_largest() -> None:
    assert stored(LARGEST, LARGEST * 2, 1e300) == [LARGEST] * 3
    # Exponent 31 shifts by 30; 4,095 of mantissa would be the code after the last: 4,094 x 2**30, in KiB almost 4 PiB.
    assert LARGEST == 4094 * 2**30


def test_missing_amount_is_code_zero_and_comes_back_as_not_there() -> None:
    # What is masked means nothing, so that even NaN may stand there.
    codes = encode(np.array([5.0, np.nan, -1.0]), np.array([True, False, False]))
    assert codes.tolist() == [6, MISSING, MISSING]
    amounts, has = decode(codes)
    assert has.tolist() == [True, False, False]
    assert amounts.tolist() == [5.0, 0.0, 0.0]


@pytest.mark.parametrize("amount", [-0.5, float("nan"), float("inf")])
def test_amount_that_is_none_is_refused_and_named(amount: float) -> None:
    with pytest.raises(ValueError, match=rf"amount {amount}, allowed are finite numbers from 0"):
        encode(np.array([1.0, amount]), np.array([True, True]))


def test_every_code_comes_back_as_itself_and_amounts_rise_with_codes() -> None:
    amounts, has = decode(ALL_CODES)
    assert np.array_equal(encode(amounts, has), ALL_CODES)
    assert np.all(np.diff(amounts[1:]) > 0)


def test_shapes_of_two_and_three_axes_are_kept() -> None:
    amounts = np.arange(24.0).reshape(2, 3, 4)
    back, has = decode(encode(amounts, amounts > 2))
    assert np.array_equal(back, np.where(amounts > 2, amounts, 0))
    assert has.shape == (2, 3, 4)


def test_nothing_is_nothing() -> None:
    amounts, has = decode(encode(np.zeros(0), np.zeros(0, dtype=np.bool_)))
    assert amounts.size == has.size == 0


@given(AMOUNTS)
def test_stored_amount_is_never_smaller_and_less_than_one_in_2048_larger(amount: float) -> None:
    (back,) = stored(amount)
    assert back >= amount
    grown = Fraction(back) - Fraction(amount)  # exact: 1 - 1e-38 is no number of floating point
    assert grown < 1 or grown < Fraction(amount) / 2048


@given(st.lists(AMOUNTS, min_size=2, max_size=30))
def test_stored_amounts_keep_their_order(amounts: list[float]) -> None:
    back = stored(*sorted(amounts))
    assert back == sorted(back)


@given(AMOUNTS)
def test_stored_amount_is_stored_as_itself(amount: float) -> None:
    (back,) = stored(amount)
    assert stored(back) == [back]
