"""An odd pod, whatever its annotations order, does not stop the others of its node: real API server, real agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.control_plane import ControlPlane
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


@pytest.fixture
def node(fenced: ControlPlane, namespace: str, node_name: str, tmp_path: Path) -> Iterator[ActingNode]:
    with acting_node(fenced, namespace, node_name, tmp_path) as made:
        yield made


def test_a_pod_that_orders_a_least_of_nothing_stops_nobody_on_its_node(node: ActingNode) -> None:
    app = objects.container(requests={"cpu": "100m", "memory": "64Mi"})
    node.run_pod("idle", app, load="sleep", orders={"min-cpu": "0", "min-memory": "0"})
    node.run_pod("web", app, load="sleep", orders={"min-cpu": "300m"})
    node.start_agent()
    node.wait(lambda: node.request_of("web") == "300m", "its neighbour grows")
    node.wait(lambda: node.request_of("idle") != "100m", "it shrinks itself")
    assert node.request_of("idle") not in (None, "0")
    assert all(one["holds"] for one in node.ask("plan")["invariants"])
