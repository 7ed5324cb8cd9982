"""Runs of seconds on a real kubelet, through the webhook's admission: CronJobs, runs by hand, workflows, indexed Jobs.

The chart is installed by Helm, with ``webhook.readJobs``. Most runs of the CronJob are made here, as its controller
makes them (owner, and a name that ends in Unix minutes), since a real one makes one in a minute; one is the
controller's own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from agent.core.orders.annotations import ADMISSION
from tests.cluster import objects
from tests.cluster.api import Json
from tests.e2e import forwarding
from tests.e2e.acting import ENFORCE
from tests.e2e.node import Node
from tests.e2e.parts import LOAD_IMAGE
from tests.e2e.program import SECONDS
from tests.e2e.release import WEBHOOK, Release
from tests.e2e.scenario import MIB
from tests.e2e.steps import Steps
from tests.e2e.workloads import NAMESPACE, bytes_of, pod_spec

INSTALLED: Final = "helm install: agent and webhook are Ready"
FIRST: Final = "three runs of a CronJob come as they are written, and are known seconds after their end"
CRON_JOB: Final = "nightly"
CONTAINER: Final = "run"
PEAK_MIB: Final = 300
MOST_MIB: Final = 400
WRITTEN_MIB, LIMIT_MIB = 64, 512
KILLED_MIB: Final = 700
RUN_SECONDS: Final = 3
LONG_RUN_SECONDS: Final = 20
SWEPT_SECONDS: Final = 6.0
AT_ONCE: Final = 4
"""Of the node's memory each takes as much as the last ones needed."""
KEPT_RUNS: Final = 2 * AT_ONCE
LEAST_RUNS: Final = 3
GROUP_KEY: Final = "workflows.argoproj.io/workflow-template"
WORKFLOWS: Final = "/apis/argoproj.io/v1alpha1/namespaces/e2e/workflows"
TOLD_SECONDS: Final = 60.0
BATCH: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}"


@dataclass(frozen=True, slots=True)
class JobScenario:
    """The steps on one node."""

    node: Node
    release: Release
    addresses: ExitStack
    """Closed at the end: the Service's address on the host's side."""
    runs: int
    """Of the CronJob."""
    minute: int = field(default_factory=lambda: int(time.time()) // 60)

    def run(self, steps: Steps) -> None:
        """Take all steps."""
        steps.whenever_failed = lambda: "".join(f"      {line}\n" for line in self.release.words().splitlines())
        steps.run(INSTALLED, self.install)
        steps.run(FIRST, self.first_runs, needs=INSTALLED)
        needing_runs: tuple[tuple[str, Callable[[], object]], ...] = (
            (f"from the fourth of {self.runs} on they are admitted with 300 to 400 MiB", self.many_runs),
            ("a run of the CronJob's own controller is sized by them", self.scheduled),
            ("one started by hand is one of them", self.by_hand),
            ("after a killed run the next has more, its limit too, and gets through", self.killed),
            ("a run that ends while the agent is down is known when it is back", self.unseen),
        )
        for title, step in needing_runs:
            steps.run(title, step, needs=FIRST)
        steps.run("workflows with one label are one history, whatever they are called", self.workflows, needs=INSTALLED)
        steps.run("an indexed Job has one history", self.indexed, needs=INSTALLED)

    # -- the steps -------------------------------------------------------------------------------------------------

    def install(self) -> str:
        """Install the chart; Jobs may be read."""
        forwarding.prepare(self.node)
        self.release.values["webhook"]["readJobs"] = True
        self.release.values["settings"]["workloads"] = {"groupBy": GROUP_KEY}
        begun = time.monotonic()
        self.release.helm("install", "--create-namespace")
        self.addresses.enter_context(self.release.service())
        self.release.wait_webhook()
        self.release.wait_agent()
        self.addresses.enter_context(self.release.port_forward(f"service/{WEBHOOK}", "8443:443"))
        self.node.plane.admin.create(f"{BATCH}/cronjobs", cron_job())
        return f"{time.monotonic() - begun:.0f} s"

    def first_runs(self) -> str:
        """Run it three times, one after the other."""
        delays = []
        for number in range(LEAST_RUNS):
            [pod] = self.ended([self.start(number)])
            assert ADMISSION not in pod["metadata"].get("annotations", {}), pod["metadata"]
            delays.append(self.wait_known("CronJob", CRON_JOB, number + 1))
            self.remove([number])
        [shown, *_] = self.history("CronJob", CRON_JOB)["runs"]
        peak = shown["memoryPeakBytes"] // MIB
        assert PEAK_MIB <= peak <= PEAK_MIB + 16, shown
        assert shown["exitCode"] == 0, shown
        return f"peak {peak} MiB, took {shown['durationSeconds']:.1f} s, known {max(delays):.1f} s after the Job's end"

    def many_runs(self) -> str:
        """Run it often, some at a time, and look at what each was admitted with."""
        requests: list[int] = []
        begun = time.monotonic()
        for start in range(LEAST_RUNS, self.runs, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, self.runs))
            for pod in self.ended([self.start(number) for number in numbers]):
                assert pod["status"]["phase"] == "Succeeded", pod["status"]
                assert ADMISSION in pod["metadata"]["annotations"], pod["metadata"]
                assert limit_mib(pod) == LIMIT_MIB, pod["spec"]
                requests.append(request_mib(pod))
            self.remove(numbers)
        assert len(requests) == self.runs - LEAST_RUNS, requests
        assert PEAK_MIB <= min(requests) <= max(requests) <= MOST_MIB, requests
        seconds = (time.monotonic() - begun) / len(requests)
        return (
            f"{len(requests)} runs: {min(requests)} to {max(requests)} MiB, median {statistics.median(requests):.0f}; "
            f"{seconds:.1f} s each"
        )

    def scheduled(self) -> str:
        """Let the controller make one."""
        cron_jobs = f"{BATCH}/cronjobs/{CRON_JOB}"
        known = {job["metadata"]["name"] for job in self.node.plane.admin.items(f"{BATCH}/jobs")}
        self.node.plane.admin.patch(cron_jobs, {"spec": {"suspend": False}})
        new_jobs: list[str] = []

        def is_made() -> bool:
            names = {job["metadata"]["name"] for job in self.node.plane.admin.items(f"{BATCH}/jobs")}
            new_jobs[:] = sorted(names - known)
            return bool(new_jobs)

        self.node.wait(is_made, "the controller makes a Job", 2 * TOLD_SECONDS)
        self.node.plane.admin.patch(cron_jobs, {"spec": {"suspend": True}})
        pods = self.ended(new_jobs)
        assert all(PEAK_MIB <= request_mib(pod) <= MOST_MIB for pod in pods), pods
        return f"{new_jobs[0]}: {request_mib(pods[0])} MiB"

    def by_hand(self) -> str:
        """``kubectl create job --from=cronjob/NAME``: its name tells nothing, its owner does."""
        plane, name = self.node.plane, "run-it-again"
        words = ("create", "job", name, f"--from=cronjob/{CRON_JOB}", f"--namespace={NAMESPACE}")
        command = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", *words]
        subprocess.run(command, check=True, capture_output=True, text=True)
        [pod] = self.ended([name])
        self.node.wait(
            lambda: name in {run["run"] for run in self.history("CronJob", CRON_JOB)["runs"]},
            "it is known as a run of the CronJob",
            TOLD_SECONDS,
        )
        assert PEAK_MIB <= request_mib(pod) <= MOST_MIB, pod["spec"]
        return f"admitted with {request_mib(pod)} MiB"

    def killed(self) -> str:
        """One needs more than its limit; the next, which needs less than the new one, is not killed."""
        number = self.runs
        [pod] = self.ended([self.start(number, mebibytes=KILLED_MIB)])
        state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert state["reason"] == "OOMKilled", state
        self.node.wait(
            lambda: any(run.get("memoryAtKillBytes") for run in self.history("CronJob", CRON_JOB)["runs"]),
            "the kill is known",
            TOLD_SECONDS,
        )
        [pod] = self.ended([self.start(number + 1, mebibytes=KILLED_MIB)])
        assert pod["status"]["phase"] == "Succeeded", pod["status"]
        assert request_mib(pod) > LIMIT_MIB, pod["spec"]
        assert limit_mib(pod) >= request_mib(pod), pod["spec"]
        self.remove([number, number + 1])
        return f"killed at {LIMIT_MIB} MiB; the next has {request_mib(pod)} MiB, limit {limit_mib(pod)} MiB"

    def unseen(self) -> str:
        """Kill the agent in the midst of a run: its rings tell of it."""
        number = self.runs + 2
        name, begun = self.start(number, seconds=LONG_RUN_SECONDS), time.monotonic()

        def has_filled() -> bool:
            pods = self.pods_of(name)  # none yet, at first
            return (
                bool(pods)
                and int(self.node.read(f"{self.node.cgroup_of(pods[0], CONTAINER)}/memory.peak")) >= PEAK_MIB * MIB
            )

        self.node.wait(has_filled, "it has filled its memory", TOLD_SECONDS)
        time.sleep(SWEPT_SECONDS)  # of the guest's: a few slow readings
        self.node.run(f"kill -9 {self.release.agent.pid()}")
        killed = time.monotonic()
        self.ended([name])
        down_seconds = time.monotonic() - killed
        runs: list[Json] = []

        def is_known() -> bool:
            runs[:] = [run for run in self.history("CronJob", CRON_JOB)["runs"] if run["run"] == name]
            return bool(runs)

        self.node.wait(is_known, "the run is known", SECONDS)
        peak = runs[0]["memoryPeakBytes"] // MIB
        assert PEAK_MIB <= peak <= PEAK_MIB + 16, runs
        self.remove([number])
        return f"it ended {down_seconds:.0f} s after the kill, peak {peak} MiB, after {time.monotonic() - begun:.0f} s"

    def workflows(self) -> str:
        """Pods of objects as Argo makes them: no Job, another owner each time, one label in common."""
        admin = self.node.plane.admin
        admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", workflow_definition())
        self.node.wait(lambda: admin.exists(WORKFLOWS), "workflows may be made", TOLD_SECONDS)
        pods = []
        for number in range(LEAST_RUNS + 1):
            name = f"build-{number}x7q2"
            owner = admin.create(
                WORKFLOWS,
                {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": name}, "spec": {}},
            )
            admin.create(objects.pod_path(NAMESPACE), workflow_pod(owner))
            pods.append(self.succeeded(name))
            if number < LEAST_RUNS:
                self.wait_known("Group", "build", number + 1)
        assert all(ADMISSION not in pod["metadata"].get("annotations", {}) for pod in pods[:-1])
        assert PEAK_MIB <= request_mib(pods[-1]) <= MOST_MIB, pods[-1]["spec"]
        return f"the fourth: {request_mib(pods[-1])} MiB"

    def indexed(self) -> str:
        """Its later pods are sized by its first ones."""
        name = "shards"
        spec = job_spec(PEAK_MIB) | {"completionMode": "Indexed", "completions": 7, "parallelism": 1}
        self.node.plane.admin.create(f"{BATCH}/jobs", {"metadata": {"name": name}, "spec": spec})
        pods = self.ended([name])
        pods.sort(key=lambda pod: int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]))
        assert PEAK_MIB <= request_mib(pods[-1]) <= MOST_MIB, [request_mib(pod) for pod in pods]
        self.wait_known("Job", name, len(pods))
        return f"requests by index: {', '.join(str(request_mib(pod)) for pod in pods)} MiB"

    # -- runs ------------------------------------------------------------------------------------------------------

    def start(self, number: int, *, mebibytes: int = PEAK_MIB, seconds: int = RUN_SECONDS) -> str:
        """Make a Job as the CronJob's controller does, of some minute of the last hours; give its name."""
        admin = self.node.plane.admin
        uid = admin.get(f"{BATCH}/cronjobs/{CRON_JOB}")["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": CRON_JOB, "uid": uid, "controller": True}
        name = self.name_of(number)
        admin.create(
            f"{BATCH}/jobs",
            {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": job_spec(mebibytes, seconds)},
        )
        return name

    def name_of(self, number: int) -> str:
        """Return the name of a run: of a minute before the first, so that none is one of the controller's."""
        return f"{CRON_JOB}-{self.minute - number}"

    def remove(self, numbers: Iterable[int]) -> None:
        """Delete runs, with their pods."""
        for number in numbers:
            self.node.plane.admin.delete(f"{BATCH}/jobs/{self.name_of(number)}", propagationPolicy="Background")

    def ended(self, jobs: Iterable[str]) -> list[Json]:
        """Wait until Jobs have ended, and return their pods."""
        names = list(jobs)
        for name in names:
            path = f"{BATCH}/jobs/{name}"
            self.node.wait(partial(self._is, path, has_ended), f"{name} has ended", SECONDS)
        return [pod for name in names for pod in self.pods_of(name)]

    def succeeded(self, name: str) -> Json:
        """Wait until a pod has succeeded, and return it."""
        path = objects.pod_path(NAMESPACE, name)
        self.node.wait(partial(self._is, path, has_succeeded), f"{name} has ended", SECONDS)
        return self.node.plane.admin.get(path)

    def _is(self, path: str, condition: Callable[[Json], bool]) -> bool:
        return condition(self.node.plane.admin.get(path))

    def pods_of(self, job: str) -> list[Json]:
        """Return the pods of a Job."""
        label = f"batch.kubernetes.io/job-name={job}"
        return self.node.plane.admin.items(objects.pod_path(NAMESPACE), labelSelector=label)

    def history(self, kind: str, name: str) -> Json:
        """Return what ``plimsoll workloads`` shows of the one container of a workload."""
        kubeconfig = f"--kubeconfig={self.node.plane.kubeconfig}"
        words = ("workloads", f"{NAMESPACE}/{kind}/{name}", kubeconfig, "-o", "json")
        command = [sys.executable, "-m", "agent", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        if done.returncode:
            raise LookupError(done.stderr.strip())
        [container] = json.loads(done.stdout)["containers"]
        container_history: Json = container
        return container_history

    def wait_known(self, kind: str, name: str, count: int) -> float:
        """Wait until so many runs are known; give the seconds."""
        return self.node.wait(
            lambda: len(self.history(kind, name)["runs"]) >= count, f"{count} runs of {name} are known", TOLD_SECONDS
        )


def cron_job() -> Json:
    """Return the CronJob: every minute, and suspended."""
    return {
        "metadata": {"name": CRON_JOB},
        "spec": {
            "schedule": "* * * * *",
            "suspend": True,
            "concurrencyPolicy": "Allow",
            # Of more its controller deletes the oldest, while others are waited for.
            "successfulJobsHistoryLimit": KEPT_RUNS,
            "failedJobsHistoryLimit": KEPT_RUNS,
            "jobTemplate": {"spec": job_spec(PEAK_MIB)},
        },
    }


def job_spec(mebibytes: int, seconds: int = RUN_SECONDS) -> Json:
    """Return the spec of a Job whose one container needs so much, and takes some seconds."""
    template = {"metadata": {"annotations": ENFORCE}, "spec": run_spec(mebibytes, seconds)}
    return {"backoffLimit": 0, "template": template}


def run_spec(mebibytes: int, seconds: int = RUN_SECONDS) -> Json:
    """Return the spec of the pod."""
    script = f"dd if=/dev/zero of=/dev/null bs={mebibytes}M count=1 2>/dev/null && sleep {seconds}"
    container = {
        "name": CONTAINER,
        "image": LOAD_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", script],
        "resources": {
            "requests": {"cpu": "50m", "memory": f"{WRITTEN_MIB}Mi"},
            "limits": {"memory": f"{LIMIT_MIB}Mi"},
        },
    }
    return pod_spec(container, restartPolicy="Never")


def workflow_definition() -> Json:
    """Return a definition under which workflows may be made."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "workflows.argoproj.io"},
        "spec": {
            "group": "argoproj.io",
            "scope": "Namespaced",
            "names": {"kind": "Workflow", "plural": "workflows", "singular": "workflow"},
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def workflow_pod(owner: Json) -> Json:
    """Return the pod of a workflow's one step."""
    metadata = owner["metadata"]
    reference = {"name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {
        "metadata": {
            "name": metadata["name"],
            "labels": {GROUP_KEY: "build"},
            "annotations": ENFORCE,
            "ownerReferences": [{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", **reference}],
        },
        "spec": run_spec(PEAK_MIB),
    }


def has_ended(job: Json) -> bool:
    """Return whether a Job is complete or has failed."""
    conditions = job.get("status", {}).get("conditions", [])
    return any(
        condition["type"] in {"Complete", "Failed"} and condition["status"] == "True" for condition in conditions
    )


def has_succeeded(pod: Json) -> bool:
    """Return whether a pod has ended well."""
    phase: str | None = pod["status"].get("phase")
    return phase == "Succeeded"


def request_mib(pod: Json) -> int:
    """Return the memory that a pod's container was admitted with."""
    return bytes_of(pod["spec"]["containers"][0]["resources"]["requests"]["memory"]) // MIB


def limit_mib(pod: Json) -> int:
    """Return its limit."""
    return bytes_of(pod["spec"]["containers"][0]["resources"]["limits"]["memory"]) // MIB
