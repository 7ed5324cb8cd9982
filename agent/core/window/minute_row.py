"""What remains of readings when the rings have moved on: minutes.

Core, pure. A minute is counted on CLOCK_MONOTONIC, so that a step of the wall clock moves nothing; hours of the day are
formed by those who need them (``hours``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.window.cpu import absent_cpu_window
from agent.core.window.memory import absent_memory_window
from agent.core.window.policy import WindowPolicy
from agent.core.window.pressure import adjusted_demand
from agent.core.window.rates import burst_millicores, sliding_rates
from agent.core.window.ring_rows import MEMORY_ROW, MINUTE_ROW, Has, Status
from agent.core.window.snapshot import CpuWindow, MemoryWindow, Missing
from agent.core.window.steps import MILLICORES_PER_USEC_PER_NS, NS, CpuSteps, column, cpu_steps, interval_of, selection

MINUTE_NS: Final = 60 * NS
KIB: Final = 1024
_FULL: Final = 255
"""A ratio of 1 in the rows of minutes."""
_EMPTY_MINUTES: Final = np.zeros(0, dtype=MINUTE_ROW)
_EMPTY_MEMORY: Final = np.zeros(0, dtype=MEMORY_ROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MinuteCpu:
    """CPU of one minute; ratios are None where the signal is missing."""

    covered_ns: int
    mean_millicores: float
    peak_millicores: float
    burst_millicores: float
    waiting_ratio: float | None
    throttled_ratio: float | None


def minute_row(
    raw_pieces: Sequence[NDArray[np.void]],
    memory_pieces: Sequence[NDArray[np.void]],
    policy: WindowPolicy,
    *,
    monotonic_minute: int,
) -> NDArray[np.void] | None:
    """Sum up the minute (60 m, 60 m + 60] seconds of CLOCK_MONOTONIC.

    The mean is counted CPU time over covered time: pairs of readings across an edge of the minute count by the share
    that lies inside, so that consecutive minutes hand out each microsecond once. Rows up to one step later than the
    minute are used for that, so call it a few seconds after the minute ended. The peak is the largest adjusted sliding
    rate that ends in the minute, and at least the adjusted mean (all there is in a container's first seconds); the
    burst is the largest rate of a pair that touches the minute. The working set's peak is that of memory rows stamped
    inside the minute, each of which looks back to the row before it.

    Args:
        raw_pieces: SAMPLE rows, oldest first; those of the rate window before the minute are needed for the peak.
        monotonic_minute: CLOCK_MONOTONIC // 60 s of the minute.

    Returns:
        One MINUTE_ROW, shape ``(1,)``; None when neither CPU nor memory was measured in the minute. Without CPU its
        coverage is 0 and its CPU fields mean nothing; any coverage at all is at least 1 of 255. ``has`` tells of
        THROTTLED, PRESSURE and MEMORY_STAT whether the row's own figure is there, of the other bits whether a reading
        of the minute had them.
    """
    start_ns = monotonic_minute * MINUTE_NS
    end_ns = start_ns + MINUTE_NS
    step_ns = int(policy.max_step_seconds * NS)
    reach_ns = int(policy.rate_window_seconds * NS) + step_ns
    steps = cpu_steps(raw_pieces, policy, until_ns=end_ns + step_ns, since_ns=start_ns - reach_ns)
    cpu = _minute_cpu(steps, policy, start_ns=start_ns, end_ns=end_ns)
    peak_bytes, memory_has = _minute_memory(memory_pieces, start_ns=start_ns, end_ns=end_ns)
    if cpu is None and peak_bytes is None:
        return None
    row = np.zeros(1, dtype=MINUTE_ROW)
    row["monotonic_minute"] = monotonic_minute
    has = memory_has
    if cpu is not None:
        # Readings of the minute, and the one after it that the last pair needs.
        first = int(steps.axis_ns.searchsorted(start_ns, side="right"))
        stop = int(steps.axis_ns.searchsorted(end_ns, side="left")) + 1
        has |= int(np.bitwise_or.reduce(steps.has[first:stop]))
        row["cpu_mean_millicores"] = cpu.mean_millicores
        row["cpu_peak_millicores"] = cpu.peak_millicores
        row["cpu_burst_millicores"] = cpu.burst_millicores
        row["coverage_255"] = max(_to_255(cpu.covered_ns / MINUTE_NS), 1)
        row["waiting_255"] = _to_255(cpu.waiting_ratio or 0.0)
        row["throttled_255"] = _to_255(cpu.throttled_ratio or 0.0)
    own = Has.THROTTLED | Has.PRESSURE | Has.MEMORY_STAT
    has &= 0xFF & ~own
    if cpu is not None and cpu.waiting_ratio is not None:
        has |= Has.PRESSURE
    if cpu is not None and cpu.throttled_ratio is not None:
        has |= Has.THROTTLED
    if peak_bytes is not None:
        has |= Has.MEMORY_STAT
        row["working_set_peak_kib"] = min(-(-peak_bytes // KIB), 2**32 - 1)
    row["has"] = has
    return row


def _to_255(ratio: float) -> int:
    """Return a ratio in steps of 1/255, rounded half up."""
    return int(min(ratio, 1.0) * _FULL + 0.5)


def _minute_cpu(steps: CpuSteps, policy: WindowPolicy, *, start_ns: int, end_ns: int) -> _MinuteCpu | None:
    """Return the minute's CPU figures; None when no good pair touches it."""
    inside = interval_of(steps, start_ns=start_ns, end_ns=end_ns)
    if inside is None:
        return None
    pairs, share, covered_ns = inside.pairs, inside.share, inside.covered_ns
    used_usec = float((steps.used_usec[pairs] * share).sum())
    mean = min(used_usec * MILLICORES_PER_USEC_PER_NS / covered_ns, policy.limit_millicores)
    waiting = _weighted(steps.waiting_usec[pairs], steps.waiting_ns[pairs], share)
    rates = sliding_rates(steps, policy, first=inside.first, stop=inside.stop)
    peaks = rates.usage if rates.adjusted is None else rates.adjusted
    burst = burst_millicores(steps, pairs) or 0.0
    return _MinuteCpu(
        covered_ns=covered_ns,
        mean_millicores=mean,
        peak_millicores=max(float(peaks.max()) if peaks.size else 0.0, adjusted_demand(mean, waiting or 0.0)),
        burst_millicores=max(burst, mean),  # the mean may round past it, or hold a short pair that is no burst
        waiting_ratio=waiting,
        throttled_ratio=_weighted(steps.throttled_usec[pairs], steps.throttled_ns[pairs], share),
    )


def _weighted(usec: NDArray[np.int64], weight_ns: NDArray[np.int64], share: NDArray[np.float64]) -> float | None:
    """Return the mean of a share of time over the pairs that know it, each by its share of the minute."""
    known_ns = float((weight_ns * share).sum())
    return min(float((usec * share).sum()) * 1e3 / known_ns, 1.0) if known_ns > 0 else None


def _minute_memory(pieces: Sequence[NDArray[np.void]], *, start_ns: int, end_ns: int) -> tuple[int | None, int]:
    """Return the working set's peak in the minute, and which signals its rows had."""
    stamps: NDArray[np.int64] = column(pieces, "monotonic_ns", _EMPTY_MEMORY).view(np.int64)
    good = column(pieces, "status", _EMPTY_MEMORY) == int(Status.OK)
    chosen = selection((stamps > start_ns) & (stamps <= end_ns) & good)
    has: NDArray[np.uint32] = column(pieces, "has", _EMPTY_MEMORY)[chosen].view(np.uint32)
    sized = (has & np.uint32(Has.MEMORY_STAT)).astype(np.bool_)
    seen = int(np.bitwise_or.reduce(has)) if has.size else 0
    if not np.count_nonzero(sized):
        return None, seen
    peaks: NDArray[np.uint64] = column(pieces, "working_set_peak_bytes", _EMPTY_MEMORY)[chosen].view(np.uint64)
    return int(peaks[sized].max()), seen


def _minutes_before(
    pieces: Sequence[NDArray[np.void]], end_monotonic_ns: int, window_seconds: float
) -> NDArray[np.void]:
    """Return the rows (a copy) of the whole minutes that ended at or before the end, as many as the window is long."""
    minutes: NDArray[np.int64] = column(pieces, "monotonic_minute", _EMPTY_MINUTES).astype(np.int64)
    after = end_monotonic_ns // MINUTE_NS
    chosen = (minutes < after) & (minutes >= after - max(round(window_seconds / 60), 1))
    rows = np.concatenate(pieces) if pieces else _EMPTY_MINUTES
    return rows[chosen]


def minutes_window(pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int) -> CpuWindow:
    """Return what minutes still tell of the CPU window that ended at a moment before the raw rows.

    Args:
        end_monotonic_ns: The window's end; only whole minutes up to it are used.

    Returns:
        ``last_usage`` is the mean of the newest minute, as are the ``last_*`` ratios of waiting and throttling.
        ``adjusted_peak`` is the largest peak if PSI was there in any minute, else ``usage_peak`` is; ``burst`` is as
        measured; waiting and throttled are means weighted by coverage. ``readings`` counts minutes. Percentiles, and
        whatever minutes do not hold, are None with ``out_of_ring``; without PSI the adjusted ones with ``no_signal``.
    """
    rows = _minutes_before(pieces, end_monotonic_ns, policy.cpu_window_seconds)
    rows = rows[rows["coverage_255"] > 0]
    absent = absent_cpu_window(Missing.OUT_OF_RING)
    if rows.size == 0:
        return absent
    has_pressure = bool((rows["has"] & Has.PRESSURE).any())
    peak = float(rows["cpu_peak_millicores"].max())
    newest = rows[-1:]
    figures = {
        "last_usage_millicores": float(newest["cpu_mean_millicores"][0]),
        "usage_peak_millicores": None if has_pressure else peak,
        "adjusted_peak_millicores": peak if has_pressure else None,
        "burst_millicores": float(rows["cpu_burst_millicores"].max()),
        "waiting_ratio": _mean_ratio(rows, "waiting_255", Has.PRESSURE),
        "last_waiting_ratio": _mean_ratio(newest, "waiting_255", Has.PRESSURE),
        "throttled_ratio": _mean_ratio(rows, "throttled_255", Has.THROTTLED),
        "last_throttled_ratio": _mean_ratio(newest, "throttled_255", Has.THROTTLED),
    }
    missing = {name: reason for name, reason in absent.missing.items() if figures.get(name) is None}
    for name in ("waiting_ratio", "last_waiting_ratio", "throttled_ratio", "last_throttled_ratio"):
        if name in missing:
            missing[name] = Missing.NO_SIGNAL
    if not has_pressure:
        missing["adjusted_p75_millicores"] = missing["adjusted_peak_millicores"] = Missing.NO_SIGNAL
    return replace(
        absent,
        readings=rows.size,
        span_seconds=(int(newest["monotonic_minute"][0]) - int(rows["monotonic_minute"][0]) + 1) * 60.0,
        coverage_ratio=min(int(rows["coverage_255"].sum()) * 60 / _FULL / policy.cpu_window_seconds, 1.0),
        gaps=absent.gaps,
        **figures,
        missing=missing,
    )


def minutes_memory_window(
    pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int
) -> MemoryWindow:
    """Return what minutes still tell of the memory window that ended at a moment before the memory rows.

    Args:
        end_monotonic_ns: The window's end; only whole minutes up to it are used.

    Returns:
        The working set's peak; everything else is None with ``out_of_ring``. ``readings`` counts minutes.
    """
    rows = _minutes_before(pieces, end_monotonic_ns, policy.memory_window_seconds)
    sized = rows[(rows["has"] & Has.MEMORY_STAT) > 0]
    absent = absent_memory_window(Missing.OUT_OF_RING)
    if sized.size == 0:
        if rows.size:
            missing = {**absent.missing, "working_set_peak_bytes": Missing.NO_SIGNAL}
            return replace(absent, missing=missing)
        return absent
    missing = {name: reason for name, reason in absent.missing.items() if name != "working_set_peak_bytes"}
    return replace(
        absent,
        readings=sized.size,
        span_seconds=(int(sized["monotonic_minute"][-1]) - int(sized["monotonic_minute"][0]) + 1) * 60.0,
        working_set_peak_bytes=int(sized["working_set_peak_kib"].max()) * KIB,
        missing=missing,
    )


def _mean_ratio(rows: NDArray[np.void], name: str, bit: Has) -> float | None:
    """Return the mean of a ratio over minutes that have the signal, weighted by their coverage; exact in 255ths."""
    known = rows[(rows["has"] & bit) > 0]
    weight = known["coverage_255"].astype(np.int64)
    total = int(weight.sum())
    return int((known[name] * weight).sum()) / (total * _FULL) if total else None
