"""Every row of the public vectors as objects of a real cluster, reconciled by the controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.api import MERGE, ApiError, Json
from tests.cluster.binaries import version_under_test
from tests.cluster.buffers import Buffers, controller, install_crd, is_ready
from tests.cluster.control_plane import QUIET_CONTROLLERS, ControlPlane, control_plane
from tests.cluster.identities import create_namespace, fresh_name, remove_namespace
from tests.cluster.objects import pod_path
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

VECTORS = Path(__file__).parents[1] / "data/vectors/capacity_buffer.json"
CASES: Final[list[Json]] = json.loads(VECTORS.read_text())["cases"]
STILL_CONTROLLERS: Final = ",".join(
    (
        QUIET_CONTROLLERS,
        *(
            f"-{resource}-controller"
            for resource in ("deployment", "replicaset", "statefulset", "replicationcontroller", "job", "resourcequota")
        ),
    )
)
COLLECTIONS: Final = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}


def cases(function: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["input"]["fn"] == function]


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane in which nobody makes pods of workloads or counts quotas: objects and statuses are the case's."""
    version = version_under_test()
    folder = tmp_path_factory.mktemp("still")
    with control_plane(version, directory=folder, audit=False, controllers=STILL_CONTROLLERS) as plane:
        install_crd(plane)
        for name, value in (("high", 1000), ("low", 10)):
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            plane.admin.create(path, {"metadata": {"name": name}, "value": value})
        with controller(plane):
            yield plane


@pytest.fixture(scope="module")
def counting(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The session's control plane, whose controllers count quotas."""
    install_crd(cluster)
    with controller(cluster):
        yield cluster


@pytest.fixture
def room(still: ControlPlane) -> Iterator[Buffers]:
    """A namespace in which nothing happens by itself."""
    yield from _room(still)


@pytest.fixture
def counted(counting: ControlPlane) -> Iterator[Buffers]:
    """A namespace whose quotas are counted."""
    yield from _room(counting)


def _room(plane: ControlPlane) -> Iterator[Buffers]:
    name = fresh_name("vectors")
    create_namespace(plane, name)
    yield Buffers(plane, name)
    remove_namespace(plane, name)


def full(template: Json, labels: Json | None = None) -> Json:
    """Fill in what a real server asks of a template and the vectors leave out."""
    spec = dict(template["spec"])
    spec["containers"] = [{"image": "registry.example/app:1", **container} for container in spec["containers"]]
    metadata = dict(template.get("metadata") or {})
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": spec}


def quota(room: Buffers, name: str, spec: Json, status: Json) -> None:
    """Make a quota with the status of the case."""
    path = f"/api/v1/namespaces/{room.namespace}/resourcequotas"
    room.admin.create(path, {"metadata": {"name": name}, "spec": {"hard": status["hard"], **spec}})
    used = {**dict.fromkeys(status["hard"], "0"), **status.get("used", {})}
    room.admin.patch(f"{path}/{name}/status", {"status": {"hard": status["hard"], "used": used}}, MERGE)


@pytest.mark.parametrize("case", cases("translate"))
def test_translate(room: Buffers, case: Json) -> None:
    given, expected = case["input"], case["expected"]
    cluster = given["cluster"]
    for entry in cluster["podTemplates"]:
        room.template(entry["metadata"]["name"], full(entry["template"]))
    for entry in cluster["scalables"]:
        labels = {"app": entry["metadata"]["name"]}
        spec = {**entry["spec"], "template": full(entry["spec"]["template"], labels)}
        if entry["kind"] == "ReplicationController":
            spec["selector"] = labels
        elif entry["kind"] != "Job":
            spec["selector"] = {"matchLabels": labels}
        path = COLLECTIONS[entry["kind"]].format(room.namespace)
        room.admin.create(path, {"metadata": {"name": entry["metadata"]["name"]}, "spec": spec})
    for entry in cluster["pods"]:
        # In the order of the case, each a second later: the server sets the time itself.
        metadata = {key: entry["metadata"][key] for key in ("name", "labels")}
        spec = {**full({"spec": entry["spec"]})["spec"], "nodeName": "none"}
        pod = room.admin.create(pod_path(room.namespace), {"metadata": metadata, "spec": spec})
        await_later_second(room, pod)
    for entry in cluster["scales"]:
        path = f"{COLLECTIONS[entry['kind']].format(room.namespace)}/{entry['name']}"
        room.admin.patch(f"{path}/status", {"status": {"replicas": entry["status"]["replicas"]}}, MERGE)
        assert room.admin.get(f"{path}/scale")["status"] == entry["status"]
    buffer = given["buffer"]
    name = buffer["metadata"]["name"]
    if case["id"] == "tt-no-size":  # the schema is before the controller: a template needs a size
        with pytest.raises(ApiError, match="replicas or limits must also be set"):
            room.create(name, **buffer["spec"])
        return
    room.create(name, **buffer["spec"])
    ready = expected["ReadyForProvisioning"]

    def is_right(status: Json) -> bool:
        state: Json = next((row for row in status.get("conditions") or [] if row["type"] == "ReadyForProvisioning"), {})
        return (
            (state.get("status"), state.get("reason")) == (ready["status"], ready["reason"])
            and status.get("replicas") == expected["replicas"]
            and status.get("podTemplateRef") == expected["podTemplateRef"]
        )

    status = room.await_status(name, is_right, f"{case['id']}: {expected}")
    assert status.get("podTemplateGeneration") == expected["podTemplateGeneration"]
    assert status["provisioningStrategy"] == expected["provisioningStrategy"]
    condition: Json = next(row for row in status["conditions"] if row["type"] == "ReadyForProvisioning")
    if "message" in ready:
        assert condition["message"] == ready["message"]
    assert condition["message"].startswith(ready.get("message_starts_with", ""))
    assert condition["observedGeneration"] == 1
    if "managed_requests" in expected:
        assert room.chunk(name) == expected["managed_requests"]


def await_later_second(room: Buffers, predecessor: Json) -> None:
    """Wait until what is made next is younger: the API's times are of whole seconds."""
    first = predecessor["metadata"]["creationTimestamp"]
    path = f"/api/v1/namespaces/{room.namespace}/configmaps"
    document = {"metadata": {"generateName": "now-"}, "data": {}}

    def is_later() -> bool:
        return bool(room.admin.create(path, document, dryRun="All")["metadata"]["creationTimestamp"] > first)

    wait_for(is_later, "a second is over")


@pytest.mark.parametrize("case", cases("allocate_quotas"))
def test_allocate_quotas(room: Buffers, case: Json) -> None:
    given = case["input"]
    for entry in given["quotas"]:
        quota(room, entry["name"], entry["spec"], entry["status"])
    for entry in given["buffers"]:
        room.template(entry["name"], full(entry["template"]))
        spec: Json = {"podTemplateRef": {"name": entry["name"]}}
        if entry["replicas"] is None:  # without a number by a limit that names nothing
            spec["limits"] = {"example.com/none": "1"}
        else:
            spec["replicas"] = entry["replicas"]
        await_later_second(room, room.create(entry["name"], **spec))
    for entry, expected in zip(given["buffers"], case["expected"]["buffers"], strict=True):
        wanted = expected["LimitedByQuotas"]

        def is_right(status: Json, expected: Json = expected, wanted: Json | None = wanted) -> bool:
            condition = next((row for row in status.get("conditions") or [] if row["type"] == "LimitedByQuotas"), None)
            seen = None if condition is None else {key: condition[key] for key in ("status", "reason", "message")}
            return bool(status.get("conditions")) and status.get("replicas") == expected["replicas"] and seen == wanted

        room.await_status(entry["name"], is_right, f"{case['id']}: {expected}")


@pytest.mark.parametrize("case", cases("pod_matches_quota_scope"))
def test_pod_matches_quota_scope(room: Buffers, case: Json) -> None:
    given = case["input"]
    path = f"/api/v1/namespaces/{room.namespace}/resourcequotas"
    hard = {"pods": "0"} if "BestEffort" in str(given["quota_spec"]) else {"requests.cpu": "0"}
    if case["id"] == "scope-pc-bad-op":
        with pytest.raises(ApiError, match="invalid"):
            room.admin.create(path, {"metadata": {"name": "q"}, "spec": {"hard": hard, **given["quota_spec"]}})
        return
    quota(room, "q", given["quota_spec"], {"hard": hard})
    template = full(given["template"])
    if "pods" not in hard:
        template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    room.template("t", template)
    room.create("b", podTemplateRef={"name": "t"}, replicas=2)
    # A quota that counts the chunk leaves no room; of pods alone it does not matter to buffers.
    is_cut = case["expected"]["matches"] and "pods" not in hard
    room.await_replicas("b", 0 if is_cut else 2)


def create_in_one_second(room: Buffers, buffers: list[Json]) -> Json:
    """Create buffers of one creation time, and return the last: anew where a second was over between two of them."""
    while True:
        documents = [
            room.create(
                buffer["name"],
                podTemplateRef={"name": "chunk"},
                replicas=buffer["replicas"],
                provisioningStrategy=buffer["provisioningStrategy"],
            )
            for buffer in buffers
        ]
        if len({document["metadata"]["creationTimestamp"] for document in documents}) == 1:
            return documents[-1]
        for buffer in buffers:
            room.delete(buffer["name"])
        await_later_second(room, documents[-1])


@pytest.mark.parametrize("case", cases("reconcile_sequence"))
def test_reconcile_sequence(counted: Buffers, case: Json) -> None:
    given, room = case["input"], counted
    path = f"/api/v1/namespaces/{room.namespace}/resourcequotas"
    room.admin.create(path, {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": given["quota_cpu"]}}})
    wait_for(lambda: "hard" in room.admin.get(f"{path}/q").get("status", {}), "the quota is counted")
    room.template("chunk", full(given["template"]))
    there: dict[str, Json] = {}
    for step, expected in zip(given["steps"], case["expected"]["after_each_step"], strict=True):
        if "set_quota_cpu" in step:
            room.admin.patch(f"{path}/q", {"spec": {"hard": {"cpu": step["set_quota_cpu"]}}}, MERGE)
        wanted = {buffer["name"]: buffer for buffer in step.get("set_buffers", there.values())}
        for name in [key for key in there if key not in wanted]:
            room.delete(name)
        for name in [key for key in wanted if key in there]:
            room.change(name, replicas=wanted[name]["replicas"])
        last_buffer: Json | None = None
        new = [buffer for name, buffer in wanted.items() if name not in there]
        for _, group in groupby(new, key=lambda buffer: buffer["creationTimestamp"]):
            if last_buffer is not None:
                await_later_second(room, last_buffer)
            last_buffer = create_in_one_second(room, list(group))
        there = wanted
        for name, result in expected.items():

            def is_right(status: Json, result: Json = result) -> bool:
                limited = next(
                    (row["status"] for row in status.get("conditions") or [] if row["type"] == "LimitedByQuotas"), None
                )
                expected_status = None if result["limited"] is None else str(result["limited"])
                return status.get("replicas") == result["replicas"] and limited == expected_status

            room.await_status(name, is_right, f"{case['id']}: {name}: {result}")


@pytest.mark.parametrize("case", cases("managed_template_name"))
def test_managed_template_name(room: Buffers, case: Json) -> None:
    name = case["input"]["buffer_name"]
    room.template("t")
    room.create(name, podTemplateRef={"name": "t"}, replicas=1)
    status = room.await_status(name, is_ready, "it is ready")
    assert status["podTemplateRef"] == {"name": case["expected"]["name"]}
    assert room.admin.exists(f"/api/v1/namespaces/{room.namespace}/podtemplates/{case['expected']['name']}")


@pytest.mark.parametrize("case", cases("buffer_replicas"))
def test_buffer_replicas(room: Buffers, case: Json) -> None:
    given, expected = case["input"], case["expected"]
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": given["pod_requests"]}}]}}
    spec = dict(given["spec"])
    if given["scalable_replicas"] is None and spec:
        room.template("t", full(template))
        spec["podTemplateRef"] = {"name": "t"}
    else:
        count = given["scalable_replicas"] or 0
        labels = {"app": "rs"}
        room.admin.create(
            COLLECTIONS["ReplicaSet"].format(room.namespace),
            {
                "metadata": {"name": "rs"},
                "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": full(template, labels)},
            },
        )
        spec["scalableRef"] = {"apiGroup": "apps", "kind": "ReplicaSet", "name": "rs"}
    room.create("b", **spec)
    if "error" in expected:
        room.await_not_ready("b", expected["error"])
    else:
        room.await_replicas("b", expected["replicas"])
