"""The agent's rights and the fence around its writes, as the chart ships them, on the tests' cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.cluster import objects
from tests.cluster.api import JSON_PATCH, Api, ApiError, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name, node_bound_token
from tests.cluster.processes import wait_for

RBAC: Final = Path(__file__).parents[2] / "charts" / "plimsoll" / "rbac"
AGENT, FENCE = RBAC / "agent.yaml", RBAC / "fence.yaml"
NAMESPACE, ACCOUNT = "plimsoll", "plimsoll-agent"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
TAINT_KEY: Final = "status-taint.cluster-autoscaler.kubernetes.io/plimsoll-overload"


def install(plane: ControlPlane) -> None:
    """Apply the agent's rights and the fence, and wait until both are in force (the fence takes a second or two)."""
    plane.admin.apply_files(AGENT, FENCE)
    node, namespace = fresh_name("probe"), "default"
    objects.create_node(plane.admin, node)
    plane.admin.create(objects.pod_path(namespace), objects.pod(node, node))
    nobody = agent_api(plane, None)
    try:
        wait_for(lambda: _is_fenced(nobody, namespace, node), "the fence is in force")
    finally:
        plane.admin.delete(objects.pod_path(namespace, node), gracePeriodSeconds="0")
        plane.admin.delete(f"/api/v1/nodes/{node}")


def _is_fenced(nobody: Api, namespace: str, name: str) -> bool:
    """Tell whether both policies refuse a token without a node; nothing is stored either way."""
    attempts: tuple[Callable[[], object], ...] = (
        lambda: objects.resize(
            nobody, namespace, name, objects.resize_body(app={"requests": {"cpu": "101m"}}), dryRun="All"
        ),
        lambda: set_taints(nobody, name, [taint("NoSchedule")], dryRun="All"),
    )
    for attempt in attempts:
        try:
            attempt()
        except ApiError as error:
            if error.status == 403 and "ValidatingAdmissionPolicy 'plimsoll-agent-" in error.message:
                continue
            if error.status == 403 and "cannot patch resource" in error.message:
                return False  # the role is not in force yet
            raise
        return False
    return True


def agent_api(plane: ControlPlane, node: str | None) -> Api:
    """Give the API as the agent of a node, or as its account with a token that names no node."""
    return plane.api_with_token(node_bound_token(plane, NAMESPACE, ACCOUNT, node))


def taint(effect: str, key: str = TAINT_KEY) -> Json:
    """Give a taint."""
    return {"key": key, "effect": effect, "value": "true"}


def set_taints(api: Api, node: str, taints: list[Json], **query: str) -> Json:
    """Write a node's whole list of taints."""
    return api.patch(
        f"/api/v1/nodes/{node}", [{"op": "add", "path": "/spec/taints", "value": taints}], JSON_PATCH, **query
    )
