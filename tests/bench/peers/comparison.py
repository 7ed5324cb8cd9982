"""The measuring itself, on this machine or inside the guest: each candidate in turn on the same cgroups.

``python -m tests.bench.peers.comparison TERMS.json OUT.jsonl`` writes a line as each candidate is done. A candidate
runs in a cgroup of its own, and its CPU time is that cgroup's: to the microsecond, all threads and children, those that
ended too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.bench.machine_load import LoadMeter
from tests.bench.peers.candidates import Candidate, Place, Tools, get, makers, median_and_oldest
from tests.bench.tree import make_containers
from tests.guest.full_tree import FullTree
from tests.kernel.cgroups import CgroupTree, cgroup2_mount

SCRAPE_SECONDS: Final = 15.0
READY_SECONDS: Final = 300.0
"""A start takes a second; inside the guest half a minute."""
BUSY: Final = 10
"""Containers whose counters move ten times a second; the others' stand still, as most of a node's do at a moment."""
DUTY: Final = """
import time
while True:
    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    time.sleep(0.099)
"""
"""1 % of a core: counters move, and the CPU is left to the candidates."""
MEMORY: Final = "/dev/shm"
OPEN_FILES: Final = 1024 * 1024
"""The hard limit that a container runtime gives; with the kernel's own, 4,096, files of pods would be opened anew at
each slow tick. Where it may not be raised it stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is measured for how long."""

    count: int
    warm_up_seconds: float
    window_seconds: float
    scraped_seconds: float
    """After the window, with a GET each 15 s."""
    preads: str
    cadvisor: str | None
    below: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One candidate's figures; None = it has no such thing."""

    count: int
    name: str
    cpu_percent_of_core: float
    cpu_percent_of_core_scraped: float | None
    page_kib: float | None
    rss_mib: float
    rss_anon_mib: float
    sweeps_per_second: float | None
    age_median_seconds: float | None
    age_oldest_seconds: float | None
    others_percent_of_machine: float
    """CPU time that neither the candidate nor the loads took; inside the guest of the guest."""
    steal_percent_of_machine: float
    is_load_worthless: bool


class CandidateError(RuntimeError):
    """A candidate did not start, or ended before it was measured; its last words are in the message."""


def compare(terms: Terms, out: Path) -> None:
    """Measure all candidates; one that fails is told of and left out."""
    mount = cgroup2_mount()
    if mount is None:
        raise RuntimeError("no cgroup v2 mount")
    has_controllers = "memory" in (mount / "cgroup.controllers").read_text().split()
    with (FullTree if has_controllers else CgroupTree)(mount) as tree, tempfile.TemporaryDirectory() as folder:
        paths = make_containers(tree, terms.count, ("sleep", "1000000"))
        for path in paths[:: max(len(paths) // BUSY, 1)][:BUSY]:
            tree.spawn(path.removeprefix(f"{tree.name}/"), (sys.executable, "-I", "-S", "-c", DUTY))
        list_file = Path(folder) / "containers"
        list_file.write_text("\n".join(paths) + "\n")
        tools = Tools(
            preads=Path(terms.preads),
            cadvisor=None if terms.cadvisor is None else Path(terms.cadvisor),
            below=None if terms.below is None else Path(terms.below),
        )
        for make in makers(tools):
            with (
                tempfile.TemporaryDirectory(dir=folder) as scratch,
                tempfile.TemporaryDirectory(dir=MEMORY) as rings,
            ):
                candidate = make(
                    Place(
                        mount=mount,
                        tree_name=tree.name,
                        list_file=list_file,
                        count=terms.count,
                        scratch=Path(scratch),
                        rings=Path(rings),
                    )
                )
                print(f"peers: {terms.count} containers: {candidate.name}", flush=True)
                try:
                    measured = measure(tree, candidate, terms, Path(scratch) / "log")
                except CandidateError as error:
                    print(f"peers: left out: {error}", flush=True)
                    continue
            with out.open("a") as lines:
                lines.write(json.dumps(asdict(measured)) + "\n")


def measure(tree: CgroupTree, candidate: Candidate, terms: Terms, log: Path) -> Measured:
    """Run one candidate: until it is ready, warm-up, window, window with scrapes.

    Raises:
        CandidateError: It did not start, or did not live to the end.
    """
    cgroup = "candidate"
    script = f'ulimit -Hn {OPEN_FILES} 2>/dev/null; exec "$@" >{log} 2>&1'
    process = tree.spawn(cgroup, ("sh", "-c", script, "sh", *candidate.command))
    try:
        _wait_ready(candidate, process, log)
        time.sleep(terms.warm_up_seconds)
        meter = LoadMeter()
        sweeps = None if candidate.sweeps is None else candidate.sweeps()
        began, before = time.monotonic(), cpu_seconds(tree, cgroup)
        time.sleep(terms.window_seconds)
        spent, used = time.monotonic() - began, cpu_seconds(tree, cgroup) - before
        load = meter.load()
        sweeps_per_second = None
        if candidate.sweeps is not None and sweeps is not None:
            sweeps_per_second = round((candidate.sweeps() - sweeps) / spent, 3)
        scraped, page_kib = _scraped(tree, cgroup, candidate, terms.scraped_seconds)
        ages = median_and_oldest([] if candidate.ages_seconds is None else candidate.ages_seconds())
        rss_mib, anon_mib = resident_mib(tree, cgroup)
        if process.poll() is not None:
            raise CandidateError(_last_words(candidate, process, log))
    except OSError as error:
        raise CandidateError(f"{error}; {_last_words(candidate, process, log)}") from error
    finally:
        tree.remove(cgroup)
    return Measured(
        count=terms.count,
        name=candidate.name,
        cpu_percent_of_core=round(100 * used / spent, 3),
        cpu_percent_of_core_scraped=scraped,
        page_kib=page_kib,
        rss_mib=round(rss_mib, 1),
        rss_anon_mib=round(anon_mib, 1),
        sweeps_per_second=sweeps_per_second,
        age_median_seconds=None if ages is None else round(ages[0], 2),
        age_oldest_seconds=None if ages is None else round(ages[1], 2),
        others_percent_of_machine=round(100 * load.others_ratio, 1),
        steal_percent_of_machine=round(100 * load.steal_ratio, 1),
        is_load_worthless=load.is_worthless,
    )


def _wait_ready(candidate: Candidate, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not candidate.is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise CandidateError(_last_words(candidate, process, log))
        time.sleep(0.25)


def _last_words(candidate: Candidate, process: subprocess.Popen[bytes], log: Path) -> str:
    words = " ".join(log.read_text(errors="replace").split()) if log.is_file() else ""
    return f"{candidate.name}: exit code {process.poll()}: {words[-500:] or '(no word)'}"


def _scraped(
    tree: CgroupTree, cgroup: str, candidate: Candidate, seconds: float
) -> tuple[float, float] | tuple[None, None]:
    """Return the CPU in % of a core with a GET each 15 s, and the size of a page."""
    if candidate.metrics_url is None or seconds <= 0:
        return None, None
    url = candidate.metrics_url()
    get(url)  # the first page of a process is dearer for everybody, and it is one in a life
    sizes: list[int] = []
    began, before = time.monotonic(), cpu_seconds(tree, cgroup)
    while (due := began + len(sizes) * SCRAPE_SECONDS) < began + seconds:
        time.sleep(max(due - time.monotonic(), 0.0))
        sizes.append(len(get(url)))
    time.sleep(max(began + seconds - time.monotonic(), 0.0))
    spent, used = time.monotonic() - began, cpu_seconds(tree, cgroup) - before
    return round(100 * used / spent, 3), round(sizes[-1] / 1024, 1)


def cpu_seconds(tree: CgroupTree, cgroup: str) -> float:
    """Return the CPU time of all that ever ran in a cgroup."""
    for line in (tree.absolute(cgroup) / "cpu.stat").read_text().splitlines():
        if line.startswith("usage_usec "):
            return int(line.split()[1]) / 1e6
    raise CandidateError(f"{cgroup}: cpu.stat has no usage_usec")


def resident_mib(tree: CgroupTree, cgroup: str) -> tuple[float, float]:
    """Return resident memory of a cgroup's processes, and of it what is anonymous; MiB."""
    rss_kib = anon_kib = 0
    for pid in (tree.absolute(cgroup) / "cgroup.procs").read_text().split():
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        rss_kib += int(fields["Rss"].split()[0])
        anon_kib += int(fields["Anonymous"].split()[0])
    return rss_kib / 1024, anon_kib / 1024


if __name__ == "__main__":
    compare(Terms(**json.loads(Path(sys.argv[1]).read_text())), Path(sys.argv[2]))
