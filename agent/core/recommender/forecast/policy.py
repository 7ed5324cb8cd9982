"""The policy ``forecast``: what this hour of the day and week has shown, the last minutes first, as safe as asked for.

Core, pure. CPU: each row has a set of candidates, simple rules of the last minutes, the season and a margin
(``candidates``); the cheapest of those that would have kept usage within the request in all but a stated share
of minutes speaks. So a burst that comes each night is reserved for at night, one that came once is let go of after
minutes, and a rise is covered at once whoever speaks. What is forecast is the minute's peak, PSI-adjusted where there
is PSI. While the node knows less than seven days of a container, it asks for no less than what other nodes saw at this
hour of the day (``Present.elsewhere``).

Memory: never below the largest working set of the last seven days nor what an out-of-memory kill showed to be too
little, and so far above the former that new peaks stay as rare as asked for (``MemoryMargins``). The limit is twice
the larger of both, as in ``cruise``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from agent.core.history.hour_peaks import MinutePeaks, PeakRing, hour_of
from agent.core.history.minutes import Minutes, OutOfMemory
from agent.core.numbers.arrays import Bools, Floats, Rows
from agent.core.orders.policy_options import DAY_SECONDS, BoundsOptions, ForecastOptions, PolicyName
from agent.core.recommender.cruise.oom_memory import OomMemory
from agent.core.recommender.forecast.candidates import LOOK_MINUTES, Candidates, candidate_needs
from agent.core.recommender.forecast.explanation import ForecastAccount, explain
from agent.core.recommender.forecast.season import (
    MINUTES_PER_HOUR,
    SLOTS,
    LastMinutes,
    Season,
    Singles,
    levels_at,
    week_at,
)
from agent.core.recommender.other_nodes import NEIGHBOUR_HOURS, same_hour_elsewhere
from agent.core.recommender.policy import LimitRule, MinutePolicy, Present, Proposals, Steps

STEP: Final = 0.01
MOST: Final = 0.1
"""Margin of memory that never stops growing; more would be a guess at how fast."""
_ACTING: Final = BoundsOptions()


class MemoryMargins:
    """Margins of all rows; 17 bytes per row."""

    def __init__(self, options: ForecastOptions, rows: int) -> None:
        self._options = options
        self._margin = np.zeros(rows)
        self._in_force = np.zeros(rows)
        self._is_sized = np.zeros(rows, dtype=np.bool_)

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        more = max(rows - self._margin.size, 0)
        self._margin = np.pad(self._margin, (0, more))
        self._in_force = np.pad(self._in_force, (0, more))
        self._is_sized = np.pad(self._is_sized, (0, more))

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._margin[rows] = 0.0
        self._is_sized[rows] = False

    def settle(self, working_set_bytes: Floats, has: Bools, peak_bytes: Floats) -> None:
        """Judge the request in force by one minute, then change it; shape ``(n,)`` each.

        The peak is the largest of seven days, this minute included.
        """
        exceeds = working_set_bytes > self._in_force
        ratio = self._options.exceed_ratio
        step = np.where(exceeds, STEP, -STEP * ratio / (1.0 - ratio))
        self._margin = np.where(has & self._is_sized, np.clip(self._margin + step, 0.0, MOST), self._margin)
        wanted = peak_bytes * (1.0 + self._margin)
        least = np.maximum(self._in_force * _ACTING.smallest_change_ratio, float(_ACTING.smallest_memory_change_bytes))
        moves = has & (exceeds | ~self._is_sized | (np.abs(wanted - self._in_force) >= least))
        self._in_force = np.where(moves, wanted, self._in_force)
        self._is_sized = self._is_sized | has

    def margin(self, rows: Rows) -> Floats:
        """Return the margins of some rows, as a share of the peak."""
        return self._margin[rows]


UPWARD_ONLY_MINUTES: Final = 60
"""Measured for less, a container has shown too little for its request to be lowered."""
MEMORY_LIMIT_RATIO: Final = 2.0
"""As cruise: a limit is a guard against runaways, not a size."""
OOM_RETENTION_SECONDS: Final = 7 * DAY_SECONDS
_CPU: Final = 0
_MEMORY: Final = 1


class ForecastPolicy(MinutePolicy):
    """What ``forecast`` has learnt of its rows: hourly maxima, an hour of minutes, and the candidates' records.

    3.5 kB per row. All of it but the kills comes back by folding the minutes of seven days again, in rising order;
    records reach back farther, but a minute of seven days ago weighs a twelfth of a new one.
    """

    name: Final = PolicyName.FORECAST

    def __init__(self, options: ForecastOptions, rows: int) -> None:
        self._options = options
        self._hours = PeakRing(rows, SLOTS)
        self._last = LastMinutes(rows)
        self._candidates = Candidates(options, rows)
        self._margins = MemoryMargins(options, rows)
        self._oom = OomMemory(rows, retention_seconds=OOM_RETENTION_SECONDS)
        super().__init__(rows, self._hours, self._last, self._candidates, self._margins, self._oom)
        self._measured_minutes = np.zeros(rows, dtype=np.int64)
        # The newest minute, not judged before the next one begins: it may come in several parts, in any order.
        self._newest: int | None = None
        self._demand = MinutePeaks(values=np.zeros((2, rows), np.float32), known=np.zeros((2, rows), np.bool_))
        # What follows from the minutes so far for the minute after the newest.
        self._hour: int | None = None
        self._looks: Singles = np.zeros((len(LOOK_MINUTES), rows), dtype=np.float32)
        self._levels: Singles = np.zeros((len(Season), rows), dtype=np.float32)
        self._week_bytes = np.zeros(rows)
        self._has_week: Bools = np.zeros(rows, dtype=np.bool_)

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        more = max(rows - self.rows, 0)
        super().grow(rows)
        self._measured_minutes = np.pad(self._measured_minutes, (0, more))
        new = ((0, 0), (0, more))
        self._demand = MinutePeaks(values=np.pad(self._demand.values, new), known=np.pad(self._demand.known, new))
        self._looks = np.pad(self._looks, new)
        self._levels = np.pad(self._levels, new)
        self._week_bytes = np.pad(self._week_bytes, (0, more))
        self._has_week = np.pad(self._has_week, (0, more))

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        super().forget(rows)
        self._measured_minutes[rows] = 0
        self._demand.values[:, rows] = 0.0
        self._demand.known[:, rows] = False
        self._looks[:, rows] = 0.0
        self._levels[:, rows] = 0.0
        self._week_bytes[rows] = 0.0
        self._has_week[rows] = False

    def fold(self, minutes: Minutes) -> None:
        """Add one minute of all rows; the same minute again adds to what it told."""
        demand = MinutePeaks.of(minutes)
        if minutes.unix_minute == self._newest:
            demand = MinutePeaks(
                values=np.maximum(self._demand.values, demand.values), known=self._demand.known | demand.known
            )
        else:
            self._settle()
        self._newest, self._demand = minutes.unix_minute, demand
        self._hours.fold(minutes.unix_minute // MINUTES_PER_HOUR, demand)
        self._last.fold(minutes.unix_minute, demand.values[_CPU])
        self._looks = np.stack([self._last.largest(length) for length in LOOK_MINUTES])
        hour = (minutes.unix_minute + 1) // MINUTES_PER_HOUR
        if hour != self._hour:
            rows = np.arange(self.rows)
            week = week_at(self._hours, rows, hour)
            self._levels = levels_at(self._hours, rows, hour)
            self._week_bytes, self._has_week = week.working_set_bytes, week.has_memory
            self._hour = hour
        else:
            np.maximum(self._week_bytes, demand.values[_MEMORY], out=self._week_bytes)
            self._has_week |= demand.known[_MEMORY]

    def _settle(self) -> None:
        """Judge candidates and margins by the newest minute, now that it is whole."""
        if self._newest is None:
            return
        cpu, memory = self._demand.values
        has_cpu, has_memory = self._demand.known
        self._candidates.settle(self._newest, cpu, has_cpu, candidate_needs(self._looks, self._levels))
        self._margins.settle(memory.astype(np.float64), has_memory, self._week_bytes)
        self._measured_minutes += has_cpu

    def record_oom(self, row: int, kill: OutOfMemory) -> None:
        """Record a kill; in any order, and twice is once."""
        self._oom.record(row, kill)

    def recommend(
        self, rows: Rows, present: Present, *, now_unix_seconds: float, steps: Steps | None = None
    ) -> Proposals:
        """Answer for some rows.

        As in ``cruise`` there is no answer without a base, except for memory after an out-of-memory kill.
        """
        hour = hour_of(now_unix_seconds)
        if hour == self._hour:
            levels, week_bytes, has_week = self._levels[:, rows], self._week_bytes[rows], self._has_week[rows]
        else:
            week, levels = week_at(self._hours, rows, hour), levels_at(self._hours, rows, hour)
            week_bytes, has_week = week.working_set_bytes, week.has_memory
        own_week_bytes, has_own_week = week_bytes, has_week
        looks = self._looks[:, rows]
        has_cpu = present.has_cpu
        cpu_base = np.where(has_cpu, present.cpu_base_millicores, 0.0)
        wanted = self._candidates.wanted(rows, looks, levels)
        others = same_hour_elsewhere(present, now_unix_seconds, NEIGHBOUR_HOURS)
        cpu_request = np.where(has_cpu, np.maximum(np.maximum(wanted, cpu_base), others.cpu_millicores), 0.0)
        measured = self._measured_minutes[rows] + self._demand.known[_CPU, rows]

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
        peak_bytes = np.maximum(week_bytes, oom_bytes)
        margin = self._margins.margin(rows)
        memory_request = np.where(has_memory, np.maximum(week_bytes * (1.0 + margin), memory_base), 0.0)
        has_limit = has_memory & (has_week | has_oom)
        proposals = Proposals(
            cpu_request_millicores=cpu_request,
            has_cpu=has_cpu,
            memory_request_bytes=memory_request,
            has_memory=has_memory,
            memory_limit_bytes=np.where(has_limit, np.maximum(MEMORY_LIMIT_RATIO * peak_bytes, memory_request), 0.0),
            has_memory_limit=has_limit,
            cpu_base_millicores=cpu_base,
            cpu_peak_millicores=cpu_request,
            memory_base_bytes=memory_base,
            memory_peak_bytes=memory_request,
            cpu_upward_only=has_cpu & (measured < UPWARD_ONLY_MINUTES) & ~others.has_cpu,
            memory_upward_only=has_memory & ~(has_week & present.has_memory),
            limit_rule=LimitRule.RAISE,
        )
        if steps is not None:
            row = int(rows[0])
            explain(
                steps,
                ForecastAccount(
                    options=self._options,
                    choice=self._candidates.choice(row),
                    looks={length: float(looks[index, 0]) for index, length in enumerate(LOOK_MINUTES)},
                    levels={season: float(levels[season, 0]) for season in Season if season is not Season.NONE},
                    wanted_millicores=float(wanted[0]),
                    measured_minutes=int(measured[0]),
                    week_bytes=float(own_week_bytes[0]) if has_own_week[0] else None,
                    memory_margin=float(margin[0]),
                    oom_bytes=float(own_oom_bytes[0]) if has_own_oom[0] else None,
                    elsewhere=elsewhere,
                    cpu_elsewhere_millicores=float(others.cpu_millicores[0]) if others.has_cpu[0] else None,
                    proposals=proposals,
                ),
            )
        return proposals
