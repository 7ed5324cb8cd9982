"""Short of memory on a real node with MemoryQoS: who is held back at memory.high gets a larger limit (autoscaler#9926).

The kubelet has a memoryThrottlingFactor, so it writes memory.high between request and limit of each container.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.audit import AuditLog
from tests.e2e.acting import ENFORCE, was_killed
from tests.e2e.agent_pod import AgentPod, Writes
from tests.e2e.node import Node
from tests.e2e.scenario import MIB
from tests.e2e.steps import Steps
from tests.e2e.workloads import TIMED_POLL_SECONDS, Workload, load

THROTTLING_FACTOR: Final = 0.5
KUBELET: Final[Mapping[str, Any]] = {"featureGates": {"MemoryQoS": True}, "memoryThrottlingFactor": THROTTLING_FACTOR}
REQUEST_MIB: Final = 64
LIMIT_MIB: Final = 128
HIGH_BYTES: Final = 96 * MIB
"""request + factor x (limit - request)."""
WANTED_MIB: Final = 112
"""More than memory.high, and too little for the limit alone to ask for more (``act.urgentMemoryRatio``)."""
RUNS: Final = 5
SETTINGS: Final = {
    # What is fast is so by itself: no plan and no slow reading comes by chance.
    "plan.replanSeconds": "3600",
    "sampling.slowIntervalSeconds": "10",
    "evaluateIntervalSeconds": "60",
    # Of a pod that had to wait, each line is printed, to the millisecond.
    "logging.level": "debug",
    "logging.format": "json",
}
SLOW_SECONDS: Final = 2.0
"""Promised by the design; what the agent did while a pod waited for longer is printed."""
OWN_LOGGER: Final = '"logger": "agent.'
LEAD_SECONDS: Final = 10.0
"""Of the log before a pod's wait: what holds it up may have begun there."""
AGENT_RUNS: Final = "agent runs"
HELD: Final = "memory.high is where memoryThrottlingFactor has it"


@dataclass(frozen=True, slots=True)
class MemoryQosScenario:
    """The steps on one node."""

    node: Node
    settings: Mapping[str, str]

    @property
    def agent(self) -> AgentPod:
        """The agent under test."""
        return AgentPod(self.node)

    def workload(self, number: int) -> Workload:
        """Return one of the loads."""
        return Workload(self.node, f"held-{number}")

    def run(self, steps: Steps) -> None:
        """Take all steps."""
        writes = Writes(AuditLog(self.node.plane.audit_log))
        steps.run(HELD, self.start)
        steps.run(AGENT_RUNS, lambda: self.agent.start({**SETTINGS, **self.settings}), needs=HELD)
        title = "held back at memory.high: a larger limit, and memory.high follows"
        steps.run(title, self.held_back, needs=AGENT_RUNS)
        steps.run("why it grew is told", self.told, needs=title)
        steps.run("each was resized once, and none restarted", lambda: self.calm(writes), needs=title)

    def start(self) -> str:
        """Start the loads, each well below its memory.high."""
        requests = {"cpu": "20m", "memory": f"{REQUEST_MIB}Mi"}
        for number in range(RUNS):
            container = load(requests=requests, limits={"memory": f"{LIMIT_MIB}Mi"})
            self.workload(number).start(container, annotations=ENFORCE)
        for number in range(RUNS):
            workload = self.workload(number)
            workload.wait_running()
            workload.control("memory_mib", REQUEST_MIB)
            high_bytes = int(workload.read("memory.high"))
            assert high_bytes == HIGH_BYTES, high_bytes
        return f"{HIGH_BYTES // MIB} of {LIMIT_MIB} MiB"

    def held_back(self) -> str:
        """Want more than memory.high, one after the other; time it from the kernel's first event on."""
        self.node.wait(lambda: len(self.agent.ask("plan")["pods"]) >= RUNS, "the agent has planned with the pods")
        times = [self.timed(self.workload(number)) for number in range(RUNS)]
        accepted, followed = zip(*times, strict=True)
        each = "; ".join(f"{acceptance:.2f}, {then:.2f}" for acceptance, then in times)
        return (
            f"accepted after {statistics.median(accepted):.2f} s (most {max(accepted):.2f}), "
            f"in the kernel after {statistics.median(followed):.2f} s (most {max(followed):.2f}); each: {each}"
        )

    def timed(self, workload: Workload) -> tuple[float, float]:
        """Give ``held_seconds``; what the agent's log says of a pod that waited too long is printed."""
        accepted_seconds, followed_seconds = self.held_seconds(workload)
        if accepted_seconds > SLOW_SECONDS:
            print(f"      {workload.name}: accepted after {accepted_seconds:.2f} s; until now the agent said:")
            lines = self.agent.log(followed_seconds + LEAD_SECONDS).splitlines()
            print("".join(f"      {line}\n" for line in lines if OWN_LOGGER in line), end="", flush=True)
        return accepted_seconds, followed_seconds

    def held_seconds(self, workload: Workload) -> tuple[float, float]:
        """Have one want more; give the seconds until its larger limit is accepted, and until memory.high follows."""
        workload.control("memory_mib", WANTED_MIB)
        self.wait_quickly(lambda: high_events(workload) > 0, "its tasks are held back")
        began = time.monotonic()
        self.wait_quickly(lambda: (workload.memory_limit_bytes() or 0) > LIMIT_MIB * MIB, "a larger limit")
        accepted_seconds = time.monotonic() - began
        self.wait_quickly(lambda: int(workload.read("memory.high")) > HIGH_BYTES, "a larger memory.high")
        followed_seconds = time.monotonic() - began
        wanted = WANTED_MIB * MIB
        self.node.wait(lambda: int(workload.read("memory.current")) >= wanted, "it has what it wants")
        assert not was_killed(workload)
        return accepted_seconds, followed_seconds

    def wait_quickly(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, looking often enough to time it."""
        self.node.wait(condition, what, poll_seconds=TIMED_POLL_SECONDS)

    def told(self) -> str:
        """Find the cause in the log of decisions and on the metrics page."""
        causes = [f"{event['reason']} {event['detail']}" for event in self.agent.ask("events", limit=50)["items"]]
        assert any("memory.high" in cause for cause in causes), causes
        series = 'plimsoll_urgent_total{reason="memory_high"}'
        line = next(line for line in self.agent.page().splitlines() if line.startswith(series))
        assert float(line.split()[-1]) >= RUNS, line
        return line

    def calm(self, writes: Writes) -> str:
        """Look back."""
        names = [call.name for call in writes.resizes()]
        assert sorted(name.rsplit("-", 2)[0] for name in set(names)) == [f"held-{number}" for number in range(RUNS)]
        for number in range(RUNS):
            assert self.workload(number).restarts() == 0
        return f"{len(names)} resizes of {RUNS} pods"


def high_events(workload: Workload) -> int:
    """Return how often the kernel held its tasks back."""
    lines = (line.split() for line in workload.read("memory.events").splitlines())
    return int(dict(lines)["high"])
