"""oom_score_adj of containers that run, against what they would get if they began now. Core, pure.

The kubelet sets it when a container starts; a resize in place leaves it as it is (KEP-1287). So a container that was
made smaller keeps the good score of its old request, and one that grew is killed as early as before: until it restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.core.cluster.pod import MEMORY, Container, Pod, Requirements
from agent.core.cluster.qos import oom_score_adj, pod_qos_class
from agent.core.machine.allocated_pod import allocated_pod
from agent.core.numbers.units import NANOS_PER_UNIT

OOM_SCORE_ADJ = "oom_score_adj"
"""Below /proc/PID, of a container's processes; -1000 to 1000, the higher, the sooner killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomScore:
    """Two scores of one container that differ."""

    found: int
    """What the kernel has, from the container's start."""
    after_restart: int
    """What the request of now gives."""


def oom_score(pod: Pod, container: Container, memory_capacity_bytes: int) -> int:
    """Return the oom_score_adj that a container gets if it starts now."""
    allocated = allocated_pod(pod)
    return oom_score_adj(allocated, allocated.container(container.name) or container, memory_capacity_bytes)


def score_since_start(
    pod: Pod, name: str, requested_bytes: Mapping[str, int | None], memory_capacity_bytes: int
) -> OomScore | None:
    """Return the scores of a container that runs since before its pod was first resized; None = they are one.

    Args:
        name: Of the container.
        requested_bytes: Memory requests at that time, by container; empty name = the pod as a whole, None = none.
        memory_capacity_bytes: Of the node.
    """
    container = pod.container(name)
    if container is None:
        return None

    def began(stated: Container) -> Container:
        return replace(stated, resources=_with_memory(stated.resources, stated.name, requested_bytes))

    started = replace(
        pod,
        containers=tuple(map(began, pod.containers)),
        init_containers=tuple(map(began, pod.init_containers)),
        resources=None if pod.resources is None else _with_memory(pod.resources, "", requested_bytes),
        recorded_qos=pod_qos_class(pod),
    )
    start_score = oom_score_adj(started, began(container), memory_capacity_bytes)
    after_restart = oom_score(pod, container, memory_capacity_bytes)
    return None if start_score == after_restart else OomScore(found=start_score, after_restart=after_restart)


def _with_memory(stated: Requirements, name: str, requested_bytes: Mapping[str, int | None]) -> Requirements:
    if name not in requested_bytes:
        return stated
    requests = {key: amount for key, amount in stated.requests.items() if key != MEMORY}
    amount = requested_bytes[name]
    if amount is not None:
        requests[MEMORY] = amount * NANOS_PER_UNIT
    return replace(stated, requests=requests)
