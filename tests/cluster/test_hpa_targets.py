"""Targets of HPAs that move after the requests of their pods, on a real API server with its real HPA controller beside.

The webhook is the real process, as the chart's account with the chart's rights and no others.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.cli.main import main
from tests.cluster import chart
from tests.cluster.admission_room import BY_CRUISE, Room, Running, admission_room, owned, resources, running, sized
from tests.cluster.api import MERGE, Json
from tests.cluster.binaries import version_under_test
from tests.cluster.control_plane import QUIET_CONTROLLERS, ControlPlane, control_plane
from tests.cluster.objects import pod_path, resize, resize_body
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import WebhookProcess, answer_of, webhook
from tests.webhook.report_bodies import report_body

pytestmark = pytest.mark.cluster

ANNOTATION = "plimsoll.dev/hpa-preserve"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/plimsoll-webhook-hpas"
RIGHTS = {"webhook": {"hpa": {"preserve": "follow"}}}
FOLLOW, RESTORE = "--set=hpa.preserve=follow", "--set=hpa.preserve=restore"
LOGGED = "targets of HPAs are not moved"


@dataclass
class Scene:
    """A workload of one pod that an HPA scales, and a webhook of one setting at a time."""

    room: Room
    folder: Path
    name: str = "scaled"

    @property
    def path(self) -> str:
        every = f"/apis/autoscaling/v2/namespaces/{self.room.namespace}/horizontalpodautoscalers"
        return f"{every}/{self.name}"

    def hpa(self) -> Json:
        document: Json = self.room.cluster.admin.get(self.path)
        return document

    def percent(self) -> int:
        targets = [metric["resource"]["target"] for metric in self.hpa()["spec"]["metrics"]]
        (share,) = [target for target in targets if target["type"] == "Utilization"]
        return int(share["averageUtilization"])

    def kept(self) -> tuple[int, int, int] | None:
        """Return target, request and what was written of CPU, as they are kept."""
        text = (self.hpa()["metadata"].get("annotations") or {}).get(ANNOTATION)
        cpu = None if text is None else json.loads(text)["cpu"]
        return None if cpu is None else (cpu["targetPercent"], cpu["requestMillicores"], cpu["writtenPercent"])

    def generation(self) -> int | None:
        """Count the changes of its spec: its status is written by its controller all the time, and does not count.

        None = the server counts none of these objects (1.34).
        """
        generation: int | None = self.hpa()["metadata"].get("generation")
        return generation

    def is_at(self, generation: int) -> bool:
        """Return whether its spec has changed so often, as far as the server counts."""
        return self.generation() in (None, generation)

    def set_percent(self, percent: int) -> None:
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": cpu_at(percent)}}
        self.room.cluster.admin.patch(self.path, {"spec": {"metrics": [metric, *AMOUNTS]}}, MERGE)

    def resize(self, cpu: str) -> None:
        body = resize_body(app={"requests": {"cpu": cpu}})
        resize(self.room.cluster.admin, self.room.namespace, running(self.name), body)

    def new_request(self) -> str:
        pod = self.room.admitted(owned(self.name, "Deployment", sized()))
        return str(resources(pod)["requests"]["cpu"])

    def told(self) -> Json:
        self.room.sequence += 1
        body = report_body(node=self.room.node, sequence=self.room.sequence, endAgeSeconds=30.0)
        answer = answer_of(self.room.hook.post("/v1/report", body, self.room.token(self.room.node)))
        directive: Json = next(entry for entry in answer["directives"]["workloads"] if entry["name"] == self.name)
        return directive

    @contextlib.contextmanager
    def other_webhook(self, setting: str) -> Iterator[WebhookProcess]:
        """Run another process with the same database, after the one before it ended."""
        self.room.hook.process.stop()
        own = self.folder / "webhook.kubeconfig"
        arguments = (BY_CRUISE, setting)
        with webhook(self.room.cluster, self.folder, kubeconfig=own, arguments=arguments) as hook:
            yield hook


def cpu_at(percent: int) -> Json:
    return {"type": "Utilization", "averageUtilization": percent}


def amount(name: str, value: str) -> Json:
    return {"type": "Resource", "resource": {"name": name, "target": {"type": "AverageValue", "averageValue": value}}}


AMOUNTS = [amount("memory", "1Gi"), amount("cpu", "2")]
"""Targets that divide by no request; one of them beside the share of the same resource."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that collects nothing: pods stay although their owners are not there."""
    version = version_under_test()
    controllers = f"{QUIET_CONTROLLERS},-garbage-collector-controller"
    folder = tmp_path_factory.mktemp("hpa-cluster")
    with control_plane(version, directory=folder, controllers=controllers, audit=False) as plane:
        yield plane


@pytest.fixture(scope="module")
def scene(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A webhook that follows, and a pod of 500m + 500m whose HPA wants 70 %: 700m."""
    for manifest in chart.rendered(RIGHTS)["webhook/rights-hpas"]:
        cluster.admin.apply(manifest)
    folder = tmp_path_factory.mktemp("hpas")
    with admission_room(cluster, folder, {"web": Running(), "scaled": Running()}, (FOLLOW,)) as room:
        hpa_scene = Scene(room, folder)
        status = pod_path(room.namespace, running(hpa_scene.name), "status")
        cluster.admin.patch(status, {"status": {"phase": "Running"}}, MERGE)
        document = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": hpa_scene.name},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": hpa_scene.name},
                "maxReplicas": 5,
                "metrics": [*AMOUNTS, {"type": "Resource", "resource": {"name": "cpu", "target": cpu_at(70)}}],
            },
        }
        cluster.admin.create(hpa_scene.path.rpartition("/")[0], document)
        yield hpa_scene


def test_a_target_moves_once_with_the_requests_and_a_persons_counts_anew(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for(lambda: scene.kept() == (70, 1000, 70), "the original is kept before any request moves")
    assert (scene.percent(), scene.is_at(1)) == (70, True)
    wait_for(lambda: scene.new_request() == "300m", "the requests are free")
    directive = scene.told()
    assert directive["cpuFrozenFor"] == f"HorizontalPodAutoscaler {scene.room.namespace}/scaled"
    assert directive["cpuPreserved"] == "70 % of 1000m CPU is kept: the target is 70 %"
    scene.resize("300m")
    wait_for(lambda: scene.percent() == 88, "the target follows: 70 % of 1000m is 88 % of 800m")
    assert (scene.kept(), scene.is_at(2)) == ((70, 1000, 88), True)
    metrics = scene.hpa()["spec"]["metrics"]
    assert [metric for metric in metrics if metric["resource"]["target"]["type"] == "AverageValue"] == AMOUNTS
    arguments = [f"--webhook=https://127.0.0.1:{scene.room.hook.port}", f"--kubeconfig={scene.room.cluster.kubeconfig}"]
    named = f"{scene.room.namespace}/Deployment/scaled"

    def row() -> str:
        assert main(["policy", named, *arguments, f"--ca-file={scene.room.cluster.authority}"]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if "HPA" in line)

    wait_for(lambda: "70 % of 1000m CPU is kept: the target is 88 %" in row(), "the webhook's watch has brought it")
    assert "CPU followed" in row()
    assert scene.room.hook.series('plimsoll_hpa_targets{state="followed"}') == 1
    moved = 'plimsoll_hpa_target_writes_total{result="moved"}'
    wait_for(lambda: scene.room.hook.series(moved) == 1, "it is counted once the server has answered")
    scene.set_percent(60)
    wait_for(lambda: scene.kept() == (60, 800, 60), "what somebody set counts from now on")
    assert (scene.percent(), scene.is_at(3)) == (60, True)
    scene.resize("500m")
    wait_for(lambda: scene.percent() == 48, "60 % of 800m is 48 % of 1000m")
    assert scene.is_at(4)


def test_a_restart_moves_nothing_and_what_is_put_back_is_the_original(scene: Scene) -> None:
    before = (scene.kept(), scene.generation())
    assert before[0] == (60, 800, 48)
    with scene.other_webhook(FOLLOW) as hook:
        wait_for(lambda: hook.series('plimsoll_hpa_targets{state="followed"}') == 1, "it goes on where the other ended")
        scene.resize("300m")
        wait_for(lambda: scene.percent() == 60, "the requests of the original give the original")
        assert scene.generation() == (None if before[1] is None else before[1] + 1)
    with scene.other_webhook(RESTORE) as hook:
        wait_for(lambda: hook.series('plimsoll_hpa_targets{state="held"}') == 1, "requests are frozen again")
        assert scene.kept() == (60, 800, 60)
        scene.resize("500m")
        wait_for(lambda: scene.kept() is None, "the requests are as written: nothing is kept any more")
        assert scene.percent() == 48, "60 % of 800m, of 1000m as before they were sized"
        assert ANNOTATION not in (scene.hpa()["metadata"].get("annotations") or {})
        written = hook.series('plimsoll_hpa_target_writes_total{result="refused"}')
        assert written == 0


def test_without_the_right_one_line_is_said_and_nothing_is_changed(scene: Scene) -> None:
    scene.room.cluster.admin.delete(BINDING)
    log = scene.folder / "webhook.log"
    before, said = scene.hpa()["spec"], log.read_text().count(LOGGED)
    with scene.other_webhook(FOLLOW) as hook:
        wait_for(lambda: hook.series('plimsoll_hpa_target_writes_total{result="refused"}') >= 1, "it is refused")
        assert hook.series('plimsoll_hpa_targets{state="followed"}') == 0
        assert scene.hpa()["spec"] == before
        assert scene.kept() is None
    lines = [line for line in log.read_text().splitlines() if LOGGED in line]
    assert len(lines) == said + 1
    assert 'cannot get resource \\"horizontalpodautoscalers\\"' in lines[-1] or "cannot get resource" in lines[-1]
