"""The check-up: what each finding means, and the line that mends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.machine.checkup import (
    FILES_PER_UNIT,
    LEAST_INOTIFY_WATCHES,
    SLOW_CLOCK_NANOSECONDS,
    Check,
    MachineFacts,
    Verdict,
    judge,
    worst,
)

GOOD = MachineFacts(
    kernel_release="6.8.0",
    cgroup_layout="pure v2",
    v2_mount="/sys/fs/cgroup",
    v1_controllers=(),
    controllers=("cpu", "io", "memory"),
    pressure={"cpu": None, "memory": None, "io": None},
    trigger_refused=None,
    kubepods_root="/kubepods.slice",
    cgroup_driver="systemd",
    unit_count=42,
    scope="kubernetes",
    open_files_soft=1024,
    open_files_hard=1_048_576,
    wanted_units=1000,
    unreadable=(),
    is_root=True,
    clocksource="tsc",
    clock_read_nanoseconds=45.0,
    is_wall_clock_synchronised=True,
    has_memory_peak=True,
    inotify_watches=65536,
    native_sampler=None,
    state_directory="/var/lib/plimsoll",
    state_unwritable=None,
)
HYBRID = {"cgroup_layout": "hybrid", "v2_mount": "/sys/fs/cgroup/unified", "controllers": ()}
OFF = {"cpu": "/proc/pressure/cpu: Operation not supported", "memory": None, "io": None}


def check(name: str, **changes: object) -> Check:
    (found,) = (each for each in judge(replace(GOOD, **changes)) if each.name == name)  # type: ignore[arg-type]
    return found


def test_a_good_machine_is_ok_throughout() -> None:
    checks = judge(GOOD)
    assert [each for each in checks if each.verdict is not Verdict.OK] == []
    assert worst(checks) is Verdict.OK
    assert len({each.name for each in checks}) == len(checks)


@pytest.mark.parametrize(
    ("name", "changes", "verdict", "found", "mend"),
    [
        ("cgroups", {}, Verdict.OK, "pure v2 at /sys/fs/cgroup", ""),
        ("cgroups", {**HYBRID, "v1_controllers": ("cpu", "memory")}, Verdict.DEGRADED, "on v1: cpu memory", "unified"),
        # What is on v1 there does not concern us.
        ("cgroups", {"cgroup_layout": "hybrid", "v1_controllers": ("net_cls",)}, Verdict.OK, "on v1: net_cls", ""),
        ("cgroups", {"cgroup_layout": "v1", "v2_mount": None}, Verdict.BROKEN, "v1", "mount -t cgroup2"),
        ("cgroups", {"cgroup_layout": "none", "v2_mount": None}, Verdict.BROKEN, "none", "mount -t cgroup2"),
        ("cpu controller", {}, Verdict.OK, "on v2", ""),
        ("cpu controller", {**HYBRID, "v1_controllers": ("cpu",)}, Verdict.DEGRADED, "on v1", "unified"),
        ("memory controller", {}, Verdict.OK, "on v2", ""),
        # Hybrid, but the controller is on neither side: it was switched off.
        (
            "memory controller",
            {**HYBRID, "v1_controllers": ("cpu",)},
            Verdict.DEGRADED,
            "not there",
            "cgroup_disable=memory",
        ),
        ("memory controller", {"controllers": ("cpu",)}, Verdict.DEGRADED, "not there", "cgroup_disable=memory"),
        ("PSI cpu", {}, Verdict.OK, "/proc/pressure/cpu", ""),
        ("PSI cpu", {"pressure": OFF}, Verdict.DEGRADED, "not supported", "psi=1"),
        ("PSI io", {"pressure": OFF}, Verdict.OK, "/proc/pressure/io", ""),
        ("kubepods", {}, Verdict.OK, "/kubepods.slice, systemd driver; 42 units", ""),
        ("kubepods", {"kubepods_root": None, "scope": "machine"}, Verdict.DEGRADED, "scope machine", "--cgroup-root"),
        ("permissions", {}, Verdict.OK, "root", ""),
        ("permissions", {"is_root": False}, Verdict.OK, "not root", ""),
        ("permissions", {"unreadable": ("/x/cpu.stat",)}, Verdict.BROKEN, "/x/cpu.stat", "run as root"),
        ("open files", {}, Verdict.OK, "1000 containers want 11000", ""),
        ("open files", {"open_files_hard": 1000 * FILES_PER_UNIT}, Verdict.OK, "hard 11000", ""),
        ("open files", {"open_files_hard": 1000 * FILES_PER_UNIT - 1}, Verdict.DEGRADED, "hard 10999", "ulimit -Hn"),
        ("inotify", {}, Verdict.OK, "65536 watches", ""),
        ("inotify", {"inotify_watches": LEAST_INOTIFY_WATCHES - 1}, Verdict.DEGRADED, "1023", "max_user_watches"),
        ("inotify", {"inotify_watches": None}, Verdict.DEGRADED, "not there", "CONFIG_INOTIFY_USER"),
        ("sampler", {}, Verdict.OK, "native", ""),
        ("sampler", {"native_sampler": "not built"}, Verdict.DEGRADED, "plain Python: not built", "gcc"),
        ("state", {}, Verdict.OK, "/var/lib/plimsoll", ""),
        ("state", {"state_directory": None}, Verdict.OK, "memory", ""),
        ("state", {"state_unwritable": "/ is not writable"}, Verdict.DEGRADED, "not writable", "--state-dir"),
        ("clock", {}, Verdict.OK, "tsc, 45 ns", ""),
        ("clock", {"clock_read_nanoseconds": SLOW_CLOCK_NANOSECONDS + 1}, Verdict.DEGRADED, "1001 ns", "tsc"),
        ("clock", {"clocksource": None}, Verdict.OK, "unknown clock source", ""),
        ("wall clock", {}, Verdict.OK, "synchronised", ""),
        ("wall clock", {"is_wall_clock_synchronised": False}, Verdict.DEGRADED, "not synchronised", "timedatectl"),
        ("memory.peak", {}, Verdict.OK, "6.8.0", ""),
        ("memory.peak", {"has_memory_peak": False}, Verdict.DEGRADED, "6.8.0", "5.19"),
        ("memory.peak", {"has_memory_peak": None}, Verdict.OK, "cannot be told", ""),
        ("memory.peak", {"has_memory_peak": None, "controllers": ("cpu",)}, Verdict.DEGRADED, "no memory", "above"),
        ("PSI triggers", {}, Verdict.OK, "are taken", ""),
        ("PSI triggers", {"trigger_refused": "Operation not permitted"}, Verdict.OK, "not permitted", ""),
        ("PSI triggers", {"trigger_refused": "No such file", "pressure": OFF}, Verdict.OK, "none without PSI", ""),
    ],
)
def test_check(name: str, changes: dict[str, object], verdict: Verdict, found: str, mend: str) -> None:
    got = check(name, **changes)
    assert got.verdict is verdict
    assert found in got.found
    assert mend in got.mend
    # What is not OK has a consequence and a line that mends it; what is OK has neither.
    assert bool(got.consequence) == bool(got.mend) == (verdict is not Verdict.OK)
    assert "\n" not in got.found + got.consequence + got.mend


def test_a_wall_clock_that_does_not_tell_gives_no_line() -> None:
    assert "wall clock" not in [each.name for each in judge(replace(GOOD, is_wall_clock_synchronised=None))]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((), Verdict.OK),
        ((Verdict.OK, Verdict.DEGRADED), Verdict.DEGRADED),
        ((Verdict.BROKEN, Verdict.DEGRADED, Verdict.OK), Verdict.BROKEN),
    ],
)
def test_worst(verdicts: tuple[Verdict, ...], expected: Verdict) -> None:
    assert worst(tuple(Check(name="x", verdict=each, found="") for each in verdicts)) is expected
