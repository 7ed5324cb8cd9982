"""Which row of the history stands for which key, since when, and how much is known of it.

Core, pure. Rows come in blocks of 64 and are never given up: a key keeps its row until rows run out, so that a workload
that is scaled to nothing for the night goes on in the morning. Minutes are those of the history's axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.core.history.minute.key import HistoryKey
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.numbers.arrays import Bools, Ints, Rows

BLOCK_ROWS: Final = 64
RING_MINUTES: Final = 10_240
"""How far back the history reaches; seven days are 10,080."""
KILLS_KEPT: Final = 16
KILL_SECONDS_KEPT: Final = 30 * 86_400
"""The longest that a policy can be set to remember a kill."""
_NEVER: Final = -1
"""As a minute: before all others. Within this module only."""
_NOBODY: Final = 2**32
"""As the minute since which a row stands for its key: after all others, so that it has nothing of the ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """Who a row stands for."""

    key: HistoryKey
    since_unix_minute: int
    """What the ring holds of minutes before is of the row's former key."""
    kills: tuple[OutOfMemory, ...] = ()
    """At most `KILLS_KEPT`, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMinutes:
    """How much is known of each row; shape ``(rows,)`` each."""

    minutes: Ints
    """Minutes with CPU or memory."""
    first_unix_minute: Ints
    """Of these the oldest, or the ring's oldest where that has gone round since; 0 where there are none."""


class HistoryTable:
    """The keys of the history's rows, with since when each is known. One thread at a time."""

    def __init__(self) -> None:
        self.since: Ints = np.zeros(0, dtype=np.int64)
        """From which minute on the ring's amounts are those of the row's key, shape ``(rows,)``."""
        self._changed: set[int] = set()
        """Rows whose entry is not in the file yet."""
        self._entries: list[KeyRow | None] = []
        self._rows: dict[HistoryKey, int] = {}
        self._free: list[int] = []
        self._reused: set[int] = set()
        self._counts: Ints = np.zeros(0, dtype=np.int64)
        self._first: Ints = np.zeros(0, dtype=np.int64)
        self._last: Ints = np.zeros(0, dtype=np.int64)

    @property
    def rows(self) -> int:
        """How many rows there are, used or not."""
        return len(self._entries)

    @property
    def entries(self) -> tuple[KeyRow | None, ...]:
        """Who each row stands for; None = nobody."""
        return tuple(self._entries)

    def keys(self) -> Mapping[HistoryKey, int]:
        """Return key -> row, a copy."""
        return dict(self._rows)

    def find(self, key: HistoryKey) -> int | None:
        """Return the row of a key; None = it has none."""
        return self._rows.get(key)

    def add_block(self, entries: list[KeyRow | None] | None = None) -> None:
        """Add 64 rows, free or as the file has them; of two rows with one key, the first keeps it."""
        first = self.rows
        nothing = np.full(BLOCK_ROWS, _NEVER, dtype=np.int64)
        self.since = np.concatenate([self.since, np.full(BLOCK_ROWS, _NOBODY, dtype=np.int64)])
        self._counts = np.concatenate([self._counts, np.zeros(BLOCK_ROWS, dtype=np.int64)])
        self._first = np.concatenate([self._first, nothing])
        self._last = np.concatenate([self._last, nothing])
        self._entries += [None] * BLOCK_ROWS
        for row, entry in enumerate(entries or (), first):
            if entry is not None and entry.key not in self._rows:
                self._entries[row] = entry
                self._rows[entry.key] = row
                self.since[row] = entry.since_unix_minute
        fresh = [row for row in range(first, self.rows) if self._entries[row] is None]
        self._free = list(reversed(fresh)) + self._free

    def adopt(self, key: HistoryKey, newest_unix_minute: int | None, *, max_rows: int) -> int | None:
        """Assign a row that knows nothing to a key that has none, and return it.

        Free rows come first, then rows of which the ring holds nothing any more, then new ones; when there may be no
        more of these, the row that has been without data for longest.

        Returns:
            None when all rows had data in the newest minute: taking one would only move the lack to another.
        """
        newest = _NEVER if newest_unix_minute is None else newest_unix_minute
        row = self._row_to_give(newest, max_rows)
        if row is None:
            return None
        former = self._entries[row]
        if former is not None:
            del self._rows[former.key]
            self._reused.add(row)
        self._entries[row] = KeyRow(key=key, since_unix_minute=newest + 1)
        self._rows[key] = row
        self.since[row] = newest + 1
        self._counts[row] = 0
        self._first[row] = self._last[row] = _NEVER
        self._changed.add(row)
        return row

    def _row_to_give(self, newest: int, max_rows: int) -> int | None:
        if not self._free:
            # A row just given to a key counts as one with data: else the next key would take it away again.
            idle_since = np.maximum(self._last, self.since - 1)
            idlest = int(idle_since.argmin()) if idle_since.size else None
            if idlest is not None and idle_since[idlest] <= newest - RING_MINUTES:
                return idlest
            if self.rows + BLOCK_ROWS > max_rows:
                return idlest if idlest is not None and idle_since[idlest] < newest else None
            self.add_block()
        return self._free.pop()

    def take_reused(self) -> Rows:
        """Return the rows that came to stand for another key since the last call."""
        reused = np.array(sorted(self._reused), dtype=np.intp)
        self._reused.clear()
        return reused

    def keep_kill(self, row: int, kill: OutOfMemory) -> None:
        """Keep a kill of a row's container; of more than 16 in 30 days those with the most memory.

        Raises:
            ValueError: The row stands for nobody: a fault of the caller.
        """
        entry = self._entries[row] if 0 <= row < self.rows else None
        if entry is None:
            msg = f"row {row} of the history stands for nobody"
            raise ValueError(msg)
        self._entries[row] = replace(entry, kills=_kills_to_keep((*entry.kills, kill)))
        self._changed.add(row)

    def changed(self) -> list[tuple[int, KeyRow]]:
        """Return rows and entries that are not in the file yet."""
        entries = [(row, self._entries[row]) for row in sorted(self._changed)]
        return [(row, entry) for row, entry in entries if entry is not None]

    def is_saved(self, row: int) -> None:
        """Record that a row's entry is in the file."""
        self._changed.discard(row)

    def learn(self, first_unix_minute: int, is_known: Bools, *, is_kept: bool = True) -> None:
        """Record minutes that became known.

        Args:
            first_unix_minute: The minute of the first; the others follow one by one.
            is_known: Of which row something is known, shape ``(minutes, rows)``.
            is_kept: The file has them.
        """
        rows = np.flatnonzero(is_known.any(axis=0))
        seen = is_known[:, rows]
        oldest = first_unix_minute + seen.argmax(axis=0)
        self._first[rows] = np.where(self._first[rows] == _NEVER, oldest, self._first[rows])
        self._last[rows] = first_unix_minute + len(seen) - 1 - seen[::-1].argmax(axis=0)
        if is_kept:
            self._counts[rows] += seen.sum(axis=0)

    def unlearn(self, oldest_unix_minute: int, is_known: Bools) -> None:
        """Record minutes that leave the ring.

        Args:
            oldest_unix_minute: Of those that stay.
            is_known: Of which row something was known, shape ``(minutes, rows)``.
        """
        self._counts = np.maximum(self._counts - is_known.sum(axis=0), 0)
        self._first = np.where(self._first == _NEVER, _NEVER, np.maximum(self._first, oldest_unix_minute))

    def known(self) -> KnownMinutes:
        """Return how much is known of each row."""
        return KnownMinutes(minutes=self._counts.copy(), first_unix_minute=np.where(self._counts > 0, self._first, 0))


def _kills_to_keep(kills: tuple[OutOfMemory, ...]) -> tuple[OutOfMemory, ...]:
    """Return the kills worth keeping, oldest first."""
    newest_seconds = max(kill.unix_seconds for kill in kills)
    recent = [kill for kill in kills if kill.unix_seconds > newest_seconds - KILL_SECONDS_KEPT]
    recent.sort(key=lambda kill: (_too_little_bytes(kill), kill.unix_seconds))
    return tuple(sorted(recent[-KILLS_KEPT:], key=lambda kill: kill.unix_seconds))


def _too_little_bytes(kill: OutOfMemory) -> int:
    """Return the memory that a kill showed to be too little, by what is known of it."""
    return max(kill.usage_bytes or 0, kill.limit_bytes or 0, kill.request_bytes or 0)
