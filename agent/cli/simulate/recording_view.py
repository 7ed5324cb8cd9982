"""What is in a recording, as lines of text. Face. Pure: no clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from agent.cli.text.figures import ABSENT, age_text, bytes_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, harmless
from agent.cli.text.table import Cell, Column, render_table
from agent.node.offline.recording_contents import Contents, UnitContents

_SOURCES: Final = {
    "agent": "beside a running agent",
    "state": "from the state of an agent that had ended",
    "self": "sampled by the recorder",
}
_COLUMNS: Final = (
    Column(key="name", title="UNIT", is_text=True, good_width=40),
    Column(key="from", title="FROM", priority=30),
    Column(key="span", title="SPAN"),
    Column(key="samples", title="SAMPLES"),
    Column(key="rate", title="PER SECOND", priority=20),
    Column(key="gaps", title="GAPS"),
    Column(key="memory", title="MEMORY ROWS", priority=60),
    Column(key="minutes", title="MINUTES", priority=50),
    Column(key="end", title="AT THE END", priority=40),
)


def contents_lines(contents: Contents, *, width: int, glyphs: Glyphs, has_colour: bool) -> list[Line]:
    """Return the page."""
    span_seconds = contents.ended_unix_seconds - contents.begun_unix_seconds
    source = _SOURCES.get(contents.source, harmless(contents.source))
    facts = [
        ("node", f"{harmless(contents.node)}, {contents.cpus} CPUs, {source}, plimsoll {harmless(contents.program)}"),
        (
            "span",
            f"{_moment(contents.begun_unix_seconds)} to {_moment(contents.ended_unix_seconds)} UTC, "
            f"{age_text(span_seconds)}",
        ),
        (
            "rows",
            f"{len(contents.units)} units, {contents.samples:,} samples, one each {contents.interval_seconds:.3g} s; "
            f"{bytes_text(contents.file_bytes)} in all",
        ),
        ("gaps", _gaps(contents)),
        ("history", _history(contents)),
        *(("note", harmless(note)) for note in contents.notes),
    ]
    lines: list[Line] = [(Span(harmless(contents.name), Tone.TITLE),)]
    lines += [(Span(f"{name:<8} ", Tone.DIM), Span(text)) for name, text in facts]
    table = render_table(
        _COLUMNS, [_cells(unit) for unit in contents.units], width=width, glyphs=glyphs, marks=not has_colour
    )
    lines += [(), table.titles, *table.rows]
    return [clip_line(line, width, ellipsis=glyphs.ellipsis) for line in lines]


def _gaps(contents: Contents) -> str:
    totals: dict[str, int] = {}
    for unit in contents.units:
        for gap, number in unit.gaps.items():
            totals[gap] = totals.get(gap, 0) + number
    return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in sorted(totals.items())) or "none"


def _history(contents: Contents) -> str:
    if contents.history_begun_unix_seconds is None:
        return "none: what policies know begins with the readings"
    return (
        f"{contents.histories} keys, {contents.history_minutes:,} minutes from "
        f"{_moment(contents.history_begun_unix_seconds)}, {contents.oom_kills} out-of-memory kills"
    )


def _cells(unit: UnitContents) -> list[Cell]:
    gaps = sum(unit.gaps.values())
    begun, ended = unit.begun_unix_seconds, unit.ended_unix_seconds
    return [
        Cell(harmless(unit.name), keep_end=True),
        Cell(ABSENT if begun is None else _moment(begun)),
        Cell(ABSENT if begun is None or ended is None else age_text(ended - begun)),
        Cell(f"{unit.samples:,}"),
        Cell(ABSENT if unit.rate_hz is None else f"{unit.rate_hz:.3g}"),
        Cell(f"{gaps:,}", Tone.NOTE if gaps else Tone.PLAIN),
        Cell(f"{unit.memory_rows:,}"),
        Cell(f"{unit.minutes:,}"),
        Cell("gone" if unit.is_gone else "there"),
    ]


def _moment(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
