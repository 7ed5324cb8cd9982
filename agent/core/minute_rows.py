"""The minute of a whole node, from the minutes of its cgroups. Core, pure."""

from __future__ import annotations

import numpy as np

from agent.core.policies.contract import Bools, Floats, Minutes, Rows


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
    """Put figures of cgroups into the rows of their histories; of several with one row, the largest of each counts.

    A recommendation is for each pod of a workload alike, so what the busiest needs is what counts.

    Args:
        unix_minute: The minute, UTC.
        rows: The row of each cgroup, shape ``(k,)``; the same row may come several times.
        cpu_usage_millicores: Means; shape ``(k,)``, as all that follow.
        cpu_peak_millicores: Largest rates.
        has_cpu: Whether the two before are known.
        working_set_bytes: Peaks of the working set.
        has_memory: Whether they are known.
        count: How many rows the history has.

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
