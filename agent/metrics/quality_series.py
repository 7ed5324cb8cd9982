"""The series of how good sizing was: of the node always, of each container of a workload where that is wished.

Metrics. Ratios and amounts of the windows as they are: gauges, not to be added up over windows. Text is joined from
cached label strings, as that of containers is. What was not judged has no series: never 0, never NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.minute.quality import (
    PEAK_OFFSET,
    REQUEST_FIELDS,
    RESOURCE_FIELDS,
    WINDOWS,
    Against,
)
from agent.core.numbers.arrays import Floats
from agent.metrics.container_series import escaped

QualityByWorkload = Mapping[tuple[Workload, str], Floats]
"""Figures of shape ``(3, QUALITY_FIELDS)`` by workload and container."""
_JUDGED, _ABOVE, _MISSING, _EXCESS = 0, 1, 3, 4
"""Places among the figures of a request."""
_HOURS, _SEEN, _OVER, _UNDER = range(PEAK_OFFSET, PEAK_OFFSET + 4)
_RESOURCES: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class _Sample:
    """One series of a family: a figure, over another one where that is given."""

    labels: str
    window: int
    figure: int
    over: int | None
    known_by: int
    """The figure that is above 0 where anything was judged."""


@dataclass(frozen=True, slots=True)
class _QualityFamily:
    of_node: str
    of_workload: str
    text: str
    unit: str
    """For OpenMetrics; empty = none that it knows."""
    samples: tuple[_Sample, ...]


def _request_samples(figure: int, over: int | None, resource: int | None = None) -> tuple[_Sample, ...]:
    samples = []
    for (kind, name), (side, against), (window, span) in product(
        enumerate(_RESOURCES), enumerate(Against), enumerate(WINDOWS)
    ):
        if resource is None or kind == resource:
            first = kind * RESOURCE_FIELDS + side * REQUEST_FIELDS
            labels = f'against="{against}",window="{span}"'
            samples.append(
                _Sample(
                    labels=labels if resource is not None else f'resource="{name}",{labels}',
                    window=window,
                    figure=first + figure,
                    over=None if over is None else first + over,
                    known_by=first + _JUDGED,
                )
            )
    return tuple(samples)


def _peak_samples() -> tuple[_Sample, ...]:
    return tuple(
        _Sample(
            labels=f'resource="{name}",direction="{direction}",window="{span}"',
            window=window,
            figure=kind * RESOURCE_FIELDS + figure,
            over=kind * RESOURCE_FIELDS + _SEEN,
            known_by=kind * RESOURCE_FIELDS + _HOURS,
        )
        for (kind, name), (direction, figure), (window, span) in product(
            enumerate(_RESOURCES), (("over", _OVER), ("under", _UNDER)), enumerate(WINDOWS)
        )
    )


_STOOD: Final = "that stood when the minute began, over the window"
QUALITY_FAMILIES: Final = (
    _QualityFamily(
        "plimsoll_sizing_risk_ratio",
        "plimsoll_workload_risk_ratio",
        f"Share of minutes with more usage than the request {_STOOD}.",
        "ratio",
        _request_samples(_ABOVE, _JUDGED),
    ),
    _QualityFamily(
        "plimsoll_sizing_cpu_missing_seconds",
        "plimsoll_workload_cpu_missing_seconds",
        f"CPU-seconds used above the request {_STOOD}.",
        "seconds",
        _request_samples(_MISSING, None, 0),
    ),
    _QualityFamily(
        "plimsoll_sizing_cpu_excess_seconds",
        "plimsoll_workload_cpu_excess_seconds",
        f"CPU-seconds requested above the usage, by the request {_STOOD}.",
        "seconds",
        _request_samples(_EXCESS, None, 0),
    ),
    _QualityFamily(
        "plimsoll_sizing_memory_missing_byte_hours",
        "plimsoll_workload_memory_missing_byte_hours",
        f"Byte-hours of working set above the request {_STOOD}.",
        "",
        _request_samples(_MISSING, None, 1),
    ),
    _QualityFamily(
        "plimsoll_sizing_memory_excess_byte_hours",
        "plimsoll_workload_memory_excess_byte_hours",
        f"Byte-hours requested above the working set, by the request {_STOOD}.",
        "",
        _request_samples(_EXCESS, None, 1),
    ),
    _QualityFamily(
        "plimsoll_sizing_peak_error_ratio",
        "plimsoll_workload_peak_error_ratio",
        "Predicted peaks too large (over) or too small (under), summed over the window's UTC hours, to the peaks seen.",
        "ratio",
        _peak_samples(),
    ),
)
SERIES_PER_WORKLOAD: Final = sum(len(family.samples) for family in QUALITY_FAMILIES)


class QualityPage:
    """Writes the part of pages that tells of quality; one thread at a time."""

    def __init__(
        self,
        of_node: Callable[[], Floats | None],  # Shape (3, QUALITY_FIELDS); None = nothing was judged
        by_workload: Callable[[], QualityByWorkload] | None,  # None = no series of workloads
        *,
        max_series: int,  # Of workloads
    ) -> None:
        self._of_node, self._by_workload, self._max_series = of_node, by_workload, max_series

    def render(self, *, openmetrics: bool) -> tuple[str, int]:
        """Return all families, and how many series of workloads were left out because of the cap.

        The cap leaves out whole containers, the last in order of workload and container: always the same ones.
        """
        parts: list[str] = []
        node = self._of_node()
        if node is not None:
            for family in QUALITY_FAMILIES:
                parts += _family_text(family, family.of_node, [("", node.tolist())], openmetrics=openmetrics)
        if self._by_workload is None:
            return "".join(parts), 0
        every = sorted(self._by_workload().items(), key=lambda known: known[0])
        shown = [
            (f"{_workload_labels(workload, container)},", figures.tolist())
            for (workload, container), figures in every[: self._max_series // SERIES_PER_WORKLOAD]
        ]
        for family in QUALITY_FAMILIES:
            parts += _family_text(family, family.of_workload, shown, openmetrics=openmetrics)
        return "".join(parts), (len(every) - len(shown)) * SERIES_PER_WORKLOAD


def _family_text(
    family: _QualityFamily, name: str, rows: list[tuple[str, list[list[float]]]], *, openmetrics: bool
) -> list[str]:
    lines = [
        f"{name}{{{labels}{sample.labels}}} {_value(figures[sample.window], sample):.6g}\n"
        for sample in family.samples
        for labels, figures in rows
        if figures[sample.window][sample.known_by if sample.over is None else sample.over] > 0
    ]
    if not lines:
        return []
    unit = f"# UNIT {name} {family.unit}\n" if openmetrics and family.unit else ""
    return [f"# HELP {name} {family.text}\n# TYPE {name} gauge\n{unit}", *lines]


def _value(figures: list[float], sample: _Sample) -> float:
    return figures[sample.figure] / (1.0 if sample.over is None else figures[sample.over])


def _workload_labels(workload: Workload, container: str) -> str:
    return (
        f'namespace="{escaped(workload.namespace)}",workload_kind="{escaped(workload.kind)}",'
        f'workload="{escaped(workload.name)}",container="{escaped(container)}"'
    )
