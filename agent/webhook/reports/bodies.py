"""The bodies that agents send and are answered with, as types: JSON in camelCase, bounds on every number.

Webhook. Names are as they are; what people read is in ``reading_wire``. The types are the schema: ``openapi`` writes
its document from them. Durations are ages in seconds, no times.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from agent.core.eviction.proposal import MAX_PROPOSALS, Verdict, Want
from agent.core.eviction.taint_cap import TAINT_VERSION
from agent.core.history.minute.quality import QUALITY_FIELDS
from agent.core.history.reports.rollup import SCHEMA_VERSION
from agent.core.history.workloads.job_run import MAX_RUNS_A_POST, RUNS_SCHEMA
from agent.core.resize.decision import Action, Outcome
from agent.core.resize.told_decisions import (
    DECISIONS_SCHEMA,
    MAX_CHANGES,
    MAX_DECISIONS_A_POST,
    MAX_DETAIL,
    MAX_REASON,
)

MAX_AGE_SECONDS: Final = 14 * 86_400.0
"""What is older has no place in a history of 14 days."""
MAX_INTERVAL_SECONDS: Final = 3600.0
MAX_BYTES: Final = 1e13
"""10 TB: the scale of memory ends there."""

# ``$`` of Python's patterns takes a newline at the end, that of OpenAPI does not: the look-ahead makes both alike.
_LABEL: Final = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$(?!\\n)"
_SUBDOMAIN: Final = "^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$(?!\\n)"
_KIND: Final = "^[A-Za-z][A-Za-z0-9]{0,62}$(?!\\n)"
_UID: Final = "^[0-9A-Za-z]([-0-9A-Za-z]{0,62}[0-9A-Za-z])?$(?!\\n)"
_OBJECT: Final = "^[^/%\\s\\x00-\\x1f\\x7f-\\x9f]{1,253}$(?!\\n)"

Label = Annotated[str, Meta(pattern=_LABEL, description="A Kubernetes name: a-z, 0-9 and -, at most 63 of them.")]
Subdomain = Annotated[str, Meta(pattern=_SUBDOMAIN, description="A Kubernetes name: a-z, 0-9, - and ., at most 253.")]
Kind = Annotated[str, Meta(pattern=_KIND, description="A kind of object, such as Deployment.")]
Uid = Annotated[str, Meta(pattern=_UID, description="A uid as the API server gives it.")]
ObjectName = Annotated[
    str, Meta(pattern=_OBJECT, description="The name of an object of any kind; some kinds have colons or capitals.")
]
Seconds = Annotated[float, Meta(ge=0, le=MAX_AGE_SECONDS)]
IntervalSeconds = Annotated[float, Meta(gt=0, le=MAX_INTERVAL_SECONDS)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Millicores = Annotated[int, Meta(ge=0, le=10**9)]
Bytes = Annotated[int, Meta(ge=0, le=2**60)]


class Body(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Any of them; what a newer sender adds is not looked at.

    None refers to what refers back to it, so the collector of cycles need not look at them (``gc``).
    """


# What comes in


class NodeClassBody(Body, kw_only=True):
    """Nodes that are alike."""

    instance_type: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    cpus: Annotated[int, Meta(ge=1, le=65_536)]


class DistributionBody(Body, kw_only=True):
    """The samples of one signal in one row; CPU in millicores, memory in bytes."""

    count: Annotated[int, Meta(ge=1, le=1_000_000)]
    sum: Annotated[float, Meta(ge=0, le=1e19)]
    max: Annotated[float, Meta(ge=0, le=MAX_BYTES)]
    buckets: Annotated[
        list[Annotated[int, Meta(ge=0, le=1_000_000)]],
        Meta(min_length=2, max_length=2000, description="Bucket, count, bucket, count, ...; counts add up to count."),
    ]


QualityFigures = Annotated[
    list[Annotated[float, Meta(ge=0, le=1e19)]],
    Meta(
        min_length=QUALITY_FIELDS,
        max_length=4 * QUALITY_FIELDS,
        description="CPU, then memory. Of each first against the recommended, then against the applied request: "
        "minutes judged, minutes above, used, missing, excess (CPU-seconds, byte-hours); then of predicted peaks: "
        "hours, seen, predicted above, predicted below (millicores, bytes). More figures are not looked at.",
    ),
]


class ShareRowBody(Body, kw_only=True):
    """In which group a container of a workload was of which a share is enforced."""

    share: Annotated[str, Meta(min_length=2, max_length=16, description="As ordered, such as 10 %.")]
    enforced: bool
    """Its pod is in the share."""
    restarts: Annotated[int, Meta(ge=0, le=10_000)]
    unready_seconds: Annotated[float, Meta(ge=0, le=MAX_INTERVAL_SECONDS)]


class RowBody(Body, kw_only=True):
    """One container instance and one interval."""

    namespace: Label
    kind: Kind
    workload: ObjectName
    container: Label
    pod: Subdomain
    pod_uid: Uid
    pod_age_seconds: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    covered_seconds: IntervalSeconds
    cpu: DistributionBody | None = None
    cpu_adjusted: DistributionBody | None = None
    memory: DistributionBody | None = None
    throttled_seconds: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    waiting_seconds: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    oom_kills: Annotated[
        list[tuple[Seconds, Annotated[int, Meta(ge=1, le=10**13)] | None]],
        Meta(max_length=100, description="[age in seconds before the report's end, bytes or null]"),
    ] = []
    quality: (
        Annotated[
            list[QualityFigures],
            Meta(
                min_length=3,
                max_length=3,
                description="How good the node's sizing of this container of the workload was, all its pods there "
                "together: over an hour, a day and a week. In one row of the workload's at most.",
            ),
        ]
        | None
    ) = None
    cpu_request_millicores: Millicores | None = None
    """At the interval's end, 0 = none is stated; null = the agent does not tell."""
    memory_request_bytes: Bytes | None = None
    share: ShareRowBody | None = None
    """null = all of the workload's pods are enforced, or none."""
    setback: (
        Annotated[
            tuple[Seconds, Annotated[str, Meta(max_length=300)]],
            Meta(description="A shrink was taken back as the pod fared worse: age before the report's end, and why."),
        ]
        | None
    ) = None


class CpuSumsBody(Body, kw_only=True):
    """CPU of a node by its newest plan."""

    allocatable_millicores: Millicores
    requested_millicores: Millicores
    """By all pods now, as the scheduler counts."""
    reserved_millicores: Millicores
    """Of pods that may not be optimised, and of what others hold beyond their containers."""
    base_millicores: Millicores
    """Of the others: what they use for longer."""
    planned_millicores: Millicores
    """Of the others: what they are to request, base and headroom together."""
    infeasible: bool
    """It does not fit, and nobody else may go."""


class MemorySumsBody(Body, kw_only=True):
    """Memory, likewise."""

    allocatable_bytes: Bytes
    requested_bytes: Bytes
    reserved_bytes: Bytes
    base_bytes: Bytes
    planned_bytes: Bytes
    infeasible: bool


class NodeSumsBody(Body, kw_only=True):
    """How full a node is by its newest plan."""

    cpu: CpuSumsBody
    memory: MemorySumsBody


class _ReportHead(Body, kw_only=True):
    schema: Annotated[int, Meta(ge=1, le=SCHEMA_VERSION)]
    agent: Annotated[str, Meta(max_length=64)] = ""
    node: Subdomain
    node_class: NodeClassBody
    incarnation: Annotated[str, Meta(pattern="^[-0-9A-Za-z]{1,64}$(?!\\n)")]
    sequence: Annotated[int, Meta(ge=1, le=2**53)]
    lost_reports: Count = 0
    end_age_seconds: Seconds
    interval_seconds: IntervalSeconds
    plan: NodeSumsBody | None | msgspec.UnsetType = msgspec.UNSET
    """null = there is none; absent = the agent does not tell."""


class ReportBody(_ReportHead, kw_only=True):
    """What one node sends for one interval."""

    rows: list[RowBody]


class RawReportBody(_ReportHead, kw_only=True):
    """The same, with rows that are not looked at yet: a list of four million nothings is not even made."""

    rows: msgspec.Raw


class LooseReportBody(_ReportHead, kw_only=True):
    """The same, of a text that is not quite JSON (``NaN``)."""

    rows: list[object]


class AmountsBody(Body, kw_only=True):
    """Of a whole pod; null or absent = not stated."""

    cpu_millicores: Millicores | None = None
    memory_bytes: Bytes | None = None


class ProposalBody(Body, kw_only=True):
    """A pod that a node would have evicted."""

    namespace: Label
    pod: Subdomain
    pod_uid: Uid
    reason: Want
    ranking: Annotated[str, Meta(max_length=32)] | None = None
    order: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """Its place in the node's plan."""
    requested: AmountsBody = msgspec.field(default_factory=AmountsBody)
    needed: AmountsBody = msgspec.field(default_factory=AmountsBody)


class ProposalsBody(Body, kw_only=True):
    """What one node proposes."""

    schema: Annotated[int, Meta(ge=1, le=SCHEMA_VERSION)]
    node: Subdomain
    proposals: Annotated[list[ProposalBody], Meta(max_length=MAX_PROPOSALS)]


class TaintQuestionBody(Body, kw_only=True):
    """A node that is overloaded asks whether it may taint itself."""

    schema: Annotated[int, Meta(ge=1, le=TAINT_VERSION)]
    node: Subdomain


class RunBody(Body, kw_only=True):
    """One run of one container that has ended, or the start of one that goes on running."""

    namespace: Label
    kind: Kind
    workload: ObjectName
    container: Label
    pod: Subdomain
    pod_uid: Uid
    ended_age_seconds: Seconds
    """Before the sending."""
    duration_seconds: Annotated[float, Meta(gt=0, le=1e9)]
    cpu_seconds: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    cpu_mean_millicores: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    cpu_p75_millicores: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    cpu_largest_millicores: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    memory_peak_bytes: Bytes | None = None
    memory_need_bytes: Bytes | None = None
    """Without the file cache that the kernel would have given back; of runs that were not killed."""
    memory_at_kill_bytes: Bytes | None = None
    """What it had when the kernel killed in it for want of memory."""
    exit_code: Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None = None
    start: bool = False
    """Of a pod that does not end by itself: until it was ready, and for as long after as its boost was ordered for."""


class RunsBody(Body, kw_only=True):
    """Runs that have ended on a node."""

    schema: Annotated[int, Meta(ge=1, le=RUNS_SCHEMA)]
    node: Subdomain
    runs: Annotated[list[RunBody], Meta(max_length=MAX_RUNS_A_POST)]


class ChangeBody(Body, kw_only=True):
    """One number of a pod that was changed, or was to be; millicores or bytes."""

    container: Label | None = None
    """null = the whole pod's."""
    resource: Literal["cpu", "memory"]
    field: Literal["request", "limit"]
    before: Bytes | None = None
    """null = it was not set."""
    after: Bytes | None = None


class DecisionBody(Body, kw_only=True):
    """What a node decided or did, or what somebody ordered there."""

    sequence: Annotated[int, Meta(ge=1, le=2**53)]
    age_seconds: Annotated[float, Meta(ge=0, le=1e9)]
    """Before the sending; of what was said again, since the last time."""
    action: Action
    outcome: Outcome
    reason: Annotated[str, Meta(max_length=MAX_REASON)]
    detail: Annotated[str, Meta(max_length=MAX_DETAIL)] = ""
    namespace: Label | None = None
    """Of the pod; null, and so are the next two = it is about the node."""
    pod: Subdomain | None = None
    pod_uid: Uid | None = None
    changes: Annotated[list[ChangeBody], Meta(max_length=MAX_CHANGES)] = []
    seconds: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    repeats: Annotated[int, Meta(ge=1, le=2**31)] = 1
    by: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    """Who ordered it, as the node's control socket knows them."""


class DecisionsBody(Body, kw_only=True):
    """Decisions of a node's log that are new, or were said again."""

    schema: Annotated[int, Meta(ge=1, le=DECISIONS_SCHEMA)]
    node: Subdomain
    incarnation: Annotated[str, Meta(pattern="^[-0-9A-Za-z]{1,64}$(?!\\n)")]
    agent: Annotated[str, Meta(max_length=64)] = ""
    dropped: Count = 0
    """Of this log, before they could be told."""
    decisions: Annotated[list[DecisionBody], Meta(max_length=MAX_DECISIONS_A_POST)]


class SchemaBody(Body, kw_only=True):
    """The version alone, of a body that is not understood."""

    schema: int


# What goes out


class RunsReplyBody(Body, kw_only=True):
    """What became of the runs."""

    taken: Count
    refused: list[RefusedRowBody]


class DecisionsReplyBody(Body, kw_only=True):
    """What became of the decisions; those that were known already count as taken."""

    taken: Count
    refused: list[RefusedRowBody]


class FaultBody(Body, kw_only=True):
    """Why not; one line."""

    error: str


class RefusedRowBody(Body, kw_only=True):
    """A row that was not taken."""

    row: Count
    reason: str


class ContainerDirectiveBody(Body, kw_only=True):
    """What the other nodes saw of one container; null or absent = not known."""

    container: str
    cpu_peak_millicores: int | None = None
    memory_peak_bytes: int | None = None
    cpu_hour_peaks_millicores: list[int | None] | None = None
    memory_hour_peaks_bytes: list[int | None] | None = None
    oom_memory_bytes: int | None = None


class AutoscalerDirectiveBody(Body, kw_only=True):
    """What a VerticalPodAutoscaler of the recommender plimsoll orders; each as the annotation would say it."""

    name: str
    mode: str | None = None
    eviction_ranking: str | None = None
    container_policies: str | None = None
    startup_boost: str | None = None
    windows: str | None = None


class HpaTargetBody(Body, kw_only=True):
    """The share of requests that an autoscaler wants in use."""

    holder: str
    resource: str
    percent: int
    container: str | None = None
    """Whose request it divides by; null = those of all containers of a pod."""


class WorkloadDirectiveBody(Body, kw_only=True):
    """What holds for one workload on the node."""

    namespace: str
    kind: str
    name: str
    mode: str | None = None
    policy: str | None = None
    startup_boost: str | None = None
    autoscaler: AutoscalerDirectiveBody | None = None
    enforce_share: str | None = None
    share_taken_back: str | None = None
    share_taken_back_for: str | None = None
    left_alone_for: str | None = None
    cpu_frozen_for: str | None = None
    memory_frozen_for: str | None = None
    cpu_frozen_containers: list[str] | None = None
    memory_frozen_containers: list[str] | None = None
    cpu_preserved: str | None = None
    """What is kept of the target of the HPA that holds CPU: it moves with the requests, so these are sized."""
    memory_preserved: str | None = None
    hpa_targets: list[HpaTargetBody] | None = None
    stop_shrinking_seconds: float | None = None
    stop_shrinking_for: str | None = None
    replicas: int | None = None
    containers: list[ContainerDirectiveBody] | None = None


class DirectivesBody(Body, kw_only=True):
    """All that the node is told."""

    pause_reason: str | None = None
    workloads: list[WorkloadDirectiveBody] | None = None


class ReportAnswer(Body, kw_only=True):
    """What became of a report; given only after the database has it."""

    schema: int = SCHEMA_VERSION
    taken: Count
    refused: list[RefusedRowBody]
    repeated: bool
    """The report was known already: nothing was counted twice."""
    etag: str
    """Of the directives in force; empty = there is nothing to tell at the moment."""
    directives: DirectivesBody | None
    """null = what the node holds is still right."""


class ReplyBody(Body, kw_only=True):
    """What comes of one proposal."""

    pod_uid: str
    verdict: Verdict
    reason: str


class RepliesBody(Body, kw_only=True):
    """What comes of all of them."""

    schema: int = SCHEMA_VERSION
    answers: list[ReplyBody]


class TaintReplyBody(Body, kw_only=True):
    """Whether it may."""

    schema: int = TAINT_VERSION
    granted: bool
    reason: str
    """One word from a closed set."""
    detail: str
    """One line for people; may be empty."""
    seconds: float
    """For how long a grant holds, from the question on; 0 = none was given."""


def fault_text(error: msgspec.ValidationError) -> str:
    """Return in one line, place first, what msgspec found: ``cpu.sum: expected a float >= 0.0``."""
    what, _, place = str(error).partition(" - at `$")
    what = what.replace("`", "")
    where = place.removesuffix("`").removeprefix(".")
    if "matching regex" in what:
        what = "not such a name as Kubernetes gives"
    elif what.startswith("Expected "):
        what = "expected " + what.removeprefix("Expected ")
    elif "missing required field" in what:
        what = f"{what.rpartition('field ')[2]} is missing"
    return (f"{where}: {what}" if where else what)[:300]
