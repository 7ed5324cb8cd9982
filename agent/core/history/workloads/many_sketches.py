"""Many hours' sketches that grow together by the rows of many reports, held in arrays.

Core, pure. What comes out is what ``HourSketch.add`` makes of the same rows, to the last bit, for a fraction of the
time. A sketch takes about 1 kB here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval, RequestTime, Samples, Seconds
from agent.core.history.workloads.node_peaks import Leaders
from agent.core.history.workloads.pod_count import PODS_KEPT, Pods, PodSums
from agent.core.history.workloads.row_columns import POD_SUMS, ROWS_ADDED, RowColumns, RowHistograms, Signal, Sum
from agent.core.numbers.arrays import Bools, Ints, Rows

BLOCK: Final = 128
"""Sketches that are sorted, and given back, together."""
_WIDTH: Final = 512
"""Buckets of a signal, rounded up."""
_BLOCK_PLACES: Final = BLOCK * len(Signal) * _WIDTH
_COUNT_BITS: Final = 32
_COUNT_MASK: Final = (1 << _COUNT_BITS) - 1
_HASH_BITS: Final = 32
_HASH_MASK: Final = (1 << _HASH_BITS) - 1
"""Of the hash of a pod or a node."""
_LEAST_ENTRIES: Final = 1 << 15
"""Of histograms, that wait to be sorted in: a quarter of a MB."""
_LEAST_PODS: Final = 1 << 11
_GROWN: Final = 1 << 11
"""Sketches for which there is room at a time: half a MB."""
_WAITING_SHARE: Final = 4
"""Of what is known, a part as large as this may wait."""
_FIRST: Final = len(Signal)
_LAST: Final = _FIRST + 1
_NOTHING: Final[Ints] = np.zeros(0, dtype=np.int64)
_NO_PODS: Final = (_NOTHING, np.zeros((0, len(PodSums._fields)), dtype=np.int64))


class ManySketches:
    """Sketches by number, from 0 on."""

    def __init__(self) -> None:
        self._size = 0
        self._sums: Ints = np.zeros((0, len(Sum)), dtype=np.int64)
        self._largest: Ints = np.zeros((0, _LAST + 1), dtype=np.int64)
        """By `Signal`; then minus the start of the earliest row, and the end of the latest."""
        self._tops: Ints = np.zeros((0, 2), dtype=np.int64)
        """Of demand and of memory: the largest code and its node, in one number."""
        self._seconds: Ints = np.zeros((0, 2), dtype=np.int64)
        """The largest code of another node."""
        self._pod_bits: NDArray[np.uint64] = np.zeros((0, 4), dtype="<u8")
        self._histograms = _HistogramTable()
        self._pods = _PodTable()
        self._odd: dict[int, HourSketch] = defaultdict(HourSketch)
        self._most_rows = 0

    @property
    def has_room(self) -> bool:
        """Return whether 65,536 rows more may come; else take what there is, and begin anew."""
        return self._most_rows <= ROWS_ADDED // 2

    def add(
        self,
        columns: RowColumns,
        intervals: Sequence[ReportInterval],
        nodes: Sequence[int],
        numbers: Sequence[int],
    ) -> None:
        """Count rows; the other sequences are as long.

        Args:
            columns: The rows.
            intervals: When each was measured.
            nodes: ``node_number`` of the node that measured it.
            numbers: Of the sketch in which it counts.
        """
        for place in columns.odd:
            self._odd[numbers[place]].add(columns.rows[place], intervals[place], nodes[place])
        self._grow(max(numbers, default=-1) + 1)
        ordinary = columns.ordinary
        if not ordinary.size:
            return
        number = np.array(numbers, dtype=np.int64)[ordinary]
        node = np.array(nodes, dtype=np.int64)[ordinary]
        largest = np.empty((ordinary.size, _LAST + 1), dtype=np.int64)
        largest[:, :_FIRST] = columns.largest
        starts = np.array([interval.start_unix_seconds for interval in intervals], dtype=np.int64)
        ends = np.array([interval.end_unix_seconds for interval in intervals], dtype=np.int64)
        largest[:, _FIRST], largest[:, _LAST] = -starts[ordinary], ends[ordinary]
        order = np.argsort(number, kind="stable")
        first = _firsts(number[order])
        here = number[order[first]]
        self._sums[here] += np.add.reduceat(columns.sums[order], first)
        self._largest[here] = np.maximum(self._largest[here], np.maximum.reduceat(largest[order], first))
        self._lead(columns.codes[order], node[order], first, here)
        self._most_rows = max(self._most_rows, int(self._sums[here, Sum.ROWS].max()))
        bits = np.left_shift(np.uint64(1), (columns.pods % 64).astype(np.uint64))
        np.bitwise_or.at(self._pod_bits, (number, columns.pods % 256 // 64), bits)
        self._pods.add(number, columns.pods, columns.sums[:, POD_SUMS])
        for signal, histograms in zip(Signal, columns.histograms, strict=True):
            self._histograms.add(number, signal, histograms)

    def take(self) -> Iterator[list[tuple[int, HourSketch]]]:
        """Return the sketches with their numbers, a block at a time; they are not kept, and no rows may follow."""
        self._histograms.settle()
        self._pods.settle()
        for block, start in enumerate(range(0, self._size, BLOCK)):
            sketches = self._sketches_of(block, range(start, min(start + BLOCK, self._size)))
            for number, sketch in sketches:
                odd = self._odd.pop(number, None)
                if odd is not None:
                    sketch.merge(odd)
            yield sketches

    def _grow(self, size: int) -> None:
        self._size = max(self._size, size)
        more = self._size - len(self._sums)
        if more <= 0:
            return
        more = max(more, _GROWN)
        self._sums = _longer(self._sums, more)
        self._tops = _longer(self._tops, more)
        self._seconds = _longer(self._seconds, more)
        self._largest = _longer(self._largest, more)
        self._largest[-more:, _FIRST] = np.iinfo(np.int64).min
        self._pod_bits = np.concatenate([self._pod_bits, np.zeros((more, 4), dtype="<u8")])

    def _lead(self, codes: Ints, nodes: Ints, first: Rows, here: Ints) -> None:
        """Add codes of nodes, those of one sketch one after the other: as ``Leaders.merged`` does."""
        whole = np.where(codes > 0, codes << _HASH_BITS | nodes[:, np.newaxis], 0)
        tops = np.maximum.reduceat(whole, first)
        are_of_top = (whole & _HASH_MASK) == np.repeat(tops & _HASH_MASK, np.diff(first, append=len(codes)), axis=0)
        seconds = np.maximum.reduceat(np.where(are_of_top, 0, codes), first)
        known_tops, known_seconds = self._tops[here], self._seconds[here]
        are_same = (tops & _HASH_MASK) == (known_tops & _HASH_MASK)
        of_first = np.where(known_tops > tops, known_seconds, seconds)
        other = np.where(are_same, np.minimum(known_seconds, seconds), np.minimum(known_tops, tops) >> _HASH_BITS)
        self._tops[here] = np.maximum(known_tops, tops)
        self._seconds[here] = np.where(are_same, np.maximum(known_seconds, seconds), np.maximum(of_first, other))

    def _sketches_of(self, block: int, numbers: range) -> list[tuple[int, HourSketch]]:
        at = slice(numbers.start, numbers.stop)
        tops, nodes = (self._tops[at] >> _HASH_BITS).tolist(), (self._tops[at] & _HASH_MASK).tolist()
        return [
            (
                number,
                _sketch(
                    sums,
                    largest,
                    histograms,
                    Pods(pods, int.from_bytes(bits.tobytes(), "little"), has_more),
                    list(map(Leaders, top, node, second)),
                ),
            )
            for number, sums, largest, histograms, (pods, has_more), bits, top, node, second in zip(
                numbers,
                self._sums[at].tolist(),
                self._largest[at].tolist(),
                self._histograms.take(block, len(numbers)),
                self._pods.take(block, len(numbers)),
                self._pod_bits[at],
                tops,
                nodes,
                self._seconds[at].tolist(),
                strict=True,
            )
        ]


def _sketch(
    sums: list[int], largest: list[int], histograms: list[dict[int, int]], pods: Pods, leaders: list[Leaders]
) -> HourSketch:
    rows, covered, throttled, throttled_rows, waiting, waiting_rows, *samples = sums
    if not rows:
        return HourSketch()
    cpu_count, cpu_total, memory_count, memory_total, demand_count, demand_total, *requests = samples
    cpu, demand, memory, first, last = largest
    return HourSketch(
        rows=rows,
        first_unix_seconds=-first,
        last_unix_seconds=last,
        covered=Seconds(covered, rows),
        cpu=Samples(cpu_count, cpu_total, cpu, histograms[Signal.CPU]),
        demand=Samples(demand_count, demand_total, demand, histograms[Signal.DEMAND]),
        memory=Samples(memory_count, memory_total, memory, histograms[Signal.MEMORY]),
        throttled=Seconds(throttled, throttled_rows),
        waiting=Seconds(waiting, waiting_rows),
        pods=pods,
        demand_leaders=leaders[0],
        memory_leaders=leaders[1],
        cpu_request=RequestTime(*requests[:3]),
        memory_request=RequestTime(*requests[3:]),
    )


class _HistogramTable:
    """Histograms by sketch and signal."""

    def __init__(self) -> None:
        self._known: list[Ints] = []
        """By block of sketches: place (sketch, signal and bucket) and count in one number, rising; no place twice."""
        self._known_entries = 0
        self._waiting: list[Ints] = []
        self._waiting_entries = 0

    def add(self, numbers: Ints, signal: Signal, histograms: RowHistograms) -> None:
        """Count samples; ``numbers``: the sketch of each row."""
        places = (numbers[histograms.rows] * len(Signal) + signal) * _WIDTH + histograms.buckets
        self._waiting.append(places << _COUNT_BITS | histograms.counts)
        self._waiting_entries += places.size
        if self._waiting_entries > max(_LEAST_ENTRIES, self._known_entries // _WAITING_SHARE):
            self.settle()

    def settle(self) -> None:
        """Sort in what waits, a block at a time: what that takes in memory stays small."""
        new = np.concatenate([_NOTHING, *self._waiting])
        self._waiting.clear()
        self._waiting_entries = 0
        if not new.size:
            return
        new.sort()
        blocks = int(new[-1] >> _COUNT_BITS) // _BLOCK_PLACES + 1
        self._known.extend([_NOTHING] * (blocks - len(self._known)))
        edges = np.searchsorted(new, np.arange(blocks + 1) * _BLOCK_PLACES << _COUNT_BITS).tolist()
        for block, (start, end) in enumerate(pairwise(edges)):
            if start < end:
                known = self._known[block]
                self._known[block] = _added_up(np.concatenate([known, new[start:end]]))
                self._known_entries += self._known[block].size - known.size

    def take(self, block: int, size: int) -> list[list[dict[int, int]]]:
        """Return the histograms of each sketch of a block of so many, by signal; they are kept no longer."""
        known = _NOTHING
        if block < len(self._known):
            known, self._known[block] = self._known[block], _NOTHING
        places, counts = known >> _COUNT_BITS, (known & _COUNT_MASK).tolist()
        buckets = (places % _WIDTH).tolist()
        firsts = block * _BLOCK_PLACES + np.arange(size * len(Signal) + 1) * _WIDTH
        edges = np.searchsorted(places, firsts).tolist()
        histograms = [dict(zip(buckets[start:end], counts[start:end], strict=True)) for start, end in pairwise(edges)]
        return [histograms[first : first + len(Signal)] for first in range(0, len(histograms), len(Signal))]


class _PodTable:
    """The pods of sketches: of each the smallest hashes with their sums."""

    def __init__(self) -> None:
        self._known: list[tuple[Ints, Ints]] = []
        """By block of sketches: sketch and hash in one number, rising, none twice; and the sums of each, shape ``(pods,
        4)``, as in ``PodSums``."""
        self._known_pods = 0
        self._waiting: list[tuple[Ints, Ints]] = []
        self._waiting_pods = 0
        self._with_more: list[Bools] = []
        """By block: which sketches have more pods than are kept, shape ``(BLOCK,)``."""

    def add(self, numbers: Ints, pods: Ints, sums: Ints) -> None:
        """Count samples of pods, by the sketch, the hash and the sums of each."""
        self._waiting.append((numbers << _HASH_BITS | pods, sums))
        self._waiting_pods += pods.size
        if self._waiting_pods > max(_LEAST_PODS, self._known_pods // _WAITING_SHARE):
            self.settle()

    def settle(self) -> None:
        """Sort in what waits, a block at a time."""
        keys = np.concatenate([_NOTHING, *(keys for keys, _ in self._waiting)])
        sums = np.concatenate([_NO_PODS[1], *(sums for _, sums in self._waiting)])
        self._waiting.clear()
        self._waiting_pods = 0
        if not keys.size:
            return
        order = np.argsort(keys)
        keys = keys[order]
        blocks = (int(keys[-1]) >> _HASH_BITS) // BLOCK + 1
        for _ in range(blocks - len(self._known)):
            self._known.append(_NO_PODS)
            self._with_more.append(np.zeros(BLOCK, dtype=np.bool_))
        edges = np.searchsorted(keys, np.arange(blocks + 1) * BLOCK << _HASH_BITS).tolist()
        for block, (start, end) in enumerate(pairwise(edges)):
            if start < end:
                known_keys, known_sums = self._known[block]
                self._known[block] = self._summed(
                    np.concatenate([known_keys, keys[start:end]]),
                    np.concatenate([known_sums, sums[order[start:end]]]),
                )
                self._known_pods += self._known[block][0].size - known_keys.size

    def _summed(self, keys: Ints, sums: Ints) -> tuple[Ints, Ints]:
        """Return pods with the sums of equal ones added up, of each sketch those with the smallest hashes."""
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = _firsts(keys)
        keys, sums = keys[first], np.add.reduceat(sums[order], first)
        numbers = keys >> _HASH_BITS
        start = _firsts(numbers)
        rank = np.arange(keys.size) - np.repeat(start, np.diff(start, append=keys.size))
        are_kept = rank < PODS_KEPT
        gone = numbers[~are_kept]
        if gone.size:
            self._with_more[int(gone[0]) // BLOCK][gone % BLOCK] = True
        return keys[are_kept], sums[are_kept]

    def take(self, block: int, size: int) -> list[tuple[dict[int, PodSums], bool]]:
        """Return the pods of each sketch of a block of so many, and whether it has more; they are kept no longer."""
        keys, sums = _NO_PODS
        have_more = [False] * size
        if block < len(self._known):
            (keys, sums), self._known[block] = self._known[block], _NO_PODS
            have_more = self._with_more[block][:size].tolist()
        pods = (keys & _HASH_MASK).tolist()
        pod_sums = list(map(PodSums._make, sums.tolist()))
        edges = np.searchsorted(keys, block * BLOCK + np.arange(size + 1) << _HASH_BITS).tolist()
        return [
            (dict(zip(pods[start:end], pod_sums[start:end], strict=True)), has_more)
            for (start, end), has_more in zip(pairwise(edges), have_more, strict=True)
        ]


def _firsts(rising: Ints) -> Rows:
    """Return the places at which another value begins."""
    is_first = np.ones(rising.size, dtype=np.bool_)
    is_first[1:] = rising[1:] != rising[:-1]
    return np.flatnonzero(is_first)


def _added_up(entries: Ints) -> Ints:
    """Return entries, two rising runs of them, with the counts of equal places added up, rising."""
    entries.sort(kind="stable")  # it merges runs, for a quarter of what sorting takes
    places = entries >> _COUNT_BITS
    first = _firsts(places)
    if first.size == entries.size:
        return entries
    return places[first] << _COUNT_BITS | np.add.reduceat(entries & _COUNT_MASK, first)


def _longer(values: Ints, more: int) -> Ints:
    return np.concatenate([values, np.zeros((more, values.shape[1]), dtype=np.int64)])
