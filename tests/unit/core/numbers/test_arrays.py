"""Which values an array holds."""

from __future__ import annotations

import numpy as np
import pytest

from agent.core.numbers.arrays import distinct


@pytest.mark.parametrize("values", [[], [3], [2, 2, 2], [5, -1, 5, 0, -1, 7]])
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    given = np.array(values, dtype=np.int64)
    assert distinct(given).tolist() == np.unique(given).tolist()
    assert given.tolist() == values
