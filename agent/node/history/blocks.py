"""The history file read and written by position: entries of the table, records of minutes. Node; see history_format."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

import numpy as np

from agent.core.history.minute.minute_codec import Codes
from agent.core.history.minute.table import BLOCK_ROWS, RING_MINUTES, KeyRow
from agent.core.numbers.arrays import Bools, Ints, distinct
from agent.node.history.format import (
    BLOCK_BYTES,
    KEY_ROW_BYTES,
    RECORD,
    block_offset,
    claimed_minutes,
    file_header,
    key_row_offset,
    pack_key_row,
    pack_records,
    record_offset,
    unpack_key_rows,
    unpack_records,
)
from agent.sensing.state_file import FILE_HEADER_BYTES

CHUNK_MINUTES: Final = 64
"""Read at once: 25 KB of each block, 3 MiB in all while 1,000 rows are decoded."""

Chunk = tuple[int, Codes, int]
"""First minute; codes of shape ``(minutes, 3, rows)``; how many records were not whole."""


class BlockFile:
    """A descriptor of a history file. Errors are the operating system's."""

    def __init__(self, fd: int) -> None:
        """For a file whose header is right; the descriptor is its own from now on."""
        self.fd: Final = fd
        self.blocks = (os.fstat(fd).st_size - FILE_HEADER_BYTES) // BLOCK_BYTES
        """How many the file has."""

    def read_entries(self, block: int) -> list[KeyRow | str | None]:
        """Read the table of a block; a str is the reason why an entry cannot be trusted, None = never used."""
        return unpack_key_rows(os.pread(self.fd, BLOCK_ROWS * KEY_ROW_BYTES, block_offset(block)))

    def write_entry(self, row: int, entry: KeyRow) -> None:
        """Write one entry of the table."""
        write_whole(self.fd, pack_key_row(entry), key_row_offset(row))

    def grow(self, blocks: int) -> None:
        """Grow to at least so many blocks; nothing is known in new ones, and they take no room before it is."""
        if blocks > self.blocks:
            os.ftruncate(self.fd, block_offset(blocks))
            self.blocks = blocks

    def write_minute(self, unix_minute: int, codes: Codes) -> None:
        """Write a minute of all rows, shape ``(3, rows)``; of blocks of which nothing is known, nothing."""
        for block, record in enumerate(pack_records(unix_minute, codes)):
            if codes[:, block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS].any():
                write_whole(self.fd, record, record_offset(block, unix_minute))

    def chunks(self, first_minute: int, stop_minute: int, blocks: range, since: Ints) -> Iterator[Chunk]:
        """Return what the ring holds of some blocks, in order; minutes from the first to before the stop.

        Args:
            first_minute: The first.
            stop_minute: One past the last.
            since: From which minute on each of their rows counts, shape ``(64 x blocks,)``.
        """
        minute = max(first_minute, stop_minute - RING_MINUTES, 0)
        while minute < stop_minute:
            # Up to the ring's end at most, so that one read gives it.
            count = min(CHUNK_MINUTES, stop_minute - minute, RING_MINUTES - minute % RING_MINUTES)
            axis = np.arange(minute, minute + count)
            codes: Codes = np.empty((count, 3, since.size), dtype=np.uint16)
            damaged = 0
            for place, block in enumerate(blocks):
                own, bad = unpack_records(self._records(block, minute, count), axis)
                codes[:, :, place * BLOCK_ROWS : (place + 1) * BLOCK_ROWS] = own
                damaged += bad
            codes *= (axis[:, np.newaxis] >= since)[:, np.newaxis, :]
            yield minute, codes, damaged
            minute += count

    def newest_minute(self) -> int | None:
        """Find the newest minute of which anything is known; None = there is none."""
        claims = [
            claimed_minutes(self._records(block, first, CHUNK_MINUTES), first)
            for block in range(self.blocks)
            for first in range(0, RING_MINUTES, CHUNK_MINUTES)
        ]
        for minute in distinct(np.concatenate(claims))[::-1] if claims else ():
            axis = np.array([minute])
            codes = [unpack_records(self._records(block, int(minute), 1), axis)[0] for block in range(self.blocks)]
            if any(own.any() for own in codes):
                return int(minute)
        return None

    def _records(self, block: int, minute: int, count: int) -> bytes:
        content = os.pread(self.fd, count * RECORD.itemsize, record_offset(block, minute))
        return content.ljust(count * RECORD.itemsize, b"\0")  # shorter: the file has not grown to it yet


def begin_file(fd: int) -> None:
    """Write the header of a new file."""
    write_whole(fd, file_header(), 0)


def write_whole(fd: int, content: bytes, offset: int) -> None:
    """Write all of it; a disk that takes only a part is full."""
    if os.pwrite(fd, content, offset) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def any_along(codes: Codes, axis: int) -> Bools:
    """Return where anything is known, along one axis of codes."""
    known: Bools = np.asarray(codes.any(axis=axis), dtype=np.bool_)
    return known
