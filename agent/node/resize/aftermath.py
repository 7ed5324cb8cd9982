"""Looks at pods that were shrunk lately, and has a shrink taken back where they fare worse. Node; no rule is here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import RUNNING, Pod
from agent.core.cluster.workload import Workload, workload_of
from agent.core.orders.guard_options import GuardOptions
from agent.core.resize.aftermath import (
    fare_after,
    fare_before,
    fare_of_peer,
    is_judged,
    is_suspect,
    why_taken_back,
)
from agent.core.resize.ledger import Ledger
from agent.core.resize.record import Shrunk
from agent.core.window.cpu import cpu_window
from agent.core.window.policy import WindowPolicy
from agent.core.window.snapshot import CpuWindow
from agent.node.sampling.row_source import RowSource
from agent.node.sampling.unit_table import UnitTable

MOST_PEERS: Final = 10
"""Of one workload that are looked at beside a pod."""


class CpuWindows:
    """CPU of a pod's containers over the seconds that the guard compares, from the rings; any thread."""

    def __init__(
        self,
        *,
        rings: RowSource,
        units: UnitTable,
        capacity_millicores: int,
        options: GuardOptions,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._rings, self._units, self._clock_ns = rings, units, clock_ns
        self._policy = WindowPolicy(capacity_millicores=capacity_millicores, cpu_window_seconds=options.window_seconds)

    def of(self, pod: Pod, ago_seconds: float) -> tuple[CpuWindow, ...]:
        """Return the windows that ended so long ago, of the containers that the sampler knows."""
        end_ns = self._clock_ns() - math.floor(ago_seconds * 1e9)
        windows: list[CpuWindow] = []
        for unit in self._units.all():
            if unit.identity.container is None or unit.identity.pod_uid != pod.cgroup_uid:
                continue
            window = cpu_window((self._rings.raw(unit.slot).joined(),), self._policy, end_monotonic_ns=end_ns)
            if self._rings.inode(unit.slot) == unit.inode:  # after use, as in ``observe``
                windows.append(window)
        return tuple(windows)


class Aftermath:
    """The pods that were shrunk lately, with how they fared before. On the thread ``acting`` alone."""

    def __init__(
        self,
        options: GuardOptions,
        *,
        ledger: Ledger,  # Knows what was shrunk; whoever asks ``look`` holds its lock
        windows: Callable[[Pod, float], Sequence[CpuWindow]],  # CPU of its containers up to so long ago
        tell: Callable[[Pod, str], None],  # Is told of a pod whose shrink is taken back, and why
    ) -> None:
        self._options, self._ledger, self._windows, self._tell = options, ledger, windows, tell
        self.next_look_seconds: float | None = None
        """Seconds until a pod is to be looked at again; None = none was shrunk lately."""

    def look(self, state: NodeState, *, now_seconds: float, wall_now: float) -> None:
        """Request that shrinks be taken back where that is due."""
        shrunk = self._ledger.shrunk_lately(now_seconds)
        uids = {pod.uid for pod, _ in shrunk}
        for pod, shrink in shrunk:
            if not is_judged(shrink, self._options, now_seconds):
                continue
            reason = self._judged(pod, shrink, state, uids, now_seconds=now_seconds, wall_now=wall_now)
            if reason is not None and self._ledger.fared_worse(pod.uid, reason, now_seconds) is not None:
                self._tell(pod, reason)
        self.next_look_seconds = self._options.window_seconds / 4 if shrunk and self._options.active else None

    def _judged(
        self, pod: Pod, shrink: Shrunk, state: NodeState, shrunk: set[str], *, now_seconds: float, wall_now: float
    ) -> str | None:
        after = fare_after(
            pod,
            shrink,
            self._windows(pod, 0.0),
            self._options,
            now_seconds=now_seconds,
            now_unix_seconds=wall_now,
        )
        if not is_suspect(after, self._options):
            return None  # the usual end
        ago_seconds = now_seconds - shrink.sent_seconds
        before = fare_before(
            pod,
            shrink,
            self._windows(pod, ago_seconds),
            self._options,
            shrunk_unix_seconds=wall_now - ago_seconds,
        )
        peers = [
            fare_of_peer(peer, self._windows(peer, 0.0), self._options, now_unix_seconds=wall_now)
            for peer in _peers(state, workload_of(pod), shrunk)
        ]
        return why_taken_back(before, after, peers, self._options)


def _peers(state: NodeState, workload: Workload, shrunk: set[str]) -> list[Pod]:
    """Return some pods of a workload that run here and were not shrunk lately."""
    peers = (
        pod
        for pod in state.pods
        if pod.uid not in shrunk and pod.phase == RUNNING and not pod.is_terminating and workload_of(pod) == workload
    )
    return [pod for pod, _ in zip(peers, range(MOST_PEERS), strict=False)]
