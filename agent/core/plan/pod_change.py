"""A pod with some of its numbers changed, and acted on; its numbers as one text to compare by. Core, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from agent.core.cluster.pod import CPU, MEMORY, RESIZE_PENDING, Container, ContainerKind, Pod, Requirements
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT, to_millis, to_units


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

    @property
    def number(self) -> tuple[str, Resource, Setting]:
        """Return which number of the pod it is about."""
        return self.container, self.resource, self.setting


def restarts(container: Container, change: Change) -> bool:
    """Return whether a container restarts for a change: of its own numbers, or of its pod's limit that it goes by.

    The pod as a whole has no resizePolicy (KEP-5419): a container that has no limit of its own inherits the pod's, and
    its policy says what becomes of it then. What the pod requests is nothing to it.
    """
    is_by_policy = container.restarts_for_cpu if change.resource is Resource.CPU else container.restarts_for_memory
    if change.container:
        return is_by_policy and change.container == container.name
    return is_by_policy and change.setting is Setting.LIMIT and change.resource.value not in container.resources.limits


PodNumbers = dict[str, Requirements]
"""All that a resize could change: by container, in the order of the spec, last the pod's own budget under no name."""


def pod_numbers(pod: Pod) -> PodNumbers:
    """Return what a pod's spec states."""
    numbers = {container.name: container.resources for container in pod.sized_containers()}
    return numbers if pod.resources is None else {**numbers, "": pod.resources}


def number_of(stated: Requirements, resource: Resource, setting: Setting) -> int | None:
    """Return one number, millicores or bytes; None = not stated."""
    nanos = (stated.requests if setting is Setting.REQUEST else stated.limits).get(resource)
    if nanos is None:
        return None
    return to_millis(nanos) if resource is Resource.CPU else to_units(nanos)


def stated(numbers: PodNumbers, change: Change) -> int | None:
    """Return what a pod's spec says now for the number that a change is about; None = nothing, no such container."""
    resources = numbers.get(change.container)
    return None if resources is None else number_of(resources, change.resource, change.setting)


def changed_pod(pod: Pod, changes: Iterable[Change]) -> Pod:
    """Return the pod with the changes in its spec; its status, and so what is allocated and actual, stays.

    A change of a container that the pod does not have changes nothing.
    """
    by_container: dict[str, list[Change]] = {}
    for change in changes:
        by_container.setdefault(change.container, []).append(change)
    if not by_container:
        return pod
    return replace(
        pod,
        containers=tuple(_container(container, by_container) for container in pod.containers),
        init_containers=tuple(_container(container, by_container) for container in pod.init_containers),
        resources=None if pod.resources is None else _changed(pod.resources, by_container.get("", ())),
    )


def actuated(pod: Pod) -> Pod:
    """Return the pod once the kubelet has acted on its spec: nothing else holds room for it any more."""
    statuses = tuple(replace(status, allocated=None, actual=None) for status in pod.statuses)
    return replace(unanswered(pod), statuses=statuses, allocated=None, actual=None)


def unanswered(pod: Pod) -> Pod:
    """Return the pod without the kubelet's word on a resize that it puts off or refuses.

    Of a spec that has changed since, it says nothing: what was refused was another wish.
    """
    if not any(condition.type == RESIZE_PENDING for condition in pod.conditions):
        return pod
    return replace(pod, conditions=tuple(condition for condition in pod.conditions if condition.type != RESIZE_PENDING))


def spec_text(pod: Pod) -> str:
    """Write all that a resize could change, exact and in the order of the spec: equal texts mean equal amounts."""
    return " ".join(f"{name}={_text(resources)}" for name, resources in pod_numbers(pod).items())


def _text(resources: Requirements) -> str:
    return ",".join(
        f"{amounts[name]}" if name in amounts else "-"
        for amounts in (resources.requests, resources.limits)
        for name in (CPU, MEMORY)
    )


def _container(container: Container, by_container: Mapping[str, Iterable[Change]]) -> Container:
    changes = by_container.get(container.name)
    return container if changes is None else replace(container, resources=_changed(container.resources, changes))


def _changed(resources: Requirements, changes: Iterable[Change]) -> Requirements:
    for change in changes:
        resources = changed_numbers(resources, change)
    return resources


def changed_numbers(resources: Requirements, change: Change) -> Requirements:
    """Return the numbers with one change made."""
    is_cpu = change.resource is Resource.CPU
    amount = {change.resource.value: change.after * (NANOS_PER_MILLI if is_cpu else NANOS_PER_UNIT)}
    if change.setting is Setting.REQUEST:
        return Requirements(requests={**resources.requests, **amount}, limits=resources.limits)
    return Requirements(requests=resources.requests, limits={**resources.limits, **amount})
