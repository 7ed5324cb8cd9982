"""What a report of 250 containers costs: bytes as sent, and CPU time to make, write, pack and keep it.

Loads are as containers of clusters have them: most nearly idle with a tick now and then, services with requests that
come in clumps, workers in phases, garbage-collected heaps; a few are throttled or wait.
"""

from __future__ import annotations

import tempfile
import time
import uuid
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass, Report, RollupRow
from agent.core.history.reports.rollup_figures import rollup_figures
from agent.core.history.reports.rollup_json import kept_text, sent_text
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, SAMPLE, Has
from agent.node.files.steady_clock import BootClock
from agent.node.reports.report_queue import ReportQueue

CONTAINERS = 250
SECONDS = 700
NS = 1_000_000_000
START_NS = 3600 * NS
MIB = 1 << 20


def usage_of(kind: int, random: np.random.Generator, length: int) -> Any:
    """Return CPU time of each second, microseconds."""
    seconds = np.arange(length)
    if kind < 5:  # nearly idle: a probe each ten seconds, a little work now and then
        base = random.lognormal(6.5, 1.0)
        usec = random.gamma(1.0, base, length) + (seconds % 10 == random.integers(10)) * random.gamma(4.0, 2000.0)
        return usec + (random.random(length) < 0.01) * random.gamma(2.0, 50_000.0, length)
    if kind < 8:  # requests in clumps, with a slow wave
        base = random.lognormal(10.5, 1.0)
        wave = 1.0 + 0.5 * np.sin(seconds / random.uniform(40.0, 400.0) + random.uniform(0, 6.0))
        return random.gamma(0.7, base / 0.7, length) * wave
    busy = (seconds // random.integers(20, 200)) % 2  # a worker in phases
    return np.where(busy, random.normal(9e5, 5e4, length), random.gamma(1.0, 3000.0, length))


def rings_of(number: int, length: int = SECONDS) -> tuple[np.ndarray, np.ndarray]:
    """Return the raw rows and the memory rows of one container over so many seconds."""
    random = np.random.default_rng(number)
    usec = usage_of(number % 10, random, length)
    raw = np.zeros(length, SAMPLE)
    raw["monotonic_ns"] = START_NS + np.arange(length) * NS + random.integers(0, 2_000_000, length)
    raw["usage_usec"] = np.cumsum(np.clip(usec, 0.0, 4e6))
    raw["cpu_some_usec"] = np.cumsum(random.gamma(0.5, 4000.0, length))
    raw["nr_periods"] = np.arange(length) * 10
    if number % 7 == 0:
        raw["nr_throttled"] = np.cumsum(random.random(length) < 0.1)
        raw["throttled_usec"] = raw["nr_throttled"] * np.uint64(30_000)
    raw["has"] = int(Has.PRESSURE | Has.THROTTLED | Has.MEMORY)
    rows = length // 10
    memory = np.zeros(rows, MEMORY_ROW)
    memory["monotonic_ns"] = START_NS + np.arange(rows) * 10 * NS
    heap = random.uniform(0.0, 1.0) * (np.arange(rows) % random.integers(5, 60)) / 30.0  # filled, and collected
    working_set = random.lognormal(18.0, 1.0) * (1.0 + heap + random.normal(0.0, 0.003, rows))
    memory["memory_current_bytes"] = working_set + 40 * MIB
    memory["inactive_file_bytes"] = 40 * MIB
    memory["working_set_peak_bytes"] = working_set * 1.001
    memory["has"] = int(Has.MEMORY | Has.MEMORY_STAT | Has.MEMORY_EVENTS)
    return raw, memory


def name_of(number: int, random: np.random.Generator) -> tuple[Workload, str, str, str]:
    """Return workload, container, pod and uid as a Deployment's pods are called."""
    team, service = ("payments", "search", "checkout", "platform")[number % 4], f"service-{number // 8}"
    letters = "bcdfghjklmnpqrstvwxz2456789"
    suffix = "".join(random.choice(list(letters), 5).tolist())
    template = "".join(random.choice(list(letters), 10).tolist())
    container = ("app", "istio-proxy")[number % 2]
    workload = Workload(namespace=f"{team}-production", kind="Deployment", name=service)
    return workload, container, f"{service}-{template}-{suffix}", str(uuid.UUID(bytes=random.bytes(16)))


def rows_of(rings: list[tuple[np.ndarray, np.ndarray]], policy: WindowPolicy) -> tuple[RollupRow, ...]:
    """Make the rows of five minutes."""
    random = np.random.default_rng(7)
    rows = []
    for number, (raw, memory) in enumerate(rings):
        workload, container, pod, uid = name_of(number, random)
        figures = rollup_figures((raw,), (memory,), policy, start_ns=START_NS + 390 * NS, end_ns=START_NS + 690 * NS)
        assert figures is not None
        rows.append(
            RollupRow(
                workload=workload,
                container=container,
                pod=pod,
                pod_uid=uid,
                pod_age_seconds=float(random.integers(600, 2_000_000)),
                covered_seconds=figures.covered_seconds,
                cpu=figures.cpu,
                cpu_adjusted=figures.cpu_adjusted,
                memory=figures.memory,
                throttled_seconds=figures.throttled_seconds,
                waiting_seconds=figures.waiting_seconds,
            )
        )
    return tuple(rows)


def measure() -> dict[str, float]:
    """Measure; keys as in build/bench.json."""
    policy = WindowPolicy(capacity_millicores=64_000)
    rings = [rings_of(number) for number in range(CONTAINERS)]
    with tempfile.TemporaryDirectory() as directory:
        queue = ReportQueue(Path(directory), max_bytes=1 << 24, boot=BootClock.of_machine(), wall_now=time.time)
        taken_ms: list[dict[str, float]] = []
        for _ in range(5):
            marks = [("", time.process_time())]
            rows = rows_of(rings, policy)
            marks.append(("rows", time.process_time()))
            report = Report(
                node="ip-10-0-17-204.eu-central-1.compute.internal",
                node_class=NodeClass(instance_type="m5.16xlarge", cpus=64),
                incarnation=str(uuid.uuid4()),
                sequence=1,
                lost_reports=0,
                end_age_seconds=5.0,
                interval_seconds=300.0,
                rows=rows,
            )
            text = kept_text(report, agent="0.1.0")
            marks.append(("text", time.process_time()))
            queue.add(lambda *_: text, end=BootClock.of_machine().ahead(0.0), end_unix_seconds=time.time())  # noqa: B023
            marks.append(("queue", time.process_time()))
            outgoing = queue.oldest()
            assert outgoing is not None
            sent = sent_text(outgoing.kept, end_age_seconds=5.0, lost_reports=0).encode()
            packer = zlib.compressobj(6, zlib.DEFLATED, 31)
            packed = packer.compress(sent) + packer.flush()
            queue.taken(outgoing)
            marks.append(("send", time.process_time()))
            taken_ms.append({name: (at - before) * 1e3 for (_, before), (name, at) in pairwise(marks)})
    figures = {
        f"report_{part}_cpu_ms_{CONTAINERS}": round(sorted(run[part] for run in taken_ms)[2], 2) for part in taken_ms[0]
    }
    return {
        f"report_gzip_kib_{CONTAINERS}": round(len(packed) / 1024, 1),
        f"report_json_kib_{CONTAINERS}": round(len(sent) / 1024, 1),
        f"report_cpu_ms_{CONTAINERS}": round(sum(figures.values()), 2),
        **figures,
    }


if __name__ == "__main__":
    for key, figure in measure().items():
        print(f"{key} {figure}")
