"""What a node reports of a container for five minutes: counts, sums, maxima and sparse histograms that merge.

Core, pure. A row holds no times, only ages: the clock of the receiver is the only one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from agent.core.cluster.workload import Workload
from agent.core.numbers.bucket_scheme import ExponentialScheme

SCHEMA_VERSION: Final = 1
"""Of a report; a receiver refuses what is newer."""
ROLLUP_SECONDS: Final = 300.0
"""What a row covers."""
CPU_BUCKETS: Final = ExponentialScheme(max_value=1_000_000.0, first_bucket_size=1.0, ratio=1.05)
"""Millicores: 1m to 1000 cores, each bucket 5 % wider."""
MEMORY_BUCKETS: Final = ExponentialScheme(max_value=1e13, first_bucket_size=1e6, ratio=1.05)
"""Bytes: 1 MB to 10 TB, each bucket 5 % wider."""


INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """Nodes that are alike: a DaemonSet's pods there need alike amounts."""

    instance_type: str | None
    """What the node's label says; None = it has none."""
    cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The samples of one signal in one row."""

    count: int
    """Samples; above 0."""
    sum: float
    """Of the samples, in the signal's unit (millicores, bytes)."""
    max: float
    """Largest sample."""
    buckets: Mapping[int, int] = field(default_factory=dict)
    """Count by bucket of the signal's scheme; the counts add up to ``count``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemoryKill:
    """One kill in the row's time."""

    age_seconds: float
    """Before the report's end; not negative."""
    memory_bytes: int | None
    """Usage at the kill, else the limit in force; None = neither is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """In which group a container of a workload was of which a share is enforced, and what tells how it fared."""

    share: str
    """As it is ordered, ``10 %``."""
    is_enforced: bool
    """Its pod is in the share."""
    restarts: int
    """In the row's time."""
    unready_seconds: float
    """Of the row's time, that its pod was not Ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """A shrink of the container's pod was taken back, as it fared worse."""

    age_seconds: float
    """Before the report's end; not negative."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupRow:
    """One container instance and one interval."""

    workload: Workload
    container: str
    pod: str
    pod_uid: str
    """As the API has it."""
    pod_age_seconds: float | None
    """At the interval's end; None = not known."""
    covered_seconds: float
    """Of the interval, with good readings; above 0."""
    cpu: Distribution | None
    """Sliding CPU rates, millicores."""
    cpu_adjusted: Distribution | None
    """The same x (1 + waiting); None = no pressure information."""
    memory: Distribution | None
    """Working set, bytes."""
    throttled_seconds: float | None = None
    waiting_seconds: float | None = None
    oom_kills: tuple[OutOfMemoryKill, ...] = ()
    quality: tuple[tuple[float, ...], ...] | None = None
    """How good the node's sizing of this container of the workload was, all its pods there together: the figures of
    ``quality.to_windows``; None = this row does not tell."""
    share: ShareRow | None = None
    """None = all of the workload's pods are enforced, or none."""
    setback: Setback | None = None
    """The newest in the row's time; None = there was none."""
    cpu_request_millicores: int | None = None
    """At the interval's end, 0 = none is stated; None = not told."""
    memory_request_bytes: int | None = None


class SampledSignal(Protocol):
    """What is counted of a ``Distribution``, however it is kept."""

    @property
    def count(self) -> int:
        """Samples; above 0."""

    @property
    def sum(self) -> float:
        """Of the samples."""

    @property
    def max(self) -> float:
        """Largest sample."""

    @property
    def buckets(self) -> Mapping[int, int]:
        """Count by bucket."""


class SampledKill(Protocol):
    """What is counted of an ``OutOfMemoryKill``."""

    @property
    def age_seconds(self) -> float:
        """Before the report's end."""

    @property
    def memory_bytes(self) -> int | None:
        """Usage at the kill; None = not known."""


class SampledShare(Protocol):
    """What is counted of a ``ShareRow``."""

    @property
    def share(self) -> str:
        """As it is ordered."""

    @property
    def is_enforced(self) -> bool:
        """Its pod is in the share."""

    @property
    def restarts(self) -> int:
        """In the row's time."""

    @property
    def unready_seconds(self) -> float:
        """Of the row's time."""


class SampledSetback(Protocol):
    """What is counted of a ``Setback``."""

    @property
    def age_seconds(self) -> float:
        """Before the report's end."""

    @property
    def reason(self) -> str:
        """Why."""


class SampledRow(Protocol):
    """What is counted of a ``RollupRow``."""

    @property
    def workload(self) -> Workload:
        """Whose it is."""

    @property
    def container(self) -> str:
        """Its name."""

    @property
    def pod_uid(self) -> str:
        """As the API has it."""

    @property
    def covered_seconds(self) -> float:
        """Of the interval, with good readings."""

    @property
    def cpu(self) -> SampledSignal | None:
        """Millicores."""

    @property
    def cpu_adjusted(self) -> SampledSignal | None:
        """The same x (1 + waiting)."""

    @property
    def memory(self) -> SampledSignal | None:
        """Bytes."""

    @property
    def throttled_seconds(self) -> float | None:
        """None = not known."""

    @property
    def waiting_seconds(self) -> float | None:
        """None = not known."""

    @property
    def oom_kills(self) -> Sequence[SampledKill]:
        """In the row's time."""

    @property
    def cpu_request_millicores(self) -> int | None:
        """None = not told."""

    @property
    def memory_request_bytes(self) -> int | None:
        """None = not told."""

    @property
    def quality(self) -> tuple[tuple[float, ...], ...] | None:
        """None = not told."""

    @property
    def share(self) -> SampledShare | None:
        """None = there are no groups."""

    @property
    def setback(self) -> SampledSetback | None:
        """None = there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSums:
    """One resource of a node by its newest plan; millicores or bytes, none below 0."""

    allocatable: int
    requested: int
    """By all of its pods now, as the scheduler counts."""
    reserved: int
    """Of pods that may not be optimised, and of what others hold beyond their containers."""
    base: int
    """Of the others: what they use for longer."""
    planned: int
    """Of the others: what they are to request, base and headroom together."""
    is_infeasible: bool
    """It does not fit, and nobody else may go."""

    @property
    def headroom(self) -> int:
        """Return what is planned above the bases."""
        return max(self.planned - self.base, 0)

    @property
    def free(self) -> int:
        """Return what nobody has by the plan; below 0 where it does not fit."""
        return self.allocatable - self.reserved - self.planned


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSums:
    """How full a node is by its newest plan."""

    cpu: ResourceSums
    memory: ResourceSums


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one node sends for one interval."""

    node: str
    node_class: NodeClass
    incarnation: str
    """Of the node's queue: a UUID made with it. Sequence numbers count within it."""
    sequence: int
    """From 1 on, one more with each report made; a repeat has the same."""
    lost_reports: int
    """Dropped from the queue since the incarnation began: too old or too many while nobody took them."""
    end_age_seconds: float
    """How long before the sending the interval ended; set anew at each sending."""
    interval_seconds: float
    rows: tuple[RollupRow, ...]
    plan: NodeSums | None = None
    """None = there was no plan, or the agent does not tell."""
    tells_plan: bool = False
    """False = its agent is of a release that does not tell of plans."""


class SampledReport(Protocol):
    """What is counted of a ``Report``."""

    @property
    def node(self) -> str:
        """Whose it is."""

    @property
    def node_class(self) -> NodeClass:
        """Of which class the node is."""

    @property
    def sequence(self) -> int:
        """One more with each report made."""

    @property
    def end_age_seconds(self) -> float:
        """How long before the sending the interval ended."""

    @property
    def interval_seconds(self) -> float:
        """What it covers."""

    @property
    def rows(self) -> Sequence[SampledRow]:
        """One for each container."""

    @property
    def plan(self) -> NodeSums | None:
        """None = there was none, or the agent does not tell."""

    @property
    def tells_plan(self) -> bool:
        """False = the agent does not tell."""
