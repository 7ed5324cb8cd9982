"""Fakes of the seams: a clock that moves when told, a sampler without a kernel.

Each is held to the real one by a shared contract test: `tests/unit/sensing/test_sampler_contract.py`.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.core.window.ring_rows import SAMPLE, Status
from agent.sensing.reference_sampler import wait_on_lanes
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler_contract import (
    CgroupGone,
    LaneReading,
    LaneWait,
    QuietLane,
    SamplerError,
    SamplerStats,
    SweepResult,
)
from agent.sensing.spot_readings import KernelLimits, read_limits

NS = 1_000_000_000


class FakeClock:
    """CLOCK_MONOTONIC that stands still until it is moved, or until somebody waits."""

    def __init__(self, seconds: float = 1000.0) -> None:
        self.now_ns = round(seconds * NS)

    def __call__(self) -> int:
        return self.now_ns

    @property
    def seconds(self) -> float:
        return self.now_ns / NS

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS)

    def wait(self, epoll: select.epoll, seconds: float) -> list[tuple[int, int]]:
        """Return what is ready now; when nothing is, let the time pass at once."""
        ready = epoll.poll(0)
        if not ready:
            self.advance(seconds)
        return ready


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep that a `FakeSampler` was asked for."""

    at_seconds: float
    is_slow: bool
    is_retry: bool


class FakeSampler:
    """A `contract.Sampler` that looks whether directories are there and writes empty rows; faults are set by hand."""

    def __init__(self, root: Path, rings: RingFile, clock: FakeClock) -> None:
        self._root, self.rings, self.clock = root, rings, clock
        self._slots: dict[int, tuple[str, int]] = {}
        self._lanes: dict[int, str] = {}
        self.sweeps: list[Sweep] = []
        self.sweep_seconds = 0.001
        """How long a sweep takes on the clock."""
        self.cost_seconds: float | None = None
        """CPU time of a sweep; None = all of that time."""
        self.cpu_ns = 0
        """CPU time of all sweeps so far."""
        self.refusals: dict[str, SamplerError] = {}
        """Raised by `add` for these paths."""
        self.sweep_error: Exception | None = None
        """Raised by `sweep` as long as it is set."""
        self.bad_slots: set[int] = set()
        """Slots whose reads fail."""
        self.totals: dict[str, int | None] = {}
        """Pressure totals by path, usec; None = the open file cannot be read any more; absent = cannot be opened."""
        self.waits = 0
        """How often was waited on lanes."""
        self.woken_ns: int | None = None
        """No wait on lanes goes on beyond this moment, as if somebody woke it."""
        self.is_closed = False

    @property
    def name(self) -> str:
        return "fake"

    def watched(self) -> dict[str, int]:
        """Path -> slot."""
        return {path: slot for slot, (path, _) in self._slots.items()}

    def lanes(self) -> set[str]:
        return set(self._lanes.values())

    def _inode(self, relative_path: str) -> int | None:
        try:
            return (self._root / relative_path).stat().st_ino
        except OSError:
            return None

    def add(self, slot: int, relative_path: str, inode: int) -> None:
        if not 0 <= slot < self.rings.geometry.max_slots or relative_path.startswith("/") or slot in self._slots:
            raise ValueError(f"slot {slot} for {relative_path!r}")
        if relative_path in self.refusals:
            raise self.refusals[relative_path]
        if self._inode(relative_path) != inode:
            raise CgroupGone(f"cgroup {relative_path}: gone")
        self._slots[slot] = (relative_path, inode)

    def remove(self, slot: int) -> None:
        self._slots.pop(slot, None)

    def read_limits(self) -> dict[int, KernelLimits]:
        return {slot: read_limits(self._root / path) for slot, (path, _) in self._slots.items()}

    def sweep(self, *, slow: bool, retry_absent: bool) -> SweepResult:
        if self.sweep_error is not None:
            raise self.sweep_error
        started_ns = self.clock.now_ns
        self.sweeps.append(Sweep(self.clock.seconds, slow, retry_absent))
        gone = [slot for slot, (path, inode) in sorted(self._slots.items()) if self._inode(path) != inode]
        for slot in gone:
            del self._slots[slot]
        for slot in self._slots:
            row = np.zeros(1, SAMPLE)
            row["monotonic_ns"] = self.clock.now_ns
            row["status"] = Status.IO if slot in self.bad_slots else Status.OK
            self.rings.append_raw(slot, row)
        self.clock.advance(self.sweep_seconds)
        self.cpu_ns += int((self.sweep_seconds if self.cost_seconds is None else self.cost_seconds) * 1e9)
        failed = len(self.bad_slots & self._slots.keys())
        return SweepResult(
            started_ns=started_ns,
            finished_ns=self.clock.now_ns,
            sampled=len(self._slots) - failed,
            failed=failed,
            memory_rows=0,
            gone=tuple(gone),
        )

    def add_lane(self, path: str) -> int:
        if self.totals.get(path) is None:
            raise SamplerError(f"fast lane {path}: No such file or directory")
        lane = next(number for number in range(len(self._lanes) + 1) if number not in self._lanes)
        self._lanes[lane] = path
        return lane

    def remove_lane(self, lane: int) -> None:
        self._lanes.pop(lane, None)

    def read_lanes(self) -> list[LaneReading]:
        readings = []
        for lane, path in sorted(self._lanes.items()):
            total = self.totals.get(path)
            status = Status.ABSENT if total is None else Status.OK
            readings.append(LaneReading(lane=lane, monotonic_ns=self.clock.now_ns, some_usec=total, status=status))
        return readings

    def wait_on_lanes(
        self, lanes: Sequence[QuietLane], *, wake_fd: int, until_ns: int, due_ns: int, step_ns: int
    ) -> LaneWait:
        if step_ns <= 0 or any(quiet.lane not in self._lanes for quiet in lanes):
            raise ValueError(f"lanes {lanes}, each {step_ns} ns")
        self.waits += 1

        def read(lane: int) -> LaneReading:
            return next(reading for reading in self.read_lanes() if reading.lane == lane)

        def is_woken(moment_ns: int) -> bool:
            wake = select.poll()
            wake.register(wake_fd, select.POLLIN)
            if wake.poll(0):
                return True
            end_ns = moment_ns if self.woken_ns is None else min(moment_ns, self.woken_ns)
            self.clock.now_ns = max(self.clock.now_ns, end_ns)
            return end_ns < moment_ns

        return wait_on_lanes(
            lanes,
            until_ns=until_ns,
            due_ns=due_ns,
            step_ns=step_ns,
            read=read,
            is_woken=is_woken,
            clock_ns=self.clock,
        )

    def stats(self) -> SamplerStats:
        return SamplerStats(errors={}, open_files=1 + len(self._slots) + len(self._lanes), slots=len(self._slots))

    def close(self) -> None:
        self._slots.clear()
        self._lanes.clear()
        self.is_closed = True
