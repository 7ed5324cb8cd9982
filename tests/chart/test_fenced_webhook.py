"""What the webhook may do to pods once CapacityBuffers are on, by the chart's rights and policy on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.chart.release import Release
from tests.cluster import objects
from tests.cluster.api import Api, ApiError, Json
from tests.cluster.chart import NAMESPACE, RELEASE, helm
from tests.cluster.identities import create_service_account, fresh_name, node_bound_token
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

FORBIDDEN = 403
OWNER = {
    "apiVersion": "autoscaling.x-k8s.io/v1beta1",
    "kind": "CapacityBuffer",
    "name": "room",
    "uid": "u",
    "controller": True,
}


@pytest.fixture(scope="module")
def room(release: Release) -> Iterator[Release]:
    """The chart with buffers, in a namespace where pods may be made at once."""
    if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()
    if not release.plane.admin.exists("/api/v1/namespaces/default/serviceaccounts/default"):
        create_service_account(release.plane, "default", "default")
    release.install({"buffers": {"enabled": True, "placeholders": True}})
    yield release
    release.uninstall()


@pytest.fixture(scope="module")
def webhook(room: Release) -> Api:
    api = room.plane.api_with_token(node_bound_token(room.plane, NAMESPACE, "plimsoll-webhook", None))
    wait_for(lambda: "no others" in why_not(lambda: make(api, plain())), "role and policy are in force")
    return api


def plain() -> Json:
    return objects.pod(fresh_name("plain"), None, objects.container(requests={"cpu": "100m"}))


def placeholder(**spec: Any) -> Json:
    made = objects.pod(fresh_name("room"), None, objects.container(requests={"cpu": "100m"}))
    made["metadata"] |= {"labels": {"plimsoll.dev/placeholder": "true"}, "ownerReferences": [OWNER]}
    made["spec"] |= {"priorityClassName": "plimsoll-placeholder", "automountServiceAccountToken": False, **spec}
    return made


def make(api: Api, manifest: Json, **query: str) -> Json:
    return api.create(objects.pod_path("default"), manifest, **query)


def why_not(call: Callable[[], object]) -> str:
    try:
        call()
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return error.message
    return ""


def test_placeholder_is_made_resized_and_removed(webhook: Api) -> None:
    made = make(webhook, placeholder())
    name = made["metadata"]["name"]
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (-10, "Never")
    objects.resize(webhook, "default", name, objects.resize_body(app={"requests": {"cpu": "200m"}}))
    webhook.delete(objects.pod_path("default", name), gracePeriodSeconds="0")


def test_another_pod_is_tried_out_and_neither_stored_resized_nor_removed(room: Release, webhook: Api) -> None:
    make(webhook, plain(), dryRun="All")
    assert "no others" in why_not(lambda: make(webhook, plain()))
    other = make(room.plane.admin, plain())["metadata"]["name"]
    body = objects.resize_body(app={"requests": {"cpu": "200m"}})
    assert "no others" in why_not(lambda: objects.resize(webhook, "default", other, body))
    assert "no others" in why_not(lambda: webhook.delete(objects.pod_path("default", other)))
    assert "no others" in why_not(
        lambda: webhook.request("DELETE", objects.pod_path("default", other), query={"dryRun": "All"})
    )
    room.plane.admin.delete(objects.pod_path("default", other), gracePeriodSeconds="0")


SHAPES: dict[str, dict[str, Any]] = {
    "a token": {"automountServiceAccountToken": True},
    "another class": {"priorityClassName": "plimsoll"},
    "a host's folder": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
    "the host's network": {"hostNetwork": True},
    "the host's processes": {"hostPID": True},
    "a node of its choice": {"nodeName": "any"},
    "privileges": {
        "containers": [{**objects.container(requests={"cpu": "1m"}), "securityContext": {"privileged": True}}]
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_placeholder_that_would_be_more_than_room_is_refused(webhook: Api, shape: str) -> None:
    assert "no others" in why_not(lambda: make(webhook, placeholder(**SHAPES[shape])))


def test_label_alone_makes_no_placeholder(room: Release, webhook: Api) -> None:
    manifest = placeholder()
    del manifest["metadata"]["ownerReferences"]
    assert "no others" in why_not(lambda: make(webhook, manifest))
    somebodys = make(room.plane.admin, manifest)["metadata"]["name"]
    assert "no others" in why_not(lambda: webhook.delete(objects.pod_path("default", somebodys)))
    room.plane.admin.delete(objects.pod_path("default", somebodys), gracePeriodSeconds="0")


def test_server_finds_no_fault_in_the_expressions(room: Release) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def unchecked() -> list[str]:
        return [
            one["metadata"]["name"]
            for one in room.plane.admin.items(path)
            if "typeChecking" not in one.get("status", {})
        ]

    wait_for(lambda: not unchecked(), "all policies are checked")
    found = room.plane.admin.items(path)
    assert len(found) == 4
    assert [
        one["status"]["typeChecking"] for one in found if one["status"]["typeChecking"].get("expressionWarnings")
    ] == []


def test_without_placeholders_nothing_is_stored(room: Release, webhook: Api) -> None:
    room.upgrade({"buffers": {"enabled": True}})
    wait_for(lambda: "and write none" in why_not(lambda: make(webhook, placeholder())), "the policy says so")
    make(webhook, plain(), dryRun="All")
