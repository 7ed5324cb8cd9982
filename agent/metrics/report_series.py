"""The series of reporting to the webhook: what was sent and taken, what waits, what is lost.

Metrics. Registered only where there is a webhook to report to. Closed label sets stand at 0 from the start.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry

from agent.core.eviction.proposal import Verdict
from agent.metrics.families import MeasuredFamily, MeasuredGauges, SeriesTable, counter, gauge

_PROPOSALS: Final = counter(
    "plimsoll_eviction_answers_total",
    "Proposals of evictions that the webhook answered, by verdict; a pod that is put off is proposed again.",
    verdict=Verdict,
)
_TAINTS: Final = counter(
    "plimsoll_taint_answers_total",
    "Answers to whether this node may have the overload taint; away = there was none that says so.",
    result=("granted", "refused", "away"),
)


class ProposingSeries:
    """Counts the webhook's answers; any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._series = SeriesTable((_PROPOSALS,), registry)

    def count(self, verdict: Verdict) -> None:
        """Count an answer."""
        self._series.count(_PROPOSALS.name, verdict)


class TaintAnswerSeries:
    """Counts the webhook's answers about the taint; any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._series = SeriesTable((_TAINTS,), registry)

    def count(self, result: str) -> None:
        """Count an answer."""
        self._series.count(_TAINTS.name, result)


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
    NOT_UNDERSTOOD = "not_understood"
    """An answer that no webhook of this program gives."""
    NO_CREDENTIALS = "no_credentials"
    """The token or the certificates cannot be read: nothing was sent."""


_FAMILIES: Final = (
    counter("plimsoll_report_posts_total", "Reports sent, by what came of it.", result=PostResult),
    counter(
        "plimsoll_report_rows_total",
        "Rows of reports by what the webhook did with them.",
        result=("taken", "refused"),
    ),
    gauge("plimsoll_report_queue_bytes", "Reports that wait to be sent.", unit="bytes"),
    gauge("plimsoll_report_queue_reports", "Reports that wait."),
    counter("plimsoll_reports_lost_total", "Reports dropped and never taken: too many, too old, damaged or refused."),
)
_LAST_SUCCESS: Final = MeasuredFamily(
    "plimsoll_report_last_success_timestamp_seconds",
    "When the webhook last took a report; absent before the first.",
)


class ReportSeries:
    """All series of reporting. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._series = SeriesTable(_FAMILIES, registry)
        self._measured = MeasuredGauges((_LAST_SUCCESS,))
        registry.register(self._measured)

    def count_post(self, result: PostResult) -> None:
        """Count a report that was sent."""
        self._series.count("plimsoll_report_posts_total", result)

    def count_rows(self, *, taken: int, refused: int) -> None:
        """Count what the webhook answered of the rows."""
        self._series.count("plimsoll_report_rows_total", "taken", by=taken)
        self._series.count("plimsoll_report_rows_total", "refused", by=refused)

    def count_lost(self, count: int) -> None:
        """Count reports that are dropped."""
        self._series.count("plimsoll_reports_lost_total", by=count)

    def set_queue(self, *, reports: int, size_bytes: int) -> None:
        """Set what waits."""
        self._series.set("plimsoll_report_queue_reports", value=reports)
        self._series.set("plimsoll_report_queue_bytes", value=size_bytes)

    def set_last_success(self, unix_seconds: float) -> None:
        """Set when a report was last taken; wall clock, as Prometheus compares it with its own."""
        self._measured.set(_LAST_SUCCESS.name, value=unix_seconds)
