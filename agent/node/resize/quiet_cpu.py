"""Which boosted containers have done what they needed more CPU for, by the newest readings. Node; no rule is here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.plan.needs.given_boost import QUIET_SECONDS, GivenBoost, is_quiet, quiet_bounds
from agent.core.window.cpu import cpu_window
from agent.core.window.policy import WindowPolicy
from agent.node.sampling.row_source import RowSource
from agent.node.sampling.unit_table import UnitTable

MOST_ROWS: Final = 600
"""Sweeps come early where there is contention, but no more of them than this."""
_ROWS_RATIO: Final = 2.0


class QuietCpu:
    """Looks at the rings when it is asked; any thread."""

    def __init__(
        self,
        *,
        rings: RowSource,
        units: UnitTable,
        capacity_millicores: int,
        interval_seconds: float,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._rings, self._units, self._clock_ns = rings, units, clock_ns
        self._policy = WindowPolicy(capacity_millicores=capacity_millicores, cpu_window_seconds=QUIET_SECONDS)
        self._rows = min(MOST_ROWS, math.ceil(_ROWS_RATIO * QUIET_SECONDS / interval_seconds) + 2)

    def of(self, pod: Pod, boost: GivenBoost) -> frozenset[str]:
        """Return the boosted containers that have stayed below their steady request."""
        bounds, end_ns, quiet = quiet_bounds(pod, boost), self._clock_ns(), set[str]()
        for unit in self._units.all():
            bound = bounds.get(unit.identity.container or "")
            if bound is None or unit.identity.pod_uid != pod.cgroup_uid:
                continue
            rows = self._rings.raw(unit.slot, self._rows).joined()
            window = cpu_window((rows,), self._policy, end_monotonic_ns=end_ns)
            if self._rings.inode(unit.slot) == unit.inode and is_quiet(window, bound):  # after use, as in ``observe``
                quiet.add(unit.identity.container or "")
        return frozenset(quiet)
