"""A namespace on the real API server whose new pods a real webhook is asked about, and what it knows of them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import numpy as np

from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.numbers.bucket_scheme import BucketScheme
from tests.cluster import chart
from tests.cluster.api import ApiError, Json, kubeconfig
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import (
    create_namespace,
    create_service_account,
    fresh_name,
    node_bound_token,
    remove_namespace,
)
from tests.cluster.objects import create_node, pod, pod_path
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import (
    NAMESPACE,
    UNBOUNDED,
    WebhookProcess,
    agent_token,
    answer_of,
    registration,
    webhook,
)
from tests.webhook.report_bodies import report_body, row_body

MB = 1_000_000
HASH = "7c5ddbdf54"
ENFORCE = {"plimsoll.dev/mode": "enforce"}
ADMISSION = "plimsoll.dev/admission"


@dataclass(frozen=True, kw_only=True)
class Running:
    """A pod that runs already, and what its containers use: millicores, bytes."""

    kind: str = "Deployment"
    uses: dict[str, tuple[float, float]] = field(
        default_factory=lambda: {"app": (300.0, 200.0 * MB), "proxy": (50.0, 80.0 * MB)}
    )
    on_second_node: bool = False
    kill_bytes: int | None = None
    """What its container ``app`` was killed at for want of memory; None = it was not."""


@dataclass
class Room:
    """A namespace whose pods the webhook is asked about, and what it knows of them."""

    cluster: ControlPlane
    hook: WebhookProcess
    namespace: str
    nodes: tuple[str, str, str]
    """Of one class; on the third nothing runs."""
    pods: dict[str, Running]
    """By workload; ``NAME@second`` is another pod of NAME."""
    sequence: int = 0
    reported_unix_seconds: float = 0.0
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """The first."""
        return self.nodes[0]

    def kubectl(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        command = [str(self.cluster.kubectl), f"--kubeconfig={self.cluster.kubeconfig}", "-n", self.namespace]
        text = None if stdin is None else json.dumps(stdin)
        return subprocess.run([*command, *arguments], input=text, capture_output=True, text=True, check=False)

    def admitted(self, document: Json) -> Json:
        """Return the pod as the API server would keep it."""
        # What kubectl asks for by --dry-run=server; to start that program takes longer than the whole admission.
        return self.cluster.admin.create(
            pod_path(self.namespace), document, dryRun="All", fieldValidation="Strict", fieldManager="kubectl-create"
        )

    def amounts(self, document: Json) -> Json:
        """Return the resources of the only container; none where the API server refuses what the webhook chose.

        That is so for a moment where one of the two has seen a new range, and the other has not.
        """
        try:
            return resources(self.admitted(deepcopy(document)))
        except ApiError as error:
            if error.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY):
                raise
            return {}

    def token(self, node: str) -> str:
        """Return the token of a node's agent, the same each time: of one bearer sixty new ones a minute are taken."""
        if node not in self.tokens:
            self.tokens[node] = agent_token(self.cluster, node)
        return self.tokens[node]

    def report(self, names: Iterable[str], *, age_seconds: float) -> set[str]:
        """Tell of five minutes of some pods, node by node; give those of which nothing was taken."""
        self.sequence += 1
        refused: set[str] = set()
        for node in self.nodes[:2]:
            there = [name for name in sorted(names) if self.node_of(self.pods[name]) == node]
            rows = [(name, row) for name in there for row in self._rows(name, self.pods[name])]
            body = report_body(*(row for _, row in rows), node=node, sequence=self.sequence, endAgeSeconds=age_seconds)
            body["nodeClass"] = {"instanceType": None, "cpus": 4}
            reply = self.hook.post("/v1/report", body, self.token(node))
            if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
                refused.update(there)  # not now: a busy API server did not say in time whose the token is
                continue
            refused |= {rows[refusal["row"]][0] for refusal in answer_of(reply)["refused"]}
        self.reported_unix_seconds = time.time()
        return refused

    def has_followed(self) -> bool:
        """Return whether all that was reported is in the webhook's memory, from which pods are sized."""
        followed, taken = "plimsoll_reports_followed_total", 'plimsoll_reports_received_total{result="accepted"}'
        if self.hook.series(followed) >= self.hook.series(taken):
            return True
        # Where reports are folded at once they may be gone from the log before they are followed: then what they were
        # folded into is read, which counts as none.
        asked = time.time()
        return asked - self.hook.series("plimsoll_history_age_seconds") > self.reported_unix_seconds

    def node_of(self, live_pod: Running) -> str:
        return self.nodes[1 if live_pod.on_second_node else 0]

    def _rows(self, name: str, live_pod: Running) -> Iterator[Json]:
        uid = self.cluster.admin.get(pod_path(self.namespace, running(name)))["metadata"]["uid"]
        for container, (millicores, memory) in live_pod.uses.items():
            is_killed = container == "app" and live_pod.kill_bytes is not None
            yield row_body(
                namespace=self.namespace,
                kind=live_pod.kind,
                workload=workload(name),
                container=container,
                pod=running(name),
                podUid=uid,
                cpu=steady(CPU_BUCKETS, millicores),
                cpuAdjusted=steady(CPU_BUCKETS, millicores),
                memory=steady(MEMORY_BUCKETS, memory),
                oomKills=[[10.0, live_pod.kill_bytes]] if is_killed else [],
            )


def steady(scheme: BucketScheme, amount: float) -> Json:
    """Return samples that are all the same."""
    (bucket,) = scheme.find(np.array([amount])).tolist()
    return {"count": 30, "sum": 30 * amount, "max": amount, "buckets": [bucket, 30]}


def mebibytes_above(amount_bytes: int) -> str:
    """Round as memory is rounded by default: up to whole MiB."""
    return str(-(-amount_bytes // 2**20) * 2**20)


def workload(name: str) -> str:
    return name.partition("@")[0]


def running(name: str) -> str:
    return f"{workload(name)}-{HASH}-{name.partition('@')[2] or 'first'}"


def owned(name: str, kind: str, *containers: Json, node: str | None = None, **rest: Any) -> Json:
    """Return a pod as a controller makes it."""
    owner = {"kind": "ReplicaSet", "name": f"{name}-{HASH}"} if kind == "Deployment" else {"kind": kind, "name": name}
    annotations = rest.pop("annotations", ENFORCE)
    document = pod(rest.pop("pod_name", f"{name}-{HASH}-new"), node, *containers, annotations=annotations, **rest)
    document["metadata"]["labels"] = {"pod-template-hash": HASH} if kind == "Deployment" else {}
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "uid": f"uid-{name}", "controller": True, **owner}
    ]
    return document


def sized(name: str = "app", *, limits: dict[str, str] | None = None, **requests: str) -> Json:
    """Return a container: half a core and 300 MB unless told."""
    wanted = requests or {"cpu": "500m", "memory": "300M"}
    return {"name": name, "image": "plimsoll.test/none:1", "resources": {"requests": wanted, "limits": limits or {}}}


def bound_for(node: str) -> Json:
    """Return the affinity of a DaemonSet's pod."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def resources(document: Json, index: int = 0, where: str = "containers") -> Json:
    amounts: Json = document["spec"][where][index]["resources"]
    return amounts


def told(document: Json, container: str = "app") -> Json:
    """Return what the pod's annotation says of where a container's size is from, and by which policy."""
    admission = json.loads(document["metadata"]["annotations"][ADMISSION])
    return {"policy": admission["policy"], "source": admission["containers"][container]["source"]}


BY_CRUISE: Final = "--set=recommend.policy=cruise"
"""What the index answers at once and to the number; ``plimsoll`` takes its place once it is worked out."""


@contextlib.contextmanager
def admission_room(
    cluster: ControlPlane, folder: Path, pods: dict[str, Running], arguments: Sequence[str] = ()
) -> Iterator[Room]:
    """Run a webhook with the chart's rights, registered for one namespace, that has learnt of these pods."""
    if not cluster.admin.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        create_namespace(cluster, NAMESPACE)
    if not cluster.admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-agent"):
        create_service_account(cluster, NAMESPACE, "plimsoll-agent")
    cluster.admin.apply_all(chart.parts(*chart.WEBHOOK))
    identity = cluster.api_with_token(node_bound_token(cluster, NAMESPACE, "plimsoll-webhook", None))
    namespace, nodes = fresh_name("admission"), (fresh_name("node"), fresh_name("node"), fresh_name("node"))
    create_namespace(cluster, namespace)
    for node in nodes:
        create_node(cluster.admin, node)
    own = kubeconfig(identity, folder / "webhook.kubeconfig")
    with webhook(cluster, folder, kubeconfig=own, arguments=(BY_CRUISE, UNBOUNDED, *arguments)) as hook:
        room = Room(cluster, hook, namespace, nodes, pods)
        for name, live_pod in pods.items():
            # Made before the webhook is registered, as on a cluster that ran before it came. Owners that are not there
            # would have the pods collected: the collector is told to wait.
            document = owned(
                workload(name),
                live_pod.kind,
                *(sized(container) for container in live_pod.uses),
                node=room.node_of(live_pod),
                pod_name=running(name),
            )
            document["metadata"]["finalizers"] = ["plimsoll.test/keep"]
            cluster.admin.create(pod_path(namespace), document)
        for age_seconds in (7200.0, 30.0):
            left = set(pods)

            def is_told(left: set[str] = left, age_seconds: float = age_seconds) -> bool:
                # Of each pod once: of an hour of a container no more than 63 minutes are taken, however often it is
                # told.
                left.intersection_update(room.report(left, age_seconds=age_seconds))
                return not left

            wait_for(is_told, "the webhook knows the pods, and takes what is told")
        wait_for(room.has_followed, "the webhook has taken the history in")
        register(room)
        try:
            wait_for(lambda: is_sized(room), "the webhook is asked")
            yield room
        finally:
            _remove(room)


def _remove(room: Room) -> None:
    """Take away what was made for a room."""
    admin = room.cluster.admin
    admin.delete(f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{room.namespace}")
    for name in room.pods:
        path = pod_path(room.namespace, running(name))
        admin.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    remove_namespace(room.cluster, room.namespace)
    for node in room.nodes:
        admin.delete(f"/api/v1/nodes/{node}")


def register(room: Room, authority: Path | None = None, *, seconds: int = 10) -> None:
    """Have the API server ask, as the chart does, but by address and for one namespace; it waits for so long."""
    document = registration(room.hook.port, room.namespace, authority or room.cluster.authority, seconds=seconds)
    room.cluster.admin.apply(document)


def is_sized(room: Room) -> bool:
    document = room.admitted(owned("web", "Deployment", sized()))
    return "cpu" in resources(document).get("requests", {}) and resources(document)["requests"]["cpu"] != "500m"
