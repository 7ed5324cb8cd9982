"""What the merged history of a workload says of a container that is about to be created. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent.core.orders.policy_options import PolicyName


class EstimateSource(StrEnum):
    """Whose history an estimate is of."""

    NODE = "node"
    """Of the same workload on the very node (DaemonSets)."""
    NODE_CLASS = "node_class"
    """Of the same workload on nodes that are alike."""
    WORKLOAD = "workload"
    """Of the workload on all nodes."""


class NoEstimate(StrEnum):
    """Why there is none."""

    UNKNOWN_WORKLOAD = "unknown_workload"
    UNKNOWN_CONTAINER = "unknown_container"
    TOO_YOUNG = "too_young"
    NOT_LOADED = "not_loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One container's figures, by one policy. CPU in millicores, memory in bytes; None = not known."""

    source: EstimateSource
    policy: PolicyName
    cpu_request_millicores: int | None
    """Predicted peak (``cruise``), or what the policy proposes."""
    memory_request_bytes: int | None
    """The same of memory; out-of-memory figures are not in it."""
    cpu_max_millicores: int | None
    """Largest seen in seven days."""
    memory_max_bytes: int | None
    """Largest working set seen in seven days."""
    oom_memory_bytes: int | None
    """Largest figure of the kills of seven days."""
    cpu_base_millicores: int | None
    """P75 of the newest hour."""
    memory_base_bytes: int | None
    history_seconds: float
    """From the first row known to now, at most 14 days."""
    pods: int
    """Pods seen in the newest hour."""
    newest_age_seconds: float
    """Since the newest row."""
    memory_alone_bytes: int | None = None
    """Largest working set of seven days by one node's word alone, where that is more than counts of it. It raises
    nothing, and a memory limit does not fall below it: that word may be true."""
