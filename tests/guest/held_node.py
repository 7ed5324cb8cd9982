"""A node whose pods are short of memory: real cgroups, the agent as a process, a played API server and kubelet.

The kubelet is played by its formulas: it writes memory.max, and memory.high as MemoryQoS has it (KEP-2570), as soon as
a resize is accepted. What is measured is the time from the moment at which the kernel first holds a container's tasks
back, or at which they begin to stall, until the API server has accepted a larger memory limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent.core.cluster.pod import QosClass
from agent.core.machine.cgroup_values import memory_high
from agent.core.numbers.quantity import parse_quantity
from agent.core.numbers.units import MIB
from agent.node.sockets.control import ControlError, request
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path
from tests.goldens.servers import ClusterAnswers, Exchange, Json, http_server, write_kubeconfig
from tests.guest.kubelet_tree import MOUNT, make
from tests.guest.plimsoll import Agent, running_agent
from tests.guest.waiting import DEADLINE_SECONDS, wait_for
from tests.pods import container, pod_json

NODE: Final = "worker-7"
THROTTLING_FACTOR: Final = 0.5
REQUEST_MIB: Final = 8
SETTINGS: Final = {
    "act.mode": "enforce",
    "act.resizesPerMinute": "600",
    "plan.minAgeSeconds": "0",
    # No plan and no evaluation comes by chance: what is fast is so by itself.
    "plan.replanSeconds": "3600",
    "evaluateIntervalSeconds": "60",
    "recommend.minSpanSeconds": "600",
}
GROWER: Final = """
import sys, time
held = []
for _ in range({mebibytes}):
    held.append(bytearray(b"x") * (1 << 20))
while True:
    time.sleep(3600)
"""
READER: Final = """
import mmap, sys
with open({file!r}, "rb") as file:
    pages = mmap.mmap(file.fileno(), {mebibytes} << 20, prot=mmap.PROT_READ)
    while True:
        for place in range(0, len(pages), 4096):
            pages[place]
"""


@dataclass(slots=True)
class HeldNode(ClusterAnswers):
    """See the module's docstring."""

    limits_mib: Sequence[int]
    """Of the pods, one each."""
    has_memory_qos: bool = True
    grown: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Pod -> when its larger limit was accepted, and that limit; bytes."""

    def __post_init__(self) -> None:
        """Make the node and its pods, each with a cgroup."""
        node = {
            "kind": "Node",
            "metadata": {"name": NODE},
            "status": {
                "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"},
                "nodeInfo": {"kubeletVersion": "v1.37.1"},
                "declaredFeatures": ["InPlacePodLevelResourcesVerticalScaling"],
            },
        }
        pods = [self._pod(number) for number in range(len(self.limits_mib))]
        ClusterAnswers.__init__(self, pods, node, [{"kind": "Namespace", "metadata": {"name": "shop"}}])
        for number in range(len(self.limits_mib)):
            make(self.path(number))
            self._write_bounds(number, self.limits_mib[number] * MIB)

    @staticmethod
    def name(number: int) -> str:
        """Return a pod's name."""
        return f"held-{number:02}"

    @staticmethod
    def path(number: int) -> str:
        """Return the cgroup of a pod's one container."""
        return container_cgroup_path(
            driver=Driver.CGROUPFS,
            runtime=Runtime.CONTAINERD,
            qos=QosClass.BURSTABLE,
            pod_uid=f"77777777-aaaa-4000-8000-0000000000{number:02}",
            container_id=f"7{number:03}" * 16,
        )

    def _pod(self, number: int) -> Json:
        amounts = {"memory": f"{REQUEST_MIB}Mi", "cpu": "10m"}, {"memory": f"{self.limits_mib[number]}Mi"}
        resources = {"requests": dict(amounts[0]), "limits": dict(amounts[1])}
        name = self.name(number)
        return pod_json(
            container("app", *amounts),
            metadata={
                "name": name,
                "uid": f"77777777-aaaa-4000-8000-0000000000{number:02}",
                "generation": 1,
                "labels": {"pod-template-hash": "7c5ddbdf54"},
                "ownerReferences": [
                    {"kind": "ReplicaSet", "name": f"{name}-7c5ddbdf54", "uid": f"rs-{name}", "controller": True}
                ],
            },
            status={
                "phase": "Running",
                "qosClass": "Burstable",
                "observedGeneration": 1,
                "containerStatuses": [
                    {
                        "name": "app",
                        "containerID": f"containerd://{f'7{number:03}' * 16}",
                        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                        "allocatedResources": amounts[0],
                        "resources": resources,
                    }
                ],
            },
            nodeName=NODE,
        )

    def __call__(self, exchange: Exchange) -> tuple[int, object]:
        if exchange.method == "PATCH" and exchange.path.split("?")[0].endswith("/resize"):
            return 200, self._resize(exchange)
        return ClusterAnswers.__call__(self, exchange)

    def _resize(self, exchange: Exchange) -> Json:
        name = exchange.path.split("?")[0].split("/")[-2]
        number = int(name.rpartition("-")[2])
        pod = self.lists["/api/v1/pods"][number]
        [app], [wanted] = pod["spec"]["containers"], json.loads(exchange.body)["spec"]["containers"]
        for kind, amounts in wanted["resources"].items():
            app["resources"][kind].update(amounts)
        metadata, status = pod["metadata"], pod["status"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1000)
        metadata["generation"] += 1
        status["observedGeneration"] = metadata["generation"]
        status["containerStatuses"][0]["resources"] = json.loads(json.dumps(app["resources"]))
        status["containerStatuses"][0]["allocatedResources"] = dict(app["resources"]["requests"])
        limit_bytes = parse_quantity(app["resources"]["limits"]["memory"]) // 10**9
        if limit_bytes > self.limits_mib[number] * MIB:
            self.grown.setdefault(name, (time.monotonic(), limit_bytes))
        self._write_bounds(number, limit_bytes)
        answer: Json = json.loads(json.dumps(pod))
        return answer

    def _write_bounds(self, number: int, limit_bytes: int) -> None:
        """Write what the kubelet would."""
        requests = self.lists["/api/v1/pods"][number]["spec"]["containers"][0]["resources"]["requests"]
        high_bytes = memory_high(
            qos=QosClass.BURSTABLE,
            request_bytes=parse_quantity(requests["memory"]) // 10**9,
            limit_bytes=limit_bytes,
            node_allocatable_bytes=None,
            throttling_factor=THROTTLING_FACTOR if self.has_memory_qos else None,
            page_size_bytes=4096,
        )
        directory = MOUNT / self.path(number).lstrip("/")
        (directory / "memory.max").write_text(str(limit_bytes), encoding="ascii")
        (directory / "memory.high").write_text("max" if high_bytes is None else str(high_bytes), encoding="ascii")

    def take_memory_high(self, number: int) -> None:
        """Have no memory.high for a container, as without MemoryQoS."""
        (MOUNT / self.path(number).lstrip("/") / "memory.high").write_text("max", encoding="ascii")

    def read(self, number: int, file: str) -> str:
        """Read a file of a container's cgroup."""
        return (MOUNT / self.path(number).lstrip("/") / file).read_text(encoding="ascii")

    def events(self, number: int) -> dict[str, int]:
        """Read memory.events of a container."""
        return {
            key: int(value) for key, value in (line.split() for line in self.read(number, "memory.events").splitlines())
        }

    def stalled_usec(self, number: int) -> int:
        """Read for how long some task of a container has waited for memory."""
        return int(self.read(number, "memory.pressure").splitlines()[0].rpartition("=")[2])

    @contextmanager
    def load(self, number: int, program: str) -> Iterator[None]:
        """Run a Python program in a container's cgroup."""
        procs = MOUNT / self.path(number).lstrip("/") / "cgroup.procs"
        line = ["sh", "-c", f'echo $$ >{procs} && exec "$@"', "sh", sys.executable, "-I", "-S", "-c", program]
        with subprocess.Popen(line) as process:
            try:
                yield
            finally:
                process.kill()

    def wait_grown(self, number: int) -> tuple[float, int]:
        """Wait for a larger limit; give when it was accepted, and the limit."""
        wait_for(lambda: self.name(number) in self.grown, f"a larger limit of {self.name(number)}")
        return self.grown[self.name(number)]

    def held_seconds(self, number: int) -> float:
        """Let a container grow past its memory.high; give the seconds from its being held back to a larger limit."""
        with self.load(number, GROWER.format(mebibytes=self.limits_mib[number] + 8)):
            while self.events(number)["high"] == 0:
                time.sleep(0.002)
            began = time.monotonic()
            accepted, _ = self.wait_grown(number)
        return max(accepted - began, 0.0)

    def freeze(self, number: int, *, is_frozen: bool) -> None:
        """Stop a container's tasks, or let them go on."""
        (MOUNT / self.path(number).lstrip("/") / "cgroup.freeze").write_text(str(int(is_frozen)), encoding="ascii")

    def fill_with_pages(self, number: int) -> None:
        """Wait until a container holds as much as it may, and stalls.

        What others read of the same file before must be gone from the page cache: it would be charged to them.
        """

        def is_full() -> bool:
            current_bytes = int(self.read(number, "memory.current"))
            return current_bytes > 0.95 * self.limits_mib[number] * MIB and self.stalled_usec(number) > 100_000

        wait_for(is_full, f"{self.name(number)} stalls at its limit")


@contextmanager
def agent_on(node: HeldNode, folder: Path, settings: Sequence[str] = ()) -> Iterator[Agent]:
    """Run the agent on the node, until it has planned with all its pods."""
    socket = folder / "agent.sock"
    words: list[str] = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with http_server(node) as url:
        kubeconfig = write_kubeconfig(folder / "kubeconfig", url)
        more = ("--kubeconfig", str(kubeconfig), "--scope", "kubernetes", *words, *settings)
        with running_agent(folder / "agent.log", *more, socket=str(socket), node=NODE) as agent:
            wait_for(lambda: _planned(socket) == len(node.limits_mib), "a plan of all pods")
            yield agent


def _planned(socket: Path) -> int:
    try:
        return len(ask(socket, "plan")["pods"])
    except (ControlError, OSError):
        return 0


def ask(socket: Path, verb: str) -> dict[str, Any]:
    """Put a question to the agent."""
    return request(socket, verb, {}, timeout_seconds=DEADLINE_SECONDS)
