"""Who makes room for a deferred resize where the scheduler may (KEP-5836): a real 1.37 with the gate on, and off.

No kubelet is here: the tests write what one would report. The scheduler is the real one, and preempts by itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from agent.cli.main import main
from agent.core.cluster.node import NodeState
from agent.core.plan.room_maker import PREEMPTION_DISABLED
from agent.kube.objects.pod_json import node_from_json, pods_from_json
from agent.node.reports.proposer import unless_scheduler_makes_room
from tests.cluster import objects
from tests.cluster.api import MERGE, Json
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.identities import create_namespace
from tests.cluster.processes import wait_for
from tests.cluster.resizing import wait_resizable

pytestmark = pytest.mark.cluster

GATE: Final = "--feature-gates=InPlacePodVerticalScalingSchedulerPreemption=true"
OWNER: Final = "example.com/owner"


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """API server and scheduler with the gate on."""
    with control_plane(
        directory=tmp_path_factory.mktemp("gated"),
        with_scheduler=True,
        with_controllers=False,
        audit=False,
        apiserver_arguments=[GATE],
        scheduler_arguments=[GATE],
    ) as plane:
        create_namespace(plane, "shop")
        vital = {"metadata": {"name": "vital"}, "value": 1000}
        plane.admin.create("/apis/scheduling.k8s.io/v1/priorityclasses", vital)
        yield plane


class FullNode:
    """A node of two cores: ``vital`` asks for 1500m there beside the 1000m of ``low``, and waits."""

    def __init__(
        self, plane: ControlPlane, name: str, *, namespace: str = "shop", owners: tuple[str, ...] = ()
    ) -> None:
        self.plane, self.name, self.namespace = plane, name, namespace
        self.vital, self.low = f"vital-{name}", f"low-{name}"
        objects.create_node(plane.admin, name, cpu="2")
        if owners:
            self.disable(*owners)

    @property
    def path(self) -> str:
        return f"/api/v1/nodes/{self.name}"

    def disable(self, *owners: str) -> None:
        """Write down whose wish it is that nobody is preempted here for a resize; none = nobody's."""
        policy = {"disableResizePreemption": list(owners)} if owners else None
        self.plane.admin.patch(self.path, {"spec": {"podPreemptionPolicy": policy}}, MERGE)

    def run(self, name: str, cpu: str, **spec: Any) -> None:
        app = objects.container(requests={"cpu": cpu, "memory": "64Mi"})
        more: dict[str, Any] = {"terminationGracePeriodSeconds": 30, **spec}
        pod = self.plane.admin.create(objects.pod_path(self.namespace), objects.pod(name, self.name, app, **more))
        status = objects.running_status(pod)
        objects.write_pod_status(self.plane.admin, self.namespace, name, status, pod=pod)

    def defer(self, *conditions: Json, **spec: Any) -> None:
        """Run both, have the one ask for more than there is, and say of it what a kubelet says."""
        self.run(self.low, "1000m")
        self.run(self.vital, "500m", **spec)
        admin = self.plane.admin
        wait_resizable(self.plane, self.namespace, self.vital, cpu="1500m")
        asked = objects.resize(
            admin, self.namespace, self.vital, objects.resize_body(app={"requests": {"cpu": "1500m"}})
        )
        pod_conditions = [objects.deferred(asked["metadata"]["generation"]), *conditions]
        objects.write_pod_status(admin, self.namespace, self.vital, {"conditions": pod_conditions}, pod=asked)

    def pods(self) -> Json:
        listed = self.plane.admin.get("/api/v1/pods", fieldSelector=f"spec.nodeName={self.name}")
        return {**listed, "kind": "List", "items": [{"kind": "Pod", **pod} for pod in listed["items"]]}

    def is_preempted(self) -> bool:
        """Return whether the scheduler has begun to take the other pod away."""
        pod = self.plane.admin.get(objects.pod_path(self.namespace, self.low))
        reasons = {
            condition.get("reason")
            for condition in pod["status"]["conditions"]
            if condition["type"] == "DisruptionTarget"
        }
        assert reasons <= {"PreemptionByScheduler"}
        return bool(reasons and "deletionTimestamp" in pod["metadata"])

    def held(self, later_seconds: float = 0.0) -> str | None:
        """Return why the agent proposes no eviction; None = it may."""
        node, pods = node_from_json(self.plane.admin.get(self.path)), pods_from_json(self.pods())
        state = NodeState(node=node, pods=pods, server_version=f"v{self.plane.version}")
        return unless_scheduler_makes_room(lambda: None, lambda: state, lambda: time.time() + later_seconds)()

    def plan_notes(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
        """Return what ``plimsoll plan`` notes of what kubectl would print now."""
        files = {"--pods": self.pods(), "--node-file": self.plane.admin.get(self.path)}
        words = []
        for option, document in files.items():
            file = folder / f"{option[2:]}.json"
            file.write_text(json.dumps(document))
            words += [option, str(file)]
        assert main(["plan", *words, "-o", "json"]) == 0
        return "\n".join(json.loads(capsys.readouterr().out)["notes"])


def test_the_scheduler_makes_room_and_nobody_is_evicted_beside(
    gated: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler = gated.processes()["kube-scheduler"]
    scheduler.pause()
    try:
        node = FullNode(gated, "node-a")
        node.defer(priorityClassName="vital")
        assert "the scheduler may make it for another" in (node.held() or "")
        assert "no eviction is proposed until then" in node.plan_notes(tmp_path, capsys)
        # It has not done anything for a minute: now it is for evictions.
        assert node.held(later_seconds=61.0) is None
    finally:
        scheduler.resume()
    wait_for(node.is_preempted, "the scheduler preempts the low pod")
    explanation = f"the scheduler makes it (shop/{node.low} goes for it), and no eviction is proposed"
    assert explanation in node.plan_notes(tmp_path, capsys)
    # However long the pod takes to go.
    assert explanation in (node.held(later_seconds=600.0) or "")
    gated.admin.delete(objects.pod_path("shop", node.low), gracePeriodSeconds="0")
    vital = gated.admin.get(objects.pod_path("shop", node.vital))
    done = {**objects.running_status(vital), "conditions": [{"type": objects.RESIZE_PENDING, "$patch": "delete"}]}
    objects.write_pod_status(gated.admin, "shop", node.vital, done, pod=vital)
    assert "room" not in node.plan_notes(tmp_path, capsys)


def test_where_a_node_names_an_owner_the_scheduler_makes_none_and_evictions_do(
    gated: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, other = FullNode(gated, "node-b", owners=(OWNER,)), FullNode(gated, "node-c")
    assert node_from_json(gated.admin.get(node.path)).resize_preemption_disabled_for == (OWNER,)
    for each in (node, other):
        each.defer(priorityClassName="vital")
    # Asked later, answered: the scheduler has looked at the first one too.
    wait_for(other.is_preempted, "the scheduler preempts on the node that names nobody")
    assert not node.is_preempted()
    assert node.held() is None
    assert f"evictions make it, as {OWNER} switched the scheduler's preemption off" in node.plan_notes(tmp_path, capsys)
    node.disable()
    wait_for(node.is_preempted, "the scheduler preempts once nobody is named")
    assert "the scheduler makes it" in (node.held() or "")


def test_without_the_gate_the_field_is_dropped_and_a_condition_is_read_all_the_same(
    control_plane_1_37: ControlPlane, namespace: str, node_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = FullNode(control_plane_1_37, node_name, namespace=namespace, owners=(OWNER,))
    assert "podPreemptionPolicy" not in control_plane_1_37.admin.get(node.path)["spec"]
    # 1.37.1 sets the condition nowhere; the KEP has it, and whoever does is believed.
    node.defer(objects.condition(PREEMPTION_DISABLED, generation=2, reason="NodePolicy"))
    assert node.held() is None
    assert "the scheduler's preemption is off for them" in node.plan_notes(tmp_path, capsys)
