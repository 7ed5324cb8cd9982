"""What a sweep costs against a C program that only reads, against opening each time, and against plain Python."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler, raise_open_files_limit
from agent.sensing.state_file import RingGeometry
from tests.bench.tree import make_containers
from tests.kernel.cgroups import CgroupTree

COUNTS = (100, 250, 500, 1000, 2000)
TURNS = 9
"""Both sides are measured in turn, so that a slow moment of the machine hits both; the ratio is that of the medians."""
SWEEPS_A_TURN = 60
DAY_SECONDS = 86_400


@contextmanager
def preads_program() -> Iterator[Path]:
    """Compile tests/bench/preads.c with the flags of the extension."""
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "preads"
        source = Path(__file__).with_name("preads.c")
        subprocess.run(["cc", "-O2", "-std=c11", "-o", str(program), str(source)], check=True)
        yield program


def preads_ns(program: Path, mount: Path, paths: Sequence[str], *, rounds: int, open_each: bool = False) -> float:
    """Return the median nanoseconds of one round of bare reads over these cgroups."""
    with tempfile.NamedTemporaryFile("w", suffix=".list") as listed:
        listed.write("\n".join(paths) + "\n")
        listed.flush()
        argv = [str(program), str(mount), listed.name, str(rounds)]
        done = subprocess.run(argv + (["--open-each"] if open_each else []), check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["median_ns"])


@contextmanager
def preads_each_second(program: Path, mount: Path, paths: Sequence[str]) -> Iterator[int]:
    """Read these cgroups each second beside what the caller does; gives the process."""
    with tempfile.NamedTemporaryFile("w", suffix=".list") as listed:
        listed.write("\n".join(paths) + "\n")
        listed.flush()
        process = subprocess.Popen(
            [str(program), str(mount), listed.name, str(DAY_SECONDS), "--each-second"], stdout=subprocess.DEVNULL
        )
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()


def sweep_ns(mount: Path, paths: Sequence[str], *, force: str, turns: int, sweeps: int) -> Iterator[float]:
    """Sweep these cgroups; yields the median nanoseconds of a sweep once per turn."""
    geometry = RingGeometry(max_slots=len(paths))
    with RingFile.open(None, geometry, boot_id="bench") as rings:
        sampler = open_sampler(
            mount, rings, fd_budget=19_000, max_lanes=1, force="native" if force == "native" else "reference"
        )
        try:
            for path in paths:
                inode = (mount / path).stat().st_ino
                sampler.add(rings.attach(path, inode, now_monotonic_ns=time.monotonic_ns()), path, inode)
            sampler.sweep(slow=True, retry_absent=False)
            # Every page of the rings is touched once before anything counts: a page fault is no part of a sweep.
            for _ in range(geometry.raw_length if force == "native" else 2):
                sampler.sweep(slow=False, retry_absent=False)
            for _ in range(turns):
                times = []
                for _ in range(sweeps):
                    result = sampler.sweep(slow=False, retry_absent=False)
                    times.append(result.finished_ns - result.started_ns)
                yield statistics.median(times)
        finally:
            sampler.close()


def measure() -> Iterator[dict[str, float]]:
    """Measure each count and give its figures; keys as in build/bench.json."""
    raise_open_files_limit()
    figures: dict[str, float] = {}
    with preads_program() as program:
        for count in COUNTS:
            with CgroupTree() as tree:
                paths = make_containers(tree, count)
                tree_figures = _measure_tree(program, tree.mount, paths)
            figures |= tree_figures
            yield tree_figures
    # Linear growth: cost per container at the largest count against that at 250; 1.0 = exactly linear.
    per_250 = figures["sweep_us_250"] / 250
    yield {"sweep_growth_2000_to_250": round(figures["sweep_us_2000"] / 2000 / per_250, 3)}


def _measure_tree(program: Path, mount: Path, paths: Sequence[str]) -> dict[str, float]:
    count = len(paths)
    native, bare = [], []
    for native_ns in sweep_ns(mount, paths, force="native", turns=TURNS, sweeps=SWEEPS_A_TURN):
        native.append(native_ns)
        bare.append(preads_ns(program, mount, paths, rounds=SWEEPS_A_TURN))
    figures = {
        f"sweep_us_{count}": round(statistics.median(native) / 1e3, 1),
        f"preads_us_{count}": round(statistics.median(bare) / 1e3, 1),
        f"sweep_ratio_to_preads_{count}": round(statistics.median(native) / statistics.median(bare), 3),
    }
    if count == 250:
        python = list(sweep_ns(mount, paths, force="reference", turns=3, sweeps=10))
        each = preads_ns(program, mount, paths, rounds=SWEEPS_A_TURN, open_each=True)
        figures["sweep_ratio_to_python_250"] = round(statistics.median(native) / statistics.median(python), 3)
        figures["sweep_ratio_to_open_read_close_250"] = round(statistics.median(native) / each, 3)
    return figures
