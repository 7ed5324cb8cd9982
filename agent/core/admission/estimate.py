"""What the merged history of a workload says of a container that is about to be created. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from agent.core.orders.policy_options import PolicyName

_STOOD_IN_FOR: Final = frozenset({PolicyName.PLIMSOLL})
"""The peaks of the same hours of seven days are a better size than what was written, and nobody needs these exact."""


class EstimateSource(StrEnum):
    """Whose history an estimate is of."""

    NODE = "node"
    """Of the same workload on the very node (DaemonSets)."""
    NODE_CLASS = "node_class"
    """Of the same workload on nodes that are alike."""
    WORKLOAD = "workload"
    """Of the workload on all nodes."""
    RUNS = "runs"
    """Of the last runs of a workload whose pods end by themselves."""


class NoEstimate(StrEnum):
    """Why there is none."""

    UNKNOWN_WORKLOAD = "unknown_workload"
    UNKNOWN_CONTAINER = "unknown_container"
    TOO_YOUNG = "too_young"
    NOT_LOADED = "not_loaded"
    TOO_FEW_RUNS = "too_few_runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One container's figures, by one policy. CPU in millicores, memory in bytes; None = not known."""

    source: EstimateSource
    policy: PolicyName
    """Whose figures these are."""
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
    """Pods seen in the newest hour; of runs their number."""
    newest_age_seconds: float
    """Since the newest row."""
    memory_alone_bytes: int | None = None
    """Largest working set of seven days by one node's word alone, where that is more than counts of it. It raises
    nothing, and a memory limit does not fall below it: that word may be true."""
    imported_hours: int = 0
    """UTC hours of the last seven days that no agent told of and that count as they were read from Prometheus, with
    10 % more."""
    stands_in_for: PolicyName | None = None
    """The policy that holds and has no figures of its own here; None = ``policy`` holds itself."""


def is_stood_in_for(policy: PolicyName, by: PolicyName = PolicyName.CRUISE) -> bool:
    """Return whether a policy's figures are taken for those of another that is not worked out (yet)."""
    return policy in _STOOD_IN_FOR and by is PolicyName.CRUISE


def standing_in(estimate: Estimate, policy: PolicyName) -> Estimate:
    """Return the estimate as one that stands in for the policy that holds."""
    return estimate if estimate.policy is policy else replace(estimate, stands_in_for=policy)
