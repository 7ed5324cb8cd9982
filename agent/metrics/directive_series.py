"""The series of directives: how old the webhook's words are, and whom they concern.

Metrics. Registered only where there is a webhook. Figures are those of the moment of the scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.core.cluster.resource import Resource
from agent.core.plan.needs.directives import NodeDirectives


class DirectiveSeries(Collector):
    """Collects; any thread."""

    def __init__(self, directed: Callable[[], NodeDirectives]) -> None:
        self._directed = directed

    def collect(self) -> Iterable[Metric]:
        """Return the series."""
        directed = self._directed()
        age = GaugeMetricFamily(
            "plimsoll_directives_age_seconds",
            "Time since the webhook last said what holds; absent before it said anything.",
            unit="seconds",
        )
        if directed.directives is not None:
            age.add_metric((), directed.age_seconds)
        yield age
        workloads = GaugeMetricFamily(
            "plimsoll_directives_workloads",
            "Workloads of this node that the webhook told of, by what follows from it.",
            labels=("effect",),
        )
        for effect, count in _counts(directed).items():
            workloads.add_metric((effect,), count)
        yield workloads
        paused = GaugeMetricFamily(
            "plimsoll_directives_paused", "1 = the whole cluster is paused, as this node was told."
        )
        paused.add_metric((), float(directed.pause_reason is not None))
        yield paused
        left_out = GaugeMetricFamily(
            "plimsoll_directives_left_out",
            "Values of the webhook's newest directives that were too many or not understood, and were left out.",
        )
        left_out.add_metric((), 0.0 if directed.directives is None else float(directed.directives.left_out))
        yield left_out


def _counts(directed: NodeDirectives) -> dict[str, int]:
    by_workload = directed.by_workload
    frozen = [directed.frozen(workload) for workload in by_workload]
    return {
        "told": len(by_workload),
        "left_alone": sum(1 for directive in by_workload.values() if directive.left_alone_for is not None),
        "cpu_frozen": sum(1 for axes in frozen if Resource.CPU in axes),
        "memory_frozen": sum(1 for axes in frozen if Resource.MEMORY in axes),
        "shrink_barred": sum(1 for workload in by_workload if directed.is_shrink_barred(workload)),
    }
