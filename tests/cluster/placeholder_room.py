"""A namespace and a node of a test's own, and Plimsoll's keeper of placeholder pods over them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from agent.core.buffers.placeholder_options import PlaceholderOptions
from agent.core.orders.annotations import PLACEHOLDER
from agent.kube.client.api import HttpApi
from agent.webhook.buffers.placeholders import READY_REPLICAS, Placeholders
from agent.webhook.buffers.seams import WritePermission
from agent.webhook.clocks import Clocks
from tests.buffer_collaborators import asking
from tests.cluster.api import Json
from tests.cluster.buffers import PROMPT, Buffers, controller, templates_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import container, pod, pod_path
from tests.cluster.processes import wait_for

STRATEGY: Final = "plimsoll.dev/placeholder-pods"
QUICK: Final = PlaceholderOptions(first_back_off_seconds=1.0, most_back_off_seconds=4.0, resize_patience_seconds=1.0)
SECONDS: Final = 120.0


@dataclass
class Room:
    """A namespace and a node of its own, and Plimsoll's controller over them."""

    plane: ControlPlane
    api: HttpApi
    buffers: Buffers
    node: str
    wall_clock: Callable[[], float] = time.time

    @property
    def namespace(self) -> str:
        return self.buffers.namespace

    def template(self, name: str = "small", *, cpu: str = "1", **spec: Any) -> None:
        self.buffers.template(name, self.content(cpu, **spec))

    def content(self, cpu: str, **spec: Any) -> Json:
        """A chunk that may go to this test's node alone."""
        app = {
            **container("app", requests={"cpu": cpu, "memory": "64Mi"}),
            "env": [{"name": "PASSWORD", "value": "secret"}],
        }
        place = {"nodeSelector": {"kubernetes.io/hostname": self.node}}
        return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [app], **place, **spec}}

    def change_template(self, cpu: str, **spec: Any) -> None:
        path = templates_path(self.namespace, "small")
        body = self.plane.admin.get(path)
        self.plane.admin.replace(path, {**body, "template": self.content(cpu, **spec)})

    def buffer(self, replicas: int, name: str = "spare", **annotations: str) -> None:
        self.buffers.create(
            name,
            annotations=annotations,
            provisioningStrategy=STRATEGY,
            podTemplateRef={"name": "small"},
            replicas=replicas,
        )

    def real(self, name: str, cpu: str) -> None:
        """A pod of somebody's, of no particular priority."""
        place = {"nodeSelector": {"kubernetes.io/hostname": self.node}}
        app = container(requests={"cpu": cpu})
        self.plane.admin.create(pod_path(self.namespace), pod(name, None, app, **place))

    def remove(self, name: str) -> None:
        self.plane.admin.delete(pod_path(self.namespace, name))

    def pods(self) -> list[Json]:
        """All placeholders, by name."""
        pods = self.plane.admin.items(pod_path(self.namespace), labelSelector=PLACEHOLDER)
        return sorted(pods, key=lambda placeholder: str(placeholder["metadata"]["name"]))

    def running(self) -> list[Json]:
        return [placeholder for placeholder in self.pods() if placeholder["status"]["phase"] == "Running"]

    def is_bound(self, name: str) -> bool:
        return bool(self.plane.admin.get(pod_path(self.namespace, name))["spec"].get("nodeName"))

    def await_bound(self, name: str) -> None:
        """Wait until a pod has a node; if it gets none, say what the scheduler says of it, and what is there."""
        try:
            wait_for(lambda: self.is_bound(name), f"{name} has a node", SECONDS)
        except TimeoutError as error:
            status = self.plane.admin.get(pod_path(self.namespace, name))["status"]
            raise AssertionError(f"{error}; it has {status}, {summary(self.pods())}") from error

    def provisioning(self, name: str = "spare") -> tuple[str, str, str]:
        condition = self.buffers.condition(name, "Provisioning") or {}
        return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")

    def await_provisioning(self, reason: str, *words: str, name: str = "spare") -> str:
        """Wait until the condition has a reason and says all these words at once; give what it said then.

        On the way there it may say one of them without the other: of three pods that wait, two are seen first.
        """
        said = ("", "", "")

        def is_so() -> bool:
            nonlocal said
            said = self.provisioning(name)
            return said[1] == reason and all(word in said[2] for word in words)

        try:
            wait_for(is_so, f"{name}: {reason} {words}", SECONDS)
        except TimeoutError as error:
            raise AssertionError(f"{error}; it has {said}, {summary(self.pods())}") from error
        return said[2]

    def ready(self, name: str = "spare") -> str | None:
        annotations = self.buffers.get(name)["metadata"].get("annotations") or {}
        replicas: str | None = annotations.get(READY_REPLICAS)
        return replicas

    @contextlib.contextmanager
    def kept(
        self, options: PlaceholderOptions = QUICK, *, can_resize: bool = True, **more: Any
    ) -> Iterator[Placeholders]:
        """Have a controller at work inside the block."""
        keeper = Placeholders(
            self.api,
            options,
            permission=WritePermission(is_leader=lambda: True),
            can_resize=lambda: can_resize,
            pace=PROMPT,
            clocks=Clocks(wall=self.wall_clock),
        )
        with controller(self.plane, collaborators=asking(keeper=keeper), clocks=Clocks(wall=self.wall_clock), **more):
            yield keeper


def summary(pods: list[Json]) -> list[tuple[str, str, str | None]]:
    return [(entry["metadata"]["name"], entry["status"]["phase"], entry["spec"].get("nodeName")) for entry in pods]


def uids(pods: list[Json]) -> set[str]:
    return {entry["metadata"]["uid"] for entry in pods}


def cpu_of(pods: list[Json]) -> list[str]:
    return [entry["spec"]["containers"][0]["resources"]["requests"]["cpu"] for entry in pods]
