"""Who is only recommended, and a node that is paused: nothing is written, counted at the API server's audit log.

Where the mode does not matter tests share one agent; each has pods of its own, and leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import fence, objects
from tests.cluster.acting_node import ActingNode, fresh_node
from tests.cluster.api import MERGE, ApiError
from tests.cluster.chart import NAMESPACE
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelet_play import Answer
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

CONFIG_MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/plimsoll"
PODS = [f"pod-{index}" for index in range(6)]


@pytest.fixture(scope="module")
def enforcing(fenced: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActingNode]:
    directory = tmp_path_factory.mktemp("held")
    with fresh_node(fenced, directory) as machine:
        pause_file(machine).parent.mkdir()
        machine.start_agent(clusterPauseFile=pause_file(machine), clusterPauseConfigMap=f"{NAMESPACE}/plimsoll")
        yield machine


@pytest.fixture
def shared(enforcing: ActingNode) -> ActingNode:
    """A node without pods, whose agent is in mode enforce and not paused; the tests share it."""
    pause_file(enforcing).unlink(missing_ok=True)
    enforcing.ask("resume")
    enforcing.begin_anew()
    return enforcing


def pause_file(node: ActingNode) -> Path:
    """Where the kubelet would mount the cluster's pause."""
    return node.directory / "cluster" / "pause"


def paused(node: ActingNode) -> bool:
    return node.metric("plimsoll_paused") == 1.0


def stepping(node: ActingNode) -> list[str]:
    """Who would be resized, by the plan of now."""
    return sorted(step["ref"]["name"] for step in node.ask("plan")["steps"])


def grown(node: ActingNode) -> list[str]:
    return [name for name in PODS if node.request_of(name) == "300m"]


def test_recommend_by_configuration_writes_nothing_and_what_if_shows_the_steps(node: ActingNode) -> None:
    node.run_wanting("web")
    node.run_wanting("hungry")
    node.run_wanting("malformed", **{"max-cpu": "many"})
    node.starve("hungry")
    node.start_agent(act__mode="recommend")

    def steps() -> set[str]:
        return {step["ref"]["name"] for step in node.ask("plan", what_if=True)["steps"]}

    node.wait(lambda: steps() == {"web", "hungry"}, "there would be steps")
    node.wait_for_sweeps(5)
    node.settle()
    assert steps() == {"web", "hungry"}
    assert not node.ask("plan")["steps"]
    assert not node.write_calls()
    assert node.metric('plimsoll_pods{mode="recommend"}') == 2.0
    assert [event["reason"] for event in node.events(pod="malformed")] == ["faulty_annotation"]


def test_off_by_configuration_writes_nothing_but_for_who_asks_for_it(node: ActingNode) -> None:
    node.run_wanting("web")
    node.run_wanting("asking", mode="enforce")
    node.start_agent(act__mode="off")
    node.wait_known("asking")
    node.wait(lambda: node.request_of("asking") == "300m", "who asks for it is sized")
    node.settle()
    assert {call.name for call in node.resizes()} == {"asking"}


def test_a_paused_node_writes_nothing_over_a_restart_too_until_it_is_resumed(shared: ActingNode) -> None:
    node = shared
    node.ask("pause")
    for name in PODS:
        node.run_wanting(name)
    node.wait(lambda: stepping(node) == PODS, "there would be steps")
    node.settle()
    assert not node.writes()
    assert paused(node)
    assert any("paused" in note for note in node.ask("plan")["notes"])
    node.kill_agent()
    node.agent.start()
    node.wait(lambda: stepping(node) == PODS, "it is paused over a restart")
    node.wait_told()
    node.settle()
    assert not node.writes()
    node.ask("resume")
    node.wait(lambda: grown(node) == PODS, "all are sized")
    assert [len(node.resizes(name)) for name in PODS] == [1] * len(PODS)


def test_a_pause_of_the_cluster_that_the_kubelet_mounts_stops_every_write_without_a_webhook(
    shared: ActingNode,
) -> None:
    node = shared
    pause_file(node).write_text("incident 12")
    for name in PODS:
        node.run_wanting(name)
    node.wait(lambda: stepping(node) == PODS, "there would be steps")
    node.settle()
    assert node.writes() == []
    assert paused(node)
    [note] = [text for text in node.ask("plan")["notes"] if "paused" in text]
    assert note.endswith("the whole cluster is, by its ConfigMap: incident 12")
    node.ask("resume")  # which nobody can from here
    node.settle()
    assert node.writes() == []
    pause_file(node).unlink()
    node.wait(lambda: grown(node) == PODS, "all are sized")


@pytest.fixture
def config_map(shared: ActingNode) -> Iterator[ActingNode]:
    """The node, and the ConfigMap of the cluster's rules without a pause; other tests may have left theirs."""
    admin = shared.plane.admin
    if not admin.exists(CONFIG_MAP):
        admin.create(CONFIG_MAP.rpartition("/")[0], {"metadata": {"name": "plimsoll"}})
    order_pause(shared, None)
    yield shared
    if admin.exists(CONFIG_MAP):
        order_pause(shared, None)


def order_pause(node: ActingNode, reason: str | None) -> None:
    node.plane.admin.patch(CONFIG_MAP, {"data": {"pause": reason}}, MERGE)


def heard_pause(node: ActingNode) -> str | None:
    reason: str | None = node.ask("cluster")["cluster_pause"]
    return reason


def test_a_pause_of_the_cluster_is_heard_by_a_watch_before_the_kubelet_brings_it_and_its_end_too(
    config_map: ActingNode,
) -> None:
    node = config_map
    order_pause(node, "incident 13")
    node.wait(lambda: heard_pause(node) == "incident 13", "the pause is heard")
    for name in PODS:
        node.run_wanting(name)
    node.wait(lambda: stepping(node) == PODS, "there would be steps")
    node.settle()
    assert node.writes() == []
    assert paused(node)
    pause_file(node).write_text("incident 13")  # now the kubelet has brought it; and it will bring the end late
    order_pause(node, None)
    node.wait(lambda: grown(node) == PODS, "all are sized")
    assert not paused(node)
    pause_file(node).write_text("incident 14")  # a pause that the watch did not hear of is one all the same
    assert heard_pause(node) == "incident 14"
    pause_file(node).unlink()
    assert heard_pause(node) is None


def test_a_config_map_that_is_deleted_ends_its_pause_and_one_that_is_made_anew_begins_one(
    config_map: ActingNode,
) -> None:
    node = config_map
    order_pause(node, "true")
    node.wait(lambda: heard_pause(node) is not None, "the pause is heard")
    node.plane.admin.delete(CONFIG_MAP)
    node.wait(lambda: heard_pause(node) is None, "its end is heard")
    document = {"metadata": {"name": "plimsoll"}, "data": {"pause": "again"}}
    node.plane.admin.create(CONFIG_MAP.rpartition("/")[0], document)
    node.wait(lambda: heard_pause(node) == "again", "the new one is heard")
    order_pause(node, None)
    node.wait(lambda: heard_pause(node) is None, "and its end")


def test_an_agent_reads_the_one_config_map_and_no_other(config_map: ActingNode) -> None:
    node = config_map
    order_pause(node, "mine")
    node.wait(lambda: heard_pause(node) == "mine", "it has the right to this one")
    token = fence.agent_api(node.plane, node.name)
    maps = CONFIG_MAP.rpartition("/")[0]
    for path, query in (
        (maps, {}),
        (maps, {"fieldSelector": "metadata.name=kube-root-ca.crt"}),
        ("/api/v1/configmaps", {"fieldSelector": "metadata.name=plimsoll"}),
        ("/api/v1/namespaces/default/configmaps", {"fieldSelector": "metadata.name=plimsoll"}),
    ):
        with pytest.raises(ApiError) as refused:
            token.get(path, **query)
        assert refused.value.status == 403
    with pytest.raises(ApiError) as refused:
        token.patch(CONFIG_MAP, {"data": {"pause": None}}, MERGE)
    assert refused.value.status == 403


def test_a_pause_in_the_middle_lets_nothing_more_through_and_ends_by_itself(shared: ActingNode) -> None:
    node = shared
    node.kubelet.actuation_seconds = 0.2
    for name in PODS:
        node.run_wanting(name)
    node.wait(lambda: node.resizes(), "it has begun")
    node.ask("pause")
    at_answer = len(node.resizes())
    node.wait(lambda: paused(node), "the next turn has seen it")
    then = len(node.resizes())
    assert then <= at_answer + 1  # one may have been under way
    for name in PODS:  # what they had come to at the pause does not matter: now each wants more
        node.order(name, min_cpu="400m")
        node.wait_wish(name, 400)
    node.settle()
    assert len(node.resizes()) == then
    ended = node.events(actions=["resume"])
    node.ask("pause", for_seconds=1)
    node.wait(lambda: not paused(node), "its time is up")
    node.wait(lambda: [node.request_of(name) for name in PODS] == ["400m"] * len(PODS), "all are sized")
    [*_, newest] = reversed(node.events(actions=["resume"]))
    assert newest["reason"] == "time is up"
    assert len(node.events(actions=["resume"])) == len(ended) + 1


def test_what_a_kubelet_does_during_a_pause_is_put_down_and_not_told_in_events(node: ActingNode) -> None:
    node.run_wanting("late")
    node.kubelet.answer(node.namespace, "late", Answer.DEFER)
    node.start_agent()  # its own: an agent writes no more than 20 Events in a minute
    node.wait(lambda: "ResizeDeferred" in node.told("late"), "it is deferred")
    node.ask("pause")
    node.wait(lambda: paused(node), "the next turn has seen it")
    written = node.write_calls()
    node.kubelet.answer(node.namespace, "late", Answer.ACTUATE)
    node.wait(lambda: node.outcomes("late")[-1] == "applied", "it is applied all the same")
    node.settle()
    assert node.write_calls() == written


def test_a_pin_ends_by_itself_or_when_it_is_taken_away(shared: ActingNode) -> None:
    node = shared
    node.ask("pause")
    for name in ("brief", "long", "free"):
        node.run_wanting(name)
    node.wait_known("brief", "long", "free")
    node.ask("pin", name="brief", for_seconds=2)
    node.ask("pin", name="long")
    node.ask("resume")
    node.wait(lambda: node.request_of("free") == "300m", "who is not pinned is sized")
    node.wait(lambda: node.request_of("brief") == "300m", "its time is up")
    assert [event["reason"] for event in node.events(actions=["unpin"], pod="brief")] == ["time is up"]
    assert (node.planned("long") or {})["reserved"] == "pinned"
    assert not node.resizes("long")
    node.ask("unpin", name="long")
    node.wait(lambda: node.request_of("long") == "300m", "it is sized again")


def test_a_starving_pod_is_grown_and_its_bound_and_its_mode_hold(shared: ActingNode) -> None:
    node = shared
    app = objects.container(requests={"cpu": "10m", "memory": "64Mi"})
    node.run_pod("hungry", app)
    node.run_pod("bounded", app, orders={"max-cpu": "20m"})  # far below what it needs, on the busiest machine too
    node.run_pod("looked-at", app, orders={"mode": "recommend"})
    node.wait_known("hungry", "bounded")
    node.starve("hungry", "bounded", "looked-at")
    node.wait(lambda: node.request_of("hungry") != "10m", "the starved pod is grown")
    node.wait(lambda: node.request_of("bounded") == "20m", "the bounded pod is grown to its bound")
    event = node.wait(lambda: node.events(pod="hungry", outcomes=["accepted", "applied"]), "it is told")[-1]
    assert event["changes"][0]["before"] == 10
    node.settle()
    assert node.request_of("bounded") == "20m"
    assert not node.resizes("looked-at")
