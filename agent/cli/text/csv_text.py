"""CSV, in the one place that writes it. Face, pure.

Cells hold names from clusters, and spreadsheets take a text that begins like a formula for one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from agent.cli.text.spans import harmless

_FORMULA_BEGINS: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Also in the full width of East Asian keyboards, which spreadsheets take for the same."""


def csv_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a line of names and a line per row; RFC 4180 with newlines of this system's kind.

    Numbers are written as numbers, None as an empty cell. What could steer a terminal is spelt out in a text, and ``'``
    stands before one that a spreadsheet would work out.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_text_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()


def _text_cell(text: str) -> str:
    # A tab or CR is spelt out by then, where it cannot begin a formula any more.
    shown = harmless(text)
    return f"'{shown}" if text.startswith(_FORMULA_BEGINS) else shown
