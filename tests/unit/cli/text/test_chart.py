from __future__ import annotations

from dataclasses import replace

import pytest

from agent.cli.text.chart import ChartLevel, Plot, chart_lines, columned, plots_of
from agent.cli.text.spans import ASCII, UNICODE, Glyphs, Tone, display_width, line_text
from agent.core.cluster.unit import UnitResources
from agent.core.numbers.amount_text import amount_text
from tests.explanations import explanation, trail
from tests.subjects import MI, subject

MIDNIGHT = 1_795_219_200 // 60  # 2026-11-21T00:00:00Z


def cpu(value: float) -> str:
    return amount_text(value, "millicores")


PLOT = Plot(
    title="CPU",
    start_unix_minute=MIDNIGHT,
    text=cpu,
    area=(0.0, 25.0, 50.0, None, 100.0, 100.0, 100.0, 40.0),
    area_name="usage",
    takes_largest=False,
    tops=(10.0, 60.0, 50.0, None, 100.0, 100.0, 100.0, 90.0),
    tops_name="peak",
    levels=(
        ChartLevel(name="request", value=70.0, tone=Tone.NOTE),
        ChartLevel(name="recommended", value=30.0, tone=Tone.GAIN),
    ),
    least_top=1.0,
)


def drawn(plot: Plot, width: int = 60, glyphs: Glyphs = UNICODE) -> list[str]:
    return [line_text(line) for line in chart_lines(plot, width=width, glyphs=glyphs)]


def test_a_small_plot_is_exact() -> None:
    # The axis ends at 105, so a row is 10.5, and 8 minutes share 16 columns. 100 fills 9.5 rows, 90 8.6, 50 4.8 and
    # 40 3.8; the lines are in the rows of 70 (6.7) and 30 (2.9).
    assert drawn(PLOT, 26) == [
        "CPU  Sat 2026-11-21 00:00…",
        "    100m │        ▄▄▄▄▄▄",
        "         │        ██████░░",
        "     75m │        ██████░░",
        "         │────────────────",
        "         │  ░░    ██████░░",
        "     50m │  ░░▆▆  ██████░░",
        "         │  ░░██  ██████▆▆",
        "     25m │━━━━━━━━━━━━━━━━",
        "         │  ████  ████████",
        "      0m │▁▁████  ████████",
        "         └┴───┴───┴───┴───",
        "     UTC  00:00 00:04",
        "          █ usage",
        "          ░ peak",
        "          ── request 70m",
        "          ━━ recommended …",
        "            empty = not m…",
    ]


def test_without_utf8_it_is_ascii() -> None:
    lines = drawn(PLOT, 26, ASCII)
    assert all(line.isascii() for line in lines)
    assert lines[4:11] == [
        "         |----------------",
        "         |  ..    ######..",
        "     50m |  ..##  ######..",
        "         |  ..##  ########",
        "     25m |================",
        "         |  ####  ########",
        "      0m |__####  ########",
    ]


def test_what_was_not_measured_stays_empty_and_is_counted() -> None:
    lines = drawn(replace(PLOT, levels=()))
    columns = {line[10 + 50 * 3 // 8 + 1 : 10 + 50 * 4 // 8] for line in lines[1:11] if len(line) > 40}
    assert columns == {"      "}
    assert lines[-1].endswith("empty = not measured, 1 of 8 minutes")
    assert "empty" not in drawn(replace(PLOT, area=(1.0,), tops=None))[-1]


def test_no_line_is_wider_than_the_terminal() -> None:
    for width in (12, 30, 61, 200):
        assert max(map(display_width, drawn(PLOT, width))) <= width


def test_a_constant_zero_is_drawn_on_a_scale_that_is_not_its_own() -> None:
    lines = drawn(replace(PLOT, area=(0.0,) * 4, tops=None, levels=()), 26)
    assert lines[10] == "      0m │▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁"
    assert lines[1] == "      1m │"


def test_a_strip_has_three_rows() -> None:
    strip = replace(PLOT, tops=None, levels=(), is_low=True)
    assert [line[9:10] for line in drawn(strip)[1:5]] == ["│", "│", "│", "└"]


@pytest.mark.parametrize(
    ("course", "columns", "takes_largest", "expected"),
    [
        ((1.0, 3.0, None, 8.0), 2, False, (2.0, 8.0)),
        ((1.0, 3.0, None, 8.0), 2, True, (3.0, 8.0)),
        ((None, None, 5.0), 3, True, (None, None, 5.0)),
        # a minute takes two columns
        ((1.0, None), 4, False, (1.0, 1.0, None, None)),
        ((1.0, 2.0, 3.0), 2, True, (1.0, 3.0)),
    ],
)
def test_columned(
    course: tuple[float | None, ...], columns: int, takes_largest: bool, expected: tuple[float | None, ...]
) -> None:
    assert columned(course, columns, takes_largest=takes_largest) == expected


def test_plots_of_are_cpu_waiting_and_memory_with_requests_as_lines() -> None:
    plots = plots_of(explanation())
    assert [plot.title for plot in plots] == ["CPU", "WAITING FOR CPU", "MEMORY"]
    # 325m adjusted P75, twice of it; 100 MiB, twice
    assert [(level.name, level.value) for level in plots[0].levels] == [("request", 500), ("recommended", 650)]
    assert [(level.name, level.value) for level in plots[2].levels] == [
        ("request", 256 * MI),
        ("recommended", 200 * MI),
    ]


def test_plots_of_leave_out_what_was_never_measured_and_the_time_before_the_first_minute() -> None:
    late = trail(
        10,
        cpu_usage_millicores=(None,) * 7 + (5.0, None, 6.0),
        cpu_peak_millicores=(None,) * 7 + (9.0, None, 9.0),
        waiting_ratio=(None,) * 10,
        working_set_bytes=(None,) * 10,
    )
    (plot,) = plots_of(explanation(trail=late))
    assert plot.title == "CPU"
    assert plot.area == (5.0, None, 6.0)
    assert plot.start_unix_minute == late.start_unix_seconds // 60 + 7


def test_plots_of_nothing_are_none() -> None:
    empty = trail(
        2,
        cpu_usage_millicores=(None,) * 2,
        cpu_peak_millicores=(None,) * 2,
        waiting_ratio=(None,) * 2,
        working_set_bytes=(None,) * 2,
    )
    assert plots_of(explanation(trail=None)) == plots_of(explanation(trail=empty)) == ()


@pytest.mark.parametrize(("limit_millicores", "is_shown"), [(750, True), (4000, False)])
def test_a_limit_far_above_is_named_and_not_drawn(limit_millicores: int, is_shown: bool) -> None:
    resources = UnitResources(cpu_request_millicores=500, cpu_limit_millicores=limit_millicores)
    plot = plots_of(explanation(subject(resources=resources)))[0]
    assert [level.is_shown for level in plot.levels if level.name == "limit"] == [is_shown]
    assert any("above the picture" in line for line in drawn(plot)) is not is_shown
    assert (plot.largest >= limit_millicores) is is_shown


def test_more_than_two_days_have_days_at_the_axis() -> None:
    week = replace(PLOT, area=(1.0,) * 7 * 1440, tops=None)
    lines = drawn(week, 100)
    assert lines[0] == "CPU  Sat 2026-11-21 00:00 to Sat 2026-11-28 00:00 UTC, a column is 1h52m"
    assert lines[12].split() == ["UTC", "Sat", "21", "Mon", "23", "Wed", "25", "Fri", "27"]
