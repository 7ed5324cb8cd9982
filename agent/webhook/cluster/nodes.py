"""The cluster's nodes as far as the webhook asks, and what all their kubelets can. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.facts import NodeAmounts, largest_of, smallest_of
from agent.core.cluster.versions import parse_version
from agent.core.machine.pod_limits import POD_LEVEL
from agent.kube.cluster_json import NodeFacts, node_facts_from_json
from agent.kube.json_reader import Reader

_WINDOWS: Final = "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode(NodeFacts):
    """A node, and whether its kubelet takes pods with resources of their own; its version is not kept."""

    takes_pod_resources: bool | None
    """None = it runs Windows, where no pod may have them. False also where the version is not stated or odd."""


def known_node_from_json(document: object) -> KnownNode:
    """Read a node.

    Raises:
        ConvertError: A value is malformed.

    Source:
        KEP-2837: ``spec.resources`` is on by default from 1.34. An older kubelet runs such a pod without the limits,
        or refuses it (PodLevelResourcesNotSupported).
    """
    facts = node_facts_from_json(document)
    info = Reader(document, "").child("status").child("nodeInfo")
    version = parse_version(info.text("kubeletVersion"))
    takes = version is not None and version >= POD_LEVEL
    return KnownNode(
        name=facts.name,
        node_class=facts.node_class,
        is_overloaded=facts.is_overloaded,
        capacity=facts.capacity,
        allocatable=facts.allocatable,
        takes_pod_resources=None if info.text("operatingSystem") == _WINDOWS else takes,
    )


def largest_allocatable(nodes: Iterable[KnownNode]) -> NodeAmounts | None:
    """Return the most that any node can allocate, of each resource; None = no node states it."""
    return largest_of(node.allocatable for node in nodes if node.allocatable is not None)


def smallest_capacity(nodes: Iterable[KnownNode]) -> NodeAmounts | None:
    """Return the least that any node has, of each resource; None = no node states it."""
    return smallest_of(node.capacity for node in nodes if node.capacity is not None)


def all_take_pod_resources(nodes: Iterable[KnownNode]) -> bool:
    """Return whether a pod may have resources of its own wherever it is put; False where no Linux node is known."""
    takes = [node.takes_pod_resources for node in nodes if node.takes_pod_resources is not None]
    return bool(takes) and all(takes)
