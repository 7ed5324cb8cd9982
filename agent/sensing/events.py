"""Out-of-memory kills as they happen, from ``memory.events``; and, as an opt-in, the kernel's pressure triggers.

Sensing. ``parse_memory_events`` and ``KillLedger`` are pure; ``MemoryEvents`` and ``PsiTrigger`` own descriptors.
Source: "Memory Interface Files" in the kernel's cgroup-v2.rst, accounting/psi.rst.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from agent.sensing.layout import PathKind, parse_cgroup_path

_READ_BYTES: Final = 4096
"""memory.events has some 80 bytes; a read that fills this is taken for cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEventCounts:
    """The counters of a memory.events file, those of all cgroups below included. None = the kernel has no such key."""

    oom: int
    oom_kill: int
    high: int
    max: int
    oom_group_kill: int | None = None
    """Since kernel 5.17."""


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


def parse_memory_events(text: bytes) -> MemoryEventCounts | None:
    """Read the text of a memory.events file.

    A number counts only in whole: digits up to the end of its line. Cut text would show a smaller number.

    Args:
        text: The whole file.

    Returns:
        The counters; None = not understood, or one of the four that every kernel has is missing.
    """
    counts: dict[bytes, int] = {}
    *lines, unfinished = text.split(b"\n")
    if unfinished:
        return None
    for line in lines:
        key, separator, value = line.partition(b" ")
        # isdigit of bytes takes ASCII digits only; 20 of them hold any 64-bit counter.
        if separator and value.isdigit() and len(value) <= 20:
            counts[key] = int(value)
    try:
        return MemoryEventCounts(
            oom=counts[b"oom"],
            oom_kill=counts[b"oom_kill"],
            high=counts[b"high"],
            max=counts[b"max"],
            oom_group_kill=counts.get(b"oom_group_kill"),
        )
    except KeyError:
        return None


@dataclass(slots=True)
class KillLedger:
    """Who was killed in one pod: each kill once, under its container's name where that is known.

    Counters are hierarchical: a kill in a container raises the pod's counter too, and the container's file may be gone
    with the container when its kill is told. So the pod's counter says how many kills there are, the containers'
    counters whose they were, and what no container claims is the pod's own.
    """

    pod_count: int | None = None
    """The pod's newest counter; None = no pod is watched."""
    _counts: dict[str, int] = field(default_factory=dict)
    _newcomers: set[str] = field(default_factory=set)
    """Containers that came after the pod and may have been killed in before they were first read."""
    _ahead: int = 0
    """Kills told of containers that the pod's counter, read just before, did not show yet."""

    def add_pod(self, count: int) -> None:
        """Take the pod's counter for the baseline."""
        self.pod_count = count
        self._ahead = 0

    def add_container(self, path: str, count: int) -> None:
        """Take a container's counter for the baseline; in a pod known already its first kills may still be claimed."""
        self._counts[path] = count
        if self.pod_count is not None and count:
            self._newcomers.add(path)

    def remove_container(self, path: str) -> None:
        """Forget a container; what the pod's counter still shows of it will be the pod's."""
        self._counts.pop(path, None)
        self._newcomers.discard(path)

    def remove_pod(self) -> None:
        """Forget the pod's counter; the containers go on for themselves."""
        self.pod_count = None
        self._ahead = 0

    def observe(self, pod_count: int | None, counts: Mapping[str, int]) -> tuple[int, dict[str, int]]:
        """Take new readings and give what is new.

        Args:
            pod_count: The pod's oom_kill, read BEFORE the containers': the kernel counts upwards from the victim, so
                that whatever the pod shows, the victim's own counter shows as well. None = not readable (now).
            counts: The containers' oom_kill by path; those that could not be read are left out.

        Returns:
            Kills that are the pod's own, and kills by container, zeros left out. A counter that fell (another cgroup
            under an old name) is a new baseline and tells nothing.
        """
        kills = {
            path: count - self._counts[path]
            for path, count in counts.items()
            if path in self._counts and count > self._counts[path]
        }
        told = sum(kills.values())
        unclaimed = 0
        if pod_count is not None and self.pod_count is not None:
            if pod_count < self.pod_count:
                self._ahead = 0
            else:
                balance = pod_count - self.pod_count - self._ahead - told
                unclaimed = max(0, balance)
                self._ahead = max(0, -balance)
            for path in sorted(self._newcomers & counts.keys()):
                claimed = min(unclaimed, self._counts[path])
                if claimed:
                    kills[path] = kills.get(path, 0) + claimed
                    unclaimed -= claimed
            self._newcomers.clear()
            self.pod_count = pod_count
        self._counts.update({path: count for path, count in counts.items() if path in self._counts})
        return unclaimed, kills


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
            mount: The cgroup2 mount.
            max_files: Descriptors held at most; what comes on top is answered with ``LIMIT``. None = no bound. The
                sampler's budget does not know of these, and whoever comes last, such as a scrape, would find none.
            clock_ns: CLOCK_MONOTONIC in nanoseconds.
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

    def fileno(self) -> int:
        """Give the epoll's descriptor, to be nested in the loop's."""
        return self._epoll.fileno()

    def __len__(self) -> int:
        """Count the files held open."""
        return len(self._files)

    def add(self, path: str) -> WatchResult:
        """Watch a cgroup; what it counted so far is the baseline. One that is watched already stays as it is.

        Args:
            path: Relative to the mount, with a leading slash; a container, a pod, or any other cgroup.
        """
        if path in self._files:
            return WatchResult.WATCHED
        if self._max_files is not None and len(self._files) >= self._max_files:
            return WatchResult.LIMIT
        kind = parse_cgroup_path(path).kind
        is_pod = kind is PathKind.POD
        group = path.rsplit("/", 1)[0] if kind is PathKind.CONTAINER else path
        if is_pod and group in self._ledgers:
            # The pod's baseline will hold what its containers counted up to now: tell that first.
            self._observe(group)
        try:
            fd = os.open(f"{self._mount}{path}/memory.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            return self._why_not_opened(path, error)
        counts = _read_counts(fd)
        if counts is None:
            os.close(fd)
            return WatchResult.GONE if not Path(self._mount + path).exists() else WatchResult.UNREADABLE
        self._files[path] = _File(fd, group, is_pod)
        self._paths[fd] = path
        self._members.setdefault(group, {})[path] = None
        ledger = self._ledgers.setdefault(group, KillLedger())
        self._hits[path] = counts.oom
        if is_pod:
            ledger.add_pod(counts.oom_kill)
        else:
            ledger.add_container(path, counts.oom_kill)
        try:
            self._epoll.register(fd, select.EPOLLPRI)
        except PermissionError:
            pass  # not a kernel file, as in tests: poll_all sees it
        except OSError:  # ENOSPC: fs.epoll.max_user_watches; poll_all still sees it
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
        """Read again what woke the epoll and give the kills that are new."""
        groups: dict[str, None] = {}
        for fd, _ in self._epoll.poll(0):
            path = self._paths.get(fd)
            if path is not None:
                groups[self._files[path].group] = None
        return self._collect(groups)

    def poll_all(self) -> list[OomKill]:
        """Read everything again: the net below ``drain``."""
        return self._collect(dict.fromkeys(self._ledgers))

    def close(self) -> None:
        """Close all files; a second call is fine."""
        for file in self._files.values():
            os.close(file.fd)
        self._files.clear()
        self._paths.clear()
        self._ledgers.clear()
        self._members.clear()
        self._hits.clear()
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
        of_pod, of_containers = ledger.observe(pod_count, counts)
        now_ns = self._clock_ns()
        found = (*of_containers.items(), *(((group, of_pod),) if of_pod else ()))
        new_hits = {path: count - self._hits[path] for path, count in hits.items()}
        pods_own = new_hits.get(group, 0) - sum(new for path, new in new_hits.items() if path != group)
        self._pending += [
            OomKill(
                path=path,
                kills=kills,
                monotonic_ns=now_ns,
                at_limit=new_hits[path] > 0,
                at_pod_limit=path != group and new_hits[path] <= 0 < pods_own,
            )
            for path, kills in found
        ]
        if found:
            # Not before: the kernel counts the limit that was hit, and notifies, some time before it counts the kill.
            self._hits |= hits
        for path in gone:
            self._drop(path)

    def _drop(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is None:
            return
        del self._paths[file.fd], self._hits[path]
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
        return WatchResult.ABSENT if Path(self._mount + path).exists() else WatchResult.GONE


class TriggerState(StrEnum):
    """What a look at a pressure trigger showed."""

    QUIET = "quiet"
    FIRED = "fired"
    GONE = "gone"
    """The cgroup was removed, or its pressure files switched off."""

    @classmethod
    def of(cls, mask: int) -> TriggerState:
        """Read the event mask that a poll or an epoll gave for a trigger's descriptor."""
        if mask & select.POLLERR:
            return cls.GONE
        return cls.FIRED if mask & select.POLLPRI else cls.QUIET


class TriggerRefused(Exception):  # noqa: N818 - a state of the world, named as one
    """The kernel does not give this process this trigger; one line that says why."""


class PsiTrigger:
    """A kernel trigger on a pressure file: fires when tasks waited longer than the threshold within a window.

    Opt-in. Under least privilege it is refused or slower than the 1 Hz sweep: cgroup files are 0644 root, and without
    CAP_SYS_RESOURCE the window is a multiple of 2 s, with one event a window at most.

    Being polled clears the kernel's event. So the descriptor goes into the loop's own epoll, with EPOLLPRI, and the
    mask that comes out is what ``TriggerState.of`` reads: an epoll nested in another asks twice, and loses it.
    """

    def __init__(self, pressure_file: Path, *, stall_usec: int = 150_000, window_usec: int = 2_000_000) -> None:
        """Ask the kernel for a trigger on the ``some`` line.

        Args:
            pressure_file: cpu.pressure of a cgroup, or one of /proc/pressure.
            stall_usec: Waiting time within the window that fires; microseconds.
            window_usec: 500 ms to 10 s; microseconds.

        Raises:
            TriggerRefused: Not permitted, a read-only mount, no PSI, or a window that the kernel does not take.
        """
        try:
            self._fd = os.open(pressure_file, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise TriggerRefused(f"{pressure_file}: cannot be opened for writing: {error.strerror}") from error
        try:
            os.write(self._fd, f"some {stall_usec} {window_usec}".encode("ascii"))
        except OSError as error:
            self.close()
            raise TriggerRefused(
                f"{pressure_file}: trigger of {stall_usec} us in {window_usec} us refused: {error.strerror}"
            ) from error

    def fileno(self) -> int:
        """Give the descriptor to be polled for EPOLLPRI."""
        return self._fd

    def wait(self, timeout_seconds: float = 0.0) -> TriggerState:
        """Wait until it fires or its cgroup is gone; for those who have no loop. Close it once it is gone."""
        poller = select.poll()
        poller.register(self._fd, select.POLLPRI)
        return next((TriggerState.of(mask) for _, mask in poller.poll(timeout_seconds * 1000)), TriggerState.QUIET)

    def close(self) -> None:
        """Give the trigger back; a second call is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read_counts(fd: int) -> MemoryEventCounts | None:
    """Give the counters; None = the cgroup is gone (ENODEV), or its text is not understood."""
    try:
        text = os.pread(fd, _READ_BYTES, 0)
    except OSError:
        return None
    return parse_memory_events(text) if len(text) < _READ_BYTES else None
