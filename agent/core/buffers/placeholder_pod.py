"""From a managed pod template to the placeholder pod that keeps its room. Core, pure.

A placeholder asks for what one chunk asks for and goes where a chunk may go, and has nothing else of it: no image, no
volume, no secret, no account, and none of its labels, by which services, budgets and autoscalers would count it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from agent.core.buffers.buffer import BUFFER_KIND, GROUP, Buffer, Content
from agent.core.buffers.placeholder_options import PlaceholderOptions
from agent.core.cluster.effective_resources import pod_requests
from agent.core.cluster.pod import CPU, MEMORY, ContainerKind, Pod, Requirements, is_pod_level_resource
from agent.core.numbers.quantity import format_quantity
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.annotations import PLACEHOLDER, PLACEHOLDER_SHAPE, PREFIX

BUFFER_UID: Final = f"{PREFIX}buffer-uid"
"""Label: which buffer's."""

_COPIED: Final = ("nodeSelector", "os")
_USUAL_SCHEDULER: Final = "default-scheduler"
_USUAL_TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)
"""What servers add to every pod: a template has them where a dry run or a live pod made it, and where none did it has
not (a full quota refuses dry runs). They would make a difference where there is none."""
_NOBODY: Final = 65_535
_TERMS: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": None,
    "preferredDuringSchedulingIgnoredDuringExecution": "podAffinityTerm",
}
"""The two lists of pod affinity, and where a term of each has its selector."""
_OF_ITS_OWN_PODS: Final = ("matchLabelKeys", "mismatchLabelKeys")
"""They name labels of the pod itself, of which a placeholder has none; servers have put their values into the
selectors when the pod that a template was taken from was made."""
_RESIZABLE: Final = frozenset({CPU, MEMORY})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderShape:
    """What the placeholder pods of one buffer are like."""

    body: Mapping[str, object]
    """The pod as JSON, without a name."""
    digest: str
    """Of all but the amounts of CPU and memory of its containers."""
    containers: tuple[tuple[str, Requirements], ...]
    """Names and amounts, in order."""
    requests: Mapping[str, int]
    """What a pod of it requests in all, nanos: that of a chunk."""


def placeholder_of(
    content: Content, template: Pod, buffer: Buffer, options: PlaceholderOptions, *, version: str = "v1beta1"
) -> PlaceholderShape | None:
    """Return the placeholder of a managed template; None = a chunk requests nothing, so there is nothing to keep.

    ``template`` is ``content`` read as a pod, ``version`` that of the API in which the server has buffers.
    """
    requests = pod_requests(template)
    if not any(amount > 0 for amount in requests.values()):
        return None
    spec_of_template = _mapping(content.get("spec"))
    labels = _texts(_mapping(_mapping(content.get("metadata")).get("labels")))
    own = {BUFFER_UID: buffer.uid}
    pod_level, containers = _resources(template, requests)
    is_windows = template.is_windows
    spec: dict[str, object] = {key: spec_of_template[key] for key in _COPIED if spec_of_template.get(key)}
    scheduler = spec_of_template.get("schedulerName")
    if scheduler and scheduler != _USUAL_SCHEDULER:
        spec["schedulerName"] = scheduler
    tolerations = [item for item in _items(spec_of_template.get("tolerations")) if item not in _USUAL_TOLERATIONS]
    if tolerations:
        spec["tolerations"] = tolerations
    affinity = _affinity(_mapping(spec_of_template.get("affinity")), labels, buffer.namespace, own)
    if affinity:
        spec["affinity"] = affinity
    spread = [
        _spread(_mapping(item), labels, own) for item in _items(spec_of_template.get("topologySpreadConstraints"))
    ]
    if spread:
        spec["topologySpreadConstraints"] = spread
    if pod_level is not None:
        spec["resources"] = resources_json(pod_level)
    spec |= {
        "priorityClassName": options.priority_class,
        # The server refuses the pod where its class says another: one that could drive others away is never made.
        "preemptionPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [_container(name, resources, options.image, is_windows) for name, resources in containers],
    }
    if not is_windows:
        spec["securityContext"] = {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    metadata: dict[str, object] = {
        "namespace": buffer.namespace,
        # Meshes put their proxies into every pod that does not say no.
        "labels": {PLACEHOLDER: "true", **own, "sidecar.istio.io/inject": "false"},
        "annotations": {
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
            "linkerd.io/inject": "disabled",
        },
    }
    digest = _digest({"metadata": metadata, "spec": spec}, containers)
    metadata["annotations"] = {**_mapping(metadata["annotations"]), PLACEHOLDER_SHAPE: digest}
    metadata["ownerReferences"] = [
        {
            "apiVersion": f"{GROUP}/{version}",
            "kind": BUFFER_KIND,
            "name": buffer.name,
            "uid": buffer.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]
    return PlaceholderShape(
        body={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        digest=digest,
        containers=containers,
        requests=requests,
    )


# -- amounts -------------------------------------------------------------------------------------------------------


def _resources(
    template: Pod, requests: Mapping[str, int]
) -> tuple[Requirements | None, tuple[tuple[str, Requirements], ...]]:
    """Return the pod's own resources and those of its containers, so that they come to the same as the template's.

    Each container and sidecar of the template has its counterpart: ranges of the namespace allowed them one by one, and
    whoever gives whole CPUs to containers gives them as for the template. What the pod needs beyond their sum, such as
    overhead or a large init container, is put onto the first.
    """
    parts = [
        container.resources for container in template.sized_containers() if container.kind is not ContainerKind.INIT
    ]
    stated = template.resources if template.has_pod_level_requests else None
    pod_level = None
    if stated is not None:
        level = {name: amount for name, amount in requests.items() if is_pod_level_resource(name)}
        level = {name: level[name] for name in stated.requests if name in level}
        pod_level = _stated(Requirements(requests=level, limits=_raised(stated.limits, level)))
    first = parts[0] if parts else Requirements()
    more = dict(first.requests)
    for name, amount in requests.items():
        if pod_level is not None and name in pod_level.requests:
            continue
        missing = amount - sum(part.requests.get(name, 0) for part in parts)
        if missing > 0:
            more[name] = more.get(name, 0) + missing
    parts[:1] = [Requirements(requests=more, limits=_raised(first.limits, more))]
    names = ["room", *(f"room-{number}" for number in range(2, len(parts) + 1))]
    return pod_level, tuple(zip(names, (_stated(part) for part in parts), strict=True))


def _raised(limits: Mapping[str, int], requests: Mapping[str, int]) -> dict[str, int]:
    """Return limits that are nowhere below the requests; what cannot be overcommitted is limited to its request."""
    raised = {name: max(amount, requests.get(name, 0)) for name, amount in limits.items()}
    return raised | {name: amount for name, amount in requests.items() if _is_exact(name)}


def _stated(resources: Requirements) -> Requirements:
    """Return amounts as pods may have them, and leave out what comes to nothing."""
    return Requirements(requests=_rounded(resources.requests), limits=_rounded(resources.limits))


def _rounded(amounts: Mapping[str, int]) -> dict[str, int]:
    """Round up: CPU to whole thousandths, all else to whole units."""
    steps = {name: NANOS_PER_MILLI if name == CPU else NANOS_PER_UNIT for name in sorted(amounts)}
    return {name: -(-amounts[name] // step) * step for name, step in steps.items() if amounts[name] > 0}


def _is_exact(name: str) -> bool:
    """Return whether request and limit must be the same: huge pages and extended resources."""
    return name.startswith("hugepages-") or ("/" in name and "kubernetes.io/" not in name)


def resources_json(resources: Requirements) -> dict[str, object]:
    """Write what a container requests and may use, as a pod's spec has it."""
    return {
        kind: {name: format_quantity(amount, binary=name != CPU) for name, amount in amounts.items()}
        for kind, amounts in (("requests", resources.requests), ("limits", resources.limits))
        if amounts
    }


# -- where it may go -----------------------------------------------------------------------------------------------


def _affinity(
    affinity: Mapping[str, object], labels: Mapping[str, str], namespace: str, own: Mapping[str, str]
) -> dict[str, object]:
    """Copy affinity; what holds between the template's own pods holds between its placeholders too.

    Those are not chosen by the template's labels, so each such term stands twice: once as it was, for the real pods.
    """
    copied: dict[str, object] = {}
    if affinity.get("nodeAffinity"):
        copied["nodeAffinity"] = affinity["nodeAffinity"]
    for kind in ("podAffinity", "podAntiAffinity"):
        terms_by_list: dict[str, object] = {}
        for list_name, inner in _TERMS.items():
            terms: list[object] = []
            for item in _items(_mapping(affinity.get(kind)).get(list_name)):
                entry = _mapping(item)
                term = _without(_mapping(entry.get(inner)) if inner is not None else entry, _OF_ITS_OWN_PODS)
                terms.append({**entry, inner: term} if inner is not None else term)
                # Required nearness stays to the real pods alone: the first placeholder would wait for itself.
                is_wanted = kind == "podAntiAffinity" or inner is not None
                if is_wanted and _is_of_itself(term, labels, namespace):
                    mine = {"labelSelector": {"matchLabels": dict(own)}, "topologyKey": term.get("topologyKey")}
                    terms.append({**entry, inner: mine} if inner is not None else mine)
            if terms:
                terms_by_list[list_name] = terms
        if terms_by_list:
            copied[kind] = terms_by_list
    return copied


def _is_of_itself(term: Mapping[str, object], labels: Mapping[str, str], namespace: str) -> bool:
    namespaces = term.get("namespaces")
    is_here = namespace in _items(namespaces) if namespaces else term.get("namespaceSelector") is None
    return is_here and _selects(term.get("labelSelector"), labels)


def _spread(constraint: Mapping[str, object], labels: Mapping[str, str], own: Mapping[str, str]) -> dict[str, object]:
    """Copy a spread constraint; one over the template's own pods becomes one over its placeholders.

    It cannot stand twice: the API allows one per topology and strictness.
    """
    copied = _without(constraint, _OF_ITS_OWN_PODS)
    if _selects(constraint.get("labelSelector"), labels):
        copied["labelSelector"] = {"matchLabels": dict(own)}
    return copied


def _selects(selector: object, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector of the API matches; none at all matches nothing, an empty one everything."""
    if not isinstance(selector, Mapping):
        return False
    wanted = _mapping(selector.get("matchLabels"))
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _matches(_mapping(expression), labels) for expression in _items(selector.get("matchExpressions"))
    )


def _matches(expression: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    key, operator = expression.get("key"), expression.get("operator")
    value = labels.get(key) if isinstance(key, str) else None
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    is_in = value is not None and value in _items(expression.get("values"))
    return is_in if operator == "In" else operator == "NotIn" and not is_in


# -- the rest ------------------------------------------------------------------------------------------------------


def _container(name: str, resources: Requirements, image: str, is_windows: bool) -> dict[str, object]:
    container: dict[str, object] = {"name": name, "image": image, "resources": resources_json(resources)}
    if not is_windows:
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    return container


def _digest(body: Mapping[str, object], containers: Iterable[tuple[str, Requirements]]) -> str:
    """Sum up all that a resize cannot change."""
    fixed = [
        [
            name,
            [sorted(set(amounts) & _RESIZABLE), {key: str(amounts[key]) for key in sorted(set(amounts) - _RESIZABLE)}],
        ]
        for name, resources in containers
        for amounts in (resources.requests, resources.limits)
    ]
    spec = _mapping(body["spec"])
    images = [_without(_mapping(container), ("resources",)) for container in _items(spec["containers"])]
    whole = [body["metadata"], {**spec, "containers": images}, fixed]
    return sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _texts(value: Mapping[str, object]) -> dict[str, str]:
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _without(value: Mapping[str, object], keys: Iterable[str]) -> dict[str, object]:
    left_out = set(keys)
    return {key: item for key, item in value.items() if key not in left_out}
