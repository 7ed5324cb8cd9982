"""Where sizing was poor, as lines for a terminal. Face, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from agent.cli.text.figures import ABSENT, byte_hours_text, counted, cpu_seconds_text, percent_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, harmless
from agent.cli.text.table import Cell, Column, render_table
from agent.core.history.minute.quality import PRICE, Against, QualityWindow
from agent.webhook.queries.workload_bodies import (
    PeakQualityBody,
    RequestQualityBody,
    ResourceQualityBody,
    SizingQualityBody,
    WorkloadLineBody,
)

_COLUMNS: Final = (
    Column(key="namespace", title="NAMESPACE", is_text=True, min_width=9),
    Column(key="kind", title="KIND", is_text=True, min_width=4, priority=30),
    Column(key="name", title="NAME", is_text=True, min_width=8, good_width=30),
    Column(key="cost", title="COST", min_width=5, is_accented=True),
    Column(key="cpu_risk", title="ABOVE", group="CPU", min_width=5),
    Column(key="cpu_deficit", title="MISSING", group="CPU", min_width=7, priority=20),
    Column(key="cpu_slack", title="EXCESS", group="CPU", min_width=6, priority=10),
    Column(key="cpu_peak", title="PEAK", group="CPU", min_width=9, priority=40),
    Column(key="memory_risk", title="ABOVE", group="MEMORY", min_width=5),
    Column(key="memory_deficit", title="MISSING", group="MEMORY", min_width=7, priority=20),
    Column(key="memory_slack", title="EXCESS", group="MEMORY", min_width=6, priority=10),
    Column(key="memory_peak", title="PEAK", group="MEMORY", min_width=9, priority=40),
    Column(key="nodes", title="NODES", min_width=5, priority=30),
)
_HIGH_RISK: Final = 0.2
"""From which on a share of minutes above the request is marked: what the chart's alert goes by, too."""


def worst_first(workloads: Sequence[WorkloadLineBody], against: Against) -> list[WorkloadLineBody]:
    """Return the workloads of which something was judged, the poorest sized first."""
    costs = [(cost, workload) for workload in workloads if (cost := _cost(workload.quality, against)) is not None]
    costs.sort(key=lambda known: (-known[0], known[1].namespace, known[1].kind, known[1].name))
    return [workload for _, workload in costs]


def _cost(quality: SizingQualityBody | None, against: Against) -> float | None:
    """Return slack + `PRICE` x deficit of the resource of which that is larger; None = nothing was judged."""
    if quality is None:
        return None
    sides = (_request(quality.cpu, against), _request(quality.memory, against))
    known = [
        side.slack_ratio + PRICE * side.deficit_ratio
        for side in sides
        if side.slack_ratio is not None and side.deficit_ratio is not None
    ]
    return max(known, default=None)


def _request(quality: ResourceQualityBody, against: Against) -> RequestQualityBody:
    return quality.recommended if against is Against.RECOMMENDED else quality.applied


def worst_lines(
    worst: Sequence[WorkloadLineBody],
    against: Against,
    window: QualityWindow,
    *,
    judged: int,
    total: int,
    width: int,
    glyphs: Glyphs,
    has_colour: bool,
) -> Iterator[Line]:
    """Return the table of the poorest sized workloads."""
    if not worst:
        yield (Span(f"nobody told yet how good the sizing of {counted(total, 'workload')} was", Tone.NOTE),)
        return
    rows = [
        (
            Cell(harmless(workload.namespace)),
            Cell(harmless(workload.kind), Tone.DIM),
            Cell(harmless(workload.name)),
            Cell(cost_text(quality, against)),
            *_cells(quality.cpu, against),
            *_cells(quality.memory, against),
            Cell(f"{quality.nodes}"),
        )
        for workload in worst
        if (quality := workload.quality) is not None
    ]
    table = render_table(_COLUMNS, rows, width=width, glyphs=glyphs, marks=not has_colour)
    yield table.groups
    yield table.titles
    yield from table.rows
    shown = f"{len(worst)} of {judged} judged" if len(worst) < judged else f"{judged} judged"
    yield (
        Span(
            f"workloads: {shown}, of {total}; over {window}, against the {against} request as it stood each minute; "
            "ABOVE is a share of minutes,",
            Tone.DIM,
        ),
    )
    yield (
        Span(
            f"MISSING and EXCESS are shares of what was used, PEAK is how far predicted peaks were too large and too "
            f"small; COST = EXCESS + {PRICE:g} x MISSING, the larger of both",
            Tone.DIM,
        ),
    )


def _cells(quality: ResourceQualityBody, against: Against) -> tuple[Cell, ...]:
    request = _request(quality, against)
    is_high = request.risk_ratio is not None and request.risk_ratio > _HIGH_RISK
    return (
        Cell(percent_text(request.risk_ratio), Tone.HOT if is_high else Tone.PLAIN),
        Cell(percent_text(request.deficit_ratio)),
        Cell(percent_text(request.slack_ratio)),
        Cell(_peak_text(quality.peak)),
    )


def cost_text(quality: SizingQualityBody, against: Against) -> str:
    """Write what poor sizing of a workload costs, the figure that the list goes by."""
    cost = _cost(quality, against)
    return ABSENT if cost is None else f"{cost:.2f}"


def _peak_text(peak: PeakQualityBody) -> str:
    if peak.over_ratio is None or peak.under_ratio is None:
        return ABSENT
    return f"+{percent_text(peak.over_ratio)} -{percent_text(peak.under_ratio)}"


def quality_texts(windows: Sequence[SizingQualityBody]) -> Iterator[tuple[str, str]]:
    """Return a label and a sentence for each window of a container and each request that was judged."""
    for quality in windows:
        for name, resource, amount_text in (
            ("CPU", quality.cpu, cpu_seconds_text),
            ("memory", quality.memory, byte_hours_text),
        ):
            for against, request in ((Against.RECOMMENDED, resource.recommended), (Against.APPLIED, resource.applied)):
                if request.risk_ratio is not None:
                    yield (
                        f"over {quality.window}",
                        f"{name} {against}: {percent_text(request.risk_ratio)} of minutes above, "
                        f"missing {amount_text(request.missing_amount)}, excess {amount_text(request.excess_amount)}",
                    )
            if resource.peak.over_ratio is not None:
                yield f"over {quality.window}", f"{name} peaks predicted: {_peak_text(resource.peak)} of those seen"
