"""The array types of one row a container (floats, whole numbers, truths, places), and which values one holds."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.intp]

_Figure = TypeVar("_Figure", np.float32, np.bool_, np.uint8, np.uint16)


def distinct(values: Ints) -> Ints:
    """Return the values that occur, rising, each once.

    As ``np.unique`` does, which imports ``numpy.ma`` at its first call: a megabyte in every agent.
    """
    rising = np.sort(values)
    is_first = np.ones(rising.size, dtype=np.bool_)
    is_first[1:] = rising[1:] != rising[:-1]
    return rising[is_first]


def widened(figures: NDArray[_Figure], rows: int) -> NDArray[_Figure]:
    """Return the figures with a last axis of at least so many rows; the new ones are 0.

    As ``np.pad`` does, which writes the zeros: here memory that holds nothing but zeros is never touched, and so takes
    none. Of the slots of a week most are empty for days.
    """
    more = rows - figures.shape[-1]
    if more <= 0:
        return figures
    wide = np.zeros((*figures.shape[:-1], rows), dtype=figures.dtype)
    np.copyto(wide[..., : figures.shape[-1]], figures, where=figures != 0)
    return wide
