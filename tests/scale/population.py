"""Hundreds of nodes with their pods on the tests' control plane; kwok plays the kubelets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tests.cluster import chart
from tests.cluster.api import Json
from tests.cluster.binaries import require
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace
from tests.cluster.objects import node, pod, pod_path
from tests.cluster.processes import Process, wait_for
from tests.cluster.webhook_process import ACCOUNT, AUDIENCE, NAMESPACE

MAKERS: Final = 8
SHOP: Final = "shop"
"""Where the pods are that the agents are about."""
STAGES: Final = Path(__file__).with_name("stages.yaml")
LEASE_SECONDS: Final = 40
"""As kubelets have it: renewed each ten."""
HASH: Final = "7c5ddbdf54"
REPLICAS: Final = 20
"""Of one Deployment."""
TEMPLATES: Final = (*chart.AGENT, *chart.WEBHOOK, "cluster/flow-control")
"""Rights and the priority level, as the chart ships them; nobody writes here whom the fence could hold."""
DEADLINE_SECONDS: Final = 900.0
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One node, and what its agent has: two tokens bound to the agent's pod there, as a kubelet projects them."""

    node: str
    pods: tuple[tuple[str, str, str], ...]
    """Deployment, name and uid of the pods there, but for the agent's own."""
    api_token: str
    webhook_token: str


def each(items: Iterable[_Item], work: Callable[[_Item], _Made]) -> list[_Made]:
    """Do it for all, some at a time; what they gave, in order."""
    with ThreadPoolExecutor(MAKERS) as pool:
        return list(pool.map(work, items))


def install(plane: ControlPlane) -> None:
    """Apply the chart's rights and its priority level; no pod of it runs here."""
    manifests = chart.parts(*TEMPLATES, values={"mode": "enforce", "webhook": {"postgresql": {"existingSecret": "x"}}})
    plane.admin.apply_all(manifests)


@contextlib.contextmanager
def kubelets(plane: ControlPlane, stages: Path = STAGES) -> Iterator[Process]:
    """Let kwok play every node's kubelet inside the block, by such stages."""
    command: list[str | Path] = [
        require("kwok"),
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={stages}",
        "--manage-all-nodes",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
    ]
    process = Process("kwok", command, plane.directory / "kwok.log")
    try:
        yield process
    finally:
        process.stop(kill=True)


def populate(plane: ControlPlane, *, nodes: int, pods_of_node: int) -> list[Seat]:
    """Make the nodes, on each one pod of the agent and so many others; wait until all run."""
    create_namespace(plane, SHOP)
    names = [f"node-{number:04}" for number in range(nodes)]
    labels = {"node.kubernetes.io/instance-type": "m5.4xlarge"}
    each(names, lambda name: plane.admin.create("/api/v1/nodes", node(name, labels=labels)))
    agents = each(names, lambda name: _uid(plane, NAMESPACE, _agent_pod(name)))
    others = each(range(nodes * pods_of_node), lambda number: _shop_pod(plane, names[number % nodes], number))
    wait_for(lambda: _all_run(plane), "all pods run", DEADLINE_SECONDS)
    tokens = each(zip(names, agents, strict=True), lambda pair: _tokens(plane, *pair))
    return [
        Seat(node=name, pods=tuple(others[number::nodes]), api_token=api, webhook_token=webhook)
        for number, (name, (api, webhook)) in enumerate(zip(names, tokens, strict=True))
    ]


def replace_pods(plane: ControlPlane, seats: Iterable[Seat], *, first_number: int) -> int:
    """Delete one pod of each node and make another one; give how many."""
    changed = list(seats)

    def replace(numbered: tuple[int, Seat]) -> None:
        number, seat = numbered
        plane.admin.delete(pod_path(SHOP, seat.pods[0][1]), gracePeriodSeconds="0")
        _shop_pod(plane, seat.node, first_number + number)

    each(enumerate(changed), replace)
    return len(changed)


def _all_run(plane: ControlPlane) -> bool:
    return not plane.admin.items("/api/v1/pods", fieldSelector="status.phase!=Running", limit="1")


def _owner(kind: str, name: str) -> Json:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def _agent_pod(name: str) -> Json:
    document = pod(f"plimsoll-agent-{name}", name, serviceAccountName=ACCOUNT, automountServiceAccountToken=False)
    document["metadata"]["ownerReferences"] = [_owner("DaemonSet", "plimsoll-agent")]
    return document


def _shop_pod(plane: ControlPlane, on: str, number: int) -> tuple[str, str, str]:
    deployment = f"web-{number // REPLICAS}"
    document = pod(f"{deployment}-{HASH}-{number}", on, automountServiceAccountToken=False)
    document["metadata"]["labels"] = {"pod-template-hash": HASH}
    document["metadata"]["ownerReferences"] = [_owner("ReplicaSet", f"{deployment}-{HASH}")]
    return deployment, document["metadata"]["name"], _uid(plane, SHOP, document)


def _uid(plane: ControlPlane, namespace: str, document: Json) -> str:
    uid: str = plane.admin.create(pod_path(namespace), document)["metadata"]["uid"]
    return uid


def _tokens(plane: ControlPlane, name: str, pod_uid: str) -> tuple[str, str]:
    return _token(plane, name, pod_uid, ()), _token(plane, name, pod_uid, (AUDIENCE,))


def _token(plane: ControlPlane, name: str, pod_uid: str, audiences: tuple[str, ...]) -> str:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": f"plimsoll-agent-{name}", "uid": pod_uid}
    spec = {"audiences": list(audiences), "expirationSeconds": 7200, "boundObjectRef": reference}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    token: str = plane.admin.create(path, request)["status"]["token"]
    return token
