"""The per-container series: right text, right units, nothing for what is not known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.window.snapshot import CpuWindow, MemoryWindow, Missing, UnitStatus
from agent.metrics.container_series import (
    SERIES_PER_CONTAINER,
    ContainerPage,
    ContainerSeries,
    ContainerTotals,
    to_container_series,
)

REPOSITORY: Final = Path(__file__).resolve().parents[3]
LABELS = ("shop", "web-1", "server")


def samples_of(text: str) -> dict[tuple[str, ...], float]:
    return {
        (s.name, *(f"{k}={v}" for k, v in sorted(s.labels.items()) if k == "quantile")): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def full_row(labels: tuple[str, str, str] = LABELS) -> ContainerSeries:
    return ContainerSeries(
        labels=labels,
        usage_p75_millicores=250.0,
        usage_peak_millicores=1500.0,
        working_set_p75_bytes=1 << 20,
        working_set_peak_bytes=1 << 40,
        cold_file_bytes=1 << 19,
        waiting_usec_total=1_500_000,
        throttled_usec_total=7,
        stalled_usec_total=1_000_000,
        memory_waiting_usec_total=2_000_000,
        memory_stalled_usec_total=3_000_000,
        memory_high_events_total=44,
        io_waiting_usec_total=5_000_000,
        cpu_request_millicores=100,
        cpu_limit_millicores=2000,
        memory_request_bytes=64 << 20,
        memory_limit_bytes=128 << 20,
        recommended_cpu_request_millicores=300,
        recommended_memory_request_bytes=96 << 20,
        confidence_ratio=0.5,
    )


def test_render_full_row_gives_each_figure_in_base_units() -> None:
    text, dropped = ContainerPage(max_series=100).render([full_row()])
    assert dropped == 0
    # 250 millicores are a quarter of a core; 1.5e6 us are 1.5 s; 7 us are 7e-6 s
    assert samples_of(text) == {
        ("plimsoll_container_cpu_usage_cores", "quantile=0.75"): 0.25,
        ("plimsoll_container_cpu_usage_cores", "quantile=1"): 1.5,
        ("plimsoll_container_memory_working_set_bytes", "quantile=0.75"): float(1 << 20),
        ("plimsoll_container_memory_working_set_bytes", "quantile=1"): float(1 << 40),
        ("plimsoll_container_memory_cold_file_bytes",): float(1 << 19),
        ("plimsoll_container_cpu_waiting_seconds_total",): 1.5,
        ("plimsoll_container_cpu_throttled_seconds_total",): 7e-6,
        ("plimsoll_container_cpu_stalled_seconds_total",): 1.0,
        ("plimsoll_container_memory_waiting_seconds_total",): 2.0,
        ("plimsoll_container_memory_stalled_seconds_total",): 3.0,
        ("plimsoll_container_memory_high_events_total",): 44.0,
        ("plimsoll_container_io_waiting_seconds_total",): 5.0,
        ("plimsoll_current_cpu_request_cores",): 0.1,
        ("plimsoll_current_cpu_limit_cores",): 2.0,
        ("plimsoll_current_memory_request_bytes",): float(64 << 20),
        ("plimsoll_current_memory_limit_bytes",): float(128 << 20),
        ("plimsoll_recommended_cpu_request_cores",): 0.3,
        ("plimsoll_recommended_memory_request_bytes",): float(96 << 20),
        ("plimsoll_recommendation_confidence_ratio",): 0.5,
    }
    assert len(samples_of(text)) == SERIES_PER_CONTAINER


def test_render_what_is_not_known_is_not_there() -> None:
    text, _ = ContainerPage(max_series=100).render([ContainerSeries(labels=LABELS, waiting_usec_total=0)])
    assert samples_of(text) == {("plimsoll_container_cpu_waiting_seconds_total",): 0.0}
    assert text.count("# TYPE") == 1  # no heading without series either


def test_render_no_rows_is_empty() -> None:
    assert ContainerPage(max_series=100).render([]) == ("", 0)


@given(st.text(), st.text(), st.text())
def test_render_any_names_come_back_from_a_parser_as_they_were(namespace: str, pod: str, container: str) -> None:
    row = ContainerSeries(labels=(namespace, pod, container), cpu_request_millicores=1)
    text, _ = ContainerPage(max_series=10).render([row])
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"namespace": namespace, "pod": pod, "container": container}


def test_render_over_the_cap_leaves_out_whole_containers_and_always_the_same() -> None:
    rows = [full_row(("ns", "pod", name)) for name in "cabd"]
    page = ContainerPage(max_series=2 * SERIES_PER_CONTAINER + 3)
    text, dropped = page.render(rows)
    assert dropped == 2 * SERIES_PER_CONTAINER
    assert {name for name in "abcd" if f'container="{name}"' in text} == {"a", "b"}
    assert page.render(rows[::-1])[1] == dropped
    assert page.render(rows[2:])[1] == 0


def test_render_cap_counts_only_series_that_there_are() -> None:
    rows = [ContainerSeries(labels=("", "", str(n)), cpu_request_millicores=1) for n in range(10)]
    text, dropped = ContainerPage(max_series=10).render(rows)
    assert dropped == 0
    assert len(samples_of(text)) == 1  # same key without its labels
    assert text.count("plimsoll_current_cpu_request_cores{") == 10


def test_render_cap_counts_the_totals_of_the_scrape_and_not_those_of_the_rows() -> None:
    totals = {("", "", str(n)): ContainerTotals(waiting_usec_total=1, throttled_usec_total=2) for n in range(9)}
    last = ContainerSeries(labels=("", "", "9"), cpu_request_millicores=1, io_waiting_usec_total=3)
    rows = [*(ContainerSeries(labels=labels, cpu_request_millicores=1) for labels in totals), last]
    # A request and two counters each, of the last a request alone: 3 x 9 + 1 = 28 series. 3 x 2 fit 8, 3 x 3 do not.
    text, dropped = ContainerPage(max_series=8).render(rows, totals=totals)
    assert len([line for line in text.splitlines() if not line.startswith("#")]) == 6
    assert dropped == 28 - 6


def test_render_equal_labels_keep_the_last_and_count_the_other() -> None:
    older = ContainerSeries(labels=LABELS, cpu_request_millicores=1)
    newer = ContainerSeries(labels=LABELS, cpu_request_millicores=2)
    text, dropped = ContainerPage(max_series=10).render([older, newer])
    assert dropped == 1
    assert samples_of(text) == {("plimsoll_current_cpu_request_cores",): 0.002}


def test_render_writes_names_that_are_no_text_as_text_and_apart() -> None:
    names = [os.fsdecode(name) for name in (b"bad\xff.service", b"bad\xfe.service", "gr\u00fcn".encode())]
    text, dropped = ContainerPage(max_series=1000).render([full_row(("", "", name)) for name in names])
    page = text.encode()  # as it goes out: a name from a directory of other bytes once spoilt all of it
    families = text_string_to_metric_families(page.decode())
    shown = {sample.labels["container"] for family in families for sample in family.samples}
    assert dropped == 0
    assert shown == {"bad\\udcff.service", "bad\\udcfe.service", "gr\u00fcn"}


def test_render_label_cache_holds_no_more_than_the_newest_page() -> None:
    page = ContainerPage(max_series=1000)
    for turn in range(5):
        page.render([full_row(("ns", f"pod-{turn}", "c"))])
    assert list(page._labels) == [("ns", "pod-4", "c")]


def unit(kind: UnitKind, *, pod: str | None, container: str | None) -> UnitStatus:
    nothing = Missing.TOO_FEW_SAMPLES
    return UnitStatus(
        identity=UnitIdentity(
            cgroup_path="/system.slice/nginx.service",
            kind=kind,
            namespace="shop" if pod else None,
            pod=pod,
            container=container,
        ),
        resources=UnitResources(cpu_request_millicores=100),
        cpu=CpuWindow(
            readings=0,
            gaps={},
            span_seconds=0.0,
            coverage_ratio=0.0,
            last_usage_millicores=None,
            usage_p75_millicores=None,
            usage_peak_millicores=None,
            burst_millicores=None,
            adjusted_p75_millicores=None,
            adjusted_peak_millicores=None,
            last_waiting_ratio=None,
            waiting_ratio=None,
            last_throttled_ratio=None,
            throttled_ratio=None,
            throttled_periods_ratio=None,
            missing={"usage_p75_millicores": nothing},
        ),
        memory=MemoryWindow(
            readings=1,
            span_seconds=0.0,
            current_bytes=10,
            working_set_bytes=5,
            working_set_p75_bytes=5,
            working_set_peak_bytes=6,
            lifetime_peak_bytes=None,
            pressure_some_ratio=None,
            oom_kills=None,
        ),
        sample_age_seconds=None,
    )


def test_to_container_series_pod_has_the_kubelets_labels() -> None:
    row = to_container_series(
        unit(UnitKind.CONTAINER, pod="web-1", container="server"), waiting_usec_total=3, throttled_usec_total=None
    )
    assert row == ContainerSeries(
        labels=("shop", "web-1", "server"),
        working_set_p75_bytes=5,
        working_set_peak_bytes=6,
        waiting_usec_total=3,
        cpu_request_millicores=100,
    )


def test_to_container_series_service_is_named_by_its_unit() -> None:
    row = to_container_series(
        unit(UnitKind.SERVICE, pod=None, container=None), waiting_usec_total=None, throttled_usec_total=None
    )
    assert row.labels == ("", "", "nginx.service")


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", "up to {} series per container"),
        ("charts/plimsoll/README.md", "up to {} per container and twelve per pod"),
        ("agent/settings/sections.py", "Series for each container too (up to {} each)"),
    ],
)
def test_pages_tell_as_many_series_as_a_container_may_have(page: str, words: str) -> None:
    """By this number a Prometheus is sized."""
    text = " ".join((REPOSITORY / page).read_text(encoding="utf-8").split())
    assert words.format(SERIES_PER_CONTAINER) in text
