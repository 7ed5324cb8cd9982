"""What ``plimsoll simulate`` costs: all policies over 1,000 containers and 7 days of minutes, the file included.

The command is run as a person runs it, on a CSV of ten million rows; memory is what all its processes hold at once
(PSS: pages that forks share count once).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CONTAINERS = 1000
MINUTES = 7 * 1440
START_UNIX_MINUTE = 28_333_440
_LOOK_SECONDS = 0.25


def made_up_demand(containers: int, minutes: int, seed: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give CPU in millicores and memory in bytes, ``(minutes, containers)`` each: daily waves, noise, steps, bursts."""
    random = np.random.default_rng(seed)
    at = np.arange(minutes)[:, None]
    wave = np.sin(2 * np.pi * (at / 1440 + random.random(containers)))
    cpu = random.lognormal(5, 1, containers) * (1 + 0.5 * wave) * random.lognormal(0, 0.15, (minutes, containers))
    memory = random.lognormal(19.5, 1, containers) * (1 + 0.1 * wave) * random.lognormal(0, 0.02, (minutes, containers))
    for row in range(0, containers, 3):
        begin = int(random.integers(0, minutes))
        cpu[begin : begin + 600, row] *= 2.5
    bursts = random.random((minutes, containers)) < 0.001
    cpu[bursts] *= 4
    return cpu, memory


def write_csv(path: Path, containers: int = CONTAINERS, minutes: int = MINUTES) -> None:
    """Write the demand as a trace, sorted by time."""
    cpu, memory = made_up_demand(containers, minutes)
    names = [f"shop/web-{row}/app" for row in range(containers)]
    with path.open("w") as stream:
        stream.write("time,container,cpu_millicores,memory_bytes\n")
        for minute in range(minutes):
            seconds = 60 * (START_UNIX_MINUTE + minute)
            stream.writelines(
                f"{seconds},{name},{used:.3f},{held:.0f}\n"
                for name, used, held in zip(names, cpu[minute].tolist(), memory[minute].tolist(), strict=True)
            )


def measure() -> dict[str, float]:
    """Measure; keys as in build/bench.json."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "week.csv")
        write_csv(path)
        began, used = time.monotonic(), _children_cpu_seconds()
        process = subprocess.Popen(
            [sys.executable, "-m", "agent", "simulate", str(path), "-o", "json"], stdout=subprocess.DEVNULL
        )
        peak_kib = 0
        while process.poll() is None:
            peak_kib = max(peak_kib, sum(map(_pss_kib, _tree(process.pid))))
            time.sleep(_LOOK_SECONDS)
        seconds = time.monotonic() - began
    if process.returncode != 0:
        raise RuntimeError(f"plimsoll simulate ended with {process.returncode}")
    return {
        "simulate_seconds_1000x7d": round(seconds, 1),
        "simulate_cpu_seconds_1000x7d": round(_children_cpu_seconds() - used, 1),
        "simulate_peak_mib": round(peak_kib / 1024, 1),
    }


def _children_cpu_seconds() -> float:
    """Return the CPU time of all children that have ended: what the seconds would be without others on the machine."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _tree(pid: int) -> list[int]:
    """Return a process and all below it; those that are gone are left out."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(descendant for child in children for descendant in _tree(int(child)))]


def _pss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
