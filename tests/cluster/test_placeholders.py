"""Placeholder pods on a real API server, with its own scheduler, controllers and garbage collector.

Nodes are objects, and pods on them run by word of a played kubelet; who goes where, who preempts whom and who is
collected with his owner is Kubernetes' own doing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from agent.core.admission.options import AdmissionSettings
from agent.core.cluster.pod import PodRef
from agent.core.eviction.options import ArbiterOptions, EvictionMode
from agent.core.eviction.proposal import Proposal, Reason, Want
from agent.core.orders.annotations import PLACEHOLDER
from agent.kube.client.api import STRATEGIC_MERGE_PATCH, HttpApi
from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.eviction.arbiter import Arbiter
from agent.webhook.eviction.preemption import GivingWay
from agent.webhook.store.evictions import EvictionStore
from tests.cluster import chart
from tests.cluster.api import APPLY, MERGE, Json
from tests.cluster.binaries import version_under_test
from tests.cluster.buffers import PROMPT, Buffers, buffers_path, install_crd, templates_path
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.identities import create_namespace, fresh_name, node_bound_token, remove_namespace
from tests.cluster.kubelet_play import KubeletPlay
from tests.cluster.objects import container, create_node, pod, pod_path
from tests.cluster.placeholder_room import QUICK, SECONDS, STRATEGY, Room, cpu_of, uids
from tests.cluster.processes import wait_for
from tests.webhook.open_store import open_store

pytestmark = pytest.mark.cluster

PARTS: Final = (
    "webhook/account", "webhook/rights", "webhook/rights-buffers", "fence/webhook-pods", "fence/webhook-templates",
)  # fmt: skip
"""Of the chart: who keeps room, and the fence around what that account does to pods."""
VALUES: Final = {"buffers": {"enabled": True, "placeholders": True}}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    version = version_under_test()
    directory = tmp_path_factory.mktemp("scheduled")
    with control_plane(version, directory=directory, with_scheduler=True, audit=False) as cluster:
        install_crd(cluster)
        for priority_class in chart.rendered()["cluster/priorities"]:
            path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{priority_class['metadata']['name']}"
            cluster.admin.patch(path, priority_class, APPLY, fieldManager="tests", force="true")
        yield cluster


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Iterator[HttpApi]:
    """The API as the webhook's own account, with the chart's rights for buffers and its fence in force."""
    create_namespace(plane, chart.NAMESPACE)
    for manifest in chart.parts(*PARTS, values=VALUES):
        plane.admin.apply(manifest)
    token = node_bound_token(plane, chart.NAMESPACE, "plimsoll-webhook", None)
    client = HttpApi(Credentials(server=plane.url, origin="tests", ca_file=plane.authority, token=token))
    # Rights and policies hold a moment after they were given; without the right it is refused too, in other words.
    wait_for(lambda: "no others" in refusal(client, "default", pod("any", None)), "the fence holds", SECONDS)
    plane.admin.delete(pod_path("default", "any"))  # made before the fence held; it would take room of a test's node
    yield client
    client.close()


def refusal(api: HttpApi, namespace: str, body: Json, **query: str) -> str:
    """Try to make a pod; what the server says against it, empty = nothing."""
    try:
        api.call("POST", pod_path(namespace), body=body, query=query)
    except ApiError as error:
        return error.message
    return ""


@pytest.fixture
def room(plane: ControlPlane, api: HttpApi) -> Iterator[Room]:
    """A node of four CPUs, and a namespace."""
    namespace, node = fresh_name("room"), fresh_name("node")
    create_namespace(plane, namespace)
    create_node(plane.admin, node, cpu="4", memory="8Gi")
    with KubeletPlay(plane, node):
        yield Room(plane=plane, api=api, buffers=Buffers(plane, namespace), node=node)
        for buffer in plane.admin.items(buffers_path(namespace)):
            plane.admin.delete(buffers_path(namespace, buffer["metadata"]["name"]))
    remove_namespace(plane, namespace)
    plane.admin.delete(f"/api/v1/nodes/{node}")


# -- what they are -------------------------------------------------------------------------------------------------


def test_placeholders_are_scheduled_run_and_are_told_of(room: Room) -> None:
    room.template()
    room.buffer(3)
    with room.kept():
        assert room.await_provisioning("RoomKept") == "3 of 3 placeholder pods keep their room"
        wait_for(lambda: room.ready() == "3", "the annotation says so", SECONDS)
    pods = room.pods()
    assert len(pods) == 3
    for live_pod in pods:
        spec = live_pod["spec"]
        assert (spec["nodeName"], spec["priority"], spec["preemptionPolicy"]) == (room.node, -10, "Never")
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "64Mi"}
        assert "env" not in spec["containers"][0]
        assert not spec.get("volumes")
        assert "app" not in live_pod["metadata"]["labels"]
    status = room.buffers.status("spare")
    assert (status["replicas"], status["provisioningStrategy"]) == (3, STRATEGY)


def test_a_namespace_that_enforces_the_strictest_standard_takes_them(room: Room) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    room.plane.admin.patch(f"/api/v1/namespaces/{room.namespace}", {"metadata": {"labels": labels}}, MERGE)
    room.template()
    room.buffer(1)
    # The dry run of the chunk itself, which would be refused, is not what is tried here.
    with room.kept(dry_run=False):
        room.await_provisioning("RoomKept")


def test_what_the_server_refuses_is_said_in_its_words(room: Room) -> None:
    room.template()
    room.buffer(1)
    with room.kept(replace(QUICK, priority_class="nobody")):
        assert "no PriorityClass with name nobody was found" in room.await_provisioning("PlaceholdersRefused")
    with room.kept():
        room.await_provisioning("RoomKept")


def test_a_class_that_lets_pods_drive_others_away_is_refused(room: Room) -> None:
    room.template()
    room.buffer(1)
    with room.kept(replace(QUICK, priority_class="plimsoll")):
        assert "preemption" in room.await_provisioning("PlaceholdersRefused").lower()
    assert room.pods() == []


def test_the_account_that_makes_them_can_do_nothing_to_other_pods(room: Room) -> None:
    room.template()
    room.buffer(1)
    with room.kept():
        room.await_provisioning("RoomKept")
    mine = room.pods()[0]
    template = {
        "metadata": {key: mine["metadata"][key] for key in ("labels", "annotations", "ownerReferences")},
        "spec": {key: value for key, value in mine["spec"].items() if key != "nodeName"},
    }
    assert refusal(room.api, room.namespace, {**template, "metadata": {**template["metadata"], "name": "one"}}) == ""
    unmarked = {**template["metadata"], "name": "two", "labels": {}}
    assert "no others" in refusal(room.api, room.namespace, {**template, "metadata": unmarked})
    secret = {**template["spec"], "volumes": [{"name": "s", "secret": {"secretName": "s"}}]}
    named = {**template["metadata"], "name": "three"}
    assert "no others" in refusal(room.api, room.namespace, {"metadata": named, "spec": secret})
    high = {**template["spec"], "priorityClassName": "plimsoll", "priority": None, "preemptionPolicy": None}
    assert "no others" in refusal(room.api, room.namespace, {"metadata": named, "spec": high})
    # A chunk may be tried out, whatever it is.
    assert refusal(room.api, room.namespace, pod("try", None), dryRun="All") == ""
    room.plane.admin.create(pod_path(room.namespace), pod("web", room.node))
    path = pod_path(room.namespace, "web")
    with pytest.raises(ApiError, match="no others"):
        room.api.call("DELETE", path)
    with pytest.raises(ApiError, match="no others"):
        room.api.call(
            "PATCH",
            f"{path}/resize",
            body={"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "50m"}}}]}},
            content_type=STRATEGIC_MERGE_PATCH,
        )


# -- giving way ----------------------------------------------------------------------------------------------------


def test_one_gives_way_to_a_pod_of_its_node_that_grows_and_nobody_is_evicted(room: Room, tmp_path: Path) -> None:
    room.template()
    room.buffer(3)
    room.real("web", "1")
    with room.kept() as keeper, contextlib.ExitStack() as ending:
        room.await_provisioning("RoomKept")  # and the node is full
        path = pod_path(room.namespace, "web")
        body = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1500m"}}}]}}
        room.plane.admin.patch(f"{path}/resize", body)
        wait_for(lambda: resize_reason(room, path) == "Deferred", "the kubelet puts the resize off", SECONDS)
        uid = room.plane.admin.get(path)["metadata"]["uid"]
        facts = ClusterFacts(room.api, namespace=chart.NAMESPACE, pace=PROMPT)
        facts.start()
        ending.callback(facts.stop)
        wait_for(lambda: facts.is_complete and facts.pod(uid) is not None, "the cluster is known", SECONDS)
        store = open_store(f"sqlite:///{tmp_path / 'plimsoll.db'}")
        ending.callback(store.close)
        arbiter = Arbiter(
            api=room.api,
            store=EvictionStore(store),
            facts=facts,
            admission=lambda _: pytest.fail("its replacement was asked about"),
            options=ArbiterOptions(mode=EvictionMode.ENFORCE),
            sizing=AdmissionSettings(),
            give_way=GivingWay(room.api, pods=keeper.pods),
        )
        ref = PodRef(namespace=room.namespace, name="web", uid=uid)
        [reply] = arbiter.decide(room.node, [Proposal(ref=ref, want=Want.CPU)])
        assert reply.ruling.reason is Reason.PLACEHOLDER
        wait_for(lambda: resize_reason(room, path) is None, "the pod has grown where it is", SECONDS)
        granted = room.plane.admin.get(path)["status"]["containerStatuses"][0]["allocatedResources"]["cpu"]
        assert granted == "1500m"
        assert room.plane.admin.get(path)["metadata"]["uid"] == uid
        # The one that went is made again and waits: its room is the real pod's.
        room.await_provisioning("PlaceholdersWaiting", "1 wait for a node", "Insufficient cpu")


def resize_reason(room: Room, path: str) -> str | None:
    conditions = room.plane.admin.get(path)["status"].get("conditions") or []
    return next((condition.get("reason") for condition in conditions if condition["type"] == "PodResizePending"), None)


def test_a_real_pod_preempts_them_and_they_come_back_when_there_is_room(room: Room) -> None:
    room.template()
    room.buffer(4)
    with room.kept():
        room.await_provisioning("RoomKept")
        first = uids(room.pods())
        room.real("web", "3")
        room.await_bound("web")
        # Three went; they are made again and wait, as nothing but the real pod's end gives them room.
        room.await_provisioning("PlaceholdersWaiting", "3 wait for a node", "Insufficient cpu")
        wait_for(lambda: room.ready() == "1", "one is left", SECONDS)
        assert room.is_bound("web")
        assert len(first & uids(room.pods())) == 1
        room.remove("web")
        room.await_provisioning("RoomKept", "4 of 4")


def test_they_wait_before_they_are_made_again(room: Room) -> None:
    room.template()
    room.buffer(2)
    with room.kept(replace(QUICK, first_back_off_seconds=3600.0, most_back_off_seconds=7200.0)):
        room.await_provisioning("RoomKept")
        room.real("web", "4")
        room.await_bound("web")
        room.await_provisioning("PlaceholdersGaveWay", "0 of 2", "2 gave way, made again at")
        assert room.pods() == []


# -- for the pods of a selector ------------------------------------------------------------------------------------


def test_pods_that_a_buffer_is_for_fill_it_and_others_only_take_room(room: Room) -> None:
    room.template()
    room.buffer(3, **{"plimsoll.dev/for": "app=web, tier in (front)"})
    with room.kept():
        room.await_provisioning("RoomKept", "3 of 3")
        label(room, "other", app="web")
        room.await_bound("other")
        label(room, "web", app="web", tier="front")
        room.await_bound("web")
        # Four CPUs: one each for the two, and two are left of three, of which one is filled.
        room.buffers.await_replicas("spare", 2)
        room.await_provisioning("RoomKept", "2 of 2")
        room.remove("web")
        room.buffers.await_replicas("spare", 3)
        room.await_provisioning("RoomKept", "3 of 3")
        room.plane.admin.patch(
            buffers_path(room.namespace, "spare"),
            {"metadata": {"annotations": {"plimsoll.dev/for": "app in web"}}},
            MERGE,
        )
        room.buffers.await_not_ready("spare", "annotation plimsoll.dev/for: 'app in web' is not allowed")
        # Of the pods it is told after what became of them.
        room.await_provisioning("NotReadyForProvisioning", "the 3 placeholder pods that there are stay")
        assert len(room.running()) == 3  # in doubt nothing is removed


def label(room: Room, name: str, **labels: str) -> None:
    """A real pod of one CPU with labels."""
    place = {"nodeSelector": {"kubernetes.io/hostname": room.node}}
    document = pod(name, None, container(requests={"cpu": "1"}), **place)
    document["metadata"]["labels"] = labels
    room.plane.admin.create(pod_path(room.namespace), document)


# -- other sizes ---------------------------------------------------------------------------------------------------


def test_another_size_is_taken_in_place_and_another_place_by_new_pods(room: Room) -> None:
    room.template(cpu="500m")
    room.buffer(2)
    with room.kept(resync_seconds=10.0):
        room.await_provisioning("RoomKept")
        before = uids(room.pods())
        room.change_template("1500m")
        wait_for(lambda: cpu_of(room.running()) == ["1500m", "1500m"], "both are larger", SECONDS)
        room.await_provisioning("RoomKept")
        assert uids(room.pods()) == before
        room.change_template("1500m", tolerations=[{"key": "spot", "operator": "Exists"}])
        wait_for(lambda: not before & uids(room.running()) and len(room.running()) == 2, "both are new", SECONDS)
        room.await_provisioning("RoomKept")


def test_a_size_that_does_not_fit_in_place_is_tried_elsewhere_and_told(room: Room) -> None:
    room.template(cpu="1")
    room.buffer(4)
    with room.kept(resync_seconds=10.0):
        room.await_provisioning("RoomKept")
        room.change_template("1900m")  # two fit into four CPUs
        room.await_provisioning("PlaceholdersWaiting", "2 of 4")


def test_a_server_that_does_not_resize_has_them_replaced(room: Room) -> None:
    room.template(cpu="500m")
    room.buffer(1)
    with room.kept(can_resize=False):
        room.await_provisioning("RoomKept")
        before = uids(room.pods())
        room.change_template("750m")
        wait_for(lambda: cpu_of(room.running()) == ["750m"], "it is larger", SECONDS)
        assert not before & uids(room.pods())


# -- going ---------------------------------------------------------------------------------------------------------


def test_they_go_with_their_buffer_though_nobody_is_there_to_remove_them(room: Room) -> None:
    room.template()
    room.buffer(2)
    with room.kept():
        room.await_provisioning("RoomKept")
    room.buffers.delete("spare")
    wait_for(lambda: room.pods() == [], "the garbage collector has taken them", SECONDS)


def test_scaled_to_nothing_or_under_another_strategy_they_are_removed(room: Room) -> None:
    room.template()
    room.buffer(2)
    with room.kept():
        room.await_provisioning("RoomKept")
        room.buffers.change("spare", replicas=1)
        room.await_provisioning("RoomKept", "1 of 1")
        assert len(room.pods()) == 1
        room.buffers.change("spare", replicas=0)
        room.await_provisioning("BufferIsEmpty")
        assert room.pods() == []
        assert room.ready() == "0"
        room.buffers.change("spare", replicas=1)
        room.await_provisioning("RoomKept", "1 of 1")
        room.buffers.change("spare", provisioningStrategy="buffer.x-k8s.io/active-capacity")
        wait_for(lambda: room.pods() == [] and room.ready() is None, "they are gone, and the annotation", SECONDS)


def test_while_the_template_is_missing_they_stay(room: Room) -> None:
    room.template()
    room.buffer(2)
    with room.kept():
        room.await_provisioning("RoomKept")
        room.plane.admin.delete(templates_path(room.namespace, "small"))
        room.buffers.await_not_ready("spare", "small")
        room.await_provisioning("NotReadyForProvisioning", "the 2 placeholder pods that there are stay")
        assert len(room.running()) == 2
        room.template()
        room.await_provisioning("RoomKept", "2 of 2")


def test_a_pod_of_somebody_elses_with_the_label_is_left_alone(room: Room) -> None:
    strange = pod("strange", room.node, labels={PLACEHOLDER: "true"})
    room.plane.admin.create(pod_path(room.namespace), strange)
    room.template()
    room.buffer(1)
    with room.kept():
        room.await_provisioning("RoomKept")
        room.buffers.change("spare", replicas=0)
        room.await_provisioning("BufferIsEmpty")
        assert [live_pod["metadata"]["name"] for live_pod in room.pods()] == ["strange"]


# -- quotas, replicas of the controller, schedules -----------------------------------------------------------------


def test_a_buffer_does_not_shrink_because_its_own_pods_fill_the_quota(room: Room) -> None:
    quotas = f"/api/v1/namespaces/{room.namespace}/resourcequotas"
    room.plane.admin.create(quotas, {"metadata": {"name": "cpu"}, "spec": {"hard": {"requests.cpu": "3"}}})
    wait_for(lambda: room.plane.admin.get(f"{quotas}/cpu").get("status", {}).get("hard"), "the quota counts", SECONDS)
    # It adds limits to every container: a dry run that the full quota refuses must not take them away again.
    default = {"type": "Container", "default": {"cpu": "2", "memory": "256Mi"}}
    ranges = f"/api/v1/namespaces/{room.namespace}/limitranges"
    room.plane.admin.create(ranges, {"metadata": {"name": "usual"}, "spec": {"limits": [default]}})
    room.template()
    room.buffer(4)

    def used() -> str:
        cpu: str = room.plane.admin.get(f"{quotas}/cpu")["status"]["used"]["requests.cpu"]
        return cpu

    with room.kept() as keeper:
        room.await_provisioning("RoomKept", "3 of 3")
        wait_for(lambda: used() == "3", "the quota is full", SECONDS)
        limited = room.buffers.condition("spare", "LimitedByQuotas") or {}
        assert limited["message"] == "Buffer replicas limited from 4 to 3 due to quotas: cpu"
        usage = keeper.usage(room.namespace)
        assert usage is not None
        assert usage["spare"]["cpu"] == 3 * 10**9
        room.buffers.change("spare", replicas=3)
        room.buffers.await_status(
            "spare",
            lambda status: any(
                condition["type"] == "LimitedByQuotas" and condition["status"] == "False"
                for condition in status["conditions"]
            ),
            "three are not limited",
        )
        before = uids(room.pods())
    with room.kept():  # a new leader, which knows nothing yet
        room.buffers.change("spare", replicas=2)
        room.await_provisioning("RoomKept", "2 of 2")
        room.buffers.change("spare", replicas=3)
        room.await_provisioning("RoomKept", "3 of 3")
        assert len(before & uids(room.pods())) == 2


def test_two_that_both_take_themselves_for_the_leader_make_nothing_twice(room: Room) -> None:
    room.template(cpu="100m")
    room.buffer(20)
    with room.kept(), room.kept():
        room.await_provisioning("RoomKept", "20 of 20")
        assert len(room.pods()) == 20


def test_a_window_begins_and_ends_by_the_controllers_own_clock(room: Room) -> None:
    # Monday 2026-11-23, 07:00 in Berlin is 06:00 UTC; the clock is put to three seconds before it, and stands until
    # what holds by then has been seen.
    monday = datetime(2026, 11, 23, 6, 0, tzinfo=UTC).timestamp()
    start, going_since = monday - 3.0, float("inf")
    room.wall_clock = lambda: start + max(time.time() - going_since, 0.0)
    room.template()
    room.buffer(1, "morning", **{"plimsoll.dev/schedule": "Europe/Berlin 0 7 * * mon-fri for 12h"})
    room.buffer(1, "night", **{"plimsoll.dev/schedule": "Europe/Berlin 0 19 * * * for 12h"})
    with room.kept():
        room.buffers.await_replicas("morning", 0)
        ready = room.buffers.condition("morning") or {}
        assert ready["status"] == "True"
        assert "inactive until 2026-11-23 07:00 CET, Europe/Berlin" in ready["message"]
        # Nothing changes but the time: resync is five minutes away.
        going_since = time.time()
        room.buffers.await_replicas("morning", 1)
        room.buffers.await_replicas("night", 0)
        room.await_provisioning("RoomKept", name="morning")
        room.await_provisioning("BufferIsEmpty", name="night")
        assert len(room.pods()) == 1
    # Twelve hours later: three seconds before 19:00.
    start, going_since = monday + 12 * 3600 - 3.0, float("inf")
    with room.kept():
        room.await_provisioning("RoomKept", name="morning")
        going_since = time.time()
        room.await_provisioning("BufferIsEmpty", name="morning")
        room.await_provisioning("RoomKept", name="night")


def test_a_schedule_that_is_not_understood_is_told_and_mended_at_once(room: Room) -> None:
    room.template()
    room.buffer(1, **{"plimsoll.dev/schedule": "Mars/Base 0 7 * * * for 12h"})
    with room.kept():
        room.buffers.await_not_ready("spare", "annotation plimsoll.dev/schedule: 'Mars/Base' is no time zone")
        room.plane.admin.patch(
            buffers_path(room.namespace, "spare"), {"metadata": {"annotations": {"plimsoll.dev/schedule": None}}}, MERGE
        )
        room.await_provisioning("RoomKept")
