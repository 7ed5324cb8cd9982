"""What the agent does on a real node, seen in the API, in the API server's log and in the kernel's files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster import objects
from tests.cluster.api import Json
from tests.cluster.audit import AuditLog
from tests.e2e.agent_pod import AgentPod, Writes
from tests.e2e.node import Node, NodeError
from tests.e2e.program import wait_without_drift
from tests.e2e.scenario import MIB, PlainScenario
from tests.e2e.steps import Steps
from tests.e2e.workloads import Workload, load, millicores, weight
from tests.image.layers import UID

AGENT_RUNS: Final = f"agent runs from our image: uid {UID}, no capability, read-only root"
LOADS_RUN: Final = "paused: loads start and contend, nothing is written"
ENFORCE: Final = {"plimsoll.dev/mode": "enforce"}
LOADS: Final = ("oversized", "noisy", "starved", "leaky", "bursty", "team")
STARVED_MILLICORES: Final = 250
"""Emulated CPUs share this machine's: what others take shows as the loads' own use, two- or threefold. All must fit."""
GROWN_MILLICORES: Final = 200
"""More than the starved pod has with all that is free beside the idle one."""
NOISY_CPU: Final = "300m"
LEAKY_MIB: Final = 100
QUIET_SECONDS: Final = 20.0
"""How long a silence is listened to: several plans."""
ACT_SECONDS: Final = 240.0


@dataclass(frozen=True, slots=True)
class ActingScenario:
    """The steps on one node. The loads stay from step to step, as they would on a node."""

    node: Node
    tree: Path
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
        steps.run("room is made", self.make_room)
        steps.run(AGENT_RUNS, self.start_agent)
        needing_agent: tuple[tuple[str, Callable[[], object]], ...] = (
            ("agent names the node's pods", self.pods_named),
            ("recommend mode: nothing is written", self.recommend_writes_nothing),
            (LOADS_RUN, self.start_paused),
            ("resumed: shrink is actuated before the grow that waits for it", self.shrink_before_grow),
            ("contended pod: weight and status follow", self.contended_follows),
            ("Deferred (asked by hand) lands once the agent made room", self.deferred_lands),
            ("memory limit is raised before a kill", self.memory_before_kill),
            ("memory limit is raised after a kill without warning", self.memory_after_kill),
            ("a pod's own budget is resized", self.pod_level),
            ("more than allocatable: no request is sent", lambda: self.nothing_refused(writes)),
            ("paused: nothing is written whatever the loads do", self.pause_stops),
            ("agent killed (9) in the middle: nothing is done twice", self.agent_killed),
            ("audit finds no drift after all this", lambda: wait_without_drift(self.node, self.tree)),
            ("restore --all: the original requests are back", self.restored),
            ("no bystander was touched, no pod restarted for a resize", lambda: self.bystanders(writes)),
        )
        for title, step in needing_agent:
            steps.run(title, step, needs=AGENT_RUNS)

    def last_words(self) -> str:
        """Return the end of the agent's log, and what it decided last."""
        lines = self.agent.log().splitlines()
        try:
            lines += [decision_words(decision) for decision in self.agent.ask("events", 20.0, limit=12)["items"]]
        except (NodeError, OSError, ValueError, LookupError) as error:
            lines.append(str(error))
        return "".join(f"      {line}\n" for line in lines)

    def make_room(self) -> str:
        """Remove what the steps before left, but for bystanders that nobody enforces; make those where missing."""
        plain = PlainScenario(self.node, self.tree)
        for workload in (plain.web, plain.filler, plain.shared):
            workload.remove()
        amounts = {"cpu": "100m", "memory": "32Mi"}
        for name, container in (
            ("guaranteed", load(requests=amounts, limits=amounts)),
            ("best-effort", load()),
        ):
            workload = self.workload(name)
            if not workload.pods():
                workload.start(container)
            workload.wait_running()
        return f"{self.free_millicores()}m CPU are free"

    def free_millicores(self) -> int:
        """Return the allocatable CPU that no pod's spec requests."""
        allocatable = millicores(self.node.object()["status"]["allocatable"]["cpu"])
        pods = self.node.plane.admin.items("/api/v1/pods", fieldSelector=f"spec.nodeName={self.node.name}")
        return allocatable - sum(requested_millicores(pod) for pod in pods)

    def start_agent(self) -> str:
        """Start it, and ask the kernel who it is."""
        begun = time.monotonic()
        self.agent.start(self.settings)
        seconds = time.monotonic() - begun
        status = self.agent.status()
        assert set(status["Uid"].split()) == {str(UID)}, status["Uid"]
        assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}, status
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), status
        code, _ = self.node.try_run(f"touch /proc/{self.agent.pid()}/root/written")
        assert code != 0, "its root can be written to"
        return f"serving {seconds:.0f} s after it was created"

    def pods_named(self) -> str:
        """See the name of every pod of the node on the metrics page."""
        pods = self.node.plane.admin.items("/api/v1/pods", fieldSelector=f"spec.nodeName={self.node.name}")
        names = {pod["metadata"]["name"] for pod in pods}
        seconds = self.node.wait(
            lambda: not [name for name in names if f'pod="{name}"' not in self.agent.page()],
            f"all of {sorted(names)} on the metrics page",
        )
        inside = self.agent.ask_inside("pin")
        assert inside, "no answer from inside the pod"
        return f"{len(names)} pods after {seconds:.1f} s"

    def recommend_writes_nothing(self) -> str:
        """Nobody enforces anything yet."""
        return self.listen(QUIET_SECONDS)

    def listen(self, seconds: float) -> str:
        """Let time go by and see that the agent wrote nothing in it (Events too are writes)."""
        log = AuditLog(self.node.plane.audit_log)
        time.sleep(seconds)  # the silence itself is what is looked at
        written = log.writes("system:serviceaccount:plimsoll:plimsoll-agent")
        assert not written, "; ".join(map(str, written))
        return f"0 writes in {seconds:.0f} s"

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Have the agent paused inside the block."""
        self.agent.ask("pause")
        try:
            yield
        finally:
            self.agent.ask("resume")

    def start_paused(self) -> str:
        """Fill the node while the agent may not write: a big idle pod, a loud neighbour, and a pod that starves."""
        self.agent.ask("pause")
        self.workload("oversized").start(load(requests={"cpu": "900m", "memory": "64Mi"}), annotations=ENFORCE)
        self.workload("noisy").start(load(requests={"cpu": NOISY_CPU, "memory": "32Mi"}))
        self.workload("starved").start(load(requests={"cpu": "50m", "memory": "32Mi"}), annotations=ENFORCE)
        self.workload("leaky").start(
            load(requests={"cpu": "20m", "memory": "64Mi"}, limits={"memory": "192Mi"}), annotations=ENFORCE
        )
        self.workload("bursty").start(
            load(requests={"cpu": "20m", "memory": "48Mi"}, limits={"memory": "64Mi"}, mebibytes_per_turn=512),
            annotations=ENFORCE,
        )
        self.workload("team").start(
            load(),
            load("second"),
            annotations=ENFORCE,
            resources={"requests": {"cpu": "60m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        )
        for name in LOADS:
            self.workload(name).wait_running()
        # What an idle container needs is next to nothing, and the agent would lower its limit to that.
        self.workload("leaky").control("memory_mib", LEAKY_MIB)
        self.workload("bursty").control("memory_mib", 40)
        self.workload("noisy").control("cpu_millicores", 1500)
        self.workload("starved").control("cpu_millicores", STARVED_MILLICORES)
        free = self.free_millicores()
        assert 50 + free < GROWN_MILLICORES, f"{free}m are free: the starved pod could grow without waiting"
        return f"{free}m CPU are free; {self.listen(QUIET_SECONDS)}"

    def shrink_before_grow(self) -> str:
        """Resume; the idle pod must give before the starved one takes, and no resize may have had to wait."""
        starved, oversized = self.workload("starved"), self.workload("oversized")
        writes = Writes(AuditLog(self.node.plane.audit_log))
        begun = time.monotonic()
        was_deferred = False
        self.agent.ask("resume")

        def has_grown() -> bool:
            nonlocal was_deferred
            was_deferred = was_deferred or starved.condition(objects.RESIZE_PENDING) is not None
            return starved.cpu_request_millicores() >= GROWN_MILLICORES

        self.node.wait(has_grown, f"the starved pod requests {GROWN_MILLICORES}m or more", ACT_SECONDS)
        seconds = time.monotonic() - begun
        order = [call.name for call in writes.resizes()]
        shrunk, grown = oversized.pod()["metadata"]["name"], starved.pod()["metadata"]["name"]
        assert shrunk in order, order
        assert order.index(shrunk) < len(order) - 1 - order[::-1].index(grown), order
        assert not was_deferred, "the starved pod's resize was sent before there was room"
        assert oversized.cpu_request_millicores() < 900
        words = [name.split("-")[0] for name in order]
        return f"{starved.cpu_request_millicores()}m after {seconds:.1f} s; patches: {' '.join(words)}"

    def contended_follows(self) -> str:
        """The kernel has the weight and the pod's status the request that the agent asked for."""
        starved = self.workload("starved")

        def follows() -> bool:
            request = starved.cpu_request_millicores()
            return starved.read("cpu.weight") == weight(request) and starved.is_settled()

        seconds = self.node.wait(follows, "cpu.weight follows the request, and the status is settled")
        assert starved.restarts() == 0
        return f"{starved.cpu_request_millicores()}m, weight {starved.read('cpu.weight')}, {seconds:.2f} s"

    def deferred_lands(self) -> str:
        """By hand: the idle pod takes all room, the neighbour wants more; the agent shrinks the idle one."""
        noisy, oversized = self.workload("noisy"), self.workload("oversized")
        with self.paused():
            wanted = oversized.cpu_request_millicores() + self.free_millicores()
            oversized.patch(app={"requests": {"cpu": f"{wanted}m"}})
            self.node.wait(oversized.is_settled, "the idle pod has taken all room")
            request = noisy.cpu_request_millicores() + 100
            noisy.patch(app={"requests": {"cpu": f"{request}m"}})
            self.node.wait(lambda: noisy.condition(objects.RESIZE_PENDING), "the neighbour's resize is Deferred")
            begun = time.monotonic()
        self.node.wait(noisy.is_settled, "the neighbour's resize lands", ACT_SECONDS)
        assert noisy.read("cpu.weight") == weight(request)
        return f"{time.monotonic() - begun:.1f} s after the pause's end began"

    def memory_before_kill(self) -> str:
        """A rise of about 2 MiB a second, from what it has held all the time to well above its limit of then."""
        leaky = self.workload("leaky")
        self.workload("noisy").control("cpu_millicores", 0)
        self.node.wait(lambda: int(leaky.read("memory.current")) > LEAKY_MIB * MIB, f"{LEAKY_MIB} MiB are held")
        first_limit = leaky.memory_limit_bytes()
        assert first_limit is not None
        target_mib = first_limit // MIB + 40
        for mebibytes in range(LEAKY_MIB, target_mib, 2):
            leaky.control("memory_mib", mebibytes)
            time.sleep(1.0)  # the pace of the rise
            assert leaky.restarts() == 0, f"killed at {mebibytes} MiB, limit {leaky.memory_limit_bytes()}"
        self.node.wait(lambda: int(leaky.read("memory.current")) > (target_mib - 2) * MIB, f"{target_mib} MiB are held")
        assert leaky.restarts() == 0
        limit = int(leaky.read("memory.max"))
        leaky.control("memory_mib", LEAKY_MIB)
        return f"{target_mib} MiB held; limit {first_limit // MIB} -> {limit // MIB} MiB, no restart"

    def memory_after_kill(self) -> str:
        """From 40 MiB to far above the limit at once: nobody can see that coming; later it must live."""
        bursty = self.workload("bursty")
        first_limit = bursty.memory_limit_bytes()
        assert first_limit is not None
        target = first_limit + 40 * MIB
        begun = time.monotonic()
        bursty.control("memory_mib", target // MIB)
        self.node.wait(lambda: bursty.restarts() > 0 or was_killed(bursty), "it is killed for its memory")
        killed_seconds = time.monotonic() - begun
        self.node.wait(lambda: (bursty.memory_limit_bytes() or 0) > target, "its limit is raised", ACT_SECONDS)
        raised_seconds = time.monotonic() - begun
        self.node.wait(
            lambda: bursty.is_running() and int(bursty.read("memory.current")) >= target,
            f"it lives with {target // MIB} MiB",
            ACT_SECONDS,
        )
        restarts = bursty.restarts()
        limit = bursty.memory_limit_bytes() or 0
        bursty.control("memory_mib", 40)
        return (
            f"{first_limit // MIB} -> {limit // MIB} MiB {raised_seconds - killed_seconds:.1f} s after the kill, "
            f"{restarts} restarts"
        )

    def pod_level(self) -> str:
        """A pod whose two containers share the pod's own request, both busy."""
        team = self.workload("team")
        self.workload("starved").control("cpu_millicores", 0)

        def request() -> int:
            return millicores(team.pod()["spec"]["resources"]["requests"]["cpu"])

        before = request()
        begun = time.monotonic()
        team.control("cpu_millicores", 80)  # both containers see it
        self.node.wait(lambda: request() > before + 50, "the pod's own CPU request grows", ACT_SECONDS)
        seconds = time.monotonic() - begun
        self.node.wait(lambda: team.read("cpu.weight", None) == weight(request()), "the pod's weight follows")
        assert team.restarts() == 0
        text = f"{before}m -> {request()}m after {seconds:.1f} s, weight {team.read('cpu.weight', None)}"
        team.control("cpu_millicores", 0)
        self.workload("starved").control("cpu_millicores", STARVED_MILLICORES)
        return text

    def nothing_refused(self, writes: Writes) -> str:
        """Ask for far more than two CPUs; in all this time the API server refused the agent nothing."""
        starved = self.workload("starved")
        starved.control("cpu_millicores", 6000)
        time.sleep(QUIET_SECONDS)  # several plans over the new demand
        request = starved.cpu_request_millicores()
        allocatable = millicores(self.node.object()["status"]["allocatable"]["cpu"])
        # A conflict (409) is another matter: the pod changed while the patch was on its way.
        refused = [call for call in writes.resizes(accepted=False) if call.code in {403, 422}]
        starved.control("cpu_millicores", STARVED_MILLICORES)
        assert request <= allocatable
        assert not refused, "; ".join(f"{call} {call.body}" for call in refused)
        return f"request {request}m of {allocatable}m; 0 of {len(writes.resizes())} resizes refused"

    def pause_stops(self) -> str:
        """Change all loads while paused."""
        with self.paused():
            self.workload("starved").control("cpu_millicores", 0)
            self.workload("oversized").control("cpu_millicores", STARVED_MILLICORES)
            return self.listen(QUIET_SECONDS)

    def agent_killed(self) -> str:
        """Turn the loads round, kill the agent as soon as it has begun to follow, and compare all its patches."""
        writes = Writes(AuditLog(self.node.plane.audit_log))
        begun = time.monotonic()
        self.node.wait(writes.resizes, "the agent begins to follow the loads", ACT_SECONDS)
        before = len(writes.resizes())
        identity = self.agent.kill()
        oversized = self.workload("oversized")
        request = oversized.cpu_request_millicores()
        back_seconds = self.agent.wait_restarted(identity)
        # How far depends on the room that the pod gives up that was busy until now, within its window of ten minutes.
        self.node.wait(
            lambda: oversized.cpu_request_millicores() > request and oversized.is_settled(),
            "the pod that is busy now has grown further",
            ACT_SECONDS,
        )
        time.sleep(QUIET_SECONDS)  # what would be done twice would be done now
        calls = writes.resizes()
        last: dict[str, Json | None] = {}
        for call in calls:
            assert last.get(call.name) != call.body, f"sent twice in a row: {call} {call.body}"
            last[call.name] = call.body
        return (
            f"{before} patches before, {len(calls) - before} after; back after {back_seconds:.0f} s, "
            f"all {time.monotonic() - begun:.0f} s"
        )

    def restored(self) -> str:
        """Return every pod back what it had."""
        # What was given to the neighbour by hand goes first: with it the original requests do not fit, and would wait.
        noisy = self.workload("noisy")
        noisy.patch(app={"requests": {"cpu": NOISY_CPU}})
        self.node.wait(noisy.is_settled, "the neighbour has what it had")
        answer = self.agent.ask("restore", all=True)
        wanted = {"starved": 50, "oversized": 900}
        self.node.wait(
            lambda: {name: self.workload(name).cpu_request_millicores() for name in wanted} == wanted,
            f"requests are {wanted}",
        )
        # A limit falls in a step of its own, after the requests below it.
        self.node.wait(lambda: self.workload("leaky").memory_limit_bytes() == 192 * MIB, "its limit is 192 MiB again")
        return f"{len(answer['items'])} pods"

    def bystanders(self, writes: Writes) -> str:
        """Look back on the whole run."""
        enforced = [self.workload(name) for name in ("starved", "oversized", "leaky", "bursty", "team")]
        names = {pod["metadata"]["name"] for workload in enforced for pod in workload.pods()}
        strangers = [call for call in writes.all() if call.name not in names]
        assert not strangers, "; ".join(map(str, strangers))
        for name in ("starved", "oversized", "leaky", "team"):
            assert self.workload(name).restarts() == 0, name
        return f"{len(writes.resizes())} resizes in all"


def requested_millicores(pod: Json) -> int:
    """Return a pod's CPU request by its spec; the loads have no init containers."""
    own = pod["spec"].get("resources", {}).get("requests", {}).get("cpu")
    if own is not None:
        return millicores(own)
    containers = pod["spec"]["containers"]
    return sum(
        millicores(container.get("resources", {}).get("requests", {}).get("cpu", "0")) for container in containers
    )


def was_killed(workload: Workload) -> bool:
    """Return whether a container of it ended for want of memory."""
    statuses = workload.pod()["status"]["containerStatuses"]
    ends = [status.get(state, {}).get("terminated", {}) for status in statuses for state in ("state", "lastState")]
    return any(end.get("reason") == "OOMKilled" for end in ends)


def decision_words(decision: Json) -> str:
    """Return an entry of the agent's log of decisions as one line."""
    pod = (decision.get("pod") or {}).get("name", "")
    return f"{decision['action']} {decision['outcome']} {pod}: {decision['reason']} {decision['detail']}"
