"""The bodies of answers to who reads: workloads, what applies to them, nodes; JSON in camelCase.

Webhook. The types are the schema, as those of ``wire``. Durations are ages in seconds, no times.
"""

from __future__ import annotations

import msgspec

from agent.core.history.reports.rollup import SCHEMA_VERSION
from agent.webhook.queries.cost_bodies import PricingBody, WorkloadCostBody
from agent.webhook.queries.events import EventBody
from agent.webhook.queries.ledger_bodies import LedgerHourBody, ScopeBody
from agent.webhook.queries.standings import Severity
from agent.webhook.reports.bodies import Body


class HourBody(Body, kw_only=True):
    """The largest of one UTC hour."""

    unix_hour: int
    """Hours since 1970."""
    cpu_millicores: int | None
    memory_bytes: int | None


class KillBody(Body, kw_only=True):
    """Out-of-memory kills of one hour."""

    age_seconds: float
    """Of the newest."""
    memory_bytes: int | None
    """The largest figure; null = none has one."""
    count: int


class SideBody(Body, kw_only=True):
    """One container on the nodes of one class, or on one node."""

    node: str | None
    instance_type: str | None
    cpus: int | None
    pods: int
    """Seen in the newest hour."""
    history_seconds: float
    newest_age_seconds: float
    cpu_base_millicores: int | None
    memory_base_bytes: int | None
    hours: list[HourBody]
    kills: list[KillBody]
    """By hour, oldest first."""


class AdviceBody(Body, kw_only=True):
    """What a pod created now would be given; by the history of the workload on all nodes."""

    policy: str
    """Whose figures these are."""
    stands_in_for: str | None = None
    """The policy that holds and has no figures of its own yet; null = ``policy`` holds itself."""
    missing: str | None
    """Why there is no advice: unknown_workload, unknown_container, too_young, not_loaded; null = there is."""
    source: str | None = None
    cpu_request_millicores: int | None = None
    memory_request_bytes: int | None = None
    cpu_max_millicores: int | None = None
    memory_max_bytes: int | None = None
    oom_memory_bytes: int | None = None
    cpu_base_millicores: int | None = None
    memory_base_bytes: int | None = None
    history_seconds: float | None = None
    pods: int | None = None
    newest_age_seconds: float | None = None
    memory_alone_bytes: int | None = None
    """Largest working set of seven days by one node's word alone, where that is more than counts of it. It raises
    nothing, and a memory limit does not fall below it."""
    imported_hours: int = 0
    """UTC hours of the last seven days of which no agent told: they count as they were imported, with 10 % more."""


class SignalBody(Body, kw_only=True):
    """All samples of all pods; CPU in millicores, memory in bytes. Percentiles are the ends of their buckets."""

    samples: int
    mean: int
    p50: int
    p75: int
    p95: int
    p99: int
    max: int


class SpreadBody(Body, kw_only=True):
    """How far apart they are."""

    least: int
    largest: int


class StatisticsBody(Body, kw_only=True):
    """One container over the last seven days, on all nodes; null = not known."""

    hours: int
    """UTC hours with samples, of 168; the newest minutes may be missing."""
    cpu: SignalBody | None
    cpu_adjusted: SignalBody | None
    """With pressure; where that was not known as measured."""
    memory: SignalBody | None
    pods: int
    """In the newest of these hours; beyond eight an estimate."""
    pod_cpu_millicores: SpreadBody | None
    """Means of single pods in that hour, of eight pods at most."""
    pod_memory_bytes: SpreadBody | None
    node_cpu_millicores: SpreadBody | None
    """P75 of the newest hour by node class, of DaemonSets by node."""
    node_memory_bytes: SpreadBody | None


class RequestQualityBody(Body, kw_only=True):
    """Usage against one request, as it stood when each minute began; amounts in CPU-seconds or byte-hours."""

    judged_minutes: float
    """Of containers."""
    risk_ratio: float | None
    """Share of those minutes with more usage than request; null = none was judged."""
    slack_ratio: float | None
    """``excessAmount`` over what was used; null = nothing was used."""
    deficit_ratio: float | None
    """``missingAmount`` over what was used; null = nothing was used."""
    excess_amount: float
    """Requested above the usage."""
    missing_amount: float
    """Used above the request."""


class PeakQualityBody(Body, kw_only=True):
    """Predicted peaks against those seen, by UTC hours."""

    judged_hours: float
    over_ratio: float | None
    """By how much predictions were too large; null = no hour was judged."""
    under_ratio: float | None
    """By how much they were too small."""


class ResourceQualityBody(Body, kw_only=True):
    """One resource."""

    recommended: RequestQualityBody
    applied: RequestQualityBody
    peak: PeakQualityBody


class SizingQualityBody(Body, kw_only=True):
    """How good sizing was over one window, over all nodes."""

    window: str
    """``1h``, ``1d`` or ``7d``, up to what each node told last."""
    nodes: int
    """That told of it within seven days."""
    cpu: ResourceQualityBody
    memory: ResourceQualityBody


class PastRunBody(Body, kw_only=True):
    """One run of a container; of each figure the largest of its pods, null = not known."""

    run: str
    ended_age_seconds: float
    duration_seconds: float
    cpu_seconds: float | None
    cpu_mean_millicores: float | None
    cpu_p75_millicores: float | None
    cpu_largest_millicores: float | None
    memory_peak_bytes: int | None
    memory_need_bytes: int | None
    """Without the file cache that the kernel would have given back; null = it was killed, or not known."""
    memory_at_kill_bytes: int | None
    """null = it was not killed for want of memory."""
    exit_code: int | None


class PastStartBody(Body, kw_only=True):
    """The start of one pod's container, which stays out of all other figures; null = not known."""

    pod: str
    ended_age_seconds: float
    duration_seconds: float
    cpu_mean_millicores: float | None
    cpu_largest_millicores: float | None
    """Over five seconds."""


class ContainerBody(Body, kw_only=True):
    """One container of a workload."""

    container: str
    advice: AdviceBody
    hours: list[HourBody]
    """Over all nodes, oldest first."""
    classes: list[SideBody]
    nodes: list[SideBody]
    """Of DaemonSets; empty for others."""
    statistics: StatisticsBody | None = None
    """null = nothing was folded yet, or ``statisticsFault`` says why."""
    quality: list[SizingQualityBody] = msgspec.field(default_factory=list)
    """By window; empty = no node told."""
    imported: SideBody | None = None
    """What was imported, as it was read; null = nothing."""
    runs: list[PastRunBody] = msgspec.field(default_factory=list)
    """The last ones, newest first; of workloads whose pods end by themselves."""
    starts: list[PastStartBody] = msgspec.field(default_factory=list)
    """The last ones, newest first; of workloads whose starts are learnt."""
    start_cpu_millicores: int | None = None
    """What the next start is boosted to, if that is worth it; null = too few starts are known."""
    kind: str | None = None
    """``regular``, ``init`` or ``sidecar``; null = no pod with it is known."""
    memory_limit_bytes: int | None = None
    """As most of its pods were written; null = none, or where ``kind`` is null as well, not known."""


class FromBody(Body, kw_only=True):
    """A value, and where it comes from."""

    value: str | None
    source: str
    """``ConfigMap plimsoll/plimsoll, rule 2``, ``HorizontalPodAutoscaler shop/web``, ``setting ...``, ``default``."""


class BoundBody(Body, kw_only=True):
    """A bound of requests, and where it comes from."""

    name: str
    """``min-cpu``, ``max-cpu``, ``min-memory``, ``max-memory``; in ``profile`` a setting's key."""
    value: str
    source: str


class AppliesBody(Body, kw_only=True):
    """What applies to a workload, by the cluster; a pod's own annotations win over mode and policy."""

    mode: FromBody
    policy: FromBody
    pause: FromBody
    cpu_frozen_for: str | None
    memory_frozen_for: str | None
    left_alone_for: str | None
    stop_shrinking_seconds: float | None
    replicas: int | None
    bounds: list[BoundBody]
    """Of requests, those that are set."""
    annotations: dict[str, str]
    """Of the namespace, those of Plimsoll."""
    rules_fault: str | None
    stop_shrinking_for: str | None = None
    """After what it only grows, where that was no out-of-memory kill."""
    share: FromBody | None = None
    """The share of its pods that is enforced in mode enforce; null = all of them are."""
    share_taken_back: str | None = None
    """The share that is enforced no more, as its pods fared worse than the others; null = none."""
    share_taken_back_for: str | None = None
    """In what they did."""
    cpu_frozen_containers: list[str] | None = None
    """The only ones whose CPU is frozen; null = all are, where it is."""
    memory_frozen_containers: list[str] | None = None
    profile: list[BoundBody] = msgspec.field(default_factory=list)
    """The webhook's settings that its profile is about, as they are in force: key, value, ``profile document`` or
    ``setting``; empty = the default profile."""
    cpu_preserved: str | None = None
    """What is kept of the target of the HPA that holds CPU, which moves with the requests, so that these are sized;
    null = they stay where an HPA holds them."""
    memory_preserved: str | None = None
    windows: FromBody | None = None
    """When its pods may be disturbed; null = nobody said, so at any time. Without a value they are not understood."""


class GroupBody(Body, kw_only=True):
    """One of the two groups of a workload's pods of which a share is enforced, over the last minutes."""

    enforced: bool
    pods: int
    container_seconds: float
    """That were told of."""
    restarts: int
    kills: int
    """For want of memory."""
    unready_ratio: float | None
    """Share of the time that pods were not Ready, 0..1; null = not known, as for those below."""
    waiting_ratio: float | None
    """That containers waited for CPU."""
    throttled_ratio: float | None
    """That their CPU limit held them back."""


class ShareBody(Body, kw_only=True):
    """The enforced share of a workload, and how its pods fare beside the others."""

    share: str
    """As it is ordered, ``10 %``."""
    window_seconds: float
    groups: list[GroupBody]
    """The enforced one first; a group of which no node told is left out."""


class ExplanationStepBody(Body, kw_only=True):
    """One step of why."""

    container: str | None
    """null = of all of them."""
    step: str
    """applies, policy, history, advice, kills, bound or autoscaler."""
    words: str


class KillHourBody(Body, kw_only=True):
    """Out-of-memory kills of one UTC hour, over all containers and nodes."""

    unix_hour: int
    count: int
    memory_bytes: int | None
    """The largest figure; null = none has one."""


class PodBody(Body, kw_only=True):
    """One pod of a workload, as the API server has it."""

    pod: str
    node: str | None
    """null = it is not bound to one."""
    state: str
    """running, ending, or waiting: it does not run yet."""
    cpu_request_millicores: int
    """That its containers request now, summed, or the pod itself; after any resize that was accepted."""
    memory_request_bytes: int
    resize_pending: str | None = None
    """Why its kubelet has not given it what it requests, ``Deferred: ...`` or ``Infeasible: ...``; null = it has."""


class WorkloadBody(Body, kw_only=True):
    """One workload, whole."""

    schema: int = SCHEMA_VERSION
    namespace: str
    kind: str
    name: str
    history_seconds: float
    newest_age_seconds: float
    applies: AppliesBody
    containers: list[ContainerBody]
    statistics_fault: str | None = None
    """Why no container has statistics; null = nothing is wrong."""
    share: ShareBody | None = None
    """null = all of its pods are enforced, or none, or no node has told of it lately."""
    hpa_advice: list[str] = msgspec.field(default_factory=list)
    """What its autoscalers' targets mean if the requests of its pods' template become those of the advice."""
    scope: ScopeBody | None = None
    """What of the cluster the asker may see."""
    ledger: list[LedgerHourBody] = msgspec.field(default_factory=list)
    """The last 14 days' hours that are known, oldest first."""
    ledger_fault: str | None = None
    """Why there are neither ``ledger`` nor ``events``; null = nothing is wrong."""
    events: list[EventBody] = msgspec.field(default_factory=list)
    """What was decided and done about it within 14 days, newest first; 500 at most."""
    kill_hours: list[KillHourBody] = msgspec.field(default_factory=list)
    """Of the last eight days, oldest first."""
    explanation: list[ExplanationStepBody] = msgspec.field(default_factory=list)
    """Why it would be given what ``advice`` says, in order."""
    cost: WorkloadCostBody | None = None
    """null = none of its pods runs on a node that has a price, or ``pricing`` says why."""
    pricing: PricingBody | None = None
    pods: list[PodBody] = msgspec.field(default_factory=list)
    """That have not ended: those whose resize is pending, then by name; 100 at most."""
    pods_total: int | None = None
    """null = the cluster's pods are not known yet."""
    pod_containers: list[str] | None = None
    """What the containers of its pods are called, be it that nothing is known of them; null = no pod of it is known."""


class WorkloadLineBody(Body, kw_only=True):
    """One workload in a list."""

    namespace: str
    kind: str
    name: str
    containers: list[str]
    history_seconds: float
    newest_age_seconds: float
    mode: str
    cpu_request_millicores: int | None
    """Of the containers' advice, summed; null = one of them has none. Up to 40 s old."""
    memory_request_bytes: int | None
    quality: SizingQualityBody | None = None
    """Over the window that was asked for with ``quality``; null = none was, or no node told."""
    mode_source: str = ""
    """What says so."""
    policy: str = ""
    replicas: int | None = None
    """Pods that run; null = pods are not known yet."""
    severity: Severity = Severity.UNKNOWN
    severity_words: str = ""
    hour: LedgerHourBody | None = None
    """The newest whole hour of the ledger; null = it is not in it."""
    kills_week: int | None = None
    """For want of memory; null = the database is away."""
    last_action: EventBody | None = None
    """The newest within 30 days; null = none."""
    cost: WorkloadCostBody | None = None
    """null = none of its pods runs on a node that has a price, or ``pricing`` says why."""


class WorkloadsBody(Body, kw_only=True):
    """A page of workloads, in order."""

    schema: int = SCHEMA_VERSION
    total: int
    workloads: list[WorkloadLineBody]
    next: str | None
    """What to ask for as ``after``; null = this is the last page."""
    scope: ScopeBody | None = None
    """What of the cluster the asker may see."""
    by_severity: dict[str, int] = msgspec.field(default_factory=dict)
    """How many of all that match, but for the severity that was asked for."""
    pricing: PricingBody | None = None


class NodeCpuBody(Body, kw_only=True):
    """CPU of a node by its plan: reserved, base, headroom and free together are what is allocatable."""

    allocatable_millicores: int
    requested_millicores: int
    """By all pods now, as the scheduler counts."""
    reserved_millicores: int
    """Of pods that may not be optimised, and of what others hold beyond their containers."""
    base_millicores: int
    """Of the others: what they use for longer."""
    headroom_millicores: int
    """Of the others: on top of it, for spikes."""
    free_millicores: int
    """Below 0 where it does not fit."""
    infeasible: bool
    """It does not fit, and nobody else may go."""


class NodeMemoryBody(Body, kw_only=True):
    """Memory, likewise."""

    allocatable_bytes: int
    requested_bytes: int
    reserved_bytes: int
    base_bytes: int
    headroom_bytes: int
    free_bytes: int
    infeasible: bool


class NodePlanBody(Body, kw_only=True):
    """How full a node is by its plan, as its newest report has it."""

    cpu: NodeCpuBody
    memory: NodeMemoryBody


class NodeBody(Body, kw_only=True):
    """One node that reports."""

    node: str
    instance_type: str | None
    cpus: int | None
    first_age_seconds: float | None
    """Since the first interval known; null = this replica has not loaded it."""
    newest_age_seconds: float | None
    """Since the end of the newest interval."""
    received_age_seconds: float | None
    """Since the newest report came."""
    workloads: int | None
    incarnation: str | None
    sequence: int | None
    lost_reports: int | None
    """The node itself had to drop."""
    missing_reports: int | None
    """Sequence numbers that never came."""
    cpu_allocatable_millicores: int | None = None
    """Of the Node object; null = it is not known, as for the next three."""
    memory_allocatable_bytes: int | None = None
    kubelet: str | None = None
    """Its version."""
    is_overloaded: bool | None = None
    """It carries Plimsoll's own taint."""
    is_silent: bool = False
    """No report of it came within a quarter of an hour."""
    agent_version: str | None = None
    """null = its agent tells of no decisions, as for the next."""
    dropped_decisions: int | None = None
    """That went before they could be told."""
    plan: NodePlanBody | None = None
    plan_missing: str | None = None
    """Why there is no plan; null = there is."""


class NodesBody(Body, kw_only=True):
    """All nodes that report or that the cluster has, by name; none where not the whole cluster is seen."""

    schema: int = SCHEMA_VERSION
    nodes: list[NodeBody]
    scope: ScopeBody | None = None


class ForgottenWorkloadBody(Body, kw_only=True):
    """A workload of which history went, or would go."""

    namespace: str
    kind: str
    name: str
    containers: list[str]
    hours: int
    """Different UTC hours."""


class ForgottenBody(Body, kw_only=True):
    """What was forgotten at the caller's order, or would be."""

    schema: int = SCHEMA_VERSION
    dry_run: bool
    """Nothing was done."""
    node: str | None
    """Whose word was forgotten; null = a workload was."""
    workloads: list[ForgottenWorkloadBody]
    containers: int
    hours: int
    """Of all workloads together."""
    rows: int
    """Hourly rows of the database."""
    reports: int
    """Of the node, taken and not folded into hours yet."""
    in_memory_too: bool
    """Whether the replica that answers has forgotten in memory; if not, it will within seconds, as all others."""
