"""What can be set of VerticalPodAutoscaler objects; the docstring under each field is its documentation. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Publish(StrEnum):
    """For whom Plimsoll makes objects of its own."""

    OFF = "off"
    """Nobody: the status of objects that people made is written, and no more."""
    ENFORCED = "enforced"
    """Workloads that it sizes, and that have none: so that others can read what their pods request when re-created."""


class Preserve(StrEnum):
    """What becomes of HPAs' utilisation targets."""

    OFF = "off"
    """They are never written: requests that they divide by are frozen."""
    FOLLOW = "follow"
    """Requests are sized, and the target moves with them: the absolute set point stays."""
    RESTORE = "restore"
    """Requests are frozen, and where they are again as before they were sized the original target is put back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaOptions:
    """HorizontalPodAutoscalers that scale on requests."""

    preserve: Preserve = Preserve.OFF
    """follow = size requests that a Utilization target of CPU or memory divides by, and move the target such that its
    absolute set point stays (70 % of 500m is 117 % of 300m); it takes the right to patch HPAs, and GitOps must leave
    their targets. restore = freeze such requests again, and put the original target back where they are again as
    before they were sized. off = they are frozen, and no HPA is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaObjectOptions:
    """VerticalPodAutoscaler objects of the recommender plimsoll."""

    enabled: bool = False
    """Take the orders of VerticalPodAutoscaler objects with spec.recommenders [{name: plimsoll}], and write their
    status. It takes rights; where the cluster does not know the kind nothing happens."""
    publish: Publish = Publish.OFF
    """enforced = make an object (label plimsoll.dev/managed) for each workload in mode enforce that has none, and
    remove it when that ends; not where VPA's own admission controller is. It takes more rights."""
