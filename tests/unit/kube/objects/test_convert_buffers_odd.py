"""Whatever stands where something else should: a reason comes back, or a ``ConvertError``, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.buffers.template import chunk_of, is_same_content, managed_content
from agent.kube.objects.buffer_json import (
    buffer_from_json,
    buffer_quota_from_json,
    live_pod_from_json,
    managed_template_from_json,
    pod_of_template,
    pod_template_from_json,
    scalable_from_json,
    scale_from_json,
)

TERM = {"namespaces": ["other"], "namespaceSelector": {}, "topologyKey": "zone"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "app",
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
                "volumeMounts": [{"name": "kube-api-access-x"}],
            }
        ],
        "initContainers": [{"name": "init", "restartPolicy": "Always"}],
        "resources": {"limits": {"cpu": "3"}},
        "volumes": [{"name": "kube-api-access-x"}],
        "overhead": {"cpu": "1m"},
        "priorityClassName": "high",
        "affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]
            },
        },
    },
}
METADATA: dict[str, Any] = {
    "name": "web",
    "namespace": "shop",
    "uid": "u",
    "generation": 1,
    "creationTimestamp": "2026-01-31T12:00:00Z",
    "annotations": {"a": "b"},
    "ownerReferences": [
        {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "CapacityBuffer", "uid": "u", "controller": True}
    ],
}
DOCUMENT: dict[str, Any] = {
    "metadata": METADATA,
    "template": TEMPLATE,
    "spec": {
        "provisioningStrategy": "x",
        "podTemplateRef": {"name": "t"},
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "d"},
        "replicas": 1,
        "percentage": 1,
        "limits": {"cpu": "1"},
        "template": TEMPLATE,
        "scopes": ["BestEffort"],
        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]},
    },
    "status": {
        "hard": {"cpu": "1"},
        "used": {"cpu": "1"},
        "replicas": 1,
        "selector": "app=web",
        "podTemplateRef": {"name": "t"},
        "conditions": [{"type": "a", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}],
    },
}
KEYS = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=5)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(item, (*path, key))


def bent(document: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copied = copy.deepcopy(document)
    owner = copied
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = odd
    return copied


READERS: dict[str, Callable[[Any], object]] = {
    "buffer": buffer_from_json,
    "quota": buffer_quota_from_json,
    "template": pod_template_from_json,
    "managed": managed_template_from_json,
    "scale": scale_from_json,
    "scalable": lambda document: scalable_from_json(document, "apps", "Deployment"),
    "pod": live_pod_from_json,
}


def refusal(read: Callable[[], object]) -> str | None:
    """Return the words of a refusal; None = it was read."""
    try:
        read()
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("reader", READERS)
@given(st.sampled_from(list(paths(DOCUMENT))), ODD)
def test_an_object_bent_anywhere(reader: str, path: tuple[Any, ...], odd: Any) -> None:
    words = refusal(lambda: READERS[reader](bent(DOCUMENT, path, odd)))
    assert words is None or "\n" not in words
    if path[:1] not in ((), ("metadata",)) and reader in ("buffer", "quota"):
        # What has a name is never refused for what a person wrote into its spec.
        assert words is None


@given(st.sampled_from([path for path in paths(TEMPLATE) if path]), ODD)
def test_a_template_bent_anywhere(path: tuple[Any, ...], odd: Any) -> None:
    of = bent(TEMPLATE, path, odd)
    words = refusal(lambda: managed_content(of, pod_of_template))
    if words is not None:
        assert "\n" not in words
        return
    managed = managed_content(of, pod_of_template)
    assert managed_content(managed, pod_of_template) == managed
    assert is_same_content(managed, managed)
    assert chunk_of(managed, pod_of_template) == chunk_of(of, pod_of_template)
