"""The table of ``top``: which columns it has, and how it is laid out. Face, pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.cli.text.figures import age_text, bytes_text, millicores_text, percent_text
from agent.cli.text.spans import Glyphs, Tone
from agent.cli.text.table import Cell, Column, TextTable, render_table
from agent.cli.top.look import TerminalLook
from agent.cli.top.view import Alarm, Exactness, Figure, SortKey, TopRow, ViewState
from agent.cli.words.advice import WITHHELD_WORDS, cpu_text
from agent.core.recommender.recommendation import Withheld


def _figure_text(figure: Figure, text: Callable[[float | None], str], glyphs: Glyphs) -> str:
    signs = {
        Exactness.EXACT: "",
        Exactness.ESTIMATE: "~",
        Exactness.AT_MOST: glyphs.at_most,
        Exactness.AT_LEAST: glyphs.at_least,
    }
    return f"{signs[figure.bound]}{text(figure.value)}"


def _count_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class _FigureColumn:
    column: Column
    figure: Callable[[TopRow], Figure]
    text: Callable[[float | None], str]
    alarm: Alarm | None = None
    sort: SortKey | None = None
    is_optional: bool = False
    """Left out when no row has it."""
    withheld: Callable[[TopRow], Withheld | None] | None = None
    """Why there is no figure: its word stands in the cell."""
    advised_priority: int | None = None
    """In place of the column's own where something is recommended: it is what that is held against."""


def _column(key: str, title: str, group: str, min_width: int, priority: int) -> Column:
    return Column(key=key, title=title, group=group, min_width=min_width, priority=priority)


_FIGURES: tuple[_FigureColumn, ...] = (
    _FigureColumn(_column("cpu", "NOW", "CPU", 6, 1), lambda r: r.cpu_now, millicores_text, None, SortKey.CPU),
    _FigureColumn(_column("p75", "P75", "CPU", 6, 20), lambda r: r.cpu_p75, millicores_text, None, SortKey.P75),
    _FigureColumn(_column("peak", "PEAK", "CPU", 6, 25), lambda r: r.cpu_peak, millicores_text, None, SortKey.PEAK),
    _FigureColumn(
        _column("request", "REQ", "CPU", 6, 50),
        lambda r: r.cpu_request,
        cpu_text,
        is_optional=True,
        advised_priority=24,
    ),
    _FigureColumn(
        _column("should", "SHOULD", "CPU", 6, 10),
        lambda r: r.cpu_should,
        cpu_text,
        Alarm.CPU_REQUEST,
        is_optional=True,
        withheld=lambda r: r.cpu_withheld,
    ),
    _FigureColumn(
        _column("wait", "WAIT", "CPU", 5, 2), lambda r: r.waiting, percent_text, Alarm.WAITING, SortKey.WAITING
    ),
    _FigureColumn(
        _column("throt", "THROT", "CPU", 5, 3), lambda r: r.throttled, percent_text, Alarm.THROTTLED, SortKey.THROTTLED
    ),
    _FigureColumn(_column("waitavg", "WAITavg", "CPU", 5, 80), lambda r: r.waiting_mean, percent_text),
    _FigureColumn(_column("throtavg", "THROTavg", "CPU", 5, 81), lambda r: r.throttled_mean, percent_text),
    _FigureColumn(
        _column("wset", "WSET", "MEMORY", 7, 4), lambda r: r.working_set, bytes_text, Alarm.MEMORY, SortKey.MEMORY
    ),
    _FigureColumn(_column("mpeak", "PEAK", "MEMORY", 7, 30), lambda r: r.memory_peak, bytes_text),
    _FigureColumn(_column("mlimit", "LIMIT", "MEMORY", 7, 35), lambda r: r.memory_limit, bytes_text),
    _FigureColumn(
        _column("mrequest", "REQ", "MEMORY", 7, 52),
        lambda r: r.memory_request,
        bytes_text,
        is_optional=True,
        advised_priority=32,
    ),
    _FigureColumn(
        _column("mshould", "SHOULD", "MEMORY", 7, 11),
        lambda r: r.memory_should,
        bytes_text,
        Alarm.MEMORY_REQUEST,
        is_optional=True,
        withheld=lambda r: r.memory_withheld,
    ),
    _FigureColumn(_column("oom", "OOM", "MEMORY", 3, 55), lambda r: r.oom_kills, _count_text, Alarm.OOM),
    _FigureColumn(_column("age", "AGE", "", 4, 40), lambda r: r.age, age_text, Alarm.AGE, SortKey.AGE),
)


def table_of(
    rows: Sequence[TopRow], state: ViewState, look: TerminalLook, *, visible: range | None = None
) -> TextTable:
    """Return the table for this width; columns and widths suit all rows, ``visible`` (None = all) are drawn."""
    arrow = look.glyphs.up if state.is_reversed else look.glyphs.down
    texts: list[tuple[Column, Callable[[TopRow], Cell]]] = [
        (
            Column(
                key="name",
                title=f"NAME{arrow}" if state.sort is SortKey.NAME else "NAME",
                min_width=12,
                good_width=32,
                is_text=True,
                is_accented=state.sort is SortKey.NAME,
            ),
            _name_cell,
        )
    ]
    if any(row.namespace is not None for row in rows):
        column = Column(key="namespace", title="NAMESPACE", min_width=11, priority=60, is_text=True)
        texts.append((column, lambda row: Cell(row.namespace or "-")))
    column = Column(key="kind", title="KIND", min_width=9, priority=90, is_text=True)
    texts.append((column, lambda row: Cell(row.kind, Tone.DIM)))
    if any(row.qos is not None for row in rows):
        column = Column(key="qos", title="QOS", min_width=10, priority=91, is_text=True)
        texts.append((column, lambda row: Cell(row.qos or "-", Tone.DIM)))
    figures = [entry for entry in _FIGURES if not entry.is_optional or any(_has(entry, row) for row in rows)]
    is_advised = any(entry.withheld is not None for entry in figures)
    columns = [column for column, _ in texts]
    for entry in figures:
        is_sorted_by = entry.sort is state.sort
        columns.append(
            Column(
                key=entry.column.key,
                title=f"{entry.column.title}{arrow}" if is_sorted_by else entry.column.title,
                group=entry.column.group,
                min_width=entry.column.min_width + (entry.alarm is not None and not look.has_colour),
                # the column sorted by explains the order: it stays as long as NAME
                priority=0 if is_sorted_by else _priority(entry, is_advised=is_advised),
                is_accented=is_sorted_by,
            )
        )
    cells = [
        [*(cell(row) for _, cell in texts), *(_figure_cell(entry, row, look.glyphs) for entry in figures)]
        for row in rows
    ]
    return render_table(
        columns, cells, width=look.width, glyphs=look.glyphs, marks=not look.has_colour, visible=visible
    )


def _name_cell(row: TopRow) -> Cell:
    indent = "  " * row.depth
    suffix = f" ({row.containers})" if row.kind == "pod" and row.containers > 1 else ""
    tone = Tone.HOT if Alarm.OOM in row.alarms else Tone.PLAIN
    # a path tells more by its end, a pod's name by its start
    return Cell(f"{indent}{row.name}{suffix}", tone, keep_end="/" in row.name)


def _has(entry: _FigureColumn, row: TopRow) -> bool:
    return entry.figure(row).value is not None or (entry.withheld is not None and entry.withheld(row) is not None)


def _priority(entry: _FigureColumn, *, is_advised: bool) -> int:
    return entry.advised_priority if is_advised and entry.advised_priority is not None else entry.column.priority


def _figure_cell(entry: _FigureColumn, row: TopRow, glyphs: Glyphs) -> Cell:
    figure = entry.figure(row)
    if figure.value is None:
        withheld = entry.withheld(row) if entry.withheld is not None else None
        return Cell("-" if withheld is None else WITHHELD_WORDS[withheld], Tone.DIM)
    is_hot = entry.alarm is not None and entry.alarm in row.alarms
    return Cell(_figure_text(figure, entry.text, glyphs), Tone.HOT if is_hot else Tone.PLAIN)
