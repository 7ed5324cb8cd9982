"""Of a workload's pods a share is resized in place, the same after a restart; and given back what it had when told."""

from __future__ import annotations

import json
import time

import pytest

from agent.core.orders.annotations import PREFIX
from agent.core.orders.enforce_share import counted_ticket
from tests.cluster import objects
from tests.cluster.acting_node import OWNER, ActingNode
from tests.cluster.test_acting_directed import AWAY, tell
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

REPLICAS = 20
WEB = {**OWNER, "name": "web"}


def resized(node: ActingNode) -> set[str]:
    return {name for name in names() if node.request_of(name) == "300m"}


def names() -> list[str]:
    return [f"web-{number}" for number in range(REPLICAS)]


def test_two_of_twenty_pods_are_resized_and_get_back_what_they_had_when_the_share_is_taken_back(
    node: ActingNode,
) -> None:
    expected = {name for number, name in enumerate(names()) if counted_ticket(number) < 1000}
    assert len(expected) == 2
    app = objects.container(requests={"cpu": "100m", "memory": "64Mi"})
    for number, name in enumerate(names()):
        # As the webhook gives them.
        ticket = json.dumps({"ticket": counted_ticket(number), "unixSeconds": int(time.time())})
        orders = {"min-cpu": "300m", "enforce-share": "10%", "share-ticket": ticket}
        node.run_pod(name, app, owner=WEB, orders=orders)
    tell(node, {})
    node.start_agent(report__url=AWAY)
    node.wait(lambda: resized(node) == expected, "those in the share are resized")
    node.settle()
    others = next(name for name in names() if name not in expected)
    (why,) = node.ask("why", name=others)["items"]
    assert why["acted"]["reserved"] == "not_in_share"
    assert node.metric('plimsoll_pods_reserved{reason="not_in_share"}') == REPLICAS - 2.0

    node.kill_agent()
    node.agent.start()
    node.wait_told()
    node.settle()
    assert resized(node) == expected
    assert {call.name for call in node.resizes()} == expected

    node.kill_agent()
    tell(node, {"web": {"share_taken_back": "10 %", "share_taken_back_for": "its pods fared worse: restarts"}})
    node.agent.start()
    node.wait(lambda: not resized(node), "those that were resized have what they had")
    node.settle()
    assert {node.request_of(name) for name in names()} == {"100m"}
    assert (node.planned(next(iter(expected))) or {})["reserved"] == "share_taken_back"
    assert "revert" in {event["action"] for event in node.events()}
    assert node.pod(others)["metadata"]["annotations"][f"{PREFIX}enforce-share"] == "10%"
