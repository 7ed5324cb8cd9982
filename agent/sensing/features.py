"""Reads what ``plimsoll doctor`` judges: mounts, controllers, PSI, limits, rights, clock. Leaves nothing behind.

Sensing. Each reader gives a value or the reason for its absence; none of them fails the others.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import resource
import time
from pathlib import Path
from typing import Final

from agent.core.machine.checkup import MachineFacts
from agent.sensing.cgroup_path import Driver, drivers_of
from agent.sensing.discovery import Discovery, UnitScope
from agent.sensing.machine import PROC, find_cgroup_mount, read_controllers, read_mounts

_TIME_ERROR: Final = 5
"""adjtimex(2) returns this while the wall clock is not synchronised."""
_TIMEX_BYTES: Final = 512
"""More than struct timex has on any architecture; zeroed, it asks and sets nothing."""
_UNIT_FILES: Final = ("cpu.stat", "cpu.pressure", "memory.current", "memory.stat", "memory.events")
_UNREADABLE_NAMED: Final = 3


def read_pressure_support(proc: Path = PROC) -> dict[str, str | None]:
    """Return for each resource why PSI does not work; None = it does."""
    return {name: _why_unreadable(proc / "pressure" / name) for name in ("cpu", "memory", "io")}


def _why_unreadable(path: Path) -> str | None:
    try:
        path.read_bytes()
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def read_clock_nanoseconds(reads: int = 2000) -> float:
    """Measure what one read of CLOCK_MONOTONIC costs from Python, nanoseconds; the best of five runs."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter_ns()
        for _ in range(reads):
            time.monotonic_ns()
        best = min(best, (time.perf_counter_ns() - began) / reads)
    return best


def read_wall_clock_synchronised() -> bool | None:
    """Ask the kernel whether its wall clock is kept in step; None = it does not tell."""
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else answer != _TIME_ERROR


def read_facts(
    *,
    configured_mount: Path | None,
    cgroup_root: str,
    wanted_units: int,
    state_directory: Path | None,
    scope: UnitScope = UnitScope.AUTO,
    proc: Path = PROC,
) -> MachineFacts:
    """Read everything; a machine without cgroup v2 gives facts that say so.

    Raises:
        agent.sensing.machine.MachineError: The configured mount is no cgroup v2 mount.
        agent.sensing.discovery.DiscoveryError: The configured cgroup root does not exist.
    """
    mounts = read_mounts(proc)
    mount = mounts.v2 if configured_mount is None else find_cgroup_mount(configured_mount)
    kubepods_root = driver = None
    scope_in_force = "none"
    directories: list[Path] = []
    drivers: dict[str, tuple[Driver, Driver]] = {}
    if mount is not None:
        discovery = Discovery(mount, cgroup_root=cgroup_root, scope=scope, max_units=wanted_units)
        try:
            appeared = discovery.relist("start").appeared
            directories = [mount / unit.path.lstrip("/") for unit in appeared]
            drivers = {unit.path: pair for unit in appeared if (pair := drivers_of(unit.path)) is not None}
            kubepods_root, driver = discovery.kubepods_root, discovery.driver
            scope_in_force = str(discovery.scope_in_force)
        finally:
            discovery.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MachineFacts(
        kernel_release=os.uname().release,
        cgroup_layout=str(mounts.layout),
        v2_mount=str(mount) if mount else None,
        v1_controllers=mounts.v1_controllers,
        controllers=read_controllers(mount) if mount else (),
        pressure=read_pressure_support(proc),
        kubepods_root=kubepods_root,
        cgroup_driver=str(driver) if driver else None,
        runtime_driver=next((str(runtime) for _, runtime in drivers.values()), None),
        mismatched=tuple(path for path, (kubelet, runtime) in drivers.items() if kubelet is not runtime),
        unit_count=len(directories),
        scope=scope_in_force,
        open_files_soft=soft,
        open_files_hard=hard,
        wanted_units=wanted_units,
        unreadable=_unreadable(directories),
        is_root=os.geteuid() == 0,
        clocksource=_read_line(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        clock_read_nanoseconds=read_clock_nanoseconds(),
        is_wall_clock_synchronised=read_wall_clock_synchronised(),
        has_memory_peak=_has_memory_peak(directories),
        inotify_watches=_read_int(proc / "sys/fs/inotify/max_user_watches"),
        native_sampler=_native_sampler_absence(),
        state_directory=str(state_directory) if state_directory else None,
        state_unwritable=_why_unwritable(state_directory) if state_directory else None,
    )


def _unreadable(directories: list[Path]) -> tuple[str, ...]:
    unreadable = []
    for directory in directories:
        # In a directory that may not be searched nothing can even be seen to be there.
        if not os.access(directory, os.X_OK) and directory.is_dir():
            unreadable.append(str(directory))
        unreadable += [
            str(path)
            for path in (directory / name for name in _UNIT_FILES)
            if os.access(path, os.F_OK) and not os.access(path, os.R_OK)
        ]
        if len(unreadable) >= _UNREADABLE_NAMED:
            break
    return tuple(unreadable[:_UNREADABLE_NAMED])


def _has_memory_peak(directories: list[Path]) -> bool | None:
    with_memory = next((each for each in directories if os.path.exists(each / "memory.current")), None)
    return None if with_memory is None else os.path.exists(with_memory / "memory.peak")


def _native_sampler_absence() -> str | None:
    if importlib.util.find_spec("agent.sensing._sampler") is None:
        return "the C extension was not built"
    return None


def _why_unwritable(directory: Path) -> str | None:
    nearest = directory
    # os.path.exists: what lies below a directory that may not be searched counts as not there.
    while not os.path.exists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        return f"{nearest} is not a directory"
    # Tried, not asked: root may write anywhere by its rights, and yet not in /proc or on a read-only mount.
    probe = nearest / f".plimsoll-doctor-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"{nearest} is not writable: {error.strerror}"
    return None


def _read_line(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _read_int(path: Path) -> int | None:
    line = _read_line(path)
    return int(line) if line is not None and line.isdigit() else None
