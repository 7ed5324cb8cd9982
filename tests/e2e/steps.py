"""The table of steps: each is tried, timed and told at once; one that fails hides none of the others."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

WIDTH: Final = 62
ERROR_LINES: Final = 12
OK, FAILED, LEFT_OUT = "ok", "FAILED", "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of one step."""

    title: str
    outcome: str
    """OK, FAILED or LEFT_OUT."""
    seconds: float
    note: str


@dataclass(slots=True)
class Steps:
    """The steps of one node, in order."""

    heading: str
    rows: list[Row] = field(default_factory=list)
    whenever_failed: Callable[[], str] = lambda: ""
    """Asked for last words after the first failure."""

    def run(self, title: str, step: Callable[[], object], *, needs: str | None = None) -> None:
        """Try one step.

        Args:
            title: What is seen when it works.
            step: Raises when it is not seen; what it gives is the row's note.
            needs: Title of a step without which this one makes no sense.
        """
        if needs is not None and not self.has(needs):
            self._add(Row(title=title, outcome=LEFT_OUT, seconds=0.0, note=f"needs: {needs}"))
            return
        begun = time.monotonic()
        try:
            note = step()
        except Exception as error:  # noqa: BLE001 - the table tells of every step, whatever happens in one
            words = f"{type(error).__name__}: {error}"
            self._add(Row(title=title, outcome=FAILED, seconds=time.monotonic() - begun, note=words.splitlines()[0]))
            where = traceback.extract_tb(error.__traceback__)[-1]
            print("\n".join(f"      {line}" for line in words.splitlines()[1:ERROR_LINES]))
            print(f"      at {where.filename}:{where.lineno}: {where.line}", flush=True)
            with contextlib.suppress(Exception):  # words about a failure must not become another one
                print(self.whenever_failed(), end="", flush=True)
        else:
            text = "" if note is None else str(note)
            self._add(Row(title=title, outcome=OK, seconds=time.monotonic() - begun, note=text))

    def mark(self, title: str, seconds: float, note: str = "") -> None:
        """Add a row for what has been seen already."""
        self._add(Row(title=title, outcome=OK, seconds=seconds, note=note))

    def has(self, title: str) -> bool:
        """Return whether a step worked."""
        return any(row.title == title and row.outcome == OK for row in self.rows)

    def failures(self) -> list[Row]:
        """Return the steps that did not work."""
        return [row for row in self.rows if row.outcome != OK]

    def _add(self, row: Row) -> None:
        if not self.rows:
            print(f"\n{self.heading}", flush=True)
        self.rows.append(row)
        print(line(row), flush=True)


def line(row: Row) -> str:
    """Return a row as one line."""
    return f"  {row.title:{WIDTH}} {row.outcome:8} {row.seconds:6.1f} s  {row.note}".rstrip()


def summary(tables: Sequence[Steps]) -> str:
    """Return the count, and again what did not work."""
    every = sum(len(table.rows) for table in tables)
    bad = [(table, row) for table in tables for row in table.failures()]
    seconds = sum(row.seconds for table in tables for row in table.rows)
    lines = ["", f"make e2e: {every - len(bad)} of {every} steps seen, {seconds:.0f} s in steps"]
    lines += [f"  {table.heading}: {row.title}: {row.note}" for table, row in bad if row.outcome == FAILED]
    return "\n".join(lines)
