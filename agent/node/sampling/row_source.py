"""What the observer reads from: the rings of a running sampler, or the rows of a recording.

Node. Protocols only; ``RingFile`` and ``WindowReader`` of sensing satisfy them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agent.core.window.cpu import CpuSums
from agent.core.window.memory import MemorySums
from agent.core.window.minute_row import MinuteSums
from agent.core.window.policy import WindowPolicy

Rows = NDArray[np.void]


class RowView(Protocol):
    """The newest rows of one kind of one unit, oldest first. Use the pieces, then ask `intact`; or take `joined`."""

    @property
    def pieces(self) -> Sequence[Rows]:
        """Return the rows in at most two arrays, shape ``(n,)`` each."""

    def __len__(self) -> int: ...

    def intact(self) -> bool:
        """Return, after use, whether the rows were what they seemed."""

    def joined(self) -> Rows:
        """Return a copy in one array."""


class RowSource(Protocol):
    """Rows by slot: one slot for each unit."""

    def raw(self, slot: int, rows: int | None = None) -> RowView:
        """View the newest samples (dtype `SAMPLE`); None = all there are."""

    def memory(self, slot: int, rows: int | None = None) -> RowView:
        """View the newest memory rows (dtype `MEMORY_ROW`)."""

    def minutes(self, slot: int, rows: int | None = None) -> RowView:
        """View the newest minute rows (dtype `MINUTE_ROW`)."""

    def newest_rows(self, slots: Sequence[int]) -> Rows:
        """Return a copy of the newest sample of each slot, shape ``(len(slots),)``; ``ABSENT`` where there is none."""

    def newest_minutes(self, slots: Sequence[int]) -> list[int | None]:
        """Return the ``monotonic_minute`` of the newest minute row of each slot; None where there is none."""

    def inode(self, slot: int) -> int:
        """Return the inode of the cgroup behind a slot."""

    def generation(self, slot: int) -> int:
        """Return which cgroup stands behind the slot."""

    def append_minute(self, slot: int, row: Rows | np.void, *, generation: int | None = None) -> bool:
        """Append one `MINUTE_ROW`; with a generation only while that cgroup still stands behind the slot."""


class SumSource(Protocol):
    """Sums of many slots at once; None where the rows changed meanwhile."""

    def cpu(self, slots: Sequence[int], rows: int, policy: WindowPolicy, *, end_ns: int) -> list[CpuSums | None]:
        """Return the sums of CPU windows that end at a moment, over the newest rows of each slot."""

    def memory(self, slots: Sequence[int], rows: int, policy: WindowPolicy, *, end_ns: int) -> list[MemorySums | None]:
        """Return the sums of memory windows that end at a moment, over the newest rows of each slot."""

    def minute(
        self, slots: Sequence[int], raw_rows: int, memory_rows: int, policy: WindowPolicy, *, monotonic_minute: int
    ) -> list[MinuteSums | None]:
        """Return the sums of one minute, over the newest rows of each slot."""
