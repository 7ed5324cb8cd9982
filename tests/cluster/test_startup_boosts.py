"""A boosted pod on a real API server: the agent takes the boost back, also one that it finds when it begins anew."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

HOUR_SECONDS = 3600


def run_boosted(node: ActingNode) -> None:
    """Run a pod that was given 1500 millicores where it runs with 10, until an hour after it is ready.

    It is busy, so that its start is not over for want of anything to do.
    """
    boost = {
        "unixSeconds": int(time.time()),
        "afterReadySeconds": HOUR_SECONDS,
        "timeoutSeconds": 600,
        "containers": {"app": {"requestMillicores": [10, 1500]}},
    }
    app = objects.container(requests={"cpu": "1500m", "memory": "64Mi"})
    node.run_pod("web", app, load="busy", orders={"startup-boosted": json.dumps(boost)})


def ready_since(node: ActingNode, seconds: float) -> None:
    """Have the pod's status say that it has been ready for so long."""
    since = datetime.fromtimestamp(time.time() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    objects.write_pod_status(node.plane.admin, node.namespace, "web", {"conditions": [condition]})


def is_left_alone(node: ActingNode) -> bool:
    """Return whether the plan moves nothing of the pod, either for its boost or as nothing that counts was measured."""
    planned = node.planned("web")
    return planned is not None and (planned["reserved"] == "no_data" or node.kept("web") == "boosted")


def test_an_agent_that_begins_in_the_midst_of_a_boost_takes_it_back_when_the_start_is_over(node: ActingNode) -> None:
    run_boosted(node)
    node.start_agent()
    node.wait(lambda: node.metric("plimsoll_startup_boosts") == 1.0, "the boost is known")
    # Where the memory controller is v1's nothing of it is measured but CPU, and that of its start does not count.
    node.wait(lambda: is_left_alone(node), "the plan leaves it alone")
    assert [event["outcome"] for event in node.events(actions=["boost"])] == ["done"]
    assert node.request_of("web") == "1500m"
    node.kill_agent()
    ready_since(node, HOUR_SECONDS + 60)
    node.agent.start()
    # By what was measured since, it may be given more again within a second: what it requests then says nothing.
    node.wait(lambda: "applied" in node.outcomes("web", "unboost"), "the kubelet has it in force")
    taken_back = next(event for event in node.events(actions=["unboost"]) if event["outcome"] == "applied")
    assert [(change["resource"], change["before"], change["after"]) for change in taken_back["changes"]] == [
        ("cpu", 1500, 10)
    ]
    # Counted in the same turn, after it is told.
    node.wait(lambda: node.metric('plimsoll_startup_boosts_ended_total{reason="ready"}') == 1.0, "it is counted")
    assert node.request_of("web", "memory") == "64Mi"
    assert "deletionTimestamp" not in node.pod("web")["metadata"]
