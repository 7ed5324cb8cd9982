"""Whether two statuses of a container, one after the other, tell of an out-of-memory kill. Core, pure.

The kubelet's statuses are not all of the truth: kills of child processes, and those of containers that never restart,
do not show there; ``memory.events`` shows them. But a status tells of kills on which no agent looked.

Source:
    recommender/input/oom/observer.go of the Vertical Pod Autoscaler 1.8.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent.core.pod import ContainerState

OOM_KILLED: Final = "OOMKilled"
"""The reason that the kubelet gives for such a termination."""


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
    """Tell of a kill between two moments of one container, and what it requested then.

    A kill shows as a new termination (a container that fails fast goes from one to the next, with more restarts), or as
    a restart of a running container whose last run ended so. From waiting to running does not count: the termination
    before the wait did.

    Returns:
        The memory request in force at the kill, bytes, 0 if there was none; None = no kill shows.
    """
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
