"""A workload's history by hour as a PNG, through matplotlib, which is only wanted here and only then. Face."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.text.figures import bytes_text, millicores_text
from agent.cli.text.png_plots import NothingToDraw, empty_figure, put_figure
from agent.cli.text.spans import harmless
from agent.webhook.queries.workload_bodies import ContainerBody, HourBody, WorkloadBody

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TALL_INCHES: Final = 2.6
_AREA: Final = "#4a7fb5"
_REQUEST: Final = "#1e8449"
_HOURS_PER_DAY: Final = 24


def draw_workload(workload: WorkloadBody, path: Path) -> None:
    """Draw CPU and memory of each container, one below the other; NothingToDraw where no hour is known."""
    containers = [known for known in workload.containers if known.hours]
    if not containers:
        raise NothingToDraw(f"{path}: no hour is known of this workload, nothing to draw")
    rows = 2 * len(containers)
    figure = empty_figure(rows * _TALL_INCHES)
    name = harmless(f"{workload.kind} {workload.namespace}/{workload.name}")
    for index, container in enumerate(containers):
        for offset, is_cpu in enumerate((True, False)):
            axes = figure.add_subplot(rows, 1, 2 * index + offset + 1)
            _draw(axes, container, is_cpu=is_cpu)
            if is_cpu:
                axes.set_title(f"{name} {harmless(container.container)}", loc="left", fontsize=10, fontweight="bold")
    put_figure(figure, path)


def _draw(axes: Axes, container: ContainerBody, *, is_cpu: bool) -> None:
    """Draw one signal: hours along, in steps; what is not known is a hole."""
    by_hour = {row.unix_hour: _value(row, is_cpu=is_cpu) for row in container.hours}
    first, last = min(by_hour), max(by_hour)
    values = [by_hour.get(hour) for hour in range(first, last + 1)]
    heights = [float("nan") if value is None else float(value) for value in values]
    edges = [float(hour - first) for hour in range(first, last + 2)]
    axes.stairs(heights, edges, fill=True, color=_AREA, label="largest of the hour")
    text = millicores_text if is_cpu else bytes_text
    advice = container.advice
    request = advice.cpu_request_millicores if is_cpu else advice.memory_request_bytes
    if request is not None:
        axes.axhline(request, color=_REQUEST, linewidth=1.6, label=f"request {text(request)}")
    axes.set_xlim(0, last + 1 - first)
    axes.set_ylim(bottom=0)
    midnights = [hour for hour in range(first, last + 1) if hour % _HOURS_PER_DAY == 0]
    axes.set_xticks([hour - first for hour in midnights], [_day(hour) for hour in midnights])
    axes.yaxis.set_major_formatter(lambda value, _: text(value))
    axes.set_ylabel("CPU" if is_cpu else "memory")
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=8, frameon=False)


def _value(hour: HourBody, *, is_cpu: bool) -> int | None:
    return hour.cpu_millicores if is_cpu else hour.memory_bytes


def _day(unix_hour: int) -> str:
    import datetime

    return f"{datetime.datetime.fromtimestamp(unix_hour * 3600, datetime.UTC):%d %b}"
