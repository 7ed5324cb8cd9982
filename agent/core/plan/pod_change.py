"""A pod with some of its numbers changed, and acted on; its numbers as one text to compare by. Core, pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from agent.core.cluster.pod import CPU, MEMORY, Container, ContainerKind, Pod, Requirements
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT


class Setting(StrEnum):
    """What of a resource is changed."""

    REQUEST = "request"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One number of a pod."""

    container: str
    """Its name; empty = the pod's own budget."""
    kind: ContainerKind | None
    """None for the pod's own budget."""
    resource: Resource
    setting: Setting
    before: int
    after: int


def stated(pod: Pod, change: Change) -> int | None:
    """Return what the pod's spec says now for the number that a change is about; None = nothing, no such container."""
    resources = _resources_of(pod, change.container)
    if resources is None:
        return None
    if change.resource is Resource.CPU:
        is_request = change.setting is Setting.REQUEST
        return resources.cpu_request_millicores if is_request else resources.cpu_limit_millicores
    return resources.memory_request_bytes if change.setting is Setting.REQUEST else resources.memory_limit_bytes


def changed_pod(pod: Pod, changes: Iterable[Change]) -> Pod:
    """Return the pod with the changes in its spec; its status, and so what is allocated and actual, stays.

    A change of a container that the pod does not have changes nothing.
    """
    for change in changes:
        pod = _with(pod, change)
    return pod


def actuated(pod: Pod) -> Pod:
    """Return the pod once the kubelet has acted on its spec: nothing else holds room for it any more."""
    statuses = tuple(replace(status, allocated=None, actual=None) for status in pod.statuses)
    return replace(pod, statuses=statuses, allocated=None, actual=None)


def spec_text(pod: Pod) -> str:
    """Write all that a resize could change, exact and in the order of the spec: equal texts mean equal amounts."""
    named = [(one.name, one.resources) for one in pod.sized_containers()]
    if pod.resources is not None:
        named.append(("", pod.resources))
    return " ".join(f"{name}={_text(resources)}" for name, resources in named)


def _text(resources: Requirements) -> str:
    return ",".join(
        f"{amounts[name]}" if name in amounts else "-"
        for amounts in (resources.requests, resources.limits)
        for name in (CPU, MEMORY)
    )


def _resources_of(pod: Pod, container: str) -> Requirements | None:
    if not container:
        return pod.resources
    found = pod.container(container)
    return found.resources if found is not None else None


def _with(pod: Pod, change: Change) -> Pod:
    if not change.container:
        return pod if pod.resources is None else replace(pod, resources=_changed(pod.resources, change))
    return replace(
        pod,
        containers=tuple(_container(one, change) for one in pod.containers),
        init_containers=tuple(_container(one, change) for one in pod.init_containers),
    )


def _container(container: Container, change: Change) -> Container:
    if container.name != change.container:
        return container
    return replace(container, resources=_changed(container.resources, change))


def _changed(resources: Requirements, change: Change) -> Requirements:
    is_cpu = change.resource is Resource.CPU
    amount = {
        CPU if is_cpu else MEMORY: change.after * (NANOS_PER_MILLI if is_cpu else NANOS_PER_UNIT),
    }
    if change.setting is Setting.REQUEST:
        return replace(resources, requests={**resources.requests, **amount})
    return replace(resources, limits={**resources.limits, **amount})
