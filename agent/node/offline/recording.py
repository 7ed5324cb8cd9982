"""Reads a recording: what is in it, its rows chunk by chunk, the history that it took along. Node."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

from agent.core.history.minute.minute_codec import Codes
from agent.core.numbers.arrays import Ints
from agent.core.numbers.column_codec import WORD_BYTES, Words
from agent.core.numbers.document_text import DocumentTextError, decoded, json_value
from agent.kube.client.errors import one_line
from agent.named_file import open_named
from agent.node.files.documents import DocumentFormatError
from agent.node.offline.recording_format import (
    CODES_OF_A_MINUTE,
    COUNTS,
    LATER_COLUMNS,
    MANIFEST,
    MANIFEST_DOCUMENT,
    UNITS,
    VERSION,
    Manifest,
    RecordingError,
    RowKind,
    Rows,
    columns_of,
    gap_policy,
    history_member,
    rows_member,
    split_by_unit,
    unpack_codes,
    unpack_column,
    unpack_rows,
)

MAX_MANIFEST_BYTES: Final = 64 << 20
"""Of some 60,000 units."""
MAX_COLUMN_ROWS: Final = 1 << 21
"""Of one chunk; more than is ever written, and 16 MiB."""
MAX_KEYS: Final = 20_000
"""Of the history: as many as the containers that an agent may watch."""
MAX_HISTORY_MINUTES: Final = 1 << 17
"""A quarter of a year."""
MAX_HISTORY_CODES: Final = 1 << 26
"""Minutes x keys x 3, 128 MiB; seven days of 2,200 keys."""
MAX_MINUTE_ROWS: Final = 1 << 24
"""Of all chunks: ten days of a thousand containers."""
_END_OF_TIME_NS: Final = 1 << 62
"""Of either clock: 146 years."""
_DAY_SECONDS: Final = 86_400
_MOST_CPUS: Final = 1 << 20
_HEADER_BYTES: Final = 1024
"""More than the header of an array takes."""
_ZIP_BEGINS: Final = b"PK\x03\x04"
_UNREADABLE: Final = (zipfile.BadZipFile, RuntimeError, struct.error, ValueError)
"""What zipfile raises of a file that is none, or says of itself what cannot be: also encrypted, of a later version."""


class RecordedHistory(NamedTuple):
    """The history of a recording."""

    unix_minutes: Ints
    """Rising, shape ``(m,)``."""
    codes: Codes
    """Shape ``(m, 3, keys)``, the keys as ``Manifest.histories`` has them."""


class Recording:
    """A recording that is open for reading; close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open it and read what is in it.

        Raises:
            RecordingError: It cannot be read, is no recording, of another version, cut off or damaged.
        """
        self.path: Final = path
        try:
            self._file: Final = open_named(path)
        except OSError as error:
            raise self._fault(f"cannot be read: {error.strerror or error}") from error
        with ExitStack() as undone:
            undone.callback(self._file.close)
            self._zip: Final = self._opened()
            self.manifest: Final = self._read_manifest()
            undone.pop_all()

    def _opened(self) -> zipfile.ZipFile:
        try:
            begins = self._file.read(len(_ZIP_BEGINS))
            if begins != _ZIP_BEGINS:
                raise self._fault(f"not a recording of plimsoll: it begins with {begins!r}, not {_ZIP_BEGINS!r}")
            return zipfile.ZipFile(self._file)
        except OSError as error:
            raise self._fault(f"cannot be read: {error.strerror or error}") from error
        except _UNREADABLE as error:
            # A file that was cut off is the case to expect, and is not told from others by its error.
            is_whole = not isinstance(error, zipfile.BadZipFile)
            why = f"damaged: {one_line(str(error))}" if is_whole else "cut off: its end is missing"
            raise self._fault(why) from error

    def _read_manifest(self) -> Manifest:
        if MANIFEST not in self._zip.namelist():
            raise self._fault(f"not a recording of plimsoll: a zip without {MANIFEST}")
        content = self._read(MANIFEST, MAX_MANIFEST_BYTES)
        try:
            document = json_value(decoded(content))
        except DocumentTextError as error:
            raise self._fault(f"damaged: {MANIFEST}: {error}") from error
        if isinstance(document, dict) and document.get("format") == MANIFEST_DOCUMENT.format:
            version = document.get("version")
            if version != VERSION:
                raise self._fault(f"version {version!r}, this program reads {VERSION}")
        try:
            manifest = MANIFEST_DOCUMENT.from_json(document)
        except DocumentFormatError as error:
            raise self._fault(f"not as this program writes it: {error}") from error
        try:
            gap_policy(manifest)
        except ValueError as error:
            raise self._fault(f"damaged: {MANIFEST}: {error}") from error
        odd = _odd(manifest)
        if odd is not None:
            raise self._fault(f"damaged: {MANIFEST}: {odd}")
        for number, rows in enumerate(manifest.row_chunks):
            for kind in RowKind:
                part = rows.part(kind)
                self._check_size(f"rows/{number:06d} {kind}", part.rows)
                self._check_size(f"rows/{number:06d} {kind}", part.units)
        for number, minutes in enumerate(manifest.history_chunks):
            count = minutes.minutes * CODES_OF_A_MINUTE * len(minutes.histories)
            self._check_size(f"history/{number:06d}", max(count, minutes.minutes) if minutes.minutes >= 0 else -1)
            if any(not 0 <= key < len(manifest.histories) for key in minutes.histories):
                raise self._fault(f"damaged: history/{number:06d}: keys that are not there")
        minutes_and_keys = [(chunk.minutes, len(chunk.histories)) for chunk in manifest.history_chunks]
        self._check_history(sum(minutes * keys for minutes, keys in minutes_and_keys))
        self._check_most("minute rows", sum(chunk.minutes.rows for chunk in manifest.row_chunks), MAX_MINUTE_ROWS)
        self._check_most("keys of the history", len(manifest.histories), MAX_KEYS)
        # Each key's minutes are in its own chunks: those of one moment may stand in many.
        self._check_most("minutes in all chunks", sum(minutes for minutes, _ in minutes_and_keys), MAX_HISTORY_CODES)
        return manifest

    def _check_most(self, what: str, count: int, most: int) -> None:
        if count > most:
            raise self._fault(f"{count} {what}; allowed: up to {most}; record less with --filter")

    def _check_history(self, minutes_of_keys: int) -> None:
        self._check_most("figures of the history", minutes_of_keys * CODES_OF_A_MINUTE, MAX_HISTORY_CODES)

    def _check_size(self, where: str, rows: int) -> None:
        if not 0 <= rows <= MAX_COLUMN_ROWS:
            raise self._fault(f"damaged: {where}: {rows} rows; allowed: up to {MAX_COLUMN_ROWS}")

    def rows(self, chunk: int, kind: RowKind) -> list[tuple[int, Rows]]:
        """Return the rows of one kind in a chunk, unit by unit: number of the unit, its rows, oldest first."""
        part = self.manifest.row_chunks[chunk].part(kind)
        count = part.rows
        if not count:
            return []
        units, counts = (self._column(rows_member(chunk, kind, name), name, part.units) for name in (UNITS, COUNTS))
        is_right = bool((units < len(self.manifest.units)).all()) and bool((counts <= count).all())
        if not is_right or int(counts.sum()) != count:
            raise self._fault(f"damaged: {rows_member(chunk, kind, COUNTS)}: not the {count} rows of the manifest")
        members = {name: rows_member(chunk, kind, name) for name in columns_of(kind)}
        later = LATER_COLUMNS & members.keys()
        missing = {name for name in later if not self._has(members[name])}
        if missing and missing != later:  # an older program wrote none of them
            raise self._fault(f"damaged: {members[min(missing)]} is missing")
        stored = {name: member for name, member in members.items() if name not in missing}
        columns = {name: self._column(member, name, count) for name, member in stored.items()}
        return split_by_unit(unpack_rows(kind, columns), units.astype(np.int64), counts.astype(np.int64))

    def all_rows(self, kind: RowKind, *, first: int = 0, last: int = 2**63) -> Iterator[tuple[int, Rows]]:
        """Return the rows of one kind in order of time: a unit may come several times, its rows oldest first.

        Args:
            first: Chunks whose newest row is older than this are left out; a stamp as ``Part`` has it.
            last: So are those whose oldest row is newer.
        """
        for number, chunk in enumerate(self.manifest.row_chunks):
            part = chunk.part(kind)
            if part.rows and part.last >= first and part.first <= last:
                yield from self.rows(number, kind)

    def history(self) -> RecordedHistory:
        """Return the history, all chunks in one."""
        chunks = []
        for number, chunk in enumerate(self.manifest.history_chunks):
            keys, minutes = len(chunk.histories), chunk.minutes
            stored = self._column(history_member(number, "unix_minutes"), "unix_minutes", minutes)
            words = self._column(history_member(number, "codes"), "codes", minutes * CODES_OF_A_MINUTE * keys)
            if not bool((stored[1:] > stored[:-1]).all()) or int(stored.max(initial=0)) >= 2**32:
                raise self._fault(f"damaged: {history_member(number, 'unix_minutes')}: minutes that do not rise")
            chunks.append((chunk.histories, stored.astype(np.int64), unpack_codes(words, minutes=minutes, keys=keys)))
        every = [axis for _, axis, _ in chunks]
        unix_minutes = np.unique(np.concatenate(every)) if every else np.zeros(0, dtype=np.int64)
        # Before anything is made as large as a few minutes of each of many keys would have it.
        self._check_most("minutes of history", int(unix_minutes.size), MAX_HISTORY_MINUTES)
        self._check_history(int(unix_minutes.size) * len(self.manifest.histories))
        whole: Codes = np.zeros((unix_minutes.size, CODES_OF_A_MINUTE, len(self.manifest.histories)), dtype=np.uint16)
        for histories, axis, codes in chunks:
            places = np.searchsorted(unix_minutes, axis)
            for column, history in enumerate(histories):
                whole[places, :, history] = codes[:, :, column]
        return RecordedHistory(unix_minutes, whole)

    def _has(self, member: str) -> bool:
        return member in self._zip.namelist()

    def _column(self, member: str, name: str, rows: int) -> Words:
        content = self._read(member, WORD_BYTES * rows + _HEADER_BYTES)
        try:
            return unpack_column(name, content, rows)
        except ValueError as error:
            raise self._fault(f"damaged: {member}: {error}") from error

    def _read(self, member: str, most_bytes: int) -> bytes:
        try:
            entry = self._zip.getinfo(member)
            if entry.file_size > most_bytes:
                raise self._fault(f"damaged: {member}: {entry.file_size} bytes; allowed: up to {most_bytes}")
            return self._zip.read(entry)
        except KeyError as error:
            raise self._fault(f"damaged: {member} is missing") from error
        except (*_UNREADABLE, zlib.error, EOFError) as error:
            raise self._fault(f"damaged: {member}: {one_line(str(error))}") from error
        except OSError as error:
            raise self._fault(f"cannot be read: {member}: {error.strerror or error}") from error

    def _fault(self, reason: str) -> RecordingError:
        return RecordingError(f"recording {self.path}: {reason}")

    def close(self) -> None:
        """Close the file; a second call is fine."""
        self._zip.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _odd(manifest: Manifest) -> str | None:
    """Return what of a manifest cannot be; None = all of it can."""
    moments = (
        manifest.begun_monotonic_ns,
        manifest.ended_monotonic_ns,
        *(facts.since_monotonic_ns for unit in manifest.units for facts in unit.facts),
        *(unit.gone_monotonic_ns for unit in manifest.units if unit.gone_monotonic_ns is not None),
    )
    if not all(0 <= moment < _END_OF_TIME_NS for moment in moments):
        return f"a moment that cannot be; allowed: 0 to {_END_OF_TIME_NS} ns"
    if manifest.begun_monotonic_ns > manifest.ended_monotonic_ns or any(not unit.facts for unit in manifest.units):
        return "its moments are out of order, or a unit has no name"
    walls = (
        manifest.begun_unix_seconds,
        manifest.ended_unix_seconds,
        *(entry.kill.unix_seconds for entry in manifest.kills),
    )
    if not all(0 <= wall < _END_OF_TIME_NS / 1e9 for wall in walls) or abs(manifest.history_offset_minutes) >= 2**31:
        return "a time of day that cannot be"
    if not 0 < manifest.cpus <= _MOST_CPUS:
        return f"{manifest.cpus} CPUs; allowed: 1 to {_MOST_CPUS}"
    if not all(0 < seconds <= _DAY_SECONDS for seconds in (manifest.interval_seconds, manifest.slow_interval_seconds)):
        return f"an interval that cannot be; allowed: above 0, to {_DAY_SECONDS} s"
    if any(not 0 <= entry.history < len(manifest.histories) for entry in manifest.kills):
        return "an out-of-memory kill of a key that is not there"
    return None
