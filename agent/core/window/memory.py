"""Memory of one cgroup over a window: working set, its percentile and peak, stalls, events; waiting for disks.

Core, pure. Rows of the slow tick go in, a ``MemoryWindow`` comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.percentile import percentile
from agent.core.window.cold_file import ColdSums, cold_file_of, cold_sums
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, Has, Status, sums_dtype
from agent.core.window.snapshot import ColdFile, MemoryWindow, Missing
from agent.core.window.steps import NS, Selection, column, gap_ratio, pauses, rise, selection

_OK: Final = int(Status.OK)
_MEMORY: Final = np.uint32(Has.MEMORY)
_WORKING_SET: Final = np.uint32(Has.MEMORY | Has.MEMORY_STAT)
_MEMORY_PEAK: Final = np.uint32(Has.MEMORY_PEAK)
_MEMORY_PRESSURE: Final = np.uint32(Has.MEMORY_PRESSURE)
_IO_PRESSURE: Final = np.uint32(Has.IO_PRESSURE)
_MEMORY_EVENTS: Final = np.uint32(Has.MEMORY_EVENTS)
_EMPTY: Final = np.zeros(0, dtype=MEMORY_ROW)

Figure = TypeVar("Figure", int, float, ColdFile)

MEMORY_FIGURES: Final = (
    "current_bytes",
    "working_set_bytes",
    "working_set_p75_bytes",
    "working_set_peak_bytes",
    "lifetime_peak_bytes",
    "pressure_some_ratio",
    "oom_kills",
    "anon_bytes",
    "pressure_full_ratio",
    "high_events",
    "io_pressure_some_ratio",
    "cold_file",
)
"""The fields of a MemoryWindow that may be None, each with its reason in ``missing``."""


def absent_memory_window(reason: Missing) -> MemoryWindow:
    """Return the window of which nothing is known, for one reason."""
    return MemoryWindow(
        readings=0,
        span_seconds=0.0,
        current_bytes=None,
        working_set_bytes=None,
        working_set_p75_bytes=None,
        working_set_peak_bytes=None,
        lifetime_peak_bytes=None,
        pressure_some_ratio=None,
        oom_kills=None,
        anon_bytes=None,
        pressure_full_ratio=None,
        high_events=None,
        io_pressure_some_ratio=None,
        missing=dict.fromkeys(MEMORY_FIGURES, reason),
    )


def memory_window(pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int) -> MemoryWindow:
    """Return the memory figures of one cgroup over (end - window, end].

    "Newest" figures come from the newest row that has the signal, if that row is no more than
    ``memory_max_step_seconds`` older than the newest good row. The peak takes what the sampler saw between rows, so it
    may reach back to the row before the window. Stalls and events, kills among them, are differences of neighbouring
    rows of which the later lies in the window; a counter that fell began anew and is left out, so is a stall over more
    than ``memory_max_step_seconds``. A kill while nobody read is counted when it is seen.

    More than ``max_gap_ratio`` of the observed part of the window without rows leaves no percentile (as in
    ``window.cpu_window``); the others stay.

    Args:
        pieces: MEMORY_ROW rows, oldest first, in at most two views; they are not changed.
        end_monotonic_ns: The window's end; later rows are left out.

    Returns:
        Bytes as integers (the percentile rounded up); what is not known is None with its reason, as in
        ``window.cpu_window``.
    """
    return memory_window_of(memory_sums(pieces, policy, end_monotonic_ns=end_monotonic_ns), policy, end_monotonic_ns)


class StallSums(NamedTuple):
    """How much one pressure total grew by (``pl_stall_sums`` in C)."""

    known_ns: int
    """Of steps that are believed."""
    waited_usec: int
    """In these."""
    is_usable: int
    """1 = some step tells of it, if only over too long a time."""


class MemorySums(NamedTuple):
    """What a memory window is made of (``pl_memory_sums`` in C). Without readings all but the first two is 0."""

    rows: int
    """Rows given, later ones included."""
    is_seen: int
    """1 = some row is not later than the window's end."""
    readings: int
    """Good ones inside the window."""
    span_ns: int
    has_current: int
    """1 = the next is known; what follows likewise."""
    current_bytes: int
    has_working_set: int
    working_set_bytes: int
    anon_bytes: int
    has_lifetime_peak: int
    lifetime_peak_bytes: int
    sized: int
    """Readings that know the working set."""
    working_set_peak_bytes: int
    paused_ns: int
    """Of the observed part of the window, in pauses longer than a step may be."""
    observed_ns: int
    pressure_rows: int
    """Readings with the signal, the one before the window included; the next two likewise."""
    io_rows: int
    event_rows: int
    oom_kills: int
    high_events: int
    working_set_rank_bytes: float
    """The percentile of the window's working sets."""
    some: StallSums
    full: StallSums
    io: StallSums
    cold: ColdSums


MEMORY_SUMS: Final = sums_dtype(MemorySums)
_NO_STALL: Final = StallSums(0, 0, 0)
_NOT_COLD: Final = ColdSums(0, 0, 0, 0, 0, 0, 0, 0.0)


def to_memory_sums(figures: Iterable[float], nested: Sequence[Iterable[float]]) -> MemorySums:
    """Return the sums of one row of an array of MEMORY_SUMS: its plain figures, and those that are records."""
    some, full, io, cold = nested
    return MemorySums._make(
        (*figures, StallSums._make(some), StallSums._make(full), StallSums._make(io), ColdSums._make(cold))
    )


def memory_sums(pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int) -> MemorySums:
    """Return the sums of one cgroup over (end - window, end]; arguments as of ``memory_window``."""
    stamps: NDArray[np.int64] = column(pieces, "monotonic_ns", _EMPTY).view(np.int64)
    past = stamps <= end_monotonic_ns
    is_seen = int(np.count_nonzero(past) > 0)
    nothing = MemorySums(past.size, is_seen, *(0,) * 18, 0.0, _NO_STALL, _NO_STALL, _NO_STALL, _NOT_COLD)
    chosen = selection(past & (column(pieces, "status", _EMPTY) == _OK))
    stamps = stamps[chosen]
    start_ns = end_monotonic_ns - int(policy.memory_window_seconds * NS)
    # Stamps of one boot rise; where one does not, the rows from the last one at or before the start are taken.
    early = (stamps <= start_ns).nonzero()[0]
    first = int(early[-1]) + 1 if early.size else 0
    if first == stamps.size:
        return nothing
    lead = max(first - 1, 0)
    has: NDArray[np.uint32] = column(pieces, "has", _EMPTY)[chosen].view(np.uint32)

    def values(name: str) -> NDArray[np.int64]:
        taken: NDArray[np.int64] = column(pieces, name, _EMPTY)[chosen][first:].view(np.int64)
        return taken

    newest_ns, max_step_ns = int(stamps[-1]), int(policy.memory_max_step_seconds * NS)

    def newest(bits: np.uint32) -> int | None:
        if int(has[-1]) & bits == bits:  # the usual case, without an array
            return -1
        there = (has[first:] & bits == bits) & (stamps[first:] >= newest_ns - max_step_ns)
        rows = there.nonzero()[0]
        return int(rows[-1]) if rows.size else None

    current_bytes = values("memory_current_bytes")
    sized = has[first:] & _WORKING_SET == _WORKING_SET
    working_set_bytes = np.maximum(current_bytes - values("inactive_file_bytes"), 0)
    row_current, row_set, row_peak = newest(_MEMORY), newest(_WORKING_SET), newest(_MEMORY_PEAK)
    peak_bytes, rank_bytes = 0, 0.0
    if np.count_nonzero(sized):
        peak_bytes = int(np.maximum(values("working_set_peak_bytes"), working_set_bytes)[sized].max())
        rank_bytes = percentile(working_set_bytes[sized].astype(np.float64), policy.percentile)
    oldest_ns = int(column(pieces, "monotonic_ns", _EMPTY)[0])
    paused_ns, observed_ns = pauses(stamps[lead:], oldest_ns, max_step_ns, start_ns, end_monotonic_ns)
    stalled = ("memory_some_usec", "memory_full_usec")
    pressure_rows, (some, full) = _stalls(pieces, chosen, has, stamps, lead, max_step_ns, _MEMORY_PRESSURE, stalled)
    io_rows, (io,) = _stalls(pieces, chosen, has, stamps, lead, max_step_ns, _IO_PRESSURE, ("io_some_usec",))
    event_rows, kills, high_events = _events(pieces, chosen, has, lead)
    return MemorySums(
        rows=past.size,
        is_seen=is_seen,
        readings=stamps.size - first,
        span_ns=max(newest_ns - int(stamps[first]), 0),
        has_current=int(row_current is not None),
        current_bytes=0 if row_current is None else int(current_bytes[row_current]),
        has_working_set=int(row_set is not None),
        working_set_bytes=0 if row_set is None else int(working_set_bytes[row_set]),
        anon_bytes=0 if row_set is None else int(values("anon_bytes")[row_set]),
        has_lifetime_peak=int(row_peak is not None),
        lifetime_peak_bytes=0 if row_peak is None else int(values("memory_peak_bytes")[row_peak]),
        sized=int(np.count_nonzero(sized)),
        working_set_peak_bytes=peak_bytes,
        paused_ns=paused_ns,
        observed_ns=observed_ns,
        pressure_rows=pressure_rows,
        io_rows=io_rows,
        event_rows=event_rows,
        oom_kills=kills,
        high_events=high_events,
        working_set_rank_bytes=rank_bytes,
        some=some,
        full=full,
        io=io,
        cold=cold_sums(pieces, policy, end_monotonic_ns=end_monotonic_ns),
    )


def memory_window_of(sums: MemorySums, policy: WindowPolicy, end_monotonic_ns: int) -> MemoryWindow:
    """Return the window that these sums make, as ``memory_window`` says."""
    if not sums.is_seen:
        return absent_memory_window(Missing.OUT_OF_RING if sums.rows else Missing.TOO_FEW_SAMPLES)
    if not sums.readings:
        return absent_memory_window(Missing.GAPS)
    missing: dict[str, Missing] = {}

    def known(name: str, value: Figure | None, reason: Missing = Missing.NO_SIGNAL) -> Figure | None:
        if value is None:
            missing[name] = reason
        return value

    p75_bytes, p75_reason = None, Missing.NO_SIGNAL
    if sums.sized:
        p75_reason = Missing.GAPS
        if gap_ratio(sums.paused_ns, sums.observed_ns) <= policy.max_gap_ratio:
            p75_bytes = ceil(sums.working_set_rank_bytes)
    stall_reason = _stall_reason(sums.pressure_rows, sums.some, sums.full)
    event_reason = Missing.TOO_FEW_SAMPLES if sums.event_rows else Missing.NO_SIGNAL
    has_events, cold = sums.event_rows > 1, cold_file_of(sums.cold, policy, end_monotonic_ns)
    return MemoryWindow(
        readings=sums.readings,
        span_seconds=sums.span_ns / NS,
        current_bytes=known("current_bytes", sums.current_bytes if sums.has_current else None),
        working_set_bytes=known("working_set_bytes", sums.working_set_bytes if sums.has_working_set else None),
        working_set_p75_bytes=known("working_set_p75_bytes", p75_bytes, p75_reason),
        working_set_peak_bytes=known("working_set_peak_bytes", sums.working_set_peak_bytes if sums.sized else None),
        lifetime_peak_bytes=known("lifetime_peak_bytes", sums.lifetime_peak_bytes if sums.has_lifetime_peak else None),
        pressure_some_ratio=known("pressure_some_ratio", _stall_ratio(sums.some), stall_reason),
        oom_kills=known("oom_kills", sums.oom_kills if has_events else None, event_reason),
        anon_bytes=known("anon_bytes", sums.anon_bytes if sums.has_working_set else None),
        pressure_full_ratio=known("pressure_full_ratio", _stall_ratio(sums.full), stall_reason),
        high_events=known("high_events", sums.high_events if has_events else None, event_reason),
        io_pressure_some_ratio=known(
            "io_pressure_some_ratio", _stall_ratio(sums.io), _stall_reason(sums.io_rows, sums.io)
        ),
        cold_file=known("cold_file", *((None, cold) if isinstance(cold, Missing) else (cold,))),
        missing=missing,
    )


def _stall_ratio(sums: StallSums) -> float | None:
    """Return the share of time that a pressure total grew by, 0..1; None where it is known of no time."""
    return min(sums.waited_usec * 1000 / sums.known_ns, 1.0) if sums.known_ns else None


def _stall_reason(rows: int, *totals: StallSums) -> Missing:
    """Return why totals of one pressure file are missing, if they are."""
    if not rows:
        return Missing.NO_SIGNAL
    is_gap = any(total.is_usable and not total.known_ns for total in totals)
    return Missing.GAPS if is_gap else Missing.TOO_FEW_SAMPLES


def _stalls(
    pieces: Sequence[NDArray[np.void]],
    chosen: Selection,
    has: NDArray[np.uint32],
    stamps: NDArray[np.int64],
    lead: int,
    max_step_ns: int,
    bit: np.uint32,
    names: Sequence[str],
) -> tuple[int, list[StallSums]]:
    """Return how many readings have one pressure file, and how much each of its totals grew by."""
    there = (has[lead:] & bit).astype(np.bool_)
    rows = int(np.count_nonzero(there))
    if not rows:
        return 0, [_NO_STALL] * len(names)
    elapsed_ns = stamps[lead + 1 :] - stamps[lead:-1]
    sums: list[StallSums] = []
    for name in names:
        waited_usec = rise(column(pieces, name, _EMPTY)[chosen][lead:])
        usable = there[1:] & there[:-1] & (elapsed_ns > 0) & (waited_usec >= 0)
        believed = usable & (elapsed_ns <= max_step_ns)
        waited = int(np.minimum(waited_usec, elapsed_ns // 1000)[believed].sum())
        sums.append(StallSums(int(elapsed_ns[believed].sum()), waited, int(usable.any())))
    return rows, sums


def _events(
    pieces: Sequence[NDArray[np.void]], chosen: Selection, has: NDArray[np.uint32], lead: int
) -> tuple[int, int, int]:
    """Return how many readings have memory.events, and how often kills and ``high`` rose in the window."""
    there = (has[lead:] & _MEMORY_EVENTS).astype(np.bool_)
    # Rows without the signal are passed over: counters are cumulative, so the next row tells of their events too.
    kills, high = (
        int(np.maximum(rise(column(pieces, name, _EMPTY)[chosen][lead:][there]), 0).sum())
        for name in ("oom_kill", "high_events")
    )
    return int(np.count_nonzero(there)), kills, high
