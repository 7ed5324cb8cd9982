"""The facts that `doctor` judges, read from a machine made of plain files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.core.machine.checkup import judge
from agent.sensing.discovery import DiscoveryError, UnitScope
from agent.sensing.features import (
    read_clock_nanoseconds,
    read_facts,
    read_pressure_support,
    read_wall_clock_synchronised,
)
from agent.sensing.machine import MachineError
from tests.cgroup_files import CgroupFiles, container_path


@pytest.fixture
def files(tmp_path: Path) -> CgroupFiles:
    return CgroupFiles(tmp_path / "cgroup")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """/proc of a machine with PSI for CPU only, and that mount."""
    proc = tmp_path / "proc"
    for directory in ("self", "pressure", "sys/fs/inotify"):
        (proc / directory).mkdir(parents=True)
    (proc / "self/mountinfo").write_text(f"30 23 0:26 / {tmp_path}/cgroup rw - cgroup2 cgroup2 rw\n")
    (proc / "pressure/cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    (proc / "sys/fs/inotify/max_user_watches").write_text("8192\n")
    return proc


def facts(proc: Path, **changes: Any) -> Any:
    asked: dict[str, Any] = {
        "configured_mount": None,
        "cgroup_root": "/",
        "wanted_units": 100,
        "state_directory": None,
        "proc": proc,
    }
    return read_facts(**{**asked, **changes})


def test_facts_of_a_node_with_pods(files: CgroupFiles, proc: Path) -> None:
    files.make(container_path(1))
    files.write(container_path(1), "memory.peak", "1\n")
    machine_facts = facts(proc)
    assert (machine_facts.cgroup_layout, machine_facts.v2_mount) == ("pure v2", str(files.root))
    assert machine_facts.controllers == ("cpu", "memory")
    assert (machine_facts.kubepods_root, machine_facts.cgroup_driver) == ("/kubepods", "cgroupfs")
    assert (machine_facts.unit_count, machine_facts.scope) == (1, "kubernetes")
    assert machine_facts.has_memory_peak is True
    assert machine_facts.inotify_watches == 8192
    assert machine_facts.pressure["cpu"] is None
    assert "No such file" in machine_facts.pressure["io"]
    assert machine_facts.unreadable == ()
    assert judge(machine_facts)  # every fact has a verdict


def test_facts_follow_the_scope_asked_for(files: CgroupFiles, proc: Path) -> None:
    files.make(container_path(1))
    files.make("system.slice/ssh.service")
    machine_facts = facts(proc, scope=UnitScope.MACHINE)
    assert machine_facts.scope == "machine"
    assert machine_facts.unit_count >= 1


def test_facts_of_a_machine_without_cgroup_v2_say_so(proc: Path) -> None:
    (proc / "self/mountinfo").write_text("30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
    machine_facts = facts(proc)
    assert (machine_facts.cgroup_layout, machine_facts.v2_mount, machine_facts.controllers) == ("v1", None, ())
    assert (machine_facts.unit_count, machine_facts.scope, machine_facts.has_memory_peak) == (0, "none", None)
    assert judge(machine_facts)


def test_facts_of_a_configured_mount_that_is_none_is_an_error(tmp_path: Path, proc: Path) -> None:
    with pytest.raises(MachineError, match=r"cgroup\.controllers"):
        facts(proc, configured_mount=tmp_path)


def test_facts_of_a_cgroup_root_that_is_not_there_is_an_error(files: CgroupFiles, proc: Path) -> None:
    with pytest.raises(DiscoveryError, match="/nowhere"):
        facts(proc, cgroup_root="/nowhere")


def test_facts_without_a_cgroup_with_memory_do_not_know_of_its_peak(files: CgroupFiles, proc: Path) -> None:
    files.make(container_path(1))
    (files.root / container_path(1) / "memory.current").unlink()
    assert facts(proc).has_memory_peak is None


@pytest.mark.parametrize("text", ["", "many\n"])
def test_a_watch_limit_that_is_no_number_is_not_known(files: CgroupFiles, proc: Path, text: str) -> None:
    (proc / "sys/fs/inotify/max_user_watches").write_text(text)
    assert facts(proc).inotify_watches is None


def test_state_directory_is_judged_by_its_nearest_parent(files: CgroupFiles, proc: Path, tmp_path: Path) -> None:
    assert facts(proc, state_directory=tmp_path / "a/b/c").state_unwritable is None
    (tmp_path / "file").write_text("")
    assert "not a directory" in str(facts(proc, state_directory=tmp_path / "file/state").state_unwritable)
    # Where nothing can be made, whoever asks.
    assert "/proc is not writable" in str(facts(proc, state_directory=Path("/proc/x")).state_unwritable)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cgroup", "file", "proc"]  # the probe is gone


@contextmanager
def nobody(tmp_path: Path) -> Iterator[None]:
    """Be a user whom file modes bind: root becomes nobody for a moment, others are such a user already."""
    if os.geteuid() != 0:
        yield
        return
    modes = {path: path.stat().st_mode for path in (tmp_path, *tmp_path.parents)}
    for path, mode in modes.items():
        path.chmod(mode | 0o011)
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        for path, mode in modes.items():
            path.chmod(mode)


def test_directories_that_may_not_be_searched_are_facts_and_no_fault(
    files: CgroupFiles, proc: Path, tmp_path: Path
) -> None:
    files.make(container_path(1))
    closed = files.root / container_path(1)
    closed.chmod(0)
    try:
        with nobody(tmp_path):
            assert str(closed) in facts(proc).unreadable
            assert "not writable" in str(facts(proc, state_directory=closed / "x").state_unwritable)
    finally:
        closed.chmod(0o755)


def test_files_that_may_not_be_read_are_named_the_first_few(
    files: CgroupFiles, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        files.make(container_path(number))
    real = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: real(path, mode) and not (mode == os.R_OK and str(path).endswith("cpu.stat")),
    )
    unreadable = facts(proc).unreadable
    assert len(unreadable) == 3
    assert all(path.endswith("cpu.stat") for path in unreadable)


def test_pressure_support_of_a_kernel_without_psi_give_the_reason(tmp_path: Path) -> None:
    assert set(read_pressure_support(tmp_path)) == {"cpu", "memory", "io"}
    assert all("No such file" in str(reason) for reason in read_pressure_support(tmp_path).values())


def test_clock_and_wall_clock_give_an_answer_anywhere() -> None:
    assert 0 < read_clock_nanoseconds(reads=10) < 1e9
    assert read_wall_clock_synchronised() in (True, False, None)
