"""Which values an array holds."""

from __future__ import annotations

import numpy as np
import pytest

from agent.core.numbers.arrays import distinct, widened


@pytest.mark.parametrize("values", [[], [3], [2, 2, 2], [5, -1, 5, 0, -1, 7]])
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    given = np.array(values, dtype=np.int64)
    assert distinct(given).tolist() == np.unique(given).tolist()
    assert given.tolist() == values


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (4, 2, 3)])
@pytest.mark.parametrize("more", [0, 1, 5])
def test_widened_figures_are_those_of_numpys_padding(shape: tuple[int, ...], more: int) -> None:
    figures = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    wide = widened(figures, shape[-1] + more)
    assert wide.dtype == np.float32
    assert wide.tolist() == np.pad(figures, [(0, 0)] * (len(shape) - 1) + [(0, more)]).tolist()


def test_figures_that_are_wide_enough_stay_as_they_are() -> None:
    figures = np.ones((2, 3), dtype=np.bool_)
    assert widened(figures, 2) is figures
