"""What policies are given, for tests: short lists of figures, None = not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from agent.core.history.minute.minutes import Minutes
from agent.core.numbers.arrays import Bools, Floats, Rows
from agent.core.recommender.policy import Present

Figures = Sequence[float | None]
_BESIDE: Final = 777.0


def masked(figures: Figures) -> tuple[Floats, Bools]:
    """Return the figures and where they are known, shape ``(n,)``; what stands beside False is deliberately not 0."""
    values = np.array([_BESIDE if figure is None else figure for figure in figures], dtype=np.float64)
    return values, np.array([figure is not None for figure in figures], dtype=np.bool_)


def _nothing(count: int) -> tuple[Floats, Bools]:
    """Return figures of which none is known, as ``masked`` does; many minutes have them."""
    return np.full(count, _BESIDE), np.zeros(count, dtype=np.bool_)


def all_rows(count: int) -> Rows:
    """Return all rows in order."""
    return np.arange(count, dtype=np.intp)


def make_minutes(unix_minute: int, cpu: Figures, memory: Figures | None = None) -> Minutes:
    """Give a minute; CPU peaks in millicores (the mean is the same), working sets in bytes (all unknown by default)."""
    cpu_millicores, has_cpu = masked(cpu)
    working_set_bytes, has_memory = _nothing(len(cpu)) if memory is None else masked(memory)
    return Minutes(
        unix_minute=unix_minute,
        cpu_usage_millicores=cpu_millicores,
        cpu_peak_millicores=cpu_millicores,
        has_cpu=has_cpu,
        working_set_bytes=working_set_bytes,
        has_memory=has_memory,
    )


def make_present(cpu: Figures, memory: Figures | None = None, *, credit: Sequence[bool] | None = None) -> Present:
    """Return the present bases of some rows, in millicores and bytes; each is the only container of its pod."""
    cpu_base_millicores, has_cpu = masked(cpu)
    memory_base_bytes, has_memory = masked(memory if memory is not None else [None] * len(cpu))
    return Present(
        cpu_base_millicores=cpu_base_millicores,
        has_cpu=has_cpu,
        memory_base_bytes=memory_base_bytes,
        has_memory=has_memory,
        pod_containers=np.ones(len(cpu), dtype=np.int64),
        wants_whole_cores=np.zeros(len(cpu), dtype=np.bool_),
        has_credit=None if credit is None else np.array(credit, dtype=np.bool_),
    )
