"""File cache that nobody came back for: how much of a container's memory is cold, and memory without it.

Core, pure. Rows of the slow tick go in, a ``ColdFile`` comes out. Nothing is reclaimed for it.

The kernel puts a page of a file on its active list when it is read a second time, and takes it off again only when it
reclaims. So within a window three things tell of use: active pages that became more, inactive ones that became fewer,
and refaults, pages that were reclaimed and then missed. A page that stays in memory and is read leaves no trace. So
what was there all the time and was not missed is an upper estimate of what is cold: where nothing is reclaimed, pages
in use are in it. They show as refaults once the kernel needs memory, and are cold no more.

Shared memory and tmpfs are on the lists of anonymous memory: never cold. Nor is anything of a container that waits
for memory.

Source: memory.stat in the kernel's cgroup-v2.rst; mm/workingset.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.cluster.unit import UnitResources
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, Has, Status
from agent.core.window.snapshot import ColdFile, MemoryWindow, Missing
from agent.core.window.steps import NS, column, gap_ratio, pauses, rise, selection

_OK: Final = int(Status.OK)
_SIGNALS: Final = np.uint32(Has.MEMORY | Has.MEMORY_STAT | Has.FILE_REFAULTS | Has.MEMORY_PRESSURE)
_EMPTY: Final = np.zeros(0, dtype=MEMORY_ROW)


def cold_file(pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int) -> ColdFile | Missing:
    """Return the cold file cache of one cgroup over (end - window, end].

    Cold is the least that was active plus the least that was inactive at any reading, less what was missed (refaults);
    of active pages alone in the same way. Once some step of the window waited for memory, nothing is.

    Args:
        pieces: MEMORY_ROW rows, oldest first, in at most two views; they are not changed.
        end_monotonic_ns: The window's end; later rows are left out.

    Returns:
        Why it is not known: the kernel tells no refaults of files (before 5.9) or no pressure, or its lists do not
        tell use (the policy knows), the cgroup was not watched for the whole window, or there are too many gaps in it.
    """
    return cold_file_of(cold_sums(pieces, policy, end_monotonic_ns=end_monotonic_ns), policy, end_monotonic_ns)


class ColdSums(NamedTuple):
    """What a ``ColdFile`` is made of (``pl_cold_sums`` in C); all 0 where no row has the signals."""

    rows: int
    """Good ones that have all signals, not later than the end."""
    oldest_ns: int
    """Stamp of the first of them."""
    paused_ns: int
    """Of the window, in pauses longer than a step may be."""
    observed_ns: int
    active_bytes: int
    """The least at any reading of the window, the one before it included; of inactive pages likewise."""
    inactive_bytes: int
    is_waiting: int
    """1 = some step of the window waited for memory."""
    refaulted_pages: float


def cold_sums(pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int) -> ColdSums:
    """Return the sums of one cgroup; arguments as of ``cold_file``."""
    stamps: NDArray[np.int64] = column(pieces, "monotonic_ns", _EMPTY).view(np.int64)
    has: NDArray[np.uint32] = column(pieces, "has", _EMPTY).view(np.uint32)
    is_told = (stamps <= end_monotonic_ns) & (column(pieces, "status", _EMPTY) == _OK) & (has & _SIGNALS == _SIGNALS)
    places = selection(is_told)
    stamps = stamps[places]
    rows = stamps.size
    if not rows:
        return ColdSums(0, 0, 0, 0, 0, 0, 0, 0.0)
    # Never shorter than the memory window: what is cold was there at each reading that memory is sized by.
    start_ns, oldest_ns = end_monotonic_ns - int(policy.memory_rows_seconds * NS), int(stamps[0])
    early = (stamps <= start_ns).nonzero()[0]
    first = int(early[-1]) if early.size else 0  # the row before the window: what it counted begins there
    stamps = stamps[first:]
    paused_ns, observed_ns = pauses(
        stamps, start_ns, int(policy.memory_max_step_seconds * NS), start_ns, end_monotonic_ns
    )

    def values(name: str) -> NDArray[np.void]:
        return column(pieces, name, _EMPTY)[places][first:]

    waited_ns = rise(values("memory_some_usec")) * 1000
    is_waiting = waited_ns >= policy.memory_waiting_ratio * np.maximum(stamps[1:] - stamps[:-1], 1)
    return ColdSums(
        rows=rows,
        oldest_ns=oldest_ns,
        paused_ns=paused_ns,
        observed_ns=observed_ns,
        active_bytes=int(values("active_file_bytes").min()),
        inactive_bytes=int(values("inactive_file_bytes").min()),
        is_waiting=int(is_waiting.any()),
        refaulted_pages=float(np.maximum(rise(values("workingset_refault_file_pages")), 0).sum(dtype=np.float64)),
    )


def cold_file_of(sums: ColdSums, policy: WindowPolicy, end_monotonic_ns: int) -> ColdFile | Missing:
    """Return the cold file cache that these sums make, as ``cold_file`` says."""
    if not sums.rows or not policy.tells_file_use:
        return Missing.NO_SIGNAL
    window_seconds = policy.memory_rows_seconds
    start_ns, step_ns = end_monotonic_ns - int(window_seconds * NS), int(policy.memory_max_step_seconds * NS)
    if sums.oldest_ns > start_ns + step_ns:
        return Missing.TOO_FEW_SAMPLES
    if gap_ratio(sums.paused_ns, sums.observed_ns) > policy.max_gap_ratio:
        return Missing.GAPS
    refaulted_bytes = int(sums.refaulted_pages) * policy.page_bytes
    active_bytes = 0 if sums.is_waiting else sums.active_bytes
    inactive_bytes = 0 if sums.is_waiting else sums.inactive_bytes
    return ColdFile(
        total_bytes=max(active_bytes + inactive_bytes - refaulted_bytes, 0),
        active_bytes=max(active_bytes - refaulted_bytes, 0),
        refaulted_bytes=refaulted_bytes,
        window_seconds=window_seconds,
        is_left_out=policy.leaves_out_cold_file,
    )


def left_out_bytes(pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int) -> int:
    """Return what of a working set over the window's end is not asked for; 0 where all of it is, or cold is unknown."""
    if not policy.leaves_out_cold_file:
        return 0
    cold = cold_file(pieces, policy, end_monotonic_ns=end_monotonic_ns)
    return 0 if isinstance(cold, Missing) else cold.active_bytes


def may_leave_out(resources: UnitResources) -> bool:
    """Return whether cold file cache may be left out of a container's request: not where its limit is its request.

    Both move together there, and a limit counts all of the file cache.
    """
    limit_bytes = resources.memory_limit_bytes
    return limit_bytes is None or resources.memory_request_bytes not in (None, limit_bytes)


def policy_of(policy: WindowPolicy, resources: UnitResources) -> WindowPolicy:
    """Return the policy for one container, as ``may_leave_out`` has it."""
    if not policy.leaves_out_cold_file or may_leave_out(resources):
        return policy
    return replace(policy, leaves_out_cold_file=False)


def asked_for(memory: MemoryWindow) -> MemoryWindow:
    """Return the window of which a request is made: its working set without the cold file cache that is left out."""
    cold = memory.cold_file
    if cold is None or not cold.is_left_out:
        return memory

    def rest(amount_bytes: int | None) -> int | None:
        return None if amount_bytes is None else max(amount_bytes - cold.active_bytes, 0)

    return replace(
        memory,
        working_set_bytes=rest(memory.working_set_bytes),
        working_set_p75_bytes=rest(memory.working_set_p75_bytes),
        working_set_peak_bytes=rest(memory.working_set_peak_bytes),
    )
