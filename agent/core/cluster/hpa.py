"""What a HorizontalPodAutoscaler divides by: requests that it scales on must not be changed under it. Core, pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.resource import Resource

RESOURCE_METRIC: Final = "Resource"
CONTAINER_RESOURCE_METRIC: Final = "ContainerResource"
UTILIZATION: Final = "Utilization"
"""Target type: usage as a share of the request. The others divide by no request."""
TARGET_TYPES: Final = (UTILIZATION, "Value", "AverageValue")

_LEAST_TARGET_PERCENT: Final = 1
MOST_TARGET_PERCENT: Final = 90
_FAR_BEYOND: Final = 1e9
"""Percent; a quotient that overflows counts as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaMetric:
    """One entry of ``spec.metrics``."""

    type: str
    """``Resource``, ``ContainerResource``, ``Pods``, ``Object`` or ``External``."""
    resource: str | None = None
    """``cpu`` or ``memory`` of the first two."""
    target_type: str = UTILIZATION
    target_percent: int | None = None
    """Of a utilisation target; None = it is of another type."""
    container: str | None = None
    """Of ``ContainerResource``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilizationTarget:
    """The share of requests that an autoscaler wants in use."""

    holder: str
    """``HorizontalPodAutoscaler shop/web``."""
    resource: Resource
    percent: int
    """Of the requests; may be more than 100."""
    container: str | None = None
    """Whose request it divides by; None = those of all containers that run side by side in a pod."""


def utilization_targets(holder: str, metrics: Iterable[HpaMetric]) -> tuple[UtilizationTarget, ...]:
    """Return the targets of one autoscaler that are shares of requests, in its order."""
    return tuple(
        UtilizationTarget(
            holder=holder,
            resource=resource,
            percent=metric.target_percent,
            container=metric.container,
        )
        for metric in metrics
        if metric.target_percent is not None
        for resource in frozen_resources([metric])
    )


def frozen_resources(metrics: Iterable[HpaMetric]) -> frozenset[Resource]:
    """Return the resources whose requests the metrics divide by, be it those of one container only."""
    known = {resource.value: resource for resource in Resource}
    return frozenset(
        known[metric.resource]
        for metric in metrics
        if metric.type in (RESOURCE_METRIC, CONTAINER_RESOURCE_METRIC)
        and metric.target_type == UTILIZATION
        and metric.resource in known
    )


def frozen_axes(name: str, metrics: Iterable[HpaMetric]) -> FrozenAxes:
    """Return what one autoscaler freezes of its target; metrics of containers freeze those containers only."""
    metrics = list(metrics)
    frozen = frozen_resources(metrics)
    return FrozenAxes(
        cpu_for=name if Resource.CPU in frozen else None,
        memory_for=name if Resource.MEMORY in frozen else None,
        cpu_containers=_containers(Resource.CPU, metrics),
        memory_containers=_containers(Resource.MEMORY, metrics),
    )


def _containers(resource: Resource, metrics: Iterable[HpaMetric]) -> tuple[str, ...] | None:
    """Return the only containers whose requests the metrics divide by; None = those of all, or of none."""
    names: set[str] = set()
    for metric in metrics:
        if resource in frozen_resources([metric]):
            if metric.type != CONTAINER_RESOURCE_METRIC or metric.container is None:
                return None
            names.add(metric.container)
    return tuple(sorted(names)) or None


def merged_axes(axes: Iterable[FrozenAxes]) -> FrozenAxes:
    """Return what several autoscalers of a workload freeze together, by the name of the first."""
    every = list(axes)
    cpu = [freeze for freeze in every if freeze.cpu_for is not None]
    memory = [freeze for freeze in every if freeze.memory_for is not None]
    return FrozenAxes(
        cpu_for=cpu[0].cpu_for if cpu else None,
        memory_for=memory[0].memory_for if memory else None,
        cpu_containers=_together([freeze.cpu_containers for freeze in cpu]),
        memory_containers=_together([freeze.memory_containers for freeze in memory]),
    )


def _together(containers: Iterable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    names: set[str] = set()
    for some in containers:
        if some is None:
            return None
        names.update(some)
    return tuple(sorted(names)) or None


def is_whole_workload_left(frozen: FrozenAxes, *, freezes_axes: bool) -> bool:
    """Return whether nothing is left to size: both resources are frozen, or one is where none may be frozen alone."""
    held = (frozen.cpu_for is not None, frozen.memory_for is not None)
    if not freezes_axes:
        return any(held)
    return all(held) and frozen.cpu_containers is None and frozen.memory_containers is None


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaTarget:
    """A utilisation target that asks for as many replicas after a change of the request as before it."""

    percent: int
    is_clamped: bool
    """It is not what was computed: then replicas would change, so the resource is better left frozen."""
    equal_percent: int
    """What was computed."""


def moved_target(
    target_percent: float, *, old_request: float, new_request: float, most_percent: int | None = MOST_TARGET_PERCENT
) -> HpaTarget | None:
    """Return target x old / new, rounded half up, within 1 to the most.

    Args:
        target_percent: Of the request; above 0.
        old_request: Any unit; above 0.
        new_request: In the same unit: what is really applied.
        most_percent: None = only what the API takes bounds it.

    Returns:
        The target; None = an input is 0 or less, so there is nothing to go by.
    """
    if not (target_percent > 0 and old_request > 0 and new_request > 0):
        return None
    wanted = int(min(target_percent * old_request / new_request, _FAR_BEYOND) + 0.5)
    percent = max(_LEAST_TARGET_PERCENT, wanted if most_percent is None else min(wanted, most_percent))
    return HpaTarget(percent=percent, is_clamped=percent != wanted, equal_percent=wanted)
