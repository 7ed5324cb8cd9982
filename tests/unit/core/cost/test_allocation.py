"""Who pays what: the sheet of tests/data/cost/by-hand.md, and what must hold of any cluster."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.facts import NodeAmounts
from agent.core.cluster.placement import PodPlacement
from agent.core.cluster.workload import Workload
from agent.core.cost.allocation import (
    Allocation,
    CostNode,
    CostPod,
    PodRequests,
    PodSizes,
    allocate,
    by_namespace,
    together,
)
from agent.core.cost.prices import Prices, parse_rules, summed
from tests.cost_sheet import IDLE, MONTH, NAMESPACES, NODES, PRICES, TOTAL, sheet_nodes, sheet_pods

GIB = 1 << 30


def pod(name: str, node: str | None, cpu: int, memory: int, namespace: str = "shop", **sizes: PodRequests) -> CostPod:
    now = PodRequests(cpu_millicores=cpu, memory_bytes=memory)
    return CostPod(
        namespace=namespace,
        name=name,
        workload=Workload(namespace=namespace, kind="Deployment", name=name.partition("-")[0]),
        node=node,
        sizes=PodSizes(now=now, written=sizes.get("written", now), recommended=sizes.get("recommended")),
        placement=PodPlacement(),
    )


def node(name: str, cpu: int = 4000, memory: int = 16 * GIB) -> CostNode:
    amounts = NodeAmounts(cpu_millicores=cpu, memory_bytes=memory)
    return CostNode(name=name, capacity=amounts, allocatable=amounts)


def test_the_sheet_is_what_was_worked_out_by_hand() -> None:
    allocation = allocate(sheet_nodes(), sheet_pods(), PRICES)
    assert {key[0]: PRICES.month(figures.cost) for key, figures in by_namespace(allocation.groups).items()} == {
        name: Decimal(month) for name, month in NAMESPACES.items()
    }
    assert {
        node_cost.name: (node_cost.price.hourly * MONTH, node_cost.idle * MONTH) for node_cost in allocation.nodes
    } == {name: (Decimal(month), Decimal(idle)) for name, (month, idle) in NODES.items()}
    assert (PRICES.month(allocation.hourly), PRICES.month(allocation.idle)) == (Decimal(TOTAL), Decimal(IDLE))
    assert not allocation.is_list_price
    # 0.75 cores of two pods; 0.03 + 0.0075; 0.00625 + 0.03
    total = allocation.total
    assert (total.freed, total.possible, total.needed) == (Decimal("0.075"), Decimal("0.0375"), Decimal("0.03625"))
    assert (total.pods, total.pods_without_advice) == (12, 5)


def test_freed_possible_and_needed_are_never_netted() -> None:
    """More CPU and less memory than now, and the other way round: both figures stand."""
    prices = Prices(cpu_core_hour=Decimal("0.04"), memory_gib_hour=Decimal("0.005"))
    sizes: dict[str, Any] = {
        "written": PodRequests(cpu_millicores=2000, memory_bytes=GIB),
        "recommended": PodRequests(cpu_millicores=1500, memory_bytes=GIB),
    }
    total = allocate([node("a")], [pod("web-1", "a", 1000, 3 * GIB, **sizes)], prices).total
    # freed 1 core = 0.04 (memory grew: nothing); possible 2 GiB = 0.01; needed 0.5 cores = 0.02
    assert (total.freed, total.possible, total.needed) == (Decimal("0.04"), Decimal("0.01"), Decimal("0.02"))
    assert total.cost == Decimal("0.055")


def test_what_has_no_price_counts_nowhere_and_is_told() -> None:
    pods = [pod("a-1", None, 1, 1), pod("b-1", "gone", 1, 1), pod("c-1", "new", 1, 1), pod("d-1", "old", 1000, GIB)]
    allocation = allocate([replace(node("new"), capacity=None), node("old")], pods, Prices())
    assert (allocation.unpriced_nodes, allocation.total.pods) == (("new",), 1)
    assert (allocation.unpriced, allocation.unplaced) == ({"shop": 2}, {"shop": 1})
    assert allocation.is_list_price
    assert allocate([], [], Prices()).hourly == 0


PODS = st.builds(
    lambda name, on, namespace, cpu, memory, more, less: pod(
        f"p{name}",
        on,
        cpu,
        memory,
        namespace,
        written=PodRequests(cpu_millicores=more, memory_bytes=less),
        recommended=PodRequests(cpu_millicores=less, memory_bytes=more),
    ),
    st.integers(0, 99),
    st.sampled_from(["a", "b", "c", "d", None]),
    st.sampled_from(["x", "y", "z"]),
    st.integers(0, 64_000),
    st.integers(0, 1 << 38),
    st.integers(0, 1 << 38),
    st.integers(0, 64_000),
)
NODES_OF_ANY_SIZE = st.tuples(st.integers(1, 256_000), st.integers(1, 1 << 42))


@given(st.lists(PODS, max_size=30), st.lists(NODES_OF_ANY_SIZE, min_size=3, max_size=3), st.randoms())
def test_groups_and_idle_are_the_nodes_exactly_in_any_order(
    pods: list[CostPod], sizes: list[tuple[int, int]], order: random.Random
) -> None:
    nodes = [node(name, cpu, memory) for name, (cpu, memory) in zip("abc", sizes, strict=True)]
    prices = Prices(rules=parse_rules("kubernetes.io/hostname=a:0.333333"))
    allocation = allocate(nodes, pods, prices)
    _holds(allocation)
    shuffled, turned = list(pods), list(nodes)
    order.shuffle(shuffled)
    order.shuffle(turned)
    assert allocate(turned, shuffled, prices) == allocation
    assert list(allocate(turned, shuffled, prices).groups) == list(allocation.groups)


def _holds(allocation: Allocation) -> None:
    for groups in (allocation.groups, by_namespace(allocation.groups)):
        assert summed((together(groups.values()).cost, allocation.idle)) == allocation.hourly
        assert summed(figures.cost for figures in groups.values()) == allocation.total.cost
    for group in allocation.groups.values():
        assert min(group.freed, group.possible, group.needed) >= 0
