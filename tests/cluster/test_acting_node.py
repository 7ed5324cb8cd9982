"""What concerns the whole node: one that is too small for its pods, and one that is overloaded.

The memory controller of the machines that run this may be bound to cgroup v1, so only CPU is measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster import fence, objects
from tests.cluster.acting_node import ActingNode, fresh_node
from tests.cluster.api import Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.first_minute import make_too_small
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


def taints(node: ActingNode) -> list[Json]:
    node_taints: list[Json] = node.plane.admin.get(f"/api/v1/nodes/{node.name}")["spec"].get("taints", [])
    return node_taints


def keys(node: ActingNode) -> list[str]:
    return [taint["key"] for taint in taints(node)]


def assert_nobody_goes(node: ActingNode) -> None:
    assert {call.resource for call in node.writes()} <= {"events"}
    for pod in ("first", "second", "kept", "bare"):
        assert "deletionTimestamp" not in node.pod(pod)["metadata"]
        assert node.request_of(pod) == "400m"


def test_where_pods_do_not_fit_nothing_is_resized_while_nobody_can_tell_who_should_go(node: ActingNode) -> None:
    make_too_small(node)
    node.wait(lambda: node.metric('plimsoll_plan_infeasible{resource="cpu"}') == 1.0, "it does not fit")
    assert "cpu does not fit and nobody else may go: no cpu is resized" in node.ask("plan")["notes"]
    for name in ("first", "second", "kept"):
        node.wait(lambda name=name: node.kept(name) == "node_full", f"{name} says why it stays")  # type: ignore[misc]
    node.settle()
    assert_nobody_goes(node)
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "4"}})
    node.wait(lambda: node.request_of("first") == "450m", "on a larger node all get what they need")


def test_an_overloaded_node_is_tainted_until_its_agent_ends_and_what_one_left_is_taken_away_when_it_recovers(
    node: ActingNode, fenced: ControlPlane, tmp_path: Path
) -> None:
    theirs = {"key": "example.com/theirs", "effect": "PreferNoSchedule", "value": "x"}
    overload: dict[str, Any] = {
        "overload__taint": True,
        "overload__windowSeconds": 10,
        "overload__loadPerCpuThreshold": 0.1,
        "overload__releaseLoadPerCpu": 0,
        "overload__waitingRatioThreshold": 0.02,
        "overload__releaseWaitingRatio": 0.02,
    }
    (tmp_path / "recovered").mkdir()
    # Both nodes are read each quarter of a minute: one agent's wait is the other's.
    with fresh_node(fenced, tmp_path / "recovered") as recovered:
        recovered.run_pod("idle")
        # As an agent leaves it that was killed while the node was overloaded; the next one takes it for its own.
        fence.set_taints(recovered.plane.admin, recovered.name, [theirs, fence.taint("NoSchedule")])
        fence.set_taints(node.plane.admin, node.name, [theirs])
        node.run_pod("busy")
        recovered.start_agent(**overload)
        node.agent_module = "tests.cluster.patient_agent"
        node.start_agent(**overload)
        node.starve("busy")
        node.wait(lambda: fence.TAINT_KEY in keys(node), "the taint is set")
        assert keys(node) == ["example.com/theirs", fence.TAINT_KEY]
        assert [taint["effect"] for taint in taints(node)] == ["PreferNoSchedule", "NoSchedule"]
        # The agent tells once it has read the server's answer, and counts at the turn's end.
        node.wait(lambda: node.outcomes(action="taint")[-1:] == ["done"], "it tells of the taint")
        node.wait(lambda: node.metric("plimsoll_overload_tainted") == 1.0, "the taint is counted")
        recovered.wait(lambda: fence.TAINT_KEY not in keys(recovered), "it is gone with the load")
        assert keys(recovered) == ["example.com/theirs"]
        recovered.wait(lambda: "done" in recovered.outcomes(action="untaint"), "it tells that it is gone")
        assert [event["reason"] for event in recovered.events(actions=["untaint"])] == ["recovered"]
        node.tree.kill()
        node.agent.end()
        assert keys(node) == ["example.com/theirs"]
        node.agent.start()
        assert [event["reason"] for event in node.events(actions=["untaint"])] == ["exit"]
