"""The arms: the same pods under the same sums, divided, shared, or resized.

A pod is a development space of four containers with a budget. Requests are the same in every arm, so that all pods are
scheduled alike and weigh alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.orders.annotations import MAX_CPU, MAX_MEMORY, MIN_CPU, MIN_MEMORY, MODE, POD_LIMITS

CONTAINERS: Final = ("ide", "tools-a", "tools-b", "lsp")
BUDGET_MILLICORES: Final = 750
BUDGET_MIB: Final = 1000
SPLIT_MILLICORES: Final = dict(zip(CONTAINERS, (188, 188, 187, 187), strict=True))
SPLIT_MIB: Final = BUDGET_MIB // len(CONTAINERS)
REQUEST_MILLICORES: Final = dict(zip(CONTAINERS, (40, 40, 40, 40), strict=True))
REQUEST_MIB: Final = 64
"""Nine pods fit on the node beside the agent: those of three arms."""
POD_REQUEST_MILLICORES: Final = sum(REQUEST_MILLICORES.values())
POD_REQUEST_MIB: Final = REQUEST_MIB * len(CONTAINERS)


class Arm(StrEnum):
    """One way to hold a pod to its budget."""

    SPLIT = "A"
    """A limit for each container, an even part of the budget."""
    POD = "B1"
    """The pod's own limit (``spec.resources``), set by the webhook for ``plimsoll.dev/pod-limits``."""
    WRITTEN = "B2"
    """The pod's cgroup, written by the agent for the same annotation, where the kubelet knows no such limit."""
    RESIZED = "C"
    """As A, and the agent enforces: it resizes requests and limits in place."""
    SIZED = "D"
    """As B1, and the agent enforces: it sizes requests."""


MEANING: Final[Mapping[Arm, str]] = {
    Arm.SPLIT: "limits split over the containers",
    Arm.POD: "pod-level limits (`spec.resources`)",
    Arm.WRITTEN: "pod cgroup written by Plimsoll",
    Arm.RESIZED: "A, and Plimsoll resizes in place",
    Arm.SIZED: "B1, and Plimsoll sizes requests",
}
SHARED: Final = frozenset({Arm.POD, Arm.WRITTEN, Arm.SIZED})
"""The containers share the pod's budget."""
ACTING: Final = frozenset({Arm.WRITTEN, Arm.RESIZED, Arm.SIZED})
"""The agent may write; in the others it measures and is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the pods of an arm are made with."""

    annotations: Mapping[str, str]
    resources: Mapping[str, Mapping[str, Mapping[str, str]]]
    """By container: requests, limits."""
    own: Mapping[str, Mapping[str, str]] | None = None
    """The pod's own resources, where no webhook makes them of the annotation."""


def shape_of(arm: Arm, *, has_webhook: bool = True) -> Shape:
    """Return what the pods of an arm are made with."""
    limits = {"cpu": f"{BUDGET_MILLICORES}m", "memory": f"{BUDGET_MIB}Mi"}
    resources: dict[str, dict[str, dict[str, str]]] = {name: {"requests": requests_of(name)} for name in CONTAINERS}
    if arm not in SHARED:
        for name in CONTAINERS:
            resources[name]["limits"] = {"cpu": f"{SPLIT_MILLICORES[name]}m", "memory": f"{SPLIT_MIB}Mi"}
    annotations = {MODE: "enforce" if arm is not Arm.SPLIT else "recommend"}
    if arm in SHARED:
        annotations[POD_LIMITS] = json.dumps({"limits": limits})
    if arm is Arm.WRITTEN:
        # By these bounds the agent leaves requests as they are: only the budget is written.
        least, most = min(REQUEST_MILLICORES.values()), max(REQUEST_MILLICORES.values())
        annotations |= {MIN_CPU: f"{least}m", MAX_CPU: f"{most}m"}
        annotations |= {MIN_MEMORY: f"{REQUEST_MIB}Mi", MAX_MEMORY: f"{REQUEST_MIB}Mi"}
    requests = {"cpu": f"{POD_REQUEST_MILLICORES}m", "memory": f"{POD_REQUEST_MIB}Mi"}
    own = {"requests": requests, "limits": limits} if arm is Arm.POD and not has_webhook else None
    return Shape(annotations=annotations, resources=resources, own=own)


def requests_of(container: str) -> dict[str, str]:
    """Return the requests of a container, in every arm."""
    return {"cpu": f"{REQUEST_MILLICORES[container]}m", "memory": f"{REQUEST_MIB}Mi"}
