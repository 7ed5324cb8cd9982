"""What a recommendation rests on, as sections of ``plimsoll why``: windows, CPU, memory, peaks by hour, kills.

Face. Pure. What is missing is ``-`` with its reason, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from agent.cli.text.figures import ABSENT, age_text, bytes_text, millicores_text, percent_text
from agent.cli.text.paragraphs import Page, fact, figure, flow, label
from agent.cli.text.spans import Line, Span, Tone, clip, pad
from agent.core.history.workloads.hour_peaks import HourPeak
from agent.core.recommender.explanation import Explanation
from agent.core.window.cold_file import may_leave_out
from agent.core.window.snapshot import CpuWindow, MemoryWindow, Missing

_HOUR_SECONDS: Final = 3600
_DAY_HOURS: Final = 24
_GRID_WIDTH: Final = _DAY_HOURS + 10
"""A day's hours and the largest of them."""
_DATE_WIDTH: Final = 10

_MISSING_WORDS: Final = {
    Missing.NO_SIGNAL: "no signal from this kernel",
    Missing.TOO_FEW_SAMPLES: "too few readings yet",
    Missing.GAPS: "too many gaps in the window",
    Missing.OUT_OF_RING: "before the rings begin",
}


def data_lines(item: Explanation, page: Page) -> list[Line]:
    """Return the samples and windows that the answer rests on, and their age."""
    basis, cpu = item.recommendation.basis, item.cpu
    gaps = ", ".join(f"{count} x {reason.value.replace('_', ' ')}" for reason, count in cpu.gaps.items() if count)
    age = basis.sample_age_seconds
    history = "no whole minute yet"
    if basis.history_minutes:
        known = f"{basis.history_minutes} minute{'s' if basis.history_minutes > 1 else ''}"
        history = f"{known} known of 7 days, the oldest {age_text(basis.history_span_seconds)} ago; {_whose(item)}"
    cpu_window = (
        f"{basis.cpu_readings} readings over {age_text(basis.cpu_span_seconds)}; "
        f"{percent_text(cpu.coverage_ratio)} of the window covered; gaps: {gaps or 'none'}"
    )
    return [
        (Span("DATA", Tone.TITLE),),
        *fact("CPU window", cpu_window, page),
        *fact("memory window", f"{basis.memory_readings} readings over {age_text(basis.memory_span_seconds)}", page),
        *fact("newest reading", "there is none" if age is None else f"{age_text(age)} old", page),
        *fact("history", history, page),
    ]


def _whose(item: Explanation) -> str:
    workload = item.recommendation.workload
    if workload is None:
        return "of this cgroup alone"
    if workload.kind == "Pod":
        return "of this container"
    return f"of this container in {workload.kind} {workload.name}: of its replicas on this node the largest"


def cpu_lines(item: Explanation) -> list[Line]:
    """Return CPU as measured beside what pressure makes of it; waiting taken in, throttling taken out."""
    cpu = item.cpu
    lines: list[Line] = [
        (
            Span(pad("CPU", len(label("").text), to_right=False), Tone.TITLE),
            figure("MEASURED", Tone.DIM),
            figure("ADJUSTED", Tone.DIM),
            Span("  adjusted = measured x (1 + waiting)", Tone.DIM),
        )
    ]
    for name, field, adjusted in (
        ("P75 of the window", "usage_p75_millicores", "adjusted_p75_millicores"),
        ("peak", "usage_peak_millicores", "adjusted_peak_millicores"),
        ("burst, one tick", "burst_millicores", None),
        ("now", "last_usage_millicores", None),
    ):
        fields = (field,) if adjusted is None else (field, adjusted)
        reason = next((why for each in fields if (why := _missing(cpu, each))), "")
        figures = [figure(_text(cpu, each, millicores_text)) for each in fields]
        lines.append((label(name), *figures, Span(f"  {reason}", Tone.NOTE)))
    for name, mean, last, what in (
        ("waiting", "waiting_ratio", "last_waiting_ratio", "taken in: share of time, PSI some without throttling"),
        ("throttled", "throttled_ratio", "last_throttled_ratio", "taken out: share of time held back by cpu.max"),
    ):
        reason = _missing(cpu, mean)
        text = ABSENT if reason else f"{_text(cpu, mean, percent_text)} mean, {_text(cpu, last, percent_text)} now"
        lines.append((label(name), Span(pad(text, 22, to_right=True)), _remark(reason, what)))
    if cpu.throttled_periods_ratio is not None:
        share = figure(percent_text(cpu.throttled_periods_ratio))
        lines.append(
            (label("CFS periods"), share, figure(""), Span("  with throttling, of all in the window", Tone.DIM))
        )
    return lines


def memory_lines(item: Explanation, page: Page) -> list[Line]:
    """Return memory: working set, what is charged, waiting for it, and file cache that nobody came back for."""
    memory = item.memory
    entries: tuple[tuple[str, str, Callable[[float | None], str], str], ...] = (
        ("working set", "working_set_bytes", bytes_text, "now: memory.current without inactive file pages"),
        ("P75 of the window", "working_set_p75_bytes", bytes_text, "of the working set"),
        ("peak", "working_set_peak_bytes", bytes_text, "of the working set"),
        ("memory.current", "current_bytes", bytes_text, "now, page cache included: what a limit counts"),
        ("memory.peak", "lifetime_peak_bytes", bytes_text, "page cache included, since the cgroup was made"),
        ("waiting", "pressure_some_ratio", percent_text, "share of the window in which some task stalled on memory"),
        ("all waiting", "pressure_full_ratio", percent_text, "share in which all its tasks stalled on memory at once"),
        ("memory.high", "high_events", _count_text, "times in the window that its tasks were held back above it"),
        ("OOM kills", "oom_kills", _count_text, "in the window"),
        ("disk waiting", "io_pressure_some_ratio", percent_text, "share in which some task waited for a disk"),
    )
    lines: list[Line] = [(Span("MEMORY", Tone.TITLE),)]
    reasons = {_missing(memory, field) for _, field, text, _ in entries if text is bytes_text}
    is_known = len(reasons) > 1 or "" in reasons
    if not is_known:
        # One line says as much as a line each.
        lines.append((label("all but waiting"), figure(ABSENT), Span(f"  {reasons.pop()}", Tone.NOTE)))
        entries = tuple(
            entry
            for entry in entries
            if entry[1] == "pressure_some_ratio" or (entry[2] is percent_text and not _missing(memory, entry[1]))
        )
    for name, field, text, what in entries:
        lines.append((label(name), figure(_text(memory, field, text)), _remark(_missing(memory, field), what)))
    return [*lines, *_cold_file_lines(item, page)] if is_known else lines


def _cold_file_lines(item: Explanation, page: Page) -> Iterator[Line]:
    """Return how much of the memory is file cache that nobody came back for, and whether it is asked for."""
    memory, cold = item.memory, item.memory.cold_file
    if cold is None:
        reason = Span(f"  {_missing(memory, 'cold_file')}", Tone.NOTE)
        return iter([(label("cold file cache"), figure(ABSENT), reason)])
    span, missed = age_text(cold.window_seconds), ""
    if cold.refaulted_bytes:
        missed = f"; {bytes_text(cold.refaulted_bytes)} were reclaimed and read again meanwhile"
    if not cold.total_bytes:
        return fact("cold file cache", f"none over {span}{missed}", page)
    if cold.is_left_out:
        asked = "left out of the request, memory.coldFile is exclude; the limit is not lowered"
    elif may_leave_out(item.recommendation.resources):
        asked = "kept in the request, memory.coldFile is report"
    else:
        asked = "kept in the request, which is the limit"
    of_set = f"of {bytes_text(memory.working_set_bytes)} working set {bytes_text(cold.active_bytes)}"
    inactive = f"{bytes_text(cold.total_bytes - cold.active_bytes)} of inactive file pages beside it"
    known = "an upper estimate: reading a page that stays in memory leaves no trace"
    text = f"{of_set} are file cache that nobody is known to have read again for {span}, {inactive}{missed}"
    return fact("cold file cache", f"{text}; {asked}; {known}", page)


def _count_text(count: float | None) -> str:
    return ABSENT if count is None else f"{count:.0f}"


def _text(window: CpuWindow | MemoryWindow, field: str, text: Callable[[float | None], str]) -> str:
    value: float | None = getattr(window, field)
    return text(value)


def _missing(window: CpuWindow | MemoryWindow, field: str) -> str:
    """Return why a figure is not there; empty = it is."""
    if getattr(window, field) is not None:
        return ""
    reason = window.missing.get(field)
    return "no reason given" if reason is None else _MISSING_WORDS[reason]


def _remark(reason: str, what: str) -> Span:
    """Return why a figure is absent, else what it is."""
    return Span(f"  {reason}", Tone.NOTE) if reason else Span(f"  {what}", Tone.DIM)


# Peaks by hour


def hour_lines(item: Explanation, page: Page) -> list[Line]:
    """Return a row of hours per day, CPU and memory; those that the answer goes by are marked."""
    if not item.hours:
        return [(Span("PEAKS BY HOUR", Tone.TITLE), Span("  no hour measured yet", Tone.NOTE))]
    counted = frozenset(item.hours_counted)
    lines: list[Line] = [
        (Span("PEAKS BY HOUR", Tone.TITLE), Span("  UTC, seven days", Tone.DIM)),
    ]
    grids = []
    for title, of_hour, text in (
        ("CPU, PSI-adjusted", _cpu_of, millicores_text),
        ("working set", _memory_of, bytes_text),
    ):
        if any(of_hour(hour) is not None for hour in item.hours):
            grids.append(_grid(title, item.hours, counted, of_hour, text, page))
    blank: Line = (Span(" " * _DATE_WIDTH),)
    dates = [blank, blank, *((Span(pad(date, _DATE_WIDTH, to_right=False), Tone.DIM),) for date in _dates(item.hours))]
    dates.append((Span(pad("counts" if counted else "", _DATE_WIDTH, to_right=False), Tone.DIM),))
    if page.width >= _DATE_WIDTH + len(grids) * (_GRID_WIDTH + 2):
        rows = zip(dates, *grids, strict=True)
        lines += [tuple(span for part in row for span in (*part, Span("  "))) for row in rows]
    else:
        for grid in grids:
            lines += [(*date, *row) for date, row in zip(dates, grid, strict=True)]
    if not counted:
        lines.pop()
    largest = f"{_levels(page)[-1]} the largest hour shown, {_levels(page)[0]} far below it; empty = not measured"
    marks = f"{page.glyphs.up} an hour of the day that the answer goes by now" if counted else ""
    lines += flow([(Span(text, Tone.DIM),) for text in (largest, marks) if text], page)
    return lines


def _cpu_of(hour: HourPeak) -> float | None:
    return hour.cpu_millicores


def _memory_of(hour: HourPeak) -> float | None:
    return hour.working_set_bytes


def _days(hours: tuple[HourPeak, ...]) -> range:
    numbers = [hour.hour_unix_seconds // _HOUR_SECONDS // _DAY_HOURS for hour in hours]
    # a history whose clock was once wrong may be scattered: only the days up to the newest are drawn
    return range(max(min(numbers), max(numbers) - 7), max(numbers) + 1)


def _dates(hours: tuple[HourPeak, ...]) -> Iterator[str]:
    for day in _days(hours):
        yield f"{datetime.fromtimestamp(day * _DAY_HOURS * _HOUR_SECONDS, UTC):%a %m-%d}"


def _levels(page: Page) -> str:
    """Return the signs of the grid; none is a space, which means that nothing was measured."""
    return page.glyphs.spark.lstrip()


def _grid(
    title: str,
    hours: tuple[HourPeak, ...],
    counted: frozenset[int],
    of_hour: Callable[[HourPeak], float | None],
    text: Callable[[float | None], str],
    page: Page,
) -> list[Line]:
    """Return title, heading, a line per day and the marks; all are as wide."""
    known = {hour.hour_unix_seconds: value for hour in hours if (value := of_hour(hour)) is not None}
    top = max(known.values())
    levels = _levels(page)
    lines: list[Line] = [
        (Span(pad(clip(title, _GRID_WIDTH), _GRID_WIDTH, to_right=False), Tone.DIM),),
        (Span(pad("0     6     12    18", _DAY_HOURS, to_right=False) + pad("max", 10, to_right=True), Tone.DIM),),
    ]
    columns: set[int] = set()
    for day in _days(hours):
        spans: list[Span] = []
        values: list[float] = []
        for hour_of_day in range(_DAY_HOURS):
            moment = (day * _DAY_HOURS + hour_of_day) * _HOUR_SECONDS
            value = known.get(moment)
            if value is None:
                spans.append(Span(" "))
                continue
            values.append(value)
            if moment in counted:
                columns.add(hour_of_day)
            level = int(value / top * (len(levels) - 1) + 0.5) if top > 0 else 0
            spans.append(Span(levels[level], Tone.ACCENT if moment in counted else Tone.PLAIN))
        spans.append(Span(pad(text(max(values, default=None)), 10, to_right=True)))
        lines.append(tuple(spans))
    marks = "".join(page.glyphs.up if hour in columns else " " for hour in range(_DAY_HOURS))
    lines.append((Span(pad(marks, _GRID_WIDTH, to_right=False), Tone.ACCENT),))
    return lines


# Kills


def kill_lines(item: Explanation, page: Page) -> list[Line]:
    """Return each out-of-memory kill that is remembered, newest first."""
    title = Span("OUT-OF-MEMORY KILLS", Tone.TITLE)
    if not item.kills:
        return [(title, Span("  none remembered", Tone.DIM))]
    lines: list[Line] = [
        (
            title,
            Span(f"  {len(item.kills)} remembered, newest first", Tone.DIM),
        ),
        (
            Span(pad("UTC", 18, to_right=False), Tone.DIM),
            *(figure(text, Tone.DIM) for text in ("AGO", "IN USE", "LIMIT", "REQUEST")),
        ),
    ]
    for kill in sorted(item.kills, key=lambda kill: -kill.unix_seconds):
        moment = f"{datetime.fromtimestamp(kill.unix_seconds, UTC):%Y-%m-%d %H:%M}"
        unknown = ", ".join(
            what for what, known in (("use", kill.usage_bytes), ("limit", kill.limit_bytes)) if known is None
        )
        notes = [f"{unknown} not known"] if unknown else []
        if kill.is_told_by_status:
            notes.append("told by the pod's status: no agent looked")
        lines.append(
            (
                Span(pad(moment, 18, to_right=False)),
                figure(age_text(max(item.taken_unix_seconds - kill.unix_seconds, 0.0))),
                figure(bytes_text(kill.usage_bytes)),
                figure(bytes_text(kill.limit_bytes)),
                figure(bytes_text(kill.request_bytes)),
                Span(f"  {', '.join(notes)}" if notes else "", Tone.NOTE),
            )
        )
    return lines
