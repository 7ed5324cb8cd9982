"""The rows of the rings: numpy dtypes that mirror native/sampler.h, and what their flags mean.

Core, pure. A test compares every offset with the compiled header.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final, get_type_hints

import numpy as np


class Status(IntEnum):
    """Why a row's counters mean something or nothing (``status`` of a row; ``PL_*`` in C)."""

    OK = 0
    NOMEM = -1
    ARG = -2
    GONE = -3
    IO = -4
    PARSE = -5
    ABSENT = -6
    LIMIT = -7


class Has(IntFlag):
    """Which signals a row carries (``has`` of a row; ``PL_HAS_*`` in C). A bit that is off means: not known."""

    THROTTLED = 1
    MEMORY = 2
    PRESSURE = 4
    FULL = 8
    MEMORY_STAT = 16
    MEMORY_PEAK = 32
    MEMORY_PRESSURE = 64
    IO_PRESSURE = 128
    MEMORY_EVENTS = 256
    FILE_REFAULTS = 512


FILES: Final = (
    "directory",
    "cpu.stat",
    "cpu.pressure",
    "memory.current",
    "memory.stat",
    "memory.peak",
    "memory.pressure",
    "io.pressure",
    "memory.events",
)
"""What a slot may hold open, as the kernel names it; the index is ``PL_FILE_*``."""

CAUSES: Final = ("gone", "absent", "io", "parse", "limit")
"""Why a read failed; the index is ``PL_CAUSE_*``."""

SAMPLE: Final = np.dtype(
    [
        ("monotonic_ns", "<u8"),
        ("usage_usec", "<u8"),
        ("throttled_usec", "<u8"),
        ("cpu_some_usec", "<u8"),
        ("cpu_full_usec", "<u8"),
        ("memory_current_bytes", "<u8"),
        ("nr_periods", "<u4"),
        ("nr_throttled", "<u4"),
        ("status", "<i4"),
        ("has", "<u4"),
    ]
)
"""One sweep of one cgroup: raw counters; 64 bytes (``pl_sample``)."""

MEMORY_ROW: Final = np.dtype(
    [
        ("monotonic_ns", "<u8"),
        ("memory_current_bytes", "<u8"),
        ("inactive_file_bytes", "<u8"),
        ("anon_bytes", "<u8"),
        ("working_set_peak_bytes", "<u8"),
        ("memory_peak_bytes", "<u8"),
        ("memory_some_usec", "<u8"),
        ("memory_full_usec", "<u8"),
        ("io_some_usec", "<u8"),
        ("active_file_bytes", "<u8"),
        ("workingset_refault_file_pages", "<u8"),
        ("oom_kill", "<u4"),
        ("high_events", "<u4"),
        ("status", "<i4"),
        ("has", "<u4"),
    ]
)
"""One slow tick of one cgroup: memory and the pressures that move slowly; 104 bytes (``pl_memory_row``)."""

MINUTE_ROW: Final = np.dtype(
    [
        ("monotonic_minute", "<u4"),
        ("cpu_mean_millicores", "<f4"),
        ("cpu_peak_millicores", "<f4"),
        ("cpu_burst_millicores", "<f4"),
        ("working_set_peak_kib", "<u4"),
        ("waiting_255", "u1"),
        ("throttled_255", "u1"),
        ("coverage_255", "u1"),
        ("has", "u1"),
    ]
)
"""One minute of one cgroup, summed up by ``core.history``; 24 bytes; written by Python only.

``monotonic_minute`` is CLOCK_MONOTONIC in whole minutes since boot, so a clock step moves nothing.
``*_255`` are ratios 0..1 in steps of 1/255. ``has`` holds the low eight bits of ``Has`` that held for the minute.
"""

SLOT_HEADER: Final = np.dtype(
    [
        ("checksum", "<u4"),
        ("state", "<u4"),
        ("generation", "<u4"),
        ("path_length", "<u4"),
        ("inode", "<u8"),
        ("created_monotonic_ns", "<u8"),
        ("path", "u1", (768,)),
        ("raw_head", "<u8"),
        ("memory_head", "<u8"),
        ("minute_head", "<u8"),
        ("working_set_pending_bytes", "<u8"),
        ("memory_peak_seen_bytes", "<u8"),
        ("reserved", "u1", (184,)),
    ]
)
"""What stands before a slot's rings; 1,024 bytes (``pl_slot_header``)."""


def sums_dtype(record: type[tuple[object, ...]]) -> np.dtype[np.void]:
    """Return the dtype of a named tuple of sums as C fills it in (native/windows.h): 8 bytes a figure, in their order.

    Args:
        record: Its fields are integers, floats, or named tuples of such.
    """
    fields: list[tuple[str, str | np.dtype[np.void]]] = []
    for name, kind in get_type_hints(record).items():
        fields.append((name, {int: "<i8", float: "<f8"}.get(kind) or sums_dtype(kind)))
    return np.dtype(fields)
