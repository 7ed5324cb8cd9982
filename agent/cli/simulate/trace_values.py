"""Values of a trace's columns as its files have them -> ``TraceRows``.

Face. Pure. The columns are ``time`` (Unix seconds, or ISO 8601, UTC unless it names a zone), ``container``,
``cpu_millicores``, ``memory_bytes`` and, if there is one, ``psi`` (0..1).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
import numpy as np

from agent.core.numbers.arrays import Bools, Floats
from agent.core.recommender.simulation.trace_builder import TraceRows, shown_text

TIME: Final = "time"
CONTAINER: Final = "container"
AMOUNTS: Final = {"cpu_millicores": "millicores", "memory_bytes": "bytes", "psi": "a ratio"}
"""What the amounts are measured in, in the words of an error."""
COLUMNS: Final = (TIME, CONTAINER, *AMOUNTS)
_QUICK_LINE: Final = 256
"""A longer line is read the careful way: a table of fixed width would be too wide for the others."""
_UNIT_LETTERS: Final = "munkKMGTPEiBb"


class ValueFault(Exception):  # noqa: N818 - a fault of the data
    """A value that is not what its column holds."""

    def __init__(self, index: int, column: str, rule: str) -> None:
        super().__init__(f"column {column}: {rule}")
        self.index = index
        """In the rows that were handed over, from 0."""
        self.column = column
        self.rule = rule


class Times:
    """Reads the column ``time``: all Unix seconds or all ISO 8601, as the first row has it."""

    def __init__(self) -> None:
        self.is_iso: bool | None = None
        """None = no row was read yet."""
        self._known: dict[str, float] = {}

    def read(self, texts: Sequence[str]) -> Floats:
        """Read some rows, at least one; ValueFault names the first that is no time, or one of the other kind."""
        if self.is_iso is None:
            self.is_iso = not _is_number(texts[0])
        if not self.is_iso:
            if "" in texts:
                raise ValueFault(texts.index(""), TIME, "it is empty; allowed: Unix seconds or ISO 8601")
            return numbers(texts, TIME, "Unix seconds, as in the first row")
        if len(self._known) > 100_000:
            self._known.clear()  # times that rise do not come back
        known = self._known
        for index, text in enumerate(texts):
            if text not in known:
                known[text] = _iso_seconds(index, text)
        return np.fromiter(map(known.__getitem__, texts), np.float64, len(texts))


def _iso_seconds(index: int, text: str) -> float:
    if _is_number(text):
        rule = f"{shown_text(text)} is a number; allowed: ISO 8601, as in the first row"
        raise ValueFault(index, TIME, rule)
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        rule = f"{shown_text(text)} is no time; allowed: Unix seconds or ISO 8601"
        raise ValueFault(index, TIME, rule) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python's own notation, which no other program writes


def numbers(texts: Sequence[str], column: str, allowed: str) -> Floats:
    """Read numbers, an empty text as 0; ValueFault names the first text that is no number."""
    try:
        if not any("_" in text for text in texts):
            return np.array([text or "0" for text in texts], dtype=np.float64)
    except ValueError:
        pass  # which one it was is found below
    index, text = next((index, text) for index, text in enumerate(texts) if text and not _is_number(text))
    raise ValueFault(index, column, not_a_number(text, allowed))


def not_a_number(text: str, allowed: str) -> str:
    """Return what is wrong with a text that is no number."""
    bare = text.strip()
    if bare and bare[0].isdigit() and _is_number(bare.rstrip(_UNIT_LETTERS)):
        return f"{shown_text(text)} has a unit; allowed: {allowed}, as plain numbers"
    return f"{shown_text(text)} is no number; allowed: {allowed}"


def to_rows(times: Floats, containers: Sequence[str], amounts: Mapping[str, tuple[Floats, Bools]]) -> TraceRows:
    """Combine columns; an amount that is not among them is a gap in every row."""
    size = len(containers)
    absent = (np.zeros(size), np.zeros(size, dtype=np.bool_))
    (cpu, has_cpu), (memory, has_memory), (psi, has_psi) = (amounts.get(column, absent) for column in AMOUNTS)
    return TraceRows(
        time_seconds=times,
        containers=containers,
        cpu_millicores=cpu,
        has_cpu=has_cpu,
        memory_bytes=memory,
        has_memory=has_memory,
        psi=psi,
        has_psi=has_psi,
    )


# CSV


def csv_rows(lines: list[str], names: Sequence[str], times: Times) -> TraceRows:
    """Read lines under a header; ValueFault = a line or a value that cannot be understood."""
    quick = None if times.is_iso is None else _quick_csv_rows(lines, names, times, is_iso=times.is_iso)
    return quick or _careful_csv_rows(lines, names, times)


def _quick_csv_rows(lines: list[str], names: Sequence[str], times: Times, *, is_iso: bool) -> TraceRows | None:
    """Read lines in which all is in order and nothing empty, five times as fast; None = they need a closer look."""
    longest = max(map(len, lines))
    if longest > _QUICK_LINE:
        return None
    text = f"U{longest}"
    kinds = {TIME: text if is_iso else "f8", CONTAINER: text} | dict.fromkeys(AMOUNTS, "f8")
    # Columns that nobody reads may hold anything; their names may be anything, so that places stand for them.
    kind = np.dtype([(f"{place}", kinds.get(name, "U1")) for place, name in enumerate(names)])
    try:
        table = np.loadtxt(lines, dtype=kind, delimiter=",", quotechar='"', comments=None, ndmin=1)
    except ValueError:
        return None
    if table.size != len(lines):
        return None  # an empty line was passed over
    columns = {name: table[f"{place}"] for place, name in enumerate(names) if name in COLUMNS}
    there = np.ones(table.size, dtype=np.bool_)
    amounts = {name: (np.ascontiguousarray(columns[name]), there) for name in AMOUNTS if name in columns}
    seconds = times.read(columns[TIME].tolist()) if is_iso else np.ascontiguousarray(columns[TIME])
    return to_rows(seconds, columns[CONTAINER].tolist(), amounts)


def _careful_csv_rows(lines: list[str], names: Sequence[str], times: Times) -> TraceRows:
    """Read lines with gaps, or find what is wrong with them."""
    rows: list[list[str]] = []
    reader = csv.reader(lines, strict=True)
    while len(rows) < len(lines):
        try:
            row = next(reader)
        except csv.Error as error:
            raise ValueFault(len(rows), names[0], f"the line is no CSV: {error}") from None
        if reader.line_num != len(rows) + 1:
            raise ValueFault(len(rows), CONTAINER, "a value goes over the end of the line; allowed: one row a line")
        if len(row) != len(names):
            rule = (
                f"the line has {len(row)} values; allowed: {len(names)}, as the header" if row else "the line is empty"
            )
            raise ValueFault(len(rows), names[min(len(row), len(names) - 1)], rule)
        rows.append(row)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    seconds = times.read(columns[TIME])
    amounts = {
        name: (numbers(columns[name], name, allowed), np.fromiter(map(bool, columns[name]), np.bool_, len(rows)))
        for name, allowed in AMOUNTS.items()
        if name in columns
    }
    return to_rows(seconds, columns[CONTAINER], amounts)


# JSON Lines


class JsonLines:
    """Reads objects, one a line; a name that is absent or null is a gap."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self.names: dict[str, None] = {}
        """Those of all objects read until now, in their order."""

    def rows(self, lines: list[str]) -> TraceRows:
        """Read some lines; ValueFault = a line or a value that cannot be understood."""
        objects = [self._object(index, line) for index, line in enumerate(lines)]
        for row in objects:
            self.names.update(dict.fromkeys(row))
        containers: list[str] = []
        for index, row in enumerate(objects):
            name = row.get(CONTAINER)
            if not isinstance(name, str):
                raise ValueFault(index, CONTAINER, f"{_shown(name)}; allowed: text")
            containers.append(name)
        amounts = {
            column: self._amounts(column, [row.get(column) for row in objects], allowed)
            for column, allowed in AMOUNTS.items()
        }
        return to_rows(self._seconds([row.get(TIME) for row in objects]), containers, amounts)

    @staticmethod
    def _object(index: int, line: str) -> dict[str, object]:
        value: object
        try:
            value = msgspec.json.decode(line)  # reading a trace takes little more than half as long as with json alone
        except (ValueError, RecursionError):
            try:
                value = json.loads(line)  # NaN and 1e999 are told by their column
            except (ValueError, RecursionError):
                raise ValueFault(index, TIME, "the line is no JSON; allowed: one object a line") from None
        if not isinstance(value, dict):
            raise ValueFault(index, TIME, "the line is no JSON object; allowed: one object a line")
        return value

    def _seconds(self, values: Sequence[object]) -> Floats:
        if self._times.is_iso is None:
            self._times.is_iso = isinstance(values[0], str)
        allowed = "ISO 8601" if self._times.is_iso else "Unix seconds"
        texts: list[str] = []
        for index, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, str if self._times.is_iso else (int, float)):
                raise ValueFault(index, TIME, f"{_shown(value)}; allowed: {allowed}, as in the first row")
            texts.append(str(value))
        return self._times.read(texts)

    @staticmethod
    def _amounts(column: str, values: Sequence[object], allowed: str) -> tuple[Floats, Bools]:
        amounts = np.zeros(len(values))
        has = np.ones(len(values), dtype=np.bool_)
        for index, value in enumerate(values):
            if value is None:
                has[index] = False
            elif isinstance(value, str):
                raise ValueFault(index, column, not_a_number(value, allowed))
            elif isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueFault(index, column, f"{_shown(value)}; allowed: {allowed}, or null for a gap")
            else:
                try:
                    amounts[index] = value
                except OverflowError:
                    amounts[index] = np.inf  # told as not finite
        return amounts, has


def _shown(value: object) -> str:
    if value is None:
        return "it is absent"
    return f"{shown_text(value)} is text" if isinstance(value, str) else f"{json.dumps(value)[:40]} is of another kind"
