"""Memory of one cgroup over a window: working set, its percentile and peak, stalls, events; waiting for disks.

Core, pure. Rows of the slow tick go in, a ``MemoryWindow`` comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.percentile import percentile
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, Has, Status
from agent.core.window.snapshot import MemoryWindow, Missing
from agent.core.window.steps import NS, Selection, column, rise, selection

_OK: Final = int(Status.OK)
_MEMORY: Final = np.uint32(Has.MEMORY)
_WORKING_SET: Final = np.uint32(Has.MEMORY | Has.MEMORY_STAT)
_MEMORY_PEAK: Final = np.uint32(Has.MEMORY_PEAK)
_MEMORY_PRESSURE: Final = np.uint32(Has.MEMORY_PRESSURE)
_IO_PRESSURE: Final = np.uint32(Has.IO_PRESSURE)
_MEMORY_EVENTS: Final = np.uint32(Has.MEMORY_EVENTS)
_EMPTY: Final = np.zeros(0, dtype=MEMORY_ROW)

Figure = TypeVar("Figure", int, float)

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
    stamps: NDArray[np.int64] = column(pieces, "monotonic_ns", _EMPTY).view(np.int64)
    past = stamps <= end_monotonic_ns
    if not np.count_nonzero(past):
        return absent_memory_window(Missing.OUT_OF_RING if past.size else Missing.TOO_FEW_SAMPLES)
    status = column(pieces, "status", _EMPTY)
    chosen = selection(past & (status == _OK))
    stamps = stamps[chosen]
    start_ns = end_monotonic_ns - int(policy.memory_window_seconds * NS)
    # Stamps of one boot rise; where one does not, the rows from the last one at or before the start are taken.
    early = (stamps <= start_ns).nonzero()[0]
    first = int(early[-1]) + 1 if early.size else 0
    if first == stamps.size:
        return absent_memory_window(Missing.GAPS)
    lead = max(first - 1, 0)
    has: NDArray[np.uint32] = column(pieces, "has", _EMPTY)[chosen].view(np.uint32)

    def values(name: str) -> NDArray[np.int64]:
        taken: NDArray[np.int64] = column(pieces, name, _EMPTY)[chosen][first:].view(np.int64)
        return taken

    newest_ns, max_step_ns = int(stamps[-1]), int(policy.memory_max_step_seconds * NS)
    missing: dict[str, Missing] = {}

    def newest(bits: np.uint32) -> int | None:
        if int(has[-1]) & bits == bits:  # the usual case, without an array
            return -1
        there = (has[first:] & bits == bits) & (stamps[first:] >= newest_ns - max_step_ns)
        rows = there.nonzero()[0]
        return int(rows[-1]) if rows.size else None

    def known(name: str, value: Figure | None, reason: Missing = Missing.NO_SIGNAL) -> Figure | None:
        if value is None:
            missing[name] = reason
        return value

    current_bytes = values("memory_current_bytes")
    sized = has[first:] & _WORKING_SET == _WORKING_SET
    working_set_bytes = np.maximum(current_bytes - values("inactive_file_bytes"), 0)
    row_current, row_set, row_peak = newest(_MEMORY), newest(_WORKING_SET), newest(_MEMORY_PEAK)
    p75_bytes = peak_bytes = None
    p75_reason = Missing.NO_SIGNAL
    if np.count_nonzero(sized):
        peak_bytes = int(np.maximum(values("working_set_peak_bytes"), working_set_bytes)[sized].max())
        p75_reason = Missing.GAPS
        oldest_ns = int(column(pieces, "monotonic_ns", _EMPTY)[0])
        if _gap_ratio(stamps[lead:], oldest_ns, max_step_ns, start_ns, end_monotonic_ns) <= policy.max_gap_ratio:
            p75_bytes = ceil(percentile(working_set_bytes[sized].astype(np.float64), policy.percentile))
    stalled = ("memory_some_usec", "memory_full_usec")
    (some, full), stall_reason = _stalls(pieces, chosen, has, stamps, lead, max_step_ns, _MEMORY_PRESSURE, stalled)
    (io_some,), io_reason = _stalls(pieces, chosen, has, stamps, lead, max_step_ns, _IO_PRESSURE, ("io_some_usec",))
    (kills, high_events), events_reason = _events(pieces, chosen, has, lead, ("oom_kill", "high_events"))
    return MemoryWindow(
        readings=stamps.size - first,
        span_seconds=max(newest_ns - int(stamps[first]), 0) / NS,
        current_bytes=known("current_bytes", None if row_current is None else int(current_bytes[row_current])),
        working_set_bytes=known("working_set_bytes", None if row_set is None else int(working_set_bytes[row_set])),
        working_set_p75_bytes=known("working_set_p75_bytes", p75_bytes, p75_reason),
        working_set_peak_bytes=known("working_set_peak_bytes", peak_bytes),
        lifetime_peak_bytes=known(
            "lifetime_peak_bytes", None if row_peak is None else int(values("memory_peak_bytes")[row_peak])
        ),
        pressure_some_ratio=known("pressure_some_ratio", some, stall_reason),
        oom_kills=known("oom_kills", kills, events_reason),
        anon_bytes=known("anon_bytes", None if row_set is None else int(values("anon_bytes")[row_set])),
        pressure_full_ratio=known("pressure_full_ratio", full, stall_reason),
        high_events=known("high_events", high_events, events_reason),
        io_pressure_some_ratio=known("io_pressure_some_ratio", io_some, io_reason),
        missing=missing,
    )


def _gap_ratio(stamps: NDArray[np.int64], oldest_ns: int, max_step_ns: int, start_ns: int, end_ns: int) -> float:
    """Return the share of the observed part of the window that lies in pauses longer than a step may be."""
    observed_start_ns = max(start_ns, min(oldest_ns, int(stamps[0])))
    is_whole = int(stamps[0]) - observed_start_ns <= max_step_ns and end_ns - int(stamps[-1]) <= max_step_ns
    if is_whole and (stamps.size < 2 or int(np.max(stamps[1:] - stamps[:-1])) <= max_step_ns):
        return 0.0  # the usual case, without further arrays
    # The observed part's two edges bound pauses as readings do.
    edges = np.concatenate(([observed_start_ns], np.maximum(stamps, observed_start_ns), [end_ns]))
    pauses_ns = edges[1:] - edges[:-1]
    observed_ns = end_ns - observed_start_ns
    return int(pauses_ns[pauses_ns > max_step_ns].sum()) / observed_ns if observed_ns > 0 else 0.0


def _stalls(
    pieces: Sequence[NDArray[np.void]],
    chosen: Selection,
    has: NDArray[np.uint32],
    stamps: NDArray[np.int64],
    lead: int,
    max_step_ns: int,
    bit: np.uint32,
    names: Sequence[str],
) -> tuple[list[float | None], Missing]:
    """Return the share of time that each total of one pressure file grew by, 0..1, or why none is known."""
    there = (has[lead:] & bit).astype(np.bool_)
    if not np.count_nonzero(there):
        return [None] * len(names), Missing.NO_SIGNAL
    elapsed_ns = stamps[lead + 1 :] - stamps[lead:-1]
    ratios: list[float | None] = []
    reason = Missing.TOO_FEW_SAMPLES
    for name in names:
        waited_usec = rise(column(pieces, name, _EMPTY)[chosen][lead:])
        usable = there[1:] & there[:-1] & (elapsed_ns > 0) & (waited_usec >= 0)
        believed = usable & (elapsed_ns <= max_step_ns)
        known_ns = int(elapsed_ns[believed].sum())
        if known_ns == 0:
            ratios.append(None)
            reason = Missing.GAPS if usable.any() else reason
            continue
        waited = int(np.minimum(waited_usec, elapsed_ns // 1000)[believed].sum())
        ratios.append(min(waited * 1000 / known_ns, 1.0))
    return ratios, reason


def _events(
    pieces: Sequence[NDArray[np.void]], chosen: Selection, has: NDArray[np.uint32], lead: int, names: Sequence[str]
) -> tuple[list[int | None], Missing]:
    """Return how often each counter of memory.events rose in the window, or why none is known."""
    there = (has[lead:] & _MEMORY_EVENTS).astype(np.bool_)
    if not np.count_nonzero(there):
        return [None] * len(names), Missing.NO_SIGNAL
    if np.count_nonzero(there) < 2:
        return [None] * len(names), Missing.TOO_FEW_SAMPLES
    # Rows without the signal are passed over: counters are cumulative, so the next row tells of their events too.
    counters = (column(pieces, name, _EMPTY)[chosen][lead:][there] for name in names)
    return [int(np.maximum(rise(counter), 0).sum()) for counter in counters], Missing.TOO_FEW_SAMPLES
