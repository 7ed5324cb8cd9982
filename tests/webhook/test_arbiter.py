"""The arbiter: from a node's proposals to evictions, on SQLite and on PostgreSQL, over one to three replicas.

The API server is a small one of the tests' own, which keeps pods and evicts them; ``tests/cluster`` has the real one.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.core.admission.answer import Admission
from agent.core.admission.estimate import NoEstimate
from agent.core.admission.options import AdmissionSettings
from agent.core.autoscalers.vpa_orders import VpaSurroundings, vpa_orders
from agent.core.cluster.facts import ClusterRule, ClusterRules, FrozenAxes
from agent.core.cluster.pod import Pod, PodRef
from agent.core.cluster.workload import Workload
from agent.core.eviction.budget import EvictionState
from agent.core.eviction.options import ArbiterOptions, EvictionMode
from agent.core.eviction.proposal import MAX_PROPOSALS, EvictionReply, PodAmounts, Proposal, Reason, Verdict, Want
from agent.kube.client.errors import ApiError, Cause, Unreachable
from agent.webhook.clocks import Clocks
from agent.webhook.eviction import arbiter as arbiter_module
from agent.webhook.eviction.arbiter import Arbiter
from agent.webhook.store.evictions import EvictionStore, EvictionWish
from agent.webhook.store.shapes import StoreAway
from agent.webhook.store.store import Store
from tests.evictions import (
    ENFORCED,
    NODE,
    NOW,
    OWNER,
    WEB,
    Admissions,
    Cluster,
    estimate,
    place,
    pod_document,
    proposal,
)
from tests.fake_api import Call, FakeApi
from tests.fakes import FakeClock
from tests.vpas import vpa
from tests.webhook.open_store import open_store

ENFORCE = ArbiterOptions(
    mode=EvictionMode.ENFORCE,
    evictions_per_minute=100,
    namespace_evictions_per_minute=100,
    node_evictions_per_hour=100,
    workload_evictions_per_hour=100,
)
BUDGET = ApiError(
    "POST",
    status=429,
    reason="TooManyRequests",
    causes=(Cause(reason="DisruptionBudget", message="The disruption budget tight needs 1 healthy pods and has 1"),),
)
STALE = ApiError("POST", status=429, causes=(Cause(reason="DisruptionBudget"),), retry_after_seconds=10.0)
NO_ANSWER = Unreachable("POST: no answer", may_have_been_done=True)


class Server(FakeApi):
    """Keeps pods and workloads; an eviction takes the pod away, unless something else is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.pods: dict[str, dict[str, Any]] = {}
        self.workloads: dict[str, dict[str, Any]] = {}
        self.evicted: list[str] = []
        """Uids."""
        self.refusal: Callable[[str], Exception | None] = lambda _: None
        """Of evictions."""
        self.away: Exception | None = None
        """Of everything."""
        self.on_evict: Callable[[], None] = lambda: None

    def answer(self, call: Call) -> object:
        if self.away is not None:
            raise self.away
        if call.path.endswith("/eviction"):
            return self._evict(call)
        kind = self.pods if "/pods/" in call.path else self.workloads
        name = call.path.rsplit("/", 1)[1] if kind is self.pods else call.path.removeprefix("/apis/apps/v1")
        with self.lock:
            if name not in kind:
                raise ApiError(f"GET {call.path}", status=404, reason="NotFound")
            return kind[name]

    def _evict(self, call: Call) -> object:
        self.on_evict()
        name = call.path.split("/")[-2]
        uid = call.body["deleteOptions"]["preconditions"]["uid"]
        error = self.refusal(name)
        if error is not None:
            raise error
        with self.lock:
            pod = self.pods.get(name)
            if pod is None:
                raise ApiError("POST", status=404, reason="NotFound")
            if pod["metadata"]["uid"] != uid:
                raise ApiError(
                    "POST", status=409, reason="Conflict", message="Precondition failed: UID in precondition"
                )
            if "deletionTimestamp" not in pod["metadata"]:
                self.evicted.append(uid)
                del self.pods[name]
        return {"kind": "Status", "status": "Success"}

    def evictions_asked_for(self) -> int:
        return sum(call.path.endswith("/eviction") for call in self.calls)


class Scene:
    """One cluster with any number of webhooks."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.server, self.cluster, self.admissions = Server(), Cluster(pods={}), Admissions()
        self.clock, self.wall = FakeClock(), NOW
        self.stores: list[Store] = []
        self.deployment(WEB.name, 10)

    def deployment(self, name: str, replicas: int, available: int | None = None) -> None:
        path = f"/namespaces/shop/deployments/{name}"
        available = replicas if available is None else available
        self.server.workloads[path] = {"spec": {"replicas": replicas}, "status": {"availableReplicas": available}}

    def pod(self, name: str = "web", *, node: str = NODE, workload: Workload = WEB, **fields: Any) -> Proposal:
        """Have a pod, and give a proposal to evict it."""
        fields.setdefault("owner", {**OWNER, "name": f"{workload.name}-7d9c5b8f4"})
        document = pod_document(name, node=node, **fields)
        self.server.pods[name] = document
        uid = document["metadata"]["uid"]
        self.cluster.pods[uid] = place(uid=uid, name=name, node=node, workload=workload)
        return proposal(ref=PodRef(namespace="shop", name=name, uid=uid))

    def store(self) -> EvictionStore:
        self.stores.append(open_store(self.url))
        return EvictionStore(self.stores[-1])

    def arbiter(self, options: ArbiterOptions = ENFORCE, **parts: Any) -> Arbiter:
        known: dict[str, Any] = {
            "api": self.server,
            "store": self.store(),
            "facts": self.cluster,
            "admission": self.admissions,
            "sizing": AdmissionSettings(),
            "clocks": Clocks(wall=lambda: self.wall, monotonic=lambda: self.clock.seconds),
        }
        return Arbiter(options=options, **{**known, **parts})

    def later(self, seconds: float) -> None:
        self.wall += seconds
        self.clock.advance(seconds)

    def decide(self, arbiter: Arbiter, *proposals: Proposal, node: str = NODE) -> list[Reason]:
        return [reply.ruling.reason for reply in arbiter.decide(node, proposals)]


@pytest.fixture
def scene(store_url: str) -> Any:
    new_scene = Scene(store_url)
    yield new_scene
    for store in new_scene.stores:
        store.close()


# -- recommend


def test_by_default_nobody_is_evicted_and_it_is_said_who_would_be(scene: Scene) -> None:
    proposals = [scene.pod(f"web-{index}") for index in range(4)]
    arbiter = scene.arbiter(ArbiterOptions())
    assert scene.decide(arbiter, *proposals) == [Reason.WOULD_EVICT] * 4
    assert scene.server.evicted == []
    # By construction: there is nothing that could.
    assert {call.method for call in scene.server.calls} == {"GET"}
    assert arbiter._evictions is None
    assert scene.store().newest(10) == []
    assert arbiter.counts() == {(Verdict.RECOMMENDED, Reason.WOULD_EVICT): 4}


def test_an_object_of_ours_has_a_say_in_who_goes(scene: Scene) -> None:
    def decided(update_mode: str, **policy: Any) -> list[Reason]:
        vpa_object = vpa(update_mode, updatePolicy={"updateMode": update_mode, **policy})
        orders = vpa_orders(vpa_object, VpaSurroundings(are_evictions_on=True))
        scene.cluster.vpas = {WEB: orders}
        scene.admissions.facts = replace(scene.admissions.facts, autoscaler=orders.at_admission)
        # Without an annotation: the object says that it is enforced.
        return scene.decide(scene.arbiter(ArbiterOptions()), scene.pod(annotations={}))

    def wants(direction: str) -> dict[str, Any]:
        return {"evictionRequirements": [{"resources": ["cpu"], "changeRequirement": direction}]}

    assert decided("InPlaceOrRecreate") == decided("Recreate") == [Reason.WOULD_EVICT]
    assert decided("Off") == decided("Initial") == [Reason.MODE]
    assert decided("InPlace") == [Reason.NO_EVICTION]
    assert decided("InPlaceOrRecreate", minReplicas=4) == [Reason.NO_EVICTION]
    assert decided("InPlaceOrRecreate", minReplicas=3) == [Reason.WOULD_EVICT]
    assert decided("InPlaceOrRecreate", **wants("TargetHigherThanRequests")) == [Reason.WOULD_EVICT]
    assert decided("InPlaceOrRecreate", **wants("TargetLowerThanRequests")) == [Reason.NO_EVICTION]


def test_recommending_needs_no_store(scene: Scene) -> None:
    def begin(*_: object, **__: object) -> None:
        raise AssertionError("the store was asked")

    store = EvictionStore(None)  # type: ignore[arg-type]
    assert scene.decide(scene.arbiter(ArbiterOptions(), store=store), scene.pod()) == [Reason.WOULD_EVICT]


def test_recommending_says_too_when_the_share_of_replicas_forbids_it(scene: Scene) -> None:
    scene.deployment(WEB.name, 1)
    assert scene.decide(scene.arbiter(ArbiterOptions()), scene.pod()) == [Reason.SINGLE_REPLICA]


# -- enforce


def test_pod_that_may_go_is_evicted_by_uid_and_kept_in_mind(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    arbiter = scene.arbiter()
    asked = replace(scene.pod(), needed=PodAmounts(cpu_millicores=400))
    with caplog.at_level(logging.INFO, "agent.webhook.eviction.evictions"):
        [reply] = arbiter.decide(NODE, [asked])
    assert reply == EvictionReply(pod_uid="uid-web", ruling=reply.ruling)
    assert (reply.ruling.verdict, reply.ruling.reason) == (Verdict.GRANTED, Reason.EVICTED)
    assert scene.server.evicted == ["uid-web"]
    [record] = scene.store().newest(10)
    assert (record.state, record.node, record.workload, record.want) == (EvictionState.EVICTED, NODE, WEB, Want.CPU)
    assert record.done_unix_seconds == NOW
    [line] = [log_record for log_record in caplog.records if log_record.message == "eviction asked for"]
    assert (line.__dict__["pod"], line.__dict__["answer"]) == ("shop/web", "accepted")


def test_pod_is_evicted_once_by_whichever_replica_and_however_often_it_is_proposed(scene: Scene) -> None:
    asked = scene.pod()
    document = scene.server.pods["web"]
    assert scene.decide(scene.arbiter(), asked, asked) == [Reason.EVICTED]
    scene.server.pods["web"] = document  # an API server that still shows it
    assert scene.decide(scene.arbiter(), asked) == [Reason.ALREADY_EVICTED]
    assert scene.server.evictions_asked_for() == 1


def test_replicas_share_the_budget_of_the_cluster(scene: Scene) -> None:
    options = replace(ENFORCE, evictions_per_minute=3)
    arbiters = [scene.arbiter(options) for _ in range(3)]
    reasons = [scene.decide(arbiters[index % 3], scene.pod(f"web-{index}")) for index in range(6)]
    assert reasons == [[Reason.EVICTED]] * 3 + [[Reason.CLUSTER_BUDGET]] * 3
    scene.later(60.0)
    assert scene.decide(arbiters[0], scene.pod("web-5")) == [Reason.EVICTED]
    assert len(scene.server.evicted) == 4


def test_replicas_at_once_never_take_more_of_a_workload_than_its_share(scene: Scene) -> None:
    # Half of ten are five, however many replicas are asked at the same time.
    proposals = [scene.pod(f"web-{index}") for index in range(10)]
    arbiters = [scene.arbiter() for _ in range(3)]
    barrier, counts = threading.Barrier(3), Counter[Reason]()

    def ask(arbiter: Arbiter) -> None:
        barrier.wait()
        for asked in proposals:
            counts.update(scene.decide(arbiter, asked))

    threads = [threading.Thread(target=ask, args=(arbiter,)) for arbiter in arbiters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(scene.server.evicted) == len(set(scene.server.evicted)) == counts[Reason.EVICTED] == 5
    assert sum(counts.values()) == 30


def test_share_counts_pods_that_do_not_run_and_lets_go_once_replacements_have_warmed_up(scene: Scene) -> None:
    scene.deployment(WEB.name, 4, available=3)
    arbiter = scene.arbiter()
    assert scene.decide(arbiter, scene.pod("a")) == [Reason.EVICTED]
    assert scene.decide(arbiter, scene.pod("b")) == [Reason.REPLICAS_SHARE]
    scene.later(600.0)
    # Its replacement hangs: two of four are missing.
    scene.deployment(WEB.name, 4, available=2)
    assert scene.decide(arbiter, scene.pod("b")) == [Reason.REPLICAS_SHARE]
    scene.deployment(WEB.name, 4)
    assert scene.decide(arbiter, scene.pod("b")) == [Reason.EVICTED]


def test_each_budget_is_told_by_its_name(scene: Scene) -> None:
    first, *others = [scene.pod(f"web-{index}") for index in range(4)]
    for options, reason in (
        (replace(ENFORCE, node_evictions_per_hour=1), Reason.NODE_BUDGET),
        (replace(ENFORCE, workload_evictions_per_hour=1), Reason.WORKLOAD_BUDGET),
        (replace(ENFORCE, namespace_evictions_per_minute=1), Reason.NAMESPACE_BUDGET),
    ):
        arbiter = scene.arbiter(options)
        if scene.server.evicted == []:
            assert scene.decide(arbiter, first) == [Reason.EVICTED]
        assert scene.decide(arbiter, others[0]) == [reason]


def test_proposals_are_judged_in_the_nodes_order(scene: Scene) -> None:
    late, early = replace(scene.pod("late"), order=7), replace(scene.pod("early"), order=1)
    replies = scene.arbiter(replace(ENFORCE, evictions_per_minute=1)).decide(NODE, [late, early])
    assert [(reply.pod_uid, reply.ruling.reason) for reply in replies] == [
        ("uid-early", Reason.EVICTED),
        ("uid-late", Reason.CLUSTER_BUDGET),
    ]


# -- who may not go


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"annotations": {}}, Reason.MODE),
        ({"annotations": {"plimsoll.dev/mode": "recommend"}}, Reason.MODE),
        ({"annotations": {**ENFORCED, "plimsoll.dev/eviction-ranking": "no-eviction"}}, Reason.NO_EVICTION),
        ({"owner": {**OWNER, "kind": "DaemonSet", "name": "web"}}, Reason.DAEMON_SET),
        ({"owner": None}, Reason.NOT_MANAGED),
        ({"owner": {**OWNER, "kind": "Job", "name": "web"}}, Reason.NOT_MANAGED),
        ({"status": {"qosClass": "Guaranteed"}}, Reason.GUARANTEED),
        ({"owner": {**OWNER, "kind": "Node", "name": "node-a"}}, Reason.NOT_MANAGED),
        ({"uid": "uid-new"}, None),
    ],
)
def test_pod_itself_is_read_before_anything_is_done(
    scene: Scene, fields: dict[str, Any], reason: Reason | None
) -> None:
    asked = scene.pod(**fields)
    assert scene.decide(scene.arbiter(), asked) == [reason or Reason.EVICTED]
    assert len(scene.server.evicted) == (reason is None)


def test_pod_that_became_another_meanwhile_stays(scene: Scene) -> None:
    asked = scene.pod()
    scene.server.pods["web"] = pod_document("web", uid="uid-successor")
    assert scene.decide(scene.arbiter(), asked) == [Reason.GONE]
    assert scene.server.evictions_asked_for() == 0


def test_successor_between_the_look_and_the_eviction_stays(scene: Scene) -> None:
    asked, arbiter = scene.pod(), scene.arbiter()

    def succeed() -> None:
        scene.server.pods["web"] = pod_document("web", uid="uid-successor")

    scene.server.on_evict = succeed
    assert scene.decide(arbiter, asked) == [Reason.GONE]
    assert scene.server.evicted == []
    [record] = scene.store().newest(1)
    assert record.state is EvictionState.VOID  # its tokens are back


def test_node_gets_nowhere_with_pods_of_another(scene: Scene) -> None:
    asked = scene.pod(node="node-b")
    assert scene.decide(scene.arbiter(), asked) == [Reason.OTHER_NODE]
    assert scene.server.calls == []
    # Nor where memory is behind.
    scene.cluster.pods["uid-web"] = place()
    assert scene.decide(scene.arbiter(), asked) == [Reason.OTHER_NODE]
    assert scene.server.evictions_asked_for() == 0


def test_mode_may_come_from_the_clusters_rules(scene: Scene) -> None:
    asked = scene.pod(annotations={})
    scene.cluster.cluster_rules = ClusterRules(rules=(ClusterRule(namespace="sh*", mode="enforce"),))
    scene.admissions.facts = replace(scene.admissions.facts, rule={"plimsoll.dev/mode": "enforce"})
    assert scene.decide(scene.arbiter(), asked) == [Reason.EVICTED]


def test_rule_that_switches_off_wins_over_nothing_but_annotations(scene: Scene) -> None:
    scene.cluster.cluster_rules = ClusterRules(rules=(ClusterRule(namespace="shop", mode="off"),))
    arbiter = scene.arbiter()
    assert scene.decide(arbiter, scene.pod("a", annotations={})) == [Reason.MODE]
    assert scene.decide(arbiter, scene.pod("b")) == [Reason.EVICTED]


def test_autoscalers_hold_their_pods(scene: Scene) -> None:
    asked, arbiter = scene.pod(), scene.arbiter()
    scene.cluster.vpa = "VerticalPodAutoscaler shop/web"
    assert scene.decide(arbiter, asked) == [Reason.VPA]
    scene.cluster.vpa = None
    scene.cluster.frozen_axes = FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web")
    assert scene.decide(arbiter, asked) == [Reason.HPA]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (estimate(cpu_millicores=200), Reason.NOT_MORE),
        (estimate(cpu_millicores=150), Reason.NOT_MORE),
        (estimate(cpu_millicores=None), Reason.NO_ESTIMATE),
        (NoEstimate.TOO_YOUNG, Reason.NO_ESTIMATE),
        (NoEstimate.UNKNOWN_WORKLOAD, Reason.NO_ESTIMATE),
        (estimate(cpu_millicores=201), Reason.EVICTED),
    ],
)
def test_pod_whose_replacement_would_not_get_more_stays(scene: Scene, found: Any, reason: Reason) -> None:
    scene.admissions.estimates["app"] = found
    assert scene.decide(scene.arbiter(), scene.pod()) == [reason]


def test_out_of_memory_figures_count_for_the_replacement(scene: Scene) -> None:
    scene.admissions.estimates["app"] = estimate(memory_bytes=100 << 20, oom_memory_bytes=400 << 20)
    asked = replace(scene.pod(), want=Want.OUT_OF_MEMORY)
    assert scene.decide(scene.arbiter(), asked) == [Reason.EVICTED]


# -- in doubt nothing


def test_what_is_not_known_whole_or_fresh_evicts_nobody(scene: Scene) -> None:
    asked, arbiter = scene.pod(), scene.arbiter()
    for state in ({"is_complete": False}, {"age_seconds": None}, {"age_seconds": 181.0}):
        for name, value in {"is_complete": True, "age_seconds": 1.0, **state}.items():
            setattr(scene.cluster, name, value)
        assert scene.decide(arbiter, asked) == [Reason.FACTS_UNKNOWN]
    scene.cluster.is_complete, scene.cluster.age_seconds = True, 180.0
    assert scene.decide(arbiter, asked) == [Reason.EVICTED]


def test_paused_cluster_evicts_nobody(scene: Scene) -> None:
    asked = scene.pod()
    scene.cluster.cluster_rules = ClusterRules(pause_reason="maintenance")
    [reply] = scene.arbiter().decide(NODE, [asked])
    assert str(reply.ruling) == "paused: maintenance"
    assert reply.ruling.verdict is Verdict.LATER
    assert scene.server.calls == []


def test_pause_that_comes_between_the_tokens_and_the_eviction_holds(scene: Scene) -> None:
    asked, store = scene.pod(), scene.store()
    begin = store.begin

    def pausing(*arguments: Any, **fields: Any) -> Any:
        taken = begin(*arguments, **fields)
        scene.cluster.cluster_rules = ClusterRules(pause_reason="now")
        return taken

    store.begin = pausing  # type: ignore[method-assign]
    assert scene.decide(scene.arbiter(store=store), asked) == [Reason.PAUSED]
    assert scene.server.evictions_asked_for() == 0
    assert scene.store().newest(1)[0].state is EvictionState.VOID


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unreachable("GET: no answer"), Reason.API_AWAY),
        (ApiError("GET", status=503), Reason.API_AWAY),
        (ApiError("GET", status=403, reason="Forbidden"), Reason.FORBIDDEN),
    ],
)
def test_api_server_that_does_not_answer_evicts_nobody(scene: Scene, error: Exception, reason: Reason) -> None:
    asked = scene.pod()
    scene.server.away = error
    assert scene.decide(scene.arbiter(), asked) == [reason]
    assert scene.store().newest(1) == []


def test_pod_that_is_gone_or_not_understood_is_refused(scene: Scene) -> None:
    asked, arbiter = scene.pod(), scene.arbiter()
    scene.server.pods["web"] = {"metadata": "nonsense"}
    assert scene.decide(arbiter, asked) == [Reason.UNREADABLE]
    del scene.server.pods["web"]
    assert scene.decide(arbiter, asked) == [Reason.GONE]


def test_pod_that_breaks_the_judging_stays_and_stands_in_nobodys_way(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    odd, sound = scene.pod("odd"), scene.pod("web")

    def admission(pod: Pod) -> Admission:
        if pod.name == "odd":
            raise ZeroDivisionError
        return scene.admissions(pod)

    assert scene.decide(scene.arbiter(admission=admission), odd, sound) == [Reason.UNREADABLE, Reason.EVICTED]
    assert scene.server.evicted == [sound.ref.uid]
    assert "could not be judged" in caplog.text


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"spec": {}, "status": []},
        {"spec": {"replicas": "3"}, "status": {}},
        {"spec": {"replicas": True}, "status": {}},
        {"spec": {"replicas": 3}, "status": {"availableReplicas": -1}},
    ],
)
def test_workload_whose_replicas_are_not_known_loses_nobody(scene: Scene, document: Any) -> None:
    path = "/namespaces/shop/deployments/web"
    if document is None:
        del scene.server.workloads[path]
    else:
        scene.server.workloads[path] = document
    [reply] = scene.arbiter().decide(NODE, [scene.pod()])
    assert reply.ruling.reason is Reason.REPLICAS_UNKNOWN
    assert reply.ruling.verdict is Verdict.LATER


def test_kind_whose_replicas_nobody_tells_loses_nobody(scene: Scene) -> None:
    kinds = AdmissionSettings()
    kinds = replace(kinds, plan=replace(kinds.plan, managed_kinds="Deployment,GameServerSet"))
    scene.admissions.settings = kinds
    asked = scene.pod(owner={**OWNER, "kind": "GameServerSet", "name": "arena"})
    [reply] = scene.arbiter(sizing=kinds).decide(NODE, [asked])
    assert reply.ruling.reason is Reason.REPLICAS_UNKNOWN
    assert "GameServerSet" in reply.ruling.detail


def test_workload_that_the_server_does_not_let_us_read_loses_nobody(scene: Scene) -> None:
    asked, answer = scene.pod(), scene.server.answer

    def forbidding(call: Call) -> object:
        if "/deployments/" in call.path:
            raise ApiError("GET", status=403, reason="Forbidden")
        return answer(call)

    scene.server.answer = forbidding  # type: ignore[method-assign]
    assert scene.decide(scene.arbiter(), asked) == [Reason.FORBIDDEN]


class AwayStore(EvictionStore):
    """A store whose database goes away at some call."""

    def __init__(self, store: EvictionStore, away: set[str]) -> None:
        super().__init__(store._store)
        self._kept, self._away = store, away

    def begin(self, *arguments: Any, **fields: Any) -> Any:
        self._look("begin")
        return self._kept.begin(*arguments, **fields)

    def settle(self, *arguments: Any, **fields: Any) -> None:
        self._look("settle")
        self._kept.settle(*arguments, **fields)

    def unsettled(self, *arguments: Any) -> Any:
        self._look("unsettled")
        return self._kept.unsettled(*arguments)

    def _look(self, what: str) -> None:
        if what in self._away:
            raise StoreAway(f"database is away ({what})")


def test_database_that_is_away_evicts_nobody(scene: Scene) -> None:
    arbiter = scene.arbiter(store=AwayStore(scene.store(), {"begin", "unsettled"}))
    [reply] = arbiter.decide(NODE, [scene.pod()])
    assert (reply.ruling.reason, reply.ruling.verdict) == (Reason.STORE_AWAY, Verdict.LATER)
    assert scene.server.evictions_asked_for() == 0


def test_database_that_goes_away_after_the_eviction_leaves_it_counted_until_it_is_seen(scene: Scene) -> None:
    store = scene.store()
    asked = scene.pod()
    assert scene.decide(scene.arbiter(store=AwayStore(store, {"settle"})), asked) == [Reason.EVICTED]
    assert store.newest(1)[0].state is EvictionState.BEGUN
    scene.later(61.0)
    scene.arbiter(store=store).settle_old()
    assert store.newest(1)[0].state is EvictionState.EVICTED


# -- what the API server answers


def test_disruption_budget_is_respected_and_its_workload_left_alone_for_longer_each_time(scene: Scene) -> None:
    a, b, arbiter = scene.pod("a"), scene.pod("b"), scene.arbiter()
    scene.server.refusal = lambda _: BUDGET
    [reply] = arbiter.decide(NODE, [a])
    assert reply.ruling.reason is Reason.DISRUPTION_BUDGET
    assert reply.ruling.detail == "The disruption budget tight needs 1 healthy pods and has 1"
    # Of the whole workload, at every replica: the next pod would be refused too.
    assert scene.decide(scene.arbiter(), b) == [Reason.BACKING_OFF]
    asked = scene.server.evictions_asked_for()
    for pause in (60.0, 120.0, 240.0):
        scene.later(pause - 1)
        assert scene.decide(arbiter, b) == [Reason.BACKING_OFF]
        scene.later(1.0)
        assert scene.decide(arbiter, b) == [Reason.DISRUPTION_BUDGET]
        asked += 1
    assert scene.server.evictions_asked_for() == asked
    scene.later(480.0)
    scene.server.refusal = lambda _: None
    assert scene.decide(arbiter, b) == [Reason.EVICTED]
    # It took no tokens all the while, and begins anew.
    assert scene.decide(arbiter, a) == [Reason.EVICTED]


def test_budget_that_is_counted_anew_is_asked_again_as_soon_as_it_says(scene: Scene) -> None:
    asked, arbiter = scene.pod(), scene.arbiter()
    scene.server.refusal = lambda _: STALE
    for _ in range(3):  # no doubling
        assert scene.decide(arbiter, asked) == [Reason.DISRUPTION_BUDGET]
        scene.later(10.0)
    scene.server.refusal = lambda _: None
    assert scene.decide(arbiter, asked) == [Reason.EVICTED]


@pytest.mark.parametrize(
    ("error", "reason", "state"),
    [
        (ApiError("POST", status=404, reason="NotFound"), Reason.GONE, EvictionState.VOID),
        (ApiError("POST", status=403, reason="Forbidden", message="no"), Reason.FORBIDDEN, EvictionState.REFUSED),
        (ApiError("POST", status=422, reason="Invalid"), Reason.FORBIDDEN, EvictionState.REFUSED),
        (ApiError("POST", status=503), Reason.API_AWAY, EvictionState.REFUSED),
        (ApiError("POST", status=429), Reason.API_AWAY, EvictionState.REFUSED),
        (
            ApiError("POST", status=500, message="more than one PodDisruptionBudget"),
            Reason.DISRUPTION_BUDGET,
            EvictionState.REFUSED,
        ),
        (NO_ANSWER, Reason.UNDER_WAY, EvictionState.BEGUN),
    ],
)
def test_each_answer_of_the_server_is_put_down(
    scene: Scene, error: Exception, reason: Reason, state: EvictionState
) -> None:
    asked = scene.pod()
    scene.server.refusal = lambda _: error
    assert scene.decide(scene.arbiter(), asked) == [reason]
    assert scene.store().newest(1)[0].state is state


# -- killed in between


class Killed(BaseException):
    """As good as SIGKILL: nothing is caught, nothing is put down."""


def kill(scene: Scene, asked: Proposal, *, after: bool) -> None:
    """Kill a replica between its tokens and the answer, before or after the server did it."""

    def die(name: str) -> Exception | None:
        if after:
            scene.server.evicted.append(scene.server.pods.pop(name)["metadata"]["uid"])
        raise Killed

    scene.server.refusal = die
    with pytest.raises(Killed):
        scene.arbiter().decide(NODE, [asked])
    scene.server.refusal = lambda _: None


def test_replica_killed_before_the_eviction_leaks_no_token_for_good(scene: Scene) -> None:
    options = replace(ENFORCE, node_evictions_per_hour=1)
    asked = scene.pod()
    kill(scene, asked, after=False)
    survivor = scene.arbiter(options)
    # For a while it counts as made: nobody knows.
    assert scene.decide(survivor, asked) == [Reason.UNDER_WAY]
    assert scene.decide(survivor, scene.pod("other")) == [Reason.NODE_BUDGET]
    scene.later(61.0)
    assert scene.decide(survivor, asked) == [Reason.EVICTED]
    assert scene.server.evicted == ["uid-web"]


def test_replica_killed_after_the_eviction_neither_evicts_twice_nor_forgets_it(scene: Scene) -> None:
    options = replace(ENFORCE, node_evictions_per_hour=1)
    asked = scene.pod()
    kill(scene, asked, after=True)
    scene.later(61.0)
    survivor = scene.arbiter(options)
    scene.server.pods["web"] = pod_document("web", uid="uid-successor")
    assert scene.decide(survivor, scene.pod("other")) == [Reason.NODE_BUDGET]
    assert scene.store().newest(1)[0].state is EvictionState.EVICTED
    assert scene.server.evicted == ["uid-web"]


def test_pod_that_is_going_was_evicted(scene: Scene) -> None:
    asked = scene.pod()
    kill(scene, asked, after=False)
    scene.server.pods["web"]["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    scene.later(61.0)
    scene.arbiter().settle_old()
    assert scene.store().newest(1)[0].state is EvictionState.EVICTED


def test_what_cannot_be_seen_goes_on_counting(scene: Scene) -> None:
    asked = scene.pod()
    kill(scene, asked, after=False)
    scene.later(61.0)
    arbiter = scene.arbiter()
    scene.server.away = ApiError("GET", status=503)
    arbiter.settle_old()
    assert scene.store().newest(1)[0].state is EvictionState.BEGUN
    # And is looked into again, a few seconds later.
    scene.server.away = None
    arbiter.settle_old()
    assert scene.store().newest(1)[0].state is EvictionState.BEGUN
    scene.later(5.0)
    arbiter.settle_old()
    assert scene.store().newest(1)[0].state is EvictionState.VOID


def test_replica_that_stood_still_for_long_does_not_evict_any_more(scene: Scene) -> None:
    asked, store = scene.pod(), scene.store()
    begin = store.begin

    def slow(*arguments: Any, **fields: Any) -> Any:
        taken = begin(*arguments, **fields)
        scene.later(31.0)
        return taken

    store.begin = slow  # type: ignore[method-assign]
    assert scene.decide(scene.arbiter(store=store), asked) == [Reason.OUT_OF_TIME]
    assert scene.server.evictions_asked_for() == 0
    assert scene.store().newest(1)[0].state is EvictionState.VOID


def test_wish_of_a_pod_with_nothing_said_is_put_down_without_words(scene: Scene) -> None:
    store = scene.store()
    store.begin(
        EvictionWish(ref=proposal().ref, workload=WEB, node=NODE, want=Want.CPU),
        lambda _: None,
        missing_seconds=1.0,
        now_unix_seconds=NOW,
    )
    assert store.newest(1)[0].detail == ""


# -- bounds


def test_call_with_too_many_proposals_has_its_rest_refused(scene: Scene) -> None:
    many = [
        proposal(ref=PodRef(namespace="shop", name=f"x{index}", uid=f"uid-x{index}"))
        for index in range(MAX_PROPOSALS + 2)
    ]
    reasons = scene.decide(scene.arbiter(), *many)
    assert reasons == [Reason.UNKNOWN_POD] * MAX_PROPOSALS + [Reason.TOO_MANY] * 2


def test_call_that_lasts_too_long_puts_its_rest_off(scene: Scene) -> None:
    first, second = scene.pod("a"), scene.pod("b")
    scene.server.on_evict = lambda: scene.later(arbiter_module.CALL_SECONDS)
    assert scene.decide(scene.arbiter(), first, second) == [Reason.EVICTED, Reason.OUT_OF_TIME]


def test_api_server_is_asked_about_so_many_pods_a_minute_and_no_more(scene: Scene) -> None:
    proposals = [scene.pod(f"web-{index}", annotations={}) for index in range(3)]
    arbiter = scene.arbiter(replace(ENFORCE, pod_reads_per_minute=2))
    assert scene.decide(arbiter, *proposals) == [Reason.MODE, Reason.MODE, Reason.READ_BUDGET]
    assert len(scene.server.calls) == 2
    scene.later(60.0)
    assert scene.decide(arbiter, proposals[2]) == [Reason.MODE]


def test_answers_are_counted_by_verdict_and_reason(scene: Scene) -> None:
    arbiter = scene.arbiter()
    arbiter.decide(NODE, [scene.pod("a"), scene.pod("b", annotations={})])
    arbiter.decide(NODE, [proposal()])
    assert arbiter.counts() == {
        (Verdict.GRANTED, Reason.EVICTED): 1,
        (Verdict.REFUSED, Reason.MODE): 1,
        (Verdict.REFUSED, Reason.UNKNOWN_POD): 1,
    }
