"""Of a workload's pods a share is enforced: a real API server's controllers make them, a real webhook counts them out.

Then the enforced pods are told to fare worse, and nobody of the workload is sized any more.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.orders.annotations import ENFORCE_SHARE, SHARE_TICKET
from agent.core.orders.enforce_share import EnforceShare
from agent.core.plan.needs.share_ticket import share_ticket
from agent.kube.objects.pod_json import pod_from_json
from tests.cluster.admission_room import (
    ENFORCE,
    Room,
    Running,
    admission_room,
    owned,
    register,
    resources,
    sized,
    steady,
)
from tests.cluster.api import MERGE, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import pod_path
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import UNBOUNDED, answer_of, webhook
from tests.webhook.report_bodies import report_body, row_body

pytestmark = pytest.mark.cluster

TENTH = EnforceShare(1000)
REPLICAS = 20
ROLL_OUT = "tests/roll-out"
GUARD = ("--set=guard.shareWindowSeconds=60",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shares")


@pytest.fixture(scope="module")
def room(cluster: ControlPlane, folder: Path) -> Iterator[Room]:
    with admission_room(cluster, folder, {"web": Running(uses={"app": (300.0, 2e8)})}, GUARD) as webhook_room:
        yield webhook_room


def deployment(room: Room) -> Json:
    """The Deployment ``web``: its pods state half a core where its history says 300 millicores."""
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels, "annotations": {**ENFORCE, ENFORCE_SHARE: "10%", ROLL_OUT: "one"}},
        "spec": {"containers": [sized()], "nodeName": room.nodes[2], "terminationGracePeriodSeconds": 0},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": template,
            "strategy": {"type": "Recreate"},
        },
    }


def pods_of(room: Room, generation: str) -> list[Json]:
    """Return the Deployment's pods of one roll-out."""
    pods = room.cluster.admin.items(pod_path(room.namespace), labelSelector="app=web")
    return [pod for pod in pods if pod["metadata"]["annotations"].get(ROLL_OUT) == generation]


def roll_out(room: Room, generation: str) -> list[Json]:
    """Have all pods made anew; return them. Those before must all be there, or some would be made in between."""
    path = f"/apis/apps/v1/namespaces/{room.namespace}/deployments/web"
    annotations = {ROLL_OUT: generation}
    room.cluster.admin.patch(path, {"spec": {"template": {"metadata": {"annotations": annotations}}}}, MERGE)
    return rolled_out(room, generation)


def rolled_out(room: Room, generation: str) -> list[Json]:
    """Return all pods of a roll-out, once they are there."""

    def clear() -> bool:
        # Nobody plays the kubelet of this node: pods of the roll-out before would go on ending for ever.
        for pod in room.cluster.admin.items(pod_path(room.namespace), labelSelector="app=web"):
            if pod["metadata"].get("deletionTimestamp"):
                room.cluster.admin.delete(pod_path(room.namespace, pod["metadata"]["name"]), gracePeriodSeconds="0")
        return len(pods_of(room, generation)) == REPLICAS

    wait_for(clear, f"{REPLICAS} pods of roll-out {generation}")
    return pods_of(room, generation)


def is_sized(pod: Json) -> bool:
    return bool(resources(pod)["requests"]["cpu"] == "300m")


def is_enforced(pod: Json) -> bool:
    """As every agent sees it."""
    assert SHARE_TICKET in pod["metadata"]["annotations"]
    return TENTH.holds(share_ticket(pod_from_json(pod)))


@contextlib.contextmanager
def restarted(room: Room, folder: Path, name: str) -> Iterator[None]:
    """End the webhook, and run another one on its database inside the block."""
    room.hook.process.stop()
    arguments = ("--set=recommend.policy=cruise", f"--replica={name}", UNBOUNDED, *GUARD)
    with webhook(room.cluster, folder, kubeconfig=folder / "webhook.kubeconfig", arguments=arguments) as room.hook:
        register(room)
        # Until the API server's watch has brought that it asks who ended, and admits all pods as they come.
        wait_for(lambda: is_asked(room), "the new one is asked")
        yield


def is_asked(room: Room) -> bool:
    """Return whether the webhook that runs now is asked about a pod of which it knows nothing."""
    answers = 'plimsoll_webhook_requests_total{result="no_history"}'
    before = room.hook.series(answers)
    room.admitted(owned("unknown", "Deployment", sized()))
    return room.hook.series(answers) > before


def has_told(room: Room, pods: list[Json], sequence: int) -> bool:
    """Report that the enforced pods wait for CPU for half of the time; leave in the list which are not known yet."""
    rows = [
        row_body(
            namespace=room.namespace,
            kind="Deployment",
            workload="web",
            pod=pod["metadata"]["name"],
            podUid=pod["metadata"]["uid"],
            coveredSeconds=60.0,
            podAgeSeconds=60.0,
            cpu=steady(CPU_BUCKETS, 300.0),
            cpuAdjusted=None,
            memory=steady(MEMORY_BUCKETS, 2e8),
            waitingSeconds=30.0 if is_enforced(pod) else 0.5,
            oomKills=[],
            share={"share": "10%", "enforced": is_enforced(pod), "restarts": 0, "unreadySeconds": 0.0},
        )
        for pod in pods
    ]
    refused = {refusal["row"] for refusal in reported(room, rows, sequence)["refused"]}
    pods[:] = [pod for number, pod in enumerate(pods) if number in refused]
    return not pods


def reported(room: Room, rows: list[Json], sequence: int) -> Json:
    """Send a minute's report of the node; return its answer."""
    node = room.nodes[2]
    body = report_body(*rows, node=node, sequence=sequence, endAgeSeconds=1.0, intervalSeconds=60.0)
    body["nodeClass"] = {"instanceType": None, "cpus": 4}
    answer: Json = answer_of(room.hook.post("/v1/report", body, room.token(node)))
    return answer


def directive_of_web(room: Room, sequence: int) -> Json:
    """Return what the node is told of the workload; it tells nothing more of its pods."""
    directives = (reported(room, [], sequence)["directives"] or {"workloads": []})["workloads"]
    return next((directive for directive in directives if directive["name"] == "web"), {})


def would_be_sized(room: Room, share: str = "10%") -> bool:
    """Return whether the next pod, were it in the share, would be."""
    now = json.dumps({"ticket": 0, "unixSeconds": int(time.time())})
    orders = {**ENFORCE, ENFORCE_SHARE: share, SHARE_TICKET: now}
    return is_sized(room.admitted(owned("web", "Deployment", sized(), annotations=orders)))


def test_two_of_twenty_are_enforced_until_they_fare_worse_whoever_restarts(room: Room, folder: Path) -> None:
    path = f"/apis/apps/v1/namespaces/{room.namespace}/deployments"
    room.cluster.admin.create(path, deployment(room))
    first = rolled_out(room, "one")
    assert sum(map(is_sized, first)) == 2
    assert [is_sized(pod) for pod in first] == [is_enforced(pod) for pod in first]
    assert would_be_sized(room)
    sequence = itertools.count(1)
    with restarted(room, folder, "second"):
        again = {pod["metadata"]["uid"]: is_enforced(pod) for pod in pods_of(room, "one")}
        assert again == {pod["metadata"]["uid"]: is_sized(pod) for pod in first}
        second = roll_out(room, "two")
        assert sum(map(is_sized, second)) == 2
        # A slowdown of the enforced pods: told by their node, it is answered with what all nodes are told.
        left = list(second)
        wait_for(lambda: has_told(room, left, next(sequence)), "the watch brings the pods, and all are told of")
        taken_back = "shareTakenBack"
        wait_for(lambda: taken_back in directive_of_web(room, next(sequence)), "the share is taken back")
        directive = directive_of_web(room, next(sequence))
        assert directive["shareTakenBack"] == "10 %"
        assert directive["shareTakenBackFor"] == (
            "its pods fared worse: waiting for CPU 50% of the time, 1% in the other pods"
        )
        assert not would_be_sized(room)
    with restarted(room, folder, "third"):
        assert not would_be_sized(room), "it is no matter of memory"
        assert would_be_sized(room, "20%"), "another share is a person's new word"
    room.cluster.admin.delete(f"{path}/web", propagationPolicy="Background")
