"""Peaks of the newest 192 hours for many rows, sixteen bits each. Core, pure; one thread at a time.

192 hours are eight days: seven whole ones, the running hour, and neighbour hours at the far end. They are also a
multiple of 24, so that a slot always stands for the same hour of the day. Memory comes in chunks, and the system gives
a chunk's pages when they are first written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.minute.minute_codec import Codes
from agent.core.history.reports.rollup import ROLLUP_SECONDS
from agent.core.history.workloads.hour_peaks import WEEK_HOURS, hour_of, is_same_hour
from agent.core.history.workloads.node_peaks import Leaders
from agent.core.numbers.arrays import Bools, Ints, Rows, distinct
from agent.core.orders.policy_options import CruiseOptions

RING_HOURS: Final = 192
CHUNK_ROWS: Final = 1024
NODE_NUMBERS: Final = 1 << 16
CPU: Final = 0
MEMORY: Final = 1
PEAKS: Final = slice(0, 2)
"""Planes of the largest values: CPU, memory."""
SECONDS: Final = slice(2, 4)
"""Planes of the largest values of another node than the one below."""
NODES: Final = slice(4, 6)
"""Planes of the numbers of the nodes with the largest values."""
LEADER_PLANES: Final = 6
PEAK_PLANES: Final = 2


class Slots:
    """Which hour each slot of all rings holds."""

    def __init__(self) -> None:
        self.hours: Ints = np.zeros(RING_HOURS, dtype=np.int64)
        self.used: Bools = np.zeros(RING_HOURS, dtype=np.bool_)
        # What is asked of them again and again, for each container of each pod, changes once an hour.
        self._week: tuple[int, Bools] | None = None
        self._predicting: tuple[tuple[CruiseOptions, int, int], Bools] | None = None

    def is_too_old(self, unix_hour: int) -> bool:
        """Return whether an hour's slot holds a later hour by now."""
        slot = unix_hour % RING_HOURS
        return bool(self.used[slot] and self.hours[slot] > unix_hour)

    def is_open(self, unix_hour: int) -> bool:
        """Return whether the slot of an hour holds it."""
        slot = unix_hour % RING_HOURS
        return bool(self.used[slot] and self.hours[slot] == unix_hour)

    def is_fresh(self, unix_hour: int) -> bool:
        """Return whether the slot of an hour never held one: the rings have nothing there."""
        return not self.used[unix_hour % RING_HOURS]

    def open(self, unix_hour: int) -> None:
        """Let a slot hold this hour from now on; the rings are to be cleared there."""
        slot = unix_hour % RING_HOURS
        self.hours[slot] = unix_hour
        self.used[slot] = True
        self._week = self._predicting = None

    def week(self, now_unix_seconds: float) -> Bools:
        """Return which slots hold hours of the last seven days; the hour of seven days ago counts as a whole.

        The array is kept for the next who asks: do not write to it.
        """
        hour_now, cache = hour_of(now_unix_seconds), self._week
        if cache is None or cache[0] != hour_now:
            cache = self._week = hour_now, self.used & (hour_now - self.hours <= WEEK_HOURS)
        return cache[1]

    def predicting(self, options: CruiseOptions, now_unix_seconds: float) -> Bools:
        """Return which slots the prediction of ``cruise`` goes by.

        Those are this hour of the day and its neighbours, today and in the days before, and the hours that the last
        ``last_seconds`` reach into. A node knows the latter by the minute; here they are whole hours, so that more may
        count, never less: up to an hour, and the half of an interval by which a row may belong to the hour before. With
        a neighbour hour and the default of an hour it is hardly more, as the hour before counts anyway.

        The array is kept for the next who asks: do not write to it.
        """
        hour_now = hour_of(now_unix_seconds)
        first_of_last = hour_of(now_unix_seconds - options.last_seconds - ROLLUP_SECONDS / 2)
        key, cache = (options, hour_now, first_of_last), self._predicting
        if cache is None or cache[0] != key:
            same = is_same_hour(self.hours, hour_now, days=options.history_days, neighbours=options.neighbour_hours)
            cache = self._predicting = key, self.used & (same | (self.hours >= first_of_last))
        return cache[1]


class CodeRings:
    """Rows of so many planes of 192 codes each; 0 = missing."""

    def __init__(self, planes: int, max_rows: int) -> None:
        self._planes = planes
        self._max_rows = max_rows
        self._chunks: list[Codes] = []
        self._free: list[int] = []
        self._given = 0

    @property
    def rows(self) -> int:
        """How many are in use."""
        return self._given - len(self._free)

    @property
    def capacity(self) -> int:
        """One more than the largest row ever given."""
        return self._given

    @property
    def nbytes(self) -> int:
        """Of all chunks, also where nothing was written yet."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def give(self) -> int | None:
        """Return a row that knows nothing; None = there may be no more."""
        if self._free:
            return self._free.pop()
        if self._given == self._max_rows:
            return None
        if self._given == len(self._chunks) * CHUNK_ROWS:
            self._chunks.append(np.zeros((CHUNK_ROWS, self._planes, RING_HOURS), dtype=np.uint16))
        self._given += 1
        return self._given - 1

    def take_back(self, row: int) -> None:
        """Make a row know nothing, and free to be given again."""
        self.of(row)[:] = 0
        self._free.append(row)

    def of(self, row: int) -> Codes:
        """Return the planes of a row, shape ``(planes, 192)``; a view to read and to write."""
        planes: Codes = self._chunks[row // CHUNK_ROWS][row % CHUNK_ROWS]
        return planes

    def copies(self, rows: Sequence[int]) -> Codes:
        """Return copies of the planes of rows, shape ``(rows, planes, 192)``."""
        copied = np.empty((len(rows), self._planes, RING_HOURS), dtype=np.uint16)
        for place, row in enumerate(rows):
            copied[place] = self.of(row)
        return copied

    def clear(self, unix_hour: int) -> None:
        """Forget what is in the slot of an hour."""
        slot = unix_hour % RING_HOURS
        for chunk in self._chunks:
            chunk[:, :, slot] = 0

    def put(self, rows: Rows, slots: Rows, codes: Codes) -> None:
        """Write the codes of many rows, each at its slot, over what is there."""
        chunks = rows // CHUNK_ROWS
        for chunk in distinct(chunks).tolist():
            chosen = chunks == chunk
            self._chunks[chunk][rows[chosen] % CHUNK_ROWS, :, slots[chosen]] = codes[chosen]

    def peaks(self, rows: tuple[int, ...]) -> Codes:
        """Return the largest values of these rows together, at least one, shape ``(2, 192)``."""
        first, *others = rows
        largest: Codes = self.of(first)[PEAKS]
        for row in others:
            largest = np.maximum(largest, self.of(row)[PEAKS])
        return largest


def peaks_without(planes: Codes, node: int) -> Codes:
    """Return the largest values of all nodes other than one, shape ``(rows, 2, 192)``; ``planes``: ``(rows, 6, 192)``.

    Exact for any node: where the largest value is its own, the largest of another node is kept beside it.
    """
    return np.where(planes[:, NODES] == node, planes[:, SECONDS], planes[:, PEAKS])


def leaders_of(planes: Codes) -> list[tuple[Leaders, Leaders]]:
    """Return the leaders of all hours of each row together, of CPU and of memory; ``planes``: ``(rows, 6, 192)``."""
    # Two lines for each row, and plain indices: ``take_along_axis`` takes longer than all of this for a few rows.
    values, seconds, nodes = (planes[:, part].reshape(-1, RING_HOURS) for part in (PEAKS, SECONDS, NODES))
    lines = np.arange(len(values))
    slots = values.argmax(axis=1)
    leading = nodes[lines, slots]
    others = np.where(nodes == leading[:, np.newaxis], seconds, values).max(axis=1)
    leaders = list(map(Leaders, values[lines, slots].tolist(), leading.tolist(), others.tolist()))
    return list(zip(leaders[CPU::PEAK_PLANES], leaders[MEMORY::PEAK_PLANES], strict=True))


def add_leader(planes: Codes, resource: int, slot: int, code: int, node: int) -> None:
    """Add a node's value, as ``Leaders.with_value`` does; of two nodes with the same largest value either stays.

    What is answered is the same: leaving out one of them, the other's value remains.
    """
    values = planes[resource::PEAK_PLANES, slot]
    top, second, top_node = values.tolist()
    if node == top_node:
        if code > top:
            values[0] = code
    elif code > top:
        values[:] = code, top, node
    elif code > second:
        values[1] = code


class NodeNumbers:
    """Sixteen-bit numbers for hashes of nodes, from 1; of nodes that no ring speaks of any more they are given anew.

    0 is nobody's: it stands for the nodes for which there was none left (more than 65,535 within nine days).
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._hours: NDArray[np.int32] = np.zeros(NODE_NUMBERS, dtype=np.int32)
        self._free: list[int] = []

    def find(self, node_hash: int) -> int | None:
        """Return a node's number; None = it has none."""
        return self._numbers.get(node_hash)

    def give(self, node_hash: int, unix_hour: int) -> int:
        """Return a node's number, a new one if it has none yet."""
        number = self._numbers.get(node_hash)
        if number is None:
            number = self._next(unix_hour)
            if number == 0:
                return 0
            self._numbers[node_hash] = number
            self._hours[number] = unix_hour
        elif self._hours[number] < unix_hour:
            self._hours[number] = unix_hour
        return number

    def _next(self, unix_hour: int) -> int:
        if len(self._numbers) + 1 < NODE_NUMBERS and not self._free:
            return len(self._numbers) + 1
        if not self._free:
            long_gone = unix_hour - RING_HOURS
            for node_hash, number in list(self._numbers.items()):
                if self._hours[number] <= long_gone:
                    del self._numbers[node_hash]
                    self._free.append(number)
        return self._free.pop() if self._free else 0
