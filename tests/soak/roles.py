"""The pods of the day, by role: what each asks for, what it does, and whether the agent may resize it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agent.core.orders.annotations import PREFIX
from tests.cluster import objects
from tests.cluster.api import Json
from tests.cluster.demo_workloads import LOAD

NAMESPACE: Final = "soak"
"""Its new pods are the webhook's to size."""
SPARED_NAMESPACE: Final = "soak-spared"
"""Whose annotation says mode off."""
SYSTEM_NAMESPACE: Final = "kube-system"
HERE, ELSEWHERE = "soak-node", "soak-other-node"
TEMPLATE_HASH: Final = "7c5ddbdf54"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One workload of the day."""

    owner: str | None
    """Its kind; None = the pod is nobody's."""
    load: str = "steady 0.01"
    """In the words of ``agent.cli.demo.load``: share of a CPU."""
    requests: Mapping[str, str] = field(default_factory=lambda: {"cpu": "200m", "memory": "64Mi"})
    limits: Mapping[str, str] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    """Annotations without Plimsoll's prefix."""
    namespace: str = NAMESPACE
    node: str = HERE
    may_be_resized: bool = True
    weight: float = 1.0
    """How many of those that come and go, to the others."""
    cpu_bounds_millicores: tuple[int, int] = (1, 10_000)
    """What its orders allow."""


_BOTH: Final = {"cpu": "100m", "memory": "64Mi"}
ROLES: Final[Mapping[str, Role]] = {
    "web": Role(owner="Deployment", weight=4.0),
    "api": Role(owner="Deployment", load="steady 0.04", requests={"cpu": "20m", "memory": "64Mi"}, weight=3.0),
    "store": Role(owner="StatefulSet", load="steady 0.02", limits={"memory": "256Mi"}, weight=2.0),
    "edge": Role(owner="DaemonSet", load="steady 0.005", requests={"cpu": "100m", "memory": "64Mi"}),
    "limited": Role(owner="Deployment", load="steady 0.02", limits={"cpu": "800m"}),
    "bounded": Role(owner="Deployment", orders={"min-cpu": "90m", "max-cpu": "150m"}, cpu_bounds_millicores=(90, 150)),
    "batch": Role(owner="Deployment", load="bursty 0.2 5", weight=2.0),
    # From here on nobody may be resized.
    "guaranteed": Role(owner="StatefulSet", requests=_BOTH, limits=_BOTH, may_be_resized=False),
    "bare": Role(owner=None, may_be_resized=False),
    "job": Role(owner="Job", may_be_resized=False),
    "off": Role(owner="Deployment", orders={"mode": "off"}, may_be_resized=False),
    "advised": Role(owner="Deployment", orders={"mode": "recommend"}, may_be_resized=False),
    "system": Role(owner="Deployment", namespace=SYSTEM_NAMESPACE, may_be_resized=False, weight=0.5),
    "spared": Role(owner="Deployment", namespace=SPARED_NAMESPACE, may_be_resized=False, weight=0.5),
    "effort": Role(owner="Deployment", requests={}, may_be_resized=False, weight=0.5),
    "stranger": Role(owner="Deployment", node=ELSEWHERE, may_be_resized=False),
}


def document(name: str, role_name: str) -> Json:
    """Return a pod as its controller creates it, bound to its node."""
    role = ROLES[role_name]
    stated: Json = {"requests": dict(role.requests), "limits": dict(role.limits)}
    amounts: Json = {kind: amounts for kind, amounts in stated.items() if amounts}
    annotations = {LOAD: role.load, **{f"{PREFIX}{key}": value for key, value in role.orders.items()}}
    labels = {"pod-template-hash": TEMPLATE_HASH} if role.owner == "Deployment" else {}
    pod = objects.pod(name, role.node, objects.container(**amounts), annotations=annotations, labels=labels)
    if role.owner is not None:
        pod["metadata"]["ownerReferences"] = [{**_owner(role_name, role.owner), "controller": True}]
    return pod


def history_key(role_name: str) -> str:
    """Return under which key a node keeps the history of a role's container."""
    role = ROLES[role_name]
    return f"workload:{role.namespace}/{role.owner}/{role_name}/app"


def _owner(role_name: str, kind: str) -> dict[str, Any]:
    """Return the reference to a controller that is in name only: no collector of garbage runs."""
    if kind == "Deployment":
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"{role_name}-{TEMPLATE_HASH}",
            "uid": f"uid-{role_name}",
        }
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "name": role_name, "uid": f"uid-{role_name}"}
