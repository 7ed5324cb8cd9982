"""The sampler on one real cgroup tree, for payload tests: sweeps, and rows of the newest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import numpy as np

from agent.core.window.cpu import cpu_window
from agent.core.window.policy import WindowPolicy
from agent.core.window.snapshot import CpuWindow
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler
from agent.sensing.sampler_contract import Sampler
from agent.sensing.state_file import RingGeometry, read_boot_id
from tests.guest.full_tree import FullTree

SamplerName = Literal["native", "reference"]
CAPACITY_MILLICORES = 2000
"""The guest has two CPUs (machine.py)."""


class Watched(NamedTuple):
    """One cgroup under a sampler of its own."""

    sampler: Sampler
    rings: RingFile
    slot: int

    def sweep(self, *, slow: bool = False) -> None:
        """Sweep once; it must have worked."""
        result = self.sampler.sweep(slow=slow, retry_absent=False)
        assert (result.sampled, result.failed) == (1, 0)

    def newest(self) -> np.void:
        """Return the newest raw row."""
        row = self.rings.newest(self.slot)
        assert row is not None
        return row

    def newest_memory(self) -> np.void:
        """Return the newest memory row."""
        rows = self.rings.memory(self.slot, 1).joined()
        assert len(rows) == 1
        newest: np.void = rows[0]
        return newest

    def cpu(self, *, seconds: float, interval_seconds: float = 0.5) -> CpuWindow:
        """Sample for so long and give the window over it."""
        end = time.monotonic() + seconds
        self.sweep()
        while time.monotonic() < end:
            time.sleep(interval_seconds)  # the interval itself, not a wait for a condition
            self.sweep()
        policy = WindowPolicy(
            capacity_millicores=CAPACITY_MILLICORES,
            rate_window_seconds=2.0,
            min_rate_seconds=1.0,
            max_step_seconds=10.0,  # a busy machine may keep the guest from sweeping for seconds
        )
        return cpu_window(self.rings.raw(self.slot).pieces, policy, end_monotonic_ns=time.monotonic_ns())


@contextmanager
def watching(tree: FullTree, path: str, which: SamplerName = "native") -> Iterator[Watched]:
    """Open a sampler and rings of their own on one cgroup."""
    geometry = RingGeometry(max_slots=4)
    with RingFile.open(None, geometry, boot_id=read_boot_id()) as rings:
        sampler = open_sampler(tree.mount, rings, fd_budget=100, max_lanes=2, force=which)
        assert sampler.name == which
        try:
            slot = rings.attach(tree.relative(path), tree.inode(path), now_monotonic_ns=time.monotonic_ns())
            sampler.add(slot, tree.relative(path), tree.inode(path))
            yield Watched(sampler, rings, slot)
        finally:
            sampler.close()
