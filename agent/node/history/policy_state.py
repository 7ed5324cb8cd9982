"""A policy's own state in the state directory, beside the history that it could be learnt from again, more roughly.

Node. One file per policy: a header with a checksum, then numpy's npz without pickle. It is replaced as a whole: written
beside, flushed to the disk, renamed; so after any crash there is the old one or the new one.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.arrays import Rows
from agent.named_file import read_named
from agent.node.files.atomic_write import replace_file

STATE_VERSION: Final = 1
MAGIC: Final = b"PLMSSTAT"
_MOST_BYTES: Final = 1 << 30
"""Of a file; what is larger nobody wrote here."""
_HEADER: Final = struct.Struct("<8sIIQ")
"""Magic, version, CRC-32 and length of what follows."""
_KEYS: Final = "history_keys"
_SINCE: Final = "history_since_unix_minutes"
_NEWEST: Final = "history_newest_unix_minute"

Array = NDArray[np.float64] | NDArray[np.float32] | NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNames:
    """Who the rows of a history stood for at one moment."""

    keys: tuple[str, ...]
    """Text of each row's key; empty = the row stood for nobody."""
    since_unix_minutes: tuple[int, ...]
    """Since when: a key that lost its row and came back has another moment here."""
    newest_unix_minute: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """What was saved, and which of its rows still stand for what they stood for."""

    arrays: Mapping[str, Array]
    saved_rows: Rows
    """Rows of the arrays that are still there, shape ``(k,)``."""
    rows: Rows
    """The rows of the history that they are now, in the same order."""
    newest_unix_minute: int | None
    """Newest minute of the history when it was saved: what came later is still to be learnt."""


def write_state(path: Path, arrays: Mapping[str, Array], names: RowNames) -> None:
    """Replace the file at ``path``.

    Raises:
        ValueError: An array holds objects, or has a name that is ours: a fault of the caller.
        OSError: It cannot be written; the old one is still there.
    """
    for name in (_KEYS, _SINCE, _NEWEST):
        if name in arrays:
            msg = f"array {name!r}: this name is the history's own"
            raise ValueError(msg)
    content = io.BytesIO()
    own: dict[str, Array] = {
        _KEYS: np.frombuffer("\n".join(names.keys).encode("ascii"), dtype=np.uint8),
        _SINCE: np.array(names.since_unix_minutes, dtype=np.int64),
        _NEWEST: np.array([] if names.newest_unix_minute is None else [names.newest_unix_minute], dtype=np.int64),
    }
    with zipfile.ZipFile(content, "w") as members:
        for name, array in (own | dict(arrays)).items():
            with members.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    payload = content.getbuffer()
    replace_file(path, _HEADER.pack(MAGIC, STATE_VERSION, zlib.crc32(payload), len(payload)), payload)


def read_state(path: Path, present: RowNames) -> SavedState | str:
    """Read a file back and match its rows with those of the present; a str is the reason why there is none."""
    try:
        content = read_named(path, most_bytes=_MOST_BYTES)
    except FileNotFoundError:
        return f"saved state {path}: there is none"
    except OSError as error:
        return f"saved state {path}: {error.strerror}"
    if len(content) < _HEADER.size:
        return f"saved state {path}: truncated: {len(content)} bytes, the header alone has {_HEADER.size}"
    magic, version, checksum, length = _HEADER.unpack_from(content)
    if magic != MAGIC:
        return f"saved state {path}: not a saved state: it begins with {magic!r}, not {MAGIC!r}"
    if version != STATE_VERSION:
        return f"saved state {path}: version {version}, this program reads {STATE_VERSION}"
    payload = memoryview(content)[_HEADER.size :]
    if len(payload) != length or zlib.crc32(payload) != checksum:
        return f"saved state {path}: damaged: its checksum is not that of its {len(payload)} bytes"
    with np.load(io.BytesIO(payload), allow_pickle=False) as members:
        arrays: dict[str, Array] = {name: members[name] for name in members.files}
    newest = arrays.pop(_NEWEST).tolist()
    keys = arrays.pop(_KEYS).tobytes().decode("ascii").split("\n")
    now = {pair: row for row, pair in enumerate(zip(present.keys, present.since_unix_minutes, strict=True)) if pair[0]}
    pairs = [
        (saved, now[pair])
        for saved, pair in enumerate(zip(keys, arrays.pop(_SINCE).tolist(), strict=False))
        if pair in now
    ]
    matched = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return SavedState(
        arrays=arrays,
        saved_rows=matched[:, 0].copy(),
        rows=matched[:, 1].copy(),
        newest_unix_minute=newest[0] if newest else None,
    )
