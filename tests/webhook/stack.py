"""Everything that answers, without a cluster: real store, index and reviewer; facts and tokens stand in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.core.admission.answer import AdmissionOutcome
from agent.core.admission.options import AdmissionSettings
from agent.core.autoscalers.preserved_target import PreservedTarget
from agent.core.autoscalers.vpa_orders import VpaOrders
from agent.core.cluster.facts import ClusterRules, FrozenAxes, NodeAmounts, PodPlace, WrittenContainer
from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod, TopOwner
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload, with_top_owner
from agent.core.cost.fit import DisruptionBudget
from agent.core.cost.prices import Prices
from agent.core.eviction.options import ArbiterOptions
from agent.core.history.reports.rollup import NodeClass
from agent.core.orders.plan_options import ActOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.kube.objects.cluster_json import NodeFacts
from agent.metrics.call_result import CallResult
from agent.metrics.webhook_series import WebhookMetrics
from agent.settings import Settings
from agent.settings.webhook_sections import AccessSettings, ListeningSettings
from agent.webhook.admission.glance import Unread
from agent.webhook.admission.review import Reviewer
from agent.webhook.buffers.controller import BufferController
from agent.webhook.buffers.options import BufferMode, BufferOptions
from agent.webhook.buffers.seams import WritePermission
from agent.webhook.cluster.facts import ClusterFacts, SourceStatus
from agent.webhook.eviction.arbiter import Arbiter
from agent.webhook.eviction.taint_cap import TaintCap
from agent.webhook.http.access import Access
from agent.webhook.http.routes import Call, Services, WebhookApp
from agent.webhook.openapi import document
from agent.webhook.queries.buffers import BufferQuestions
from agent.webhook.queries.cost import Adviser, CostParts, CostQuestions
from agent.webhook.queries.effective_policy import Defaults
from agent.webhook.queries.events import EventQuestions
from agent.webhook.queries.forget import ForgetParts as ForgettingParts
from agent.webhook.queries.forget import Forgetter
from agent.webhook.queries.imports import Doors, Importer
from agent.webhook.queries.imports import ImportParts as ImportingParts
from agent.webhook.queries.policies import PolicyQuestions
from agent.webhook.queries.summary import SummaryParts, SummaryQuestions
from agent.webhook.queries.workloads import QueryParts as ReadingParts
from agent.webhook.queries.workloads import Questions
from agent.webhook.reports.directives import Director
from agent.webhook.reports.posts import PostParts as PostParts
from agent.webhook.reports.posts import Posts
from agent.webhook.store.database.engine import database_now
from agent.webhook.store.entries.report_payload import encode_report
from agent.webhook.store.evictions import EvictionStore
from agent.webhook.store.store import Store
from agent.webhook.store.taints import TaintStore
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.percentiles import Statistics
from agent.webhook.workloads.shapes import IndexOptions
from agent.webhook.workloads.tailer import Tailer
from tests.buffer_collaborators import asking
from tests.fake_api import FakeApi
from tests.webhook.open_store import new_file, open_store
from tests.webhook.signed_tokens import AnyWord
from tests.webhook.test_access import Server, user

GOOD = "good"
READABLE = frozenset(
    {
        *("/v1/workloads", "/v1/nodes", "/v1/workloads/shop/Deployment/web", "/v1/workloads/shop/Job/nix"),
        *("/v1/buffers", "/v1/buffers/shop/room", "/v1/cost"),
        *("/v1/summary", "/v1/events", "/v1/policy"),
    }
)
WEB = Workload(namespace="shop", kind="Deployment", name="web")


def place(number: int, node: str = "node-a", workload: Workload = WEB) -> PodPlace:
    return PodPlace(
        uid=f"uid-{number}",
        namespace=workload.namespace,
        name=f"web-{number}",
        node=node,
        workload=workload,
        is_running=True,
        is_terminating=False,
    )


@dataclass
class Facts(ClusterFacts):
    """The cluster as a test wants it."""

    is_complete: bool = True
    age_seconds: float | None = 1.0
    places: dict[str, PodPlace] = field(default_factory=lambda: {f"uid-{n}": place(n) for n in range(20)})
    namespaces: dict[str, Namespace] = field(default_factory=lambda: {"shop": Namespace(name="shop")})
    told: ClusterRules = field(default_factory=ClusterRules)
    axes: FrozenAxes = field(default_factory=FrozenAxes)
    kept: dict[Resource, PreservedTarget] = field(default_factory=dict)
    targets: tuple[UtilizationTarget, ...] = ()
    vpa: str | None = None
    node_names: tuple[str, ...] = ("node-a", "node-b")
    tainted: frozenset[str] = frozenset()
    amounts: NodeAmounts | None = field(default_factory=lambda: NodeAmounts(cpu_millicores=8000, memory_bytes=32 << 30))
    runs: int = 3
    known_nodes: tuple[NodeFacts, ...] = ()
    vpas: dict[Workload, VpaOrders] = field(default_factory=dict)
    jobs: dict[tuple[str, str], TopOwner] = field(default_factory=dict)
    told_faults: tuple[str, ...] = ()

    def pod(self, uid: str) -> PodPlace | None:
        return self.places.get(uid)

    def job_owner(self, namespace: str, job: str) -> TopOwner | None:
        return self.jobs.get((namespace, job))

    def with_top_owner(self, pod: Pod) -> Pod:
        return with_top_owner(pod, group_by=("workflow",), job_owner=self.job_owner)

    def gone_pod(self, uid: str) -> PodPlace | None:
        return None

    def pods_age_seconds(self) -> float:
        return 0.0

    def pods_on(self, node: str) -> tuple[PodPlace, ...]:
        return tuple(pod for pod in self.places.values() if pod.node == node)

    def pods_of(
        self, workload: Workload, most: int, pause: Callable[[], None] = lambda: None
    ) -> tuple[int, tuple[PodPlace, ...]]:
        pause()
        pods = [pod for pod in self.places.values() if pod.workload == workload]
        pods.sort(key=lambda pod: (pod.resize_pending is None, pod.name))
        return len(pods), tuple(pods[:most])

    def namespace_names(self) -> tuple[str, ...]:
        return tuple(sorted(self.namespaces))

    def nodes_known(self) -> tuple[NodeFacts, ...]:
        return self.known_nodes or tuple(
            NodeFacts(
                name=name,
                node_class=self.node_class(name),
                is_overloaded=name in self.tainted,
                capacity=self.amounts,
                allocatable=self.amounts,
                takes_pod_resources=True,
                resizes_in_place=True,
                kubelet_version="v1.34.1",
            )
            for name in self.node_names
        )

    def statuses(self) -> tuple[SourceStatus, ...]:
        return ()

    def faults(self) -> tuple[str, ...]:
        return self.told_faults

    def node_class(self, node: str) -> NodeClass | None:
        return NodeClass(instance_type="m5.large", cpus=8)

    def capacity(self, node: str) -> NodeAmounts | None:
        return self.amounts

    def largest_allocatable(self) -> NodeAmounts | None:
        return self.amounts

    def written(self, workload: Workload) -> Mapping[str, WrittenContainer]:
        return {
            container.name: container
            for pod in self.places.values()
            if pod.workload == workload
            for container in pod.containers or ()
        }

    def namespace(self, name: str) -> Namespace | None:
        return self.namespaces.get(name)

    def frozen(self, workload: Workload) -> FrozenAxes:
        return self.axes

    def scaled_by(self, workload: Workload) -> FrozenAxes:
        return self.axes

    def preserved(self, workload: Workload) -> Mapping[Resource, PreservedTarget]:
        return self.kept

    def kept_resources(self, workload: Workload) -> frozenset[Resource]:
        return frozenset(self.kept)

    def hpa_targets(self, workload: Workload) -> tuple[UtilizationTarget, ...]:
        return self.targets

    def vpa_orders(self, workload: Workload) -> VpaOrders | None:
        return self.vpas.get(workload)

    def left_alone_for(self, workload: Workload) -> str | None:
        return self.vpa

    def limit_ranges(self, namespace: str) -> tuple[()]:
        return ()

    def quotas(self, namespace: str) -> tuple[()]:
        return ()

    def bounds_fault(self, namespace: str) -> str | None:
        return None

    def rules(self) -> ClusterRules:
        return self.told

    def replicas(self, workload: Workload) -> int | None:
        return self.runs

    def pods_in_parts(self) -> Iterator[list[PodPlace]]:
        yield list(self.places.values())

    def running(self, workload: Workload) -> int | None:
        return 3

    def node_count(self) -> int:
        return len(self.node_names)

    def has_node(self, name: str) -> bool:
        return name in self.node_names

    def tainted_nodes(self) -> frozenset[str]:
        return self.tainted

    def allocatable(self, node: str | None) -> NodeAmounts | None:
        return NodeAmounts(cpu_millicores=64_000, memory_bytes=256 << 30)

    def knows_pod_level_resources(self) -> bool:
        return True

    def resizes_in_place(self) -> bool:
        return True


@dataclass
class Stack:
    """All of it; ``app`` is the ASGI application, ``services`` what it is made of."""

    store: Store
    facts: Facts
    server: Server
    metrics: WebhookMetrics
    index: WorkloadIndex
    tailer: Tailer
    posts: Posts
    questions: Questions
    services: Services
    app: WebhookApp
    api: FakeApi
    settings: AccessSettings

    def follow(self) -> None:
        """Bring what was reported into memory."""
        while self.index.runs.follow(self.store):
            pass
        _follow(self.tailer)

    def report(self, body: bytes, token: str | None = GOOD, **more: Any) -> Any:
        authorization = None if token is None else f"Bearer {token}"
        return self.posts.report(Call(path="/v1/report", body=body, authorization=authorization, **more))

    def ask(
        self, path: str, *, names: Any = None, token: str | None = GOOD, held: str | None = None, **query: Any
    ) -> Any:
        authorization = None if token is None else f"Bearer {token}"
        call = Call(path=path, authorization=authorization, query=query, names=names or {}, if_none_match=held)
        services = self.services
        work = {
            "/v1/workloads": services.workloads,
            "/v1/nodes": services.nodes,
            "/v1/summary": services.summary,
            "/v1/events": services.events,
            "/v1/policy": services.policy,
        }
        return work.get(path, services.workload)(call)

    def counted(self, series: str) -> float:
        for line in self.metrics.page().body.decode().splitlines():
            if line.startswith(f"{series} "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(series)


def _follow(tailer: Tailer) -> None:
    while tailer.advance(time.time()):
        pass


@contextmanager
def stack(
    folder: Path,
    *,
    store: Any = None,
    access: AccessSettings | None = None,
    act: ActOptions | None = None,
    server: Server | None = None,
    prices: Prices | None = None,
    advice: Adviser | None = None,
    budgets: Callable[[], tuple[DisruptionBudget, ...] | str] = tuple,
    breathe: Callable[[], None] = lambda: None,
) -> Iterator[Stack]:
    """Put it together; all is closed at the end."""
    settings = access or AccessSettings(requests_per_minute=100_000, reviews_per_minute=1_000_000)
    if store is None and not (folder / "plimsoll.db").exists():
        new_file(folder / "plimsoll.db")
    opened = store if store is not None else open_store(f"sqlite:///{folder / 'plimsoll.db'}")
    facts = Facts()
    given = server or Server(users={"good": user()}, readable=READABLE)
    metrics = WebhookMetrics(
        version="0",
        commit="0",
        admission_results=[str(outcome) for outcome in AdmissionOutcome],
        unread_reasons=[str(reason) for reason in Unread],
    )
    index = WorkloadIndex(IndexOptions(), Settings(), min_age_seconds=0.0, cluster=facts)
    tailer = Tailer(opened, index)
    api = FakeApi(given.answer)
    sizing = AdmissionSettings(act=act or ActOptions())
    director = Director(facts, index, pause=breathe)
    access_of = Access(api, settings, namespace="plimsoll", places=facts, clock=time.monotonic, keys=AnyWord())
    reviewer = Reviewer(facts, index, sizing, count=metrics.count_admission)
    arbiter = Arbiter(
        api=api,
        store=EvictionStore(opened),
        facts=facts,
        admission=lambda pod: reviewer.admission(pod, None),
        options=ArbiterOptions(),
        sizing=sizing,
    )
    options = ArbiterOptions()
    taints = TaintCap(store=TaintStore(opened, now=database_now), facts=facts, options=options)
    posts = Posts(
        PostParts(
            access=access_of,
            store=opened,
            facts=facts,
            encode=encode_report,
            directives=lambda node: director.directives_of(node, time.time()),
            arbitrate=arbiter.decide,
            taint=taints.decide,
            taint_seconds=options.taint_grant_seconds,
            appended=tailer.offer,
            followed=lambda: None,
            breathe=breathe,
        ),
        settings,
        metrics,
    )
    defaults = Defaults(
        act=sizing.act, bounds=BoundsOptions(), policy=PolicyName.CRUISE, config_map="plimsoll/plimsoll"
    )
    costs = CostQuestions(
        CostParts(access=access_of, histories=advice or index, facts=facts, budgets=budgets, prices=prices or Prices()),
        defaults,
        metrics,
    )
    questions = Questions(
        ReadingParts(
            access=access_of,
            histories=index,
            facts=facts,
            directive=director.directive_of,
            statistics=Statistics(opened, index.places).of,
            marks=lambda: opened.nodes(),
            store=opened,
            costs=costs.workload_costs,
        ),
        defaults,
        metrics,
    )
    summaries = SummaryQuestions(
        SummaryParts(
            access=access_of,
            store=opened,
            histories=index,
            facts=facts,
            applying=questions.applying,
            standings=questions.standings,
            leader=lambda: "replica",
            config_map="plimsoll/plimsoll",
        ),
        metrics,
    )
    events = EventQuestions(access_of, opened, metrics)
    policies = PolicyQuestions(access_of, index, facts, questions.applying, questions.applies, metrics)
    forgetter = Forgetter(
        ForgettingParts(
            access=access_of,
            store=opened,
            merged=index.merged,
            ordered=lambda: _follow(tailer),
            wait_for=tailer.wait_for,
        ),
        metrics,
    )
    importer = Importer(
        ImportingParts(
            access=access_of,
            store=opened,
            retention_days=14,
            ordered=lambda: _follow(tailer),
            wait_for=tailer.wait_for,
        ),
        settings,
        metrics,
    )
    doors = Doors(posts, importer)
    controller = BufferController(
        api,
        options=BufferOptions(mode=BufferMode.OFF),
        permission=WritePermission(is_leader=lambda: False),
        instance="replica",
        collaborators=asking(),
    )
    buffers = BufferQuestions(controller, access_of, metrics, replica="a", namespace="plimsoll", leader=lambda: None)
    services = Services(
        review=reviewer.review,
        failed=metrics.count_unread,
        known=doors.known,
        entering=doors.entering,
        report=posts.report,
        evictions=posts.evictions,
        taint=posts.taint,
        history=importer.history,
        runs=posts.runs,
        decisions=posts.decisions,
        workloads=questions.workloads,
        workload=questions.workload,
        forget=forgetter.forget,
        nodes=questions.nodes,
        summary=summaries.summary,
        events=events.events,
        policy=policies.policy,
        buffers=buffers.buffers,
        buffer=buffers.buffer,
        cost=costs.cost,
        rejected=lambda kind: metrics.count_call(kind, CallResult.OVERLOAD),
        page=metrics.page,
        scrape_rejected=metrics.count_rejected_scrape,
        ready=lambda: (True, "ready"),
        openapi=document(),
        most_report_bytes=settings.body_bytes,
    )
    app = WebhookApp(services, ListeningSettings())
    try:
        yield Stack(opened, facts, given, metrics, index, tailer, posts, questions, services, app, api, settings)
    finally:
        app.close()
        opened.close()
