"""Traces as files: CSV and JSON Lines (plain or gzip) with what the agent installs, Parquet with pyarrow; recordings.

Face. One of the two amounts may be absent. Rows count from 1, a header is none. What is wrong is told by file, row,
column and rule; no row is left out.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self, TextIO, TypeVar

from agent.cli.simulate.trace_parquet import ParquetError, ParquetTrace
from agent.cli.simulate.trace_values import AMOUNTS, COLUMNS, CONTAINER, TIME, JsonLines, Times, ValueFault, csv_rows
from agent.core.recommender.simulation.trace_builder import (
    TraceBuilder,
    TraceFault,
    TraceRows,
    TraceTooLargeError,
    shown_text,
)
from agent.named_file import open_named

if TYPE_CHECKING:
    from agent.core.recommender.simulation.trace import TraceSet

RECORDING: Final = ".plimsoll"
SUFFIXES: Final = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet", RECORDING)
_BLOCK_CHARACTERS: Final = 2 << 20
"""Read at a time: about 35,000 rows, some tens of MB at work."""
MOST_CHARACTERS: Final = 16 << 30
"""Of a trace, unpacked: some 250 million rows."""
_OTHER_NAMES: Final = {"timestamp": TIME, "ts": TIME, "date": TIME, "name": CONTAINER, "pod": CONTAINER}

Progress = Callable[[float], None]
"""Told which share of the file is read, 0..1."""


class TraceFileError(Exception):
    """A trace that cannot be read; the message is one line that names file, row, column and rule."""


def load_trace(path: Path, *, on_progress: Progress | None = None) -> TraceSet:
    """Read a trace of any kind that ``SUFFIXES`` lists; its name tells which."""
    suffix = next((ending for ending in SUFFIXES if path.name.lower().endswith(ending)), None)
    if suffix is None:
        raise TraceFileError(f"{path}: its name does not tell its format; allowed: {', '.join(SUFFIXES)}")
    if suffix == RECORDING:
        return _load_recording(path, on_progress)
    try:
        if suffix == ".parquet":
            return _load_parquet(path, on_progress)
        with _open_text(path, is_gzip=suffix.endswith(".gz")) as (stream, share_read):
            load = _load_csv if suffix.startswith(".csv") else _load_json_lines
            return load(path, _blocks(stream, on_progress, share_read))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceFileError(f"{path}: damaged gzip: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceFileError(f"{path}: not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise TraceFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise TraceFileError(f"{path}: does not fit into memory") from error
    except (TraceFileError, TraceTooLargeError, ParquetError) as error:
        raise TraceFileError(f"{path}: {error}") from error


@contextmanager
def _open_text(path: Path, *, is_gzip: bool) -> Iterator[tuple[TextIO, Callable[[], float]]]:
    with open_named(path) as raw:
        size = max(os.fstat(raw.fileno()).st_size, 1)

        def share_read() -> float:
            return min(raw.tell() / size, 1.0)

        if is_gzip:
            with gzip.open(raw, "rt", encoding="utf-8-sig") as stream:
                yield stream, share_read
        else:
            with open(raw.fileno(), encoding="utf-8-sig", closefd=False) as stream:
                yield stream, share_read


def _blocks(stream: TextIO, on_progress: Progress | None, share_read: Callable[[], float]) -> Iterator[list[str]]:
    """Return the lines without their ends, some at a time; empty lines at the end of the file are no rows."""
    rest = ""
    held_back = 0
    read_characters = 0
    while text := stream.read(_BLOCK_CHARACTERS):
        read_characters += len(text)
        if read_characters > MOST_CHARACTERS:
            raise TraceFileError(f"larger than {MOST_CHARACTERS >> 30} GiB, which is the most that is read")
        *lines, rest = (rest + text).split("\n")
        if len(rest) > _BLOCK_CHARACTERS:
            raise TraceFileError(f"a line is longer than {_BLOCK_CHARACTERS} characters: this is no trace")
        lines = [""] * held_back + lines
        held_back = 0
        while lines and not lines[-1].strip():
            lines.pop()
            held_back += 1
        if lines:
            yield lines
        if on_progress is not None:
            on_progress(share_read())
    if rest.strip():
        yield [""] * held_back + [rest]


# What all kinds share


class Rows(Protocol):
    """Rows as a file has them."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice[None, int, None], /) -> Self: ...


Piece = TypeVar("Piece", bound=Rows)


class _Reading:
    """Rows on their way from a file to the builder."""

    def __init__(self, name: str, *, header_lines: int | None) -> None:
        self._builder = TraceBuilder(name)
        self._header_lines = header_lines
        self._done = 0

    def take(self, pieces: Iterator[Piece], to_rows: Callable[[Piece], TraceRows]) -> Self:
        """Add pieces in order, as ``to_rows`` parses them; the first row that breaks a rule is a TraceFileError."""
        for piece in pieces:
            try:
                self._take_one(piece, to_rows)
            except (ValueFault, TraceFault) as fault:
                row = self._done + fault.index + 1
                line = "" if self._header_lines is None else f" (line {row + self._header_lines})"
                raise TraceFileError(f"row {row}{line}: column {fault.column}: {fault.rule}") from fault
            self._done += len(piece)
        return self

    def _take_one(self, piece: Piece, to_rows: Callable[[Piece], TraceRows]) -> None:
        try:
            rows = to_rows(piece)
        except ValueFault as fault:
            if fault.index:  # a row before it may break a rule of another kind, and the first one is told
                self._take_one(piece[: fault.index], to_rows)
            raise
        self._builder.add(rows)

    def trace(self, unused: Sequence[str]) -> TraceSet:
        """Return what was read; no row at all is a TraceFileError."""
        if not self._done:
            raise TraceFileError("it has no rows")
        trace = self._builder.build()
        if not unused:
            return trace
        return replace(trace, notes=(*trace.notes, f"columns not used: {', '.join(map(shown_text, unused))}"))


def _check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that are not used; one that is missing, stands twice or has another unit is a TraceFileError."""
    for name in names:
        if names.count(name) > 1:
            raise TraceFileError(f"column {shown_text(name)} appears twice; allowed: once")
        bare = name.strip().lower()
        near = next((column for column in AMOUNTS if bare.startswith(column[:3])), None)
        if name not in COLUMNS and near is not None:
            raise TraceFileError(f"column {shown_text(name)}: its unit is not known; allowed: {near} ({AMOUNTS[near]})")
    for name in (TIME, CONTAINER):
        if name not in names:
            like = [title for title in names if _OTHER_NAMES.get(title.strip().lower(), title.strip().lower()) == name]
            hint = f" (is it {shown_text(like[0])}?)" if like else ""
            raise TraceFileError(f"column {name} is missing{hint}; allowed: {', '.join(COLUMNS)}")
    if "cpu_millicores" not in names and "memory_bytes" not in names:
        raise TraceFileError("columns cpu_millicores and memory_bytes are both missing; allowed: one of them or both")
    return tuple(name for name in names if name not in COLUMNS)


# One kind each


def _load_csv(path: Path, blocks: Iterator[list[str]]) -> TraceSet:
    first = next(blocks, None)
    if first is None:
        raise TraceFileError("it has no rows")
    try:
        (names,) = csv.reader(first[:1], strict=True)
    except csv.Error as error:
        raise TraceFileError(f"the first line is no CSV header: {error}") from error
    unused = _check_columns(names)
    times = Times()
    lines = chain((first[1:],) if first[1:] else (), blocks)
    reading = _Reading(path.name, header_lines=1)
    return reading.take(lines, lambda some: csv_rows(some, names, times)).trace(unused)


def _load_json_lines(path: Path, blocks: Iterator[list[str]]) -> TraceSet:
    objects = JsonLines(Times())
    checked: set[str] = set()

    def to_rows(lines: list[str]) -> TraceRows:
        rows = objects.rows(lines)
        if not checked.issuperset(objects.names):
            _check_columns(tuple(objects.names))
            checked.update(objects.names)
        return rows

    reading = _Reading(path.name, header_lines=0).take(blocks, to_rows)
    return reading.trace(tuple(name for name in objects.names if name not in COLUMNS))


def _load_parquet(path: Path, on_progress: Progress | None) -> TraceSet:
    trace = ParquetTrace(path)
    unused = _check_columns(trace.names)
    reading = _Reading(path.name, header_lines=None)
    batches = trace.batches([name for name in trace.names if name in COLUMNS], on_progress)
    return reading.take(batches, trace.rows).trace(unused)


def _load_recording(path: Path, on_progress: Progress | None) -> TraceSet:
    from agent.cli.simulate.trace_recording import load_recording
    from agent.node.offline.recording_format import RecordingError

    try:
        return load_recording(path, on_progress=on_progress or (lambda share: None))
    except RecordingError as error:  # it names the file
        raise TraceFileError(str(error)) from error
    except TraceTooLargeError as error:
        raise TraceFileError(f"{path}: {error}") from error
