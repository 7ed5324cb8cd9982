from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.table import (
    ASCII,
    UNICODE,
    Cell,
    Column,
    Span,
    Tone,
    age_text,
    ansi_text,
    bytes_text,
    clip,
    clip_line,
    display_width,
    harmless,
    line_text,
    millicores_text,
    milliseconds_text,
    pad,
    percent_text,
    render_table,
)

KIB, MIB, GIB = 1024, 1024**2, 1024**3


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        (millicores_text, None, "-"),
        (millicores_text, 0, "0m"),
        (millicores_text, 0.01, "<0.1m"),
        (millicores_text, 3.21, "3.2m"),
        (millicores_text, 9.96, "10m"),
        (millicores_text, 250.4, "250m"),
        (millicores_text, 1250, "1250m"),
        (millicores_text, 9999.4, "9999m"),
        (millicores_text, 9999.5, "10.0"),
        (millicores_text, 12_500, "12.5"),
        (bytes_text, None, "-"),
        (bytes_text, 0, "0B"),
        (bytes_text, 1023, "1023B"),
        (bytes_text, KIB, "1.00KiB"),
        (bytes_text, 12.34 * MIB, "12.3MiB"),
        (bytes_text, 9.999 * MIB, "10.0MiB"),
        (bytes_text, 99.96 * MIB, "100MiB"),
        (bytes_text, 1023 * MIB, "1023MiB"),
        (bytes_text, 1023.6 * MIB, "1.00GiB"),  # 1024MiB would not be three digits
        (bytes_text, 1.5 * GIB, "1.50GiB"),
        (bytes_text, 2.0**63, "8192PiB"),
        (percent_text, None, "-"),
        (percent_text, 0.0, "0%"),
        (percent_text, 0.0004, "<0.1%"),  # 0.04 % is not nothing
        (percent_text, 0.031, "3.1%"),
        (percent_text, 0.0996, "10%"),
        (percent_text, 1.0, "100%"),
        (age_text, None, "-"),
        (age_text, 0.42, "0.4s"),
        (age_text, 59.4, "59s"),
        (age_text, 59.6, "1m00s"),
        (age_text, 725, "12m05s"),
        (age_text, 11220, "3h07m"),
        (age_text, 439200, "5d02h"),
        (milliseconds_text, None, "-"),
        (milliseconds_text, 0.00042, "0.42ms"),
        (milliseconds_text, 0.0123, "12ms"),
    ],
)
def test_figures_for_people(text: Callable[[float | None], str], value: float | None, expected: str) -> None:
    assert text(value) == expected


@given(st.floats(min_value=0, max_value=1e7))
def test_a_figure_above_nothing_never_looks_like_nothing(value: float) -> None:
    for text in (millicores_text, percent_text):
        assert (text(value) in ("0m", "0%")) == (value == 0)


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
    made = harmless(text)
    assert all(char.isprintable() or char in " \u00a0\u3000" or char.isspace() for char in made)
    assert not any(char in made for char in "\x1b\n\r\x07\x9b")
    made.encode("utf-8")
    assert harmless(made) == made


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


COLUMNS = (
    Column(key="name", title="NAME", min_width=6, is_text=True),
    Column(key="now", title="NOW", group="CPU", min_width=4, priority=1),
    Column(key="p75", title="P75", group="CPU", min_width=4, priority=20),
    Column(key="age", title="AGE", priority=10),
)
ROWS = (
    (Cell("alpha-beta"), Cell("5m"), Cell("~1000m"), Cell("1s")),
    (Cell("b"), Cell("12m", Tone.HOT), Cell("-"), Cell("2s")),
)


def drawn(width: int, *, marks: bool = False) -> list[str]:
    table = render_table(COLUMNS, ROWS, width=width, glyphs=UNICODE, marks=marks)
    return [line_text(line) for line in (table.groups, table.titles, *table.rows)]


def test_table_with_room_for_all() -> None:
    assert drawn(80) == [
        "           ─ CPU ─────",
        "NAME        NOW    P75 AGE",
        "alpha-beta   5m ~1000m  1s",
        "b           12m      -  2s",
    ]


def test_table_cuts_names_before_it_drops_columns() -> None:
    assert drawn(23) == [
        "        ─ CPU ─────",
        "NAME     NOW    P75 AGE",
        "alpha-…   5m ~1000m  1s",
        "b        12m      -  2s",
    ]


def test_table_drops_columns_by_priority() -> None:
    assert drawn(18) == ["          ─ CP", "NAME       NOW AGE", "alpha-be…   5m  1s", "b          12m  2s"]


def test_nice_columns_go_before_a_name_is_cut_below_its_good_width() -> None:
    name, now, p75, age = COLUMNS
    columns = (replace(name, good_width=10), now, replace(p75, priority=90), replace(age, priority=91))
    table = render_table(columns, ROWS, width=22, glyphs=UNICODE, marks=False)
    assert [line_text(line) for line in table.rows] == ["alpha-beta   5m ~1000m", "b           12m      -"]


def test_widths_suit_all_rows_though_few_are_drawn() -> None:
    table = render_table(COLUMNS, ROWS, width=80, glyphs=UNICODE, marks=False, visible=range(1, 2))
    assert [line_text(line) for line in table.rows] == ["b           12m      -  2s"]


def test_table_narrower_than_its_last_column_still_fits() -> None:
    for width in range(1, 60):
        for line in drawn(width):
            assert display_width(line) <= max(width, 6)


def test_table_marks_hot_cells_where_there_is_no_colour() -> None:
    assert "!12m" in drawn(80, marks=True)[3]


def test_both_sets_of_signs_have_one_cell_per_sign_that_is_repeated() -> None:
    for glyphs in (UNICODE, ASCII):
        for sign in (glyphs.ellipsis, glyphs.rule, glyphs.filled, glyphs.empty, *glyphs.spark):
            assert display_width(sign) == 1
    assert "".join(vars_of(ASCII)).isascii()


def vars_of(glyphs: object) -> list[str]:
    return [getattr(glyphs, name) for name in type(glyphs).__slots__]  # type: ignore[attr-defined]
