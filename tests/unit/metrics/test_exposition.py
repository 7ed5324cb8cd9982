"""How a page is written: which format a scraper wants, whether it is compressed, where it ends."""

from __future__ import annotations

import gzip

import pytest
from prometheus_client import CollectorRegistry, Gauge

from agent.metrics.exposition import accepts_gzip, wants_openmetrics, write_page
from agent.metrics.families import MeasuredFamily, MeasuredGauges, SeriesTable, counter


@pytest.mark.parametrize(
    ("header", "taken"),
    [("gzip", True), ("deflate, gzip;q=1.0", True), ("*", True), ("gzip;q=0", False), ("gzip;q=x", False),
     ("", False), ("br", False), ("gzip;q=0, *", False), ("GZIP", True)],
)  # fmt: skip
def test_accepts_gzip(header: str, taken: bool) -> None:
    assert accepts_gzip(header) is taken


@pytest.mark.parametrize(
    ("header", "wanted"),
    [("application/openmetrics-text", True), ("text/plain", False), ("*/*", False), ("", False),
     ("application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5", True),
     ("application/openmetrics-text;q=0.3,text/plain;q=0.5", False), ("application/openmetrics-text;q=0", False)],
)  # fmt: skip
def test_wants_openmetrics(header: str, wanted: bool) -> None:
    assert wants_openmetrics(header) is wanted


MORE = "# TYPE more gauge\nmore 1.0\n"


def registry(families: int = 1) -> CollectorRegistry:
    made = CollectorRegistry()
    for number in range(families):
        Gauge(f"series_{number}", "A gauge.", registry=made)
    return made


def test_further_families_stand_before_the_end_of_an_openmetrics_page() -> None:
    page = write_page(registry(), openmetrics=True, accept_encoding="", more=MORE)
    assert page.content_type.startswith("application/openmetrics-text")
    assert page.body.decode().endswith(f"series_0 0.0\n{MORE}# EOF\n")
    assert page.body.count(b"# EOF") == 1
    plain = write_page(registry(), openmetrics=False, accept_encoding="", more=MORE)
    assert plain.content_type.startswith("text/plain")
    assert plain.body.decode().endswith(f"series_0 0.0\n{MORE}")


@pytest.mark.parametrize(
    ("families", "accepted", "encoding"), [(1, "gzip", None), (100, "gzip", "gzip"), (100, "", None)]
)
def test_a_page_is_compressed_where_that_is_worth_it_and_taken(
    families: int, accepted: str, encoding: str | None
) -> None:
    page = write_page(registry(families), openmetrics=False, accept_encoding=accepted)
    assert page.content_encoding == encoding
    body = page.body if encoding is None else gzip.decompress(page.body)
    assert body == write_page(registry(families), openmetrics=False, accept_encoding="").body


def test_a_measured_gauge_is_on_the_page_while_it_is_known() -> None:
    made = CollectorRegistry()
    gauges = MeasuredGauges([MeasuredFamily("age_seconds", "An age.", ("of",))])
    made.register(gauges)

    def page() -> str:
        return write_page(made, openmetrics=False, accept_encoding="").body.decode()

    assert "age_seconds{" not in page()
    gauges.set("age_seconds", "pods", value=3.5)
    assert 'age_seconds{of="pods"} 3.5\n' in page()
    gauges.set("age_seconds", "pods", value=None)
    assert "age_seconds{" not in page()


def test_a_total_that_fell_is_a_fresh_start_and_counts_whole() -> None:
    made = CollectorRegistry()
    series = SeriesTable([counter("reads_total", "Reads.", file=("a", "b"))], made)
    for total in (5, 7, 7, 3):  # 5, then 2 more, then none, then a fresh start with 3
        series.count_up_to("reads_total", "a", total=total)
    assert made.get_sample_value("reads_total", {"file": "a"}) == 10.0
    assert made.get_sample_value("reads_total", {"file": "b"}) == 0.0
