"""The agent's own page: names, units, closed label sets, both formats."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.core.window.snapshot import Gap
from agent.core.window.sweep_pace import SkipReason
from agent.metrics.agent_series import (
    Feature,
    Metrics,
    PodSource,
    PressureKind,
    PressureResource,
)
from agent.metrics.container_series import ContainerSeries
from tests.unit.metrics.test_acting_series import UNITLESS as ACTING_UNITLESS

DEFAULT_SERIES = 130 + 176
"""What every scrape of every node costs Prometheus, acting included; the measured gauges add at most 20 and 15,
drift 12, and each of usually three QoS tiers 10."""
PROCESS_SERIES = 6
"""Of the process itself, by the library: memory, CPU, start, descriptors."""
MEASURED_SERIES = 21
FORBIDDEN_LABELS = {"node", "id", "image", "pod_uid", "container_id"}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="0.1.0", commit="abc", sampler="native", per_container=True)


def values(metrics: Metrics) -> dict[str, float]:
    """Samples of the page by their text up to the value."""
    lines = [line for line in metrics.page().body.decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def measure_everything(metrics: Metrics) -> None:
    metrics.set_rings(touched_bytes=4096, span_seconds=600.0)
    metrics.set_pod_source_age(PodSource.FILE, 3.0)
    for resource in PressureResource:
        for kind in PressureKind:
            metrics.set_node_pressure(resource, kind, 0.25)
    metrics.set_slack(cpu_millicores=1500.0, memory_bytes=1 << 30)
    metrics.set_cold_file(1 << 20)
    tell_of_node(metrics)
    metrics.set_in_force(mode="recommend", policy="cruise")
    metrics.loops.begin("control")
    metrics.add_process()
    metrics.publish_containers([ContainerSeries(labels=("a", "b", "c"), waiting_usec_total=1, cpu_limit_millicores=5)])


def tell_of_node(metrics: Metrics) -> None:
    metrics.set_node(cpus=4, cpu_usage_millicores=250.0, memory_total_bytes=8 << 30, memory_available_bytes=6 << 30)
    metrics.set_advised(
        cpu_requested_millicores=900,
        cpu_recommended_millicores=400,
        memory_requested_bytes=2 << 30,
        memory_recommended_bytes=1 << 30,
    )


def test_page_default_number_of_series(metrics: Metrics) -> None:
    assert len(values(metrics)) == DEFAULT_SERIES
    metrics.add_process()
    assert len(values(metrics)) == DEFAULT_SERIES + PROCESS_SERIES


def test_page_measured_gauges_are_absent_until_measured_and_after(metrics: Metrics) -> None:
    before = set(values(metrics))
    metrics.set_rings(touched_bytes=0, span_seconds=1.0)
    for source in PodSource:
        metrics.set_pod_source_age(source, 0.0)
    for resource in PressureResource:
        for kind in PressureKind:
            metrics.set_node_pressure(resource, kind, 0.0)
    metrics.set_slack(cpu_millicores=-20.0, memory_bytes=0)
    metrics.set_cold_file(1 << 20)
    tell_of_node(metrics)
    new = set(values(metrics)) - before
    assert len(new) == MEASURED_SERIES
    assert values(metrics)["plimsoll_cpu_slack_cores"] == -0.02
    metrics.set_slack(cpu_millicores=None, memory_bytes=None)
    assert "plimsoll_cpu_slack_cores" not in values(metrics)
    assert values(metrics)["plimsoll_memory_cold_file_bytes"] == 1 << 20
    metrics.set_cold_file(None)
    assert "plimsoll_memory_cold_file_bytes" not in values(metrics)


def test_page_node_and_advice_are_in_cores_and_bytes(metrics: Metrics) -> None:
    tell_of_node(metrics)
    page = values(metrics)
    assert page["plimsoll_node_cpus"] == 4
    assert page["plimsoll_node_cpu_usage_cores"] == 0.25
    assert page["plimsoll_node_memory_total_bytes"] == 8 << 30
    assert page["plimsoll_node_memory_available_bytes"] == 6 << 30
    assert (page["plimsoll_requested_cpu_cores"], page["plimsoll_recommended_cpu_cores"]) == (0.9, 0.4)
    assert (page["plimsoll_requested_memory_bytes"], page["plimsoll_recommended_memory_bytes"]) == (2 << 30, 1 << 30)
    metrics.set_advised(
        cpu_requested_millicores=None,
        cpu_recommended_millicores=None,
        memory_requested_bytes=None,
        memory_recommended_bytes=None,
    )
    metrics.set_node(cpus=4, cpu_usage_millicores=None, memory_total_bytes=1, memory_available_bytes=1)
    gone = set(page) - set(values(metrics))
    assert gone == {
        "plimsoll_node_cpu_usage_cores",
        "plimsoll_requested_cpu_cores",
        "plimsoll_recommended_cpu_cores",
        "plimsoll_requested_memory_bytes",
        "plimsoll_recommended_memory_bytes",
    }


def test_page_says_what_is_in_force_and_of_the_process_itself(metrics: Metrics) -> None:
    metrics.set_in_force(mode="recommend", policy="cruise")
    metrics.add_process()
    page = values(metrics)
    assert page['plimsoll_settings_info{mode="recommend",policy="cruise"}'] == 1
    assert page["process_resident_memory_bytes"] > 1 << 20


def test_page_closed_label_sets_stand_at_zero_from_the_start(metrics: Metrics) -> None:
    page = values(metrics)
    for gap in Gap:
        assert page[f'plimsoll_samples_dropped_total{{reason="{gap}"}}'] == 0
    for reason in SkipReason:
        assert page[f'plimsoll_sweeps_skipped_total{{reason="{reason}"}}'] == 0
    for feature in Feature:
        assert page[f'plimsoll_feature_enabled{{feature="{feature}"}}'] == 0
    for recently in ("true", "false"):
        assert page[f'plimsoll_oom_kills_total{{resized_recently="{recently}"}}'] == 0
    assert page['plimsoll_read_errors_total{cause="gone",file="cpu.stat"}'] == 0
    assert page["plimsoll_scrapes_rejected_total"] == 0


def test_page_every_name_and_label_keeps_the_rules(metrics: Metrics) -> None:
    measure_everything(metrics)
    unitless = {
        "plimsoll_samples", "plimsoll_sweeps", "plimsoll_sweeps_skipped", "plimsoll_samples_dropped",
        "plimsoll_read_errors", "plimsoll_counter_resets", "plimsoll_containers", "plimsoll_feature_enabled",
        "plimsoll_open_files", "plimsoll_open_files_limit", "plimsoll_inotify_overflows", "plimsoll_relists",
        "plimsoll_node_cpus", "plimsoll_loop_failures", "process_open_fds", "process_max_fds",
        "plimsoll_oom_kills", "plimsoll_scrapes_rejected", "plimsoll_series_dropped", "plimsoll_withheld",
        "plimsoll_cgroups_created", "plimsoll_cgroups_removed", "plimsoll_cgroups_changed",
        "plimsoll_cgroup_audits", "plimsoll_cgroup_drift", "plimsoll_tier_oom_kills",
        *ACTING_UNITLESS,
    }  # fmt: skip
    names = set()
    for family in parse_text(metrics.page().body.decode()):
        names.add(family.name)
        assert family.documentation
        assert re.search(r"_(seconds|bytes|cores|ratio|info)$", family.name) or family.name in unitless, family.name
        for sample in family.samples:
            assert not FORBIDDEN_LABELS & set(sample.labels)
            if family.type == "counter":
                assert sample.name.endswith("_total")
            if "namespace" in sample.labels:
                assert set(sample.labels) - {"quantile"} == {"namespace", "pod", "container"}
    assert unitless < names


def test_page_openmetrics_says_the_same_and_ends_in_eof(metrics: Metrics) -> None:
    measure_everything(metrics)
    metrics.observe_sweep(duration_seconds=0.003, lateness_seconds=0.0001, samples=10)
    page = metrics.page("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert page.content_type.startswith("application/openmetrics-text; version=1.0.0")
    text = page.body.decode()
    assert text.endswith("# EOF\n")
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]  # the library's parser has no types
    openmetrics = {(s.name, *sorted(s.labels.items())): s.value for f in families for s in f.samples}
    plain = {
        (s.name, *sorted(s.labels.items())): s.value
        for f in parse_text(metrics.page().body.decode())
        for s in f.samples
    }
    assert _still(openmetrics) == _still(plain)


def _still(samples: Mapping[Any, float]) -> dict[Any, float]:
    """Take out what moves from page to page: what the process has used, and how long ago its loops came round."""
    moving = ("process_", "plimsoll_loop_turn_age_seconds")
    return {key: value for key, value in samples.items() if not str(key[0]).startswith(moving)}


def test_page_plain_text_is_the_answer_to_anything_else(metrics: Metrics) -> None:
    for accept in ("", "*/*", "text/html", "application/json;q=x", ";;,,;q="):
        assert metrics.page(accept).content_type == "text/plain; version=0.0.4; charset=utf-8"


def test_page_gzip_unpacks_to_the_plain_page(metrics: Metrics) -> None:
    packed = metrics.page("", "gzip, deflate")
    assert packed.content_encoding == "gzip"
    assert gzip.decompress(packed.body) == metrics.page().body


def test_observe_sweep_counts_sweep_samples_and_histograms(metrics: Metrics) -> None:
    metrics.observe_sweep(duration_seconds=0.003, lateness_seconds=0.6, samples=250)
    metrics.observe_sweep(duration_seconds=2.0, lateness_seconds=-0.001, samples=0)
    page = values(metrics)
    assert page["plimsoll_sweeps_total"] == 2
    assert page["plimsoll_samples_total"] == 250
    # 3 ms lies between the bounds 2 ms and 5 ms; 2 s is beyond the last
    assert page['plimsoll_sweep_duration_seconds_bucket{le="0.002"}'] == 0
    assert page['plimsoll_sweep_duration_seconds_bucket{le="0.005"}'] == 1
    assert page['plimsoll_sweep_duration_seconds_bucket{le="1.0"}'] == 1
    assert page["plimsoll_sweep_duration_seconds_count"] == 2
    assert page["plimsoll_sweep_lateness_seconds_sum"] == pytest.approx(0.6)  # early is not late


def test_take_read_errors_counts_growth_and_a_fresh_start(metrics: Metrics) -> None:
    name = 'plimsoll_read_errors_total{cause="gone",file="cpu.stat"}'
    for total in (3, 3, 5):
        metrics.take_read_errors({("cpu.stat", "gone"): total})
    assert values(metrics)[name] == 5
    metrics.take_read_errors({("cpu.stat", "gone"): 2})  # another sampler was opened: 5 + 2
    assert values(metrics)[name] == 7
    with pytest.raises(KeyError):
        metrics.take_read_errors({("cpu.weight", "gone"): 1})


def test_counting_methods_reach_their_series(metrics: Metrics) -> None:
    metrics.count_skipped_sweeps(SkipReason.SLOWED, 2)
    metrics.count_dropped_samples(Gap.CLOCK)
    metrics.count_counter_reset("cpu.stat")
    metrics.set_containers(tracked=7, unmatched=2, excluded=1)
    metrics.set_feature(Feature.PRESSURE, enabled=True)
    metrics.set_open_files(held=70, limit=524_288)
    metrics.take_inotify_overflows(1)
    metrics.take_relists({"start": 1, "periodic": 4})
    metrics.count_oom_kills(3)
    metrics.count_rejected_scrape()
    page = values(metrics)
    assert page['plimsoll_sweeps_skipped_total{reason="slowed"}'] == 2
    assert page['plimsoll_samples_dropped_total{reason="clock"}'] == 1
    assert page['plimsoll_counter_resets_total{file="cpu.stat"}'] == 1
    assert page['plimsoll_containers{state="unmatched"}'] == 2
    assert page['plimsoll_feature_enabled{feature="pressure"}'] == 1
    assert page["plimsoll_open_files_limit"] == 524_288
    assert page["plimsoll_inotify_overflows_total"] == 1
    assert page['plimsoll_relists_total{trigger="periodic"}'] == 4
    assert page['plimsoll_oom_kills_total{resized_recently="false"}'] == 3
    assert page["plimsoll_scrapes_rejected_total"] == 1


def test_page_without_opt_in_has_no_container_series() -> None:
    metrics = Metrics(version="0", commit="", sampler="reference")
    metrics.publish_containers([ContainerSeries(labels=("a", "b", "c"), cpu_limit_millicores=5)])
    assert b"namespace=" not in metrics.page().body


def test_page_series_over_the_cap_are_counted_on_the_next_page() -> None:
    metrics = Metrics(version="0", commit="", sampler="reference", per_container=True, max_series=1)
    metrics.publish_containers([ContainerSeries(labels=("a", "b", c), cpu_limit_millicores=5) for c in "xyz"])
    assert values(metrics)["plimsoll_series_dropped"] == 2  # the container part is rendered first


def test_two_metrics_of_one_process_share_nothing() -> None:
    first_metrics = Metrics(version="1", commit="", sampler="native")
    two = Metrics(version="2", commit="", sampler="native")
    first_metrics.count_rejected_scrape()
    assert values(two)["plimsoll_scrapes_rejected_total"] == 0


def test_page_while_other_threads_count_stays_parsable(metrics: Metrics) -> None:
    stop = threading.Event()

    def count() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            metrics.observe_sweep(duration_seconds=0.001, lateness_seconds=0.0, samples=1)
            metrics.set_node_pressure(PressureResource.CPU, PressureKind.SOME, None if turn % 2 else 0.5)
            metrics.publish_containers([ContainerSeries(labels=("n", "p", str(turn % 7)), waiting_usec_total=turn)])

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for _ in range(20):
            assert list(parse_text(metrics.page().body.decode()))
    finally:
        stop.set()
        thread.join()
