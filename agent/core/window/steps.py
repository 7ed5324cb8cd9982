"""Differences of raw readings: which neighbouring pairs give a rate, which are gaps, and why.

Core, pure. Raw rows go in, vectors over pairs come out; nothing here knows of windows or percentiles.

Only good readings (status OK) are paired, each with the good reading before it. A row that could not be read is
counted as a gap of its own, but does not spoil the pair around it: counters are cumulative, so the difference across
it is exact as long as the pair is not too far apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import SAMPLE, Has, Status
from agent.core.window.snapshot import Gap

NS: Final = 1_000_000_000
"""Nanoseconds in a second."""

MILLICORES_PER_USEC_PER_NS: Final = 1e6
"""1 usec of CPU time per ns is 1e3 cores, that is 1e6 millicores."""

TICK_NS: Final = 10_000_000
"""The kernel brings a running task's CPU time up to date at least once a scheduler tick; 10 ms at HZ=100, the slowest.
"""

SHORT_NS: Final = 200_000_000
"""Below this a tick weighs more than 5 %: pairs around a sweep that started early, on contention."""

_EMPTY: Final = np.zeros(0, dtype=SAMPLE)

PAIR_GAPS: Final = (Gap.CLOCK, Gap.TOO_FAR_APART, Gap.COUNTER_RESET, Gap.IMPLAUSIBLE)
"""Reasons of pairs: ``CpuSteps.gap_code`` is 0 for a good pair, else 1 + the index here. The first to hold counts."""

_OK: Final = int(Status.OK)
_PARSE: Final = int(Status.PARSE)
_THROTTLED: Final = np.uint32(Has.THROTTLED)
_PRESSURE: Final = np.uint32(Has.PRESSURE)
# Plain numbers: an enum member costs an array operation three times its time.

Selection: TypeAlias = "slice[int, int, None] | NDArray[np.intp]"
"""Which rows of a column: a view where they lie together, else their indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSteps:
    """Good readings of one cgroup, shape ``(n,)``, and the pairs of neighbours among them, shape ``(max(n - 1, 0),)``.

    Pair k lies between readings k and k + 1. Where ``good[k]`` is False the pair is a gap: its figures mean nothing
    (the weights ``waiting_ns`` and ``throttled_ns`` are 0 there, so weighted sums leave it out by themselves).
    """

    axis_ns: NDArray[np.int64]
    """When each reading was taken, never falling: CLOCK_MONOTONIC ns. Where a stamp does not rise (a gap ``clock``)
    the older readings are moved back by as much, so that the newest keep their stamps."""
    usage_usec: NDArray[np.uint64]
    """The raw counter; differences between readings with no gap between them are exact."""
    has: NDArray[np.uint32]
    """``Has`` bits per reading."""
    good: NDArray[np.bool_]
    """The pair gives a rate."""
    gap_code: NDArray[np.int8] | None
    """0 = good, else 1 + index in PAIR_GAPS; None = all are good."""
    elapsed_ns: NDArray[np.int64]
    """Between the two stamps; may be <= 0 in a gap."""
    used_usec: NDArray[np.int64]
    usage_millicores: NDArray[np.float64]
    """0..capacity and its tolerance; a pair shorter than SHORT_NS may have counted one tick more and is capped."""
    waiting_usec: NDArray[np.int64]
    """Of PSI some, throttling taken out; 0..elapsed. 0 where ``waiting_ns`` is 0."""
    waiting_ns: NDArray[np.int64]
    """``elapsed_ns`` where waiting is known, else 0; the very same array where it is known throughout."""
    throttled_usec: NDArray[np.int64]
    """throttled_usec capped at the elapsed time. 0 where ``throttled_ns`` is 0."""
    throttled_ns: NDArray[np.int64]
    """``elapsed_ns`` where throttling is known, else 0."""
    nr_periods: NDArray[np.int64]
    nr_throttled: NDArray[np.int64]
    failed_ns: NDArray[np.int64]
    """Stamps of rows that could not be read."""
    failed_parse: NDArray[np.bool_]
    """Of these, those whose text was not understood."""
    rows: int
    """Rows given, later ones included."""
    oldest_ns: int | None
    """Stamp of the oldest row between the moments asked for, good or failed; None when there is none."""


def column(pieces: Sequence[NDArray[np.void]], name: str, empty: NDArray[np.void]) -> NDArray[np.void]:
    """Return one field of all rows, oldest first; a view when there is one piece, else a copy of that field alone."""
    if len(pieces) == 1:
        single: NDArray[np.void] = pieces[0][name]
        return single
    if not pieces:
        nothing: NDArray[np.void] = empty[name]
        return nothing
    return np.concatenate([piece[name] for piece in pieces])


def selection(keep: NDArray[np.bool_]) -> Selection:
    """Return a slice when the kept rows lie together (the usual case; a slice copies nothing), else their indices."""
    index = keep.nonzero()[0]
    if index.size == 0:
        return slice(0, 0)
    first, last = int(index[0]), int(index[-1])
    return slice(first, last + 1) if last - first + 1 == index.size else index


def rise(counter: NDArray[np.void]) -> NDArray[np.int64]:
    """Return neighbouring differences of an unsigned counter, right across its wrap; negative = it fell.

    Args:
        counter: u64 or u32, shape ``(n,)``.

    Returns:
        Shape ``(max(n - 1, 0),)``. Unsigned subtraction wraps, and read as signed the result is the true difference
        as long as that is below half the counter's range.
    """
    wrapped: NDArray[np.uint64 | np.uint32] = np.subtract(counter[1:], counter[:-1])
    if wrapped.dtype.itemsize == 8:
        return wrapped.view(np.int64)
    return wrapped.view(np.int32).astype(np.int64)


def pauses(stamps: NDArray[np.int64], oldest_ns: int, max_step_ns: int, start_ns: int, end_ns: int) -> tuple[int, int]:
    """Return how much of the observed part of the window lies in pauses longer than a step may be, and how long it is.

    Nanoseconds both; the second is below 0 where nothing of the window was observed.
    """
    observed_start_ns = max(start_ns, min(oldest_ns, int(stamps[0])))
    observed_ns = end_ns - observed_start_ns
    is_whole = int(stamps[0]) - observed_start_ns <= max_step_ns and end_ns - int(stamps[-1]) <= max_step_ns
    if is_whole and (stamps.size < 2 or int(np.max(stamps[1:] - stamps[:-1])) <= max_step_ns):
        return 0, observed_ns  # the usual case, without further arrays
    # The observed part's two edges bound pauses as readings do.
    edges = np.concatenate(([observed_start_ns], np.maximum(stamps, observed_start_ns), [end_ns]))
    lengths_ns = edges[1:] - edges[:-1]
    return int(lengths_ns[lengths_ns > max_step_ns].sum()), observed_ns


def gap_ratio(paused_ns: int, observed_ns: int) -> float:
    """Return the share of what was observed that is gap, 0..1; 0 where nothing was."""
    return paused_ns / observed_ns if observed_ns > 0 else 0.0


def cpu_steps(
    pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, until_ns: int, since_ns: int = 0
) -> CpuSteps:
    """Pair the readings of one cgroup.

    The waiting of a pair is what PSI ``some`` rose by, less the time put down to the cgroup's own cpu.max. That time
    is not known exactly: throttled_usec adds up all CPUs, so 0.1 s throttled on 8 CPUs at once reads 0.8 s, while
    ``some`` is wall time. Taken out is the smallest of three upper bounds of the wall time throttled: throttled_usec,
    the elapsed time, and the share of enforcement periods with throttling x the elapsed time. So throttling is never
    taken for contention; contention that falls into the same periods as throttling on several CPUs is understated.

    Args:
        pieces: SAMPLE rows, oldest first, in at most two views; they are not changed.
        until_ns: Later rows are left out; CLOCK_MONOTONIC ns.
        since_ns: Earlier rows are left out.

    Returns:
        The readings and their pairs; empty vectors when there are none.

    Source:
        cpu.stat and PSI in the kernel's cgroup-v2.rst; nr_throttled and throttled_time in kernel/sched/fair.c are
        brought up to date together, at the end of a period.
    """
    stamps: NDArray[np.int64] = column(pieces, "monotonic_ns", _EMPTY).view(np.int64)
    status = column(pieces, "status", _EMPTY)
    past = stamps <= until_ns
    if since_ns > 0:
        past &= stamps >= since_ns
    failed = status != _OK
    if np.count_nonzero(failed):
        chosen = selection(past & ~failed)
        failed &= past
        failed_ns, failed_parse = stamps[failed], status[failed] == _PARSE
    else:
        chosen = selection(past)
        failed_ns, failed_parse = stamps[:0], failed[:0]
    oldest_ns = int(stamps[past.argmax()]) if np.count_nonzero(past) else None

    axis_ns = stamps[chosen]
    usage_usec: NDArray[np.uint64] = column(pieces, "usage_usec", _EMPTY)[chosen].view(np.uint64)
    has: NDArray[np.uint32] = column(pieces, "has", _EMPTY)[chosen].view(np.uint32)
    elapsed_ns = axis_ns[1:] - axis_ns[:-1]
    used_usec = rise(column(pieces, "usage_usec", _EMPTY)[chosen])
    usage_millicores = used_usec * MILLICORES_PER_USEC_PER_NS / np.maximum(elapsed_ns, 1)
    max_step_ns = int(policy.max_step_seconds * NS)
    good = (elapsed_ns > 0) & (elapsed_ns <= max_step_ns)
    good &= (usage_millicores >= 0.0) & (usage_millicores <= policy.limit_millicores)
    if np.count_nonzero(good) < good.size:
        # A short pair may hold one tick more than its time; without this an early sweep on a full node were a gap.
        within_tick = used_usec * MILLICORES_PER_USEC_PER_NS <= policy.capacity_millicores * (elapsed_ns + TICK_NS)
        good |= (
            (elapsed_ns > 0) & (elapsed_ns < SHORT_NS) & (elapsed_ns <= max_step_ns) & (used_usec >= 0) & within_tick
        )
        usage_millicores = np.minimum(usage_millicores, policy.limit_millicores)
    gap_code: NDArray[np.int8] | None = None
    if np.count_nonzero(good) < good.size:
        gap_code = np.zeros(good.size, dtype=np.int8)
        gap_code[~good] = 4
        gap_code[used_usec < 0] = 3
        gap_code[elapsed_ns > max_step_ns] = 2
        gap_code[elapsed_ns <= 0] = 1
        if (gap_code == 1).any():
            axis_ns = axis_ns.copy()
            lengths = np.maximum(elapsed_ns, 0)
            axis_ns[:-1] = axis_ns[-1] - np.cumsum(lengths[::-1])[::-1]

    throttled_ns, throttled_usec, nr_periods, nr_throttled, own_usec = _throttling(
        pieces, chosen, has, good=good, elapsed_ns=elapsed_ns
    )
    waiting_ns, waiting_usec = _waiting(pieces, chosen, has, good=good, elapsed_ns=elapsed_ns, own_usec=own_usec)
    return CpuSteps(
        axis_ns=axis_ns,
        usage_usec=usage_usec,
        has=has,
        good=good,
        gap_code=gap_code,
        elapsed_ns=elapsed_ns,
        used_usec=used_usec,
        usage_millicores=usage_millicores,
        waiting_usec=waiting_usec,
        waiting_ns=waiting_ns,
        throttled_usec=throttled_usec,
        throttled_ns=throttled_ns,
        nr_periods=nr_periods,
        nr_throttled=nr_throttled,
        failed_ns=failed_ns,
        failed_parse=failed_parse,
        rows=stamps.size,
        oldest_ns=oldest_ns,
    )


def _known(has: NDArray[np.uint32], bit: np.uint32, good: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Return which good pairs have the signal at both ends; None = no reading has it."""
    flags = has & bit
    there = int(np.count_nonzero(flags))
    if there == 0:
        return None
    if there == flags.size:
        return good
    return good & (flags[1:] & flags[:-1]).astype(np.bool_)


def _throttling(
    pieces: Sequence[NDArray[np.void]],
    chosen: Selection,
    has: NDArray[np.uint32],
    *,
    good: NDArray[np.bool_],
    elapsed_ns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
    """Return throttled_ns, throttled_usec, nr_periods, nr_throttled and the wall time put down to cpu.max, in usec.

    The last is None when nothing was throttled, which is so for most containers.
    """
    zeros = np.zeros(elapsed_ns.size, dtype=np.int64)
    known = _known(has, _THROTTLED, good)
    if known is None:
        return zeros, zeros, zeros, zeros, None
    throttled_usec = rise(column(pieces, "throttled_usec", _EMPTY)[chosen])
    nr_periods = rise(column(pieces, "nr_periods", _EMPTY)[chosen])
    nr_throttled = rise(column(pieces, "nr_throttled", _EMPTY)[chosen])
    if not (np.count_nonzero(throttled_usec) or np.count_nonzero(nr_periods) or np.count_nonzero(nr_throttled)):
        return _where(known, elapsed_ns), throttled_usec, nr_periods, nr_throttled, None  # no cpu.max in force
    known = known & (throttled_usec >= 0) & (nr_periods >= 0) & (nr_throttled >= 0)
    throttled_ns = _where(known, elapsed_ns)
    throttled_usec = _where(known, np.minimum(throttled_usec, elapsed_ns // 1000))
    nr_periods, nr_throttled = _where(known, nr_periods), _where(known, nr_throttled)
    own_usec = throttled_usec.copy()
    # Where no throttled period was counted between the readings, their share says nothing: two bounds stand alone.
    counted = nr_throttled.nonzero()[0]
    if counted.size:
        share = np.minimum(nr_throttled[counted] / np.maximum(nr_periods[counted], 1), 1.0)
        bound_usec = (share * (elapsed_ns[counted] // 1000)).astype(np.int64)
        own_usec[counted] = np.minimum(own_usec[counted], bound_usec)
    return throttled_ns, throttled_usec, nr_periods, nr_throttled, own_usec


def _waiting(
    pieces: Sequence[NDArray[np.void]],
    chosen: Selection,
    has: NDArray[np.uint32],
    *,
    good: NDArray[np.bool_],
    elapsed_ns: NDArray[np.int64],
    own_usec: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return waiting_ns and waiting_usec; own_usec is the wall time put down to the cgroup's own cpu.max."""
    known = _known(has, _PRESSURE, good)
    if known is None:
        zeros = np.zeros(elapsed_ns.size, dtype=np.int64)
        return zeros, zeros
    some_usec = rise(column(pieces, "cpu_some_usec", _EMPTY)[chosen])
    known = known & (some_usec >= 0)
    waiting_usec = np.minimum(some_usec, elapsed_ns // 1000)
    if own_usec is not None:
        # Capped first: PSI may run past the elapsed time by its own jitter, which no throttling accounts for.
        waiting_usec = np.maximum(waiting_usec - own_usec, 0)
    if np.count_nonzero(known) == known.size:
        return elapsed_ns, waiting_usec
    return _where(known, elapsed_ns), _where(known, waiting_usec)


def _where(known: NDArray[np.bool_], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values where known, else 0."""
    return values * known


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Readings and pairs of ``CpuSteps`` that an interval touches."""

    first: int
    """Index of the oldest reading inside."""
    stop: int
    """One past the newest reading inside."""
    pairs: slice[int, int, None]
    """Of the pairs that reach into it."""
    share: NDArray[np.float64]
    """How much of each of these pairs lies inside, 0..1; 0 for a gap."""
    covered_ns: int
    """Of the interval, by good pairs; above 0."""


def interval_of(steps: CpuSteps, *, start_ns: int, end_ns: int) -> Interval | None:
    """Find what lies in (start, end]; None = no good pair touches it."""
    axis_ns = steps.axis_ns
    if axis_ns.size == 0:
        return None
    first = int(axis_ns.searchsorted(start_ns, side="right"))
    stop = int(axis_ns.searchsorted(end_ns, side="right"))
    pairs = slice(max(first - 1, 0), int(axis_ns.searchsorted(end_ns, side="left")))  # those that begin before its end
    inside_ns = np.minimum(axis_ns[1:][pairs], end_ns) - np.maximum(axis_ns[:-1][pairs], start_ns)
    inside_ns *= steps.good[pairs]
    covered_ns = int(inside_ns.sum())
    if covered_ns <= 0:
        return None
    share = inside_ns / np.maximum(steps.elapsed_ns[pairs], 1)
    return Interval(first=first, stop=stop, pairs=pairs, share=share, covered_ns=covered_ns)
