from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from agent.metrics.agent_series import Metrics
from agent.metrics.report_series import PostResult, ReportSeries


def values(registry: CollectorRegistry) -> dict[str, float]:
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs if not name.partition("{")[0].endswith("_created")}


def test_closed_sets_stand_at_0_and_what_never_was_is_not_there() -> None:
    registry = CollectorRegistry()
    ReportSeries(registry)
    assert values(registry) == {
        **{f'plimsoll_report_posts_total{{result="{result}"}}': 0.0 for result in PostResult},
        'plimsoll_report_rows_total{result="taken"}': 0.0,
        'plimsoll_report_rows_total{result="refused"}': 0.0,
        "plimsoll_report_queue_bytes": 0.0,
        "plimsoll_report_queue_reports": 0.0,
        "plimsoll_reports_lost_total": 0.0,
    }


def test_each_method_reaches_its_series() -> None:
    registry = CollectorRegistry()
    series = ReportSeries(registry)
    series.count_post(PostResult.THROTTLED)
    series.count_rows(taken=57, refused=2)
    series.count_lost(3)
    series.set_queue(reports=4, size_bytes=5000)
    series.set_last_success(1_800_000_000.5)
    samples = values(registry)
    assert {name: value for name, value in samples.items() if value} == {
        'plimsoll_report_posts_total{result="throttled"}': 1.0,
        'plimsoll_report_rows_total{result="taken"}': 57.0,
        'plimsoll_report_rows_total{result="refused"}': 2.0,
        "plimsoll_report_queue_bytes": 5000.0,
        "plimsoll_report_queue_reports": 4.0,
        "plimsoll_reports_lost_total": 3.0,
        "plimsoll_report_last_success_timestamp_seconds": 1_800_000_000.5,
    }


def test_they_stand_on_the_agents_page_only_where_they_are_registered() -> None:
    metrics = Metrics(version="0", commit="", sampler="reference")
    assert b"plimsoll_report" not in metrics.page().body
    registry = CollectorRegistry()
    ReportSeries(registry)
    metrics.register(registry)
    for accept in ("", "application/openmetrics-text"):
        assert b"plimsoll_report_posts_total" in metrics.page(accept).body
