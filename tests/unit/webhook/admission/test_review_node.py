"""What the nodes can allocate, and what of it a review minds."""

from __future__ import annotations

import json

import pytest

from agent.core.cluster.facts import NodeAmounts
from agent.webhook.admission.review import Reviewer
from tests.admissions import (
    EXACT,
    LARGE,
    NOW_UNIX_SECONDS,
    Cluster,
    Told,
    estimate,
    new_pod,
    resources,
    response_of,
    review_of,
)
from tests.json_patch import apply_patch
from tests.pods import container

SMALL = NodeAmounts(cpu_millicores=1500, memory_bytes=1 << 30)
TERMS = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]
BOUND = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}}
APP = container("app", {"cpu": "500m", "memory": "300M"})


@pytest.mark.parametrize(
    ("nodes", "largest", "cpu"),
    [
        pytest.param({"node-a": LARGE}, SMALL, "2000m", id="its own node has room"),
        pytest.param({"node-a": SMALL}, LARGE, "500m", id="its own has none"),
        pytest.param({}, LARGE, "2000m", id="its own is not known, another has room"),
        pytest.param({}, SMALL, "500m", id="none has room"),
        pytest.param({}, None, "500m", id="no node says what it has"),
    ],
)
def test_growth_is_bounded_by_the_node_that_the_pod_is_bound_for_else_by_the_largest(
    nodes: dict[str, NodeAmounts], largest: NodeAmounts | None, cpu: str
) -> None:
    document = new_pod(APP, kind="StatefulSet", affinity=BOUND)
    cluster, history = Cluster(nodes=nodes, largest=largest), Told(estimate(cpu=2000))
    reviewer = Reviewer(cluster, history, EXACT, clock=lambda: NOW_UNIX_SECONDS)
    response = response_of(reviewer.review(json.dumps(review_of(document)).encode()))
    assert resources(apply_patch(document, response["patch"]))["requests"]["cpu"] == cpu
