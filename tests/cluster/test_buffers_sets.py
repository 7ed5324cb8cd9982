"""Sets of different pods: a buffer for each template, as the chart's README has it for leader-worker sets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests import yaml_texts
from tests.cluster.api import Json, is_awaited
from tests.cluster.buffers import CRD_PATH, Buffers, buffers_path, controller, install_crd, templates_path
from tests.cluster.chart import CHART
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import container, create_node, pod, pod_path
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

GROUP, PLURAL = "leaderworkerset.x-k8s.io", "leaderworkersets"
NAME_LABEL, INDEX_LABEL = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/worker-index"
LEADERS = f"{NAME_LABEL}=llm,{INDEX_LABEL}=0"
"""As the set's own controller writes it into status.hpaPodSelector."""
NODE = "node-of-sets"


def example() -> list[Json]:
    """Return the objects of the README's example."""
    text = (CHART / "README.md").read_text()
    [source] = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.S) if "name: llm-worker" in block]
    return list(yaml_texts.load_all(source))


@pytest.fixture(scope="module")
def served(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """A server that knows buffers, and leader-worker sets as far as their scale goes."""
    install_crd(cluster)
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.hpaPodSelector",
            },
        },
    }
    spec = {
        "group": GROUP,
        "names": {"kind": "LeaderWorkerSet", "plural": PLURAL, "singular": "leaderworkerset"},
        "scope": "Namespaced",
        "versions": [version],
    }
    cluster.admin.create(CRD_PATH, {"metadata": {"name": f"{PLURAL}.{GROUP}"}, "spec": spec})
    wait_for(lambda: is_awaited(lambda: cluster.admin.get(f"/apis/{GROUP}/v1/{PLURAL}"), 404, 429), "sets are served")
    create_node(cluster.admin, NODE, cpu="64", memory="512Gi")
    yield cluster
    cluster.admin.delete(f"/api/v1/nodes/{NODE}")
    cluster.admin.delete(f"{CRD_PATH}/{PLURAL}.{GROUP}")


def test_the_example_of_the_readme_keeps_two_groups(served: ControlPlane, namespace: str) -> None:
    room = Buffers(served, namespace)
    for document in example():
        is_buffer = document["kind"] == "CapacityBuffer"
        served.admin.create(buffers_path(namespace) if is_buffer else templates_path(namespace), document)
    with controller(served):
        room.await_replicas("llm-leader", 2)
        room.await_replicas("llm-worker", 6)
        assert room.chunk("llm-leader") == {"cpu": "1", "memory": "4Gi"}
        assert room.chunk("llm-worker") == {"cpu": "8", "memory": "64Gi"}


def test_a_set_itself_counts_as_its_groups_and_shows_its_leaders(served: ControlPlane, namespace: str) -> None:
    """So the README says that the workers' buffer needs a template."""
    room = Buffers(served, namespace)
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/{PLURAL}"
    whole = {"apiVersion": f"{GROUP}/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "llm"}}
    served.admin.create(path, {**whole, "spec": {"replicas": 5}})
    status = {"status": {"replicas": 5, "hpaPodSelector": LEADERS}}
    served.admin.patch(f"{path}/llm/status", status, "application/merge-patch+json")
    for index, cpu in enumerate(("1", "8", "8")):  # the leader is the oldest
        document = pod(f"llm-0-{index}", NODE, container(requests={"cpu": cpu}))
        document["metadata"]["labels"] = {NAME_LABEL: "llm", INDEX_LABEL: str(index)}
        served.admin.create(pod_path(namespace), document)
    with controller(served):
        room.create("b", scalableRef={"apiGroup": GROUP, "kind": "LeaderWorkerSet", "name": "llm"}, percentage=40)
        room.await_replicas("b", 2)
        assert room.chunk("b") == {"cpu": "1"}
