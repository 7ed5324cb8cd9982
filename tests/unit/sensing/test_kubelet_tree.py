from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import Partition, QosClass
from agent.core.machine.cgroup_files import Amount, CgroupLevel, FileReading, Unlimited, UnreadFile
from agent.core.machine.cpu_knobs import CpuMax
from agent.sensing.cgroup_path import Driver
from agent.sensing.kubelet_tree import (
    FILES,
    LiveTreeError,
    parse_amount,
    read_cgroup_file,
    read_kubelet_tree,
    read_values,
)
from tests.kubelet_files import KubeletFiles

UID = "11111111-aaaa-4000-8000-000000000001"
ID = "1a" * 32


@pytest.mark.parametrize(
    ("file", "text", "amount"),
    [
        ("cpu.weight", "39\n", 39),
        ("cpu.max", "20000 100000\n", CpuMax(quota_usec=20_000, period_usec=100_000)),
        ("cpu.max", "max 50000\n", CpuMax(quota_usec=None, period_usec=50_000)),
        ("memory.max", "max\n", Unlimited.MAX),
        ("memory.max", "0\n", 0),
        ("hugetlb.2MB.max", "4194304\n", 4_194_304),
        ("memory.max", "104857600", None),
        ("cpu.max", "20000 100000", None),
        ("cpu.max", "20000\n", None),
        ("memory.max", "-1\n", None),
        ("memory.max", "1 2\n", None),
        ("memory.max", "", None),
    ],
)
def test_parse_amount(file: str, text: str, amount: Amount | None) -> None:
    assert parse_amount(file, text) == amount


@given(file=st.sampled_from(FILES), text=st.text())
def test_any_text_is_parsed_or_not_understood(file: str, text: str) -> None:
    parse_amount(file, text)


@given(file=st.sampled_from(["memory.max", "cpu.max"]), numbers=st.integers(1, 2**63 - 1), cut=st.integers(0, 40))
def test_a_text_that_was_cut_is_never_a_smaller_number(file: str, numbers: int, cut: int) -> None:
    whole = f"{numbers} 100000\n" if file == "cpu.max" else f"{numbers}\n"

    assert parse_amount(file, whole[:cut]) in (None, parse_amount(file, whole))


def test_missing_file_says_whether_the_controller_is_off(tmp_path: Path) -> None:
    on = frozenset({"cpu", "memory"})

    assert read_cgroup_file(tmp_path, "pids.max", on) == FileReading(unread=UnreadFile.NO_CONTROLLER)
    assert read_cgroup_file(tmp_path, "memory.high", on) == FileReading(unread=UnreadFile.NO_FILE)
    assert read_cgroup_file(tmp_path, "memory.high", None) == FileReading(unread=UnreadFile.NO_FILE)


def test_file_that_cannot_be_read_or_understood_says_so(tmp_path: Path) -> None:
    (tmp_path / "memory.max").mkdir()
    (tmp_path / "memory.high").write_bytes(b"\xff\n")

    assert read_cgroup_file(tmp_path, "memory.max", None) == FileReading(unread=UnreadFile.UNREADABLE)
    assert read_cgroup_file(tmp_path, "memory.high", None) == FileReading(unread=UnreadFile.NOT_UNDERSTOOD)


def test_values_of_a_cgroup_hold_every_file_and_the_limits_of_huge_pages(tmp_path: Path) -> None:
    cgroup = KubeletFiles(tmp_path).kubepods({"hugetlb.2MB.max": "0", "hugetlb.2MB.rsvd.max": "0"})

    values = read_values(cgroup)

    assert list(values) == [*FILES, "hugetlb.2MB.max"]
    assert values["memory.max"] == FileReading(amount=Unlimited.MAX)


def test_values_of_a_cgroup_that_is_gone_are_gone(tmp_path: Path) -> None:
    assert set(read_values(tmp_path / "gone").values()) == {FileReading(unread=UnreadFile.GONE)}


@pytest.mark.parametrize("driver", list(Driver))
@pytest.mark.parametrize("cgroup_root", ["/", "/kubelet"])
def test_tree_of_either_driver_is_found_with_its_levels(tmp_path: Path, driver: Driver, cgroup_root: str) -> None:
    files = KubeletFiles(tmp_path, driver, cgroup_root)
    files.kubepods()
    files.tiers()
    files.pod(QosClass.BURSTABLE, UID, {"cpu.weight": "4"})
    inside = files.container(QosClass.BURSTABLE, UID, ID, {"cpu.weight": "17"})
    (inside / "kubepods" / "podnested").mkdir(parents=True)
    files.pod(QosClass.GUARANTEED, "hash", {}, Partition.SYSTEM)
    (tmp_path / "system.slice" / "ssh.service").mkdir(parents=True)

    kubelet_tree = read_kubelet_tree(tmp_path, cgroup_root=cgroup_root)

    assert kubelet_tree.driver is driver
    assert kubelet_tree.tree.at(CgroupLevel.KUBEPODS, Partition.DEFAULT) is not None
    assert kubelet_tree.tree.at(CgroupLevel.TIER, Partition.DEFAULT, QosClass.BEST_EFFORT) is not None
    assert kubelet_tree.tree.at(CgroupLevel.PARTITION, Partition.SYSTEM) is not None
    assert {(pod.pod_uid, pod.qos, pod.partition) for pod in kubelet_tree.tree.pods()} == {
        (UID, QosClass.BURSTABLE, Partition.DEFAULT),
        ("hash", QosClass.GUARANTEED, Partition.SYSTEM),
    }
    (only,) = kubelet_tree.tree.containers()
    assert (only.container_id, only.pod_uid, only.reading("cpu.weight").amount) == (ID, UID, 17)


def test_containers_of_a_runtime_on_another_driver_are_found(tmp_path: Path) -> None:
    files = KubeletFiles(tmp_path, Driver.SYSTEMD)
    files.kubepods()
    name = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice:cri-containerd:{ID}"
    files.cgroup(f"/system.slice/containerd.service/{name}")

    (only,) = read_kubelet_tree(tmp_path).tree.containers()

    assert (only.pod_uid, only.container_id) == (UID, ID)


def test_kubepods_without_pods_gives_way_and_is_told(tmp_path: Path) -> None:
    KubeletFiles(tmp_path, Driver.CGROUPFS).kubepods()
    KubeletFiles(tmp_path, Driver.SYSTEMD).pod(QosClass.GUARANTEED, UID, {})

    kubelet_tree = read_kubelet_tree(tmp_path)
    chosen = read_kubelet_tree(tmp_path, driver=Driver.CGROUPFS)

    assert (kubelet_tree.kubepods_path, kubelet_tree.passed_over) == ("/kubepods.slice", ("/kubepods",))
    assert (chosen.kubepods_path, chosen.driver, chosen.tree.pods()) == ("/kubepods", Driver.CGROUPFS, ())


def test_several_kubepods_with_pods_must_be_chosen_from(tmp_path: Path) -> None:
    for driver in Driver:
        KubeletFiles(tmp_path, driver).pod(QosClass.GUARANTEED, UID, {})

    with pytest.raises(LiveTreeError, match=re.escape("/kubepods, /kubepods.slice; choose one with --cgroup-root")):
        read_kubelet_tree(tmp_path)


def test_machine_without_kubepods_has_an_empty_tree(tmp_path: Path) -> None:
    kubelet_tree = read_kubelet_tree(tmp_path)

    assert (kubelet_tree.kubepods_path, kubelet_tree.driver, kubelet_tree.tree.cgroups) == (None, None, ())


def test_cgroup_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LiveTreeError, match="--cgroup-root /nowhere: no directory"):
        read_kubelet_tree(tmp_path, cgroup_root="/nowhere")


def test_the_score_of_a_containers_first_process_is_read(tmp_path: Path) -> None:
    files, proc = KubeletFiles(tmp_path / "cgroup"), tmp_path / "proc"
    files.kubepods()
    files.tiers()
    files.pod(QosClass.BURSTABLE, UID, {})
    inside = files.container(QosClass.BURSTABLE, UID, ID, {})

    def score() -> FileReading:
        (only,) = read_kubelet_tree(files.mount, proc=proc).tree.containers()
        return only.reading("oom_score_adj")

    assert score().unread is UnreadFile.GONE  # the cgroup lists no processes at all
    (inside / "cgroup.procs").write_text("")
    assert score().unread is UnreadFile.NO_FILE
    (inside / "cgroup.procs").write_text("0\n")  # of a process that is not seen here
    assert score().unread is UnreadFile.NO_FILE
    # crun keeps the processes one cgroup below
    (inside / "container").mkdir()
    (inside / "container" / "cgroup.procs").write_text("71\n72\n")
    assert score().unread is UnreadFile.GONE
    (proc / "71").mkdir(parents=True)
    (proc / "71" / "oom_score_adj").write_text("-997\n")
    assert score().amount == -997
    (proc / "71" / "oom_score_adj").write_text("much\n")
    assert score().unread is UnreadFile.NOT_UNDERSTOOD
