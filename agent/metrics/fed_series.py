"""Series of values that others keep: gauges that are known at times only, and totals that may start again from 0.

Metrics. Which there are, and what they are called, is said where they are made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric

About = tuple[str, str, tuple[str, ...]]
"""Of a family: its help, its unit, the names of its labels."""


class MeasuredGauges:
    """Gauges that are on the page only while their value is known: a 0 would be a measurement. Any thread may set."""

    def __init__(self, families: Mapping[str, About]) -> None:
        self._families = families
        self._lock = threading.Lock()
        self._values: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in families}

    def set(self, name: str, labels: tuple[str, ...], value: float | None) -> None:
        """Take a value; None = not known (any more)."""
        with self._lock:
            if value is None:
                self._values[name].pop(labels, None)
            else:
                self._values[name][labels] = value

    def collect(self) -> Iterable[Metric]:
        """Return the families, as a registry asks for them."""
        with self._lock:
            values = {name: dict(series) for name, series in self._values.items()}
        for name, series in values.items():
            text, unit, label_names = self._families[name]
            family = GaugeMetricFamily(name, text, labels=label_names, unit=unit)
            for labels, value in sorted(series.items()):
                family.add_metric(labels, value)
            yield family


class GrowingTotals:
    """A counter fed with totals that someone else keeps, who may start again from 0."""

    def __init__(self, counter: Counter, labels: Iterable[tuple[str, ...]]) -> None:
        self._children = {values: counter.labels(*values) if values else counter for values in labels}
        self._seen = dict.fromkeys(self._children, 0)

    def take(self, labels: tuple[str, ...], total: int) -> None:
        """Count what came on top since the last call; a smaller total is a fresh start and counts whole."""
        seen = self._seen[labels]
        more = total - seen if total >= seen else total
        if more:
            self._children[labels].inc(more)
        self._seen[labels] = total
