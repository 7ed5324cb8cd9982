"""What was decided and done, one line each: the answer of ``plimsoll events``. Core, pure; values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agent.core.cluster.pod import PodRef
from agent.core.plan.pod_change import Change


class Action(StrEnum):
    """What it was about."""

    RESIZE = "resize"
    REVERT = "revert"
    """Values from before a shrink put back: an out-of-memory kill or memory pressure came after it."""
    RESTORE = "restore"
    """The original requests put back because a person asked."""
    EVICTION = "eviction"
    """Proposed; carried out by the webhook only."""
    TAINT = "taint"
    UNTAINT = "untaint"
    POD_LIMITS = "pod_limits"
    QOS_RESERVE = "qos_reserve"
    PAUSE = "pause"
    RESUME = "resume"
    PIN = "pin"
    UNPIN = "unpin"
    NOTICE = "notice"
    """Something an operator should know: a faulty annotation, a missing permission, a kubelet too old."""


class Outcome(StrEnum):
    """What came of it."""

    ACCEPTED = "accepted"
    """The API server took it; the kubelet has not answered yet."""
    APPLIED = "applied"
    """The kubelet has it in force."""
    DEFERRED = "deferred"
    INFEASIBLE = "infeasible"
    REJECTED = "rejected"
    """The API server refused: validation, admission, policy, rights."""
    CONFLICT = "conflict"
    """The pod changed meanwhile: decided anew on its new state."""
    ERROR = "error"
    """No answer, or none that is understood; or the kubelet failed at it."""
    REVERTED = "reverted"
    WITHHELD = "withheld"
    """Decided, and not done: ``reason`` says why."""
    PROPOSED = "proposed"
    DONE = "done"
    """Of pauses, pins, taints and cgroup writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One entry of the decision log."""

    sequence: int
    """Rises by one; unique on this node as long as its state directory lives."""
    unix_seconds: float
    action: Action
    outcome: Outcome
    reason: str
    """Short and from a closed set where there is one (the value of an enum), else a few words."""
    detail: str = ""
    """One sentence for people."""
    pod: PodRef | None = None
    """None = about the node."""
    workload: str | None = None
    """``Deployment/web``."""
    changes: tuple[Change, ...] = ()
    seconds: float | None = None
    """From the patch to this outcome; None = not a matter of time."""
    repeats: int = 1
    """How often the same was said in a row; the newest time stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Some of the decision log of one node: the answer of the socket, and what ``events -o json`` prints."""

    taken_unix_seconds: float
    node: str
    source: str
    """``agent``, or ``journal`` (read from its file)."""
    items: tuple[Decision, ...]
    """Newest first."""
    matching: int
    """How many match in all; more than ``items`` where fewer were asked for."""
    notes: tuple[str, ...] = ()


class DecisionLog(Protocol):
    """Who is told of a decision; ``node.journal.Journal.add`` is one. The arguments are fields of ``Decision``."""

    def __call__(
        self,
        *,
        unix_seconds: float,
        action: Action,
        outcome: Outcome,
        reason: str,
        detail: str = "",
        pod: PodRef | None = None,
    ) -> object:
        """Put it down."""
