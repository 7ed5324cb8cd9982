"""Whether one container is short of memory by a bound of its own: held back at memory.high, or stalling at its limit.

Core, pure. Two readings of one cgroup go in, a ``MemoryShortage`` comes out; ``window.urgency`` looks at many at once.

Above memory.high the kernel makes each task that asks for memory reclaim first, and lets it sleep where that is no use:
the container stands still at a plateau, without a kill (MemoryQoS; kubernetes/autoscaler#9926). At memory.max it is
the same while pages of files can still be thrown away and read again. Neither plateau is the demand: what it would use
is not known, only that it is more.

Source: "Memory Interface Files" in the kernel's cgroup-v2.rst; KEP-2570.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LEAST_SECONDS: Final = 1.0
"""A share of a shorter time is taken of so much: what stalls throughout is seen at once, one short stall is not."""


class MemoryShort(StrEnum):
    """What shows that a container is short of memory. Also a metric label."""

    HELD = "memory_high"
    """It is at its memory.high, and its tasks are held back there."""
    STALLED = "memory_waiting"
    """It is at its memory limit, and its tasks wait for memory (PSI some)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """One cgroup's memory at one moment; None = no such bound or signal."""

    monotonic_ns: int
    current_bytes: int
    """memory.current, page cache included: what the bounds count."""
    inactive_file_bytes: int
    max_bytes: int | None
    high_bytes: int | None

    @property
    def working_set_bytes(self) -> int:
        """memory.current less inactive_file, floor 0."""
        return max(self.current_bytes - self.inactive_file_bytes, 0)

    @property
    def bound_bytes(self) -> int | None:
        """The lower of both bounds."""
        return min((bound for bound in (self.max_bytes, self.high_bytes) if bound is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShortage:
    """Of one container, now."""

    cause: MemoryShort
    working_set_bytes: int
    """The least that it needs."""
    limit_bytes: int | None
    """What its limit should become at least; None = it has none."""


def waiting_ratio(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Return the share of a second, or of the time between two readings if that is longer, that was spent waiting.

    Args:
        before: CLOCK_MONOTONIC in ns, and PSI ``some`` of memory in usec.
        after: The same, later. A total that fell is another cgroup's: no waiting.
    """
    elapsed_seconds = max((after[0] - before[0]) / 1e9, LEAST_SECONDS)
    return min(max(after[1] - before[1], 0) / 1e6 / elapsed_seconds, 1.0)


def memory_shortage(
    reading: MemoryReading, *, is_held: bool, is_stalled: bool, fill_ratio: float, limit_ratio: float
) -> MemoryShortage | None:
    """Return what a container is short of; None = nothing, or not by a bound of its own.

    Held back counts where the working set itself comes near memory.high: pages that were read once and may go cost
    their reader little. Waiting counts with all page cache: pages that are missed make it wait.

    Args:
        is_held: Its tasks were held back at memory.high since the last look.
        is_stalled: It has waited for memory for more than it may.
        fill_ratio: From this share of a bound on it counts as reached, 0..1.
        limit_ratio: A memory limit becomes this x what is used.

    Returns:
        The limit is raised in proportion: by ``limit_ratio`` x the share of the bound that is in use. So memory.high,
        which the kubelet sets between request and limit, comes to lie above what is used as well.
    """
    bound_bytes = reading.bound_bytes
    if bound_bytes is None or reading.current_bytes < fill_ratio * bound_bytes:
        return None
    is_high_reached = reading.high_bytes is not None and reading.current_bytes >= fill_ratio * reading.high_bytes
    is_high_needed = reading.high_bytes is not None and reading.working_set_bytes >= fill_ratio * reading.high_bytes
    if is_held and is_high_reached and (is_high_needed or is_stalled):
        cause = MemoryShort.HELD
    elif is_stalled:
        cause = MemoryShort.STALLED
    else:
        return None
    share = min(reading.current_bytes / bound_bytes, 1.0) if bound_bytes else 1.0
    return MemoryShortage(
        cause=cause,
        working_set_bytes=reading.working_set_bytes,
        limit_bytes=None if reading.max_bytes is None else math.ceil(limit_ratio * share * reading.max_bytes),
    )
