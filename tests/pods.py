"""Pods for tests, built the way real ones are: from Kubernetes JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.core.cluster.pod import Pod
from agent.kube.objects.pod_json import pod_from_json

Amounts = Mapping[str, str]
CONFIG_HASH = "9d7115b42254d59b82440ebe8084927f"
"""Of a static pod's configuration, as a kubelet makes it."""


def container(
    name: str = "app", requests: Amounts | None = None, limits: Amounts | None = None, **fields: Any
) -> dict[str, Any]:
    """Return the JSON of a container; absent requests and limits are left out."""
    resources = {key: dict(value) for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"name": name, "resources": resources, **fields}


def sidecar(name: str, requests: Amounts | None = None, limits: Amounts | None = None) -> dict[str, Any]:
    """Return the JSON of an init container that goes on running."""
    return container(name, requests, limits, restartPolicy="Always")


def pod_json(
    *containers: object, metadata: Mapping[str, Any] | None = None, status: Any = None, **spec: Any
) -> dict[str, Any]:
    """Return the JSON of a pod named ``web`` in ``shop`` with uid ``uid-web``."""
    return {
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web", **(metadata or {})},
        "spec": {"containers": list(containers), **spec},
        "status": status or {},
    }


def make_pod(
    *containers: Mapping[str, Any], metadata: Mapping[str, Any] | None = None, status: Any = None, **spec: Any
) -> Pod:
    """Return a pod named ``web`` in ``shop`` with uid ``uid-web``."""
    return pod_from_json(pod_json(*containers, metadata=metadata, status=status, **spec))


def mirror_metadata(node: str = "node-1", config_hash: str = CONFIG_HASH, **annotations: str) -> dict[str, Any]:
    """Return what a kubelet states in the metadata of a static pod's mirror; the spec names the node too."""
    return {
        "annotations": {
            "kubernetes.io/config.mirror": config_hash,
            "kubernetes.io/config.hash": config_hash,
            "kubernetes.io/config.source": "file",
            **annotations,
        },
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": "uid-node", "controller": True}],
    }
