"""Writes a recording chunk by chunk, under another name until it is whole. Node."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import numpy as np

from agent.core.history.minute.minute_codec import Codes
from agent.core.numbers.arrays import Ints
from agent.node.offline.recording_format import (
    COUNTS,
    DTYPES,
    MANIFEST,
    MANIFEST_DOCUMENT,
    STAMPS,
    UNITS,
    HistoryChunk,
    Manifest,
    Part,
    RecordingError,
    RowChunk,
    RowKind,
    Rows,
    as_words,
    history_member,
    pack_codes,
    pack_column,
    pack_rows,
    rows_member,
)

UnitRows = Mapping[RowKind, Sequence[tuple[int, Rows]]]
"""By kind: units and their rows, each unit once, a unit's rows oldest first."""
_LEVEL: Final = 6
"""Of deflate; 9 takes twice the time for 1 % less."""


class RecordingWriter:
    """A recording in the making; a context manager that leaves nothing behind unless it was finished."""

    def __init__(self, path: Path) -> None:
        """Begin beside the final name."""
        self.path: Final = path
        # The process id keeps two recorders apart that were given the same name: the last one to end wins.
        self._target: Final = path.resolve()  # a link stays one
        self._part: Final = self._target.with_name(f".{self._target.name}.{os.getpid()}.part")
        self._rows: list[RowChunk] = []
        self._history: list[HistoryChunk] = []
        try:
            self._file = self._part.open("w+b")
        except OSError as error:
            raise self._cannot(error) from error
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)
        self._is_open = True

    def add_rows(self, rows: UnitRows) -> None:
        """Write a chunk of rows."""
        chunk = len(self._rows)
        parts: dict[RowKind, Part] = {}
        for kind, dtype in DTYPES.items():
            units = [(unit, unit_rows) for unit, unit_rows in rows.get(kind, ()) if unit_rows.size]
            table = np.concatenate([np.zeros(0, dtype=dtype), *(unit_rows for _, unit_rows in units)])
            if not table.size:
                parts[kind] = Part(rows=0, units=0, first=0, last=0)
                continue
            stamps = table[STAMPS[kind]]
            parts[kind] = Part(rows=table.size, units=len(units), first=int(stamps.min()), last=int(stamps.max()))
            columns = {
                UNITS: pack_column(UNITS, as_words([unit for unit, _ in units])),
                COUNTS: pack_column(COUNTS, as_words([unit_rows.size for _, unit_rows in units])),
                **dict(pack_rows(kind, table)),
            }
            for column, content in columns.items():
                self._put(rows_member(chunk, kind, column), content)
        self._rows.append(
            RowChunk(raw=parts[RowKind.RAW], memory=parts[RowKind.MEMORY], minutes=parts[RowKind.MINUTES])
        )

    def add_history(self, histories: Sequence[int], unix_minutes: Ints, codes: Codes) -> None:
        """Write a chunk of the history.

        Args:
            histories: Numbers of the keys, ``k`` of them.
            unix_minutes: Rising, shape ``(m,)``.
            codes: Shape ``(m, 3, k)``.
        """
        chunk = len(self._history)
        self._put(history_member(chunk, "unix_minutes"), pack_column("unix_minutes", unix_minutes.astype(np.uint64)))
        self._put(history_member(chunk, "codes"), pack_column("codes", pack_codes(codes)))
        self._history.append(HistoryChunk(histories=tuple(histories), minutes=unix_minutes.size))

    def finish(self, manifest: Manifest) -> int:
        """Write the manifest and give the file its name.

        Args:
            manifest: All but the chunks, which are known here.

        Returns:
            Bytes of the file.

        Raises:
            RecordingError: It cannot be written; nothing is left under either name.
        """
        whole = replace(manifest, row_chunks=tuple(self._rows), history_chunks=tuple(self._history))
        try:
            self._zip.writestr(MANIFEST, json.dumps(MANIFEST_DOCUMENT.to_json(whole), allow_nan=False))
            self._zip.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            size = self._file.tell()
            self._file.close()
            self._part.replace(self._target)
        except OSError as error:
            self.abandon()
            raise self._cannot(error) from error
        self._is_open = False
        return size

    def abandon(self) -> None:
        """Leave nothing behind; after `finish` do nothing."""
        if self._is_open:
            self._is_open = False
            self._part.unlink(missing_ok=True)
            # The zip is not closed in order: it would try to write its end, on a disk that may be full.
            self._zip.fp = None
            with contextlib.suppress(OSError):  # what is held back would go to the full disk now
                self._file.close()

    def _put(self, member: str, content: bytes) -> None:
        try:
            self._zip.writestr(member, content)
        except OSError as error:
            raise self._cannot(error) from error

    def _cannot(self, error: OSError) -> RecordingError:
        return RecordingError(f"recording {self.path}: cannot be written: {error.strerror or error}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()
