"""What the webhook told, at a real API server: who is frozen or left alone gets no patch, nobody before it has told.

The webhook itself is away; what it had told lies in the state directory.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import DIRECTIVES_VERSION, Directives
from agent.core.history.reports.directive_json import directives_to_json
from agent.core.numbers.quantity import parse_quantity
from agent.node.reports.directives_file import FILE_NAME
from tests.cluster import objects
from tests.cluster.acting_node import ActingNode
from tests.directives import directive
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

AWAY = "https://127.0.0.1:1"
"""Nobody listens there."""


def tell(node: ActingNode, by_rollout: dict[str, dict[str, Any]], *, pause: str | None = None) -> None:
    """Put down what the webhook told just now, by the names of Rollouts."""
    workloads = tuple(
        directive(Workload(namespace=node.namespace, kind="Rollout", name=name), **fields)
        for name, fields in sorted(by_rollout.items())
    )
    state = node.directory / "state"
    state.mkdir(exist_ok=True)
    document = {
        "format": "plimsoll-directives",
        "version": DIRECTIVES_VERSION,
        "etag": "told",
        "toldUnixSeconds": time.time(),
        "confirmedUnixSeconds": time.time(),
        "directives": directives_to_json(Directives(etag="told", pause_reason=pause, workloads=workloads)),
    }
    (state / FILE_NAME).write_text(json.dumps(document))


def test_frozen_and_left_alone_pods_get_no_patch_and_none_is_sent_before_the_webhook_told(node: ActingNode) -> None:
    for name in ("frozen", "alone", "free", "ruled"):
        node.run_wanting(name)
    node.start_agent(report__url=AWAY)
    node.wait(lambda: len(node.ask("plan")["steps"]) == 4, "there would be steps")
    node.settle()
    assert not node.resizes()
    assert any("the webhook has not yet told" in note for note in node.ask("plan")["notes"])

    node.kill_agent()
    frozen, alone = f"HorizontalPodAutoscaler {node.namespace}/frozen", f"VerticalPodAutoscaler {node.namespace}/alone"
    by_rollout: dict[str, dict[str, Any]] = {
        "frozen": {"cpu_frozen_for": frozen},
        "alone": {"left_alone_for": alone},
        "ruled": {"mode": "recommend"},
    }
    tell(node, by_rollout)
    node.agent.start()
    node.wait(lambda: node.request_of("free") == "300m", "who is free is sized")
    node.wait(lambda: node.kept("frozen") == "hpa", "who is frozen is known")
    node.settle()
    assert {call.name for call in node.resizes()} == {"free"}
    assert node.request_of("frozen") == node.request_of("alone") == node.request_of("ruled") == "100m"
    assert (node.planned("alone") or {})["reserved"] == "vpa"
    assert (node.planned("ruled") or {})["reserved"] == "recommend"
    assert node.metric('plimsoll_directives_workloads{effect="cpu_frozen"}') == 1.0
    (why,) = node.ask("why", name="frozen")["items"]
    assert why["acted"]["told"] == [f"CPU requests kept: {frozen} scales by them"]

    node.kill_agent()
    tell(node, {"alone": {}}, pause="upgrade")
    node.agent.start()
    node.wait(lambda: node.ask("plan")["steps"], "there would be steps")
    node.wait_told()
    node.settle()
    node.ask("resume")
    node.settle()
    assert {call.name for call in node.resizes()} == {"free"}
    assert any("upgrade" in note for note in node.ask("plan")["notes"])

    node.kill_agent()
    tell(node, {})
    node.agent.start()
    for name in ("frozen", "alone", "ruled"):
        node.wait(lambda name=name: node.request_of(name) == "300m", f"{name} is sized")  # type: ignore[misc]


def test_a_limit_beside_a_frozen_request_goes_out_of_the_way_and_the_request_stays(node: ActingNode) -> None:
    hpa = f"HorizontalPodAutoscaler {node.namespace}/limited"
    limits = {"cpu": "200m"}
    node.run_pod("limited", objects.container(requests={"cpu": "100m", "memory": "64Mi"}, limits=limits), load="busy")
    tell(node, {"limited": {"cpu_frozen_for": hpa}})
    node.start_agent(report__url=AWAY)

    def resources() -> Any:
        return node.pod("limited")["spec"]["containers"][0]["resources"]

    node.wait(lambda: resources()["limits"]["cpu"] != "200m", "the limit is raised")
    node.settle()
    assert resources()["requests"]["cpu"] == "100m", "the HPA divides by it"
    allocatable = node.plane.admin.get(f"/api/v1/nodes/{node.name}")["status"]["allocatable"]["cpu"]
    assert parse_quantity(resources()["limits"]["cpu"]) == parse_quantity(allocatable)
