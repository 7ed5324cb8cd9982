"""What a cgroup's files say, as values; and which cgroup of a kubelet's tree they belong to. Core, pure.

``sensing/live_values`` fills these from the kernel; ``audit`` compares them with what should be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agent.core.cluster.pod import Partition, QosClass
from agent.core.machine.cpu_knobs import CpuMax
from agent.core.numbers.units import GIB, KIB, MIB

CPU_WEIGHT = "cpu.weight"
CPU_MAX = "cpu.max"
MEMORY_MAX = "memory.max"
MEMORY_MIN = "memory.min"
MEMORY_LOW = "memory.low"
MEMORY_HIGH = "memory.high"
MEMORY_OOM_GROUP = "memory.oom.group"
PIDS_MAX = "pids.max"
HUGETLB_PREFIX = "hugetlb."
HUGETLB_SUFFIX = ".max"

_HUGETLB_UNITS = {"KB": KIB, "MB": MIB, "GB": GIB}


class CgroupLevel(StrEnum):
    """What a cgroup of the kubelet's tree is."""

    KUBEPODS = "kubepods"
    PARTITION = "partition"
    TIER = "tier"
    POD = "pod"
    CONTAINER = "container"


class Unlimited(StrEnum):
    """The word that stands for "no limit" in the kernel's files."""

    MAX = "max"


class UnreadFile(StrEnum):
    """Why a file gave no value."""

    NO_CONTROLLER = "the controller is off in this cgroup"
    NO_FILE = "the kernel has no such file here"
    GONE = "the cgroup went away"
    UNREADABLE = "not readable"
    NOT_UNDERSTOOD = "not understood"


Amount = int | CpuMax | Unlimited
"""Bytes, a weight or a count; the two numbers of ``cpu.max``; or no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """One file of a cgroup: a value, or why there is none."""

    amount: Amount | None = None
    unread: UnreadFile | None = None
    """None exactly if ``amount`` is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCgroup:
    """One cgroup of the kubelet's tree as it is."""

    path: str
    """Relative to the mount, with a leading slash."""
    level: CgroupLevel
    partition: Partition | None = None
    qos: QosClass | None = None
    """By its place in the tree; None = the place does not tell."""
    pod_uid: str | None = None
    container_id: str | None = None
    readings: Mapping[str, FileReading]

    def reading(self, file: str) -> FileReading:
        """Return what a file said; one that was not looked for is not there."""
        return self.readings.get(file, FileReading(unread=UnreadFile.NO_FILE))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTree:
    """The kubelet's cgroups of one node, in tree order."""

    cgroups: tuple[LiveCgroup, ...]

    def at(self, level: CgroupLevel, partition: Partition, qos: QosClass | None = None) -> LiveCgroup | None:
        """Find the root, the partition's directory or a tier; None = it is not there."""
        return next(
            (
                cgroup
                for cgroup in self.cgroups
                if (cgroup.level, cgroup.partition, cgroup.qos) == (level, partition, qos)
            ),
            None,
        )

    def pods(self) -> tuple[LiveCgroup, ...]:
        """Return the pods' cgroups."""
        return tuple(cgroup for cgroup in self.cgroups if cgroup.level is CgroupLevel.POD)

    def containers(self) -> tuple[LiveCgroup, ...]:
        """Return the containers' cgroups, sandboxes among them."""
        return tuple(cgroup for cgroup in self.cgroups if cgroup.level is CgroupLevel.CONTAINER)


def hugetlb_file(page_size_bytes: int) -> str:
    """Return the name of a page size's limit file: ``hugetlb.2MB.max``.

    Source:
        ``mem_fmt`` of the kernel's mm/hugetlb_cgroup.c.
    """
    unit = next((unit for unit in ("GB", "MB") if page_size_bytes >= _HUGETLB_UNITS[unit]), "KB")
    return f"{HUGETLB_PREFIX}{page_size_bytes // _HUGETLB_UNITS[unit]}{unit}{HUGETLB_SUFFIX}"


def hugetlb_page_size_bytes(file: str) -> int | None:
    """Return the page size that a limit file is for; None = the file is no such limit."""
    size = file.removeprefix(HUGETLB_PREFIX).removesuffix(HUGETLB_SUFFIX)
    if file != f"{HUGETLB_PREFIX}{size}{HUGETLB_SUFFIX}":
        return None
    digits, unit = size[:-2], size[-2:]
    # `hugetlb.2MB.rsvd.max` limits reservations; the kubelet's is the other.
    return int(digits) * _HUGETLB_UNITS[unit] if digits.isdecimal() and unit in _HUGETLB_UNITS else None
