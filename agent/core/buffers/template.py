"""The managed template of a CapacityBuffer: its name, its content, and what one chunk of it requests. Core, pure.

A template's content is JSON of the API and is copied, never changed in place. What is malformed is left as it is: the
reader that makes a pod of it says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agent.core.buffers.buffer import Chunk, Content, PodReader
from agent.core.cluster.effective_resources import container_requests, pod_requests
from agent.core.cluster.pod import CPU, HUGEPAGES_PREFIX, MEMORY, Pod, Requirements
from agent.core.numbers.quantity import QuantityError, format_quantity, parse_quantity
from agent.core.orders.annotations import ADMISSION, ORIGINAL_RESOURCES, SHARE_TICKET, STARTUP_BOOSTED

_NAME_PREFIX: Final = "capacitybuffer-"
_NAME_SUFFIX: Final = "-pod-template"
_LONGEST_NAME: Final = 253
_ACCESS_VOLUME_PREFIX: Final = "kube-api-access-"
"""Volumes that the API server adds to each pod, with a random end."""

_CONTAINER_LISTS: Final = ("initContainers", "containers")
_KEPT_METADATA: Final = ("labels", "annotations")
_OF_ONE_POD: Final = frozenset({ORIGINAL_RESOURCES, ADMISSION, SHARE_TICKET, STARTUP_BOOSTED})
"""Annotations that we write for each pod anew: copied, they would rewrite the template with each new pod."""
_NOT_OF_A_TEMPLATE: Final = frozenset({"nodeName", "ephemeralContainers"})
"""What a live pod has and a template must not: the API refuses templates with debug containers."""
_AMOUNTS: Final = frozenset({"requests", "limits", "overhead"})
_SAME_WHEN_EMPTY: Final = _AMOUNTS | {"labels", "annotations", "metadata", "resources", "nodeSelector", "matchLabels"}
"""Objects that mean the same when they are empty and when they are absent; of others an empty one may be a choice."""
_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def managed_template_name(buffer_name: str) -> str:
    """Return the name of a buffer's managed template, the buffer's cut so that the API accepts the whole."""
    room = _LONGEST_NAME - len(_NAME_PREFIX) - len(_NAME_SUFFIX)
    return f"{_NAME_PREFIX}{buffer_name[:room]}{_NAME_SUFFIX}"


def managed_content(content: Content, read_pod: PodReader) -> Content:
    """Return what a managed template should hold of a template or a live pod; of its own result, the same again.

    Labels, annotations and the spec remain, without node, debug containers and volumes of access tokens; requests that
    the API server would fill in are filled in. What cannot be read as a pod raises ValueError.
    """
    return with_default_requests(_cleaned(content), read_pod)


def _cleaned(content: Content) -> Content:
    metadata = {
        key: {name: text for name, text in value.items() if name not in _OF_ONE_POD}
        for key, value in _mapping(content.get("metadata")).items()
        if key in _KEPT_METADATA and isinstance(value, Mapping)
    }
    spec = {key: value for key, value in _mapping(content.get("spec")).items() if key not in _NOT_OF_A_TEMPLATE}
    _without_access_volumes(spec, "volumes")
    for key in _CONTAINER_LISTS:
        if isinstance(spec.get(key), list):
            spec[key] = [_cleaned_container(container) for container in _items(spec[key])]
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


def _cleaned_container(container: object) -> object:
    if not isinstance(container, Mapping):
        return container
    copied = dict(container)
    _without_access_volumes(copied, "volumeMounts")
    return copied


def _without_access_volumes(owner: dict[str, object], key: str) -> None:
    entries = owner.get(key)
    if not isinstance(entries, list):
        return
    others = [entry for entry in entries if not _is_access_volume(entry)]
    if others:
        owner[key] = others
    else:
        del owner[key]


def _is_access_volume(entry: object) -> bool:
    name = _mapping(entry).get("name")
    return isinstance(name, str) and name.startswith(_ACCESS_VOLUME_PREFIX)


def with_default_requests(content: Content, read_pod: PodReader) -> Content:
    """Fill in requests as the API server does when a pod is made.

    Requests of containers come from their limits. Where the pod has limits of its own, a missing request of the pod for
    CPU or memory is what the containers request together, or its limit where none requests any; of huge pages it is the
    limit. (Limits of the pod that newer servers derive from the containers' change no request and are left to them.)

    Raises:
        ValueError: It cannot be read as a pod.

    Source:
        ``SetDefaults_Pod`` of k8s.io/kubernetes pkg/apis/core/v1/defaults.go.
    """
    spec = dict(_mapping(content.get("spec")))
    for key in _CONTAINER_LISTS:
        if isinstance(spec.get(key), list):
            spec[key] = [_with_container_requests(container) for container in _items(spec[key])]
    filled = {**content, "spec": spec}
    pod = read_pod(filled)
    missing = _missing_pod_requests(pod)
    if missing:
        resources = dict(_mapping(spec.get("resources")))
        amounts = {name: format_quantity(nanos, binary=name != CPU) for name, nanos in missing.items()}
        resources["requests"] = {**_mapping(resources.get("requests")), **amounts}
        spec["resources"] = resources
    return filled


def _with_container_requests(container: object) -> object:
    resources = _mapping(_mapping(container).get("resources"))
    limits, requests = _mapping(resources.get("limits")), _mapping(resources.get("requests"))
    if not isinstance(container, Mapping) or limits.keys() <= requests.keys():
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _missing_pod_requests(pod: Pod) -> dict[str, int]:
    own = pod.resources or Requirements()
    if not own.limits:
        return {}
    summed = container_requests(pod)
    wanted = {name: limit for name, limit in own.limits.items() if name.startswith(HUGEPAGES_PREFIX)}
    for name in (CPU, MEMORY):
        amount = summed.get(name, own.limits.get(name))
        if amount is not None:
            wanted[name] = amount
    return {name: amount for name, amount in sorted(wanted.items()) if name not in own.requests}


def chunk_of(content: Content, read_pod: PodReader) -> Chunk:
    """Return what sizing and quotas need of a template: what a pod made of it would request, class and affinities."""
    pod = read_pod(with_default_requests(content, read_pod))
    spec = _mapping(content.get("spec"))
    return Chunk(
        requests=pod_requests(pod),
        priority_class=pod.priority_class,
        has_cross_namespace_affinity=any(_crosses_namespaces(term) for term in _affinity_terms(spec)),
    )


def _affinity_terms(spec: Content) -> Iterable[Mapping[str, object]]:
    affinity = _mapping(spec.get("affinity"))
    for key in _AFFINITIES:
        sides = _mapping(affinity.get(key))
        for term in _items(sides.get(_REQUIRED)):
            yield _mapping(term)
        for weighted in _items(sides.get(_PREFERRED)):
            yield _mapping(_mapping(weighted).get("podAffinityTerm"))


def _crosses_namespaces(term: Mapping[str, object]) -> bool:
    # An empty selector of namespaces selects all of them; an absent one none.
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


def is_same_content(content: Content, other: Content) -> bool:
    """Return whether two contents mean the same to the API: null and empty are absent, 1000m is 1."""
    return _normal(content) == _normal(other)


def _normal(value: object, key: str = "") -> object:
    if isinstance(value, Mapping):
        if key in _AMOUNTS:
            return {name: _amount(amount) for name, amount in value.items()}
        items = {name: _normal(item, name) for name, item in value.items()}
        return {name: item for name, item in items.items() if not _is_absent(item, name)}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return value


def _is_absent(value: object, key: str) -> bool:
    return value is None or value == [] or (value == {} and key in _SAME_WHEN_EMPTY)


def _amount(value: object) -> object:
    try:
        return parse_quantity(str(value))
    except QuantityError:
        return value


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []
