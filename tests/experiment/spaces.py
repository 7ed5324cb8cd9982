"""The pods of a block on the node: made, led by files in their control folder, read, and removed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster.api import Json
from tests.e2e.node import Node
from tests.e2e.parts import LOAD_IMAGE
from tests.e2e.workloads import NAMESPACE, Workload
from tests.experiment import records
from tests.experiment.arms import CONTAINERS, Arm, Shape
from tests.experiment.records import Snapshot

SERVERS: Final = ("ide", "lsp")
POLL_SECONDS: Final = 3.0
"""Seldom: each look is a process more in the guest, or a handshake more on the machine."""
START_SECONDS: Final = 900.0
"""Four containers each: runc takes seconds under emulation."""
FILES: Final = ("cpu.stat", "cpu.pressure", "memory.events", "memory.peak")
ROOT: Final = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the spaces work, the same in every arm."""

    pods: int
    counts: Mapping[str, int]
    """How much of each operation makes up its CPU time."""
    rest_seconds: float
    stagger_seconds: float
    """Between the first operations of two pods."""


@dataclass(frozen=True, slots=True)
class Spaces:
    """The pods of one arm: made once, idle but in the arm's turns."""

    node: Node
    payload: Path
    arm: Arm
    terms: Terms
    workloads: list[Workload] = field(default_factory=list)

    def start(self, shape: Shape) -> None:
        """Create the pods and wait until every container runs."""
        for index in range(self.terms.pods):
            workload = Workload(self.node, f"space-{self.arm.value.lower()}-{index}")
            own = self._terms_of(index)
            containers = [container(name, self.payload, own, shape.resources[name]) for name in CONTAINERS]
            own_resources = {} if shape.own is None else {"resources": shape.own}
            workload.start(*containers, annotations=shape.annotations, volumes=volumes(self.payload), **own_resources)
            self.workloads.append(workload)
        for workload in self.workloads:
            self.node.wait(workload.is_running, f"{workload.name} runs", START_SECONDS, poll_seconds=POLL_SECONDS)

    def _terms_of(self, index: int) -> dict[str, Any]:
        return {
            "counts": dict(self.terms.counts),
            "rest_seconds": self.terms.rest_seconds,
            "first_delay_seconds": index * self.terms.stagger_seconds,
            "is_lsp_after_ide": is_lsp_after_ide(index),
        }

    def start_up(self, at_once: int) -> None:
        """Have IDE and language server of so many pods at a time start up.

        All at once would measure the node's CPUs, not the pods' limits.
        """
        for first in range(0, len(self.workloads), at_once):
            some = self.workloads[first : first + at_once]
            self.clear("ide-ready", "lsp-ready")
            self.touch("start", some)
            self.wait_for("ide-ready", some)
            self.wait_for("lsp-ready", some)
            self.clear("start")

    def begin(self) -> None:
        """Have the pods work from now on."""
        self.clear("stop", "stopped")
        self.touch("go")

    def end(self) -> None:
        """Have the pods stop when they have done what they are at, and wait until all have."""
        self.clear("go")
        self.touch("stop")
        self.wait_for("stopped")

    def clear(self, *names: str) -> None:
        """Remove files from the control folders."""
        self.node.run(
            "\n".join(f"cd {control_folder(workload)} && rm -f {' '.join(names)}" for workload in self.workloads)
        )

    def touch(self, name: str, workloads: Sequence[Workload] | None = None, content: str = "") -> None:
        """Write a file into the control folders."""
        folders = [control_folder(workload) for workload in workloads or self.workloads]
        self.node.run("\n".join(f"printf %s {shlex.quote(content)} >{folder}/{name}" for folder in folders))

    def wait_for(self, name: str, workloads: Sequence[Workload] | None = None, seconds: float = START_SECONDS) -> None:
        """Wait until each control folder has a file."""
        tests = " && ".join(f"test -e {control_folder(workload)}/{name}" for workload in workloads or self.workloads)
        self.node.wait(
            lambda: self.node.try_run(tests)[0] == 0, f"{name} in every pod", seconds, poll_seconds=POLL_SECONDS
        )

    def snapshot(self) -> Snapshot:
        """Read the counters of the node, the pods and their containers."""
        places = {ROOT: "root"}
        for workload in self.workloads:
            pod = workload.pod()
            places[self.node.cgroup_of(pod)] = workload.name
            for name in CONTAINERS:
                places[self.node.cgroup_of(pod, name)] = f"{workload.name}/{name}"
        paths = " ".join(f"{directory}/{file}" for directory in places for file in FILES)
        return records.parse_snapshot(self.node.run(f"grep -H . /proc/uptime {paths} 2>/dev/null; true"), places)

    def logs(self, workload: Workload) -> list[dict[str, Any]]:
        """Return what the containers of a pod told."""
        pod = workload.pod()
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        return records.told(self.node.run(f"cat /var/log/pods/{NAMESPACE}_{name}_{uid}/*/*.log", timeout_seconds=120))

    def collected(self, block: int) -> tuple[list[records.Operation], list[records.Operation]]:
        """Return the operations and the loads of all pods, of all turns until now."""
        done: list[records.Operation] = []
        loads: list[records.Operation] = []
        for index, workload in enumerate(self.workloads):
            lines = self.logs(workload)
            where: Any = {"arm": self.arm.value, "block": block, "pod": workload.name}
            done += records.operations(lines, **where)
            loads += records.loads(lines, name=records.LOADS[is_lsp_after_ide(index)], **where)
        return done, loads

    def remove(self) -> None:
        """Delete the pods and wait until they are gone."""
        for workload in self.workloads:
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{workload.name}"
            self.node.plane.admin.delete(path, propagationPolicy="Background")
        for workload in self.workloads:
            name = workload.name
            self.node.wait(
                lambda deployment=workload: not deployment.pods(),  # type: ignore[misc]
                f"{name} is gone",
                START_SECONDS,
                poll_seconds=POLL_SECONDS,
            )
        self.workloads.clear()


def is_lsp_after_ide(index: int) -> bool:
    """Return whether a pod's language server starts up when its IDE is up, as an IDE starts one; else both at once."""
    return index % 2 == 1


def container(role: str, payload: Path, own: Mapping[str, Any], resources: Mapping[str, Any]) -> Json:
    """Return a container of a space: the node's own tools and Python, seen read-only."""
    folders = {"usr": "/usr", "lib": "/lib", "lib64": "/lib64", "payload": str(payload)}
    return {
        "name": role,
        "image": LOAD_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/usr/bin/python3", "-I", "-S", f"{payload}/space.py", role],
        "env": [{"name": "EXPERIMENT", "value": json.dumps(own)}],
        "resources": {kind: dict(amounts) for kind, amounts in resources.items()},
        "volumeMounts": [
            *({"name": name, "mountPath": path, "readOnly": True} for name, path in folders.items()),
            {"name": "control", "mountPath": "/control"},
            {"name": "work", "mountPath": "/work"},
            {"name": "work", "mountPath": "/tmp", "subPath": "tmp"},
        ],
    }


def volumes(payload: Path) -> list[Json]:
    """Return the volumes of a space."""
    folders = {"usr": "/usr", "lib": "/usr/lib", "lib64": "/usr/lib64", "payload": str(payload)}
    return [
        *({"name": name, "hostPath": {"path": path, "type": "Directory"}} for name, path in folders.items()),
        {"name": "control", "emptyDir": {}},
        {"name": "work", "emptyDir": {}},
    ]


def control_folder(workload: Workload) -> str:
    """Return the control folder of a pod as the node sees it."""
    return f"/var/lib/kubelet/pods/{workload.pod()['metadata']['uid']}/volumes/kubernetes.io~empty-dir/control"
