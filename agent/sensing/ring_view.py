"""The rings seen in memory: one kind of row over all slots, and the views that readers take of it.

Sensing. Nothing here knows of files, paths or free slots; see rings.py for who writes and who reads.
"""

from __future__ import annotations

import mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.window.ring_rows import SLOT_HEADER
from agent.sensing.state_file import RingGeometry

Rows = NDArray[np.void]


def field_offset(name: str) -> int:
    """Return the offset in bytes of a field of the slot header."""
    fields = SLOT_HEADER.fields
    if fields is None:  # a plain dtype has none; SLOT_HEADER is a record
        raise TypeError(name)
    return fields[name][1]


GENERATION_OFFSET: Final = field_offset("generation")


class Ring:
    """One of the three rings, over all slots."""

    __slots__ = ("dtype", "generation_index", "halves", "head_index", "heads", "length", "rows", "stride", "words")

    def __init__(
        self,
        memory: mmap.mmap,
        words: memoryview,
        halves: memoryview,
        geometry: RingGeometry,
        *,
        head: int,
        offset: int,
        length: int,
        dtype: np.dtype[np.void],
    ) -> None:
        self.words = words
        self.halves = halves
        self.stride = geometry.slot_stride
        self.head_index = geometry.first_slot_offset + head
        self.generation_index = geometry.first_slot_offset + GENERATION_OFFSET
        self.length = length
        self.dtype = dtype
        self.rows: Rows = np.ndarray(
            shape=(geometry.max_slots, length),
            dtype=dtype,
            buffer=memory,
            offset=geometry.first_slot_offset + offset,
            strides=(self.stride, dtype.itemsize),
        )
        self.heads: NDArray[np.int64] = np.ndarray(
            shape=(geometry.max_slots,),
            dtype=np.int64,
            buffer=memory,
            offset=self.head_index,
            strides=(self.stride,),
        )
        """What ``head`` says of each slot: to be asked for many slots at once."""

    def head(self, slot: int) -> int:
        """Return how many rows were ever written; row ``i`` lies at ``i % length``."""
        return int(self.words[(self.head_index + slot * self.stride) >> 3])

    def generation(self, slot: int) -> int:
        """Return which cgroup stands behind the slot."""
        return int(self.halves[(self.generation_index + slot * self.stride) >> 2])

    def append(self, slot: int, row: Rows | np.void) -> None:
        """Write one row over the oldest, then publish it; one writer at a time."""
        head = self.head(slot)
        at = head % self.length
        self.rows[slot, at : at + 1] = row
        self.words[(self.head_index + slot * self.stride) >> 3] = head + 1

    def view(self, slot: int, rows: int | None) -> RingView:
        """View the newest rows; None is as many as can be shown."""
        return RingView(self, slot, self.length - 1 if rows is None else rows)


class RingView:
    """The newest rows of one ring of one slot, oldest first, without a copy.

    Use the pieces, then ask `intact`: only then were all rows what they seemed. Or take `joined`.
    """

    __slots__ = ("_ring", "_slot", "first", "generation", "head", "pieces")

    pieces: tuple[Rows, ...]
    """At most two views on the ring's memory, shape ``(n,)`` each, oldest first; none when there is no row."""

    def __init__(self, ring: Ring, slot: int, rows: int) -> None:
        self._ring = ring
        self._slot = slot
        self.generation = ring.generation(slot)
        self.head = ring.head(slot)
        # One row less than the ring holds: the oldest is the one that the writer may be overwriting now.
        count = max(0, min(rows, self.head, ring.length - 1))
        self.first = self.head - count
        begin, end = self.first % ring.length, self.head % ring.length
        stored: Rows = ring.rows[slot]
        if count == 0:
            self.pieces = ()
        elif begin < end:
            self.pieces = (stored[begin:end],)
        elif end == 0:
            self.pieces = (stored[begin:],)
        else:
            self.pieces = (stored[begin:], stored[:end])

    def __len__(self) -> int:
        return self.head - self.first

    def intact(self) -> bool:
        """Return, after use, whether no row of this view was overwritten and the slot is still the same cgroup's."""
        ring = self._ring
        head = ring.head(self._slot)  # before the generation: an attach bumps the generation first, then clears heads
        # The row at index `head` is being written now, over row `head - length`.
        return ring.generation(self._slot) == self.generation and self.head <= head < self.first + ring.length

    def joined(self) -> Rows:
        """Return a copy in one array, shape ``(n,)``; of fewer rows if the writer was faster.

        Returns:
            The rows, oldest first; empty when there are none or when the slot went to another cgroup meanwhile.
        """
        view = self
        while True:
            # Of one piece a copy: to join records numpy works out in Python, each time, which fields they share.
            first, *more = view.pieces or (np.empty(0, view._ring.dtype),)
            copy = np.concatenate(view.pieces) if more else first.copy()
            if view.intact():
                return copy
            again = RingView(self._ring, self._slot, len(view) // 2)
            if again.generation != self.generation or len(view) == 0:
                return np.empty(0, self._ring.dtype)
            view = again
