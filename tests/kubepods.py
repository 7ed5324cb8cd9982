"""Where the kubelet's ``kubepods`` is, by the paths of its pods."""

from __future__ import annotations

from posixpath import dirname

from agent.core.cluster.pod import QosClass
from agent.sensing.cgroup_path import Driver, cgroup_root_candidates, pod_cgroup_path


def kubepods_root_path(*, driver: Driver, cgroup_root: str = "/", cgroups_per_qos: bool = True) -> str:
    """Return the parent of all pods, as the kubelet's NodeAllocatableRoot does; without levels it is the root."""
    if not cgroups_per_qos:
        return cgroup_root_candidates(cgroup_root)[-1 if Driver(driver) is Driver.SYSTEMD else 0]
    return dirname(pod_cgroup_path(driver=driver, qos=QosClass.GUARANTEED, pod_uid="pod", cgroup_root=cgroup_root))
