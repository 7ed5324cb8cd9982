"""Under which name the store keeps a history: one container of a workload, on nodes of one class or on one node.

Core, pure. ``shop/Deployment/web/app/c/8/m5.large`` is by class (CPUs, instance type), ``kube-system/DaemonSet/dns/app/
n/node-a`` by node. Equal keys have equal texts, and the other way round: ``/``, ``%`` and NUL (which no database keeps)
within a part are escaped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent.core.cluster.workload import DAEMON_SET_KIND, Workload
from agent.core.history.reports.rollup import NodeClass

_CLASS: Final = "c"
_NODE: Final = "n"
_AFTER_SLASH: Final = "0"
_PARTS_BEFORE: Final = 4
"""Namespace, kind, name and container."""


@dataclass(frozen=True, slots=True)
class SketchKey:
    """The name of one history."""

    workload: Workload
    container: str
    place: NodeClass | str
    """A class of nodes, or one node by its name."""

    def __str__(self) -> str:
        """Return its text."""
        return "/".join((*map(_escape, (*_parts(self.workload), self.container)), _where(self.place)))


class KeyTexts:
    """The texts of ``keys_of`` for the rows of one report, which are often of one workload after the other."""

    def __init__(self, node: str, node_class: NodeClass) -> None:
        self._by_class = _where(node_class)
        self._by_node = _where(node)
        self._workload: Workload | None = None
        self._start = ""

    def of(self, workload: Workload, container: str) -> tuple[str, ...]:
        """Return the texts of the histories that a row belongs to."""
        if workload != self._workload:
            self._workload, self._start = workload, "/".join(map(_escape, _parts(workload)))
        start = f"{self._start}/{_escape(container)}/"
        if workload.kind != DAEMON_SET_KIND:
            return (start + self._by_class,)
        return start + self._by_class, start + self._by_node


def keys_of(workload: Workload, container: str, node: str, node_class: NodeClass) -> tuple[SketchKey, ...]:
    """Return the histories that a report's row belongs to: that of the class, and for DaemonSets that of the node."""
    by_class = SketchKey(workload, container, node_class)
    if workload.kind != DAEMON_SET_KIND:
        return (by_class,)
    return by_class, SketchKey(workload, container, node)


def _parts(workload: Workload) -> tuple[str, str, str]:
    return workload.namespace, workload.kind, workload.name


def _where(place: NodeClass | str) -> str:
    if isinstance(place, str):
        return f"{_NODE}/{_escape(place)}"
    if place.instance_type is None:
        return f"{_CLASS}/{place.cpus}"
    return f"{_CLASS}/{place.cpus}/{_escape(place.instance_type)}"


def range_of(workload: Workload) -> tuple[str, str]:
    """Return between which texts all keys of a workload lie, by their bytes: from the first, before the second."""
    start = "/".join(map(_escape, _parts(workload)))
    return f"{start}/", f"{start}{_AFTER_SLASH}"


def parse_key(text: str) -> SketchKey:
    """Read the text of a key.

    Raises:
        ValueError: It is none.
    """
    parts = [_unescape(part) for part in text.split("/")]
    named, where = parts[:_PARTS_BEFORE], parts[_PARTS_BEFORE:]
    place: NodeClass | str | None = None
    match where:
        case [kind, node] if kind == _NODE:
            place = node
        case [kind, cpus] if kind == _CLASS and cpus.isdecimal():
            place = NodeClass(instance_type=None, cpus=int(cpus))
        case [kind, cpus, instance_type] if kind == _CLASS and cpus.isdecimal():
            place = NodeClass(instance_type=instance_type, cpus=int(cpus))
    if place is None:
        msg = f"key {text!r} of a sketch: namespace/kind/name/container and c/CPUS, c/CPUS/TYPE or n/NODE is allowed"
        raise ValueError(msg)
    namespace, kind, name, container = named
    return SketchKey(Workload(namespace=namespace, kind=kind, name=name), container, place)


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")


def _unescape(part: str) -> str:
    return part.replace("%00", "\0").replace("%2F", "/").replace("%25", "%")
