"""The agent as the chart runs it: a DaemonSet's pod of our image, no capability, its own folders writable only."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from tests.cluster import fence, objects
from tests.cluster.api import Json
from tests.cluster.audit import AuditLog, Call
from tests.e2e.node import GUEST_ADDRESS, HOST_ADDRESS, METRICS_PORT, Node, NodeError, container_id
from tests.e2e.program import SECONDS
from tests.image.layers import UID

NAME: Final = "agent"
SOCKET: Final = "/run/plimsoll/agent.sock"
STATE: Final = "/var/lib/plimsoll"
SETTINGS: Final = {
    # Minutes become seconds; what is decided, and by which rules, stays.
    # ``plimsoll`` looks at hours; of ``cruise`` they can be made a minute.
    "recommend.policy": "cruise",
    "plan.replanSeconds": "5",
    "plan.minAgeSeconds": "0",
    "recommend.minSpanSeconds": "10",
    "windows.cpuWindowSeconds": "20",
    "windows.rateWindowSeconds": "5",
    "windows.memoryWindowSeconds": "60",
    "windows.maxStepSeconds": "20",
    "windows.maxGapRatio": "0.5",
    "cruise.lastSeconds": "60",
    "act.growCoolDownSeconds": "5",
    "act.shrinkCoolDownSeconds": "15",
    "sampling.slowIntervalSeconds": "2",
    "metrics.perContainer": "true",
    "logging.format": "text",
}
"""Under emulation a sweep may be late by seconds, hence the generous gaps."""
SERVICE_ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


class AgentEndedError(Exception):
    """The agent ended by itself; the message ends in its log. Not waited on any further."""


@dataclass(frozen=True, slots=True)
class AgentPod:
    """The agent on one node, seen from outside."""

    node: Node
    label: str = f"app={NAME}"
    """Of its pods."""
    daemon_set: str = NAME
    writes_cgroups: bool = False
    """With a writable cgroup tree, as uid 0 with no capability: what the chart opens for podLimits.writeCgroups."""
    usual: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    """Settings where ``start`` is told of none."""
    state_folder: str | None = None
    """On the node, the agent's own; None = a folder that ends with the pod."""
    url: str = f"http://{GUEST_ADDRESS}:{METRICS_PORT}/metrics"
    """Through the port that qemu forwards."""

    def start(self, settings: Mapping[str, str]) -> None:
        """Create the DaemonSet and wait until the agent serves its page."""
        api = self.node.plane.admin
        api.create(
            f"/apis/apps/v1/namespaces/{fence.NAMESPACE}/daemonsets",
            {
                "metadata": {"name": NAME},
                "spec": {
                    "selector": {"matchLabels": {"app": NAME}},
                    "template": {
                        "metadata": {"labels": {"app": NAME}},
                        "spec": agent_spec(
                            self.node, {**self.usual, **settings}, self.writes_cgroups, self.state_folder
                        ),
                    },
                },
            },
        )
        self.wait_serving()

    def wait_serving(self, killed: str | None = None) -> float:
        """Wait until the agent serves its page; give the seconds.

        Args:
            killed: Id of the container that we ended ourselves.

        Raises:
            AgentEndedError: It ended by itself.
        """

        def serves() -> bool:
            ended = self.pod()["status"]["containerStatuses"][0]["lastState"].get("terminated")
            if ended is not None and ended.get("containerID", "").rpartition("/")[2] != killed:
                raise AgentEndedError(f"e2e: the agent ended with {ended.get('exitCode')}\n{self.log()}")
            return bool(self.page())

        try:
            return self.node.wait(serves, "the agent serves its metrics", SECONDS)
        except NodeError as error:
            raise NodeError(f"{error}\n{self.log()}") from error

    def pod(self) -> Json:
        """Return its pod."""
        where = {"labelSelector": self.label, "fieldSelector": f"spec.nodeName={self.node.name}"}
        pods = self.node.plane.admin.items(objects.pod_path(fence.NAMESPACE), **where)
        return next((pod for pod in pods if "deletionTimestamp" not in pod["metadata"]), pods[0])

    def page(self) -> str:
        """Return its metrics page."""
        with urlopen(self.url, timeout=10) as answer:  # noqa: S310 - our own
            text: str = answer.read().decode()
        return text

    def pid(self) -> int:
        """Return the process id of the agent, in the guest's own counting."""
        return min(map(int, self.node.read(f"{self.node.cgroup_of(self.pod(), NAME)}/cgroup.procs").split()))

    def status(self) -> dict[str, str]:
        """Return /proc/PID/status of the agent."""
        lines = self.node.read(f"/proc/{self.pid()}/status").splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def kill(self) -> str:
        """Kill it (9), and give the id of the container that is gone."""
        identity = container_id(self.pod(), NAME)
        self.node.run(f"kill -9 {self.pid()}")
        return identity

    def wait_restarted(self, identity: str) -> float:
        """Wait until another container than that one serves; give the seconds."""

        def is_another() -> bool:
            pod = self.pod()
            return "running" in pod["status"]["containerStatuses"][0]["state"] and container_id(pod, NAME) != identity

        return self.node.wait(is_another, "the agent is started again", SECONDS) + self.wait_serving(identity)

    def ask(self, verb: str, seconds: float = SECONDS, **arguments: object) -> Json:
        """Put a question or an order to the agent's socket as root on the node, as ``plimsoll VERB`` does.

        Args:
            verb: ``pause``, ``resume``, ``restore``, ``events`` ...
            seconds: To wait for the answer.
            arguments: Of the verb.

        Raises:
            NodeError: There is no answer, or none that is good.
        """
        line = json.dumps({"verb": verb, "arguments": arguments})
        words = shlex.join([str(self.node.parts.ask), f"/proc/{self.pid()}/root{SOCKET}", line])
        answer = json.loads(self.node.run(words, timeout_seconds=seconds))
        if not answer["ok"]:
            raise NodeError(f"e2e: the agent answers to {verb}: {answer['error']}")
        result: Json = answer["result"]
        return result

    def ask_inside(self, *arguments: str) -> str:
        """Run a verb beside the agent in its pod (kubectl exec: the API server's way to the kubelet).

        Raises:
            NodeError: It ended with a code other than 0.
        """
        words = ["plimsoll", *arguments, "--socket", SOCKET]
        return self.kubectl("exec", self.pod()["metadata"]["name"], "--", *words)

    def log(self, seconds: float | None = None) -> str:
        """Return its log of the last so many seconds, or (None) the log's end; empty when there is none."""
        part = "--tail=15" if seconds is None else f"--since={math.ceil(seconds)}s"
        try:
            return self.kubectl("logs", f"daemonset/{self.daemon_set}", part)
        except NodeError as error:
            return str(error)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the agent's namespace."""
        plane = self.node.plane
        command = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", "-n", fence.NAMESPACE, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        if done.returncode != 0:
            words = f"{done.stdout}\n{done.stderr}".strip()
            raise NodeError(f"e2e: kubectl {' '.join(arguments)} ended with {done.returncode}\n{words[-1500:]}")
        return done.stdout

    def metric(self, name: str, labels: str = "") -> float | None:
        """Return a series' value; the labels as the page writes them, a part is enough. None = there is none."""
        for line in self.page().splitlines():
            match = re.fullmatch(r"([a-z0-9_]+)(?:\{(.*)\})? (\S+)(?: \S+)?", line)
            if match and match[1] == name and labels in (match[2] or ""):
                return float(match[3])
        return None


@dataclass(frozen=True, slots=True)
class Writes:
    """What the agent wrote, by the API server's own log, from a moment on."""

    log: AuditLog

    def all(self) -> list[Call]:
        """Return every write but Events, which tell of decisions and change no pod."""
        return [call for call in self.log.writes(fence.USER) if call.resource != "events"]

    def resizes(self, pod: Json | None = None, *, accepted: bool = True) -> list[Call]:
        """Return the resizes, of one pod or of all, in order."""
        name = None if pod is None else pod["metadata"]["name"]
        return [
            call
            for call in self.all()
            if call.resource == "pods/resize"
            and name in {None, call.name}
            and (call.code < 400 if accepted else call.code >= 400)
        ]


def agent_spec(node: Node, settings: Mapping[str, str], writes_cgroups: bool, state_folder: str | None) -> Json:
    """Return the pod's spec."""
    uid = 0 if writes_cgroups else UID
    port = node.plane.url.rpartition(":")[2]
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    volume = {"emptyDir": {}} if state_folder is None else {"hostPath": {"path": state_folder, "type": "Directory"}}
    arguments: Sequence[str] = (
        *("agent", "--node", "$(NODE_NAME)", "--cgroup-mount", "/host/sys/fs/cgroup"),
        *("--state-dir", STATE, "--socket", SOCKET, "--address", GUEST_ADDRESS, "--port", str(METRICS_PORT)),
        *given,
    )
    return {
        "hostNetwork": True,
        "serviceAccountName": fence.ACCOUNT,
        "terminationGracePeriodSeconds": 10,
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": NAME,
                "image": node.parts.own_image,
                "imagePullPolicy": "Never",
                "args": [*arguments],
                "env": [
                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    # Without kube-proxy nobody translates the service's address.
                    {"name": "KUBERNETES_SERVICE_HOST", "value": HOST_ADDRESS},
                    {"name": "KUBERNETES_SERVICE_PORT", "value": port},
                    {"name": "KUBERNETES_SERVICE_PORT_HTTPS", "value": port},
                ],
                "resources": {"requests": {"cpu": "300m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
                "securityContext": {
                    "runAsUser": uid,
                    "runAsGroup": uid,
                    "runAsNonRoot": not writes_cgroups,
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "volumeMounts": [
                    {"name": "cgroup", "mountPath": "/host/sys/fs/cgroup", "readOnly": not writes_cgroups},
                    {"name": "identity", "mountPath": SERVICE_ACCOUNT_FOLDER, "readOnly": True},
                    {"name": "state", "mountPath": STATE},
                    {"name": "socket", "mountPath": str(Path(SOCKET).parent)},
                    {"name": "tmp", "mountPath": "/tmp"},
                ],
            }
        ],
        "volumes": [
            {"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup", "type": "Directory"}},
            {"name": "identity", "projected": {"sources": identity_sources()}},
            {"name": "state", **volume},
            {"name": "socket", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }


def identity_sources() -> list[Json]:
    """Return what the projected volume is made of: an hour's token, bound to pod and node, and whom to trust."""
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
