"""The real agent on one node of the tests' cluster: real API server, real cgroups of this machine, a played kubelet."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from agent.core.orders.annotations import PREFIX
from agent.node.sockets.control import ControlError, request
from tests.cluster import fence, objects
from tests.cluster.api import MERGE, Api, ApiError, Json, kubeconfig
from tests.cluster.audit import AuditLog, Call
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, fresh_name, remove_namespace
from tests.cluster.kubelet_play import KubeletPlay
from tests.kernel.agents import AgentProcess, wait_for
from tests.kernel.cgroups import CgroupTree

PATIENCE_SECONDS: Final = 300.0
"""A bound on hanging, not on speed: two cores may be shared with compilers and with other tests.

The first whole minute, before which nothing falls, takes 65 to 125 s of it."""
ANSWER_SECONDS: Final = 60.0
QUICK: Final[Mapping[str, object]] = {
    "act.mode": "enforce",
    "recommend.policy": "cruise",
    "act.growCoolDownSeconds": 0,
    "act.shrinkCoolDownSeconds": 0,
    "act.resizesPerMinute": 6000,
    "plan.replanSeconds": 0.1,
    "plan.minAgeSeconds": 0,
    "evaluateIntervalSeconds": 0.1,
    "recommend.minSpanSeconds": 1,
    "windows.cpuWindowSeconds": 10,
    "windows.rateWindowSeconds": 1,
    "sampling.intervalSeconds": 0.2,
}
"""An agent that acts within seconds of its start: ``plimsoll`` lowers nothing in the first hour."""
OWNER: Final = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Rollout",
    "name": "web",
    "uid": "r-1",
    "controller": True,
}
"""A controller of a kind that this cluster does not serve: its garbage collector leaves such pods alone."""

_SAID: Final = ("base", "final", "request", "applied", "kept", "withheld")

Answer = TypeVar("Answer")


class ActingNode:
    """One node: its object, its kubelet, its cgroups, its pods, and the agent on it."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str, directory: Path, tree: CgroupTree) -> None:
        self.plane, self.namespace, self.name, self.directory, self.tree = plane, namespace, name, directory, tree
        self.audit = AuditLog(plane.audit_log)
        self.kubelet: KubeletPlay
        self.agent: AgentProcess
        self.agent_module = "agent"
        """What is run to be the agent."""
        self._pods: dict[str, Json] = {}
        """Those with cgroups here, by name."""

    def run_pod(
        self,
        name: str,
        *containers: Json,
        load: str | None = "sleep",
        owner: Json | None = OWNER,
        orders: Mapping[str, str] | None = None,
        namespace: str | None = None,
        **more: Any,
    ) -> Json:
        """Bind a pod to the node, wait until it runs, and give its containers and sidecars cgroups with a load each.

        Args:
            name: Of the pod.
            containers: See ``objects.container``.
            load: As ``CgroupTree.spawn`` takes it; None = empty cgroups.
            owner: Its controller; None = a bare pod.
            orders: Annotations, without Plimsoll's prefix.
            namespace: Another one than the node's.
            more: As of ``objects.pod``.
        """
        annotations = {f"{PREFIX}{key}": value for key, value in (orders or {}).items()} | more.pop("annotations", {})
        pod = objects.pod(name, self.name, *containers, annotations=annotations, **more)
        if owner is not None:
            pod["metadata"]["ownerReferences"] = [{**owner, "name": name} if owner is OWNER else owner]
        self.plane.admin.create(objects.pod_path(namespace or self.namespace), pod)
        return self.inhabit(name, load=load, namespace=namespace)

    def run_wanting(
        self, name: str, *, now: str = "100m", then: str = "300m", load: str | None = "sleep", **orders: str
    ) -> Json:
        """Run a pod that asks for one amount of CPU and is ordered at least another: it wants more without a load."""
        app = objects.container(requests={"cpu": now, "memory": "64Mi"})
        return self.run_pod(name, app, load=load, orders={"min-cpu": then, **orders})

    def inhabit(self, name: str, *, load: str | None = "sleep", namespace: str | None = None) -> Json:
        """Wait until a pod of this node runs, and give its containers and sidecars cgroups with a load each."""
        self.wait(
            lambda: self.pod(name, namespace)["status"].get("phase") == "Running",
            f"pod {name} runs",
        )
        pod = self.pod(name, namespace)
        for container in objects.lasting_containers(pod["spec"]):
            path = self.cgroup_of(pod, container["name"])
            if load is not None:
                self.tree.spawn(path, load)
            else:
                self.tree.make(path)
        self._pods[name] = pod
        return pod

    def starve(self, *names: str) -> None:
        """Give pods something to do, and others beside them, more than there are CPUs, that take the CPU.

        On a machine that others use too a pod may come to a hundredth of a CPU: it should ask for no more than that.
        """
        for _ in range((os.cpu_count() or 1) + 1):
            self.tree.spawn("others", "busy")
        for name in names:
            self.tree.spawn(self.cgroup_of(self._pods[name]), "busy")

    def begin_anew(self) -> None:
        """Have no pod and no write of a test before, for another test with the same agent."""
        if self.tree.absolute("others").exists():
            self.tree.kill("others")
        for pod in self._pods.values():
            metadata = pod["metadata"]
            path = objects.pod_path(metadata["namespace"], metadata["name"])
            with contextlib.suppress(ApiError):  # it is gone already
                self.plane.admin.delete(path, gracePeriodSeconds="0")
            uid = metadata["uid"]
            for directory in self.tree.absolute().rglob(f"pod{uid}"):
                self.tree.remove(str(directory.relative_to(self.tree.absolute())))
        self._pods.clear()
        self.wait(lambda: not self.ask("plan")["pods"], "the agent has forgotten the pods")
        self.settle(2)
        self.audit = AuditLog(self.plane.audit_log)

    @staticmethod
    def cgroup_of(pod: Json, container: str = "app") -> str:
        """Return the path below the tree, as a kubelet of driver cgroupfs would choose it."""
        uid = pod["metadata"].get("annotations", {}).get("kubernetes.io/config.hash", pod["metadata"]["uid"])
        qos = {"BestEffort": "besteffort/", "Burstable": "burstable/"}.get(pod["status"]["qosClass"], "")
        container_id = objects.container_id(pod["metadata"]["uid"], container).removeprefix("containerd://")
        return f"kubepods/{qos}pod{uid}/{container_id}"

    def pod(self, name: str, namespace: str | None = None) -> Json:
        return self.plane.admin.get(objects.pod_path(namespace or self.namespace, name))

    def generation(self, name: str) -> int:
        """Rises by one with each change of the spec, resizes included."""
        return int(self.pod(name)["metadata"]["generation"])

    def order(self, name: str, **orders: str | None) -> None:
        """Write annotations of Plimsoll on a pod, ``min_cpu="200m"``; None takes one away."""
        annotations = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in orders.items()}
        self.plane.admin.patch(
            objects.pod_path(self.namespace, name), {"metadata": {"annotations": annotations}}, MERGE
        )

    def request_of(
        self, name: str, resource: str = "cpu", container: str = "app", kind: str = "requests"
    ) -> str | None:
        """What a pod's spec says now."""
        spec = self.pod(name)["spec"]
        container_spec = next(entry for entry in spec["containers"] if entry["name"] == container)
        amount: str | None = container_spec["resources"].get(kind, {}).get(resource)
        return amount

    def touch(self, *names: str) -> None:
        """Give pods a new version, as whoever labels them does: a patch of the old one cannot come through any more."""
        for name in names:
            body = {"metadata": {"labels": {"tests/touched": secrets.token_hex(4)}}}
            self.plane.admin.patch(objects.pod_path(self.namespace, name), body, MERGE)

    def writes(self) -> list[Call]:
        """Writes of the agent of this node since the node was made; tries that were refused count."""
        mine = (self.name, self.namespace)
        return [
            call
            for call in self.audit.calls()
            if call.is_write
            and call.user.startswith("system:serviceaccount:")
            and (call.node == self.name or call.namespace in mine or call.name in mine)
        ]

    def write_calls(self) -> list[str]:
        """The same as text."""
        return [str(call) for call in self.writes()]

    def resizes(self, name: str | None = None, *, refused: bool = True) -> list[Call]:
        """Resizes that the agent sent, of one pod or of all."""
        return [
            call
            for call in self.writes()
            if call.resource == "pods/resize" and name in (None, call.name) and (refused or call.code < 400)
        ]

    def told(self, name: str) -> list[str]:
        """Reasons of the Kubernetes Events about a pod."""
        events = self.plane.admin.items(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
        return [event["reason"] for event in events if event["regarding"]["name"] == name]

    def start_agent(self, **settings: object) -> AgentProcess:
        """Start the agent with its own account's token, bound to this node; ``act__mode="off"`` sets ``act.mode``."""
        return self.start_agent_as(fence.agent_api(self.plane, self.name), **settings)

    def start_agent_as(self, api: Api, **settings: object) -> AgentProcess:
        """Start the agent as another identity, or by another way to the server; settings come beside ``QUICK``."""
        merged = {**QUICK, **{name.replace("__", "."): value for name, value in settings.items()}}
        file = kubeconfig(api, self.directory / "agent.kubeconfig")
        self.agent = AgentProcess(
            self.directory,
            *("--node", self.name, "--kubeconfig", str(file), "--cgroup-mount", str(self.tree.mount)),
            *(word for key, value in merged.items() for word in ("--set", f"{key}={_text(value)}")),
            cgroup_root=f"/{self.tree.name}",
            module=self.agent_module,
        )
        self.agent.__enter__()
        return self.agent

    def kill_agent(self) -> None:
        """End it without a chance to tidy up; ``agent.start()`` begins it anew with what it kept."""
        self.agent.end(signal.SIGKILL)

    def planned(self, name: str, *, what_if: bool = False) -> Json | None:
        """What the agent plans for a pod now; None = its plan does not know it."""
        return next((pod for pod in self.ask("plan", what_if=what_if)["pods"] if pod["ref"]["name"] == name), None)

    def kept(self, name: str) -> str | None:
        """Why the first container's CPU request is not moved to what was planned; None also while nothing is known."""
        containers = (self.planned(name) or {}).get("containers")
        reason: str | None = containers[0]["cpu"]["kept"] if containers else None
        return reason

    def wait_known(self, *names: str) -> None:
        """Wait until the plan knows what pods need: until something was measured of each."""
        self.wait(lambda: all((self.planned(name) or {}).get("containers") for name in names), f"{names} are sized")

    def wait_wish(self, name: str, cpu_millicores: int) -> None:
        """Wait until the plan wishes a pod so much CPU: until the agent has heard of what was ordered."""

        def wishes() -> bool:
            containers = (self.planned(name) or {}).get("containers")
            return bool(containers and containers[0]["cpu"]["final"] == cpu_millicores)

        self.wait(wishes, f"{name} is to have {cpu_millicores}m")

    def wait_told(self) -> None:
        """Wait until the API server has told an agent that began anew of all it watches: before, it writes nothing."""

        def is_told() -> bool:
            try:
                request(self.agent.socket, "restore", {"all": True, "dry_run": True}, timeout_seconds=ANSWER_SECONDS)
            except ControlError as error:
                if "has not told yet" not in str(error):
                    raise
                return False
            return True

        self.wait(is_told, "the agent is told of its pods")

    def outcomes(self, name: str | None = None, action: str = "resize") -> list[str]:
        """What came of the agent's resizes, oldest first."""
        events = self.events(actions=[action], **({} if name is None else {"pod": name}))
        return [event["outcome"] for event in reversed(events)]

    def metric(self, line: str) -> float | None:
        """One figure of the metrics page, by name and labels as they stand there."""
        page = self.agent.get("/metrics")[1]
        return next((float(row.split()[-1]) for row in page.splitlines() if row.startswith(f"{line} ")), None)

    def ask(self, verb: str, **arguments: object) -> dict[str, Any]:
        """Ask the agent; one that does not answer is made to say what its threads are at."""
        try:
            return dict(request(self.agent.socket, verb, arguments, timeout_seconds=ANSWER_SECONDS))
        except ControlError as error:
            if "no answer" not in str(error):
                raise
            self.agent.end(signal.SIGABRT)
            msg = f"{error}\n{self.agent.stderr.read_text()[-8000:]}"
            raise AssertionError(msg) from None

    def events(self, **arguments: object) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.ask("events", **arguments)["items"]
        return items

    def wait(self, ask: Callable[[], Answer], what: str, seconds: float = PATIENCE_SECONDS) -> Answer:
        try:
            return wait_for(ask, what, seconds=seconds)
        except AssertionError as error:
            msg = f"{error}\n{self.said()}"
            raise AssertionError(msg) from None

    def said(self) -> str:
        """What the agent says of itself, for a test that failed."""
        if not hasattr(self, "agent"):
            return "no agent was started"
        lines = [line for line in self.agent.stderr.read_text().splitlines() if '"settings"' not in line]
        log = "\n".join(line[:1000] for line in lines[-30:])
        try:
            plan, events = self.ask("plan"), self.events()
        except ControlError as error:
            return f"{log}\n{error}"
        pods = [
            {
                "name": pod["ref"]["name"],
                "reserved": pod["reserved"],
                "cpu": [entry["cpu"] and {key: entry["cpu"][key] for key in _SAID} for entry in pod["containers"]],
            }
            for pod in plan["pods"]
        ]
        event_lines = [
            " ".join(str(event[key]) for key in ("action", "outcome", "reason", "detail"))
            + f" {event['pod'] and event['pod']['name']}"
            for event in events
        ]
        ledger = self.agent.state / "ledger"
        if ledger.exists():
            event_lines.append(f"ledger: {ledger.read_text()[:4000]}")
        return "\n".join(
            [
                log,
                *map(json.dumps, pods),
                f"steps: {json.dumps(plan['steps'])[:3000]}",
                f"notes: {plan['notes']}",
                *event_lines,
            ]
        )

    def wait_for_sweeps(self, count: int = 8) -> None:
        """Wait until the containers have been read so often more."""

        def sweeps() -> float:
            return self.metric("plimsoll_sweeps_total") or 0.0

        before = sweeps()
        self.wait(lambda: sweeps() >= before + count, f"{count} more sweeps")

    def settle(self, plans_more: int = 5) -> None:
        """Let time pass for the agent, as its own turns count it: until it has planned again so often.

        That what comes next is nothing is seen only after the agent knows of what was done to it: wait for that first.
        """

        def plans() -> float:
            page = self.agent.get("/metrics")[1]
            return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("plimsoll_plans_total"))

        before = plans()
        self.wait(lambda: plans() >= before + plans_more, f"{plans_more} more plans")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def acting_node(plane: ControlPlane, namespace: str, name: str, directory: Path, **node: Any) -> Iterator[ActingNode]:
    """Make a node whose kubelet is played; the agent is started by ``start_agent`` and ended here in any case."""
    objects.create_node(plane.admin, name, kubelet_version=f"v{plane.version}", **node)
    with CgroupTree() as tree:
        machine = ActingNode(plane, namespace, name, directory, tree)
        with KubeletPlay(plane, name) as machine.kubelet:
            try:
                yield machine
            finally:
                if hasattr(machine, "agent"):
                    machine.agent.__exit__(None, None, None)


@contextlib.contextmanager
def fresh_node(plane: ControlPlane, directory: Path, **node: Any) -> Iterator[ActingNode]:
    """Make such a node under a name that nothing has, with a namespace for its pods; both are removed at the end."""
    namespace, name = fresh_name("test"), fresh_name("node")
    create_namespace(plane, namespace)
    try:
        with acting_node(plane, namespace, name, directory, **node) as machine:
            yield machine
    finally:
        remove_namespace(plane, namespace)
        plane.admin.delete(f"/api/v1/nodes/{name}")
