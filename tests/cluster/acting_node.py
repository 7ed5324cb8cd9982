"""The real agent on one node of the tests' cluster: real API server, real cgroups of this machine, a played kubelet."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from agent.node.control import ControlError, request
from tests.cluster import fence, objects
from tests.cluster.api import Json, kubeconfig
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelet_play import KubeletPlay
from tests.kernel.agents import AgentProcess, wait_for
from tests.kernel.cgroups import CgroupTree

PATIENCE_SECONDS: Final = 30.0
QUICK: Final[Mapping[str, object]] = {
    "act.mode": "enforce",
    "act.growCoolDownSeconds": 0,
    "act.shrinkCoolDownSeconds": 0,
    "plan.replanSeconds": 1,
    "plan.minAgeSeconds": 0,
    "evaluateIntervalSeconds": 1,
    "recommend.minSpanSeconds": 3,
    "windows.cpuWindowSeconds": 10,
    "windows.rateWindowSeconds": 2,
    "sampling.intervalSeconds": 0.5,
}
"""An agent that acts within seconds of its start."""
OWNER: Final = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Rollout",
    "name": "web",
    "uid": "r-1",
    "controller": True,
}
"""A controller of a kind that this cluster does not serve: its garbage collector leaves such pods alone."""

Answer = TypeVar("Answer")


class ActingNode:
    """One node: its object, its kubelet, its cgroups, its pods, and the agent on it."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str, directory: Path, tree: CgroupTree) -> None:
        self.plane, self.namespace, self.name, self.directory, self.tree = plane, namespace, name, directory, tree
        self.audit = AuditLog(plane.audit_log)
        self.kubelet: KubeletPlay
        self.agent: AgentProcess

    def run_pod(self, name: str, *containers: Json, load: str | None = "sleep", **more: Any) -> Json:
        """Bind a pod to the node, wait until it runs, and give its containers cgroups with a load each."""
        pod = objects.pod(name, self.name, *containers, **more)
        pod["metadata"]["ownerReferences"] = [{**OWNER, "name": name}]
        self.plane.admin.create(objects.pod_path(self.namespace), pod)
        self.wait(lambda: self.pod(name)["status"].get("phase") == "Running", f"pod {name} runs")
        made = self.pod(name)
        for container in made["spec"]["containers"]:
            path = self.cgroup_of(made, container["name"])
            if load is not None:
                self.tree.spawn(path, load)
            else:
                self.tree.make(path)
        return made

    @staticmethod
    def cgroup_of(pod: Json, container: str) -> str:
        uid = pod["metadata"]["uid"]
        container_id = objects.container_id(uid, container).removeprefix("containerd://")
        return f"kubepods/burstable/pod{uid}/{container_id}"

    def pod(self, name: str) -> Json:
        return self.plane.admin.get(objects.pod_path(self.namespace, name))

    def request_of(
        self, name: str, resource: str = "cpu", container: str = "app", kind: str = "requests"
    ) -> str | None:
        """What a pod's spec says now."""
        spec = self.pod(name)["spec"]
        found = next(one for one in spec["containers"] if one["name"] == container)
        amount: str | None = found["resources"].get(kind, {}).get(resource)
        return amount

    def write_calls(self) -> list[str]:
        """Writes of the agent's account since the node was made; tries that were refused count."""
        return [
            str(call) for call in self.audit.writes(fence.USER) if self.name in str(call) or self.namespace in str(call)
        ]

    def start_agent(self, **settings: object) -> AgentProcess:
        """Start the agent with its own account's token, bound to this node; ``act__mode="off"`` sets ``act.mode``."""
        merged = {**QUICK, **{name.replace("__", "."): value for name, value in settings.items()}}
        file = kubeconfig(fence.agent_api(self.plane, self.name), self.directory / "agent.kubeconfig")
        self.agent = AgentProcess(
            self.directory,
            *("--node", self.name, "--kubeconfig", str(file), "--cgroup-mount", str(self.tree.mount)),
            *(word for key, value in merged.items() for word in ("--set", f"{key}={_text(value)}")),
            cgroup_root=f"/{self.tree.name}",
        )
        self.agent.__enter__()
        return self.agent

    def ask(self, verb: str, **arguments: object) -> dict[str, Any]:
        return dict(request(self.agent.socket, verb, arguments))

    def events(self, **arguments: object) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.ask("events", **arguments)["items"]
        return items

    def wait(self, ask: Callable[[], Answer], what: str) -> Answer:
        try:
            return wait_for(ask, what, seconds=PATIENCE_SECONDS)
        except AssertionError as error:
            msg = f"{error}\n{self.said()}"
            raise AssertionError(msg) from None

    def said(self) -> str:
        """What the agent says of itself, for a test that failed."""
        if not hasattr(self, "agent"):
            return "no agent was started"
        log = self.agent.stderr.read_text()[-3000:]
        try:
            plan, events = self.ask("plan"), self.events()
        except ControlError as error:
            return f"{log}\n{error}"
        return f"{log}\nplan: {json.dumps(plan)[:6000]}\nevents: {json.dumps(events)[:3000]}"

    def settle(self, seconds: float = 3.0) -> None:
        """Let so much time pass for the agent, as its own turns count it: until it has planned again twice."""

        def plans() -> float:
            page = self.agent.get("/metrics")[1]
            return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("plimsoll_plans_total"))

        before = plans()
        self.wait(lambda: plans() >= before + 2, "two more plans")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def acting_node(plane: ControlPlane, namespace: str, name: str, directory: Path, **node: Any) -> Iterator[ActingNode]:
    """Make a node whose kubelet is played; the agent is started by ``start_agent`` and ended here in any case."""
    objects.create_node(plane.admin, name, kubelet_version=f"v{plane.version}", **node)
    with CgroupTree() as tree:
        made = ActingNode(plane, namespace, name, directory, tree)
        with KubeletPlay(plane, name) as made.kubelet:
            try:
                yield made
            finally:
                if hasattr(made, "agent"):
                    made.agent.__exit__(None, None, None)
