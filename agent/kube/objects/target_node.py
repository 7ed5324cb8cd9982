"""The node that a pod is made for: a DaemonSet's controller names it in the pod's node affinity. Core, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_FIELD: Final = "metadata.name"
_IN: Final = "In"


def node_named(spec: object) -> str | None:
    """Return the one node that a pod can go to by its spec; None = it may go to several, or the spec is not understood.

    Terms are alternatives, so each must name the same node; within a term one field that names it is enough, as all of
    them must hold.

    Source:
        ``ReplaceDaemonSetPodNodeNameNodeAffinity`` of pkg/controller/daemon/util: one term with matchFields
        metadata.name In [node].
    """
    if not isinstance(spec, Mapping):
        return None
    bound = spec.get("nodeName")
    if isinstance(bound, str) and bound:
        return bound
    terms = _inside(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    if not isinstance(terms, list) or not terms:
        return None
    names = {_named_by(term) for term in terms}
    return names.pop() if len(names) == 1 else None


def _inside(value: object, *keys: str) -> object:
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _named_by(term: object) -> str | None:
    """Return the node that a term's fields name; None = none, or more than one may be meant."""
    fields = _inside(term, "matchFields")
    for field in fields if isinstance(fields, list) else ():
        if _inside(field, "key") != _FIELD or _inside(field, "operator") != _IN:
            continue
        values = _inside(field, "values")
        if isinstance(values, list) and len(values) == 1 and isinstance(values[0], str):
            return values[0] or None
    return None
