"""Which nodes could go: all pods of today with recommended requests, on fewer nodes. Core, pure.

Node by node, the emptiest first, every pod of it is put on another node that it may use and that has room. Where each
finds one the node goes, and its pods stay where they were put while the next is looked at; so those that are said to go
can all go together. What is not worked out keeps a node: a node is never said to go on a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final

from agent.core.cluster.placement import PodPlacement, Selector
from agent.core.cost.allocation import CostNode, CostPod
from agent.core.cost.prices import NodePrice, summed

MOST_CHECKS: Final = 1_000_000
"""Pods against nodes, in all: some seconds at most. Nodes that are left then are said to be not worked out."""
CONTROL_PLANE_LABELS: Final = frozenset({"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"})
ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
PODS: Final = "pods"
_ANY_NAMESPACE: Final = ""
_NOT_KNOWN: Final[Mapping[str, Mapping[str, str]]] = {}
_MOST_WIDE_TERMS: Final = 200
"""Of one namespace or of all; a pod may have ten thousand, and each is held against each pod."""
_NANOS: Final = 1_000_000_000
_TOO_MANY: Final = "not worked out: there are too many nodes and pods to try them all"


class NoPlace(StrEnum):
    """Why a pod cannot be on a node."""

    NO_PODS = "take no pods now (cordoned or not Ready)"
    TAINT = "have a taint that it does not tolerate"
    LABELS = "have not the labels that it asks for"
    ZONE = "are not in the zone of its volume"
    APART = "have a pod that it must be apart from"
    PORT = "have its host port taken"
    ROOM = "have no room for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """A PodDisruptionBudget, as far as it matters here."""

    namespace: str
    name: str
    selector: Selector | None
    """None = it selects no pod."""
    allows: int
    """Disruptions now; pods go one after another, so one is enough for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoingNode:
    """A node that could go."""

    node: str
    hourly: Decimal
    moves: int
    """Pods that go elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StayingNode:
    """A node that could not."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFit:
    """Which nodes could go, and why not the others."""

    go: tuple[GoingNode, ...]
    """In the order in which they would go; all together."""
    stay: tuple[StayingNode, ...]
    """By name."""

    @property
    def saves(self) -> Decimal:
        """Return what those that could go cost an hour."""
        return summed(node.hourly for node in self.go)


@dataclass(slots=True, kw_only=True)
class _Room:
    """A node while it is looked at."""

    node: CostNode
    labels: Mapping[str, str]
    cpu_millicores: int
    """Free, as the others."""
    memory_bytes: int
    others: dict[str, int] = field(default_factory=dict)
    pods: list[CostPod] = field(default_factory=list)

    def put(self, pod: CostPod, sign: int = 1) -> None:
        """Add a pod, or with -1 remove it."""
        size = _size(pod)
        self.cpu_millicores -= sign * size[0]
        self.memory_bytes -= sign * size[1]
        for name, amount in (*pod.placement.other_requests, (PODS, _NANOS)):
            if name in self.others:
                self.others[name] -= sign * amount
        if sign > 0:
            self.pods.append(pod)
        else:
            self.pods.remove(pod)


def fit_nodes(
    nodes: Sequence[CostNode],
    pods: Iterable[CostPod],
    budgets: Iterable[DisruptionBudget],
    prices: Mapping[str, NodePrice],
    *,
    namespaces: Mapping[str, Mapping[str, str]] = _NOT_KNOWN,
    most_checks: int = MOST_CHECKS,
) -> ClusterFit:
    """Return which nodes could go; the order of what is given does not matter.

    Args:
        prices: Of nodes, by name; a node without one stays.
        namespaces: Their labels, by name; of one that is missing they are not known.
    """
    rooms = {
        node.name: _Room(
            node=node,
            labels=dict(node.placement.labels),
            cpu_millicores=node.allocatable.cpu_millicores,
            memory_bytes=node.allocatable.memory_bytes,
            others=dict(node.placement.other_allocatable),
        )
        for node in sorted(nodes, key=lambda node: node.name)
        if node.allocatable is not None
    }
    wide: dict[str, dict[Selector, str]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        if pod.node in rooms:
            rooms[pod.node].put(pod)
        for term in pod.placement.widely_apart_from if pod.node is not None else ():
            namespace = pod.namespace if term.is_of_namespace else _ANY_NAMESPACE
            wide.setdefault(namespace, {}).setdefault(term.selector, f"{pod.namespace}/{pod.name}")
    closed = [budget for budget in budgets if budget.allows <= 0 and budget.selector is not None]
    stay = {node.name: "what it can allocate is not known" for node in nodes if node.allocatable is None}
    go: list[GoingNode] = []
    emptiest_first = sorted(rooms, key=lambda name: (_fullness(rooms[name]), name))
    # Others are put on the fullest first: what is nearly empty can go too.
    looking = _Looking(rooms=rooms, fullest_first=emptiest_first[::-1], namespaces=namespaces, checks=most_checks)
    for name in emptiest_first:
        reason = _held(rooms[name], closed, wide, name in prices)
        if reason is None:
            moves = sum(1 for pod in rooms[name].pods if not pod.placement.is_of_node)
            reason = looking.empty(name)
            if reason is None:
                go.append(GoingNode(node=name, hourly=prices[name].hourly, moves=moves))
                continue
        stay[name] = reason
    return ClusterFit(
        go=tuple(go), stay=tuple(StayingNode(node=name, reason=reason) for name, reason in sorted(stay.items()))
    )


def _held(
    room: _Room, closed: Sequence[DisruptionBudget], wide: Mapping[str, Mapping[Selector, str]], has_price: bool
) -> str | None:
    """Return why a node is not even tried; None = nothing holds it.

    Args:
        wide: By namespace, which of its pods must be apart from another by more than the node, and that one's name.
    """
    if not has_price:
        return "its price is not known"
    if not CONTROL_PLANE_LABELS.isdisjoint(room.labels):
        return "it is of the control plane"
    for pod in room.pods:
        if pod.placement.is_of_node:
            continue
        named = f"pod {pod.namespace}/{pod.name}"
        if not pod.placement.has_controller:
            return f"{named} has no controller: nothing would make it anew"
        if pod.placement.held_for:
            return f"{named} {pod.placement.held_for}"
        labels = dict(pod.placement.labels)
        for namespace in (pod.namespace, _ANY_NAMESPACE):
            terms = wide.get(namespace, {})
            if len(terms) > _MOST_WIDE_TERMS:
                return f"{named}: more than {_MOST_WIDE_TERMS} terms of podAntiAffinity are not worked out"
            for selector, other in terms.items():
                if selector.may_select(labels):
                    return f"{named}: pod {other} must be apart from it (podAntiAffinity), which is not worked out"
        for budget in closed:
            if budget.namespace == pod.namespace and budget.selector and budget.selector.may_select(labels):
                return f"{named}: PodDisruptionBudget {budget.name} allows no disruption now"
    return None


@dataclass(slots=True, kw_only=True)
class _Looking:
    """The search for places."""

    rooms: dict[str, _Room]
    """That have not gone."""
    fullest_first: Sequence[str]
    """Of all, as they were at first."""
    namespaces: Mapping[str, Mapping[str, str]]
    checks: int
    """That are left."""

    def empty(self, name: str) -> str | None:
        """Move all pods of a node elsewhere and remove it; else leave all as it was and return why."""
        if self.checks <= 0:
            return _TOO_MANY
        leaving = self.rooms[name]
        moving = sorted(
            (pod for pod in leaving.pods if not pod.placement.is_of_node),
            key=lambda pod: (*(-amount for amount in _size(pod)), pod.namespace, pod.name),
        )
        others = [self.rooms[other] for other in self.fullest_first if other != name and other in self.rooms]
        put: list[tuple[_Room, CostPod]] = []
        reason = None
        for pod in moving:
            refusals: Counter[NoPlace] = Counter()
            for room in others:
                self.checks -= 1
                refusal = _refusal(pod, room, leaving)
                if refusal is None and self._is_apart(pod, room):
                    refusal = NoPlace.APART
                if refusal is None:
                    room.put(pod)
                    put.append((room, pod))
                if refusal is None or self.checks <= 0:
                    break
                refusals[refusal] += 1
            else:
                reason = _no_place(pod, refusals)
                break
            if self.checks <= 0:
                reason = _TOO_MANY
                break
        if reason is None:
            del self.rooms[name]
        else:
            for room, pod in put:
                room.put(pod, -1)
        return reason

    def _is_apart(self, pod: CostPod, room: _Room) -> bool:
        """Return whether a pod and one of a node must not share it; both ways, as the scheduler has it."""
        return any(self._bars(pod, other) or self._bars(other, pod) for other in room.pods)

    def _bars(self, pod: CostPod, other: CostPod) -> bool:
        terms = pod.placement.apart_from
        if not terms:  # most
            return False
        self.checks -= len(terms) - 1  # the one that pods mostly have is part of the check; they may have ten thousand
        if self.checks <= 0:
            return True  # the search ends with this
        labels, of_namespace = dict(other.placement.labels), self.namespaces.get(other.namespace)
        return any(
            term.may_mean(other.namespace, of_namespace, own_namespace=pod.namespace)
            and term.selector.may_select(labels)
            for term in terms
        )


def _no_place(pod: CostPod, refusals: Counter[NoPlace]) -> str:
    named = f"pod {pod.namespace}/{pod.name} fits on no other node"
    if not refusals:
        return f"{named}: there is none"
    return f"{named}: {', '.join(f'{refusals[why]} {why}' for why in NoPlace if refusals[why])}"


def _refusal(pod: CostPod, room: _Room, leaving: _Room) -> NoPlace | None:
    """Return why a pod cannot be on a node, whatever must be apart there; None = it can."""
    node, placement = room.node.placement, pod.placement
    if not node.takes_pods:
        return NoPlace.NO_PODS
    if any(not any(toleration.bears(taint) for toleration in placement.tolerations) for taint in node.taints):
        return NoPlace.TAINT
    if not _asks_for(placement, room.labels):
        return NoPlace.LABELS
    if placement.stays_in_zone and _zone(room.labels) != _zone(leaving.labels):
        return NoPlace.ZONE
    cpu, memory = _size(pod)
    if cpu > room.cpu_millicores or memory > room.memory_bytes:
        return NoPlace.ROOM
    if any(room.others.get(name, 0) < amount for name, amount in placement.other_requests):
        return NoPlace.ROOM
    if room.others.get(PODS, _NANOS) < _NANOS:
        return NoPlace.ROOM
    ports = set(placement.host_ports)
    if ports and any(not ports.isdisjoint(other.placement.host_ports) for other in room.pods):
        return NoPlace.PORT
    return None


def _asks_for(placement: PodPlacement, labels: Mapping[str, str]) -> bool:
    """Return whether a node has the labels that a pod asks for."""
    if any(labels.get(key) != value for key, value in placement.node_selector):
        return False
    terms = placement.node_terms
    return not terms or any(all(requirement.is_met(labels) for requirement in term) for term in terms)


def _size(pod: CostPod) -> tuple[int, int]:
    """Return what a pod would request: what is recommended, or what it requests now where nothing is."""
    requests = pod.sizes.recommended or pod.sizes.now
    return requests.cpu_millicores, requests.memory_bytes


def _fullness(room: _Room) -> Fraction:
    """Return how full a node is by the fuller of its resources, exactly: ties must not go by rounding."""
    allocatable = room.node.allocatable
    assert allocatable is not None  # noqa: S101 - rooms are made of such nodes alone
    return max(
        1 - Fraction(room.cpu_millicores, allocatable.cpu_millicores),
        1 - Fraction(room.memory_bytes, allocatable.memory_bytes),
    )


def _zone(labels: Mapping[str, str]) -> str:
    return next((labels[key] for key in ZONE_LABELS if labels.get(key)), "")
