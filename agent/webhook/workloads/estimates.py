"""Estimates and directives out of the rows of the index. Webhook; whoever calls holds the index' lock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Final

import numpy as np

from agent.core.admission.estimate import Estimate, EstimateSource
from agent.core.history.minute.minute_codec import Codes, decode
from agent.core.history.minute.minutes import CPU_STEPS, KIB
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, NodeClass
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, HourPeak
from agent.core.history.workloads.hour_sketch import percentile_bucket
from agent.core.history.workloads.imported import standing_in, widened, wider_amount
from agent.core.history.workloads.node_claims import Most
from agent.core.history.workloads.node_peaks import amount_of
from agent.core.history.workloads.peak_rings import CPU, MEMORY, PEAKS, RING_HOURS, Slots
from agent.core.numbers.arrays import Bools
from agent.core.orders.policy_options import CruiseOptions, PolicyName
from agent.webhook.workloads.rows import RowTable
from agent.webhook.workloads.shapes import OomHour, RowHistory

HISTORY_SECONDS: Final = 14 * 86_400.0
AS_TOLD: Final = Most()
"""No bound: for people, who want to see what was told."""
BASE_RATIO: Final = 0.75
"""Base is the P75, as on the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer:
    """What a policy other than cruise asks for; None = it cannot say."""

    cpu_request_millicores: int | None
    memory_request_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRows:
    """Rows of one table that are asked together, and the row of imported hours beside them; at least one of both."""

    table: RowTable
    rows: tuple[int, ...]
    """Of agents."""
    imported: int | None = None
    imported_most: Most = AS_TOLD
    """Up to what imported hours count."""

    @property
    def every(self) -> tuple[int, ...]:
        """Return all rows."""
        return self.rows if self.imported is None else (*self.rows, self.imported)

    def newest(self) -> tuple[int, ...]:
        """Return those with the newest hour; agents' before the imported one."""
        return self.table.newest_of(self.rows or self.every)[0]

    def peaks(self, most: Most) -> Codes:
        """Return the largest values by hour, shape ``(2, n)``, those of agents up to ``most``."""
        own = within(self.table.rings.peaks(self.rows), most) if self.rows else None
        if self.imported is None:
            assert own is not None  # noqa: S101 - there is a row
            return own
        imported = self.imported_peaks()
        return imported if own is None else standing_in(own, imported)

    def imported_peaks(self) -> Codes:
        """Return the largest imported values by hour, with what is added to them; 0 where there are none."""
        if self.imported is None:
            return np.zeros((2, RING_HOURS), dtype=np.uint16)
        return within(widened(self.table.rings.peaks((self.imported,))), self.imported_most)

    def imported_hours(self, chosen: Bools) -> int:
        """Count the chosen hours of which only the import knows."""
        if self.imported is None:
            return 0
        alone = chosen & (self.table.rings.peaks((self.imported,)) > 0).any(axis=0)
        if self.rows:
            alone &= ~(self.table.rings.peaks(self.rows) > 0).any(axis=0)
        return int(np.count_nonzero(alone))


def cruise_estimate(
    source: EstimateSource,
    history: HistoryRows,
    *,
    slots: Slots,
    options: CruiseOptions,
    most: Most,
    now_unix_seconds: float,
) -> Estimate:
    """Return the prediction of ``cruise`` from rows together; values of agents count up to ``most``."""
    table, chosen = history.table, slots.week(now_unix_seconds)
    peaks = history.peaks(most)
    predicted = _largest(peaks, slots.predicting(options, now_unix_seconds))
    week = _largest(peaks, chosen)
    # One node's: what several told is not cut.
    alone = _largest(table.rings.peaks(history.rows), chosen)[MEMORY] if history.rows else 0
    newest = history.newest()
    is_imported = newest == (history.imported,)
    base = _imported_base if is_imported else _base
    return Estimate(
        source=source,
        policy=PolicyName.CRUISE,
        cpu_request_millicores=millicores_of(predicted[CPU]),
        memory_request_bytes=bytes_of(predicted[MEMORY]),
        cpu_max_millicores=millicores_of(week[CPU]),
        memory_max_bytes=bytes_of(week[MEMORY]),
        oom_memory_bytes=remembered_kills(history, options, now_unix_seconds).largest_bytes(most),
        cpu_base_millicores=base(table, newest, CPU, history.imported_most if is_imported else most),
        memory_base_bytes=base(table, newest, MEMORY, history.imported_most if is_imported else most),
        history_seconds=min(
            max(now_unix_seconds - min(int(table.first[row]) for row in history.every), 0.0), HISTORY_SECONDS
        ),
        pods=table.pods_of(newest),
        newest_age_seconds=max(now_unix_seconds - max(int(table.last[row]) for row in history.every), 0.0),
        memory_alone_bytes=bytes_of(alone) if alone > week[MEMORY] else None,
        imported_hours=history.imported_hours(chosen),
    )


def with_answer(estimate: Estimate, policy: PolicyName, answer: PolicyAnswer) -> Estimate:
    """Return the estimate with another policy's requests."""
    return replace(
        estimate,
        policy=policy,
        cpu_request_millicores=answer.cpu_request_millicores,
        memory_request_bytes=answer.memory_request_bytes,
    )


def within(peaks: Codes, most: Most) -> Codes:
    """Cut peaks, shape ``(2, n)``, at what counts."""
    cut: Codes = np.minimum(peaks[PEAKS], np.array([[most.cpu], [most.memory]], dtype=np.uint16))
    return cut


@dataclass(frozen=True, slots=True)
class RememberedKills:
    """The kills of a container that count: the largest figure of each hour, and the number of the node that told it."""

    agents: tuple[tuple[int, int], ...] = ()
    imported: tuple[tuple[int, int], ...] = ()
    imported_most: Most = AS_TOLD
    """Up to what those of imported hours count."""

    def largest_bytes(self, most: Most) -> int | None:
        """Return the largest figure, those of agents up to ``most``; None = there is none.

        Each is bounded by what nodes other than the one that told of it saw.
        """
        if not self.agents and not self.imported:
            return None
        figures = [min(size, most.kill_bytes(node)) for size, node in self.agents]
        figures += [min(size, self.imported_most.kill_bytes(node)) for size, node in self.imported]
        return max(figures) or None


NO_KILLS: Final = RememberedKills()


def remembered_kills(history: HistoryRows, options: CruiseOptions, now_unix_seconds: float) -> RememberedKills:
    """Return the kills that are remembered."""
    table, since = history.table, now_unix_seconds - options.oom_retention_seconds

    def kills_of(rows: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple(
            (kills.largest_bytes, kills.node)
            for row in rows
            for kills in table.kills_of(row)
            if kills.newest_unix_seconds >= since
        )

    agents, imported = kills_of(history.rows), () if history.imported is None else kills_of((history.imported,))
    return RememberedKills(agents, imported, history.imported_most) if agents or imported else NO_KILLS


def row_history(
    table: RowTable, row: int, slots: Slots, *, node_class: NodeClass | None = None, node: str | None = None
) -> RowHistory:
    """Return all that is known of a row."""
    return RowHistory(
        node_class=node_class,
        node=node,
        first_unix_seconds=float(table.first[row]),
        last_unix_seconds=float(table.last[row]),
        pods=table.pods_of((row,)),
        cpu_base_millicores=_base(table, (row,), CPU),
        memory_base_bytes=_base(table, (row,), MEMORY),
        hours=hour_peaks(HistoryRows(table=table, rows=(row,)), slots),
        kills=tuple(
            OomHour(
                newest_unix_seconds=float(kills.newest_unix_seconds),
                largest_bytes=kills.largest_bytes or None,
                count=kills.count,
            )
            for kills in table.kills_of(row)
        ),
    )


def hour_peaks(history: HistoryRows, slots: Slots) -> tuple[HourPeak, ...]:
    """Return the peaks of rows together hour by hour, oldest first; hours in which nothing was known are absent."""
    if not history.every:
        return ()
    amounts, has = decode(history.peaks(AS_TOLD))
    has &= slots.used
    there = np.flatnonzero(has.any(axis=0))
    ordered = there[np.argsort(slots.hours[there])]
    return tuple(
        HourPeak(
            hour_unix_seconds=int(slots.hours[slot]) * HOUR_SECONDS,
            cpu_millicores=float(amounts[CPU, slot]) / CPU_STEPS if has[CPU, slot] else None,
            working_set_bytes=float(amounts[MEMORY, slot]) * KIB if has[MEMORY, slot] else None,
        )
        for slot in ordered.tolist()
    )


def _largest(peaks: Codes, chosen: Bools) -> list[int]:
    largest: list[int] = peaks[PEAKS].max(axis=1, where=chosen, initial=0).tolist()
    return largest


def _base(table: RowTable, rows: tuple[int, ...], resource: int, most: Most = AS_TOLD) -> int | None:
    """Return the P75 of the newest hour of rows: the end of its bucket, at most the hour's largest that counts."""
    bucket = percentile_bucket(table.buckets_of(rows, resource), BASE_RATIO)
    if bucket is None:
        return None
    scheme = CPU_BUCKETS if resource == CPU else MEMORY_BUCKETS
    base = ceil(float(scheme.ends[bucket]))
    slot = int(table.newest_hour[rows[0]]) % RING_HOURS
    code = min(int(table.rings.peaks(rows)[resource, slot]), most.cpu if resource == CPU else most.memory)
    largest = millicores_of(code) if resource == CPU else bytes_of(code)
    return base if largest is None else min(base, largest)


def _imported_base(table: RowTable, rows: tuple[int, ...], resource: int, most: Most) -> int | None:
    """Return the same of a row of imported hours, with what is added to them."""
    base = _base(table, rows, resource)
    if base is None:
        return None
    return min(wider_amount(base), int(most.cpu_millicores) if resource == CPU else most.memory_bytes)


# Peaks of one size come again and again: to look one up takes a tenth of what working it out does. 1 MB each.
@lru_cache(maxsize=8192)
def millicores_of(code: int) -> int | None:
    """Return the CPU of a peak's code; None = missing."""
    amount = amount_of(code)
    return None if amount is None else ceil(amount / CPU_STEPS)


@lru_cache(maxsize=8192)
def bytes_of(code: int) -> int | None:
    """Return the memory of a peak's code; None = missing."""
    amount = amount_of(code)
    return None if amount is None else amount * KIB
