"""Workloads as Kustomize builds them, and in which file each of their amounts stands. Face, pure.

It is not Kustomize: what may change requests or containers in a way that is not followed here is a doubt, and the
workload is left. ``kubectl kustomize`` judges it in the tests.

Source:
    The order of patches, namespace and prefixes is that of ``configureBuiltinTransformers`` of kustomize/api.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from agent.cli.gitops.manifests import (
    Instance,
    documents_of,
    instance_of,
    json_patch,
    merge_patch,
    text_at,
)
from agent.cli.gitops.resource_cells import ManifestFile
from agent.cli.gitops.yaml_text import YamlNode, YamlShape, YamlText, YamlTextError, walk
from agent.core.orders.annotations import PREFIX

FILE_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MOST_DEEP: Final = 20
_MOST_INSTANCES: Final = 20_000
_DOUBTFUL: Final = ("transformers", "vars", "replacements")
"""What may write into containers, from anywhere."""
_HARMLESS: Final = frozenset(
    {
        "AnnotationsTransformer",
        "HashTransformer",
        "ImageTagTransformer",
        "LabelTransformer",
        "LegacyOrderTransformer",
        "ReplicaCountTransformer",
        "SortOrderTransformer",
    }
)
"""Built-in transformers that change neither names nor amounts."""
_REMOTE: Final = re.compile(r"://|^git@|^(www\.)?github\.com[/:]|\?(ref|version)=|^[\w.-]+\.\w+/.+//")
_SAFE: Final = re.compile(r"(?=.{0,200}\Z)\^?[\w./-]*(?:\.[*+][\w./-]+){0,1}(?:\.[*+])?\$?(?:\|[\w./-]+){0,20}")
"""Expressions of targets that are tried: names, with ``.*`` at two places. Others may take for ever."""

Find = Callable[[str], ManifestFile | None]


class Kustomizations:
    """The Kustomizations of one checkout."""

    def __init__(self, files: Find, directories: Sequence[str]) -> None:
        """Take the checkout.

        Args:
            files: Returns a file by its path; None = it is not there, or is not read.
            directories: Those that hold a Kustomization.
        """
        self._files = files
        self._directories = frozenset(directories)
        self.used: set[str] = set()
        """Files that a Kustomization builds with: they are no manifests of their own."""
        self.faults: list[str] = []
        """Kustomizations that are not understood, a line each."""

    def instances(self) -> list[Instance]:
        """Return all workloads of the Kustomizations that no other one builds with."""
        below: set[str] = set()
        for directory in self._directories:
            try:
                below |= set(self._references(directory))
            except YamlTextError:
                continue  # told when it is built
        instances: list[Instance] = []
        for directory in sorted(self._directories - below):
            try:
                built = self._build(directory, ())
            except YamlTextError as error:
                self.faults.append(f"{directory or '.'}: {error}")
                continue
            for instance in built:
                instance.where = directory or "."
            instances += built
        return instances

    def _references(self, directory: str) -> Iterator[str]:
        top = self._top(directory)
        for key in ("resources", "bases", "components"):
            for entry in _texts(top, key):
                path = _joined(directory, entry)
                if path in self._directories and path != directory:
                    yield path

    def _top(self, directory: str) -> YamlNode:
        file = self._file(directory)
        if len(file.text.documents) != 1 or file.text.documents[0].shape is not YamlShape.MAPPING:
            raise YamlTextError(f"{file.path}: not one Kustomization")
        return file.text.documents[0]

    def _file(self, directory: str) -> ManifestFile:
        for name in FILE_NAMES:
            path = posixpath.join(directory, name)
            file = self._files(path)
            if file is not None:
                self.used.add(path)
                return file
        raise YamlTextError(f"{directory or '.'}: its Kustomization is not read")

    def _build(self, directory: str, way: Sequence[str], given: Sequence[Instance] = ()) -> list[Instance]:
        """Return the workloads of one directory; a component takes ``given`` and hands all on."""
        if directory in way or len(way) >= _MOST_DEEP:
            raise YamlTextError(f"{directory}: Kustomizations that build with each other")
        top, file = self._top(directory), self._file(directory)
        instances, way = list(given), (*way, directory)
        for entry in (*_texts(top, "resources"), *_texts(top, "bases")):
            if _REMOTE.search(entry):
                continue  # nothing of it stands here
            path = _joined(directory, entry)
            if path in self._directories:
                instances += self._build(path, way)
            elif path is not None:
                instances += self._manifests(path)
            if len(instances) > _MOST_INSTANCES:
                raise YamlTextError(f"{directory}: more than {_MOST_INSTANCES} workloads")
        for entry in _texts(top, "components"):
            path = _joined(directory, entry)
            if path in self._directories and path is not None:
                instances = self._build(path, way, instances)
            else:
                _doubt(instances, f"{file.path}: component {entry} is not read")
        self._patch(top, directory, file, instances)
        self._transform(top, instances)
        for key in _DOUBTFUL:
            node = top.member(key)
            if node is None or node.is_null or not (node.items or node.pairs):
                continue
            if not (self._are_harmless(node, directory) if key == _DOUBTFUL[0] else _is_harmless(key, node)):
                _doubt(instances, f"{file.path}: {key} may write anywhere")
        self._patch_late(top, directory, file, instances)
        return instances

    def _manifests(self, path: str) -> Iterator[Instance]:
        file = self._files(path)
        if file is None:
            return
        self.used.add(path)
        for node in documents_of(file.text):
            instance = instance_of(file, node, path)
            if instance is not None:
                yield instance

    def _are_harmless(self, transformers: YamlNode, directory: str) -> bool:
        """Return whether transformers are all of kinds that write no amounts."""
        for entry in transformers.items:
            path = _joined(directory, entry.value) if entry.shape is YamlShape.SCALAR else None
            file = None if path is None or "\n" in entry.value else self._files(path)
            if file is None or path is None:
                return False
            self.used.add(path)
            if not all(text_at(node, "kind") in _HARMLESS for node in file.text.documents):
                return False
        return True

    # Patches

    def _patch(self, top: YamlNode, directory: str, file: ManifestFile, instances: list[Instance]) -> None:
        """Apply patches in Kustomize's order."""
        for entry in _items(top, "patchesStrategicMerge"):
            if entry.shape is YamlShape.SCALAR and "\n" not in entry.value:
                self._patch_from(_joined(directory, entry.value), None, instances, file)
            else:
                self._patch_inline(file, entry, None, instances)
        for entry in _items(top, "patches"):
            self._add_entry(entry, directory, file, instances)

    def _patch_late(self, top: YamlNode, directory: str, file: ManifestFile, instances: list[Instance]) -> None:
        for entry in _items(top, "patchesJson6902"):
            self._add_entry(entry, directory, file, instances)

    def _add_entry(self, entry: YamlNode, directory: str, file: ManifestFile, instances: list[Instance]) -> None:
        if entry.shape is not YamlShape.MAPPING:
            _doubt(instances, f"{file.path}:{file.text.line_of(entry)}: a patch that is not understood")
            return
        target, inline = entry.member("target"), entry.member("patch")
        path = text_at(entry, "path")
        if inline is not None:
            self._patch_inline(file, inline, target, instances)
        elif path is not None:
            self._patch_from(_joined(directory, path), target, instances, file)

    def _patch_inline(
        self, file: ManifestFile, scalar: YamlNode, target: YamlNode | None, instances: list[Instance]
    ) -> None:
        try:
            text = file.text.inner(scalar)
        except YamlTextError as error:
            _doubt(instances, f"{file.path}: {error}")
            return
        self._patch_with(file, text, target, instances)

    def _patch_from(
        self, path: str | None, target: YamlNode | None, instances: list[Instance], by: ManifestFile
    ) -> None:
        file = None if path is None else self._files(path)
        if file is None or path is None:
            _doubt(instances, f"{by.path}: a patch of it is not read")
            return
        self.used.add(path)
        self._patch_with(file, file.text, target, instances)

    def _patch_with(
        self, file: ManifestFile, text: YamlText, target: YamlNode | None, instances: list[Instance]
    ) -> None:
        for document in text.documents:
            chosen = _chosen(document, target, instances, file)
            for instance in chosen:
                if document.shape is YamlShape.SEQUENCE:
                    json_patch(instance, file, text, document)
                else:
                    merge_patch(instance, file, text, document)

    @staticmethod
    def _transform(top: YamlNode, instances: list[Instance]) -> None:
        """Apply the namespace, the prefix and suffix of names, and annotations of Plimsoll."""
        namespace = text_at(top, "namespace")
        prefix, suffix = text_at(top, "namePrefix") or "", text_at(top, "nameSuffix") or ""
        annotations = top.member("commonAnnotations")
        ordered = {
            key.value: value.value
            for key, value in (annotations.pairs if annotations is not None else ())
            if key.value.startswith(PREFIX)
        }
        for instance in instances:
            instance.namespace = namespace or instance.namespace
            instance.name = f"{prefix}{instance.name}{suffix}"
            instance.known_as.append((instance.name, instance.namespace or ""))
            if ordered:
                annotate(instance, ordered)


def annotate(instance: Instance, ordered: dict[str, str]) -> None:
    """Add annotations to a workload's template, as ``commonAnnotations`` does."""
    spec = instance.document.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if isinstance(template, dict):
        metadata = template.setdefault("metadata", {})
        if isinstance(metadata, dict):
            stated = metadata.get("annotations")
            metadata["annotations"] = {**(stated if isinstance(stated, dict) else {}), **ordered}


def _chosen(
    document: YamlNode, target: YamlNode | None, instances: list[Instance], file: ManifestFile
) -> list[Instance]:
    """Return the workloads that a patch is for."""
    if target is not None and not target.is_null:
        return [instance for instance in instances if _is_selected(instance, target, file)]
    if document.shape is not YamlShape.MAPPING:
        return []
    kind, name = text_at(document, "kind"), text_at(document, "metadata", "name")
    namespace = text_at(document, "metadata", "namespace")
    return [
        instance
        for instance in instances
        if instance.kind == kind
        and any(
            known == name and (namespace is None or (place or "default") == namespace)
            for known, place in instance.known_as
        )
    ]


def _is_selected(instance: Instance, target: YamlNode, file: ManifestFile) -> bool:
    kind, name, namespace = text_at(target, "kind"), text_at(target, "name"), text_at(target, "namespace")
    if not all(pattern is None or _SAFE.fullmatch(pattern) for pattern in (kind, name, namespace)):
        instance.doubt(f"{file.path}: the target of a patch is not understood")
        return False
    if not _fits(kind, instance.kind) or not any(
        _fits(name, known) and _fits(namespace, place) for known, place in instance.known_as
    ):
        return False
    if target.member("labelSelector") is not None or target.member("annotationSelector") is not None:
        instance.doubt(f"{file.path}: a patch selects by labels or annotations")
        return False
    return True


def _fits(pattern: str | None, text: str) -> bool:
    return not pattern or re.fullmatch(pattern, text) is not None


def _is_harmless(key: str, node: YamlNode) -> bool:
    """Return whether replacements write no amounts and name no containers."""
    return key == "replacements" and not any(
        inner.shape is YamlShape.SCALAR and ("resources" in inner.value or inner.value == "path")
        for inner in walk(node)
    )


def _doubt(instances: Sequence[Instance], why: str) -> None:
    for instance in instances:
        instance.doubt(why)


def _items(top: YamlNode, key: str) -> list[YamlNode]:
    node = top.member(key)
    return node.items if node is not None else []


def _texts(top: YamlNode, key: str) -> list[str]:
    return [item.value for item in _items(top, key) if item.shape is YamlShape.SCALAR]


def _joined(directory: str, entry: str) -> str | None:
    """Return a path below the checkout; None = it leads out of it."""
    path = posixpath.normpath(posixpath.join(directory, entry))
    if path.startswith(("../", "/")) or path == "..":
        return None
    return "" if path == "." else path
