"""The rows of a recording up to a moment, as the observer reads the rings of a running agent. Node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from agent.core.window.ring_rows import SAMPLE, Status
from agent.node.offline.recording import Recording
from agent.node.offline.recording_format import DTYPES, STAMPS, RecordingError, RowKind, Rows

_ROUGHLY: Final = 1.25
"""More than is asked for, so that the oldest rate of a window has its beginning."""
NS: Final = 1_000_000_000
MOST_ROWS: Final = 1 << 24
"""Of one kind: a day of 1,000 containers, a gigabyte."""
DAY_MINUTES: Final = 1440
"""As many minutes as the rings of an agent hold."""


class ArrayView:
    """The newest rows of an array that nobody changes."""

    __slots__ = ("pieces",)

    def __init__(self, rows: Rows, count: int | None) -> None:
        self.pieces: Sequence[Rows] = (rows if count is None or count >= rows.size else rows[rows.size - count :],)

    def __len__(self) -> int:
        return self.pieces[0].size

    def intact(self) -> bool:
        """Return that they are."""
        return True

    def joined(self) -> Rows:
        """Return a copy."""
        return self.pieces[0].copy()


class RecordedRows:
    """Satisfies ``row_source.RowSource``; the slot of a unit is its number in the recording."""

    def __init__(
        self,
        recording: Recording,  # It may be closed afterwards
        *,
        until_monotonic_ns: int,  # Later readings are left out
        learnt_until_ns: int,  # So are minutes that ended later
        cpu_seconds: float,  # How far back samples are asked for
        memory_seconds: float,  # How far back memory rows are
    ) -> None:
        """Read what is needed."""
        self._units = recording.manifest.units
        last_minute = learnt_until_ns // (60 * NS) - 1
        self._raw = self._read(
            recording, RowKind.RAW, until_monotonic_ns - int(cpu_seconds * _ROUGHLY * NS), until_monotonic_ns
        )
        self._memory = self._read(
            recording, RowKind.MEMORY, until_monotonic_ns - int(memory_seconds * _ROUGHLY * NS), until_monotonic_ns
        )
        self._minutes = self._read(recording, RowKind.MINUTES, last_minute - DAY_MINUTES, last_minute)

    @staticmethod
    def _read(recording: Recording, kind: RowKind, first: int, last: int) -> dict[int, Rows]:
        by_unit: dict[int, list[Rows]] = defaultdict(list)
        left = MOST_ROWS
        for unit, rows in recording.all_rows(kind, first=first, last=last):
            stamps = rows[STAMPS[kind]].astype(np.int64)
            piece = rows[(stamps >= first) & (stamps <= last)]
            left -= piece.size
            if left < 0:
                raise RecordingError(
                    f"recording {recording.path}: more than {MOST_ROWS} {kind} rows before the moment; allowed: up to "
                    "so many, with shorter windows or recorded with --filter"
                )
            if piece.size:
                by_unit[unit].append(piece)
        return {unit: np.concatenate(pieces) for unit, pieces in by_unit.items()}

    def has(self, slot: int) -> bool:
        """Return whether there is any reading of a unit."""
        return slot in self._raw or slot in self._memory

    def raw(self, slot: int, rows: int | None = None) -> ArrayView:
        """View the newest samples."""
        return ArrayView(_of(self._raw, slot, RowKind.RAW), rows)

    def memory(self, slot: int, rows: int | None = None) -> ArrayView:
        """View the newest memory rows."""
        return ArrayView(_of(self._memory, slot, RowKind.MEMORY), rows)

    def minutes(self, slot: int, rows: int | None = None) -> ArrayView:
        """View the newest minute rows."""
        return ArrayView(_of(self._minutes, slot, RowKind.MINUTES), rows)

    def newest_rows(self, slots: Sequence[int]) -> Rows:
        """Return the newest sample of each slot."""
        rows = np.zeros(len(slots), dtype=SAMPLE)
        rows["status"] = Status.ABSENT
        for place, slot in enumerate(slots):
            raw = _of(self._raw, slot, RowKind.RAW)
            if raw.size:
                rows[place] = raw[-1]
        return rows

    def newest_minutes(self, slots: Sequence[int]) -> list[int | None]:
        """Return the minute of the newest minute row of each slot; None where there is none."""
        by_slot = (_of(self._minutes, slot, RowKind.MINUTES)["monotonic_minute"] for slot in slots)
        return [int(minutes[-1]) if minutes.size else None for minutes in by_slot]

    def inode(self, slot: int) -> int:
        """Return the inode of the unit's cgroup."""
        return self._units[slot].inode

    def generation(self, slot: int) -> int:
        """Return the only one there is: no other cgroup ever takes the slot."""
        return 1

    def append_minute(self, slot: int, row: Rows | np.void, *, generation: int | None = None) -> bool:
        """Append a minute row, here and not in the recording."""
        own = _of(self._minutes, slot, RowKind.MINUTES)
        self._minutes[slot] = np.concatenate((own, np.atleast_1d(row)))
        return True


def _of(rows: dict[int, Rows], slot: int, kind: RowKind) -> Rows:
    slot_rows = rows.get(slot)
    return np.zeros(0, dtype=DTYPES[kind]) if slot_rows is None else slot_rows
