"""The whole product as an operator has it: the chart installed by Helm, both programs as pods of our image.

The agent runs as the chart's DaemonSet on the real kubelet, the webhook as its Deployment, reached by the API server
over its own certificates; what is sized, evicted, upgraded and uninstalled here is what a cluster would see.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.request import urlopen

from agent.core.cluster.pod import ENDED_PHASES
from agent.core.orders.annotations import ADMISSION, ORIGINAL_RESOURCES
from tests.cluster import chart, fence, objects
from tests.cluster.api import ApiError, Json
from tests.cluster.audit import AuditLog
from tests.e2e import forwarding
from tests.e2e.acting import ACT_SECONDS, ENFORCE
from tests.e2e.agent_pod import AgentPod, Writes
from tests.e2e.node import METRICS_PORT, Node
from tests.e2e.parts import LOAD_IMAGE
from tests.e2e.program import SECONDS
from tests.e2e.release import AGENT, REGISTRATION, WEBHOOK, Release, is_ready
from tests.e2e.scenario import MIB
from tests.e2e.spare_room import SpareRoom
from tests.e2e.steps import Steps
from tests.e2e.workloads import NAMESPACE, Workload, bytes_of, load, millicores
from tests.image.layers import UID

INSTALLED: Final = "helm install: agent and webhook are Ready"
LOADS_RUN: Final = "loads run"
REPORTED: Final = "the weekly report's CronJob: its pod writes the page, and who sends it has it whole"
SMALL: Final = {"cpu": "20m", "memory": "64Mi"}
"""What two loads request as written."""
HELD_MIB: Final = 300
"""Of memory, by each of two pods that do not both fit with it."""
ROOM_MIB: Final = 450
"""For those two together, beside the filler."""
FRESH_CPU: Final = 500
REPORT_SECONDS: Final = 300.0
"""Until what was measured is known centrally: a report is of a minute, and begins at the node's own moment."""
NO_EVICTION: Final = {"plimsoll.dev/eviction-ranking": "no-eviction"}
WEBHOOK_USER: Final = f"system:serviceaccount:{chart.NAMESPACE}:{WEBHOOK}"
LOADS: Final = ("fresh", "stays", "goes")


@dataclass(frozen=True, slots=True)
class ChartScenario:
    """The steps on one node."""

    node: Node
    release: Release
    addresses: ExitStack
    """Closed at the end: the Service's address on the host's side."""

    @property
    def agent(self) -> AgentPod:
        """The agent."""
        return self.release.agent

    def workload(self, name: str) -> Workload:
        """Return one of the loads."""
        return Workload(self.node, name)

    def run(self, steps: Steps) -> None:
        """Take all steps."""
        steps.whenever_failed = lambda: "".join(f"      {line}\n" for line in self.last_words())
        steps.run(INSTALLED, self.install)
        needing_release: tuple[tuple[str, Callable[[], object]], ...] = (
            ("both run as the chart says: own user, no capability, read-only root", self.confined),
            ("the node's own command line works in the agent's pod", self.looked_at_inside),
            (LOADS_RUN, self.start_loads),
            ("a pod's node is named by its token, and another node's is refused", self.fenced),
            ("a new pod is sized at admission from reported history", self.sized_at_admission),
            (REPORTED, self.reported),
            (
                "kubectl port-forward: workloads and metrics from outside",
                self.asked_from_outside,
            ),
            (
                "kubectl plimsoll: the agent of a node and of a pod by exec, the webhook by a forward of its own",
                self.asked_by_kubectl,
            ),
            ("a pause of the cluster is brought to the agent by its kubelet, and taken away", self.paused),
            ("a pod that does not fit is evicted by the arbiter", self.evicted),
            ("it comes back at its peak", self.back_at_peak),
            (
                "a CapacityBuffer's placeholders run, give way to a pod, and come back",
                lambda: SpareRoom(self.node, self.release).kept(self.free_mib()),
            ),
            ("helm upgrade: a new agent knows what the old one measured", self.upgraded),
            ("helm uninstall: original requests are back, nothing is left, pods go on running", self.uninstalled),
        )
        for title, step in needing_release:
            steps.run(title, step, needs=INSTALLED)

    def last_words(self) -> list[str]:
        """Return what pods and logs say, and what the agent decided last."""
        lines = self.release.words().splitlines()
        try:
            decisions = self.agent.ask("events", 20.0, limit=12)["items"]
            lines += [
                f"{decision['action']} {decision['outcome']}: {decision['reason']} {decision['detail']}"
                for decision in decisions
            ]
        except Exception as error:  # noqa: BLE001 - words about a failure
            lines.append(str(error))
        return lines

    def install(self) -> str:
        """Install it as the README says, with the settings of ``release``."""
        forwarding.prepare(self.node)
        # No cluster DNS runs here. The sender is whatever image its operator has; here it says what it was given.
        webhook = self.release.values["webhook"]
        webhook["hostAliases"] = self.release.values["agent"]["hostAliases"]
        sender = {"command": ["/bin/busybox", "cat", "/report/week.html"]}
        send = {"image": LOAD_IMAGE, "imagePullPolicy": "Never", **sender}
        webhook["report"] = {"enabled": True, "output": "html", "send": send}
        begun = time.monotonic()
        self.release.helm("install", "--create-namespace")
        self.addresses.enter_context(self.release.service())
        self.release.wait_webhook()
        self.release.wait_agent()
        return f"{time.monotonic() - begun:.0f} s"

    def confined(self) -> str:
        """Ask the kernel who they are."""
        figures = []
        for name, pod in (("agent", self.agent.pod()), ("webhook", self.release.webhook_pod())):
            pids = self.node.read(f"{self.node.cgroup_of(pod, name)}/cgroup.procs").split()
            pid = min(map(int, pids))
            lines = self.node.read(f"/proc/{pid}/status").splitlines()
            status = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
            assert set(status["Uid"].split()) == {str(UID)}, (name, status["Uid"])
            sets = {int(status[field], 16) for field in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}
            assert sets == {0}, (name, status)
            assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), (name, status)
            code, _ = self.node.try_run(f"touch /proc/{pid}/root/written")
            assert code != 0, f"the root of the {name} can be written to"
            spec = pod["spec"]
            assert not any(spec.get(field) for field in ("hostNetwork", "hostPID", "hostIPC")), name
            current = self.node.read(f"{self.node.cgroup_of(pod, name)}/memory.current")
            figures.append(
                f"{name} {int(current) // MIB} MiB, {pod['status']['containerStatuses'][0]['restartCount']} restarts"
            )
        return "; ".join(figures)

    def looked_at_inside(self) -> str:
        """``kubectl exec ds/plimsoll-agent -- plimsoll ...``, without a path to anything."""
        said = self.agent.kubectl("exec", f"daemonset/{AGENT}", "-c", "agent", "--", "plimsoll", "pin")
        assert said, "no answer"
        return " ".join(said.split())[:60]

    def start_loads(self) -> str:
        """Fill the node's memory, by requests alone, but for what two pods need before they grow."""
        self.workload("fresh").start(load(requests={"cpu": f"{FRESH_CPU}m", "memory": "256Mi"}), annotations=ENFORCE)
        self.workload("stays").start(load(requests=SMALL), annotations={**ENFORCE, **NO_EVICTION})
        self.workload("goes").start(load(requests=SMALL), annotations=ENFORCE)
        for name in LOADS:
            self.workload(name).wait_running()
        return f"{len(LOADS)} pods"

    def fenced(self) -> str:
        """A token of the agent's account that names another node may not resize a pod here; this node's may."""
        # Of another system, so that no agent is sent there.
        objects.create_node(self.node.plane.admin, "elsewhere", labels={"kubernetes.io/os": "none"})
        try:
            pod = self.workload("fresh").pod()["metadata"]["name"]
            body = objects.resize_body(app={"requests": {"cpu": "510m"}})
            answers = {}
            for node in ("elsewhere", self.node.name):
                api = fence.agent_api(self.node.plane, node)
                try:
                    objects.resize(api, NAMESPACE, pod, body, dryRun="All")
                    answers[node] = 200
                except ApiError as error:
                    answers[node] = error.status
        finally:
            self.node.plane.admin.delete("/api/v1/nodes/elsewhere")
        assert answers == {"elsewhere": 403, self.node.name: 200}, answers
        return "403, and 200 (dry run)"

    def sized_at_admission(self) -> str:
        """Have a second pod made until the webhook knows what the first one needs."""
        fresh = self.workload("fresh")
        begun = time.monotonic()
        tried: list[Json] = []

        def is_sized() -> bool:
            self.scale("fresh", 1)
            self.node.wait(lambda: len(fresh.pods()) == 1, "one pod is left")
            known = {pod["metadata"]["uid"] for pod in fresh.pods()}
            self.scale("fresh", 2)
            self.node.wait(lambda: len(fresh.pods()) == 2, "a second pod is made")
            new_pod = next(pod for pod in fresh.pods() if pod["metadata"]["uid"] not in known)
            tried.append(new_pod)
            # The first report may know its memory alone: a rate takes longer.
            request = new_pod["spec"]["containers"][0]["resources"]["requests"]
            return ADMISSION in new_pod["metadata"].get("annotations", {}) and millicores(request["cpu"]) < FRESH_CPU

        self.node.wait(is_sized, "a new pod is sized", REPORT_SECONDS, poll_seconds=10.0)
        pod = tried[-1]
        original = json.loads(pod["metadata"]["annotations"][ORIGINAL_RESOURCES])
        request = pod["spec"]["containers"][0]["resources"]["requests"]
        assert f"{FRESH_CPU}m" in json.dumps(original), original
        self.scale("fresh", 0)
        seconds, memory = time.monotonic() - begun, bytes_of(request["memory"]) // MIB
        return f"{FRESH_CPU}m -> {request['cpu']}, 256 -> {memory} MiB; {seconds:.0f} s, pod {len(tried)}"

    def asked_from_outside(self) -> str:
        """What README and runbook tell an operator to type on a machine of his own."""
        kubeconfig = f"--kubeconfig={self.node.plane.kubeconfig}"
        with self.release.port_forward(f"service/{WEBHOOK}", "8443:443"):
            command = [sys.executable, "-m", "agent", "workloads", kubeconfig, "-o", "json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            assert done.returncode == 0, done.stderr
            names = {workload["name"] for workload in json.loads(done.stdout)}
            assert {"fresh", "stays"} <= names, names
        with (
            self.release.port_forward(f"daemonset/{AGENT}", f":{METRICS_PORT}") as port,
            urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer,
        ):
            page = answer.read().decode()
        lines = sum(not line.startswith("#") for line in page.splitlines())
        assert "plimsoll_build_info" in page, page[:300]
        return f"{len(names)} workloads, {lines} series"

    def asked_by_kubectl(self) -> str:
        """Each verb once through the real kubelet: output, exit codes and what a pause does come back as they are."""
        pod, node = self.workload("stays").pod()["metadata"]["name"], self.node.name
        named = f"{NAMESPACE}/{pod}"

        def said(*words: str, code: int = 0) -> str:
            script = "from agent.cli.kubectl import main; raise SystemExit(main())"
            command = [sys.executable, "-c", script, *words, f"--kubeconfig={self.node.plane.kubeconfig}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            assert done.returncode == code, (words, done.returncode, done.stdout[-300:], done.stderr[-300:])
            return done.stdout if code == 0 else done.stderr

        rows = json.loads(said("top", node, "--once", "-o", "json"))
        assert pod in json.dumps(rows), "the node's table lacks a pod"
        only = said("top", f"pod/{named}", "--once", "-o", "json")
        assert pod in only
        assert self.workload("goes").pod()["metadata"]["name"] not in only
        assert pod in said("why", named)
        assert json.loads(said("plan", node, "-o", "json"))["node"] == node
        said("events", named)
        said("pause", node, "--for", "5m")
        try:
            held = self.agent.ask("holds")["pause"]
            assert held is not None, "the pause was not heard"
        finally:
            said("resume", node)
        assert self.agent.ask("holds")["pause"] is None
        assert "no-such-pod" in said("why", f"{NAMESPACE}/no-such-pod", code=2)
        listed = {workload["name"] for workload in json.loads(said("workloads", "-o", "json"))}
        assert "stays" in listed, listed
        return f"8 verbs; {len(listed)} workloads"

    def scale(self, name: str, replicas: int) -> None:
        """Have so many pods of a load."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        self.node.plane.admin.patch(path, {"spec": {"replicas": replicas}})

    def paused(self) -> str:
        """Pause the cluster as the notes say, and end it: a watch hears of both before the kubelet brings them."""
        admin, file = self.node.plane.admin, f"/proc/{self.agent.pid()}/root/etc/plimsoll-cluster/pause"
        rules = f"/api/v1/namespaces/{chart.NAMESPACE}/configmaps/plimsoll"
        admin.patch(rules, {"data": {"pause": "drill"}})
        heard = self.node.wait(lambda: self.agent.ask("holds")["pause"] is not None, "it is heard", SECONDS)
        brought = self.node.wait(lambda: self.node.try_run(f"cat {file}") == (0, "drill"), "it is brought", SECONDS)
        pause = self.agent.ask("holds")["pause"]
        assert pause is not None
        assert pause["reason"].endswith("drill"), pause
        admin.patch(rules, {"data": {"pause": None}})
        gone = self.node.wait(lambda: self.agent.ask("holds")["pause"] is None, "it is over", SECONDS)
        return f"heard after {heard:.1f} s, mounted {brought:.0f} s later, over after {gone:.1f} s"

    def evicted(self) -> str:
        """Two pods hold more than fits beside the filler; one may be evicted, and by the webhook alone."""
        self.node.wait(lambda: not self.workload("fresh").pods(), "the first load is gone")
        filler = self.free_mib() + self.requested_mib("stays", "goes") - ROOM_MIB
        self.workload("filler").start(load(requests={"cpu": "10m", "memory": f"{filler}Mi"}))
        self.workload("filler").wait_running()
        goes = self.workload("goes")
        uid = goes.pod()["metadata"]["uid"]
        begun = time.monotonic()
        # One after the other: a pod that has all it needs is not evicted for another's sake.
        stays = self.workload("stays")
        stays.control("memory_mib", HELD_MIB)
        self.node.wait(
            lambda: bytes_of(stays.resources()["requests"]["memory"]) >= HELD_MIB * MIB, "the first grows", ACT_SECONDS
        )
        grown_seconds = time.monotonic() - begun
        begun = time.monotonic()
        goes.control("memory_mib", HELD_MIB)
        self.node.wait(
            lambda: all(pod["metadata"]["uid"] != uid for pod in goes.pods()), "the pod is evicted", REPORT_SECONDS * 2
        )
        log = AuditLog(self.node.plane.audit_log, from_start=True)
        assert any("eviction" in call.resource for call in log.writes(WEBHOOK_USER)), "it was not the webhook's"
        by_agent = [call for call in Writes(log).all() if "eviction" in call.resource]
        assert not by_agent, by_agent
        seconds = time.monotonic() - begun
        return f"{seconds:.0f} s after its memory rose; the other grew in place in {grown_seconds:.0f} s"

    def back_at_peak(self) -> str:
        """It waits for room with the request of its peak; with the filler gone it runs."""
        goes = self.workload("goes")
        self.node.wait(goes.pods, "another pod is made")
        request = bytes_of(goes.resources()["requests"]["memory"])
        assert request >= HELD_MIB * MIB, request
        assert ADMISSION in goes.pod()["metadata"]["annotations"]
        self.workload("filler").remove()
        seconds = self.node.wait(goes.is_running, "it runs", SECONDS)
        goes.control("memory_mib", HELD_MIB)
        assert self.workload("stays").restarts() == 0
        return f"requests {request // MIB} MiB; runs {seconds:.0f} s after there is room"

    def week(self, container: str) -> tuple[str, str]:
        """Run the report's CronJob by hand, as the guide says; return what a container of it said, and how long."""
        name, begun = f"week-of-{container}", time.monotonic()
        self.agent.kubectl("create", "job", name, "--from=cronjob/plimsoll-report")
        path = f"/apis/batch/v1/namespaces/{chart.NAMESPACE}/jobs/{name}"

        def is_over() -> bool:
            status = self.node.plane.admin.get(path).get("status", {})
            assert not status.get("failed"), self.agent.kubectl("logs", f"job/{name}", "--all-containers")
            return bool(status.get("succeeded"))

        self.node.wait(is_over, "the report is made", SECONDS)
        said = self.agent.kubectl("logs", f"job/{name}", "-c", container)
        return said, f"{len(said)} characters, {time.monotonic() - begun:.0f} s"

    def reported(self) -> str:
        """Who sends it finds the whole page, with what was done here."""
        page, words = self.week("send")
        assert page.startswith("<!doctype html>"), page[:200]
        assert page.rstrip().endswith("</html>"), page[-200:]
        for text in ("What changed", "What it freed", "Who is short", "Worst sizing"):
            assert text in page, (text, page[:3000])
        workloads = re.search(r"\d+ of (\d+) workloads (?:is|are) short", page)
        assert workloads is not None, page[:3000]
        assert int(workloads[1]) >= len(LOADS), page[:3000]
        return f"of {workloads[1]} workloads; {words}"

    def free_mib(self) -> int:
        """Return the allocatable memory that no pod's spec requests; what an ended one did is free."""
        allocatable = bytes_of(self.node.object()["status"]["allocatable"]["memory"])
        pods = self.node.plane.admin.items("/api/v1/pods", fieldSelector=f"spec.nodeName={self.node.name}")
        lasting = [pod for pod in pods if pod["status"].get("phase") not in ENDED_PHASES]
        return (allocatable - sum(map(requested_bytes, lasting))) // MIB

    def requested_mib(self, *names: str) -> int:
        """Return the memory that loads request now."""
        return sum(requested_bytes(self.workload(name).pod()) for name in names) // MIB

    def upgraded(self) -> str:
        """Change a setting of the agent; the DaemonSet's new pod begins with the windows of the old one."""
        before = self.agent.pod()["metadata"]["uid"]
        stays = self.workload("stays").pod()
        old = self.span_seconds(stays)
        self.release.values["settings"]["sampling"]["relistSeconds"] = 31  # windows of other rows would begin anew
        begun = time.monotonic()
        self.release.helm("upgrade")
        self.node.wait(lambda: self.agent.pod()["metadata"]["uid"] != before, "the agent's pod is replaced", SECONDS)
        self.node.wait(lambda: self.span_seconds(stays) > 0, "the new agent answers", SECONDS)
        new = self.span_seconds(stays)
        age = seconds_since(self.agent.pod()["status"]["containerStatuses"][0]["state"]["running"]["startedAt"])
        assert new > age, f"its window is of {new:.0f} s, and it runs for {age:.0f} s"
        self.release.wait_agent(before)
        return f"window {old:.0f} s before, {new:.0f} s at {age:.0f} s of age; all {time.monotonic() - begun:.0f} s"

    def span_seconds(self, pod: Json) -> float:
        """Return of how long the agent's CPU window over a pod's container is."""
        snapshot = self.agent.ask("snapshot", at_age_seconds=0.0)
        path = self.node.cgroup_of(pod, "app").removeprefix("/sys/fs/cgroup")
        units = {unit["identity"]["cgroup_path"]: unit for unit in snapshot["units"]}
        return float(units[path]["cpu"]["span_seconds"])

    def uninstalled(self) -> str:
        """Take it away with ``uninstall.restore``: loads go on as they were written, and so are new pods made."""
        running = {pod["metadata"]["uid"]: restarts(pod) for pod in self.loads()}
        stays = self.workload("stays")
        resized = amounts(stays.resources()["requests"])
        assert resized != amounts(SMALL), resized
        self.release.values["uninstall"] = {"restore": True}
        self.release.helm("upgrade")
        self.release.helm("uninstall", "--wait", f"--timeout={SECONDS:.0f}s")
        assert amounts(stays.resources()["requests"]) == amounts(SMALL), stays.resources()
        self.addresses.close()
        admin = self.node.plane.admin
        assert not admin.exists(REGISTRATION)
        self.node.wait(lambda: not admin.items(objects.pod_path(chart.NAMESPACE)), "its pods are gone")
        after = {pod["metadata"]["uid"]: restarts(pod) for pod in self.loads() if is_ready(pod)}
        assert after == running, (running, after)
        self.workload("after").start(load(requests={"cpu": "10m", "memory": "16Mi"}), annotations=ENFORCE)
        pod = self.workload("after").wait_running()
        assert ADMISSION not in pod["metadata"].get("annotations", {})
        was, now = (f"{cpu}m {memory // MIB} MiB" for cpu, memory in (resized, amounts(SMALL)))
        return f"{was} -> {now}; {len(running)} loads untouched, a new pod as written"

    def loads(self) -> list[Json]:
        """Return the loads' pods."""
        return self.node.plane.admin.items(objects.pod_path(NAMESPACE))


def requested_bytes(pod: Json) -> int:
    """Return the memory that a pod's containers request by its spec, or its first steps if those request more."""

    def of(containers: list[Json]) -> list[int]:
        return [
            bytes_of(container.get("resources", {}).get("requests", {}).get("memory", "0")) for container in containers
        ]

    return max([sum(of(pod["spec"]["containers"])), *of(pod["spec"].get("initContainers", []))])


def amounts(requests: Json) -> tuple[int, int]:
    """Return millicores and bytes, however they are written."""
    return millicores(requests["cpu"]), bytes_of(requests["memory"])


def restarts(pod: Json) -> int:
    """Count the restarts of a pod's containers."""
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def seconds_since(moment: str) -> float:
    """Return how long ago a moment was, as the API writes it."""
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
