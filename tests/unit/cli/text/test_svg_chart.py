"""Axes at round places, and paths that break where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.text.svg_chart import (
    Axis,
    ChartBar,
    ChartPoint,
    Curve,
    area_path,
    bars,
    chart,
    line_path,
    points,
    time_axis,
    value_axis,
)

DAY = 1440
X = Axis(end=4.0, marks=())
Y = Axis(end=10.0, marks=())
# The plot is 314 wide from 58 on, and 122 high from 8 on: a stretch of 1 is 78.5 wide, a value of 5 lies at 69.


@pytest.mark.parametrize(
    ("largest", "marks"),
    [
        (1000.0, [0, 250, 500, 750, 1000]),
        (430.0, [0, 100, 200, 300, 400]),
        (0.0, [0]),
        (7.0, [0, 2, 4, 6]),
    ],
)
def test_value_axis_has_marks_at_round_places(largest: float, marks: list[float]) -> None:
    axis = value_axis(largest, lambda value: f"{value:g}")
    assert [at for at, _ in axis.marks][: len(marks)] == pytest.approx(marks, abs=1e-9)
    assert axis.end >= largest


def test_value_axis_of_bytes_has_marks_at_round_multiples_of_1024() -> None:
    axis = value_axis(3.0 * (1 << 30), lambda value: f"{value / (1 << 30):g}", binary=True)
    assert [text for _, text in axis.marks] == ["0", "1", "2", "3"]


@given(st.floats(1e-6, 1e15), st.booleans())
def test_value_axis_has_two_to_five_marks_within_it(largest: float, binary: bool) -> None:
    axis = value_axis(largest, lambda value: f"{value:g}", binary=binary)
    assert 2 <= len(axis.marks) <= 5
    assert all(0 <= at <= axis.end for at, _ in axis.marks)


@given(st.integers(0, 40_000_000), st.integers(1, 400 * DAY))
def test_time_axis_has_at_most_six_marks_within_it(start: int, minutes: int) -> None:
    axis = time_axis(start, minutes, str)
    assert len(axis.marks) <= 6
    assert all(0 <= at < axis.end for at, _ in axis.marks)


def test_time_axis_of_three_days_has_marks_at_midnight() -> None:
    axis = time_axis(10 * DAY + 600, 3 * DAY, lambda minute: f"day {minute / DAY:g}")
    assert axis.marks == ((840.0, "day 11"), (2280.0, "day 12"), (3720.0, "day 13"))


def test_area_is_broken_at_a_gap() -> None:
    values, has = np.array([5, 5, 0, 10], np.float32), np.array([True, True, False, True])
    path = area_path(values, has, 1.0, X, Y)
    assert path == "M58 130L58 69H136.5L136.5 69H215V130ZM293.5 130L293.5 8H372V130Z"


def test_line_changes_in_steps_and_is_broken_where_there_is_none() -> None:
    path = line_path(np.array([5, 5, 10, 0], np.float32), 1.0, X, Y)
    assert path == "M58 69H215V8H293.5"
    assert line_path(np.array([0, 5], np.float32), 1.0, X, Y) == "M136.5 69H215"
    assert line_path(np.zeros(3, np.float32), 1.0, X, Y) == ""


def test_chart_escapes_its_title_and_leaves_out_marks_at_the_edge() -> None:
    x = Axis(end=100.0, marks=((0.0, "first"), (99.0, "cut")))
    text = chart("a<b", "<g/>", [Curve(values=np.ones(2, np.float32), style="line vpa")], 50.0, x, Y)
    assert "<title>a&lt;b</title>" in text
    assert "first" in text
    assert "cut" not in text
    assert '<path class="line vpa"' in text


def test_bars_are_to_one_scale() -> None:
    text = bars("slack", [ChartBar(label="a", parts=((1.0, "usage"), (3.0, "slack")), text="x"),
                          ChartBar(label="b", parts=((2.0, "usage"),), text="y")])  # fmt: skip
    # The longest, 4, is 330 wide.
    assert 'width="82.5"' in text
    assert 'width="247.5"' in text
    assert 'width="165.0"' in text


def test_bars_of_nothing_are_drawn() -> None:
    assert 'width="0.0"' in bars("none", [ChartBar(label="a", parts=((0.0, "usage"),), text="")])


def test_points_stand_at_their_figures_and_the_front_is_joined_in_steps() -> None:
    axis = Axis(end=1.0, marks=((0.0, "0"), (1.0, "one & all")))
    rows = [
        ChartPoint(label="b<", x=1.0, y=0.0, style="vpa", is_front=True),
        ChartPoint(label="a", x=0.0, y=1.0, style="cruise", is_front=True),
        ChartPoint(label="c", x=1.0, y=1.0, style="crane", is_front=False),
    ]
    picture = points("slack & more", rows, axis, axis, ("across", "up"))
    # The plane is 426 wide from 64 on, and 248 high from 12 on.
    assert '<circle class="vpa" cx="490" cy="260" r="5"/>' in picture
    assert '<circle class="crane" cx="490" cy="12" r="3.5"/>' in picture
    # From the one with the least slack: to the right at its deficit, then down.
    assert '<path class="front" d="M64 12H490V260"/>' in picture
    assert "b&lt;" in picture
    assert "one &amp; all" in picture
    assert "<title>slack &amp; more</title>" in picture


def test_points_without_a_front_have_no_line() -> None:
    axis = Axis(end=1.0, marks=())
    row = ChartPoint(label="a", x=0.0, y=1.0, style="cruise", is_front=False)
    assert "front" not in points("t", [row], axis, axis, ("across", "up"))
