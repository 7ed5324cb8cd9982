"""What a pod requests and may use in all, as scheduler, quota and kubelet count it. Core, pure.

Source: ``PodRequests`` and ``PodLimits`` of k8s.io/component-helpers resource/helpers.go (v0.37). Amounts are nanos.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.core.cluster.pod import (
    HUGEPAGES_PREFIX,
    Container,
    ContainerKind,
    ContainerStatus,
    Pod,
    is_pod_level_resource,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingRule:
    """What is counted besides the spec."""

    use_status: bool = False
    """Count a resize that is under way: the largest of desired, allocated and actual."""
    pod_level_resize: bool = False
    """With ``use_status``: the pod's own allocated and actual resources replace the sums over its containers (gate
    InPlacePodLevelResourcesVerticalScaling)."""
    claims: bool = False
    """Add device claims that are paid out of the node's allocatable (gate DRANodeAllocatableResources)."""


SPEC_ONLY = CountingRule()

_Pick = Callable[[Container, ContainerStatus | None], Mapping[str, int]]
_NOTHING: Mapping[str, int] = {}


def pod_requests(pod: Pod, rule: CountingRule = SPEC_ONLY) -> dict[str, int]:
    """Return what the pod requests in all: containers, init stages, sidecars, pod level, overhead.

    Returns:
        Nanos by resource name; a resource that nobody names is absent.
    """
    requests = container_requests(pod, rule)
    if pod.resources is not None and pod.has_pod_level_requests:
        stated = pod.resources.requests
        if rule.pod_level_resize and rule.use_status and pod.actual is not None:
            desired = _NOTHING if pod.is_resize_infeasible else stated
            stated = _largest(desired, pod.actual.requests or _NOTHING, pod.allocated or _NOTHING)
        _override(requests, stated)
    _add(requests, pod.overhead)
    return requests


def pod_limits(pod: Pod, rule: CountingRule = SPEC_ONLY) -> dict[str, int]:
    """Return the pod's limits in all; overhead joins only limits that are there and not 0.

    A limit that some container lacks is still summed over the others: whether it binds is another question
    (``cgroup_values``).

    Returns:
        Nanos by resource name; a resource that nobody limits is absent.
    """
    limits = container_limits(pod, rule)
    if pod.resources is not None and pod.has_pod_level_resources:
        stated = pod.resources.limits
        if rule.pod_level_resize and rule.use_status and pod.actual is not None:
            stated = _largest(_NOTHING if pod.is_resize_infeasible else stated, pod.actual.limits or _NOTHING)
        _override(limits, stated)
    for name, amount in pod.overhead.items():
        if limits.get(name):
            limits[name] += amount
    return limits


def container_requests(pod: Pod, rule: CountingRule = SPEC_ONLY) -> dict[str, int]:
    """Return the containers' part of the pod's requests, without pod level and overhead; nanos."""
    desired = _aggregated(pod, lambda container, _: container.resources.requests)
    claimed = _claimed(pod) if rule.claims else _NOTHING
    _add(desired, claimed)
    if not rule.use_status:
        return desired
    infeasible = pod.is_resize_infeasible

    def fallback(container: Container) -> Mapping[str, int]:
        return _NOTHING if infeasible else container.resources.requests

    def allocated_of(container: Container, status: ContainerStatus | None) -> Mapping[str, int]:
        if status is not None and status.allocated is not None:
            return status.allocated
        return fallback(container)

    def actual_of(container: Container, status: ContainerStatus | None) -> Mapping[str, int]:
        if status is not None and status.actual is not None and status.actual.requests is not None:
            return status.actual.requests
        return allocated_of(container, status)

    pod_actual = pod.actual.requests if pod.actual is not None else None
    if rule.pod_level_resize and pod.allocated is not None and pod_actual is not None:
        # The kubelet has added claims to both already.
        allocated: Mapping[str, int] = pod.allocated
        actual: Mapping[str, int] = pod_actual
    else:
        summed = _aggregated(pod, allocated_of)
        _add(summed, claimed)
        allocated = summed
        actual = _aggregated(pod, actual_of)
    return _largest(_NOTHING if infeasible else desired, actual, allocated)


def container_limits(pod: Pod, rule: CountingRule = SPEC_ONLY) -> dict[str, int]:
    """Return the containers' part of the pod's limits, without pod level and overhead; nanos."""
    desired = _aggregated(pod, lambda container, _: container.resources.limits)
    if rule.claims:
        for name, amount in _claimed(pod).items():
            # A limit that nobody declares stays undeclared; huge pages cannot be overcommitted, so they always count.
            if name in desired or name.startswith(HUGEPAGES_PREFIX):
                desired[name] = desired.get(name, 0) + amount
    if not rule.use_status:
        return desired
    infeasible = pod.is_resize_infeasible

    def actual_of(container: Container, status: ContainerStatus | None) -> Mapping[str, int]:
        if status is not None and status.actual is not None and status.actual.limits is not None:
            return status.actual.limits
        return _NOTHING if infeasible else container.resources.limits

    pod_actual = pod.actual.limits if pod.actual is not None else None
    actual = pod_actual if rule.pod_level_resize and pod_actual is not None else _aggregated(pod, actual_of)
    return _largest(_NOTHING if infeasible else desired, actual)


def without_overhead(pod: Pod, stated: Mapping[str, int], reported: Mapping[str, int]) -> dict[str, int]:
    """Return what a status reports of the pod as a whole, as its spec states it: without overhead.

    Kubelets report it with the overhead, as the pod's cgroup has it (1.37.1), and whoever counts a pod adds that. Where
    what is reported is just what is stated, it was left out.
    """
    return {
        name: amount if amount == stated.get(name) else max(amount - pod.overhead.get(name, 0), 0)
        for name, amount in reported.items()
    }


def _aggregated(pod: Pod, pick: _Pick) -> dict[str, int]:
    """Sum regular containers and sidecars; an init stage needs its own amount and that of the sidecars before it."""
    statuses = {status.name: status for status in reversed(pod.statuses)}
    total: dict[str, int] = {}
    for container in pod.containers:
        _add(total, pick(container, statuses.get(container.name)))
    sidecars: dict[str, int] = {}
    stages: dict[str, int] = {}
    for container in pod.init_containers:
        amounts = pick(container, statuses.get(container.name))
        # A pod's author may name thousands of resources: only those that the container names are looked at. Of the
        # others a stage needs what its sidecars do, and each of those had a stage of its own.
        for name, amount in amounts.items():
            stage = sidecars.get(name, 0) + amount
            stages[name] = max(stages.get(name, stage), stage)
        if container.kind is ContainerKind.SIDECAR:
            _add(total, amounts)
            _add(sidecars, amounts)
    return _largest(total, stages)


def _claimed(pod: Pod) -> dict[str, int]:
    claimed: dict[str, int] = {}
    for claim in pod.claims:
        for name, amount in claim.mapping:
            claimed[name] = claimed.get(name, 0) + amount
        for overhead in claim.overhead:
            amount = (overhead.per_pod or 0) + (overhead.per_container or 0) * len(claim.containers)
            claimed[overhead.resource] = claimed.get(overhead.resource, 0) + amount
    return claimed


def _override(amounts: dict[str, int], stated: Mapping[str, int]) -> None:
    amounts.update({name: amount for name, amount in stated.items() if is_pod_level_resource(name)})


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _largest(*several: Mapping[str, int]) -> dict[str, int]:
    result: dict[str, int] = {}
    for amounts in several:
        for name, amount in amounts.items():
            result[name] = max(result.get(name, amount), amount)
    return result
