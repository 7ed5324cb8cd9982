"""What people ask: the workloads, one of them whole, the nodes; and what applies to a workload and where that is from.

Webhook. Everything but percentiles and the nodes' marks is in memory. Runs in worker threads: the API server judges
tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.cluster.facts import ClusterRules, PodPlace, WrittenContainer
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import RUN_KINDS, Workload
from agent.core.history.minute.quality import QualityWindow
from agent.core.history.reports.directive import WorkloadDirective
from agent.core.history.reports.rollup import NodeSums
from agent.core.history.workloads.hour_peaks import HourPeak
from agent.core.history.workloads.job_run import JobRun
from agent.core.history.workloads.share_groups import GroupFare
from agent.core.history.workloads.start_figures import LearntStart
from agent.core.orders.guard_options import GuardOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.hpa_advice import RequestChange, hpa_advice
from agent.kube.objects.cluster_json import NodeFacts
from agent.metrics.call_result import CallResult
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.http.access import Access, Denied, Scope
from agent.webhook.http.reader_request import BadQuestionError, QuestionDoor, tagged
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.queries import workload_list
from agent.webhook.queries.cost import WorkloadCosts
from agent.webhook.queries.effective_policy import Applying, Defaults
from agent.webhook.queries.events import EventBody, event_body
from agent.webhook.queries.explanation import explanation_of
from agent.webhook.queries.ledger_bodies import hour_body, scope_body
from agent.webhook.queries.quality_bodies import quality_body
from agent.webhook.queries.request_sums import RequestSumBook
from agent.webhook.queries.standings import StandingBook, Standings
from agent.webhook.queries.workload_bodies import (
    AdviceBody,
    AppliesBody,
    ContainerBody,
    GroupBody,
    HourBody,
    KillBody,
    KillHourBody,
    NodeBody,
    NodeCpuBody,
    NodeMemoryBody,
    NodePlanBody,
    NodesBody,
    PastRunBody,
    PastStartBody,
    PodBody,
    ShareBody,
    SideBody,
    SignalBody,
    SpreadBody,
    StatisticsBody,
    WorkloadBody,
    WorkloadLineBody,
    WorkloadsBody,
)
from agent.webhook.queries.workload_list import ListedWorkload
from agent.webhook.reports.directives import NotKnownYet, check_read
from agent.webhook.reports.posts import READY_RETRY_SECONDS
from agent.webhook.store.records.decisions import DecisionChoice, DecisionLogState
from agent.webhook.store.shapes import NodeMark, StoreAway
from agent.webhook.store.store import Store
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.percentiles import ContainerStatistics, SignalStatistics
from agent.webhook.workloads.shapes import ContainerHistory, MergedHistory, NodeSeen, RowHistory

PAST_HOURS: Final = 14 * 24
MOST_PODS: Final = 100
"""Of one workload that are shown."""
MOST_MARKS: Final = 500
"""Decisions of one workload that are shown."""
SILENT_SECONDS: Final = 900.0
"""Three reports of a node that did not come."""
COST_WAIT_SECONDS: Final = 0.1
"""For what workloads cost, where nothing is known of it yet: a list does not wait for a whole large cluster's."""
_HOUR_SECONDS: Final = 3600
_PIECE: Final = 25
"""Nodes or lines of a list, which take half a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParts:
    """What is asked."""

    access: Access
    histories: WorkloadIndex
    facts: ClusterFacts
    directive: Callable[[Workload, float], WorkloadDirective]
    """What a node would be told of a workload."""
    statistics: Callable[[Workload, float], Mapping[str, ContainerStatistics]]
    """Percentiles by container, from the database."""
    marks: Callable[[], list[NodeMark]]
    """How far each node's reports have come, from the database."""
    shares: Callable[[Workload], tuple[str, Sequence[GroupFare]] | None] = lambda workload: None
    """A workload's enforced share, and how both groups fare; None = there is none."""
    store: Store
    """For the ledger and what was decided."""
    costs: Callable[[float | None], WorkloadCosts]
    """What workloads cost, if it is known within so many seconds; None = however long it takes."""
    share_window_seconds: float = GuardOptions().share_window_seconds
    pause: Callable[[], None] = lambda: None
    """Lets admissions go first; called between two questions to the histories, and between pieces of longer work."""


def require_read(facts: ClusterFacts, histories: WorkloadIndex) -> None:
    """Return where all has been read: who takes a part for all writes files that lack the rest.

    Raises:
        Denied: 503; cluster or history has not been read as a whole.
    """
    try:
        check_read(facts, histories)
    except NotKnownYet as error:
        raise Denied(503, CallResult.NOT_READY, str(error), retry_after_seconds=READY_RETRY_SECONDS) from error


class Questions:
    """Answers ``/v1/workloads``, ``/v1/workloads/...`` and ``/v1/nodes``; for any thread."""

    def __init__(
        self,
        parts: QueryParts,
        defaults: Defaults,
        metrics: WebhookMetrics,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._parts = parts
        self._asking = QuestionDoor(parts.access, metrics)
        self.applying: Final = Applying(parts.facts, defaults)
        self.standings: Final = StandingBook(parts.store)
        self._request_sums = RequestSumBook(self._estimate)
        self._wall_clock = wall_clock

    def workloads(self, call: Call) -> HttpAnswer:
        """List workloads, chosen and in the order that ``workload_list.choice_of`` reads off the query.

        ``limit=`` and ``after=NAMESPACE/KIND/NAME`` page, ``quality=1h``, ``1d`` or ``7d`` adds how good sizing was.
        """
        return self._asking.scoped(call, self._list, namespace=call.query.get("namespace"))

    def workload(self, call: Call) -> HttpAnswer:
        """Return one workload whole; ``policy=`` tries another policy."""
        return self._asking.scoped(call, self._workload, namespace=call.names.get("namespace"))

    def nodes(self, call: Call) -> HttpAnswer:
        """List the nodes that report, and the others of the cluster."""
        return self._asking.scoped(call, self._nodes)

    # Lists

    def _list(self, call: Call, scope: Scope) -> HttpAnswer:
        require_read(self._parts.facts, self._parts.histories)
        now, parts = self._wall_clock(), self._parts
        window = _window(call.query["quality"]) if "quality" in call.query else None
        rules = parts.facts.rules()
        standings, is_away = self._standings()
        costs = parts.costs(None if workload_list.is_by_cost(call) else COST_WAIT_SECONDS)
        page = workload_list.page(
            call,
            parts.histories.workloads(),
            scope,
            standings=lambda: standings,
            mode_of=lambda seen: self.applying.mode(seen.workload, rules).value or "",
            cost_of=costs.of,
            pause=parts.pause,
        )
        actions = {} if is_away else self._last_actions([entry.seen.workload for entry in page.items], scope, now)
        lines = []
        for number, entry in enumerate(page.items):
            if number % _PIECE == _PIECE - 1:
                parts.pause()
            lines.append(self._line(entry, rules, now, window, actions.get(entry.seen.workload), is_away=is_away))
        body = WorkloadsBody(
            total=page.total,
            workloads=lines,
            pricing=costs.pricing,
            next=page.next,
            scope=scope_body(scope),
            by_severity=dict(page.by_severity),
        )
        for line, entry in zip(body.workloads, page.items, strict=True):
            line.cost = costs.body(entry.seen.workload)
        return tagged(call, msgspec.json.encode(body), now)

    def _standings(self) -> tuple[Standings, bool]:
        """Return how workloads stand, and whether the database is away, so that nothing is known of that."""
        try:
            return self.standings.now(), False
        except StoreAway:
            return Standings(unix_hour=None, by_workload={}), True

    def _last_actions(self, workloads: Sequence[Workload], scope: Scope, now: float) -> dict[Workload, EventBody]:
        try:
            decisions = self._parts.store.last_decisions(workloads)
        except StoreAway:
            return {}
        return {workload: event_body(decision, now, scope) for workload, decision in decisions.items()}

    def _line(
        self,
        listed: ListedWorkload,
        rules: ClusterRules,
        now: float,
        window: QualityWindow | None,
        action: EventBody | None,
        *,
        is_away: bool,
    ) -> WorkloadLineBody:
        seen, standing = listed.seen, listed.standing
        workload = seen.workload
        quality = None if window is None else self._parts.histories.quality(workload, now)
        policy = self.applying.policy_name(workload, rules)
        mode = self.applying.mode(workload, rules)
        sums = self._request_sums.of(seen, policy, now)
        return WorkloadLineBody(
            namespace=workload.namespace,
            kind=workload.kind,
            name=workload.name,
            containers=list(seen.containers),
            history_seconds=max(0.0, now - seen.first_unix_seconds),
            newest_age_seconds=max(0.0, now - seen.last_unix_seconds),
            mode=mode.value or "",
            cpu_request_millicores=sums.cpu_request_millicores,
            memory_request_bytes=sums.memory_request_bytes,
            quality=None if quality is None or window is None else quality_body(quality, window),
            mode_source=mode.source,
            policy=policy,
            replicas=self._parts.facts.replicas(workload),
            severity=standing.severity,
            severity_words="the database is away" if is_away else standing.words,
            hour=None if standing.hour is None else hour_body(standing.hour),
            kills_week=None if is_away else standing.kills_week,
            last_action=action,
        )

    def _nodes(self, call: Call, scope: Scope) -> HttpAnswer:
        now = self._wall_clock()
        if scope.namespaces is not None:
            return tagged(call, msgspec.json.encode(NodesBody(nodes=[], scope=scope_body(scope))), now)
        require_read(self._parts.facts, self._parts.histories)
        seen = {node.name: node for node in self._parts.histories.nodes()}
        marks = {mark.node: mark for mark in self._parts.marks()}
        self._parts.pause()
        logs = {log.node: log for log in self._parts.store.decision_logs()}
        facts = {node.name: node for node in self._parts.facts.nodes_known()}
        nodes = []
        for number, name in enumerate(sorted({*seen, *marks, *facts})):
            if number % _PIECE == _PIECE - 1:
                self._parts.pause()
            body = _node_body(name, seen.get(name), marks.get(name), now)
            nodes.append(_with_facts(body, facts.get(name), logs.get(name)))
        return tagged(call, msgspec.json.encode(NodesBody(nodes=nodes, scope=scope_body(scope))), now)

    # One workload

    def _workload(self, call: Call, scope: Scope) -> HttpAnswer:
        require_read(self._parts.facts, self._parts.histories)
        now = self._wall_clock()
        parts = call.names
        workload = Workload(namespace=parts["namespace"], kind=parts["kind"], name=parts["name"])
        history = self._parts.histories.merged(workload)
        known = self._parts.histories.runs
        is_run = workload.kind in RUN_KINDS
        runs = known.last_of(workload, now_unix_seconds=now) if is_run else {}
        starts = {} if is_run else known.starts_of(workload, now_unix_seconds=now)
        if history is None and any({**runs, **starts}.values()):
            history = _of_runs(workload, {**runs, **starts})
        if history is None:
            return fault(404, f"nothing is known of {workload.kind} {workload.namespace}/{workload.name}")
        rules = self._parts.facts.rules()
        policy = self.applying.policy_name(workload, rules)
        if "policy" in call.query:
            policy = _policy_name(call.query["policy"])
        statistics, statistics_fault = self._statistics(workload, now)
        quality = self._parts.histories.container_quality(workload, now)
        written = self._parts.facts.written(workload)
        body = WorkloadBody(
            namespace=workload.namespace,
            kind=workload.kind,
            name=workload.name,
            history_seconds=max(0.0, now - history.first_unix_seconds),
            newest_age_seconds=max(0.0, now - history.last_unix_seconds),
            applies=self.applies(workload, rules, now),
            containers=[
                ContainerBody(
                    container=container.container,
                    advice=_advice(policy, self._estimate(workload, container.container, policy, now)),
                    hours=_hours(container),
                    classes=[_side(row, now) for row in container.classes],
                    nodes=[_side(row, now) for row in container.nodes],
                    imported=None if container.imported is None else _side(container.imported, now),
                    statistics=_statistics_body(
                        statistics.get(container.container), container.nodes or container.classes
                    ),
                    quality=[
                        quality_body(known, window)
                        for known in (quality.get(container.container),)
                        if known is not None
                        for window in QualityWindow
                    ],
                    runs=[_run_body(run, now) for run in runs.get(container.container, ())],
                    starts=[_start_body(start, now) for start in starts.get(container.container, ())],
                    start_cpu_millicores=_start_millicores(
                        known.start(workload, container.container, now_unix_seconds=now)
                    ),
                    kind=None if template is None else template.kind,
                    memory_limit_bytes=None if template is None else template.memory_limit_bytes,
                )
                for container in history.containers
                for template in (written.get(container.container),)
            ],
            statistics_fault=statistics_fault,
            share=self._share(workload),
        )
        body.pod_containers = sorted(written) or None
        body.hpa_advice = self._hpa_advice(workload, body.containers, written.values())
        body.scope = scope_body(scope)
        body.kill_hours = _kill_hours(history.containers)
        body.explanation = explanation_of(body)
        costs = self._parts.costs(COST_WAIT_SECONDS)
        body.cost, body.pricing = costs.body(workload), costs.pricing
        if self._parts.facts.replicas(workload) is not None:
            body.pods_total, places = self._parts.facts.pods_of(workload, MOST_PODS, self._parts.pause)
            body.pods = [_pod_body(place) for place in places]
        self._add_past(body, workload, scope, now)
        return tagged(call, msgspec.json.encode(body), now)

    def _add_past(self, body: WorkloadBody, workload: Workload, scope: Scope, now: float) -> None:
        """Add the ledger's hours and what was decided."""
        store, hour = self._parts.store, int(now // _HOUR_SECONDS)
        choice = DecisionChoice(
            namespaces=frozenset({workload.namespace}),
            workload_kind=workload.kind,
            workload_name=workload.name,
            since_unix_seconds=now - PAST_HOURS * _HOUR_SECONDS,
        )
        try:
            body.ledger = [hour_body(row) for row in store.ledger_of(workload, range(hour - PAST_HOURS, hour + 1))]
            body.events = [event_body(decision, now, scope) for decision in store.decisions(choice, MOST_MARKS)]
        except StoreAway:
            body.ledger, body.events, body.ledger_fault = [], [], "the database is away"

    def _hpa_advice(
        self, workload: Workload, containers: Sequence[ContainerBody], written: Iterable[WrittenContainer]
    ) -> list[str]:
        kept_resources = self._parts.facts.kept_resources(workload)
        targets = [
            target for target in self._parts.facts.hpa_targets(workload) if target.resource not in kept_resources
        ]
        advice = {container.container: container.advice for container in containers}
        cpu, memory = [], []
        for spec in written:
            if spec.kind is ContainerKind.INIT:
                continue
            container_advice = advice.get(spec.name)
            cpu.append(
                RequestChange(
                    container=spec.name,
                    stated=spec.cpu_request_millicores,
                    recommended=None if container_advice is None else container_advice.cpu_request_millicores,
                )
            )
            memory.append(
                RequestChange(
                    container=spec.name,
                    stated=spec.memory_request_bytes,
                    recommended=None if container_advice is None else container_advice.memory_request_bytes,
                )
            )
        return [*hpa_advice(targets, Resource.CPU, cpu), *hpa_advice(targets, Resource.MEMORY, memory)]

    def _share(self, workload: Workload) -> ShareBody | None:
        share_and_fares = self._parts.shares(workload)
        if share_and_fares is None:
            return None
        share, fares = share_and_fares
        groups = [
            GroupBody(
                enforced=group.is_enforced,
                pods=group.pods,
                container_seconds=group.fare.seconds,
                restarts=group.fare.restarts,
                kills=group.fare.kills,
                unready_ratio=group.fare.unready_ratio,
                waiting_ratio=group.fare.waiting_ratio,
                throttled_ratio=group.fare.throttled_ratio,
            )
            for group in fares
        ]
        return ShareBody(share=share, window_seconds=self._parts.share_window_seconds, groups=groups)

    def _statistics(self, workload: Workload, now: float) -> tuple[Mapping[str, ContainerStatistics], str | None]:
        try:
            return self._parts.statistics(workload, now), None
        except StoreAway:
            return {}, "the database is away"

    def _estimate(self, workload: Workload, container: str, policy: PolicyName, now: float) -> Estimate | NoEstimate:
        self._parts.pause()
        return self._parts.histories.estimate(
            workload, container, policy=policy, node=None, node_class=None, now_unix_seconds=now
        )

    def applies(self, workload: Workload, rules: ClusterRules, now: float) -> AppliesBody:
        """Return what holds for a workload, and what said so."""
        directive, applying = self._parts.directive(workload, now), self.applying
        return AppliesBody(
            mode=applying.mode(workload, rules),
            policy=applying.policy(workload, rules),
            pause=applying.pause(rules),
            cpu_frozen_for=directive.cpu_frozen_for,
            memory_frozen_for=directive.memory_frozen_for,
            left_alone_for=directive.left_alone_for,
            stop_shrinking_seconds=directive.stop_shrinking_seconds,
            replicas=directive.replicas,
            bounds=list(applying.bounds(workload)),
            annotations=dict(sorted(applying.annotations(workload.namespace).items())),
            rules_fault=rules.fault,
            stop_shrinking_for=directive.stop_shrinking_for,
            share=applying.share(workload, rules),
            share_taken_back=directive.share_taken_back,
            share_taken_back_for=directive.share_taken_back_for,
            cpu_frozen_containers=_listed(directive.cpu_frozen_containers),
            memory_frozen_containers=_listed(directive.memory_frozen_containers),
            cpu_preserved=directive.cpu_preserved,
            memory_preserved=directive.memory_preserved,
            profile=list(applying.profile()),
            windows=applying.windows(workload, rules),
        )


def _listed(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _policy_name(text: str) -> PolicyName:
    try:
        return PolicyName(text)
    except ValueError:
        raise BadQuestionError(f"policy: {text[:60]!r} is not allowed; allowed: {', '.join(PolicyName)}") from None


def _window(text: str) -> QualityWindow:
    try:
        return QualityWindow(text)
    except ValueError:
        raise BadQuestionError(f"quality: {text[:60]!r} is not allowed; allowed: {', '.join(QualityWindow)}") from None


def _advice(policy: PolicyName, estimate: Estimate | NoEstimate) -> AdviceBody:
    if isinstance(estimate, NoEstimate):
        return AdviceBody(policy=policy, missing=estimate)
    return AdviceBody(
        policy=estimate.policy,
        stands_in_for=estimate.stands_in_for,
        missing=None,
        source=estimate.source,
        cpu_request_millicores=estimate.cpu_request_millicores,
        memory_request_bytes=estimate.memory_request_bytes,
        cpu_max_millicores=estimate.cpu_max_millicores,
        memory_max_bytes=estimate.memory_max_bytes,
        oom_memory_bytes=estimate.oom_memory_bytes,
        cpu_base_millicores=estimate.cpu_base_millicores,
        memory_base_bytes=estimate.memory_base_bytes,
        history_seconds=estimate.history_seconds,
        pods=estimate.pods,
        newest_age_seconds=estimate.newest_age_seconds,
        memory_alone_bytes=estimate.memory_alone_bytes,
        imported_hours=estimate.imported_hours,
    )


def _pod_body(place: PodPlace) -> PodBody:
    return PodBody(
        pod=place.name,
        node=place.node,
        state="ending" if place.is_terminating else "running" if place.is_running else "waiting",
        cpu_request_millicores=place.cpu_request_millicores,
        memory_request_bytes=place.memory_request_bytes,
        resize_pending=place.resize_pending,
    )


def _of_runs(workload: Workload, runs: Mapping[str, Sequence[JobRun]]) -> MergedHistory:
    """Return what is known of a workload of which nothing but its runs is left."""
    ended = [run.ended_unix_seconds for known in runs.values() for run in known]
    return MergedHistory(
        workload=workload,
        first_unix_seconds=min(ended),
        last_unix_seconds=max(ended),
        containers=tuple(
            ContainerHistory(container=name, hours=(), classes=(), nodes=()) for name, known in runs.items() if known
        ),
    )


def _start_body(start: JobRun, now: float) -> PastStartBody:
    return PastStartBody(
        pod=start.run,
        ended_age_seconds=max(now - start.ended_unix_seconds, 0.0),
        duration_seconds=start.duration_seconds,
        cpu_mean_millicores=start.cpu_mean_millicores,
        cpu_largest_millicores=start.cpu_largest_millicores,
    )


def _start_millicores(learnt: LearntStart | None) -> int | None:
    return None if learnt is None else learnt.cpu_millicores


def _run_body(run: JobRun, now: float) -> PastRunBody:
    return PastRunBody(
        run=run.run,
        ended_age_seconds=max(now - run.ended_unix_seconds, 0.0),
        duration_seconds=run.duration_seconds,
        cpu_seconds=run.cpu_seconds,
        cpu_mean_millicores=run.cpu_mean_millicores,
        cpu_p75_millicores=run.cpu_p75_millicores,
        cpu_largest_millicores=run.cpu_largest_millicores,
        memory_peak_bytes=run.memory_peak_bytes,
        memory_need_bytes=run.memory_need_bytes,
        memory_at_kill_bytes=run.memory_at_kill_bytes,
        exit_code=run.exit_code,
    )


def _statistics_body(statistics: ContainerStatistics | None, rows: Sequence[RowHistory]) -> StatisticsBody | None:
    if statistics is None:
        return None
    return StatisticsBody(
        hours=statistics.hours,
        cpu=_signal_body(statistics.cpu),
        cpu_adjusted=_signal_body(statistics.cpu_adjusted),
        memory=_signal_body(statistics.memory),
        pods=statistics.pods,
        pod_cpu_millicores=_spread_body(statistics.pod_cpu_millicores),
        pod_memory_bytes=_spread_body(statistics.pod_memory_bytes),
        node_cpu_millicores=_spread_body([row.cpu_base_millicores for row in rows]),
        node_memory_bytes=_spread_body([row.memory_base_bytes for row in rows]),
    )


def _signal_body(statistics: SignalStatistics | None) -> SignalBody | None:
    return None if statistics is None else msgspec.convert(statistics, SignalBody, from_attributes=True)


def _spread_body(amounts: Sequence[int | None] | None) -> SpreadBody | None:
    known = [amount for amount in amounts or () if amount is not None]
    return SpreadBody(least=min(known), largest=max(known)) if known else None


def _hours(container: ContainerHistory) -> list[HourBody]:
    return [_hour(hour) for hour in container.hours]


def _hour(peak: HourPeak) -> HourBody:
    return HourBody(
        unix_hour=peak.hour_unix_seconds // _HOUR_SECONDS,
        cpu_millicores=None if peak.cpu_millicores is None else round(peak.cpu_millicores),
        memory_bytes=None if peak.working_set_bytes is None else round(peak.working_set_bytes),
    )


def _side(row: RowHistory, now: float) -> SideBody:
    node_class = row.node_class
    return SideBody(
        node=row.node,
        instance_type=node_class.instance_type if node_class is not None else None,
        cpus=node_class.cpus if node_class is not None else None,
        pods=row.pods,
        history_seconds=max(0.0, now - row.first_unix_seconds),
        newest_age_seconds=max(0.0, now - row.last_unix_seconds),
        cpu_base_millicores=row.cpu_base_millicores,
        memory_base_bytes=row.memory_base_bytes,
        hours=[_hour(hour) for hour in row.hours],
        kills=[
            KillBody(
                age_seconds=max(0.0, now - kill.newest_unix_seconds), memory_bytes=kill.largest_bytes, count=kill.count
            )
            for kill in row.kills
        ],
    )


def _node_body(name: str, seen: NodeSeen | None, mark: NodeMark | None, now: float) -> NodeBody:
    return NodeBody(
        node=name,
        instance_type=seen.node_class.instance_type if seen is not None else None,
        cpus=seen.node_class.cpus if seen is not None else None,
        first_age_seconds=max(0.0, now - seen.first_unix_seconds) if seen is not None else None,
        newest_age_seconds=max(0.0, now - seen.last_unix_seconds) if seen is not None else None,
        received_age_seconds=max(0.0, now - mark.last_received_unix_seconds) if mark is not None else None,
        workloads=seen.workloads if seen is not None else None,
        incarnation=mark.incarnation if mark is not None else None,
        sequence=mark.highest_sequence if mark is not None else None,
        lost_reports=mark.lost_reports if mark is not None else None,
        missing_reports=mark.missing_reports if mark is not None else None,
        plan=None if seen is None or seen.plan is None else _plan_body(seen.plan),
        plan_missing=_no_plan(seen),
    )


def _no_plan(seen: NodeSeen | None) -> str | None:
    """Return why a node's plan is not known; None = it is."""
    if seen is None:
        return "this replica of the webhook has no report of it yet"
    if seen.plan is None:
        return "its agent has no plan" if seen.tells_plan else "its agent is of a release that does not tell of plans"
    return None


def _plan_body(sums: NodeSums) -> NodePlanBody:
    cpu, memory = sums.cpu, sums.memory
    return NodePlanBody(
        cpu=NodeCpuBody(
            allocatable_millicores=cpu.allocatable,
            requested_millicores=cpu.requested,
            reserved_millicores=cpu.reserved,
            base_millicores=cpu.planned - cpu.headroom,
            headroom_millicores=cpu.headroom,
            free_millicores=cpu.free,
            infeasible=cpu.is_infeasible,
        ),
        memory=NodeMemoryBody(
            allocatable_bytes=memory.allocatable,
            requested_bytes=memory.requested,
            reserved_bytes=memory.reserved,
            base_bytes=memory.planned - memory.headroom,
            headroom_bytes=memory.headroom,
            free_bytes=memory.free,
            infeasible=memory.is_infeasible,
        ),
    )


def _with_facts(body: NodeBody, node: NodeFacts | None, log: DecisionLogState | None) -> NodeBody:
    """Add what the cluster and the node's decisions say of a node."""
    body.is_silent = body.received_age_seconds is None or body.received_age_seconds > SILENT_SECONDS
    if node is not None:
        body.cpu_allocatable_millicores = None if node.allocatable is None else node.allocatable.cpu_millicores
        body.memory_allocatable_bytes = None if node.allocatable is None else node.allocatable.memory_bytes
        body.kubelet, body.is_overloaded = node.kubelet_version, node.is_overloaded
    if log is not None:
        body.agent_version, body.dropped_decisions = log.agent or None, log.dropped
    return body


def _kill_hours(containers: Sequence[ContainerHistory]) -> list[KillHourBody]:
    """Return the kills of all containers by hour, oldest first."""
    hours: dict[int, KillHourBody] = {}
    for container in containers:
        for row in container.classes:  # those by node are among them
            for kill in row.kills:
                hour = int(kill.newest_unix_seconds // _HOUR_SECONDS)
                kill_hour = hours.setdefault(hour, KillHourBody(unix_hour=hour, count=0, memory_bytes=None))
                kill_hour.count += kill.count
                sizes = [size for size in (kill_hour.memory_bytes, kill.largest_bytes) if size is not None]
                kill_hour.memory_bytes = max(sizes, default=None)
    return [hours[hour] for hour in sorted(hours)]
