"""What the controller of VerticalPodAutoscaler objects asks and writes; tests/cluster has a real API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent.core.admission.answer import Admission, AdmissionFacts
from agent.core.admission.pod_admission import admit
from agent.core.autoscalers.options import Publish, VpaObjectOptions
from agent.core.autoscalers.vpa_orders import VpaOrders, VpaSurroundings, holder_of, vpa_orders
from agent.core.cluster.facts import PodPlace
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod
from agent.core.cluster.vpa import VpaObject
from agent.core.cluster.workload import Workload
from agent.core.orders.enforce_share import LAST_TICKET
from agent.kube.client.api import MERGE_PATCH
from agent.kube.client.errors import ApiError, Unreachable
from agent.kube.objects.vpa_json import managed_to_json, vpa_from_json
from agent.webhook.autoscalers.controller import BACK_OFF_SECONDS, LOOK_SECONDS, VpaController, VpaParts
from agent.webhook.autoscalers.pods import KEPT_SECONDS
from agent.webhook.autoscalers.publisher import PublisherParts, managed_name
from agent.webhook.clocks import Clocks
from agent.webhook.cluster.facts import ClusterFacts
from tests.admissions import EXACT, NOW_UNIX_SECONDS, estimate, new_pod
from tests.fake_api import Call, FakeApi
from tests.pods import container
from tests.vpas import vpa, vpa_json

WEB = Workload(namespace="shop", kind="Deployment", name="web")
APP = container("app", {"cpu": "500m", "memory": "300M"})


@dataclass
class Facts(ClusterFacts):
    """A cluster of one workload, as a test wishes."""

    objects: list[VpaObject] = field(default_factory=lambda: [vpa("InPlace")])
    place: PodPlace | None = field(
        default_factory=lambda: PodPlace(
            uid="u1", namespace="shop", name="web-1", node="n", workload=WEB, is_running=True, is_terminating=False
        )
    )
    theirs: bool = False
    serves_vpas: bool = True
    walks: int = 0

    def own_vpas(self) -> tuple[VpaOrders, ...]:
        return tuple(vpa_orders(own_vpa, VpaSurroundings(has_their_admission=self.theirs)) for own_vpa in self.objects)

    def held_by(self, vpa: VpaObject) -> VpaObject | None:
        held = holder_of(own_vpa for own_vpa in self.objects if own_vpa.target == vpa.target)
        return None if held is None or held.uid == vpa.uid else held

    def has_vpa(self, workload: Workload) -> bool:
        return any(own_vpa.target == workload and not own_vpa.is_managed for own_vpa in self.objects)

    @property
    def has_their_admission(self) -> bool:
        return self.theirs

    def a_pod_of(self, workloads: Iterable[Workload]) -> Mapping[Workload, PodPlace]:
        self.walks += 1
        return {WEB: self.place} if self.place is not None and WEB in set(workloads) else {}

    def pod(self, uid: str) -> PodPlace | None:
        return self.place if self.place is not None and self.place.uid == uid else None

    def with_top_owner(self, pod: Pod) -> Pod:
        return pod


class Desk:
    """A controller with a clock that moves when told, over an API server that keeps what it is sent."""

    def __init__(self, *objects: VpaObject, publish: Publish = Publish.OFF, mode: str | None = None) -> None:
        self.facts = Facts(objects=list(objects))
        self.now, self.leads, self.known = 1000.0, True, estimate()
        self.pod = {**new_pod(APP, mode=mode), "status": {"phase": "Running"}}
        self.api = FakeApi(self.answer)
        self.refusal: Exception | None = None
        self.controller = VpaController(
            VpaParts(
                api=self.api,
                facts=self.facts,
                admission=lambda pod, _: self.admitted(pod),
                publishing=PublisherParts(
                    api=self.api, facts=self.facts, workloads=lambda: [WEB], admission=self.admitted
                ),
                may_write=lambda: self.leads,
                is_ready=lambda: True,
            ),
            VpaObjectOptions(enabled=True, publish=publish),
            clocks=Clocks(monotonic=lambda: self.now, wall=lambda: NOW_UNIX_SECONDS),
            spacing_seconds=0.0,
        )

    def answer(self, call: Call) -> object:
        if call.method == "GET":
            return self.pod
        if self.refusal is not None:
            raise self.refusal
        return {}

    def admitted(self, pod: Pod) -> Admission:
        held = holder_of(self.facts.objects)
        around = VpaSurroundings(has_their_admission=self.facts.theirs)
        orders = {} if held is None else vpa_orders(held, around).at_admission
        return admit(
            pod,
            facts=AdmissionFacts(namespace=Namespace(name="shop"), autoscaler=orders, share_ticket=LAST_TICKET),
            estimates=lambda _container, _policy: self.known,
            settings=EXACT,
            now_unix_seconds=NOW_UNIX_SECONDS,
        )

    def turn(self, after_seconds: float = 0.0) -> list[Call]:
        """Take a turn; give what was written."""
        self.now += after_seconds
        before = len(self.api.calls)
        self.seconds = self.controller._turn()
        return [call for call in self.api.calls[before:] if call.method != "GET"]

    def take(self, call: Call) -> None:
        """Have the watch bring what was written."""
        written = vpa_from_json({**vpa_json(), "status": call.body["status"]}).status
        self.facts.objects = [replace(own_vpa, status=written) for own_vpa in self.facts.objects]


def test_a_pod_that_is_not_understood_is_not_read_at_each_turn() -> None:
    desk = Desk(vpa("InPlace"))
    sound, desk.pod = desk.pod, {"metadata": {"name": "web-1"}, "spec": "none"}
    assert [desk.turn(), desk.turn(60.0)] == [[], []]
    assert [call.method for call in desk.api.calls] == ["GET"]
    desk.pod = sound
    assert len(desk.turn(KEPT_SECONDS)) == 1


def test_a_status_is_written_once_and_again_only_when_it_moved_and_a_minute_passed() -> None:
    desk = Desk(vpa("InPlace"))
    (call,) = desk.turn()
    path = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web/status"
    assert (call.method, call.path, call.content_type) == ("PATCH", path, MERGE_PATCH)
    (app,) = call.body["status"]["recommendation"]["containerRecommendations"]
    assert app["target"] == {"cpu": "300m", "memory": "200000000"}
    assert (call.body["metadata"], call.body["status"]["observedGeneration"]) == ({"resourceVersion": "77"}, 3)
    desk.take(call)
    desk.known = estimate(400)
    assert desk.turn(30.0) == [], "not within the minute"
    (call,) = desk.turn(30.0)
    desk.take(call)
    desk.known = estimate(405)
    assert desk.turn(60.0) == [], "1 % is too little"
    assert desk.controller.statuses.results == {"written": 2, "kept": 1}
    assert desk.seconds == LOOK_SECONDS


def test_a_new_generation_is_looked_at_at_once_and_its_pod_is_read_once() -> None:
    desk = Desk(vpa("InPlace"))
    desk.take(desk.turn()[0])
    assert desk.turn(61.0) == []
    desk.facts.objects = [replace(desk.facts.objects[0], generation=4)]
    (call,) = desk.turn(1.0)
    assert call.body["status"]["observedGeneration"] == 4
    assert sum(call.method == "GET" for call in desk.api.calls) == desk.facts.walks == 1
    desk.facts.place = None
    (call,) = desk.turn(61.0)
    assert "recommendation" not in call.body["status"], "what was recommended last stays"
    assert "NoPodsMatched" in {condition["type"] for condition in call.body["status"]["conditions"]}


@pytest.mark.parametrize(("share", "sized"), [("10%", "True"), ("0%", "False")])
def test_under_a_share_its_pods_are_recommended_for_and_it_is_said_whether_any_is_sized(share: str, sized: str) -> None:
    desk = Desk(vpa("InPlace"))
    desk.pod["metadata"]["annotations"] = {"plimsoll.dev/enforce-share": share}
    (call,) = desk.turn()
    assert call.body["status"]["recommendation"]["containerRecommendations"]
    conditions = {condition["type"]: condition["status"] for condition in call.body["status"]["conditions"]}
    assert conditions["SizedByPlimsoll"] == sized


def test_who_does_not_lead_asks_nothing() -> None:
    desk = Desk(vpa("InPlace"))
    desk.leads = False
    desk.turn()
    assert desk.api.calls == []


@pytest.mark.parametrize(("status", "result"), [(403, "refused"), (422, "refused")])
def test_a_refusal_is_counted_and_not_tried_again_within_the_minute(status: int, result: str) -> None:
    desk = Desk(vpa("InPlace"))
    desk.refusal = ApiError("PATCH", status=status)
    desk.turn()
    assert desk.controller.statuses.results == {result: 1}
    assert desk.turn(30.0) == []
    assert len(desk.turn(31.0)) == 1


@pytest.mark.parametrize("status", [404, 409])
def test_an_object_that_changed_meanwhile_is_looked_at_anew_at_once(status: int) -> None:
    desk = Desk(vpa("InPlace"))
    desk.refusal = ApiError("PATCH", status=status)
    desk.turn()
    assert desk.controller.statuses.results == {"changed": 1}
    desk.refusal = None
    assert len(desk.turn(5.0)) == 1


def test_a_server_that_is_away_is_left_in_peace_for_a_while() -> None:
    desk = Desk(vpa("InPlace"))
    desk.refusal = Unreachable("away")
    desk.turn()
    assert desk.seconds == BACK_OFF_SECONDS


def test_of_two_objects_for_one_workload_the_younger_says_whom_it_gives_way_to() -> None:
    desk = Desk(vpa("InPlace"), replace(vpa("Off", name="late"), created_unix_seconds=2e9))
    first, second = desk.turn()
    assert "recommendation" in first.body["status"]
    words = {condition["type"]: condition["message"] for condition in second.body["status"]["conditions"]}
    assert words["SizedByPlimsoll"] == "VPA shop/web is for the same Deployment web, and older"


# -- objects of our own ----------------------------------------------------------------------------------------------


def managed() -> VpaObject:
    return vpa_from_json({**managed_to_json(WEB, managed_name(WEB), "apps/v1")})


def test_an_enforced_workload_without_an_object_is_given_one_and_only_one() -> None:
    desk = Desk(publish=Publish.ENFORCED, mode="enforce")
    (call,) = desk.turn()
    assert (call.method, call.path) == ("POST", "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers")
    assert call.body["metadata"]["name"] == "plimsoll-deployment-web"
    assert desk.turn(30.0) == []
    desk.facts.objects = [managed()]
    (status,) = desk.turn(31.0)
    assert status.path.endswith("/plimsoll-deployment-web/status")
    words = {condition["type"]: condition["message"] for condition in status.body["status"]["conditions"]}
    assert words["SizedByPlimsoll"] == "mode enforce by the pod annotation", "its own InPlace orders nothing"
    assert desk.controller.publisher.results == {"made": 1}


@pytest.mark.parametrize("how", ["recommend", "theirs", "somebody's", "gone"])
def test_an_object_of_ours_goes_with_its_reason(how: str) -> None:
    desk = Desk(managed(), publish=Publish.ENFORCED, mode="recommend" if how == "recommend" else "enforce")
    if how == "theirs":
        desk.facts.theirs = True
    if how == "somebody's":
        desk.facts.objects.append(vpa("Off"))
    if how == "gone":
        desk.facts.place = None
    calls = [call for call in desk.turn() if call.method == "DELETE"]
    assert [call.path.rpartition("/")[2] for call in calls] == ["plimsoll-deployment-web"]
    assert calls[0].body == {"preconditions": {"uid": ""}}


def test_nothing_is_made_where_the_kind_is_not_known_or_theirs_is_there_or_it_is_off() -> None:
    for change in ({"serves_vpas": False}, {"theirs": True}):
        desk = Desk(publish=Publish.ENFORCED, mode="enforce")
        for name, value in change.items():
            setattr(desk.facts, name, value)
        assert desk.turn() == []
    assert Desk(mode="enforce").turn() == []


def test_an_object_that_may_not_be_made_is_counted_and_one_that_is_there_is_not() -> None:
    desk = Desk(publish=Publish.ENFORCED, mode="enforce")
    desk.refusal = ApiError("POST", status=403)
    desk.turn()
    assert desk.controller.publisher.results == {"refused": 1}
    desk.refusal = ApiError("POST", status=409)
    desk.turn(61.0)
    assert desk.controller.publisher.results == {"refused": 1}


def test_a_pod_that_cannot_be_read_yet_leaves_its_object_be() -> None:
    desk = Desk(managed(), publish=Publish.ENFORCED, mode="enforce")
    desk.pod = {"metadata": {}}
    assert desk.turn() == []


def test_names_are_those_of_objects_and_long_ones_are_cut() -> None:
    long = managed_name(replace(WEB, name="w" * 253))
    assert len(long) == 253
    assert long != managed_name(replace(WEB, name="w" * 252 + "x"))


def test_it_starts_only_where_it_is_enabled() -> None:
    desk = Desk()
    off: Any = VpaController(desk.controller._parts, VpaObjectOptions())
    off.start()
    off.stop()
    assert desk.api.calls == []
