"""Who is only recommended, and a node that is paused: nothing is written, counted at the API server's audit log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelet_play import Answer
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

PODS = [f"pod-{index}" for index in range(8)]


@pytest.fixture
def node(fenced: ControlPlane, namespace: str, node_name: str, tmp_path: Path) -> Iterator[ActingNode]:
    with acting_node(fenced, namespace, node_name, tmp_path) as made:
        yield made


def wanting(node: ActingNode, name: str, load: str = "sleep", **orders: str) -> None:
    """Run a pod that is ordered three times what it asks for."""
    app = objects.container(requests={"cpu": "100m", "memory": "64Mi"})
    node.run_pod(name, app, load=load, orders={"min-cpu": "300m", **orders})


def grown(node: ActingNode) -> list[str]:
    return [name for name in PODS if node.request_of(name) == "300m"]


def test_recommend_by_configuration_writes_nothing_and_what_if_shows_the_steps(node: ActingNode) -> None:
    wanting(node, "web")
    wanting(node, "hungry", load="busy")
    wanting(node, "malformed", **{"max-cpu": "many"})
    for _ in range(3):
        node.tree.spawn("others", "busy")
    node.start_agent(act__mode="recommend")
    node.wait(lambda: node.ask("plan", what_if=True)["steps"], "there would be steps")
    node.settle(4)
    steps = node.ask("plan", what_if=True)["steps"]
    assert {one["ref"]["name"] for one in steps} == {"web", "hungry"}
    assert not node.ask("plan")["steps"]
    assert not node.write_calls()
    assert node.metric('plimsoll_pods{mode="recommend"}') == 2.0
    assert [one["reason"] for one in node.events(pod="malformed")] == ["faulty_annotation"]


def test_off_by_configuration_writes_nothing_but_for_who_asks_for_it(node: ActingNode) -> None:
    wanting(node, "web")
    wanting(node, "asking", mode="enforce")
    node.start_agent(act__mode="off")
    node.wait(lambda: node.request_of("asking") == "300m", "who asks for it is sized")
    node.settle()
    assert {call.name for call in node.resizes()} == {"asking"}


def test_a_node_paused_from_the_start_writes_nothing_until_it_is_resumed(node: ActingNode) -> None:
    for name in PODS:
        wanting(node, name)
    node.start_agent()
    node.ask("pause")
    already = len(grown(node))
    node.wait(lambda: node.ask("plan")["steps"] or already, "there would be steps")
    node.settle(3)
    written = node.write_calls()
    assert node.metric("plimsoll_paused") == 1.0
    assert any("paused" in note for note in node.ask("plan")["notes"])
    node.kill_agent()
    node.agent.start()
    node.wait(lambda: node.ask("plan")["steps"], "it is paused over a restart")
    node.wait_told()
    node.settle(3)
    assert node.write_calls() == written
    node.ask("resume")
    node.wait(lambda: grown(node) == PODS, "all are sized")
    assert [len(node.resizes(name)) for name in PODS] == [1] * len(PODS)


def test_a_pause_of_the_cluster_that_the_kubelet_mounts_stops_every_write_without_a_webhook(
    node: ActingNode, tmp_path: Path
) -> None:
    for name in PODS:
        wanting(node, name)
    mounted = tmp_path / "cluster" / "pause"
    mounted.parent.mkdir()
    mounted.write_text("incident 12")
    node.start_agent(clusterPauseFile=mounted)
    node.wait(lambda: node.ask("plan")["steps"], "there would be steps")
    node.settle(3)
    assert node.writes() == []
    assert node.metric("plimsoll_paused") == 1.0
    [note] = [one for one in node.ask("plan")["notes"] if "paused" in one]
    assert note.endswith("the whole cluster is, by its ConfigMap: incident 12")
    node.ask("resume")  # which nobody can from here
    node.settle(3)
    assert node.writes() == []
    mounted.unlink()
    node.wait(lambda: grown(node) == PODS, "all are sized")


def test_a_pause_in_the_middle_lets_nothing_more_through_and_ends_by_itself(node: ActingNode) -> None:
    for name in PODS:
        wanting(node, name)
    node.start_agent()
    node.wait(lambda: node.resizes(), "it has begun")
    node.ask("pause", for_seconds=15)
    at_answer = len(node.resizes())
    node.wait(lambda: node.metric("plimsoll_paused") == 1.0, "the next turn has seen it")
    then = node.write_calls()
    assert len(node.resizes()) <= at_answer + 1  # one may have been under way
    is_all_done = len(grown(node)) == len(PODS)
    node.wait(lambda: is_all_done or node.ask("plan")["steps"], "there would be steps")
    node.settle(3)
    assert node.write_calls() == then
    node.wait(lambda: node.metric("plimsoll_paused") == 0.0, "its time is up")
    node.wait(lambda: grown(node) == PODS, "all are sized")
    assert [len(node.resizes(name)) for name in PODS] == [1] * len(PODS)
    assert [one["reason"] for one in node.events(actions=["resume"])] == ["time is up"]


def test_what_a_kubelet_does_during_a_pause_is_put_down_and_not_told_in_events(node: ActingNode) -> None:
    wanting(node, "late")
    node.kubelet.answer(node.namespace, "late", Answer.DEFER)
    node.start_agent()
    node.wait(lambda: "ResizeDeferred" in node.told("late"), "it is deferred")
    node.ask("pause")
    written = node.write_calls()
    node.kubelet.answer(node.namespace, "late", Answer.ACTUATE)
    node.wait(lambda: node.outcomes("late")[-1] == "applied", "it is applied all the same")
    node.settle()
    assert node.write_calls() == written


def test_a_pin_ends_by_itself_or_when_it_is_taken_away(node: ActingNode) -> None:
    for name in ("brief", "long", "free"):
        wanting(node, name)
    node.start_agent(plan__minAgeSeconds=1)
    node.ask("pause")
    node.wait(lambda: node.planned("free"), "the plan knows the pods")
    node.ask("pin", name="brief", for_seconds=5)
    node.ask("pin", name="long")
    node.ask("resume")
    node.wait(lambda: node.request_of("free") == "300m", "who is not pinned is sized")
    node.wait(lambda: node.request_of("brief") == "300m", "its time is up")
    assert (node.planned("long") or {})["reserved"] == "pinned"
    assert not node.resizes("long")
    node.ask("unpin", name="long")
    node.wait(lambda: node.request_of("long") == "300m", "it is sized again")


def test_a_starving_pod_is_grown_and_its_bound_and_its_mode_hold(node: ActingNode) -> None:
    app = objects.container(requests={"cpu": "50m", "memory": "64Mi"})
    node.run_pod("hungry", app)
    node.run_pod("bounded", app, orders={"max-cpu": "90m"})
    node.run_pod("looked-at", app, orders={"mode": "recommend"})
    node.start_agent()
    node.wait_known("hungry", "bounded")
    for _ in range(3):
        node.tree.spawn("others", "busy")
    for name in ("hungry", "bounded", "looked-at"):
        node.tree.spawn(node.cgroup_of(node.pod(name)), "busy")
    node.wait(lambda: node.request_of("hungry") != "50m", "the starved pod is grown")
    node.wait(lambda: node.request_of("bounded") == "90m", "the bounded pod is grown to its bound")
    event = node.wait(lambda: node.events(pod="hungry", outcomes=["accepted", "applied"]), "it is told")[-1]
    assert event["changes"][0]["before"] == 50
    node.settle(3)
    assert node.request_of("bounded") == "90m"
    assert not node.resizes("looked-at")
