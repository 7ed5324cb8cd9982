"""Answers /v1/cost: what nodes and pods cost, what sizing is worth, which nodes could go. Webhook.

Who may see some namespaces alone is told what their pods cost, and nothing of nodes: a node's price less its own pods
would be what all others on it cost, and the reasons why nodes stay name pods of others.

From memory, but for disruption budgets. It is worked out once a minute at most, however many ask, and as pods stand
then; who comes while it is being worked out gets what was found before, if there is any.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.cluster.facts import PodPlace
from agent.core.cluster.placement import PodPlacement
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.workload import Workload
from agent.core.cost.allocation import (
    Allocation,
    CostNode,
    CostPod,
    Figures,
    GroupKey,
    PodRequests,
    PodSizes,
    allocate,
    by_namespace,
    by_workload,
    together,
)
from agent.core.cost.fit import ClusterFit, DisruptionBudget, fit_nodes
from agent.core.cost.prices import LIST_PRICE_NOTE, Prices, money_text
from agent.core.history.reports.rollup import NodeClass
from agent.core.orders.policy_options import PolicyName
from agent.kube.objects.cluster_json import NodeFacts
from agent.metrics.call_result import CallResult
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.entity_tag import is_held
from agent.webhook.http.access import Access, Denied, Scope
from agent.webhook.http.reader_request import BadQuestionError, QuestionDoor, page_of
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.queries.cost_bodies import (
    CostBody,
    CostRowBody,
    CostTotalBody,
    FitBody,
    GoingNodeBody,
    PricingBody,
    StayingNodeBody,
    WorkloadCostBody,
)
from agent.webhook.queries.effective_policy import Applying, Defaults
from agent.webhook.queries.ledger_bodies import scope_body

VIEW_SECONDS: Final = 60.0
NOT_READ: Final = "nodes and pods are not read yet from the API server"
NOT_READ_SECONDS: Final = 5.0
VIEW_WAIT_SECONDS: Final = 2.0
"""For a view that another asker has worked out; then to come again, as threads are few and agents need them, too."""
MOST_UNPRICED: Final = 100
MOST_STAYING: Final = 500
LONGEST_LABEL: Final = 317
"""A prefix of 253, a slash, a name of 63."""


_ViewKey = tuple[str, frozenset[str] | None]


class CostBy(StrEnum):
    """What rows are of."""

    NAMESPACE = "namespace"
    WORKLOAD = "workload"
    NODE = "node"
    LABEL = "label"


class Adviser(Protocol):
    """Who knows what containers need."""

    def estimate(
        self,
        workload: Workload,
        container: str,
        *,
        policy: PolicyName,
        node: str | None,
        node_class: NodeClass | None,
        now_unix_seconds: float,
        is_ordered: bool = True,
    ) -> Estimate | NoEstimate:
        """Return what a new pod's container needs, or why that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostParts:
    """What is asked."""

    access: Access
    histories: Adviser
    facts: ClusterFacts
    budgets: Callable[[], tuple[DisruptionBudget, ...] | str]
    """Disruption budgets, or why they are not known."""
    prices: Prices
    pause: Callable[[], None] = lambda: None
    """Lets admissions go first; called between two questions to the histories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostView:
    """What was found, and when."""

    allocation: Allocation
    fit: ClusterFit | str | None
    """Or why nothing can be said; None = it was not looked for."""
    nodes: int
    made_monotonic_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCosts:
    """What the pods of workloads cost, for answers about workloads."""

    prices: Prices
    allocation: Allocation | None
    fault: str | None = None
    """Why there is no allocation; None = there is."""

    def of(self, workload: Workload) -> Figures | None:
        """Return a workload's figures; None = it has no pods on nodes with a price, or nothing is known."""
        if self.allocation is None:
            return None
        return self.allocation.groups.get((workload.namespace, workload.kind, workload.name))

    def body(self, workload: Workload) -> WorkloadCostBody | None:
        """Return them as a body, months."""
        figures = self.of(workload)
        if figures is None:
            return None
        amounts = (figures.cost, figures.cpu, figures.memory, figures.freed, figures.possible, figures.needed)
        cost, cpu, memory, freed, possible, needed = (money_text(self.prices.month(amount)) for amount in amounts)
        return WorkloadCostBody(
            pods=figures.pods,
            cost_month=cost,
            cpu_month=cpu,
            memory_month=memory,
            freed_month=freed,
            possible_month=possible,
            needed_month=needed,
            pods_without_advice=figures.pods_without_advice,
            is_list_price=figures.is_list_price,
        )

    @property
    def pricing(self) -> PricingBody:
        """Return in what money they are."""
        is_list_price = self.allocation is not None and self.allocation.is_list_price
        return PricingBody(
            currency=self.prices.currency,
            month_hours=money_text(self.prices.month_hours),
            list_price_note=LIST_PRICE_NOTE if is_list_price else "",
            fault=self.fault,
        )


class CostQuestions:
    """Answers ``/v1/cost``; for any thread."""

    def __init__(
        self,
        parts: CostParts,
        defaults: Defaults,
        metrics: WebhookMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._parts = parts
        self._asking = QuestionDoor(parts.access, metrics)
        self._applying = Applying(parts.facts, defaults)
        self._clock, self._wall_clock = clock, wall_clock
        self._making = threading.Lock()
        self._views: dict[_ViewKey | None, CostView] = {}
        """By label and whose pods, of which the newest is kept; None = by workload, of all."""
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="cost")
        self._coming: Future[CostView] | None = None

    def cost(self, call: Call) -> HttpAnswer:
        """Return rows: ``by=``, ``label=``, ``namespace=``, ``limit=`` and ``after=KEY`` choose."""
        return self._asking.scoped(call, self._answer, namespace=call.query.get("namespace"))

    def _answer(self, call: Call, scope: Scope) -> HttpAnswer:
        by, label, namespace = _question(call.query)
        if not self._parts.facts.is_complete:
            return fault(503, NOT_READ, retry_after_seconds=NOT_READ_SECONDS)
        view = self.view(label, scope.namespaces)
        page = page_of(call, self._rows(view, by, namespace, scope), _key_parts(by), _AFTER[by])
        allocation, prices = view.allocation, self._parts.prices
        is_whole = scope.namespaces is None
        seen = allocation.total if is_whole else together(_seen(allocation.groups, scope).values())
        is_list_price = allocation.is_list_price if is_whole else seen.is_list_price
        cpu, memory = prices.reference
        body = CostBody(
            currency=prices.currency,
            month_hours=money_text(prices.month_hours),
            by=by,
            label=label,
            is_list_price=is_list_price,
            list_price_note=LIST_PRICE_NOTE if is_list_price else "",
            cpu_core_hour=money_text(cpu),
            memory_gib_hour=money_text(memory),
            total=self._total(allocation, seen, scope),
            rows=list(page.items),
            next=page.next,
            fit=self._fit_body(view) if is_whole and namespace is None and "after" not in call.query else None,
            scope=scope_body(scope),
        )
        content = msgspec.json.encode(body)
        etag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"ETag": etag, "Age": str(int(max(self._clock() - view.made_monotonic_seconds, 0.0)))}
        if is_held(call.if_none_match, etag):
            return HttpAnswer(status=304, headers=headers)
        return HttpAnswer(body=content, headers=headers)

    # What is found

    def view(self, label: str | None = None, namespaces: frozenset[str] | None = None) -> CostView:
        """Return what was found within ``VIEW_SECONDS``, or is found now; by label, of pods of some namespaces alone.

        Raises:
            Denied: 503; there is none yet, and another asker's is being worked out.
        """
        label_key = None if label is None else (label, namespaces)
        known = self._views.get(label_key)
        if known is not None and self._clock() - known.made_monotonic_seconds < VIEW_SECONDS:
            return known
        if not self._making.acquire(timeout=VIEW_WAIT_SECONDS if known is None else 0):
            if known is not None:
                return known
            reason = "what pods cost is being worked out"
            raise Denied(503, CallResult.OVERLOAD, reason, retry_after_seconds=VIEW_WAIT_SECONDS)
        try:
            again = self._views.get(label_key)
            if again is not None and again is not known:
                return again
            view = self._build_view(label_key)
            # Of labels only the newest view is kept: each may have as many groups as there are pods.
            other_key = None if label is not None else next((key for key in self._views if key is not None), None)
            self._views = {key: self._views[key] for key in (other_key, None) if key in self._views} | {label_key: view}
            return view
        finally:
            self._making.release()

    def workload_costs(self, wait_seconds: float | None) -> WorkloadCosts:
        """Return what workloads cost, by what was found last; what is old is found anew beside the caller.

        Args:
            wait_seconds: How long to wait where nothing was found yet; None = until it is found, and found lately.
        """
        prices = self._parts.prices
        if wait_seconds is None:
            return WorkloadCosts(prices=prices, allocation=self.view().allocation)
        known = self._views.get(None)
        if known is None or self._clock() - known.made_monotonic_seconds >= VIEW_SECONDS:
            coming = self._coming
            if coming is None or coming.done():
                self._coming = coming = self._beside.submit(self.view)
            if known is None and wait((coming,), wait_seconds).done:
                with contextlib.suppress(Denied):  # another asker's is being worked out
                    known = coming.result()
        if known is None:
            return WorkloadCosts(prices=prices, allocation=None, fault="what pods cost is being worked out")
        return WorkloadCosts(prices=prices, allocation=known.allocation)

    def _build_view(self, label_key: _ViewKey | None) -> CostView:
        facts, now = self._parts.facts, self._clock()
        nodes = [_cost_node(node) for node in facts.nodes_known()]
        if label_key is not None:
            label, namespaces = label_key
            allocation = allocate(
                nodes,
                self._pods(namespaces),
                self._parts.prices,
                key=lambda pod: (pod.namespace, next((v for k, v in pod.placement.labels if k == label), "")),
            )
            return CostView(allocation=allocation, fit=None, nodes=len(nodes), made_monotonic_seconds=now)
        pods = list(self._pods())
        allocation = allocate(nodes, pods, self._parts.prices, key=by_workload)
        budgets = self._parts.budgets()
        fit: ClusterFit | str
        if isinstance(budgets, str):
            fit = budgets
        else:
            known = [facts.namespace(name) for name in facts.namespace_names()]
            fit = fit_nodes(
                nodes,
                pods,
                budgets,
                {node.name: node.price for node in allocation.nodes},
                namespaces={namespace.name: namespace.labels for namespace in known if namespace is not None},
            )
        return CostView(allocation=allocation, fit=fit, nodes=len(nodes), made_monotonic_seconds=now)

    def _pods(self, namespaces: frozenset[str] | None = None) -> Iterator[CostPod]:
        """Return all pods, or those of some namespaces, that are to go on, with what is recommended for each."""
        advice: dict[Workload, dict[str, PodRequests | None]] = {}
        shared: dict[PodRequests, PodRequests] = {}
        for part in self._parts.facts.pods_in_parts():
            for place in part:
                if place.is_terminating or place.placement is None:
                    continue
                if namespaces is not None and place.namespace not in namespaces:
                    continue
                sizes = self._sizes(place, place.placement, advice.setdefault(place.workload, {}))
                yield CostPod(
                    namespace=place.namespace,
                    name=place.name,
                    workload=place.workload,
                    node=place.node,
                    sizes=PodSizes(
                        now=shared.setdefault(sizes.now, sizes.now),
                        written=shared.setdefault(sizes.written, sizes.written),
                        recommended=None
                        if sizes.recommended is None
                        else shared.setdefault(sizes.recommended, sizes.recommended),
                    ),
                    placement=place.placement,
                )

    def _sizes(self, place: PodPlace, placement: PodPlacement, advice: dict[str, PodRequests | None]) -> PodSizes:
        now = _whole(placement, place.cpu_request_millicores, place.memory_request_bytes)
        containers = [container for container in place.containers or () if container.kind is not ContainerKind.INIT]
        written = now
        if containers and placement.is_written_known:
            written = _whole(
                placement,
                sum(container.cpu_request_millicores or 0 for container in containers),
                sum(container.memory_request_bytes or 0 for container in containers),
            )
        advised = []
        for container in containers:
            if container.name not in advice:
                advice[container.name] = self._advice(place.workload, container.name)
            advised.append(advice[container.name])
        known = [size for size in advised if size is not None]
        recommended = None
        if known and len(known) == len(containers):
            recommended = _whole(
                placement, sum(size.cpu_millicores for size in known), sum(size.memory_bytes for size in known)
            )
        return PodSizes(now=now, written=written, recommended=recommended)

    def _advice(self, workload: Workload, container: str) -> PodRequests | None:
        """Return what is recommended for a container; never less memory than it was killed with."""
        self._parts.pause()
        policy = self._applying.policy_name(workload, self._parts.facts.rules())
        estimate = self._parts.histories.estimate(
            workload,
            container,
            policy=policy,
            node=None,
            node_class=None,
            now_unix_seconds=self._wall_clock(),
            is_ordered=False,
        )
        if isinstance(estimate, NoEstimate):
            return None
        cpu, memory = estimate.cpu_request_millicores, estimate.memory_request_bytes
        if cpu is None or memory is None:
            return None
        return PodRequests(cpu_millicores=cpu, memory_bytes=max(memory, estimate.oom_memory_bytes or 0))

    # What is told

    def _rows(self, view: CostView, by: CostBy, namespace: str | None, scope: Scope) -> list[CostRowBody]:
        allocation = view.allocation
        if by is CostBy.NODE and scope.namespaces is not None:
            return []
        if by is CostBy.NODE:
            return [
                self._row(
                    node.figures,
                    node.name,
                    node=node.name,
                    price=node.price.hourly,
                    idle=node.idle,
                    source=node.price.words,
                    is_list_price=node.price.is_list_price,
                )
                for node in allocation.nodes
            ]
        groups = _seen(allocation.groups, scope)
        if namespace is not None:
            groups = {key: figures for key, figures in groups.items() if key[0] == namespace}
        if by is CostBy.LABEL:
            values: dict[str, Figures] = {}
            for (_, value), figures in groups.items():
                values[value] = values.get(value, Figures()).plus(figures)
            return [self._row(figures, value, value=value) for value, figures in sorted(values.items())]
        if by is CostBy.NAMESPACE:
            return [self._row(figures, name, namespace=name) for (name,), figures in by_namespace(groups).items()]
        return [
            self._row(figures, "/".join(key), namespace=key[0], kind=key[1], name=key[2])
            for key, figures in groups.items()
        ]

    def _row(
        self,
        figures: Figures,
        key: str,
        *,
        price: Decimal | None = None,
        idle: Decimal | None = None,
        source: str | None = None,
        is_list_price: bool = False,
        **names: str,
    ) -> CostRowBody:
        return CostRowBody(
            key=key,
            **names,
            pods=figures.pods,
            cost_month=self._month(figures.cost if price is None else price),
            cpu_month=self._month(figures.cpu),
            memory_month=self._month(figures.memory),
            idle_month=None if idle is None else self._month(idle),
            freed_month=self._month(figures.freed),
            possible_month=self._month(figures.possible),
            needed_month=self._month(figures.needed),
            pods_without_advice=figures.pods_without_advice,
            is_list_price=figures.is_list_price or is_list_price,
            price_source=source,
        )

    def _total(self, allocation: Allocation, figures: Figures, scope: Scope) -> CostTotalBody:
        is_whole = scope.namespaces is None
        return CostTotalBody(
            nodes=len(allocation.nodes) if is_whole else None,
            pods=figures.pods,
            cost_month=self._month(allocation.hourly) if is_whole else None,
            pods_month=self._month(figures.cost),
            idle_month=self._month(allocation.idle) if is_whole else None,
            freed_month=self._month(figures.freed),
            possible_month=self._month(figures.possible),
            needed_month=self._month(figures.needed),
            pods_without_advice=figures.pods_without_advice,
            unpriced_nodes=list(allocation.unpriced_nodes[:MOST_UNPRICED]) if is_whole else [],
            unpriced_pods=_counted(allocation.unpriced, scope),
            unplaced_pods=_counted(allocation.unplaced, scope),
        )

    def _fit_body(self, view: CostView) -> FitBody | None:
        fit = view.fit
        if fit is None:
            return None
        verdict, why_not = (ClusterFit(go=(), stay=()), fit) if isinstance(fit, str) else (fit, None)
        return FitBody(
            nodes=view.nodes,
            could_go=len(verdict.go),
            saves_month=self._month(verdict.saves),
            is_list_price=view.allocation.is_list_price,
            fault=why_not,
            go=[GoingNodeBody(node=node.node, month=self._month(node.hourly), moves=node.moves) for node in verdict.go],
            stay=[StayingNodeBody(node=node.node, reason=node.reason) for node in verdict.stay[:MOST_STAYING]],
        )

    def _month(self, hourly: Decimal) -> str:
        return money_text(self._parts.prices.month(hourly))


def _seen(groups: Mapping[GroupKey, Figures], scope: Scope) -> Mapping[GroupKey, Figures]:
    """Return the groups whose namespace may be seen."""
    return {key: figures for key, figures in groups.items() if scope.holds(key[0])}


def _counted(by_namespace: Mapping[str, int], scope: Scope) -> int:
    return sum(count for namespace, count in by_namespace.items() if scope.holds(namespace))


_AFTER: Final = {
    CostBy.NAMESPACE: "NAMESPACE",
    CostBy.WORKLOAD: "NAMESPACE/KIND/NAME",
    CostBy.NODE: "NODE",
    CostBy.LABEL: "VALUE",
}


def _question(query: Mapping[str, str]) -> tuple[CostBy, str | None, str | None]:
    """Read what is asked for: by what, the label, the namespace."""
    text = query.get("by", CostBy.NAMESPACE)
    try:
        by = CostBy(text)
    except ValueError:
        raise BadQuestionError(f"by: {text[:60]!r} is not allowed; allowed: {', '.join(CostBy)}") from None
    label, namespace = query.get("label"), query.get("namespace")
    if by is CostBy.LABEL and (not label or len(label) > LONGEST_LABEL):
        raise BadQuestionError("label: is missing or too long; allowed with by=label: the key of a label of pods")
    if by is not CostBy.LABEL and label is not None:
        raise BadQuestionError(f"label: is not allowed with by={by}; allowed: by=label")
    if by is CostBy.NODE and namespace is not None:
        raise BadQuestionError("namespace: is not allowed with by=node: a node is of no namespace")
    return by, label, namespace


def _key_parts(by: CostBy) -> Callable[[CostRowBody], tuple[str, ...]]:
    return (lambda row: tuple(row.key.split("/"))) if by is CostBy.WORKLOAD else (lambda row: (row.key,))


def _cost_node(node: NodeFacts) -> CostNode:
    return CostNode(name=node.name, capacity=node.capacity, allocatable=node.allocatable, placement=node.placement)


def _whole(placement: PodPlacement, cpu_millicores: int, memory_bytes: int) -> PodRequests:
    return PodRequests(
        cpu_millicores=placement.cpu_millicores(cpu_millicores), memory_bytes=placement.memory_bytes(memory_bytes)
    )
