"""Mode protect on a real node: who is short is given more in place, and nothing that anybody has is taken away.

A pod that starves, one that comes close to its memory limit and one that is killed at it grow; one that requests far
too much stays as it is, though the room that it holds would be of use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.numbers.quantity import parse_quantity
from agent.core.orders.annotations import MODE
from tests.cluster.api import Json
from tests.cluster.audit import AuditLog
from tests.e2e.acting import ACT_SECONDS, QUIET_SECONDS, decision_words, was_killed
from tests.e2e.agent_pod import AgentPod, Writes
from tests.e2e.node import Node
from tests.e2e.scenario import MIB
from tests.e2e.steps import Steps
from tests.e2e.workloads import Workload, load, millicores, weight

PROTECT: Final = {MODE: "protect"}
LOADS_RUN: Final = "loads run, in mode protect"
AGENT_RUNS: Final = "agent runs"
STARVED: Final = "who starves for CPU is given more in place"
FAT_CPU_MILLICORES, FAT_MIB = 700, 256
STARVED_MILLICORES: Final = 50
WANTED_MILLICORES: Final = 250
NOISY_CPU: Final = "300m"
"""Of a pod that nobody sizes, which wants more than the node has."""
LEAKY_MIB, LEAKY_LIMIT_MIB = 100, 192
BURSTY_MIB, BURSTY_LIMIT_MIB = 40, 64
CONTAINERS: Final[Mapping[str, Json]] = {
    "fat": load(
        requests={"cpu": f"{FAT_CPU_MILLICORES}m", "memory": f"{FAT_MIB}Mi"}, limits={"memory": f"{2 * FAT_MIB}Mi"}
    ),
    "starved": load(requests={"cpu": f"{STARVED_MILLICORES}m", "memory": "32Mi"}),
    "leaky": load(requests={"cpu": "20m", "memory": "64Mi"}, limits={"memory": f"{LEAKY_LIMIT_MIB}Mi"}),
    "bursty": load(
        requests={"cpu": "20m", "memory": "48Mi"}, limits={"memory": f"{BURSTY_LIMIT_MIB}Mi"}, mebibytes_per_turn=512
    ),
}
"""In mode protect."""


@dataclass(frozen=True, slots=True)
class ProtectScenario:
    """The steps on one node. The loads stay from step to step."""

    node: Node
    settings: Mapping[str, str]
    """Of the agent, beside those in ``agent_pod.SETTINGS``."""

    @property
    def agent(self) -> AgentPod:
        """The agent under test."""
        return AgentPod(self.node)

    def workload(self, name: str) -> Workload:
        """Return one of the loads."""
        return Workload(self.node, name)

    def run(self, steps: Steps) -> None:
        """Take all steps."""
        steps.whenever_failed = self.last_words
        writes = Writes(AuditLog(self.node.plane.audit_log))
        steps.run(LOADS_RUN, self.start)
        steps.run(AGENT_RUNS, lambda: self.agent.start(self.settings), needs=LOADS_RUN)
        needing_agent: tuple[tuple[str, Callable[[], object]], ...] = (
            ("the plan says what protect holds", self.held),
            (STARVED, self.starved),
            ("who comes close to its memory limit is given more before a kill", self.close),
            ("who is killed at it is given more, and lives", self.killed),
        )
        for title, step in needing_agent:
            steps.run(title, step, needs=AGENT_RUNS)
        steps.run("no more short of anything, each keeps what it was given", self.kept, needs=STARVED)
        steps.run("the fat one stays, nothing was lowered, nobody evicted", lambda: self.calm(writes), needs=STARVED)

    def last_words(self) -> str:
        """Return the end of the agent's log, and what it decided last."""
        lines = self.agent.log().splitlines()
        lines += [decision_words(decision) for decision in self.agent.ask("events", 20.0, limit=12)["items"]]
        return "".join(f"      {line}\n" for line in lines)

    def start(self) -> str:
        """Start the loads; none is short of anything yet."""
        for name, container in CONTAINERS.items():
            self.workload(name).start(container, annotations=PROTECT)
        self.workload("noisy").start(load(requests={"cpu": NOISY_CPU, "memory": "32Mi"}))
        for name in (*CONTAINERS, "noisy"):
            self.workload(name).wait_running()
        self.workload("leaky").control("memory_mib", LEAKY_MIB)
        self.workload("bursty").control("memory_mib", BURSTY_MIB)
        return f"{len(CONTAINERS)} pods, and one that nobody sizes"

    def held(self) -> str:
        """Wait until so much is known of the fat one that mode enforce would lower it."""
        self.node.wait(lambda: self.share("fat", "cpu")["kept"] == "protect", "CPU is held by protect", ACT_SECONDS)
        self.node.wait(lambda: self.share("fat", "memory")["kept"] == "protect", "memory is as well", ACT_SECONDS)
        # The page has the newest turn's plan, of some seconds ago.
        self.node.wait(lambda: self.saved_cores() > FAT_CPU_MILLICORES / 2000, "the page tells of it", ACT_SECONDS)
        possible = self.share("fat", "cpu")["possible"]
        cores = self.saved_cores()
        return f"{FAT_CPU_MILLICORES}m stay where {possible}m would do; {cores:.2f} cores could be saved in all"

    def saved_cores(self) -> float:
        """Return what pods in mode protect could do without, by the metrics page."""
        return self.agent.metric("plimsoll_possible_savings_cpu_cores", 'mode="protect"') or 0.0

    def share(self, name: str, resource: str) -> Json:
        """Return what the newest plan says of a resource of a load's container."""
        pod = self.workload(name).pod()["metadata"]["name"]
        plan = next(pod_plan for pod_plan in self.agent.ask("plan")["pods"] if pod_plan["ref"]["name"] == pod)
        share: Json | None = plan["containers"][0][resource]
        if share is None:
            raise LookupError(f"nothing is known of {name}'s {resource}")
        return share

    def starved(self) -> str:
        """Two want more CPU than there is; the one that Plimsoll may help gets a larger request and weight."""
        starved = self.workload("starved")
        begun = time.monotonic()
        self.workload("noisy").control("cpu_millicores", 3000)
        starved.control("cpu_millicores", WANTED_MILLICORES)
        self.node.wait(
            lambda: starved.cpu_request_millicores() > 2 * STARVED_MILLICORES, "it requests more", ACT_SECONDS
        )
        seconds = time.monotonic() - begun
        self.node.wait(
            lambda: starved.read("cpu.weight") == weight(starved.cpu_request_millicores()) and starved.is_settled(),
            "the kernel has it",
            ACT_SECONDS,
        )
        assert starved.restarts() == 0
        request = starved.cpu_request_millicores()
        return f"{STARVED_MILLICORES}m -> {request}m after {seconds:.1f} s, weight {starved.read('cpu.weight')}"

    def close(self) -> str:
        """A rise of 2 MiB a second, to well above the limit that it began with."""
        leaky = self.workload("leaky")
        self.workload("noisy").control("cpu_millicores", 0)
        target_mib = LEAKY_LIMIT_MIB + 40
        for mebibytes in range(LEAKY_MIB, target_mib + 2, 2):
            leaky.control("memory_mib", mebibytes)
            time.sleep(1.0)  # the pace of the rise
        self.node.wait(lambda: int(leaky.read("memory.current")) > (target_mib - 2) * MIB, f"{target_mib} MiB are held")
        assert leaky.restarts() == 0
        limit = int(leaky.read("memory.max")) // MIB
        return f"{target_mib} MiB held; limit {LEAKY_LIMIT_MIB} -> {limit} MiB, no restart"

    def killed(self) -> str:
        """From far below its limit to far above it at once: nobody can see that coming; later it must live."""
        bursty = self.workload("bursty")
        target_mib = BURSTY_LIMIT_MIB + 40
        bursty.control("memory_mib", target_mib)
        self.node.wait(lambda: bursty.restarts() > 0 or was_killed(bursty), "it is killed for its memory")
        begun = time.monotonic()
        self.node.wait(
            lambda: bursty.is_running() and int(bursty.read("memory.current")) >= target_mib * MIB,
            f"it lives with {target_mib} MiB",
            ACT_SECONDS,
        )
        limit = (bursty.memory_limit_bytes() or 0) // MIB
        return (
            f"limit {BURSTY_LIMIT_MIB} -> {limit} MiB, alive {time.monotonic() - begun:.0f} s after the kill, "
            f"{bursty.restarts()} restarts"
        )

    def kept(self) -> str:
        """Ask nothing more of them, and listen for some plans."""
        before = {name: self.workload(name).resources() for name in CONTAINERS}
        for name, file in (("starved", "cpu_millicores"), ("leaky", "memory_mib"), ("bursty", "memory_mib")):
            self.workload(name).control(file, 0)
        self.node.wait(lambda: self.share("starved", "cpu")["kept"] == "protect", "it could do with less", ACT_SECONDS)
        log = AuditLog(self.node.plane.audit_log)
        time.sleep(QUIET_SECONDS)  # the silence itself is what is looked at
        assert {name: self.workload(name).resources() for name in CONTAINERS} == before
        resizes = Writes(log).resizes()
        assert not resizes, "; ".join(map(str, resizes))
        return f"0 resizes in {QUIET_SECONDS:.0f} s; the starved one could do with {self.possible('starved')}"

    def possible(self, name: str) -> str:
        """Return the CPU request that would do."""
        return f"{self.share(name, 'cpu')['possible']}m"

    def calm(self, writes: Writes) -> str:
        """Follow all that was written, resize by resize."""
        assert self.workload("fat").resources() == CONTAINERS["fat"]["resources"]
        resizes = writes.resizes()
        names = {load_of(call.name) for call in resizes}
        assert names == {"starved", "leaky", "bursty"}, names
        amounts = {key: amount for name, container in CONTAINERS.items() for key, amount in stated(name, container)}
        for call in resizes:
            for container in (call.body or {})["spec"]["containers"]:
                for key, amount in stated(load_of(call.name), container):
                    assert amount >= amounts.get(key, 0), f"{key} was lowered: {call.body}"
                    amounts[key] = amount
        others = [call for call in writes.all() if call.resource != "pods/resize"]
        assert not others, "; ".join(map(str, others))
        assert self.agent.ask("plan")["evictions"] == []
        for name in ("fat", "starved", "leaky"):
            assert self.workload(name).restarts() == 0, name
        cpu = millicores(self.workload("fat").resources()["requests"]["cpu"])
        return f"{len(resizes)} resizes, all upwards, of {len(names)} pods; the fat one requests {cpu}m"


def load_of(pod: str) -> str:
    """Return whose pod it is, by its name."""
    return pod.rsplit("-", 2)[0]


def stated(name: str, container: Json) -> list[tuple[tuple[str, str, str], int]]:
    """Return what a container states: (whose, requests or limits, resource) and the amount."""
    return [
        ((name, kind, resource), parse_quantity(amount))
        for kind, amounts in container["resources"].items()
        for resource, amount in amounts.items()
    ]
