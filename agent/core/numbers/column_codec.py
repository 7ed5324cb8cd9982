"""Columns of counters as small bytes: differences, their signs folded in, cut into planes of one byte each.

Core, pure. A counter that is read each second grows by little, and a stamp by nearly the same each time; so of eight
bytes all but one or two are 0 everywhere. Planes that are 0 everywhere are left out, and the others lie together, which
is what a general compressor needs to see.

Everything is modulo 2**64, so a counter that falls or wraps comes back as it was: nothing is lost, whatever the values.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Planes = NDArray[np.uint8]

WORD_BYTES: Final = 8
MAX_ORDER: Final = 2
"""2 = differences of differences: for stamps of a steady rhythm."""
_SIGN: Final = np.uint64(63)
_ONE: Final = np.uint64(1)


def to_planes(words: Words, order: int) -> Planes:
    """Return the planes of a column.

    Args:
        words: The column, shape ``(n,)``.
        order: How often differences are taken, 0 to `MAX_ORDER`.

    Returns:
        Shape ``(k, n)``, the lowest byte first; k is as small as can be, 0 where all differences are 0.
    """
    for _ in range(order):
        words = np.diff(words, prepend=np.uint64(0))
    # The sign goes into the lowest bit, so that -1 is as small as 1.
    folded = (words << _ONE) ^ (np.uint64(0) - (words >> _SIGN))
    planes = np.ascontiguousarray(folded.astype("<u8", copy=False)).view(np.uint8).reshape(-1, WORD_BYTES).T
    used = int(folded.max(initial=0)).bit_length()
    return np.ascontiguousarray(planes[: -(-used // 8)])


def from_planes(planes: Planes, order: int) -> Words:
    """Return the column of planes; the inverse of `to_planes` with the same order."""
    whole = np.zeros((planes.shape[1], WORD_BYTES), dtype=np.uint8)
    whole[:, : planes.shape[0]] = planes.T
    folded = whole.view("<u8").ravel().astype(np.uint64, copy=False)
    words: Words = (folded >> _ONE) ^ (np.uint64(0) - (folded & _ONE))
    for _ in range(order):
        words = np.cumsum(words, dtype=np.uint64)
    return words
