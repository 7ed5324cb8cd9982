"""Rows for tests of windows: made from what is meant (rates, times), not from counters by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agent.core.window.ring_rows import MEMORY_ROW, MINUTE_ROW, SAMPLE, Has, Status

NS = 1_000_000_000
ALL = int(
    Has.THROTTLED
    | Has.MEMORY
    | Has.PRESSURE
    | Has.FULL
    | Has.MEMORY_STAT
    | Has.MEMORY_PEAK
    | Has.MEMORY_PRESSURE
    | Has.IO_PRESSURE
    | Has.MEMORY_EVENTS
    | Has.FILE_REFAULTS
)

Rows = NDArray[np.void]


def sample(
    at_seconds: float,
    usage_usec: int = 0,
    *,
    some: int = 0,
    throttled: int = 0,
    periods: int = 0,
    throttled_periods: int = 0,
    status: int = Status.OK,
    has: int = ALL,
) -> Rows:
    """Return one SAMPLE row, shape (1,); counters wrap as the kernel's do."""
    row = np.zeros(1, dtype=SAMPLE)
    row["monotonic_ns"] = round(at_seconds * NS)
    row["usage_usec"] = usage_usec % 2**64
    row["cpu_some_usec"] = some % 2**64
    row["throttled_usec"] = throttled % 2**64
    row["nr_periods"] = periods % 2**32
    row["nr_throttled"] = throttled_periods % 2**32
    row["status"] = status
    row["has"] = has
    return row


def steady(
    seconds: Sequence[float] | range,
    millicores: float,
    *,
    waiting: float = 0.0,
    throttled: float = 0.0,
    usage0: int = 0,
    has: int = ALL,
) -> Rows:
    """Return readings at these moments of a load that never changes; ratios are shares of wall time."""
    origin = seconds[0]
    return np.concatenate(
        [
            sample(
                at,
                usage0 + round((at - origin) * millicores * 1000),
                some=round((at - origin) * waiting * 1e6),
                throttled=round((at - origin) * throttled * 1e6),
                periods=round((at - origin) * 10),
                throttled_periods=round((at - origin) * 10 * throttled),
                has=has,
            )
            for at in seconds
        ]
    )


def memory(
    at_seconds: float,
    current: int = 0,
    *,
    inactive: int = 0,
    set_peak: int = 0,
    lifetime_peak: int = 0,
    some: int = 0,
    oom_kill: int = 0,
    anon: int = 0,
    full: int = 0,
    high: int = 0,
    io: int = 0,
    active: int = 0,
    refaults: int = 0,
    status: int = Status.OK,
    has: int = ALL,
) -> Rows:
    """Return one MEMORY_ROW row, shape (1,)."""
    row = np.zeros(1, dtype=MEMORY_ROW)
    row["monotonic_ns"] = round(at_seconds * NS)
    row["memory_current_bytes"] = current
    row["inactive_file_bytes"] = inactive
    row["working_set_peak_bytes"] = set_peak
    row["memory_peak_bytes"] = lifetime_peak
    row["memory_some_usec"] = some
    row["oom_kill"] = oom_kill % 2**32
    row["anon_bytes"] = anon
    row["memory_full_usec"] = full
    row["high_events"] = high % 2**32
    row["io_some_usec"] = io
    row["active_file_bytes"] = active
    row["workingset_refault_file_pages"] = refaults
    row["status"] = status
    row["has"] = has
    return row


def minute(
    number: int,
    mean: float = 0.0,
    *,
    peak: float = 0.0,
    burst: float = 0.0,
    set_peak_kib: int = 0,
    waiting: int = 0,
    throttled: int = 0,
    coverage: int = 255,
    has: int = ALL & 0xFF,
) -> Rows:
    """Return one MINUTE_ROW row, shape (1,)."""
    row = np.zeros(1, dtype=MINUTE_ROW)
    row["monotonic_minute"] = number
    row["cpu_mean_millicores"] = mean
    row["cpu_peak_millicores"] = peak
    row["cpu_burst_millicores"] = burst
    row["working_set_peak_kib"] = set_peak_kib
    row["waiting_255"] = waiting
    row["throttled_255"] = throttled
    row["coverage_255"] = coverage
    row["has"] = has
    return row
