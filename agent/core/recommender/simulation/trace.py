"""Recorded demand of many containers on one regular grid of minutes: what a simulation replays.

Core, pure. Arrays are ``(minutes, containers)``, so that one minute of all containers lies together. Where a mask is
False nothing is known and 0 is stored; NaN and infinity never stand in an array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.arrays import Bools, Floats, Ints

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class FineUsage:
    """CPU in rows shorter than a minute: what a judge looks at where the trace is that fine.

    Shape ``(minutes x rows_per_minute, n)`` each.
    """

    rows_per_minute: int
    """A divisor of 60: rows are of whole seconds."""
    cpu_millicores: Floats32
    """Mean use over the row."""
    has_cpu: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSet:
    """What some containers used, minute by minute. Shapes ``(T, n)`` unless told otherwise; T and n at least 1."""

    name: str
    """Where it comes from: a file's name."""
    containers: tuple[str, ...]
    """Their names, ``n`` of them, each once."""
    start_unix_minute: int
    """UTC seconds // 60 of the first minute's start; minute ``m`` covers (60 m, 60 m + 60]."""
    cpu_millicores: Floats32
    """Mean use over the minute, as measured."""
    has_cpu: Bools
    memory_bytes: Floats
    """Largest working set of the minute; whole bytes."""
    has_memory: Bools
    psi: Floats32 | None = None
    """Share of the minute in which some task waited for a CPU, 0..1; None = not in the trace, and taken as 0."""
    cpu_peak_millicores: Floats32 | None = None
    """Largest PSI-adjusted rate that ended in the minute; None = the minute's mean x (1 + psi)."""
    row_minutes: int = 1
    """How many minutes its rows hold as a rule; 1 = a minute or less."""
    fine: FineUsage | None = None
    """CPU in rows shorter than a minute; None = the minutes are all that is known."""
    pod_containers: Ints | None = None
    """How many containers the container's pod has, itself included, shape ``(n,)``; None = one each."""
    notes: tuple[str, ...] = ()
    """What a reader of figures from this trace should know."""

    def __post_init__(self) -> None:
        shape = (self.cpu_millicores.shape[0], len(self.containers))
        if min(shape) < 1:
            msg = f"trace {self.name}: it holds nothing: {shape[0]} minutes of {shape[1]} containers"
            raise ValueError(msg)
        if len(set(self.containers)) != len(self.containers):
            msg = f"trace {self.name}: a container's name stands twice"
            raise ValueError(msg)
        shapes: dict[str, tuple[int, ...] | None] = {
            "cpu_millicores": self.cpu_millicores.shape,
            "has_cpu": self.has_cpu.shape,
            "memory_bytes": self.memory_bytes.shape,
            "has_memory": self.has_memory.shape,
            "psi": None if self.psi is None else self.psi.shape,
            "cpu_peak_millicores": None if self.cpu_peak_millicores is None else self.cpu_peak_millicores.shape,
            "pod_containers": None if self.pod_containers is None else (shape[0], *self.pod_containers.shape),
        }
        if self.fine is not None:
            rows = self.fine.rows_per_minute
            for what, fine in (("fine.cpu_millicores", self.fine.cpu_millicores), ("fine.has_cpu", self.fine.has_cpu)):
                shapes[what] = shape if fine.shape == (shape[0] * rows, shape[1]) else fine.shape
        for what, has_shape in shapes.items():
            if has_shape not in (None, shape):
                msg = f"trace {self.name}: {what} has shape {has_shape}, which does not fit {shape}"
                raise ValueError(msg)

    @property
    def minutes(self) -> int:
        """Minutes from the first to the last, both included."""
        return int(self.cpu_millicores.shape[0])

    @property
    def rows_per_minute(self) -> int:
        """Rows of CPU that a minute has; 1 unless the trace is finer."""
        return 1 if self.fine is None else self.fine.rows_per_minute
