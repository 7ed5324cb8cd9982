"""The rows behind the index of workloads: peaks in rings, and what else is known of each row. Webhook; one thread.

Small things are kept packed as bytes: histograms of the newest hour and who was there, for a third of what dictionaries
would take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from agent.core.history.minute.minute_codec import Codes
from agent.core.history.reports.rollup import SampledRow
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.hour_sketch import (
    HourKills,
    HourSketch,
    ReportInterval,
    largest_demand_code,
    memory_code,
)
from agent.core.history.workloads.node_peaks import Leaders
from agent.core.history.workloads.peak_rings import (
    CPU,
    LEADER_PLANES,
    MEMORY,
    PEAK_PLANES,
    RING_HOURS,
    CodeRings,
    NodeNumbers,
    Slots,
    add_leader,
    leaders_of,
)
from agent.core.history.workloads.pod_count import (
    Pods,
    pack_numbers,
    packed_count,
    pod_number,
    unpack_numbers,
    with_number,
)
from agent.core.numbers.arrays import Ints, Rows
from agent.webhook.store.entries.sketch_bytes import HAS_KILLS, Heads, decode_buckets, encode_buckets

NEVER: Final = np.iinfo(np.int64).min
_BLOCK: Final = 4096


class RowTable:
    """Rows by class of nodes (with leaders), or by node (without)."""

    def __init__(self, *, max_rows: int, slots: Slots, has_leaders: bool) -> None:
        self.rings: Final = CodeRings(LEADER_PLANES if has_leaders else PEAK_PLANES, max_rows)
        self._slots = slots
        self._has_leaders = has_leaders
        self.first: Ints = np.zeros(0, dtype=np.int64)
        """Start of the earliest interval, Unix seconds."""
        self.last: Ints = np.zeros(0, dtype=np.int64)
        """End of the latest interval; `NEVER` = the row is nobody's."""
        self.newest_hour: Ints = np.zeros(0, dtype=np.int64)
        """Which the three below are of."""
        self._demand: list[bytes] = []
        self._memory: list[bytes] = []
        self._pods: list[bytes] = []
        self._kills: dict[int, dict[int, HourKills]] = {}
        """By row and hour; some may be of hours that the rings no longer hold."""
        self._loading: dict[int, int] = {}
        """While the store's sketches come in: the newest hour of each row."""
        self._loading_kills: list[tuple[int, int]] = []
        """Hours and rows with kills."""

    def give(self) -> int | None:
        """Return a row that knows nothing; None = there is no room."""
        row = self.rings.give()
        if row is not None and row >= self.first.size:
            more = np.full(_BLOCK, NEVER, dtype=np.int64)
            self.first = np.concatenate([self.first, -(more + 1)])
            self.last = np.concatenate([self.last, more])
            self.newest_hour = np.concatenate([self.newest_hour, more])
        if row is not None and row >= len(self._demand):
            self._demand.append(b"")
            self._memory.append(b"")
            self._pods.append(b"")
        return row

    def take_back(self, row: int) -> None:
        """Make a row know nothing, and free to be given again."""
        self.rings.take_back(row)
        self.first[row], self.last[row], self.newest_hour[row] = -(NEVER + 1), NEVER, NEVER
        self._demand[row] = self._memory[row] = self._pods[row] = b""
        self._kills.pop(row, None)

    def learn(self, row: int, learnt: SampledRow, interval: ReportInterval, node: int) -> None:
        """Add a report's row; ``node`` is the node's number, of ``NodeNumbers``."""
        hour = interval.unix_hour
        if interval.start_unix_seconds < self.first.item(row):
            self.first[row] = interval.start_unix_seconds
        if interval.end_unix_seconds > self.last.item(row):
            self.last[row] = interval.end_unix_seconds
        if self._slots.is_open(hour):
            slot = hour % RING_HOURS
            planes = self.rings.of(row)
            demand = learnt.cpu_adjusted if learnt.cpu is not None and learnt.cpu_adjusted is not None else learnt.cpu
            if learnt.cpu is not None and demand is not None:
                self._raise_peak(planes, CPU, slot, largest_demand_code(learnt.cpu, demand), node)
            if learnt.memory is not None:
                self._raise_peak(planes, MEMORY, slot, memory_code(learnt.memory), node)
            for kill in learnt.oom_kills:
                seconds = int((interval.end_unix_seconds - kill.age_seconds) // 1)
                self._add_kills(row, hour, HourKills(1, kill.memory_bytes or 0, seconds, node))
        newest = self.newest_hour.item(row)
        if hour < newest:
            return
        if hour > newest:
            self.newest_hour[row] = hour
            self._demand[row] = self._memory[row] = self._pods[row] = b""
        if learnt.cpu is not None:
            self._demand[row] = _plus(self._demand[row], (learnt.cpu_adjusted or learnt.cpu).buckets)
        if learnt.memory is not None:
            self._memory[row] = _plus(self._memory[row], learnt.memory.buckets)
        self._pods[row] = with_number(self._pods[row], pod_number(learnt.pod_uid))

    def _raise_peak(self, planes: Codes, resource: int, slot: int, code: int, node: int) -> None:
        if self._has_leaders:
            add_leader(planes, resource, slot, code, node)
        elif code > planes[resource, slot]:
            planes[resource, slot] = code

    def _add_kills(self, row: int, hour: int, kills: HourKills) -> None:
        """Count kills of an hour; at the same time those of hours that the rings no longer hold go."""
        by_hour = self._kills.setdefault(row, {})
        by_hour.setdefault(hour, HourKills()).merge(kills)
        for known in [known for known in by_hour if not self._slots.is_open(known)]:
            del by_hour[known]

    def kills_of(self, row: int) -> list[HourKills]:
        """Return the kills of the hours in the rings, by hour, oldest first."""
        by_hour = self._kills.get(row)
        if not by_hour:
            return []
        return [by_hour[hour] for hour in sorted(by_hour) if self._slots.is_open(hour)]

    # -- from the store ---------------------------------------------------------------------------------------------

    def begin_load(self) -> None:
        """Forget what a load that broke off still wanted."""
        self._loading.clear()
        self._loading_kills.clear()

    def load(self, rows: Rows, unix_hour: int, heads: Heads, numbers: NodeNumbers) -> None:
        """Take over an hour's sketches of the store: each counts all that was known of its row, and replaces it.

        Rows are named once at most; the hour is put into the rings if its slot is open.
        """
        start = unix_hour * HOUR_SECONDS
        self.first[rows] = np.minimum(self.first[rows], start + heads["first_seconds"])
        self.last[rows] = np.maximum(self.last[rows], start + heads["last_seconds"])
        if self._slots.is_open(unix_hour):
            slots = np.full(rows.size, unix_hour % RING_HOURS, dtype=np.intp)
            self.rings.put(rows, slots, self._codes(heads, unix_hour, numbers))
            for row in rows[(heads["flags"] & HAS_KILLS) != 0].tolist():
                self._kills.setdefault(row, {}).pop(unix_hour, None)
                self._loading_kills.append((unix_hour, row))
        newest = rows[self.newest_hour[rows] <= unix_hour]
        self.newest_hour[newest] = unix_hour
        self._loading.update(dict.fromkeys(newest.tolist(), unix_hour))

    def _codes(self, heads: Heads, unix_hour: int, numbers: NodeNumbers) -> Codes:
        codes = np.zeros((heads.size, LEADER_PLANES if self._has_leaders else PEAK_PLANES), dtype=np.uint16)
        for resource, name in ((CPU, "cpu"), (MEMORY, "memory")):
            codes[:, resource] = heads[f"{name}_top"]
            if self._has_leaders:
                codes[:, resource + 2] = heads[f"{name}_second"]
                nodes, places = np.unique(heads[f"{name}_node"], return_inverse=True)
                given = [numbers.give(node, unix_hour) if node else 0 for node in nodes.tolist()]
                codes[:, resource + 4] = np.array(given, dtype=np.uint16)[places]
        return codes

    def wanted(self) -> dict[int, set[int]]:
        """Return of which rows a load needs whole sketches, by hour: of their newest one, and of those with kills."""
        wanted: dict[int, set[int]] = defaultdict(set)
        for row, hour in self._loading.items():
            if hour == self.newest_hour[row]:
                wanted[hour].add(row)
        for hour, row in self._loading_kills:
            wanted[hour].add(row)
        self.begin_load()
        return wanted

    def load_whole(self, row: int, unix_hour: int, sketch: HourSketch, numbers: NodeNumbers) -> None:
        """Take kills from a sketch, and histograms and pods if it is the newest of its row."""
        if sketch.kills.count and self._slots.is_open(unix_hour):
            node = sketch.kills.node  # a hash, there
            known = replace(sketch.kills, node=numbers.give(node, unix_hour) if node else 0)
            self._add_kills(row, unix_hour, known)
        if unix_hour == self.newest_hour[row]:
            self._demand[row] = encode_buckets(sketch.demand.buckets) if sketch.demand.count else b""
            self._memory[row] = encode_buckets(sketch.memory.buckets) if sketch.memory.count else b""
            self._pods[row] = pack_numbers(sketch.pods)

    # -- asking -----------------------------------------------------------------------------------------------------

    def newest_of(self, rows: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Return those of the rows whose newest hour is the newest of all, and that hour."""
        hours = [int(self.newest_hour[row]) for row in rows]
        newest = max(hours)
        return tuple(row for row, hour in zip(rows, hours, strict=True) if hour == newest), newest

    def pods_of(self, rows: tuple[int, ...]) -> int:
        """Count the pods of rows together."""
        if len(rows) == 1:
            return packed_count(self._pods[rows[0]])
        pods = Pods()
        for row in rows:
            pods.merge(unpack_numbers(self._pods[row]))
        return pods.count

    def leaders(self, rows: Sequence[int]) -> list[tuple[Leaders, Leaders]]:
        """Return what the nodes saw of each row with leaders in all its hours: of CPU, and of memory."""
        return leaders_of(self.rings.copies(rows))

    def buckets_of(self, rows: tuple[int, ...], resource: int) -> dict[int, int]:
        """Return the histogram of the rows' newest hours together."""
        packed = self._demand if resource == CPU else self._memory
        if len(rows) == 1:
            return decode_buckets(packed[rows[0]]) if packed[rows[0]] else {}
        merged: dict[int, int] = {}
        for row in rows:
            if packed[row]:
                for bucket, count in decode_buckets(packed[row]).items():
                    merged[bucket] = merged.get(bucket, 0) + count
        return merged


def _plus(packed: bytes, buckets: Mapping[int, int]) -> bytes:
    if not packed:
        return encode_buckets(buckets)
    merged = decode_buckets(packed)
    known = merged.get
    for bucket, count in buckets.items():
        merged[bucket] = known(bucket, 0) + count
    return encode_buckets(merged)
