"""What the process takes that is asked, as ``process_*``: memory, CPU, start and descriptors.

Metrics. The library's collector counts descriptors by listing them at each scrape, which for the 2,000 that 250
containers take was two fifths of what a scrape cost. What cannot be read is left out: a process that is out of
descriptors still answers.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

COUNTED_SECONDS: Final = 60.0
"""How old the number of open files may be where the kernel does not tell it (before 6.2)."""
_PROCESS: Final = Path("/proc/self")
_UTIME, _STIME, _START, _VIRTUAL, _RESIDENT = 11, 12, 19, 20, 21
"""Fields of /proc/self/stat behind the name, which may hold spaces; proc(5) counts three more."""


class ProcessSeries(Collector):
    """Tells of the process that asks."""

    def __init__(
        self,
        *,
        process: Path = _PROCESS,
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
        # What the kernel tells of a directory of descriptors; 0 = it does not
        told_open_files: Callable[[Path], int] = lambda directory: directory.stat().st_size,
    ) -> None:
        self._process, self._clock, self._told_open_files = process, clock, told_open_files
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._booted_unix_seconds = _booted_unix_seconds(proc)
        self._open_files = 0
        self._counted_seconds: float | None = None

    def collect(self) -> Iterable[Metric]:
        """Return the families of now."""
        yield from self._of_stat()
        open_files = self._count_open_files()
        if open_files is not None:
            yield GaugeMetricFamily(
                "process_open_fds",
                f"Files that the process has open; before kernel 6.2 counted once in {COUNTED_SECONDS:g} s.",
                float(open_files),
            )
        yield GaugeMetricFamily(
            "process_max_fds",
            "Files that the process may have open.",
            float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        )

    def _of_stat(self) -> Iterable[Metric]:
        try:
            fields = (self._process / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return
        yield GaugeMetricFamily(
            "process_virtual_memory_bytes", "Address space that the process has reserved.", float(fields[_VIRTUAL])
        )
        yield GaugeMetricFamily(
            "process_resident_memory_bytes",
            "Memory of the process that is in RAM.",
            float(fields[_RESIDENT]) * self._page_bytes,
        )
        if self._booted_unix_seconds is not None:
            yield GaugeMetricFamily(
                "process_start_time_seconds",
                "When the process started, Unix time.",
                self._booted_unix_seconds + float(fields[_START]) / self._ticks,
            )
        yield CounterMetricFamily(
            "process_cpu_seconds_total",
            "CPU time that the process has used, of user and kernel.",
            (float(fields[_UTIME]) + float(fields[_STIME])) / self._ticks,
        )

    def _count_open_files(self) -> int | None:
        """Return the number of open files; None = it cannot be told."""
        directory = self._process / "fd"
        now = self._clock()
        try:
            count = self._told_open_files(directory)
            if count:
                return count
            if self._counted_seconds is None or now - self._counted_seconds >= COUNTED_SECONDS:
                self._open_files, self._counted_seconds = len(os.listdir(directory)), now
        except OSError:
            return None
        return self._open_files


def _booted_unix_seconds(proc: Path) -> float | None:
    """Return when the machine started; None = the kernel does not say."""
    try:
        lines = (proc / "stat").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)
