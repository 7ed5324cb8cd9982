"""Columns into planes of bytes and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.column_codec import MAX_ORDER, from_planes, to_planes

WORDS = st.lists(st.integers(0, 2**64 - 1), max_size=50)


@given(WORDS, st.integers(0, MAX_ORDER))
def test_planes_of_any_column_give_it_back(values: list[int], order: int) -> None:
    words = np.array(values, dtype=np.uint64)
    planes = to_planes(words, order)
    assert planes.dtype == np.uint8
    assert planes.shape[1] == len(values)
    assert from_planes(planes, order).tolist() == values


def test_planes_of_a_counter_that_falls_and_wraps_give_it_back() -> None:
    # A reset to 5, then a wrap of 64 bits.
    values = [10**15, 10**15 + 7, 5, 2**64 - 1, 3]
    for order in range(MAX_ORDER + 1):
        assert from_planes(to_planes(np.array(values, dtype=np.uint64), order), order).tolist() == values


def test_planes_of_small_steps_are_one_byte_whatever_the_counter() -> None:
    # Steps of -60 to +60 are at most 120 with the sign folded in; only the first difference is the counter itself.
    steps = np.array([0, 60, -60, 1, -1, 0], dtype=np.int64)
    words = (np.int64(10**12) + np.cumsum(steps)).astype(np.uint64)
    planes = to_planes(words, 1)
    assert (planes[1:, 1:] == 0).all()
    assert planes[0, 1:].tolist() == [120, 119, 2, 1, 0]


def test_planes_of_a_steady_rhythm_vanish_but_for_its_beginning() -> None:
    words = np.arange(100, dtype=np.uint64) * np.uint64(10**9) + np.uint64(7)
    assert not to_planes(words, 2)[:, 2:].any()


@pytest.mark.parametrize("count", [0, 3])
def test_planes_of_zeros_are_none_at_all(count: int) -> None:
    planes = to_planes(np.zeros(count, dtype=np.uint64), 1)
    assert planes.shape == (0, count)
    assert from_planes(planes, 1).tolist() == [0] * count
