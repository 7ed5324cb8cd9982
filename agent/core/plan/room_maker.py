"""Who makes room on a node for a resize that waits for it: the scheduler, or evictions through the webhook. Core, pure.

Never both for one resize. The scheduler may preempt pods of lower priority for a deferred resize (KEP-5836, alpha in
1.37, gate InPlacePodVerticalScalingSchedulerPreemption); nobody tells whether the gate is on. So its turn comes first,
and it is over when it has done nothing for a minute. Where the node names owners who switched that off it has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import INFEASIBLE, RESIZE_PENDING, Pod
from agent.core.cluster.versions import Version, parse_version

SCHEDULER_SECONDS: Final = 60.0
"""From a resize's deferral: the scheduler looks at it at once where it looks at all, then in backoffs of seconds."""
PREEMPTION_DISABLED: Final = "PodResizePreemptionDisabled"
"""Condition of a pod for which the scheduler does not preempt, as the KEP has it; 1.37.1 does not set it."""
_SINCE: Final = Version(1, 37)
_DISRUPTION: Final = "DisruptionTarget"
_BY_SCHEDULER: Final = "PreemptionByScheduler"
_TRUE: Final = "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMaker:
    """Whose turn it is."""

    is_scheduler: bool
    """Nothing is proposed meanwhile."""
    note: str
    """One sentence for people."""


def room_maker(state: NodeState, now_unix_seconds: float) -> RoomMaker | None:
    """Return who makes room now; None = no resize waits for room, or no scheduler could make any."""
    node = state.node
    waiting = [pod for pod in state.pods if _is_deferred(pod)]
    if not waiting or node is None or not _may_preempt(state, node):
        return None
    names = ", ".join(sorted(f"{pod.namespace}/{pod.name}" for pod in waiting)[:3])
    waits = f"{names} {'waits' if len(waiting) == 1 else 'wait'} for room to be resized"
    owners = ", ".join(node.resize_preemption_disabled_for)
    if owners:
        return _evictions(f"{waits}: evictions make it, as {owners} switched the scheduler's preemption off here")
    open_to_it = [pod for pod in waiting if not _has(pod, PREEMPTION_DISABLED)]
    if not open_to_it:
        return _evictions(f"{waits}: evictions make it, as the scheduler's preemption is off for them")
    going = [pod for pod in state.pods if pod.is_terminating and _is_preempted(pod)]
    if going:
        victim_words = f"{going[0].namespace}/{going[0].name} goes for it"
        return RoomMaker(
            is_scheduler=True, note=f"{waits}: the scheduler makes it ({victim_words}), and no eviction is proposed"
        )
    left = SCHEDULER_SECONDS - (now_unix_seconds - max(map(_deferred_at, open_to_it)))
    if left > 0:
        note = f"{waits}: the scheduler may make it for another {left:.0f} s, and no eviction is proposed until then"
        return RoomMaker(is_scheduler=True, note=note)
    return _evictions(f"{waits}: evictions make it, as the scheduler made none within {SCHEDULER_SECONDS:.0f} s")


def _evictions(note: str) -> RoomMaker:
    return RoomMaker(is_scheduler=False, note=note)


def _may_preempt(state: NodeState, node: Node) -> bool:
    """Return whether a scheduler of this cluster may have learnt it; one whose age is not known has not."""
    versions = [parse_version(text) for text in (state.server_version, node.kubelet_version)]
    return any(version is not None and version >= _SINCE for version in versions)


def _is_deferred(pod: Pod) -> bool:
    return not pod.is_terminating and any(
        condition.type == RESIZE_PENDING and condition.status == _TRUE and condition.reason != INFEASIBLE
        for condition in pod.conditions
    )


def _deferred_at(pod: Pod) -> float:
    """Return since when; a kubelet that does not tell has waited for long."""
    times: Iterable[float | None] = (
        condition.last_transition_unix_seconds for condition in pod.conditions if condition.type == RESIZE_PENDING
    )
    return max((time for time in times if time is not None), default=float("-inf"))


def _has(pod: Pod, type_: str) -> bool:
    return any(condition.type == type_ and condition.status == _TRUE for condition in pod.conditions)


def _is_preempted(pod: Pod) -> bool:
    return any(
        condition.type == _DISRUPTION and condition.status == _TRUE and condition.reason == _BY_SCHEDULER
        for condition in pod.conditions
    )
