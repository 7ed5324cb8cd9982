"""A CapacityBuffer that another controller writes as well, as Karpenter does: by patches that replace what stands.

Karpenter itself is in ``tests/scale``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.core.buffers.buffer import PLACEHOLDER_PODS
from tests.cluster import chart
from tests.cluster.api import MERGE, Json, is_awaited, path_of
from tests.cluster.buffers import Buffers, buffers_path, controller, install_crd
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

KARPENTER = "system:serviceaccount:kube-system:karpenter"
VALUES = {"buffers": {"enabled": True, "keepStatusFrom": [KARPENTER]}}
PROVISIONING = {
    "type": "Provisioning",
    "status": "True",
    "reason": "FitsExistingCapacity",
    "message": "All 7 virtual pods fit on existing capacity",
    "lastTransitionTime": "2026-11-22T12:00:00Z",
}
READY = {**PROVISIONING, "type": "ReadyForProvisioning", "reason": "Resolved", "message": "resolved"}
THEIRS = {"replicas": 7, "podTemplateRef": {"name": "shape"}, "conditions": [READY, PROVISIONING]}


@pytest.fixture(scope="module")
def served(cluster: ControlPlane) -> ControlPlane:
    install_crd(cluster)
    return cluster


@pytest.fixture
def room(served: ControlPlane, namespace: str) -> Buffers:
    room = Buffers(served, namespace)
    room.template("shape")
    return room


@pytest.fixture
def kept(served: ControlPlane, room: Buffers) -> Iterator[None]:
    """The chart's policy, in force for Karpenter's account."""
    if int(served.version.split(".")[1]) < 36:
        pytest.skip(f"MutatingAdmissionPolicies are there from 1.36 on; this run is against {served.version}")
    documents = chart.rendered(VALUES)["fence/buffer-status"]
    for document in documents:
        served.admin.apply(document)
    yield
    for document in documents:
        served.admin.delete(path_of(document))
    # The next test would take this policy, in force for a moment yet, for its own, or has none.
    wait_for(lambda: not is_held(room), "the policy holds no more")


def patched(room: Buffers, name: str) -> Json:
    """Write a status as Karpenter does; what the server answers."""
    api = room.cluster.api_as(KARPENTER, ["system:masters"])
    answer: Json = api.patch(buffers_path(room.namespace, name, "status"), {"status": THEIRS}, MERGE)
    return answer


def entries_of_status(buffer: Json) -> list[Json]:
    return [entry for entry in buffer["metadata"]["managedFields"] if entry.get("subresource") == "status"]


def is_held(room: Buffers) -> bool:
    """Return whether the policy is in force: by a buffer of its own, as a write before that would be taken as it is."""
    room.create("tried", podTemplateRef={"name": "shape"}, replicas=2)
    try:
        # 503: its typed view of the kind comes some seconds after the kind.
        return is_awaited(lambda: "replicas" not in patched(room, "tried")["status"], 503)
    finally:
        room.delete("tried")


def await_policy(room: Buffers) -> None:
    wait_for(lambda: is_held(room), "the policy holds")


@pytest.mark.usefixtures("kept")
def test_where_the_policy_holds_an_autoscaler_is_answered_with_what_plimsoll_computed(room: Buffers) -> None:
    await_policy(room)
    with controller(room.cluster) as ours:
        room.create("b", podTemplateRef={"name": "shape"}, replicas=2)
        before = room.await_replicas("b", 2)
        answer = patched(room, "b")
        kinds = {condition["type"]: condition for condition in answer["status"]["conditions"]}
        assert kinds["Provisioning"] == PROVISIONING
        assert {key: answer["status"][key] for key in ("replicas", "podTemplateRef", "podTemplateGeneration")} == {
            key: before[key] for key in ("replicas", "podTemplateRef", "podTemplateGeneration")
        }
        assert kinds["ReadyForProvisioning"]["reason"] == "AttributesSetSuccessfully"
        assert all(entry["manager"] == "plimsoll-buffers" for entry in entries_of_status(answer))
        # A second write of the same changes nothing at all: nobody is woken by it.
        assert patched(room, "b")["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]
        assert ours.standing().contested_by is None


@pytest.mark.usefixtures("kept")
def test_of_placeholder_pods_the_policy_keeps_all(room: Buffers) -> None:
    await_policy(room)
    room.create("b", podTemplateRef={"name": "shape"}, replicas=2, provisioningStrategy=PLACEHOLDER_PODS)
    with controller(room.cluster):
        before = room.await_replicas("b", 2)
        assert patched(room, "b")["status"] == before


@pytest.mark.usefixtures("kept")
def test_what_nobody_has_computed_yet_an_autoscaler_does_not_either(room: Buffers) -> None:
    await_policy(room)
    room.create("b", podTemplateRef={"name": "shape"}, replicas=2)
    patched(room, "b")
    assert [condition["type"] for condition in room.status("b")["conditions"]] == ["Provisioning"]
    assert "podTemplateRef" not in room.status("b")
    with controller(room.cluster) as ours:
        room.await_replicas("b", 2)
        assert ours.standing().contested_by is None


def test_a_status_of_our_own_strategy_is_not_fought_over_for_ever(
    room: Buffers, caplog: pytest.LogCaptureFixture
) -> None:
    with controller(room.cluster) as ours:
        room.create("b", podTemplateRef={"name": "shape"}, replicas=2, provisioningStrategy=PLACEHOLDER_PODS)
        room.await_replicas("b", 2)

        def is_left() -> bool:
            if room.status("b")["replicas"] == 2:
                patched(room, "b")
            view = ours.view(room.namespace)
            return view is not None and "b" in view.troubles

        wait_for(is_left, "ours gives up")
        view = ours.view(room.namespace)
        assert view is not None
        assert "writes its status anew each time it is taken over" in view.troubles["b"]
        assert ours.is_fought()
        assert "though its strategy is plimsoll.dev/placeholder-pods" in view.troubles["b"]
        # What is kept free goes by what ours computed all the same.
        [outcome] = view.outcomes
        assert (outcome.status.replicas, room.status("b")["replicas"]) == (2, 7)
        assert sum("again and again" in record.getMessage() for record in caplog.records) == 1
