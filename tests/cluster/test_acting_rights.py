"""An agent that may not, or cannot, resize: it names what is missing, recommends, writes nothing, and goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster import chart, fence, objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.api import Api, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import (
    create_namespace,
    create_service_account,
    fresh_name,
    is_allowed,
    node_bound_token,
    remove_namespace,
)
from tests.cluster.processes import wait_for
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

WITHHELD: Final = {
    "no resizes": "not allowed: patch pods/resize: without it nothing is resized",
    "no claim": "the agent's token names no node, so nothing is written",
    "other node": "the agent's token is of node ",
    "old kubelet": "no resize in place: needs 1.33, the node's kubelet is v1.32.4",
}
"""Agents that write nothing, and what each says."""
SCENES: Final = (*WITHHELD, "no events", "fenced")


@pytest.fixture(scope="module")
def nodes(fenced: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ActingNode]]:
    """A node for each scene, with one pod that wants more and an agent that has heard everything."""
    with contextlib.ExitStack() as stack:
        by_scene: dict[str, ActingNode] = {}
        for scene in SCENES:
            by_scene[scene] = stack.enter_context(scene_of(fenced, scene, tmp_path_factory.mktemp("rights")))
        for node in by_scene.values():
            await_decision(node)
        yield by_scene


@contextlib.contextmanager
def scene_of(plane: ControlPlane, scene: str, directory: Path) -> Iterator[ActingNode]:
    namespace, name = fresh_name("test"), fresh_name("node")
    create_namespace(plane, namespace)
    with acting_node(plane, namespace, name, directory) as node:
        node.run_pod("web", objects.container(requests={"cpu": "100m", "memory": "64Mi"}), orders={"min-cpu": "300m"})
        settings: dict[str, object] = {}
        if scene == "old kubelet":
            status = {"nodeInfo": objects.node_info("v1.32.4")}
            objects.write_node_status(plane.admin, name, status)
        if scene == "fenced":
            settings["kubernetes__requireNodeClaim"] = False
        if scene == "no events":  # nor the chart's right to the one ConfigMap
            settings |= {
                "clusterPauseConfigMap": f"{chart.NAMESPACE}/plimsoll",
                "clusterPauseFile": directory / "pause",
            }
        node.start_agent_as(identity_of(plane, scene, node), **settings)
        yield node
    remove_namespace(plane, namespace)
    plane.admin.delete(f"/api/v1/nodes/{name}")


def identity_of(plane: ControlPlane, scene: str, node: ActingNode) -> Api:
    if scene in ("no claim", "fenced"):
        return fence.agent_api(plane, None)
    if scene == "other node":
        other = fresh_name("other")
        objects.create_node(plane.admin, other)
        return fence.agent_api(plane, other)
    if scene == "no resizes":
        return account_without(plane, node, {"pods/resize"})
    if scene == "no events":
        return account_without(plane, node, {"events"})
    return fence.agent_api(plane, node.name)


def account_without(plane: ControlPlane, node: ActingNode, resources: set[str]) -> Api:
    """Make an account with the chart's role but for some resources; give the API with a token of the node."""
    role = chart.only("ClusterRole", *chart.AGENT, values=fence.ACTING)
    name = f"{node.namespace}-agent"
    rules: list[Json] = [
        {**rule, "resources": rest} for rule in role["rules"] if (rest := sorted(set(rule["resources"]) - resources))
    ]
    plane.admin.apply({**role, "metadata": {"name": name}, "rules": rules})
    plane.admin.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": node.namespace}],
        }
    )
    create_service_account(plane, node.namespace, "agent")
    api = plane.api_with_token(node_bound_token(plane, node.namespace, "agent", node.name))
    # Rights take a moment to hold, all of one role at once: an agent that asks before misses more than it is to miss.
    wait_for(lambda: is_allowed(api, "list", "pods"), "the role is in force")
    return api


def await_decision(node: ActingNode) -> None:
    """Wait until its agent has come to something, and has had time to think otherwise."""
    node.wait(lambda: node.ask("plan", what_if=True)["pods"], "the plan knows the pod")
    node.wait(node.events, "something was decided")
    node.wait(lambda: (node.planned("web", what_if=True) or {}).get("containers"), "the pod is sized, if on paper")
    node.settle()


def notices(node: ActingNode, reason: str = "rights") -> list[str]:
    """Return what an operator is told; an older server has some of its versions beside."""
    return [notice["detail"] for notice in node.events(actions=["notice"]) if notice["reason"] == reason]


@pytest.mark.parametrize("scene", WITHHELD)
def test_what_stands_in_the_way_is_named_and_nothing_is_written(nodes: dict[str, ActingNode], scene: str) -> None:
    node = nodes[scene]
    assert not node.write_calls()
    assert node.request_of("web") == "100m"
    assert {event["outcome"] for event in node.events()} == {"withheld"}
    assert any(WITHHELD[scene] in note for note in node.ask("plan")["notes"])
    assert node.metric("plimsoll_dry_run") == 1.0
    assert node.agent.stderr.read_text().count(WITHHELD[scene]) in (1, 2)  # as missing, and as the barrier


@pytest.mark.parametrize("scene", WITHHELD)
def test_it_goes_on_measuring_and_recommending(nodes: dict[str, ActingNode], scene: str) -> None:
    node = nodes[scene]
    before = node.metric("plimsoll_sweeps_total") or 0.0
    node.wait(lambda: (node.metric("plimsoll_sweeps_total") or 0.0) > before, "it goes on measuring")
    pod = node.planned("web", what_if=True)
    assert pod is not None
    assert pod["containers"][0]["cpu"]["final"] == 300


@pytest.mark.parametrize("scene", WITHHELD)
def test_what_is_missing_is_a_notice_of_the_decision_log(nodes: dict[str, ActingNode], scene: str) -> None:
    reason = "versions" if scene == "old kubelet" else "rights"
    assert [WITHHELD[scene] in notice for notice in notices(nodes[scene], reason)] == [True]


@pytest.mark.parametrize("scene", ["no resizes", "no claim", "other node"])
def test_steps_that_wait_are_told_once(nodes: dict[str, ActingNode], scene: str) -> None:
    [withheld] = nodes[scene].events(actions=["resize"])
    assert (withheld["outcome"], withheld["reason"]) == ("withheld", "rights")
    assert WITHHELD[scene] in withheld["detail"]


def test_without_the_right_to_tell_owners_pods_are_resized_all_the_same(nodes: dict[str, ActingNode]) -> None:
    node = nodes["no events"]
    node.wait(lambda: node.request_of("web") == "300m", "it is resized")
    [create, patch] = sorted(notices(node))
    assert create.startswith("not allowed: create events")
    assert patch.startswith("not allowed: patch events")
    assert {call.resource for call in node.writes() if call.code < 300} == {"pods/resize"}


def test_without_the_right_to_watch_the_pause_the_mount_tells_of_it_and_a_note_that_this_is_late(
    nodes: dict[str, ActingNode],
) -> None:
    node = nodes["no events"]
    [note] = node.wait(lambda: [note for note in node.ask("plan")["notes"] if "heard late" in note], "it is noted")
    assert "is forbidden" in note
    (node.directory / "pause").write_text("incident 15")
    assert node.ask("cluster")["cluster_pause"] == "incident 15"
    (node.directory / "pause").unlink()
    assert node.ask("cluster")["cluster_pause"] is None


def test_a_refusal_by_the_fence_is_told_and_not_repeated_at_once(nodes: dict[str, ActingNode]) -> None:
    node = nodes["fenced"]
    node.wait(lambda: node.events(outcomes=["rejected"]), "it is refused")
    node.settle()
    refused = [call for call in node.audit.calls(fence.USER) if call.name == "web" and call.namespace == node.namespace]
    assert [(call.resource, call.code) for call in refused if call.is_write] == [("pods/resize", 403)]
    assert node.request_of("web") == "100m"
    [event] = node.events(outcomes=["rejected"])
    assert "only pods of the own node may be resized" in event["detail"]
