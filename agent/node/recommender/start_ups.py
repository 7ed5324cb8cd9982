"""CPU of containers as it counts: what a pod used while it started, boosted, is no sustained demand. Node.

It calls core and holds no rule; any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.cluster.unit import UnitIdentity
from agent.core.plan.needs.given_boost import starts_of
from agent.core.window.cpu import absent_cpu_window
from agent.core.window.minute_row import without_cpu
from agent.core.window.snapshot import CpuWindow, Missing, UnitStatus
from agent.node.history.clock import MINUTE_SECONDS
from agent.node.sampling.observer import Observer
from agent.node.sampling.row_source import Rows
from agent.node.sampling.unit_table import UnitTable

LOOKED_SECONDS: Final = 1.0
"""For so long what the pods say is not asked for again: there is a question for each container."""
_CLOCK_OFF_SECONDS: Final = 0.5 * MINUTE_SECONDS
"""The history's minutes are whole ones off the clock by which pods tell when they got ready: up to so much earlier."""
_LEAST_SECONDS: Final = 1.0
"""Of a window: of less nothing is known, as of a container that has just begun."""


class StartUps:
    """CPU windows without the time of a boosted start, and what starts were learnt."""

    def __init__(
        self,
        *,
        pods: Callable[[], Iterable[Pod]],  # All of this node
        units: UnitTable,
        observer: Observer,
        wall_now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pods, self._units, self._observer = pods, units, observer
        self._wall_now, self._monotonic = wall_now, monotonic
        self._looked: tuple[float, Mapping[str, float]] | None = None

    def cpu_of(self, status: UnitStatus) -> CpuWindow:
        """Return the window of a container's CPU without its boosted start."""
        over, unit = self._over(status.identity), self._units.get(status.identity.cgroup_path)
        if over is None or unit is None:
            return status.cpu
        policy = self._observer.policy()
        since_seconds = self._wall_now() - over
        if since_seconds >= policy.cpu_window_seconds + policy.rate_window_seconds:
            return status.cpu
        # Each rate reaches back by its window, however short the window is that it ends in.
        steady_seconds = since_seconds - policy.rate_window_seconds
        if steady_seconds < _LEAST_SECONDS:
            return absent_cpu_window(Missing.TOO_FEW_SAMPLES)
        clipped = replace(policy, cpu_window_seconds=min(steady_seconds, policy.cpu_window_seconds))
        return self._observer.cpu(unit.slot, clipped, time.monotonic_ns())

    def learnt(self, identity: UnitIdentity, row: Rows, unix_minute: int) -> Rows:
        """Return a minute row as it is learnt: without CPU where some of that is of a boosted start."""
        over = self._over(identity)
        if over is None:
            return row
        # The largest rate that ends in a minute reaches back by its window.
        began = unix_minute * MINUTE_SECONDS - _CLOCK_OFF_SECONDS
        is_steady = began >= over + self._observer.policy().rate_window_seconds
        return row if is_steady else without_cpu(row)

    def _over(self, identity: UnitIdentity) -> float | None:
        now = self._monotonic()
        if self._looked is None or now - self._looked[0] >= LOOKED_SECONDS:
            self._looked = now, starts_of(self._pods())
        return self._looked[1].get(identity.pod_uid or "")
