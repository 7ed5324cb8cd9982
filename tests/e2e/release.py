"""The chart as an operator installs it, on the real node: what Helm is told, and the two programs that run there."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster import chart, objects
from tests.cluster.api import Json
from tests.cluster.processes import Process
from tests.e2e import forwarding
from tests.e2e.agent_pod import SETTINGS, AgentPod
from tests.e2e.node import METRICS_PORT, Node, NodeError
from tests.e2e.parts import PAUSE_IMAGE
from tests.e2e.program import SECONDS

AGENT, WEBHOOK = "plimsoll-agent", "plimsoll-webhook"
REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll"
FAST: Final = {
    **SETTINGS,
    # Long enough that an agent that begins anew cannot have filled it by its first answer.
    "windows.cpuWindowSeconds": "300",
    "report.intervalSeconds": "60",
    "propose.turns": "2",
    # Shorter than between two reports: whoever is evicted comes back at its peak because that is reported before.
    "propose.standingSeconds": "15",
    "propose.intervalSeconds": "10",
    "propose.againSeconds": "20",
}
"""Minutes become seconds; a report is of a minute at least."""
WEBHOOK_FAST: Final = {
    # Loads are single pods here, and somebody must be evicted.
    "arbiter": {"singleReplicas": True, "replacementSeconds": 10, "refusedBackOffSeconds": 5},
    "rebuilding": {"rebuildSeconds": 60},
    # What gave way is made again soon; the image is there already.
    "placeholders": {"image": PAUSE_IMAGE, "firstBackOffSeconds": 2, "mostBackOffSeconds": 10},
}


@dataclass(slots=True)
class Release:
    """The chart in the cluster."""

    node: Node
    folder: Path
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {
            # The tag is the chart's own appVersion: it is the image's version too.
            "image": {"pullPolicy": "Never"},
            "agent": {
                "hostAliases": [
                    {"ip": forwarding.NODE_ADDRESS, "hostnames": [f"{WEBHOOK}.{chart.NAMESPACE}.svc"]},
                ],
            },
            # No storage class here: SQLite lies in the pod.
            "webhook": {"persistence": {"enabled": False}, "settings": WEBHOOK_FAST},
            "buffers": {"enabled": True, "placeholders": True},
            "evictions": {"enabled": True},
            "settings": nested(FAST),
        }

    @property
    def agent(self) -> AgentPod:
        """The agent on the node."""
        return PodOfRelease(self.node, label="plimsoll.dev/part=agent", daemon_set=AGENT)

    def helm(self, verb: str, *words: str) -> str:
        """Run Helm on the release."""
        place = (f"--namespace={chart.NAMESPACE}", f"--kubeconfig={self.node.plane.kubeconfig}")
        values = () if verb == "uninstall" else (str(chart.CHART), "--values=-")
        return chart.helm(verb, chart.RELEASE, *values, *place, *words, stdin=json.dumps(self.values))

    def webhook_pod(self) -> Json:
        """Return the webhook's pod."""
        pods = self.node.plane.admin.items(objects.pod_path(chart.NAMESPACE), labelSelector="plimsoll.dev/part=webhook")
        return next(pod for pod in pods if "deletionTimestamp" not in pod["metadata"])

    def wait_webhook(self) -> float:
        """Wait until the webhook is Ready and the API server may find it; give the seconds."""

        def is_led() -> bool:
            address = self.webhook_pod()["status"].get("podIP")
            if address:
                forwarding.lead_to(self.node, address)
            return bool(address)

        seconds = self.node.wait(is_led, "the webhook's pod has an address", SECONDS)
        try:
            seconds += self.node.wait(lambda: is_ready(self.webhook_pod()), "the webhook is Ready", SECONDS)
            seconds += self.node.wait(self._is_trusted, "the registration has the webhook's authority", SECONDS)
        except NodeError as error:
            raise NodeError(f"{error}\n{self.words()}") from error
        return seconds

    def _is_trusted(self) -> bool:
        webhook = self.node.plane.admin.get(REGISTRATION)["webhooks"][0]
        return bool(webhook["clientConfig"].get("caBundle"))

    def wait_agent(self, besides: str | None = None) -> float:
        """Wait until an agent is Ready, another one than that uid's; give the seconds."""

        def is_there() -> bool:
            pod = self.agent.pod()
            return pod["metadata"]["uid"] != besides and is_ready(pod)

        try:
            return self.node.wait(is_there, "the agent is Ready", SECONDS)
        except NodeError as error:
            raise NodeError(f"{error}\n{self.words()}") from error

    @contextmanager
    def service(self) -> Iterator[None]:
        """Have the webhook's Service lead to its pod, inside the block."""
        path = f"/api/v1/namespaces/{chart.NAMESPACE}/services/{WEBHOOK}"
        address = self.node.plane.admin.get(path)["spec"]["clusterIP"]
        with forwarding.service(self.node, address, self.folder):
            yield

    @contextmanager
    def port_forward(self, target: str, ports: str) -> Iterator[int]:
        """Have kubectl lead a port of this machine to a pod, inside the block; gives the port."""
        plane = self.node.plane
        where = (f"--kubeconfig={plane.kubeconfig}", f"--namespace={chart.NAMESPACE}")
        log = self.folder / f"port-forward-{target.replace('/', '-')}.log"
        before = len(log.read_text()) if log.exists() else 0  # of a forward to the same target that has ended
        process = Process("kubectl port-forward", [plane.kubectl, *where, "port-forward", target, ports], log)
        local_ports: list[str] = []

        def is_led() -> bool:
            local_ports[:] = re.findall(r"127\.0\.0\.1:(\d+) ->", log.read_text()[before:])
            return bool(local_ports)

        try:
            process.wait_until(is_led, "a port leads there")
            yield int(local_ports[0])
        finally:
            process.stop()

    def words(self) -> str:
        """Return what pods and their logs say last."""
        plane = self.node.plane
        parts = []
        for words in (
            ("get", "pods", "-A", "-o", "wide"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", f"daemonset/{AGENT}", "--tail=20", "--all-containers"),
            ("logs", f"deployment/{WEBHOOK}", "--tail=20"),
        ):
            command = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", "-n", chart.NAMESPACE, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = f"{done.stdout}{done.stderr}".splitlines()[-20:]
            parts += [f"--- {' '.join(words)}", *lines]
        return "\n".join(parts)


class PodOfRelease(AgentPod):
    """The agent's pod with a network of its own, which only the node reaches."""

    def page(self) -> str:
        """Return its metrics page, asked for from the node."""
        address = self.pod()["status"]["podIP"]
        return self.node.run(f"busybox wget -q -O - http://{address}:{METRICS_PORT}/metrics")


def is_ready(pod: Json) -> bool:
    """Return whether a pod is Ready."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions", [])
    )


def nested(settings: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return ``a.b: "5"`` as the chart's values have it, numbers and truths as such."""
    chart_values: dict[str, dict[str, Any]] = {}
    for key, text in settings.items():
        section, _, name = key.partition(".")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        chart_values.setdefault(section, {})[name] = value
    return chart_values
