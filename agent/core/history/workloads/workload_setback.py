"""What was taken back of a workload since its pods fared worse: a shrink, or its enforced share. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent.core.cluster.workload import Workload


class SetbackKind(StrEnum):
    """What was taken back."""

    SHRINK = "shrink"
    """Of one of its pods: the workload only grows for a while, on all nodes."""
    SHARE = "share"
    """Nobody of it is enforced until a person orders another share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSetback:
    """The newest of its kind."""

    workload: Workload
    kind: SetbackKind
    at_unix_seconds: float
    reason: str
    share: str = ""
    """The share that was ordered; empty = of a shrink."""
