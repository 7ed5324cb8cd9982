"""Mode protect on a real API server: a pod that starves is given more, one that requests far too much keeps it."""

from __future__ import annotations

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

PROTECT = {"mode": "protect"}


def test_in_mode_protect_a_starved_pod_grows_and_a_fat_one_stays(node: ActingNode) -> None:
    node.run_pod("fat", objects.container(requests={"cpu": "900m", "memory": "64Mi"}), orders=PROTECT)
    node.run_pod("starved", objects.container(requests={"cpu": "1m", "memory": "64Mi"}), orders=PROTECT)
    node.start_agent()
    node.wait(lambda: node.kept("fat") == "protect", "the plan says that protect holds what it would lower")
    node.starve("starved")
    node.wait(lambda: node.request_of("starved") != "1m", "who starves is given more")
    node.wait(lambda: "applied" in node.outcomes("starved"), "the kubelet has it in force")
    # Nothing falls once it no longer starves, either.
    node.tree.kill("others")
    node.settle()
    assert node.request_of("fat") == "900m"
    assert {call.name for call in node.resizes()} == {"starved"}
    saved = node.metric('plimsoll_possible_savings_cpu_cores{mode="protect"}')
    assert saved is not None
    assert saved > 0.5
    assert node.metric('plimsoll_pods{mode="protect"}') == 2.0
    assert node.ask("plan")["evictions"] == []


def test_outside_its_windows_a_starved_pod_grows_and_a_fat_one_waits(node: ActingNode) -> None:
    # Of a zone whose days all have 24 hours: where clocks go back one has 25, the last of which nothing denies.
    orders = {"mode": "enforce", "windows": "deny: Asia/Tokyo 0 0 * * * for 24h"}
    node.run_pod("fat", objects.container(requests={"cpu": "900m", "memory": "64Mi"}), orders=orders)
    node.run_pod("starved", objects.container(requests={"cpu": "1m", "memory": "64Mi"}), orders=orders)
    node.start_agent()
    node.wait(lambda: node.kept("fat") == "window", "the plan says that it waits for a window")
    node.starve("starved")
    node.wait(lambda: node.request_of("starved") != "1m", "who starves is given more all the same")
    assert node.request_of("fat") == "900m"
    assert {call.name for call in node.resizes()} == {"starved"}
    assert "window" in {notice["reason"] for notice in node.events(actions=["notice"])}
