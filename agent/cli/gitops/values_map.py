"""Which values of a Helm chart, or of any YAML file, are the requests and limits of which container: a map. Face, pure.

Nobody can tell it from the values themselves; so a person writes it down once:

    charts/web/values.yaml:
      shop/Deployment/web/app: resources
      shop/Deployment/web/proxy: sidecar.resources
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agent.cli.gitops.manifests import POD_SPECS, Instance
from agent.cli.gitops.resource_cells import Layer, ManifestFile, read_resources
from agent.cli.gitops.yaml_text import YamlNode, YamlShape, YamlTextError, plain

ALLOWED: Final = "FILE: {NAMESPACE/KIND/NAME/CONTAINER: path.to.resources}"
_PARTS: Final = 4


class ValuesMapError(ValueError):
    """A map that cannot be used; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedContainer:
    """One container, and where its requests and limits stand."""

    path: str
    """Of the file, below the directory."""
    namespace: str
    kind: str
    name: str
    container: str
    keys: tuple[str, ...]


def mapped_containers(document: object) -> tuple[MappedContainer, ...]:
    """Read a map, a plain value of YAML."""
    containers = []
    for path, entries in _pairs(document, "the map"):
        normal = posixpath.normpath(path)
        if normal.startswith(("/", "../")) or normal == "..":
            raise ValuesMapError(f"{path}: leads out of the directory; allowed: a path below it")
        for workload, keys in _pairs(entries, path):
            parts = workload.split("/")
            if len(parts) != _PARTS or not all(parts) or parts[1] not in POD_SPECS:
                raise ValuesMapError(f"{path}: {workload!r} is not allowed; allowed: NAMESPACE/KIND/NAME/CONTAINER")
            namespace, kind, name, container = parts
            containers.append(
                MappedContainer(
                    path=normal,
                    namespace=namespace,
                    kind=kind,
                    name=name,
                    container=container,
                    keys=_keys(keys, f"{path}: {workload}"),
                )
            )
    return tuple(containers)


def _pairs(value: object, where: str) -> Iterator[tuple[str, object]]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValuesMapError(f"{where}: is not allowed; allowed: {ALLOWED}")
    yield from value.items()


def _keys(value: object, where: str) -> tuple[str, ...]:
    keys = value.split(".") if isinstance(value, str) else value
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) and key for key in keys):
        raise ValuesMapError(f"{where}: {value!r} is not allowed; allowed: keys with dots between, or a list of keys")
    return tuple(keys)


def values_instances(
    mapped: tuple[MappedContainer, ...], files: Callable[[str], ManifestFile | None]
) -> list[Instance]:
    """Return the workloads of a map, each with the containers that it names."""
    by_workload: dict[tuple[str, str, str], Instance] = {}
    for entry in mapped:
        key = entry.namespace, entry.kind, entry.name
        if key not in by_workload:
            by_workload[key] = Instance(
                where=entry.path, kind=entry.kind, name=entry.name, namespace=entry.namespace, document=_blank(entry)
            )
        instance = by_workload[key]
        file = files(entry.path)
        if file is None:
            instance.doubt(f"{entry.path}: is not there, or not read")
            continue
        layer = Layer(file=file, text=file.text)
        try:
            node = _resources(file, entry.keys)
            read_resources(layer, node)
            _listed(instance).append({"name": entry.container, "image": "of-the-chart", "resources": plain(node)})
        except YamlTextError as error:
            instance.doubt(f"{entry.path}: {error}")
            continue
        instance.containers.setdefault(("containers", entry.container), []).append(layer)
    return list(by_workload.values())


def _resources(file: ManifestFile, keys: tuple[str, ...]) -> YamlNode:
    """Return the mapping that a path leads to; in one document of the file, and through no alias."""
    nodes = []
    for document in file.text.documents:
        node: YamlNode | None = document
        for key in keys:
            if node is not None and node.anchor is not None and node.anchor in file.text.aliased:
                raise YamlTextError(f"line {file.text.line_of(node)}: &{node.anchor} is used elsewhere too")
            node = _below(node, key)
        if node is not None:
            nodes.append(node)
    shown = ".".join(keys)
    if len(nodes) != 1:
        raise YamlTextError(f"{shown} {'is not there' if not nodes else 'stands in several documents'}")
    if nodes[0].is_null:
        raise YamlTextError(f"{shown} is empty")
    return nodes[0]


def _below(node: YamlNode | None, key: str) -> YamlNode | None:
    if node is None:
        return None
    if node.shape is YamlShape.MAPPING:
        return node.member(key)
    is_place = node.shape is YamlShape.SEQUENCE and key.isascii() and key.isdigit() and int(key) < len(node.items)
    return node.items[int(key)] if is_place else None


def _blank(entry: MappedContainer) -> dict[str, object]:
    """Return a workload of that name without containers."""
    document: dict[str, object] = {"containers": []}
    for key in reversed(POD_SPECS[entry.kind]):
        document = {key: document}
    return {"apiVersion": "apps/v1", "kind": entry.kind, "metadata": {"name": entry.name}, **document}


def _listed(instance: Instance) -> list[object]:
    holder: object = instance.document
    for key in (*POD_SPECS[instance.kind], "containers"):
        holder = holder[key] if isinstance(holder, dict) else None
    if not isinstance(holder, list):
        raise YamlTextError("no containers")
    return holder
