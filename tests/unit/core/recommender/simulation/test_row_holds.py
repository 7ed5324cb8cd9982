"""For which cells rows stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from agent.core.recommender.simulation.row_holds import held_over, holds_of


@pytest.mark.parametrize(
    ("places", "length", "stands"),
    [
        ([0, 1, 2], 3, "012"),
        ([0, 2, 4], 6, "002244"),
        ([0, 2, 4, 8], 10, "00224444" + "88"),  # twice the usual distance is bridged
        ([0, 2, 4, 9], 11, "002244...99"),  # more is not: the row holds for the usual two
        ([3], 4, "...3"),
        ([], 2, ".."),
    ],
)
def test_rows_hold_until_the_next(places: Sequence[int], length: int, stands: str) -> None:
    has = np.zeros((max(length, 1), 1), np.bool_)
    has[list(places)] = True
    values = np.arange(has.shape[0], dtype=np.float32)[:, None] * has
    holds = holds_of(has)
    cells = max(has.shape[0], holds[0].after_cell)
    spread, known = held_over(values, holds, cells), held_over(has, holds, cells)
    text = "".join(f"{value:.0f}" if there else "." for value, there in zip(spread[:, 0], known[:, 0], strict=True))
    assert text == stands
