"""Workloads in manifests: what a document is, where its containers stand, what patches make of it. Face, pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.cli.gitops.resource_cells import (
    Layer,
    ManifestFile,
    ResourceCell,
    container_nodes,
    layer_of,
    read_resources,
    read_section,
)
from agent.cli.gitops.yaml_text import YamlNode, YamlShape, YamlText, YamlTextError, plain
from agent.core.cluster.resource import Resource
from agent.core.plan.pod_change import Setting

LISTS: Final = ("initContainers", "containers")
_TEMPLATE: Final = ("spec", "template", "spec")
POD_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Rollout", "Job"), _TEMPLATE
    ),
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
}
"""Where the pods of a kind are described."""
_SECTION_OF: Final = {"requests": Setting.REQUEST, "limits": Setting.LIMIT}
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,3}")


@dataclass(slots=True, kw_only=True, eq=False)
class Instance:
    """One workload as it comes out of the checkout."""

    where: str
    """The file, or the directory of the Kustomization."""
    kind: str
    name: str
    namespace: str | None
    """None = the checkout does not say."""
    document: dict[str, object]
    """As it would be applied."""
    containers: dict[tuple[str, str], list[Layer]] = field(default_factory=dict)
    """By list of the pod's spec and name."""
    known_as: list[tuple[str, str]] = field(default_factory=list)
    """Names and namespaces that it had before, empty = none said; patches find it by any."""
    fault: str | None = None
    """Why it is left as it is."""

    def doubt(self, why: str) -> None:
        """Leave it; the first reason counts."""
        self.fault = self.fault or why

    def __str__(self) -> str:
        """Return ``shop/Deployment/web``."""
        return f"{self.namespace or '?'}/{self.kind}/{self.name}"


def documents_of(text: YamlText) -> Iterator[YamlNode]:
    """Return all objects of a text, those of lists too."""
    for document in text.documents:
        yield from _objects(document)


def _objects(node: YamlNode) -> Iterator[YamlNode]:
    if node.shape is not YamlShape.MAPPING:
        return
    kind, items = node.member("kind"), node.member("items")
    if kind is not None and kind.value.endswith("List") and items is not None and items.shape is YamlShape.SEQUENCE:
        for item in items.items:
            yield from _objects(item)
    else:
        yield node


def text_at(node: YamlNode, *keys: str) -> str | None:
    """Return a text inside a document; None = there is none."""
    for key in keys:
        member = node.member(key) if node.shape is YamlShape.MAPPING else None
        if member is None:
            return None
        node = member
    return node.value if node.shape is YamlShape.SCALAR and not node.is_null else None


def instance_of(file: ManifestFile, node: YamlNode, where: str) -> Instance | None:
    """Return the workload that a document is; None = it is none.

    Raises:
        YamlTextError: It is one and cannot be read.
    """
    kind, name = text_at(node, "kind"), text_at(node, "metadata", "name")
    if kind is None or kind not in POD_SPECS or name is None or text_at(node, "apiVersion") is None:
        return None
    document = plain(node)
    if not isinstance(document, dict):
        return None
    namespace = text_at(node, "metadata", "namespace")
    instance = Instance(where=where, kind=kind, name=name, namespace=namespace, document=document)
    instance.known_as.append((name, namespace or ""))
    add_layers(instance, file, file.text, node)
    return instance


def add_layers(instance: Instance, file: ManifestFile, text: YamlText, node: YamlNode) -> None:
    """Lay what a document states of containers over what is there: a manifest, or a strategic merge patch."""
    way = [node]
    for key in POD_SPECS[instance.kind]:
        member = way[-1].member(key) if way[-1].shape is YamlShape.MAPPING else None
        if member is None:
            return
        way.append(member)
    for list_name in LISTS:
        for name, containers, container in container_nodes(way[-1], list_name):
            layer = layer_of(file, text, [*way, containers, container])
            instance.containers.setdefault((list_name, name), []).append(layer)


def merged(base: object, patch: object) -> object:
    """Return what a strategic merge patch makes of an object; lists of named things go by name.

    Raises:
        YamlTextError: The patch orders more than that (``$patch`` and its like).
    """
    if isinstance(patch, dict):
        odd = next((key for key in patch if key.startswith("$")), None)
        if odd is not None:
            raise YamlTextError(f"a patch has {odd}")
        mapping = dict(base) if isinstance(base, dict) else {}
        for key, value in patch.items():
            if value is None:
                mapping.pop(key, None)
            else:
                mapping[key] = merged(mapping.get(key), value)
        return mapping
    if isinstance(patch, list) and isinstance(base, list) and _are_named(patch) and _are_named(base):
        names = [_name(item) for item in base]
        changed = {_name(item): item for item in patch}
        base_items = [
            merged(item, changed[name]) if name in changed else item for item, name in zip(base, names, strict=True)
        ]
        return base_items + [merged(None, item) for name, item in changed.items() if name not in names]
    return merged_list(patch) if isinstance(patch, list) else patch


def merged_list(patch: list[object]) -> list[object]:
    """Return a list that takes another's place."""
    return [merged(None, item) for item in patch]


def _are_named(items: Sequence[object]) -> bool:
    return all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)


def _name(item: object) -> str:
    return str(item.get("name")) if isinstance(item, dict) else ""


def merge_patch(instance: Instance, file: ManifestFile, text: YamlText, node: YamlNode) -> None:
    """Lay a strategic merge patch over a workload; one that is not understood is a doubt."""
    try:
        document = merged(instance.document, _without_identity(plain(node)))
        add_layers(instance, file, text, node)
    except YamlTextError as error:
        instance.doubt(f"{file.path}: {error}")
        return
    if isinstance(document, dict):
        instance.document = document


def _without_identity(patch: object) -> object:
    """Return a patch without the names that it finds its object by."""
    if not isinstance(patch, dict) or not isinstance(patch.get("metadata"), dict):
        return patch
    metadata = {key: value for key, value in patch["metadata"].items() if key not in ("name", "namespace")}
    return {**patch, "metadata": metadata}


def json_patch(instance: Instance, file: ManifestFile, text: YamlText, operations: YamlNode) -> None:
    """Lay a JSON patch (RFC 6902) over a workload; one that is not understood is a doubt."""
    try:
        for operation in operations.items:
            _operate(instance, file, text, operation)
    except (YamlTextError, LookupError, TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, YamlTextError) else "a JSON patch does not fit"
        instance.doubt(f"{file.path}: {reason}")


def _operate(instance: Instance, file: ManifestFile, text: YamlText, operation: YamlNode) -> None:
    kind, pointer = text_at(operation, "op"), text_at(operation, "path")
    if kind == "test":
        return
    if kind not in ("add", "replace", "remove") or pointer is None or not pointer.startswith("/"):
        raise YamlTextError(f"line {text.line_of(operation)}: a JSON patch with {kind}")
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    value = operation.member("value")
    spec = list(POD_SPECS[instance.kind])
    if parts == spec[: len(parts)] or (parts[:-1] == spec and parts[-1] in LISTS):
        raise YamlTextError(f"line {text.line_of(operation)}: a JSON patch of all containers")
    if parts[: len(spec)] == spec and parts[len(spec)] in LISTS:
        _operate_on_container(instance, Layer(file=file, text=text), kind, parts[len(spec) :], operation)
    _applied(instance.document, kind, parts, None if value is None else plain(value))


def _operate_on_container(
    instance: Instance, layer: Layer, kind: str, parts: Sequence[str], operation: YamlNode
) -> None:
    list_name, place, *rest = parts
    value = operation.member("value")
    if not rest:
        name = None if value is None else text_at(value, "name")
        if kind != "remove" and name is not None and value is not None:
            instance.containers[list_name, name] = [layer_of(layer.file, layer.text, [operation, value])]
        return
    if rest[0] != "resources":
        return
    containers = _listed(_inside(instance.document, POD_SPECS[instance.kind]).get(list_name))
    if not _INDEX.fullmatch(place):
        raise YamlTextError(f"line {layer.text.line_of(operation)}: a JSON patch of container {place}")
    name = _name(containers[int(place)])
    settings = [_SECTION_OF[rest[1]]] if len(rest) > 1 else list(Setting)
    resources = [Resource(rest[2])] if len(rest) > 2 and rest[2] in tuple(Resource) else list(Resource)
    if len(rest) <= 2 or rest[2] in tuple(Resource):
        layer.clears = frozenset(ResourceCell(setting, resource) for setting in settings for resource in resources)
        if kind != "remove" and value is not None:
            _read_value(layer, rest, value)
        instance.containers.setdefault((list_name, name), []).append(layer)


def _read_value(layer: Layer, rest: Sequence[str], value: YamlNode) -> None:
    """Read what a JSON patch puts at ``resources``, ``resources/limits`` or ``resources/limits/cpu``."""
    clears = layer.clears
    if len(rest) == 1:
        read_resources(layer, value)
    elif len(rest) == 2:
        read_section(layer, _SECTION_OF[rest[1]], value)
    elif value.shape is YamlShape.SCALAR:
        layer.cells[ResourceCell(_SECTION_OF[rest[1]], Resource(rest[2]))] = value
    layer.clears |= clears


def _inside(document: Mapping[str, object], keys: Sequence[str]) -> Mapping[str, object]:
    holder: object = document
    for key in keys:
        holder = holder.get(key) if isinstance(holder, dict) else None
    return holder if isinstance(holder, dict) else {}


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _applied(document: object, kind: str, parts: Sequence[str], value: object) -> None:
    """Apply one operation to an object in place; LookupError, TypeError = it does not fit."""
    holder = document
    for part in parts[:-1]:
        holder = holder[int(part)] if isinstance(holder, list) else _member(holder, part)
    last = parts[-1]
    if isinstance(holder, list):
        if kind == "add":
            holder.insert(len(holder) if last == "-" else int(last), value)
        elif kind == "replace":
            holder[int(last)] = value
        else:
            del holder[int(last)]
    elif not isinstance(holder, dict):
        raise TypeError(last)
    elif kind == "remove":
        del holder[last]
    else:
        holder[last] = value


def _member(holder: object, key: str) -> object:
    if not isinstance(holder, dict):
        raise TypeError(key)
    return holder[key]
