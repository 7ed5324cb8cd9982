"""What one cgroup's files say at this moment, for what no sweep reads: its limits, and its memory between two sweeps.

Sensing. Each reader returns None where the cgroup is gone, has no such controller or is not understood.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache
from os import PathLike
from typing import Final, NamedTuple

from agent.core.machine.cpu_knobs import parse_cpu_max
from agent.core.window.memory_shortage import MemoryReading
from agent.sensing.cgroup_text import parse_cpu_stat, parse_memory_stat, parse_number, parse_pressure

Directory = str | PathLike[str]

_READ_BYTES: Final = 16_384
"""memory.stat, the largest, has 3.4 KB; a read that fills this is taken for cut."""
_KEPT_LIMITS: Final = 256
"""Texts of limits whose meaning is kept: a node's containers share a few."""


class KernelLimits(NamedTuple):
    """What the kernel holds a cgroup to by its own files; None also where it sets no limit."""

    cpu_max_millicores: int | None
    memory_max_bytes: int | None


def read_limits(directory: Directory) -> KernelLimits:
    """Read a cgroup's own cpu.max and memory.max."""
    return parse_limits(_read(directory, "cpu.max") or b"", _read(directory, "memory.max") or b"")


@lru_cache(_KEPT_LIMITS)
def parse_limits(cpu_max: bytes, memory_max: bytes) -> KernelLimits:
    """Return what the texts of cpu.max and memory.max say; of an absent file the text is empty."""
    try:
        cpu_max_millicores = parse_cpu_max(cpu_max.decode("ascii")).millicores
    except ValueError:
        cpu_max_millicores = None
    return KernelLimits(cpu_max_millicores, parse_number(memory_max))


def read_memory_max_bytes(directory: Directory) -> int | None:
    """Read a cgroup's own memory.max; None also where it sets no limit."""
    return _read_bytes(directory, "memory.max")


def read_memory_current_bytes(directory: Directory) -> int | None:
    """Read what is charged to a cgroup now, file cache included."""
    return _read_bytes(directory, "memory.current")


def read_memory_peak_bytes(directory: Directory) -> int | None:
    """Read the most that a cgroup was ever charged; None also before kernel 5.19."""
    return _read_bytes(directory, "memory.peak")


def read_usage_usec(directory: Directory) -> int | None:
    """Read the CPU time that a cgroup has used since it was made."""
    text = _read(directory, "cpu.stat")
    stat = None if text is None else parse_cpu_stat(text)
    return None if stat is None else stat.usage_usec


def read_memory_waiting_usec(directory: Directory) -> int | None:
    """Read for how long some task of a cgroup has waited for memory (PSI some) since it was made."""
    text = _read(directory, "memory.pressure")
    pressure = None if text is None else parse_pressure(text)
    return None if pressure is None else pressure.some_usec


def read_memory(directory: Directory) -> MemoryReading | None:
    """Read what a cgroup uses and what holds it; bounds in force, whatever its pod states."""
    monotonic_ns = time.monotonic_ns()
    current_bytes = _read_bytes(directory, "memory.current")
    stat = _read(directory, "memory.stat")
    sizes = None if stat is None else parse_memory_stat(stat)
    if current_bytes is None or sizes is None:
        return None
    return MemoryReading(
        monotonic_ns=monotonic_ns,
        current_bytes=current_bytes,
        inactive_file_bytes=sizes.inactive_file_bytes,
        max_bytes=read_memory_max_bytes(directory),
        high_bytes=_read_bytes(directory, "memory.high"),
    )


def _read_bytes(directory: Directory, file: str) -> int | None:
    """Read a file of one number; None also for "max"."""
    text = _read(directory, file)
    return None if text is None else parse_number(text)


def _read(directory: Directory, file: str) -> bytes | None:
    # Not `Path.read_bytes`: hundreds of these are read each minute, and it costs four times as much.
    try:
        descriptor = os.open(f"{os.fspath(directory)}/{file}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, _READ_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return text if len(text) < _READ_BYTES else None
