"""What a node does with resizes, without the agent: the ground that the agent's own scenario (``acting``) stands on."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster import objects
from tests.cluster.api import Json
from tests.e2e.node import STATIC_PODS, Node
from tests.e2e.program import audit, drifts, wait_without_drift
from tests.e2e.steps import Steps
from tests.e2e.workloads import NAMESPACE, Workload, load, millicores, pod_spec, quota, refusal, weight

MIB: Final = 1 << 20
PODS_FOUND: Final = "pods are found and named, a static one too"
STATIC_NAME: Final = "static"


@dataclass(frozen=True, slots=True)
class PlainScenario:
    """The steps on one node; pods are made once and used by all."""

    node: Node
    tree: Path

    @property
    def web(self) -> Workload:
        """Burstable, one container."""
        return Workload(self.node, "web")

    @property
    def filler(self) -> Workload:
        """Takes room away and gives it back."""
        return Workload(self.node, "filler")

    @property
    def shared(self) -> Workload:
        """Two containers that share the pod's own resources."""
        return Workload(self.node, "shared")

    def run(self, steps: Steps) -> None:
        """Take all steps."""
        steps.run("pods of every class run", self.start)
        steps.run(PODS_FOUND, self.find_pods)
        one_by_one: tuple[tuple[str, Callable[[], object]], ...] = (
            ("CPU up: weight, quota and status follow, no restart", self.cpu_up),
            ("CPU down", self.cpu_down),
            ("memory up", self.memory_up),
            ("memory limit down, above what is in use", self.memory_down),
            ("memory limit below what is in use: an error, taken back", self.memory_below_use),
            ("more than is free: Deferred, lands when there is room", self.deferred),
            ("more than allocatable: 403 at once", self.too_much),
            ("a pod's own resources", self.pod_level),
            ("kubelet killed (9) in the middle: done once it is back", self.kubelet_killed),
            ("audit finds no drift after all this", self.no_drift),
            ("audit names a weight changed by hand", self.drift_by_hand),
        )
        for title, step in one_by_one:
            steps.run(title, step)

    def start(self) -> str:
        """Create the pods and wait for all."""
        begun = time.monotonic()
        self.web.start(load(requests={"cpu": "250m", "memory": "64Mi"}, limits={"cpu": "1000m", "memory": "128Mi"}))
        self.filler.start(load(requests={"cpu": "100m", "memory": "32Mi"}))
        self.shared.start(
            load(requests={"cpu": "50m"}),
            load("second", requests={"cpu": "50m"}),
            resources={
                "requests": {"cpu": "200m", "memory": "96Mi"},
                "limits": {"cpu": "600m", "memory": "192Mi"},
            },
        )
        amounts = {"cpu": "100m", "memory": "32Mi"}
        others = {"guaranteed": load(requests=amounts, limits=amounts), "best-effort": load()}
        for name, container in others.items():
            Workload(self.node, name).start(container)
        self.node.write(f"{STATIC_PODS}/{STATIC_NAME}.json", json.dumps(static_pod()))
        for name in ("web", "filler", "shared", *others):
            Workload(self.node, name).wait_running()
        self.node.wait(lambda: self.mirror()["status"]["phase"] == "Running", "the static pod's mirror runs")
        return f"6 pods in {time.monotonic() - begun:.0f} s"

    def mirror(self) -> Json:
        """Return the static pod as the API shows it."""
        return self.node.plane.admin.get(objects.pod_path(NAMESPACE, f"{STATIC_NAME}-{self.node.name}"))

    def find_pods(self) -> str:
        """See every pod joined to its cgroup, with nothing left over on either side."""
        document = audit(self.node, self.tree)
        names = {finding["pod"] for finding in document["findings"]}
        expected = {
            pod["metadata"]["name"]
            for pod in self.node.plane.admin.items("/api/v1/pods", fieldSelector=f"spec.nodeName={self.node.name}")
        }
        assert expected <= names, expected - names
        assert document["not_in_pods_file"] == [], document["not_in_pods_file"]
        missing = [drift for drift in drifts(document) if "/cgroup:" in drift]
        assert not missing, missing
        assert document["driver"] == self.node.driver.value
        return f"{len(expected)} pods below {document['kubepods_path']}"

    def cpu_up(self) -> str:
        """250m -> 500m, limit 1000m -> 1500m."""
        return self.resize_cpu(500, 1500)

    def cpu_down(self) -> str:
        """500m -> 200m; the limit as well, which may be lowered but not taken away."""
        return self.resize_cpu(200, 1200)

    def resize_cpu(self, request_millicores: int, limit_millicores: int) -> str:
        sent = time.monotonic()
        self.web.patch(app={"requests": {"cpu": f"{request_millicores}m"}, "limits": {"cpu": f"{limit_millicores}m"}})
        resized = self.web.follow(
            {
                ("app", "cpu.weight"): weight(request_millicores),
                ("app", "cpu.max"): quota(limit_millicores),
                (None, "cpu.weight"): weight(request_millicores),
                (None, "cpu.max"): quota(limit_millicores),
            },
            sent,
        )
        assert self.web.restarts() == 0
        return str(resized)

    def memory_up(self) -> str:
        """64Mi / 128Mi -> 96Mi / 192Mi."""
        return self.resize_memory(96, 192)

    def memory_down(self) -> str:
        """To 48Mi / 96Mi, with little in use."""
        return self.resize_memory(48, 96)

    def resize_memory(self, request_mib: int, limit_mib: int) -> str:
        sent = time.monotonic()
        self.web.patch(app={"requests": {"memory": f"{request_mib}Mi"}, "limits": {"memory": f"{limit_mib}Mi"}})
        limit = str(limit_mib * MIB)
        resized = self.web.follow({("app", "memory.max"): limit, (None, "memory.max"): limit}, sent)
        assert self.web.restarts() == 0
        return str(resized)

    def memory_below_use(self) -> str:
        """Hold 64 MiB, ask for a limit of 40Mi: refused by the kubelet, nothing killed; then taken back."""
        self.web.control("memory_mib", 64)
        self.node.wait(lambda: int(self.web.read("memory.current")) > 64 * MIB, "64 MiB are held")
        before = self.web.read("memory.max")
        sent = time.monotonic()
        self.web.patch(app={"requests": {"memory": "32Mi"}, "limits": {"memory": "40Mi"}})

        def is_error() -> bool:
            condition = self.web.condition(objects.RESIZE_IN_PROGRESS)
            return condition is not None and condition.get("reason") == "Error"

        self.node.wait(is_error, "PodResizeInProgress with reason Error")
        seconds = time.monotonic() - sent
        assert self.web.read("memory.max") == before
        assert self.web.restarts() == 0
        taken_back = time.monotonic()
        self.web.patch(app={"requests": {"memory": "48Mi"}, "limits": {"memory": "96Mi"}})
        self.node.wait(self.web.is_settled, "the error is gone")
        back_seconds = time.monotonic() - taken_back
        self.web.control("memory_mib", 0)
        return f"error after {seconds:.1f} s, gone {back_seconds:.2f} s after the patch back"

    def deferred(self) -> str:
        """Fill the node, ask for more than is left, make room."""
        allocatable = millicores(self.node.object()["status"]["allocatable"]["cpu"])
        wanted = allocatable // 2
        self.filler.patch(app={"requests": {"cpu": f"{wanted}m"}})
        self.node.wait(self.filler.is_settled, "the filler is settled")
        before = self.web.read("cpu.weight")
        sent = time.monotonic()
        self.web.patch(app={"requests": {"cpu": f"{wanted}m"}})

        def is_deferred() -> bool:
            condition = self.web.condition(objects.RESIZE_PENDING)
            return condition is not None and condition["reason"] == "Deferred"

        self.node.wait(is_deferred, "PodResizePending Deferred")
        deferred_seconds = time.monotonic() - sent
        assert self.web.read("cpu.weight") == before
        room = time.monotonic()
        self.filler.patch(app={"requests": {"cpu": "100m"}})
        landed = self.web.follow({("app", "cpu.weight"): weight(wanted)}, room)
        return f"Deferred after {deferred_seconds:.2f} s; after room: {landed}"

    def too_much(self) -> str:
        """Ask for more than the node has."""
        error = refusal(lambda: self.web.patch(app={"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}))
        assert error.status == 403, error
        assert "NodeCapacity" in error.causes, error.body
        return "cause NodeCapacity"

    def pod_level(self) -> str:
        """200m / 600m -> 300m / 900m, 96Mi / 192Mi -> 128Mi / 256Mi."""
        sent = time.monotonic()
        self.shared.patch_pod_level(
            {"requests": {"cpu": "300m", "memory": "128Mi"}, "limits": {"cpu": "900m", "memory": "256Mi"}}
        )
        resized = self.shared.follow(
            {
                (None, "cpu.weight"): weight(300),
                (None, "cpu.max"): quota(900),
                (None, "memory.max"): str(256 * MIB),
            },
            sent,
        )
        weights = {name: self.shared.read("cpu.weight", name) for name in ("app", "second")}
        return f"{resized}; containers' weights {weights}"

    def kubelet_killed(self) -> str:
        """Kill the kubelet, resize, and see the resize done when it has come back; the container goes on."""
        identity = self.node.cgroup_of(self.web.pod(), "app")
        self.node.run("kill -9 $(pidof kubelet)")
        sent = time.monotonic()
        self.web.patch(app={"requests": {"cpu": "300m"}})
        resized = self.web.follow({("app", "cpu.weight"): weight(300)}, sent)
        assert self.node.cgroup_of(self.web.pod(), "app") == identity
        assert self.web.restarts() == 0
        return str(resized)

    def no_drift(self) -> str:
        """Compare every value of every cgroup; the kubelet corrects the weights of its tiers once a minute."""
        return wait_without_drift(self.node, self.tree)

    def drift_by_hand(self) -> str:
        """Change one weight, have it named and nothing else, and put it back."""
        file = f"{self.node.cgroup_of(self.web.pod(), 'app')}/cpu.weight"
        before = self.node.read(file)
        self.node.run(f"echo 77 >{shlex.quote(file)}")
        try:
            drift_lines = drifts(audit(self.node, self.tree))
        finally:
            self.node.run(f"echo {before} >{shlex.quote(file)}")
        assert len(drift_lines) == 1, drift_lines
        assert self.web.pod()["metadata"]["name"] in drift_lines[0], drift_lines
        assert "cpu.weight" in drift_lines[0], drift_lines
        return drift_lines[0].replace(self.web.pod()["metadata"]["name"], "web")


def static_pod() -> Json:
    """Return a pod that the kubelet takes from a file: its cgroup is named by the hash of that file."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": STATIC_NAME, "namespace": NAMESPACE},
        "spec": pod_spec(load(requests={"cpu": "20m", "memory": "16Mi"})),
    }
