"""Tables of text that fit a terminal: columns that go by priority, text that is cut, figures that never are.

Face. Pure: cells in, lines of toned spans out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip, display_width, pad

NICE_PRIORITY = 50
"""Columns from this priority on are nice to have: names are not cut short for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its heading, its room, and how soon it goes when there is not enough."""

    key: str
    title: str
    group: str = ""
    min_width: int = 1
    """Kept even if all cells are shorter, so that a live table does not tremble."""
    good_width: int = 0
    """For a text: the room that columns from ``NICE_PRIORITY`` on may not take from it, if it needs it."""
    priority: int = 0
    """The highest number goes first; 0 stays."""
    is_text: bool = False
    """To the left, and cut with an ellipsis; figures stand to the right and are never cut."""
    is_accented: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure or name in a row."""

    text: str
    tone: Tone = Tone.PLAIN
    keep_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table laid out: two lines of headings (the first may be empty), then one line per row."""

    groups: Line
    titles: Line
    rows: tuple[Line, ...]


def render_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    width: int,
    glyphs: Glyphs,
    marks: bool,
    visible: range | None = None,
) -> TextTable:
    """Lay a table out within a width.

    Columns go by priority until the rest fits with text columns at their smallest; what is left over is then given to
    text columns, from the left, up to what they need. ``marks`` puts "!" before hot cells, for output without colour.
    Only the ``visible`` rows are drawn (None = all); columns and widths suit all rows, so that scrolling keeps them.
    """
    texts = [[_cell_text(cell, marks) for cell in row] for row in rows]
    needed = [
        max([column.min_width, display_width(column.title), *(display_width(row[index]) for row in texts)])
        for index, column in enumerate(columns)
    ]
    smallest = [column.min_width if column.is_text else needed[index] for index, column in enumerate(columns)]
    shown = list(range(len(columns)))
    good = [max(least, min(needed[index], columns[index].good_width)) for index, least in enumerate(smallest)]
    while len(shown) > 1:
        victim = max(shown, key=lambda index: (columns[index].priority, index))
        asked = good if columns[victim].priority >= NICE_PRIORITY else smallest
        if columns[victim].priority == 0 or sum(asked[index] + 1 for index in shown) - 1 <= width:
            break
        shown.remove(victim)
    widths = dict(zip(shown, (smallest[index] for index in shown), strict=True))
    spare = width - (sum(widths.values()) + len(shown) - 1)
    for index in shown:
        if columns[index].is_text:
            given = min(max(spare, -(widths[index] - 1)), needed[index] - widths[index])
            widths[index] += given
            spare -= given
    body = tuple(
        _row_line([(texts[row][index], cells[index], columns[index], widths[index]) for index in shown], glyphs)
        for row, cells in ((row, rows[row]) for row in (range(len(rows)) if visible is None else visible))
    )
    titles = tuple(
        span
        for index in shown
        for column in (columns[index],)
        for span in (
            Span(
                pad(
                    clip(columns[index].title, widths[index], ellipsis=""),
                    widths[index],
                    to_right=not columns[index].is_text,
                ),
                Tone.ACCENT if columns[index].is_accented else Tone.TITLE,
            ),
            Span(" "),
        )
    )
    return TextTable(
        groups=_group_line([columns[index] for index in shown], [widths[index] for index in shown], glyphs),
        titles=titles,
        rows=body,
    )


def _cell_text(cell: Cell, marks: bool) -> str:
    return f"!{cell.text}" if marks and cell.tone is Tone.HOT else cell.text


def _row_line(cells: Sequence[tuple[str, Cell, Column, int]], glyphs: Glyphs) -> Line:
    spans: list[Span] = []
    for text, cell, column, width in cells:
        cut = clip(text, width, ellipsis=glyphs.ellipsis, keep_end=cell.keep_end) if column.is_text else text
        spans += (Span(pad(cut, width, to_right=not column.is_text), cell.tone), Span(" "))
    return tuple(spans)


def _group_line(columns: Sequence[Column], widths: Sequence[int], glyphs: Glyphs) -> Line:
    """Return the line over the headings: each group's name with a rule over its columns."""
    if not any(column.group for column in columns):
        return ()
    spans: list[Span] = []
    index = 0
    while index < len(columns):
        group, end = columns[index].group, index
        while end < len(columns) and columns[end].group == group:
            end += 1
        room = sum(widths[index:end]) + (end - index - 1)
        if group:
            text = clip(f"{glyphs.rule} {group} ", room, ellipsis="")
            text += glyphs.rule * (room - display_width(text))
        else:
            text = " " * room
        spans += (Span(text, Tone.DIM), Span(" "))
        index = end
    return tuple(spans)
