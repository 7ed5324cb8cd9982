"""The minute of a whole node, from the minutes of its cgroups; and as the history keeps it. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.history.minute.minute_codec import Codes, decode, encode
from agent.core.numbers.arrays import Bools, Floats, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes:
    """One minute of all rows of a policy's state: what a policy learns from. Shape ``(n,)`` each."""

    unix_minute: int
    """UTC seconds // 60 of the minute's start. The minute covers (60 m, 60 m + 60]; a sample of it counts at 60 m."""
    cpu_usage_millicores: Floats
    """Mean over the minute, as measured."""
    cpu_peak_millicores: Floats
    """Largest rate that ended in the minute, PSI-adjusted where PSI is there; at least the mean."""
    has_cpu: Bools
    working_set_bytes: Floats
    """Peak of the working set in the minute; whole bytes."""
    has_memory: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """One out-of-memory kill of one row's container."""

    unix_seconds: float
    usage_bytes: int | None = None
    """Memory in use at the kill; None = not known."""
    limit_bytes: int | None = None
    """The limit in force; None = none, or not known."""
    request_bytes: int | None = None
    """The memory request in force; None = none, or not known."""
    is_told_by_status: bool = False
    """No agent looked: the pod's status told of it later, and what was in use is its limit."""


KIB: Final = 1024
CPU_STEPS: Final = 8
"""CPU is kept in eighths of a millicore: a mean rounded up to whole millicores is then the same before and after, up
to four cores, and an idle container stays idle."""


def to_codes(minutes: Minutes) -> Codes:
    """Return what the history keeps of a minute: CPU mean, CPU peak and working set, shape ``(3, n)``.

    Raises:
        ValueError: An amount is negative, infinite or NaN: a fault of the caller.
    """
    return np.stack(
        (
            encode(minutes.cpu_usage_millicores * CPU_STEPS, minutes.has_cpu),
            encode(minutes.cpu_peak_millicores * CPU_STEPS, minutes.has_cpu),
            encode(minutes.working_set_bytes / KIB, minutes.has_memory),
        )
    )


def from_codes(codes: Codes) -> tuple[Floats, Bools]:
    """Return amounts and which are there, of codes of shape ``(..., 3, n)``: millicores, millicores, bytes."""
    amounts, has = decode(codes)
    amounts[..., :2, :] /= CPU_STEPS
    amounts[..., 2, :] *= KIB
    return amounts, has


def as_kept(minutes: Minutes) -> Minutes:
    """Return the minute as it comes back from the history: what is learnt of it is then the same after a restart."""
    amounts, has = from_codes(to_codes(minutes))
    return Minutes(
        unix_minute=minutes.unix_minute,
        cpu_usage_millicores=amounts[0],
        cpu_peak_millicores=amounts[1],
        has_cpu=has[0],
        working_set_bytes=amounts[2],
        has_memory=has[2],
    )


def merge_rows(
    unix_minute: int,
    rows: Rows,
    *,
    cpu_usage_millicores: Floats,
    cpu_peak_millicores: Floats,
    has_cpu: Bools,
    working_set_bytes: Floats,
    has_memory: Bools,
    count: int,
) -> Minutes:
    """Write figures of cgroups into the rows of their histories; of several with one row, the largest of each counts.

    A recommendation is for each pod of a workload alike, so what the busiest needs is what counts.

    Args:
        rows: The row of each cgroup, shape ``(k,)``; the same row may come several times.
        cpu_usage_millicores: Means; shape ``(k,)``, as all that follow.
        has_cpu: Whether the two before are known.
        working_set_bytes: Peaks of the working set.

    Returns:
        Shape ``(count,)`` each; rows that no cgroup has are not known.
    """
    return Minutes(
        unix_minute=unix_minute,
        cpu_usage_millicores=_largest(rows, cpu_usage_millicores, has_cpu, count),
        cpu_peak_millicores=_largest(rows, cpu_peak_millicores, has_cpu, count),
        has_cpu=_any(rows, has_cpu, count),
        working_set_bytes=_largest(rows, working_set_bytes, has_memory, count),
        has_memory=_any(rows, has_memory, count),
    )


def _largest(rows: Rows, amounts: Floats, has: Bools, count: int) -> Floats:
    largest = np.zeros(count)  # amounts are never negative
    np.maximum.at(largest, rows[has], amounts[has])
    return largest


def _any(rows: Rows, has: Bools, count: int) -> Bools:
    known = np.zeros(count, dtype=np.bool_)
    known[rows[has]] = True
    return known
