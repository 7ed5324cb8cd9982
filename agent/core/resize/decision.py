"""What was decided and done, one line each: the answer of ``plimsoll events``. Core, pure; values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

from agent.core.cluster.pod import PodRef
from agent.core.numbers.later_field import LATER
from agent.core.plan.pod_change import Change


class Action(StrEnum):
    """What it was about."""

    RESIZE = "resize"
    REVERT = "revert"
    """Values from before a shrink put back: an out-of-memory kill or memory pressure came after it."""
    RESTORE = "restore"
    """The original requests put back because a person asked."""
    BOOST = "boost"
    """A pod began with more CPU than it runs with: so the webhook has written."""
    UNBOOST = "unboost"
    """What it had more for its start is taken back."""
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
    by: str | None = field(default=None, metadata=LATER)
    """Who asked for it, as the control socket knows them: ``root (uid 0)``; None = nobody did."""


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
    """Records a decision, as ``Journal.add`` does. The arguments are fields of ``Decision``."""

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
        """Record it."""


_RESIZES: Final = (Action.RESIZE, Action.REVERT, Action.RESTORE, Action.UNBOOST)
_SENT: Final = (Outcome.ACCEPTED, Outcome.APPLIED, Outcome.REVERTED, Outcome.ERROR)
"""The answers after which more may come of a resize; ERROR: nobody knows whether it was done."""
_Key = tuple[Action, str, tuple[Change, ...]]


def newest_outcomes(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Leave one entry of each resize: its newest outcome, time and words, with the reason why it was made.

    Newest first, before and after; what is no resize stays as it was. The log has an entry for the server's answer,
    which says why the resize was made, and one for each thing that came of it, which says how long that took. An entry
    of which the first is not in the log stands as it is. What was put on top of another resize shares its outcome, and
    both are one entry from then on.
    """
    first: dict[_Key, Decision] = {}
    newest: dict[int, Decision] = {}
    """By the sequence number of the first entry."""
    for decision in reversed(decisions):
        key = _key(decision)
        begun = _begun(key, first, newest) if key is not None and decision.seconds is not None else ()
        if key is not None and begun:
            for begun_key in begun:
                newest.pop(first[begun_key].sequence)  # so that it takes its new place in time
            last = max((first.pop(begun_key) for begun_key in begun), key=lambda entry: entry.sequence)
            first[key] = last
            newest[last.sequence] = _told_on(last, decision)
            continue
        newest[decision.sequence] = decision
        if key is not None and decision.outcome in _SENT:
            first[key] = decision
    return tuple(reversed(newest.values()))


def _begun(key: _Key, first: Mapping[_Key, Decision], newest: Mapping[int, Decision]) -> tuple[_Key, ...]:
    """Return whose outcome an entry tells: of one resize, or of those without one that were put on top of another."""
    if key in first:
        return (key,)
    untold = (begun for begun, entry in first.items() if newest[entry.sequence] is entry)
    return tuple(begun for begun in untold if begun[:2] == key[:2] and set(begun[2]) < set(key[2]))


def _key(decision: Decision) -> _Key | None:
    if decision.pod is None or decision.action not in _RESIZES:
        return None
    return decision.action, decision.pod.uid, decision.changes


def _told_on(first: Decision, newer: Decision) -> Decision:
    """Return what came of it with the reason why it was made; the newer reason where it says why it was not done."""
    has_reason = first.outcome is not Outcome.ERROR and newer.outcome is not Outcome.WITHHELD
    return replace(newer, reason=first.reason) if has_reason else newer
