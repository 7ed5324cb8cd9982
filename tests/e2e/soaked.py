"""Minutes of ``make soak`` on a real kubelet: what the played one cannot have, and the same checks at the end.

A guest's clock is set by ``date -s``, memory comes near a real limit of v2, the state's disk is a file system of its
own, and the kubelet starts the agent anew after each kill.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent.core.orders.annotations import PREFIX
from agent.node.history.file import HISTORY_FILE_NAME
from agent.node.orders.holds import FILE_NAME as HOLDS
from agent.node.orders.journal import FILE_NAME as DECISIONS
from agent.node.orders.journal import read_journal
from agent.node.resize.ledger_file import FILE_NAME as LEDGER
from tests.cluster import fence, objects
from tests.cluster.api import MERGE, Json
from tests.cluster.audit import AuditLog
from tests.e2e.acting import ENFORCE
from tests.e2e.agent_pod import NAME, AgentPod
from tests.e2e.node import EXCHANGE, Node
from tests.e2e.scenario import MIB
from tests.e2e.steps import Steps
from tests.e2e.workloads import NAMESPACE, Workload, load
from tests.image.layers import UID
from tests.soak import logs
from tests.soak.histories import node_history
from tests.soak.matching import Decided, Patch, Witnesses, amounts_of, decided_of, matched, patch_of, under_way_of
from tests.soak.rules import AGENT_WRITES, Born, kept_originals, lost_original, not_restored, strange_writes
from tests.soak.verdicts import must

STATE: Final = "/var/lib/plimsoll-soak"
DISK_MIB: Final = 48
SETTINGS: Final = {"logging.format": "json", "sampling.maxContainers": "64", "evaluateIntervalSeconds": "5"}
HOUR_SECONDS: Final = 3600
LEAKY_MIB, RISEN_MIB, STEP_MIB = 100, 184, 4
"""Of a limit of 192 MiB nine tenths ask for more at once."""
ENFORCED: Final = ("idle", "wanting", "leaky")
LEFT_ALONE: Final = ("advised", "guaranteed")
ACT_SECONDS: Final = 60.0
AGENT_RUNS: Final = "the agent runs, its state on a disk of its own, and lowers who asks for too much"
WITHHELD: Final = ("originals", "ledger")
"""Why nothing is resized while the disk takes nothing."""


@dataclass(slots=True)
class SoakScenario:
    """The steps on one node."""

    node: Node
    settings: Mapping[str, str]
    pods: dict[str, Born] = field(default_factory=dict)
    """By the name of their workload."""
    under_way: list[Decided] = field(default_factory=list)
    disk_full: list[tuple[float, float]] = field(default_factory=list)
    patches: Sequence[Patch] = ()
    logs: dict[str, str] = field(default_factory=dict)
    """By file in the guest, one of each life."""

    @property
    def agent(self) -> AgentPod:
        """The agent under test."""
        return AgentPod(self.node, state_folder=STATE)

    def run(self, steps: Steps) -> None:
        """Take all steps."""
        log = AuditLog(self.node.plane.audit_log)
        steps.run("pods run", self.start_pods)
        steps.run(AGENT_RUNS, self.start_agent, needs="pods run")
        needing_agent: tuple[tuple[str, Callable[[], object]], ...] = (
            ("killed (9): it is started again and goes on", self.killed),
            ("the clock an hour forwards, killed, and back: it goes on", self.clock_set),
            ("memory near its limit: the limit is raised, nothing is killed", self.memory_short),
            ("the disk full: nothing is resized that could not be undone", self.disk_filled),
            ("no pod lost its original requests", self.originals),
            ("restore --all gives them back", self.restored),
            ("each resize in the audit log was decided, and each decided one is there", lambda: self.matched(log)),
            ("nothing was resized outside its rules", lambda: self.rules(log)),
            ("the node's history is whole", self.history),
            ("no traceback in any log", self.traces),
        )
        for title, step in needing_agent:
            steps.run(title, step, needs=AGENT_RUNS)

    def workload(self, name: str) -> Workload:
        """Return one of the loads."""
        return Workload(self.node, name)

    # -- the day -----------------------------------------------------------------------------------------------------

    def start_pods(self) -> str:
        """Start who is enforced, and who is left alone."""
        both = {"cpu": "50m", "memory": "32Mi"}
        containers: dict[str, tuple[Json, Mapping[str, str]]] = {
            "idle": (load(requests={"cpu": "500m", "memory": "64Mi"}), ENFORCE),
            "wanting": (load(requests={"cpu": "100m", "memory": "32Mi"}), ENFORCE),
            "leaky": (load(requests={"cpu": "20m", "memory": "64Mi"}, limits={"memory": "192Mi"}), ENFORCE),
            "advised": (load(requests={"cpu": "200m", "memory": "32Mi"}), {f"{PREFIX}mode": "recommend"}),
            "guaranteed": (load(requests=both, limits=both), ENFORCE),
        }
        for name, (container, orders) in containers.items():
            self.workload(name).start(container, annotations=orders)
        for name, (container, _) in containers.items():
            metadata = self.workload(name).wait_running()["metadata"]
            self.pods[name] = Born(
                pod=f"{NAMESPACE}/{metadata['name']}",
                uid=metadata["uid"],
                role=name,
                written=amounts_of({"spec": {"containers": [container]}}),
                was_sized=False,
            )
        self.workload("leaky").control("memory_mib", LEAKY_MIB)
        return f"{len(containers)} pods"

    def start_agent(self) -> str:
        """Give it a small disk, start it, and see the idle pod give."""
        options = f"size={DISK_MIB}m,uid={UID},gid={UID},mode=0700"
        self.node.run(f"mkdir -p {STATE} && mount -t tmpfs -o {options} plimsoll-soak {STATE}")
        self.agent.start({**SETTINGS, **self.settings})
        idle = self.workload("idle")
        seconds = self.node.wait(lambda: idle.cpu_request_millicores() < 500, "the idle pod gives", ACT_SECONDS)
        return f"500m -> {idle.cpu_request_millicores()}m, {seconds:.0f} s after it served"

    def killed(self) -> str:
        """Kill it, and have it do as it is told after that."""
        back = self.kill()
        return f"back after {back:.0f} s; {self.ask_for(150)}"

    def kill(self) -> float:
        """Kill it, take down what it had under way, and wait until it serves again; give the seconds."""
        self.logged()
        identity = self.agent.kill()
        self.under_way += under_way_of(self.read_json(LEDGER))
        return self.agent.wait_restarted(identity)

    def ask_for(self, cpu_millicores: int) -> str:
        """Order a pod more than it has, and wait until it has it."""
        self.order(cpu_millicores)
        wanting = self.workload("wanting")
        seconds = self.node.wait(
            lambda: wanting.cpu_request_millicores() >= cpu_millicores,
            f"{cpu_millicores}m are given that were ordered",
            ACT_SECONDS,
        )
        return f"{cpu_millicores}m given {seconds:.1f} s after the order"

    def order(self, cpu_millicores: int) -> None:
        """Write an order into a pod."""
        annotations = {f"{PREFIX}min-cpu": f"{cpu_millicores}m"}
        path = objects.pod_path(NAMESPACE, self.workload("wanting").pod()["metadata"]["name"])
        self.node.plane.admin.patch(path, {"metadata": {"annotations": annotations}}, MERGE)

    def clock_set(self) -> str:
        """Set the guest's clock; a start of the agent lies on the wrong side. No certificate is valid an hour ago."""
        self.node.run(f"date -s @$(($(date +%s) + {HOUR_SECONDS}))")
        first = self.ask_for(170)
        back = self.kill()
        second = self.ask_for(190)
        self.node.run(f"date -s @$(($(date +%s) - {HOUR_SECONDS}))")
        return f"ahead: {first}, started in {back:.0f} s, {second}; back: {self.ask_for(210)}"

    def memory_short(self) -> str:
        """Let a pod's memory rise by steps to beyond nine tenths of its limit."""
        leaky = self.workload("leaky")
        held = int(leaky.read("memory.current"))
        assert held > LEAKY_MIB * MIB // 2, f"{held} bytes are held"
        for mebibytes in range(LEAKY_MIB, RISEN_MIB, STEP_MIB):
            leaky.control("memory_mib", mebibytes)
            time.sleep(0.5)  # the pace of the rise
        limit = self.node.wait(
            lambda: (leaky.memory_limit_bytes() or 0) > 192 * MIB, "its limit is raised", ACT_SECONDS
        )
        assert leaky.restarts() == 0
        pressure = leaky.read("memory.pressure").splitlines()[0].rpartition("=")[2]
        raised = (leaky.memory_limit_bytes() or 0) // MIB
        leaky.control("memory_mib", LEAKY_MIB)
        return f"192 -> {raised} MiB {limit:.1f} s after the rise; it waited {int(pressure) / 1e6:.2f} s for memory"

    def disk_filled(self) -> str:
        """Fill the disk, order something, see that it is withheld and why; make room, and see that it comes."""
        wanting = self.workload("wanting")
        before = wanting.cpu_request_millicores()
        began = time.time()
        self.node.try_run(f"dd if=/dev/zero of={STATE}/filler bs=4096 2>/dev/null")
        self.order(before + 30)
        seconds = self.node.wait(self.is_withheld, "the agent says that the disk takes nothing", ACT_SECONDS)
        assert wanting.cpu_request_millicores() == before, "resized with a full disk"
        self.node.run(f"rm {STATE}/filler")
        self.disk_full.append((began, time.time()))
        return f"withheld after {seconds:.1f} s; freed: {self.ask_for(before + 30)}"

    def is_withheld(self) -> bool:
        """Return whether its newest decisions say that something was not done for the disk's sake."""
        return any(decision["reason"] in WITHHELD for decision in self.agent.ask("events", limit=20)["items"])

    # -- the evening -------------------------------------------------------------------------------------------------

    def originals(self) -> str:
        """Find what was written for each pod."""
        originals = kept_originals(self.read_json(HOLDS))
        faults = [lost_original(pod, self.workload(name).pod(), originals) for name, pod in self.pods.items()]
        must([fault for fault in faults if fault is not None], "pods lost them")
        return f"{len(originals)} kept of {len(self.pods)} pods"

    def restored(self) -> str:
        """Give all of them back."""
        self.agent.ask("pause")  # who was not resized yet would be meanwhile
        answer = self.agent.ask("restore", all=True)
        still: list[str] = []

        def has_all() -> bool:
            faults = [not_restored(pod, self.workload(name).pod()) for name, pod in self.pods.items()]
            still[:] = [fault for fault in faults if fault is not None]
            return not still

        seconds = self.node.wait(has_all, "all request what was written", ACT_SECONDS)
        return f"{len(answer['items'])} pods, {seconds:.1f} s"

    def matched(self, log: AuditLog) -> str:
        """Compare the audit log with decisions, one by one."""
        calls = [*log.calls(fence.USER), *(call for call in log.unanswered() if call.user == fence.USER)]
        self.patches = [patch_of(call) for call in calls if call.resource == "pods/resize" and not call.is_dry_run]
        copied = self.copied(DECISIONS, f"{DECISIONS}.1")
        decided = [answer for decision in read_journal(copied) if (answer := decided_of(decision)) is not None]
        tally = matched(
            self.patches,
            Witnesses(
                decided=decided[::-1],
                under_way=self.under_way,
                logged=logs.sent([self.logged()]),
                disk_full=self.disk_full,
            ),
        )
        must(tally.faults, "do not match")
        return (
            f"{sum(patch.is_done for patch in self.patches)} taken: {tally.by_decision} by the decision log, "
            f"{tally.by_ledger} by a ledger, {tally.by_log} by the log; {tally.refused} refused"
        )

    def rules(self, log: AuditLog) -> str:
        """See that nobody was touched who is left alone, and nothing else written."""
        allowed = {self.pods[name].uid for name in ENFORCED}
        strangers = [f"{patch.pod}: resized" for patch in self.patches if patch.uid and patch.uid not in allowed]
        nodes = {patch.node for patch in self.patches} - {self.node.name}
        must([*strangers, *(f"a token of {node}" for node in nodes)], "should not have been")
        must(strange_writes(log.calls(fence.USER), AGENT_WRITES), "should not have been")
        return f"{len(self.patches)} patches of {len(allowed)} pods; {', '.join(LEFT_ALONE)} were left alone"

    def history(self) -> str:
        """Read a copy of the history back."""
        known, damage = node_history(self.copied(HISTORY_FILE_NAME))
        must([] if damage is None else [damage], "is damaged")
        keys = {name: f"workload:{NAMESPACE}/Deployment/{name}/app" for name in self.pods}
        must([name for name, key in keys.items() if not known.get(key)], "have no history")
        return f"at least {min(len(known[key]) for key in keys.values())} minutes of each pod"

    def traces(self) -> str:
        """Search the logs of all its lives."""
        file = self.logged()
        must(logs.traces(file), "tracebacks")
        return f"{file.stat().st_size / 1024:.0f} KiB, errors: {dict(logs.errors([file])) or 'none'}"

    # -- files of the guest ------------------------------------------------------------------------------------------

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a file of the agent's state; empty = there is none."""
        code, text = self.node.try_run(f"cat {STATE}/{name}")
        return dict(json.loads(text)) if code == 0 else {}

    def copied(self, *names: str) -> Path:
        """Copy files of the agent's state to this machine, those that are there; give the first one's path."""
        for name in names:
            self.node.try_run(f"cp {STATE}/{name} {EXCHANGE}/{name} && chmod 644 {EXCHANGE}/{name}")
        return self.node.exchange / names[0]

    def logged(self) -> Path:
        """Copy what all lives of the agent logged, without the runtime's head of each line.

        The kubelet keeps the logs of two lives: those of earlier ones were copied before.
        """
        for path in self.node.run(f"ls /var/log/pods/{fence.NAMESPACE}_*/{NAME}/*.log").split():
            self.logs[path] = self.node.read(path)
        lines = (line.split(" ", 3)[-1] for path in sorted(self.logs) for line in self.logs[path].splitlines())
        file = self.node.exchange / "agent-soak.log"
        file.write_text("\n".join(lines) + "\n")
        return file
