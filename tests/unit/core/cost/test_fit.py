"""Which nodes could go: each rule that keeps one, and what the search does."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.facts import NodeAmounts
from agent.core.cluster.node import Taint
from agent.core.cluster.placement import (
    NodeAntiAffinity,
    NodePlacement,
    Operator,
    PodPlacement,
    Requirement,
    Selector,
    Toleration,
    WideAntiAffinity,
)
from agent.core.cluster.workload import Workload
from agent.core.cost.allocation import CostNode, CostPod, PodRequests, PodSizes, allocate
from agent.core.cost.fit import ClusterFit, DisruptionBudget, fit_nodes
from agent.core.cost.prices import Prices
from tests.cost_sheet import PRICES, selector, sheet_nodes, sheet_pods

GIB = 1 << 30


def node(name: str, cpu: int = 4000, **placement: Any) -> CostNode:
    amounts = NodeAmounts(cpu_millicores=cpu, memory_bytes=16 * GIB)
    return CostNode(name=name, capacity=amounts, allocatable=amounts, placement=NodePlacement(**placement))


def pod(name: str, on: str | None, cpu: int = 1000, memory: int = GIB, **placement: Any) -> CostPod:
    now = PodRequests(cpu_millicores=cpu, memory_bytes=memory)
    return CostPod(
        namespace="shop",
        name=name,
        workload=Workload(namespace="shop", kind="Deployment", name="web"),
        node=on,
        sizes=PodSizes(now=now, written=now, recommended=None),
        placement=PodPlacement(**placement),
    )


def fitted(nodes: list[CostNode], pods: list[CostPod], *budgets: DisruptionBudget, **more: Any) -> ClusterFit:
    prices = {node_cost.name: node_cost.price for node_cost in allocate(nodes, [], Prices()).nodes}
    return fit_nodes(nodes, pods, budgets, prices, **more)


def gone(fit: ClusterFit) -> list[str]:
    return [going_node.node for going_node in fit.go]


def reasons(fit: ClusterFit) -> dict[str, str]:
    return {staying_node.node: staying_node.reason for staying_node in fit.stay}


def test_of_the_sheet_one_node_could_go() -> None:
    nodes, pods = sheet_nodes(), sheet_pods()
    prices = {node_cost.name: node_cost.price for node_cost in allocate(nodes, pods, PRICES).nodes}
    fit = fit_nodes(nodes, pods, [], prices)
    assert [(going_node.node, going_node.moves) for going_node in fit.go] == [("n3", 3)]
    assert PRICES.month(fit.saves) == Decimal("350.4")
    assert reasons(fit) == {
        "n1": "pod bank/db-0 fits on no other node: 1 have no room for it",
        "n2": "pod bank/batch-1 fits on no other node: 1 have no room for it",
    }


def test_several_go_together_and_the_last_stays() -> None:
    """Four nodes of 4 cores with a pod of 1 core each: all four pods are on one."""
    nodes = [node(name) for name in "abcd"]
    fit = fitted(nodes, [pod(f"web-{name}", name) for name in "abcd"])
    assert gone(fit) == ["a", "b", "c"]
    assert [going_node.moves for going_node in fit.go] == [1, 1, 1]
    assert reasons(fit) == {"d": "pod shop/web-a fits on no other node: there is none"}


def test_a_try_that_fails_leaves_all_as_it_was() -> None:
    """Of a's pods one finds room on b, the other none. Then c's 1.99 cores fit beside b's 2: that was given back."""
    nodes = [node("a", takes_pods=False), node("b"), node("c")]
    pods = [
        pod("big", "a", 1800),
        pod("other", "a", 150, node_selector=(("zone", "nowhere"),)),
        pod("b-1", "b", 2000),
        pod("c-1", "c", 1990),
    ]
    fit = fitted(nodes, pods)
    assert reasons(fit)["a"] == "pod shop/other fits on no other node: 2 have not the labels that it asks for"
    assert gone(fit) == ["c"]


def test_pods_of_the_node_go_with_it_and_those_on_none_count_nowhere() -> None:
    nodes = [node("a"), node("b")]
    agents = [pod(f"agent-{name}", name, 3900, is_of_node=True) for name in "ab"]
    fit = fitted(nodes, [*agents, pod("w", None)])
    assert gone(fit) == ["a", "b"]


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ({"has_controller": False}, "pod shop/web-1 has no controller: nothing would make it anew"),
        ({"held_for": "is not to be moved (annotation x)"}, "pod shop/web-1 is not to be moved (annotation x)"),
        ({"labels": (("app", "web"),)}, "pod shop/web-1: PodDisruptionBudget web allows no disruption now"),
    ],
)
def test_what_holds_a_pod_holds_its_node(placement: dict[str, Any], said: str) -> None:
    budgets = [
        DisruptionBudget(namespace="bank", name="else", selector=Selector(), allows=0),
        DisruptionBudget(namespace="shop", name="none", selector=None, allows=0),
        DisruptionBudget(namespace="shop", name="open", selector=Selector(), allows=1),
        DisruptionBudget(namespace="shop", name="web", selector=selector(app="web"), allows=0),
    ]
    fit = fitted([node("a"), node("b")], [pod("web-1", "a", **placement)], *budgets)
    assert reasons(fit)["a"] == said
    assert gone(fit) == ["b"]


def test_nodes_that_are_not_tried() -> None:
    nodes = [
        node("control", labels=(("node-role.kubernetes.io/control-plane", ""),)),
        replace(node("new"), allocatable=None),
        replace(node("odd"), capacity=None),
    ]
    assert reasons(fitted(nodes, [])) == {
        "control": "it is of the control plane",
        "new": "what it can allocate is not known",
        "odd": "its price is not known",
    }


ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("target", "placement", "said"),
    [
        ({"takes_pods": False}, {}, "take no pods now (cordoned or not Ready)"),
        (
            {"taints": (Taint(key="k", effect="NoSchedule"),)},
            {"tolerations": (Toleration(key="j"),)},
            "have a taint that it does not tolerate",
        ),
        ({}, {"node_selector": (("disk", "ssd"),)}, "have not the labels that it asks for"),
        (
            {"labels": (("disk", "hdd"),)},
            {"node_terms": ((Requirement(key="disk", operator=Operator.IN, values=("ssd",)),),)},
            "have not the labels that it asks for",
        ),
        ({"labels": ((ZONE, "other"),)}, {"stays_in_zone": True}, "are not in the zone of its volume"),
        ({"other_allocatable": (("pods", 0),)}, {}, "have no room for it"),
        ({}, {"other_requests": (("nvidia.com/gpu", 10**9),)}, "have no room for it"),
    ],
)
def test_why_a_pod_cannot_be_elsewhere(target: dict[str, Any], placement: dict[str, Any], said: str) -> None:
    nodes = [node("a"), replace(node("b"), placement=NodePlacement(**target))]
    pods = [pod("web-1", "a", 100, **placement), pod("b-1", "b", 500, held_for="stays")]
    assert reasons(fitted(nodes, pods))["a"] == f"pod shop/web-1 fits on no other node: 1 {said}"


def test_what_a_pod_bears_and_asks_for_is_found() -> None:
    target = NodePlacement(
        labels=(("disk", "ssd"), (ZONE, "x")),
        taints=(Taint(key="k", effect="NoSchedule", value="v"),),
        other_allocatable=(("nvidia.com/gpu", 2 * 10**9), ("pods", 10 * 10**9)),
    )
    nodes = [node("a", labels=((ZONE, "x"),)), replace(node("b"), placement=target)]
    mover = pod(
        "web-1",
        "a",
        100,
        node_selector=(("disk", "ssd"),),
        node_terms=(
            (Requirement(key="no", operator=Operator.EXISTS),),
            (Requirement(key="disk", operator=Operator.EXISTS),),
        ),
        tolerations=(Toleration(key="k", value="v"),),
        other_requests=(("nvidia.com/gpu", 10**9),),
        stays_in_zone=True,
    )
    assert gone(fitted(nodes, [mover, pod("b-1", "b", 500, held_for="stays")])) == ["a"]


def test_host_ports_and_pods_to_be_apart_from_keep_a_pod_away() -> None:
    nodes = [node("a"), node("b")]

    def told(mover: dict[str, Any], other: dict[str, Any]) -> str | None:
        pods = [pod("web-1", "a", 100, **mover), pod("web-2", "b", 500, **{"held_for": "stays", **other})]
        return reasons(fitted(nodes, pods)).get("a")

    assert told({"host_ports": (80,)}, {"host_ports": (81,)}) is None
    assert told({"host_ports": (80,)}, {"host_ports": (80,)}) == (
        "pod shop/web-1 fits on no other node: 1 have its host port taken"
    )
    web: dict[str, Any] = {"labels": (("app", "web"),)}
    apart: dict[str, Any] = {"apart_from": (NodeAntiAffinity(selector=selector(app="web")),)}
    said = "pod shop/web-1 fits on no other node: 1 have a pod that it must be apart from"
    assert told({**apart}, web) == said
    assert told(web, {**apart}) == said
    assert told({**apart}, {}) is None
    elsewhere = replace(pod("web-2", "b", 500, held_for="stays", **web), namespace="bank")
    assert gone(fitted(nodes, [pod("web-1", "a", 100, **apart), elsewhere])) == ["a"]


@pytest.mark.parametrize(
    ("chosen", "is_apart"),
    [
        ({}, False),
        ({"namespaces": ("bank",)}, False),
        ({"namespaces": ("bank", "shop")}, True),
        ({"namespace_selector": Selector()}, True),
        ({"namespace_selector": selector(team="blue")}, True),
        ({"namespace_selector": selector(team="green")}, False),
        ({"namespace_selector": selector(team="green"), "namespaces": ("shop",)}, True),
    ],
)
def test_a_pod_is_kept_apart_by_node_from_those_of_other_namespaces(chosen: dict[str, Any], is_apart: bool) -> None:
    nodes, blue = [node("a"), node("b")], {"shop": {"team": "blue"}}
    term = NodeAntiAffinity(selector=selector(app="web"), **chosen)
    web = pod("web-1", "a", 100, labels=(("app", "web"),))
    db = replace(pod("db-0", "b", 500, held_for="stays", apart_from=(term,)), namespace="data")
    said = "pod shop/web-1 fits on no other node: 1 have a pod that it must be apart from"
    assert reasons(fitted(nodes, [web, db], namespaces=blue)).get("a") == (said if is_apart else None)
    beside = pod("c-1", "c", 200, held_for="stays")
    assert gone(fitted([*nodes, node("c")], [web, db, beside], namespaces=blue)) == ["a"]
    web, db = pod("web-1", "b", 100, held_for="stays", labels=(("app", "web"),)), replace(db, node="a")
    db = replace(db, placement=PodPlacement(apart_from=(term,)))
    said = "pod data/db-0 fits on no other node: 1 have a pod that it must be apart from"
    assert reasons(fitted(nodes, [web, db], namespaces=blue)).get("a") == (said if is_apart else None)


def test_a_namespace_whose_labels_are_not_known_may_be_meant() -> None:
    term = NodeAntiAffinity(selector=selector(app="web"), namespace_selector=selector(team="green"))
    db = pod("db-0", "b", 500, held_for="stays", apart_from=(term,))
    fit = fitted([node("a"), node("b")], [pod("web-1", "a", 100, labels=(("app", "web"),)), db])
    assert reasons(fit)["a"] == "pod shop/web-1 fits on no other node: 1 have a pod that it must be apart from"


def test_terms_count_among_what_a_search_may_take() -> None:
    terms = tuple(NodeAntiAffinity(selector=selector(app=f"app-{number}")) for number in range(100))
    pods = [pod("web-1", "a", 100), pod("db-0", "b", 500, held_for="stays", apart_from=terms)]
    said = "not worked out: there are too many nodes and pods to try them all"
    assert reasons(fitted([node("a"), node("b")], pods, most_checks=100))["a"] == said
    assert gone(fitted([node("a"), node("b")], pods, most_checks=101)) == ["a"]


@pytest.mark.parametrize(
    ("is_of_namespace", "other", "holds"),
    [
        (True, {}, True),
        (False, {}, True),
        (True, {"namespace": "bank"}, False),
        (False, {"namespace": "bank"}, True),
        (False, {"node": "not-known"}, True),
        (False, {"node": None}, False),
    ],
)
@pytest.mark.parametrize("is_of_node", [False, True])
def test_a_pod_that_another_must_be_apart_from_over_a_zone_is_not_moved(
    is_of_namespace: bool, other: dict[str, Any], holds: bool, is_of_node: bool
) -> None:
    """The zone of b has c too, so web would be refused there; and which nodes are in a zone is not worked out."""
    nodes = [node("a"), node("b", labels=((ZONE, "x"),)), node("c", labels=((ZONE, "x"),))]
    wide = tuple(
        WideAntiAffinity(selector=selector(app=app), is_of_namespace=is_of_namespace) for app in ("batch", "web")
    )
    db = pod("db-0", "b", 4000, held_for="stays", is_of_node=is_of_node, widely_apart_from=wide)
    web, stays = pod("web-1", "a", 100, labels=(("app", "web"),)), pod("c-1", "c", 500, held_for="stays")
    name = f"{other.get('namespace', 'shop')}/db-0"
    said = f"pod shop/web-1: pod {name} must be apart from it (podAntiAffinity)"
    fit = fitted(nodes, [web, stays, replace(db, **other)])
    assert reasons(fit).get("a") == (f"{said}, which is not worked out" if holds else None)


def test_more_terms_than_can_be_held_against_each_pod_keep_all_of_the_namespace() -> None:
    wide = tuple(
        WideAntiAffinity(selector=selector(app=f"app-{number}"), is_of_namespace=True) for number in range(201)
    )
    db, web = pod("db-0", "b", 500, held_for="stays", widely_apart_from=wide), pod("web-1", "a", 100)
    said = "pod shop/web-1: more than 200 terms of podAntiAffinity are not worked out"
    assert reasons(fitted([node("a"), node("b")], [web, db]))["a"] == said
    fewer = replace(db, placement=replace(db.placement, widely_apart_from=wide[1:]))
    assert gone(fitted([node("a"), node("b")], [web, fewer])) == ["a"]


def test_a_pod_that_nobody_must_be_apart_from_is_moved() -> None:
    wide = (WideAntiAffinity(selector=selector(app="web"), is_of_namespace=False),)
    pods = [pod("api-1", "a", 100), pod("db-0", "b", 500, held_for="stays", widely_apart_from=wide)]
    assert gone(fitted([node("a"), node("b")], pods)) == ["a"]


def test_recommended_requests_are_what_has_to_fit() -> None:
    nodes = [node("a"), node("b")]
    small = PodSizes(
        now=PodRequests(cpu_millicores=3000, memory_bytes=GIB),
        written=PodRequests(cpu_millicores=3000, memory_bytes=GIB),
        recommended=PodRequests(cpu_millicores=500, memory_bytes=GIB),
    )
    pods = [replace(pod(f"web-{name}", name), sizes=small) for name in "ab"]
    assert gone(fitted(nodes, pods)) == ["a"]
    assert gone(fitted(nodes, [pod(f"web-{name}", name, 3000) for name in "ab"])) == []


def test_a_search_that_takes_too_long_says_so() -> None:
    fit = fitted([node("a"), node("b")], [pod("web-1", "a"), pod("web-2", "b")], most_checks=1)
    assert gone(fit) == []
    assert set(reasons(fit).values()) == {"not worked out: there are too many nodes and pods to try them all"}


PODS = st.builds(
    lambda number, on, cpu, memory, is_of_node: pod(f"p{number}", on, cpu, memory * GIB, is_of_node=is_of_node),
    st.integers(0, 1000),
    st.sampled_from("abcd"),
    st.integers(0, 1500),
    st.integers(0, 5),
    st.booleans(),
)


@given(st.lists(PODS, max_size=16, unique_by=lambda cost_pod: cost_pod.name), st.randoms())
def test_what_is_left_has_room_for_all_and_order_does_not_matter(pods: list[CostPod], order: random.Random) -> None:
    nodes = [node(name) for name in "abcd"]
    fit = fitted(nodes, pods)
    turned, shuffled = list(nodes), list(pods)
    order.shuffle(turned)
    order.shuffle(shuffled)
    assert fitted(turned, shuffled) == fit
    assert len(fit.go) + len(fit.stay) == len(nodes)
    gone_nodes = set(gone(fit))
    moving = [cost_pod for cost_pod in pods if not (cost_pod.placement.is_of_node and cost_pod.node in gone_nodes)]
    staying = len(nodes) - len(gone_nodes)
    overfull = any(
        sum(cost_pod.sizes.now.cpu_millicores for cost_pod in pods if cost_pod.node == name) > 4000
        or sum(cost_pod.sizes.now.memory_bytes for cost_pod in pods if cost_pod.node == name) > 16 * GIB
        for name in "abcd"
    )
    if gone_nodes and not overfull:
        assert sum(cost_pod.sizes.now.cpu_millicores for cost_pod in moving) <= 4000 * staying
        assert sum(cost_pod.sizes.now.memory_bytes for cost_pod in moving) <= 16 * GIB * staying
