"""Who may report what: the rules alone, over an API server that is a function. tests/cluster has the real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from agent.core.cluster.facts import PodPlace
from agent.core.cluster.workload import Workload
from agent.kube.client.errors import ApiError, Unreachable
from agent.kube.client.own_rights import NODE_NAME_CLAIM
from agent.metrics.call_result import CallKind
from agent.settings.webhook_sections import AccessSettings
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.http.access import (
    ACCESS_REVIEWS_PATH,
    POD_NAME_CLAIM,
    POD_UID_CLAIM,
    TOKEN_REVIEWS_PATH,
    Access,
    Denied,
)
from tests.fake_api import Call, FakeApi
from tests.webhook.signed_tokens import AnyWord
from tests.webhook.workload_reports import WEB, row

AGENT = "system:serviceaccount:plimsoll:plimsoll-agent"
AUDIENCE = "plimsoll-webhook"


def user(name: str = AGENT, **extra: str) -> dict[str, object]:
    claims = {NODE_NAME_CLAIM: ["node-a"], POD_NAME_CLAIM: ["agent-x"], POD_UID_CLAIM: ["uid-agent-x"]}
    return {"username": name, "uid": "u", "groups": ["g"], "extra": {**claims, **{k: [v] for k, v in extra.items()}}}


@dataclass
class Server:
    """Knows tokens, and who may read what."""

    users: dict[str, dict[str, object]] = field(default_factory=lambda: {"good": user()})
    readable: frozenset[str] = frozenset()
    forgettable: frozenset[str] = frozenset()
    creatable: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    """Accounts that may read nothing as a whole."""
    listable: dict[str, frozenset[str]] = field(default_factory=dict)
    """Namespaces whose pods an account may list; an empty name = of all of them."""
    asked_of_pods: list[str] = field(default_factory=list)
    audiences: tuple[str, ...] = (AUDIENCE,)
    down: Exception | None = None

    def answer(self, call: Call) -> object:
        if self.down is not None:
            raise self.down
        spec = call.body["spec"]
        if call.path == TOKEN_REVIEWS_PATH:
            assert spec["audiences"] == [AUDIENCE]
            account = self.users.get(spec["token"])
            if account is None:
                return {"status": {"error": "no"}}
            return {"status": {"authenticated": True, "user": account, "audiences": list(self.audiences)}}
        assert call.path == ACCESS_REVIEWS_PATH
        if "resourceAttributes" in spec:
            pods = spec["resourceAttributes"]
            assert (pods["verb"], pods["resource"], pods.get("group", "")) == ("list", "pods", "")
            self.asked_of_pods.append(pods["namespace"])
            return {"status": {"allowed": pods["namespace"] in self.listable.get(spec["user"], ())}}
        asked = spec["nonResourceAttributes"]
        if spec["user"] in self.denied:
            return {"status": {"allowed": False}}
        granted = {"get": self.readable, "delete": self.forgettable, "create": self.creatable}[asked["verb"]]
        return {"status": {"allowed": asked["path"] in granted}}


@dataclass
class Places(ClusterFacts):
    """Pods by uid."""

    here: Mapping[str, PodPlace] = field(default_factory=dict)
    gone: Mapping[str, PodPlace] = field(default_factory=dict)
    remembered: Mapping[str, PodPlace] = field(default_factory=dict)
    age_seconds: float = 0.0

    def pod(self, uid: str) -> PodPlace | None:
        return self.here.get(uid)

    def gone_pod(self, uid: str) -> PodPlace | None:
        return self.gone.get(uid)

    def pods_age_seconds(self) -> float:
        return self.age_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


PLACE = PodPlace(
    uid="uid-web-1",
    namespace="shop",
    name="web-1",
    node="node-a",
    workload=WEB,
    is_running=True,
    is_terminating=False,
)


@dataclass
class Scene:
    server: Server = field(default_factory=Server)
    settings: AccessSettings = field(default_factory=AccessSettings)
    places: Places = field(default_factory=lambda: Places(here={PLACE.uid: PLACE}))
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.api = FakeApi(self.server.answer)
        self.access = Access(
            self.api, self.settings, namespace="plimsoll", places=self.places, clock=self.clock, keys=AnyWord()
        )

    def denial(self, header: str | None) -> Denied:
        with pytest.raises(Denied) as denied:
            self.access.sender(header)
        assert "\n" not in denied.value.reason
        return denied.value


def test_an_agent_is_the_node_that_its_token_names() -> None:
    caller, node = Scene().access.sender("Bearer good")
    assert node == "node-a"
    assert caller.username == AGENT
    assert caller.claim(POD_UID_CLAIM) == "uid-agent-x"


def test_who_was_asked_about_is_known_from_memory_until_the_verdict_is_old() -> None:
    scene = Scene()
    assert scene.access.known_sender("Bearer good") is None
    assert scene.api.calls == []
    scene.access.sender("Bearer good")
    known = scene.access.known_sender("Bearer good")
    assert known is not None
    assert known.node == "node-a"
    with pytest.raises(Denied, match="no token"):
        scene.access.known_sender(None)
    scene.denial("Bearer other")
    with pytest.raises(Denied, match="not good for audience"):
        scene.access.known_sender("Bearer other")
    assert len(scene.api.calls) == 2
    scene.clock.now += scene.settings.verdict_seconds
    assert scene.access.known_sender("Bearer good") is None


@pytest.mark.parametrize("header", [None, "", "good", "Basic good", "Bearer", "Bearer "])
def test_without_a_token_nobody_is_asked(header: str | None) -> None:
    scene = Scene()
    denied = scene.denial(header)
    assert (denied.status, denied.result) == (401, "no_token")
    assert scene.api.calls == []


@pytest.mark.parametrize("token", ["a b", "a\nb", "\xe9", "x" * 20_000])
def test_what_cannot_be_a_token_is_not_sent_on(token: str) -> None:
    scene = Scene()
    denied = scene.denial(f"Bearer {token}")
    assert (denied.status, denied.result) == (401, "bad_token")
    assert scene.api.calls == []
    assert token not in denied.reason


def test_a_token_that_the_server_refuses() -> None:
    denied = Scene().denial("Bearer other")
    assert (denied.status, denied.result) == (401, "bad_token")
    assert "other" not in denied.reason


@pytest.mark.parametrize("audiences", [(), ("https://kubernetes.default.svc",)])
def test_a_token_for_another_audience_is_refused_even_if_it_is_authentic(audiences: tuple[str, ...]) -> None:
    denied = Scene(server=Server(audiences=audiences)).denial("Bearer good")
    assert (denied.status, denied.result) == (401, "bad_token")
    assert denied.reason == "the token is not for audience plimsoll-webhook"


def test_another_account_may_not_report() -> None:
    denied = Scene(server=Server(users={"good": user("system:serviceaccount:shop:web")})).denial("Bearer good")
    assert (denied.status, denied.result) == (403, "wrong_account")


def test_the_same_account_of_another_namespace_may_not_report() -> None:
    denied = Scene(server=Server(users={"good": user("system:serviceaccount:shop:plimsoll-agent")})).denial(
        "Bearer good"
    )
    assert (denied.status, denied.result) == (403, "wrong_account")


@pytest.mark.parametrize("claims", [{}, {NODE_NAME_CLAIM: []}, {NODE_NAME_CLAIM: ["a", "b"]}, {NODE_NAME_CLAIM: [""]}])
def test_a_token_that_names_no_node_is_none_of_a_node(claims: dict[str, object]) -> None:
    denied = Scene(server=Server(users={"good": {"username": AGENT, "extra": claims}})).denial("Bearer good")
    assert (denied.status, denied.result) == (403, "no_claim")


def test_another_nodes_report_is_refused() -> None:
    access = Scene().access
    access.check_node("node-a", "node-a")
    with pytest.raises(Denied, match="the token is of node node-a, the report of node node-b") as denied:
        access.check_node("node-a", "node-b")
    assert (denied.value.status, denied.value.result) == (403, "wrong_node")


# Verdicts are remembered, for seconds


def test_a_good_token_is_asked_about_once_in_a_while() -> None:
    scene = Scene()
    for _ in range(3):
        scene.access.caller("Bearer good")
    assert len(scene.api.calls) == 1
    scene.clock.now += 29.9
    scene.access.caller("Bearer good")
    assert len(scene.api.calls) == 1
    scene.server.users.clear()  # revoked: believed no longer than that
    scene.clock.now += 0.2
    assert scene.denial("Bearer good").result == "bad_token"


def test_a_refused_token_is_refused_from_memory_and_asked_about_again() -> None:
    scene = Scene()
    scene.denial("Bearer other")
    scene.denial("Bearer other")
    assert len(scene.api.calls) == 1
    scene.server.users["other"] = user()
    scene.clock.now += 10.1
    assert scene.access.sender("Bearer other")[1] == "node-a"


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    scene = Scene(settings=AccessSettings(verdicts=2))
    scene.access.caller("Bearer good")
    for name in "bcdb":
        scene.denial(f"Bearer {name}")
    assert len(scene.access._refused._kept) == 2
    assert len(scene.api.calls) == 5
    scene.access.caller("Bearer good")  # those that are refused do not push it out
    assert len(scene.api.calls) == 5


@pytest.mark.parametrize(
    "down", [Unreachable("no answer"), ApiError("POST", status=403, reason="Forbidden"), ApiError("POST", status=500)]
)
def test_while_the_server_is_away_the_caller_is_told_to_come_again_and_nothing_is_remembered(down: Exception) -> None:
    scene = Scene(server=Server(down=down))
    denied = scene.denial("Bearer good")
    assert (denied.status, denied.result, denied.retry_after_seconds) == (503, "api_away", 5.0)
    scene.server.down = None
    assert scene.access.sender("Bearer good")[1] == "node-a"


def test_strangers_cannot_make_the_webhook_flood_the_api_server() -> None:
    scene = Scene(settings=AccessSettings(reviews_per_minute=5))
    results = []
    for number in range(8):
        with pytest.raises(Denied) as denied:
            scene.access.caller(f"Bearer t{number}")
        results.append(denied.value.status)
    assert results == [401] * 5 + [429] * 3
    assert len(scene.api.calls) == 5
    scene.clock.now += 60.0
    assert scene.denial("Bearer t9").status == 401


def test_who_reads_every_path_does_not_keep_agents_from_reporting() -> None:
    scene = Scene(server=Server(users={"good": user(), "late": user()}), settings=AccessSettings(reviews_per_minute=5))
    results = []
    for number in range(8):
        with pytest.raises(Denied) as denied:
            scene.access.reader("Bearer good", f"/v1/workloads/shop/Deployment/web-{number}")
        results.append(denied.value.status)
    assert results == [403] * 5 + [429] * 3
    assert scene.access.sender("Bearer late")[1] == "node-a"


def test_each_node_has_its_own_budget_of_each_kind() -> None:
    scene = Scene(settings=AccessSettings(requests_per_minute=2))
    access = scene.access
    access.admit("node-a", CallKind.REPORT)
    access.admit("node-a", CallKind.REPORT)
    with pytest.raises(Denied) as denied:
        access.admit("node-a", CallKind.REPORT)
    assert (denied.value.status, denied.value.result) == (429, "too_many")
    assert denied.value.retry_after_seconds == pytest.approx(60.0)
    access.admit("node-b", CallKind.REPORT)
    access.admit("node-a", CallKind.EVICTIONS)
    scene.clock.now += 60.0
    access.admit("node-a", CallKind.REPORT)


# Rows


def fault(scene: Scene, **changes: object) -> str | None:
    caller, node = scene.access.sender("Bearer good")
    pod_row = replace(row(), **changes)  # type: ignore[arg-type]
    return scene.access.row_fault(
        caller, node, pod_row, scene.access.place_of(pod_row.pod_uid, scene.places.remembered.get)
    )


def test_a_row_of_a_pod_of_the_node_is_taken() -> None:
    assert fault(Scene()) is None


def test_the_last_row_of_a_pod_that_is_gone_is_taken() -> None:
    assert fault(Scene(places=Places(gone={PLACE.uid: PLACE}))) is None


def test_the_last_row_of_a_pod_that_no_watch_knows_any_more_is_taken_where_it_was() -> None:
    assert fault(Scene(places=Places(remembered={PLACE.uid: PLACE}))) is None
    elsewhere = Places(here={PLACE.uid: replace(PLACE, node="node-b")}, remembered={PLACE.uid: PLACE})
    assert fault(Scene(places=elsewhere)) == "podUid: the pod is not on node node-a"
    assert fault(Scene(places=Places(remembered={PLACE.uid: PLACE})), pod="web-2") is not None


def test_a_pod_younger_than_what_was_last_heard_is_waited_for() -> None:
    scene = Scene(places=Places(age_seconds=200.0))
    caller, _ = scene.access.sender("Bearer good")
    pod_row = replace(row(), pod_age_seconds=150.0)
    with pytest.raises(Denied, match="is not known yet"):
        scene.access.check_known(caller, [pod_row], end_age_seconds=79.0)
    scene.access.check_known(caller, [pod_row], end_age_seconds=81.0)
    scene.places.age_seconds = 0.0
    scene.access.check_known(caller, [pod_row], end_age_seconds=0.0)


def test_a_row_of_no_known_pod_is_refused() -> None:
    assert fault(Scene(places=Places())) == "podUid: no pod uid-web-1 is known"


def test_a_row_of_a_pod_elsewhere_is_refused() -> None:
    scene = Scene(places=Places(here={PLACE.uid: replace(PLACE, node="node-b")}))
    assert fault(scene) == "podUid: the pod is not on node node-a"
    assert fault(Scene(places=Places(here={PLACE.uid: replace(PLACE, node=None)}))) is not None


def test_a_row_may_not_give_a_pod_another_name_or_owner() -> None:
    assert fault(Scene(), pod="web-2") == "pod: the uid is that of shop/web-1"
    other = Workload(namespace="shop", kind="Deployment", name="bank")
    assert fault(Scene(), workload=other) == "workload: the pod belongs to Deployment shop/web"
    elsewhere = Workload(namespace="bank", kind="Deployment", name="web")
    assert fault(Scene(), workload=elsewhere) == "pod: the uid is that of shop/web-1"


def test_the_tokens_own_pod_may_be_told_of_before_the_watch_has_it_and_only_under_its_name() -> None:
    scene = Scene(places=Places())
    own = Workload(namespace="plimsoll", kind="DaemonSet", name="plimsoll-agent")
    assert fault(scene, pod_uid="uid-agent-x", pod="agent-x", workload=own) is None
    foreign = fault(scene, pod_uid="uid-agent-x", pod="agent-x", workload=WEB)
    assert foreign == "the token is of pod plimsoll/agent-x"
    assert fault(scene, pod_uid="uid-agent-x", pod="agent-y", workload=own) == "the token is of pod plimsoll/agent-x"


# Readers


def test_readers_need_a_token_and_the_right_to_get_the_path() -> None:
    scene = Scene(server=Server(readable=frozenset({"/v1/nodes"})))
    assert scene.access.reader("Bearer good", "/v1/nodes").username == AGENT
    with pytest.raises(Denied, match=f"{AGENT} may not get the nonResourceURL /v1/workloads") as denied:
        scene.access.reader("Bearer good", "/v1/workloads")
    assert (denied.value.status, denied.value.result) == (403, "forbidden")
    with pytest.raises(Denied) as denied:
        scene.access.reader(None, "/v1/nodes")
    assert denied.value.status == 401
    review = scene.api.calls[1].body["spec"]
    assert (review["user"], review["uid"], review["groups"]) == (AGENT, "u", ["g"])
    assert review["extra"][NODE_NAME_CLAIM] == ["node-a"]


def test_a_right_is_remembered_by_who_asks_and_what_for() -> None:
    scene = Scene(
        server=Server(users={"good": user(), "other": user("eve")}, readable=frozenset({"/v1/nodes"})),
    )
    for _ in range(2):
        scene.access.reader("Bearer good", "/v1/nodes")
    assert len(scene.api.calls) == 2
    scene.access.reader("Bearer other", "/v1/nodes")
    assert len(scene.api.calls) == 4
