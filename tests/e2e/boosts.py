"""CPU of starting pods on a real node: boosted by the webhook when they are made, taken back by the agent in place.

The chart is installed, so both ends are the product's. The cases are those of the Vertical Pod Autoscaler's
enhancement: with and without a probe, lasting beyond Ready or not, each with two containers. Then the start of a server
that needs its CPU is measured with and without a boost, in turns. Nothing else may move: plans size no pod as young as
these.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from agent.core.orders.annotations import STARTUP_BOOST, STARTUP_BOOSTED
from tests.cluster.api import Json
from tests.cluster.audit import AuditLog
from tests.e2e import forwarding
from tests.e2e.acting import ENFORCE, decision_words
from tests.e2e.agent_pod import AgentPod
from tests.e2e.charted import WEBHOOK_USER
from tests.e2e.node import Node
from tests.e2e.release import Release, is_ready
from tests.e2e.steps import Steps
from tests.e2e.workloads import TIMED_POLL_SECONDS, Workload, load, millicores, quota

INSTALLED: Final = "helm install: agent and webhook are Ready"
FACTOR: Final = 3
STEADY: Final = {"cpu": "100m", "memory": "32Mi"}
STEADY_LIMIT: Final = {"cpu": "200m"}
"""A quota makes a start's time a matter of the boost alone, and not of what else the machine does."""
HELPER: Final = {"cpu": "20m", "memory": "16Mi"}
AFTER_READY_SECONDS: Final = 10
LONG: Final = f"factor {FACTOR} for 1h after ready"
GIVE_UP_SECONDS: Final = 20
KILLED_AFTER_READY_SECONDS: Final = 20
TURNS: Final = 3
"""Starts measured of each kind."""
PORTS: Final = itertools.count(18_000)
"""The servers share the node's network."""
BUSY_TURNS: Final = 60_000
"""Of the shell, in one start: some seconds of CPU, under emulation too."""
START_SECONDS: Final = 300.0
SLOW_SECONDS: Final = 2.0
"""Promised; what the agent did while a pod kept its boost for longer is printed."""
TOLD_SECONDS: Final = 10
"""Until what a node has learnt of a start is known centrally."""
SETTINGS: Final[Mapping[str, Any]] = {
    # Nothing but what is looked at: no plan sizes these pods, and no history does.
    "plan": {"minAgeSeconds": 86_400, "replanSeconds": 60},
    "report": {"intervalSeconds": 300},
}


@dataclass(frozen=True, slots=True)
class BoostScenario:
    """The steps on one node."""

    node: Node
    release: Release
    addresses: ExitStack
    """Closed at the end: the Service's address on the host's side."""

    @property
    def agent(self) -> AgentPod:
        """The agent."""
        return self.release.agent

    def run(self, steps: Steps) -> None:
        """Take all steps."""
        steps.whenever_failed = self.last_words
        steps.run(INSTALLED, self.install)
        needing_release: tuple[tuple[str, Callable[[], object]], ...] = (
            ("no probe, until ready", lambda: self.ends("plain", probe=None, after_ready=0)),
            (
                f"no probe, {AFTER_READY_SECONDS} s after ready",
                lambda: self.ends("plain-for", probe=None, after_ready=AFTER_READY_SECONDS),
            ),
            ("readiness probe, until ready", lambda: self.ends("probed", probe="readinessProbe", after_ready=0)),
            (
                f"readiness and startup probe, {AFTER_READY_SECONDS} s after ready",
                lambda: self.ends("probed-for", probe="startupProbe", after_ready=AFTER_READY_SECONDS),
            ),
            ("request: keep: the limit alone rises, and falls", self.limit_alone),
            ("a pod that never gets ready: given up", self.given_up),
            ("agent killed (9) in the midst of a boost: it is taken back all the same", self.agent_killed),
            ("the start of a server, with and without a boost", self.start_measured),
            ("auto: the third pod starts with what the first two used", self.learnt),
            ("events and metrics tell of it, and nobody was evicted", self.told),
        )
        for title, step in needing_release:
            steps.run(title, step, needs=INSTALLED)

    def last_words(self) -> str:
        """Return what pods and logs say."""
        return "".join(f"      {line}\n" for line in self.release.words().splitlines())

    def install(self) -> str:
        """Install the chart."""
        forwarding.prepare(self.node)
        begun = time.monotonic()
        for section, values in SETTINGS.items():
            self.release.values["settings"].setdefault(section, {}).update(values)
        self.release.helm("install", "--create-namespace")
        self.addresses.enter_context(self.release.service())
        self.release.wait_webhook()
        self.release.wait_agent()
        return f"{time.monotonic() - begun:.0f} s"

    def start(self, name: str, order: str | None, *, probe: str | None = None) -> Workload:
        """Start a server that works before it serves, and a helper beside it that idles."""
        workload = Workload(self.node, name)
        boost = {} if order is None else {STARTUP_BOOST: order}
        helper = load("helper", requests=HELPER)
        workload.start(server(probe, next(PORTS)), helper, annotations={**ENFORCE, **boost})
        self.node.wait(workload.pods, f"{name} has a pod")
        return workload

    def ends(self, name: str, *, probe: str | None, after_ready: int) -> str:
        """See both containers boosted when they are made, and back to what they run with when it is time."""
        order = f"factor {FACTOR}" + (f" for {after_ready}s after ready" if after_ready else "")
        workload = self.start(name, order, probe=probe)
        assert_boosted(workload.pod())
        self.wait_quickly(lambda: is_ready(workload.pod()), f"{name} is ready")
        ready = time.monotonic()
        text = self.taken_back(workload, ready + after_ready)
        served = probe is None or self.served_seconds(workload) is not None
        assert served, "it was ready before it served"
        workload.remove()
        return text

    def taken_back(self, workload: Workload, due: float) -> str:
        """Wait for it, and tell how long after it was due the API server, and the kernel, had it."""
        self.wait_quickly(lambda: cpu_of(workload.pod()) == STEADY_CPU, f"the boost of {workload.name} is taken back")
        accepted = time.monotonic() - due
        if accepted > SLOW_SECONDS:
            self.tell_slow(workload, accepted)
        self.wait_quickly(lambda: workload.read("cpu.max") == quota(200), f"{workload.name} in the kernel")
        followed = time.monotonic() - due
        assert workload.restarts() == 0, "a container was started anew for it"
        return f"accepted {accepted:+.2f} s from when it was due, in the kernel {followed:+.2f} s"

    def tell_slow(self, workload: Workload, seconds: float) -> None:
        """Print what the agent decided of a pod, and what it said, while that kept its boost for too long."""
        pod = workload.pod()
        decisions = [decision for decision in self.agent.ask("events", limit=100)["items"] if decision.get("pod")]
        lines = [
            f"{workload.name} had its boost {seconds:.2f} s too long; load {self.node.read('/proc/loadavg')}",
            *(
                f"{decision_words(decision)} ({decision['repeats']} times)"
                for decision in decisions
                if decision["pod"]["uid"] == pod["metadata"]["uid"]
            ),
            *self.agent.log(seconds + SLOW_SECONDS).splitlines(),
        ]
        print("".join(f"      {line}\n" for line in lines), end="", flush=True)

    def limit_alone(self) -> str:
        """The request stays as it is for the scheduler."""
        workload = self.start("limit", f"factor {FACTOR}; request: keep", probe="readinessProbe")
        assert cpu_of(workload.pod()) == (100, 200 * FACTOR, 20), cpu_of(workload.pod())
        self.wait_quickly(lambda: is_ready(workload.pod()), "it is ready")
        text = self.taken_back(workload, time.monotonic())
        workload.remove()
        return text

    def given_up(self) -> str:
        """A probe that never succeeds."""
        workload = Workload(self.node, "never")
        order = {STARTUP_BOOST: f"factor {FACTOR}; give up after {GIVE_UP_SECONDS}s"}
        never = {**server("readinessProbe", next(PORTS)), "args": ["-c", "while true; do :; done"]}
        workload.start(never, load("helper", requests=HELPER), annotations={**ENFORCE, **order})
        self.wait_quickly(lambda: "startTime" in workload.pod()["status"], "the kubelet has begun with it")
        due = time.monotonic() + GIVE_UP_SECONDS
        assert_boosted(workload.pod())
        text = self.taken_back(workload, due)
        assert not is_ready(workload.pod())
        workload.remove()
        return text

    def agent_killed(self) -> str:
        """What is boosted stands in the pods, not in the agent."""
        order = f"factor {FACTOR} for {KILLED_AFTER_READY_SECONDS}s after ready"
        workload = self.start("killed", order, probe="readinessProbe")
        self.wait_quickly(lambda: is_ready(workload.pod()), "it is ready")
        ready = time.monotonic()
        identity = self.agent.kill()
        assert_boosted(workload.pod())
        back = self.agent.wait_restarted(identity)
        text = self.taken_back(workload, max(ready + KILLED_AFTER_READY_SECONDS, time.monotonic()))
        workload.remove()
        return f"agent back after {back:.0f} s; {text}"

    def start_measured(self) -> str:
        """The server writes down itself when it began and when it served, by the node's clock."""
        with_boost: list[float] = []
        without: list[float] = []
        for turn in range(TURNS):
            for times, order in ((without, None), (with_boost, LONG)):
                name = f"start-{'steady' if order is None else 'boosted'}-{turn}"
                workload = self.start(name, order, probe="readinessProbe")
                self.node.wait(lambda: is_ready(workload.pod()), f"{name} is ready", START_SECONDS)  # noqa: B023
                seconds = self.served_seconds(workload)
                assert seconds is not None
                times.append(seconds)
                workload.remove()
        ratio = statistics.median(without) / statistics.median(with_boost)
        shown = [", ".join(f"{start_seconds:.1f}" for start_seconds in times) for times in (without, with_boost)]
        assert ratio > 1.5, shown
        return f"{shown[0]} s without, {shown[1]} s with factor {FACTOR}: {ratio:.2f} times as fast"

    def learnt(self) -> str:
        """Make one pod after the other, until one is boosted by what was learnt of those before."""
        order = f"auto for {AFTER_READY_SECONDS}s after ready"
        pods: list[Json] = []

        def is_boosted() -> bool:
            workload = self.start("auto", order, probe="readinessProbe")
            self.wait_quickly(lambda: is_ready(workload.pod()), "it is ready")
            pods.append(workload.pod())
            time.sleep(AFTER_READY_SECONDS + TOLD_SECONDS)  # until its start is over, and told
            workload.remove()
            return cpu_of(pods[-1])[0] > STEADY_CPU[0]

        self.node.wait(is_boosted, "a pod is boosted by what was learnt", START_SECONDS, poll_seconds=1.0)
        assert len(pods) > 2, "boosted before there was anything to learn by"
        assert cpu_of(pods[0]) == STEADY_CPU, cpu_of(pods[0])
        return f"pod {len(pods)}: {STEADY_CPU[0]}m -> {cpu_of(pods[-1])[0]}m"

    def served_seconds(self, workload: Workload) -> float | None:
        """Return how long its server took from its first to its last line of start; None = it has not served."""
        folder = f"/var/lib/kubelet/pods/{workload.pod()['metadata']['uid']}/volumes/kubernetes.io~empty-dir/control"
        code, text = self.node.try_run(f"cat {folder}/began {folder}/served")
        if code != 0:
            return None
        began, served = (float(line.split()[0]) for line in text.splitlines()[:2])
        return served - began

    def told(self) -> str:
        """Look back."""
        entries = [entry for entry in self.agent.ask("events", limit=200)["items"] if entry["action"] == "unboost"]
        assert any(entry["outcome"] == "applied" for entry in entries), entries
        # A conflict is another matter: the kubelet wrote the pod's status while the patch was on its way.
        assert all(entry["outcome"] in ("accepted", "applied", "conflict") for entry in entries), entries
        lines = self.agent.page().splitlines()
        writes = AuditLog(self.node.plane.audit_log, from_start=True).writes(WEBHOOK_USER)
        evicted = [call for call in writes if "eviction" in call.resource]
        assert not evicted, evicted
        return "; ".join(line for line in lines if line.startswith("plimsoll_startup_boosts_ended_total"))

    def wait_quickly(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, looking often enough to time it."""
        self.node.wait(condition, what, START_SECONDS, poll_seconds=TIMED_POLL_SECONDS)


STEADY_CPU: Final = (100, 200, 20)
"""Request and limit of the server, request of its helper; millicores."""


def cpu_of(pod: Json) -> tuple[int, int, int]:
    """Return what the two containers state."""
    stated = {container["name"]: container["resources"] for container in pod["spec"]["containers"]}
    return (
        millicores(stated["app"]["requests"]["cpu"]),
        millicores(stated["app"]["limits"]["cpu"]),
        millicores(stated["helper"]["requests"]["cpu"]),
    )


def assert_boosted(pod: Json) -> None:
    """Raise AssertionError unless both containers have their boost, and the pod says so."""
    assert cpu_of(pod) == tuple(FACTOR * amount for amount in STEADY_CPU), cpu_of(pod)
    assert STARTUP_BOOSTED in pod["metadata"]["annotations"], pod["metadata"]["annotations"]


def server(probe: str | None, port: int) -> Json:
    """Return a container that is busy, notes when it serves, and then waits for callers, on the node's network."""
    lines = (
        "cat /proc/uptime >/control/began",
        "i=0",
        f"while [ $i -lt {BUSY_TURNS} ]; do i=$((i+1)); done",
        "cat /proc/uptime >/control/served",
        f"exec busybox httpd -f -p {port} -h /control",
    )
    container = load(requests=STEADY, limits=STEADY_LIMIT)
    container |= {"command": ["sh"], "args": ["-c", "\n".join(lines)]}
    # Not by a command: under emulation each takes a second of CPU.
    check = {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 600, "timeoutSeconds": 5}
    if probe is not None:
        container["readinessProbe"] = check
    if probe == "startupProbe":
        container["startupProbe"] = check
    return container
