"""The fast lane: a few pressure totals read several times a second, so that contention starts a sweep early.

One of them is the memory pressure of all pods together: while it stands still nobody need look who waits for memory.

Node. What counts as rising is a rule of ``core.window.sweep_pace``; here are the files, their numbers and when they are
due.
The kernel weighs stalls in whole jiffies at each read: below some 20 ms between two reads of one file its total loses
time. That is why the rate is bounded and why nobody else reads these files.

As long as nothing rises and nobody is looked for, the sampler reads them in the wait for the next sweep, in C: those
between two sweeps wake no Python.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent.core.window.sweep_pace import (
    ContentionPolicy,
    LaneState,
    LaneWatch,
    QuietBand,
    lane_waiting_ratio,
    next_on_grid,
    quiet_band,
    watch_lanes,
)
from agent.sensing.sampler_contract import LaneReading, QuietLane, Sampler, SamplerError

log = logging.getLogger(__name__)

NODE_PRESSURE: Final = "/proc/pressure/cpu"
NEVER_NS: Final = 2**63 - 1
MOST_STEP_NS: Final = 10**18
"""Thirty years: a rate that C could not count with is no rate."""


class FastLane:
    """The lanes of one sampler; the sampling thread only."""

    def __init__(
        self,
        sampler: Sampler,
        *,
        hz: float,  # Reads a second; 0 = no fast lane
        policy: ContentionPolicy,
    ) -> None:
        self._sampler, self._hz, self._policy = sampler, hz, policy
        self._step_ns = min(int(1e9 / hz), MOST_STEP_NS) if hz > 0 else MOST_STEP_NS
        self._lanes: dict[str, int] = {}
        self._memory_path: str | None = None
        self._memory: LaneState | None = None
        self.is_memory_waited_for = False
        """Tasks of some pod have waited for memory, as of the newest reading."""
        self._watch = LaneWatch()
        self._due_ns = 0

    @property
    def due_ns(self) -> int:
        """When the lanes are to be read next; never while there are none."""
        return self._due_ns if self._lanes else NEVER_NS

    def begin(self, now_ns: int) -> None:
        """Begin the grid of readings now: with the sweeps, so that one waking serves both."""
        self._due_ns = now_ns

    def follow(self, kubepods_root: str | None) -> None:
        """Watch the node and, where there are pods, the root of them all; what died is opened anew."""
        if self._hz <= 0:
            return
        wanted = [NODE_PRESSURE]
        if kubepods_root:
            wanted.append(kubepods_root.lstrip("/") + "/cpu.pressure")
            self._memory_path = kubepods_root.lstrip("/") + "/memory.pressure"
            wanted.append(self._memory_path)
        # A file that cannot be read any more is a dead cgroup's: its namesake's is opened anew.
        dead = {reading.lane for reading in self._sampler.read_lanes() if reading.some_usec is None}
        for path in [path for path, lane in self._lanes.items() if path not in wanted or lane in dead]:
            lane = self._lanes.pop(path)
            self._sampler.remove_lane(lane)
            if path == self._memory_path:
                self._memory = None
            lanes = {number: state for number, state in self._watch.lanes.items() if number != lane}
            self._watch = replace(self._watch, lanes=lanes)  # its number may be given to another file
        for path in wanted:
            if path in self._lanes:
                continue
            try:
                self._lanes[path] = self._sampler.add_lane(path)
            except SamplerError as error:
                log.debug("no fast lane", extra={"path": path, "cause": str(error)})

    def read(self, now_ns: int) -> tuple[str, ...]:
        """Read all lanes; give the paths on which contention rose, if a sweep may start early for it."""
        self._due_ns = next_on_grid(self._due_ns, self._step_ns, now_ns)
        return self._take(self._sampler.read_lanes())

    def quiet(self) -> Sequence[QuietLane]:
        """Return all lanes with what is quiet of them, to be waited on; empty = one of them is to be read as before."""
        known = dict(self._watch.lanes)
        memory_lane = self._lanes.get(self._memory_path or "")
        if memory_lane is not None and self._memory is not None:
            known[memory_lane] = self._memory
        if self.is_memory_waited_for or known.keys() != set(self._lanes.values()):
            return ()
        for_memory = QuietBand(0.0, self._policy.memory_waiting_ratio)
        return [
            QuietLane(
                lane,
                state.monotonic_ns,
                state.some_usec,
                for_memory if lane == memory_lane else quiet_band(state, self._policy),
            )
            for lane, state in known.items()
        ]

    def wait(self, quiet: Sequence[QuietLane], wake_fd: int, *, until_ns: int) -> tuple[str, ...] | None:
        """Wait until a moment or until a descriptor can be read, and read lanes meanwhile that are quiet.

        Returns:
            As of ``read``, of a reading in which something was up, which ends the wait; None = nothing was.
        """
        waited = self._sampler.wait_on_lanes(
            quiet, wake_fd=wake_fd, until_ns=until_ns, due_ns=self._due_ns, step_ns=self._step_ns
        )
        self._due_ns = waited.due_ns
        lanes = dict(self._watch.lanes)
        for lane, monotonic_ns, some_usec, _ in waited.quiet:
            if lane in lanes:
                lanes[lane] = lanes[lane]._replace(monotonic_ns=monotonic_ns, some_usec=some_usec)
            else:
                self._memory = LaneState(monotonic_ns, some_usec)
        self._watch = replace(self._watch, lanes=lanes)
        return self._take(waited.news) if waited.news else None

    def _take(self, read: Sequence[LaneReading]) -> tuple[str, ...]:
        """Compare a reading of all lanes with the one before; return as ``read`` does."""
        readings = {
            reading.lane: (reading.monotonic_ns, reading.some_usec) for reading in read if reading.some_usec is not None
        }
        memory = readings.pop(self._lanes.get(self._memory_path or "", -1), None)
        waiting_ratio = None if memory is None else lane_waiting_ratio(self._memory, *memory)
        self._memory = None if memory is None else LaneState(*memory)
        self.is_memory_waited_for = waiting_ratio is not None and waiting_ratio >= self._policy.memory_waiting_ratio
        self._watch, risen = watch_lanes(self._watch, readings, self._policy)
        by_lane = {lane: path for path, lane in self._lanes.items()}
        return tuple(by_lane[lane] for lane in risen)
