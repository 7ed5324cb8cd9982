"""The machine itself: CPUs, memory, load, boot, where cgroups are mounted, what the kernel can do.

Sensing. Reads /proc and /sys and asks psutil; parsing is apart (``parse_*``), nothing here judges.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import psutil

from agent.core.window.pressure import psi_waiting_rate
from agent.core.window.snapshot import NodeStatus
from agent.sensing.cgroup_text import Pressure, parse_whole_pressure

PROC: Final = Path("/proc")


class MachineError(Exception):
    """The machine lacks what sensing cannot do without; the message says what and where."""


class CgroupLayout(StrEnum):
    """How control groups are mounted."""

    PURE_V2 = "pure v2"
    HYBRID = "hybrid"
    V1 = "v1"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMounts:
    """The cgroup file systems of this mount namespace."""

    v2: Path | None
    """Where cgroup v2 is mounted, the host's tree preferred; None = nowhere."""
    v1_controllers: tuple[str, ...]
    """Controllers bound to v1 hierarchies and so lost to v2, sorted."""

    @property
    def layout(self) -> CgroupLayout:
        """Return the layout; hybrid = v2 is there, but some controllers are on v1."""
        if self.v2 is None:
            return CgroupLayout.V1 if self.v1_controllers else CgroupLayout.NONE
        return CgroupLayout.HYBRID if self.v1_controllers else CgroupLayout.PURE_V2


_V1_CONTROLLERS: Final = frozenset({
    "blkio", "cpu", "cpuacct", "cpuset", "debug", "devices", "freezer", "hugetlb", "memory", "misc", "net_cls",
    "net_prio", "perf_event", "pids", "rdma",
})  # fmt: skip
"""All that the kernel's cgroup v1 has; mount options stand in the same list."""
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def parse_mounts(mountinfo: str) -> CgroupMounts:
    """Find cgroup mounts in the text of /proc/self/mountinfo.

    A mount below /host (the agent's own pod mounts the host's tree there) goes before the namespace's own; among the
    rest the shortest path goes first. Octal escapes in paths are undone.

    Source:
        proc_pid_mountinfo(5): fields before `` - `` are the mount's, after it type, source and super options.
    """
    v2_mounts: list[Path] = []
    v1: set[str] = set()
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if not separator or len(fields) < 5 or len(tail) < 3:
            continue
        if tail[0] == "cgroup2":
            v2_mounts.append(Path(_unescaped(fields[4])))
        elif tail[0] == "cgroup":
            v1 |= _V1_CONTROLLERS.intersection(tail[2].split(","))
    v2_mounts.sort(key=lambda path: (not path.is_relative_to("/host"), len(path.parts), str(path)))
    return CgroupMounts(v2=v2_mounts[0] if v2_mounts else None, v1_controllers=tuple(sorted(v1)))


def _unescaped(path: str) -> str:
    """Undo the octal escapes of mountinfo, which stand for bytes, not characters."""
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), os.fsencode(path)))


def read_mounts(proc: Path = PROC) -> CgroupMounts:
    """Read where cgroups are mounted in this process's mount namespace."""
    return parse_mounts(os.fsdecode((proc / "self/mountinfo").read_bytes()))


def find_cgroup_mount(configured: Path | None) -> Path:
    """Return the cgroup v2 mount to read: the configured one, else the one found.

    Raises:
        MachineError: The configured directory is no cgroup v2 mount, or none is mounted.
    """
    if configured is not None:
        if not (configured / "cgroup.controllers").is_file():
            raise MachineError(f"cgroup mount {configured}: no cgroup.controllers there; allowed: a cgroup v2 mount")
        return configured
    mounts = read_mounts()
    if mounts.v2 is None:
        raise MachineError(
            "no cgroup v2 is mounted (mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with "
            "systemd.unified_cgroup_hierarchy=1)"
        )
    return mounts.v2


def read_controllers(mount: Path) -> tuple[str, ...]:
    """Return the controllers that this v2 hierarchy has, as its root lists them."""
    return tuple((mount / "cgroup.controllers").read_text().split())


def has_generational_lru(switch: Path = Path("/sys/kernel/mm/lru_gen/enabled")) -> bool:
    """Return whether the kernel keeps pages by generations (multi-generational LRU), from 6.1 on where it is on.

    Source: Documentation/admin-guide/mm/multigen_lru.rst: bit 0 of a hexadecimal number.
    """
    try:
        return bool(int(switch.read_text(encoding="ascii"), 16) & 1)
    except (OSError, ValueError):
        return False


def node_name() -> str:
    """Return this node's name: NODE_NAME as the chart's downward API sets it, else the host's."""
    return os.environ.get("NODE_NAME") or socket.gethostname()


@dataclass(frozen=True, slots=True)
class _Moment:
    monotonic_ns: int
    cpu_busy_seconds: float
    cpu: Pressure | None
    """Of /proc/pressure; None = no PSI."""
    memory: Pressure | None
    io: Pressure | None


class Machine:
    """Follows the node's own figures: each ``status`` tells what happened since the one before. Any thread may ask."""

    def __init__(self, name: str, proc: Path = PROC) -> None:
        self.name = name
        self.cpus = psutil.cpu_count(logical=True) or os.cpu_count() or 1
        self._proc = proc
        self._before = self._read()
        self._latest: NodeStatus | None = None
        self._lock = threading.Lock()

    @property
    def capacity_millicores(self) -> int:
        """CPU of the whole machine; 1000 = one logical CPU."""
        return self.cpus * 1000

    def _pressure(self, resource: str) -> Pressure | None:
        try:
            return parse_whole_pressure((self._proc / "pressure" / resource).read_bytes())
        except OSError:
            return None

    def _read(self) -> _Moment:
        times = psutil.cpu_times()
        # Guest time is inside user time; iowait is idle. Steal is not ours: the hypervisor took it.
        busy = times.user + times.nice + times.system + times.irq + times.softirq
        pressures = (self._pressure(resource) for resource in ("cpu", "memory", "io"))
        return _Moment(time.monotonic_ns(), busy, *pressures)

    def status(self, *, least_seconds: float = 0.5) -> NodeStatus:
        """Return the node's figures now; rates are means since the call before.

        Args:
            least_seconds: A call sooner than this after the last gets the last answer again, and the first one no
                rates: rates over a moment are noise.
        """
        with self._lock:
            return self._status(least_seconds)

    def _status(self, least_seconds: float) -> NodeStatus:
        now = self._read()
        before = self._before
        elapsed_seconds = (now.monotonic_ns - before.monotonic_ns) / 1e9
        if elapsed_seconds < least_seconds:
            return self._latest or self._status_between(None, now)
        self._before = now
        self._latest = self._status_between(before, now)
        return self._latest

    def _status_between(self, before: _Moment | None, now: _Moment) -> NodeStatus:
        """Return the figures of now, with rates since an earlier moment if there is one."""
        memory = psutil.virtual_memory()
        usage = cpu_waiting = memory_waiting = memory_stalled = io_waiting = io_stalled = None
        if before is not None and now.monotonic_ns > before.monotonic_ns:
            elapsed_seconds = (now.monotonic_ns - before.monotonic_ns) / 1e9
            usage = max(0.0, now.cpu_busy_seconds - before.cpu_busy_seconds) / elapsed_seconds * 1000.0
            cpu_waiting = _waiting_ratio(before, now, lambda moment: _some_usec(moment.cpu))
            memory_waiting = _waiting_ratio(before, now, lambda moment: _some_usec(moment.memory))
            memory_stalled = _waiting_ratio(before, now, lambda moment: _full_usec(moment.memory))
            io_waiting = _waiting_ratio(before, now, lambda moment: _some_usec(moment.io))
            io_stalled = _waiting_ratio(before, now, lambda moment: _full_usec(moment.io))
        return NodeStatus(
            name=self.name,
            cpus=self.cpus,
            cpu_usage_millicores=usage,
            memory_total_bytes=memory.total,
            memory_available_bytes=memory.available,
            load_1m=psutil.getloadavg()[0],
            cpu_waiting_ratio=cpu_waiting,
            memory_waiting_ratio=memory_waiting,
            uptime_seconds=time.clock_gettime(time.CLOCK_BOOTTIME),
            memory_stalled_ratio=memory_stalled,
            io_waiting_ratio=io_waiting,
            io_stalled_ratio=io_stalled,
        )


def _some_usec(pressure: Pressure | None) -> int | None:
    return None if pressure is None else pressure.some_usec


def _full_usec(pressure: Pressure | None) -> int | None:
    return None if pressure is None else pressure.full_usec


def _waiting_ratio(before: _Moment, now: _Moment, total: Callable[[_Moment], int | None]) -> float | None:
    before_usec, now_usec = total(before), total(now)
    if before_usec is None or now_usec is None:
        return None
    return psi_waiting_rate(before.monotonic_ns / 1e9, before_usec, now.monotonic_ns / 1e9, now_usec)
