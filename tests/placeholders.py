"""Buffers, templates and placeholder pods for tests, as the API has them."""

from __future__ import annotations

from typing import Any

from agent.core.buffers.buffer import PLACEHOLDER_PODS, Buffer
from agent.core.buffers.placeholder_options import PlaceholderOptions
from agent.core.buffers.placeholder_pod import PlaceholderShape, placeholder_of
from agent.core.cluster.pod import Pod
from agent.kube.objects.buffer_json import pod_of_template
from agent.kube.objects.pod_json import pod_from_json

Json = dict[str, Any]
OPTIONS = PlaceholderOptions()
BUFFER = Buffer(
    namespace="shop",
    name="spare",
    uid="0b1d2c3e-4f5a-6789-abcd-ef0123456789",
    generation=1,
    created_unix_seconds=0.0,
    strategy=PLACEHOLDER_PODS,
)


def content(*containers: Json, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    """A PodTemplateSpec; without containers one of 500m and 64Mi."""
    every = list(containers) or [container("app", cpu="500m", memory="64Mi")]
    return {"metadata": {"labels": labels or {"app": "web"}}, "spec": {"containers": every, **spec}}


def container(name: str, limits: dict[str, str] | None = None, /, **requests: str) -> Json:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return {"name": name, "image": "web:1", "resources": resources}


def shape_of(template: Json, options: PlaceholderOptions = OPTIONS, buffer: Buffer = BUFFER) -> PlaceholderShape:
    shape = placeholder_of(template, pod_of_template(template), buffer, options)
    assert shape is not None
    return shape


def placeholder_pod(shape: PlaceholderShape, name: str, *, metadata: Json | None = None, **status: Any) -> Json:
    """A pod of a shape; on a node and running unless said otherwise (``node=None``, ``phase=...``)."""
    body: Any = shape.body
    node = status.pop("node", "node-a")
    spec = {**body["spec"], **({"nodeName": node} if node else {})}
    meta = {**body["metadata"], "name": name, "uid": f"uid-{name}", **(metadata or {})}
    return {**body, "metadata": meta, "spec": spec, "status": {"phase": "Running" if node else "Pending", **status}}


def read(document: Json) -> Pod:
    return pod_from_json(document)
