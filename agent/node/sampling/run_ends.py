"""What is left of containers that have ended: copies of their rows, and the memory peak that the kernel kept.

Node; the sampling thread tells of containers, another takes what is left. A container of a second is seen from its
first moment by inotify; its slot is handed on at once, so its rows are copied when it goes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.window.ring_rows import Status
from agent.core.window.short_life import cache_in_peak_bytes, peak_step_bytes, short_life_bytes
from agent.node.sampling.row_source import Rows, RowSource
from agent.node.sampling.short_lives import ShortLife, ShortLives
from agent.node.sampling.unit_table import WatchedUnit
from agent.sensing.cgroup_path import identify
from agent.sensing.cgroup_text import parse_number
from agent.sensing.spot_readings import (
    read_memory,
    read_memory_current_bytes,
    read_memory_peak_bytes,
    read_usage_usec,
)

YOUNG_NS: Final = 120_000_000_000
"""As long as a container is younger its memory.peak is read at each sweep and look of the fast lane: two microseconds.
Later the slow tick does."""
MOST_YOUNG: Final = 64
"""Whose file is held open at most; of more the slow tick tells."""
MOST_BYTES: Final = 4 << 20
"""Of what is left of all that wait to be taken; the oldest go first. Of a run of seconds it is a kilobyte, of one of a
day a hundred."""
UNKNOWN_NS: Final = 60_000_000_000
"""So young its pod may not be known yet: what is left of it is kept in any case."""
MOST_RAW_ROWS: Final = 700
MOST_MINUTES: Final = 1440
"""Of a run of more than a day the last one is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedContainer:
    """A container that has gone, as it was when it went."""

    identity: UnitIdentity
    started_ns: int
    """When it was first seen, CLOCK_MONOTONIC."""
    ended_ns: int
    is_from_beginning: bool
    """It was seen being made."""
    raw: Rows
    memory: Rows
    minutes: Rows
    memory_peak_bytes: int | None
    """As read last from its own cgroup, which is gone; None = never."""
    pod_memory_peak_bytes: int | None
    """Of its pod's cgroup, right after it went: all that ever ran in the pod."""
    pod_usage_usec: int | None

    @property
    def size_bytes(self) -> int:
        """Return what it takes of memory, about."""
        return _OBJECT_BYTES + self.raw.nbytes + self.memory.nbytes + self.minutes.nbytes


_OBJECT_BYTES: Final = 1000
_Item = TypeVar("_Item")


def newest_within(items: Sequence[_Item], size_bytes: Callable[[_Item], int], most_bytes: int) -> Sequence[_Item]:
    """Return the newest of some items, which are in order, that take no more than so much together."""
    total = 0
    for place in range(len(items) - 1, -1, -1):
        total += size_bytes(items[place])
        if total > most_bytes:
            return items[place + 1 :]
    return items


@dataclass(slots=True)
class _Present:
    started_ns: int
    is_from_beginning: bool
    peak_file: int | None
    """A descriptor of memory.peak; None = closed, or never opened."""
    peak_bytes: int | None = None
    cache_bytes: int | None = None
    """What of the peak was file cache that the kernel would have given back, as last told."""
    looked_at_bytes: int = 0
    """The peak of which that was asked last."""
    pod_peak_bytes: int | None = None
    """memory.peak of its pod when it came; None = its pod's later peak tells nothing of it."""
    pod_rest_bytes: int = 0
    """What its pod held then beside its containers, of those that had ended: their file cache, as a rule."""


def _may_be_run(identity: UnitIdentity) -> bool:
    """Return whether a cgroup may be that of a run's container.

    One that has just been made is named a sandbox, as its pod is known and no status names it yet: who is what is found
    out when its end is told.
    """
    return identity.kind in (UnitKind.CONTAINER, UnitKind.SANDBOX) and None not in (
        identity.pod_uid,
        identity.container_id,
    )


class RunEnds:
    """The containers that have ended and were not taken yet, with their last rows and memory peaks."""

    def __init__(
        self,
        *,
        mount: Path,  # Of cgroup v2
        rings: RowSource,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        on_end: Callable[[], None] = lambda: None,  # Hears that something can be taken; it must not wait
        tells_runs: bool = True,  # Somebody takes what is left; else only the memory of those that ended young is kept
    ) -> None:
        self._mount, self._rings = mount, rings
        self.clock_ns: Final = clock_ns
        """What its moments are told by."""
        self.on_end = on_end
        self.tells_runs: Final = tells_runs
        self.lives: Final = ShortLives()
        """The memory of those that ended young."""
        self.run_pods: frozenset[str] = frozenset()
        """Uids of pods whose ends are of interest; replaced whole by who takes what is left."""
        self._present: dict[str, _Present] = {}
        self._young: dict[str, _Present] = {}
        self._lock = threading.Lock()
        self._ended: Sequence[EndedContainer] = ()

    # -- the sampling thread ---------------------------------------------------------------------------------------

    def came(self, unit: WatchedUnit, *, is_new: bool) -> None:
        """Begin with a container; ``is_new`` says that it was seen being made."""
        identity = unit.identity
        if not _may_be_run(identity):
            return
        path, file = identity.cgroup_path, None
        before = self._present.get(path)
        if before is not None:
            self._close(path, before)
        if is_new and len(self._young) < MOST_YOUNG:
            with suppress(OSError):  # gone already, or a kernel before 5.19
                file = os.open(f"{self._mount}{path}/memory.peak", os.O_RDONLY | os.O_CLOEXEC)
        self._present[path] = present = _Present(self.clock_ns(), is_new, file)
        if file is not None:
            self._young[path] = present
            self._read(path, present, file)
            self._begin_with_pod(path, present)

    @property
    def has_young(self) -> bool:
        """Return whether there are young ones, whose peaks are read often."""
        return bool(self._young)

    def look(self) -> None:
        """Read the peaks of the young."""
        now_ns = self.clock_ns()
        for path, present in list(self._young.items()):
            file = present.peak_file
            if file is not None:
                self._read(path, present, file)
            if now_ns - present.started_ns >= YOUNG_NS:
                self._close(path, present)

    def _read(self, path: str, present: _Present, file: int) -> None:
        with suppress(OSError):  # ENODEV: it has gone meanwhile, and what was read last holds
            peak_bytes = parse_number(os.pread(file, 64, 0))
            present.peak_bytes = peak_bytes if peak_bytes is not None else present.peak_bytes
        peak = present.peak_bytes
        if peak is None or peak - present.looked_at_bytes < peak_step_bytes(present.looked_at_bytes):
            return
        present.looked_at_bytes = peak
        reading = read_memory(f"{self._mount}{path}")
        if reading is not None:
            cache = cache_in_peak_bytes(
                peak, current_bytes=reading.current_bytes, inactive_file_bytes=reading.inactive_file_bytes
            )
            present.cache_bytes = cache if cache is not None else present.cache_bytes

    def _neighbours(self, path: str) -> list[tuple[str, _Present]]:
        """Return the other containers of a pod that are there, the sandbox among them."""
        pod = path.rpartition("/")[0] + "/"
        return [(other, present) for other, present in self._present.items() if other != path and other.startswith(pod)]

    def _begin_with_pod(self, path: str, present: _Present) -> None:
        """Record what the pod holds, so that its peak tells of a container that grows after the last look."""
        own = [read_memory_current_bytes(f"{self._mount}{path}")]
        own += [read_memory_current_bytes(f"{self._mount}{other}") for other, _ in self._neighbours(path)]
        pod_directory = f"{self._mount}{path.rpartition('/')[0]}"
        current = read_memory_current_bytes(pod_directory)
        known = [size for size in own if size is not None]
        if current is not None and len(known) == len(own):
            present.pod_rest_bytes = max(current - sum(known), 0)
            present.pod_peak_bytes = read_memory_peak_bytes(pod_directory)

    def _end_with_pod(self, path: str, present: _Present, pod_peak_bytes: int | None) -> None:
        """Raise the peak to what is left of a new peak of its pod, which stays when the container's own file is gone.

        At that moment the others had no more than their own peaks, and nobody was there who has ended meanwhile; so it
        is the least that the container had; of a pod without others exactly that.
        """
        neighbours = self._neighbours(path)
        before, rest = present.pod_peak_bytes, present.pod_rest_bytes
        for _, other in neighbours:
            other.pod_peak_bytes = None  # what ends here was there beside them, and of it nothing can be read any more
        if before is None or pod_peak_bytes is None or pod_peak_bytes <= before:
            return
        peaks = [read_memory_peak_bytes(f"{self._mount}{other}") for other, _ in neighbours]
        known = [peak for peak in peaks if peak is not None]
        if len(known) == len(peaks):
            present.peak_bytes = max(present.peak_bytes or 0, pod_peak_bytes - rest - sum(known))

    def _close(self, path: str, present: _Present) -> None:
        self._young.pop(path, None)
        if present.peak_file is not None:
            os.close(present.peak_file)
            present.peak_file = None

    def went(self, unit: WatchedUnit) -> None:
        """Keep what is left of a container that has gone; before its slot is given up."""
        path = unit.identity.cgroup_path
        present = self._present.pop(path, None)
        if present is None:
            return
        if present.peak_file is not None:
            self._read(path, present, present.peak_file)
        self._close(path, present)
        pod_directory = f"{self._mount}{path.rpartition('/')[0]}"
        pod_peak_bytes = read_memory_peak_bytes(pod_directory)
        self._end_with_pod(path, present, pod_peak_bytes)
        now_ns = self.clock_ns()
        is_own = self._rings.inode(unit.slot) == unit.inode
        if present.is_from_beginning and now_ns - present.started_ns < YOUNG_NS:
            self._keep_life(unit, present, now_ns, is_own=is_own)
        if not self.tells_runs:
            return
        is_wanted = unit.identity.pod_uid in self.run_pods or now_ns - present.started_ns < UNKNOWN_NS
        if not is_wanted or not is_own:
            return
        ended = EndedContainer(
            identity=unit.identity,
            started_ns=present.started_ns,
            ended_ns=now_ns,
            is_from_beginning=present.is_from_beginning,
            raw=self._rings.raw(unit.slot, MOST_RAW_ROWS).joined(),
            memory=self._rings.memory(unit.slot).joined(),
            minutes=self._rings.minutes(unit.slot, MOST_MINUTES).joined(),
            memory_peak_bytes=present.peak_bytes,
            pod_memory_peak_bytes=pod_peak_bytes,
            pod_usage_usec=read_usage_usec(pod_directory),
        )
        self._keep(ended)

    def _keep_life(self, unit: WatchedUnit, present: _Present, now_ns: int, *, is_own: bool) -> None:
        working_set_bytes = short_life_bytes(
            (self._rings.memory(unit.slot).joined(),) if is_own else (),
            peak_bytes=present.peak_bytes,
            cache_bytes=present.cache_bytes,
        )
        if working_set_bytes is not None:
            life = ShortLife(
                unit=unit, started_ns=present.started_ns, ended_ns=now_ns, working_set_bytes=working_set_bytes
            )
            self.lives.add(life)

    def left(self, path: str, slot: int) -> None:
        """Keep what an earlier run of the agent left of a container that went while nobody looked.

        Args:
            path: Of its cgroup, below the mount.
            slot: In the rings; it is given up afterwards.
        """
        if not self.tells_runs:
            return
        identity = identify(path)
        raw = self._rings.raw(slot, MOST_RAW_ROWS).joined()
        stamps = raw["monotonic_ns"][raw["status"] == int(Status.OK)]
        if identity is None or not _may_be_run(identity) or not stamps.size:
            return
        self._keep(
            EndedContainer(
                identity=identity,
                started_ns=int(stamps[0]),
                ended_ns=int(stamps[-1]),
                is_from_beginning=False,
                raw=raw,
                memory=self._rings.memory(slot).joined(),
                minutes=self._rings.minutes(slot, MOST_MINUTES).joined(),
                memory_peak_bytes=None,
                pod_memory_peak_bytes=read_memory_peak_bytes(f"{self._mount}{path.rpartition('/')[0]}"),
                pod_usage_usec=None,
            )
        )

    def _keep(self, ended: EndedContainer) -> None:
        with self._lock:
            self._ended = newest_within((*self._ended, ended), lambda container: container.size_bytes, MOST_BYTES)
        self.on_end()

    def close(self) -> None:
        """Close all files."""
        for path, present in list(self._young.items()):
            self._close(path, present)

    # -- another thread --------------------------------------------------------------------------------------------

    def take(self) -> list[EndedContainer]:
        """Return those that have ended since the last time, in order."""
        with self._lock:
            ended, self._ended = list(self._ended), ()
        return ended
