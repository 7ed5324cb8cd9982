"""Draws panels of a Grafana dashboard as its JSON says, from what a Prometheus answers; with matplotlib."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot
from matplotlib.ticker import MaxNLocator, MultipleLocator
from PIL import Image

from tests.monitoring.prometheus import Prometheus
from tests.monitoring.rule_files import dashboard, substituted

NODE: Final = "node-1"
ROWS: Final = ("At a glance", "The node", "Containers (needs metrics.perContainer)", "Acting")
"""Of the node's dashboard: what fits on a page of a README."""
SCRAPE_SECONDS: Final = 5
RATE: Final = f"{4 * SCRAPE_SECONDS + 10}s"
"""As Grafana chooses it: four scrapes, and a little."""
VALUES: Final[Mapping[str, str]] = {"__rate_interval": RATE, "__interval": RATE, "cluster": ".*", "node": NODE}
COLUMN_INCHES, LINE_INCHES = 0.6, 0.3
COLOURS: Final = 128
Series = dict[str, Any]


def draw(asked: Prometheus, file: Path, out: Path) -> None:
    """Draw the chosen rows of a dashboard.

    Args:
        asked: Who answers the queries.
        file: The dashboard's JSON.
        out: The picture to write.
    """
    document = dashboard(file)
    panels = _of_rows(document["panels"])
    top = panels[0]["gridPos"]["y"]
    lines = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) - top
    figure = pyplot.figure(figsize=(24 * COLUMN_INCHES, lines * LINE_INCHES), facecolor="#f4f5f5")
    for panel in panels:
        place = panel["gridPos"]
        x, y, wide, high = (
            place["x"] / 24,
            1 - (place["y"] - top + place["h"]) / lines,
            place["w"] / 24,
            place["h"] / lines,
        )
        if panel["type"] == "row":
            figure.text(x + 0.004, y + high * 0.35, panel["title"], fontsize=10, fontweight="bold", color="#333333")
            continue
        pad_x, pad_y = 0.004, 0.12 / (lines * LINE_INCHES)
        card = figure.add_axes((x + pad_x / 2, y + pad_y / 2, wide - pad_x, high - pad_y))
        card.set_xticks([])
        card.set_yticks([])
        for spine in card.spines.values():
            spine.set_color("#d8d9da")
        title = 0.22 / (lines * LINE_INCHES)
        card.text(
            0.015,
            1 - 0.14 / (high * lines * LINE_INCHES),
            panel["title"],
            fontsize=8,
            va="center",
            color="#222222",
            transform=card.transAxes,
        )
        if panel["type"] == "stat":
            card.text(
                0.5,
                0.4,
                _stat_text(asked, panel),
                fontsize=17,
                ha="center",
                va="center",
                color="#1a7f37",
                transform=card.transAxes,
            )
            continue
        left, low = 0.034, 0.42 / (lines * LINE_INCHES)
        axes = figure.add_axes((x + left, y + low, wide - left - 0.008, high - low - title - pad_y))
        _draw_graph(asked, panel, axes)
    figure.savefig(out, dpi=100, facecolor=figure.get_facecolor())
    pyplot.close(figure)
    # Lines on white need few colours; with all of them the file is three times as large.
    few = Image.open(out).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(out, optimize=True)


def _of_rows(panels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    selection: list[dict[str, Any]] = []
    is_chosen = False
    for panel in panels:
        if panel["type"] == "row":
            is_chosen = panel["title"] in ROWS
        if is_chosen:
            selection.append(panel)
    return selection


def _answers(asked: Prometheus, panel: Mapping[str, Any]) -> list[tuple[str, Series]]:
    """Return every series of a panel with its legend."""
    curves = []
    for target in panel["targets"]:
        for series in asked.series(substituted(target["expr"], VALUES), step_seconds=float(SCRAPE_SECONDS)):
            labels = series["metric"]
            words = re.split(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"])
            # Every second one is a label's name.
            legend = "".join(labels.get(word, "") if place % 2 else word for place, word in enumerate(words))
            curves.append((_short(legend), series))
    return curves


def _short(legend: str) -> str:
    """Leave the hashes of pods' names out: they say nothing in a picture."""
    return re.sub(r"-[a-z0-9]{8,10}-[a-z0-9]{5}(?=/)", "", legend)


def _stat_text(asked: Prometheus, panel: Mapping[str, Any]) -> str:
    fresh = time.time() - 3 * SCRAPE_SECONDS
    answers = [(legend, series) for legend, series in _answers(asked, panel) if series["values"][-1][0] >= fresh]
    if not answers:
        return str(panel["fieldConfig"]["defaults"].get("noValue", "-"))
    if panel["options"]["textMode"] == "name":
        return "\n".join(legend for legend, _ in answers)
    return _text(float(answers[0][1]["values"][-1][1]), panel["fieldConfig"]["defaults"]["unit"])


def _text(value: float, unit: str) -> str:
    if unit == "bytes":
        for name, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if abs(value) >= size:
                return f"{value / size:.4g} {name}"
        return f"{value:.0f} B"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if 0 < abs(value) < 1 else f"{value:.3g} s"
    if unit == "ops":
        return f"{value:.3g}/s"
    return f"{value:.4g}"


def _draw_graph(asked: Prometheus, panel: Mapping[str, Any], axes: Any) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    answers = _answers(asked, panel)
    axes.tick_params(labelsize=6.5, colors="#555555", length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#bbbbbb")
    axes.grid(axis="y", color="#eeeeee", linewidth=0.6)
    if not answers:
        axes.text(0.5, 0.5, "No data", ha="center", va="center", fontsize=9, color="#999999", transform=axes.transAxes)
        axes.set_xticks([])
        axes.set_yticks([])
        return
    is_stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    moments = sorted({moment for _, series in answers for moment, _ in series["values"]})
    floor = [0.0] * len(moments)
    for legend, series in answers:
        by_moment = {moment: float(value) for moment, value in series["values"]}
        heights = [by_moment.get(moment, math.nan) for moment in moments]
        minutes = [moment / 60 for moment in moments]
        if is_stacked:
            tops = [low + (0.0 if math.isnan(high) else high) for low, high in zip(floor, heights, strict=True)]
            axes.fill_between(minutes, floor, tops, alpha=0.35, linewidth=0)
            heights, floor = tops, tops
        axes.plot(minutes, heights, linewidth=1, label=legend)
    if defaults.get("min") is not None:
        axes.set_ylim(bottom=defaults["min"])
    if defaults.get("max") is not None:
        axes.set_ylim(top=defaults["max"])
    if all(float(value) == 0 for _, series in answers for _, value in series["values"]):
        axes.set_ylim(0, 1)
    low, high = axes.get_ylim()
    if defaults["unit"] == "bytes" and high > low:
        axes.yaxis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2((high - low) / 4))))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(lambda minute, _: time.strftime("%H:%M", time.localtime(60 * minute)))
    axes.yaxis.set_major_formatter(lambda value, _: _text(value, defaults["unit"]))
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.09),
        ncol=8 if panel["gridPos"]["w"] >= 12 else 5,
        fontsize=6,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.0,
    )
