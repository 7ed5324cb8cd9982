"""Out-of-memory kills and throttling at memory.high as they happen: ``memory.events``, by epoll, and read again.

Sensing. Owns descriptors; whose a kill was is judged by ``kills``.
Source: "Memory Interface Files" in the kernel's cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from agent.named_file import is_missing
from agent.sensing.cgroup_path import PathKind, parse_cgroup_path
from agent.sensing.cgroup_text import parse_memory_event_counts
from agent.sensing.kill_counts import KillLedger

_READ_BYTES: Final = 4096
"""memory.events has some 80 bytes; a read that fills this is taken for cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomKill:
    """Processes of a cgroup were killed for want of memory."""

    path: str
    """Of the container; of the pod when its container was gone before it could be read, or was not watched."""
    kills: int
    """How many since the reading before."""
    monotonic_ns: int
    """CLOCK_MONOTONIC at the reading that showed it."""
    at_limit: bool = False
    """A memory limit was hit, of the cgroup itself or (the counter goes up the tree) of one below it; else the kernel
    killed for want of memory further up, on the whole node for instance."""
    at_pod_limit: bool = False
    """Of a container: the limit that was hit is its pod's. A pod's is as large as its containers' together, and its
    sandbox uses some of it: so it may be the pod's that is hit when a container fills its own."""


class WatchResult(StrEnum):
    """Whether a memory.events file is watched now, and why not. Also a metric label."""

    WATCHED = "watched"
    GONE = "gone"
    """The cgroup vanished before it could be opened: normal."""
    ABSENT = "absent"
    """No memory controller in this cgroup."""
    LIMIT = "limit"
    """Out of file descriptors, of those allowed here, or of epoll watches."""
    UNREADABLE = "unreadable"
    """Not permitted, or not understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """All are required here: without ``oom`` nobody knows whose limit it was."""

    oom: int
    oom_kill: int
    high: int


@dataclass(frozen=True, slots=True)
class _File:
    fd: int
    group: str
    """The pod's path for a pod and its containers; anything else is a group of its own."""
    is_pod: bool


class MemoryEvents:
    """Watches memory.events of containers and pods; ``fileno`` is readable when one of them changed.

    What is a pod, and which containers are its own, the paths tell. One thread at a time.
    """

    def __init__(
        self, mount: Path, *, max_files: int | None = None, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Open the epoll.

        Args:
            max_files: Descriptors held at most; what comes on top is answered with ``LIMIT``. None = no bound. The
                sampler's budget does not know of these, and whoever comes last, such as a scrape, would find none.
        """
        self._mount = str(mount).rstrip("/")
        self._max_files = max_files
        self._clock_ns = clock_ns
        self._epoll = select.epoll()
        self._files: dict[str, _File] = {}
        self._paths: dict[int, str] = {}
        self._ledgers: dict[str, KillLedger] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._pending: list[OomKill] = []
        self._hits: dict[str, int] = {}
        """Path -> how often its limit, or one below it, was hit."""
        self._high: dict[str, int] = {}
        """Path of no pod -> how often its tasks were held back at memory.high."""
        self._held: dict[str, None] = {}

    def fileno(self) -> int:
        """Return the epoll's descriptor, to be nested in the loop's."""
        return self._epoll.fileno()

    def __len__(self) -> int:
        """Count the files held open."""
        return len(self._files)

    def add(self, path: str) -> WatchResult:
        """Watch a cgroup; what it counted so far is the baseline. One that is watched already stays as it is."""
        if path in self._files:
            return WatchResult.WATCHED
        if self._max_files is not None and len(self._files) >= self._max_files:
            return WatchResult.LIMIT
        try:
            fd = os.open(f"{self._mount}{path}/memory.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            return self._why_not_opened(path, error)
        kind = parse_cgroup_path(path).kind
        is_pod = kind is PathKind.POD
        group = path.rsplit("/", 1)[0] if kind is PathKind.CONTAINER else path
        if is_pod and group in self._ledgers:
            # The pod's baseline will hold what its containers counted up to now: tell that first.
            self._observe(group)
        counts = _read_counts(fd)
        if counts is None:
            os.close(fd)
            return WatchResult.GONE if is_missing(Path(self._mount + path)) else WatchResult.UNREADABLE
        self._files[path] = _File(fd, group, is_pod)
        self._paths[fd] = path
        self._members.setdefault(group, {})[path] = None
        ledger = self._ledgers.setdefault(group, KillLedger())
        self._hits[path] = counts.oom
        if is_pod:
            ledger.add_pod(counts.oom_kill)
        else:
            self._high[path] = counts.high
            ledger.add_container(path, counts.oom_kill)
        try:
            self._epoll.register(fd, select.EPOLLPRI)
        except PermissionError:
            pass  # not a kernel file, as in tests: poll sees it
        except OSError:  # ENOSPC: fs.epoll.max_user_watches; poll still sees it
            return WatchResult.LIMIT
        return WatchResult.WATCHED

    def remove(self, path: str) -> None:
        """Stop watching. What a last reading shows comes with the next ``drain``; a path not watched is fine."""
        file = self._files.get(path)
        if file is None:
            return
        self._observe(file.group)
        self._drop(path)

    def drain(self) -> list[OomKill]:
        """Read again what woke the epoll and return the kills that are new."""
        groups: dict[str, None] = {}
        for fd, _ in self._epoll.poll(0):
            path = self._paths.get(fd)
            if path is not None:
                groups[self._files[path].group] = None
        return self._collect(groups)

    def poll(self, paths: Iterable[str]) -> list[OomKill]:
        """Read again what belongs to these cgroups, their pods and neighbours with them: the net below ``drain``.

        Args:
            paths: Those that are not watched are fine.
        """
        return self._collect({self._files[path].group: None for path in paths if path in self._files})

    def take_held(self) -> tuple[str, ...]:
        """Return the cgroups, pods left out, whose tasks were held back at memory.high in what was read since."""
        held, self._held = tuple(self._held), {}
        return held

    def close(self) -> None:
        """Close all files; a second call is fine."""
        for file in self._files.values():
            os.close(file.fd)
        self._files.clear()
        self._paths.clear()
        self._ledgers.clear()
        self._members.clear()
        self._hits.clear()
        self._high.clear()
        self._held.clear()
        self._epoll.close()

    def _collect(self, groups: Mapping[str, None]) -> list[OomKill]:
        for group in groups:
            self._observe(group)
        kills, self._pending = self._pending, []
        return kills

    def _observe(self, group: str) -> None:
        """Read a pod and then its containers, and note what is new. Files of vanished cgroups are dropped."""
        ledger = self._ledgers.get(group)
        if ledger is None:
            return
        members = sorted(self._members[group], key=lambda path: not self._files[path].is_pod)  # the pod first
        pod_count: int | None = None
        counts: dict[str, int] = {}
        gone: list[str] = []
        hits: dict[str, int] = {}
        for path in members:
            read = _read_counts(self._files[path].fd)
            if read is None:
                gone.append(path)
                continue
            hits[path] = read.oom
            if self._files[path].is_pod:
                pod_count = read.oom_kill
            else:
                counts[path] = read.oom_kill
                if read.high > self._high[path]:
                    self._held[path] = None
                self._high[path] = read.high
        of_pod, of_containers = ledger.observe(pod_count, counts)
        now_ns = self._clock_ns()
        new_kills = (*of_containers.items(), *(((group, of_pod),) if of_pod else ()))
        new_hits = {path: count - self._hits[path] for path, count in hits.items()}
        containers_own = sum(new for path, new in new_hits.items() if path != group)
        pods_own = new_hits.get(group, 0) - containers_own
        if pods_own <= 0 and any(path != group and new_hits[path] <= 0 for path in of_containers):
            pods_own = self._pods_own_hits(group, hits)
        if group in hits:  # what its containers counted since it was read is in the pod's count too
            new_hits[group] = containers_own + max(pods_own, 0)
            hits[group] = self._hits[group] + new_hits[group]
        self._pending += [
            OomKill(
                path=path,
                kills=kills,
                monotonic_ns=now_ns,
                at_limit=new_hits[path] > 0,
                at_pod_limit=path != group and new_hits[path] <= 0 < pods_own,
            )
            for path, kills in new_kills
        ]
        if new_kills:
            # Not before: the kernel counts the limit that was hit, and notifies, some time before it counts the kill.
            self._hits |= hits
        for path in gone:
            self._drop(path)

    def _pods_own_hits(self, group: str, paths: Collection[str]) -> int:
        """Return how often a pod's own limit was hit since the last kill, read again; 0 where that is not known.

        The pod is read before its containers: the kernel may count a hit of the pod's limit after the one reading, and
        the kill that follows before the other. Another reading of the pod has the hit.
        """
        if group not in paths:
            return 0
        own = 0
        for path in sorted(paths, key=lambda path: path != group):  # the pod first: no later hit counts as its own
            counts = _read_counts(self._files[path].fd)
            if counts is None:
                return 0
            own += (counts.oom - self._hits[path]) * (1 if path == group else -1)
        return own

    def _drop(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is None:
            return
        del self._paths[file.fd], self._hits[path]
        self._high.pop(path, None)
        self._held.pop(path, None)
        os.close(file.fd)  # takes it out of the epoll too
        ledger = self._ledgers[file.group]
        if file.is_pod:
            ledger.remove_pod()
        else:
            ledger.remove_container(path)
        del self._members[file.group][path]
        if not self._members[file.group]:
            del self._members[file.group]
            del self._ledgers[file.group]

    def _why_not_opened(self, path: str, error: OSError) -> WatchResult:
        if error.errno in {errno.EMFILE, errno.ENFILE}:
            return WatchResult.LIMIT
        if error.errno in {errno.EACCES, errno.EPERM}:
            return WatchResult.UNREADABLE
        # Not by Path: without a memory controller all are asked for again each minute.
        return WatchResult.ABSENT if os.path.isdir(f"{self._mount}{path}") else WatchResult.GONE


def _read_counts(fd: int) -> _Counts | None:
    """Return the counters; None = the cgroup is gone (ENODEV), or its text is not understood."""
    try:
        text = os.pread(fd, _READ_BYTES, 0)
    except OSError:
        return None
    counts = parse_memory_event_counts(text) if len(text) < _READ_BYTES else None
    if counts is None or counts.oom is None:
        return None
    return _Counts(oom=counts.oom, oom_kill=counts.oom_kill, high=counts.high)
