"""The bytes of a recording: a zip of delta-coded columns, and a manifest that says what they are.

Node. ``recording_writer`` and ``recording`` use it; nothing here opens a file.

- ``manifest.json``: a ``Manifest``; written last.
- ``rows/CHUNK/KIND.COLUMN.npy``: columns of one kind of rows (raw, memory, minutes), those of one unit after those of
  another; ``KIND.units.npy`` and ``KIND.counts.npy`` say whose they are.
- ``history/CHUNK/COLUMN.npy``: minutes of the history of seven days: ``unix_minutes``, and ``codes`` as the history
  keeps them (``core.minute_rows``), one key after another, of each CPU mean, CPU peak and working set.

A column is the planes of ``core.column_codec``: an array of bytes of shape ``(k, n)``, never a pickle.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.cluster.pod_index import Belonging
from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.core.history.minute.minute_codec import Codes
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.numbers.arrays import Ints
from agent.core.numbers.column_codec import WORD_BYTES, Planes, Words, from_planes, to_planes
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, MINUTE_ROW, SAMPLE, Has
from agent.node.files.documents import Document

Rows = NDArray[np.void]

VERSION: Final = 1
MANIFEST: Final = "manifest.json"
CODES_OF_A_MINUTE: Final = 3


class RecordingError(Exception):
    """A recording that cannot be read or written; one line that names file, place and reason. The family."""


class RowKind(StrEnum):
    """The three kinds of rows."""

    RAW = "raw"
    MEMORY = "memory"
    MINUTES = "minutes"


DTYPES: Final = {RowKind.RAW: SAMPLE, RowKind.MEMORY: MEMORY_ROW, RowKind.MINUTES: MINUTE_ROW}
STAMPS: Final = {RowKind.RAW: "monotonic_ns", RowKind.MEMORY: "monotonic_ns", RowKind.MINUTES: "monotonic_minute"}
"""The column by which rows are ordered in time."""
LATER_COLUMNS: Final = frozenset({"active_file_bytes", "workingset_refault_file_pages"})
"""Columns that older recordings do not have: what they would tell is not known of those rows (``FILE_REFAULTS``)."""
_STEADY: Final = frozenset({"monotonic_ns", "monotonic_minute", "unix_minutes"})
"""Columns that grow by nearly the same each time."""
UNITS: Final = "units"
COUNTS: Final = "counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFacts:
    """What is known of a unit from some moment on."""

    since_monotonic_ns: int
    identity: UnitIdentity
    resources: UnitResources
    belonging: Belonging


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedUnit:
    """One cgroup that was recorded."""

    inode: int
    facts: tuple[UnitFacts, ...]
    """In order of time, at least one."""
    gone_monotonic_ns: int | None
    """Its last moment; None = it was there at the end."""

    def facts_at(self, monotonic_ns: int) -> UnitFacts:
        """Return what was known at a moment; before anything was, what was known first."""
        known = [facts for facts in self.facts if facts.since_monotonic_ns <= monotonic_ns]
        return known[-1] if known else self.facts[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedKill:
    """One out-of-memory kill that the history remembers."""

    history: int
    """Which of ``Manifest.histories``."""
    kill: OutOfMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows of one kind in a chunk."""

    rows: int
    units: int
    """How many units they are of."""
    first: int
    """Least stamp: ns, or whole minutes, of CLOCK_MONOTONIC; 0 without rows."""
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk:
    """A chunk of rows: some seconds or minutes of all units."""

    raw: Part
    memory: Part
    minutes: Part

    def part(self, kind: RowKind) -> Part:
        """Return the rows of one kind."""
        return {RowKind.RAW: self.raw, RowKind.MEMORY: self.memory, RowKind.MINUTES: self.minutes}[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChunk:
    """A chunk of the history: some minutes of some keys."""

    histories: tuple[int, ...]
    """Which of ``Manifest.histories``."""
    minutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a recording is and what is in it."""

    program: str
    """Version of Plimsoll that wrote it."""
    node: str
    cpus: int
    source: str
    """``agent``, ``state`` (of an agent that had ended) or ``self`` (sampled by the recorder)."""
    boot_id: str
    begun_unix_seconds: float
    """Of the oldest reading, as the wall clock had it at the end."""
    ended_unix_seconds: float
    """Of the newest reading."""
    begun_monotonic_ns: int
    ended_monotonic_ns: int
    history_offset_minutes: int
    """Minutes of the history minus minutes of CLOCK_MONOTONIC: the time that policies go by."""
    interval_seconds: float
    """Between two samples, as a rule."""
    slow_interval_seconds: float
    """Between two memory rows, as a rule."""
    windows: Mapping[str, float]
    """The settings ``windows`` of the recorder, by their names in the settings' file."""
    units: tuple[RecordedUnit, ...]
    histories: tuple[str, ...]
    """Keys of the history (``core.keys``)."""
    kills: tuple[RecordedKill, ...]
    row_chunks: tuple[RowChunk, ...]
    history_chunks: tuple[HistoryChunk, ...]
    notes: tuple[str, ...]

    @property
    def wall_offset_seconds(self) -> float:
        """Return the wall clock minus CLOCK_MONOTONIC."""
        return self.ended_unix_seconds - self.ended_monotonic_ns / 1e9


MANIFEST_DOCUMENT: Final = Document(Manifest, "recording", VERSION)


def gap_policy(manifest: Manifest) -> WindowPolicy:
    """Return what the recorder took for a gap.

    Raises:
        ValueError: The windows are none; the message says why.
    """
    usual = WindowPolicy(capacity_millicores=manifest.cpus * 1000)
    return replace(
        usual,
        tolerance_ratio=manifest.windows.get("toleranceRatio", usual.tolerance_ratio),
        max_step_seconds=manifest.windows.get("maxStepSeconds", usual.max_step_seconds),
    )


def rows_member(chunk: int, kind: RowKind, column: str) -> str:
    """Return the name of a column of rows in the zip."""
    return f"rows/{chunk:06d}/{kind}.{column}.npy"


def history_member(chunk: int, column: str) -> str:
    """Return the name of a column of the history in the zip."""
    return f"history/{chunk:06d}/{column}.npy"


def columns_of(kind: RowKind) -> tuple[str, ...]:
    """Return the names of the columns of one kind of rows."""
    names = DTYPES[kind].names
    return () if names is None else names


def pack_rows(kind: RowKind, rows: Rows) -> Iterator[tuple[str, bytes]]:
    """Return the columns of rows, name and bytes, of rows that lie unit by unit."""
    for name in columns_of(kind):
        field = np.ascontiguousarray(rows[name])
        bits = field.view(f"<u{field.itemsize}")
        yield name, pack_column(name, bits.astype(np.uint64))


def unpack_rows(kind: RowKind, columns: Mapping[str, Words]) -> Rows:
    """Return the rows of columns; the inverse of `pack_rows`. `LATER_COLUMNS` may be missing."""
    dtype = DTYPES[kind]
    rows = np.zeros(columns[STAMPS[kind]].size, dtype=dtype)
    for name in columns:
        field = dtype[name]
        rows[name] = columns[name].astype(f"<u{field.itemsize}").view(field)
    if kind is RowKind.MEMORY and not columns.keys() >= LATER_COLUMNS:
        rows["has"] &= np.uint32(~Has.FILE_REFAULTS & 0xFFFFFFFF)
    return rows


def pack_column(name: str, words: Words) -> bytes:
    """Return the bytes of a column."""
    content = io.BytesIO()
    np.lib.format.write_array(content, to_planes(words, _order(name)), version=(1, 0), allow_pickle=False)
    return content.getvalue()


def unpack_column(name: str, content: bytes, rows: int) -> Words:
    """Return a column of its bytes."""
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array of another version of numpy's format")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    # Before anything is made as large as the header says.
    if dtype != np.uint8 or is_fortran or len(shape) != 2 or shape[0] > WORD_BYTES or shape[1] != rows:
        raise ValueError(f"an array {shape} of {dtype}, not (up to {WORD_BYTES}, {rows}) of bytes")
    planes: Planes = np.frombuffer(content, dtype=np.uint8, offset=stream.tell())
    if planes.size != shape[0] * shape[1]:
        raise ValueError(f"{planes.size} bytes, not {shape[0]} x {shape[1]}")
    return from_planes(planes.reshape(shape), _order(name))


def pack_codes(codes: Codes) -> Words:
    """Return the codes of a history, shape ``(minutes, 3, keys)``, as one column that runs through time."""
    return np.ascontiguousarray(codes.transpose(2, 1, 0)).reshape(-1).astype(np.uint64)


def unpack_codes(words: Words, *, minutes: int, keys: int) -> Codes:
    """Return the codes of a history; the inverse of `pack_codes`."""
    codes: Codes = words.astype(np.uint16).reshape(keys, CODES_OF_A_MINUTE, minutes)
    return codes.transpose(2, 1, 0)


def split_by_unit(rows: Rows, units: Ints, counts: Ints) -> list[tuple[int, Rows]]:
    """Return the rows of each unit, of rows that lie unit by unit."""
    ends = np.cumsum(counts)
    return [
        (unit, rows[end - count : end])
        for unit, count, end in zip(units.tolist(), counts.tolist(), ends.tolist(), strict=True)
    ]


def as_words(values: Sequence[int]) -> Words:
    """Return whole numbers from 0 as a column."""
    return np.array(values, dtype=np.uint64)


def _order(name: str) -> int:
    return 2 if name in _STEADY else 1
