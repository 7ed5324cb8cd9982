"""The webhook's series and the page of its /metrics; names and units are decided here and nowhere else.

Closed label sets stand at 0 from the start. What others keep as totals or moments is read when the page is asked for.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics

from agent.metrics.call_result import CallKind, CallResult
from agent.metrics.exposition import MetricsPage, PageWriter, wants_openmetrics
from agent.metrics.families import FamilyReading, Readings, SeriesTable, counter, histogram
from agent.metrics.loop_series import LoopSeries
from agent.metrics.process_series import ProcessSeries

ADMISSION_BUCKETS_SECONDS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
REPORT_BUCKETS_SECONDS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

REPORT_RESULTS: Final = tuple(CallResult)
ROW_RESULTS: Final = ("taken", "out_of_bounds", "foreign")


_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    CallKind.REPORT: ("plimsoll_reports_received_total", "Reports of nodes, by what became of them."),
    CallKind.EVICTIONS: (
        "plimsoll_proposals_received_total",
        "Calls of nodes that propose evictions, by what became of them.",
    ),
    CallKind.TAINT: (
        "plimsoll_taint_questions_received_total",
        "Nodes that asked for the taint, by what became of the call.",
    ),
    CallKind.RUNS: ("plimsoll_run_posts_received_total", "Posts of runs of Jobs, by what became of them."),
    CallKind.DECISIONS: (
        "plimsoll_decision_posts_received_total",
        "Posts of what nodes decided, by what became of them.",
    ),
    CallKind.READING: (
        "plimsoll_questions_received_total",
        "Questions about workloads and nodes, by what became of them.",
    ),
    CallKind.FORGETTING: (
        "plimsoll_forget_orders_received_total",
        "Orders to forget history, by what became of them.",
    ),
    CallKind.HISTORY: (
        "plimsoll_history_imports_received_total",
        "Calls with imported history, by what became of them.",
    ),
}
_FAMILIES: Final = (
    histogram(
        "plimsoll_webhook_duration_seconds",
        "Time from an admission's last byte to its answer.",
        ADMISSION_BUCKETS_SECONDS,
    ),
    *(counter(name, text, result=REPORT_RESULTS) for name, text in _CALLS.values()),
    counter("plimsoll_report_rows_total", "Rows of accepted reports.", result=ROW_RESULTS),
    histogram(
        "plimsoll_report_duration_seconds", "Time from a report's last byte to its answer.", REPORT_BUCKETS_SECONDS
    ),
    counter(
        "plimsoll_reports_lost_total",
        "Reports that nodes had to drop before anybody took them, by their own count.",
    ),
    counter(
        "plimsoll_forgotten_rows_total",
        "Hourly rows of the database that went because somebody had a workload or a node forgotten.",
    ),
    counter("plimsoll_webhook_scrapes_rejected_total", "Scrapes answered with 503 because others were under way."),
)


class WebhookMetrics:
    """All series of this process; for any thread.

    ``admission_results`` are how an admission may come out, ``error`` among them; ``unread_reasons``, why one may be
    answered without being read.
    """

    def __init__(
        self, *, version: str, commit: str, admission_results: Sequence[str], unread_reasons: Sequence[str]
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a process-wide switch of the library; each counter would bring a series more
        registry = self._registry = CollectorRegistry()
        self._writer = PageWriter(registry)
        self._readings = Readings()
        Gauge(
            "plimsoll_webhook_build_info",
            "Always 1; what is running.",
            ("version", "commit", "python"),
            registry=registry,
        ).labels(version, commit, platform.python_version()).set(1)
        admissions = (
            counter(
                "plimsoll_webhook_requests_total",
                "Admissions answered, by how they came out.",
                result=admission_results,
            ),
            counter(
                "plimsoll_webhook_unread_total",
                "Admissions answered without being read (and counted as errors), by why.",
                reason=unread_reasons,
            ),
        )
        self._series = SeriesTable((*admissions, *_FAMILIES), registry)
        registry.register(self._readings)
        registry.register(ProcessSeries())
        self.loops: Final = LoopSeries()
        registry.register(self.loops)

    def count_admission(self, result: str, seconds: float) -> None:
        """Count one admission; ``result`` is one of those given at the start."""
        self._series.count("plimsoll_webhook_requests_total", result)
        self._series.observe("plimsoll_webhook_duration_seconds", seconds)

    def count_unread(self, reason: str) -> None:
        """Count one that was not read; ``reason`` is one of those given at the start."""
        self._series.count("plimsoll_webhook_requests_total", "error")
        self._series.count("plimsoll_webhook_unread_total", reason)

    def count_call(self, what: str, result: str) -> None:
        """Count a call, by its ``CallKind`` and ``CallResult``."""
        self._series.count(_CALLS[what][0], result)

    def count_report(self, *, seconds: float, taken: int, out_of_bounds: int, foreign: int) -> None:
        """Count the rows of a report that was accepted, and its time."""
        self._series.observe("plimsoll_report_duration_seconds", seconds)
        for result, count in (("taken", taken), ("out_of_bounds", out_of_bounds), ("foreign", foreign)):
            self._series.count("plimsoll_report_rows_total", result, by=count)

    def count_lost(self, reports: int) -> None:
        """Count reports that a node dropped since it was last heard of."""
        self._series.count("plimsoll_reports_lost_total", by=reports)

    def count_forgotten(self, rows: int) -> None:
        """Count hourly rows that went at somebody's order."""
        self._series.count("plimsoll_forgotten_rows_total", by=rows)

    def count_rejected_scrape(self) -> None:
        """Count a scrape that got 503."""
        self._series.count("plimsoll_webhook_scrapes_rejected_total")

    def read(self, *families: FamilyReading) -> None:
        """Add families that are read for each page; before the first page."""
        self._readings.add(families)

    def page(self, accept: str = "", accept_encoding: str = "") -> MetricsPage:
        """Build the page; see ``Metrics.page`` of the agent."""
        return self._writer.page(openmetrics=wants_openmetrics(accept), accept_encoding=accept_encoding)
