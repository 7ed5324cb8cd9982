"""The cluster's nodes as far as the webhook asks, and what all their kubelets can. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.cluster.facts import NodeAmounts, largest_of, smallest_of
from agent.kube.objects.cluster_json import NodeFacts


def largest_allocatable(nodes: Iterable[NodeFacts]) -> NodeAmounts | None:
    """Return the most that any node can allocate, of each resource; None = no node states it."""
    return largest_of(node.allocatable for node in nodes if node.allocatable is not None)


def smallest_capacity(nodes: Iterable[NodeFacts]) -> NodeAmounts | None:
    """Return the least that any node has, of each resource; None = no node states it."""
    return smallest_of(node.capacity for node in nodes if node.capacity is not None)


def all_take_pod_resources(nodes: Iterable[NodeFacts]) -> bool:
    """Return whether a pod may have resources of its own wherever it is put; False where no Linux node is known."""
    takes = [node.takes_pod_resources for node in nodes if node.takes_pod_resources is not None]
    return bool(takes) and all(takes)


def all_resize(nodes: Iterable[NodeFacts]) -> bool:
    """Return whether a pod is resized in place wherever it is put; False where no Linux node is known."""
    resize = [node.resizes_in_place for node in nodes if node.resizes_in_place is not None]
    return bool(resize) and all(resize)
