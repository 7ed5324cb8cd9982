"""What a pod uses in none of its containers counts in the recommendation of one of them: nobody else can ask for it.

Core, pure. Requests and limits are stated by containers; the pod's own limit is the sum of theirs. So files in memory
that an ended container left, or a shim, are counted as if one container of the pod used them: the one that requests
most memory, which stays the same as long as it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.numbers.arrays import Floats
from agent.core.recommender.policy import CurrentAmounts, Proposals, Steps
from agent.core.window.pod_itself import PodItself

_WORDS = "used by the pod in none of its containers"


def bearers(
    containers: Iterable[tuple[UnitIdentity, UnitResources]], itself: Mapping[str, PodItself]
) -> dict[str, PodItself]:
    """Return which containers ask for what their pod uses in none of them, by the path of the container's cgroup.

    Args:
        containers: All of the node.
        itself: By the path of the pod's cgroup; where something of it is not known it counts as nothing.
    """
    chosen: dict[str, tuple[tuple[int, int, str], str]] = {}
    for identity, stated in containers:
        pod_path = identity.cgroup_path.rpartition("/")[0]
        if identity.kind is UnitKind.CONTAINER and identity.container is not None and pod_path in itself:
            weight = stated.memory_request_bytes or 0, stated.cpu_request_millicores or 0, identity.container
            entry = weight, identity.cgroup_path
            chosen[pod_path] = max(chosen.get(pod_path, entry), entry)
    return {path: itself[pod_path] for pod_path, (_, path) in chosen.items()}


def with_pod_itself(proposals: Proposals, borne: Sequence[PodItself | None], steps: Steps | None) -> Proposals:
    """Return proposals with what each row bears of its pod; steps are told of one row only."""
    if not any(borne):
        return proposals
    cpu = _amounts([itself.cpu_usage_millicores if itself is not None else None for itself in borne])
    memory = _amounts([itself.held_working_set_bytes if itself is not None else None for itself in borne])
    if steps is not None:
        if proposals.has_cpu[0] and cpu[0] > 0:
            steps.say("cpu", _WORDS, float(cpu[0]), "millicores", "mean of a minute, added")
        if proposals.has_memory[0] and memory[0] > 0:
            steps.say("memory", _WORDS, float(memory[0]), "bytes", "least of a minute, added to request and limit")
    return replace(
        proposals,
        cpu_request_millicores=proposals.cpu_request_millicores + cpu,
        cpu_base_millicores=proposals.cpu_base_millicores + cpu,
        cpu_peak_millicores=proposals.cpu_peak_millicores + cpu,
        memory_request_bytes=proposals.memory_request_bytes + memory,
        memory_base_bytes=proposals.memory_base_bytes + memory,
        memory_peak_bytes=proposals.memory_peak_bytes + memory,
        memory_limit_bytes=proposals.memory_limit_bytes + memory,
        memory_seen_bytes=None if proposals.memory_seen_bytes is None else proposals.memory_seen_bytes + memory,
    )


def stated_with_pod_itself(stated: CurrentAmounts, borne: Sequence[PodItself | None]) -> CurrentAmounts:
    """Return what is in use with what each row bears of its pod: a limit must not fall below both together."""
    if not any(borne):
        return stated
    working_set = _amounts([itself.held_working_set_bytes if itself is not None else None for itself in borne])
    current = _amounts([itself.held_current_bytes if itself is not None else None for itself in borne])
    return replace(
        stated,
        working_set_bytes=stated.working_set_bytes + working_set,
        memory_current_bytes=stated.memory_current_bytes + current,
    )


def _amounts(known: Sequence[float | None]) -> Floats:
    return np.array([amount or 0.0 for amount in known], dtype=np.float64)
