"""VerticalPodAutoscalers of the recommender ``plimsoll`` on a real API server, with upstream's definition of the kind.

The webhook is the real process, as the chart's account with the chart's rights and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from tests import yaml_texts
from tests.cluster import chart
from tests.cluster.admission_room import Room, Running, admission_room, mebibytes_above, owned, resources, sized
from tests.cluster.api import MERGE, Json, is_awaited, kubeconfig
from tests.cluster.binaries import version_under_test
from tests.cluster.control_plane import QUIET_CONTROLLERS, ControlPlane, control_plane
from tests.cluster.identities import create_service_account, granted, node_bound_token
from tests.cluster.objects import pod_path
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import answer_of, may_import
from tests.webhook.report_bodies import report_body
from tests.webhook.test_backfill import checkpoint

pytestmark = pytest.mark.cluster

CRD_FILE = Path(__file__).parents[1] / "data" / "vpa" / "vpa-v1-crd-gen.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
ON = {"webhook": {"vpa": {"enabled": True, "publish": "enforced"}}}
SETTINGS = ("--set=vpaObjects.enabled=true", "--set=vpaObjects.publish=enforced")
MB = 1_000_000
PODS = {name: Running() for name in ("web", "ordered", "theirs", "published")}
AS_WRITTEN = {"cpu": "500m", "memory": "300M"}
MEMORY = mebibytes_above(200 * MB)
MINUTES = 150.0
"""Seconds: an object of ours is looked for once a minute."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that collects nothing: pods stay although their owners are not there."""
    version = version_under_test()
    directory = tmp_path_factory.mktemp("vpa-cluster")
    controllers = f"{QUIET_CONTROLLERS},-garbage-collector-controller"
    with control_plane(version, directory=directory, controllers=controllers, audit=False) as plane:
        yield plane


@pytest.fixture(scope="module")
def room(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A webhook that takes such objects, and has learnt of some workloads."""
    definitions = [definition for definition in yaml_texts.load_all(CRD_FILE.read_text()) if definition]
    for definition in definitions:
        created = partial(cluster.admin.create, CRDS, definition)
        wait_for(partial(is_awaited, created, 409), "no other test's kind")
    for manifest in chart.rendered(ON)["webhook/rights-vpas"]:
        cluster.admin.apply(manifest)
    try:
        with admission_room(cluster, tmp_path_factory.mktemp("vpas"), PODS, SETTINGS) as webhook_room:
            yield webhook_room
    finally:
        for manifest in definitions:
            cluster.admin.delete(f"{CRDS}/{manifest['metadata']['name']}")


def path(room: Room, name: str = "") -> str:
    every = f"/apis/autoscaling.k8s.io/v1/namespaces/{room.namespace}/verticalpodautoscalers"
    return f"{every}/{name}" if name else every


def create(room: Room, name: str, update_mode: str, **spec: Any) -> None:
    body = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "recommenders": [{"name": "plimsoll"}],
            "updatePolicy": {"updateMode": update_mode},
            **spec,
        },
    }
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}  # type: ignore[attr-defined]
    wait_for(lambda: is_awaited(lambda: room.cluster.admin.create(path(room), body), 404), "the kind is served")


def status(room: Room, name: str) -> Json:
    vpa_status: Json = room.cluster.admin.get(path(room, name)).get("status") or {}
    return vpa_status


def condition(room: Room, name: str, kind: str) -> tuple[str, str]:
    conditions = [entry for entry in status(room, name).get("conditions") or [] if entry["type"] == kind]
    return (conditions[0]["status"], conditions[0]["reason"]) if conditions else ("", "")


def new_requests(room: Room, name: str, annotations: dict[str, str] | None = None) -> Json:
    """Return what a new pod requests, as the API server would keep it; without annotations unless told."""
    document = owned(name, "Deployment", sized(), annotations=annotations or {})
    pod = room.cluster.admin.create(pod_path(room.namespace), document, dryRun="All")
    requests: Json = resources(pod)["requests"]
    return requests


def directives(room: Room) -> dict[str, Json]:
    """Return what the first node is told, by workload."""
    room.sequence += 1
    body = report_body(node=room.node, sequence=room.sequence, endAgeSeconds=30.0)
    answer = answer_of(room.hook.post("/v1/report", body, room.token(room.node)))
    return {
        directive["name"]: directive
        for directive in answer["directives"]["workloads"]
        if directive["namespace"] == room.namespace
    }


def test_an_objects_status_is_what_a_new_pod_will_request(room: Room) -> None:
    policies = [{"containerName": "app", "minAllowed": {"cpu": "320m"}}, {"containerName": "proxy", "mode": "Off"}]
    create(room, "web", "InPlace", resourcePolicy={"containerPolicies": policies})
    wait_for(lambda: "recommendation" in status(room, "web"), "the status is written")
    vpa_status = status(room, "web")
    (app,) = vpa_status["recommendation"]["containerRecommendations"]
    assert (app["containerName"], app["target"]) == ("app", {"cpu": "320m", "memory": MEMORY})
    assert app["uncappedTarget"]["cpu"] == "300m"
    assert app["lowerBound"].keys() == app["upperBound"].keys() == {"cpu", "memory"}
    assert vpa_status["observedGeneration"] == 1
    assert condition(room, "web", "RecommendationProvided") == ("True", "Recommended")
    # The pod that runs has an annotation of its own, which wins.
    assert condition(room, "web", "SizedByPlimsoll") == ("True", "ModeEnforce")
    assert new_requests(room, "web") == app["target"]
    written = 'plimsoll_vpa_status_looks_total{result="written"}'
    wait_for(lambda: room.hook.series(written) >= 1, "it is counted once the server has answered")
    assert room.hook.series('plimsoll_vpa_status_looks_total{result="refused"}') == 0


def test_orders_of_an_object_hold_at_admission_and_are_told_to_nodes_and_annotations_win(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new_requests(room, "ordered") == AS_WRITTEN
    create(room, "ordered", "Initial", startupBoost={"cpu": {"type": "Factor", "factor": 2}})
    wait_for(lambda: new_requests(room, "ordered") != AS_WRITTEN, "the object is seen")
    assert new_requests(room, "ordered") == {"cpu": "600m", "memory": MEMORY}
    assert new_requests(room, "ordered", {"plimsoll.dev/mode": "off"}) == AS_WRITTEN
    directive = directives(room)["ordered"]
    assert directive["leftAloneFor"] is None
    assert directive["autoscaler"] == {
        "name": f"VPA {room.namespace}/ordered",
        "mode": "recommend",
        "startupBoost": "factor 2",
    }
    windows = {"plimsoll.dev/windows": "shrink: UTC 0 22 * * * for 6h"}
    room.cluster.admin.patch(path(room, "ordered"), {"metadata": {"annotations": windows}}, MERGE)
    wait_for(lambda: "windows" in directives(room)["ordered"]["autoscaler"], "its windows are seen")
    assert directives(room)["ordered"]["autoscaler"]["windows"] == windows["plimsoll.dev/windows"]
    arguments = [f"--webhook=https://127.0.0.1:{room.hook.port}", f"--kubeconfig={room.cluster.kubeconfig}"]
    named = f"{room.namespace}/Deployment/ordered"
    assert main(["policy", named, *arguments, f"--ca-file={room.cluster.authority}"]) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.split()[0] == "windows"]
    assert " ".join(row[1:]) == f"{windows['plimsoll.dev/windows']} VPA {room.namespace}/ordered"
    update = {"spec": {"updatePolicy": {"updateMode": "Recreate"}}}
    room.cluster.admin.patch(path(room, "ordered"), update, MERGE)
    wait_for(lambda: new_requests(room, "ordered") == AS_WRITTEN, "nobody is re-created, so nothing is changed")


def test_where_vpas_own_admission_is_registered_pods_are_left_to_it_and_the_status_is_written(room: Room) -> None:
    enforced = {"plimsoll.dev/mode": "enforce"}
    assert new_requests(room, "theirs", enforced) == {"cpu": "300m", "memory": MEMORY}
    registration = {"metadata": {"name": "vpa-webhook-config"}, "webhooks": []}
    room.cluster.admin.create(REGISTRATIONS, registration)
    try:
        create(room, "theirs", "InPlaceOrRecreate")
        wait_for(lambda: new_requests(room, "theirs", enforced) == AS_WRITTEN, "pods are left to it")
        assert directives(room)["theirs"]["leftAloneFor"].startswith(f"VPA {room.namespace}/theirs, by VPA's own")
        wait_for(lambda: condition(room, "theirs", "SizedByPlimsoll") == ("False", "LeftToVpa"), "it is told")
        targets = status(room, "theirs")["recommendation"]["containerRecommendations"]
        assert {entry["containerName"]: entry["target"]["cpu"] for entry in targets} == {"app": "300m", "proxy": "50m"}
    finally:
        room.cluster.admin.delete(f"{REGISTRATIONS}/vpa-webhook-config")
    wait_for(lambda: new_requests(room, "theirs", enforced) != AS_WRITTEN, "their end is seen")


def test_an_enforced_workload_without_an_object_is_published(room: Room) -> None:
    name = "plimsoll-deployment-published"
    wait_for(lambda: room.cluster.admin.exists(path(room, name)), "the object is made", MINUTES)
    vpa = room.cluster.admin.get(path(room, name))
    assert vpa["metadata"]["labels"]["plimsoll.dev/managed"] == "true"
    assert vpa["spec"]["updatePolicy"] == {"updateMode": "InPlace"}
    wait_for(lambda: "recommendation" in status(room, name), "its status is written")
    assert directives(room)["published"].get("autoscaler") is None, "it orders nothing"
    # It may have been looked at before people made one.
    of_web = path(room, "plimsoll-deployment-web")
    wait_for(lambda: not room.cluster.admin.exists(of_web), "people made one", MINUTES)
    create(room, "published", "Off")
    wait_for(lambda: not room.cluster.admin.exists(path(room, name)), "it goes", MINUTES)


def test_checkpoints_that_the_server_keeps_size_the_first_pod_and_a_right_that_is_missing_is_one_line(
    room: Room, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin, group = room.cluster.admin, "autoscaling.k8s.io"
    admin.apply_all(chart.parts("webhook/reader", values={"webhook": {"importer": {"enabled": True}}}))
    wait_for(lambda: may_import(room.cluster), "the importer's right is in force")
    create(room, "learnt", "Off", recommenders=None)
    document = {**checkpoint("learnt"), "metadata": {"name": "learnt-app"}}
    document |= {"apiVersion": f"{group}/v1", "kind": "VerticalPodAutoscalerCheckpoint"}
    checkpoints = path(room).replace("verticalpodautoscalers", "verticalpodautoscalercheckpoints")
    wait_for(lambda: is_awaited(lambda: admin.create(checkpoints, document), 404), "the kind is served")
    create_service_account(room.cluster, room.namespace, "learner")
    learner = room.cluster.api_with_token(node_bound_token(room.cluster, room.namespace, "learner", None))
    arguments = ["backfill", "--vpa-checkpoints", f"--namespace={room.namespace}"]
    as_learner = [*arguments, f"--kubeconfig={kubeconfig(learner, tmp_path / 'kubeconfig')}", "--dry-run"]

    def role(*names: str) -> list[Json]:
        meta = {"name": "learner", "namespace": room.namespace}
        rules = [{"apiGroups": [group], "resources": list(names), "verbs": ["list"]}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "learner"}
        subjects = [{"kind": "ServiceAccount", **meta}]
        kinds = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        return [
            {**kinds, "kind": "Role", "metadata": meta, "rules": rules},
            {**kinds, "kind": "RoleBinding", "metadata": meta, "roleRef": reference, "subjects": subjects},
        ]

    def refused(what: str) -> bool:
        """Whether it ends in one line about the kind that may not be listed; rights come into force in a while."""
        assert main(as_learner) == 1
        out, error = capsys.readouterr()
        assert (out, error.count("\n")) == ("", 1)
        assert error.endswith("; nothing was sent\n")
        return f'cannot list resource "{what}" in API group "{group}" in the namespace "{room.namespace}"' in error

    def counted() -> bool:
        is_done = main(as_learner) == 0
        return is_done and capsys.readouterr().out.endswith(": 1 namespace, 1 workload, 1 container, 24 hours\n")

    assert refused("verticalpodautoscalers")
    with granted(room.cluster, role("verticalpodautoscalers")):
        wait_for(lambda: refused("verticalpodautoscalercheckpoints"), "the first right is in force")
    with granted(room.cluster, role("verticalpodautoscalers", "verticalpodautoscalercheckpoints")):
        wait_for(counted, "both rights are in force")
    enforced = {"plimsoll.dev/mode": "enforce"}
    assert new_requests(room, "learnt", enforced) == AS_WRITTEN
    arguments += [f"--webhook=https://127.0.0.1:{room.hook.port}", f"--kubeconfig={room.cluster.kubeconfig}"]
    assert main([*arguments, f"--ca-file={room.cluster.authority}"]) == 0
    assert capsys.readouterr().out == "imported: 1 namespace, 1 workload, 1 container, 24 hours (24 new)\n"
    # 0.7076 cores and 177.1 MB, and a tenth more, as told of the checkpoint.
    # The webhook waits five seconds for it to be in memory, and answers without it then.
    wait_for(lambda: new_requests(room, "learnt", enforced) != AS_WRITTEN, "it is sized")
    requests = new_requests(room, "learnt", enforced)
    assert int(requests["cpu"].removesuffix("m")) == pytest.approx(778.4, rel=0.02)
    assert int(requests["memory"]) == pytest.approx(1.1 * 177.1e6, rel=0.02)
