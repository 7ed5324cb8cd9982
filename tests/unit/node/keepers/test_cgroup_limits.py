"""Limits of the agent's own on plain files: remembered before they are written, undone only where they still stand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent.core.machine.cgroup_files import CPU_MAX, MEMORY_MAX, Unlimited
from agent.core.machine.cpu_knobs import CpuMax
from agent.node.keepers.cgroup_limits import CgroupLimits, CgroupWriteError, LimitOwner

PODS, QOS = LimitOwner.POD_LIMITS, LimitOwner.QOS_RESERVE
POD = "/kubepods/poda"
MIB = 1 << 20


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    make(tmp_path / "cgroup")
    return tmp_path / "cgroup"


def make(mount: Path) -> None:
    directory = Path(f"{mount}{POD}")
    directory.mkdir(parents=True)
    (directory / CPU_MAX).write_text("max 100000\n")
    (directory / MEMORY_MAX).write_text("max\n")
    (directory / "memory.current").write_text("4096\n")


def content(mount: Path, file: str) -> str:
    return Path(f"{mount}{POD}", file).read_text()


def test_a_limit_is_written_once_and_put_back(mount: Path) -> None:
    limits = CgroupLimits(mount, None)

    assert limits.put(PODS, POD, MEMORY_MAX, 64 * MIB)
    assert not limits.put(PODS, POD, MEMORY_MAX, 64 * MIB)
    assert content(mount, MEMORY_MAX) == "67108864\n"
    [written] = limits.written(PODS)
    assert limits.written(QOS) == ()
    assert limits.is_ours(POD, MEMORY_MAX)

    assert limits.take_back(written, Unlimited.MAX)
    assert content(mount, MEMORY_MAX) == "max\n"
    assert limits.written(PODS) == ()


def test_a_value_that_stood_there_already_is_not_ours(mount: Path) -> None:
    limits = CgroupLimits(mount, None)

    assert not limits.put(PODS, POD, CPU_MAX, CpuMax(quota_usec=None, period_usec=100_000))
    assert limits.written(PODS) == ()
    assert not limits.is_ours(POD, CPU_MAX)


def test_what_somebody_else_wrote_since_stays(mount: Path) -> None:
    limits = CgroupLimits(mount, None)
    limits.put(PODS, POD, MEMORY_MAX, 64 * MIB)
    Path(f"{mount}{POD}", MEMORY_MAX).write_text("12345678\n")

    assert not limits.take_back(limits.written(PODS)[0], Unlimited.MAX)

    assert content(mount, MEMORY_MAX) == "12345678\n"
    assert limits.written(PODS) == ()


def test_the_next_agent_knows_what_the_one_before_wrote(mount: Path, tmp_path: Path) -> None:
    file = tmp_path / "limits"
    CgroupLimits(mount, file).put(PODS, POD, CPU_MAX, CpuMax(quota_usec=5000, period_usec=100_000))

    limits = CgroupLimits(mount, file)
    assert limits.is_ours(POD, CPU_MAX)
    assert limits.take_back(limits.written(PODS)[0], CpuMax(quota_usec=None, period_usec=100_000))
    assert content(mount, CPU_MAX) == "max 100000\n"
    assert CgroupLimits(mount, file).written(PODS) == ()


def test_what_cannot_be_remembered_is_not_written(mount: Path, tmp_path: Path) -> None:
    limits = CgroupLimits(mount, tmp_path / "nowhere" / "limits")

    with pytest.raises(CgroupWriteError, match="cannot be written"):
        limits.put(PODS, POD, MEMORY_MAX, 64 * MIB)

    assert content(mount, MEMORY_MAX) == "max\n"
    assert limits.written(PODS) == ()
    (tmp_path / "nowhere").mkdir()
    assert limits.put(PODS, POD, MEMORY_MAX, 64 * MIB)
    assert limits.fault is None


def test_what_others_wrote_over_is_written_again_once_the_disk_has_room(mount: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    limits = CgroupLimits(mount, state / "limits")
    other = Path(f"{mount}/kubepods/podb")
    shutil.copytree(f"{mount}{POD}", other)
    limits.put(PODS, POD, MEMORY_MAX, 64 * MIB)
    limits.put(PODS, "/kubepods/podb", MEMORY_MAX, 64 * MIB)
    shutil.rmtree(other)
    shutil.rmtree(state)
    limits.written(PODS)  # the other pod has ended, and that cannot be remembered
    assert limits.fault is not None

    state.mkdir()
    Path(f"{mount}{POD}", MEMORY_MAX).write_text("max\n")  # the kubelet, at a resize of the pod
    assert limits.put(PODS, POD, MEMORY_MAX, 64 * MIB)
    assert limits.fault is None


def test_a_file_that_is_not_there_is_not_made(mount: Path) -> None:
    limits = CgroupLimits(mount, None)
    Path(f"{mount}{POD}", MEMORY_MAX).unlink()

    with pytest.raises(CgroupWriteError, match=f"{POD}/memory.max: cannot write 4096: No such file"):
        limits.put(PODS, POD, MEMORY_MAX, 4096)

    assert not Path(f"{mount}{POD}", MEMORY_MAX).exists()
    assert limits.written(PODS) == ()


def test_a_cgroup_that_is_gone_is_an_error_and_a_new_one_of_its_name_is_another(mount: Path, tmp_path: Path) -> None:
    file = tmp_path / "limits"
    limits = CgroupLimits(mount, file)
    limits.put(PODS, POD, MEMORY_MAX, 64 * MIB)
    Path(f"{mount}{POD}").rename(mount / "aside")  # keeps its inode, so that the new one surely has another
    with pytest.raises(CgroupWriteError, match="gone"):
        limits.put(PODS, POD, MEMORY_MAX, 32 * MIB)
    make_again = Path(f"{mount}{POD}")
    shutil.copytree(mount / "aside", make_again)

    assert not limits.is_ours(POD, MEMORY_MAX)
    assert limits.written(PODS) == ()
    assert CgroupLimits(mount, file).written(PODS) == ()


@pytest.mark.parametrize("text", ["", "{}", '{"format": "plimsoll-cgroup-limits", "version": 1, "limits": [{}]}'])
def test_a_damaged_memory_is_set_aside(mount: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "limits"
    file.write_text(text)

    limits = CgroupLimits(mount, file)

    assert limits.written(PODS) == ()
    assert (tmp_path / "limits.damaged").read_text() == text
    assert limits.put(PODS, POD, MEMORY_MAX, 4096)
    assert json.loads(file.read_text())["limits"][0]["line"] == "4096"


def test_what_is_in_use_is_read(mount: Path) -> None:
    limits = CgroupLimits(mount, None)

    assert limits.in_use_bytes(POD) == 4096
    assert limits.in_use_bytes("/nowhere") is None
