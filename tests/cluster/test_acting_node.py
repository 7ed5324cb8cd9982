"""What concerns the whole node: one that is too small for its pods, and one that is overloaded.

The memory controller of the machines that run this may be bound to cgroup v1, so only CPU is measured.
"""

from __future__ import annotations

import pytest

from tests.cluster import fence, objects
from tests.cluster.acting_node import ActingNode
from tests.cluster.api import Json
from tests.kernel.cgroups import cgroup2_mount, why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


IS_MEMORY_MEASURED = (MOUNT := cgroup2_mount()) is not None and "memory" in (
    MOUNT / "cgroup.controllers"
).read_text().split()


def taints(node: ActingNode) -> list[Json]:
    found: list[Json] = node.plane.admin.get(f"/api/v1/nodes/{node.name}")["spec"].get("taints", [])
    return found


def keys(node: ActingNode) -> list[str]:
    return [one["key"] for one in taints(node)]


def make_too_small(node: ActingNode, **settings: object) -> None:
    """Run pods that need more than the node has left beside one that nobody may touch, and start the agent."""
    large = objects.container(requests={"cpu": "400m"})
    needed = {"min-cpu": "450m"}
    node.run_pod("first", large, orders=needed)
    node.run_pod("second", large, orders=needed | {"eviction-ranking": "high"})
    node.run_pod("kept", large, orders=needed | {"eviction-ranking": "no-eviction"})
    node.run_pod("bare", large, owner=None)
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "1400m"}})
    node.start_agent(**settings)


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
    node.settle(3)
    assert_nobody_goes(node)
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "4"}})
    node.wait(lambda: node.request_of("first") == "450m", "on a larger node all get what they need")


def test_evictions_are_proposed_where_a_node_is_too_small_and_nobody_is_evicted(node: ActingNode) -> None:
    # Where memory is not applied nobody needs to foretell it: the machine may not even measure it.
    make_too_small(node, plan__memoryApplied=IS_MEMORY_MEASURED)
    [proposed] = node.wait(lambda: node.events(outcomes=["proposed"]), "an eviction is proposed")
    assert proposed["action"] == "eviction"
    assert proposed["reason"] == "cpu"
    assert proposed["pod"]["name"] == "first"
    assert "of cpu are lacking" in proposed["detail"]
    assert [one["ref"]["name"] for one in node.ask("plan")["evictions"]] == ["first"]
    node.settle(4)
    assert node.metric('plimsoll_evictions_proposed_total{resource="cpu"}') == 1.0, "said once, not each turn"
    node.wait(lambda: node.told("first"), "its owner is told")
    assert node.told("first") == ["EvictionProposed"]
    assert_nobody_goes(node)
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "4"}})
    node.wait(lambda: not node.ask("plan")["evictions"], "on a larger node all fit")


def test_an_overloaded_node_is_tainted_until_it_recovers_and_never_by_an_agent_that_ended(node: ActingNode) -> None:
    other = {"key": "example.com/theirs", "effect": "PreferNoSchedule", "value": "x"}
    fence.set_taints(node.plane.admin, node.name, [other])
    node.run_pod("busy")
    path = node.cgroup_of(node.pod("busy"))
    node.start_agent(
        overload__taint=True,
        overload__windowSeconds=10,
        overload__loadPerCpuThreshold=0.1,
        overload__releaseLoadPerCpu=0,
        overload__waitingRatioThreshold=0.02,
        overload__releaseWaitingRatio=0.02,
    )
    for _ in range(3):
        node.tree.spawn(path, "busy")
    node.wait(lambda: fence.TAINT_KEY in keys(node), "the taint is set", seconds=120)
    assert keys(node) == ["example.com/theirs", fence.TAINT_KEY]
    assert [one["effect"] for one in taints(node)] == ["PreferNoSchedule", "NoSchedule"]
    assert node.events(actions=["taint"])[0]["outcome"] == "done"
    assert node.metric("plimsoll_overload_tainted") == 1.0
    node.agent.end()
    assert keys(node) == ["example.com/theirs"]
    node.tree.kill(path)
    # As an agent leaves it that was killed while the node was overloaded; the next one takes it for its own.
    fence.set_taints(node.plane.admin, node.name, [other, fence.taint("NoSchedule")])
    node.agent.start()
    node.wait(lambda: fence.TAINT_KEY not in keys(node), "it is gone with the load", seconds=120)
    assert keys(node) == ["example.com/theirs"]
    assert [one["reason"] for one in node.events(actions=["untaint"])] == ["recovered", "exit"]
