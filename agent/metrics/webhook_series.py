"""The webhook's series and the page of its /metrics; names and units are decided here and nowhere else.

Closed label sets stand at 0 from the start. What others keep as totals or moments is read when the page is asked for.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.metrics.call_result import CallResult
from agent.metrics.exposition import MetricsPage, wants_openmetrics, write_page
from agent.metrics.loop_series import LoopSeries

ADMISSION_BUCKETS_SECONDS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
REPORT_BUCKETS_SECONDS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

REPORT_RESULTS: Final = tuple(CallResult)
ROW_RESULTS: Final = ("taken", "out_of_bounds", "foreign")


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyReading:
    """One family that is read when the page is asked for."""

    name: str
    """With its unit, and without ``_total``."""
    text: str
    labels: tuple[str, ...]
    is_counter: bool
    read: Callable[[], Iterable[tuple[tuple[str, ...], float]]]
    """Label values with their value; what is not known is left out. Must be quick."""


class _Readings:
    """The families that others keep."""

    def __init__(self) -> None:
        self._families: list[FamilyReading] = []

    def add(self, families: Iterable[FamilyReading]) -> None:
        self._families.extend(families)

    def collect(self) -> Iterable[Metric]:
        for one in self._families:
            kind = CounterMetricFamily if one.is_counter else GaugeMetricFamily
            family = kind(one.name, one.text, labels=one.labels)
            for labels, value in sorted(one.read()):
                family.add_metric(labels, value)
            yield family


class WebhookMetrics:
    """All series of this process; for any thread."""

    def __init__(
        self, *, version: str, commit: str, admission_results: Sequence[str], unread_reasons: Sequence[str] = ()
    ) -> None:
        """Make the series.

        Args:
            version: Of the program.
            commit: That it was built from.
            admission_results: How an admission may come out, ``error`` among them.
            unread_reasons: Why one may be answered without being read.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a process-wide switch of the library; each counter would bring a series more
        registry = self._registry = CollectorRegistry()
        self._readings = _Readings()
        self._lock = threading.Lock()
        Gauge(
            "plimsoll_webhook_build_info",
            "Always 1; what is running.",
            ("version", "commit", "python"),
            registry=registry,
        ).labels(version, commit, platform.python_version()).set(1)
        requests = Counter(
            "plimsoll_webhook_requests_total",
            "Admissions answered, by how they came out.",
            ("result",),
            registry=registry,
        )
        self._admissions = {result: requests.labels(result) for result in admission_results}
        self._unread = _children(
            Counter(
                "plimsoll_webhook_unread_total",
                "Admissions answered without being read (and counted as errors), by why.",
                ("reason",),
                registry=registry,
            ),
            unread_reasons,
        )
        self._admission_seconds = Histogram(
            "plimsoll_webhook_duration_seconds",
            "Time from an admission's last byte to its answer.",
            buckets=ADMISSION_BUCKETS_SECONDS,
            registry=registry,
        )
        self._calls = {
            what: _children(Counter(f"plimsoll_{name}_total", text, ("result",), registry=registry), REPORT_RESULTS)
            for what, name, text in (
                ("report", "reports_received", "Reports of nodes, by what became of them."),
                ("evictions", "proposals_received", "Calls of nodes that propose evictions, by what became of them."),
                ("taint", "taint_questions_received", "Nodes that asked for the taint, by what became of the call."),
                ("reading", "questions_received", "Questions about workloads and nodes, by what became of them."),
                ("forgetting", "forget_orders_received", "Orders to forget history, by what became of them."),
            )
        }
        self._rows = _children(
            Counter("plimsoll_report_rows_total", "Rows of accepted reports.", ("result",), registry=registry),
            ROW_RESULTS,
        )
        self._report_seconds = Histogram(
            "plimsoll_report_duration_seconds",
            "Time from a report's last byte to its answer.",
            buckets=REPORT_BUCKETS_SECONDS,
            registry=registry,
        )
        self._lost = Counter(
            "plimsoll_reports_lost_total",
            "Reports that nodes had to drop before anybody took them, by their own count.",
            registry=registry,
        )
        self._forgotten = Counter(
            "plimsoll_forgotten_rows_total",
            "Hourly rows of the database that went because somebody had a workload or a node forgotten.",
            registry=registry,
        )
        self._scrapes_rejected = Counter(
            "plimsoll_webhook_scrapes_rejected_total",
            "Scrapes answered with 503 because others were under way.",
            registry=registry,
        )
        registry.register(self._readings)
        ProcessCollector(registry=registry)
        self.loops: Final = LoopSeries()
        """The loops of this process."""
        registry.register(self.loops)

    def count_admission(self, result: str, seconds: float) -> None:
        """Count one admission; ``result`` is one of those given at the start."""
        self._admissions[result].inc()
        self._admission_seconds.observe(seconds)

    def count_unread(self, reason: str) -> None:
        """Count one that was not read; ``reason`` is one of those given at the start."""
        self._admissions["error"].inc()
        self._unread[reason].inc()

    def count_call(self, what: str, result: str) -> None:
        """Count a call, by its ``CallKind`` and ``CallResult``."""
        self._calls[what][result].inc()

    def count_report(self, *, seconds: float, taken: int, out_of_bounds: int, foreign: int) -> None:
        """Count the rows of a report that was accepted, and its time."""
        self._report_seconds.observe(seconds)
        for result, count in (("taken", taken), ("out_of_bounds", out_of_bounds), ("foreign", foreign)):
            if count:
                self._rows[result].inc(count)

    def count_lost(self, reports: int) -> None:
        """Count reports that a node dropped since it was last heard of."""
        self._lost.inc(reports)

    def count_forgotten(self, rows: int) -> None:
        """Count hourly rows that went at somebody's order."""
        self._forgotten.inc(rows)

    def count_rejected_scrape(self) -> None:
        """Count a scrape that got 503."""
        self._scrapes_rejected.inc()

    def read(self, *families: FamilyReading) -> None:
        """Add families that are read for each page; before the first page."""
        self._readings.add(families)

    def page(self, accept: str = "", accept_encoding: str = "") -> MetricsPage:
        """Build the page; see ``Metrics.page`` of the agent."""
        return write_page(self._registry, openmetrics=wants_openmetrics(accept), accept_encoding=accept_encoding)


def _children(counter: Counter, results: Sequence[str]) -> dict[str, Counter]:
    return {result: counter.labels(result) for result in results}
