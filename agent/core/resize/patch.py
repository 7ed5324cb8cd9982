"""One step of a plan as the body of a patch of the ``resize`` subresource. Core, pure.

A strategic merge: containers are found by name, and what is not named stays. Those that are named must come in the
spec's order: the merge takes over the patch's, and a resize may not reorder (kube-apiserver 1.37.1 answers 422). The
pod's uid is always in the body, so that a successor of the same name is never touched (422, cause ``metadata.uid``).
With a resourceVersion the server refuses (409) where anything of the pod has changed since it was read. That also
covers a request that is carried out late, after its sender has given up waiting: by then the pod is another version.
"""

from __future__ import annotations

from functools import partial
from typing import TypedDict

from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.resource import Resource
from agent.core.plan.plan import PlanStep
from agent.core.plan.pod_change import Change, Setting


class PatchAmounts(TypedDict, total=False):
    """Quantities by resource."""

    cpu: str
    memory: str


class Resources(TypedDict, total=False):
    """Of a container, or of a pod."""

    requests: PatchAmounts
    limits: PatchAmounts


class ContainerPatch(TypedDict):
    """One container: the strategic merge finds it by its name."""

    name: str
    resources: Resources


class PatchMetadata(TypedDict, total=False):
    """What must hold of the pod for the patch to be taken."""

    uid: str
    resourceVersion: str


class PatchSpec(TypedDict, total=False):
    """What changes."""

    containers: list[ContainerPatch]
    initContainers: list[ContainerPatch]
    resources: Resources


class PatchBody(TypedDict):
    """The whole patch, as JSON would have it."""

    metadata: PatchMetadata
    spec: PatchSpec


def quantity_text(resource: Resource, amount: int) -> str:
    """Write millicores of CPU or bytes of memory as a Quantity: exact, and the same text both ways."""
    return f"{amount}m" if resource is Resource.CPU else f"{amount}"


def patch_of(step: PlanStep, resource_version: str | None = None, *, pod: Pod | None = None) -> PatchBody:
    """Return the patch that carries a step out.

    Without a resource version the step is taken whatever the pod has become meanwhile, as long as it is the same pod.
    Without a pod the step's changes stand in the order of its containers.

    Raises:
        ValueError: The step changes nothing, one number twice, a debug container or a container without a name: a fault
            of who made it.
    """
    if not step.changes:
        msg = f"step of {step.ref} changes nothing"
        raise ValueError(msg)
    spec = PatchSpec()
    containers: dict[tuple[ContainerKind, str], Resources] = {}
    for change in sorted(step.changes, key=partial(_place_in_spec, pod)):
        if change.kind is None:
            resources = spec.setdefault("resources", Resources())
        elif (place := (change.kind, change.container)) in containers:
            resources = containers[place]
        else:
            resources = containers[place] = Resources()
            _list_of(spec, step, change).append(ContainerPatch(name=change.container, resources=resources))
        _put(resources, step, change)
    metadata = PatchMetadata(uid=step.ref.uid)
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    return PatchBody(metadata=metadata, spec=spec)


def _place_in_spec(pod: Pod | None, change: Change) -> int:
    """Return the place to sort by; what a pod does not have comes last, for the server to refuse."""
    names = [] if pod is None else [container.name for container in pod.sized_containers()]
    return names.index(change.container) if change.container in names else len(names)


def _list_of(spec: PatchSpec, step: PlanStep, change: Change) -> list[ContainerPatch]:
    if change.kind is ContainerKind.EPHEMERAL or not change.container:
        msg = f"step of {step.ref} resizes container {change.container!r} of kind {change.kind} (no such thing)"
        raise ValueError(msg)
    if change.kind is ContainerKind.REGULAR:
        return spec.setdefault("containers", [])
    return spec.setdefault("initContainers", [])


def _put(resources: Resources, step: PlanStep, change: Change) -> None:
    is_request = change.setting is Setting.REQUEST
    amounts = (
        resources.setdefault("requests", PatchAmounts())
        if is_request
        else resources.setdefault("limits", PatchAmounts())
    )
    if change.resource.value in amounts:
        msg = f"step of {step.ref} sets the {change.resource} {change.setting} of {change.container!r} twice"
        raise ValueError(msg)
    text = quantity_text(change.resource, change.after)
    if change.resource is Resource.CPU:
        amounts["cpu"] = text
    else:
        amounts["memory"] = text
