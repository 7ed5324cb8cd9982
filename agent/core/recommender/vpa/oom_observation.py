"""Out-of-memory kills of which the status of a pod tells, by itself or beside an earlier one. Core, pure.

The kubelet's statuses are not all of the truth: kills of child processes, and those of containers that never restart,
do not show there; ``memory.events`` shows them. But a status tells of kills on which no agent looked.

Source:
    recommender/input/oom/observer.go of the Vertical Pod Autoscaler 1.8.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import MEMORY, OOM_KILLED, ContainerState, ContainerStatus, Pod, Reported, Requirements
from agent.core.numbers.units import to_units

SAME_KILL_SECONDS: Final = 60.0
"""Two tellings of one container so near to each other are of one kill: they stand on clocks that are whole minutes
apart, rounded. A loop of crashes tells of the next one soon enough."""
SETTLE_SECONDS: Final = 20.0
"""So long the kernel's own counter, which is read every ten seconds at least, is waited for."""
_AS_CREATED: Final = 1
"""The generation of a pod whose spec was not changed since: no resize was accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerMoment:
    """One container as its pod showed it at one moment."""

    state: ContainerState | None
    """None = not reported."""
    reason: str | None = None
    """Why it is terminated, if it is."""
    last_reason: str | None = None
    """Why its last run was terminated; None = there was none, or no reason was given."""
    restart_count: int = 0
    memory_request_bytes: int | None = None
    """As the status reports the resources in force, or else as the spec states it; None = no request."""


def request_at_oom(before: ContainerMoment, after: ContainerMoment) -> int | None:
    """Report a kill between two moments of one container, and what it requested then.

    A kill shows as a new termination (a container that fails fast goes from one to the next, with more restarts), or as
    a restart of a running container whose last run ended so. From waiting to running does not count: the termination
    before the wait did. Where the container was not reported before, nothing is known to have changed.

    Returns:
        The memory request in force at the kill, bytes, 0 if there was none; None = no kill shows.
    """
    if before.state is None:
        return None
    has_restarted = after.restart_count > before.restart_count
    if after.state is ContainerState.TERMINATED and after.reason == OOM_KILLED:
        is_new = before.state is not ContainerState.TERMINATED or has_restarted
        return (after.memory_request_bytes or 0) if is_new else None
    is_running_again = (
        after.state is ContainerState.RUNNING and before.state is ContainerState.RUNNING and has_restarted
    )
    if is_running_again and after.last_reason == OOM_KILLED:
        # It was the run before the restart that was killed, with what it requested.
        return before.memory_request_bytes or 0
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldKill:
    """The newest kill of one container, as the pod's status tells of it."""

    container: str
    unix_seconds: float
    """By the node's wall clock, to the second."""
    limit_bytes: int | None
    """The memory limit, as far as it is known now; None = none."""
    request_bytes: int | None


class Heed(StrEnum):
    """What is to be done about a kill that a status tells of."""

    KNOWN = "known"
    """It was seen, or learnt by an agent before."""
    REPORT = "report"
    """It was learnt by an agent before, which ended before the report that was to have it."""
    WAIT = "wait"
    """The kernel's counter may still tell of it, and knows more."""
    LEARN = "learn"


def told_kills(pod: Pod) -> tuple[ToldKill, ...]:
    """Return the kills that the status of a pod tells of, at most one for each container, in the status' order."""
    kills = []
    for status in pod.statuses:
        runs = (status.termination, status.last_termination)
        ends = [run.finished_unix_seconds for run in runs if run is not None and run.is_oom_kill]
        moments = [end for end in ends if end is not None]
        if moments:
            limit, request = _memory_of(pod, status)
            kill = ToldKill(container=status.name, unix_seconds=max(moments), limit_bytes=limit, request_bytes=request)
            kills.append(kill)
    return tuple(kills)


def _memory_of(pod: Pod, status: ContainerStatus) -> tuple[int | None, int | None]:
    """Return limit and request of memory as reported in force, else as the spec states them."""
    container = pod.container(status.name)
    stated = Requirements() if container is None else container.resources
    actual = status.actual or Reported()
    return (
        _bytes(stated.limits if actual.limits is None else actual.limits),
        _bytes(stated.requests if actual.requests is None else actual.requests),
    )


def _bytes(amounts: Mapping[str, int]) -> int | None:
    return to_units(amounts[MEMORY]) if amounts.get(MEMORY) else None


def heed(
    unix_seconds: float,
    *,
    known_until_unix_seconds: float | None,
    looked_since_unix_seconds: float,
    now_unix_seconds: float,
    seen_unix_seconds: Iterable[float],
    reported_until_unix_seconds: float | None,
) -> Heed:
    """Return what is to be done about a kill of which a status tells.

    Args:
        unix_seconds: When it was, on the history's clock, as all that follow.
        known_until_unix_seconds: Until when the agents before looked; None = never.
        looked_since_unix_seconds: Since when this agent has been looking.
        now_unix_seconds: The moment of asking.
        seen_unix_seconds: The container's kills that are known.
        reported_until_unix_seconds: Until when the agents before reported; None = not known.
    """
    seen = min(seen_unix_seconds, key=lambda seen: abs(unix_seconds - seen), default=None)
    if seen is not None and abs(unix_seconds - seen) <= SAME_KILL_SECONDS:
        # A report has a kill at the moment at which it was seen, which is what the status says or a little later.
        is_unreported = (
            reported_until_unix_seconds is not None and reported_until_unix_seconds < seen <= looked_since_unix_seconds
        )
        return Heed.REPORT if is_unreported else Heed.KNOWN
    if known_until_unix_seconds is not None and unix_seconds <= known_until_unix_seconds:
        return Heed.KNOWN
    if unix_seconds >= looked_since_unix_seconds and now_unix_seconds - unix_seconds < SETTLE_SECONDS:
        return Heed.WAIT
    return Heed.LEARN


def has_amounts_of_kill(
    pod: Pod, unix_seconds: float, *, known_until_unix_seconds: float | None, looked_since_unix_seconds: float
) -> bool:
    """Return whether limit and request of a pod's containers are those at a kill that is learnt now.

    An agent that has left no history may have answered the kill: what it raised the limit to was not too little.

    Args:
        pod: As it is now.
        unix_seconds: When the kill was; this and the rest as for ``heed``.
        known_until_unix_seconds: Until when the agents before looked; None = never, or it is forgotten.
        looked_since_unix_seconds: Since when this agent has been looking.
    """
    is_unanswered = known_until_unix_seconds is not None or unix_seconds >= looked_since_unix_seconds
    return is_unanswered or pod.generation == _AS_CREATED
