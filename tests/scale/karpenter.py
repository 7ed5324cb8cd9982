"""Karpenter with its kwok provider on the tests' control plane: it makes Nodes, kwok plays their kubelets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.chart.operator_kinds import Module, definitions_of
from tests.cluster.api import MERGE, Json, is_awaited, kubeconfig
from tests.cluster.binaries import KARPENTER, require
from tests.cluster.buffers import CRD_PATH
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import pod_path
from tests.cluster.processes import Process, free_ports, wait_for
from tests.scale import population
from tests.scale.population import STAGES

USER: Final = "system:serviceaccount:kube-system:karpenter"
"""Who it is to the API server; its rights are not what is tried here."""
DEFINITIONS: Final = Module(
    path="sigs.k8s.io/karpenter",
    version=f"v{KARPENTER}",
    sum="h1:5SEptlAvsOZbNg4qg8OSdF1qi6BEZHZLA020nXY7jGw=",
    files=(
        *(f"kwok/charts/crds/karpenter.sh_{kind}.yaml" for kind in ("nodeclaims", "nodeoverlays", "nodepools")),
        "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
    ),
    needed_go=(1, 26, 9),
)
NODES: Final = "/api/v1/nodes"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
CPUS: Final = "4"
"""Of each node that it may make; 100m of them are reserved."""
IDLE_SECONDS: Final = 2
"""After so long without a new pod a node may be consolidated."""
SECONDS: Final = 120.0
"""Patience: it looks at its nodes each ten seconds, and at buffers each thirty."""


def install(plane: ControlPlane) -> None:
    """Install Karpenter's kinds, and one pool of nodes that may all be consolidated at any time."""
    for document in definitions_of(DEFINITIONS):
        plane.admin.create(CRD_PATH, document)
    for path in (CLAIMS, POOLS, CLASSES):
        wait_for(partial(is_awaited, partial(plane.admin.get, path), 404, 429), f"{path} is served")
    group = "karpenter.kwok.sh"
    plane.admin.create(
        CLASSES, {"apiVersion": f"{group}/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
    )
    wanted = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.sh/capacity-type": "on-demand",
        f"{group}/instance-cpu": CPUS,
        f"{group}/instance-family": "c",
    }
    template = {
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()],
        "nodeClassRef": {"group": group, "kind": "KWOKNodeClass", "name": "default"},
        "expireAfter": "Never",
    }
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": f"{IDLE_SECONDS}s",
        "budgets": [{"nodes": "100%"}],
    }
    plane.admin.create(
        POOLS,
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": template}, "disruption": disruption},
        },
    )


@contextlib.contextmanager
def kubelets(plane: ControlPlane) -> Iterator[Process]:
    """Let kwok play every node's kubelet inside the block; a node is as large as who made it says."""
    stages = plane.directory / "stages.yaml"
    stages.write_text(yaml.safe_dump_all(map(_of_its_own_size, yaml.safe_load_all(STAGES.read_text()))))
    with population.kubelets(plane, stages) as process:
        yield process


def _of_its_own_size(stage: dict[str, Any]) -> dict[str, Any]:
    next_one = stage["spec"]["next"]
    if "statusTemplate" in next_one:
        lines = next_one["statusTemplate"].splitlines(keepends=True)
        next_one["statusTemplate"] = "".join(
            line for line in lines if not line.startswith(("allocatable:", "capacity:"))
        )
    return stage


@contextlib.contextmanager
def karpenter(plane: ControlPlane, *, buffers: bool, user: str = USER) -> Iterator[Process]:
    """Run Karpenter inside the block, with its gate for CapacityBuffers open or closed."""
    identity = kubeconfig(plane.api_as(user, ["system:masters"]), plane.directory / "karpenter.kubeconfig")
    metrics, probe = free_ports(2, "127.0.0.1")
    command: list[str | Path] = [
        "/usr/bin/env",
        f"KUBECONFIG={identity}",
        require("karpenter"),
        "--disable-leader-election",
        f"--metrics-port={metrics}",
        f"--health-probe-port={probe}",
        f"--feature-gates=CapacityBuffer={str(buffers).lower()}",
    ]
    process = Process("karpenter", command, plane.directory / "karpenter.log")
    try:
        yield process
    finally:
        process.stop()


# -- what it did ---------------------------------------------------------------------------------------------------


def nodes(plane: ControlPlane) -> set[str]:
    """Return the names of the nodes that are ready and not going."""
    return {
        node["metadata"]["name"]
        for node in plane.admin.items(NODES)
        if "deletionTimestamp" not in node["metadata"] and not node["spec"].get("taints") and _is_ready(node)
    }


def _is_ready(node: Json) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions") or []
    )


def why_kept(plane: ControlPlane, node: str) -> set[str]:
    """Return why Karpenter, having looked at a node, does not consolidate it, in its own words (Events)."""
    events = plane.admin.items("/api/v1/events", fieldSelector=f"involvedObject.kind=Node,involvedObject.name={node}")
    return {event["message"] for event in events if event["reason"] == "Unconsolidatable"}


def is_consolidatable(plane: ControlPlane, node: str) -> bool:
    """Return whether a node may be consolidated by now, as far as the pool's patience goes."""
    return any(
        condition["type"] == "Consolidatable" and condition["status"] == "True"
        for claim in plane.admin.items(CLAIMS)
        if claim.get("status", {}).get("nodeName") == node
        for condition in claim["status"].get("conditions") or []
    )


def await_nodes(plane: ControlPlane, count: int) -> set[str]:
    """Wait until there are so many nodes; give their names."""
    await_or_tell(lambda: len(nodes(plane)) == count, f"{count} nodes", lambda: standing(plane))
    return nodes(plane)


def standing(plane: ControlPlane) -> list[tuple[str, object]]:
    """Return nodes and their taints, claims and what is true of them: for words."""
    claims = [
        (
            claim["metadata"]["name"],
            {each["type"]: each["status"] for each in claim.get("status", {}).get("conditions", [])},
        )
        for claim in plane.admin.items(CLAIMS)
    ]
    return [*((node["metadata"]["name"], node["spec"].get("taints")) for node in plane.admin.items(NODES)), *claims]


def remove_all(plane: ControlPlane) -> None:
    """Take all nodes away, while no Karpenter runs that would wait for something."""
    for path in (CLAIMS, NODES):
        for resource in plane.admin.items(path):
            item = f"{path}/{resource['metadata']['name']}"
            plane.admin.patch(item, {"metadata": {"finalizers": None}}, MERGE)
            if plane.admin.exists(item):
                plane.admin.delete(item)
        wait_for(partial(_is_empty, plane, path), f"{path} are gone", SECONDS)


def _is_empty(plane: ControlPlane, path: str) -> bool:
    return not plane.admin.items(path)


def bound(plane: ControlPlane, namespace: str, selector: str) -> dict[str, str]:
    """Return the nodes of the pods of a selector that have one, by name."""
    pods = plane.admin.items(pod_path(namespace), labelSelector=selector)
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def writers(buffer: Json) -> dict[str, set[str]]:
    """Return what each manager owns of a buffer's status: fields, and conditions by their types."""
    by_manager: dict[str, set[str]] = {}
    for entry in buffer["metadata"].get("managedFields") or []:
        status = entry["fieldsV1"].get("f:status") if entry.get("subresource") == "status" else None
        if status is None:
            continue
        fields = {key.removeprefix("f:") for key in status if key != "f:conditions"}
        kinds = {yaml.safe_load(key[2:])["type"] for key in status.get("f:conditions", {}) if key.startswith("k:")}
        by_manager.setdefault(entry["manager"], set()).update(fields | kinds)
    return by_manager


def await_or_tell(
    condition: Callable[[], bool], what: str, state: Callable[[], object], seconds: float = SECONDS
) -> None:
    """Wait; an end of patience says how it stands."""
    try:
        wait_for(condition, what, seconds)
    except TimeoutError as error:
        raise AssertionError(f"{error}; {state()}") from error
