"""The blocks of the experiment on one node: calibrated, measured, audited, and what a budget does at its edges."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent.core.orders.annotations import MODE, POD_LIMITS
from tests.cluster.api import Json
from tests.e2e.agent_pod import AgentPod
from tests.e2e.node import Node
from tests.e2e.parts import PAUSE_IMAGE
from tests.e2e.program import audit
from tests.e2e.workloads import NAMESPACE, Workload, bytes_of, millicores
from tests.experiment import records
from tests.experiment.arms import (
    ACTING,
    BUDGET_MIB,
    BUDGET_MILLICORES,
    CONTAINERS,
    SHARED,
    Arm,
    shape_of,
)
from tests.experiment.records import Block, Operation
from tests.experiment.sources import FILES, MODULES, ROWS, UNITS
from tests.experiment.spaces import (
    POLL_SECONDS,
    SERVERS,
    START_SECONDS,
    Spaces,
    Terms,
    container,
    control_folder,
    volumes,
)

MIB: Final = 1 << 20
TRIAL: Final[Mapping[str, int]] = {"build": 6, "install": 60, "watch": 2, "deploy": 1000, "run": 10, "load": 10}
"""How much of each is done to learn its price."""
CPU_SECONDS: Final[Mapping[str, float]] = {
    "build": 4.0,
    "install": 1.2,
    "run": 0.8,
    "watch": 0.2,
    "deploy": 0.4,
    "load": 1.5,
}
"""Half of the recipe's, as is the rest between two rounds: the same load in half the time. Load: of each of two."""
MOST: Final[Mapping[str, int]] = {
    "build": UNITS,
    "install": FILES,
    "run": MODULES,
    "watch": 9999,
    "deploy": ROWS,
    "load": 9999,
}
LEAST_UNITS: Final = 3
NODE_CPUS: Final = 2
LINK_MIB, HELD_MIB = 400, 700
FIT_REPLICAS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long a block is."""

    drop_seconds: float
    """After the pods began to work; operations that begin in it do not count."""
    window_seconds: float
    at_once: int = 2
    """Pods that start up at the same time."""


@dataclass(slots=True)
class Experiment:
    """What is run on one node, and what has been seen so far."""

    node: Node
    tree: Path
    """Plimsoll's package as of now, for the audit."""
    payload: Path
    terms: Terms
    schedule: Schedule
    say: Callable[[str], None]
    agent: AgentPod | None = None
    has_webhook: bool = True
    """In front of the API server: it makes pod-level limits of the annotation."""
    pods: dict[Arm, Spaces] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """What else was seen, by a few words."""

    def prepare(self, arms: Iterable[Arm]) -> None:
        """Make the pods of all arms.

        Pods are made once: under emulation their creation takes minutes, and turns that follow each other closely see
        the same machine.
        """
        self.pause(True)
        for arm in arms:
            pods = Spaces(self.node, self.payload, arm, self.terms)
            self.pods[arm] = pods
            pods.start(shape_of(arm, has_webhook=self.has_webhook))
            if arm is Arm.POD:
                self._leave_alone(pods)
            self.say(f"arm {arm}: {len(pods.workloads)} pods run")
        if Arm.WRITTEN in self.pods:
            self.pause(False)
            self._wait_written(self.pods[Arm.WRITTEN])

    def audit(self) -> None:
        """See that every arm has the same sums; where anything is resized, before the first block.

        Raises:
            AssertionError: They differ.
        """
        findings = audit(self.node, self.tree)["findings"]
        for arm, pods in self.pods.items():
            self.notes[f"audit of {arm}"] = sums(pods, findings)
            self.say(f"audit of {arm}: {self.notes[f'audit of {arm}']}")

    def _leave_alone(self, pods: Spaces) -> None:
        """The webhook wanted mode enforce for the budget; its pods are not to be resized in others' turns."""
        for workload in pods.workloads:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{workload.pod()['metadata']['name']}"
            self.node.plane.admin.patch(path, {"metadata": {"annotations": {MODE: "recommend"}}})

    def measure(self, arm: Arm) -> None:
        """Run one block: the arm's pods start up, work, and stop."""
        number = len(self.blocks) + 1
        pods = self.pods[arm]
        begun = time.monotonic()
        self.pause(arm not in ACTING)
        started = pods.snapshot()
        pods.start_up(self.schedule.at_once)
        pods.begin()
        time.sleep(self.schedule.drop_seconds)  # the first of each block is not looked at
        before = pods.snapshot()
        time.sleep(self.schedule.window_seconds)  # the measurement itself
        after = pods.snapshot()
        pods.end()
        done, loads = pods.collected(number)
        operations = [
            operation for operation in done if before.uptime_seconds <= operation.begun < after.uptime_seconds
        ]
        operations += [
            operation for operation in loads if started.uptime_seconds <= operation.begun < before.uptime_seconds
        ]
        block = records.block_of(before, after, arm=arm.value, number=number, cpus=NODE_CPUS, containers=CONTAINERS)
        self.operations += operations
        self.blocks.append(block)
        builds = [operation.seconds for operation in operations if operation.name == "build"]
        middle = f"{statistics.median(builds):.1f} s" if builds else "-"
        self.say(
            f"block {number}, arm {arm}: {len(builds)} builds, median {middle}; node CPU {block.cpu_ratio:.0%}, "
            f"throttled {block.throttled_ratio:.0%}, kills {block.oom_kills}, "
            f"bad {sum(not operation.is_good for operation in operations)}; {time.monotonic() - begun:.0f} s"
        )

    def pause(self, wanted: bool) -> None:
        """Have the agent write or not; without an agent nothing is written anyhow."""
        if self.agent is not None:
            self.agent.ask("pause" if wanted else "resume")

    # -- before the first block ------------------------------------------------------------------------------------

    def calibrate(self) -> dict[str, int]:
        """Learn on this machine, as busy as it is, how much of each operation makes up its CPU time."""
        workload = Workload(self.node, "calibration")
        own: dict[str, Any] = {"counts": dict(TRIAL)}
        calibrator = container("calibrate", self.payload, own, {})
        workload.start(calibrator, volumes=volumes(self.payload))
        trial = Spaces(self.node, self.payload, Arm.SPLIT, self.terms, workloads=[workload])
        try:
            self.node.wait(workload.is_running, "the calibration runs", START_SECONDS)
            self.node.wait(
                lambda: trial.logs(workload)[-1]["event"] == "stopped",
                "all is tried",
                START_SECONDS,
                poll_seconds=POLL_SECONDS,
            )
            lines = trial.logs(workload)
        finally:
            trial.remove()
        cost: dict[str, list[float]] = {}
        for line in lines:
            if line["event"] == "operation":
                assert line["is_good"], line
                cost.setdefault(line["name"], []).append(line["cpu_seconds"])
        counts = {name: counted(name, statistics.median(seconds)) for name, seconds in cost.items()}
        self.say(f"calibrated: {', '.join(f'{name} {count}' for name, count in counts.items())}")
        return counts

    # -- what is seen besides --------------------------------------------------------------------------------------

    def _wait_written(self, pods: Spaces) -> None:
        """Wait until the agent has written the pods' cgroups."""
        wanted = f"{quota_usec(BUDGET_MILLICORES)} 100000"
        for workload in pods.workloads:
            self.node.wait(
                lambda deployment=workload: deployment.read("cpu.max", None) == wanted,  # type: ignore[misc]
                f"cpu.max of {workload.name} is written",
            )

    def edges(self, arm: Arm) -> None:
        """See what the arm does at its edges: memory in all, undoing where it was written, room where it was sized."""
        pods = self.pods[arm]
        if arm in {Arm.SPLIT, Arm.POD, Arm.WRITTEN}:
            self.notes[f"linking in {arm}"] = self.linking(pods, arm)
            self.say(f"  linking in {arm}: {self.notes[f'linking in {arm}']}")
        if arm is Arm.WRITTEN:
            self.notes["undo of B2"] = self.undo(pods)
            self.say(f"  undo: {self.notes['undo of B2']}")
        if arm is Arm.SIZED:
            self.notes["room in D"] = self.room(pods)
            self.say(f"  room in D: {self.notes['room in D']}")

    def linking(self, pods: Spaces, arm: Arm) -> str:
        """Link with 400 MiB while the siblings are idle, and where that passes also while they hold 700 MiB."""
        sentences = []
        some = pods.workloads[:3]
        idle = [self.link(workload, pods) for workload in some]
        sentences.append(f"siblings idle: {idle.count('killed')} of {len(idle)} killed")
        if arm in SHARED:
            some = some[:2]  # what they hold they keep
            for workload in some:
                for role in SERVERS:
                    pods.touch(f"hold-{role}", [workload], str(HELD_MIB // len(SERVERS)))
                    pods.wait_for(f"held-{role}", [workload])
            busy = [self.link(workload, pods) for workload in some]
            sentences.append(f"siblings hold {HELD_MIB} MiB: {busy.count('killed')} of {len(busy)} killed")
        return "; ".join(sentences)

    def link(self, workload: Workload, pods: Spaces) -> str:
        """Have one pod link; give what became of it: ``passed`` or ``killed``."""
        before = kills(workload)
        pods.node.run(f"rm -f {control_folder(workload)}/linked")
        pods.touch("link", [workload], str(LINK_MIB))
        outcome: list[str] = []

        def is_over() -> bool:
            if kills(workload) > before:
                outcome.append("killed")
            elif self.node.try_run(f"test -e {control_folder(workload)}/linked")[0] == 0:
                outcome.append("passed")
            return bool(outcome)

        self.node.wait(is_over, f"{workload.name} has linked or was killed", poll_seconds=POLL_SECONDS)
        return outcome[-1]

    def undo(self, pods: Spaces) -> str:
        """Take the annotation away; the cgroup holds what the kubelet wrote there, byte for byte."""
        self.pause(False)  # the blocks leave it paused, and then nothing is undone either
        some = pods.workloads[0]
        name = some.pod()["metadata"]["name"]
        before = {file: some.read(file, None) for file in ("cpu.max", "memory.max")}
        patch = {"metadata": {"annotations": {POD_LIMITS: None}}}
        self.node.plane.admin.patch(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", patch)
        wanted = {"cpu.max": "max 100000", "memory.max": "max"}  # the kubelet's, of a pod without limits
        seconds = self.node.wait(
            lambda: {file: some.read(file, None) for file in wanted} == wanted,
            "the kubelet's values are back",
            START_SECONDS,
        )
        return f"{before} -> {wanted} after {seconds:.1f} s"

    def room(self, pods: Spaces) -> str:
        """Count the pods that fit beside those that run, of the size that those have now."""
        sized = [requests_of(workload.pod()) for workload in pods.workloads]
        cpu = statistics.median(amounts[0] for amounts in sized)
        memory = statistics.median(amounts[1] for amounts in sized)
        stated = requests_in(shape_of(Arm.POD).resources)
        fits_stated, fits_sized = self.fitting(*stated), self.fitting(int(cpu), int(memory))
        return (
            f"a pod requested {stated[0]}m and {stated[1] // MIB} MiB, now {cpu:.0f}m and {memory / MIB:.0f} MiB "
            f"(all {sum(amounts[0] for amounts in sized)}m, {sum(amounts[1] for amounts in sized) // MIB} MiB); "
            f"{fits_stated} more fit as stated, {fits_sized} as sized"
        )

    def fitting(self, cpu_millicores: int, memory_bytes: int) -> int:
        """Have the scheduler place pods that do nothing, and count those that it places."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        labels = {"app": "room"}
        requests = {"cpu": f"{cpu_millicores}m", "memory": str(memory_bytes)}
        pause = {
            "name": "pause",
            "image": PAUSE_IMAGE,
            "imagePullPolicy": "Never",
            "resources": {"requests": requests},
        }
        spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [pause]}
        room = Workload(self.node, "room")
        self.node.plane.admin.create(
            path,
            {
                "metadata": {"name": "room"},
                "spec": {
                    "replicas": FIT_REPLICAS,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            },
        )

        def is_decided() -> bool:
            pods = room.pods()
            return len(pods) == FIT_REPLICAS and all(is_placed(pod) is not None for pod in pods)

        try:
            self.node.wait(is_decided, "the scheduler has decided on every pod")
            return sum(is_placed(pod) is True for pod in room.pods())
        finally:
            self.node.plane.admin.delete(f"{path}/room", propagationPolicy="Background")
            self.node.wait(lambda: not room.pods(), "the pods of the room are gone", START_SECONDS)


def counted(name: str, trial_cpu_seconds: float) -> int:
    """Return how much of an operation makes up its CPU time, at least 1; a build has work for three processes."""
    wanted = CPU_SECONDS[name] / trial_cpu_seconds * TRIAL[name]
    return max(LEAST_UNITS if name == "build" else 1, min(MOST[name], round(wanted)))


def sums(pods: Spaces, findings: Iterable[Json]) -> str:
    """See in an audit's findings that what a pod may use is the budget, to the microsecond and to the byte.

    Raises:
        AssertionError: It is not.
    """
    cpu, memory = quota_usec(BUDGET_MILLICORES), BUDGET_MIB * MIB
    texts = {(finding["pod"], finding["container"], finding["value"]): str(finding["found"]) for finding in findings}
    for workload in pods.workloads:
        name = workload.pod()["metadata"]["name"]
        of = (None,) if pods.arm in SHARED else CONTAINERS
        quotas = [int(texts[name, container_name, "cpu.max"].split()[0]) for container_name in of]
        limits = [int(texts[name, container_name, "memory.max"]) for container_name in of]
        assert (sum(quotas), sum(limits)) == (cpu, memory), (name, quotas, limits)
    return f"{cpu} us in 100 ms and {memory} bytes in each of {len(pods.workloads)} pods"


def quota_usec(cpu_millicores: int) -> int:
    """Return the quota in 100 ms."""
    return cpu_millicores * 100


def kills(workload: Workload) -> int:
    """Return how many processes of a pod were killed for memory; the pod's file outlives its containers."""
    return records.pairs(workload.read("memory.events", None)).get("oom_kill", 0)


def requests_in(resources: Mapping[str, Mapping[str, Mapping[str, str]]]) -> tuple[int, int]:
    """Return the sum of the containers' requests, millicores and bytes."""
    every = [container_resources.get("requests", {}) for container_resources in resources.values()]
    return sum(millicores(request["cpu"]) for request in every), sum(bytes_of(request["memory"]) for request in every)


def requests_of(pod: Json) -> tuple[int, int]:
    """Return what a pod requests now, by its own resources or by its containers', millicores and bytes."""
    by_containers = requests_in({entry["name"]: entry["resources"] for entry in pod["spec"]["containers"]})
    own = pod["spec"].get("resources", {}).get("requests", {})
    return (
        millicores(own["cpu"]) if "cpu" in own else by_containers[0],
        bytes_of(own["memory"]) if "memory" in own else by_containers[1],
    )


def is_placed(pod: Json) -> bool | None:
    """Return whether the scheduler has placed a pod; None = it has not decided yet."""
    if pod["spec"].get("nodeName"):
        return True
    conditions = {condition["type"]: condition for condition in pod["status"].get("conditions", [])}
    return False if conditions.get("PodScheduled", {}).get("reason") == "Unschedulable" else None
