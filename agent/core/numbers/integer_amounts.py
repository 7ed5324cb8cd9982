"""Integer amounts as the Vertical Pod Autoscaler counts them: millicores and bytes, every step truncated. Core, pure.

Each function works on whole arrays: estimates of many containers go through the chain together.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from agent.core.numbers.arrays import Ints

MAX_AMOUNT: Final = 100_000_000_000_000
"""The largest amount; a bound that nothing is known about ends here. 1e14, exact as a float."""


def from_float(values: ArrayLike) -> Ints:
    """Return amounts from floats: truncated toward zero, within 0..``MAX_AMOUNT``.

    Args:
        values: Millicores or bytes, any shape; infinity is allowed, and what is no number becomes 0.

    Returns:
        Amounts of the same shape.

    Source:
        recommender/model/types.go of the Vertical Pod Autoscaler 1.8.1. There, what becomes of "not a number" is left
        to the processor; 0 lets the minimum win, as it does on common hardware.
    """
    # fmax and fmin prefer the number to NaN, so "not a number" leaves as 0.
    return np.fmin(np.fmax(np.asarray(values, dtype=np.float64), 0.0), float(MAX_AMOUNT)).astype(np.int64)


def cpu_from_cores(cores: ArrayLike) -> Ints:
    """Return millicores from cores: multiplied first, then truncated."""
    with np.errstate(over="ignore"):
        return from_float(np.asarray(cores, dtype=np.float64) * 1000.0)


def memory_from_bytes(byte_counts: ArrayLike) -> Ints:
    """Return whole bytes from a float of bytes, truncated."""
    return from_float(byte_counts)


def scale(amounts: ArrayLike, factor: ArrayLike) -> Ints:
    """Multiply amounts by a factor and truncate; the factor may be infinite (0 x infinity gives 0)."""
    with np.errstate(invalid="ignore", over="ignore"):
        return from_float(np.asarray(amounts, dtype=np.float64) * np.asarray(factor, dtype=np.float64))
