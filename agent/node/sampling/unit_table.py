"""The table of watched cgroups: which unit sits in which slot, under which names. Shared by the node's threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.sensing.cgroup_path import identify
from agent.sensing.spot_readings import KernelLimits


def identity_at(path: str) -> UnitIdentity:
    """Return what a cgroup's path tells of it.

    Args:
        path: As rings have it: below the cgroup root, without a leading slash.
    """
    # What discovery watches without knowing it by its name is a unit all the same.
    return identify(f"/{path}") or UnitIdentity(cgroup_path=f"/{path}", kind=UnitKind.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedUnit:
    """One cgroup being sampled."""

    slot: int
    inode: int
    identity: UnitIdentity
    resources: UnitResources
    cpu_max_millicores: int | None = None
    memory_max_bytes: int | None = None


GONE_UNITS: Final = 256
"""Units remembered after they have gone: the news of a kill may come after its container."""
GONE_NS: Final = 30_000_000_000
"""News of a kill comes within milliseconds of it, or with the poll of the slow tick; later ones are of others."""


class UnitTable:
    """Path -> unit. The sampling thread writes; the others take copies and never wait long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_path: dict[str, WatchedUnit] = {}
        self._all: tuple[WatchedUnit, ...] | None = ()
        """None = made anew when it is asked for."""
        self._gone: deque[tuple[int, WatchedUnit]] = deque(maxlen=GONE_UNITS)
        """When it went, on CLOCK_MONOTONIC, and which."""

    def put(self, unit: WatchedUnit) -> None:
        """Add or replace the unit at its path."""
        with self._lock:
            self._by_path[unit.identity.cgroup_path] = unit
            self._all = None

    def take_limits(self, limits: Mapping[int, KernelLimits]) -> None:
        """Record what the kernel holds units to, by slot; a unit that is not among them stays as it is."""
        for unit in self.all():
            read = limits.get(unit.slot)
            if read is not None and read != (unit.cpu_max_millicores, unit.memory_max_bytes):
                self.put(replace(unit, **read._asdict()))

    def drop(self, path: str) -> WatchedUnit | None:
        """Forget the unit at this path; None = there was none."""
        with self._lock:
            unit = self._by_path.pop(path, None)
            if unit is not None:
                self._all = None
                self._gone.append((time.monotonic_ns(), unit))
            return unit

    def get(self, path: str) -> WatchedUnit | None:
        """Return the unit at this path."""
        with self._lock:
            return self._by_path.get(path)

    def last_gone(self, path: str, *, now_ns: int) -> WatchedUnit | None:
        """Return the unit that has gone last from this path or, if it is a pod's, from below it; None = none lately."""
        below = path.rstrip("/") + "/"
        with self._lock:
            lately = [unit for gone_ns, unit in self._gone if now_ns - gone_ns <= GONE_NS]
        units_below = (unit for unit in reversed(lately) if f"{unit.identity.cgroup_path}/".startswith(below))
        return next(units_below, None)

    def in_slot(self, slot: int) -> WatchedUnit | None:
        """Return the unit that is sampled into this slot."""
        with self._lock:
            return next((unit for unit in self._by_path.values() if unit.slot == slot), None)

    def all(self) -> tuple[WatchedUnit, ...]:
        """Return all units, in the order in which they were found; the very same object until one changes."""
        with self._lock:
            if self._all is None:
                self._all = tuple(self._by_path.values())
            return self._all

    def __len__(self) -> int:
        with self._lock:
            return len(self._by_path)
