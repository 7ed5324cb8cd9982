"""The cluster of tests/data/cost/by-hand.md: three nodes, three prices, twelve pods, as API objects."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.cluster.placement import Operator, Requirement, Selector
from agent.core.cluster.workload import Workload
from agent.core.cost.allocation import CostNode, CostPod, PodRequests, PodSizes
from agent.core.cost.price_sheet import parse_sheet
from agent.core.cost.prices import Prices, parse_rules
from agent.core.orders.policy_options import PolicyName
from agent.kube.objects.cluster_json import node_facts_from_json, pod_place_from_json

MONTH: Final = 730
GIB: Final = 1 << 30
SHEET: Final = Path(__file__).parent / "data" / "cost" / "prices.csv"
RULES: Final = "karpenter.sh/capacity-type=spot,node.kubernetes.io/instance-type=c5a.xlarge:0.12"
PRICES: Final = Prices(
    cpu_core_hour=Decimal("0.04"),
    memory_gib_hour=Decimal("0.005"),
    rules=parse_rules(RULES),
    sheet=parse_sheet(SHEET.read_text()),
)
NAMESPACES: Final = {"bank": "88.5125", "kube-system": "14.235", "shop": "82.125"}
WORKLOADS: Final = {
    "bank/Deployment/batch": ("22.8125", "0", "0", "0"),
    "bank/StatefulSet/db": ("65.7", "0", "5.475", "21.9"),
    "kube-system/DaemonSet/agent": ("14.235", "0", "0", "0"),
    "shop/Deployment/cart": ("36.5", "54.75", "0", "0"),
    "shop/Deployment/web": ("45.625", "0", "21.9", "4.5625"),
}
"""A month: what its pods request, freed, possible, needed."""
NODES: Final = {"n1": ("87.6", "45.0775"), "n2": ("131.4", "61.32"), "n3": ("350.4", "278.13")}
LABELS: Final = {"": "37.0475", "data": "65.7", "shop": "82.125"}
TOTAL, PODS, IDLE = "569.4", "184.8725", "384.5275"
FREED, POSSIBLE, NEEDED = "54.75", "27.375", "26.4625"

_PODS: Final = (
    # name, workload, node, millicores, GiB in halves, millicores as written
    ("shop", "web-1", "Deployment/web", "n1", 500, 2, 500),
    ("shop", "web-2", "Deployment/web", "n1", 500, 2, 500),
    ("bank", "db-0", "StatefulSet/db", "n1", 1000, 8, 1000),
    ("kube-system", "agent-a", "DaemonSet/agent", "n1", 100, 1, 100),
    ("shop", "web-3", "Deployment/web", "n2", 500, 2, 500),
    ("shop", "cart-1", "Deployment/cart", "n2", 250, 4, 1000),
    ("bank", "batch-1", "Deployment/batch", "n2", 250, 1, 250),
    ("kube-system", "agent-b", "DaemonSet/agent", "n2", 100, 1, 100),
    ("shop", "cart-2", "Deployment/cart", "n3", 250, 4, 1000),
    ("bank", "db-1", "StatefulSet/db", "n3", 1000, 8, 1000),
    ("bank", "batch-2", "Deployment/batch", "n3", 250, 1, 250),
    ("kube-system", "agent-c", "DaemonSet/agent", "n3", 100, 1, 100),
)
_TEAMS: Final = {"web": "shop", "cart": "shop", "db": "data"}
_ADVICE: Final = {"web": (200, 3), "db": (1500, 6), "cart": (250, 4)}


def node_documents() -> list[dict[str, Any]]:
    """Return the nodes as the API has them."""
    spot = {"karpenter.sh/capacity-type": "spot", "node.kubernetes.io/instance-type": "c5a.xlarge"}
    shapes: tuple[tuple[str, int, int, dict[str, str]], ...] = (
        ("n1", 4, 16, spot),
        ("n2", 2, 8, {}),
        ("n3", 8, 32, {}),
    )
    return [
        {
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {},
            "status": {
                "capacity": {"cpu": str(cores), "memory": f"{gib}Gi", "pods": "110"},
                "allocatable": {"cpu": str(cores), "memory": f"{gib}Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.35.0"},
            },
        }
        for name, cores, gib, labels in shapes
    ]


def pod_documents() -> list[dict[str, Any]]:
    """Return the pods as the API has them."""
    return [_pod_document(number, *fields) for number, fields in enumerate(_PODS)]


def _pod_document(
    number: int, namespace: str, name: str, workload: str, node: str, millicores: int, halves: int, written: int
) -> dict[str, Any]:
    kind, _, owner = workload.partition("/")
    labels = {"app": owner, **({"team": _TEAMS[owner]} if owner in _TEAMS else {})}
    if kind == "Deployment":
        labels["pod-template-hash"] = "5d4f6b7c8"
        kind, owner = "ReplicaSet", f"{owner}-5d4f6b7c8"
    memory = f"{halves * 512}Mi"
    original = f'{{"containers":{{"app":{{"requests":{{"cpu":"{written}m","memory":"{memory}"}},"limits":{{}}}}}}}}'
    return {
        "metadata": {
            "uid": f"uid-{number}",
            "namespace": namespace,
            "name": name,
            "labels": labels,
            "annotations": {"plimsoll.dev/original-resources": original} if written != millicores else {},
            "ownerReferences": [{"kind": kind, "name": owner, "uid": owner, "controller": True}],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "app", "resources": {"requests": {"cpu": f"{millicores}m", "memory": memory}}}],
        },
        "status": {"phase": "Running"},
    }


class Advice:
    """Who says what is recommended, as the sheet has it."""

    def estimate(self, workload: Workload, container: str, **_: object) -> Estimate | NoEstimate:
        if workload.name not in _ADVICE:
            return NoEstimate.TOO_YOUNG
        millicores, halves = _ADVICE[workload.name]
        return Estimate(
            source=EstimateSource.WORKLOAD,
            policy=PolicyName.CRUISE,
            cpu_request_millicores=millicores,
            memory_request_bytes=halves * GIB // 2,
            cpu_max_millicores=None,
            memory_max_bytes=None,
            oom_memory_bytes=None,
            cpu_base_millicores=None,
            memory_base_bytes=None,
            history_seconds=1e6,
            pods=2,
            newest_age_seconds=0.0,
        )


def selector(**labels: str) -> Selector:
    """Return a selector of labels."""
    return Selector(
        requirements=tuple(Requirement(key=key, operator=Operator.IN, values=(value,)) for key, value in labels.items())
    )


def sheet_nodes() -> list[CostNode]:
    """Return the nodes as the rules take them."""
    facts = [node_facts_from_json(document) for document in node_documents()]
    return [
        CostNode(name=node.name, capacity=node.capacity, allocatable=node.allocatable, placement=node.placement)
        for node in facts
    ]


def sheet_pods() -> list[CostPod]:
    """Return the pods as the rules take them."""
    pods = []
    for document in pod_documents():
        place = pod_place_from_json(document)
        assert place.placement is not None
        assert place.containers is not None
        now = PodRequests(cpu_millicores=place.cpu_request_millicores, memory_bytes=place.memory_request_bytes)
        advice = _ADVICE.get(place.workload.name)
        pods.append(
            CostPod(
                namespace=place.namespace,
                name=place.name,
                workload=place.workload,
                node=place.node,
                sizes=PodSizes(
                    now=now,
                    written=PodRequests(
                        cpu_millicores=place.containers[0].cpu_request_millicores or 0, memory_bytes=now.memory_bytes
                    ),
                    recommended=None
                    if advice is None
                    else PodRequests(cpu_millicores=advice[0], memory_bytes=advice[1] * GIB // 2),
                ),
                placement=place.placement,
            )
        )
    return pods
