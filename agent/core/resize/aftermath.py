"""How a pod fares after a shrink: whether the shrink is to be taken back. Core, pure; time is an argument.

The last seconds are compared with as many before the shrink, and, where the node has pods of the workload that were
not shrunk, with how these fare in the same seconds: what ails all of them was not the shrink.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.history.workloads.fare import Fare, together, worse
from agent.core.orders.guard_options import GuardOptions
from agent.core.plan.pod_change import Change, restarts
from agent.core.resize.record import Shrunk
from agent.core.window.snapshot import CpuWindow

READY: Final = "Ready"
_FALSE: Final = "False"
_LEAST_RATIO: Final = 0.5
"""Of the seconds that are compared: so many must be seen of a container, and for so long a pod must be not Ready."""


def is_judged(shrunk: Shrunk, options: GuardOptions, now_seconds: float) -> bool:
    """Return whether as much time has passed since a shrink as is compared."""
    return options.active and now_seconds - shrunk.at_seconds >= options.window_seconds


def restarts_of(pod: Pod) -> int:
    """Return how often containers of a pod were started again, ever."""
    return sum(status.restart_count for status in pod.statuses)


def own_restarts(pod: Pod, changes: Iterable[Change]) -> int:
    """Return how many containers a resize starts again by itself, as their resizePolicy says."""
    every = tuple(changes)
    return sum(any(restarts(container, change) for change in every) for container in pod.sized_containers())


def fare_before(
    pod: Pod, shrunk: Shrunk, windows: Sequence[CpuWindow], options: GuardOptions, *, shrunk_unix_seconds: float
) -> Fare:
    """Return how a pod fared in the seconds before a shrink; ``windows`` are those of its containers up to then.

    The API keeps no history of restarts: a container that had begun anew in these seconds counts as one.
    """
    restarts = _begun_anew(pod, shrunk_unix_seconds - options.window_seconds, shrunk_unix_seconds)
    return _fare(windows, options, options.window_seconds, restarts, is_ready=shrunk.was_ready)


def fare_after(
    pod: Pod,
    shrunk: Shrunk,
    windows: Sequence[CpuWindow],
    options: GuardOptions,
    *,
    now_seconds: float,
    now_unix_seconds: float,
) -> Fare:
    """Return how a pod fares by now, restarts since the shrink; ``windows`` are those of its containers up to now."""
    restarts = max(0, restarts_of(pod) - (shrunk.restarts or 0))
    is_ready = _is_ready(pod, options, now_unix_seconds)
    return _fare(windows, options, now_seconds - shrunk.sent_seconds, restarts, is_ready=is_ready)


def fare_of_peer(pod: Pod, windows: Sequence[CpuWindow], options: GuardOptions, *, now_unix_seconds: float) -> Fare:
    """Return how a pod that was not shrunk fares by now."""
    restarts = _begun_anew(pod, now_unix_seconds - options.window_seconds, now_unix_seconds)
    is_ready = _is_ready(pod, options, now_unix_seconds)
    return _fare(windows, options, options.window_seconds, restarts, is_ready=is_ready)


def is_suspect(after: Fare, options: GuardOptions) -> bool:
    """Return whether a pod fares so badly that it is worth to look how it did before."""
    seconds = options.window_seconds
    flawless = Fare(seconds=seconds, cpu_seconds=seconds, waiting_seconds=0.0, throttled_seconds=0.0)
    return why_taken_back(flawless, after, (), options) is not None


def why_taken_back(before: Fare, after: Fare, peers: Sequence[Fare], options: GuardOptions) -> str | None:
    """Return why a shrink is taken back; None = the pod fares as before, or as its peers, or it cannot be told."""
    least_seconds = _LEAST_RATIO * options.window_seconds
    reason = worse(after, before, options, least_seconds=least_seconds, than="before the shrink")
    if reason is None or not peers:
        return reason
    than_peers = worse(
        after, together(peers), options, least_seconds=least_seconds, than="in pods that were not shrunk"
    )
    return None if than_peers is None else reason


def _fare(
    windows: Sequence[CpuWindow], options: GuardOptions, seconds: float, restarts: int, *, is_ready: bool
) -> Fare:
    cpu = together(_cpu_fare(window, options) for window in windows)
    return Fare(
        seconds=seconds,
        restarts=restarts,
        unready_seconds=0.0 if is_ready else seconds,
        cpu_seconds=cpu.cpu_seconds,
        waiting_seconds=cpu.waiting_seconds,
        throttled_seconds=cpu.throttled_seconds,
    )


def _cpu_fare(window: CpuWindow, options: GuardOptions) -> Fare:
    seconds, waiting, throttled = (
        window.coverage_ratio * options.window_seconds,
        window.waiting_ratio,
        window.throttled_ratio,
    )
    return Fare(
        seconds=0.0,
        cpu_seconds=seconds,
        waiting_seconds=None if waiting is None else waiting * seconds,
        throttled_seconds=None if throttled is None else throttled * seconds,
    )


def _is_ready(pod: Pod, options: GuardOptions, now_unix_seconds: float) -> bool:
    """Return whether a pod is Ready, or was until lately."""
    state = next((condition for condition in pod.conditions if condition.type == READY), None)
    if state is None or state.status != _FALSE:
        return True
    since = state.last_transition_unix_seconds
    return since is None or now_unix_seconds - since < _LEAST_RATIO * options.window_seconds


def _begun_anew(pod: Pod, from_unix_seconds: float, to_unix_seconds: float) -> int:
    return sum(
        status.restart_count > 0
        and status.started_unix_seconds is not None
        and from_unix_seconds <= status.started_unix_seconds <= to_unix_seconds
        for status in pod.statuses
    )
