"""Traces made by hand, and a policy whose answers are known beforehand."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.numbers.arrays import Rows
from agent.core.recommender.policy import LimitRule, Present, Proposals, Steps
from agent.core.recommender.simulation.trace import TraceSet

START_UNIX_MINUTE: Final = 28_333_440
"""2023-11-15 00:00 UTC."""
MIB: Final = 1 << 20
GIB: Final = 1 << 30


def trace_of(cpu: Any = None, memory: Any = None, **more: Any) -> TraceSet:
    """Make a trace of columns, one per container; None in a column is a gap. CPU in millicores, memory in bytes."""
    minutes = len((cpu if cpu is not None else memory)[0])
    containers = len(cpu if cpu is not None else memory)
    amounts, has = {}, {}
    for name, columns in (("cpu", cpu), ("memory", memory)):
        cells = [[None] * minutes] * containers if columns is None else columns
        has[name] = np.array([[cell is not None for cell in column] for column in cells]).T
        amounts[name] = np.array([[cell or 0 for cell in column] for column in cells], dtype=np.float64).T
    return TraceSet(
        **{
            "name": "made",
            "containers": tuple(f"c{index}" for index in range(containers)),
            "start_unix_minute": START_UNIX_MINUTE,
            "cpu_millicores": amounts["cpu"].astype(np.float32),
            "has_cpu": has["cpu"],
            "memory_bytes": amounts["memory"],
            "has_memory": has["memory"],
            **more,
        }
    )


class FixedPolicy:
    """Asks for the same in every row, or for what a function of the minute says; writes down what it is told."""

    name: Final = "fixed"

    def __init__(self, rows: int = 1, *, cpu: Any = None, memory: Any = None, memory_limit: Any = None) -> None:
        self._rows = rows
        self._wanted = {"cpu": cpu, "memory": memory, "limit": memory_limit}
        self.minutes: list[Minutes] = []
        self.presents: list[tuple[float, Present]] = []
        self.kills: list[tuple[int, OutOfMemory]] = []

    @property
    def rows(self) -> int:
        return self._rows

    def grow(self, rows: int) -> None:
        self._rows = max(rows, self._rows)

    def forget(self, rows: Rows) -> None:
        raise AssertionError("a simulation forgets no row")

    def fold(self, minutes: Minutes) -> None:
        self.minutes.append(minutes)

    def record_image(self, row: int, since_unix_seconds: float) -> None:
        raise AssertionError("a trace knows of no image")

    def record_oom(self, row: int, kill: OutOfMemory) -> None:
        self.kills.append((row, kill))

    def recommend(
        self, rows: Rows, present: Present, *, now_unix_seconds: float, steps: Steps | None = None
    ) -> Proposals:
        self.presents.append((now_unix_seconds, present))
        (cpu, has_cpu), (memory, has_memory), (limit, has_limit) = (
            self._answer(name, rows.size) for name in ("cpu", "memory", "limit")
        )
        never = np.zeros(rows.size, dtype=np.bool_)  # and it asks for the same with credit, but falls calmly then
        return Proposals(
            cpu_request_millicores=cpu,
            has_cpu=has_cpu,
            memory_request_bytes=memory,
            has_memory=has_memory,
            memory_limit_bytes=limit,
            has_memory_limit=has_limit,
            cpu_base_millicores=cpu,
            cpu_peak_millicores=cpu,
            memory_base_bytes=memory,
            memory_peak_bytes=memory,
            cpu_upward_only=never,
            memory_upward_only=never,
            limit_rule=LimitRule.PROPORTIONAL,
            has_credit=present.has_credit,
        )

    def _answer(self, name: str, size: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        wanted = self._wanted[name]
        if callable(wanted):
            wanted = wanted(len(self.minutes) - 1)
        return np.full(size, float(wanted or 0)), np.full(size, wanted is not None)
