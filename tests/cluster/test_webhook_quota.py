"""A Deployment's pods under a ResourceQuota, and nodes of several versions: real API server, controllers and webhook.

The ReplicaSet controller makes the pods, the API server asks the webhook about each over TLS, and counts them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.numbers.bucket_scheme import BucketScheme
from agent.core.numbers.quantity import parse_quantity
from agent.kube.watch.reflector import WatchPace
from agent.webhook.cluster.facts import ClusterFacts
from tests.cluster import chart
from tests.cluster.api import MERGE, ApiError, Json, kubeconfig
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import (
    create_namespace,
    create_service_account,
    fresh_name,
    node_bound_token,
    remove_namespace,
)
from tests.cluster.objects import (
    container,
    create_node,
    node,
    node_info,
    pod,
    pod_path,
    running_status,
    write_node_status,
    write_pod_status,
)
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
from tests.cluster.webhook_rights import CLUSTER_RULES, own_rules, webhook_api
from tests.webhook.report_bodies import report_body, row_body

pytestmark = pytest.mark.cluster

GI = 1 << 30
USED_BYTES = 3 * GI // 2
"""What every pod has used: half as much again as it states."""
ENFORCE = {"plimsoll.dev/mode": "enforce"}
QUICK = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.05, longest_wait_seconds=0.3)


@dataclass
class Shop:
    """A namespace with a Deployment ``web`` of one pod, which the webhook knows and is asked about."""

    cluster: ControlPlane
    hook: WebhookProcess
    namespace: str
    node: str
    token: str
    """Of the node's agent, the same each time: of one bearer sixty new ones a minute are taken."""
    sequence: int = 0

    def deploy(self) -> None:
        template = {
            "metadata": {"labels": {"app": "web"}, "annotations": ENFORCE},
            "spec": pod("web", self.node)["spec"],
        }
        template["spec"]["containers"] = [container(requests={"cpu": "100m", "memory": "1Gi"})]
        spec: Json = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        self.cluster.admin.create(path, {"metadata": {"name": "web"}, "spec": spec})
        wait_for(lambda: len(self.pods()) == 1, "its first pod")

    def scale(self, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/web"
        self.cluster.admin.patch(path, {"spec": {"replicas": replicas}}, MERGE)

    def pods(self) -> list[Json]:
        pods: list[Json] = self.cluster.admin.get(pod_path(self.namespace))["items"]
        return pods

    def memory_requests(self) -> list[int]:
        """Return what the pods request, by size, in bytes."""
        texts = [live_pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for live_pod in self.pods()]
        return sorted(parse_quantity(text) // 10**9 for text in texts)

    def run_all(self) -> None:
        """Play the kubelet for pods that are not running yet."""
        for live_pod in self.pods():
            if live_pod["status"].get("phase") != "Running":
                write_pod_status(
                    self.cluster.admin, self.namespace, live_pod["metadata"]["name"], running_status(live_pod)
                )

    def report(self, *, age_seconds: float) -> Any:
        """Tell of five minutes of the first pod; what was refused."""
        metadata = self.pods()[0]["metadata"]
        row = row_body(
            namespace=self.namespace,
            pod=metadata["name"],
            podUid=metadata["uid"],
            cpu=steady(CPU_BUCKETS, 100.0),
            cpuAdjusted=steady(CPU_BUCKETS, 100.0),
            memory=steady(MEMORY_BUCKETS, float(USED_BYTES)),
            oomKills=[],
        )
        self.sequence += 1
        body = report_body(row, node=self.node, sequence=self.sequence, endAgeSeconds=age_seconds)
        body["nodeClass"] = {"instanceType": None, "cpus": 4}
        reply = self.hook.post("/v1/report", body, self.token)
        if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return [reply.body]  # the API server has not said yet whose the token is
        return answer_of(reply)["refused"]

    def tried(self, *beside: Json) -> int:
        """Return the memory that one more pod would request, in bytes; it is not kept.

        Args:
            beside: Further containers of that pod, of which nothing is known.
        """
        first = self.pods()[0]
        metadata = {key: first["metadata"][key] for key in ("labels", "ownerReferences")}
        own = container(requests={"cpu": "100m", "memory": "1Gi"})
        document = pod(fresh_name("web"), self.node, own, *beside)
        document["metadata"] |= metadata | {"annotations": ENFORCE}
        new_pod = self.cluster.admin.create(pod_path(self.namespace), document, dryRun="All")
        text = new_pod["spec"]["containers"][0]["resources"]["requests"]["memory"]
        return parse_quantity(text) // 10**9

    def would_get(self, *beside: Json) -> int | None:
        """Return what ``tried`` does; None = the API server refuses the pod for the quota."""
        try:
            return self.tried(*beside)
        except ApiError as error:
            if "exceeded quota" not in error.message:
                raise
            return None

    def limit(self, memory: str) -> None:
        """Put the namespace under a quota, and wait until the controller has counted."""
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        # It counts the pods that the controllers have seen, and of one that came before the quota it never hears again.
        wait_for(lambda: self.replicas_seen() == len(self.pods()), "the controllers have seen all pods")
        hard = {"requests.memory": memory}
        self.cluster.admin.create(path, {"metadata": {"name": "counted"}, "spec": {"hard": hard}})

        def is_counted() -> bool:
            status = self.cluster.admin.get(f"{path}/counted").get("status", {})
            used = status.get("used", {}).get("requests.memory")
            return status.get("hard") == hard and used is not None and parse_quantity(used) > 0

        wait_for(is_counted, "the quota is counted")

    def replicas_seen(self) -> int:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/web"
        return int(self.cluster.admin.get(path).get("status", {}).get("replicas", 0))

    def is_known(self) -> bool:
        """Return whether API server and webhook both know the quota; each has it by a watch of its own.

        The one refuses a pod that takes more than is left; by the other one that takes all that is left cannot grow.
        """
        status = self.cluster.admin.get(f"/api/v1/namespaces/{self.namespace}/resourcequotas/counted")["status"]
        hard, used = (parse_quantity(status[key]["requests.memory"]) // 10**9 for key in ("hard", "used"))
        too_much, all_of_it = (container("other", requests={"memory": str(hard - used - more)}) for more in (0, GI))
        return self.would_get(too_much) is None and self.would_get(all_of_it) == GI

    def lift(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas/counted"
        if self.cluster.admin.exists(path):
            self.cluster.admin.delete(path)

    def sum_used(self) -> int:
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas/counted"
        return parse_quantity(self.cluster.admin.get(path)["status"]["used"]["requests.memory"]) // 10**9


def steady(scheme: BucketScheme, amount: float) -> Json:
    """Return samples that are all the same."""
    (bucket,) = scheme.find(np.array([amount])).tolist()
    return {"count": 30, "sum": 30 * amount, "max": amount, "buckets": [bucket, 30]}


@pytest.fixture
def shop(cluster: ControlPlane, tmp_path: Path) -> Iterator[Shop]:
    """A webhook with the chart's rights, registered for one namespace, that has learnt what its Deployment needs."""
    if not cluster.admin.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        create_namespace(cluster, NAMESPACE)
    if not cluster.admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-agent"):
        create_service_account(cluster, NAMESPACE, "plimsoll-agent")
    cluster.admin.apply_all(chart.parts(*chart.WEBHOOK))
    identity = cluster.api_with_token(node_bound_token(cluster, NAMESPACE, "plimsoll-webhook", None))
    namespace, name = fresh_name("quota"), fresh_name("node")
    create_namespace(cluster, namespace)
    create_node(cluster.admin, name)
    own = kubeconfig(identity, tmp_path / "webhook.kubeconfig")
    with webhook(cluster, tmp_path, kubeconfig=own, arguments=(UNBOUNDED,)) as hook:
        web_shop = Shop(cluster, hook, namespace, name, agent_token(cluster, name))
        web_shop.deploy()
        web_shop.run_all()
        wait_for(lambda: not web_shop.report(age_seconds=7200.0), "the webhook knows the pod")
        wait_for(lambda: not web_shop.report(age_seconds=30.0), "what it uses now is taken")
        cluster.admin.apply(registration(hook.port, namespace, cluster.authority, seconds=10))
        wait_for(lambda: web_shop.tried() == USED_BYTES, "the webhook has taken the history in, and is asked")
        yield web_shop
    cluster.admin.delete(f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace}")
    remove_namespace(cluster, namespace)
    cluster.admin.delete(f"/api/v1/nodes/{name}")


def test_ten_pods_that_fill_a_quota_are_all_created(shop: Shop) -> None:
    shop.limit("10Gi")
    wait_for(shop.is_known, "the webhook knows the quota")
    shop.scale(10)
    wait_for(lambda: len(shop.pods()) == 10, "all ten pods")
    assert shop.memory_requests() == [GI] * 10
    assert shop.sum_used() == 10 * GI


def test_ten_pods_with_some_room_grow_as_far_as_all_ten_are_created(shop: Shop) -> None:
    # 1 GiB is used, and with the next pod of 1.5 there is room for 10 more. By half a GiB may grow who comes while that
    # holds: one at least, and four if the quota shows none of them in time.
    shop.limit("14Gi")
    wait_for(shop.is_known, "the webhook knows the quota")
    assert shop.tried() == USED_BYTES
    shop.scale(10)
    wait_for(lambda: len(shop.pods()) == 10, "all ten pods")
    grown = shop.memory_requests().count(USED_BYTES)
    assert 1 <= grown <= 4
    assert shop.memory_requests() == [GI] * (10 - grown) + [USED_BYTES] * grown


def test_a_pod_grows_where_a_quota_has_much_room_and_stays_where_it_has_its_own_only(shop: Shop) -> None:
    shop.limit("40Gi")
    wait_for(shop.is_known, "the webhook knows the roomy quota")
    shop.scale(2)
    wait_for(lambda: len(shop.pods()) == 2, "one more pod")
    assert shop.memory_requests() == [GI, USED_BYTES]
    shop.lift()
    shop.limit("4Gi")  # 2.5 used: 1.5 would fit, and nothing after it
    wait_for(lambda: shop.tried() == GI, "the webhook knows the narrow quota")
    shop.scale(3)
    wait_for(lambda: len(shop.pods()) == 3, "one more pod")
    assert shop.memory_requests() == [GI, GI, USED_BYTES]


def test_room_is_kept_for_as_many_pods_as_run(shop: Shop) -> None:
    shop.scale(14)
    wait_for(lambda: len(shop.pods()) == 14, "fourteen pods")
    used = sum(shop.memory_requests())
    assert used == GI + 13 * USED_BYTES
    # One of 1.5 GiB and 12 of 1 GiB: enough for ten, and not for the fourteen that run.
    shop.limit(str(used + USED_BYTES + 12 * GI))
    wait_for(shop.is_known, "the webhook knows the quota")
    assert shop.tried() == USED_BYTES
    shop.run_all()
    wait_for(lambda: shop.tried() == GI, "the webhook has seen them run")


# -- nodes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def facts(cluster: ControlPlane, namespace: str) -> Iterator[ClusterFacts]:
    api = webhook_api(cluster, namespace, everywhere=CLUSTER_RULES, own=own_rules())
    cluster_facts = ClusterFacts(api, namespace=namespace, pace=QUICK)
    cluster_facts.start()
    try:
        wait_for(lambda: cluster_facts.is_complete, "everything has been listed")
        yield cluster_facts
    finally:
        cluster_facts.stop()


@pytest.fixture
def nodes(cluster: ControlPlane) -> Iterator[list[str]]:
    names = [fresh_name("node") for _ in range(3)]
    yield names
    for name in names:
        if cluster.admin.exists(f"/api/v1/nodes/{name}"):
            cluster.admin.delete(f"/api/v1/nodes/{name}")


def test_pods_have_own_resources_only_where_every_node_is_new_enough(
    cluster: ControlPlane, facts: ClusterFacts, nodes: list[str]
) -> None:
    if parse_minor(cluster.version) < 34:
        pytest.skip(f"an API server of {cluster.version} drops spec.resources, whatever its nodes are")
    new, old, windows = nodes
    if not facts.node_count():
        assert not facts.knows_pod_level_resources()
    create_node(cluster.admin, new, kubelet_version="v1.34.0")
    wait_for(facts.knows_pod_level_resources, "the new node")
    create_node(cluster.admin, old, kubelet_version="v1.33.9")
    wait_for(lambda: not facts.knows_pod_level_resources(), "the old node")
    write_node_status(cluster.admin, old, {"nodeInfo": node_info("v1.34.2")})
    wait_for(facts.knows_pod_level_resources, "its kubelet was replaced")
    write_node_status(cluster.admin, old, {"nodeInfo": node_info("v1.33.9")})
    wait_for(lambda: not facts.knows_pod_level_resources(), "its kubelet was put back")
    cluster.admin.delete(f"/api/v1/nodes/{old}")
    wait_for(facts.knows_pod_level_resources, "the old node is gone")
    # A node that has said nothing of its version yet may be of any; one with Windows gets no such pods.
    cluster.admin.create("/api/v1/nodes", node(windows))
    wait_for(lambda: not facts.knows_pod_level_resources(), "a node without a version")
    write_node_status(cluster.admin, windows, {"nodeInfo": {**node_info("v1.33.9"), "operatingSystem": "windows"}})
    wait_for(facts.knows_pod_level_resources, "it is one with Windows")


def parse_minor(version: str) -> int:
    return int(version.split(".")[1])


def test_pod_limits_are_left_to_the_agents_as_long_as_a_node_is_old(shop: Shop, nodes: list[str]) -> None:
    if parse_minor(shop.cluster.version) < 34:
        pytest.skip(f"an API server of {shop.cluster.version} drops spec.resources")
    admin = shop.cluster.admin

    def own() -> Any:
        document = pod(fresh_name("web"), None, container(requests={"cpu": "100m", "memory": "1Gi"}))
        document["metadata"]["annotations"] = {**ENFORCE, "plimsoll.dev/pod-limits": '{"limits": {"cpu": "2"}}'}
        return admin.create(pod_path(shop.namespace), document, dryRun="All")["spec"].get("resources", {}).get("limits")

    assert own() == {"cpu": "2"}
    create_node(admin, nodes[0], kubelet_version="v1.33.9")
    wait_for(lambda: own() is None, "the webhook has seen the old node")
    write_node_status(admin, nodes[0], {"nodeInfo": node_info("v1.34.0")})
    wait_for(lambda: own() == {"cpu": "2"}, "its kubelet was replaced")
