"""What the whole agent costs: CPU, memory, disk and lateness at N containers, 1 Hz and a scrape each 15 s.

The agent remembers a week of all its containers, as on a node: what policies hold of it is a good part of its memory.
The state lies on the disk of the temporary directory, the rings in memory, as on a node. Before and after the agent a
program that only reads the same files each second runs alone: on some machines whatever was not touched for a second is
many times dearer to touch, so that a share of a core says as much of them as of the agent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agent.core.history.minute.key import history_key
from agent.core.history.minute.minutes import Minutes
from agent.node.files.documents import SNAPSHOT
from agent.node.history.file import HISTORY_FILE_NAME, HistoryFile
from agent.node.recommender.notes import HISTORY_UNREAD
from agent.node.sockets.control import request
from agent.sensing.cgroup_path import identify
from tests.bench.sweeps import DAY_SECONDS, preads_each_second, preads_program
from tests.bench.tree import make_containers
from tests.kernel.cgroups import CgroupTree

SECONDS = 180.0
PREADS_SECONDS = 30.0
"""Of each of the two runs of bare reads."""
SETTLED_SECONDS = 3.0
SCRAPE_SECONDS = 15.0
START_SECONDS = 30.0
LEARN_SECONDS = 300.0
"""A week of a thousand containers, on a slow machine."""
WEEK_MINUTES = 7 * 1440
MIB = 1024 * 1024
MEMORY = "/dev/shm"
"""A tmpfs everywhere, as /run is on a node."""


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> dict[str, float]:
    """Return resident memory of a process: all pages, and of them anonymous ones; MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = {key: int(rest.split()[0]) for key, _, rest in (line.partition(":") for line in lines) if "kB" in rest}
    return {"all": kib["VmRSS"] / 1024, "anon": kib["RssAnon"] / 1024}


def written_mib(pid: int) -> float:
    """Return what a process has had written to disks so far, MiB; pages that were dirtied and not given up count."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return (int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"])) / MIB


def measure(count: int, *, seconds: float = SECONDS) -> dict[str, float]:
    """Run ``plimsoll agent`` on a tree of this many containers; keys as in build/bench.json."""
    with (
        preads_program() as program,
        CgroupTree() as tree,
        tempfile.TemporaryDirectory() as scratch,
        tempfile.TemporaryDirectory(dir=MEMORY) as rings,
    ):
        paths = make_containers(tree, count)
        before_percent = _preads_percent(program, tree.mount, paths)
        figures = _run_agent(tree, Path(scratch), rings, paths, seconds)
        preads_percent = (before_percent + _preads_percent(program, tree.mount, paths)) / 2
        return figures | {
            f"preads_cpu_percent_of_core_{count}": round(preads_percent, 3),
            f"agent_ratio_to_preads_{count}": round(figures[f"agent_cpu_percent_of_core_{count}"] / preads_percent, 2),
        }


def _preads_percent(program: Path, mount: Path, paths: Sequence[str]) -> float:
    """Return how much of a core the bare reads of these cgroups take, once a second."""
    with preads_each_second(program, mount, paths) as pid:
        time.sleep(SETTLED_SECONDS)
        began, before = time.monotonic(), cpu_seconds(pid)
        time.sleep(PREADS_SECONDS)
        return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - began)


def _remember_a_week(file: Path, paths: Sequence[str], most: int) -> None:
    """Write what an agent has learnt of these cgroups in seven days."""
    random, end = np.random.default_rng(1), int(time.time()) // 60
    with HistoryFile.open(file, max_rows=most) as history:
        for identity in (identify(f"/{path}") for path in paths):
            assert identity is not None
            history.row_of(history_key(identity, None))
        known = np.ones(len(paths), dtype=np.bool_)
        for unix_minute in range(end - WEEK_MINUTES, end):
            usage = random.lognormal(4, 0.5, len(paths))
            history.append(
                Minutes(
                    unix_minute=unix_minute,
                    cpu_usage_millicores=usage,
                    cpu_peak_millicores=1.2 * usage,
                    has_cpu=known,
                    working_set_bytes=np.floor(usage * MIB),
                    has_memory=known,
                )
            )


def _run_agent(tree: CgroupTree, scratch: Path, rings: str, paths: Sequence[str], seconds: float) -> dict[str, float]:
    count = len(paths)
    socket_path = scratch / "agent.sock"
    most = max(count, 1000)
    _remember_a_week(scratch / HISTORY_FILE_NAME, paths, most)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "agent", "agent", "--cgroup-root", f"/{tree.name}", "--state-dir", str(scratch),
            "--socket", str(socket_path), "--port", "0", "--set", "logging.level=warning",
            "--set", f"sampling.maxContainers={most}", "--set", f"state.ringsDirectory={rings}",
        ]
    )  # fmt: skip
    try:
        return _watch(process, socket_path, count, seconds)
    finally:
        process.terminate()
        process.wait(10)


def _watch(process: subprocess.Popen[bytes], socket_path: Path, count: int, seconds: float) -> dict[str, float]:
    deadline = time.monotonic() + START_SECONDS
    while not socket_path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the agent did not start: exit code {process.poll()}")
        time.sleep(0.05)
    while HISTORY_UNREAD in str(request(socket_path, "recommend", {}, timeout_seconds=30)["notes"]):
        if time.monotonic() > deadline + LEARN_SECONDS:
            raise RuntimeError("the agent has not learnt its history")
        time.sleep(0.5)
    url = str(request(socket_path, "ping", {})["metrics"])
    time.sleep(2.0)  # start-up is over: what is measured from here on is the steady state
    began, before, written = time.monotonic(), cpu_seconds(process.pid), written_mib(process.pid)
    scrapes = failed = 0
    while (elapsed := time.monotonic() - began) < seconds:
        if elapsed >= scrapes * SCRAPE_SECONDS:
            failed += not _scrape(url)
            scrapes += 1
        time.sleep(0.2)
    used, spent = cpu_seconds(process.pid) - before, time.monotonic() - began
    written = written_mib(process.pid) - written
    memory = resident_mib(process.pid)
    snapshot = SNAPSHOT.from_json(request(socket_path, "snapshot", {}, timeout_seconds=30))
    lateness_seconds = snapshot.sampler.lateness_p99_seconds
    if len(snapshot.units) != count or lateness_seconds is None:
        raise RuntimeError(f"the agent watched {len(snapshot.units)} containers, not {count}")
    return {
        f"agent_cpu_percent_of_core_{count}": round(100 * used / spent, 3),
        f"agent_rss_mib_{count}": round(memory["all"], 1),
        f"agent_rss_anon_mib_{count}": round(memory["anon"], 1),
        f"agent_disk_mib_per_day_{count}": round(written / spent * DAY_SECONDS, 1),
        f"sweep_lateness_p99_ms_{count}": round(1e3 * lateness_seconds, 3),
        f"agent_scrapes_{count}": float(scrapes - failed),
        f"agent_scrapes_failed_{count}": float(failed),
    }


def _scrape(url: str) -> bool:
    """Ask for a page; one that does not come in time is counted, and costs no other figure."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own loopback address
            answer.read()
    except OSError:
        return False
    return True
