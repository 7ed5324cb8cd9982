"""What pods cost by what they request, what nobody requests, and what sizing freed, could free and needs. Core, pure.

Freed is what was written less what is requested now; possible is what is requested less what is recommended; needed is
what is recommended beyond what is requested. Each counts only where it is above 0, of each pod and resource, and none
is ever taken from another. None of the three changes a bill: only a node that goes does (``fit``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from agent.core.cluster.facts import NodeAmounts
from agent.core.cluster.placement import NodePlacement, PodPlacement
from agent.core.cluster.workload import Workload
from agent.core.cost.prices import NodePrice, Prices, less, summed

NOTHING: Final = Decimal(0)
GroupKey = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostNode:
    """A node, as far as its price asks and which pods it takes."""

    name: str
    capacity: NodeAmounts | None
    """None = not reported yet: it has no price."""
    allocatable: NodeAmounts | None
    placement: NodePlacement = field(default_factory=NodePlacement)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequests:
    """What a pod requests in all."""

    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSizes:
    """What a pod requests, requested and should request."""

    now: PodRequests
    written: PodRequests
    """Before any sizing, as far as that is known; else as now."""
    recommended: PodRequests | None
    """None = a container of it has no advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPod:
    """A pod that has not ended."""

    namespace: str
    name: str
    workload: Workload
    node: str | None
    """None = it has none yet, and costs nothing."""
    sizes: PodSizes
    placement: PodPlacement = field(default_factory=PodPlacement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Money an hour; exact sums."""

    pods: int = 0
    cpu: Decimal = NOTHING
    memory: Decimal = NOTHING
    freed: Decimal = NOTHING
    possible: Decimal = NOTHING
    needed: Decimal = NOTHING
    pods_without_advice: int = 0
    is_list_price: bool = False

    @property
    def cost(self) -> Decimal:
        """Return what it costs in all."""
        return summed((self.cpu, self.memory))

    def times(self, count: int) -> Figures:
        """Return those of so many alike; exact, as all sums are."""
        return Figures(
            pods=self.pods * count,
            cpu=self.cpu * count,
            memory=self.memory * count,
            freed=self.freed * count,
            possible=self.possible * count,
            needed=self.needed * count,
            pods_without_advice=self.pods_without_advice * count,
            is_list_price=self.is_list_price,
        )

    def plus(self, other: Figures) -> Figures:
        """Return both together."""
        return Figures(
            pods=self.pods + other.pods,
            cpu=summed((self.cpu, other.cpu)),
            memory=summed((self.memory, other.memory)),
            freed=summed((self.freed, other.freed)),
            possible=summed((self.possible, other.possible)),
            needed=summed((self.needed, other.needed)),
            pods_without_advice=self.pods_without_advice + other.pods_without_advice,
            is_list_price=self.is_list_price or other.is_list_price,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCost:
    """One node, and its pods together."""

    name: str
    price: NodePrice
    figures: Figures

    @property
    def idle(self) -> Decimal:
        """Return what nobody requests; below 0 where pods request more than the node has."""
        return less(self.price.hourly, self.figures.cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The whole cluster, priced. The nodes' prices are the sum of all groups' costs and all idle, exactly."""

    nodes: tuple[NodeCost, ...]
    """By name."""
    groups: Mapping[GroupKey, Figures]
    """In order of the key."""
    unpriced_nodes: tuple[str, ...]
    """Of which no capacity is known; neither they nor their pods count."""
    unpriced: Mapping[str, int]
    """Pods on a node that is not known, or has no price, by namespace."""
    unplaced: Mapping[str, int]
    """Pods on no node yet, by namespace."""

    @property
    def hourly(self) -> Decimal:
        """Return what all nodes cost."""
        return summed(node.price.hourly for node in self.nodes)

    @property
    def idle(self) -> Decimal:
        """Return what nobody requests of all nodes."""
        return summed(node.idle for node in self.nodes)

    @property
    def total(self) -> Figures:
        """Return the figures of all pods together."""
        return together(node.figures for node in self.nodes)

    @property
    def is_list_price(self) -> bool:
        """Return whether some node has no better price than a list's."""
        return any(node.price.is_list_price for node in self.nodes)


def by_workload(pod: CostPod) -> GroupKey:
    """Return the key of a pod's workload."""
    return pod.workload.namespace, pod.workload.kind, pod.workload.name


def allocate(
    nodes: Iterable[CostNode],
    pods: Iterable[CostPod],
    prices: Prices,
    *,
    key: Callable[[CostPod], GroupKey] = by_workload,
) -> Allocation:
    """Price all nodes, and share their prices out among their pods; the order of both does not matter.

    Args:
        pods: Walked once, and not kept.
        key: What groups of pods are made by.
    """
    priced, unpriced = _priced(nodes, prices)
    alike: Counter[tuple[str, GroupKey, PodSizes]] = Counter()
    unplaced: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for pod in pods:
        if pod.node is None:
            unplaced[pod.namespace] += 1
        elif pod.node not in priced:
            lost[pod.namespace] += 1
        else:
            alike[pod.node, key(pod), pod.sizes] += 1
    by_node = dict.fromkeys(priced, Figures())
    groups: dict[GroupKey, Figures] = {}
    for (node, group, sizes), count in alike.items():
        figures = pod_figures(sizes, priced[node]).times(count)
        by_node[node] = by_node[node].plus(figures)
        groups[group] = groups.get(group, Figures()).plus(figures)
    return Allocation(
        nodes=tuple(NodeCost(name=name, price=priced[name], figures=by_node[name]) for name in sorted(priced)),
        groups=dict(sorted(groups.items())),
        unpriced_nodes=unpriced,
        unpriced=lost,
        unplaced=unplaced,
    )


def pod_figures(sizes: PodSizes, price: NodePrice) -> Figures:
    """Return what one pod costs on a node of a price."""
    now, written, recommended = sizes.now, sizes.written, sizes.recommended or sizes.now
    return Figures(
        pods=1,
        cpu=price.cpu(now.cpu_millicores),
        memory=price.memory(now.memory_bytes),
        freed=_more(written, now, price),
        possible=_more(now, recommended, price),
        needed=_more(recommended, now, price),
        pods_without_advice=int(sizes.recommended is None),
        is_list_price=price.is_list_price,
    )


def together(parts: Iterable[Figures]) -> Figures:
    """Return the figures of several as one."""
    total = Figures()
    for part in parts:
        total = total.plus(part)
    return total


def by_namespace(groups: Mapping[GroupKey, Figures]) -> dict[GroupKey, Figures]:
    """Return the figures of namespaces from those of workloads."""
    totals: dict[GroupKey, Figures] = {}
    for key, figures in groups.items():
        totals[key[:1]] = totals.get(key[:1], Figures()).plus(figures)
    return dict(sorted(totals.items()))


def _more(requests: PodRequests, other: PodRequests, price: NodePrice) -> Decimal:
    """Return what it costs that one requests more than another, of each resource by itself."""
    return summed(
        (
            price.cpu(max(requests.cpu_millicores - other.cpu_millicores, 0)),
            price.memory(max(requests.memory_bytes - other.memory_bytes, 0)),
        )
    )


def _priced(nodes: Iterable[CostNode], prices: Prices) -> tuple[dict[str, NodePrice], tuple[str, ...]]:
    priced: dict[str, NodePrice] = {}
    unpriced = []
    for node in nodes:
        if node.capacity is None:
            unpriced.append(node.name)
        else:
            placement = node.placement
            priced[node.name] = prices.node_price(
                node.capacity, dict(placement.labels), name=node.name, provider_id=placement.provider_id
            )
    return priced, tuple(sorted(unpriced))
