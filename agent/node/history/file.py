"""The history of seven days that policies feed on: minutes of CPU and memory by key, in one file.

Node. One process writes, by an exclusive flock; others may read beside it. The file is read and written by position,
never mapped: mapped pages would count as memory of the agent, 16 MiB for 250 rows.

Each minute is one write of 392 bytes per 64 rows. Nothing is flushed to the disk: the kernel keeps what was written
when the process is killed, at any point; a crash of the machine loses what the kernel had not written out yet, half a
minute as a rule. A record that was not written whole is a minute that is missing, nothing else.

Minutes come in rising order. One that is not later than the newest is refused and counted: the history is never
rewritten, so no wrong clock can destroy it. ``core.minute_axis`` makes a rising axis of any clock.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np

from agent.core.history.minute.key import HistoryKey
from agent.core.history.minute.minute_axis import DAY_MINUTES
from agent.core.history.minute.minute_codec import Codes
from agent.core.history.minute.minutes import Minutes, OutOfMemory, from_codes, to_codes
from agent.core.history.minute.table import BLOCK_ROWS, RING_MINUTES, HistoryTable, KeyRow, KnownMinutes
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.named_file import open_named
from agent.node.history.blocks import BlockFile, Chunk, any_along, begin_file
from agent.node.history.format import why_unfit
from agent.node.history.policy_state import Array, RowNames, SavedState, read_state, write_state
from agent.sensing.state_file import FILE_HEADER_BYTES, OWNER_OFFSET, StateInUse, Unfit, hold_file, owner_record

log = logging.getLogger(__name__)

HISTORY_FILE_NAME: Final = "history"


class HistoryError(Exception):
    """The history cannot be used; one line that names file, reason and what to do. The family of this boundary."""


class HistoryInUse(HistoryError):  # noqa: N818 - a state of the world, named as one
    """Another agent holds the file; the message names it."""


class HistoryFull(HistoryError):  # noqa: N818
    """Every row has data of the newest minute: this key gets none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMinutes:
    """What is known of one row, oldest first; shape ``(k,)`` each. Minutes of which nothing is known are left out."""

    unix_minutes: Ints
    cpu_usage_millicores: Floats
    cpu_peak_millicores: Floats
    has_cpu: Bools
    working_set_bytes: Floats
    has_memory: Bools


class HistoryFile:
    """The history. Close it, or use it as a context manager.

    The control thread writes; any thread may read. Keys get rows by `row_of`, for good unless rows run out.
    """

    def __init__(self, fd: int, *, path: Path | None, max_rows: int | None) -> None:
        """For `open` and `open_readonly`; ``max_rows`` None = only for reading."""
        self.path: Final = path
        self.set_aside: Path | None = None
        """Where a file that could not be gone on with was renamed to; None when there was none."""
        self.set_aside_reason: str | None = None
        self.damaged_rows = 0
        """Rows of the table that could not be trusted at the opening: their keys begin anew."""
        self.damaged_records = 0
        """Minutes of 64 rows that were not whole at the opening."""
        self.lost_minutes = 0
        """Minutes not kept because the file could not be written."""
        self.refused_minutes = 0
        """Minutes not later than the newest."""
        self.trouble: str | None = None
        """Why minutes are lost at present; None = they are kept."""
        self.newest_unix_minute: int | None = None
        """Newest minute that was added; at the opening the newest of which anything is known. None = there is none."""
        self._file: BlockFile | None = BlockFile(fd)
        self.is_writable: Final = max_rows is not None
        self._lock = threading.Lock()
        self._table = HistoryTable()
        self._read_all(self._file)
        self._max_rows = max(-(-(max_rows or 0) // BLOCK_ROWS) * BLOCK_ROWS, self._table.rows)

    @classmethod
    def open(cls, path: Path | None, *, max_rows: int) -> Self:
        """Open the history for writing, or begin it; a file that cannot be gone on with is set aside, never deleted.

        Args:
            path: Of the file; None keeps it in memory, and nothing of it is there after a restart.
            max_rows: Keys at most, rounded up to a multiple of 64; a file that has more keeps them.

        Raises:
            HistoryInUse: Another process holds the file; the message names its pid and command.
            HistoryError: The file cannot be opened, locked, read or written.
        """
        if max_rows < 1:
            msg = f"history: max_rows is {max_rows}, allowed are numbers from 1"
            raise ValueError(msg)
        aside: Path | None = None
        reason: str | None = None
        try:
            if path is None:
                fd = os.memfd_create("plimsoll-history")
                begin_file(fd)
            else:
                fd, aside, reason = hold_file(path, what="history file", begin=begin_file, judge=_judge)
        except StateInUse as error:
            raise HistoryInUse(str(error)) from error
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            os.pwrite(fd, owner_record(), OWNER_OFFSET)
            history = cls(fd, path=path, max_rows=max_rows)
        except OSError as error:
            os.close(fd)
            raise _unusable(path, error) from error
        history.set_aside, history.set_aside_reason = aside, reason
        if aside is not None:
            log.warning("history set aside, beginning anew", extra={"reason": reason, "kept_as": str(aside)})
        if history.damaged_rows or history.damaged_records:
            log.warning(
                "the history is damaged: what is not whole is not known",
                extra={"keys": history.damaged_rows, "records": history.damaged_records},
            )
        return history

    @classmethod
    def open_readonly(cls, path: Path) -> Self:
        """Open a history to look at it, without the lock: one that an agent is writing, or one set aside.

        Keys and length are those of this moment; minutes written later are not seen.

        Raises:
            HistoryError: It is not there, not readable, or not a whole history of this program's version.
        """
        try:
            with open_named(path) as file:
                fd = os.dup(file.fileno())
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            reason = why_unfit(os.pread(fd, FILE_HEADER_BYTES, 0), os.fstat(fd).st_size)
            if reason is None:
                return cls(fd, path=path, max_rows=None)
        except OSError as error:
            os.close(fd)
            raise _unusable(path, error) from error
        os.close(fd)
        msg = f"history file {path}: {reason}"
        raise HistoryError(msg)

    # -- rows and their keys ---------------------------------------------------------------------------------------

    @property
    def damage(self) -> str | None:
        """Return what could not be read when the file was opened; None = it was whole."""
        if not self.damaged_rows and not self.damaged_records:
            return None
        lost = f"{self.damaged_rows} rows and {self.damaged_records} records (a minute of 64 rows each)"
        return f"the history was damaged: {lost} could not be read and are not known"

    @property
    def rows(self) -> int:
        """How many rows there are, used or not; a multiple of 64 that only grows."""
        return self._table.rows

    def keys(self) -> Mapping[HistoryKey, int]:
        """Return key -> row, a copy."""
        with self._lock:
            return self._table.keys()

    def row_of(self, key: HistoryKey) -> int:
        """Return the row of a key: the one it has, or one that knows nothing (`HistoryTable.adopt` tells which).

        When it stood for another key before, `take_reused` gives it next. A full disk keeps no key from its row: the
        file follows when there is room.

        Raises:
            HistoryFull: All rows had data in the newest minute, and there may be no more.
            HistoryError: The file is closed, or open for reading only.
        """
        with self._lock:
            file = self._to_write()
            row = self._table.find(key)
            if row is None:
                row = self._table.adopt(key, self.newest_unix_minute, max_rows=self._max_rows)
                if row is None:
                    msg = (
                        f"history {_name(self.path)}: all {self.rows} rows have data of the last minute, none for {key}"
                    )
                    raise HistoryFull(msg)
                self._save_rows(file)
            return row

    def take_reused(self) -> Rows:
        """Return the rows that came to stand for another key since the last call: what is known of them is to go."""
        with self._lock:
            return self._table.take_reused()

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, minutes: Minutes) -> bool:
        """Add a minute of all rows, or of the first of them.

        A minute that the disk has no room for is lost to the next start, counted and said once; it counts as the
        newest all the same, as those who learn have learnt it.

        Returns:
            Whether it is later than the newest; else it is refused, and not to be learnt from either.

        Raises:
            ValueError: There are more rows than the history has, or an amount is none.
            HistoryError: The file is closed, or open for reading only.
        """
        count = minutes.has_cpu.size
        if count > self.rows or not 0 <= minutes.unix_minute < 2**32:
            msg = f"minute {minutes.unix_minute} of {count} rows: the history has {self.rows} and minutes of 32 bits"
            raise ValueError(msg)
        codes: Codes = np.zeros((3, self.rows), dtype=np.uint16)
        codes[:, :count] = to_codes(minutes)
        with self._lock:
            file = self._to_write()
            newest, minute = self.newest_unix_minute, minutes.unix_minute
            if newest is not None and minute <= newest:
                self.refused_minutes += 1
                return False
            if newest is not None:
                self._unlearn(newest, minute)
            is_known = any_along(codes, 0)
            # Keys first: amounts under the key of a former owner would be believed to be its own.
            is_kept = self._save_rows(file) and self._attempt(lambda: file.write_minute(minute, codes))
            if is_kept and self.trouble is not None:
                log.info("the history is written again", extra={"lost_minutes": self.lost_minutes})
                self.trouble = None
            self.lost_minutes += not is_kept
            self._table.learn(minute, is_known[np.newaxis], is_kept=is_kept)
            self.newest_unix_minute = minute
            return True

    def _unlearn(self, newest: int, minute: int) -> None:
        """Count out the minutes that a new one pushes out of the ring, before they are overwritten."""
        if minute - newest > DAY_MINUTES:
            log.warning(
                "a long pause in the history: what is older than the ring no longer counts",
                extra={"pause_minutes": minute - newest, "ring_minutes": RING_MINUTES},
            )
        oldest = minute - RING_MINUTES + 1
        for _, codes, _ in self._chunks(newest - RING_MINUTES + 1, min(oldest, newest + 1)):
            self._table.unlearn(oldest, any_along(codes, 1))

    def record_oom(self, row: int, kill: OutOfMemory) -> None:
        """Keep a kill of a row's container; of more than 16 in 30 days those with the most memory.

        Raises:
            ValueError: The row stands for nobody.
            HistoryError: The file is closed, or open for reading only.
        """
        with self._lock:
            file = self._to_write()
            self._table.keep_kill(row, kill)
            self._save_rows(file)

    def _save_rows(self, file: BlockFile) -> bool:
        """Write the entries of the table that are not in the file; False = some still are not."""

        def write() -> None:
            file.grow(self.rows // BLOCK_ROWS)
            for row, entry in self._table.changed():
                file.write_entry(row, entry)
                self._table.is_saved(row)

        return self._attempt(write)

    def _attempt(self, write: Callable[[], None]) -> bool:
        """Write something; of failures in a row the first is logged."""
        try:
            write()
        except OSError as error:
            if self.trouble is None:
                log.warning("the history cannot be written", extra={"path": str(self.path), "reason": error.strerror})
            self.trouble = f"history {_name(self.path)}: {error.strerror}: minutes are lost until it can be written"
            return False
        return True

    # -- reading ---------------------------------------------------------------------------------------------------

    def minutes(self, row: int) -> RowMinutes:
        """Return all that is known of one row."""
        axes: list[Ints] = []
        minute_codes: list[Codes] = []
        if not 0 <= row < self.rows:
            msg = f"row {row} of the history, which has {self.rows}"
            raise ValueError(msg)
        for minute, codes, _ in self._stored(0, range(row // BLOCK_ROWS, row // BLOCK_ROWS + 1)):
            own = codes[:, :, row % BLOCK_ROWS]
            known = np.flatnonzero(own.any(axis=1))
            axes.append(known + minute)
            minute_codes.append(own[known])
        every: Codes = np.concatenate(minute_codes) if minute_codes else np.zeros((0, 3), dtype=np.uint16)
        amounts, has = from_codes(every[:, :, np.newaxis])
        return RowMinutes(
            unix_minutes=np.concatenate(axes) if axes else np.zeros(0, dtype=np.int64),
            cpu_usage_millicores=amounts[:, 0, 0],
            cpu_peak_millicores=amounts[:, 1, 0],
            has_cpu=has[:, 0, 0],
            working_set_bytes=amounts[:, 2, 0],
            has_memory=has[:, 2, 0],
        )

    def stream(self, from_unix_minute: int = 0) -> Iterator[Minutes]:
        """Return the minutes of all rows in rising order, up to the newest at the first step.

        Minutes in which nothing is known of any row are left out; rows that are added meanwhile are not in it.
        """
        for minute, codes, _ in self._stored(from_unix_minute):
            amounts, has = from_codes(codes)
            for place in np.flatnonzero(codes.any(axis=(1, 2))).tolist():
                yield Minutes(
                    unix_minute=minute + place,
                    cpu_usage_millicores=amounts[place, 0],
                    cpu_peak_millicores=amounts[place, 1],
                    has_cpu=has[place, 0],
                    working_set_bytes=amounts[place, 2],
                    has_memory=has[place, 2],
                )

    def kills(self) -> tuple[tuple[int, OutOfMemory], ...]:
        """Return the out-of-memory kills that are kept, each with its row, oldest first."""
        with self._lock:
            entries = self._table.entries
        kills = [(row, kill) for row, entry in enumerate(entries) if entry is not None for kill in entry.kills]
        return tuple(sorted(kills, key=lambda each: (each[1].unix_seconds, each[0])))

    def known(self) -> KnownMinutes:
        """Return how much is known of each row."""
        with self._lock:
            return self._table.known()

    def _stored(self, from_minute: int, blocks: range | None = None) -> Iterator[Chunk]:
        newest = self.newest_unix_minute
        if newest is not None:
            yield from self._chunks(from_minute, newest + 1, blocks)

    def _chunks(self, first_minute: int, stop_minute: int, blocks: range | None = None) -> Iterator[Chunk]:
        """Return what is kept of some blocks, or of all; see `BlockFile.chunks`."""
        if self._file is None:
            msg = f"history {_name(self.path)}: closed"
            raise HistoryError(msg)
        since = self._table.since
        chosen = blocks or range(since.size // BLOCK_ROWS)
        try:
            yield from self._file.chunks(
                first_minute, stop_minute, chosen, since[chosen.start * BLOCK_ROWS : chosen.stop * BLOCK_ROWS].copy()
            )
        except OSError as error:
            raise _unusable(self.path, error) from error

    # -- state of policies -----------------------------------------------------------------------------------------

    def save_state(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Keep a policy's own state beside the history, in place of the former; without a file, do nothing.

        Args:
            arrays: By name; the first axis of those that are by row is the row.

        Raises:
            HistoryError: It cannot be written; the former is still there.
        """
        with self._lock:
            self._to_write()
            names = self._names()
        if self.path is None:
            return
        try:
            write_state(self._state_path(self.path, name), arrays, names)
        except OSError as error:
            msg = f"saved state {self._state_path(self.path, name)}: {error.strerror}: the former one is still there"
            raise HistoryError(msg) from error

    def load_state(self, name: str) -> SavedState | str:
        """Return what was saved under a name; a str is the reason why there is nothing."""
        if self.path is None:
            return f"saved state of {name}: the history is kept in memory"
        with self._lock:
            names = self._names()
        return read_state(self._state_path(self.path, name), names)

    def _names(self) -> RowNames:
        return RowNames(
            keys=tuple("" if entry is None else str(entry.key) for entry in self._table.entries),
            since_unix_minutes=tuple(self._table.since.tolist()),
            newest_unix_minute=self.newest_unix_minute,
        )

    @staticmethod
    def _state_path(path: Path, name: str) -> Path:
        return path.with_name(f"{path.name}.{name}")

    # -- opening and closing ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file and release its lock; a second call is fine."""
        with self._lock:
            if self._file is not None:
                os.close(self._file.fd)  # and with it the lock: nobody else has the descriptor
                self._file = None

    def _to_write(self) -> BlockFile:
        if self._file is None or not self.is_writable:
            msg = f"history {_name(self.path)}: {'closed' if self._file is None else 'opened for reading only'}"
            raise HistoryError(msg)
        return self._file

    def _read_all(self, file: BlockFile) -> None:
        """Take over what the file holds."""
        for block in range(file.blocks):
            entries = file.read_entries(block)
            self.damaged_rows += sum(isinstance(entry, str) for entry in entries)
            self._table.add_block([entry if isinstance(entry, KeyRow) else None for entry in entries])
        self.newest_unix_minute = file.newest_minute()
        if self.newest_unix_minute is None:
            return
        stored = file.chunks(0, self.newest_unix_minute + 1, range(file.blocks), self._table.since)
        for minute, codes, damaged in stored:
            self._table.learn(minute, any_along(codes, 1))
            self.damaged_records += damaged

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _judge(header: bytes, size: int) -> Unfit | None:
    reason = why_unfit(header, size)
    return None if reason is None else Unfit(reason=reason)


def _name(path: Path | None) -> str:
    return "in memory" if path is None else f"file {path}"


def _unusable(path: Path | None, error: OSError) -> HistoryError:
    return HistoryError(
        f"history {_name(path)}: {error.strerror}; allowed: a state directory to write in, or none (--state-dir)"
    )
