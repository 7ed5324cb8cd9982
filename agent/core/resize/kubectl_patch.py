"""Recommendations as patches of the ``resize`` subresource, ready for kubectl. Core, pure.

One patch per pod, as the kubelet decides about all its containers together. It names only what is stated today and
differs: a resize can neither add a first request to a BestEffort pod nor take anything away. Containers stand in it as
they come: whoever makes recommendations gives them in the order of the spec, as the API server refuses any other.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import ContainerKind, is_config_hash
from agent.core.cluster.resource import Resource
from agent.core.recommender.recommendation import Recommendation
from agent.core.resize.patch import ContainerPatch, PatchAmounts, Resources, quantity_text

_LISTS: Final = {None: "containers", ContainerKind.REGULAR: "containers", ContainerKind.SIDECAR: "initContainers"}
"""Where a spec lists what can be resized. Init containers that end are not, before 1.37; debug containers never."""


class LeftOut(StrEnum):
    """Why a recommendation is in no patch."""

    NO_POD = "no_pod"
    """It has no pod, or no source names pod and container."""
    STATIC_POD = "static_pod"
    NOT_RESIZABLE = "not_resizable"
    """An init container that ends, or a debug container."""
    WITHHELD = "withheld"
    NOT_STATED = "not_stated"
    """There is no request yet, and a resize cannot add the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePatch:
    """The resize of one pod."""

    namespace: str
    pod: str
    body: dict[str, dict[str, list[ContainerPatch]]]
    """A strategic merge patch, as JSON would have it. Memory in plain bytes: exact, and the same text both ways."""

    @property
    def command(self) -> str:
        """Return the command line, quoted for a shell; kubectl 1.32 or newer knows the subresource."""
        patch = json.dumps(self.body, separators=(",", ":"))
        words = ("kubectl", "patch", "pod", self.pod, "--namespace", self.namespace, "--subresource", "resize")
        return shlex.join((*words, "--type", "strategic", "--patch", patch))


def resize_patches(items: Iterable[Recommendation]) -> tuple[ResizePatch, ...]:
    """Return the patches that bring pods to their recommendations, in the order of the pods' first containers.

    Left out: what has no pod or no name, static pods, containers whose recommendation is withheld or equals what they
    state.
    """
    bodies: dict[tuple[str, str], dict[str, list[ContainerPatch]]] = {}
    for item in items:
        place = _place(item)
        if isinstance(place, LeftOut):
            continue
        resources = _resources(item)
        if resources:
            spec = bodies.setdefault((place.namespace, place.pod), {})
            spec.setdefault(place.list_name, []).append(ContainerPatch(name=place.container, resources=resources))
    return tuple(
        ResizePatch(namespace=namespace, pod=pod, body={"spec": spec}) for (namespace, pod), spec in bodies.items()
    )


def left_out(item: Recommendation) -> Mapping[Resource, LeftOut]:
    """Return why requests of a container are in no patch; nothing of those that are, or that fit as they are."""
    place = _place(item)
    reasons: dict[Resource, LeftOut] = {}
    for resource, advice, stated in (
        (Resource.CPU, item.cpu_millicores, item.resources.cpu_request_millicores),
        (Resource.MEMORY, item.memory_bytes, item.resources.memory_request_bytes),
    ):
        if advice.withheld is not None:
            reasons[resource] = LeftOut.WITHHELD
        elif advice.request != stated and isinstance(place, LeftOut):
            reasons[resource] = place
        elif not stated:
            reasons[resource] = LeftOut.NOT_STATED
    return reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    namespace: str
    pod: str
    container: str
    list_name: str


def _place(item: Recommendation) -> _Place | LeftOut:
    identity = item.identity
    if identity.namespace is None or identity.pod is None or identity.container is None:
        return LeftOut.NO_POD
    if identity.pod_uid is not None and is_config_hash(identity.pod_uid):
        return LeftOut.STATIC_POD  # the API refuses to resize its mirror
    list_name = _LISTS.get(item.container_kind)
    if list_name is None:
        return LeftOut.NOT_RESIZABLE
    return _Place(namespace=identity.namespace, pod=identity.pod, container=identity.container, list_name=list_name)


def _resources(item: Recommendation) -> Resources:
    stated, cpu, memory = item.resources, item.cpu_millicores, item.memory_bytes
    requests, limits = PatchAmounts(), PatchAmounts()
    if (cpu_request := _changed(cpu.request, stated.cpu_request_millicores)) is not None:
        requests["cpu"] = quantity_text(Resource.CPU, cpu_request)
    if (memory_request := _changed(memory.request, stated.memory_request_bytes)) is not None:
        requests["memory"] = quantity_text(Resource.MEMORY, memory_request)
    if (cpu_limit := _changed(cpu.limit, stated.cpu_limit_millicores)) is not None:
        limits["cpu"] = quantity_text(Resource.CPU, cpu_limit)
    if (memory_limit := _changed(memory.limit, stated.memory_limit_bytes)) is not None:
        limits["memory"] = quantity_text(Resource.MEMORY, memory_limit)
    resources = Resources()
    if requests:
        resources["requests"] = requests
    if limits:
        resources["limits"] = limits
    return resources


def _changed(advised: int | None, stated: int | None) -> int | None:
    """Return the amount to move to; None = there is none to move, no advice, or no difference."""
    return advised if stated and advised != stated else None
