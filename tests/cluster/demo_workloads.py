"""The workloads of ``make cluster``: a table, and the objects of the API that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from agent.core.orders.annotations import PREFIX
from tests.cluster.api import Api, Json
from tests.cluster.objects import IMAGE

NAMESPACE: Final = "default"
LOAD: Final = "demo.example/load"
"""Annotation of a pod: what its containers do, in the words of ``agent.cli.demo.load``."""
USUAL_LOAD: Final = "steady 0.02"
USUAL_REQUESTS: Final = {"cpu": "60m", "memory": "64Mi"}
"""Of containers that come without any, by a LimitRange: nobody can size a pod that requests nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoWorkload:
    """One workload with one container and one pod on the node."""

    kind: str
    name: str
    load: str
    cpu: str
    memory: str = "64Mi"
    is_guaranteed: bool = False
    """Limits equal requests."""
    orders: Mapping[str, str] = field(default_factory=dict)
    """Annotations without Plimsoll's prefix."""


WORKLOADS: Final = (
    # Asks for ten times what it uses.
    DemoWorkload(kind="Deployment", name="web", load="steady 0.04", cpu="400m"),
    # Two loads share one CPU of the machine, so that both wait; only one of them may be helped.
    DemoWorkload(kind="Deployment", name="api", load="pinned 0.75", cpu="100m"),
    DemoWorkload(kind="Deployment", name="report", load="pinned 0.75", cpu="100m", orders={"mode": "recommend"}),
    DemoWorkload(kind="Deployment", name="batch", load="bursty 1 9", cpu="150m"),
    DemoWorkload(kind="StatefulSet", name="orders", load="steady 0.05", cpu="100m", is_guaranteed=True),
    DemoWorkload(kind="StatefulSet", name="search", load="steady 0.05", cpu="150m", memory="128Mi"),
    DemoWorkload(kind="DaemonSet", name="node-logs", load="steady 0.02", cpu="50m"),
)


def create_all(api: Api, node: str) -> None:
    """Create them, bound to come to one node, and the LimitRange of their namespace."""
    limit_range = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "usual-requests"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": USUAL_REQUESTS}]},
    }
    api.create(f"/api/v1/namespaces/{NAMESPACE}/limitranges", limit_range)
    for workload in WORKLOADS:
        api.create(f"/apis/apps/v1/namespaces/{NAMESPACE}/{workload.kind.lower()}s", manifest(workload, node))


def manifest(workload: DemoWorkload, node: str) -> Json:
    """Return a workload as the API takes it."""
    labels = {"app": workload.name}
    requests = {"cpu": workload.cpu, "memory": workload.memory}
    orders = {f"{PREFIX}{name}": value for name, value in workload.orders.items()}
    container = {
        "name": "app",
        "image": IMAGE,
        "resources": {"requests": requests, **({"limits": requests} if workload.is_guaranteed else {})},
    }
    template = {
        "metadata": {"labels": labels, "annotations": {LOAD: workload.load, **orders}},
        "spec": {
            "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": workload.kind,
        "metadata": {"name": workload.name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
