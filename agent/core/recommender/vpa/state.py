"""What the policy ``vpa`` has learnt of many containers: histograms, sample facts, memory windows. Core, pure.

Two things are better kept here than in the original: the running memory window with its peaks is part of the saved
state, and weights are saved as they are, not as whole numbers.

Source:
    recommender/model/aggregate_container_state.go of the Vertical Pod Autoscaler 1.8.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import numpy as np

from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.core.numbers.bucket_scheme import ExponentialScheme
from agent.core.numbers.histogram import Histograms
from agent.core.orders.policy_options import VpaOptions
from agent.core.recommender.vpa.estimators import confidence
from agent.core.recommender.vpa.samples import CpuSamples, MemoryPeaks, put_all

Arrays = Mapping[str, Floats | Ints]

CPU_SCHEME: Final = ExponentialScheme(max_value=1000.0, first_bucket_size=0.01, ratio=1.05)
"""Cores: the first bucket is 10 millicores wide, each next one 5 % wider than the one before, up to 1,000 cores."""
MEMORY_SCHEME: Final = ExponentialScheme(max_value=1e12, first_bucket_size=1e7, ratio=1.05)
"""Bytes: from 10 MB on, to 1 TB."""
EPSILON: Final = 1e-4
"""Less weight than this in a bucket is none: a thousandth of a CPU sample."""


def is_expired(last_unix_seconds: Floats, now_unix_seconds: float, retention_seconds: float) -> Bools:
    """Return what is as old as the retention or older."""
    return now_unix_seconds - last_unix_seconds >= retention_seconds


class VpaState:
    """What is known of each of ``rows`` containers.

    Attributes:
        cpu: Count and times of CPU samples, on which confidence and expiry of both resources rest.
        memory: Running windows.
        retention_seconds: Without a CPU sample for so long, what a row has learnt is to be dropped.
    """

    def __init__(self, options: VpaOptions, rows: int) -> None:
        self.retention_seconds: Final = (
            options.memory_aggregation_interval_seconds * options.memory_aggregation_interval_count
        )
        cpu = Histograms(
            CPU_SCHEME, epsilon=EPSILON, rows=rows, half_life_seconds=options.cpu_histogram_decay_half_life_seconds
        )
        memory = Histograms(
            MEMORY_SCHEME,
            epsilon=EPSILON,
            rows=rows,
            half_life_seconds=options.memory_histogram_decay_half_life_seconds,
        )
        self._options = options
        self._learnt: Bools = np.zeros(rows, dtype=np.bool_)
        self._learnt_since_unix_seconds: Floats = np.zeros(rows)
        self._take_over(cpu, memory)

    def _take_over(self, cpu: Histograms, memory: Histograms) -> None:
        rows = self.rows
        if not cpu.rows == memory.rows == rows:
            msg = f"histograms of {cpu.rows} and {memory.rows} rows for {rows}"
            raise ValueError(msg)
        self._cpu_histograms = cpu
        self._memory_histograms = memory
        self._cpu_percentiles = _Percentiles(cpu)
        self._memory_percentiles = _Percentiles(memory)
        self.cpu = CpuSamples(cpu, rows)
        self.memory = MemoryPeaks(
            memory,
            rows,
            interval_seconds=self._options.memory_aggregation_interval_seconds,
            oom_bump_up_ratio=self._options.oom_bump_up_ratio,
            oom_min_bump_up_bytes=self._options.oom_min_bump_up_bytes,
        )

    @property
    def rows(self) -> int:
        """Return how many rows it holds."""
        return self._learnt.size

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        new = rows - self.rows
        if new <= 0:
            return
        self._learnt = np.pad(self._learnt, (0, new))
        self._learnt_since_unix_seconds = np.pad(self._learnt_since_unix_seconds, (0, new))
        self._cpu_histograms.grow(rows)
        self._memory_histograms.grow(rows)
        self._cpu_percentiles.drop()
        self._memory_percentiles.drop()
        self.cpu.grow(rows)
        self.memory.grow(rows)

    def forget(self, rows: Rows) -> None:
        """Clear these rows."""
        self._learnt[rows] = False
        self._learnt_since_unix_seconds[rows] = 0.0
        self._cpu_histograms.forget(rows)
        self._memory_histograms.forget(rows)
        self._cpu_percentiles.changed(rows)
        self._memory_percentiles.changed(rows)
        self.cpu.forget(rows)
        self.memory.forget(rows)

    def add_cpu(self, rows: Rows, usage_millicores: Ints, unix_seconds: float) -> Bools:
        """Add a CPU sample to each of these rows and return which were accepted; see ``CpuSamples.add``."""
        accepted = self.cpu.add(rows, usage_millicores, unix_seconds)
        self._has_learnt(rows[accepted], unix_seconds)
        self._cpu_percentiles.changed(rows[accepted])
        return accepted

    def add_memory(self, rows: Rows, usage_bytes: Ints, unix_seconds: float) -> Bools:
        """Add a memory sample to each of these rows and return which were accepted; see ``MemoryPeaks.add_usage``."""
        accepted, changed = self.memory.add_usage(rows, usage_bytes, unix_seconds)
        self._has_learnt(rows[accepted], unix_seconds)
        self._memory_percentiles.changed(changed)
        return accepted

    def add_oom(self, row: int, request_bytes: int, unix_seconds: float) -> bool:
        """Add an out-of-memory kill and return whether it was accepted; see ``MemoryPeaks.record_oom``."""
        accepted = self.memory.record_oom(row, request_bytes, unix_seconds)
        if accepted:
            rows = np.array([row], dtype=np.intp)
            self._has_learnt(rows, unix_seconds)
            self._memory_percentiles.changed(rows)
        return accepted

    def _has_learnt(self, rows: Rows, unix_seconds: float) -> None:
        first = rows[~self._learnt[rows]]
        if first.size:
            self._learnt[first] = True
            self._learnt_since_unix_seconds[first] = unix_seconds

    def expired(self, now_unix_seconds: float, rows: Rows | None = None) -> Bools:
        """Return which rows (None = all) have something to drop by now.

        Until the first CPU sample, the time when anything was learnt first stands in for it: memory alone keeps no row.
        """
        chosen = np.s_[:] if rows is None else rows
        newest = np.where(
            self.cpu.counts[chosen] > 0, self.cpu.last_unix_seconds[chosen], self._learnt_since_unix_seconds[chosen]
        )
        return self._learnt[chosen] & is_expired(newest, now_unix_seconds, self.retention_seconds)

    def confidences(self, rows: Rows, interval_seconds: float) -> Floats:
        """Return how much history these rows have, in intervals; see ``estimators.confidence``."""
        return confidence(
            self.cpu.first_unix_seconds[rows],
            self.cpu.last_unix_seconds[rows],
            self.cpu.counts[rows],
            interval_seconds=interval_seconds,
        )

    def cpu_percentile(self, p: float, rows: Rows) -> Floats:
        """Return a percentile of CPU usage, cores, 0.0 where there is none."""
        return self._cpu_percentiles.of(p, rows)

    def memory_percentile(self, p: float, rows: Rows) -> Floats:
        """Return a percentile of memory peaks, bytes, 0.0 where there is none."""
        return self._memory_percentiles.of(p, rows)

    def to_arrays(self) -> dict[str, Floats | Ints]:
        """Return all that is known, exactly, for ``from_arrays``: by name, the first axis of each array is the row.

        So rows may be left out or put elsewhere by whoever keeps them; 2.8 kB per row.
        """
        return {
            "learnt": self._learnt.astype(np.int64),
            "learnt_since_unix_seconds": self._learnt_since_unix_seconds.copy(),
            **{f"cpu_{name}": array for name, array in self.cpu.to_arrays().items()},
            **{f"memory_{name}": array for name, array in self.memory.to_arrays().items()},
            **{f"cpu_histogram_{name}": array for name, array in _by_row(self._cpu_histograms).items()},
            **{f"memory_histogram_{name}": array for name, array in _by_row(self._memory_histograms).items()},
        }

    @classmethod
    def from_arrays(cls, options: VpaOptions, arrays: Arrays) -> Self:
        """Return the state that ``to_arrays`` gave, or raise ValueError; under other half-lives it is another."""
        try:
            state = cls(options, arrays["learnt"].size)
            state._learnt[:] = arrays["learnt"]
            put_all(state._learnt_since_unix_seconds, arrays["learnt_since_unix_seconds"])
            cpu = Histograms.from_arrays(
                CPU_SCHEME,
                _by_entry(_of_part(arrays, "cpu_histogram_")),
                epsilon=EPSILON,
                half_life_seconds=options.cpu_histogram_decay_half_life_seconds,
            )
            memory = Histograms.from_arrays(
                MEMORY_SCHEME,
                _by_entry(_of_part(arrays, "memory_histogram_")),
                epsilon=EPSILON,
                half_life_seconds=options.memory_histogram_decay_half_life_seconds,
            )
            state._take_over(cpu, memory)
            state.cpu.restore(_of_part(arrays, "cpu_"))
            state.memory.restore(_of_part(arrays, "memory_"))
        except (KeyError, ValueError) as error:
            msg = f"state of the policy vpa as arrays: {error}"
            raise ValueError(msg) from error
        return state


def _of_part(arrays: Arrays, prefix: str) -> dict[str, Floats | Ints]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _by_row(histograms: Histograms) -> dict[str, Floats | Ints]:
    """Return histograms as arrays of one row each: a row's weights take the place of the entries of all."""
    arrays = histograms.to_arrays()
    weights = np.zeros((histograms.rows, histograms.scheme.count))
    weights[arrays.pop("entry_rows"), arrays.pop("entry_buckets")] = arrays.pop("entry_weights")
    return {"weights": weights, **arrays}


def _by_entry(arrays: dict[str, Floats | Ints]) -> dict[str, Floats | Ints]:
    """Return what ``_by_row`` gave as ``Histograms.from_arrays`` takes it."""
    weights = arrays.pop("weights")
    if weights.shape[:1] != arrays["total_weights"].shape:
        msg = f"weights of shape {weights.shape} for totals of {arrays['total_weights'].shape}"
        raise ValueError(msg)
    entry_rows, entry_buckets = np.nonzero(weights)
    entries = {"entry_rows": entry_rows, "entry_buckets": entry_buckets}
    return {**arrays, **entries, "entry_weights": weights[entry_rows, entry_buckets]}


class _Percentiles:
    """Percentiles of histograms, kept until a row's samples change: memory's rarely do."""

    def __init__(self, histograms: Histograms) -> None:
        self._histograms = histograms
        self._kept: dict[float, tuple[Floats, Bools]] = {}

    def drop(self) -> None:
        self._kept.clear()

    def changed(self, rows: Rows) -> None:
        for _, is_stale in self._kept.values():
            is_stale[rows] = True

    def of(self, p: float, rows: Rows) -> Floats:
        if p not in self._kept:
            self._kept[p] = np.zeros(self._histograms.rows), np.ones(self._histograms.rows, dtype=np.bool_)
        values, is_stale = self._kept[p]
        if is_stale[rows].any():
            stale = np.flatnonzero(is_stale)
            values[stale] = self._histograms.percentile(p, stale)
            is_stale[stale] = False
        return values[rows]
