"""Percentiles of a workload over all pods, nodes and hours: against the samples themselves, and as people see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from agent.cli.text.spans import ASCII
from agent.cli.workloads.view import workload_lines
from agent.settings import Settings
from agent.webhook.queries.workload_bodies import WorkloadBody
from agent.webhook.store.entries.report_payload import encode_report
from agent.webhook.store.shapes import NewReport, StoreAway, StoredSketch
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder, FoldOptions
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.percentiles import HOURS, ContainerStatistics, Statistics
from agent.webhook.workloads.shapes import IndexOptions
from agent.webhook.workloads.tailer import Tailer
from tests.webhook.stack import READABLE, stack
from tests.webhook.test_access import Server, user
from tests.webhook.workload_reports import DNS, HOUR, LARGE, MIB, NOON, SMALL, WEB, report, row

RATIOS = (0.5, 0.75, 0.95, 0.99)


def kept(store: Store, index: WorkloadIndex, *reports: Any) -> Tailer:
    """Log reports, each with when it came, and put them all into sketches."""
    for sequence, (node_report, received) in enumerate(reports, 1):
        store.append(
            NewReport(
                node=node_report.node,
                incarnation=node_report.incarnation,
                sequence=sequence,
                lost_reports=0,
                received_unix_seconds=received,
                rows=len(node_report.rows),
                payload=encode_report(node_report),
            )
        )
    tailer = Tailer(store, index)
    while tailer.advance(NOON):
        pass
    Folder(store, FoldOptions(log_seconds=0.0)).fold_once(True, now_unix_seconds=NOON)
    return tailer


@pytest.fixture
def index() -> WorkloadIndex:
    return WorkloadIndex(IndexOptions(), Settings(), min_age_seconds=0.0)


def found(store: Store, index: WorkloadIndex, workload: Any = WEB, now: float = NOON) -> ContainerStatistics:
    (usage,) = Statistics(store, index.places).of(workload, now).values()
    return usage


def test_a_percentile_is_that_of_all_samples_of_all_pods_nodes_and_hours(store: Store, index: WorkloadIndex) -> None:
    random = np.random.default_rng(7)
    every: list[Any] = []
    reports = []
    for hour in range(30):
        for node, node_class in (("node-a", SMALL), ("node-b", LARGE)):
            samples = random.lognormal(4.0 + hour % 3, 1.0, size=40)
            every.append(samples)
            rollup = row(cpu=samples.tolist(), memory=(samples * MIB).tolist(), pod=f"web-{node}")
            reports.append((report(rollup, node=node, node_class=node_class), NOON - hour * HOUR - 1200.0))
    kept(store, index, *reports)
    usage, samples = found(store, index), np.concatenate(every)
    assert usage.cpu is not None
    assert usage.memory is not None
    assert (usage.cpu.samples, usage.hours, usage.pods) == (samples.size, 30, 2)
    for percentile, ratio in zip((usage.cpu.p50, usage.cpu.p75, usage.cpu.p95, usage.cpu.p99), RATIOS, strict=True):
        exact = float(np.quantile(samples, ratio, method="inverted_cdf"))
        assert exact <= percentile <= exact * 1.05 + 2.0
    exact_bytes = float(np.quantile(samples * MIB, 0.75, method="inverted_cdf"))
    assert exact_bytes <= usage.memory.p75 <= exact_bytes * 1.05 + 1e6
    assert usage.cpu.max == int(np.ceil(samples.max()))
    assert usage.cpu.mean == pytest.approx(samples.mean(), abs=0.6)


def test_the_spread_is_that_of_the_pods_of_the_newest_hour(store: Store, index: WorkloadIndex) -> None:
    def at(hour: int, *means: float) -> Any:
        rows = [row(cpu=mean, memory=mean * MIB, pod=f"web-{number}") for number, mean in enumerate(means)]
        return report(*rows), NOON - hour * HOUR - 1200.0

    kept(store, index, at(2, 1.0, 900.0), at(1, 100.0, 300.0, 200.0))
    usage = found(store, index)
    assert (usage.pods, usage.pod_cpu_millicores) == (3, (100, 300))
    assert usage.pod_memory_bytes == (100 * MIB, 300 * MIB)


def test_pressure_is_told_beside_what_was_measured(store: Store, index: WorkloadIndex) -> None:
    kept(store, index, (report(row(cpu=100.0, adjusted=150.0, memory=None)), NOON - 1200.0))
    usage = found(store, index)
    assert usage.cpu is not None
    assert usage.cpu_adjusted is not None
    assert (usage.cpu.max, usage.cpu_adjusted.max, usage.memory, usage.pod_memory_bytes) == (100, 150, None, None)


def test_hours_before_the_seven_days_do_not_count(store: Store, index: WorkloadIndex) -> None:
    reports = [(report(row()), NOON - hours * HOUR - 1200.0) for hours in (1, HOURS + 30)]
    kept(store, index, *reports)
    assert found(store, index).hours == 1


def test_of_a_daemon_set_nodes_are_not_counted_twice(store: Store, index: WorkloadIndex) -> None:
    kept(store, index, (report(row(DNS, cpu=[1.0, 2.0])), NOON - 1200.0))
    usage = found(store, index, DNS)
    assert usage.cpu is not None
    assert usage.cpu.samples == 2


def test_a_sketch_that_cannot_be_read_is_left_out(store: Store, index: WorkloadIndex) -> None:
    kept(store, index, (report(row()), NOON - 2 * HOUR), (report(row(), sequence=2), NOON - HOUR))
    bad = [max(store.sketches(0), key=lambda entry: entry.unix_hour)]
    folded = store.folded_through()
    broken = [StoredSketch(key=entry.key, unix_hour=entry.unix_hour, payload=b"\x63" * 40) for entry in bad]
    store.fold(folded, broken, 0, base_id=folded)
    assert found(store, index).hours == 1


def test_of_a_workload_that_nobody_knows_there_is_nothing(store: Store, index: WorkloadIndex) -> None:
    assert Statistics(store, index.places).of(WEB, NOON) == {}


@pytest.fixture
def server() -> Server:
    return Server(users={"good": user()}, readable=READABLE)


NAMES = {"namespace": "shop", "kind": "Deployment", "name": "web"}


def test_people_see_percentiles_and_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stack(tmp_path) as whole:
        monkeypatch.setattr(whole.questions, "_wall_clock", lambda: float(NOON))
        rows = [row(cpu=[100.0 * n], memory=64.0 * MIB * n, pod=f"web-{n}") for n in (1, 2, 3, 4)]
        kept(whole.store, whole.index, (report(*rows), NOON - 1200.0))
        body = whole.ask("/v1/workloads/shop/Deployment/web", names=NAMES).body
        usage = json.loads(body)["containers"][0]["statistics"]
        assert (usage["hours"], usage["pods"], usage["cpu"]["samples"], usage["cpu"]["max"]) == (1, 4, 4, 400)
        assert usage["podCpuMillicores"] == {"least": 100, "largest": 400}
        assert usage["nodeCpuMillicores"]["least"] == usage["nodeCpuMillicores"]["largest"]
        reply = msgspec.json.decode(body, type=WorkloadBody)
        text = "\n".join("".join(span.text for span in line) for line in workload_lines(reply, width=140, glyphs=ASCII))
        assert "P50 " in text
        assert "4 samples of all pods, 1h" in text
        assert "means of 4 pods 100m to 400m" in text


def test_with_the_database_away_the_rest_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stack(tmp_path) as whole:
        monkeypatch.setattr(whole.questions, "_wall_clock", lambda: float(NOON))
        kept(whole.store, whole.index, (report(row()), NOON - 1200.0))

        def away(*_: Any) -> Any:
            raise StoreAway("gone")

        monkeypatch.setattr(whole.store, "sketches_of", away)
        answer = whole.ask("/v1/workloads/shop/Deployment/web", names=NAMES)
        assert answer.status == 200
        document = json.loads(answer.body)
        assert (document["statisticsFault"], document["containers"][0]["statistics"]) == ("the database is away", None)
        assert document["containers"][0]["hours"]
        reply = msgspec.json.decode(answer.body, type=WorkloadBody)
        text = "\n".join("".join(span.text for span in line) for line in workload_lines(reply, width=140, glyphs=ASCII))
        assert "no percentiles: the database is away" in text
