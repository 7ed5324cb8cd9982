"""Karpenter between pods that grow when they are made again: with our VPA status it foresees that, without it it loops.

Such pods are what a start-up boost makes, and any workload whose running pods are smaller than its history says: the
webhook makes a pod with 1.2 cores, and in place it shrinks to 0.4 later, which the test does for the agent. By what
runs, two nodes are one too many; by what would run after a node went, they are not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from tests.cluster import chart
from tests.cluster.admission_room import BY_CRUISE, ENFORCE, MB, steady
from tests.cluster.api import Json, kubeconfig
from tests.cluster.binaries import KUBERNETES
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.identities import create_namespace, create_service_account, fresh_name, node_bound_token
from tests.cluster.objects import pod_path, resize, resize_body
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import NAMESPACE, WebhookProcess, agent_token, answer_of, registration, webhook
from tests.scale.karpenter import (
    CLAIMS,
    SECONDS,
    await_nodes,
    await_or_tell,
    bound,
    install,
    is_consolidatable,
    karpenter,
    kubelets,
    nodes,
    remove_all,
    standing,
    why_kept,
)
from tests.webhook.report_bodies import report_body, row_body

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CRD_FILE = Path(__file__).parents[1] / "data" / "vpa" / "vpa-v1-crd-gen.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REPLICAS = 6
SMALL, LARGE = "400m", "1200m"
"""Of all pods the first fits one node of 4 CPUs; of the second three do."""
USED_MILLICORES = 1200.0
ROUNDS = 3
"""So often a node goes and another comes before it is called a loop."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    version = os.environ.get("PLIMSOLL_KUBERNETES", KUBERNETES)
    directory = tmp_path_factory.mktemp("karpenter-vpa")
    with control_plane(version, directory=directory, with_scheduler=True, controllers="*") as one:
        for each in yaml.safe_load_all(CRD_FILE.read_text()):
            if each:
                one.admin.create(CRDS, each)
        install(one)
        create_namespace(one, NAMESPACE)
        create_service_account(one, NAMESPACE, "plimsoll-agent")
        one.admin.apply_all(chart.parts(*chart.WEBHOOK))
        with kubelets(one):
            yield one


@dataclass(kw_only=True)
class Shop:
    """A Deployment whose pods a webhook makes large, and which shrink in place once they run."""

    plane: ControlPlane
    namespace: str
    hook: WebhookProcess
    sequence: int = 0
    seen: set[str] = field(default_factory=set)
    """Nodes that were there at some time."""

    def pods(self) -> list[Json]:
        found: list[Json] = self.plane.admin.items(pod_path(self.namespace), labelSelector="app=web")
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    def requested(self) -> list[str]:
        return sorted(one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in self.pods())

    def deploy(self) -> None:
        container = {
            "name": "app",
            "image": "plimsoll.test/none:1",
            "resources": {"requests": {"cpu": SMALL, "memory": "64Mi"}},
        }
        template = {"metadata": {"labels": {"app": "web"}, "annotations": ENFORCE}, "spec": {"containers": [container]}}
        spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        self.plane.admin.create(path, {"metadata": {"name": "web"}, "spec": spec})

    def report(self) -> bool:
        """Tell of five minutes of each pod, of two hours ago and of now; return whether all of it was taken."""
        taken = True
        for age_seconds in (7200.0, 30.0):
            self.sequence += 1
            for node in sorted({one["spec"]["nodeName"] for one in self.pods()}):
                rows = [self._row(one) for one in self.pods() if one["spec"]["nodeName"] == node]
                body = report_body(*rows, node=node, sequence=self.sequence, endAgeSeconds=age_seconds)
                answer = answer_of(self.hook.post("/v1/report", body, agent_token(self.plane, node)))
                taken = taken and not answer["refused"]
        return taken

    def _row(self, one: Json) -> Json:
        cpu, memory = steady(CPU_BUCKETS, USED_MILLICORES), steady(MEMORY_BUCKETS, 48.0 * MB)
        return row_body(
            namespace=self.namespace,
            workload="web",
            pod=one["metadata"]["name"],
            podUid=one["metadata"]["uid"],
            cpu=cpu,
            cpuAdjusted=cpu,
            memory=memory,
            oomKills=[],
        )

    def shrink(self) -> None:
        """Do what the agents would: what runs at its large size becomes small in place."""
        self.seen |= nodes(self.plane)
        for one in self.pods():
            is_large = one["spec"]["containers"][0]["resources"]["requests"]["cpu"] != SMALL
            if is_large and one["status"].get("phase") == "Running":
                body = resize_body(app={"requests": {"cpu": SMALL}})
                with contextlib.suppress(Exception):  # it went meanwhile
                    resize(self.plane.admin, self.namespace, one["metadata"]["name"], body)

    def is_at_rest(self) -> bool:
        """Return whether all pods run, and all are small."""
        self.shrink()
        has_node = len(bound(self.plane, self.namespace, "app=web")) == REPLICAS
        return has_node and self.requested() == [SMALL] * REPLICAS

    def unscheduled(self) -> int:
        """Return how many pods were without a node for a time."""
        found = self.plane.admin.items(f"/api/v1/namespaces/{self.namespace}/events")
        return len({one["involvedObject"]["name"] for one in found if one["reason"] == "FailedScheduling"})


@contextlib.contextmanager
def shop(plane: ControlPlane, folder: Path, publish: str) -> Iterator[Shop]:
    """Run the webhook in a namespace of its own; at the end no node and no pod is left."""
    namespace = fresh_name("shop")
    create_namespace(plane, namespace)
    identity = plane.api_with_token(node_bound_token(plane, NAMESPACE, "plimsoll-webhook", None))
    own = kubeconfig(identity, folder / "webhook.kubeconfig")
    on: dict[str, Any] = {"webhook": {"vpa": {"enabled": True, "publish": publish}}}
    for one in chart.rendered(on)["webhook/rights-vpas"]:
        plane.admin.apply(one)
    arguments = (BY_CRUISE, "--set=vpaObjects.enabled=true", f"--set=vpaObjects.publish={publish}")
    with webhook(plane, folder, kubeconfig=own, arguments=arguments) as hook:
        made = Shop(plane=plane, namespace=namespace, hook=hook)
        try:
            yield made
        finally:
            plane.admin.delete(f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace}")
            plane.admin.delete(f"/api/v1/namespaces/{namespace}")
            wait_for(lambda: not plane.admin.items(pod_path(namespace)), "its pods are gone", SECONDS)
            remove_all(plane)


def grow(made: Shop) -> None:
    """Bring it to where each pod was made large and is small now, on two nodes; Karpenter is not running then."""
    made.deploy()
    with karpenter(made.plane, buffers=False):
        await_nodes(made.plane, 1)
        await_or_tell(made.is_at_rest, "all run as written", lambda: (standing(made.plane), made.requested()))
        wait_for(made.report, "the webhook knows them, and takes what is told")
        made.plane.admin.apply(registration(made.hook.port, made.namespace, made.plane.authority))
        restart(made)
        await_nodes(made.plane, 2)
        await_or_tell(
            lambda: len(bound(made.plane, made.namespace, "app=web")) == REPLICAS and made.requested()[0] == LARGE,
            "all were made large, on two nodes",
            lambda: (standing(made.plane), made.requested()),
        )


def restart(made: Shop) -> None:
    """Make every pod again."""
    for one in made.pods():
        made.plane.admin.delete(f"{pod_path(made.namespace)}/{one['metadata']['name']}")


def forget_events(plane: ControlPlane) -> None:
    """Take away what was said of nodes so far: what is there later was said later."""
    for one in plane.admin.items("/api/v1/events", fieldSelector="involvedObject.kind=Node"):
        where = one["metadata"]
        plane.admin.delete(f"/api/v1/namespaces/{where['namespace']}/events/{where['name']}")


def test_without_a_status_it_takes_a_node_away_again_and_again(plane: ControlPlane, tmp_path: Path) -> None:
    with shop(plane, tmp_path, "off") as made:
        grow(made)
        wait_for(made.is_at_rest, "all are small", SECONDS)
        first = nodes(plane)
        made.seen = set(first)
        with karpenter(plane, buffers=False):
            for turn in range(1, ROUNDS + 1):

                def has_come_round(turn: int = turn) -> bool:
                    return made.is_at_rest() and len(made.seen) >= len(first) + turn and len(nodes(plane)) == 2

                await_or_tell(
                    has_come_round,
                    f"round {turn}: a node went, another came, and all pods are small again",
                    lambda: (standing(plane), made.seen, made.requested()),
                    3 * SECONDS,
                )
        print(f"without a status: {len(made.seen)} nodes made for 2, {made.unscheduled()} pods waited for one")
        assert made.unscheduled() >= ROUNDS


def test_with_our_status_it_leaves_both_nodes(plane: ControlPlane, tmp_path: Path) -> None:
    with shop(plane, tmp_path, "enforced") as made:
        grow(made)
        objects = f"/apis/autoscaling.k8s.io/v1/namespaces/{made.namespace}/verticalpodautoscalers"

        def targets() -> list[str]:
            return [
                one["target"]["cpu"]
                for each in plane.admin.items(objects)
                for one in each.get("status", {}).get("recommendation", {}).get("containerRecommendations", [])
            ]

        await_or_tell(lambda: targets() == [LARGE], "the object tells what a new pod requests", targets, 2 * SECONDS)
        wait_for(made.is_at_rest, "all are small", SECONDS)
        first, waited = nodes(plane), made.unscheduled()
        forget_events(plane)
        with karpenter(plane, buffers=False):
            await_or_tell(
                lambda: all(is_consolidatable(plane, one) and why_kept(plane, one) for one in first),
                "it looked at both nodes and left them",
                lambda: (standing(plane), {one: why_kept(plane, one) for one in first}),
                3 * SECONDS,
            )
            print(f"with our status: {[sorted(why_kept(plane, one)) for one in sorted(first)]}")
            assert made.is_at_rest()
            assert nodes(plane) == first
            assert made.unscheduled() == waited
            assert len(plane.admin.items(CLAIMS)) == len(first)
