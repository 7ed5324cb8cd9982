"""Nodes and pods as objects of the API, and the words in which a kubelet reports on them."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from agent.core.numbers.quantity import parse_quantity
from tests.cluster.api import MERGE, STRATEGIC, Api, Json

POD_LEVEL_RESIZE: Final = "InPlacePodLevelResourcesVerticalScaling"
"""The feature a node must declare before the API server takes a pod-level resize (1.36 and newer)."""
RESIZE_PENDING, RESIZE_IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
IMAGE: Final = "registry.example/app:1"


def now() -> str:
    """Return the time as the API writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, *, labels: Mapping[str, str] | None = None) -> Json:
    """Return a Node that pods may be bound to; its status is written by ``write_node_status``."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name} | dict(labels or {}),
        },
    }


def create_node(
    api: Api,
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    kubelet_version: str = "v1.37.1",
    declared_features: Iterable[str] = (POD_LEVEL_RESIZE,),
    labels: Mapping[str, str] | None = None,
) -> Json:
    """Create a node that is ready and has no taints.

    Args:
        api: An administrator.
        name: Of the node.
        cpu: Allocatable.
        memory: Allocatable.
        kubelet_version: As the kubelet would report it.
        declared_features: What the node says that it can; servers older than 1.35 drop it.
        labels: Beside the usual two.
    """
    api.create("/api/v1/nodes", node(name, labels=labels))
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "nodeInfo": node_info(kubelet_version),
        "declaredFeatures": sorted(declared_features),
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": now()}
        ],
    }
    write_node_status(api, name, status)
    # The server gives every new node the taint not-ready. The controller that takes it away does not run, as it would
    # taint nodes that send no heartbeat.
    return api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)


def node_info(kubelet_version: str) -> Json:
    """Return a nodeInfo; every field of it is required."""
    return {
        "kubeletVersion": kubelet_version,
        "kubeProxyVersion": "",
        "containerRuntimeVersion": "containerd://2.3.7",
        "kernelVersion": "6.1.0",
        "osImage": "tests",
        "operatingSystem": "linux",
        "architecture": "amd64",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
    }


def write_node_status(api: Api, name: str, status: Json) -> Json:
    """Write parts of a node's status, for instance ``{"allocatable": {...}}``; the rest stays."""
    return api.patch(f"/api/v1/nodes/{name}/status", {"status": status})


def container(name: str = "app", **resources: Any) -> Json:
    """Return a container; keywords are fields of ``resources``: ``requests={"cpu": "100m"}``, ``limits=...``."""
    return {"name": name, "image": IMAGE, "resources": resources}


def pod(
    name: str,
    node: str | None,
    *containers: Json,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """Return a pod bound to a node (no scheduler is needed then); further keywords are fields of its spec."""
    bound = {} if node is None else {"nodeName": node}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {}), "labels": dict(labels or {})},
        "spec": {
            "containers": list(containers) or [container(requests={"cpu": "100m", "memory": "64Mi"})],
            "terminationGracePeriodSeconds": 0,
            **bound,
            **spec,
        },
    }


def pod_path(namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of a pod, of the pods of a namespace, or of a subresource."""
    return "/".join(part for part in (f"/api/v1/namespaces/{namespace}/pods", name, subresource) if part)


def resize_body(**containers: Mapping[str, Mapping[str, str]]) -> Json:
    """Return the body of a resize: ``resize_body(app={"requests": {"cpu": "200m"}})``."""
    return {"spec": {"containers": [{"name": name, "resources": amounts} for name, amounts in containers.items()]}}


def resize(api: Api, namespace: str, name: str, body: Json, **query: str) -> Json:
    """Patch a pod's resources through the subresource."""
    return api.patch(pod_path(namespace, name, "resize"), body, STRATEGIC, **query)


def write_pod_status(api: Api, namespace: str, name: str, status: Json, *, pod: Json | None = None) -> Json:
    """Write parts of a pod's status; conditions are merged by type, container statuses by name.

    The API merges conditions itself (``{"type": ..., "$patch": "delete"}`` removes one) but takes lists of container
    statuses as a whole: these are completed here from what stands in `pod`, which is read where it is not given.
    """
    path = pod_path(namespace, name)
    there = (api.get(path) if pod is None else pod).get("status", {})
    body = dict(status)
    for key in ("containerStatuses", "initContainerStatuses"):
        if key in status:
            changes = {entry["name"]: entry for entry in status[key]}
            statuses = [entry | changes.pop(entry["name"], {}) for entry in there.get(key) or []]
            body[key] = [*statuses, *changes.values()]
    return api.patch(f"{path}/status", {"status": body})


def condition(type_: str, *, generation: int, reason: str = "", message: str = "", is_true: bool = True) -> Json:
    """Return a condition of a pod."""
    return {
        "type": type_,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": now(),
    }


def deferred(generation: int, message: str = "Node didn't have enough resource: cpu") -> Json:
    """Return the kubelet's "fits the node, but not now"."""
    return condition(RESIZE_PENDING, generation=generation, reason="Deferred", message=message)


def infeasible(generation: int, message: str = "In-place resize of containers is not supported here") -> Json:
    """Return the kubelet's "never on this node"."""
    return condition(RESIZE_PENDING, generation=generation, reason="Infeasible", message=message)


def in_progress(generation: int, *, error: str | None = None) -> Json:
    """Return the kubelet's "allocated, not yet done", or why it cannot be done now."""
    return condition(
        RESIZE_IN_PROGRESS, generation=generation, reason="" if error is None else "Error", message=error or ""
    )


def running_status(pod: Json) -> Json:
    """Return the status of a pod that runs as its spec says, in the words of a kubelet of 1.37."""
    generation = pod["metadata"].get("generation", 1)
    spec = pod["spec"]
    status: Json = {
        "phase": "Running",
        "observedGeneration": generation,
        "startTime": now(),
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "conditions": [
            condition(type_, generation=generation)
            for type_ in ("PodReadyToStartContainers", "PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [container_status(pod, manifest) for manifest in spec["containers"]],
        **pod_level(spec),
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [container_status(pod, manifest) for manifest in spec["initContainers"]]
    return status


def pod_level(spec: Json) -> Json:
    """Return the pod-level fields of a status. A kubelet sets them for every pod, with or without pod-level resources.

    Without a pod-level CPU request the reported one is read back from the cgroup's weight, which loses: 100m shows as
    79m. Nobody should size by it, and the tests' kubelet sets the trap. Overhead is left out here.

    Source:
        pod-level status of Kubernetes 1.37.1, seen on a real node; servers older than 1.35 drop the fields.
    """
    own = spec.get("resources") or {}
    containers = [manifest.get("resources", {}) for manifest in lasting_containers(spec)]
    requests, limits = (
        {
            resource: own.get(kind, {}).get(resource) or total(containers, kind, resource)
            for resource in ("cpu", "memory")
        }
        for kind in ("requests", "limits")
    )
    allocated = {resource: amount for resource, amount in requests.items() if amount is not None}
    actual = dict(allocated)
    if "cpu" in actual and "cpu" not in own.get("requests", {}):
        actual["cpu"] = f"{read_back_millicores(parse_quantity(actual['cpu']) // 10**6)}m"
    reported: Json = {"requests": actual, "limits": {name: amount for name, amount in limits.items() if amount}}
    return {"resources": reported, "allocatedResources": allocated}


def lasting_containers(spec: Json) -> list[Json]:
    """Return the containers that run as long as the pod: regular ones and sidecars."""
    sidecars = [sidecar for sidecar in spec.get("initContainers", []) if sidecar.get("restartPolicy") == "Always"]
    return [*spec["containers"], *sidecars]


def total(resources: Iterable[Json], kind: str, resource: str) -> str | None:
    """Sum one resource over containers; None = none has it, or, of limits, not all have it."""
    amounts = [container_resources.get(kind, {}).get(resource) for container_resources in resources]
    present = [parse_quantity(amount) for amount in amounts if amount is not None]
    if not present or (kind == "limits" and len(present) < len(amounts)):
        return None
    nanos = sum(present)
    return f"{nanos // 10**6}m" if resource == "cpu" else str(nanos // 10**9)


def read_back_millicores(millicores: int) -> int:
    """Return what a kubelet reads back from the weight it wrote for a CPU request (linear formula of pod cgroups).

    Source:
        kubelet's conversions: shares = m * 1024 / 1000, weight = 1 + (shares - 2) * 9999 / 262142, whole numbers.
    """
    shares = max(2, millicores * 1024 // 1000)
    weight = 1 + (shares - 2) * 9999 // 262142
    return -(-(2 + (weight - 1) * 262142 // 9999) * 1000 // 1024)


def container_status(pod: Json, container: Json) -> Json:
    """Return the status of one container of a pod that runs (an ordinary init container has ended)."""
    is_done = container in pod["spec"].get("initContainers", []) and container.get("restartPolicy") != "Always"
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now()}
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "containerID": container_id(pod["metadata"]["uid"], container["name"]),
        "ready": True,
        "started": not is_done,
        "restartCount": 0,
        "state": {"terminated": ended} if is_done else {"running": {"startedAt": now()}},
        "resources": container.get("resources", {}),
        "allocatedResources": container.get("resources", {}).get("requests", {}),
    }


def container_id(uid: str, name: str, restart: int = 0) -> str:
    """Return an id as containerd would: 64 hexadecimal digits, another one after each restart."""
    return f"containerd://{hashlib.sha256(f'{uid}/{name}/{restart}'.encode()).hexdigest()}"
