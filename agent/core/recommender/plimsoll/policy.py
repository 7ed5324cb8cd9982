"""The policy ``plimsoll``: hours like this one, at the price of being short. Core, pure.

CPU: what the next hour may bring is taken from the past hours that began like this one (``likeness``); the request is
the level at which a further millicore costs as much as it saves (``price``), and it follows small changes seldom
(``dead_band``). It is worked out when an hour begins; within it, it is never less than the last 15 minutes used. Where
starvation is answered within seconds (``Present.has_credit``), being short costs less, and the level lies lower. So a
burst that comes each night is reserved for at night, one that came once is let go of, a rise is covered in the next
minute, and a flat series is asked for as it is. What is learnt is the minute's peak, PSI-adjusted where there is PSI.
While the node knows less than seven days of a container, it asks for no less than what other nodes saw at this hour of
the day (``Present.elsewhere``).

Memory: above the largest working set of seven days as far as it grows (``memory_drift``), and never below what an
out-of-memory kill showed to be too little. The limit is twice the larger of both, as in ``cruise``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.history.workloads.hour_peaks import MinutePeaks, hour_of
from agent.core.numbers.arrays import Floats, Rows
from agent.core.orders.policy_options import DAY_SECONDS, PolicyName, SizingOptions
from agent.core.recommender.credit import CPU_FULL_PRICE, CPU_IN_PLACE
from agent.core.recommender.cruise.oom_memory import OomMemory
from agent.core.recommender.other_nodes import NEIGHBOUR_HOURS, same_hour_elsewhere
from agent.core.recommender.plimsoll.demand import DemandMemory, Price
from agent.core.recommender.plimsoll.explanation import PlimsollAccount, explain
from agent.core.recommender.plimsoll.joint_hours import JointHours
from agent.core.recommender.plimsoll.memory_drift import MemoryDrift, margin_of
from agent.core.recommender.policy import LimitRule, MinutePolicy, Present, Proposals, SeenTogether, Steps

UPWARD_ONLY_MINUTES: Final = 60
"""Measured for less, a container has shown too little for its request to be lowered."""
MEMORY_LIMIT_RATIO: Final = 2.0
"""As cruise: a limit is a guard against runaways, not a size."""
OOM_RETENTION_SECONDS: Final = 7 * DAY_SECONDS
_CPU: Final = 0


class PlimsollPolicy(MinutePolicy):
    """What ``plimsoll`` has learnt of its rows: CPU by hours and minutes, memory and its growth, and kills.

    12 kB per row. All of it but the kills comes back, bit for bit, by folding the minutes of seven days again, in
    rising order: what is older has no part in any answer.
    """

    name: Final = PolicyName.PLIMSOLL

    def __init__(self, options: SizingOptions, rows: int) -> None:
        self._options = options
        self._demand = DemandMemory(options.prices, rows)
        self._joint = JointHours(options.price, rows)
        self._drift = MemoryDrift(rows)
        self._oom = OomMemory(rows, retention_seconds=OOM_RETENTION_SECONDS)
        super().__init__(rows, self._demand, self._joint, self._drift, self._oom)

    def fold(self, minutes: Minutes) -> None:
        """Add one minute of all rows; the same minute again adds to what it told."""
        peaks = MinutePeaks.of(minutes)
        self._demand.fold(minutes.unix_minute, peaks.values[_CPU], peaks.known[_CPU])
        self._joint.fold(minutes.unix_minute, peaks.values[_CPU], peaks.known[_CPU])
        self._drift.fold(minutes.unix_minute, peaks)

    def record_oom(self, row: int, kill: OutOfMemory) -> None:
        """Record a kill; in any order, and twice is once."""
        self._oom.record(row, kill)

    def record_image(self, row: int, since_unix_seconds: float) -> None:
        """Record since when a row's containers run another image: hours before it count less."""
        self._demand.record_image(row, since_unix_seconds)

    def together(self, rows: Rows, bases: Floats, *, now_unix_seconds: float) -> SeenTogether | None:
        """Return what some rows may be expected to demand together; None = not known yet."""
        return self._joint.together(rows, bases, now_unix_seconds)

    def recommend(
        self, rows: Rows, present: Present, *, now_unix_seconds: float, steps: Steps | None = None
    ) -> Proposals:
        """Answer for some rows.

        As in ``cruise`` there is no answer without a base, except for memory after an out-of-memory kill.
        """
        hour = hour_of(now_unix_seconds)
        has_cpu = present.has_cpu
        demand = self._demand.at(rows, now_unix_seconds)
        cpu_base = np.where(has_cpu, np.maximum(present.cpu_base_millicores, demand.base_millicores), 0.0)
        others = same_hour_elsewhere(present, now_unix_seconds, NEIGHBOUR_HOURS)
        largest = np.maximum(np.maximum(demand.answer_millicores, cpu_base), others.cpu_millicores)
        at_prices = np.where(has_cpu, largest, 0.0)
        has_credit = np.zeros_like(has_cpu) if present.has_credit is None else present.has_credit
        cpu_request = np.where(has_credit, at_prices[Price.IN_PLACE], at_prices[Price.FULL])

        week_bytes, has_week = own_week_bytes, has_own_week = self._drift.week(rows, hour)
        oom_bytes, has_oom = own_oom_bytes, has_own_oom = self._oom.largest(rows, now_unix_seconds)
        elsewhere = present.elsewhere
        if elsewhere is not None:
            week_bytes, has_week = (
                np.maximum(week_bytes, elsewhere.memory_peak_bytes),
                has_week | elsewhere.has_memory_peak,
            )
            oom_bytes, has_oom = np.maximum(oom_bytes, elsewhere.oom_bytes), has_oom | elsewhere.has_oom
        memory_base = np.maximum(np.where(present.has_memory, present.memory_base_bytes, 0.0), oom_bytes)
        has_memory = present.has_memory | has_oom
        growth = self._drift.growth(rows, hour)
        memory_request = np.where(has_memory, np.maximum(week_bytes * (1.0 + margin_of(growth)), memory_base), 0.0)
        has_limit = has_memory & (has_week | has_oom)
        seen_bytes = np.maximum(week_bytes, oom_bytes)
        limit = np.maximum(MEMORY_LIMIT_RATIO * seen_bytes, memory_request)
        proposals = Proposals(
            cpu_request_millicores=cpu_request,
            has_cpu=has_cpu,
            memory_request_bytes=memory_request,
            has_memory=has_memory,
            memory_limit_bytes=np.where(has_limit, limit, 0.0),
            has_memory_limit=has_limit,
            cpu_base_millicores=cpu_base,
            cpu_peak_millicores=cpu_request,
            memory_base_bytes=memory_base,
            memory_peak_bytes=memory_request,
            cpu_upward_only=has_cpu & (demand.known_minutes < UPWARD_ONLY_MINUTES) & ~others.has_cpu,
            memory_upward_only=has_memory & ~(has_week & present.has_memory),
            limit_rule=LimitRule.RAISE,
            memory_seen_bytes=np.where(has_limit, seen_bytes, 0.0),
            has_credit=has_credit,
            extra={CPU_FULL_PRICE: at_prices[Price.FULL], CPU_IN_PLACE: at_prices[Price.IN_PLACE]},
        )
        if steps is not None:
            price = Price.IN_PLACE if has_credit[0] else Price.FULL
            explain(
                steps,
                PlimsollAccount(
                    options=self._options,
                    price=price,
                    demand=demand,
                    beginning=self._demand.beginning(int(rows[0]), price, now_unix_seconds),
                    cpu_window_millicores=present.cpu_base_millicores,
                    cpu_elsewhere_millicores=float(others.cpu_millicores[0]) if others.has_cpu[0] else None,
                    week_bytes=float(own_week_bytes[0]) if has_own_week[0] else None,
                    growth=float(growth[0]),
                    oom_bytes=float(own_oom_bytes[0]) if has_own_oom[0] else None,
                    elsewhere=elsewhere,
                    proposals=proposals,
                ),
            )
        return proposals
