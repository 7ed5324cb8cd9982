"""Limits of a whole pod on a kubelet that knows none: written by the agent, kept over the kubelet, undone."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.node.keepers.pod_limits import TURN_SECONDS
from tests.cluster import objects
from tests.cluster.api import Json
from tests.cluster.binaries import OLDEST
from tests.e2e.agent_pod import AgentPod
from tests.e2e.node import Driver, Node
from tests.e2e.program import audit, wait_without_drift
from tests.e2e.steps import Steps
from tests.e2e.workloads import NAMESPACE, Workload, load, quota, weight

MIB: Final = 1 << 20
ANNOTATION: Final = "plimsoll.dev/pod-limits"
ASKED: Final = '{"limits": {"cpu": "300m", "memory": "128Mi"}}'
SETTINGS: Final = {
    "podLimits.writeCgroups": "true",
    "podLimits.memoryLow": "true",
    # Nothing is sized here: an agent that plans seldom leaves the guest's CPUs to the kubelet.
    "plan.replanSeconds": "60",
}
FILES: Final = ("cpu.max", "memory.max", "memory.low", "memory.min", "memory.high")
STARTED: Final = "agent may write cgroups: uid 0, no capability"
PATIENCE_SECONDS: Final = 600.0
"""Nothing here is timed, and emulated CPUs have what others leave of this machine's."""
REQUESTED_MIB: Final = 48
GROWN_MIB: Final = 64
LIMITS: Final = (quota(300), str(128 * MIB))
NO_LIMITS: Final = ("max 100000", "max")


@dataclass(frozen=True, slots=True)
class BudgetScenario:
    """One pod that asks for a budget in mode recommend, and one like it that does not."""

    node: Node
    tree: Path

    @property
    def agent(self) -> AgentPod:
        """The agent under test."""
        return AgentPod(self.node, writes_cgroups=True)

    @property
    def shared(self) -> Workload:
        """Asks for a budget."""
        return Workload(self.node, "shared")

    @property
    def twin(self) -> Workload:
        """The same without the annotation: what the kubelet alone makes of it."""
        return Workload(self.node, "twin")

    def run(self, steps: Steps) -> None:
        """Take all steps."""
        steps.whenever_failed = lambda: "".join(f"      {line}\n" for line in self.agent.log().splitlines())
        before: dict[str, str] = {}
        steps.run(f"the kubelet is {OLDEST}", self.is_old)
        steps.run(STARTED, self.start_agent)
        needing_agent: tuple[tuple[str, Callable[[], object]], ...] = (
            ("nothing is limited while an init container runs", lambda: self.start(before)),
            ("limits and memory.low are set once it has ended", self.set_after_init),
            ("two containers share the CPU of their pod", self.is_shared),
            ("audit finds no drift in what the agent set", lambda: wait_without_drift(self.node, self.tree)),
            ("kept over the kubelet's own writes at a resize; memory.low follows", self.kept_over_resize),
            ("oom_score_adj is of before the resize, and audit says so", self.score_is_told),
            ("kept when the kubelet is killed (9) and comes back", self.kept_over_restart),
            ("kept over systemd's own writes, if it keeps the cgroups", self.kept_over_systemd),
            ("undone byte for byte by the next agent, the annotation gone", lambda: self.undone(before)),
        )
        for title, step in needing_agent:
            steps.run(title, step, needs=STARTED)

    def wait(self, condition: Callable[[], object], what: str) -> float:
        """Wait for a condition, long; give the seconds."""
        return self.node.wait(condition, what, PATIENCE_SECONDS)

    def is_old(self) -> str:
        """Ask the API."""
        version: str = self.node.object()["status"]["nodeInfo"]["kubeletVersion"]
        assert version == f"v{OLDEST}", version
        return version

    def start_agent(self) -> str:
        """Start it as the chart does with podLimits.writeCgroups."""
        begun = time.monotonic()
        self.agent.start(SETTINGS)
        status = self.agent.status()
        assert set(status["Uid"].split()) == {"0"}, status["Uid"]
        assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}, status
        return f"serving {time.monotonic() - begun:.0f} s after it was created"

    def start(self, before: dict[str, str]) -> str:
        """Start both pods, hold one in its init container, and look on for longer than the agent's turn."""
        app = load(requests={"cpu": "50m", "memory": f"{REQUESTED_MIB}Mi"})
        held = {**load("unpack"), "command": ["sh", "-c", "until [ -e /control/go ]; do sleep 0.5; done"]}
        self.twin.start(app, load("second"))
        self.shared.start(app, load("second"), annotations={ANNOTATION: ASKED}, initContainers=[held])
        self.wait(self.twin.is_running, "the twin runs")

        def waits() -> bool:
            return "running" in self.shared.pod()["status"]["initContainerStatuses"][0]["state"]

        self.wait(waits, "the init container runs")
        begun = time.monotonic()
        while time.monotonic() - begun < 2 * TURN_SECONDS:  # the silence itself is what is looked at
            assert self.limits() == NO_LIMITS
            time.sleep(1.0)
        before |= self.contents(self.above())
        return f"no limit in {time.monotonic() - begun:.0f} s"

    def limits(self) -> tuple[str, str]:
        """Return cpu.max and memory.max of the pod."""
        return self.shared.read("cpu.max", None), self.shared.read("memory.max", None)

    def above(self) -> dict[str, str]:
        """Return the cgroups above the pods by name."""
        tier = self.node.cgroup_of(self.shared.pod()).rpartition("/")[0]
        return {"tier": tier, "kubepods": tier.rpartition("/")[0]}

    def places(self, workload: Workload) -> dict[str, str]:
        """Return the cgroups of a pod by name."""
        pod = workload.pod()
        return {name or "pod": self.node.cgroup_of(pod, name) for name in (None, "app", "second")}

    def contents(self, places: dict[str, str]) -> dict[str, str]:
        """Return what the files hold, byte for byte."""
        texts = {}
        for name, place in places.items():
            for file in FILES:
                texts[f"{name}/{file}"] = self.node.run(f"cat {shlex.quote(f'{place}/{file}')}")
        return texts

    def lows(self) -> dict[str, int]:
        """Return memory.low of the pod, its containers, and the cgroups above, in MiB."""
        places = {**self.places(self.shared), **self.above()}
        return {name: int(self.node.read(f"{place}/memory.low")) // MIB for name, place in places.items()}

    def wait_limited(self, low_mib: int) -> float:
        """Wait until all is as asked for; give the seconds."""
        low = {"pod": low_mib, "app": low_mib, "second": 0, "tier": low_mib, "kubepods": low_mib}
        what = f"limits {LIMITS} and memory.low {low}"
        return self.wait(lambda: (self.limits(), self.lows()) == (LIMITS, low), what)

    def set_after_init(self) -> str:
        """Let the init container end."""
        self.shared.control("go", 1)
        self.wait(self.shared.is_running, "all its containers run")
        seconds = self.wait_limited(REQUESTED_MIB)
        assert self.contents(self.places(self.twin))["pod/cpu.max"] == "max 100000\n"
        return f"{seconds:.1f} s after all its containers ran"

    def is_shared(self) -> str:
        """Both containers want 900m; the pod has 300m."""
        self.shared.control("cpu_millicores", 900)
        place = self.node.cgroup_of(self.shared.pod())

        def used() -> dict[str, int]:
            lines = self.node.read(f"{place}/cpu.stat").splitlines()
            return {key: int(value) for key, value in (line.split() for line in lines)}

        self.wait(lambda: used()["nr_throttled"] >= 20, "the pod is throttled")
        before, after = used(), {}

        def periods_passed() -> bool:
            after.update(used())
            return after["nr_periods"] - before["nr_periods"] >= 50

        self.wait(periods_passed, "50 periods")
        periods = after["nr_periods"] - before["nr_periods"]
        # Per period of 100 ms 30 ms; a period more may lie at each end.
        millicores = (after["usage_usec"] - before["usage_usec"]) / periods / 100
        self.shared.control("cpu_millicores", 0)
        assert millicores <= 300 * (1 + 2 / periods) + 10, millicores
        return f"{millicores:.0f}m of 300m over {periods} periods"

    def kept_over_resize(self) -> str:
        """A resize by hand: the kubelet writes the pod's cgroup, and the agent after it."""
        self.shared.patch(app={"requests": {"cpu": "80m", "memory": f"{GROWN_MIB}Mi"}})
        self.wait(lambda: self.shared.read("cpu.weight", None) == weight(80), "the kubelet has written")
        was_over = self.limits() != LIMITS
        seconds = self.wait_limited(GROWN_MIB)
        return f"{seconds:.1f} s after the kubelet; it {'took them off' if was_over else 'left them'}"

    def score_is_told(self) -> str:
        """The kernel's score, and the audit's two."""
        place = self.node.cgroup_of(self.shared.pod(), "app")
        process = self.node.read(f"{place}/cgroup.procs").split()[0]
        in_kernel = int(self.node.read(f"/proc/{process}/oom_score_adj"))
        name = self.shared.pod()["metadata"]["name"]
        rows = [row for row in audit(self.node, self.tree)["oom_scores"] if row["pod"] == name]
        assert [row["container"] for row in rows] == ["app"], rows
        scores: tuple[int, int] = rows[0]["found_oom_score_adj"], rows[0]["after_restart_oom_score_adj"]
        capacity = int(self.node.object()["status"]["capacity"]["memory"].removesuffix("Ki")) << 10
        expected = tuple(1000 - 1000 * mebibytes * MIB // capacity for mebibytes in (REQUESTED_MIB, GROWN_MIB))
        assert scores == expected, (scores, expected)
        assert in_kernel == scores[0], in_kernel
        return f"{scores[0]} in the kernel, {scores[1]} after a restart"

    def kept_over_restart(self) -> str:
        """The kubelet goes through its pods when it comes back."""
        process = self.node.run("pidof kubelet").strip()
        self.node.run(f"kill -9 {process}")

        def is_back() -> bool:
            code, now = self.node.try_run("pidof kubelet")
            return code == 0 and now.strip() != process

        self.wait(is_back, "another kubelet runs")
        self.shared.patch(app={"requests": {"cpu": "60m"}})  # done by the new one alone
        self.wait(lambda: self.shared.read("cpu.weight", None) == weight(60), "it works through its pods")
        return f"{self.wait_limited(GROWN_MIB):.1f} s after it"

    def kept_over_systemd(self) -> str:
        """``daemon-reload``, which may apply what systemd knows of its units."""
        if self.node.driver is not Driver.SYSTEMD:
            return "cgroupfs: there is none"
        self.node.run("systemctl daemon-reload")
        was_over = self.limits() != LIMITS
        return f"{self.wait_limited(GROWN_MIB):.1f} s; systemd {'took them off' if was_over else 'left them'}"

    def undone(self, before: dict[str, str]) -> str:
        """Restart the agent, take the annotation away, and compare with the twin and with before."""
        identity = self.agent.kill()
        self.agent.wait_restarted(identity)
        self.annotate(None)
        seconds = self.wait(lambda: (self.limits(), set(self.lows().values())) == (NO_LIMITS, {0}), "undone")
        here, there = self.contents(self.places(self.shared)), self.contents(self.places(self.twin))
        assert here == there, {name: (here[name], there[name]) for name in here if here[name] != there[name]}
        above = self.contents(self.above())
        assert above == before, {name: (above[name], before[name]) for name in above if above[name] != before[name]}
        assert self.shared.restarts() == 0
        return f"{seconds:.1f} s; {len(here) + len(above)} files as they were"

    def annotate(self, value: str | None) -> Json:
        """Set or (None) take away the pod's annotation."""
        path = objects.pod_path(NAMESPACE, self.shared.pod()["metadata"]["name"])
        return self.node.plane.admin.patch(path, {"metadata": {"annotations": {ANNOTATION: value}}})
