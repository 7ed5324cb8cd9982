"""Traces in Parquet, through pyarrow, which is only wanted here and only then.

Face.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, Self

import numpy as np

from agent.cli.simulate.trace_values import AMOUNTS, CONTAINER, TIME, Times, ValueFault, to_rows
from agent.core.numbers.arrays import Bools, Floats
from agent.core.recommender.simulation.trace_builder import TraceRows
from agent.named_file import open_named

NO_PYARROW: Final = "Parquet needs pyarrow; install it: pip install 'plimsoll[traces]'"
_BATCH_ROWS: Final = 65_536


class ParquetError(Exception):
    """The file is no Parquet, or pyarrow is not there; the message is one line."""


class _Kind(Protocol):
    """A pyarrow.DataType, as far as it is asked."""

    @property
    def unit(self) -> str: ...


class _Column(Protocol):
    """A pyarrow.Array, as far as it is used."""

    @property
    def type(self) -> _Kind: ...

    def is_valid(self) -> _Column: ...

    def fill_null(self, value: float | str) -> _Column: ...

    def cast(self, kind: str, *, safe: bool = True) -> _Column: ...

    def to_numpy(self, *, zero_copy_only: bool) -> Floats: ...

    def to_pylist(self) -> list[object]: ...


class Batch(Protocol):
    """A pyarrow.RecordBatch, as far as it is used."""

    def column(self, name: str) -> _Column:
        """Return a column by its name."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice[None, int, None], /) -> Self: ...


class ParquetTrace:
    """One file, open for reading."""

    def __init__(self, path: Path) -> None:
        try:
            parquet = importlib.import_module("pyarrow.parquet")
            self._types = importlib.import_module("pyarrow.types")
        except ImportError as error:
            raise ParquetError(NO_PYARROW) from error
        self._times = Times()
        try:
            open_named(path).close()  # pyarrow would wait for a FIFO
            self._file = parquet.ParquetFile(path)
        except ValueError as error:  # pyarrow's own are such
            raise ParquetError(f"not Parquet: {_first_line(error)}") from error
        self.names: tuple[str, ...] = tuple(self._file.schema_arrow.names)

    def batches(self, columns: Sequence[str], on_progress: Callable[[float], None] | None) -> Iterator[Batch]:
        """Return the rows of these columns, some at a time; ParquetError = the file is damaged."""
        total, done = max(self._file.metadata.num_rows, 1), 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
                yield batch
                done += len(batch)
                if on_progress is not None:
                    on_progress(done / total)
        except (ValueError, OSError) as error:
            raise ParquetError(f"damaged: {_first_line(error)}") from error

    def rows(self, batch: Batch) -> TraceRows:
        """Read some rows; ValueFault = a column of another kind, or a value that cannot be understood."""
        there = [name for name in AMOUNTS if name in self.names]
        amounts = {name: self._amount(name, batch.column(name)) for name in there}
        column = batch.column(CONTAINER)
        names = column.to_pylist()
        for index, name in enumerate(names):
            if not isinstance(name, str):
                rule = "it is null" if name is None else f"its kind is {column.type}"
                raise ValueFault(index, CONTAINER, f"{rule}; allowed: text")
        return to_rows(self._seconds(batch.column(TIME)), [str(name) for name in names], amounts)

    def _seconds(self, column: _Column) -> Floats:
        types, kind = self._types, column.type
        has = _valid(column)
        if not has.all():
            raise ValueFault(int((~has).argmax()), TIME, "it is null; allowed: a time")
        if types.is_timestamp(kind):
            per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
            return column.cast("int64").to_numpy(zero_copy_only=False).astype(np.float64) / per_second
        if types.is_integer(kind) or types.is_floating(kind):
            return column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        texts = column.to_pylist()
        if not all(isinstance(text, str) for text in texts):
            raise ValueFault(0, TIME, f"its kind is {kind}; allowed: timestamp, number or ISO 8601 text")
        return self._times.read([str(text) for text in texts])

    def _amount(self, name: str, column: _Column) -> tuple[Floats, Bools]:
        types, kind = self._types, column.type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)):
            raise ValueFault(0, name, f"its kind is {kind}; allowed: {AMOUNTS[name]}, as numbers")
        return column.cast("float64", safe=False).fill_null(0.0).to_numpy(zero_copy_only=False), _valid(column)


def _valid(column: _Column) -> Bools:
    return column.is_valid().to_numpy(zero_copy_only=False).astype(np.bool_)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
