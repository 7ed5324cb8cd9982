"""The check-up: what each finding means, and the line that mends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.machine.checkup import (
    FILES_PER_UNIT,
    LEAST_INOTIFY_WATCHES,
    SLOW_CLOCK_NANOSECONDS,
    Check,
    FeatureState,
    MachineFacts,
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
    kubepods_root="/kubepods.slice",
    cgroup_driver="systemd",
    runtime_driver="systemd",
    mismatched=(),
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
    (judgement,) = (each for each in judge(replace(GOOD, **changes)) if each.name == name)  # type: ignore[arg-type]
    return judgement


def test_a_good_machine_is_ok_throughout() -> None:
    checks = judge(GOOD)
    assert [each for each in checks if each.verdict is not FeatureState.OK] == []
    assert worst(checks) is FeatureState.OK
    assert len({each.name for each in checks}) == len(checks)


@pytest.mark.parametrize(
    ("name", "changes", "verdict", "found", "mend"),
    [
        ("cgroups", {}, FeatureState.OK, "pure v2 at /sys/fs/cgroup", ""),
        (
            "cgroups",
            {**HYBRID, "v1_controllers": ("cpu", "memory")},
            FeatureState.DEGRADED,
            "on v1: cpu memory",
            "unified",
        ),
        # What is on v1 there does not concern us.
        ("cgroups", {"cgroup_layout": "hybrid", "v1_controllers": ("net_cls",)}, FeatureState.OK, "on v1: net_cls", ""),
        ("cgroups", {"cgroup_layout": "v1", "v2_mount": None}, FeatureState.BROKEN, "v1", "mount -t cgroup2"),
        ("cgroups", {"cgroup_layout": "none", "v2_mount": None}, FeatureState.BROKEN, "none", "mount -t cgroup2"),
        ("cpu controller", {}, FeatureState.OK, "on v2", ""),
        ("cpu controller", {**HYBRID, "v1_controllers": ("cpu",)}, FeatureState.DEGRADED, "on v1", "unified"),
        ("memory controller", {}, FeatureState.OK, "on v2", ""),
        # Hybrid, but the controller is on neither side: it was switched off.
        (
            "memory controller",
            {**HYBRID, "v1_controllers": ("cpu",)},
            FeatureState.DEGRADED,
            "not there",
            "cgroup_disable=memory",
        ),
        ("memory controller", {"controllers": ("cpu",)}, FeatureState.DEGRADED, "not there", "cgroup_disable=memory"),
        ("PSI cpu", {}, FeatureState.OK, "/proc/pressure/cpu", ""),
        ("PSI cpu", {"pressure": OFF}, FeatureState.DEGRADED, "not supported", "psi=1"),
        ("PSI io", {"pressure": OFF}, FeatureState.OK, "/proc/pressure/io", ""),
        ("kubepods", {}, FeatureState.OK, "/kubepods.slice, systemd driver; 42 units", ""),
        (
            "kubepods",
            {"kubepods_root": None, "scope": "machine"},
            FeatureState.DEGRADED,
            "scope machine",
            "--cgroup-root",
        ),
        ("permissions", {}, FeatureState.OK, "root", ""),
        ("permissions", {"is_root": False}, FeatureState.OK, "not root", ""),
        ("permissions", {"unreadable": ("/x/cpu.stat",)}, FeatureState.BROKEN, "/x/cpu.stat", "run as root"),
        ("open files", {}, FeatureState.OK, "1000 containers want 11000", ""),
        ("open files", {"open_files_hard": 1000 * FILES_PER_UNIT}, FeatureState.OK, "hard 11000", ""),
        (
            "open files",
            {"open_files_hard": 1000 * FILES_PER_UNIT - 1},
            FeatureState.DEGRADED,
            "hard 10999",
            "ulimit -Hn",
        ),
        ("inotify", {}, FeatureState.OK, "65536 watches", ""),
        ("inotify", {"inotify_watches": LEAST_INOTIFY_WATCHES - 1}, FeatureState.DEGRADED, "1023", "max_user_watches"),
        ("inotify", {"inotify_watches": None}, FeatureState.DEGRADED, "not there", "CONFIG_INOTIFY_USER"),
        ("sampler", {}, FeatureState.OK, "native", ""),
        ("sampler", {"native_sampler": "not built"}, FeatureState.DEGRADED, "plain Python: not built", "gcc"),
        ("state", {}, FeatureState.OK, "/var/lib/plimsoll", ""),
        ("state", {"state_directory": None}, FeatureState.OK, "memory", ""),
        ("state", {"state_unwritable": "/ is not writable"}, FeatureState.DEGRADED, "not writable", "--state-dir"),
        ("clock", {}, FeatureState.OK, "tsc, 45 ns", ""),
        ("clock", {"clock_read_nanoseconds": SLOW_CLOCK_NANOSECONDS + 1}, FeatureState.DEGRADED, "1001 ns", "tsc"),
        ("clock", {"clocksource": None}, FeatureState.OK, "unknown clock source", ""),
        ("wall clock", {}, FeatureState.OK, "synchronised", ""),
        ("wall clock", {"is_wall_clock_synchronised": False}, FeatureState.DEGRADED, "not synchronised", "timedatectl"),
        ("memory.peak", {}, FeatureState.OK, "6.8.0", ""),
        ("memory.peak", {"has_memory_peak": False}, FeatureState.DEGRADED, "6.8.0", "5.19"),
        ("memory.peak", {"has_memory_peak": None}, FeatureState.OK, "cannot be told", ""),
        (
            "memory.peak",
            {"has_memory_peak": None, "controllers": ("cpu",)},
            FeatureState.DEGRADED,
            "no memory",
            "above",
        ),
    ],
)
def test_check(name: str, changes: dict[str, object], verdict: FeatureState, found: str, mend: str) -> None:
    got = check(name, **changes)
    assert got.verdict is verdict
    assert found in got.found
    assert mend in got.mend
    # What is not OK has a consequence and a line that mends it; what is OK has neither.
    assert bool(got.consequence) == bool(got.mend) == (verdict is not FeatureState.OK)
    assert "\n" not in got.found + got.consequence + got.mend


def test_a_wall_clock_that_does_not_tell_gives_no_line() -> None:
    assert "wall clock" not in [each.name for each in judge(replace(GOOD, is_wall_clock_synchronised=None))]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((), FeatureState.OK),
        ((FeatureState.OK, FeatureState.DEGRADED), FeatureState.DEGRADED),
        ((FeatureState.BROKEN, FeatureState.DEGRADED, FeatureState.OK), FeatureState.BROKEN),
    ],
)
def test_worst(verdicts: tuple[FeatureState, ...], expected: FeatureState) -> None:
    assert worst(tuple(Check(name="x", verdict=each, found="") for each in verdicts)) is expected


def test_a_driver_that_kubelet_and_runtime_do_not_share_is_named_with_a_container() -> None:
    judgement = check("cgroup driver", mismatched=("/system.slice/a:cri-containerd:1", "/b"))
    assert judgement.verdict is FeatureState.DEGRADED
    assert "/system.slice/a:cri-containerd:1 and 1 more" in judgement.found
    assert "limits of pods and QoS tiers do not hold them" in judgement.consequence
    assert "SystemdCgroup = true" in judgement.mend
    assert check("cgroup driver", mismatched=("/b",)).found.endswith(": /b")


def test_a_driver_that_both_share_is_named_and_without_a_container_nothing_is_said() -> None:
    assert check("cgroup driver").found == "systemd, of kubelet and runtime alike"
    assert "cgroup driver" not in {each.name for each in judge(replace(GOOD, runtime_driver=None))}
