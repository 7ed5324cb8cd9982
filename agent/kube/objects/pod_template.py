"""Pods of objects of the API: pods themselves, and those that a workload's controller would make of its template.

Kube, pure. Owner, labels and annotations are as the API server would see them; so are requests, from limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from agent.kube.objects.json_reader import ConvertError, Reader, shown

_TEMPLATES: Final = frozenset(
    {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Rollout", "Job"}
)
_HASH_LABELS: Final = {"Deployment": "pod-template-hash", "Rollout": "rollouts-pod-template-hash"}
_HASH: Final = "5c7d9bf465"
"""Of a template that was never applied: any that looks like one."""
_LISTS: Final = ("List", "PodList", *(f"{kind}List" for kind in sorted(_TEMPLATES)))
PODS_ALLOWED: Final = "Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, or a list of them"


def pods_of(document: object, where: str) -> Iterator[dict[str, object]]:
    """Return the pods of one object of the API, as ``where`` in messages."""
    top = Reader(document, where)
    kind, items = top.text("kind"), member(document, "items")
    if kind in _LISTS or (kind is None and isinstance(items, list)):
        for index, item in enumerate(items if isinstance(items, list) else []):
            yield from pods_of(item, f"{where}.items[{index}]")
    elif kind == "Pod":
        yield _completed(_object(document, where), where)
    elif kind == "CronJob":
        template = _object(member(member(document, "spec"), "jobTemplate"), f"{where}.spec.jobTemplate")
        yield _pod_of(template, "Job", _metadata(document, where), where)
    elif kind in _TEMPLATES:
        yield _pod_of(_object(document, where), kind, _metadata(document, where), where)
    else:
        raise top.error("kind", kind, PODS_ALLOWED)


def _pod_of(owner: Mapping[str, object], kind: str, of_owner: Mapping[str, object], where: str) -> dict[str, object]:
    """Return the pod that a controller makes of its template."""
    template = _object(member(owner.get("spec"), "template"), f"{where}.spec.template")
    metadata = _object(template.get("metadata") or {}, f"{where}.spec.template.metadata")
    labels = _object(metadata.get("labels") or {}, f"{where}.spec.template.metadata.labels")
    name = Reader(of_owner, f"{where}.metadata").required_text("name")
    maker, maker_name = kind, name
    label = _HASH_LABELS.get(kind)
    if label is not None:
        maker, maker_name, labels = "ReplicaSet", f"{name}-{_HASH}", {**labels, label: _HASH}
    pod_metadata = {
        **metadata,
        "name": f"{maker_name}-new",
        "namespace": of_owner.get("namespace"),
        "labels": labels,
        "ownerReferences": [{"kind": maker, "name": maker_name, "uid": "unknown", "controller": True}],
    }
    return _completed({"metadata": pod_metadata, "spec": template.get("spec")}, f"{where}.spec.template")


def _completed(document: Mapping[str, object], where: str) -> dict[str, object]:
    """Fill in what the API server would: names, and requests from limits; what it says of its status goes."""
    metadata = _metadata(document, where)
    spec = _object(document.get("spec"), f"{where}.spec")
    named = {
        **metadata,
        "name": metadata.get("name") or metadata.get("generateName") or "unnamed",
        "namespace": metadata.get("namespace") or "default",
        "uid": metadata.get("uid") or "unknown",
    }
    filled = {
        key: [_with_requests(container) for container in value]
        for key in ("containers", "initContainers")
        for value in (spec.get(key),)
        if isinstance(value, list)
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": {**spec, **filled}}


def _with_requests(container: object) -> object:
    """Let requests that are not stated be the limits, as the API server does before it asks any webhook."""
    stated = member(container, "resources")
    limits = member(stated, "limits")
    if not (isinstance(container, Mapping) and isinstance(stated, Mapping) and isinstance(limits, Mapping)):
        return container
    requests = stated.get("requests")
    missing = {} if requests is None else requests
    if not isinstance(missing, Mapping):
        return container
    return {**container, "resources": {**stated, "requests": {**limits, **missing}}}


def _metadata(document: object, where: str) -> Mapping[str, object]:
    return _object(member(document, "metadata") or {}, f"{where}.metadata")


def member(value: object, key: str) -> object:
    """Return a member of what may be an object; None = it is none, or has none of that name."""
    return value.get(key) if isinstance(value, Mapping) else None


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConvertError(f"{where}: {shown(value)} is not an object")
    return value
