"""The rows of many reports as arrays of whole numbers: what a sketch counts of each of them. Core, pure.

Arrays hold numbers of 64 bits. A row with an amount so large that sums of such might not fit is in no array, and nor is
what is seldom: a row with kills, or one that cannot be. Who reads the arrays adds such rows one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Final

import numpy as np

from agent.core.history.minute.minute_codec import encode
from agent.core.history.minute.minutes import CPU_STEPS, KIB
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, SampledRow, SampledSignal
from agent.core.history.workloads.hour_sketch import CPU_UNIT, MICRO
from agent.core.history.workloads.pod_count import pod_number
from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.numbers.bucket_scheme import ExponentialScheme

ROWS_ADDED: Final = 1 << 17
"""So many rows may be added up: neither sums nor counts leave their bits then."""
_MOST_AMOUNT: Final = float(1 << 45)
"""Of a row: 35 TB of memory in all its samples, or 117 GB requested for five minutes. `ROWS_ADDED` of them: 62 bits."""
_MOST_SAMPLES: Final = 1 << 14
"""Of a row in one bucket: 20 Hz for 13 minutes. `ROWS_ADDED` of them: 31 bits."""
_MOST_COVERED_MICROS: Final = float(1 << 40)
_MOST_COUNT: Final = 1 << 22
"""Samples of a row: times the microseconds of its interval, 62 bits."""


class Sum(IntEnum):
    """What of rows is added up."""

    ROWS = 0
    COVERED = 1
    """Microseconds, as all times."""
    THROTTLED = 2
    THROTTLED_ROWS = 3
    WAITING = 4
    WAITING_ROWS = 5
    CPU_COUNT = 6
    CPU_TOTAL = 7
    MEMORY_COUNT = 8
    MEMORY_TOTAL = 9
    DEMAND_COUNT = 10
    DEMAND_TOTAL = 11
    CPU_REQUEST = 12
    """This and the next two as in ``RequestTime``."""
    CPU_REQUEST_SECONDS = 13
    CPU_REQUEST_SHORT = 14
    MEMORY_REQUEST = 15
    MEMORY_REQUEST_SECONDS = 16
    MEMORY_REQUEST_SHORT = 17


POD_SUMS: Final = slice(Sum.CPU_COUNT, Sum.MEMORY_TOTAL + 1)
"""Those of a pod, in the order of ``PodSums``."""


class Signal(IntEnum):
    """Of what there are samples."""

    CPU = 0
    DEMAND = 1
    MEMORY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RowHistograms:
    """Histograms of one signal, shape ``(entries,)``."""

    rows: Ints
    """Of which row each entry is."""
    buckets: Ints
    counts: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """Rows, and as arrays those that are ordinary; their amounts are finite and not negative, their buckets exist."""

    rows: Sequence[SampledRow]
    odd: tuple[int, ...]
    """Places of the rows that are in no array."""
    ordinary: Ints
    """Places of the others, shape ``(ordinary,)``."""
    sums: Ints
    """By `Sum`, shape ``(ordinary, sums)``."""
    largest: Ints
    """Whole amounts by `Signal`, 0 where there are no samples; shape ``(ordinary, signals)``."""
    codes: Ints
    """Of the largest demand and of the largest memory, 0 = no samples; shape ``(ordinary, 2)``."""
    histograms: tuple[RowHistograms, ...]
    """By `Signal`."""
    pods: Ints
    """Their hashes, shape ``(ordinary,)``."""

    @classmethod
    def of(cls, rows: Sequence[SampledRow]) -> RowColumns:
        """Return these rows."""
        try:
            draft = _Draft(rows)
            is_ordinary = draft.is_ordinary
        except OverflowError:
            is_ordinary = np.array([_fits(row) for row in rows], dtype=np.bool_)
        ordinary = np.flatnonzero(is_ordinary)
        if ordinary.size < len(rows):
            draft = _Draft([rows[place] for place in ordinary.tolist()])
        return cls(
            rows=rows,
            odd=tuple(np.flatnonzero(~is_ordinary).tolist()),
            ordinary=ordinary,
            sums=draft.sums,
            largest=draft.largest,
            codes=draft.codes,
            histograms=tuple(draft.histograms),
            pods=draft.pods,
        )


def _fits(row: SampledRow) -> bool:
    try:
        return bool(_Draft([row]).is_ordinary[0])
    except OverflowError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """How a signal's amounts become whole numbers."""

    unit: int
    """Whole amounts in one of the row's."""
    steps: float
    """Of the code of a maximum, in one of the row's."""
    starts: Floats
    """Of its buckets, shape ``(buckets,)``."""

    @classmethod
    def of(cls, scheme: ExponentialScheme, unit: int, steps: float) -> _Scale:
        return cls(unit=unit, steps=steps, starts=np.concatenate([[0.0], scheme.ends[:-1]]))


_CPU_SCALE: Final = _Scale.of(CPU_BUCKETS, CPU_UNIT, CPU_STEPS)
_MEMORY_SCALE: Final = _Scale.of(MEMORY_BUCKETS, 1, 1 / KIB)


class _Draft:
    """Rows as arrays, and which of them are ordinary; of the others the arrays mean nothing.

    Raises:
        OverflowError: A number has no room in an array.
    """

    def __init__(self, rows: Sequence[SampledRow]) -> None:
        size = len(rows)
        self.is_ordinary: Bools = np.array(
            [not row.oom_kills and (row.cpu is not None or row.cpu_adjusted is None) for row in rows], dtype=np.bool_
        )
        self.sums: Ints = np.zeros((size, len(Sum)), dtype=np.int64)
        self.largest: Ints = np.zeros((size, len(Signal)), dtype=np.int64)
        self.codes: Ints = np.zeros((size, 2), dtype=np.int64)
        self.histograms: list[RowHistograms] = []
        self.pods: Ints = np.array([pod_number(row.pod_uid) for row in rows], dtype=np.int64)
        with np.errstate(invalid="ignore", over="ignore"):  # what cannot be is marked, and read by nobody
            self._fill(rows)

    def _fill(self, rows: Sequence[SampledRow]) -> None:
        self.sums[:, Sum.ROWS] = 1
        covered_seconds = np.array([row.covered_seconds for row in rows], dtype=np.float64)
        covered = np.rint(covered_seconds * MICRO)
        self.is_ordinary &= (covered >= 0.0) & (covered < _MOST_COVERED_MICROS)
        self.sums[:, Sum.COVERED] = covered.astype(np.int64)
        self._put_seconds(Sum.THROTTLED, [row.throttled_seconds for row in rows])
        self._put_seconds(Sum.WAITING, [row.waiting_seconds for row in rows])
        cpu = [row.cpu for row in rows]
        adjusted = [(row.cpu_adjusted or row.cpu) if row.cpu is not None else None for row in rows]
        self._put_samples(Signal.CPU, Sum.CPU_COUNT, 0, cpu, _CPU_SCALE)
        self._put_samples(Signal.DEMAND, Sum.DEMAND_COUNT, 0, adjusted, _CPU_SCALE)
        self._put_samples(Signal.MEMORY, Sum.MEMORY_COUNT, 1, [row.memory for row in rows], _MEMORY_SCALE)
        self._put_request(
            Sum.CPU_REQUEST, [row.cpu_request_millicores for row in rows], covered_seconds, Signal.CPU, _CPU_SCALE
        )
        self._put_request(
            Sum.MEMORY_REQUEST,
            [row.memory_request_bytes for row in rows],
            covered_seconds,
            Signal.MEMORY,
            _MEMORY_SCALE,
        )

    def _put_seconds(self, place: int, seconds: list[float | None]) -> None:
        """Put in a time, and in how many rows it is known."""
        is_known = np.array([duration is not None for duration in seconds], dtype=np.bool_)
        micros = np.where(is_known, np.rint(np.array(seconds, dtype=np.float64) * MICRO), 0.0)
        self.is_ordinary &= (micros >= 0.0) & (micros < _MOST_AMOUNT)
        self.sums[:, place] = micros.astype(np.int64)
        self.sums[:, place + 1] = is_known

    def _put_samples(
        self, signal: Signal, place: int, code: int, distributions: list[SampledSignal | None], scale: _Scale
    ) -> None:
        known_distributions = [distribution for distribution in distributions if distribution is not None]
        size = len(known_distributions)
        rows = np.array(
            [row for row, distribution in enumerate(distributions) if distribution is not None], dtype=np.int64
        )
        count = np.array([distribution.count for distribution in known_distributions], dtype=np.int64)
        total = np.rint(
            np.array([distribution.sum for distribution in known_distributions], dtype=np.float64) * scale.unit
        )
        maximum = np.array([distribution.max for distribution in known_distributions], dtype=np.float64)
        largest = np.ceil(maximum * scale.unit)
        histograms = [distribution.buckets for distribution in known_distributions]
        sizes = np.fromiter(map(len, histograms), np.int64, size)
        entries = int(sizes.sum())
        of_row = np.repeat(rows, sizes)
        buckets = np.fromiter(chain.from_iterable(histograms), np.int64, entries)
        counts = np.fromiter(chain.from_iterable([histogram.values() for histogram in histograms]), np.int64, entries)
        is_good = (count > 0) & (count < _MOST_COUNT) & (sizes > 0)
        is_good &= (total >= 0.0) & (total < _MOST_AMOUNT) & (largest >= 0.0) & (largest < _MOST_AMOUNT)
        self.is_ordinary[rows[~is_good]] = False
        if entries and not (
            buckets.min() >= 0
            and buckets.max() < scale.starts.size
            and counts.min() > 0
            and counts.max() < _MOST_SAMPLES
        ):
            is_fit = (buckets >= 0) & (buckets < scale.starts.size) & (counts > 0) & (counts < _MOST_SAMPLES)
            self.is_ordinary[of_row[~is_fit]] = False
        self.sums[rows, place] = count
        self.sums[rows, place + 1] = total.astype(np.int64)
        self.largest[rows, signal] = largest.astype(np.int64)
        codes = encode(np.ceil(maximum * scale.steps), is_good)
        self.codes[rows, code] = np.maximum(self.codes[rows, code], codes)
        self.histograms.append(RowHistograms(rows=of_row, buckets=buckets, counts=counts))

    def _put_request(
        self, place: int, amounts: list[int | None], covered_seconds: Floats, signal: Signal, scale: _Scale
    ) -> None:
        """Put in how long it was known, that times the request, and for how long more was used."""
        size = len(amounts)
        if amounts.count(None) == size:
            return
        is_known = np.array([request is not None for request in amounts], dtype=np.bool_)
        amount = np.where(is_known, np.array(amounts, dtype=np.float64), 0.0)
        amount_seconds = np.rint(amount * covered_seconds)
        self.is_ordinary &= (amount >= 0.0) & (amount_seconds >= 0.0) & (amount_seconds < _MOST_AMOUNT)
        self.sums[:, place] = np.where(is_known, self.sums[:, Sum.COVERED], 0)
        self.sums[:, place + 1] = amount_seconds.astype(np.int64)
        used = self.histograms[signal]
        is_above = scale.starts.take(used.buckets, mode="clip") >= amount[used.rows]
        above = np.zeros(size, dtype=np.int64)
        np.add.at(above, used.rows[is_above], used.counts[is_above])
        self.is_ordinary &= above < _MOST_COUNT
        count = self.sums[:, Sum.CPU_COUNT if signal is Signal.CPU else Sum.MEMORY_COUNT]
        short = self.sums[:, place] * above // np.maximum(count, 1)
        self.sums[:, place + 2] = np.where(amount > 0.0, short, 0)
