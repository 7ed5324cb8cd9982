from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.text.spans import (
    ASCII,
    UNICODE,
    Span,
    Tone,
    ansi_text,
    clip,
    clip_line,
    display_width,
    harmless,
    line_text,
    pad,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web-1", "web-1"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\x00", "a\\x0ab\\x09c\\x00"),
        ("\x9b2J", "\\x9b2J"),  # the one-byte CSI
        ("a\u202eb", "a\\u202eb"),  # turns the direction of what follows
        ("caf\udce9", "caf\\udce9"),
        ("café 容器", "café 容器"),
        ("\u2028", "\\u2028"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_harmless_spells_out_what_could_steer_a_terminal(text: str, expected: str) -> None:
    assert harmless(text) == expected


@given(st.text())
def test_harmless_text_is_printable_and_encodable(text: str) -> None:
    safe_text = harmless(text)
    assert all(char.isprintable() or char in " \u00a0\u3000" or char.isspace() for char in safe_text)
    assert not any(char in safe_text for char in "\x1b\n\r\x07\x9b")
    safe_text.encode("utf-8")
    assert harmless(safe_text) == safe_text


@pytest.mark.parametrize(
    ("text", "width", "keep_end", "expected"),
    [
        ("abcdef", 6, False, "abcdef"),
        ("abcdef", 5, False, "abcd…"),
        ("abcdef", 5, True, "…cdef"),
        ("容器容器", 8, False, "容器容器"),
        ("容器容器", 7, False, "容器容…"),
        ("容器容器", 6, False, "容器…"),  # the third sign would need a seventh cell with the ellipsis
        ("e\u0301tude", 4, False, "e\u0301tu…"),
        ("abc", 1, False, "…"),
        ("abc", 0, False, ""),
        ("abc", -3, False, ""),
    ],
)
def test_clip_counts_cells(text: str, width: int, keep_end: bool, expected: str) -> None:
    assert clip(text, width, keep_end=keep_end) == expected


@given(st.text(max_size=40).map(harmless), st.integers(-1, 50), st.booleans())
def test_clip_never_passes_the_width(text: str, width: int, keep_end: bool) -> None:
    assert display_width(clip(text, width, keep_end=keep_end)) <= max(0, width)


@given(st.lists(st.text(max_size=8).map(harmless), max_size=6), st.integers(1, 30))
def test_clip_line_never_passes_the_width(texts: list[str], width: int) -> None:
    line = tuple(Span(text) for text in texts)
    assert sum(display_width(span.text) for span in clip_line(line, width)) <= width


def test_clip_line_shows_that_something_is_cut() -> None:
    assert line_text(clip_line((Span("abc"), Span("def")), 5)) == "abcd…"
    assert line_text(clip_line((Span("abc"), Span("def")), 3)) == "ab…"
    assert line_text(clip_line((Span("abc"), Span("   ")), 3)) == "abc"


def test_pad_fills_cells() -> None:
    assert pad("容", 4, to_right=True) == "  容"
    assert pad("abcdef", 3, to_right=False) == "abcdef"


def test_ansi_text_colours_spans_and_ends_each() -> None:
    assert ansi_text((Span("a"), Span("b", Tone.HOT), Span(" ", Tone.DIM))) == "a\x1b[1;31mb\x1b[0m "


def test_both_sets_of_signs_have_one_cell_per_sign_that_is_repeated() -> None:
    for glyphs in (UNICODE, ASCII):
        for sign in (glyphs.ellipsis, glyphs.rule, glyphs.filled, glyphs.empty, *glyphs.spark):
            assert display_width(sign) == 1
    assert "".join(vars_of(ASCII)).isascii()


def vars_of(glyphs: object) -> list[str]:
    return [getattr(glyphs, name) for name in type(glyphs).__slots__]  # type: ignore[attr-defined]
