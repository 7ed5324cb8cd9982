"""The live page of ``top`` for a terminal of a given size, and its help.

Face. Pure. On a low terminal lines go in the order of their worth: first the thresholds, last the title.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from agent.cli.options.unit_filter import FilterError
from agent.cli.text.spans import Line, Span, Tone, clip_line, display_width, harmless
from agent.cli.top.advice import young_notes
from agent.cli.top.detail import detail_lines
from agent.cli.top.look import TerminalLook
from agent.cli.top.navigation import scrolled, selected_index
from agent.cli.top.page import (
    absence_line,
    cpu_line,
    empty_text,
    find_unit,
    memory_line,
    note_lines,
    sampler_line,
    threshold_line,
    title_line,
)
from agent.cli.top.table import table_of
from agent.cli.top.view import TopRow, ViewState, Zoom, build_rows
from agent.core.window.snapshot import Snapshot

_BODY_LINES = 6
"""Table lines, headings included, for which other lines make room."""
_ROOMY_LINES = 30
"""From this height on, empty lines set the parts apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTrail:
    """CPU of the unit looked at, as this viewer has seen it."""

    millicores: Sequence[float | None] = ()
    span_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenPage:
    """What to draw, and what drawing taught: the rows keys move in, the state scrolled to show the selection."""

    lines: tuple[Line, ...]
    selected_line: int | None
    rows: tuple[TopRow, ...]
    state: ViewState
    body_height: int
    """Rows that a page-down skips."""


NO_TRAIL = CpuTrail()


def screen_page(
    snapshot: Snapshot,
    state: ViewState,
    look: TerminalLook,
    *,
    height: int,
    age_seconds: float,
    status: Line = (),
    trail: CpuTrail = NO_TRAIL,
    show_help: bool = False,
) -> ScreenPage:
    """Lay the page out: at most ``height`` lines, none wider than ``look.width``.

    Args:
        age_seconds: How long ago the picture's moment is by now; 0 = live.
        status: Stands in the place of the keys, if not empty: a message, or the filter being typed.
    """
    rows, fault = _rows(snapshot, state, look)
    is_whole_page = show_help or (state.zoom is Zoom.UNIT and height < _ROOMY_LINES)
    top, bottom = _surroundings(
        snapshot, state, look, age_seconds, status or fault, height, is_whole_page=is_whole_page
    )
    room = max(0, height - len(top) - len(bottom))
    body: list[Line]
    selected_line: int | None = None
    if show_help or state.zoom is Zoom.UNIT:
        body, state = _scrolling_body(snapshot, state, look, room, trail, show_help)
        body_height = room
    elif not rows:
        said: Line = (Span(empty_text(snapshot, state), Tone.NOTE),)
        body, body_height = [said][:room], 0
    else:
        headings = 2 if room > 4 else 1 if room > 1 else 0
        body_height = max(0, room - headings)
        state = scrolled(state, rows, max(1, body_height))
        visible = range(state.first_visible, min(len(rows), state.first_visible + body_height))
        table = table_of(rows, state, look, visible=visible)
        body = [*[table.groups, table.titles][2 - headings :], *table.rows]
        chosen = selected_index(state, rows) - state.first_visible
        selected_line = len(top) + headings + chosen if chosen < len(visible) else None
    body += [()] * (room - len(body))
    lines = [clip_line(line, look.width, ellipsis=look.glyphs.ellipsis) for line in (*top, *body, *bottom)]
    return ScreenPage(
        lines=tuple(lines[:height]),
        selected_line=selected_line,
        rows=tuple(rows),
        state=state,
        body_height=max(1, body_height),
    )


def _rows(snapshot: Snapshot, state: ViewState, look: TerminalLook) -> tuple[list[TopRow], Line]:
    try:
        return build_rows(snapshot, state, look.thresholds), ()
    except FilterError as error:  # while it is being typed a filter is often not one yet
        everything = build_rows(snapshot, replace(state, filter_text=""), look.thresholds)
        return everything, (Span(str(error), Tone.NOTE),)


def _surroundings(
    snapshot: Snapshot,
    state: ViewState,
    look: TerminalLook,
    age_seconds: float,
    status: Line,
    height: int,
    *,
    is_whole_page: bool,
) -> tuple[list[Line], list[Line]]:
    """Return the lines above and below the table, as many as leave it room; a whole page has title and keys only."""
    title = title_line(snapshot, state, look, age_seconds=age_seconds)
    keys = status or key_line(state, look)
    if is_whole_page:
        return [title], [keys] if height > 2 else []
    notes = note_lines(snapshot)
    notes_kept = len(young_notes(snapshot)) + 1  # what is waited for takes the place of no other note
    if len(notes) > notes_kept:
        more = Span(f"  (+{len(notes) - notes_kept}, h shows all)", Tone.DIM)
        notes = [*notes[: notes_kept - 1], (*notes[notes_kept - 1], more)]
    absence = absence_line(snapshot)
    roomy: list[tuple[int, Line]] = [(9, ())] if height >= _ROOMY_LINES else []
    top: list[tuple[int, Line]] = [
        (0, title),
        (2, cpu_line(snapshot, look)),
        (3, memory_line(snapshot, look)),
        (4, sampler_line(snapshot, look)),
        *([(6, absence)] if absence else []),
        *roomy,
    ]
    bottom: list[tuple[int, Line]] = [
        *roomy,
        (8, threshold_line(look)),
        *[(7, note) for note in notes],
        (1, keys),
    ]
    while len(top) + len(bottom) > 1 and len(top) + len(bottom) + _BODY_LINES > height:
        last = max(worth for worth, _ in (*top, *bottom))
        top = [entry for entry in top if entry[0] != last]
        bottom = [entry for entry in bottom if entry[0] != last]
        if last <= 1:
            break
    return [line for _, line in top], [line for _, line in bottom]


def _scrolling_body(
    snapshot: Snapshot, state: ViewState, look: TerminalLook, room: int, trail: CpuTrail, show_help: bool
) -> tuple[list[Line], ViewState]:
    unit = find_unit(snapshot, state.unit_path)
    if show_help:
        lines = help_lines(snapshot, look)
    elif unit is None:
        lines = [(Span("this cgroup is not in the picture at this moment; esc goes back", Tone.NOTE),)]
    else:
        lines = detail_lines(
            unit,
            width=look.width,
            glyphs=look.glyphs,
            marks=not look.has_colour,
            trail_millicores=trail.millicores,
            trail_seconds=trail.span_seconds,
            thresholds=look.thresholds,
        )
    first = max(0, min(state.first_visible, len(lines) - room))
    return lines[first : first + room], replace(state, first_visible=first)


def key_line(state: ViewState, look: TerminalLook) -> Line:
    """Return the keys that matter here, and the filter in force."""
    arrows = "left/right" if look.glyphs.rule == "-" else "←→"
    keys = [("q", "quit"), ("h", "help"), ("p", "go on" if state.is_paused else "pause"), (arrows, "time")]
    if state.zoom is Zoom.UNIT:
        keys.append(("esc", "back"))
    else:
        keys += [("s", f"sort:{state.sort.value}"), ("/", "filter"), ("enter", "zoom")]
        keys.append(("e", "pods" if state.is_expanded else "expand") if state.zoom is Zoom.NODE else ("esc", "back"))
    # in front: a filter that is forgotten makes the table lie
    spans: list[Span] = [Span(f"filter {harmless(state.filter_text)}  ", Tone.NOTE)] if state.filter_text else []
    for key, word in keys:
        spans += (Span(key, Tone.ACCENT), Span(f" {word}  ", Tone.DIM))
    return tuple(spans)


_HELP_INDENT = 19


def help_lines(snapshot: Snapshot, look: TerminalLook) -> list[Line]:
    """Return keys, columns, signs, and all notes, wrapped to the terminal's width."""
    glyphs, room = look.glyphs, max(20, look.width - _HELP_INDENT)
    arrows = ("left right", "up down") if glyphs.rule == "-" else ("← →", "↑ ↓")
    entries: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
        (
            "KEYS",
            (
                ("q", "quit"),
                ("p, space", "pause; again: go on, live"),
                (arrows[0], "10 s back or forward in time; [ ] or with shift 1 min, { } 10 min"),
                (f"{arrows[1]} PgUp PgDn", "select, scroll"),
                ("enter", "zoom: node, pod, container"),
                ("esc, backspace", "zoom out; at the node: take the filter away"),
                ("e", "containers beneath their pods, or pods alone"),
                ("c m w t n", "sort by CPU, memory, waiting, throttled, name; again: the other way round"),
                ("s S", "next sort key; reverse"),
                ("/", "filter: part of a name, or ns= pod= container= kind= qos= runtime= path=, * allowed"),
            ),
        ),
        (
            "COLUMNS",
            (
                (
                    "NOW P75 PEAK",
                    "CPU: newest tick; 75th percentile and largest of the window; 1000m = 1 core, 12.5 = cores",
                ),
                ("WAIT", "some task waited for a CPU that others had (PSI some, own throttling taken out)"),
                ("THROT", "held back by its own cpu.max: the limit is too low"),
                ("WAITavg", "and THROTavg: the same over the whole window"),
                ("WSET PEAK", "memory less inactive file cache: newest; largest of the window"),
                ("REQ LIMIT", "as the pod states them; the kernel's memory.max goes before"),
                ("SHOULD", "what it should request, each minute anew; or why that may not be said:"),
                ("", "young, gaps, stale: needs more readings; no data, no signal: there are none; left out: as set"),
                ("AGE", "of the newest good sample"),
            ),
        ),
        (
            "SIGNS",
            (
                ("-", "not there: never 0"),
                ("~", "estimate: a pod's P75 is the sum of its containers' P75, and those do not add up"),
                (glyphs.at_most, "at most: a pod's containers need not have peaked together"),
                (glyphs.at_least, "at least: a container's figure is missing from the sum"),
                ("name (3)", "a pod of three containers; waiting and throttled are the worst of them"),
            ),
        ),
    )
    lines: list[Line] = []
    for title, words in entries:
        lines.append((Span(title, Tone.TITLE),))
        for word, text in words:
            first, *others = wrap(text, room)
            label = f"  {word}" + " " * max(1, _HELP_INDENT - 2 - display_width(word))
            lines.append((Span(label, Tone.ACCENT), Span(first)))
            lines += [(Span(" " * _HELP_INDENT), Span(text)) for text in others]
        lines.append(())
    lines.append((Span("NOTES", Tone.TITLE),))
    notes = [harmless(note) for note in (*young_notes(snapshot), *snapshot.notes)] or ["none: nothing is degraded"]
    lines += [(Span(f"  {text}"),) for note in notes for text in wrap(note, max(20, look.width - 2)) or [""]]
    return lines
