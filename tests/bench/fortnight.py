"""What fourteen days of 5,000 nodes' reports cost the webhook; ``python -m tests.bench fortnight``.

That would be 20 million reports of 60 rows, a day and a half of computing, so three things are measured instead, each
with real code, real figures (``fortnight_reports``) and a real database:

1. One simulated hour at full width: all 5,000 nodes x 60 containers through decode, log, follow and fold. What comes
   out are the CPU that each takes and 20,040 real hourly sketches.
2. Fifteen simulated days at two small widths, everything folded by the folder: the database at 7, 14 and 15 days (it
   must stop to grow), and whether CPU and size go with the width, which is what lets 1. stand for a fortnight.
3. A database with a whole fortnight at full width: the sketches of 1. as those of each of 336 hours, written by the
   store as the folder writes. The webhook is started on it, as a process, with its file not in memory: seconds until
   ready, CPU, memory, what /readyz says meanwhile. Then the nodes report to it at their pace, admissions beside them.

What is not real: hours resemble each other (no night, no rollout), nodes are of one class, there are no DaemonSets.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

from agent.core.history.workloads.hour_peaks import hour_of
from agent.webhook.store.entries.sketch_bytes import HEAD_BYTES
from agent.webhook.store.shapes import StoredSketch
from agent.webhook.workloads.folder import OPEN_HOURS
from tests.bench.fortnight_reports import Reporter, Rows
from tests.bench.fortnight_run import INTERVALS_PER_HOUR, Run
from tests.bench.webhook import INTERVAL_SECONDS, NODES, Node, cluster_of_nodes, fill, loaded
from tests.cluster.binaries import KUBERNETES
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.webhook_process import WebhookProcess, webhook_started
from tests.webhook.open_store import open_store
from tests.webhook.postgres import postgres_server

DAYS: Final = 14
HOURS: Final = DAYS * 24
WIDTHS: Final = (15, 30)
"""Nodes of the long runs: one workload and two."""
FEW_CONTAINERS: Final = 10
"""Of a node in the long runs."""
BEGUN_UNIX_SECONDS: Final = 1_800_000_000.0
"""Of simulated time; a full hour."""
FREE_BYTES: Final = 20 << 30
START_SECONDS: Final = 600.0
"""In which the webhook must be ready, on a machine that does other things too."""
LOADED_SECONDS: Final = 1.1 * INTERVAL_SECONDS
"""A whole round of reports, and so at least one fold of one."""
MIB: Final = 1 << 20


def hour_at_full_width(folder: Path, rows: Rows, *, nodes: int) -> tuple[list[StoredSketch], dict[str, float]]:
    """Let all nodes report for an hour; give the hour's sketches and what it took."""
    run = Run(str(folder / "hour.db"), rows, nodes=nodes, began_unix_seconds=BEGUN_UNIX_SECONDS)
    run.intervals(INTERVALS_PER_HOUR + 1)  # the first one's middle lies before, for all but the last nodes
    figures = {f"fortnight_{stage}_percent_of_core": percent for stage, percent in run.percent_of_core().items()}
    run.fold_rest()
    hour = hour_of(BEGUN_UNIX_SECONDS)
    sketches = [sketch for sketch in run.store.sketches(hour) if sketch.unix_hour == hour]
    run.store.close()
    figures |= {
        "fortnight_sketches_of_an_hour": len(sketches),
        "fortnight_sketch_bytes": sum(len(sketch.payload) for sketch in sketches) / len(sketches),
        "fortnight_report_text_bytes": run.text_bytes / run.reports,
    }
    return sketches, figures


def long_runs(folder: Path, rows: Rows) -> dict[str, float]:
    """Let few nodes report for fifteen days, at each width."""
    figures: dict[str, float] = {}
    for nodes in WIDTHS:
        file = folder / f"long-{nodes}.db"
        run = Run(
            str(file),
            rows,
            nodes=nodes,
            began_unix_seconds=BEGUN_UNIX_SECONDS,
            containers=FEW_CONTAINERS,
        )
        containers = nodes // 15 * FEW_CONTAINERS
        for day in range(1, DAYS + 2):
            run.intervals(24 * INTERVALS_PER_HOUR)
            if day in (DAYS // 2, DAYS, DAYS + 1):
                run.store.close()  # SQLite then puts its log, which is as large for any width, into the file
                key = f"fortnight_kib_per_container_day_{day}_width_{nodes}"
                figures[key] = file.stat().st_size / 1024 / containers
        spent = sum(run.cpu_seconds.values())
        figures[f"fortnight_cpu_ms_per_report_width_{nodes}"] = spent / run.reports * 1e3
        run.store.close()
    return figures


def write_fortnight(url: str, hour: Sequence[StoredSketch], *, newest_unix_hour: int) -> float:
    """Fill a store with as many hours; give the bytes that it takes."""
    store = open_store(url)
    try:
        for unix_hour in range(newest_unix_hour - HOURS + 1, newest_unix_hour + 1):
            moved = (StoredSketch(key=sketch.key, unix_hour=unix_hour, payload=sketch.payload) for sketch in hour)
            store.fold(0, moved, 0, base_id=0)
        oldest, open_hour = newest_unix_hour - HOURS + 1, newest_unix_hour + 2 - OPEN_HOURS
        while store.keep_heads(oldest, open_hour, length=HEAD_BYTES):  # as the leader did, hour by hour
            pass
        return float(store.size_bytes())
    finally:
        store.close()


def forget_file(path: Path) -> None:
    """Have the kernel drop what it holds of a file in memory: a pod that starts elsewhere has none of it."""
    for file_path in path.parent.glob(f"{path.name}*"):
        file = os.open(file_path, os.O_RDONLY)
        try:
            os.fdatasync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def peak_rss_mib(pid: int) -> float:
    """Return the most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M)
    assert match is not None
    return int(match[1]) / 1024


def start_up(hook: WebhookProcess, began: float) -> dict[str, float]:
    """Ask a webhook that has just begun again and again whether it is ready; give what its start took."""
    asked: list[float] = []
    refused_connections = 0
    said: set[str] = set()
    while True:
        if time.monotonic() - began > START_SECONDS or not hook.process.is_running():
            raise RuntimeError(f"the webhook does not become ready; it said {sorted(said)}\n{hook.process.tail()}")
        before = time.monotonic()
        try:
            reply = hook.ask("GET", "/readyz")
        except OSError:
            refused_connections += 1
            time.sleep(0.05)
            continue
        asked.append(time.monotonic() - before)
        said.add(re.sub(r"\d+ s", "N s", reply.body.decode().strip()))
        if reply.status == 200:
            break
        time.sleep(0.05)
    ready = time.monotonic() - began
    print(f"fortnight: /readyz said {sorted(said)}", file=sys.stderr)
    while not hook.series("plimsoll_history_loaded"):
        time.sleep(0.1)
    process = psutil.Process(hook.process.pid)
    times = process.cpu_times()
    return {
        "start_ready_seconds": ready,
        "start_loaded_seconds": time.monotonic() - began,
        "start_cpu_seconds": times.user + times.system,
        "start_rss_mib": process.memory_info().rss / MIB,
        "start_peak_rss_mib": peak_rss_mib(process.pid),
        "start_readyz_answers": len(asked),
        "start_readyz_slowest_ms": max(asked) * 1e3,
    }


@contextmanager
def _nodes(stack: ExitStack, folder: Path, rows: Rows, count: int) -> Iterator[tuple[ControlPlane, list[Node]]]:
    plane = stack.enter_context(control_plane(KUBERNETES, directory=folder / "plane", with_controllers=False))
    print(f"fortnight: {count} pods and their tokens are made", file=sys.stderr)
    yield plane, [Reporter(node, rows) for node in cluster_of_nodes(plane, count)]


def with_fortnight(
    folder: Path, hour: Sequence[StoredSketch], rows: Rows, *, nodes: int, databases: Iterable[str], seconds: float
) -> dict[str, float]:
    """Start the webhook on a whole fortnight, and let the nodes report to it."""
    figures: dict[str, float] = {}
    with ExitStack() as stack:
        plane, reporters = stack.enter_context(_nodes(stack, folder, rows, nodes))
        for database in databases:
            suffix = "" if database == "sqlite" else f"_{database}"
            with ExitStack() as own:
                url = path = str(folder / "fortnight.db")
                if database == "postgresql":
                    server = own.enter_context(postgres_server(is_durable=True))
                    url = server.tcp_url(server.new_database())
                print(f"fortnight: {HOURS} hours are written, {database}", file=sys.stderr)
                size = write_fortnight(url, hour, newest_unix_hour=hour_of(time.time()) - 1)
                database_figures = {"database_mib": size / MIB}
                if database == "sqlite":
                    forget_file(Path(path))
                began = time.monotonic()
                arguments = ("--set=act.excludedNamespaces=kube-system",)
                with webhook_started(plane, folder, database=url, arguments=arguments) as hook:
                    database_figures |= start_up(hook, began)
                    if seconds > 0:
                        print(f"fortnight: every node reports, {database}", file=sys.stderr)
                        database_figures |= fill(hook, plane, reporters)
                        database_figures |= loaded(hook, plane, reporters, seconds)
                        database_figures["webhook_peak_rss_mib"] = peak_rss_mib(hook.process.pid)
                        database_figures["reports_folded"] = hook.series("plimsoll_reports_folded_total")
                figures |= {f"fortnight_{key}{suffix}": value for key, value in database_figures.items()}
                for file_path in folder.glob("fortnight.db*"):
                    file_path.unlink()
    return figures


def measure(
    *,
    nodes: int = NODES,
    databases: Sequence[str] = ("sqlite", "postgresql"),
    seconds: float = LOADED_SECONDS,
    is_long: bool = True,
) -> dict[str, float]:
    """Measure all; keys begin with ``fortnight_``, and end with the database where it is not SQLite."""
    with TemporaryDirectory(prefix="plimsoll-fortnight-") as name:
        folder = Path(name)
        free = shutil.disk_usage(folder).free
        if free < FREE_BYTES:
            raise RuntimeError(f"{folder}: {free >> 30} GiB free; {FREE_BYTES >> 30} are needed")
        rows = Rows()
        print(f"fortnight: {nodes} nodes report for an hour", file=sys.stderr)
        hour, figures = hour_at_full_width(folder, rows, nodes=nodes)
        if is_long:
            print(f"fortnight: {WIDTHS} nodes report for {DAYS + 1} days", file=sys.stderr)
            figures |= long_runs(folder, rows)
        figures |= with_fortnight(folder, hour, rows, nodes=nodes, databases=databases, seconds=seconds)
    return {key: round(value, 2) for key, value in figures.items()}
