"""memory.low from requests: what the kernel takes from others first while a pod stays within its request. Core, pure.

Only what containers request counts, because the scheduler has reserved it on the node: whatever a pod asks for in an
annotation alone would be taken from its neighbours. A cgroup is protected as far as all cgroups above it are, so those
hold the sums. ``min`` would never be reclaimed, and a pod could drive others into kills by it; ``low`` gives way.

Source: "Memory Interface Files" of the kernel's cgroup-v2.rst; TieredReservation of KEP-2570 has the same levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.core.cluster.effective_resources import pod_requests
from agent.core.cluster.pod import MEMORY, Pod
from agent.core.machine.allocated_pod import allocated_pod
from agent.core.numbers.units import to_units


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLow:
    """memory.low of one pod and of its containers; bytes."""

    pod_bytes: int
    """What the scheduler counts for it, overhead included."""
    container_bytes: Mapping[str, int]
    """By name; containers that request none are absent."""


def memory_low_of(pod: Pod) -> MemoryLow | None:
    """Return what is protected of a pod; None = it requests no memory."""
    pod = allocated_pod(pod)
    pod_bytes = to_units(pod_requests(pod).get(MEMORY, 0))
    if not pod_bytes:
        return None
    stated = {container.name: container.resources.memory_request_bytes for container in pod.sized_containers()}
    return MemoryLow(
        pod_bytes=pod_bytes, container_bytes={name: amount for name, amount in stated.items() if amount is not None}
    )


def memory_low_by_path(pods: Iterable[tuple[str, MemoryLow, Mapping[str, str]]], kubepods_root: str) -> dict[str, int]:
    """Return memory.low by cgroup: of pods, of their containers, and as sums of the cgroups above up to ``kubepods``.

    Args:
        pods: Each one's path, what is protected of it, and the paths of its containers by name, as far as they are
            known.
        kubepods_root: Paths have a leading slash and none at the end; a pod outside it is left out.
    """
    wanted: dict[str, int] = {}
    for pod_path, low, containers in pods:
        if not pod_path.startswith(f"{kubepods_root}/"):
            continue
        wanted[pod_path] = low.pod_bytes
        wanted |= {containers[name]: amount for name, amount in low.container_bytes.items() if name in containers}
        above = pod_path.rpartition("/")[0]
        while len(above) >= len(kubepods_root):
            wanted[above] = wanted.get(above, 0) + low.pod_bytes
            above = above.rpartition("/")[0]
    return {path: amount for path, amount in wanted.items() if amount}
