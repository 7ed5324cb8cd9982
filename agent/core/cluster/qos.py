"""QoS class and out-of-memory score of pods and containers. Core, pure."""

from __future__ import annotations

from agent.core.cluster.effective_resources import CountingRule, container_requests
from agent.core.cluster.pod import CPU, MEMORY, Container, ContainerKind, Pod, QosClass, Requirements
from agent.core.numbers.units import divide_truncating, to_units

GUARANTEED_OOM_SCORE_ADJ = -997
BEST_EFFORT_OOM_SCORE_ADJ = 1000
BURSTABLE_LEAST_OOM_SCORE_ADJ = 1000 + GUARANTEED_OOM_SCORE_ADJ


def pod_qos_class(pod: Pod) -> QosClass:
    """Return the class that every component goes by: the recorded one, or, before there is one, the computed."""
    return pod.recorded_qos if pod.recorded_qos is not None else computed_qos_class(pod)


def computed_qos_class(pod: Pod) -> QosClass:
    """Compute the class from the spec: by pod-level resources alone where they are set, else by the containers.

    Only CPU and memory count, a zero counts as absent, debug containers never count.

    Source:
        ``ComputePodQOS`` of pkg/apis/core/v1/helper/qos (1.37: an empty pod-level section is as good as none).
    """
    if pod.resources is not None and pod.has_pod_level_resources:
        return class_of(pod.resources)
    common: QosClass | None = None
    for container in pod.sized_containers():
        container_class = class_of(container.resources)
        if container_class is QosClass.BURSTABLE or (common is not None and container_class is not common):
            return QosClass.BURSTABLE
        common = container_class
    return QosClass.BEST_EFFORT if common is None else common


def class_of(resources: Requirements) -> QosClass:
    """Return the class that one set of requests and limits comes to."""
    shape = _shape_of(resources, CPU)
    return shape if shape is _shape_of(resources, MEMORY) else QosClass.BURSTABLE


def _shape_of(resources: Requirements, name: str) -> QosClass:
    request, limit = resources.requests.get(name, 0), resources.limits.get(name, 0)
    if request != limit:
        return QosClass.BURSTABLE
    return QosClass.GUARANTEED if request else QosClass.BEST_EFFORT


def oom_score_adj(pod: Pod, container: Container, memory_capacity_bytes: int, *, claims: bool = False) -> int:
    """Return the oom_score_adj with which the kubelet starts a container; a resize does not change it.

    Args:
        pod: The pod with what is allocated to it in its spec.
        claims: Count device claims (gate DRANodeAllocatableResources).

    Returns:
        -997 to 1000; the higher, the sooner killed.

    Source:
        ``GetContainerOOMScoreAdjust`` of pkg/kubelet/qos/policy.go (1.37.1); KEP-2837.
    """
    if pod.is_node_critical:
        return GUARANTEED_OOM_SCORE_ADJ
    qos = pod_qos_class(pod)
    if qos is QosClass.GUARANTEED:
        return GUARANTEED_OOM_SCORE_ADJ
    if qos is QosClass.BEST_EFFORT:
        return BEST_EFFORT_OOM_SCORE_ADJ
    share_bytes = _unclaimed_share_bytes(pod, claims=claims)
    request_bytes = _memory_request_bytes(pod, container, claims=claims)
    if container.kind is ContainerKind.SIDECAR and pod.containers:
        # A sidecar must not die before the containers it serves.
        least_bytes = min(_memory_request_bytes(pod, regular, claims=claims) for regular in pod.containers)
        request_bytes = max(request_bytes, least_bytes)
    score = 1000 - divide_truncating(1000 * (request_bytes + share_bytes), memory_capacity_bytes)
    if score < BURSTABLE_LEAST_OOM_SCORE_ADJ:
        return BURSTABLE_LEAST_OOM_SCORE_ADJ
    return BEST_EFFORT_OOM_SCORE_ADJ - 1 if score == BEST_EFFORT_OOM_SCORE_ADJ else score


def _unclaimed_share_bytes(pod: Pod, *, claims: bool) -> int:
    """Share what the pod requests beyond its containers evenly among regular and init containers."""
    if pod.resources is None or not pod.resources.requests.get(MEMORY):
        return 0
    inside = container_requests(pod, CountingRule(claims=claims)).get(MEMORY, 0)
    remaining_bytes = max(to_units(pod.resources.requests[MEMORY]) - to_units(inside), 0)
    return remaining_bytes // max(len(pod.containers) + len(pod.init_containers), 1)


def _memory_request_bytes(pod: Pod, container: Container, *, claims: bool) -> int:
    request_bytes = container.resources.memory_request_bytes or 0
    if not claims:
        return request_bytes
    for claim in pod.claims:
        if container.name not in claim.containers:
            continue
        sharers = len(claim.containers)
        request_bytes += sum(to_units(amount) // sharers for name, amount in claim.mapping if name == MEMORY)
        for overhead in claim.overhead:
            if overhead.resource == MEMORY:
                request_bytes += to_units(overhead.per_pod or 0) // sharers + to_units(overhead.per_container or 0)
    return request_bytes
