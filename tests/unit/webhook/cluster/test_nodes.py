"""What the nodes' kubelets can; tests/cluster/test_webhook_quota.py has a real server's nodes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from agent.core.cluster.facts import NodeAmounts
from agent.kube.client.api import Stream
from agent.kube.objects.cluster_json import NodeFacts, node_facts_from_json
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.cluster.nodes import (
    all_take_pod_resources,
    largest_allocatable,
    smallest_capacity,
)
from tests.fake_api import FakeApi


def node(version: object = "v1.34.0", system: str = "linux", name: str = "node-a", **info: object) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "status": {
            "capacity": {"cpu": "8"},
            "nodeInfo": {"kubeletVersion": version, "operatingSystem": system, **info},
        },
    }


@pytest.mark.parametrize(
    ("document", "takes"),
    [
        (node("v1.34.0"), True),
        (node("v1.34.2-eks-1a2b"), True),
        (node("v1.37.1"), True),
        (node("v2.0.0"), True),
        (node("v1.33.9"), False),
        (node("v1.9.0"), False),
        (node(""), False),
        (node("newest"), False),
        (node(None), False),
        ({"metadata": {"name": "just-made"}}, False),
        (node("v1.33.9", "windows"), None),
        (node("v1.37.1", "windows"), None),
        (node("v1.33.9", ""), False),
    ],
)
def test_a_kubelet_takes_pods_with_own_resources_from_1_34_on(document: dict[str, Any], takes: bool | None) -> None:
    assert node_facts_from_json(document).takes_pod_resources is takes


def known(*versions: str) -> list[NodeFacts]:
    return [node_facts_from_json(node(version)) for version in versions]


def test_one_kubelet_that_is_older_counts_for_all() -> None:
    windows = node_facts_from_json(node("v1.30.0", "windows"))
    assert all_take_pod_resources([*known("v1.34.0", "v1.35.1"), windows])
    assert not all_take_pod_resources(known("v1.34.0", "v1.33.9", "v1.34.0"))
    assert not all_take_pod_resources([])
    assert not all_take_pod_resources([windows])


def test_a_node_is_still_what_is_asked_of_it_otherwise() -> None:
    facts = node_facts_from_json(node())
    assert (facts.name, facts.node_class is not None, facts.is_overloaded) == ("node-a", True, False)


def sized(name: str, capacity: dict[str, str] | None, allocatable: dict[str, str] | None) -> NodeFacts:
    status = {"capacity": capacity or {}, "allocatable": allocatable or {}}
    return node_facts_from_json({"metadata": {"name": name}, "status": status})


def test_the_largest_allocatable_and_the_smallest_capacity_are_those_of_each_resource() -> None:
    wide = sized("wide", {"cpu": "16", "memory": "8Gi"}, {"cpu": "15890m", "memory": "7Gi"})
    deep = sized("deep", {"cpu": "4", "memory": "64Gi"}, {"cpu": "3900m", "memory": "60Gi"})
    odd = sized("odd", {"cpu": "2"}, {"cpu": "2", "memory": "0"})
    gib = 1 << 30
    assert largest_allocatable([wide, deep, odd]) == NodeAmounts(cpu_millicores=15_890, memory_bytes=60 * gib)
    assert smallest_capacity([wide, deep, odd]) == NodeAmounts(cpu_millicores=4000, memory_bytes=8 * gib)
    assert (largest_allocatable([odd]), smallest_capacity([odd])) == (None, None)


class Server(FakeApi):
    """A server of one version; nodes are put by the test, as its watch would."""

    def __init__(self, version: str) -> None:
        super().__init__(lambda _: {"gitVersion": version})

    def stream(self, path: str, **_: object) -> Stream:
        raise AssertionError(path)


class Nodes:
    """The facts, and a watch of the nodes that the test speaks for."""

    def __init__(self, version: str = "v1.34.1") -> None:
        self.facts = ClusterFacts(Server(version), namespace="plimsoll")
        self.facts._ask_version()

    def put(self, document: Mapping[str, Any]) -> None:
        if self.facts._nodes.put(self.facts._nodes.entry(document), now_seconds=0.0):
            self.facts._see_nodes()

    def remove(self, document: Mapping[str, Any]) -> None:
        if self.facts._nodes.remove(self.facts._nodes.entry(document)):
            self.facts._see_nodes()


def test_the_server_and_every_node_must_be_new_enough() -> None:
    nodes = Nodes()
    assert nodes.facts.server_version == "v1.34.1"
    assert not nodes.facts.knows_pod_level_resources()  # no node is known
    nodes.put(node("v1.34.0", name="new"))
    assert nodes.facts.knows_pod_level_resources()
    nodes.put(node("v1.33.9", name="old"))
    assert not nodes.facts.knows_pod_level_resources()
    nodes.put(node("v1.34.1", name="old"))
    assert nodes.facts.knows_pod_level_resources()
    nodes.put(node("v1.33.9", name="older"))
    nodes.put(node("v1.33.9", "windows", name="windows"))
    assert not nodes.facts.knows_pod_level_resources()
    nodes.remove(node(name="older"))
    assert nodes.facts.knows_pod_level_resources()
    for name in ("new", "old"):
        nodes.remove(node(name=name))
    assert not nodes.facts.knows_pod_level_resources()


def test_pods_are_boosted_where_server_and_kubelets_resize_in_place() -> None:
    nodes = Nodes("v1.33.9")
    assert not nodes.facts.resizes_in_place()  # no node is known
    nodes.put(node("v1.33.0", name="new"))
    nodes.put(node("v1.30.0", "windows", name="windows"))
    assert nodes.facts.resizes_in_place()
    nodes.put(node("v1.32.9", name="old"))
    assert not nodes.facts.resizes_in_place()
    old = Nodes("v1.32.9")
    old.put(node("v1.32.0"))
    assert not old.facts.resizes_in_place()


def test_an_old_server_knows_nothing_of_it_whatever_the_nodes_are() -> None:
    nodes = Nodes("v1.33.9")
    nodes.put(node("v1.34.0"))
    assert not nodes.facts.knows_pod_level_resources()


def test_a_node_that_is_not_understood_may_run_any_kubelet() -> None:
    nodes = Nodes()
    nodes.put(node(name="new"))
    nodes.put(node(kubeletVersion=7, name="odd"))
    assert nodes.facts.faults() == ("nodes odd: status.nodeInfo.kubeletVersion: 7 is not allowed (a text)",)
    assert not nodes.facts.knows_pod_level_resources()
    nodes.put(node(name="odd"))
    assert nodes.facts.knows_pod_level_resources()


def test_whatever_comes_and_goes_the_answer_is_that_of_the_nodes_that_are_there() -> None:
    nodes, there, chance = Nodes(), dict[str, str](), random.Random(7)
    for _ in range(400):
        name, version = chance.choice("abcde"), chance.choice(["v1.33.1", "v1.34.0", "v1.35.0", "v1.36.2"])
        if chance.random() < 0.4:
            nodes.remove(node(name=name))
            there.pop(name, None)
        else:
            nodes.put(node(version, name=name))
            there[name] = version
        assert nodes.facts.knows_pod_level_resources() == (bool(there) and "v1.33.1" not in there.values())


def test_a_node_of_which_nothing_is_known_yet_has_as_little_as_any() -> None:
    nodes = Nodes()
    assert (nodes.facts.capacity("wide"), nodes.facts.largest_allocatable()) == (None, None)
    assert nodes.facts.allocatable("wide") is None
    for name, cpu in (("wide", "16"), ("small", "2")):
        amounts = {"cpu": cpu, "memory": "8Gi"}
        nodes.put({"metadata": {"name": name, "uid": name}, "status": {"capacity": amounts, "allocatable": amounts}})
    large, small = (NodeAmounts(cpu_millicores=cpu, memory_bytes=8 << 30) for cpu in (16_000, 2000))
    assert (nodes.facts.capacity("wide"), nodes.facts.capacity("unknown")) == (large, small)
    assert nodes.facts.largest_allocatable() == large
    assert [nodes.facts.allocatable(node) for node in ("small", "unknown", None)] == [small, large, large]
