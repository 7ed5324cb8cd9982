"""Whose ``memory.events`` moved between two slow ticks, by the rows that the sampler wrote of it. Node.

The sampler has read each of these files a moment before: who was killed or held back is looked for where its row tells
something new, and not in hundreds of files that stand as they stood. On the sampling thread.
"""

from __future__ import annotations

import numpy as np

from agent.core.window.ring_rows import Has, Status
from agent.node.sampling.unit_table import WatchedUnit
from agent.sensing.ring_file import RingFile

_SEEN = np.dtype([("inode", "<u8"), ("oom_kill", "<u4"), ("high_events", "<u4")])


class MovedEvents:
    """What the newest row of each slot said when it was last looked at."""

    def __init__(self, rings: RingFile) -> None:
        self._rings = rings
        self._seen = np.zeros(rings.geometry.max_slots, dtype=_SEEN)
        self._units: tuple[WatchedUnit, ...] = ()
        self._slots: list[int] = []
        self._inodes = np.zeros(0, dtype=np.uint64)

    def paths(self, units: tuple[WatchedUnit, ...]) -> list[str]:
        """Return the cgroups of which a row tells another count than the one before, or none; after a slow sweep.

        A cgroup that is new here is among them: what happened before its first row, no row tells.
        """
        if not units:
            return []
        if units is not self._units:
            self._units, self._slots = units, [unit.slot for unit in units]
            self._inodes = np.array([unit.inode for unit in units], dtype=np.uint64)
        slots = self._slots
        rows = self._rings.newest_memory_rows(slots)
        now = np.empty(len(slots), dtype=_SEEN)
        now["inode"] = self._inodes
        now["oom_kill"], now["high_events"] = rows["oom_kill"], rows["high_events"]
        is_told = (rows["status"] == Status.OK) & ((rows["has"] & Has.MEMORY_EVENTS) != 0)
        # One that is not told is new again as soon as it is: no cgroup has the inode 0.
        now["inode"][~is_told] = 0
        is_moved = ~is_told | (now != self._seen[slots])
        self._seen[slots] = now
        return [units[number].identity.cgroup_path for number in np.flatnonzero(is_moved).tolist()]
