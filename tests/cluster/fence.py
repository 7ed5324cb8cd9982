"""The agent's rights and the fence around its writes, as the chart ships them, on the tests' cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tests.cluster import chart, objects
from tests.cluster.api import JSON_PATCH, Api, ApiError, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name, node_bound_token
from tests.cluster.processes import wait_for

NAMESPACE, ACCOUNT = chart.NAMESPACE, "plimsoll-agent"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
_NO_ROLE: Final = re.compile("cannot (patch|create) resource")
_NODE_UNSEEN: Final = re.compile("node .* not found|enough allocatable resources")
"""Admission goes by a watch of nodes of its own, and looks at a resize's node before the policies do."""
ACTING: Final = {"mode": "enforce", "settings": {"overload": {"taint": True}}}
"""Values with which agents do all that they can: resize what nobody annotated, and taint."""
TAINT_KEY: Final = "status-taint.cluster-autoscaler.kubernetes.io/plimsoll-overload"


def install(plane: ControlPlane) -> None:
    """Apply the agent's rights and the fence, and wait until both are in force (the fence takes a second or two)."""
    plane.admin.apply_all(chart.parts(*chart.AGENT, *chart.FENCE, values=ACTING))
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
    """Return whether all policies refuse a token without a node; nothing is stored either way."""
    attempts: tuple[Callable[[], object], ...] = (
        lambda: objects.resize(
            nobody, namespace, name, objects.resize_body(app={"requests": {"cpu": "101m"}}), dryRun="All"
        ),
        lambda: set_taints(nobody, name, [taint("NoSchedule")], dryRun="All"),
        lambda: nobody.create(event_path(namespace), event("told", namespace, name), dryRun="All"),
    )
    for attempt in attempts:
        try:
            attempt()
        except ApiError as error:
            if error.status == 403 and "ValidatingAdmissionPolicy 'plimsoll-agent-" in error.message:
                continue
            if error.status == 403 and (_NO_ROLE.search(error.message) or _NODE_UNSEEN.search(error.message)):
                return False  # the role is not in force yet, or the node not known with its amounts
            raise
        return False
    return True


def agent_api(plane: ControlPlane, node: str | None) -> Api:
    """Return the API as the agent of a node, or as its account with a token that names no node."""
    return plane.api_with_token(node_bound_token(plane, NAMESPACE, ACCOUNT, node))


def taint(effect: str, key: str = TAINT_KEY) -> Json:
    """Return a taint."""
    return {"key": key, "effect": effect, "value": "true"}


def set_taints(api: Api, node: str, taints: list[Json], **query: str) -> Json:
    """Write a node's whole list of taints."""
    return api.patch(
        f"/api/v1/nodes/{node}", [{"op": "add", "path": "/spec/taints", "value": taints}], JSON_PATCH, **query
    )


def event_path(namespace: str, name: str = "") -> str:
    """Return the path of a namespace's Events, or of one."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events" + (f"/{name}" if name else "")


def event(name: str, namespace: str, node: str) -> Json:
    """Return an Event as the agent of a node tells it."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "plimsoll.dev/agent",
        "reportingInstance": node,
        "action": "Resize",
        "reason": "Resized",
        "type": "Normal",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "web", "uid": "some"},
    }
