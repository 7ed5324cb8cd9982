"""One taint of one node, put there or taken away so that no other taint can be lost.

``spec.taints`` is a list without merge keys: a patch replaces it as a whole. So the list is read, and written back with
the resourceVersion that it was read at: when anybody has changed the node meanwhile the server answers 409 and the node
is read anew. (A JSON patch with a ``test`` step holds as well, but a failed test comes back as the same 422 as a list
that validation refuses, and that must not be tried again.)
"""

from __future__ import annotations

import http
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from agent.kube.client.api import MERGE_PATCH, Api
from agent.kube.client.errors import ApiError, KubeError

TRIES: Final = 5
"""The kubelet and the controllers write a node a few times a minute: two conflicts in a row are rare."""


class TaintChange(StrEnum):
    """What was done."""

    PUT = "put"
    TAKEN_AWAY = "taken_away"
    NONE = "none"
    """It was as wanted: nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintResult:
    """What was done, and the node as it is now."""

    change: TaintChange
    node: Mapping[str, object]
    """The JSON that the API server gave."""
    conflicts: int = 0
    """How often somebody else was quicker."""


class NodeFormatError(KubeError):
    """The API server answered with something that is no node; nothing was written."""


def set_taint(
    api: Api,
    node_name: str,
    *,
    key: str,
    effect: str,
    wanted: bool,
    timeout_seconds: float | None = None,
) -> TaintResult:
    """Add a taint to a node, or remove it; where it is as wanted nothing is written.

    A taint of the same key with another effect counts as not wanted: the key is ours alone.

    Raises:
        ApiError: Refused; 409 = there was a conflict at each of ``TRIES`` tries; 404 = no such node.
        Unreachable: No answer; a write may have been done all the same. Asking again is safe.
        NodeFormatError: The answer is no node.
    """
    path = f"/api/v1/nodes/{quote(node_name, safe='')}"
    for conflicts in range(TRIES):
        node = _node(api.call("GET", path, timeout_seconds=timeout_seconds), path)
        version, taints = _version_and_taints(node, path)
        changed = _changed(taints, key, effect, wanted)
        if changed == taints:
            return TaintResult(change=TaintChange.NONE, node=node, conflicts=conflicts)
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": changed}}
        try:
            written = api.call("PATCH", path, body=body, content_type=MERGE_PATCH, timeout_seconds=timeout_seconds)
        except ApiError as error:
            if error.status != http.HTTPStatus.CONFLICT or conflicts == TRIES - 1:
                raise
            continue
        change = TaintChange.PUT if wanted else TaintChange.TAKEN_AWAY
        return TaintResult(change=change, node=_node(written, path), conflicts=conflicts)
    raise AssertionError  # the last try returns or raises


def _node(answer: object, path: str) -> Mapping[str, object]:
    if not isinstance(answer, dict):
        raise NodeFormatError(f"{path}: the answer is no object but {type(answer).__name__}")
    return answer


def _version_and_taints(node: Mapping[str, object], path: str) -> tuple[str, list[object]]:
    metadata, spec = node.get("metadata"), node.get("spec")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    taints = (spec.get("taints") if isinstance(spec, dict) else None) or []
    if not isinstance(version, str) or not version:
        raise NodeFormatError(f"{path}: the answer has no metadata.resourceVersion")
    if not isinstance(taints, list):
        raise NodeFormatError(f"{path}: spec.taints is no list but {type(taints).__name__}")
    return version, taints


def _changed(taints: list[object], key: str, effect: str, wanted: bool) -> list[object]:
    """Return the list as it should be: the others untouched and in their order."""
    others = [taint for taint in taints if _key(taint) != key or (wanted and _is(taint, key, effect))]
    if not wanted or any(_is(taint, key, effect) for taint in others):
        return others
    return [*others, {"key": key, "effect": effect}]


def _key(taint: object) -> object:
    return taint.get("key") if isinstance(taint, dict) else None


def _is(taint: object, key: str, effect: str) -> bool:
    return isinstance(taint, dict) and taint.get("key") == key and taint.get("effect") == effect
