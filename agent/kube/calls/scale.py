"""Objects that can be scaled, of any kind: where their kind is, their scale subresource, their newest pod.

Questions to the API server, each answered by one or two calls; nothing is kept but what discovery says. Of pods, lists
are read as metadata alone: a workload may have thousands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from agent.core.buffers.buffer import LivePod, ScalableObject, ScaleFacts
from agent.kube.calls.listing import read_whole_listing
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.buffer_json import live_pod_from_json, scalable_from_json, scale_from_json
from agent.kube.objects.json_reader import ConvertError, Reader

CALL_SECONDS: Final = 10.0
KNOWN_SECONDS: Final = 600.0
"""For how long discovery's answer for a kind is believed."""
UNKNOWN_SECONDS: Final = 15.0
"""The same for "there is none": a CRD may come."""
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_LIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPlace:
    """Where the objects of a kind are."""

    group_path: str
    """``/apis/apps/v1``."""
    resource: str
    """``deployments``."""
    has_scale: bool

    def path(self, namespace: str, name: str, subresource: str | None = None) -> str:
        """Return the path of one object, or of a subresource of it."""
        return namespaced_path(namespace, self.resource, name, subresource, group=self.group_path)


KNOWN_PLACES: Final[Mapping[tuple[str, str], KindPlace]] = {
    ("apps", "Deployment"): KindPlace(group_path="/apis/apps/v1", resource="deployments", has_scale=True),
    ("apps", "ReplicaSet"): KindPlace(group_path="/apis/apps/v1", resource="replicasets", has_scale=True),
    ("apps", "StatefulSet"): KindPlace(group_path="/apis/apps/v1", resource="statefulsets", has_scale=True),
    ("batch", "Job"): KindPlace(group_path="/apis/batch/v1", resource="jobs", has_scale=False),
    ("", "ReplicationController"): KindPlace(group_path="/api/v1", resource="replicationcontrollers", has_scale=True),
}
"""Kinds that every server has: nothing is asked for them."""


class ScalableKinds:
    """Finds out where kinds are, by discovery; for one thread."""

    def __init__(self, api: Api, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._found: dict[tuple[str, str], tuple[float, KindPlace | None]] = {}

    def place(self, api_group: str, kind: str) -> KindPlace | None:
        """Find a namespaced kind: of the versions in the server's order the first that can scale it, else the first.

        Returns:
            None = the server has no such kind.
        """
        key = (api_group, kind)
        if key in KNOWN_PLACES:
            return KNOWN_PLACES[key]
        now = self._clock()
        if key in self._found and now < self._found[key][0]:
            return self._found[key][1]
        place = self._ask(api_group, kind)
        self._found[key] = (now + (UNKNOWN_SECONDS if place is None else KNOWN_SECONDS), place)
        return place

    def _ask(self, api_group: str, kind: str) -> KindPlace | None:
        first: KindPlace | None = None
        for path in self._versions(api_group):
            place = _place_in(_asked(self._api, path), path, kind)
            if place is not None and place.has_scale:
                return place
            first = first or place
        return first

    def _versions(self, api_group: str) -> list[str]:
        if not api_group:
            return ["/api/v1"]
        base = f"/apis/{quote(api_group, safe='')}"
        group = _asked(self._api, base)
        names = [version.get("version") for version in _objects(group, "versions")]
        return [f"{base}/{quote(name, safe='')}" for name in names if isinstance(name, str)]


def _asked(api: Api, path: str) -> Mapping[object, object] | None:
    """Ask for a page of discovery; None = there is none."""
    try:
        answer = api.call("GET", path, timeout_seconds=CALL_SECONDS)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    return answer if isinstance(answer, Mapping) else None


def _objects(page: Mapping[object, object] | None, key: str) -> list[Mapping[object, object]]:
    entries = page.get(key) if page is not None else None
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _place_in(page: Mapping[object, object] | None, path: str, kind: str) -> KindPlace | None:
    resources = _objects(page, "resources")
    for resource in resources:
        name = resource.get("name")
        if (
            resource.get("kind") == kind
            and isinstance(name, str)
            and "/" not in name
            and resource.get("namespaced") is True
        ):
            has_scale = any(other.get("name") == f"{name}/scale" for other in resources)
            return KindPlace(group_path=path, resource=name, has_scale=has_scale)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadScale:
    """A scale subresource as it was at one resourceVersion of its object."""

    facts: ScaleFacts
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadObject:
    """An object of a kind whose spec is known."""

    facts: ScalableObject
    version: str | None


def read_scale(api: Api, place: KindPlace, namespace: str, name: str) -> ReadScale | None:
    """Read how many replicas an object has, and what selects its pods; None = there is no such object.

    Raises:
        KubeError: The server refused, or did not answer.
        ConvertError: Its answer is no scale.
    """
    document = _object(api, place.path(namespace, name, "scale"))
    if document is None:
        return None
    return ReadScale(facts=scale_from_json(document), version=_version(document))


def read_scalable(
    api: Api, place: KindPlace, namespace: str, name: str, *, api_group: str, kind: str
) -> ReadObject | None:
    """Read replicas and pod template of an object of one of the known kinds; None = there is no such object."""
    document = _object(api, place.path(namespace, name))
    if document is None:
        return None
    return ReadObject(facts=scalable_from_json(document, api_group, kind), version=_version(document))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMark:
    """Which pod is the newest, and how it was written last."""

    name: str
    uid: str
    version: str


def newest_pod(api: Api, namespace: str, selector: str) -> PodMark | None:
    """Find the newest pod that a selector matches and that has not ended; terminating ones only where all are.

    Args:
        selector: As text; an empty one, which would match all pods there, matches none.

    Raises:
        KubeError: The server refused, or did not answer.
        ConvertError: A pod in its answer has no name or an odd time.
    """
    if not selector.strip():
        return None
    path = namespaced_path(namespace, "pods")
    # From the server's cache: what it has not seen yet comes with the next event.
    query = {"labelSelector": selector, "fieldSelector": _LIVE, "resourceVersion": "0"}
    best: tuple[tuple[bool, float, str], PodMark] | None = None  # as core.buffers.resolution orders them

    def take(document: object) -> None:
        nonlocal best
        metadata = Reader(document, "").child("metadata")
        mark = PodMark(
            name=metadata.required_text("name"),
            uid=metadata.text("uid") or "",
            version=metadata.text("resourceVersion") or "",
        )
        is_terminating = metadata.has("deletionTimestamp")
        rank = (is_terminating, -(metadata.unix_seconds("creationTimestamp") or 0.0), mark.name)
        if best is None or rank < best[0]:
            best = (rank, mark)

    read_whole_listing(api, path, take, query=query, accept=_METADATA_LIST, timeout_seconds=CALL_SECONDS)
    return None if best is None else best[1]


def read_live_pod(api: Api, namespace: str, name: str) -> LivePod | None:
    """Read a pod whole, as the shape of a chunk; None = it is gone."""
    document = _object(api, namespaced_path(namespace, "pods", name))
    return None if document is None else live_pod_from_json(document)


def _object(api: Api, path: str) -> Mapping[str, object] | None:
    try:
        answer = api.call("GET", path, timeout_seconds=CALL_SECONDS)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    if not isinstance(answer, dict):
        raise ConvertError(f"{path}: the answer is no object but {type(answer).__name__}")
    return answer


def _version(document: Mapping[str, object]) -> str | None:
    metadata = document.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    return version if isinstance(version, str) and version else None
