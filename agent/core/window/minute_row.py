"""What remains of readings when the rings have moved on: minutes.

Core, pure. A minute is counted on CLOCK_MONOTONIC, so that a step of the wall clock moves nothing; hours of the day are
formed by those who need them (``hours``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.window.cold_file import left_out_bytes
from agent.core.window.cpu import absent_cpu_window
from agent.core.window.memory import absent_memory_window
from agent.core.window.policy import WindowPolicy
from agent.core.window.pressure import adjusted_demand
from agent.core.window.rates import burst_millicores, sliding_rates
from agent.core.window.ring_rows import MEMORY_ROW, MINUTE_ROW, Has, Status, sums_dtype
from agent.core.window.snapshot import CpuWindow, MemoryWindow, Missing
from agent.core.window.steps import MILLICORES_PER_USEC_PER_NS, NS, column, cpu_steps, interval_of, selection

MINUTE_NS: Final = 60 * NS
KIB: Final = 1024
_FULL: Final = 255
"""A ratio of 1 in the rows of minutes."""
_THROTTLED: Final = int(Has.THROTTLED)
_PRESSURE: Final = int(Has.PRESSURE)
_MEMORY_STAT: Final = int(Has.MEMORY_STAT)
_EMPTY_MINUTES: Final = np.zeros(0, dtype=MINUTE_ROW)
_EMPTY_MEMORY: Final = np.zeros(0, dtype=MEMORY_ROW)


def without_cpu(row: NDArray[np.void]) -> NDArray[np.void]:
    """Return a minute row that knows nothing of CPU; the rest of it stays."""
    blank = row.copy()
    blank["coverage_255"] = 0
    return blank


class MinuteSums(NamedTuple):
    """What a minute row is made of (``pl_minute_sums`` in C). Without covered time all of CPU is 0."""

    covered_ns: int
    """By good pairs; pairs across an edge of the minute count by the share that lies inside, here and below."""
    has: int
    """``Has`` bits of any reading of the minute, and of the one after it that the last pair needs."""
    memory_has: int
    """The same of memory rows."""
    sized: int
    """Memory rows that know the working set."""
    working_set_peak_bytes: int
    used_usec: float
    waiting_usec: float
    waiting_ns: float
    """Of the pairs that know waiting; of throttling likewise."""
    throttled_usec: float
    throttled_ns: float
    peak_millicores: float
    """The largest sliding rate that ends in the minute, adjusted where waiting is known; 0 without one."""
    burst_millicores: float


MINUTE_SUMS: Final = sums_dtype(MinuteSums)


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
    inside the minute, each of which looks back to the row before it; less cold file cache where that is left out.

    Args:
        raw_pieces: SAMPLE rows, oldest first; those of the rate window before the minute are needed for the peak.
        memory_pieces: MEMORY_ROW rows; those of ``memory_rows_seconds`` are needed where cold file cache is left out.
        monotonic_minute: CLOCK_MONOTONIC // 60 s of the minute.

    Returns:
        One MINUTE_ROW, shape ``(1,)``; None when neither CPU nor memory was measured in the minute. Without CPU its
        coverage is 0 and its CPU fields mean nothing; any coverage at all is at least 1 of 255. ``has`` tells of
        THROTTLED, PRESSURE and MEMORY_STAT whether the row's own figure is there, of the other bits whether a reading
        of the minute had them.
    """
    sums = minute_sums(raw_pieces, memory_pieces, policy, monotonic_minute=monotonic_minute)
    end_ns = (monotonic_minute + 1) * MINUTE_NS
    left_out = left_out_bytes(memory_pieces, policy, end_monotonic_ns=end_ns) if sums.sized else 0
    return minute_row_of(sums, policy, monotonic_minute=monotonic_minute, left_out_bytes=left_out)


def minute_sums(
    raw_pieces: Sequence[NDArray[np.void]],
    memory_pieces: Sequence[NDArray[np.void]],
    policy: WindowPolicy,
    *,
    monotonic_minute: int,
) -> MinuteSums:
    """Return the sums of one cgroup's minute; arguments as of ``minute_row``."""
    start_ns = monotonic_minute * MINUTE_NS
    end_ns = start_ns + MINUTE_NS
    step_ns = int(policy.max_step_seconds * NS)
    reach_ns = int(policy.rate_window_seconds * NS) + step_ns
    steps = cpu_steps(raw_pieces, policy, until_ns=end_ns + step_ns, since_ns=start_ns - reach_ns)
    sized, peak_bytes, memory_has = _minute_memory(memory_pieces, start_ns=start_ns, end_ns=end_ns)
    sums = MinuteSums(0, 0, memory_has, sized, peak_bytes, *(0.0,) * 7)
    inside = interval_of(steps, start_ns=start_ns, end_ns=end_ns)
    if inside is None:
        return sums
    pairs, share = inside.pairs, inside.share
    rates = sliding_rates(steps, policy, first=inside.first, stop=inside.stop)
    peaks = rates.usage if rates.adjusted is None else rates.adjusted
    # Readings of the minute, and the one after it that the last pair needs.
    stop = int(steps.axis_ns.searchsorted(end_ns, side="left")) + 1
    return sums._replace(
        covered_ns=inside.covered_ns,
        has=int(np.bitwise_or.reduce(steps.has[inside.first : stop])),
        used_usec=_shared(steps.used_usec[pairs], share),
        waiting_usec=_shared(steps.waiting_usec[pairs], share),
        waiting_ns=_shared(steps.waiting_ns[pairs], share),
        throttled_usec=_shared(steps.throttled_usec[pairs], share),
        throttled_ns=_shared(steps.throttled_ns[pairs], share),
        peak_millicores=float(peaks.max()) if peaks.size else 0.0,
        burst_millicores=burst_millicores(steps, pairs) or 0.0,
    )


def minute_row_of(
    sums: MinuteSums, policy: WindowPolicy, *, monotonic_minute: int, left_out_bytes: int = 0
) -> NDArray[np.void] | None:
    """Return the row that these sums make, as ``minute_row`` says.

    Args:
        left_out_bytes: Cold file cache that is not asked for.
    """
    if not sums.covered_ns and not sums.sized:
        return None
    has = (sums.has | sums.memory_has) & 0xFF & ~(_THROTTLED | _PRESSURE | _MEMORY_STAT)
    mean = peak = burst = 0.0
    waiting = throttled = None
    coverage = peak_kib = 0
    if sums.covered_ns:
        mean = min(sums.used_usec * MILLICORES_PER_USEC_PER_NS / sums.covered_ns, policy.limit_millicores)
        waiting = _share_of_time(sums.waiting_usec, sums.waiting_ns)
        throttled = _share_of_time(sums.throttled_usec, sums.throttled_ns)
        peak = max(sums.peak_millicores, adjusted_demand(mean, waiting or 0.0))
        burst = max(sums.burst_millicores, mean)  # the mean may round past it, or hold a short pair that is no burst
        coverage = max(_to_255(sums.covered_ns / MINUTE_NS), 1)
    if waiting is not None:
        has |= _PRESSURE
    if throttled is not None:
        has |= _THROTTLED
    if sums.sized:
        has |= _MEMORY_STAT
        peak_kib = min(-(-max(sums.working_set_peak_bytes - left_out_bytes, 0) // KIB), 2**32 - 1)
    figures = (monotonic_minute, mean, peak, burst, peak_kib, _to_255(waiting or 0.0), _to_255(throttled or 0.0))
    return np.array([(*figures, coverage, has)], dtype=MINUTE_ROW)


def minute_table(rows: Iterable[NDArray[np.void]]) -> NDArray[np.void]:
    """Return MINUTE_ROW rows of shape ``(1,)`` as one array, read-only; at least one.

    Joined as bytes: ``concatenate`` compares their dtypes field by field, which takes longer than all else here.
    """
    return np.frombuffer(b"".join([row.tobytes() for row in rows]), dtype=MINUTE_ROW)


def _to_255(ratio: float) -> int:
    """Return a ratio in steps of 1/255, rounded half up."""
    return int(min(ratio, 1.0) * _FULL + 0.5)


def _shared(values: NDArray[np.int64], share: NDArray[np.float64]) -> float:
    """Return the sum of what pairs hold, each by its share of the minute.

    Whole pairs are added up as integers, and at most two are parts: so no order of adding makes a difference.
    """
    is_whole = share == 1.0
    return float(int(values[is_whole].sum())) + float((values * share)[~is_whole].sum())


def _share_of_time(usec: float, known_ns: float) -> float | None:
    """Return a mean share of time, 0..1; None where it is known of no time."""
    return min(usec * 1e3 / known_ns, 1.0) if known_ns > 0 else None


def _minute_memory(pieces: Sequence[NDArray[np.void]], *, start_ns: int, end_ns: int) -> tuple[int, int, int]:
    """Return how many rows of the minute know the working set, its peak in them, and which signals its rows had."""
    stamps: NDArray[np.int64] = column(pieces, "monotonic_ns", _EMPTY_MEMORY).view(np.int64)
    good = column(pieces, "status", _EMPTY_MEMORY) == int(Status.OK)
    chosen = selection((stamps > start_ns) & (stamps <= end_ns) & good)
    has: NDArray[np.uint32] = column(pieces, "has", _EMPTY_MEMORY)[chosen].view(np.uint32)
    sized = (has & np.uint32(Has.MEMORY_STAT)).astype(np.bool_)
    seen = int(np.bitwise_or.reduce(has)) if has.size else 0
    count = int(np.count_nonzero(sized))
    if not count:
        return 0, 0, seen
    peaks: NDArray[np.uint64] = column(pieces, "working_set_peak_bytes", _EMPTY_MEMORY)[chosen].view(np.uint64)
    return count, int(peaks[sized].max()), seen


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
