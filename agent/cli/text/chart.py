"""Courses of time as characters: areas with lines over them, axes in units and UTC; a gap stays empty.

Face. Pure. ``plots_of`` says what is drawn of a container; ``pictures`` draws the same as a picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from agent.cli.text.figures import age_text, percent_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip, clip_line, display_width, pad
from agent.cli.text.svg_chart import Axis, time_axis, value_axis
from agent.core.numbers.amount_text import BYTES, MILLICORES, amount_text
from agent.core.numbers.units import MIB

if TYPE_CHECKING:
    from agent.core.recommender.explanation import Explanation


def sparkline(values: Sequence[float | None], levels: str) -> str:
    """Return one sign per value (>= 0, oldest first) from 0 to the largest; a value that is not there is a space."""
    largest = max((value for value in values if value is not None), default=0.0)
    if largest <= 0:
        return "".join(" " if value is None else levels[0] for value in values)
    top = len(levels) - 1
    return "".join(" " if value is None else levels[min(top, int(value / largest * top + 0.5))] for value in values)


Course = tuple[float | None, ...]
"""A value per minute; None = not measured."""

_LABEL_WIDTH: Final = 8
_TALL: Final = 10
_LOW: Final = 3
_MOST_OF_LIMIT: Final = 1.5
"""A limit up to this x everything else is drawn; one further up would press the rest to the floor."""
_DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLevel:
    """A line straight through: a request or limit."""

    name: str
    value: float
    tone: Tone
    is_shown: bool = True
    """False = it lies far above, and is only named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One picture of some minutes; all courses are as long."""

    title: str
    start_unix_minute: int
    text: Callable[[float], str]
    """Writes a value with its unit."""
    area: Course
    area_name: str
    takes_largest: bool
    """A column of several minutes shows the largest of ``area``; False = the mean."""
    tops: Course | None = None
    """Largest values above the area; None = there are none."""
    tops_name: str = ""
    levels: tuple[ChartLevel, ...] = ()
    is_low: bool = False
    """A strip beside a taller picture."""
    is_binary: bool = False
    least_top: float
    """Up to where the axis of values goes at least: what is always 0 has no scale of its own."""

    @property
    def minutes(self) -> int:
        """How many it covers."""
        return len(self.area)

    @property
    def known_minutes(self) -> int:
        """In how many of them something was measured."""
        return sum(value is not None for value in self.area)

    @property
    def largest(self) -> float:
        """Return the largest value that is drawn; 0 = there is none."""
        values = [*self.area, *(self.tops or ()), *(level.value for level in self.levels if level.is_shown)]
        return max((value for value in values if value is not None), default=0.0)


def plots_of(item: Explanation) -> tuple[Plot, ...]:
    """Return what there is to draw: CPU, waiting, memory; each only where something of it was measured.

    Minutes before the first that is known are left out, so that a young container is not a line at the edge.
    """
    trail = item.trail
    if trail is None:
        return ()
    courses = (trail.cpu_usage_millicores, trail.cpu_peak_millicores, trail.waiting_ratio, trail.working_set_bytes)
    firsts = [index for course in courses for index, value in enumerate(course) if value is not None]
    if not firsts:
        return ()
    first = min(firsts)
    usage, peak, waiting, memory = (course[first:] for course in courses)
    start = trail.start_unix_seconds // 60 + first
    answer, stated = item.recommendation, item.recommendation.resources
    plots = (
        _with_levels(
            Plot(
                title="CPU",
                least_top=1.0,
                start_unix_minute=start,
                text=lambda value: amount_text(value, MILLICORES),
                area=usage,
                area_name="usage, mean",
                takes_largest=False,
                tops=peak,
                tops_name="largest rate, PSI-adjusted",
            ),
            stated.cpu_request_millicores,
            answer.cpu_millicores.request,
            stated.cpu_limit_millicores,
        ),
        Plot(
            title="WAITING FOR CPU",
            least_top=0.01,
            start_unix_minute=start,
            text=percent_text,
            area=waiting,
            area_name="share of time, throttling taken out",
            takes_largest=True,
            is_low=True,
        ),
        _with_levels(
            Plot(
                title="MEMORY",
                least_top=MIB,
                start_unix_minute=start,
                text=lambda value: amount_text(value, BYTES),
                area=memory,
                area_name="working set, largest",
                takes_largest=True,
                is_binary=True,
            ),
            stated.memory_request_bytes,
            answer.memory_bytes.request,
            stated.memory_limit_bytes,
        ),
    )
    return tuple(plot for plot in plots if plot.known_minutes)


def _with_levels(plot: Plot, request: int | None, recommended: int | None, limit: int | None) -> Plot:
    named = (("request", request, Tone.NOTE), ("recommended", recommended, Tone.GAIN))
    levels = tuple(ChartLevel(name=name, value=value, tone=tone) for name, value, tone in named if value is not None)
    plot = replace(plot, levels=levels)
    if limit is None:
        return plot
    is_near = limit <= plot.largest * _MOST_OF_LIMIT
    return replace(plot, levels=(*levels, ChartLevel(name="limit", value=limit, tone=Tone.HOT, is_shown=is_near)))


# Axes


def span_text(plot: Plot) -> str:
    """Return which time is shown."""
    begin, end = (
        datetime.fromtimestamp(minute * 60, UTC)
        for minute in (plot.start_unix_minute, plot.start_unix_minute + plot.minutes)
    )
    until = f"{end:%H:%M}" if begin.date() == end.date() else f"{end:%a %Y-%m-%d %H:%M}"
    return f"{begin:%a %Y-%m-%d %H:%M} to {until} UTC"


def times_of(plot: Plot) -> Axis:
    """Return the axis of time, in minutes from the start."""
    form = "%H:%M" if plot.minutes <= 2 * _DAY_MINUTES else "%a %d"
    return time_axis(
        plot.start_unix_minute, plot.minutes, lambda minute: f"{datetime.fromtimestamp(minute * 60, UTC):{form}}"
    )


def values_of(plot: Plot) -> Axis:
    """Return the axis of values."""
    return value_axis(max(plot.largest, plot.least_top), plot.text, binary=plot.is_binary)


# Drawing


def chart_lines(plot: Plot, *, width: int, glyphs: Glyphs) -> list[Line]:
    """Return the lines of one plot, as wide as the terminal."""
    columns = max(width - _LABEL_WIDTH - 2, 1)
    height = _LOW if plot.is_low else _TALL
    values = values_of(plot)
    marks = {_row_of(at, values, height): text for at, text in reversed(values.marks)}
    cells = _cells(plot, columns, height, values, glyphs)
    lines = [_title(plot, columns)]
    for row in range(height):
        label = pad(clip(marks.get(row, ""), _LABEL_WIDTH, ellipsis=glyphs.ellipsis), _LABEL_WIDTH, to_right=True)
        lines.append((Span(f"{label} {glyphs.axis}", Tone.DIM), *_joined(cells[row])))
    lines += _foot(plot, columns, glyphs)
    lines += _legend(plot, width, glyphs)
    return [clip_line(line, width, ellipsis=glyphs.ellipsis) for line in lines]


def _title(plot: Plot, columns: int) -> Line:
    seconds = plot.minutes * 60 / columns
    column = f", a column is {age_text(seconds)}" if seconds > 60 else ""
    return (Span(plot.title, Tone.TITLE), Span(f"  {span_text(plot)}{column}", Tone.DIM))


def _cells(plot: Plot, columns: int, height: int, values: Axis, glyphs: Glyphs) -> list[list[tuple[str, Tone]]]:
    """Return sign and tone of each cell, rows from the top."""
    area = columned(plot.area, columns, takes_largest=plot.takes_largest)
    tops = area if plot.tops is None else columned(plot.tops, columns, takes_largest=True)
    cells = [[(" ", Tone.PLAIN)] * columns for _ in range(height)]
    for column, (value, top) in enumerate(zip(area, tops, strict=True)):
        for row in range(height):
            foot = height - 1 - row
            cells[row][column] = _cell(value, top, foot, height / values.end, glyphs)
    # The line that matters most is drawn last, over the others.
    signs = {Tone.HOT: glyphs.dotted_rule, Tone.NOTE: glyphs.rule, Tone.GAIN: glyphs.heavy_rule}
    for level in sorted(plot.levels, key=lambda level: list(signs).index(level.tone)):
        if level.is_shown:
            cells[_row_of(level.value, values, height)] = [(signs[level.tone], level.tone)] * columns
    return cells


def _cell(value: float | None, top: float | None, foot: int, scale: float, glyphs: Glyphs) -> tuple[str, Tone]:
    """Draw one cell: ``foot`` is how many lie below it, ``scale`` how many cells a value of 1 is high."""
    if value is not None:
        parts = min(int((value * scale - foot) * len(glyphs.fill) + 0.5), len(glyphs.fill))
        if parts > 0 or foot == 0:  # measured, however little: not empty
            return glyphs.fill[max(parts, 1) - 1], Tone.ACCENT
    if top is not None and top * scale - foot > 0:
        return glyphs.empty, Tone.DIM
    return " ", Tone.PLAIN


def columned(course: Course, columns: int, *, takes_largest: bool) -> Course:
    """Return a value per column: a minute takes several, or minutes that share one become their largest or mean."""
    picked: list[float | None] = []
    for column in range(columns):
        first = column * len(course) // columns
        after = max(first + 1, (column + 1) * len(course) // columns)
        known = [value for value in course[first:after] if value is not None]
        if not known:
            picked.append(None)
        else:
            picked.append(max(known) if takes_largest else sum(known) / len(known))
    return tuple(picked)


def _row_of(value: float, values: Axis, height: int) -> int:
    return height - 1 - min(int(value / values.end * height), height - 1)


def _joined(cells: Sequence[tuple[str, Tone]]) -> Line:
    spans: list[Span] = []
    for sign, tone in cells:
        if spans and spans[-1].tone is tone:
            spans[-1] = Span(spans[-1].text + sign, tone)
        else:
            spans.append(Span(sign, tone))
    return tuple(spans)


def _foot(plot: Plot, columns: int, glyphs: Glyphs) -> list[Line]:
    times = times_of(plot)
    rule = [glyphs.rule] * columns
    labels = ""
    for at, text in times.marks:
        column = int(at / plot.minutes * columns)
        rule[column] = glyphs.tick
        begin = max(column - len(text) // 2, 0)
        if begin > len(labels) or not labels:
            labels = labels.ljust(begin) + text
    return [
        (Span(f"{'':{_LABEL_WIDTH}} {glyphs.corner}{''.join(rule)}", Tone.DIM),),
        (Span(f"{'UTC':>{_LABEL_WIDTH}}  {labels}", Tone.DIM),),
    ]


def _legend(plot: Plot, width: int, glyphs: Glyphs) -> list[Line]:
    """Return what is what, in as many lines as that takes."""
    entries = [(glyphs.fill[-1], plot.area_name, Tone.ACCENT)]
    if plot.tops is not None:
        entries.append((glyphs.empty, plot.tops_name, Tone.DIM))
    signs = {Tone.HOT: glyphs.dotted_rule, Tone.NOTE: glyphs.rule, Tone.GAIN: glyphs.heavy_rule}
    for level in plot.levels:
        far = "" if level.is_shown else ", above the picture"
        entries.append((signs[level.tone] * 2, f"{level.name} {plot.text(level.value)}{far}", level.tone))
    unknown_minutes = plot.minutes - plot.known_minutes
    if unknown_minutes:
        entries.append((" ", f"empty = not measured, {unknown_minutes} of {plot.minutes} minutes", Tone.DIM))
    lines: list[Line] = []
    left = " " * (_LABEL_WIDTH + 2)
    spans: list[Span] = [Span(left)]
    used = len(left)
    for sign, text, tone in entries:
        room = display_width(sign) + display_width(text) + 3
        if used + room > width and len(spans) > 1:
            lines.append(tuple(spans))
            spans, used = [Span(left)], len(left)
        spans += (Span(sign, tone), Span(f" {text}  ", Tone.DIM))
        used += room
    return [*lines, tuple(spans)]
