"""A container was killed for want of memory while no agent looked: the next agent learns it from the pod's status."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.numbers.quantity import parse_quantity
from agent.core.numbers.units import MIB, to_units
from agent.node.history.reported_kills import REASON
from tests.cluster import objects
from tests.cluster.acting_node import ActingNode
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


def limit_bytes(node: ActingNode, name: str) -> int:
    stated = node.request_of(name, "memory", kind="limits")
    assert stated is not None
    return to_units(parse_quantity(stated))


def notices(node: ActingNode) -> list[dict[str, Any]]:
    return [event for event in node.events() if event["reason"] == REASON]


def test_a_kill_while_no_agent_looked_raises_the_limit_and_is_learnt_once(node: ActingNode) -> None:
    app = objects.container(requests={"cpu": "100m", "memory": "32Mi"}, limits={"memory": "64Mi"})
    for name in ("killed", "calm"):
        node.run_pod(name, app, load=None)
    node.kubelet.oom_kill(node.namespace, "killed")
    node.inhabit("killed")

    node.start_agent()
    # Twice what it was killed at.
    node.wait(lambda: limit_bytes(node, "killed") >= 128 * MIB, "the limit rises")
    (notice,) = notices(node)
    assert notice["pod"]["name"] == "killed"
    assert "while no agent looked, says the pod's status; its limit, 64MiB" in notice["detail"]
    assert limit_bytes(node, "calm") == 64 * MIB

    raised = limit_bytes(node, "killed")
    node.kill_agent()
    node.agent.start()
    node.wait_told()
    node.settle()
    assert notices(node) == [notice]  # said by the first, and not again
    assert limit_bytes(node, "killed") == raised
