"""The pod that the kubelet acts by: its spec with what is allocated to it in the place of what is asked. Core, pure.

The API tells only the allocated requests; allocated limits show once they are in force, as ``resources`` of the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent.core.cluster.effective_resources import without_overhead
from agent.core.cluster.pod import Container, Pod, Reported, Requirements
from agent.core.cluster.qos import pod_qos_class


def allocated_pod(pod: Pod) -> Pod:
    """Return the pod as it is allocated; where the status reports nothing the spec stands.

    The class stays that of the pod as it came: new requests beside limits not yet in force would look like another.

    Source:
        KEP-1287: the kubelet actuates the allocated resources; ``allocatedResources`` and ``resources`` of the status.
    """
    return replace(
        pod,
        containers=tuple(_allocated_container(pod, container) for container in pod.containers),
        init_containers=tuple(_allocated_container(pod, container) for container in pod.init_containers),
        resources=None if pod.resources is None else _allocated_budget(pod, pod.resources),
        recorded_qos=pod_qos_class(pod),
    )


def _allocated_container(pod: Pod, container: Container) -> Container:
    status = pod.status_of(container.name)
    if status is None:
        return container
    return replace(container, resources=_in_force(container.resources, status.allocated, status.actual))


def _allocated_budget(pod: Pod, stated: Requirements) -> Requirements:
    """Return what is allocated to the pod as a whole, as a spec would state it."""
    allocated, actual = pod.allocated, pod.actual
    if pod.overhead and allocated is not None:
        allocated = without_overhead(pod, stated.requests, allocated)
    if pod.overhead and actual is not None:
        actual = Reported(
            requests=None if actual.requests is None else without_overhead(pod, stated.requests, actual.requests),
            limits=None if actual.limits is None else without_overhead(pod, stated.limits, actual.limits),
        )
    return _in_force(stated, allocated, actual)


def _in_force(stated: Requirements, allocated: Mapping[str, int] | None, actual: Reported | None) -> Requirements:
    requests = allocated
    if requests is None and actual is not None:
        requests = actual.requests
    limits = actual.limits if actual is not None else None
    return Requirements(requests=_overlaid(stated.requests, requests), limits=_overlaid(stated.limits, limits))


def _overlaid(stated: Mapping[str, int], reported: Mapping[str, int] | None) -> dict[str, int]:
    """Take reported amounts for the names that the spec states.

    A name that only the status has is not the spec's: a container may be reported with its pod's limit.
    """
    return {name: (reported or {}).get(name, amount) for name, amount in stated.items()}
