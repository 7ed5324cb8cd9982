"""The series of reporting to the webhook: what was sent and taken, what waits, what is lost.

Metrics. Registered only where there is a webhook to report to. Closed label sets stand at 0 from the start.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric

from agent.core.eviction.proposal import Verdict


class ProposingSeries:
    """Counts the webhook's answers; any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        answers = Counter(
            "plimsoll_eviction_answers_total",
            "Proposals of evictions that the webhook answered, by verdict; a pod that is put off is proposed again.",
            ("verdict",),
            registry=registry,
        )
        self._answers = {verdict: answers.labels(verdict.value) for verdict in Verdict}

    def count(self, verdict: Verdict) -> None:
        """Count an answer."""
        self._answers[verdict].inc()


class TaintAnswerSeries:
    """Counts the webhook's answers about the taint; any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        answers = Counter(
            "plimsoll_taint_answers_total",
            "Answers to whether this node may have the overload taint; away = there was none that says so.",
            ("result",),
            registry=registry,
        )
        self._answers = {result: answers.labels(result) for result in ("granted", "refused", "away")}

    def count(self, result: str) -> None:
        """Count an answer."""
        self._answers[result].inc()


class PostResult(StrEnum):
    """What came of sending one report."""

    TAKEN = "taken"
    REPEATED = "repeated"
    """The webhook had it already; nothing was counted twice."""
    REFUSED = "refused"
    """It will never be taken: it is dropped."""
    FORBIDDEN = "forbidden"
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    """The webhook or its database is away and says so."""
    UNREACHABLE = "unreachable"
    """No answer."""
    NOT_UNDERSTOOD = "not_understood"
    """An answer that no webhook of this program gives."""
    NO_CREDENTIALS = "no_credentials"
    """The token or the certificates cannot be read: nothing was sent."""


class _LastSuccess:
    """When a report was last taken; not on the page before one was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unix_seconds: float | None = None

    def set(self, unix_seconds: float) -> None:
        with self._lock:
            self._unix_seconds = unix_seconds

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            unix_seconds = self._unix_seconds
        family = GaugeMetricFamily(
            "plimsoll_report_last_success_timestamp_seconds",
            "When the webhook last took a report; absent before the first.",
            unit="seconds",
        )
        if unix_seconds is not None:
            family.add_metric((), unix_seconds)
        yield family


class ReportSeries:
    """All series of reporting. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        posts = Counter(
            "plimsoll_report_posts_total", "Reports sent, by what came of it.", ("result",), registry=registry
        )
        self._posts: Final = {result: posts.labels(result.value) for result in PostResult}
        rows = Counter(
            "plimsoll_report_rows_total",
            "Rows of reports by what the webhook did with them.",
            ("result",),
            registry=registry,
        )
        self._rows_taken, self._rows_refused = rows.labels("taken"), rows.labels("refused")
        self._queue_bytes = Gauge(
            "plimsoll_report_queue_bytes", "Reports that wait to be sent.", unit="bytes", registry=registry
        )
        self._queue_reports = Gauge("plimsoll_report_queue_reports", "Reports that wait.", registry=registry)
        self._lost = Counter(
            "plimsoll_reports_lost_total",
            "Reports dropped and never taken: too many, too old, damaged or refused.",
            registry=registry,
        )
        self._last_success = _LastSuccess()
        registry.register(self._last_success)

    def count_post(self, result: PostResult) -> None:
        """Count a report that was sent."""
        self._posts[result].inc()

    def count_rows(self, *, taken: int, refused: int) -> None:
        """Count what the webhook answered of the rows."""
        self._rows_taken.inc(taken)
        self._rows_refused.inc(refused)

    def count_lost(self, count: int) -> None:
        """Count reports that are dropped."""
        self._lost.inc(count)

    def set_queue(self, *, reports: int, size_bytes: int) -> None:
        """Say what waits."""
        self._queue_reports.set(reports)
        self._queue_bytes.set(size_bytes)

    def set_last_success(self, unix_seconds: float) -> None:
        """Say when a report was taken; wall clock, as Prometheus compares it with its own."""
        self._last_success.set(unix_seconds)
