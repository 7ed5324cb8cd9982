from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.text.chart import sparkline
from agent.cli.text.spans import ASCII, UNICODE, Line, Tone, display_width, line_text
from agent.cli.top.detail import CPU_ENTRIES, MEMORY_ENTRIES, detail_lines
from agent.cli.top.live_page import CpuTrail, ScreenPage, screen_page
from agent.cli.top.look import TerminalLook
from agent.cli.top.page import absence_line, page_lines
from agent.cli.top.view import SortKey, ViewState, Zoom, build_rows
from agent.core.window.snapshot import ColdFile, CpuWindow, Gap, MemoryWindow, Missing, Snapshot
from tests.snapshots import MIB, advised, busy_node, container, cpu_window, memory_window, service, snapshot

WIDE = TerminalLook(width=170, glyphs=UNICODE, has_colour=True)
PLAIN = TerminalLook(width=80, glyphs=ASCII, has_colour=False)


def page(node: Snapshot, state: ViewState | None = None, look: TerminalLook = WIDE, limit: int = 0) -> str:
    state = state or ViewState()
    return "\n".join(line_text(line) for line in page_lines(node, build_rows(node, state), state, look, limit=limit))


def screen(node: Snapshot, state: ViewState, width: int, height: int, *, show_help: bool = False) -> ScreenPage:
    look = TerminalLook(width=width, glyphs=UNICODE, has_colour=True)
    return screen_page(node, state, look, height=height, age_seconds=0.0, show_help=show_help)


def hot_texts(lines: list[Line]) -> list[str]:
    return [span.text.strip() for line in lines for span in line if span.tone is Tone.HOT]


# --once


def test_header_tells_node_sampler_and_staleness() -> None:
    text = page(busy_node())
    for part in ("worker-7", "of 4 CPUs", "41%", "3.20GiB of 8.00GiB", "load 1.87", "waiting 6.2%", "up 3d04h"):
        assert part in text
    for part in ("native 1 Hz", "late p99 0.40ms", "units 29", "newest 0.4s old"):
        assert part in text


def test_header_without_psi_and_without_a_first_sweep_shows_absence_never_zero() -> None:
    node = snapshot(container(sample_age_seconds=None))
    node = replace(
        node,
        node=replace(node.node, cpu_waiting_ratio=None, cpu_usage_millicores=None),
        sampler=replace(node.sampler, lateness_p99_seconds=None, sweep_seconds=None),
    )
    text = page(node)
    assert "    -  - of 4 CPUs   waiting -   load" in text
    assert "newest none yet   late p99 -   sweep -" in text


def test_a_stale_picture_is_hot() -> None:
    node = snapshot(container(sample_age_seconds=61.0))
    lines = page_lines(node, build_rows(node, ViewState()), ViewState(), WIDE)
    assert "1m01s old" in hot_texts(lines)
    assert "1m01s" in hot_texts(lines)


def test_waiting_and_throttled_are_two_columns_and_absence_is_a_dash_with_its_reason() -> None:
    reasons = dict.fromkeys(("last_waiting_ratio", "last_throttled_ratio"), Missing.NO_SIGNAL)
    node = snapshot(container(cpu=cpu_window(last_waiting_ratio=None, last_throttled_ratio=None, missing=reasons)))
    lines = page(node).splitlines()
    titles = next(line for line in lines if line.startswith("NAME")).split()
    cells = next(line for line in lines if line.startswith("web-1")).split()
    assert cells[titles.index("WAIT")] == "-"
    assert cells[titles.index("THROT")] == "-"
    assert "-   waiting, throttled: no signal from this kernel" in lines


def test_absence_line_counts_units_and_gives_the_commonest_reason() -> None:
    node = snapshot(container(), service())  # the service has no memory figures
    assert line_text(absence_line(node)) == "-   memory of 1/2: no signal from this kernel"
    assert absence_line(snapshot(container())) == ()
    unexplained = snapshot(container(cpu=cpu_window(last_waiting_ratio=None)))
    assert line_text(absence_line(unexplained)) == "-   waiting: no reason given"


def test_hot_figures_are_those_that_need_action() -> None:
    node = busy_node()
    state = ViewState()
    figures = hot_texts(page_lines(node, build_rows(node, state), state, WIDE))
    # 34 % waiting; 61 % throttled; redis: OOM kills mark name and count, 245 of 256 MiB; "red" is the legend
    assert sorted(figures) == sorted(["34%", "61%", "cache-0", "245MiB", "2", "red"])


def test_without_colour_hot_figures_are_marked_and_the_text_is_ascii() -> None:
    text = page(busy_node(), look=PLAIN)
    for part in ("!34%", "!61%", "!cache-0", "!245MiB", "! waiting >=20%"):
        assert part in text
    assert text.isascii()


def test_notes_and_limit_are_said() -> None:
    text = page(busy_node(), limit=3)
    assert "note no memory controller on /system.slice" in text
    rows = len(build_rows(busy_node(), ViewState()))
    assert f"{rows - 3} more rows (--limit 0 shows all)" in text


def test_an_empty_table_says_why() -> None:
    assert "no cgroup is watched yet" in page(snapshot())
    assert "nothing passes the filter 'x': 0 of 1 units" in page(snapshot(container()), ViewState(filter_text="x"))


def test_requests_are_shown_only_where_known() -> None:
    assert "REQ" in page(snapshot(container()))
    assert "REQ" not in page(snapshot(service()))


def test_a_moment_in_the_past_is_said_and_the_nodes_own_figures_are_of_now() -> None:
    text = page(snapshot(container(), at_age_seconds=600.0))
    assert "10m00s ago" in text
    assert text.count("(now)") == 2


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160, 250])
def test_no_line_is_wider_than_asked(width: int) -> None:
    for look in (
        TerminalLook(width=width, glyphs=UNICODE, has_colour=True),
        TerminalLook(width=width, glyphs=ASCII, has_colour=False),
    ):
        for line in page(busy_node(), ViewState(is_expanded=True), look).splitlines():
            assert display_width(line) <= width


def test_at_80_columns_the_figures_that_matter_are_there() -> None:
    titles = next(line for line in page(busy_node(), look=replace(PLAIN, width=80)).splitlines() if "NAME" in line)
    assert titles.split() == ["NAME", "NOWv", "P75", "PEAK", "WAIT", "THROT", "WSET", "PEAK", "LIMIT", "AGE"]


def test_the_column_sorted_by_stays_on_a_narrow_terminal() -> None:
    text = page(busy_node(), ViewState(sort=SortKey.AGE), TerminalLook(width=30, glyphs=ASCII, has_colour=True))
    assert "AGEv" in text


# The live page


@given(st.integers(1, 200), st.integers(1, 60), st.sampled_from(Zoom), st.booleans(), st.booleans())
def test_the_page_fits_every_terminal(width: int, height: int, zoom: Zoom, is_expanded: bool, show_help: bool) -> None:
    path = "/kubepods/burstable/poduid-data-cache-0/redis"
    state = ViewState(zoom=zoom, pod="pod:uid-data-cache-0", unit_path=path, is_expanded=is_expanded)
    drawn = screen(busy_node(), state, width, height, show_help=show_help)
    assert len(drawn.lines) <= height
    assert all(sum(display_width(span.text) for span in line) <= width for line in drawn.lines)
    assert drawn.selected_line is None or drawn.selected_line < height


def test_the_selected_line_is_the_selected_row_after_scrolling() -> None:
    node = busy_node()
    for index, row in enumerate(build_rows(node, ViewState())):
        drawn = screen(node, ViewState(selected=row.key), 160, 20)
        assert drawn.selected_line is not None
        assert line_text(drawn.lines[drawn.selected_line]).split()[0].endswith(row.name[-8:]), index


def test_a_low_terminal_keeps_title_table_and_keys() -> None:
    drawn = [line_text(line) for line in screen(busy_node(), ViewState(), 80, 9).lines]
    assert drawn[0].startswith("plimsoll")
    assert any(line.startswith("NAME") for line in drawn)
    assert drawn[-1].startswith("q quit")


def test_a_half_typed_filter_shows_all_rows_and_what_is_wrong() -> None:
    drawn = screen(busy_node(), ViewState(filter_text="color=red"), 160, 24)
    assert len(drawn.rows) == len(build_rows(busy_node(), ViewState()))
    assert "unknown key" in line_text(drawn.lines[-1])


def test_the_title_says_where_one_is() -> None:
    unit = ViewState(zoom=Zoom.UNIT, unit_path="/kubepods/burstable/poduid-data-cache-0/redis")
    assert "worker-7 » data/cache-0 » redis" in line_text(screen(busy_node(), unit, 160, 40).lines[0])
    gone = ViewState(zoom=Zoom.POD, pod="pod:gone")
    drawn = screen(busy_node(), gone, 160, 40)
    assert "worker-7 » gone" in line_text(drawn.lines[0])
    assert any("not in the picture" in line_text(line) for line in drawn.lines)


def test_paused_is_said_with_the_age_of_the_moment() -> None:
    look = TerminalLook(width=120, glyphs=UNICODE, has_colour=True)
    drawn = screen_page(busy_node(), ViewState(moment_seconds=5.0), look, height=24, age_seconds=70.0)
    assert "PAUSED" in line_text(drawn.lines[0])
    assert "1m10s ago" in line_text(drawn.lines[0])


def test_help_names_every_sign_and_all_notes() -> None:
    text = "\n".join(line_text(line) for line in screen(busy_node(), ViewState(), 160, 60, show_help=True).lines)
    for part in ("quit", "pause", "zoom", "THROT", "at most", "never 0", "no memory controller"):
        assert part in text


# One unit


def detail(width: int = 80, **changes: object) -> list[str]:
    unit = replace(container(), **changes)  # type: ignore[arg-type]  # a table of changes
    return [line_text(line) for line in detail_lines(unit, width=width, glyphs=UNICODE, marks=True)]


def test_detail_has_every_figure_of_the_windows() -> None:
    extra_fields = {"readings", "gaps", "span_seconds", "coverage_ratio", "missing"}
    assert {entry.field for entry in CPU_ENTRIES} == {field.name for field in fields(CpuWindow)} - extra_fields
    extra_fields.add("cold_file")  # no number: a line of its own
    assert {entry.field for entry in MEMORY_ENTRIES} == {field.name for field in fields(MemoryWindow)} - extra_fields


def test_detail_tells_of_cold_file_cache_and_over_which_time() -> None:
    cold = ColdFile(
        total_bytes=350 << 20, active_bytes=300 << 20, refaulted_bytes=0, window_seconds=1800.0, is_left_out=False
    )
    (line,) = [line for line in detail(memory=memory_window(cold_file=cold)) if "cold file cache" in line]
    assert line.split("cold file cache")[1].split() == ["350MiB", "for", "30m00s"]
    unknown = memory_window(missing={"cold_file": Missing.TOO_FEW_SAMPLES})
    (line,) = [line for line in detail(memory=unknown) if "cold file cache" in line]
    assert line.split("cold file cache")[1].split() == ["-", "too", "few", "samples"]


def test_detail_gives_the_reason_of_what_is_missing() -> None:
    cpu = cpu_window(None, gaps={Gap.CLOCK: 3, Gap.PARSE: 0}, waiting_ratio=None)
    lines = detail(cpu=cpu, memory=memory_window(None))
    assert any(line.startswith("now                 - too few samples") for line in lines)
    assert any(line.startswith("waiting, mean       - no reason given") for line in lines)
    assert any("working set" + " " * 9 + "- no signal" in line for line in lines)
    assert any(line.startswith("gaps                clock 3") for line in lines)


def test_detail_panels_stand_side_by_side_whatever_is_missing() -> None:
    lines = detail(cpu=cpu_window(None, missing=dict.fromkeys((e.field for e in CPU_ENTRIES), Missing.TOO_FEW_SAMPLES)))
    starts = {line.index(word) for line in lines for word in ("MEMORY", "working set P75", "OOM kills") if word in line}
    assert len(starts) == 1


def test_detail_marks_hot_figures_without_moving_them() -> None:
    calm, hot = detail(), detail(cpu=cpu_window(last_waiting_ratio=0.5), memory=memory_window(100 * MIB, oom_kills=3))
    assert any("    !50%" in line for line in hot)
    assert any(line.rstrip().endswith("      !3") for line in hot)
    assert len(calm) == len(hot)


def test_detail_fits_below_title_and_keys_of_24_lines() -> None:
    assert len(detail()) <= 22


def test_detail_goes_one_under_the_other_on_a_narrow_terminal() -> None:
    assert len(detail(width=60)) > len(detail(width=80))


def test_detail_of_a_unit_never_read_says_so() -> None:
    assert "sample none yet" in detail(sample_age_seconds=None)[0]
    assert "(over 5 s)" in detail(sample_age_seconds=9.0)[0]


def test_trail_is_drawn_from_zero_to_its_largest_with_blanks_for_what_is_missing() -> None:
    assert sparkline([0.0, None, 50.0, 100.0], "01234") == "0 24"
    assert sparkline([0.0, None], "01234") == "0 "
    assert sparkline([], "01") == ""
    drawn = screen_page(
        busy_node(),
        ViewState(zoom=Zoom.UNIT, unit_path="/kubepods/burstable/poduid-data-cache-0/redis"),
        WIDE,
        height=40,
        age_seconds=0.0,
        trail=CpuTrail(millicores=(1.0, 2.0), span_seconds=1.0),
    )
    assert any("CPU TRAIL" in line_text(line) for line in drawn.lines)


# What is recommended


def titles_of(text: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith("NAME")).split()


def advised_node() -> Snapshot:
    return snapshot(
        advised(container("short", cpu=cpu_window(3.0)), 900, 400 * MIB),
        advised(container("fits", cpu=cpu_window(2.0)), 500, 256 * MIB),
        advised(container("young", cpu=cpu_window(1.0)), "too_young", "no_signal"),
    )


def test_should_stands_beside_the_request_and_a_reason_stands_in_its_place() -> None:
    lines = page(advised_node()).splitlines()
    titles = titles_of("\n".join(lines))
    cpu = titles.index("SHOULD")
    assert titles[cpu - 1] == "REQ"
    memory = titles.index("SHOULD", cpu + 1)
    cells = {line.split()[0]: line for line in lines if line.startswith(("short", "fits", "young"))}
    assert cells["short"].split()[cpu - 1 : cpu + 1] == ["500m", "900m"]
    assert cells["short"].split()[memory - 1 : memory + 1] == ["256MiB", "400MiB"]
    assert cells["young"].split()[cpu] == "young"
    assert "256MiB no signal" in cells["young"]


def test_a_request_much_too_small_is_hot_and_a_saving_is_not() -> None:
    node = snapshot(advised(container("short"), 900), advised(container("large"), 20, 16 * MIB))
    figures = hot_texts(page_lines(node, build_rows(node, ViewState()), ViewState(), WIDE))
    assert figures == ["900m", "red"]
    assert "!900m" in page(node, look=PLAIN)


def test_nothing_recommended_is_no_column() -> None:
    assert "SHOULD" not in page(busy_node())


def test_at_80_columns_what_it_should_request_stands_beside_usage() -> None:
    look = TerminalLook(width=80, glyphs=UNICODE, has_colour=True)
    node = snapshot(advised(container("web-1"), 900, 400 * MIB))
    columns = ["NAME", "NOW↓", "P75", "PEAK", "REQ", "SHOULD", "WAIT", "THROT", "WSET", "SHOULD"]
    assert titles_of(page(node, look=look))[: len(columns)] == columns


def test_the_countdown_to_the_first_recommendation_follows_the_window_not_the_evaluation() -> None:
    def notes(seconds: float) -> str:
        cpu, memory = cpu_window(span_seconds=seconds), memory_window(span_seconds=0.0)
        unit = advised(container(cpu=cpu, memory=memory), "too_young", "too_young", measured_seconds=3.0)
        return page(snapshot(unit))

    assert "note recommended requests begin after 10m00s of readings: in 9m15s" in notes(45.0)  # 600 - 45 = 555 s
    assert "readings: with the next evaluation" in notes(600.0)


def test_no_countdown_where_something_is_recommended_or_nothing_waits_for_time() -> None:
    assert "begin after" not in page(advised_node())
    assert "begin after" not in page(snapshot(advised(container(), "no_signal", "no_signal")))
    assert "begin after" not in page(busy_node())


def test_detail_says_request_recommendation_policy_and_reason() -> None:
    lines = detail(advice=advised(container(), 900, "too_young", measured_seconds=5.0).advice)
    start = lines.index("SHOULD REQUEST  by policy cruise")
    assert lines[start + 1] == "CPU     500m → 900m       !add 400m, much too small; QoS class kept"
    # the memory window reaches back 1790 s: by now it is known for longer than ten minutes
    assert lines[start + 2].startswith("memory  256MiB            too young until the next evaluation: 29m50s")
    young = detail(
        cpu=cpu_window(span_seconds=45.0),
        memory=memory_window(span_seconds=40.0),
        advice=advised(container(), "too_young", 256 * MIB, measured_seconds=5.0).advice,
    )
    assert "CPU     500m              too young: 45s of 10m00s" in young
    assert "memory  256MiB → 256MiB   keep, fits" in young
    assert not any("SHOULD" in line for line in detail())


def test_the_countdown_hides_no_other_note_on_the_live_page() -> None:
    cpu, memory = cpu_window(span_seconds=45.0), memory_window(span_seconds=0.0)
    unit = advised(container(cpu=cpu, memory=memory), "too_young", "too_young", measured_seconds=3.0)
    text = [line_text(line) for line in screen(snapshot(unit, notes=("one", "two")), ViewState(), 120, 40).lines]
    assert "note recommended requests begin after 10m00s of readings: in 9m15s" in text
    assert "note one  (+1, h shows all)" in text
    shown = screen(snapshot(unit, notes=("one", "two")), ViewState(), 120, 60, show_help=True)
    assert any("begin after" in line_text(line) for line in shown.lines)
