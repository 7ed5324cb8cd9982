"""The series of evictions that were proposed to the webhook."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from agent.core.eviction.proposal import Verdict
from agent.metrics.report_series import ProposingSeries


def test_every_verdict_stands_at_zero_and_counts() -> None:
    registry = CollectorRegistry()
    series = ProposingSeries(registry)
    series.count(Verdict.LATER)
    series.count(Verdict.LATER)
    page = generate_latest(registry).decode()
    for verdict, count in ((Verdict.LATER, 2.0), (Verdict.GRANTED, 0.0), (Verdict.REFUSED, 0.0)):
        assert f'plimsoll_eviction_answers_total{{verdict="{verdict}"}} {count}' in page
