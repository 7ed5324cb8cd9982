"""What the index of workloads answers besides estimates and directives: plain values. Webhook."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass, NodeSums
from agent.core.history.workloads.hour_peaks import HourPeak
from agent.core.numbers.allowed_range import Between

NO_TURN: Final = nullcontext()
"""The turn of who works beside nobody: see ``admission.precedence``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """How much is kept in memory."""

    retention_days: Annotated[int, Between(1, 14)] = 14
    """Days without a report after which a workload is forgotten; hourly sketches are kept as long."""
    max_rows: Annotated[int, Between(1, 1_000_000)] = 45_000
    """Containers of workloads by node class in memory at most, about 3 kB each; those beyond are counted."""
    max_node_rows: Annotated[int, Between(0, 1_000_000)] = 30_000
    """Containers of DaemonSets by node in memory at most, about 1 kB each; those beyond are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """One node that reports."""

    name: str
    node_class: NodeClass
    first_unix_seconds: float
    """Start of the earliest interval known to this process, since it started."""
    last_unix_seconds: float
    """End of its newest interval."""
    workloads: int
    """In its newest report."""
    plan: NodeSums | None = None
    """How full it is by its plan as that report has it; None = that does not say."""
    tells_plan: bool = False
    """False = its agent is of a release that does not tell of plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomHour:
    """The out-of-memory kills of one UTC hour."""

    newest_unix_seconds: float
    largest_bytes: int | None
    """None = none of them has a figure."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowHistory:
    """One container of a workload on the nodes of one class, or (DaemonSets) on one node; amounts None = not known."""

    node_class: NodeClass | None
    """None = ``node`` is given, or the row is one of imported hours."""
    node: str | None
    first_unix_seconds: float
    last_unix_seconds: float
    pods: int
    """Seen in the newest hour; beyond eight an estimate."""
    cpu_base_millicores: int | None
    """P75 of the newest hour."""
    memory_base_bytes: int | None
    hours: tuple[HourPeak, ...]
    """Peaks of the last eight days' UTC hours, oldest first; CPU as adjusted."""
    kills: tuple[OomHour, ...]
    """Of the last eight days, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHistory:
    """One container of a workload."""

    container: str
    classes: tuple[RowHistory, ...]
    nodes: tuple[RowHistory, ...]
    """Of DaemonSets; empty for others."""
    hours: tuple[HourPeak, ...]
    """Over all classes; imported ones where no agent told of the hour, with 10 % more."""
    imported: RowHistory | None = None
    """What was imported, as it was read; None = nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedHistory:
    """What is in memory of one workload."""

    workload: Workload
    first_unix_seconds: float
    last_unix_seconds: float
    containers: tuple[ContainerHistory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSeen:
    """One line of a list of workloads."""

    workload: Workload
    containers: tuple[str, ...]
    first_unix_seconds: float
    last_unix_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSize:
    """What the index holds."""

    workloads: int
    containers: int
    rows: int
    node_rows: int
    nodes: int
    array_bytes: int
    """Of the rings, also where nothing was written yet."""
    rows_without_room: int
    """Rows of reports since the start that found no room (``max_rows``, ``max_node_rows``); the store has them."""
    containers_left_out: int = 0
    """Rows of reports since the start whose container is beyond the 200 that are kept of a workload."""
