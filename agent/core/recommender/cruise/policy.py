"""The policy ``cruise``: CruiseKube's base and peak, from this node's own minutes and what others told. Core, pure.

Base is the percentile over the short window (measured elsewhere, ``Present``); peak is the larger of the last hour's
maximum and that of the same hour of the day over the last seven days, and never below the base. While a node knows
less than seven days of a container, what other nodes saw at that hour counts as well (``Present.elsewhere``). The
request is the peak, as an admission would give it: sharing the spikes of a node is for its plan.

There is no CPU limit of its own. One that is there cannot be removed in place, so it may stay, but must not cap the
request: the bounds raise it to the request where that passes it (``LimitRule.RAISE``). The same holds for a memory
limit while no memory was seen that could set one.
"""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np

from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.history.workloads.hour_peaks import HourPeaks, MinutePeaks, PeakRing
from agent.core.numbers.arrays import Bools, Rows
from agent.core.orders.policy_options import CruiseOptions, PolicyName
from agent.core.recommender.cruise.explanation import CruiseAccount, explain
from agent.core.recommender.cruise.oom_memory import OomMemory
from agent.core.recommender.cruise.peak import Prediction
from agent.core.recommender.other_nodes import same_hour_elsewhere
from agent.core.recommender.policy import LimitRule, MinutePolicy, Present, Proposals, Steps

MINUTE_SECONDS: Final = 60


class CruisePolicy(MinutePolicy):
    """What ``cruise`` has learnt of its rows: maxima by hour and by minute, and out-of-memory kills.

    2.5 kB per row with the default options. All of it but the kills comes back by folding the minutes of seven days and
    a few hours again, in rising order.
    """

    name: Final = PolicyName.CRUISE

    def __init__(self, options: CruiseOptions, rows: int) -> None:
        self._options = options
        self._hours = HourPeaks(rows, history_days=options.history_days, neighbour_hours=options.neighbour_hours)
        # The minute that holds the far edge counts as well, so there is one more than the length says.
        self._last = PeakRing(rows, ceil(options.last_seconds / MINUTE_SECONDS) + 1)
        self._oom = OomMemory(rows, retention_seconds=options.oom_retention_seconds)
        super().__init__(rows, self._last, self._hours, self._oom)

    def fold(self, minutes: Minutes) -> None:
        """Add one minute of all rows; what a step of the clock does is told in ``history.workloads.hour_peaks``."""
        demand = MinutePeaks.of(minutes)
        self._hours.fold(minutes.unix_minute, demand)
        self._last.fold(minutes.unix_minute, demand)

    def record_oom(self, row: int, kill: OutOfMemory) -> None:
        """Record a kill; in any order, and twice is once."""
        self._oom.record(row, kill)

    def recommend(
        self, rows: Rows, present: Present, *, now_unix_seconds: float, steps: Steps | None = None
    ) -> Proposals:
        """Answer for some rows.

        Without a base there is no answer, however much the history holds: a peak of yesterday does not tell what the
        container needs now. The exception is memory after an out-of-memory kill, which makes a base by itself; the
        windows of a container that was killed a moment ago are empty, and waiting for them would let it be killed
        again. Such an answer, like one without any prediction, may only raise the request.
        """
        options = self._options
        same_hour = self._hours.same_hour(rows, now_unix_seconds)
        last = self._last.largest(rows, self._is_last(now_unix_seconds))
        week_bytes, has_week = own_week_bytes, has_own_week = self._hours.week_bytes(rows, now_unix_seconds)
        oom_bytes, has_oom = self._oom.largest(rows, now_unix_seconds)
        others = same_hour_elsewhere(present, now_unix_seconds, options.neighbour_hours)
        elsewhere = present.elsewhere
        if elsewhere is not None:
            week_bytes, has_week = (
                np.maximum(week_bytes, elsewhere.memory_peak_bytes),
                has_week | elsewhere.has_memory_peak,
            )
            oom_bytes, has_oom = np.maximum(oom_bytes, elsewhere.oom_bytes), has_oom | elsewhere.has_oom

        cpu = Prediction(
            base=np.where(present.has_cpu, present.cpu_base_millicores, 0.0),
            has_base=present.has_cpu,
            last=last.cpu_millicores,
            has_last=last.has_cpu,
            same_hour=same_hour.cpu_millicores,
            has_same_hour=same_hour.has_cpu,
            elsewhere=others.cpu_millicores,
            has_elsewhere=others.has_cpu,
        )
        memory = Prediction(
            base=np.maximum(np.where(present.has_memory, present.memory_base_bytes, 0.0), oom_bytes),
            has_base=present.has_memory | has_oom,
            last=last.working_set_bytes,
            has_last=last.has_memory,
            same_hour=same_hour.working_set_bytes,
            has_same_hour=same_hour.has_memory,
            elsewhere=others.working_set_bytes,
            has_elsewhere=others.has_memory,
        )
        memory_request = np.where(memory.has_base, np.maximum(memory.peak, options.min_memory_bytes), 0.0)
        largest_bytes = np.maximum(week_bytes, oom_bytes)
        has_limit = memory.has_base & (has_week | has_oom)
        memory_limit = np.maximum(
            np.maximum(options.memory_limit_ratio * largest_bytes, options.min_memory_bytes), memory_request
        )
        proposals = Proposals(
            cpu_request_millicores=np.where(cpu.has_base, np.maximum(cpu.peak, options.min_cpu_millicores), 0.0),
            has_cpu=cpu.has_base,
            memory_request_bytes=memory_request,
            has_memory=memory.has_base,
            memory_limit_bytes=np.where(has_limit, memory_limit, 0.0),
            has_memory_limit=has_limit,
            cpu_base_millicores=cpu.base,
            cpu_peak_millicores=cpu.peak,
            memory_base_bytes=memory.base,
            memory_peak_bytes=memory.peak,
            cpu_upward_only=cpu.has_base & ~cpu.is_predicted,
            memory_upward_only=memory.has_base & ~(memory.is_predicted & present.has_memory),
            limit_rule=LimitRule.RAISE,
            memory_seen_bytes=np.where(has_limit, largest_bytes, 0.0),
        )
        if steps is not None:
            row = int(rows[0])
            explain(
                steps,
                CruiseAccount(
                    options=options,
                    cpu=cpu,
                    memory=memory,
                    working_set_p75_bytes=float(present.memory_base_bytes[0]) if present.has_memory[0] else None,
                    week_bytes=float(own_week_bytes[0]) if has_own_week[0] else None,
                    elsewhere=elsewhere,
                    same_hours=self._hours.same_hours_of_row(row, now_unix_seconds),
                    kills=self._oom.counting(row, now_unix_seconds),
                    proposals=proposals,
                ),
            )
        return proposals

    def _is_last(self, now_unix_seconds: float) -> Bools:
        """Return which slots of minutes reach into the last ``last_seconds``, the far edge included.

        Minutes ahead of now count: they were measured before the clock was set back, and are overwritten within
        ``last_seconds`` as their slots come round.
        """
        ends_seconds = (self._last.stretches + 1) * MINUTE_SECONDS
        reach: Bools = ends_seconds >= now_unix_seconds - self._options.last_seconds
        return reach
