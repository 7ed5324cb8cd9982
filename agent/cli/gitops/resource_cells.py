"""Where one text states requests and limits of one container, and how they are changed there. Face, pure.

A container may be stated in several texts: its manifest, then patches of Kustomize over it. Each is a layer; the last
one that states an amount wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.cli.gitops.yaml_text import MERGE, YamlNode, YamlShape, YamlText, YamlTextError
from agent.core.cluster.resource import Resource
from agent.core.plan.pod_change import Setting

SECTIONS: Final = {Setting.REQUEST: "requests", Setting.LIMIT: "limits"}
_PATCH_ORDER: Final = "$patch"
_RESOURCES: Final = "resources"


@dataclass(frozen=True, slots=True)
class ResourceCell:
    """One amount of a container."""

    setting: Setting
    resource: Resource

    def __str__(self) -> str:
        """Return ``requests.cpu``."""
        return f"{SECTIONS[self.setting]}.{self.resource}"


CELLS: Final = tuple(ResourceCell(setting, resource) for setting in Setting for resource in Resource)


@dataclass(slots=True, kw_only=True, eq=False)
class ManifestFile:
    """One file of the checkout that is read."""

    path: str
    """Below the directory, with slashes."""
    text: YamlText
    content: bytes
    """As it was read."""


@dataclass(slots=True, kw_only=True, eq=False)
class Layer:
    """What one text states of one container."""

    file: ManifestFile
    text: YamlText
    """The file's, or one inside it."""
    resources: YamlNode | None = None
    sections: dict[Setting, YamlNode] = field(default_factory=dict)
    cells: dict[ResourceCell, YamlNode] = field(default_factory=dict)
    empties: dict[Setting, YamlNode] = field(default_factory=dict)
    """Requests or limits with nothing behind the key."""
    clears: frozenset[ResourceCell] = frozenset()
    """What the layers below state of these does not count."""
    fault: str | None = None
    """Why nothing may be changed here."""

    def place_of(self, node: YamlNode) -> str:
        """Return ``base/web.yaml:12``."""
        return f"{self.file.path}:{self.text.line_of(node)}"

    def change(self, wanted: Mapping[ResourceCell, str | None]) -> None:
        """Write amounts, None = it goes; each is either stated here, or to be added here.

        Raises:
            YamlTextError: It cannot be done without touching what is no amount.
        """
        for setting, name in SECTIONS.items():
            mine = {cell.resource.value: text for cell, text in wanted.items() if cell.setting is setting}
            if mine:
                self._change_section(setting, name, mine)

    def _change_section(self, setting: Setting, name: str, wanted: Mapping[str, str | None]) -> None:
        section = self.sections.get(setting)
        added = {key: text for key, text in wanted.items() if text is not None}
        if section is None or not section.pairs:
            for resource in (Resource(key) for key in wanted):
                node = self.cells.get(ResourceCell(setting, resource))
                text = wanted[resource.value]
                if node is not None and text is not None:
                    self._put(node, text, is_json=False)
                    del added[resource.value]
                elif text is None:
                    raise YamlTextError(f"{name}.{resource} stands in a patch of its own")
            if added:
                self._add_section(section, name, added)
            return
        is_json = section.is_flow and section.pairs[-1][0].style == '"'
        gone = [key for key, text in wanted.items() if text is None]
        for key in list(added):
            node = self.cells.get(ResourceCell(setting, Resource(key)))
            if node is not None:
                self._put(node, added.pop(key), is_json=is_json)
        if gone and not added and len(gone) == len(section.pairs):
            if self.resources is None or len(self.resources.pairs) == 1:
                raise YamlTextError(f"{name} is all that there is")
            self.text.remove(self.resources, name)
            return
        for key in gone:
            self.text.remove(section, key)
        for key, text in added.items():
            self.text.add(section, key, text)

    def _put(self, node: YamlNode, text: str, *, is_json: bool) -> None:
        self.text.put(node, text, quoted=is_json)

    def _add_section(self, section: YamlNode | None, name: str, added: Mapping[str, str]) -> None:
        if section is not None and section.is_flow:  # {}
            for key, text in added.items():
                self.text.add(section, key, text)
            return
        empty = next((node for setting, node in self.empties.items() if SECTIONS[setting] == name), None)
        if empty is not None and self.resources is not None:
            self.text.fill(self.resources, name, added)
            return
        if section is not None or self.resources is None or not self.resources.pairs:
            raise YamlTextError(f"no place for {name}")
        last_key, value = self.resources.pairs[-1]
        step = value.column - last_key.column if value.shape is YamlShape.MAPPING and not value.is_flow else 2
        self.text.add(self.resources, name, added, step=step if step > 0 else 2)


def layer_of(file: ManifestFile, text: YamlText, way: Sequence[YamlNode]) -> Layer:
    """Return what a container states.

    Args:
        way: The nodes from the document to the container, which is the last one.
    """
    layer = Layer(file=file, text=text, fault=_fault_of_way(text, way))
    container = way[-1]
    try:
        _refuse_orders(text, container)
        pair = container.pair(_RESOURCES)
        if pair is not None:
            read_resources(layer, pair[1])
    except YamlTextError as error:
        layer.fault = str(error)
    return layer


def read_resources(layer: Layer, node: YamlNode, sections: Iterable[Setting] = tuple(Setting)) -> None:
    """Read a mapping of requests and limits into a layer; null clears what is below.

    Raises:
        YamlTextError: It is written in a way that is not edited.
    """
    if node.is_null:
        layer.clears = frozenset(CELLS)
        return
    _check(layer.text, node)
    layer.resources = node
    for setting in sections:
        pair = node.pair(SECTIONS[setting])
        if pair is not None:
            read_section(layer, setting, pair[1])


def read_section(layer: Layer, setting: Setting, node: YamlNode) -> None:
    """Read requests, or limits, into a layer, or raise as ``read_resources``."""
    mine = frozenset(cell for cell in CELLS if cell.setting is setting)
    if node.is_null:
        layer.clears |= mine
        layer.empties[setting] = node
        return
    _check(layer.text, node)
    layer.sections[setting] = node
    for cell in mine:
        pair = node.pair(cell.resource)
        if pair is None:
            continue
        if pair[1].is_null:
            layer.clears |= {cell}
        elif pair[1].shape is not YamlShape.SCALAR:
            raise YamlTextError(f"line {layer.text.line_of(pair[0])}: {cell} is shared by an anchor or no amount")
        else:
            layer.cells[cell] = pair[1]


def stating(layers: Sequence[Layer], cell: ResourceCell) -> list[Layer]:
    """Return the layers that state an amount and count, the winner last."""
    stating_layers: list[Layer] = []
    for layer in layers:
        if cell in layer.clears:
            stating_layers = []
        if cell in layer.cells:
            stating_layers.append(layer)
    return stating_layers


def for_adding(layers: Sequence[Layer], cell: ResourceCell) -> Layer | None:
    """Return the layer in which an amount that nobody states is best written; None = in none."""
    first = max((index for index, layer in enumerate(layers) if cell in layer.clears), default=0)
    open_layers = [layer for layer in layers[first:] if _has_room(layer, cell)]
    fitting = [layer for layer in open_layers if cell.setting in layer.sections or cell.setting in layer.empties]
    fitting = fitting or [layer for layer in open_layers if layer.resources is not None and layer.resources.pairs]
    return fitting[-1] if fitting else None


def _has_room(layer: Layer, cell: ResourceCell) -> bool:
    """Return whether an amount can be written there: it is not there as null, and neither are all resources."""
    section = layer.sections.get(cell.setting)
    if section is not None:
        return section.pair(cell.resource) is None
    return layer.resources is not None


def container_nodes(pod_spec: YamlNode, list_name: str) -> Iterator[tuple[str, YamlNode, YamlNode]]:
    """Return name, list and node of each container of a pod's spec that has a name."""
    containers = pod_spec.member(list_name) if pod_spec.shape is YamlShape.MAPPING else None
    for item in containers.items if containers is not None else ():
        name = item.member("name") if item.shape is YamlShape.MAPPING else None
        if containers is not None and name is not None and name.shape is YamlShape.SCALAR:
            yield name.value, containers, item


def _fault_of_way(text: YamlText, way: Sequence[YamlNode]) -> str | None:
    shared = next((node for node in way if node.anchor is not None and node.anchor in text.aliased), None)
    return None if shared is None else f"line {text.line_of(shared)}: &{shared.anchor} is used elsewhere too"


def _check(text: YamlText, node: YamlNode) -> None:
    if node.shape is not YamlShape.MAPPING:
        raise YamlTextError(f"line {text.line_of(node)}: resources are shared by an anchor, or no mapping")
    if node.anchor is not None and node.anchor in text.aliased:
        raise YamlTextError(f"line {text.line_of(node)}: &{node.anchor} is used elsewhere too")
    _refuse_orders(text, node)


def _refuse_orders(text: YamlText, node: YamlNode) -> None:
    for key, _ in node.pairs:
        if key.value in (MERGE, _PATCH_ORDER):
            raise YamlTextError(f"line {text.line_of(key)}: {key.value} is not edited")
