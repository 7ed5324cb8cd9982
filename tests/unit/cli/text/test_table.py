from __future__ import annotations

from dataclasses import replace

from agent.cli.text.spans import UNICODE, Tone, display_width, line_text
from agent.cli.text.table import Cell, Column, render_table

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
