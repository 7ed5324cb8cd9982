"""Nodes whose agents have to live through a whole minute: what falls, who is proposed, what is reported comes after it.

Their agents are begun together, and where one worker runs all tests, before its first one: the minute passes meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode, fresh_node
from tests.cluster.api import Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, create_service_account, fresh_name, remove_namespace
from tests.cluster.webhook_process import NAMESPACE, WebhookProcess, agent_token, webhook
from tests.kernel.cgroups import cgroup2_mount

UNHURRIED: Final[dict[str, Any]] = {"plan__replanSeconds": 0.5, "evaluateIntervalSeconds": 0.5}
"""For agents that run beside other tests."""
LARGE: Final = {"cpu": "400m", "memory": "64Mi"}
WHOLE: Final = {"cpu": "350m", "memory": "64Mi"}
OTHER_NAMESPACES: Final = ("excluded", "recommended")

ODD_AMOUNTS: Final = ("4e-1", "+.4", "400000u", "399999999n", "0.4000000001")
"""About 400m, as nobody writes it but the API takes it."""


def large(name: str = "app", **resources: object) -> Json:
    """A container that asks for far more CPU than it uses."""
    return objects.container(name, **{"requests": LARGE, **resources})


def restarting(name: str = "app") -> Json:
    """The same, restarted when its CPU changes."""
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    return {**large(name), "resizePolicy": policy}


IS_MEMORY_MEASURED = (MOUNT := cgroup2_mount()) is not None and "memory" in (
    MOUNT / "cgroup.controllers"
).read_text().split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporting:
    """A node whose agent reports to a webhook of its own."""

    node: ActingNode
    hook: WebhookProcess


class FirstMinutes:
    """The agents, begun; whoever takes one ends it."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._ends = contextlib.ExitStack()
        with contextlib.ExitStack() as begun:
            self.of_every_kind = begun.enter_context(node_of_every_kind(plane, directory / "kinds"))
            self.too_small = begun.enter_context(node_too_small(plane, directory / "small"))
            self.reporting = begun.enter_context(node_that_reports(plane, directory / "reporting"))
            self._ends = begun.pop_all()

    def close(self) -> None:
        """End them."""
        self._ends.close()


@contextlib.contextmanager
def node_of_every_kind(plane: ControlPlane, directory: Path) -> Iterator[ActingNode]:
    """A node with pods of every kind, one of them pinned."""
    others = {what: fresh_name(what) for what in OTHER_NAMESPACES}
    create_namespace(plane, others["excluded"])
    create_namespace(plane, others["recommended"], {"plimsoll.dev/mode": "recommend"})
    directory.mkdir()
    with fresh_node(plane, directory, cpu="32", memory="8Gi") as node:
        populate(node, others)
        node.start_agent(act__excludedNamespaces=f"kube-system,plimsoll,{others['excluded']}", **UNHURRIED)
        node.wait(lambda: node.ask("plan")["pods"], "the plan knows the pods")
        node.ask("pin", name="pinned")
        yield node
    for namespace in others.values():
        remove_namespace(plane, namespace)


def populate(node: ActingNode, others: dict[str, str]) -> None:
    """Run pods of every kind, some in other namespaces."""
    node.run_pod("web", large())
    node.run_pod("near", objects.container(requests={"cpu": "10m", "memory": "64Mi"}))
    node.run_pod("floor", large(), orders={"min-cpu": "300m"})
    node.run_pod("ceiling", large(), orders={"max-cpu": "200m", "min-cpu": "200m"})
    node.run_pod("vpa", large(), orders={"policy": "vpa"})
    node.run_pod("crane", large(), orders={"policy": "crane"})
    node.run_pod("limited", large(limits={"cpu": "600m", "memory": "128Mi"}))
    node.run_pod("off", large(), orders={"mode": "off"})
    node.run_pod("recommended", large(), orders={"mode": "recommend"})
    node.run_pod("pinned", large())
    node.run_pod("malformed", large(), orders={"min-cpu": "lots"})
    node.run_pod("of-excluded", large(), namespace=others["excluded"])
    node.run_pod("of-recommended", large(), namespace=others["recommended"])
    sidecar = {**large("proxy"), "restartPolicy": "Always"}
    node.run_pod("meshed", large(), initContainers=[sidecar])
    node.run_pod("prepared", large(), initContainers=[large("init")])
    node.run_pod("restarting", restarting())
    node.run_pod("may-restart", restarting(), orders={"allow-restart": "true"})
    node.run_pod("guaranteed", objects.container(requests=WHOLE, limits=WHOLE))
    node.run_pod("may-be-sized", objects.container(requests=WHOLE, limits=WHOLE), orders={"guaranteed": "true"})
    node.run_pod("best-effort", objects.container())
    node.run_pod("bare", large(), owner=None)
    run_mirror(node, "mirror")
    run_job(node, "job")
    if node.plane.version.startswith("1.37."):
        resources = {"requests": {"cpu": "900m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}
        node.run_pod("budgeted", objects.container(), objects.container("second"), resources=resources)
    node.run_pod("least-of-nothing", large(), orders={"min-cpu": "0", "min-memory": "0"})
    for index, amount in enumerate(ODD_AMOUNTS):
        node.run_pod(f"odd-{index}", objects.container(requests={"cpu": amount, "memory": "64Mi"}))


def run_mirror(node: ActingNode, name: str) -> None:
    """Run what stands for a static pod."""
    machine = node.plane.admin.get(f"/api/v1/nodes/{node.name}")
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": machine["metadata"]["uid"]}
    marks = {f"kubernetes.io/config.{key}": "0123456789abcdef0123456789abcdef" for key in ("mirror", "hash", "source")}
    node.run_pod(name, large(), owner=owner | {"controller": True}, annotations=marks)


def run_job(node: ActingNode, name: str) -> None:
    """Run a Job, whose pod the cluster names."""
    template = objects.pod(name, node.name, large(), restartPolicy="Never")
    jobs = f"/apis/batch/v1/namespaces/{node.namespace}/jobs"
    node.plane.admin.create(
        jobs, {"metadata": {"name": name}, "spec": {"template": {"spec": template["spec"]}, "backoffLimit": 0}}
    )
    pods = f"/api/v1/namespaces/{node.namespace}/pods"
    selector = {"labelSelector": f"batch.kubernetes.io/job-name={name}"}
    node.wait(lambda: node.plane.admin.items(pods, **selector), "the job has a pod")
    [pod] = node.plane.admin.items(pods, **selector)
    node.inhabit(pod["metadata"]["name"])


@contextlib.contextmanager
def node_too_small(plane: ControlPlane, directory: Path) -> Iterator[ActingNode]:
    """A node that is too small for its pods."""
    directory.mkdir()
    with fresh_node(plane, directory) as node:
        # Where memory is not applied nobody needs to foretell it: the machine may not even measure it.
        make_too_small(node, plan__memoryApplied=IS_MEMORY_MEASURED, **UNHURRIED)
        yield node


def make_too_small(node: ActingNode, **settings: object) -> None:
    """Run pods that need more than the node has left beside one that nobody may touch, and start the agent."""
    large = objects.container(requests={"cpu": "400m"})
    needed = {"min-cpu": "450m"}
    node.run_pod("first", large, orders=needed)
    node.run_pod("second", large, orders=needed | {"eviction-ranking": "high"})
    node.run_pod("kept", large, orders=needed | {"eviction-ranking": "no-eviction"})
    node.run_pod("bare", large, owner=None)
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "1400m"}})
    node.start_agent(**settings)


@contextlib.contextmanager
def node_that_reports(plane: ControlPlane, directory: Path) -> Iterator[Reporting]:
    """A node with a pod that would grow and has an HPA, whose agent reports each minute to a webhook of its own."""
    if not plane.admin.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        create_namespace(plane, NAMESPACE)
    if not plane.admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-agent"):
        create_service_account(plane, NAMESPACE, "plimsoll-agent")
    folder = directory / "webhook"
    folder.mkdir(parents=True)
    with fresh_node(plane, directory) as node, webhook(plane, folder) as hook:
        scalers = f"/apis/autoscaling/v2/namespaces/{node.namespace}/horizontalpodautoscalers"
        plane.admin.create(scalers, autoscaler(node.namespace))
        node.run_wanting("web")
        token = directory / "token"
        token.write_text(agent_token(plane, node.name))
        node.start_agent(
            report__url=f"https://127.0.0.1:{hook.port}",
            report__tokenFile=token,
            report__caFile=plane.authority,
            report__intervalSeconds=60,
            **UNHURRIED,
        )
        yield Reporting(node=node, hook=hook)


def autoscaler(namespace: str) -> Json:
    """An HPA of the Rollout ``web`` that divides by CPU requests."""
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    return {
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"},
            "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": resource}],
        },
    }
