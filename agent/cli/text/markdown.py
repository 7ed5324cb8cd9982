"""Markdown, in the one place that writes it: texts that are no markup, and tables. Face, pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agent.cli.text.spans import harmless

_MARKUP: Final = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>|#~@!&"})


def plain_text(text: str) -> str:
    """Return a text that is no markup, on one line: names come from files and clusters of anybody's."""
    return harmless(" ".join(text.split())).translate(_MARKUP)


def table_lines(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return a table; titles are ours, cells may be anybody's."""
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield "| " + " | ".join(plain_text(cell) for cell in row) + " |"
