"""The arbiter on a real server: its own rights, real workloads with their controllers, real disruption budgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack

import pytest

from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.admission.options import AdmissionSettings
from agent.core.cluster.pod import PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.eviction.budget import EvictionState
from agent.core.eviction.options import ArbiterOptions, EvictionMode
from agent.core.eviction.proposal import Proposal, Reason, Verdict, Want
from agent.core.eviction.proposals import ProposeOptions
from agent.core.history.workloads.start_figures import LearntStart
from agent.core.orders.order import Ranking
from agent.core.plan.plan import Eviction
from agent.kube.client.api import CallOptions, HttpApi
from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError
from agent.node.reports.client import WebhookClient
from agent.node.reports.proposer import ProposalAudience, Proposer
from agent.webhook.admission.review import Reviewer
from agent.webhook.clocks import Clocks
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.eviction.arbiter import Arbiter
from agent.webhook.store.evictions import EvictionStore
from agent.webhook.store.store import Store
from tests import plans
from tests.cluster import chart, fence, objects
from tests.cluster.api import Json, kubeconfig
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name, granted, is_allowed, node_bound_token
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import agent_token, answer_of, webhook
from tests.evictions import NOW, OLD, estimate
from tests.fakes import FakeClock
from tests.webhook.open_store import open_store
from tests.webhook.report_bodies import distribution, report_body, row_body

pytestmark = pytest.mark.cluster

EVICTING: Json = {"evictions": {"enabled": True}}
ACCOUNT = "plimsoll-webhook"
RECOMMEND = ArbiterOptions()
ENFORCE = ArbiterOptions(mode=EvictionMode.ENFORCE)
MERGE = "application/merge-patch+json"
ANSWER_SECONDS: Final = 60.0
"""Instead of the arbiter's own three and five: a machine that stands still for those would be a server that is away."""


class Histories:
    """What is known of every container: it needs so much."""

    cpu_millicores: int = 400

    def estimate(self, workload: Workload, container: str, **_: object) -> Estimate | NoEstimate:
        return estimate(self.cpu_millicores)

    def start(self, workload: Workload, container: str, **_: object) -> LearntStart | None:
        return None


class PatientApi(HttpApi):
    """The webhook's client; but its patience is bounded only where a test is about an answer that does not come."""

    hurries_evictions = False

    def call(self, method: str, path: str, **options: Unpack[CallOptions]) -> object:
        if not (self.hurries_evictions and path.endswith("/eviction")):
            options["timeout_seconds"] = ANSWER_SECONDS
        return super().call(method, path, **options)


class Place:
    """A namespace with a workload on one node, and webhooks that look after the cluster."""

    def __init__(self, plane: ControlPlane, namespace: str, node: str, database: Path) -> None:
        self.plane, self.namespace, self.node = plane, namespace, node
        self.url = f"sqlite:///{database}"
        token = node_bound_token(plane, fence.NAMESPACE, ACCOUNT, None)
        credentials = Credentials(server=plane.url, origin="tests", ca_file=plane.authority, token=token)
        self.api, self.account = PatientApi(credentials), plane.api_with_token(token)
        self.facts = ClusterFacts(self.api, namespace=fence.NAMESPACE)
        self.histories, self.clock, self.wall = Histories(), FakeClock(), NOW
        self.stores: list[Store] = []

    def start(self) -> None:
        self.facts.start()
        wait_for(lambda: self.facts.is_complete and self.facts.namespace(self.namespace) is not None, "facts are known")

    def close(self) -> None:
        self.facts.stop()
        for store in self.stores:
            store.close()
        self.api.close()

    def store(self) -> EvictionStore:
        self.stores.append(open_store(self.url))
        return EvictionStore(self.stores[-1])

    def arbiter(self, options: ArbiterOptions = ENFORCE, store: EvictionStore | None = None) -> Arbiter:
        reviewer = Reviewer(self.facts, self.histories, AdmissionSettings())
        return Arbiter(
            api=self.api,
            store=store or self.store(),
            facts=self.facts,
            admission=lambda pod: reviewer.admission(pod, None),
            options=options,
            sizing=AdmissionSettings(),
            clocks=Clocks(wall=lambda: self.wall, monotonic=lambda: self.clock.seconds),
        )

    def workload(self, kind: str = "Deployment", replicas: int = 4) -> list[Proposal]:
        """Have a workload run on the node, in mode enforce; its controllers are the real ones."""
        template = {
            "metadata": {"labels": {"app": "web"}, "annotations": {"plimsoll.dev/mode": "enforce"}},
            "spec": {
                "containers": [objects.container(requests={"cpu": "200m", "memory": "256Mi"})],
                "terminationGracePeriodSeconds": 0,
                "nodeName": self.node,
            },
        }
        spec: Json = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        if kind == "StatefulSet":
            spec |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
        self.collection = f"/apis/apps/v1/namespaces/{self.namespace}/{kind.lower()}s"
        self.plane.admin.create(self.collection, {"metadata": {"name": "web"}, "spec": spec})
        wait_for(lambda: len(self.pods()) == replicas, "the controller has made the pods")
        self.run()
        return [self.proposal(pod) for pod in self.pods()]

    def run(self) -> None:
        """Play the kubelet: all pods run and are ready, for years."""
        for pod in self.pods():
            status = {**objects.running_status(pod), "startTime": OLD}
            objects.write_pod_status(self.plane.admin, self.namespace, pod["metadata"]["name"], status)
        wait_for(self.is_available, "the workload's controller counts all as available")
        wait_for(lambda: all(self.is_known(pod) for pod in self.pods()), "the webhook knows the pods")

    def is_available(self) -> bool:
        web = self.plane.admin.get(f"{self.collection}/web")
        return bool(web.get("status", {}).get("availableReplicas", 0) == web["spec"]["replicas"])

    def is_known(self, pod: Json) -> bool:
        place = self.facts.pod(pod["metadata"]["uid"])
        return place is not None and place.is_running

    def pods(self) -> list[Json]:
        pods = self.plane.admin.items(objects.pod_path(self.namespace))
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def proposal(self, pod: Json) -> Proposal:
        metadata = pod["metadata"]
        ref = PodRef(namespace=self.namespace, name=metadata["name"], uid=metadata["uid"])
        return Proposal(ref=ref, want=Want.CPU)

    def is_there(self, proposal: Proposal) -> bool:
        return any(pod["metadata"]["uid"] == proposal.ref.uid for pod in self.pods())

    def budget(self, minimum: int) -> None:
        """Create a disruption budget and wait until it is counted."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": "web"}}}
        self.plane.admin.create(path, {"metadata": {"name": "tight"}, "spec": spec})
        wait_for(
            lambda: self.plane.admin.get(f"{path}/tight").get("status", {}).get("currentHealthy", 0) >= minimum,
            "the budget is counted",
        )

    def decide(self, arbiter: Arbiter, *proposals: Proposal) -> list[Reason]:
        return [reply.ruling.reason for reply in arbiter.decide(self.node, proposals)]

    def later(self, seconds: float) -> None:
        self.wall += seconds
        self.clock.advance(seconds)


@pytest.fixture(scope="module")
def rights(fenced: ControlPlane) -> Iterator[ControlPlane]:
    """The webhook's account with what the chart gives it, evictions included."""
    fenced.admin.apply_all(chart.parts(*chart.WEBHOOK))
    with granted(fenced, chart.parts(*chart.EVICTIONS, values=EVICTING)):
        own = fenced.api_with_token(node_bound_token(fenced, fence.NAMESPACE, ACCOUNT, None))
        wait_for(lambda: is_allowed(own, "create", "pods", subresource="eviction"), "its rights are in force")
        may_list = partial(is_allowed, own, "list", "configmaps", namespace=fence.NAMESPACE, name="plimsoll")
        wait_for(may_list, "the role too")
        yield fenced


@pytest.fixture
def place(rights: ControlPlane, namespace: str, node_name: str, tmp_path: Path) -> Iterator[Place]:
    objects.create_node(rights.admin, node_name, cpu="16", memory="32Gi")
    eviction_place = Place(rights, namespace, node_name, tmp_path / "plimsoll.db")
    eviction_place.start()
    yield eviction_place
    eviction_place.close()


def test_by_default_it_is_only_said_who_would_be_evicted(place: Place) -> None:
    proposals = place.workload()
    replies = place.arbiter(RECOMMEND).decide(place.node, proposals)
    assert [reply.ruling.verdict for reply in replies] == [Verdict.RECOMMENDED] * 4
    assert all(place.is_there(proposal) for proposal in proposals)


def test_pod_goes_and_the_next_waits_for_its_replacement(place: Place) -> None:
    first, second, *_ = place.workload()
    options = replace(ENFORCE, workload_share_ratio=0.25)  # one of four
    arbiter = place.arbiter(options)
    assert place.decide(arbiter, first, second) == [Reason.EVICTED, Reason.REPLICAS_SHARE]
    assert [place.is_there(first), place.is_there(second)] == [False, True]
    # Its replacement is made by the controller, and hangs: a long time later it is still missing.
    wait_for(lambda: len(place.pods()) == 4, "the replacement is made")
    wait_for(lambda: not place.is_available(), "the workload's controller counts that it is not there yet")
    place.later(7200.0)
    assert place.decide(place.arbiter(options), second) == [Reason.REPLICAS_SHARE]
    place.run()
    assert place.decide(place.arbiter(options), second) == [Reason.EVICTED]


def test_disruption_budget_refuses_and_the_whole_workload_is_left_alone(place: Place) -> None:
    first, second, *_ = place.workload()
    place.budget(4)
    [reply] = place.arbiter().decide(place.node, [first])
    assert reply.ruling.reason is Reason.DISRUPTION_BUDGET
    assert "The disruption budget tight needs 4 healthy pods and has 4 currently" in reply.ruling.detail
    assert place.decide(place.arbiter(), second) == [Reason.BACKING_OFF]
    assert place.is_there(first)
    place.later(60.0)
    assert place.decide(place.arbiter(), second) == [Reason.DISRUPTION_BUDGET]
    assert all(place.is_there(proposal) for proposal in (first, second))


def test_successor_of_the_same_name_stays(place: Place) -> None:
    first, *_ = place.workload("StatefulSet", replicas=2)
    store = place.store()

    def succeed() -> None:
        """Between the look at the pod and the eviction another one gets its name."""
        path = objects.pod_path(place.namespace, first.ref.name)
        place.plane.admin.delete(path, gracePeriodSeconds="0")
        wait_for(lambda: len(place.pods()) == 2, "its successor is there")

    begin_and(store, succeed)
    place.api.hurries_evictions = True
    arbiter = place.arbiter(store=store)
    # The server takes a uid that differs for a conflict and tries for ten seconds, longer than anybody here waits.
    assert place.decide(arbiter, first) in ([Reason.UNDER_WAY], [Reason.GONE])
    place.later(61.0)
    arbiter.settle_old()
    assert store.newest(1)[0].state is not EvictionState.BEGUN
    assert [pod["metadata"]["name"] for pod in place.pods()] == ["web-0", "web-1"]
    assert not any("deletionTimestamp" in pod["metadata"] for pod in place.pods())


def begin_and(store: EvictionStore, act: Callable[[], None]) -> None:
    """Have something happen once tokens are taken and before the API server is asked."""
    begin = store.begin

    def begin_then(*arguments: Any, **fields: Any) -> Any:
        taken = begin(*arguments, **fields)
        act()
        return taken

    store.begin = begin_then  # type: ignore[method-assign]


def test_answer_that_never_came_is_found_out_from_the_pod(place: Place) -> None:
    first, *_ = place.workload()
    store, log = place.store(), AuditLog(place.plane.audit_log)
    begin_and(store, place.plane.pause_apiserver)
    place.api.hurries_evictions = True
    try:
        [reply] = place.arbiter(store=store).decide(place.node, [first])
    finally:
        place.plane.resume_apiserver()
    assert (reply.ruling.reason, reply.ruling.verdict) == (Reason.UNDER_WAY, Verdict.LATER)
    assert store.newest(1)[0].state is EvictionState.BEGUN
    place.api.hurries_evictions = False

    def is_over() -> bool:
        return any((call.namespace, call.resource) == (place.namespace, "pods/eviction") for call in log.calls())

    # The server takes it up where it stood or drops it with its connection: seen from the pod, either is found out. It
    # reads what stands in the connection in its own time: until then the pod may be there, and go a moment later.
    wait_for(is_over, "the server has done with the eviction, one way or the other")
    other = place.arbiter()
    assert place.decide(other, first)[0] in (Reason.UNDER_WAY, Reason.UNKNOWN_POD, Reason.GONE)
    place.later(61.0)
    other.settle_old()
    if store.newest(1)[0].state is EvictionState.VOID:
        assert place.decide(other, first) == [Reason.EVICTED]
    assert store.newest(1)[0].state is EvictionState.EVICTED
    assert not place.is_there(first)


def test_setting_alone_evicts_nobody_without_the_right(place: Place) -> None:
    first, *_ = place.workload()
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/plimsoll-webhook-evictions"
    place.plane.admin.delete(binding)
    try:
        wait_for(lambda: not is_allowed(place.account, "create", "pods", subresource="eviction"), "the right is gone")
        [reply] = place.arbiter().decide(place.node, [first])
    finally:
        place.plane.admin.apply_all(chart.parts(*chart.EVICTIONS, values=EVICTING))
        wait_for(lambda: is_allowed(place.account, "create", "pods", subresource="eviction"), "the right is back")
    assert reply.ruling.reason is Reason.FORBIDDEN
    assert 'cannot create resource "pods/eviction"' in reply.ruling.detail
    assert place.is_there(first)


def test_what_the_webhook_may_do(place: Place) -> None:
    api, home = place.account, fence.NAMESPACE
    registrations = {"group": "admissionregistration.k8s.io", "resource": "mutatingwebhookconfigurations"}
    for verb in ("list", "watch", "patch"):
        assert is_allowed(api, verb, name="plimsoll", **registrations)
    for verb in ("list", "watch", "patch"):
        assert is_allowed(api, verb, "secrets", namespace=home, name="plimsoll-webhook-certificate")
    for verb in ("get", "update"):
        assert is_allowed(api, verb, "leases", group="coordination.k8s.io", namespace=home, name=ACCOUNT)
    assert is_allowed(api, "create", "tokenreviews", group="authentication.k8s.io")
    assert is_allowed(api, "create", "subjectaccessreviews", group="authorization.k8s.io")


@pytest.mark.parametrize(
    "forbidden",
    [
        {"verb": "delete", "resource": "pods"},
        {"verb": "patch", "resource": "pods"},
        {"verb": "create", "resource": "pods"},
        {"verb": "patch", "resource": "pods", "subresource": "resize"},
        {"verb": "patch", "resource": "nodes"},
        {"verb": "get", "resource": "nodes"},
        {"verb": "get", "resource": "nodes", "subresource": "proxy"},
        {"verb": "list", "resource": "secrets"},
        {"verb": "create", "resource": "secrets", "namespace": fence.NAMESPACE},
        {"verb": "create", "group": "coordination.k8s.io", "resource": "leases", "namespace": fence.NAMESPACE},
        {"verb": "get", "resource": "secrets", "namespace": fence.NAMESPACE, "name": "another"},
        {"verb": "list", "resource": "configmaps"},
        {"verb": "patch", "resource": "configmaps", "namespace": fence.NAMESPACE, "name": "plimsoll"},
        {"verb": "list", "group": "apps", "resource": "deployments"},
        {"verb": "patch", "group": "apps", "resource": "deployments"},
        {
            "verb": "patch",
            "group": "admissionregistration.k8s.io",
            "resource": "mutatingwebhookconfigurations",
            "name": "another",
        },
        {"verb": "patch", "group": "policy", "resource": "poddisruptionbudgets"},
        {"verb": "impersonate", "resource": "users"},
    ],
    ids=lambda request: "-".join(request.values()),
)
def test_what_the_webhook_may_not_do(place: Place, forbidden: dict[str, str]) -> None:
    assert not is_allowed(place.account, **forbidden)


def test_pod_of_another_node_is_not_evicted_for_this_one(place: Place) -> None:
    first, *_ = place.workload()
    [reply] = place.arbiter().decide(fresh_name("node"), [first])
    assert reply.ruling.reason is Reason.OTHER_NODE
    assert place.is_there(first)


def test_account_cannot_delete_what_it_may_evict(place: Place) -> None:
    first, *_ = place.workload(replicas=2)
    with pytest.raises(ApiError) as refused:
        place.api.call("DELETE", objects.pod_path(place.namespace, first.ref.name))
    assert refused.value.status == 403


def test_whole_way_from_a_nodes_plan_to_the_eviction(place: Place, tmp_path: Path) -> None:
    """All doors: the agent's proposer and token, the webhook's TLS, reports, admission, arbiter and rights."""
    first, *_ = place.workload()
    plane, counted, details = place.plane, list[Verdict](), list[str]()
    own = plane.api_with_token(node_bound_token(plane, fence.NAMESPACE, ACCOUNT, None))
    settings = ("arbiter.mode=enforce", "plan.minAgeSeconds=0")
    token = agent_token(plane, place.node)
    (tmp_path / "token").write_text(token)
    proposer_of = partial(
        Proposer,
        options=ProposeOptions(turns=1, standing_seconds=0.0, interval_seconds=1.0),
        node=place.node,
        may_propose=lambda: None,
        audience=ProposalAudience(
            tell=lambda **decision: details.append(decision["detail"]), event=lambda *_: None, count=counted.append
        ),
        reports=AllReported(),
    )
    with webhook(
        plane,
        tmp_path,
        kubeconfig=kubeconfig(own, tmp_path / "kubeconfig"),
        arguments=[f"--set={setting}" for setting in settings],
    ) as served:
        poster = WebhookClient(
            f"https://127.0.0.1:{served.port}",
            token_file=tmp_path / "token",
            ca_file=plane.authority,
            timeout_seconds=10.0,
        )
        propose(proposer_of(poster=poster), first)
        assert counted == [Verdict.REFUSED]
        assert "its replacement would be left as it comes" in details[0]  # nobody has told of its history yet
        report = report_body(*(row_of(pod) for pod in place.pods()), node=place.node)
        assert answer_of(served.post("/v1/report", report, token))["taken"] == 4
        wait_for(lambda: propose(proposer_of(poster=poster), first) and Verdict.GRANTED in counted, "it is granted")
        assert served.series('plimsoll_evictions_judged_total{reason="evicted",verdict="granted"}') == 1.0
        poster.close()
    assert not place.is_there(first)
    wait_for(lambda: len(place.pods()) == 4, "a replacement is made")


class AllReported:
    """The webhook knows all that was measured."""

    def reported_until_seconds(self) -> float:
        return time.monotonic()

    def hasten(self, until_seconds: float) -> None:
        pass


def propose(proposer: Proposer, asked: Proposal) -> bool:
    """Have a plan that wants a pod evicted, and propose it."""
    eviction = Eviction(
        ref=asked.ref,
        workload=Workload(namespace=asked.ref.namespace, kind="Deployment", name="web"),
        resource=Resource.CPU,
        ranking=Ranking.LOW,
        spike=100,
        reason="a test",
    )
    proposer.take(plans.plan(evictions=(eviction,)))
    proposer.turn()
    return True


def row_of(pod: Json) -> Json:
    """A container that once took 400m of CPU."""
    metadata = pod["metadata"]
    return row_body(
        namespace=metadata["namespace"],
        kind="Deployment",
        workload="web",
        pod=metadata["name"],
        podUid=metadata["uid"],
        cpu=distribution(400.0),
        cpuAdjusted=distribution(400.0),
        oomKills=[],
    )
