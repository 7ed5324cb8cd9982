"""One cgroup's memory, bounds and waiting read at once, for those few that are looked at between two sweeps.

Sensing. Each reader gives None where the cgroup is gone, has no memory controller or is not understood.
"""

from __future__ import annotations

import time
from pathlib import Path

from agent.core.window.memory_shortage import MemoryReading
from agent.sensing.parsing import parse_memory_stat, parse_number, parse_pressure


def read_memory_waiting_usec(directory: Path) -> int | None:
    """Read for how long some task of a cgroup has waited for memory (PSI some) since it was made."""
    text = _read(directory / "memory.pressure")
    pressure = None if text is None else parse_pressure(text)
    return None if pressure is None else pressure.some_usec


def read_memory(directory: Path) -> MemoryReading | None:
    """Read what a cgroup uses and what holds it; bounds in force, whatever its pod states."""
    monotonic_ns = time.monotonic_ns()
    current, stat = _read(directory / "memory.current"), _read(directory / "memory.stat")
    current_bytes = None if current is None else parse_number(current)
    sizes = None if stat is None else parse_memory_stat(stat)
    if current_bytes is None or sizes is None:
        return None
    return MemoryReading(
        monotonic_ns=monotonic_ns,
        current_bytes=current_bytes,
        inactive_file_bytes=sizes[1],
        max_bytes=_read_bound(directory / "memory.max"),
        high_bytes=_read_bound(directory / "memory.high"),
    )


def _read_bound(file: Path) -> int | None:
    """Read a bound; None = none ("max"), or not known."""
    text = _read(file)
    return None if text is None else parse_number(text)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
