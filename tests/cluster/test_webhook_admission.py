"""Pods as a person creates them, on a real API server that asks a real webhook over TLS.

Most rules are tried with ``kubectl create --dry-run=server``: the API server does all that it does otherwise, with the
webhook, and keeps nothing.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.core.buckets import BucketScheme
from agent.core.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from tests.cluster import chart
from tests.cluster.api import Json, kubeconfig
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, create_service_account, fresh_name, node_bound_token
from tests.cluster.objects import create_node, pod, pod_path
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import NAMESPACE, WebhookProcess, agent_token, answer_of, registration, webhook
from tests.webhook.report_bodies import report_body, row_body

pytestmark = pytest.mark.cluster

MB = 1_000_000
HASH = "7c5ddbdf54"
CONTAINERS = {"app": (300.0, 200.0 * MB), "proxy": (50.0, 80.0 * MB)}
"""What the pods of every workload here have used: millicores, bytes."""
ENFORCE = {"plimsoll.dev/mode": "enforce"}


@dataclass
class Room:
    """A namespace whose pods the webhook is asked about, and what it knows of them."""

    cluster: ControlPlane
    hook: WebhookProcess
    namespace: str
    node: str
    token: str
    sequence: int = 0

    def kubectl(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        command = [str(self.cluster.kubectl), f"--kubeconfig={self.cluster.kubeconfig}", "-n", self.namespace]
        text = None if stdin is None else json.dumps(stdin)
        return subprocess.run([*command, *arguments], input=text, capture_output=True, text=True, check=False)

    def admitted(self, document: Json) -> Json:
        """Give the pod as the API server would keep it."""
        done = self.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=document)
        assert done.returncode == 0, done.stderr
        made: Json = json.loads(done.stdout)
        return made

    def report(self, workloads: dict[str, str], *, age_seconds: float) -> None:
        """Tell of five minutes of pods that run on the node, by workload kind."""
        rows = []
        for name, kind in workloads.items():
            uid = self.cluster.admin.get(pod_path(self.namespace, running(name)))["metadata"]["uid"]
            for container, (millicores, memory) in CONTAINERS.items():
                rows.append(
                    row_body(
                        namespace=self.namespace,
                        kind=kind,
                        workload=name,
                        container=container,
                        pod=running(name),
                        podUid=uid,
                        cpu=steady(CPU_BUCKETS, millicores),
                        cpuAdjusted=steady(CPU_BUCKETS, millicores),
                        memory=steady(MEMORY_BUCKETS, memory),
                        oomKills=[],
                    )
                )
        self.sequence += 1
        body = report_body(*rows, node=self.node, sequence=self.sequence, endAgeSeconds=age_seconds)
        body["nodeClass"] = {"instanceType": None, "cpus": 4}
        answer = answer_of(self.hook.post("/v1/report", body, self.token))
        assert answer["refused"] == [], answer["refused"][:2]


def steady(scheme: BucketScheme, amount: float) -> Json:
    """Give samples that are all the same."""
    (bucket,) = scheme.find(np.array([amount])).tolist()
    return {"count": 30, "sum": 30 * amount, "max": amount, "buckets": [bucket, 30]}


def mebibytes_above(amount_bytes: int) -> str:
    """Round as memory is rounded by default: up to whole MiB."""
    return str(-(-amount_bytes // 2**20) * 2**20)


def running(workload: str) -> str:
    return f"{workload}-{HASH}-first"


def owned(name: str, kind: str, *containers: Json, node: str | None = None, **rest: Any) -> Json:
    """Give a pod as a controller makes it."""
    owner = {"kind": "ReplicaSet", "name": f"{name}-{HASH}"} if kind == "Deployment" else {"kind": kind, "name": name}
    annotations = rest.pop("annotations", ENFORCE)
    document = pod(rest.pop("pod_name", f"{name}-{HASH}-new"), node, *containers, annotations=annotations, **rest)
    document["metadata"]["labels"] = {"pod-template-hash": HASH} if kind == "Deployment" else {}
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "uid": f"uid-{name}", "controller": True, **owner}
    ]
    return document


def sized(name: str = "app", *, limits: dict[str, str] | None = None, **requests: str) -> Json:
    """Give a container: half a core and 300 MB unless told."""
    wanted = requests or {"cpu": "500m", "memory": "300M"}
    return {"name": name, "image": "plimsoll.test/none:1", "resources": {"requests": wanted, "limits": limits or {}}}


def resources(document: Json, index: int = 0, where: str = "containers") -> Json:
    found: Json = document["spec"][where][index]["resources"]
    return found


@pytest.fixture(scope="module")
def room(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A webhook with the chart's rights, registered for one namespace, that has learnt of some workloads."""
    folder = tmp_path_factory.mktemp("admission")
    for name in (NAMESPACE,):
        if not cluster.admin.exists(f"/api/v1/namespaces/{name}"):
            create_namespace(cluster, name)
    if not cluster.admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-agent"):
        create_service_account(cluster, NAMESPACE, "plimsoll-agent")
    cluster.admin.apply_all(chart.parts(*chart.WEBHOOK))
    identity = cluster.api_with_token(node_bound_token(cluster, NAMESPACE, "plimsoll-webhook", None))
    namespace, node = fresh_name("admission"), fresh_name("node")
    create_namespace(cluster, namespace)
    create_node(cluster.admin, node)
    own = kubeconfig(identity, folder / "webhook.kubeconfig")
    with webhook(cluster, folder, kubeconfig=own) as hook:
        made = Room(cluster, hook, namespace, node, agent_token(cluster, node))
        workloads = {"web": "Deployment", "scaled": "Deployment", "driver": "DaemonSet", "store": "StatefulSet"}
        for name, kind in workloads.items():
            # Made before the webhook is registered, as on a cluster that ran before it came. Owners that are not there
            # would have the pods collected: the collector is told to wait.
            document = owned(name, kind, sized(), sized("proxy"), node=node, pod_name=running(name))
            document["metadata"]["finalizers"] = ["plimsoll.test/keep"]
            cluster.admin.create(pod_path(namespace), document)
        wait_for(lambda: knows(made, workloads), "the webhook knows the pods")
        made.report(workloads, age_seconds=7200.0)
        made.report(workloads, age_seconds=30.0)
        register(made)
        wait_for(lambda: is_sized(made), "the webhook has taken the history in, and is asked")
        yield made
    cluster.admin.delete(f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace}")
    for name in workloads:
        path = pod_path(namespace, running(name))
        cluster.admin.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    cluster.admin.delete(f"/api/v1/namespaces/{namespace}")
    cluster.admin.delete(f"/api/v1/nodes/{node}")


def knows(room: Room, workloads: dict[str, str]) -> bool:
    """Post rows until none is refused for a pod that the webhook has not seen yet."""
    rows = [
        row_body(
            namespace=room.namespace,
            kind=kind,
            workload=name,
            pod=running(name),
            podUid=room.cluster.admin.get(pod_path(room.namespace, running(name)))["metadata"]["uid"],
            container="nobody",
        )
        for name, kind in workloads.items()
    ]
    room.sequence += 1
    body = report_body(*rows, node=room.node, sequence=room.sequence, endAgeSeconds=7200.0)
    body["nodeClass"] = {"instanceType": None, "cpus": 4}
    return not answer_of(room.hook.post("/v1/report", body, room.token))["refused"]


def register(room: Room, authority: Path | None = None) -> None:
    """Have the API server ask, as the chart does, but by address and for one namespace."""
    room.cluster.admin.apply(registration(room.hook.port, room.namespace, authority or room.cluster.authority))


def is_sized(room: Room) -> bool:
    made = room.admitted(owned("web", "Deployment", sized()))
    return (
        resources(made) != sized()["resources"]
        and "cpu" in resources(made).get("requests", {})
        and (resources(made)["requests"]["cpu"] != "500m")
    )


def test_a_pod_starts_with_what_its_workload_needs(room: Room) -> None:
    made = room.admitted(owned("web", "Deployment", sized(limits={"cpu": "1", "memory": "600M"}), sized("proxy")))
    assert resources(made) == {
        "requests": {"cpu": "300m", "memory": mebibytes_above(200 * MB)},
        "limits": {"memory": mebibytes_above(512 * MB)},
    }
    assert resources(made, 1)["requests"] == {"cpu": "50m", "memory": mebibytes_above(80 * MB)}
    originals = json.loads(made["metadata"]["annotations"]["plimsoll.dev/original-resources"])
    assert originals["containers"]["app"]["requests"] == {"cpu": "500m", "memory": "300000000"}
    assert originals["containers"]["app"]["limits"] == {"cpu": "1000m", "memory": "600000000"}
    assert any(
        key.startswith("plimsoll.dev/") and "cruise" in value for key, value in made["metadata"]["annotations"].items()
    )


UNCHANGED: dict[str, Callable[[], Json]] = {
    "recommend": lambda: owned("web", "Deployment", sized(), annotations={}),
    "off": lambda: owned("web", "Deployment", sized(), annotations={"plimsoll.dev/mode": "off"}),
    "a mode that nobody knows": lambda: owned("web", "Deployment", sized(), annotations={"plimsoll.dev/mode": "on"}),
    "an unknown workload": lambda: owned("stranger", "Deployment", sized()),
    "an unknown container": lambda: owned("web", "Deployment", sized("other")),
    "guaranteed": lambda: owned(
        "web", "Deployment", sized(limits={"cpu": "500m", "memory": "300M"}, cpu="500m", memory="300M")
    ),
    "best effort": lambda: owned(
        "web", "Deployment", {"name": "app", "image": "plimsoll.test/none:1", "resources": {}}
    ),
    "nobody's pod": lambda: pod("web-alone", None, sized(), annotations=ENFORCE),
    "a Job's": lambda: owned("web", "Job", sized()),
}


@pytest.mark.parametrize("what", UNCHANGED)
def test_what_is_not_to_be_sized_is_admitted_as_it_is(room: Room, what: str) -> None:
    document = UNCHANGED[what]()
    asked = deepcopy(document)
    made = room.admitted(document)
    assert [one["resources"] for one in made["spec"]["containers"]] == [
        {key: value for key, value in one["resources"].items() if value} for one in asked["spec"]["containers"]
    ]
    assert made["metadata"].get("annotations", {}) == asked["metadata"]["annotations"]


def test_only_requests_that_are_there_are_changed(room: Room) -> None:
    made = room.admitted(owned("web", "Deployment", sized(cpu="500m")))
    assert resources(made) == {"requests": {"cpu": "300m"}}


def test_a_small_change_of_memory_is_not_worth_making(room: Room) -> None:
    made = room.admitted(owned("web", "Deployment", sized(cpu="500m", memory="210M")))
    assert resources(made)["requests"] == {"cpu": "300m", "memory": "210M"}


def test_init_containers_stay_and_sidecars_are_sized(room: Room) -> None:
    plain, sidecar = sized("prepare"), {**sized("proxy"), "restartPolicy": "Always"}
    made = room.admitted(owned("web", "Deployment", sized(), initContainers=[plain, sidecar]))
    assert resources(made, 0, "initContainers")["requests"] == {"cpu": "500m", "memory": "300M"}
    assert resources(made, 1, "initContainers")["requests"] == {"cpu": "50m", "memory": mebibytes_above(80 * MB)}


def test_an_hpa_on_cpu_keeps_the_cpu_request(room: Room) -> None:
    room.cluster.admin.create(
        f"/apis/autoscaling/v2/namespaces/{room.namespace}/horizontalpodautoscalers",
        {
            "metadata": {"name": "scaled"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"},
                "maxReplicas": 5,
                "metrics": [
                    {
                        "type": "ContainerResource",
                        "containerResource": {
                            "name": "cpu",
                            "container": "app",
                            "target": {"type": "Utilization", "averageUtilization": 70},
                        },
                    }
                ],
            },
        },
    )

    def requests() -> Json:
        found: Json = resources(room.admitted(owned("scaled", "Deployment", sized())))["requests"]
        return found

    wait_for(lambda: requests()["cpu"] == "500m", "the webhook has seen the HPA")
    assert requests() == {"cpu": "500m", "memory": mebibytes_above(200 * MB)}


def test_a_pod_of_a_daemon_set_is_sized_by_the_node_that_it_is_bound_for(room: Room) -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [room.node]}]}
                ]
            }
        }
    }
    made = room.admitted(owned("driver", "DaemonSet", sized(), affinity=affinity))
    assert resources(made)["requests"] == {"cpu": "300m", "memory": mebibytes_above(200 * MB)}
    assert any("node" in value for key, value in made["metadata"]["annotations"].items() if "original" not in key)


def test_pod_limits_become_the_pods_own_resources(room: Room) -> None:
    limits = {**ENFORCE, "plimsoll.dev/pod-limits": '{"limits": {"cpu": "2", "memory": "2Gi"}}'}
    made = room.admitted(owned("web", "Deployment", sized(), annotations=limits))
    assert made["spec"]["resources"]["limits"] == {"cpu": "2", "memory": "2Gi"}


def test_pod_limits_that_contradict_themselves_are_refused_with_the_numbers(room: Room) -> None:
    limits = {**ENFORCE, "plimsoll.dev/pod-limits": '{"limits": {"memory": "100Mi"}}'}
    done = room.kubectl(
        "create", "--dry-run=server", "-f", "-", stdin=owned("web", "Deployment", sized(), annotations=limits)
    )
    assert done.returncode != 0
    assert "pod-limits" in done.stderr
    assert "100MiB" in done.stderr
    assert "286.1MiB" in done.stderr  # 300 MB


def test_a_limit_range_that_would_refuse_the_patch_is_minded(room: Room) -> None:
    path = f"/api/v1/namespaces/{room.namespace}/limitranges"
    item = {"type": "Container", "min": {"cpu": "400m"}, "max": {"memory": "400M"}}
    room.cluster.admin.create(path, {"metadata": {"name": "narrow"}, "spec": {"limits": [item]}})
    try:
        document = owned("store", "StatefulSet", sized(limits={"memory": "350M"}))

        def requests() -> Json:
            found: Json = resources(room.admitted(document))
            return found

        # Were it not minded, the API server would refuse the pod: 300m and a limit of 512M are out of its range.
        wait_for(lambda: requests()["requests"]["cpu"] == "400m", "the webhook has seen the range")
        assert requests()["limits"]["memory"] in ("350M", "400M")
    finally:
        room.cluster.admin.delete(f"{path}/narrow")


def test_a_quota_that_would_refuse_the_patch_is_minded(room: Room) -> None:
    path = f"/api/v1/namespaces/{room.namespace}/resourcequotas"
    hard = {"requests.cpu": "10", "limits.memory": "10G"}
    room.cluster.admin.create(path, {"metadata": {"name": "counted"}, "spec": {"hard": hard}})
    try:
        wait_for(
            lambda: room.cluster.admin.get(f"{path}/counted").get("status", {}).get("hard") == hard, "it is in force"
        )
        # It needs a memory limit on every container: one that is there stays.
        document = owned("web", "Deployment", sized(limits={"memory": "600M"}))
        assert "memory" in resources(room.admitted(document))["limits"]
    finally:
        room.cluster.admin.delete(f"{path}/counted")


def created(room: Room) -> Json:
    """Create a pod for good, and take it away again; what was kept."""
    document = owned("web", "Deployment", sized(), pod_name=fresh_name("web"))
    made = room.cluster.admin.create(pod_path(room.namespace), document)
    room.cluster.admin.delete(pod_path(room.namespace, made["metadata"]["name"]))
    return made


def test_pods_are_created_while_the_webhook_sleeps_and_are_sized_after_it(room: Room) -> None:
    assert resources(created(room))["requests"]["cpu"] == "300m"
    room.hook.process.pause()
    try:
        made = created(room)  # after the two seconds of the registration
        assert resources(made)["requests"] == {"cpu": "500m", "memory": "300M"}
    finally:
        room.hook.process.resume()
    wait_for(lambda: resources(created(room))["requests"]["cpu"] == "300m", "it answers again")


def test_pods_are_created_when_the_certificate_is_not_to_be_trusted(room: Room, tmp_path: Path) -> None:
    from tests.cluster.certificates import Authority

    stranger = Authority(tmp_path)
    register(room, stranger.certificate)
    try:
        wait_for(lambda: resources(created(room))["requests"]["cpu"] == "500m", "the webhook is not believed")
    finally:
        register(room)
    wait_for(lambda: resources(created(room))["requests"]["cpu"] == "300m", "it is believed again")


def test_every_answer_was_counted(room: Room) -> None:
    text = room.hook.get("/metrics").body.decode()
    counted = {
        line.split('result="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith("plimsoll_webhook_requests_total{")
    }
    assert counted["patched"] > 5
    assert counted["no_history"] >= 1
    assert counted["excluded"] >= 3
    assert counted["denied"] == 1
    assert counted["error"] == 0
