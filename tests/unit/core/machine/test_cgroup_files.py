from __future__ import annotations

import pytest

from agent.core.cluster.pod import Partition, QosClass
from agent.core.machine.cgroup_files import (
    CgroupLevel,
    LiveCgroup,
    LiveTree,
    UnreadFile,
    hugetlb_file,
    hugetlb_page_size_bytes,
)
from agent.core.numbers.units import GIB, KIB, MIB


@pytest.mark.parametrize(
    ("size_bytes", "file"),
    [(64 * KIB, "hugetlb.64KB.max"), (2 * MIB, "hugetlb.2MB.max"), (GIB, "hugetlb.1GB.max")],
)
def test_hugetlb_file_and_its_page_size_are_inverse(size_bytes: int, file: str) -> None:
    assert hugetlb_file(size_bytes) == file
    assert hugetlb_page_size_bytes(file) == size_bytes


@pytest.mark.parametrize(
    "file", ["hugetlb.2MB.rsvd.max", "hugetlb.2MB.current", "memory.max", "hugetlb.2XB.max", "hugetlb..max"]
)
def test_hugetlb_page_size_of_another_file_is_none(file: str) -> None:
    assert hugetlb_page_size_bytes(file) is None


def test_reading_of_a_file_that_was_not_looked_for_is_not_there() -> None:
    cgroup = LiveCgroup(path="/kubepods", level=CgroupLevel.KUBEPODS, readings={})

    assert cgroup.reading("hugetlb.2MB.max").unread is UnreadFile.NO_FILE


def test_tree_finds_a_tier_by_partition_and_class() -> None:
    tiers = tuple(
        LiveCgroup(path=path, level=CgroupLevel.TIER, partition=partition, qos=QosClass.BURSTABLE, readings={})
        for path, partition in (("/kubepods/burstable", Partition.DEFAULT), ("/kubepods/system/b", Partition.SYSTEM))
    )
    tree = LiveTree(cgroups=tiers)

    assert tree.at(CgroupLevel.TIER, Partition.SYSTEM, QosClass.BURSTABLE) is tiers[1]
    assert tree.at(CgroupLevel.TIER, Partition.DEFAULT, QosClass.BEST_EFFORT) is None
