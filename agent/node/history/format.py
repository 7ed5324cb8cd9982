"""The bytes of the history file: header, blocks of 64 rows, in each a table of keys and a ring of minutes.

Node. ``histories`` reads and writes; here is where everything lies, and how to tell what is whole.

A record holds one minute of the 64 rows of a block, with a checksum over minute and amounts. It needs no other sign of
being there: a record that was cut off, one of a week ago and bytes never written all fail to be the record of the
minute that is asked for. A row of the table has a checksum of its own.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np

from agent.core.history.minute.key import MAX_KEY_BYTES, parse_history_key
from agent.core.history.minute.minute_codec import Codes
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.history.minute.table import BLOCK_ROWS, KILLS_KEPT, RING_MINUTES, KeyRow
from agent.core.numbers.arrays import Ints
from agent.sensing.state_file import FILE_HEADER_BYTES

FORMAT_VERSION: Final = 1
MAGIC: Final = b"PLMSHIST"

RECORD: Final = np.dtype(
    [("checksum", "<u4"), ("unix_minute", "<u4"), ("codes", "<u2", (3, BLOCK_ROWS))],
)
"""One minute of a block; 392 bytes. Codes of ``core.minute_codec``: mean and peak of CPU in millicores, peak of the
working set in KiB."""

_KILL: Final = np.dtype([("unix_seconds", "<f8"), ("amounts", "<u8", (3,)), ("has", "<u4"), ("reserved", "<u4")])
"""``amounts`` are usage, limit and request in bytes; bit i of ``has`` tells whether the i-th is known; bit 3 is
``_TOLD_BY_STATUS``."""
_TOLD_BY_STATUS: Final = 1 << 3
_KEY_ROW: Final = np.dtype(
    [
        ("checksum", "<u4"),
        ("key_bytes", "<u4"),
        ("since_unix_minute", "<u4"),
        ("kill_count", "<u4"),
        ("key", "u1", (MAX_KEY_BYTES,)),
        ("kills", _KILL, (KILLS_KEPT,)),
    ]
)
KEY_ROW_BYTES: Final = _KEY_ROW.itemsize

RING_OFFSET: Final = -(-BLOCK_ROWS * _KEY_ROW.itemsize // 4096) * 4096
"""From a block's start to its ring; bytes."""
BLOCK_BYTES: Final = RING_OFFSET + RING_MINUTES * RECORD.itemsize
"""3.9 MiB; 4 blocks, 256 rows, are 15.6."""

_HEADER: Final = struct.Struct("<8s5IQ")
"""Magic, version, rows and minutes of a block, bytes of a record and of a row of the table, bytes of a block."""
_CHECKSUM: Final = struct.Struct("<I")


def file_header() -> bytes:
    """Return the header of a history file; its owner is not filled in."""
    fixed = _HEADER.pack(MAGIC, FORMAT_VERSION, BLOCK_ROWS, RING_MINUTES, RECORD.itemsize, KEY_ROW_BYTES, BLOCK_BYTES)
    return (fixed + _CHECKSUM.pack(zlib.crc32(fixed))).ljust(FILE_HEADER_BYTES, b"\0")


def why_unfit(header: bytes, size: int) -> str | None:
    """Return the reason why a file is no history file of this program; None = it is one."""
    if len(header) < FILE_HEADER_BYTES:
        return f"truncated: {size} bytes, the header alone has {FILE_HEADER_BYTES}"
    magic, version, *lengths = _HEADER.unpack_from(header)
    if magic != MAGIC:
        return f"not a history file: it begins with {magic!r}, not {MAGIC!r}"
    if version != FORMAT_VERSION:  # before the checksum, which another version may have elsewhere
        return f"version {version}, this program reads {FORMAT_VERSION}"
    expected = zlib.crc32(header[: _HEADER.size])
    (checksum,) = _CHECKSUM.unpack_from(header, _HEADER.size)
    if checksum != expected:
        return f"bad checksum of the header: {checksum:#010x}, its content gives {expected:#010x}"
    own = list(_HEADER.unpack_from(file_header())[2:])
    if lengths != own:
        return f"lengths {lengths}, this program has {own}"
    if (size - FILE_HEADER_BYTES) % BLOCK_BYTES:
        return f"truncated: {size} bytes, that is {FILE_HEADER_BYTES} and no whole number of {BLOCK_BYTES}"
    return None


def block_offset(block: int) -> int:
    """Return where a block starts in the file."""
    return FILE_HEADER_BYTES + block * BLOCK_BYTES


def key_row_offset(row: int) -> int:
    """Return where a row's entry of the table lies in the file."""
    return block_offset(row // BLOCK_ROWS) + row % BLOCK_ROWS * KEY_ROW_BYTES


def record_offset(block: int, unix_minute: int) -> int:
    """Return where the record of a minute lies in the file."""
    return block_offset(block) + RING_OFFSET + unix_minute % RING_MINUTES * RECORD.itemsize


def pack_key_row(row: KeyRow) -> bytes:
    """Return the bytes of a row of the table."""
    packed = np.zeros((), dtype=_KEY_ROW)
    text = str(row.key).encode("ascii")
    packed["key_bytes"] = len(text)
    packed["since_unix_minute"] = row.since_unix_minute
    packed["kill_count"] = len(row.kills)
    packed["key"][: len(text)] = np.frombuffer(text, dtype=np.uint8)
    for place, kill in enumerate(row.kills):
        amounts = (kill.usage_bytes, kill.limit_bytes, kill.request_bytes)
        entry = packed["kills"][place]
        entry["unix_seconds"] = kill.unix_seconds
        entry["amounts"] = [amount or 0 for amount in amounts]
        entry["has"] = sum(1 << bit for bit, amount in enumerate(amounts) if amount is not None) | (
            _TOLD_BY_STATUS if kill.is_told_by_status else 0
        )
    packed["checksum"] = zlib.crc32(packed.tobytes()[4:])
    return packed.tobytes()


def unpack_key_rows(table: bytes) -> list[KeyRow | str | None]:
    """Read the rows of a block's table; a str is the reason why one cannot be trusted, None = never used."""
    return [_unpack_key_row(entry) for entry in np.frombuffer(table, dtype=_KEY_ROW, count=BLOCK_ROWS)]


def _unpack_key_row(entry: np.void) -> KeyRow | str | None:
    content = entry.tobytes()
    if not content.strip(b"\0"):
        return None
    if zlib.crc32(content[4:]) != int(entry["checksum"]):
        return "bad checksum"
    try:
        key = parse_history_key(entry["key"].tobytes()[: int(entry["key_bytes"])].decode("ascii"))
    except ValueError as error:  # another program wrote it: the checksum is right
        return str(error)
    kills = tuple(_unpack_kill(kill) for kill in entry["kills"][: int(entry["kill_count"])])
    return KeyRow(key=key, since_unix_minute=int(entry["since_unix_minute"]), kills=kills)


def _unpack_kill(entry: np.void) -> OutOfMemory:
    has = int(entry["has"])
    usage, limit, request = (
        int(amount) if has & 1 << bit else None for bit, amount in enumerate(entry["amounts"].tolist())
    )
    return OutOfMemory(
        unix_seconds=float(entry["unix_seconds"]),
        usage_bytes=usage,
        limit_bytes=limit,
        request_bytes=request,
        is_told_by_status=bool(has & _TOLD_BY_STATUS),
    )


def pack_records(unix_minute: int, codes: Codes) -> list[bytes]:
    """Return one minute's record of each block; the codes are of all rows, shape ``(3, 64 x blocks)``."""
    blocks = codes.shape[1] // BLOCK_ROWS
    records = np.zeros(blocks, dtype=RECORD)
    records["unix_minute"] = unix_minute
    records["codes"] = codes.reshape(3, blocks, BLOCK_ROWS).transpose(1, 0, 2)
    packed = [record.tobytes() for record in records]
    return [_CHECKSUM.pack(zlib.crc32(record[4:])) + record[4:] for record in packed]


def unpack_records(content: bytes, unix_minutes: Ints) -> tuple[Codes, int]:
    """Read records that are to be those of given minutes.

    Returns:
        Codes, shape ``(len(unix_minutes), 3, 64)``, zeros (missing) where the record is of another minute or not whole;
        and how many were of the right minute but not whole.
    """
    records = np.frombuffer(content, dtype=RECORD)
    is_whole = records["unix_minute"] == unix_minutes
    checksums = records["checksum"]
    view = memoryview(content)
    damaged = 0
    for place in np.flatnonzero(is_whole).tolist():
        start = place * RECORD.itemsize
        if zlib.crc32(view[start + 4 : start + RECORD.itemsize]) != checksums[place]:
            is_whole[place] = False
            damaged += 1
    codes: Codes = records["codes"] * is_whole[:, np.newaxis, np.newaxis]
    return codes, damaged


def claimed_minutes(content: bytes, first_place: int) -> Ints:
    """Return the minutes that records say they are of, where they lie at the place of such a minute; not checked.

    Args:
        content: Records that lie side by side.
        first_place: The place of the first in its ring.
    """
    minutes: Ints = np.frombuffer(content, dtype=RECORD)["unix_minute"].astype(np.int64)
    places = np.arange(first_place, first_place + minutes.size)
    claimed: Ints = minutes[(minutes > 0) & (minutes % RING_MINUTES == places)]
    return claimed
