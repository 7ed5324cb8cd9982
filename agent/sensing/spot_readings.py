"""What one cgroup's files say at this moment, for what no sweep reads: its limits, and its memory between two sweeps.

Sensing. Each reader returns None where the cgroup is gone, has no such controller or is not understood.
"""

from __future__ import annotations

import time
from pathlib import Path

from agent.core.machine.cpu_knobs import parse_cpu_max
from agent.core.window.memory_shortage import MemoryReading
from agent.sensing.cgroup_text import parse_memory_stat, parse_number, parse_pressure


def read_cpu_max_millicores(directory: Path) -> int | None:
    """Read a cgroup's own cpu.max; None also where it sets no limit."""
    text = _read(directory / "cpu.max")
    try:
        return None if text is None else parse_cpu_max(text.decode("ascii")).millicores
    except ValueError:
        return None


def read_memory_max_bytes(directory: Path) -> int | None:
    """Read a cgroup's own memory.max; None also where it sets no limit."""
    return _read_bytes(directory / "memory.max")


def read_memory_waiting_usec(directory: Path) -> int | None:
    """Read for how long some task of a cgroup has waited for memory (PSI some) since it was made."""
    text = _read(directory / "memory.pressure")
    pressure = None if text is None else parse_pressure(text)
    return None if pressure is None else pressure.some_usec


def read_memory(directory: Path) -> MemoryReading | None:
    """Read what a cgroup uses and what holds it; bounds in force, whatever its pod states."""
    monotonic_ns = time.monotonic_ns()
    current_bytes = _read_bytes(directory / "memory.current")
    stat = _read(directory / "memory.stat")
    sizes = None if stat is None else parse_memory_stat(stat)
    if current_bytes is None or sizes is None:
        return None
    return MemoryReading(
        monotonic_ns=monotonic_ns,
        current_bytes=current_bytes,
        inactive_file_bytes=sizes[1],
        max_bytes=read_memory_max_bytes(directory),
        high_bytes=_read_bytes(directory / "memory.high"),
    )


def _read_bytes(file: Path) -> int | None:
    """Read a file of one number; None also for "max"."""
    text = _read(file)
    return None if text is None else parse_number(text)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
