"""How long rows of a trace stand when they are further apart than its grid: on minutes, and on seconds alike.

Core, pure. Each cell up to the container's next row has the row's values, as long as the next is no further away than
twice the usual interval (the median distance of its rows, in whole cells, at least one). Beyond that there is a gap,
and the row holds for the usual interval; so does the last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.arrays import Bools, Ints

Kind = TypeVar("Kind", np.float32, np.float64, np.uint16, np.bool_)


@dataclass(frozen=True, slots=True)
class Hold:
    """For which cells one container's rows stand."""

    usual_cells: int
    after_cell: int
    """The first cell after the last row's hold."""
    targets: Ints | None
    """Cells that have values; None = each row stands for its own cell and no more."""
    sources: Ints | None
    """The cells of their rows, beside ``targets``."""


def holds_of(has_row: Bools) -> list[Hold]:
    """Find out for each container how long its rows hold; shape ``(cells, n)``; a column may have none."""
    holds = []
    for column in np.ascontiguousarray(has_row.T):
        at = np.flatnonzero(column)
        if not at.size:
            holds.append(Hold(1, 0, None, None))
            continue
        apart = np.diff(at)
        usual = max(int(np.median(apart)), 1) if apart.size else 1
        lasts = np.append(np.where(apart <= 2 * usual, apart, usual), usual)
        if (lasts == 1).all():
            holds.append(Hold(usual, int(at[-1]) + 1, None, None))
            continue
        sources = np.repeat(at, lasts)
        into = np.arange(sources.size) - np.repeat(np.cumsum(lasts) - lasts, lasts)
        holds.append(Hold(usual, int(at[-1]) + usual, sources + into, sources))
    return holds


def held_over(grid: NDArray[Kind], holds: Sequence[Hold], cells: int) -> NDArray[Kind]:
    """Spread values over the cells for which their rows hold; ``cells`` are at least all of theirs."""
    if all(hold.sources is None for hold in holds):
        return np.ascontiguousarray(grid)
    spread = np.zeros((cells, grid.shape[1]), dtype=grid.dtype)
    spread[: grid.shape[0]] = grid
    for row, hold in enumerate(holds):
        if hold.sources is not None:
            spread[hold.targets, row] = grid[hold.sources, row]
    return spread
