"""What cannot wait for the windows: who has starved of CPU or come near its memory limit in the last second.

Core, pure. Two readings of many containers at once, one row each; the windows of ``window`` look at minutes, this looks
at the time between two sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.arrays import Bools, Floats
from agent.core.window.pressure import adjusted_demand
from agent.core.window.ring_rows import Has, Status
from agent.core.window.steps import MILLICORES_PER_USEC_PER_NS

Rows = NDArray[np.void]

LEAST_ELAPSED_NS: Final = 150_000_000
"""Between two readings. Over less, a scheduler tick counted late weighs more than 5 %, and so does a PSI jiffy."""
MOST_ELAPSED_NS: Final = 10_000_000_000
"""What happened over a longer time is no news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starvation:
    """CPU between two readings; shape ``(n,)`` each. Where ``is_known`` is False the others mean nothing."""

    demand_millicores: Floats
    """usage x (1 + waiting): what would have been used without the wait."""
    waiting_ratio: Floats
    """PSI some, less what the container's own cpu.max accounts for; 0..1."""
    is_known: Bools


def starvation(before: Rows, after: Rows, *, capacity_millicores: int, contended_ns: int | None = None) -> Starvation:
    """Return how much CPU containers wanted between two readings.

    Args:
        before: SAMPLE rows, shape ``(n,)``; of the same cgroups as ``after``.
        after: SAMPLE rows, taken later.
        capacity_millicores: CPU of the node, above 0: nobody wants more.
        contended_ns: For how long at most the node has been contended, where that is known: all waiting falls into that
            time. Usage is still taken over all of it, so demand is understated rather than overstated.

    Returns:
        Not known where a row was not read, where a counter fell, where PSI is missing, or where the two are too close
        together or too far apart to mean anything.
    """
    elapsed_ns = _rise(before, after, "monotonic_ns")
    used_usec = _rise(before, after, "usage_usec")
    some_usec = _rise(before, after, "cpu_some_usec")
    is_known = (before["status"] == Status.OK) & (after["status"] == Status.OK)
    is_known &= (before["has"] & after["has"] & np.uint32(Has.PRESSURE)) > 0
    is_known &= (elapsed_ns >= LEAST_ELAPSED_NS) & (elapsed_ns <= MOST_ELAPSED_NS)
    is_known &= (used_usec >= 0) & (some_usec >= 0)
    elapsed_usec = np.maximum(elapsed_ns, 1) / 1e3
    waiting_usec = np.minimum(some_usec, elapsed_usec) - _own_limit_usec(before, after, elapsed_usec)
    within_usec = elapsed_usec if contended_ns is None else np.minimum(elapsed_usec, contended_ns / 1e3)
    waiting = np.clip(waiting_usec / within_usec, 0.0, 1.0)
    usage = np.minimum(used_usec * MILLICORES_PER_USEC_PER_NS / np.maximum(elapsed_ns, 1), capacity_millicores)
    return Starvation(
        demand_millicores=np.minimum(adjusted_demand(usage, waiting), capacity_millicores),
        waiting_ratio=waiting,
        is_known=is_known,
    )


def working_sets(rows: Rows, memory_rows: Rows) -> tuple[Floats, Bools]:
    """Return the working set of now as well as it is known between two slow readings, bytes, and where it is known.

    The inactive file pages are those of the newest slow reading: what has grown since is taken for needed.
    """
    has_stat = (memory_rows["status"] == Status.OK) & ((memory_rows["has"] & np.uint32(Has.MEMORY_STAT)) > 0)
    is_known = (rows["status"] == Status.OK) & ((rows["has"] & np.uint32(Has.MEMORY)) > 0) & has_stat
    sizes = rows["memory_current_bytes"].astype(np.float64) - memory_rows["inactive_file_bytes"].astype(np.float64)
    return np.maximum(sizes, 0.0), is_known


def memory_waiting(before: Rows, after: Rows) -> tuple[Floats, Bools]:
    """Return the share of time in which containers waited for memory between two slow readings, 0..1, where known."""
    elapsed_ns, some_usec = _rise(before, after, "monotonic_ns"), _rise(before, after, "memory_some_usec")
    is_known = (before["status"] == Status.OK) & (after["status"] == Status.OK)
    is_known &= (before["has"] & after["has"] & np.uint32(Has.MEMORY_PRESSURE)) > 0
    is_known &= (elapsed_ns >= LEAST_ELAPSED_NS) & (some_usec >= 0)
    return np.clip(some_usec * 1e3 / np.maximum(elapsed_ns, 1), 0.0, 1.0), is_known


def _rise(before: Rows, after: Rows, name: str) -> NDArray[np.int64]:
    return after[name].astype(np.int64) - before[name].astype(np.int64)


def _own_limit_usec(before: Rows, after: Rows, elapsed_usec: Floats) -> Floats:
    """Return the wall time that the containers' own cpu.max accounts for: the smallest of three upper bounds.

    ``window.steps`` says why.
    """
    throttled_usec = np.clip(_rise(before, after, "throttled_usec"), 0, elapsed_usec)
    periods = _rise(before, after, "nr_periods")
    throttled = np.maximum(_rise(before, after, "nr_throttled"), 0)
    share = np.minimum(throttled / np.maximum(periods, 1), 1.0)
    bound = np.where(throttled > 0, share * elapsed_usec, elapsed_usec)
    has = (before["has"] & after["has"] & np.uint32(Has.THROTTLED)) > 0
    own: Floats = np.where(has, np.minimum(throttled_usec, bound), 0.0)
    return own
