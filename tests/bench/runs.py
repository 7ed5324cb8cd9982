"""What 10,000 runs a day leave behind: rows and bytes in the database, memory of the webhook's process, and time.

Real store (SQLite in a folder) and indices; a cluster of simulated nodes. 4,000 of the runs are of 200 CronJobs, 6,000
of Jobs of which each has a name of its own, as workflows and builds make them: the worst for whoever keeps something by
name. Each run is posted by itself as its node does, and its container stands in its node's report of these minutes.
Then the table is filled to its bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import psutil

from agent.core.admission.estimate import Estimate
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution, NodeClass, Report, RollupRow
from agent.core.history.workloads.job_run import JobRun
from agent.core.numbers.bucket_scheme import BucketScheme
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.run_options import MOST_RUNS, RunOptions
from agent.settings import Settings
from agent.webhook.store.entries.report_payload import encode_report
from agent.webhook.store.records.job_runs import MOST_ROWS
from agent.webhook.store.shapes import NewReport
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder, FoldOptions
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.runs import RunIndex
from agent.webhook.workloads.shapes import IndexOptions
from agent.webhook.workloads.tailer import Tailer
from tests.webhook.open_store import open_store

RUNS_A_DAY: Final = 10_000
CRON_JOBS: Final = 200
OF_CRON_JOBS_RATIO: Final = 0.4
NODES: Final = 10
DAYS: Final = 1
INTERVAL_SECONDS: Final = 300
INTERVALS_A_DAY: Final = 86_400 // INTERVAL_SECONDS
HOUR_SECONDS: Final = 3600
NAMESPACE: Final = "batch"
MIB: Final = float(1 << 20)


def measure() -> Iterator[dict[str, float]]:
    """Live through a day, then fill the table to its bound."""
    with TemporaryDirectory(prefix="plimsoll-bench-runs-") as folder:
        yield from _days(Path(folder))
    with TemporaryDirectory(prefix="plimsoll-bench-runs-") as folder:
        yield from _filled(Path(folder))


def _days(folder: Path) -> Iterator[dict[str, float]]:
    store = open_store(f"sqlite:///{folder / 'plimsoll.db'}")
    try:
        index = WorkloadIndex(IndexOptions(), Settings())
        tailer, folder_of_log = Tailer(store, index), Folder(store, FoldOptions(log_seconds=0))
        index.loaded()
        process, empty_bytes, random = psutil.Process(), store.size_bytes(), np.random.default_rng(7)
        rss, begun, posts_seconds, number = process.memory_info().rss, time.time() - DAYS * 86_400, 0.0, 0
        for interval in range(DAYS * INTERVALS_A_DAY):
            now = begun + (interval + 1) * INTERVAL_SECONDS
            due = RUNS_A_DAY * (interval + 1) // INTERVALS_A_DAY
            runs = [_run(serial, now - random.uniform(0, INTERVAL_SECONDS), random) for serial in range(number, due)]
            number = due
            started = time.process_time()
            for run in runs:
                store.take_runs([run])
            posts_seconds += time.process_time() - started
            for node in range(NODES):
                _report(store, node, interval, now, runs[node::NODES], random)
            while index.runs.follow(store) or tailer.advance(now):
                pass
            if interval % (HOUR_SECONDS // INTERVAL_SECONDS) == 0:
                folder_of_log.fold_once(True, now_unix_seconds=now)
                store.expire_runs(now)
                index.expire(now)
        size = index.size()
        yield {
            "runs_posted": float(number),
            "runs_post_cpu_ms": 1000 * posts_seconds / number,
            "runs_known_rows": float(len(index.runs)),
            "runs_index_workloads": float(size.workloads),
            "runs_index_rows": float(size.rows),
            "runs_database_mib_day": (store.size_bytes() - empty_bytes) / MIB,
            "runs_webhook_rss_growth_mib": (process.memory_info().rss - rss) / MIB,
        }
    finally:
        store.close()


def _filled(folder: Path) -> Iterator[dict[str, float]]:
    """As many rows as are kept at most, of as many CronJobs as that takes, and then some."""
    store = open_store(f"sqlite:///{folder / 'plimsoll.db'}")
    try:
        process, empty_bytes, random = psutil.Process(), store.size_bytes(), np.random.default_rng(7)
        now, workloads = time.time(), MOST_ROWS // MOST_RUNS + 50
        for number in range(workloads):
            workload = Workload(namespace=NAMESPACE, kind="CronJob", name=f"cron-{number}")
            store.take_runs(_row(workload, f"{number}-{run}", now - run, random) for run in range(MOST_RUNS))
        store.expire_runs(now)
        database_bytes = store.size_bytes() - empty_bytes
        rss, started = process.memory_info().rss, time.process_time()
        index = RunIndex(RunOptions())
        while index.follow(store):
            pass
        follow_seconds = time.process_time() - started
        index_bytes, started = process.memory_info().rss - rss, time.process_time()
        known = index.workloads()[:1000]
        for workload in known:
            estimate = index.estimate(workload, "main", policy=PolicyName.CRUISE, now_unix_seconds=now)
            assert isinstance(estimate, Estimate), estimate
        estimate_seconds = (time.process_time() - started) / len(known)
        started = time.process_time()
        index.expire(now)
        yield {
            "runs_full_rows": float(len(index)),
            "runs_full_database_mib": database_bytes / MIB,
            "runs_full_index_rss_mib": index_bytes / MIB,
            "runs_full_follow_cpu_seconds": follow_seconds,
            "runs_full_expire_cpu_ms": 1000 * (time.process_time() - started),
            "runs_full_estimate_cpu_us": 1e6 * estimate_seconds,
        }
    finally:
        store.close()


def _run(number: int, ended: float, random: np.random.Generator) -> JobRun:
    if random.random() < OF_CRON_JOBS_RATIO:
        workload = Workload(namespace=NAMESPACE, kind="CronJob", name=f"nightly-{number % CRON_JOBS}")
    else:
        workload = Workload(namespace=NAMESPACE, kind="Job", name=f"build-{number}")
    return _row(workload, f"{workload.name}-{29_000_000 + number}-x7k2p", ended, random)


def _row(workload: Workload, run: str, ended: float, random: np.random.Generator) -> JobRun:
    need = int(random.lognormal(19.0, 0.3))
    return JobRun(
        workload=workload,
        container="main",
        run=run,
        ended_unix_seconds=ended,
        duration_seconds=float(random.uniform(1, 200)),
        cpu_seconds=12.5,
        cpu_mean_millicores=float(random.uniform(20, 900)),
        cpu_p75_millicores=431.7,
        cpu_largest_millicores=912.3,
        memory_peak_bytes=need + 4096,
        memory_need_bytes=need,
        exit_code=0,
        cpu_node=2_868_123_456,
        memory_node=2_868_123_456,
    )


def _report(
    store: Store, node: int, sequence: int, now: float, runs: list[JobRun], random: np.random.Generator
) -> None:
    report = Report(
        node=f"node-{node}",
        node_class=NodeClass(instance_type="m5.large", cpus=8),
        incarnation=f"5a0c6c1e-0000-4000-8000-{node:012}",
        sequence=sequence + 1,
        lost_reports=0,
        end_age_seconds=2.0,
        interval_seconds=float(INTERVAL_SECONDS),
        rows=tuple(_rollup(run, random) for run in runs),
    )
    store.append(
        NewReport(
            node=report.node,
            incarnation=report.incarnation,
            sequence=report.sequence,
            lost_reports=0,
            received_unix_seconds=now,
            rows=len(report.rows),
            payload=encode_report(report),
        )
    )


def _rollup(run: JobRun, random: np.random.Generator) -> RollupRow:
    samples = random.lognormal(5.0, 0.3, 30)
    return RollupRow(
        workload=run.workload,
        container=run.container,
        pod=run.run,
        pod_uid=f"{run.run}-uid",
        pod_age_seconds=run.duration_seconds,
        covered_seconds=min(run.duration_seconds, float(INTERVAL_SECONDS)),
        cpu=_distribution(CPU_BUCKETS, samples),
        cpu_adjusted=_distribution(CPU_BUCKETS, samples),
        memory=_distribution(MEMORY_BUCKETS, random.lognormal(19.0, 0.05, 30)),
        throttled_seconds=0.0,
        waiting_seconds=0.0,
    )


def _distribution(scheme: BucketScheme, samples: np.ndarray) -> Distribution:
    buckets, counts = np.unique(scheme.find(np.asarray(samples)), return_counts=True)
    return Distribution(
        count=len(samples),
        sum=float(np.sum(samples)),
        max=float(np.max(samples)),
        buckets=dict(zip(buckets.tolist(), counts.tolist(), strict=True)),
    )
