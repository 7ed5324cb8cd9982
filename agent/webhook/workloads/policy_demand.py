"""For which workloads policies other than cruise are worked out, and what they answered.

Webhook. Such a policy is worked out in the background (``estimating``): for those that are required, as such a policy
holds for them by settings, rules or namespace (``preparing``), and for those that somebody asked about, as of a pod
that orders it by an annotation of its own. Both are known workloads: the index' own size bounds this. About 0.3 kB
each. Whoever calls holds the index' lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass
from agent.core.orders.policy_options import PolicyName
from agent.webhook.workloads.estimates import PolicyAnswer

ASKED_SECONDS: Final = 7 * 86_400.0
"""What is not required, and what nobody asked about for so long, is not worked out any more."""
UNANSWERED_SECONDS: Final = 300.0
"""After so long it is tried again where nothing could be answered: the first sketch is folded minutes after it came."""

Key = tuple[PolicyName, Workload]
Place = tuple[str, NodeClass | None]
"""A container, on the nodes of a class or (None) wherever it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How far the policies other than cruise are worked out."""

    required: int
    """Workloads for which they are required."""
    done: int
    """Those of them for which it was done, with an answer or without."""
    awaited: int
    """Those for which it was not done and nothing stands in meanwhile: their pods are admitted as they came."""
    waiting: int
    """Workloads, also those that somebody asked about, for which it was not done."""


@dataclass(slots=True)
class AskedEntry:
    """One workload under one policy."""

    is_required: bool = False
    asked_unix_seconds: float | None = None
    """When somebody asked about it last; None = nobody did."""
    done_unix_seconds: float | None = None
    """When it was worked out; None = not yet."""
    answers: tuple[tuple[str, NodeClass | None, PolicyAnswer], ...] = ()

    def urgency(self, now_unix_seconds: float, rebuild_seconds: float) -> tuple[int, float] | None:
        """Return in which order it is worked out, what somebody waits for first; None = it is not due."""
        done = self.done_unix_seconds
        if done is None:
            return (1, 0.0) if self.asked_unix_seconds is None else (0, self.asked_unix_seconds)
        rest_seconds = rebuild_seconds if self.answers else min(rebuild_seconds, UNANSWERED_SECONDS)
        return None if 0.0 <= now_unix_seconds - done < rest_seconds else (2, done)


Tables = list[tuple[PolicyName, list[Workload], list[AskedEntry]]]
"""Of each policy the workloads, and beside them what is kept of each."""


class AskedPolicies:
    """The workloads for which each policy is worked out, and the newest answer for each."""

    def __init__(self) -> None:
        self._kept: Final[dict[PolicyName, dict[Workload, AskedEntry]]] = {name: {} for name in PolicyName}

    def note(self, policy: PolicyName, workload: Workload, now_unix_seconds: float) -> None:
        """Record that somebody asks: it is worked out though nobody requires it, and what is waited for first."""
        entry = self._of(policy, workload)
        if not entry.is_required or entry.done_unix_seconds is None:
            entry.asked_unix_seconds = now_unix_seconds

    def is_required(self, policy: PolicyName, workload: Workload) -> bool:
        """Return whether it is required already."""
        entry = self._kept[policy].get(workload)
        return entry is not None and entry.is_required

    def require(self, policy: PolicyName, workload: Workload) -> None:
        """Require it from now on."""
        self._of(policy, workload).is_required = True

    def release(self, policy: PolicyName, workload: Workload, now_unix_seconds: float) -> None:
        """Record that it is required no longer; it goes, unless somebody asked lately."""
        entry = self._kept[policy].get(workload)
        if entry is None:
            return
        entry.is_required = False
        asked = entry.asked_unix_seconds
        if asked is None or now_unix_seconds - asked >= ASKED_SECONDS:
            del self._kept[policy][workload]

    def forget(self, policy: PolicyName, workload: Workload) -> None:
        """Record that the workload is known no longer."""
        self._kept[policy].pop(workload, None)

    def renew(self, workloads: Collection[Workload]) -> None:
        """Drop what was answered for these, as its grounds are forgotten: it is worked out again at once."""
        for table in self._kept.values():
            for workload in workloads:
                entry = table.get(workload)
                if entry is not None:
                    entry.answers, entry.done_unix_seconds = (), None

    def tables(self) -> Tables:
        """Return all there are, as copies: of pointers alone, so that the lock is held for less than a millisecond."""
        return [(policy, list(table), list(table.values())) for policy, table in self._kept.items()]

    def take(
        self,
        policy: PolicyName,
        workload: Workload,
        answers: Mapping[Place, PolicyAnswer] | None,
        now_unix_seconds: float,
    ) -> None:
        """Record what a policy answered; None = that failed, and what was answered before stays."""
        entry = self._kept[policy].get(workload)
        if entry is None:
            return  # wanted no longer
        if answers is not None:
            entry.answers = tuple(
                (container, node_class, answer) for (container, node_class), answer in answers.items()
            )
        entry.done_unix_seconds = now_unix_seconds

    def is_answered(self, policy: PolicyName, workload: Workload) -> bool:
        """Return whether it answered for any container."""
        entry = self._kept[policy].get(workload)
        return entry is not None and bool(entry.answers)

    def answer_of(self, policy: PolicyName, workload: Workload, place: Place) -> PolicyAnswer | None:
        """Return what it answered for one container; None = nothing yet."""
        entry = self._kept[policy].get(workload)
        if entry is None:
            return None
        return next((answer for *where, answer in entry.answers if where == list(place)), None)

    def _of(self, policy: PolicyName, workload: Workload) -> AskedEntry:
        entry = self._kept[policy].get(workload)
        if entry is None:
            entry = self._kept[policy][workload] = AskedEntry()
        return entry


def due(tables: Tables, now_unix_seconds: float, rebuild_seconds: float) -> list[Key]:
    """Return what is to be worked out, the most urgent first. Needs no lock: changes are seen next time."""
    queue = [
        (urgency, policy, workload)
        for policy, workloads, every in tables
        for workload, entry in zip(workloads, every, strict=True)
        if (urgency := entry.urgency(now_unix_seconds, rebuild_seconds)) is not None
    ]
    queue.sort(key=itemgetter(0))
    return [(policy, workload) for _, policy, workload in queue]
