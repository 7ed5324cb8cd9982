"""The rings on disk: one mapped file of fixed size, a slot per watched cgroup.

Sensing. The samplers write samples and memory rows into slots; this module owns the file, its header and the views that
readers take; ``slot_table`` says which cgroup stands behind which slot. Nothing here differences or judges.

The file is a 4,096-byte header and `max_slots` slots; a slot is `pl_slot_header` of native/sampler.h and three rings:
raw samples, memory rows, minute rows. A row is written first and its ring's head last, and a slot's state last of all,
so a process that is killed anywhere loses at most the row it was writing.

One process writes, by an exclusive flock. Within it one thread at a time may sweep, any thread may attach, release and
append minutes, and any thread may read without a lock: a `RingView` remembers head and generation, and `intact` tells
after use whether they still cover its rows. Heads are aligned 64-bit words, loaded and stored whole. On x86-64 loads
keep the program's order; elsewhere the interpreter's own atomics between using the rows and asking `intact` do.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from agent.core.window.ring_rows import MEMORY_ROW, MINUTE_ROW, SAMPLE, SLOT_HEADER, Status
from agent.named_file import open_named
from agent.sensing.ring_view import Ring, RingView, Rows
from agent.sensing.slot_table import MEMORY_HEAD, MINUTE_HEAD, PEAK_SEEN, PENDING, RAW_HEAD, SlotTable
from agent.sensing.state_file import (
    FILE_HEADER_BYTES,
    OWNER_OFFSET,
    RingError,
    RingGeometry,
    file_header,
    open_locked,
    owner_record,
    read_header,
)


class RingFile:
    """The state file: slots, rings and who stands behind them. Close it, or use it as a context manager."""

    def __init__(
        self,
        memory: mmap.mmap,
        geometry: RingGeometry,
        *,
        boot_id: str,
        path: Path | None,
        fd: int | None,
        writable: bool,
    ) -> None:
        """For `open` and `open_readonly`; the memory holds a valid file of this geometry."""
        self.geometry: Final = geometry
        self.boot_id: Final = boot_id
        self.path: Final = path
        self.set_aside: Path | None = None
        """Where a file that could not be gone on with was renamed to; None when there was none."""
        self.set_aside_reason: str | None = None
        self._memory = memory
        self._fd = fd
        self._writable = writable
        self._lock = threading.Lock()
        self._words = memoryview(memory).cast("Q")
        self._halves = memoryview(memory).cast("I")
        self._raw = self._ring(RAW_HEAD, geometry.raw_offset, geometry.raw_length, SAMPLE)
        self._memory_rows = self._ring(MEMORY_HEAD, geometry.memory_offset, geometry.memory_length, MEMORY_ROW)
        self._minutes = self._ring(MINUTE_HEAD, geometry.minute_offset, geometry.minute_length, MINUTE_ROW)
        self._slots = SlotTable(memory, self._words, self._halves, geometry, path=path, fd=fd)
        self._closed = False
        if writable:
            self._slots.adopt()
        self.damaged_slots: Final = self._slots.damaged
        """Slots in use whose checksum or heads were wrong at the opening; each was freed, the others go on."""

    @classmethod
    def open(cls, path: Path | None, geometry: RingGeometry, *, boot_id: str) -> Self:
        """Open the state file for writing, or begin it; a file that cannot be gone on with is set aside, never deleted.

        Args:
            boot_id: Of this boot (`read_boot_id`): counters and the monotonic clock mean nothing after another one.

        Raises:
            StateInUse: Another process holds the file; the message names its pid and command.
            RingError: The file cannot be opened, locked or written; the message says why.
        """
        if path is None:
            memory = mmap.mmap(-1, geometry.file_bytes)
            memory[:FILE_HEADER_BYTES] = file_header(geometry, boot_id)
            return cls(memory, geometry, boot_id=boot_id, path=None, fd=None, writable=True)
        try:
            fd, aside, reason = open_locked(path, geometry, boot_id)
        except OSError as error:
            msg = f"state file {path}: {error.strerror}"
            raise RingError(msg) from error
        try:
            memory = mmap.mmap(fd, geometry.file_bytes)
        except (OSError, ValueError) as error:
            os.close(fd)
            msg = f"state file {path}: cannot be mapped: {error}"
            raise RingError(msg) from error
        owner = owner_record()
        memory[OWNER_OFFSET : OWNER_OFFSET + len(owner)] = owner
        rings = cls(memory, geometry, boot_id=boot_id, path=path, fd=fd, writable=True)
        rings.set_aside = aside
        rings.set_aside_reason = reason
        return rings

    @classmethod
    def open_readonly(cls, path: Path) -> Self:
        """Open a state file to look at it, without the lock: a live one, one set aside or one of an earlier boot.

        Raises:
            RingError: It is not there, not readable, or not a whole state file of this program's version.
        """
        try:
            with open_named(path) as file:
                header = file.read(FILE_HEADER_BYTES)
                header_fields = read_header(header, os.fstat(file.fileno()).st_size)
                if isinstance(header_fields, str):
                    msg = f"state file {path}: {header_fields}"
                    raise RingError(msg)
                geometry, boot_id = header_fields
                memory = mmap.mmap(file.fileno(), geometry.file_bytes, access=mmap.ACCESS_READ)
        except OSError as error:
            msg = f"state file {path}: {error.strerror}"
            raise RingError(msg) from error
        return cls(memory, geometry, boot_id=boot_id, path=path, fd=None, writable=False)

    def attach(self, relative_path: str, inode: int, *, now_monotonic_ns: int) -> int:
        """Return the slot of a cgroup: the one it has, rings and all, or a free one with empty rings.

        Args:
            relative_path: Below the cgroup root, no leading slash; empty is the root.
            inode: Of the directory. Another inode under the same path is another cgroup: it gets a new slot and the old
                one is freed, so tell the sampler to remove that one first.
            now_monotonic_ns: Kept as the time the slot was made.

        Raises:
            RingsFull: No slot is left, or the disk has no room for one.
            RingError: The path is longer than a slot can hold, the disk fails, or the file is open for reading only.
        """
        with self._lock:
            self._must_be_writable()
            return self._slots.attach(relative_path, inode, now_monotonic_ns=now_monotonic_ns)

    def release(self, slot: int) -> None:
        """Free a slot; its rows stay readable until another cgroup gets it. Lately freed slots are handed out first."""
        with self._lock:
            self._must_be_writable()
            self._slots.release(slot)

    def retained(self) -> dict[str, int]:
        """Return path -> slot of the slots in use; right after opening those are the ones found in the file."""
        if not self._writable:
            return self._slots.stored_by_path()
        with self._lock:
            return self._slots.by_path()

    def inode(self, slot: int) -> int:
        """Return the inode of the cgroup behind a slot in use."""
        return self._slots.inode(slot)

    def generation(self, slot: int) -> int:
        """Return which cgroup stands behind the slot: one more at each reuse."""
        return self._raw.generation(self._checked(slot))

    def raw(self, slot: int, rows: int | None = None) -> RingView:
        """View the newest samples (dtype `SAMPLE`); at most ring length - 1 of them, which is also the default."""
        return self._raw.view(self._checked(slot), rows)

    def memory(self, slot: int, rows: int | None = None) -> RingView:
        """View the newest memory rows (dtype `MEMORY_ROW`)."""
        return self._memory_rows.view(self._checked(slot), rows)

    def minutes(self, slot: int, rows: int | None = None) -> RingView:
        """View the newest minute rows (dtype `MINUTE_ROW`)."""
        return self._minutes.view(self._checked(slot), rows)

    def newest(self, slot: int) -> np.void | None:
        """Return a copy of the newest sample; None when there is none yet."""
        rows = self.raw(slot, 1).joined()
        return rows[0] if len(rows) else None

    def newest_rows(self, slots: Sequence[int]) -> Rows:
        """Return a copy of the newest sample of each of these slots, shape ``(len(slots),)``, in one step.

        A slot without a sample has the status `ABSENT`; all else of its row is 0 and means nothing.
        """
        return self._newest_of(self._raw, slots)

    def newest_memory_rows(self, slots: Sequence[int]) -> Rows:
        """Return a copy of the newest memory row of each of these slots, as `newest_rows`."""
        return self._newest_of(self._memory_rows, slots)

    def newest_minutes(self, slots: Sequence[int]) -> list[int | None]:
        """Return the ``monotonic_minute`` of the newest minute row of each of these slots; None where there is none."""
        numbers = self._all_checked(slots)
        heads = self._minutes.heads[numbers]
        slot_minutes: list[int | None] = [None] * heads.size
        there = np.flatnonzero(heads > 0)  # as in `_newest_of`, empty rings are not looked at
        places = (heads[there] - 1) % self._minutes.length
        minutes = self._minutes.rows["monotonic_minute"][numbers[there], places]
        for index, minute in zip(there.tolist(), minutes.tolist(), strict=True):
            slot_minutes[index] = minute
        return slot_minutes

    def span_seconds(self, slots: Sequence[int]) -> float | None:
        """Return how far the raw ring of these slots that reaches furthest back does so; None without two samples."""
        numbers = self._all_checked(slots)
        heads = self._raw.heads[numbers]
        numbers, heads = numbers[heads > 1], heads[heads > 1]
        if not heads.size:
            return None
        length = self._raw.length
        stamps = self._raw.rows["monotonic_ns"].view(np.int64)
        oldest = heads - np.minimum(heads, length - 1)
        return float((stamps[numbers, (heads - 1) % length] - stamps[numbers, oldest % length]).max()) / 1e9

    def _newest_of(self, ring: Ring, slots: Sequence[int]) -> Rows:
        numbers = self._all_checked(slots)
        heads = ring.heads[numbers]
        rows = np.zeros(heads.size, dtype=ring.dtype)
        rows["status"] = Status.ABSENT
        # Empty rings are not looked at: a read of a page never written makes it resident, and its neighbours with it.
        there = heads > 0
        rows[there] = ring.rows[numbers[there], (heads[there] - 1) % ring.length]
        return rows

    def append_minute(self, slot: int, row: Rows | np.void, *, generation: int | None = None) -> bool:
        """Append one `MINUTE_ROW`; with a generation only while that cgroup still stands behind the slot.

        Returns:
            Whether it was appended.
        """
        with self._lock:
            self._must_be_writable()
            if generation is not None and self.generation(slot) != generation:
                return False
            self._minutes.append(self._checked(slot), row)
            return True

    def append_raw(self, slot: int, row: Rows | np.void) -> None:
        """Append one `SAMPLE`: for the sampler in plain Python; the C sampler writes by itself."""
        self._raw.append(slot, row)

    def append_memory(self, slot: int, row: Rows | np.void) -> None:
        """Append one `MEMORY_ROW`: for the sampler in plain Python."""
        self._memory_rows.append(slot, row)

    def peaks(self, slot: int) -> tuple[int, int]:
        """Return the running working-set peak for the next memory row, and the largest memory.current so far; bytes."""
        base = self._offset(slot)
        return self._words[(base + PENDING) >> 3], self._words[(base + PEAK_SEEN) >> 3]

    def set_peaks(self, slot: int, *, working_set_pending_bytes: int, memory_peak_seen_bytes: int) -> None:
        """Store what `peaks` gives: for the sampler in plain Python."""
        base = self._offset(slot)
        self._words[(base + PENDING) >> 3] = working_set_pending_bytes
        self._words[(base + PEAK_SEEN) >> 3] = memory_peak_seen_bytes

    @property
    def buffer(self) -> mmap.mmap:
        """The memory that the C sampler writes to, laid out by `geometry`; valid until `close`."""
        return self._memory

    @property
    def file_bytes(self) -> int:
        """Size of the file, holes included."""
        return self.geometry.file_bytes

    @property
    def touched_bytes(self) -> int:
        """Estimate, from the heads, what of the memory was ever written; a slot's earlier lives are not counted."""
        if self._writable:
            with self._lock:  # the sampling thread adds to it
                used = self._slots.used()
        else:
            used = self._slots.stored_used()
        numbers = np.array(used, dtype=np.intp)
        rows_bytes = sum(
            int(np.minimum(ring.heads[numbers], ring.length).sum()) * ring.dtype.itemsize
            for ring in (self._raw, self._memory_rows, self._minutes)
        )
        return FILE_HEADER_BYTES + len(used) * SLOT_HEADER.itemsize + rows_bytes

    def flush(self) -> None:
        """Ask the kernel to write the file out now; without it a crash of the machine, not of the agent, loses rows."""
        if self._writable and not self._closed:
            self._memory.flush()

    def close(self) -> None:
        """Release file and lock; a second call does nothing. Reading stays possible until the last user lets go."""
        if self._closed:
            return
        self._closed = True
        # Never mmap.close: numpy's views keep the mapping object, but do not keep it from being unmapped under them.
        if self._fd is not None:
            # Unlocked aloud, because the mapping holds a duplicate of the descriptor, and with it the lock.
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = None
            self._slots.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ring(self, head: int, offset: int, length: int, dtype: np.dtype[np.void]) -> Ring:
        return Ring(
            self._memory, self._words, self._halves, self.geometry, head=head, offset=offset, length=length, dtype=dtype
        )

    def _all_checked(self, slots: Sequence[int]) -> NDArray[np.int64]:
        numbers = np.array(slots, dtype=np.int64)
        if numbers.size:
            self._checked(int(numbers.min()))
            self._checked(int(numbers.max()))
        return numbers

    def _checked(self, slot: int) -> int:
        if not 0 <= slot < self.geometry.max_slots:
            msg = f"slot {slot}, allowed are 0 to {self.geometry.max_slots - 1}"
            raise ValueError(msg)
        return slot

    def _offset(self, slot: int) -> int:
        return self.geometry.first_slot_offset + self._checked(slot) * self.geometry.slot_stride

    def _must_be_writable(self) -> None:
        if not self._writable or self._closed:
            msg = f"state file {self.path}: {'closed' if self._closed else 'opened for reading only'}"
            raise RingError(msg)
