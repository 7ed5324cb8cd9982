"""CapacityBuffers on a real API server, and Plimsoll's controller of them in this process, as its own account."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agent.kube.client.api import HttpApi
from agent.kube.client.kubeconfig import from_kubeconfig
from agent.kube.watch.reflector import WatchPace
from agent.webhook.buffers.controller import BufferController, Collaborators
from agent.webhook.buffers.options import BufferMode, BufferOptions
from agent.webhook.buffers.seams import WritePermission
from tests import yaml_texts
from tests.buffer_collaborators import asking
from tests.cluster.api import MERGE, Json, is_awaited
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_for

CRDS: Final = Path(__file__).parents[2] / "charts/plimsoll/crds/capacitybuffers.yaml"
CRD_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP: Final = "/apis/autoscaling.x-k8s.io/v1beta1"
SPACING_SECONDS: Final = 0.05
"""Between two looks at one namespace; the second of a real controller is proved without waiting for it."""
PROMPT: Final = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.1, longest_wait_seconds=1.0)


ALWAYS: Final = WritePermission(is_leader=lambda: True)


def install_crd(cluster: ControlPlane) -> None:
    """Install the chart's CRD, once, and wait until the server serves it."""
    (document,) = yaml_texts.load_all(CRDS.read_text())
    name = document["metadata"]["name"]
    cluster.admin.patch(
        f"{CRD_PATH}/{name}", document, "application/apply-patch+yaml", fieldManager="tests", force="true"
    )
    path = f"{GROUP}/capacitybuffers"
    wait_for(lambda: is_awaited(lambda: cluster.admin.get(path), 404, 429), "the server serves buffers")


def buffers_path(namespace: str, name: str = "", subresource: str = "", *, version: str = "v1beta1") -> str:
    base = f"/apis/autoscaling.x-k8s.io/{version}/namespaces/{namespace}/capacitybuffers"
    return "/".join(part for part in (base, name, subresource) if part)


def templates_path(namespace: str, name: str = "") -> str:
    return "/".join(part for part in (f"/api/v1/namespaces/{namespace}/podtemplates", name) if part)


def managed(namespace: str, buffer: str) -> str:
    return templates_path(namespace, f"capacitybuffer-{buffer}-pod-template")


def buffer_json(name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": spec,
    }


def content(*, labels: Mapping[str, str] | None = None, **requests: str) -> Json:
    """Return a pod template of one container; one CPU unless told."""
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests or {"cpu": "1"}}}
    return {"metadata": {"labels": dict(labels or {})}, "spec": {"containers": [container]}}


def template_json(name: str, template: Json | None = None) -> Json:
    return {"metadata": {"name": name}, "template": template or content()}


class Buffers:
    """One namespace's buffers, and short words about them."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.admin = cluster.admin
        self.namespace = namespace

    def template(self, name: str, template: Json | None = None) -> Json:
        return self.admin.create(templates_path(self.namespace), template_json(name, template))

    def create(self, name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
        return self.admin.create(buffers_path(self.namespace), buffer_json(name, annotations=annotations, **spec))

    def change(self, name: str, **spec: Any) -> Json:
        return self.admin.patch(buffers_path(self.namespace, name), {"spec": spec}, MERGE)

    def delete(self, name: str) -> None:
        self.admin.delete(buffers_path(self.namespace, name))

    def get(self, name: str) -> Json:
        return self.admin.get(buffers_path(self.namespace, name))

    def status(self, name: str) -> Json:
        status: Json = self.get(name).get("status") or {}
        return status

    def condition(self, name: str, kind: str = "ReadyForProvisioning") -> Json | None:
        conditions = self.status(name).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == kind), None)

    def managed(self, name: str) -> Json:
        return self.admin.get(managed(self.namespace, name))

    def chunk(self, name: str) -> Json:
        """Return what the first container of a buffer's managed template requests."""
        requests: Json = self.managed(name)["template"]["spec"]["containers"][0]["resources"]["requests"]
        return requests

    def await_status(self, name: str, holds: Callable[[Json], bool], what: str, seconds: float = 120.0) -> Json:
        """Wait until a buffer's status is as it should be."""
        last: Json = {}

        def is_so() -> bool:
            nonlocal last
            last = self.status(name)
            return holds(last)

        try:
            wait_for(is_so, what, seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}; {name} has {last}") from error
        return last

    def await_replicas(self, name: str, replicas: int | None, seconds: float = 120.0) -> Json:
        """Wait for a number of chunks; None = there is none, and the buffer is not ready."""
        return self.await_status(
            name,
            lambda status: status.get("replicas") == replicas and bool(status.get("conditions")),
            f"{name} has {replicas} chunks",
            seconds,
        )

    def await_not_ready(self, name: str, words: str, seconds: float = 120.0) -> Json:
        """Wait until a buffer is told not to be ready, for a reason with these words."""

        def says(status: Json) -> bool:
            return any(
                row["type"] == "ReadyForProvisioning" and row["status"] == "False" and words in row["message"]
                for row in status.get("conditions") or []
            )

        return self.await_status(name, says, f"{name} is not ready: {words}", seconds)


def is_ready(status: Json) -> bool:
    return any(
        row["type"] == "ReadyForProvisioning" and row["status"] == "True" for row in status.get("conditions") or []
    )


@contextlib.contextmanager
def controller(
    cluster: ControlPlane,
    *,
    kubeconfig: Path | None = None,
    mode: BufferMode = BufferMode.AUTO,
    dry_run: bool = True,
    resync_seconds: float = 300.0,
    permission: WritePermission = ALWAYS,
    ask_seconds: float = 1.0,
    spacing_seconds: float = SPACING_SECONDS,
    collaborators: Collaborators | None = None,
    **more: Any,
) -> Iterator[BufferController]:
    """Run a controller inside the block."""
    api = HttpApi(from_kubeconfig(kubeconfig or cluster.kubeconfig), user_agent="plimsoll-tests-buffers")
    buffer_controller = BufferController(
        api,
        options=BufferOptions(mode=mode, dry_run=dry_run, resync_seconds=resync_seconds, ask_seconds=ask_seconds),
        permission=permission,
        instance="tests",
        collaborators=collaborators or asking(),
        pace=PROMPT,
        **more,
    )
    buffer_controller._queue.spacing_seconds = spacing_seconds
    buffer_controller.start()
    try:
        yield buffer_controller
    finally:
        buffer_controller.stop()
        api.close()
