"""Plain text with tones: lines of spans, and widths as a terminal counts them.

Face. Pure: text in, lines of toned spans out; ``screen`` makes curses attributes of tones, ``ansi_text`` escapes.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum


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
    """Cut a harmless text to so many cells, with a sign one cell wide where something is missing.

    ``keep_end`` cuts at the start: the end of a path tells more.
    """
    if display_width(text) <= width:
        return text
    if width <= 0:
        return ""
    cells: list[str] = []
    room = width - display_width(ellipsis)
    for char in reversed(text) if keep_end else text:
        room -= _cell_width(char)
        if room < 0:
            break
        cells.append(char)
    return ellipsis + "".join(reversed(cells)) if keep_end else "".join(cells) + ellipsis


def pad(text: str, width: int, *, to_right: bool) -> str:
    """Fill a text with spaces to so many cells; a longer one stays as it is."""
    missing = " " * max(0, width - display_width(text))
    return missing + text if to_right else text + missing


def clip_line(line: Line, width: int, *, ellipsis: str = "…") -> Line:
    """Cut a line of spans to so many cells."""
    if sum(display_width(span.text) for span in line) <= width:
        return line
    spans: list[Span] = []
    room = width
    for index, span in enumerate(line):
        used = display_width(span.text)
        follows = any(later.text.strip() for later in line[index + 1 :])
        if used < room or (used == room and not follows):
            spans.append(span)
            room -= used
            continue
        # the sign must stand even where this span alone would just fit, as more follows it
        text = span.text if used > room else span.text + " "
        spans.append(Span(clip(text, room, ellipsis=ellipsis), span.tone))
        break
    return tuple(spans)


def line_text(line: Line) -> str:
    """Return a line without its tones, and without spaces at its end."""
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
    """Return a line with its tones as terminal escapes."""
    return "".join(
        f"{_ESCAPES[span.tone]}{span.text}\x1b[0m" if span.tone in _ESCAPES and span.text.strip() else span.text
        for span in line
    )
