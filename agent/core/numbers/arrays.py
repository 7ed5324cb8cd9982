"""The array types of one row a container (floats, whole numbers, truths, places), and which values one holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.intp]


def distinct(values: Ints) -> Ints:
    """Return the values that occur, rising, each once.

    As ``np.unique`` does, which imports ``numpy.ma`` at its first call: a megabyte in every agent.
    """
    rising = np.sort(values)
    is_first = np.ones(rising.size, dtype=np.bool_)
    is_first[1:] = rising[1:] != rising[:-1]
    return rising[is_first]
