"""The agent acts on its own node: against the real API server, with its own rights, on real cgroups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import fence, objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.control_plane import ControlPlane
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


@pytest.fixture(scope="session")
def fenced(cluster: ControlPlane) -> ControlPlane:
    fence.install(cluster)
    return cluster


@pytest.fixture
def node(fenced: ControlPlane, namespace: str, node_name: str, tmp_path: Path) -> Iterator[ActingNode]:
    with acting_node(fenced, namespace, node_name, tmp_path) as made:
        yield made


def test_a_request_far_too_large_is_shrunk_once_and_stays(node: ActingNode) -> None:
    node.run_pod("web", objects.container(requests={"cpu": "900m", "memory": "64Mi"}))
    node.start_agent()
    node.wait(lambda: node.request_of("web") != "900m", "the request is shrunk")
    node.wait(lambda: any(one["outcome"] == "applied" for one in node.events()), "it is applied")
    node.settle()
    patches = [call for call in node.write_calls() if "resize" in call]
    assert len(patches) == 1, patches


def test_a_pod_that_starves_is_grown_within_seconds(node: ActingNode) -> None:
    node.run_pod("hungry", objects.container(requests={"cpu": "50m", "memory": "64Mi"}), load="sleep")
    node.start_agent()
    node.wait(lambda: node.ask("plan")["pods"], "the plan knows the pod")
    hungry = node.cgroup_of(node.pod("hungry"), "app")
    for _ in range(3):
        node.tree.spawn("others", "busy")
    node.tree.spawn(hungry, "busy")
    node.wait(lambda: node.request_of("hungry") != "50m", "the starved pod is grown")
    event = node.wait(lambda: node.events(outcomes=["accepted", "applied"]), "it is told")[-1]
    assert event["pod"]["name"] == "hungry"
    assert event["changes"][0]["before"] == 50
