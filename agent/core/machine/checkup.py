"""What a machine's features mean for Plimsoll: OK, degraded or broken, with the consequence and the line that mends it.

Core, pure. ``sensing.features`` reads the facts, ``plimsoll doctor`` prints the verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FILES_PER_UNIT: Final = 11
"""A directory and eight files of a container, its memory.events on the poller, and a share of its pod's."""
SLOW_CLOCK_NANOSECONDS: Final = 1000.0
"""A clock read above this is a trap into the kernel or hardware, not the vDSO's 20 to 60 ns; a sweep makes one for
each container."""
LEAST_INOTIFY_WATCHES: Final = 1024
"""One watch for each pod and tier; 250 pods and room for the others that share the user's allowance."""


class FeatureState(StrEnum):
    """How a feature stands; ordered from good to bad by ``worst``."""

    OK = "OK"
    DEGRADED = "degraded"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the check-up."""

    name: str
    verdict: FeatureState
    found: str
    consequence: str = ""
    """What does not work because of it; empty when OK."""
    mend: str = ""
    """The command or setting that mends it; empty when OK."""


def ok(name: str, finding: str) -> Check:
    """Return the line of what works."""
    return Check(name=name, verdict=FeatureState.OK, found=finding)


def degraded(name: str, found: str, consequence: str, mend: str) -> Check:
    """Return the line of what works in part, or does without."""
    return Check(name=name, verdict=FeatureState.DEGRADED, found=found, consequence=consequence, mend=mend)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What was read of the machine. None = could not be told; a reason text stands for a feature that is off."""

    kernel_release: str
    cgroup_layout: str
    """``pure v2``, ``hybrid``, ``v1`` or ``none``."""
    v2_mount: str | None
    v1_controllers: tuple[str, ...]
    controllers: tuple[str, ...]
    """Of the v2 hierarchy."""
    pressure: Mapping[str, str | None]
    """resource (cpu, memory, io) -> None when PSI works, else why not."""
    kubepods_root: str | None
    cgroup_driver: str | None
    runtime_driver: str | None
    """What the runtime's names for containers tell; None = there is no container to look at."""
    mismatched: tuple[str, ...]
    """Paths of containers whose runtime does not share the driver of the kubelet that made their pod's name."""
    unit_count: int
    scope: str
    open_files_soft: int
    open_files_hard: int
    wanted_units: int
    """How many containers the settings allow for."""
    unreadable: tuple[str, ...]
    """Files of watched cgroups that are there and may not be read, first few."""
    is_root: bool
    clocksource: str | None
    clock_read_nanoseconds: float
    is_wall_clock_synchronised: bool | None
    has_memory_peak: bool | None
    """None = no cgroup with the memory controller to look at."""
    inotify_watches: int | None
    native_sampler: str | None
    """None = the C extension is there, else why not."""
    state_directory: str | None
    """None = kept in memory only."""
    state_unwritable: str | None


def worst(checks: tuple[Check, ...]) -> FeatureState:
    """Return the worst verdict; OK for none."""
    order = list(FeatureState)
    return max((check.verdict for check in checks), key=order.index, default=FeatureState.OK)


def judge(facts: MachineFacts) -> tuple[Check, ...]:
    """Judge every feature, in the order in which a person would mend them."""
    return (
        _cgroups(facts),
        *_controllers(facts),
        *(_pressure(resource, reason) for resource, reason in facts.pressure.items()),
        _kubepods(facts),
        *_driver(facts),
        _permissions(facts),
        _open_files(facts),
        _inotify(facts),
        _sampler(facts),
        _state(facts),
        *_clock(facts),
        _memory_peak(facts),
    )


def _cgroups(facts: MachineFacts) -> Check:
    finding = facts.cgroup_layout + (f" at {facts.v2_mount}" if facts.v2_mount else "")
    boot_v2 = "boot with systemd.unified_cgroup_hierarchy=1 (kernel command line)"
    if facts.v2_mount is None:
        return Check(
            name="cgroups",
            verdict=FeatureState.BROKEN,
            found=finding,
            consequence="nothing can be measured: Plimsoll reads cgroup v2 only",
            mend=f"{boot_v2}, or: mount -t cgroup2 none /sys/fs/cgroup/unified",
        )
    if facts.v1_controllers:
        finding = f"{finding}; on v1: {' '.join(facts.v1_controllers)}"
    if {"cpu", "memory"} & set(facts.v1_controllers):
        return degraded(
            "cgroups",
            found=finding,
            consequence="controllers bound to v1 give no figures here: of those, usage and pressure of CPU only",
            mend=boot_v2,
        )
    return ok("cgroups", finding)


def _controllers(facts: MachineFacts) -> tuple[Check, ...]:
    consequence = {
        "cpu": "no throttling figures; cpu.max and cpu.weight cannot be audited",
        "memory": "no memory figures, no out-of-memory kills seen",
    }
    checks = []
    for controller, lost in consequence.items():
        name = f"{controller} controller"
        if controller in facts.controllers:
            checks.append(ok(name, "on v2"))
            continue
        where = "on v1" if controller in facts.v1_controllers else "not there"
        mend = (
            "boot with systemd.unified_cgroup_hierarchy=1 (kernel command line)"
            if where == "on v1"
            else f"take cgroup_disable={controller} off the kernel command line"
        )
        checks.append(degraded(name, found=where, consequence=lost, mend=mend))
    return tuple(checks)


def _pressure(resource: str, reason: str | None) -> Check:
    name = f"PSI {resource}"
    if reason is None:
        return ok(name, f"/proc/pressure/{resource}")
    lost = {
        "cpu": "contention cannot be seen: usage is not adjusted, no fast lane",
        "memory": "memory stalls cannot be seen",
        "io": "I/O stalls cannot be seen",
    }[resource]
    return degraded(
        name,
        found=reason,
        consequence=lost,
        mend="boot with psi=1 (kernel command line; needs CONFIG_PSI)",
    )


def _kubepods(facts: MachineFacts) -> Check:
    watched = f"{facts.unit_count} units watched in scope {facts.scope}"
    if facts.kubepods_root is not None:
        finding = f"{facts.kubepods_root}, {facts.cgroup_driver or 'unknown'} driver; {watched}"
        return ok("kubepods", finding)
    return degraded(
        "kubepods",
        found=f"not found; {watched}",
        consequence="no pods here: the machine's own services and sessions are watched",
        mend="on a node: start the kubelet, or name its root: --cgroup-root /kubelet",
    )


def _driver(facts: MachineFacts) -> tuple[Check, ...]:
    """Judge whether kubelet and runtime share a cgroup driver; nothing where there is no container to tell by."""
    name = "cgroup driver"
    if facts.mismatched:
        first, more = facts.mismatched[0], len(facts.mismatched) - 1
        return (
            degraded(
                name,
                found=f"the kubelet and the runtime do not share one: {first}" + (f" and {more} more" if more else ""),
                consequence="these containers lie outside their pods' cgroups: limits of pods and QoS tiers do not "
                "hold them, and figures of pods lack them",
                mend="containerd: SystemdCgroup = true in the runc options, CRI-O: cgroup_manager, kubelet: "
                "cgroupDriver; then drain and restart the node",
            ),
        )
    if facts.runtime_driver is None:
        return ()
    return (ok(name, f"{facts.runtime_driver}, of kubelet and runtime alike"),)


def _permissions(facts: MachineFacts) -> Check:
    who = "root" if facts.is_root else "not root"
    if not facts.unreadable:
        return ok("permissions", f"{who}; every cgroup file readable")
    return Check(
        name="permissions",
        verdict=FeatureState.BROKEN,
        found=f"{who}; not readable: {' '.join(facts.unreadable)}",
        consequence="these containers have gaps instead of figures",
        mend="run as root, or let the agent's user read the cgroup tree",
    )


def _open_files(facts: MachineFacts) -> Check:
    wanted = facts.wanted_units * FILES_PER_UNIT
    finding = (
        f"soft {facts.open_files_soft}, hard {facts.open_files_hard}; {facts.wanted_units} containers want {wanted}"
    )
    if facts.open_files_hard >= wanted:
        return ok("open files", finding)
    return degraded(
        "open files",
        found=finding,
        consequence="beyond the limit files are opened anew for each read: about five times the cost",
        mend=f"ulimit -Hn {wanted} (systemd: LimitNOFILE={wanted}; containerd: its own LimitNOFILE)",
    )


def _inotify(facts: MachineFacts) -> Check:
    if facts.inotify_watches is None:
        return degraded(
            "inotify",
            found="not there",
            consequence="new containers are seen at the next re-list, up to 30 s late",
            mend="a kernel with CONFIG_INOTIFY_USER",
        )
    finding = f"{facts.inotify_watches} watches a user"
    if facts.inotify_watches >= LEAST_INOTIFY_WATCHES:
        return ok("inotify", finding)
    return degraded(
        "inotify",
        found=finding,
        consequence="may run out: new containers are then seen at the next re-list, up to 30 s late",
        mend="sysctl fs.inotify.max_user_watches=65536",
    )


def _sampler(facts: MachineFacts) -> Check:
    if facts.native_sampler is None:
        return ok("sampler", "native (C)")
    return degraded(
        "sampler",
        found=f"plain Python: {facts.native_sampler}",
        consequence="the same figures at two to four times the CPU, with longer tails",
        mend="apt-get install gcc python3-dev, then: pip install --force-reinstall plimsoll",
    )


def _state(facts: MachineFacts) -> Check:
    if facts.state_directory is None:
        return ok("state", "in memory only, as asked")
    if facts.state_unwritable is None:
        return ok("state", facts.state_directory)
    return degraded(
        "state",
        found=f"{facts.state_directory}: {facts.state_unwritable}",
        consequence="the rings cannot be kept over a restart",
        mend="name a writable directory (--state-dir DIR), or keep them in memory (--state-dir none)",
    )


def _clock(facts: MachineFacts) -> tuple[Check, ...]:
    finding = f"{facts.clocksource or 'unknown clock source'}, {facts.clock_read_nanoseconds:.0f} ns a read"
    if facts.clock_read_nanoseconds <= SLOW_CLOCK_NANOSECONDS:
        monotonic = ok("clock", finding)
    else:
        monotonic = degraded(
            "clock",
            found=finding,
            consequence="each container's time stamp costs more than its read",
            mend="echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource (if listed as available)",
        )
    if facts.is_wall_clock_synchronised is None:
        return (monotonic,)
    if facts.is_wall_clock_synchronised:
        return (monotonic, ok("wall clock", "synchronised"))
    wall = degraded(
        "wall clock",
        found="not synchronised",
        consequence="times shown to people and hours of the day may be off; measuring is not affected",
        mend="timedatectl set-ntp true (or start chronyd)",
    )
    return (monotonic, wall)


def _memory_peak(facts: MachineFacts) -> Check:
    name = "memory.peak"
    if facts.has_memory_peak:
        return ok(name, f"kernel {facts.kernel_release}")
    consequence = "a memory peak between two samples is missed"
    if facts.has_memory_peak is False:
        return degraded(
            name,
            found=f"not in kernel {facts.kernel_release}",
            consequence=consequence,
            mend="kernel 5.19 or newer",
        )
    if "memory" in facts.controllers:
        return ok(name, "cannot be told yet: no watched cgroup has memory figures")
    return degraded(
        name,
        found="no memory controller on v2",
        consequence=consequence,
        mend="as for the memory controller above",
    )
