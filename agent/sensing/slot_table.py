"""Which cgroup stands behind which slot of the rings' file: paths, inodes, checksums, and what is free.

Sensing. Writes slot headers into memory that ``rings`` maps; rows are not its business. The caller holds one lock for
all that changes something. A slot's state is written last, so a process that is killed leaves it free or whole.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from agent.core.window.ring_rows import SLOT_HEADER
from agent.sensing.ring_view import GENERATION_OFFSET, field_offset
from agent.sensing.state_file import RingError, RingGeometry, RingsFull

RAW_HEAD: Final = field_offset("raw_head")
MEMORY_HEAD: Final = field_offset("memory_head")
MINUTE_HEAD: Final = field_offset("minute_head")
PENDING: Final = field_offset("working_set_pending_bytes")
PEAK_SEEN: Final = field_offset("memory_peak_seen_bytes")

_IDENTITY: Final = struct.Struct("<IIQQ768s")
"""Generation, path length, inode, created, path: what the slot's CRC covers."""
_IDENTITY_OFFSET: Final = 8
_MAX_PATH_BYTES: Final = 768
_FREE: Final = 0
_IN_USE: Final = 1
_STATE_OFFSET: Final = field_offset("state")
_HEADS: Final = (RAW_HEAD, MEMORY_HEAD, MINUTE_HEAD)
_HIGHEST_HEAD: Final = 2**48
"""More rows than anything has written since boot: 450,000 years at 20 Hz. Heads change too often for a checksum."""


class _StoredSlot(NamedTuple):
    """A slot as the file has it."""

    slot: int
    is_in_use: bool
    path: str | None
    """None: it is free, or cannot be trusted."""
    created_monotonic_ns: int


class SlotTable:
    """The slots of a rings file: which are used, by which cgroup, and which are free."""

    def __init__(
        self,
        memory: mmap.mmap,
        words: memoryview,
        halves: memoryview,
        geometry: RingGeometry,
        *,
        path: Path | None,
        fd: int | None,
    ) -> None:
        """Begin empty: ``adopt`` loads what the file holds."""
        self._memory, self._words, self._halves, self._geometry = memory, words, halves, geometry
        self._first_offset, self._stride = geometry.first_slot_offset, geometry.slot_stride
        self._path, self._fd = path, fd
        self._by_path: dict[str, int] = {}
        self._free: list[int] = []
        self._used: set[int] = set()
        self.damaged = 0
        """Slots in use whose checksum or heads were wrong when they were adopted."""

    def adopt(self) -> None:
        """Load what the file holds; free the slots that cannot be trusted."""
        newest: dict[str, tuple[int, int]] = {}
        entries = list(self._stored_slots()) if self._fd is not None else []
        for each in entries:
            if each.path is not None:
                # Killed between giving a namesake its slot and freeing the old one: the younger counts.
                newest[each.path] = max(newest.get(each.path, (-1, -1)), (each.created_monotonic_ns, each.slot))
        self._by_path = {path: slot for path, (_, slot) in newest.items()}
        self._used = {each.slot for each in entries}
        trusted_slots = set(self._by_path.values())
        self.damaged = sum(each.is_in_use and each.path is None for each in entries)
        for each in entries:
            if each.is_in_use and each.slot not in trusted_slots:
                self._set_state(each.slot, _FREE)
        free = [slot for slot in reversed(range(self._geometry.max_slots)) if slot not in trusted_slots]
        # Slots used before come first, that is last in the list: their pages exist already.
        free.sort(key=lambda slot: slot in self._used)
        self._free = free

    def attach(self, relative_path: str, inode: int, *, now_monotonic_ns: int) -> int:
        """Return the slot of a cgroup: the one it has, or a free one with empty rings; see ``RingFile.attach``.

        Raises:
            RingsFull: No slot is left, or the disk has no room for one.
            RingError: The path is longer than a slot can hold, or the disk fails.
        """
        encoded = os.fsencode(relative_path)
        if len(encoded) > _MAX_PATH_BYTES:
            msg = f"cgroup path of {len(encoded)} bytes, at most {_MAX_PATH_BYTES} can be kept: {relative_path[:80]}..."
            raise RingError(msg)
        former = self._by_path.get(relative_path)
        if former is not None and self.inode(former) == inode:
            return former
        if not self._free:
            if former is None:
                msg = f"all {self._geometry.max_slots} slots are in use: {relative_path} is not watched"
                raise RingsFull(msg)
            self._set_free(former)  # the newcomer takes over the slot of its namesake
            former = None
        slot = self._free[-1]
        self._reserve(slot)
        self._begin(slot, encoded, inode, now_monotonic_ns)
        self._free.pop()
        self._used.add(slot)
        if former is not None:
            self._set_free(former)
        self._by_path[relative_path] = slot
        return slot

    def release(self, slot: int) -> None:
        """Free a slot; one that is free stays so. Lately freed slots are handed out first."""
        if self._halves[(self._offset(slot) + _STATE_OFFSET) >> 2] == _IN_USE:
            self._set_free(slot)

    def by_path(self) -> dict[str, int]:
        """Return path -> slot of the slots in use, a copy."""
        return dict(self._by_path)

    def used(self) -> tuple[int, ...]:
        """Return the slots that were ever used."""
        return tuple(self._used)

    def stored_by_path(self) -> dict[str, int]:
        """Return path -> slot as the file has it now: for who did not adopt it."""
        return {each.path: each.slot for each in self._stored_slots() if each.path is not None}

    def stored_used(self) -> tuple[int, ...]:
        """Return the slots that the file tells were ever used."""
        return tuple(each.slot for each in self._stored_slots())

    def inode(self, slot: int) -> int:
        """Return the inode of the cgroup behind a slot in use."""
        return int(self._identity(slot)[2])

    def let_go(self) -> None:
        """Forget the descriptor: it is closed."""
        self._fd = None

    def _offset(self, slot: int) -> int:
        if not 0 <= slot < self._geometry.max_slots:
            msg = f"slot {slot}, allowed are 0 to {self._geometry.max_slots - 1}"
            raise ValueError(msg)
        return self._first_offset + slot * self._stride

    def _set_state(self, slot: int, state: int) -> None:
        self._halves[(self._offset(slot) + _STATE_OFFSET) >> 2] = state

    def _identity(self, slot: int) -> tuple[int, int, int, int, bytes]:
        """Generation, path length, inode, created, path (padded)."""
        return _IDENTITY.unpack_from(self._memory, self._offset(slot) + _IDENTITY_OFFSET)

    def _identity_checksum(self, slot: int) -> int:
        begin = self._offset(slot) + _IDENTITY_OFFSET
        return zlib.crc32(self._memory[begin : begin + _IDENTITY.size])

    def _begin(self, slot: int, path: bytes, inode: int, now_monotonic_ns: int) -> None:
        """Assign a free slot to a cgroup. The state comes last: killed before that, the slot is free."""
        base = self._offset(slot)
        generation = (self._halves[(base + GENERATION_OFFSET) >> 2] + 1) & 0xFFFF_FFFF
        self._halves[(base + GENERATION_OFFSET) >> 2] = generation  # first: it voids the views that readers hold
        for word in (*_HEADS, PENDING, PEAK_SEEN):
            self._words[(base + word) >> 3] = 0
        _IDENTITY.pack_into(self._memory, base + _IDENTITY_OFFSET, generation, len(path), inode, now_monotonic_ns, path)
        self._halves[base >> 2] = self._identity_checksum(slot)
        self._set_state(slot, _IN_USE)

    def _reserve(self, slot: int) -> None:
        """Allocate the slot's part of the file on disk: a write into a hole of a full disk would be a SIGBUS."""
        if self._fd is None:
            return
        try:
            os.posix_fallocate(self._fd, self._offset(slot), self._stride)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                msg = f"state file {self._path}: its disk gives no blocks: {error.strerror}"
                raise RingError(msg) from error
            msg = f"state file {self._path}: no room for {self._stride} bytes more: {error.strerror}"
            raise RingsFull(msg) from error

    def _set_free(self, slot: int) -> None:
        _, length, _, _, encoded = self._identity(slot)
        path = os.fsdecode(encoded[:length])
        if self._by_path.get(path) == slot:  # it may name the newcomer under the same path already
            del self._by_path[path]
        self._set_state(slot, _FREE)
        self._free.append(slot)

    def _header_of(self, slot: int) -> bytes:
        """Return the slot's header; read, not mapped, where possible: mapping 1,000 would make 4 MiB resident."""
        begin = self._offset(slot)
        if self._fd is not None:
            return os.pread(self._fd, SLOT_HEADER.itemsize, begin)
        return self._memory[begin : begin + SLOT_HEADER.itemsize]

    def _stored_slots(self) -> Iterator[_StoredSlot]:
        """Return every slot that was ever used; with its path if it is in use and its checksum and heads are right."""
        for slot in range(self._geometry.max_slots):
            header = self._header_of(slot)
            checksum, state, generation = struct.unpack_from("<III", header)
            _, length, _, created_ns, path = _IDENTITY.unpack_from(header, _IDENTITY_OFFSET)
            if generation == 0 and state == _FREE:
                continue
            is_right = zlib.crc32(header[_IDENTITY_OFFSET : _IDENTITY_OFFSET + _IDENTITY.size]) == checksum
            is_right &= all(struct.unpack_from("<Q", header, head)[0] < _HIGHEST_HEAD for head in _HEADS)
            is_good = state == _IN_USE and length <= _MAX_PATH_BYTES and is_right
            yield _StoredSlot(slot, state != _FREE, os.fsdecode(path[:length]) if is_good else None, created_ns)
