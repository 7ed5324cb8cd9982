"""What a CapacityBuffer's reference comes to: which shape, and how many replicas percentages are of. Core, pure.

Source: kubernetes-sigs/cluster-autoscaler pkg/capacitybuffer/translators. Differences of our own: an empty selector
selects nothing, pods that are going away are taken only where there are no others, and the core group is the empty one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from agent.core.buffers.buffer import (
    Content,
    LivePod,
    ScalableObject,
    ScalableRef,
    ScaleFacts,
    Shape,
    ShapeSource,
    Unresolved,
)

KNOWN_KINDS: Final[Mapping[tuple[str, str], str]] = {
    ("", "ReplicationController"): "replicas",
    ("apps", "Deployment"): "replicas",
    ("apps", "ReplicaSet"): "replicas",
    ("apps", "StatefulSet"): "replicas",
    ("batch", "Job"): "parallelism",
}
"""API group and kind whose spec has a pod template, and the field of the spec that says how many pods."""
DRY_RUN_PREFIX: Final = "fake-pod-"
"""Generated names of pods that are made in a dry run begin so."""

_CORE: Final = "the core group, which has no name"
_KINDS_TEXT: Final = ", ".join(sorted(kind for _, kind in KNOWN_KINDS))


def is_known_kind(api_group: str, kind: str) -> bool:
    """Return whether objects of a kind have a pod template where it is known."""
    return (api_group, kind) in KNOWN_KINDS


def unknown_kind(ref: ScalableRef) -> str:
    """Return that the API server has no such kind, and where one of that name would be."""
    groups = [group for group, kind in KNOWN_KINDS if kind == ref.kind and group != ref.api_group]
    meant = f"; {ref.kind} is in {groups[0] or _CORE}" if groups else ""
    return f"the API server has no kind {ref.kind} in {ref.api_group or _CORE}{meant}"


def template_shape(name: str, content: Content | None) -> Shape | Unresolved:
    """Return the shape that a ``podTemplateRef`` names; without content there is no such PodTemplate."""
    if content is None:
        return Unresolved(reason=f"PodTemplate {name} does not exist in this namespace")
    return Shape(content=content, source=ShapeSource.POD_TEMPLATE, source_name=f"PodTemplate {name}")


def scalable_shape(
    ref: ScalableRef, *, scale: ScaleFacts | None, pods: Iterable[LivePod], known: ScalableObject | None
) -> Shape | Unresolved:
    """Return the shape and the count that a ``scalableRef`` names: of the newest live pod, else of the object's spec.

    There is no ``scale`` without a scale subresource, or such an object. The pods are those that its selector matches;
    of an empty one none is taken. ``known`` is the object itself, of a known kind.
    """
    newest = _newest(pods) if scale is not None and scale.selector.strip() else None
    if scale is not None and newest is not None:
        return Shape(
            content=newest.content,
            source=ShapeSource.LIVE_POD,
            source_name=f"pod {newest.name}",
            scalable_replicas=max(0, scale.replicas),
        )
    if not is_known_kind(ref.api_group, ref.kind):
        lack = "has no scale subresource, or does not exist" if scale is None else "has no pod that could be a model"
        return Unresolved(reason=f"{ref} {lack}, and templates are known of {_KINDS_TEXT} only")
    if known is None:
        return Unresolved(reason=f"{ref} does not exist in this namespace")
    if known.content is None:
        return Unresolved(reason=f"{ref} has no pod template in its spec")
    return Shape(content=known.content, source=ShapeSource.SPEC, source_name=str(ref), scalable_replicas=known.replicas)


def _newest(pods: Iterable[LivePod]) -> LivePod | None:
    return min(pods, key=lambda pod: (pod.is_terminating, -pod.created_unix_seconds, pod.name), default=None)


def needs_dry_run(shape: Shape) -> bool:
    """Return whether a shape has not yet been through the API server's defaults and webhooks, as every live pod has."""
    return shape.source is not ShapeSource.LIVE_POD


def dry_run_pod(content: Content, namespace: str) -> dict[str, object]:
    """Return the pod to create in a dry run, so that the API server's defaults, LimitRanges and webhooks shape it."""
    metadata, spec = content.get("metadata"), content.get("spec")
    copied = metadata if isinstance(metadata, Mapping) else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{key: copied[key] for key in ("labels", "annotations") if key in copied},
            "generateName": DRY_RUN_PREFIX,
            "namespace": namespace,
        },
        "spec": {key: value for key, value in spec.items() if key != "nodeName"} if isinstance(spec, Mapping) else {},
    }


def after_dry_run(shape: Shape, pod: Content) -> Shape:
    """Return the shape that the API server answered a dry run with; what is not of a template is taken off later."""
    return replace(shape, content=pod)
