"""A kubelet-like tree of many real cgroups for benchmarks: pods with two containers and a sleeper in each."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.cluster.pod import Partition, QosClass
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path
from tests.kernel.cgroups import CgroupTree

CONTAINERS_PER_POD = 2
SLEEPERS = 64
"""Containers that hold a process: enough for some counters to move, few enough not to be the load themselves."""


def make_containers(tree: CgroupTree, count: int, load: str | Sequence[str] = "sleep") -> list[str]:
    """Make this many container cgroups.

    Args:
        tree: Where they are made.
        count: How many.
        load: What runs in the first of them, as in ``CgroupTree.spawn``.

    Returns:
        Their paths relative to the mount, without leading slash, in tree order.
    """
    paths = []
    for number in range(count):
        path = container_cgroup_path(
            driver=Driver.CGROUPFS,
            runtime=Runtime.CONTAINERD,
            cgroup_root=f"/{tree.name}",
            partition=Partition.DEFAULT,
            qos=QosClass.BURSTABLE,
            pod_uid=f"00000000-0000-4000-8000-{number // CONTAINERS_PER_POD:012d}",
            container_id=f"{number:064x}",
        )
        inside = path.removeprefix(f"/{tree.name}/")
        tree.make(inside)
        if number < SLEEPERS:
            tree.spawn(inside, load)
        paths.append(path.lstrip("/"))
    return paths
