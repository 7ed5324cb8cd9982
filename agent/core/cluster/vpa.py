"""A VerticalPodAutoscaler as the API states it: whom it is for, what it asks for, what its status says. Core, pure.

Source: ``types.go`` of k8s.io/autoscaler/vertical-pod-autoscaler 1.8.1, autoscaling.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload

GROUP_VERSION: Final = "autoscaling.k8s.io/v1"
KIND: Final = "VerticalPodAutoscaler"
RECOMMENDER: Final = "plimsoll"
"""Of ``spec.recommenders``: whose objects Plimsoll answers for."""
MANAGED_LABEL: Final = "plimsoll.dev/managed"
"""Of objects that Plimsoll made itself, for whoever reads them: they order nothing."""


class UpdateMode(StrEnum):
    """When its requests are applied, in the API's words."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"
    AUTO = "Auto"


class EvictionChangeRequirement(StrEnum):
    """How the target must stand to the requests for a pod to be evicted, in the API's words."""

    HIGHER = "TargetHigherThanRequests"
    LOWER = "TargetLowerThanRequests"


class VpaBoostType(StrEnum):
    """How a boost is stated, in the API's words."""

    FACTOR = "Factor"
    QUANTITY = "Quantity"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRequirement:
    """One condition of an eviction: one of the resources stands so."""

    resources: tuple[Resource, ...]
    direction: EvictionChangeRequirement


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaBoost:
    """More CPU while a pod starts (``startupBoost.cpu``)."""

    factor: int | None = None
    added_millicores: int | None = None
    """One of the two."""
    after_ready_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaCondition:
    """One entry of ``status.conditions``."""

    type: str
    status: str
    """``True``, ``False`` or ``Unknown``."""
    reason: str = ""
    message: str = ""
    last_transition_unix_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedContainerResources:
    """What is recommended for a container: millicores and bytes by resource; one that is missing is not recommended."""

    container: str
    target: Mapping[Resource, int]
    lower_bound: Mapping[Resource, int]
    upper_bound: Mapping[Resource, int]
    uncapped_target: Mapping[Resource, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaStatus:
    """What a recommender says."""

    containers: tuple[RecommendedContainerResources, ...] = ()
    """By name; empty = nothing is recommended."""
    conditions: tuple[VpaCondition, ...] = ()
    observed_generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaObject:
    """An object of the recommender ``plimsoll``."""

    namespace: str
    name: str
    uid: str
    target: Workload
    resource_version: str | None = None
    generation: int = 0
    created_unix_seconds: float = 0.0
    update_mode: UpdateMode | None = None
    """None = not stated: ``Recreate``, as the API says."""
    min_replicas: int | None = None
    eviction_requirements: tuple[EvictionRequirement, ...] = ()
    container_policies: str | None = None
    """As ``orders.container_policies`` writes them; None = none are stated."""
    boost: VpaBoost | None = None
    container_boosts: Mapping[str, VpaBoost] = field(default_factory=dict)
    """By container: what its own policy says in the place of ``boost``."""
    windows: str | None = None
    """Its annotation ``plimsoll.dev/windows``: when its pods may be disturbed; None = nothing said."""
    unsupported: tuple[str, ...] = ()
    """Fields that Plimsoll has no use for, as ``updatePolicy.evictAfterOOMSeconds``."""
    fault: str | None = None
    """What of its spec is not understood, so that nothing is done by it; None = all is."""
    is_managed: bool = False
    """Plimsoll made it: it publishes, and orders nothing."""
    status: VpaStatus = VpaStatus()

    def __str__(self) -> str:
        """Return ``VPA shop/web``."""
        return f"VPA {self.namespace}/{self.name}"
