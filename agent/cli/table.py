"""Plain text with tones: figures for people, widths as a terminal counts them, tables that drop columns.

Face. Pure: text in, lines of toned spans out; ``screen`` turns tones into curses attributes, ``ansi`` into escapes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

ABSENT = "-"
"""What stands where there is no figure; never 0."""

_KIB = 1024


class Tone(StrEnum):
    """What a piece of text is, not how it looks."""

    PLAIN = "plain"
    DIM = "dim"
    """Beside the point: labels, units, rules."""
    TITLE = "title"
    ACCENT = "accent"
    """Keys and the column sorted by."""
    HOT = "hot"
    """Needs action; red."""
    NOTE = "note"
    """Degraded or absent, and said."""
    GAIN = "gain"
    """Can be given back: good news; green."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line in one tone."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The few signs that are not ASCII, so that a terminal without UTF-8 gets others."""

    ellipsis: str
    rule: str
    filled: str
    empty: str
    at_most: str
    at_least: str
    up: str
    down: str
    crumb: str
    spark: str
    becomes: str
    fill: str
    """A cell that is filled from its foot up, by parts; the last one is full."""
    heavy_rule: str
    dotted_rule: str
    axis: str
    corner: str
    tick: str


UNICODE = Glyphs(
    ellipsis="…",
    rule="─",
    filled="█",
    empty="░",
    at_most="≤",
    at_least="≥",
    up="↑",
    down="↓",
    crumb="»",
    spark="▁▂▃▄▅▆▇█",
    becomes="→",
    fill="▁▂▃▄▅▆▇█",
    heavy_rule="━",
    dotted_rule="┄",
    axis="│",
    corner="└",
    tick="┴",
)
ASCII = Glyphs(
    ellipsis="~",
    rule="-",
    filled="#",
    empty=".",
    at_most="<=",
    at_least=">=",
    up="^",
    down="v",
    crumb=">",
    spark=" .:-=+*#",
    becomes="->",
    fill="_#",
    heavy_rule="=",
    dotted_rule="~",
    axis="|",
    corner="+",
    tick="+",
)


# Figures for people


def millicores_text(millicores: float | None) -> str:
    """Give CPU as Kubernetes writes it: ``250m``, and from ten cores on in cores: ``12.5``."""
    if millicores is None:
        return ABSENT
    if 0 < millicores < 0.05:
        return "<0.1m"  # something was used: not 0
    if millicores < 9.95:
        return "0m" if millicores == 0 else f"{millicores:.1f}m"
    if millicores < 9999.5:
        return f"{millicores:.0f}m"
    return f"{millicores / 1000:.1f}"


def bytes_text(amount_bytes: float | None) -> str:
    """Give memory with three digits that count: ``512B``, ``1.50GiB``, ``123MiB``."""
    if amount_bytes is None:
        return ABSENT
    if amount_bytes < _KIB:
        return f"{amount_bytes:.0f}B"
    scaled = float(amount_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        scaled /= _KIB
        if scaled < _KIB - 0.5 or unit == "PiB":
            break
    digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    return f"{scaled:.{digits}f}{unit}"


def percent_text(ratio: float | None) -> str:
    """Give a ratio 0..1 as a percentage: ``0%``, ``<0.1%``, ``3.1%``, ``42%``."""
    if ratio is None:
        return ABSENT
    percent = ratio * 100
    if percent == 0:
        return "0%"
    if percent < 0.05:
        return "<0.1%"  # some waiting: not 0
    return f"{percent:.1f}%" if percent < 9.95 else f"{percent:.0f}%"


def age_text(seconds: float | None) -> str:
    """Give a time span in at most two units: ``0.4s``, ``45s``, ``12m05s``, ``3h07m``, ``5d02h``."""
    if seconds is None:
        return ABSENT
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def milliseconds_text(seconds: float | None) -> str:
    """Give a short time in milliseconds: ``0.42ms``, ``12ms``."""
    if seconds is None:
        return ABSENT
    milliseconds = seconds * 1000
    return f"{milliseconds:.2f}ms" if milliseconds < 9.995 else f"{milliseconds:.0f}ms"


# Widths


def harmless(text: str) -> str:
    r"""Spell out what could steer a terminal or break a line: controls, bidi marks, lone surrogates as ``\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_harmless(char) else _spelt(char) for char in text)


def _is_harmless(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _spelt(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def display_width(text: str) -> int:
    """Count terminal cells: two for wide East Asian signs, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_cell_width(char) for char in text)


def _cell_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def clip(text: str, width: int, *, ellipsis: str = "…", keep_end: bool = False) -> str:
    """Cut a text to so many cells, with a sign where something is missing.

    Args:
        text: Harmless text.
        width: Cells at most; 0 or less gives "".
        ellipsis: One cell wide.
        keep_end: Cut at the start: the end of a path tells more.
    """
    if display_width(text) <= width:
        return text
    if width <= 0:
        return ""
    kept: list[str] = []
    room = width - display_width(ellipsis)
    for char in reversed(text) if keep_end else text:
        room -= _cell_width(char)
        if room < 0:
            break
        kept.append(char)
    return ellipsis + "".join(reversed(kept)) if keep_end else "".join(kept) + ellipsis


def pad(text: str, width: int, *, to_right: bool) -> str:
    """Fill a text with spaces to so many cells; a longer one stays as it is."""
    missing = " " * max(0, width - display_width(text))
    return missing + text if to_right else text + missing


def clip_line(line: Line, width: int, *, ellipsis: str = "…") -> Line:
    """Cut a line of spans to so many cells."""
    if sum(display_width(span.text) for span in line) <= width:
        return line
    kept: list[Span] = []
    room = width
    for index, span in enumerate(line):
        used = display_width(span.text)
        follows = any(later.text.strip() for later in line[index + 1 :])
        if used < room or (used == room and not follows):
            kept.append(span)
            room -= used
            continue
        # the sign must stand even where this span alone would just fit, as more follows it
        text = span.text if used > room else span.text + " "
        kept.append(Span(clip(text, room, ellipsis=ellipsis), span.tone))
        break
    return tuple(kept)


def line_text(line: Line) -> str:
    """Give a line without its tones, and without spaces at its end."""
    return "".join(span.text for span in line).rstrip()


_ESCAPES = {
    Tone.DIM: "\x1b[2m",
    Tone.TITLE: "\x1b[1m",
    Tone.ACCENT: "\x1b[36m",
    Tone.HOT: "\x1b[1;31m",
    Tone.NOTE: "\x1b[33m",
    Tone.GAIN: "\x1b[32m",
}


def ansi_text(line: Line) -> str:
    """Give a line with its tones as terminal escapes."""
    return "".join(
        f"{_ESCAPES[span.tone]}{span.text}\x1b[0m" if span.tone in _ESCAPES and span.text.strip() else span.text
        for span in line
    )


# Tables


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
    """Sorted by."""


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
    text columns, from the left, up to what they need.

    Args:
        columns: All columns; ``rows`` have a cell for each.
        rows: Cells in the order of the columns.
        width: Cells of the terminal.
        glyphs: Signs of this terminal.
        marks: Put "!" before hot cells: for output without colour.
        visible: The rows to draw, None = all; columns and widths suit all, so that they do not change while scrolling.
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
    """Give the line over the headings: each group's name with a rule over its columns."""
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
