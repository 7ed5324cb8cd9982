"""A kubelet's cgroups as plain files: what reading needs, without a kernel. Values are given by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent.core.cluster.pod import Partition, QosClass
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path, pod_cgroup_path
from tests.kubepods import kubepods_root_path

KERNEL_DEFAULTS: Final = {
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "memory.max": "max",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.oom.group": "0",
    "pids.max": "max",
}
"""What a new cgroup says."""

Files = Mapping[str, str]


class KubeletFiles:
    """A directory that stands for a cgroup v2 mount with a kubelet's tree."""

    def __init__(self, mount: Path, driver: Driver = Driver.CGROUPFS, cgroup_root: str = "/") -> None:
        self.mount = mount
        self.driver = driver
        self._root = cgroup_root
        mount.mkdir(exist_ok=True)
        (mount / "cgroup.controllers").write_text("cpu memory pids\n")

    def kubepods(self, files: Files | None = None) -> Path:
        return self.cgroup(kubepods_root_path(driver=self.driver, cgroup_root=self._root), files)

    def tiers(self, burstable: Files | None = None, best_effort: Files | None = None) -> None:
        """Make both tiers; without values the ones of a node without Burstable pods (2 shares: weight 1)."""
        self.tier(QosClass.BURSTABLE, {"cpu.weight": "1", **(burstable or {})})
        self.tier(QosClass.BEST_EFFORT, {"cpu.weight": "1", **(best_effort or {})})

    def tier(self, qos: QosClass, files: Files, partition: Partition = Partition.DEFAULT) -> Path:
        beside = self.pod_path(qos, "x", partition)
        return self.cgroup(beside.rpartition("/")[0], files)

    def pod_path(self, qos: QosClass, uid: str, partition: Partition = Partition.DEFAULT) -> str:
        return pod_cgroup_path(driver=self.driver, qos=qos, pod_uid=uid, cgroup_root=self._root, partition=partition)

    def pod(self, qos: QosClass, uid: str, files: Files, partition: Partition = Partition.DEFAULT) -> Path:
        return self.cgroup(self.pod_path(qos, uid, partition), files)

    def container(
        self,
        qos: QosClass,
        uid: str,
        container_id: str,
        files: Files,
        partition: Partition = Partition.DEFAULT,
    ) -> Path:
        """Make a container; memory.oom.group is 1 unless told otherwise."""
        path = container_cgroup_path(
            driver=self.driver,
            runtime=Runtime.CONTAINERD,
            qos=qos,
            pod_uid=uid,
            container_id=container_id,
            cgroup_root=self._root,
            partition=partition,
        )
        return self.cgroup(path, {"memory.oom.group": "1", **files})

    def cgroup(self, path: str, files: Files | None = None) -> Path:
        """Make a cgroup with the kernel's defaults and the values given over them."""
        directory = self.mount / path.strip("/")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.controllers").write_text("cpu memory pids\n")
        for file, text in {**KERNEL_DEFAULTS, **(files or {})}.items():
            (directory / file).write_text(text + "\n")
        return directory
