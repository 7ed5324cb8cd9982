"""When HPAs are read and written, and what is said of refusals; tests/cluster has a real API server."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent.core.admission.answer import Admission, AdmissionFacts
from agent.core.admission.pod_admission import admit
from agent.core.autoscalers.options import HpaOptions, Preserve
from agent.core.autoscalers.preserved_target import MovableTargets
from agent.core.cluster.facts import PodPlace, WorkloadRequests
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.orders.annotations import HPA_PRESERVE
from agent.kube.client.errors import ApiError, Unreachable
from agent.kube.objects.cluster_json import autoscaler_from_json
from agent.webhook.autoscalers.targets import (
    BACK_OFF_SECONDS,
    CALM_SECONDS,
    LOOK_SECONDS,
    MOST_LOOKS,
    REFUSED_SECONDS,
    URGENT_SECONDS,
    HpaParts,
    HpaTargets,
)
from agent.webhook.clocks import Clocks
from agent.webhook.cluster.facts import ClusterFacts
from tests.admissions import EXACT, NOW_UNIX_SECONDS, estimate, new_pod
from tests.fake_api import Call, FakeApi
from tests.pods import container

WEB = Workload(namespace="shop", kind="Deployment", name="web")
HPA = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web"
POD = "/api/v1/namespaces/shop/pods/web-1"


@dataclass
class Facts(ClusterFacts):
    """A cluster of one workload and one HPA, as the API server has it at the moment."""

    server: Server
    millicores: int = 500
    pods: int = 1
    is_only: bool = True

    def movable_targets(self) -> tuple[tuple[Workload, MovableTargets, bool], ...]:
        targets = autoscaler_from_json(self.server.document).movable
        return () if targets is None else ((WEB, targets, self.is_only),)

    def requested(self, workload: Workload) -> WorkloadRequests:
        return WorkloadRequests(pods=self.pods, cpu_millicores=self.millicores * self.pods, memory_bytes=0)

    def a_pod_of(self, workloads: Iterable[Workload]) -> Mapping[Workload, PodPlace]:
        place = PodPlace(
            uid="u1", namespace="shop", name="web-1", node="n", workload=WEB, is_running=True, is_terminating=False
        )
        return {WEB: place} if self.pods else {}

    def with_top_owner(self, pod: Pod) -> Pod:
        return pod


@dataclass
class Server(FakeApi):
    """Keeps one HPA, and takes patches as an API server does."""

    document: dict[str, Any] = field(default_factory=dict)
    pod: Any = None
    faults: dict[tuple[str, str], Exception] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def answer(self, call: Call) -> object:
        fault = self.faults.get((call.method, call.path))
        if fault is not None:
            raise fault
        if call.method == "PATCH":
            for operation in call.body:
                self._apply(**operation)
            self.document["metadata"]["resourceVersion"] += "1"
        return self.pod if call.path == POD else json.loads(json.dumps(self.document))

    def _apply(self, op: str, path: str, value: Any = None) -> None:
        if path == "/metadata/resourceVersion" and value != self.document["metadata"]["resourceVersion"]:
            raise ApiError("Conflict", status=409)
        place: Any = self.document
        *steps, last = [step.replace("~1", "/") for step in path.split("/")[1:]]
        for step in steps:
            place = place[int(step) if isinstance(place, list) else step]
        if op == "replace" and last not in place:
            raise ApiError("Invalid", status=422)
        if op == "remove":
            del place[last]
        else:
            place[last] = value

    @property
    def percent(self) -> int:
        utilization: int = self.document["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"]
        return utilization

    @percent.setter
    def percent(self, value: int) -> None:
        self.document["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = value

    def kept(self) -> str | None:
        annotation: str | None = self.document["metadata"].get("annotations", {}).get(HPA_PRESERVE)
        return annotation

    def count(self, method: str, path: str = HPA) -> int:
        return sum(1 for call in self.calls if (call.method, call.path) == (method, path))


class Desk:
    """A mover with a clock that moves when told."""

    def __init__(self, preserve: Preserve = Preserve.FOLLOW, mode: str | None = "enforce") -> None:
        metric = {"type": "Utilization", "averageUtilization": 70}
        document = {
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "1"},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "web"},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": metric}}],
            },
        }
        pod = new_pod(container("app", {"cpu": "500m"}), mode=mode)
        pod["metadata"]["name"], pod["metadata"]["uid"] = "web-1", "u1"
        self.server = Server(document=document, pod=pod)
        self.facts = Facts(server=self.server)
        self.now, self.leads = 1000.0, True
        self.mover = self.again(preserve)

    def again(self, preserve: Preserve = Preserve.FOLLOW) -> HpaTargets:
        parts = HpaParts(
            api=self.server,
            facts=self.facts,
            admission=self.admission,
            may_write=lambda: self.leads,
            is_ready=lambda: True,
        )
        self.mover = HpaTargets(parts, HpaOptions(preserve=preserve), clocks=Clocks(monotonic=lambda: self.now))
        return self.mover

    def admission(self, pod: Pod) -> Admission:
        facts = AdmissionFacts(namespace=Namespace(name="shop"))
        return admit(
            pod,
            facts=facts,
            estimates=lambda *_: estimate(),
            settings=EXACT,
            now_unix_seconds=NOW_UNIX_SECONDS,
        )

    def turn(self, after_seconds: float = LOOK_SECONDS) -> float:
        self.now += after_seconds
        return self.mover._turn()


def test_an_original_is_kept_once_and_then_the_target_follows_and_nothing_is_asked_in_between() -> None:
    desk = Desk()
    desk.turn()
    assert (desk.server.percent, desk.server.count("PATCH")) == (70, 1)
    desk.turn(CALM_SECONDS)
    assert len(desk.server.calls) == 3, "the HPA, a pod, the write; and nothing as long as nothing changes"
    desk.facts.millicores = 300
    desk.turn()
    assert (desk.server.percent, desk.server.count("PATCH")) == (117, 2)
    desk.again()  # another process, or another leader
    desk.turn(CALM_SECONDS)
    assert (desk.server.percent, desk.server.count("PATCH")) == (117, 2)
    assert dict(desk.mover.results) == {}


def test_what_an_hpa_overlooks_waits_for_its_minute_and_what_it_would_act_on_does_not() -> None:
    desk = Desk()
    desk.turn()
    desk.facts.millicores = 475  # 74 %: 5 % off
    desk.turn(URGENT_SECONDS)
    assert desk.server.percent == 70
    desk.facts.millicores = 450  # 78 %: 10 % off
    desk.turn()
    assert desk.server.percent == 78
    desk.facts.millicores = 300
    desk.turn(URGENT_SECONDS - 1)
    assert desk.server.percent == 78, "and two writes are apart by some seconds whatever happens"
    desk.turn(1)
    assert desk.server.percent == 117
    desk.facts.millicores = 312  # 112 %: 4 % off
    desk.turn(CALM_SECONDS - 1)
    assert desk.server.percent == 117
    desk.turn(1)
    assert desk.server.percent == 112


def test_who_does_not_lead_or_finds_it_changed_writes_nothing() -> None:
    desk = Desk()
    desk.leads = False
    assert (desk.turn(), desk.server.calls) == (LOOK_SECONDS, [])
    desk.leads = True
    desk.server.faults["PATCH", HPA] = ApiError("Conflict", status=409)
    desk.turn()
    assert (desk.server.kept(), dict(desk.mover.results)) == (None, {"changed": 1})
    desk.server.faults.clear()
    desk.turn()
    assert desk.server.kept() is None
    desk.turn(URGENT_SECONDS)
    assert desk.server.kept() is not None
    desk.server.faults["GET", HPA] = Unreachable("away")
    desk.facts.millicores = 300
    assert (desk.turn(URGENT_SECONDS), desk.server.percent) == (BACK_OFF_SECONDS, 70)


def test_a_pause_that_comes_while_an_hpa_is_read_holds_the_write_back_until_it_ends() -> None:
    desk, answer = Desk(), Server.answer

    def paused(server: Server, call: Call) -> object:
        desk.leads = False
        return answer(server, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "answer", paused)
        desk.turn()
    assert (desk.server.count("GET"), desk.server.count("PATCH"), desk.server.kept()) == (1, 0, None)
    desk.leads = True
    desk.turn(CALM_SECONDS)
    assert (desk.server.count("PATCH"), desk.server.kept() is None) == (1, False)


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_a_right_that_is_missing_is_said_once(method: str, caplog: pytest.LogCaptureFixture) -> None:
    desk, before = Desk(), json.dumps(Desk().server.document)
    desk.server.faults[method, HPA] = ApiError("Forbidden", status=403)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            desk.turn(REFUSED_SECONDS)
    assert [record.message for record in caplog.records] == ["targets of HPAs are not moved, and requests stay frozen"]
    assert (json.dumps(desk.server.document), desk.mover.results["refused"]) == (before, 3)


@pytest.mark.parametrize("fault", [Unreachable("timed out"), *(ApiError("x", status=code) for code in (429, 500, 503))])
@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_a_fault_that_passes_is_no_refusal_and_the_target_follows_within_a_minute(
    method: str, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk()
    desk.turn()
    desk.facts.millicores = 300
    desk.server.faults[method, HPA] = fault
    with caplog.at_level(logging.WARNING):
        assert desk.turn(URGENT_SECONDS) <= BACK_OFF_SECONDS
    assert (caplog.records, desk.mover.results["refused"]) == ([], 0)
    desk.server.faults.clear()
    desk.turn(CALM_SECONDS)
    assert desk.server.percent == 117


@pytest.mark.parametrize(
    ("mode", "is_only", "why"),
    [
        ("recommend", True, "its pods are not sized: mode recommend"),
        ("enforce", False, "another HPA may scale the same workload"),
    ],
)
def test_a_target_that_is_not_taken_is_told_once(
    mode: str, is_only: bool, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(mode=mode)
    desk.facts.is_only = is_only
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            desk.turn(REFUSED_SECONDS)
    assert [vars(record)["reason"] for record in caplog.records] == [why]
    assert (desk.server.count("GET"), desk.server.count("PATCH")) == (2, 0)


def test_what_is_kept_and_not_understood_is_left_and_told(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.server.document["metadata"]["annotations"] = {HPA_PRESERVE: "{"}
    with caplog.at_level(logging.INFO):
        desk.turn()
        desk.turn()
    assert desk.server.calls == []
    reasons = {str(vars(record)["reason"]) for record in caplog.records}
    assert reasons == {
        f"annotation {HPA_PRESERVE}: not what Plimsoll wrote; remove the annotation, and the target counts as it stands"
    }


def test_an_hpa_or_a_pod_that_is_gone_is_left() -> None:
    desk = Desk()
    desk.server.faults["GET", POD] = ApiError("NotFound", status=404)
    desk.turn()
    desk.server.faults = {("GET", HPA): ApiError("NotFound", status=404)}
    desk.turn(URGENT_SECONDS)
    assert desk.server.count("PATCH") == 0
    desk.server.faults.clear()
    desk.facts.pods = 0
    desk.turn(REFUSED_SECONDS)
    assert desk.server.count("PATCH") == 0
    desk.server.document["metadata"]["uid"] = ""
    desk.turn(REFUSED_SECONDS)
    assert desk.server.count("PATCH") == 0


def test_many_of_which_none_is_taken_hold_up_neither_one_that_follows_nor_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    desk.turn()
    own = autoscaler_from_json(desk.server.document).movable
    assert own is not None
    others = tuple(
        (replace(WEB, name=f"a{number}"), replace(own, name=f"a{number}", uid=f"a{number}", kept={}), True)
        for number in range(4 * MOST_LOOKS)
    )
    looked: list[str] = []

    def write(mover: HpaTargets, hpa: Any, place: PodPlace | None) -> None:
        looked.append(hpa.targets.name)
        mover._seen[hpa.targets.uid].looked_seconds = desk.now  # it is due again at once

    monkeypatch.setattr(Facts, "movable_targets", lambda _: (*others, (WEB, own, True)))
    monkeypatch.setattr(HpaTargets, "_write", write)
    monkeypatch.setattr("agent.webhook.autoscalers.targets.SPACING_SECONDS", 0.0)
    desk.facts.millicores = 300
    for _ in range(5):
        desk.turn(CALM_SECONDS)
    assert looked[0] == "web"
    assert len(set(looked)) == len(others) + 1


def test_an_amount_of_the_same_resource_beside_a_share_of_it_is_left_and_the_share_follows() -> None:
    desk = Desk()
    amount = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "2"}}
    desk.server.document["spec"]["metrics"].append({"type": "Resource", "resource": amount})
    desk.turn()
    desk.facts.millicores = 300
    desk.turn(URGENT_SECONDS)
    assert (desk.server.percent, desk.mover.results["refused"]) == (117, 0)
    assert amount["target"] == {"type": "AverageValue", "averageValue": "2"}


def test_originals_are_put_back_without_a_look_at_pods() -> None:
    desk = Desk()
    desk.turn()
    desk.facts.millicores = 300
    desk.turn(URGENT_SECONDS)
    desk.again(Preserve.RESTORE)
    desk.turn()
    assert desk.server.percent == 117
    desk.facts.millicores = 500
    desk.turn()
    assert (desk.server.percent, desk.server.kept(), dict(desk.mover.results)) == (70, None, {"moved": 1})
    assert desk.server.count("GET", POD) == 2
    desk.turn(REFUSED_SECONDS)
    assert desk.server.count("PATCH") == 3


def test_what_somebody_set_stays_where_its_pods_are_no_longer_sized() -> None:
    desk = Desk()
    desk.turn()
    desk.server.percent = 50
    desk.server.pod = replace_mode(desk.server.pod, "off")
    desk.turn(URGENT_SECONDS)
    assert (desk.server.percent, desk.server.kept(), desk.mover.results["released"]) == (50, None, 1)


def replace_mode(pod: Any, mode: str) -> Any:
    return {**pod, "metadata": {**pod["metadata"], "annotations": {"plimsoll.dev/mode": mode}}}


def test_which_targets_are_followed_decides_which_requests_are_free() -> None:
    desk = Desk()
    desk.turn()
    targets = autoscaler_from_json(desk.server.document).movable
    assert targets is not None
    assert targets.preserved(Resource.CPU, desk.facts.requested(WEB)) is not None
    assert targets.preserved(Resource.CPU, replace(desk.facts.requested(WEB), cpu_millicores=400)) is None


def test_a_target_that_stands_by_our_hand_is_known_as_such_until_somebody_sets_another() -> None:
    desk, facts = Desk(), ClusterFacts(FakeApi(), namespace="plimsoll")
    desk.turn()
    for percent, resources in ((70, {Resource.CPU}), (60, set())):
        desk.server.percent = percent
        facts._hpas.put(facts._hpas.entry(desk.server.document), now_seconds=0.0)
        assert facts.kept_resources(WEB) == resources
    assert facts.kept_resources(replace(WEB, name="api")) == set()
