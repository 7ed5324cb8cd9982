"""One block on the node: agent and pods made anew, the script played, what happens is read, all is removed."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.cluster.workload import Workload as Owner
from agent.core.history.minute.key import history_key
from agent.core.orders.annotations import MODE
from agent.node.history.file import HISTORY_FILE_NAME, HistoryFile
from agent.node.recommender.notes import HISTORY_UNREAD
from tests.cluster import fence
from tests.cluster.api import Json
from tests.cluster.audit import AuditLog
from tests.e2e.agent_pod import NAME as AGENT
from tests.e2e.agent_pod import AgentPod, Writes
from tests.e2e.node import EXCHANGE, Node, NodeError
from tests.e2e.parts import LOAD_IMAGE
from tests.e2e.workloads import NAMESPACE, Workload, bytes_of, load, millicores, pod_spec
from tests.experiment import records as counted
from tests.experiment.records import Snapshot
from tests.experiment.spaces import FILES, control_folder
from tests.image.layers import UID
from tests.prove.arms import AGENT_REQUESTS, SETTINGS, Arm, rate_window_seconds
from tests.prove.records import Block, Requested, Use
from tests.prove.script import (
    REQUEST_CPU_SECONDS,
    ROLES,
    SERVER,
    Kind,
    arrivals,
    changes,
    course_of,
    past,
    wanted_millicores,
)

CLIENT: Final = "client"
PORT: Final = 7100
NODE_CPUS: Final = 2
PAST_MINUTES: Final = 7 * 24 * 60
STATE: Final = "/var/lib/plimsoll-prove"
CONDUCTOR: Final = "/run/conductor.json"
HOUR_SECONDS: Final = 3600
LEAD_SECONDS: Final = 5.0
"""Between writing the script and its beginning."""
POLL_SECONDS: Final = 10.0
START_SECONDS: Final = 600.0
CLIENT_REQUESTS: Final = {"cpu": "60m", "memory": "64Mi"}
LEFT_ALONE: Final = {MODE: "off"}
CONTAINER: Final = "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long a block is."""

    drop_seconds: float
    """At its beginning, in which the rules settle: the slowest has had a round by then."""
    window_seconds: float

    @property
    def seconds(self) -> int:
        """Length of the script."""
        return math.ceil(self.drop_seconds + self.window_seconds)


@dataclass(slots=True, kw_only=True)
class Player:
    """Who plays blocks on one node."""

    node: Node
    payload: Path
    schedule: Schedule
    out: Path
    """For what each agent decided, and said."""
    say: Callable[[str], None]
    agent: AgentPod = field(init=False)

    def __post_init__(self) -> None:
        """The agent keeps its state on the node, where the past is put before it starts."""
        self.agent = AgentPod(self.node, usual={}, state_folder=STATE)

    def play(self, arm: Arm, number: int, seed: int) -> Block:
        """Run one block and return what was measured."""
        begun = time.monotonic()
        self._remember(arm, seed)
        self.agent.start(SETTINGS[arm])
        try:
            self._start_pods()
            self._await_room_in_the_hour()
            # Before the rules have learnt: pods that idle meanwhile would be what their windows hold.
            uptime = self._begin(seed)
            self.say(f"block {number}, {arm}, seed {seed}: begins after {time.monotonic() - begun:.0f} s")
            # Under emulation seven days take a while, and longer while pods take the CPU.
            self.node.wait(self._is_recommending, "the agent recommends for every pod", START_SECONDS)
            learnt = self._uptime() - uptime
            assert learnt < self.schedule.drop_seconds / 2, (
                f"the past was learnt {learnt:.0f} s after the script began: --drop must be more than twice that, not "
                f"{self.schedule.drop_seconds:.0f}"
            )
            requested, before, writes, restarts = self._watch(uptime)
            after = self._snapshot()
            block = replace(self._block(arm, number, seed, requested, before, after, writes), restarts=restarts)
            self._keep(f"{number}-{arm}")
            answers, unanswered = self._answers(seed)
            return replace(block, answers=answers, unanswered=unanswered)
        finally:
            self._remove()

    # -- before --------------------------------------------------------------------------------------------------

    def _remember(self, arm: Arm, seed: int) -> None:
        """Put seven days of such hours, as the arm's agent would have measured them, where it will look for them."""
        seconds = rate_window_seconds(arm)
        file = self.node.exchange / HISTORY_FILE_NAME
        file.unlink(missing_ok=True)
        with HistoryFile.open(file, max_rows=64) as history:
            rows = [history.row_of(history_key(identity, owner)) for identity, owner in map(owned, ROLES)]
            assert rows == [*range(len(ROLES))]
            first = int(time.time()) // 60 - PAST_MINUTES - 1
            for minutes in past(first, PAST_MINUTES, seed, rate_window_seconds=seconds):
                history.append(minutes)
        self.node.run(
            f"rm -rf {STATE} && mkdir -p {STATE} && cp {EXCHANGE / HISTORY_FILE_NAME} {STATE}/ "
            f"&& chown -R {UID}:{UID} {STATE} && chmod 700 {STATE} && chmod 600 {STATE}/*"
        )

    def _start_pods(self) -> None:
        for name, role in ROLES.items():
            container = self._server() if name == SERVER else load(CONTAINER)
            container["resources"] = {"requests": dict(role.requests), "limits": dict(role.limits)}
            volumes = self._volumes() if name == SERVER else {}
            if role.kind is Kind.DAEMON_SET:
                start_daemon_set(self.node, name, role.annotations, pod_spec(container))
            else:
                Workload(self.node, name).start(container, annotations=role.annotations, **volumes)
        asking = self._python("client.py", str(PORT), name=CONTAINER)
        asking["resources"] = {"requests": dict(CLIENT_REQUESTS)}
        Workload(self.node, CLIENT).start(asking, annotations=LEFT_ALONE, **self._volumes())
        for workload in self._workloads().values():
            self.node.wait(lambda app=workload: app.pods() and app.is_running(), f"{workload.name} runs", START_SECONDS)  # type: ignore[misc]

    def _await_room_in_the_hour(self) -> None:
        """Wait until the block fits into one UTC hour: answers change where the next begins, of each arm at another.

        One that is longer than an hour does not wait.
        """
        left, needed = HOUR_SECONDS - time.time() % HOUR_SECONDS, self.schedule.seconds + 2 * LEAD_SECONDS
        if left < needed < HOUR_SECONDS - LEAD_SECONDS:
            self.say(f"waits {left:.0f} s for the next hour, into which the block fits")
            time.sleep(left + LEAD_SECONDS)

    def _is_recommending(self) -> bool:
        """Return whether the past is learnt, and every role's pod has a CPU request that is recommended."""
        answer = self.agent.ask("recommend")
        if HISTORY_UNREAD in answer["notes"]:
            return False
        pods = [item["identity"]["pod"] for item in answer["items"] if item["cpu_millicores"]["request"] is not None]
        return all(any(pod.startswith(f"{role}-") for pod in pods) for role in ROLES)

    def _server(self) -> Json:
        return self._python("server.py", str(PORT), str(REQUEST_CPU_SECONDS), name=CONTAINER)

    def _python(self, file: str, *arguments: str, name: str) -> Json:
        """Return a container with the node's own Python, seen read-only."""
        folders = {"usr": "/usr", "lib": "/lib", "lib64": "/lib64", "payload": str(self.payload)}
        return {
            "name": name,
            "image": LOAD_IMAGE,
            "imagePullPolicy": "Never",
            "command": ["/usr/bin/python3", "-I", "-S", f"{self.payload}/{file}", *arguments],
            "volumeMounts": [
                *({"name": key, "mountPath": path, "readOnly": True} for key, path in folders.items()),
                {"name": "control", "mountPath": "/control"},
            ],
        }

    def _volumes(self) -> dict[str, Any]:
        folders = {"usr": "/usr", "lib": "/usr/lib", "lib64": "/usr/lib64", "payload": str(self.payload)}
        volumes = [{"name": key, "hostPath": {"path": path, "type": "Directory"}} for key, path in folders.items()]
        return {"volumes": [*volumes, {"name": "control", "emptyDir": {}}]}

    def _workloads(self) -> dict[str, Workload]:
        return {name: Workload(self.node, name) for name in (*ROLES, CLIENT)}

    def _begin(self, seed: int) -> float:
        """Leave the script to the conductor; give the uptime at which it begins."""
        seconds = self.schedule.seconds
        lines: list[tuple[float, str, str]] = []
        for name in ROLES:
            if name == SERVER:
                continue
            folder = control_folder(Workload(self.node, name))
            for second, cpu, memory in changes(course_of(name, seed, seconds)):
                lines.append((second, f"{folder}/cpu_millicores", str(cpu)))
                lines.append((second, f"{folder}/memory_mib", str(memory)))
        client = control_folder(Workload(self.node, CLIENT))
        self._put(f"{client}/arrivals", json.dumps(arrivals(seed, seconds)))
        lines.append((0.0, f"{client}/go", ""))
        uptime = float(self.node.read("/proc/uptime").split()[0]) + LEAD_SECONDS
        self._put(CONDUCTOR, json.dumps({"begins": uptime, "lines": sorted(lines)}))
        conductor = f"/usr/bin/python3 {shlex.quote(str(self.payload / 'conductor.py'))} {CONDUCTOR}"
        self.node.run(f"setsid {conductor} >/run/conductor.log 2>&1 </dev/null &")
        return uptime

    def _put(self, path: str, text: str) -> None:
        """Put a file into the guest through the folder that both see: too long for a command line."""
        passed = self.node.exchange / "passed"
        passed.write_text(text)
        self.node.run(f"cp {EXCHANGE}/passed {shlex.quote(path)}")

    # -- while it runs -------------------------------------------------------------------------------------------

    def _watch(self, uptime: float) -> tuple[list[Requested], Snapshot, Writes, int]:
        """Look until the window is over.

        Returns:
            What was requested in it, counters and writes from its begin on, and how many restarts there were.
        """
        requested: list[Requested] = []
        begins = uptime + self.schedule.drop_seconds
        while self._uptime() < begins:
            time.sleep(1.0)  # the guest's clock is what is waited for
        before, writes = self._snapshot(), Writes(AuditLog(self.node.plane.audit_log))
        restarts = self._restarts()
        while (now := self._uptime()) < begins + self.schedule.window_seconds:
            requested.append(self._requested(now - uptime))
            time.sleep(min(POLL_SECONDS, max(0.5, begins + self.schedule.window_seconds - now)))
        return requested, before, writes, self._restarts() - restarts

    def _restarts(self) -> int:
        return sum(Workload(self.node, name).restarts() for name in ROLES)

    def _uptime(self) -> float:
        return float(self.node.read("/proc/uptime").split()[0])

    def _requested(self, second: float) -> Requested:
        amounts = [requests_of(pod) for name in ROLES for pod in Workload(self.node, name).pods()]
        return Requested(
            second=round(second, 1),
            cpu_millicores=sum(cpu for cpu, _ in amounts),
            memory_bytes=sum(memory for _, memory in amounts),
        )

    def _snapshot(self) -> Snapshot:
        places = {"/sys/fs/cgroup": "root", self.node.cgroup_of(self.agent.pod()): AGENT}
        for name, workload in self._workloads().items():
            pod = workload.pod()
            places[self.node.cgroup_of(pod)] = name
            places[self.node.cgroup_of(pod, CONTAINER)] = f"{name}/{CONTAINER}"
        paths = " ".join(f"{directory}/{file}" for directory in places for file in FILES)
        return counted.parse_snapshot(self.node.run(f"grep -H . /proc/uptime {paths} 2>/dev/null; true"), places)

    # -- afterwards ----------------------------------------------------------------------------------------------

    def _keep(self, name: str) -> None:
        """Write down what the agent decided, what it plans now, and what it said."""
        plan = self.agent.ask("plan")
        decisions = {"events": self.agent.ask("events", limit=400)["items"], "plan": plan}
        (self.out / f"decisions-{name}.json").write_text(json.dumps(decisions, indent=1) + "\n")
        (self.out / f"agent-{name}.log").write_text(self.agent.log(self.schedule.seconds + START_SECONDS))

    def _answers(self, seed: int) -> tuple[list[tuple[float, float]], int]:
        """Return what the client told of the requests of the window, and how many of them were never answered."""
        pod = Workload(self.node, CLIENT).pod()
        logs = f"/var/log/pods/{NAMESPACE}_{pod['metadata']['name']}_{pod['metadata']['uid']}/*/*.log"
        statements: list[Json] = []

        def has_ended() -> bool:
            statements[:] = counted.told(self.node.run(f"cat {logs}", timeout_seconds=120))
            return bool(statements) and str(statements[-1]["event"]) == "ended"

        with contextlib.suppress(NodeError):  # those of whom nothing is told are counted
            self.node.wait(has_ended, "the client has its answers", START_SECONDS, poll_seconds=POLL_SECONDS)
        first, last = self.schedule.drop_seconds, self.schedule.seconds
        pairs = [pair for line in statements if line["event"] == "answers" for pair in line["answers"]]
        answers = [(sent, took) for sent, took in pairs if first <= sent < last]
        return answers, sum(first <= moment < last for moment in arrivals(seed, last)) - len(answers)

    def _block(
        self,
        arm: Arm,
        number: int,
        seed: int,
        requested: list[Requested],
        before: Snapshot,
        after: Snapshot,
        writes: Writes,
    ) -> Block:
        """Return all but restarts, and the client's answers, which may take a while."""
        window = after.uptime_seconds - before.uptime_seconds
        grown = Grown(before, after)
        allocatable = self.node.object()["status"]["allocatable"]
        others = [requests_of(pod) for pod in self.node.plane.admin.items("/api/v1/pods") if is_beside(pod)]
        if arm is Arm.PLIMSOLL:
            others.append((millicores(AGENT_REQUESTS["cpu"]), bytes_of(AGENT_REQUESTS["memory"])))
        first, seconds = math.ceil(self.schedule.drop_seconds), math.ceil(self.schedule.window_seconds)
        return Block(
            arm=arm.value,
            number=number,
            seed=seed,
            window_seconds=window,
            node_cpu_ratio=grown.of("root", "usage_usec") / 1e6 / window / NODE_CPUS,
            allocatable_millicores=millicores(allocatable["cpu"]) - sum(cpu for cpu, _ in others),
            allocatable_bytes=bytes_of(allocatable["memory"]) - sum(memory for _, memory in others),
            requested=requested,
            uses={
                name: Use(
                    cpu_millicores=grown.of(name, "usage_usec") / 1e3 / window,
                    wanted_millicores=wanted_millicores(name, seed, first, seconds) if name in ROLES else 0.0,
                    waiting_ratio=grown.of(name, "waiting_usec") / 1e6 / window,
                    oom_kills=grown.of(name, "oom_kills"),
                )
                for name in (*ROLES, CLIENT)
            },
            agent_millicores=grown.of(AGENT, "usage_usec") / 1e3 / window,
            agent_rss_mib=int(self.agent.status()["VmRSS"].split()[0]) / 1024,
            resizes=len(writes.resizes()),
            refused=len(writes.resizes(accepted=False)),
            restarts=0,
            answers=[],
            unanswered=0,
        )

    def _remove(self) -> None:
        """Take pods and agent away, and wait until they are gone."""
        api = self.node.plane.admin
        self.node.try_run("pkill -f conductor.py")
        for name, role in {**ROLES, CLIENT: None}.items():
            kind = "daemonsets" if role is not None and role.kind is Kind.DAEMON_SET else "deployments"
            if api.items(f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}", fieldSelector=f"metadata.name={name}"):
                path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}/{name}"
                api.delete(path, propagationPolicy="Background")
        api.delete(f"/apis/apps/v1/namespaces/{fence.NAMESPACE}/daemonsets/{AGENT}", propagationPolicy="Background")
        for name, workload in self._workloads().items():
            self.node.wait(lambda app=workload: not app.pods(), f"{name} is gone", START_SECONDS)  # type: ignore[misc]
        where = f"/api/v1/namespaces/{fence.NAMESPACE}/pods"
        self.node.wait(lambda: not api.items(where), "the agent is gone", START_SECONDS)


@dataclass(frozen=True, slots=True)
class Grown:
    """Counters by how much they grew; a container that was started anew counts from its own beginning in its pod."""

    before: Snapshot
    after: Snapshot

    def of(self, place: str, name: str) -> int:
        """Return by how much; 0 = it is not counted there."""
        first = self.before.root if place == "root" else self.before.cgroups.get(place)
        last = self.after.root if place == "root" else self.after.cgroups.get(place)
        if first is None or last is None:
            return 0
        old, new = getattr(first, name), getattr(last, name)
        return 0 if old is None or new is None else int(new - old)


def owned(role: str) -> tuple[UnitIdentity, Owner]:
    """Return under which name the history of a role is kept."""
    identity = UnitIdentity(
        cgroup_path=f"/kubepods/{role}",
        kind=UnitKind.CONTAINER,
        pod_uid=role,
        container_id="c",
        namespace=NAMESPACE,
        pod=role,
        container=CONTAINER,
    )
    return identity, Owner(namespace=NAMESPACE, kind=ROLES[role].kind.value, name=role)


def start_daemon_set(node: Node, name: str, annotations: Mapping[str, str], spec: Mapping[str, Any]) -> None:
    """Create a DaemonSet; does not wait."""
    labels = {"app": name}
    metadata = {"labels": labels, "annotations": dict(annotations)}
    template = {"metadata": metadata, "spec": {**spec, "tolerations": [{"operator": "Exists"}]}}
    node.plane.admin.create(
        f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
        {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
    )


def requests_of(pod: Json) -> tuple[int, int]:
    """Return what the containers of a pod request together, millicores and bytes."""
    # What counts to the scheduler: the larger of what is wished and what the kubelet has taken on.
    wished = {container["name"]: container.get("resources", {}) for container in pod["spec"]["containers"]}
    statuses = pod.get("status", {}).get("containerStatuses", [])
    taken = {status["name"]: status.get("resources") or {} for status in statuses}

    def largest(name: str, resource: str, amount: Callable[[str], int]) -> int:
        both = (of_all.get(name, {}).get("requests", {}).get(resource, "0") for of_all in (wished, taken))
        return max(map(amount, both))

    return sum(largest(name, "cpu", millicores) for name in wished), sum(
        largest(name, "memory", bytes_of) for name in wished
    )


def is_beside(pod: Json) -> bool:
    """Return whether a pod is none of the hour's: the client, the node's own. The agent is counted apart."""
    namespace = str(pod["metadata"]["namespace"])
    return namespace not in (NAMESPACE, fence.NAMESPACE) or pod["metadata"]["labels"].get("app") == CLIENT
