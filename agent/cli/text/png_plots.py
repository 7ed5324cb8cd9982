"""What ``why`` tells of usage over time as a PNG, through matplotlib, which is only wanted here and only then.

Face. The file appears whole or not at all.
"""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from agent.cli.text.chart import ChartLevel, Course, Plot, columned, plots_of, span_text, times_of, values_of
from agent.cli.text.output_files import OutputError, check_output, put_output
from agent.cli.text.spans import Tone, harmless
from agent.core.recommender.unit_names import called

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from agent.core.recommender.explanation import Explanation
    from agent.core.resize.why import Whys

NO_MATPLOTLIB: Final = "pictures need matplotlib; install it: pip install 'plimsoll[pictures]'"
_WIDE_INCHES: Final = 11.0
_TALL_INCHES: Final = 3.0
_LOW_INCHES: Final = 1.3
_DOTS_PER_INCH: Final = 110
_COLUMNS: Final = 360
"""Three dots each."""
_MOST_INCHES: Final = 200.0
"""Height at most; matplotlib refuses 2^16 dots."""
_COLOURS: Final = {Tone.HOT: "#c0392b", Tone.NOTE: "#b9770e", Tone.GAIN: "#1e8449"}
_STYLES: Final = {Tone.HOT: ":", Tone.NOTE: "--", Tone.GAIN: "-"}
_AREA: Final = "#4a7fb5"
_TOPS: Final = "#b9cfe4"


class PictureError(Exception):
    """There can be no picture; one line that names the file, why, and what to do."""


class NothingToDraw(PictureError):  # noqa: N818 - a state of the world, named as one
    """Nothing was measured in the time asked for."""


def check_picture(path: Path) -> None:
    """Raise PictureError where no picture could be made; before anything is asked."""
    if importlib.util.find_spec("matplotlib") is None:
        raise PictureError(f"{path}: {NO_MATPLOTLIB}")
    if path.suffix.lower() != ".png":
        raise PictureError(f"{path}: a picture is a PNG; allowed: a name that ends in .png")
    try:
        check_output(path)
    except OutputError as error:
        raise PictureError(str(error)) from error


def empty_figure(high_inches: float) -> Figure:
    """Return a figure to draw into; a tall one is pressed into what matplotlib can draw."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (_WIDE_INCHES, min(high_inches, _MOST_INCHES))
    figure = Figure(figsize=size, dpi=_DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)  # what it is drawn with; the figure keeps it
    return figure


def put_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all. Raise PictureError where it cannot be written."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    try:
        put_output(path, drawn.getvalue())
    except OutputError as error:
        raise PictureError(str(error)) from error


def draw_picture(whys: Whys, path: Path) -> None:
    """Draw all containers, one below the other; NothingToDraw where nothing was measured."""
    charts = [(item, plot, index == 0) for item in whys.items for index, plot in enumerate(plots_of(item))]
    if not charts:
        raise NothingToDraw(f"{path}: no minute measured in this time, nothing to draw; allowed: a longer --since")
    heights = [_LOW_INCHES if plot.is_low else _TALL_INCHES for _, plot, _ in charts]
    figure = empty_figure(sum(heights))
    places = figure.add_gridspec(len(charts), 1, height_ratios=heights)
    for index, (item, plot, is_first) in enumerate(charts):
        axes = figure.add_subplot(places[index])
        _draw(axes, plot)
        if is_first:
            axes.set_title(_head(item, plot), loc="left", pad=24, fontsize=10, fontweight="bold")
    put_figure(figure, path)


def _head(item: Explanation, plot: Plot) -> str:
    answer = item.recommendation
    return f"{harmless(called(answer.identity))}   policy {answer.policy}   {span_text(plot)}"


def _draw(axes: Axes, plot: Plot) -> None:
    """Draw one plot: minutes along, in steps; what is not known is a hole."""
    # A peak of a minute would be thinner than a dot: minutes share columns as they do in a terminal.
    columns = min(plot.minutes, _COLUMNS)
    edges = np.linspace(0.0, plot.minutes, columns + 1)
    if plot.tops is not None:
        tops = _holed(columned(plot.tops, columns, takes_largest=True))
        axes.stairs(tops, edges, fill=True, color=_TOPS, label=plot.tops_name)
    area = _holed(columned(plot.area, columns, takes_largest=plot.takes_largest))
    axes.stairs(area, edges, fill=True, color=_AREA, label=plot.area_name)
    for level in plot.levels:
        if level.is_shown:
            style, colour = _STYLES[level.tone], _COLOURS[level.tone]
            axes.axhline(level.value, color=colour, linestyle=style, linewidth=1.6, label=_level_text(level, plot))
        else:  # named all the same
            axes.plot([], [], color=_COLOURS[level.tone], linestyle=_STYLES[level.tone], label=_level_text(level, plot))
    times, values = times_of(plot), values_of(plot)
    axes.set_xlim(0, plot.minutes)
    axes.set_ylim(0, values.end)
    axes.set_xticks([at for at, _ in times.marks], [text for _, text in times.marks])
    axes.set_yticks([at for at, _ in values.marks], [text for _, text in values.marks])
    axes.set_ylabel(plot.title.lower() if plot.is_low else plot.title, fontsize=8 if plot.is_low else 10)
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.annotate("UTC", (1.0, 0.0), xycoords="axes fraction", xytext=(4, -10), textcoords="offset points", fontsize=7)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=5, fontsize=8, frameon=False)


def _level_text(level: ChartLevel, plot: Plot) -> str:
    far = "" if level.is_shown else " (above the picture)"
    return f"{level.name} {plot.text(level.value)}{far}"


def _holed(course: Course) -> NDArray[np.float64]:
    """Return an array for matplotlib, to which NaN is what is not drawn."""
    return np.array([np.nan if value is None else value for value in course])
