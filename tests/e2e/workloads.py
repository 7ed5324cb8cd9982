"""Loads on the node as people run them, as Deployments of one pod, and what the kernel says of them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agent.core.numbers.quantity import parse_quantity
from tests.cluster import objects
from tests.cluster.api import ApiError, Json
from tests.e2e.node import Node
from tests.e2e.parts import LOAD_IMAGE

NAMESPACE: Final = "e2e"
TIMED_POLL_SECONDS: Final = 0.05
PERIOD_MICROSECONDS: Final = 100_000
RESIZE_CONDITIONS: Final = {objects.RESIZE_PENDING, objects.RESIZE_IN_PROGRESS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """How long the node took for a resize, seconds from sending the patch."""

    cgroup_seconds: float
    settled_seconds: float

    def __str__(self) -> str:
        return f"cgroup {self.cgroup_seconds:.2f} s, status {self.settled_seconds:.2f} s"


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment of one pod."""

    node: Node
    name: str

    def start(self, *containers: Json, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Create it; does not wait."""
        self.node.plane.admin.create(
            f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
            {
                "metadata": {"name": self.name},
                "spec": {
                    "replicas": 1,
                    "strategy": {"type": "Recreate"},
                    "selector": {"matchLabels": {"app": self.name}},
                    "template": {
                        "metadata": {"labels": {"app": self.name}, "annotations": dict(annotations or {})},
                        "spec": pod_spec(*containers, **spec),
                    },
                },
            },
        )

    def remove(self) -> None:
        """Delete it and wait until its pod is gone."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{self.name}"
        self.node.plane.admin.delete(path, propagationPolicy="Background")
        self.node.wait(lambda: not self.pods(), f"pods of {self.name} are gone")

    def pods(self) -> list[Json]:
        """Return its pods."""
        return self.node.plane.admin.items(objects.pod_path(NAMESPACE), labelSelector=f"app={self.name}")

    def pod(self) -> Json:
        """Return its one pod.

        Raises:
            KeyError: It has none.
        """
        for pod in self.pods():
            if "deletionTimestamp" not in pod["metadata"]:
                return pod
        raise KeyError(f"{self.name} has no pod")

    def is_running(self) -> bool:
        """Return whether all its containers run."""
        pod = self.pod()
        states = [container_status["state"] for container_status in pod["status"].get("containerStatuses", [])]
        return pod["status"].get("phase") == "Running" and bool(states) and all("running" in state for state in states)

    def wait_running(self) -> Json:
        """Wait until it runs and give its pod."""
        self.node.wait(self.is_running, f"{self.name} runs")
        return self.pod()

    def control(self, file: str, value: int) -> None:
        """Tell the load what to do: ``cpu_millicores`` or ``memory_mib`` (native/load.c)."""
        uid = self.pod()["metadata"]["uid"]
        folder = f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/control"
        target = shlex.quote(f"{folder}/{file}")
        # Replaced whole: the load must never read a half-written number.
        self.node.run(f"echo {value} >{target}.new && mv {target}.new {target}")

    def patch(self, **containers: Mapping[str, Mapping[str, str]]) -> Json:
        """Patch the pod's resources as a person would: ``patch(app={"requests": {"cpu": "1"}})``."""
        name = self.pod()["metadata"]["name"]
        return objects.resize(self.node.plane.admin, NAMESPACE, name, objects.resize_body(**containers))

    def patch_pod_level(self, resources: Json) -> Json:
        """Patch the resources of the pod itself."""
        name = self.pod()["metadata"]["name"]
        return objects.resize(self.node.plane.admin, NAMESPACE, name, {"spec": {"resources": resources}})

    def read(self, file: str, container: str | None = "app") -> str:
        """Read a file of the container's cgroup, or (None) of the pod's."""
        return self.node.read(f"{self.node.cgroup_of(self.pod(), container)}/{file}")

    def resources(self, container: str = "app") -> Json:
        """Return what the spec says of a container."""
        resources: Json = next(
            entry.get("resources", {}) for entry in self.pod()["spec"]["containers"] if entry["name"] == container
        )
        return resources

    def cpu_request_millicores(self, container: str = "app") -> int:
        """Return the CPU request in the spec; 0 = none."""
        return millicores(self.resources(container).get("requests", {}).get("cpu", "0"))

    def memory_limit_bytes(self, container: str = "app") -> int | None:
        """Return the memory limit in the spec."""
        amount = self.resources(container).get("limits", {}).get("memory")
        return None if amount is None else bytes_of(amount)

    def restarts(self) -> int:
        """Count the restarts of all its containers."""
        return sum(container_status["restartCount"] for container_status in self.pod()["status"]["containerStatuses"])

    def condition(self, type_: str) -> Json | None:
        """Return a condition of the pod."""
        conditions = (
            condition for condition in self.pod()["status"].get("conditions", []) if condition["type"] == type_
        )
        return next(conditions, None)

    def is_settled(self) -> bool:
        """Return whether the kubelet has done all that the spec asks for and says so."""
        pod = self.pod()
        status = pod["status"]
        if any(condition["type"] in RESIZE_CONDITIONS for condition in status.get("conditions", [])):
            return False
        if status.get("observedGeneration", 0) < pod["metadata"]["generation"]:
            return False
        actual = {
            container_status["name"]: container_status for container_status in status.get("containerStatuses", [])
        }
        return all(
            same(container.get("resources", {}), actual[container["name"]].get("resources", {}))
            for container in pod["spec"]["containers"]
        )

    def follow(self, expected: Mapping[tuple[str | None, str], str], sent: float) -> Resized:
        """Wait until files of its cgroups say what is expected, and then until the status is settled.

        Args:
            expected: (container, or None for the pod; file) to content.
            sent: Monotonic seconds of the patch.
        """
        paths = {(of, file): f"{self.node.cgroup_of(self.pod(), of)}/{file}" for of, file in expected}
        self.node.wait(
            lambda: all(self.node.read(paths[key]) == content for key, content in expected.items()),
            f"{self.name} in the kernel: {', '.join(map(str, expected.items()))}",
            poll_seconds=TIMED_POLL_SECONDS,
        )
        cgroup_seconds = time.monotonic() - sent
        self.node.wait(self.is_settled, f"the resize of {self.name} is settled", poll_seconds=TIMED_POLL_SECONDS)
        return Resized(cgroup_seconds=cgroup_seconds, settled_seconds=time.monotonic() - sent)


def pod_spec(*containers: Json, **spec: Any) -> Json:
    """Return a pod's spec: the node's network, no token, a folder through which the load is told what to do."""
    return {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "control", "emptyDir": {}}],
        "containers": list(containers),
        **spec,
    }


def load(
    name: str = "app",
    *,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    mebibytes_per_turn: int = 4,
) -> Json:
    """Return a container that does what it is told (native/load.c)."""
    return {
        "name": name,
        "image": LOAD_IMAGE,
        "imagePullPolicy": "Never",
        "args": [str(mebibytes_per_turn)],
        "resources": {"requests": dict(requests or {}), "limits": dict(limits or {})},
        "volumeMounts": [{"name": "control", "mountPath": "/control"}],
    }


def weight(cpu_millicores: int) -> str:
    """Return the cpu.weight of a CPU request, by the linear formula: the kubelet's, and that of runc 1.1.5.

    Source:
        shares = max(2, millicores * 1024 / 1000); weight = 1 + (shares - 2) * 9999 / 262142; whole numbers.
    """
    shares = max(2, cpu_millicores * 1024 // 1000)
    return str(1 + (shares - 2) * 9999 // 262142)


def quota(cpu_millicores: int) -> str:
    """Return the cpu.max of a CPU limit."""
    return f"{cpu_millicores * PERIOD_MICROSECONDS // 1000} {PERIOD_MICROSECONDS}"


def millicores(amount: str) -> int:
    """Read a CPU quantity."""
    return parse_quantity(amount) // 10**6


def bytes_of(amount: str) -> int:
    """Read a memory quantity."""
    return parse_quantity(amount) // 10**9


def same(wanted: Json, actual: Json) -> bool:
    """Compare two ``resources`` by amount: the kubelet writes 1000m as 1."""
    return all(
        {name: parse_quantity(amount) for name, amount in wanted.get(kind, {}).items()}
        == {name: parse_quantity(amount) for name, amount in actual.get(kind, {}).items()}
        for kind in ("requests", "limits")
    )


def refusal(call: Callable[[], object]) -> ApiError:
    """Return the error with which the API server refuses a call.

    Raises:
        AssertionError: It does not.
    """
    try:
        call()
    except ApiError as error:
        return error
    raise AssertionError("the API server took what it must refuse")
