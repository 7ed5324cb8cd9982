"""The sampler on one real cgroup tree, for payload tests: sweeps, and rows of the newest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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
from tests.guest.waiting import DEADLINE_SECONDS

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


class Seen(NamedTuple):
    """A window of one cgroup, and the rows it is made of."""

    window: CpuWindow
    rows: np.ndarray

    def rate(self, column: str) -> float:
        """Return by how much a counter of microseconds grew, by the kernel's own count, as a part of the time."""
        return float(self._rates(column, self.rows[[0, -1]])[0])

    def peak_rate(self, column: str) -> float:
        """Return the same of the step in which it grew most."""
        return float(self._rates(column, self.rows).max())

    @staticmethod
    def _rates(column: str, rows: np.ndarray) -> np.ndarray:
        grown_usec, passed_ns = (np.diff(rows[name].astype(np.int64)) for name in (column, "monotonic_ns"))
        rates: np.ndarray = grown_usec * 1000 / passed_ns
        return rates


def seen_where(tree: FullTree, path: str, premise: Callable[[Seen], bool], *, seconds: float) -> Seen:
    """Sample for so long until the kernel's own counts say that what a test is about took place; give the window.

    An emulated machine that the host lets wait runs nothing for seconds at a time: no load contends or is held then.

    Raises:
        TimeoutError: It did not within ``DEADLINE_SECONDS``.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with watching(tree, path) as watched:
            seen = Seen(watched.cpu(seconds=seconds), watched.rings.raw(watched.slot).joined())
        print(seen.window)
        if premise(seen):
            return seen
    msg = f"not within {DEADLINE_SECONDS:.0f} s: {path} has {seen.rows}"
    raise TimeoutError(msg)


def is_held(seen: Seen) -> bool:
    """Return whether the kernel held one busy loop by a cpu.max of a fifth of a CPU all the time."""
    return seen.rate("throttled_usec") > 0.7 and seen.peak_rate("usage_usec") < 0.35


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
