"""Lines of a page read from top to bottom: labelled facts, wrapped sentences, things side by side. Face, pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from agent.cli.text.spans import Glyphs, Line, Span, Tone, display_width, harmless, pad

LABEL_WIDTH: Final = 17
FIGURE_WIDTH: Final = 11
_LEAST_ROOM: Final = 20
"""Cells that a wrapped text is given even where the terminal has none for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page is laid out for."""

    width: int
    glyphs: Glyphs


def label(text: str) -> Span:
    """Return what stands before a figure."""
    return Span(pad(text, LABEL_WIDTH, to_right=False), Tone.DIM)


def figure(text: str, tone: Tone = Tone.PLAIN) -> Span:
    """Return a figure, to the right of its room."""
    return Span(pad(text, FIGURE_WIDTH, to_right=True), tone)


def fact(name: str, text: str, page: Page, tone: Tone = Tone.PLAIN) -> Iterator[Line]:
    """Return a label and a sentence, wrapped beside it."""
    yield from hanging((label(name),), text, page, tone)


def hanging(head: Line, text: str, page: Page, tone: Tone = Tone.PLAIN) -> Iterator[Line]:
    """Return a sentence after a head; further lines begin where the first does. No sentence gives the head alone."""
    left = sum(display_width(span.text) for span in head)
    parts = textwrap.wrap(harmless(text), max(page.width - left, _LEAST_ROOM), break_long_words=False) or [""]
    yield (*head, Span(parts[0], tone))
    for part in parts[1:]:
        yield (Span(" " * left), Span(part, tone))


def flow(entries: Iterable[Line], page: Page) -> Iterator[Line]:
    """Lay out entries side by side, three cells apart, in as many lines as that takes."""
    spans: list[Span] = []
    used = 0
    for entry in entries:
        wide = sum(display_width(span.text) for span in entry)
        if spans and used + 3 + wide > page.width:
            yield tuple(spans)
            spans, used = [], 0
        if spans:
            spans.append(Span("   "))
            used += 3
        spans += entry
        used += wide
    yield tuple(spans)
