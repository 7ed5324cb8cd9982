"""What the cluster says about workloads besides their pods: autoscalers, ranges, quotas, the cluster's own rules.

Core, pure. Amounts are nanos by resource name, as in ``pod``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from agent.core.cluster.placement import PodPlacement
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenAxes:
    """Requests that an HPA divides by: changing them would change what it does."""

    cpu_for: str | None = None
    """``HorizontalPodAutoscaler shop/web``; None = CPU is free."""
    memory_for: str | None = None
    cpu_containers: tuple[str, ...] | None = None
    """The only containers whose CPU requests it divides by, by name; None = those of all."""
    memory_containers: tuple[str, ...] | None = None

    def holds(self, resource: Resource, container: str) -> bool:
        """Return whether the request of a container stays; an empty name stands for the pod's own."""
        is_cpu = resource is Resource.CPU
        holder = self.cpu_for if is_cpu else self.memory_for
        containers = self.cpu_containers if is_cpu else self.memory_containers
        return holder is not None and (containers is None or not container or container in containers)

    def without(self, resources: Collection[Resource]) -> FrozenAxes:
        """Return the same where some resources are free."""
        is_cpu_free, is_memory_free = Resource.CPU in resources, Resource.MEMORY in resources
        return FrozenAxes(
            cpu_for=None if is_cpu_free else self.cpu_for,
            memory_for=None if is_memory_free else self.memory_for,
            cpu_containers=None if is_cpu_free else self.cpu_containers,
            memory_containers=None if is_memory_free else self.memory_containers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequests:
    """What the running pods of a workload request now, without those that are ending; as an HPA counts."""

    pods: int
    cpu_millicores: int
    memory_bytes: int

    def mean(self, resource: Resource) -> int | None:
        """Return what a pod requests on average; None = they request nothing."""
        total = self.cpu_millicores if resource is Resource.CPU else self.memory_bytes
        return max(1, round(total / self.pods)) if self.pods > 0 and total > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRangeItem:
    """One item of a LimitRange."""

    name: str
    """Of the LimitRange, for words."""
    type: str
    """``Container`` or ``Pod``; others do not matter here."""
    min: Mapping[str, int] = field(default_factory=dict)
    max: Mapping[str, int] = field(default_factory=dict)
    default: Mapping[str, int] = field(default_factory=dict)
    """Limits given to containers without. Requests that a range gives stand in a pod before anybody else sees it."""
    max_limit_request_ratio: Mapping[str, int] = field(default_factory=dict)
    """In nanos too: 2 is 2,000,000,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One ResourceQuota."""

    name: str
    hard: Mapping[str, int] = field(default_factory=dict)
    """``requests.cpu``, ``limits.memory``, ...; ``cpu`` and ``memory`` mean requests."""
    used: Mapping[str, int] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    """``BestEffort``, ``NotTerminating``, ...; and of scopeSelector, as ``NAME``. Empty = all pods. One with values
    (priority classes) is left out: which pods it counts is not worked out, so it may count any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRule:
    """What the ConfigMap says of some workloads; the first rule that fits each field wins."""

    namespace: str | None = None
    """A shell pattern; None = any."""
    kind: str | None = None
    name: str | None = None
    """A shell pattern; None = any."""
    mode: str | None = None
    policy: str | None = None
    startup_boost: str | None = None
    enforce_share: str | None = None
    windows: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRules:
    """The ConfigMap ``plimsoll``, read."""

    pause_reason: str | None = None
    rules: tuple[ClusterRule, ...] = ()
    fault: str | None = None
    """The ConfigMap is not understood, and why: the last good rules stay, and this is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAmounts:
    """What a node has, or what it can allocate to pods."""

    cpu_millicores: int
    memory_bytes: int


def largest_of(amounts: Iterable[NodeAmounts]) -> NodeAmounts | None:
    """Return the largest of each resource, which may be those of two nodes; None = there are none."""
    every = list(amounts)
    if not every:
        return None
    return NodeAmounts(
        cpu_millicores=max(node.cpu_millicores for node in every), memory_bytes=max(node.memory_bytes for node in every)
    )


def smallest_of(amounts: Iterable[NodeAmounts]) -> NodeAmounts | None:
    """Return the smallest of each resource, which may be those of two nodes; None = there are none."""
    every = list(amounts)
    if not every:
        return None
    return NodeAmounts(
        cpu_millicores=min(node.cpu_millicores for node in every), memory_bytes=min(node.memory_bytes for node in every)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenContainer:
    """A container of a pod's template, and what it may have as its author wrote it; None = not stated or not known."""

    name: str
    cpu_request_millicores: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None
    kind: ContainerKind = ContainerKind.REGULAR


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """Where a pod is and whom it belongs to; all that is kept of the cluster's pods."""

    uid: str
    namespace: str
    name: str
    node: str | None
    workload: Workload
    is_running: bool
    is_terminating: bool
    containers: tuple[WrittenContainer, ...] | None = field(default=None, compare=False)
    """Of its spec, init containers and sidecars too, debug containers not (no agent reports them); None = not known."""
    controller: str | None = None
    """Name of what controls it, of pods that run to an end: a Job, a workflow; None = nothing does, or it is not
    known."""
    policy: str | None = None
    """What its own annotation orders, as it is written; told when it comes, and not kept."""
    cpu_request_millicores: int = field(default=0, compare=False)
    """That its containers and sidecars request now, or it itself; without init containers and overhead."""
    memory_request_bytes: int = field(default=0, compare=False)
    placement: PodPlacement | None = field(default=None, compare=False)
    """What decides where it may run; None = not known."""
    resize_pending: str | None = None
    """Why its kubelet has not allocated a resize, in the kubelet's words; None = nothing waits."""

    def has_container(self, name: str) -> bool:
        """Return whether its spec has such a container; True where its containers are not known."""
        return self.containers is None or any(container.name == name for container in self.containers)
