"""What the API tells of a node besides its pods: the node object, the namespaces, and all of it at one moment.

Core, pure. Amounts are nanos by resource name, as in ``pod``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.core.cluster.pod import CPU, MEMORY, Pod
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """One taint of a node."""

    key: str
    effect: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node as the API has it."""

    name: str
    uid: str | None = None
    resource_version: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    kubelet_version: str | None = None
    """``v1.37.1`` or with a vendor's suffix."""
    operating_system: str | None = None
    declared_features: frozenset[str] | None = None
    """status.declaredFeatures; None = the node declares none at all (kubelets before 1.35 do not)."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Type to status: ``MemoryPressure`` to ``True``."""
    resize_preemption_disabled_for: tuple[str, ...] = ()
    """Owners who asked that nobody is preempted here for a resize (KEP-5836); empty = the scheduler may."""

    @property
    def allocatable_cpu_millicores(self) -> int | None:
        """Return the CPU for pods, rounded down; None = not reported."""
        return self.allocatable[CPU] // NANOS_PER_MILLI if CPU in self.allocatable else None

    @property
    def allocatable_memory_bytes(self) -> int | None:
        """Return the memory for pods, rounded down; None = not reported."""
        return self.allocatable[MEMORY] // NANOS_PER_UNIT if MEMORY in self.allocatable else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """One namespace, as far as sizing asks."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """All that the API told of one node and its pods, last known good."""

    node: Node | None
    """None = not known (yet, or deleted), or not understood."""
    pods: tuple[Pod, ...]
    """Every pod bound to the node, whatever its phase."""
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    unknown_namespaces: Mapping[str, str] = field(default_factory=dict)
    """Namespaces of these pods that are not known, and why: what they order is not known either."""
    unreadable_pods: tuple[str, ...] = ()
    """``namespace/name: why`` of pods that are not understood. They hold room that nobody can count: no plan."""
    node_fault: str | None = None
    """Why the node object is not understood; None = it is, or there is none."""
    server_version: str | None = None
    """gitVersion of the API server; None = not known."""
    is_complete: bool = True
    """Every part has been read at least once."""
    age_seconds: float | None = None
    """Since the API server last confirmed the part that was confirmed longest ago (a list, an event or a bookmark; a
    watch that was merely opened does not count); None = not all of it yet, or from files."""
