"""How a page is written: which format a scraper wants, whether it is compressed, where it ends."""

from __future__ import annotations

import gzip
import math
import random

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from agent.metrics.agent_series import Metrics
from agent.metrics.exposition import PageWriter, accepts_gzip, wants_openmetrics
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
    collectors = CollectorRegistry()
    for number in range(families):
        Gauge(f"series_{number}", "A gauge.", registry=collectors)
    return collectors


def test_further_families_stand_before_the_end_of_an_openmetrics_page() -> None:
    page = PageWriter(registry()).page(openmetrics=True, accept_encoding="", more=MORE)
    assert page.content_type.startswith("application/openmetrics-text")
    assert page.body.decode().endswith(f"series_0 0.0\n{MORE}# EOF\n")
    assert page.body.count(b"# EOF") == 1
    plain = PageWriter(registry()).page(openmetrics=False, accept_encoding="", more=MORE)
    assert plain.content_type.startswith("text/plain")
    assert plain.body.decode().endswith(f"series_0 0.0\n{MORE}")


@pytest.mark.parametrize(
    ("families", "accepted", "encoding"), [(1, "gzip", None), (100, "gzip", "gzip"), (100, "", None)]
)
def test_a_page_is_compressed_where_that_is_worth_it_and_taken(
    families: int, accepted: str, encoding: str | None
) -> None:
    page = PageWriter(registry(families)).page(openmetrics=False, accept_encoding=accepted)
    assert page.content_encoding == encoding
    body = page.body if encoding is None else gzip.decompress(page.body)
    assert body == PageWriter(registry(families)).page(openmetrics=False, accept_encoding="").body


def test_a_measured_gauge_is_on_the_page_while_it_is_known() -> None:
    collectors = CollectorRegistry()
    gauges = MeasuredGauges([MeasuredFamily("age_seconds", "An age.", ("of",))])
    collectors.register(gauges)

    def page() -> str:
        return PageWriter(collectors).page(openmetrics=False, accept_encoding="").body.decode()

    assert "age_seconds{" not in page()
    gauges.set("age_seconds", "pods", value=3.5)
    assert 'age_seconds{of="pods"} 3.5\n' in page()
    gauges.set("age_seconds", "pods", value=None)
    assert "age_seconds{" not in page()


def test_a_total_that_fell_is_a_fresh_start_and_counts_whole() -> None:
    collectors = CollectorRegistry()
    series = SeriesTable([counter("reads_total", "Reads.", file=("a", "b"))], collectors)
    for total in (5, 7, 7, 3):  # 5, then 2 more, then none, then a fresh start with 3
        series.count_up_to("reads_total", "a", total=total)
    assert collectors.get_sample_value("reads_total", {"file": "a"}) == 10.0
    assert collectors.get_sample_value("reads_total", {"file": "b"}) == 0.0


def library_page(of: CollectorRegistry, *, openmetrics: bool) -> bytes:
    return generate_openmetrics(of) if openmetrics else generate_latest(of)  # type: ignore[no-untyped-call]


ODD_TEXTS = ["plain", 'a "quote"', "back\\slash", "two\nlines", "# EOF", "", "Grüße", "0.5"]
ODD_VALUES = [0.0, 1.0, -0.5, 1e6, 1e21, 2.0**53, 1e-7, math.inf, -math.inf, math.nan, 0.1 + 0.2]


@pytest.mark.parametrize("openmetrics", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_page_is_the_librarys_to_the_last_byte(seed: int, *, openmetrics: bool) -> None:
    choose = random.Random(seed)
    collectors = CollectorRegistry()
    counter = Counter("odd", choose.choice(ODD_TEXTS), ["of", "by"], registry=collectors)
    gauge = Gauge("odd_seconds", choose.choice(ODD_TEXTS), ["of"], unit="seconds", registry=collectors)
    histogram = Histogram("wait_seconds", "Waits.", ["of"], buckets=(0.1, 1.0), registry=collectors)
    Gauge("utf8.name", "With a name of these days.", registry=collectors).set(3)
    Info("build", "What it is.", registry=collectors).info({"version": "1"})
    measured = MeasuredGauges([MeasuredFamily("age_seconds", "An age.", ("of",))])
    collectors.register(measured)
    writer = PageWriter(collectors)
    for _ in range(30):
        counter.labels(choose.choice(ODD_TEXTS), "x").inc(
            choose.random(), exemplar={"trace": "1"} if choose.random() < 0.05 else None
        )
        gauge.labels(choose.choice(ODD_TEXTS)).set(choose.choice(ODD_VALUES))
        histogram.labels(choose.choice(ODD_TEXTS)).observe(choose.random())
        measured.set("age_seconds", choose.choice(ODD_TEXTS), value=choose.choice([None, *ODD_VALUES]))
        page = writer.page(openmetrics=openmetrics, accept_encoding="")
        assert page.body == library_page(collectors, openmetrics=openmetrics)


@pytest.mark.parametrize("openmetrics", [True, False])
def test_the_agents_page_is_the_librarys_to_the_last_byte(*, openmetrics: bool) -> None:
    metrics = Metrics(version="1", commit="c", sampler="native", max_series=100, per_container=False)
    writer = PageWriter(metrics._registry)
    for count in range(3):
        metrics.observe_sweep(duration_seconds=0.001 * count, lateness_seconds=0.1, samples=count)
        page = writer.page(openmetrics=openmetrics, accept_encoding="")
        assert page.body == library_page(metrics._registry, openmetrics=openmetrics)
