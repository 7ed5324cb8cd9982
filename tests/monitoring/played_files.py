"""Cgroups whose files are played: every controller and PSI there, on machines whose kernel has them not.

The agent that reads them is real; it is told of this directory as of any other mount.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cgroup_files import CgroupFiles

STEP_SECONDS: Final = 0.1
MIB: Final = 1 << 20
_STILL: Final = "avg10=0.00 avg60=0.00 avg300=0.00 total=0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a container does, all the time."""

    cpu_cores: float = 0.05
    waiting_ratio: float = 0.0
    throttled_ratio: float = 0.0
    memory_bytes: int = 32 * MIB
    memory_max_bytes: int | None = None


class PlayedTree:
    """A ``CgroupTree`` as far as ``ActingNode`` asks; its counters grow as long as the block lasts."""

    def __init__(self, directory: Path) -> None:
        self.mount = directory / "cgroup"
        self.name = "played"
        self._files = CgroupFiles(self.mount)
        self._files.make(self.name)
        self._loads: dict[str, Load] = {}
        self._seconds: dict[str, float] = {}
        self._kills: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._play, name="played cgroups")

    def __enter__(self) -> PlayedTree:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def make(self, path: str) -> Path:
        """Make a cgroup that idles; it is played from ``play`` on."""
        self._files.make(f"{self.name}/{path}")
        return self.mount / self.name / path

    def play(self, path: str, load: Load) -> None:
        """Let a cgroup do something from now on."""
        with self._lock:
            self._loads[path] = load
            self._seconds.setdefault(path, 0.0)

    def kill(self, path: str) -> None:
        """Let the kernel kill in it for want of memory, once."""
        with self._lock:
            self._kills[path] = self._kills.get(path, 0) + 1

    def _play(self) -> None:
        while not self._stopping.wait(STEP_SECONDS):
            with self._lock:
                for path, load in self._loads.items():
                    self._seconds[path] += STEP_SECONDS
                    self._write(path, load, self._seconds[path], self._kills.get(path, 0))

    def _write(self, path: str, load: Load, seconds: float, kills: int) -> None:
        here = self.mount / self.name / path
        usec, periods = seconds * 1e6, int(seconds * 10)
        usage, throttled = int(usec * load.cpu_cores), int(usec * load.throttled_ratio)
        file = load.memory_bytes // 8
        limit = "max" if load.memory_max_bytes is None else str(load.memory_max_bytes)
        # Waiting because of one's own limit is PSI as well.
        waiting = int(usec * (load.waiting_ratio + load.throttled_ratio))
        line = f"avg10=0.00 avg60=0.00 avg300=0.00 total={waiting:012d}"
        texts = {
            "cpu.stat": f"usage_usec {usage:012d}\nuser_usec {usage:012d}\nsystem_usec 0\nnr_periods {periods:09d}\n"
            f"nr_throttled {int(periods * load.throttled_ratio):09d}\nthrottled_usec {throttled:012d}\n",
            "cpu.pressure": f"some {line}\nfull {line}\n",
            # Nobody waits for memory or disks; the kernel says so, and does not leave the files out.
            "memory.pressure": f"some {_STILL}\nfull {_STILL}\n",
            "io.pressure": f"some {_STILL}\nfull {_STILL}\n",
            "memory.current": f"{load.memory_bytes:012d}\n",
            "memory.peak": f"{load.memory_bytes:012d}\n",
            "memory.max": f"{limit}\n",
            "memory.stat": f"anon {load.memory_bytes - file:012d}\nfile {file:012d}\ninactive_file {file:012d}\n",
            "memory.events": f"low 0\nhigh 0\nmax {kills}\noom {kills}\noom_kill {kills}\n",
        }
        for name, text in texts.items():
            # In place and of the same length: the agent keeps files open, and a kernel's are never half there.
            with (here / name).open("r+b" if (here / name).exists() else "wb") as open_file:
                open_file.write(text.encode())
                open_file.truncate()
