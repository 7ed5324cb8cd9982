"""What the node looks like at a moment: windows of all units from the rings, as one ``Snapshot``; minute roll-ups.

Node. It calls core and holds no rule. Any thread may ask; the rings are read without a lock, and a view that the
sampler has overtaken meanwhile is read again.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

import numpy as np

from agent.core.window.cold_file import policy_of
from agent.core.window.cpu import CpuSums, cpu_window, cpu_window_of
from agent.core.window.memory import memory_window, memory_window_of
from agent.core.window.minute_row import (
    MinuteSums,
    minute_row,
    minute_row_of,
    minutes_memory_window,
    minutes_window,
)
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MINUTE_ROW, Has, Status
from agent.core.window.snapshot import CpuWindow, Gap, MemoryWindow, Snapshot, UnitAdvice, UnitStatus
from agent.node.sampling.heartbeat import SweepHeartbeat
from agent.node.sampling.row_source import Rows, RowSource, RowView, SumSource
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from agent.sensing.machine import Machine

NS: Final = 1_000_000_000
MINUTE_NS: Final = 60 * NS
RINGS_BACKFILL_MINUTES: Final = 10
"""Minutes rolled up late at most, after a restart: what the raw ring still holds in full."""
STEPS_IN_A_RATE: Final = 3
"""When sweeps have been slowed down, this many intervals may lie between two readings before it is a gap."""

READINGS_BEFORE_KILL: Final = 5
"""Of memory.current: the newest one may come after the kill, when the memory is free again."""
FULL_COVERAGE: Final = 255
"""``coverage_255`` of a minute without a gap."""

BATCH: Final = 32
"""Units whose windows are taken in one go: a millisecond in C, some eight in plain numpy."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUp:
    """What summing up minutes did."""

    rows: int
    """Minute rows written."""
    gaps: Mapping[Gap, int]
    """Readings and pairs of the newest minute that gave no figure, over all units, by reason."""


class Observer:
    """Reads the rings and tells; see the module's docstring."""

    def __init__(
        self,
        *,
        rings: RowSource,
        units: UnitTable,
        machine: Machine,
        heartbeat: SweepHeartbeat,
        windows: WindowPolicy,
        source: str,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        # Of the same rings; None = core sums up slot by slot
        sums: SumSource | None = None,
    ) -> None:
        self._sums = sums
        self._rings, self._units, self._machine, self._heartbeat = rings, units, machine, heartbeat
        self._windows, self._source = windows, source
        self._clock_ns = clock_ns
        self.advice: Mapping[str, UnitAdvice] = {}
        """What the unit at a path should request, as of the newest evaluation, which replaces it whole."""

    # -- reading ---------------------------------------------------------------------------------------------------

    def policy(self) -> WindowPolicy:
        """Return the window policy in force: a slowed sampler widens what counts as one step."""
        least_seconds = STEPS_IN_A_RATE * self._heartbeat.widest_interval_seconds
        if least_seconds <= self._windows.max_step_seconds:
            return self._windows
        return replace(self._windows, max_step_seconds=least_seconds)

    def _raw_rows_over(self, seconds: float) -> int:
        """Return how many of the newest rows surely reach back this far."""
        # Two rows beyond give the first rate a beginning; early sweeps on contention add a few. The base interval
        # counts, not the one in force: before a slow-down rows lay closer.
        return math.ceil(seconds / self._heartbeat.base_interval_seconds * 1.1) + 2

    def _cpu_rows(self, policy: WindowPolicy) -> int:
        return self._raw_rows_over(policy.cpu_window_seconds + policy.rate_window_seconds)

    def _memory_rows(self, policy: WindowPolicy) -> int:
        return math.ceil(policy.memory_rows_seconds / self._heartbeat.slow_interval_seconds) + 2

    def cpu(self, slot: int, policy: WindowPolicy, end_ns: int, *, whole_ring: bool = False) -> CpuWindow:
        """Return the CPU window of one slot that ends at this moment."""
        rows = None if whole_ring else self._cpu_rows(policy)
        return _steady(
            lambda: self._rings.raw(slot, rows), lambda pieces: cpu_window(pieces, policy, end_monotonic_ns=end_ns)
        )

    def memory(self, slot: int, policy: WindowPolicy, end_ns: int, *, whole_ring: bool = False) -> MemoryWindow:
        """Return the memory window of one slot that ends at this moment."""
        rows = None if whole_ring else self._memory_rows(policy)
        return _steady(
            lambda: self._rings.memory(slot, rows),
            lambda pieces: memory_window(pieces, policy, end_monotonic_ns=end_ns),
        )

    def _cpus(self, units: Sequence[WatchedUnit], policy: WindowPolicy, end_ns: int) -> list[CpuWindow]:
        """Return the CPU windows of some units."""
        slots = [unit.slot for unit in units]
        if self._sums is None:
            return [self.cpu(slot, policy, end_ns) for slot in slots]
        slot_sums = self._sums.cpu(slots, self._cpu_rows(policy), policy, end_ns=end_ns)
        return [
            self.cpu(slot, policy, end_ns) if sums is None else cpu_window_of(sums, policy)
            for slot, sums in zip(slots, slot_sums, strict=True)
        ]

    def _memories(self, units: Sequence[WatchedUnit], policy: WindowPolicy, end_ns: int) -> list[MemoryWindow]:
        """Return the memory windows of some units."""
        policies = [policy_of(policy, unit.resources) for unit in units]
        slots = [unit.slot for unit in units]
        if self._sums is None:
            return [self.memory(slot, own, end_ns) for slot, own in zip(slots, policies, strict=True)]
        slot_sums = self._sums.memory(slots, self._memory_rows(policy), policy, end_ns=end_ns)
        return [
            self.memory(slot, own, end_ns) if sums is None else memory_window_of(sums, own, end_ns)
            for slot, own, sums in zip(slots, policies, slot_sums, strict=True)
        ]

    def _past_statuses(self, units: Iterable[WatchedUnit], end_ns: int) -> Iterator[UnitStatus]:
        """Return everything known of units at a moment before now."""
        policy = self.policy()
        for unit in units:
            status = self._past_status_of(unit, policy, end_ns)
            if self._rings.inode(unit.slot) == unit.inode:  # after use, as in `observe`
                yield status

    def _past_status_of(self, unit: WatchedUnit, policy: WindowPolicy, end_ns: int) -> UnitStatus:
        has_minutes = len(self._rings.minutes(unit.slot, 1)) > 0
        if has_minutes and end_ns < self._first_ns(self._rings.raw, unit.slot) + int(policy.min_rate_seconds * NS):
            cpu = self._from_minutes(unit.slot, lambda rows: minutes_window(rows, policy, end_monotonic_ns=end_ns))
        else:
            cpu = self.cpu(unit.slot, policy, end_ns, whole_ring=True)
        if has_minutes and end_ns < self._first_ns(self._rings.memory, unit.slot):
            memory = self._from_minutes(
                unit.slot, lambda rows: minutes_memory_window(rows, policy, end_monotonic_ns=end_ns)
            )
        else:
            memory = self.memory(unit.slot, policy_of(policy, unit.resources), end_ns, whole_ring=True)
        return _status(unit, cpu, memory, self._age_of_good_seconds(unit.slot, end_ns), None)

    def memory_at_kill(self, unit: WatchedUnit, *, limit_bytes: int | None) -> int | None:
        """Return how much memory a unit used when the kernel killed in it; None = it is not known.

        Args:
            unit: Watched, or gone lately.
            limit_bytes: The limit that it hit: then it used as much, however little of its growth the readings before
                the kill had seen. None = it hit none that is known.
        """
        if limit_bytes is not None:
            return limit_bytes
        if self._rings.inode(unit.slot) != unit.inode:
            return None  # its slot stands for another already
        rows = self._rings.raw(unit.slot, READINGS_BEFORE_KILL).joined()
        known = rows[(rows["status"] == Status.OK) & ((rows["has"] & Has.MEMORY) > 0)]
        return int(known["memory_current_bytes"].max()) if known.size else None

    def _first_ns(self, ring: Callable[[int], RowView], slot: int) -> int:
        """Return the moment of the oldest row that a ring still has; 0 = it has none."""
        stamps = _steady(lambda: ring(slot), lambda pieces: [int(p["monotonic_ns"][0]) for p in pieces if len(p)])
        return stamps[0] if stamps else 0

    def _from_minutes(self, slot: int, use: Callable[[Sequence[Rows]], Result]) -> Result:
        return _steady(lambda: self._rings.minutes(slot), use)

    def _sample_ages_seconds(self, slots: Sequence[int], end_ns: int) -> list[float | None]:
        newest = self._rings.newest_rows(slots)
        good, stamps = (newest["status"] == Status.OK).tolist(), newest["monotonic_ns"].tolist()
        return [
            max(0.0, (end_ns - stamp) / NS) if is_good else self._age_of_good_seconds(slot, end_ns)
            for slot, is_good, stamp in zip(slots, good, stamps, strict=True)
        ]

    def _age_of_good_seconds(self, slot: int, end_ns: int) -> float | None:
        stamps = _steady(lambda: self._rings.raw(slot), lambda pieces: _good_stamps(pieces, end_ns))
        return max(0.0, (end_ns - stamps[-1]) / NS) if stamps else None

    def snapshot(self, at_age_seconds: float = 0.0, notes: Iterable[str] = ()) -> Snapshot:
        """Return the whole node now, or as it was this many seconds ago.

        Args:
            at_age_seconds: 0 = now. Further back than the raw rings reach, figures come from minute rows; further
                back than those, they are None with the reason ``out_of_ring``. The node's own figures are always
                those of now.
            notes: What is degraded, one sentence each.
        """
        return Snapshot(
            taken_unix_seconds=time.time() - at_age_seconds,
            at_age_seconds=at_age_seconds,
            source=self._source,
            node=self._machine.status(),
            sampler=self._heartbeat.status(units=len(self._units)),
            units=tuple(self.statuses_at(self._units.all(), at_age_seconds)),
            notes=tuple(notes),
        )

    def statuses_at(
        self, units: Iterable[WatchedUnit], at_age_seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> list[UnitStatus]:
        """Return everything known of units now, or as it was this many seconds ago."""
        if at_age_seconds <= 0:
            return [status for _, status in self.observe(units, is_stopping)]
        return list(self._past_statuses(units, self._clock_ns() - int(at_age_seconds * NS)))

    def statuses(self, units: Iterable[WatchedUnit]) -> list[UnitStatus]:
        """Return everything known of units now; those that have gone meanwhile are left out."""
        return [status for _, status in self.observe(units)]

    def observe(
        self, units: Iterable[WatchedUnit], is_stopping: Callable[[], bool] = lambda: False
    ) -> list[tuple[WatchedUnit, UnitStatus]]:
        """Return everything known of units now, each with its unit; those that have gone meanwhile are left out.

        All CPU windows are taken before all memory windows: where core sums up, each kind's code and rows then stay in
        the CPU's caches, which is a tenth of the time.

        Args:
            is_stopping: Asked between two batches of windows; once it says so, nothing is given.
        """
        end_ns, policy = self._clock_ns(), self.policy()
        asked = list(units)
        cpus: list[CpuWindow] = []
        for some in _batches(asked):
            if is_stopping():
                return []
            cpus += self._cpus(some, policy, end_ns)
        memories: list[MemoryWindow] = []
        for some in _batches(asked):
            if is_stopping():
                return []
            memories += self._memories(some, policy, end_ns)
        ages = self._sample_ages_seconds([unit.slot for unit in asked], end_ns)
        statuses: list[tuple[WatchedUnit, UnitStatus]] = []
        for unit, cpu, memory, age_seconds in zip(asked, cpus, memories, ages, strict=True):
            # After use: a newcomer's inode stands in the slot before its first row does.
            if self._rings.inode(unit.slot) == unit.inode:
                advice = self.advice.get(unit.identity.cgroup_path)
                statuses.append((unit, _status(unit, cpu, memory, age_seconds, advice)))
        return statuses

    def minutes_of(self, status: UnitStatus) -> Rows:
        """Return a copy of the minute rows of a unit that is watched; none for one that has gone."""
        unit = self._units.get(status.identity.cgroup_path)
        return np.zeros(0, dtype=MINUTE_ROW) if unit is None else self._rings.minutes(unit.slot).joined()

    # -- minutes ---------------------------------------------------------------------------------------------------

    def roll_minutes(
        self,
        *,
        now_ns: int,
        is_stopping: Callable[[], bool] = lambda: False,
        on_row: Callable[[WatchedUnit, Rows], None] = lambda unit, row: None,
    ) -> RollUp:
        """Append a minute row for each unit and each whole minute since its last.

        After a restart the minutes the raw ring still holds are made up for.

        Args:
            is_stopping: Asked between two batches of units: a full node takes longer than the end may.
            on_row: Is handed each row that was written, unit by unit, a unit's rows oldest first.
        """
        policy = self.policy()
        this_minute = now_ns // MINUTE_NS
        written = 0
        gaps: Counter[Gap] = Counter()
        for units in _batches(self._units.all()):
            if is_stopping():
                break
            # Before the rows are read: a slot that goes to another cgroup from here on gets no row.
            generations = [self._rings.generation(unit.slot) for unit in units]
            last = self._rings.newest_minutes([unit.slot for unit in units])
            newest = self._newest_minutes(units, policy, this_minute - 1, now_ns)
            incomplete: list[int] = []
            for unit, generation, rolled, sums in zip(units, generations, last, newest, strict=True):
                own = policy_of(policy, unit.resources)
                for minute in range(self._first_due(unit.slot, rolled, this_minute), this_minute):
                    if sums is None or own.leaves_out_cold_file or minute < this_minute - 1:
                        row = self._minute(unit.slot, own, minute, now_ns)
                    else:
                        row = minute_row_of(sums, own, monotonic_minute=minute)
                    if row is not None and self._rings.append_minute(unit.slot, row, generation=generation):
                        written += 1
                        on_row(unit, row)
                        if minute == this_minute - 1 and row["coverage_255"][0] < FULL_COVERAGE:
                            incomplete.append(unit.slot)
            for why in self._gaps(incomplete, policy, this_minute - 1, now_ns):
                gaps.update(why)
        return RollUp(rows=written, gaps=dict(gaps))

    def _first_due(self, slot: int, rolled_minute: int | None, this_minute: int) -> int:
        """Return the first minute of a slot that is to be summed up, after the newest one that was."""
        first = max(0, this_minute - RINGS_BACKFILL_MINUTES)
        if rolled_minute is not None:
            return max(first, rolled_minute + 1)
        # A unit just found has nothing to make up for before its oldest reading.
        return max(first, self._first_ns(self._rings.raw, slot) // MINUTE_NS)

    def _newest_minutes(
        self, units: Sequence[WatchedUnit], policy: WindowPolicy, minute: int, now_ns: int
    ) -> Sequence[MinuteSums | None]:
        """Return the sums of the minute that ended last; None where core is to take them from the rows."""
        if self._sums is None:
            return [None] * len(units)
        raw_rows, memory_rows = self._minute_rows(policy, minute, now_ns)
        slots = [unit.slot for unit in units]
        return self._sums.minute(slots, raw_rows, memory_rows, policy, monotonic_minute=minute)

    def _gaps(
        self, slots: Sequence[int], policy: WindowPolicy, minute: int, now_ns: int
    ) -> Iterator[Mapping[Gap, int]]:
        """Return why readings of one minute gave no figure, by slot; asked only where something of it is missing."""
        if not slots:
            return
        # One late sweep makes a minute incomplete in all slots: core alone took longer than all else of a minute.
        one_minute = replace(policy, cpu_window_seconds=MINUTE_NS / NS)
        rows = self._raw_rows_over((now_ns - minute * MINUTE_NS) / NS)
        end_ns = (minute + 1) * MINUTE_NS
        slot_sums: Sequence[CpuSums | None] = [None] * len(slots)
        if self._sums is not None:
            slot_sums = self._sums.cpu(slots, rows, one_minute, end_ns=end_ns)
        for slot, sums in zip(slots, slot_sums, strict=True):
            if sums is not None:
                yield cpu_window_of(sums, one_minute).gaps
            else:
                yield _steady(
                    partial(self._rings.raw, slot, rows),
                    lambda pieces: cpu_window(pieces, one_minute, end_monotonic_ns=end_ns).gaps,
                )

    def _minute(self, slot: int, policy: WindowPolicy, minute: int, now_ns: int) -> Rows | None:
        raw_rows, memory_rows = self._minute_rows(policy, minute, now_ns)

        def summed_up(raw_pieces: Sequence[Rows]) -> Rows | None:
            memory = self._rings.memory(slot, memory_rows)
            return minute_row(raw_pieces, memory.pieces, policy, monotonic_minute=minute)

        return _steady(lambda: self._rings.raw(slot, raw_rows), summed_up)

    def _minute_rows(self, policy: WindowPolicy, minute: int, now_ns: int) -> tuple[int, int]:
        """Return how many raw rows and how many memory rows one minute is summed up of."""
        since_minute_seconds = (now_ns - minute * MINUTE_NS) / NS
        raw_rows = self._raw_rows_over(since_minute_seconds + policy.rate_window_seconds + policy.max_step_seconds)
        memory_seconds = since_minute_seconds + (policy.memory_rows_seconds if policy.leaves_out_cold_file else 0.0)
        return raw_rows, math.ceil(memory_seconds / self._heartbeat.slow_interval_seconds) + 2

    def has_full_rate_window(self) -> bool:
        """Return whether the sampler has run for a whole rate window, so that rates are what they say."""
        first = self._heartbeat.first_sweep_monotonic_ns
        newest = self._heartbeat.last_sweep_monotonic_ns
        return first is not None and newest is not None and newest - first >= self._windows.rate_window_seconds * NS


def _status(
    unit: WatchedUnit, cpu: CpuWindow, memory: MemoryWindow, age_seconds: float | None, advice: UnitAdvice | None
) -> UnitStatus:
    return UnitStatus(
        identity=unit.identity,
        resources=unit.resources,
        cpu=cpu,
        memory=memory,
        sample_age_seconds=age_seconds,
        cpu_max_millicores=unit.cpu_max_millicores,
        memory_max_bytes=unit.memory_max_bytes,
        advice=advice,
    )


def _good_stamps(pieces: Sequence[Rows], end_ns: int) -> list[int]:
    """Return the newest good reading at or before a moment; at most one stamp."""
    for piece in reversed(pieces):
        fits = np.flatnonzero((piece["status"] == Status.OK) & (piece["monotonic_ns"] <= np.uint64(max(0, end_ns))))
        if fits.size:
            return [int(piece["monotonic_ns"][fits[-1]])]
    return []


def _batches(units: Sequence[WatchedUnit]) -> Iterator[Sequence[WatchedUnit]]:
    return (units[first : first + BATCH] for first in range(0, len(units), BATCH))


def _steady(take: Callable[[], RowView], use: Callable[[Sequence[Rows]], Result]) -> Result:
    """Use a view of a ring; when the sampler overtook it meanwhile, use a copy instead."""
    view = take()
    result = use(view.pieces)
    if view.intact():
        return result
    return use((take().joined(),))
