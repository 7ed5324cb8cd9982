"""A CapacityBuffer on the real kubelet: its placeholders run, give way to a pod, come back, and go with the buffer."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from agent.core.buffers.buffer import PLACEHOLDER_PODS
from agent.core.orders.annotations import PLACEHOLDER
from tests.cluster.api import Json
from tests.cluster.buffers import buffer_json, buffers_path, template_json, templates_path
from tests.cluster.objects import pod_path
from tests.e2e.node import Node
from tests.e2e.parts import LOAD_IMAGE
from tests.e2e.program import SECONDS
from tests.e2e.release import WEBHOOK, Release
from tests.e2e.scenario import MIB
from tests.e2e.workloads import NAMESPACE, Workload, bytes_of, load

BUFFER: Final = "spare"
CHUNKS: Final = 2
CHUNK_MIB: Final = 64
LIMIT_MIB: Final = 96


@dataclass(frozen=True, slots=True)
class SpareRoom:
    """The step."""

    node: Node
    release: Release

    def kept(self, free_mib: int) -> str:
        """Keep room, have a pod take it that fits nowhere else, and give it back.

        Args:
            free_mib: Memory of the node that no pod requests.
        """
        admin = self.node.plane.admin
        amounts = {"requests": {"cpu": "10m", "memory": f"{CHUNK_MIB}Mi"}, "limits": {"memory": f"{LIMIT_MIB}Mi"}}
        chunk = {"spec": {"containers": [{"name": "app", "image": LOAD_IMAGE, "resources": amounts}]}}
        admin.create(templates_path(NAMESPACE), template_json("chunk", chunk))
        reference = {"name": "chunk"}
        buffer = buffer_json(BUFFER, provisioningStrategy=PLACEHOLDER_PODS, podTemplateRef=reference, replicas=CHUNKS)
        admin.create(buffers_path(NAMESPACE), buffer)
        keep_seconds = self.await_kept()
        before = {pod["metadata"]["uid"] for pod in self.pods()}
        for pod in self.pods():
            # What runs there is as large as a chunk, as the kernel has it.
            limit = int(self.node.read(f"{self.node.cgroup_of(pod, 'room')}/memory.max"))
            assert limit == LIMIT_MIB * MIB, limit
        self.told()
        guest = Workload(self.node, "guest")
        guest.start(load(requests={"cpu": "10m", "memory": f"{free_mib - CHUNK_MIB}Mi"}))
        landed = self.node.wait(guest.is_running, "a pod runs in the room", SECONDS)
        assert before - {pod["metadata"]["uid"] for pod in self.pods()}, "no placeholder gave way"
        guest.remove()
        back = self.await_kept()
        assert all(bytes_of(_memory(pod)) == CHUNK_MIB * MIB for pod in self.pods())
        admin.delete(buffers_path(NAMESPACE, BUFFER))
        self.node.wait(lambda: not self.pods(), "placeholders go with their buffer", SECONDS)
        return f"kept after {keep_seconds:.0f} s; a pod in it after {landed:.0f} s; back after {back:.0f} s"

    def pods(self) -> list[Json]:
        """Return the placeholder pods."""
        return self.node.plane.admin.items(pod_path(NAMESPACE), labelSelector=PLACEHOLDER)

    def await_kept(self) -> float:
        """Wait until the buffer says that all its room is kept; give the seconds."""
        path = buffers_path(NAMESPACE, BUFFER)

        def is_kept() -> bool:
            conditions = self.node.plane.admin.get(path).get("status", {}).get("conditions") or []
            return any(
                (condition["type"], condition["reason"]) == ("Provisioning", "RoomKept") for condition in conditions
            )

        return self.node.wait(is_kept, "the room is kept", SECONDS)

    def told(self) -> None:
        """Have ``plimsoll buffers`` say so, from a machine outside."""
        with self.release.port_forward(f"service/{WEBHOOK}", "8443:443"):
            command = [sys.executable, "-m", "agent", "buffers", f"{NAMESPACE}/{BUFFER}"]
            where = f"--kubeconfig={self.node.plane.kubeconfig}"
            done = subprocess.run([*command, where], capture_output=True, text=True, check=False, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        said = " ".join(done.stdout.split())
        assert f"kept {CHUNKS} placeholder pods run" in said, said
        assert f"cluster-autoscaler passes it over: strategy {PLACEHOLDER_PODS} is not served" in said, said


def _memory(pod: Json) -> str:
    quantity: str = pod["spec"]["containers"][0]["resources"]["requests"]["memory"]
    return quantity
