"""What the policy ``vpa`` keeps of samples: CPU usage as it comes, of memory one peak per window. Core, pure.

Many containers at once, one row each. A checkpoint of the original loses the running window and its peaks; here they
are part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.core.numbers.integer_amounts import memory_from_bytes, scale

CPU_SAMPLE_WEIGHT: Final = 0.1
"""Every CPU sample weighs the same."""
PEAK_WEIGHT: Final = 1.0
"""Every memory peak weighs the same."""
NANOCORES_PER_MILLICORE: Final = 1e6


class SampleHistograms(Protocol):
    """Where samples go: the part of ``histogram.Histograms`` that is needed here."""

    def add(self, rows: Rows, values: Floats, weights: Floats, unix_seconds: Floats) -> None:
        """Add one sample to each of these rows; no row twice."""

    def subtract(self, rows: Rows, values: Floats, weights: Floats, unix_seconds: Floats) -> None:
        """Subtract what was added before."""


def whole_millicores(usage_millicores: ArrayLike) -> Ints:
    """Round measured CPU up to whole millicores, as a Quantity's milli value is.

    The metric is a whole number of nanocores; rounding to that first keeps 120.00000000000001 from becoming 121.
    """
    nanocores = np.rint(np.asarray(usage_millicores, dtype=np.float64) * NANOCORES_PER_MILLICORE)
    return np.ceil(nanocores / NANOCORES_PER_MILLICORE).astype(np.int64)


def put_all(target: Floats | Ints | Bools, saved: Floats | Ints) -> None:
    """Fill an array with what was saved of one as long."""
    if saved.shape != target.shape:
        msg = f"an array of shape {saved.shape} for {target.shape}"
        raise ValueError(msg)
    target[:] = saved


class CpuSamples:
    """CPU samples of many containers: their histograms, and how many came from when to when.

    First, last and count are what confidence, emptiness and expiry of memory rest on, too.

    Attributes:
        counts: Samples accepted, shape ``(n,)``; 0 = none yet, and then the two below mean nothing.
        first_unix_seconds: Time of the first sample.
        last_unix_seconds: Time of the last sample.

    Source:
        recommender/model/container.go and aggregate_container_state.go of the Vertical Pod Autoscaler 1.8.1.
    """

    def __init__(self, histograms: SampleHistograms, rows: int) -> None:
        self._histograms = histograms
        self.counts: Ints = np.zeros(rows, dtype=np.int64)
        self.first_unix_seconds: Floats = np.zeros(rows)
        self.last_unix_seconds: Floats = np.zeros(rows)

    def grow(self, rows: int) -> None:
        """Grow to so many rows, not fewer than now."""
        new = rows - self.counts.size
        self.counts = np.pad(self.counts, (0, new))
        self.first_unix_seconds = np.pad(self.first_unix_seconds, (0, new))
        self.last_unix_seconds = np.pad(self.last_unix_seconds, (0, new))

    def forget(self, rows: Rows) -> None:
        """Clear these rows; their histograms are the owner's to empty."""
        for array in (self.counts, self.first_unix_seconds, self.last_unix_seconds):
            array[rows] = 0

    def add(self, rows: Rows, usage_millicores: ArrayLike, unix_seconds: float) -> Bools:
        """Add one sample, whole millicores, to each of these rows, none twice; return which were accepted.

        A negative one, or one not newer than the last, is dropped.
        """
        usage = np.asarray(usage_millicores, dtype=np.int64)
        counts = self.counts[rows]
        accepted: Bools = (usage >= 0) & ((counts == 0) | (unix_seconds > self.last_unix_seconds[rows]))
        if not accepted.all():
            rows, usage, counts = rows[accepted], usage[accepted], counts[accepted]
        if len(rows):
            times = np.full(len(rows), unix_seconds)
            self._histograms.add(rows, usage / 1000.0, np.full(len(rows), CPU_SAMPLE_WEIGHT), times)
            self.first_unix_seconds[rows[counts == 0]] = unix_seconds
            self.last_unix_seconds[rows] = unix_seconds
            self.counts[rows] = counts + 1
        return accepted

    def to_arrays(self) -> dict[str, Floats | Ints]:
        """Return the state, without the histograms, as arrays of shape ``(n,)``."""
        return {
            "counts": self.counts.copy(),
            "first_unix_seconds": self.first_unix_seconds.copy(),
            "last_unix_seconds": self.last_unix_seconds.copy(),
        }

    def restore(self, arrays: Mapping[str, Floats | Ints]) -> None:
        """Restore what ``to_arrays`` returned."""
        put_all(self.counts, arrays["counts"])
        put_all(self.first_unix_seconds, arrays["first_unix_seconds"])
        put_all(self.last_unix_seconds, arrays["last_unix_seconds"])


class MemoryPeaks:
    """Memory samples of many containers, of which the histograms keep one peak per window.

    A window begins with a container's first sample and is as long as the interval; the peak carries the time of the
    window's **end**, in the future. Within a window a larger peak takes the place of the old one. A window that begins
    with 0 bytes keeps its 0, whatever comes: so does the original.

    Attributes:
        interval_seconds: Length of a window.
        known: A sample was accepted, shape ``(n,)``; where not, the arrays below mean nothing.
        window_end_unix_seconds: End of the running window, not part of it.
        last_unix_seconds: Time of the last accepted sample; a kill sets it too, even backwards.
        usage_peak_bytes: Peak of the running window from usage.
        oom_peak_bytes: Peak of the running window from out-of-memory kills.

    Source:
        recommender/model/container.go of the Vertical Pod Autoscaler 1.8.1.
    """

    def __init__(
        self,
        histograms: SampleHistograms,
        rows: int,
        *,
        interval_seconds: float,
        oom_bump_up_ratio: float,
        oom_min_bump_up_bytes: float,
    ) -> None:
        self._histograms = histograms
        self.interval_seconds: Final = interval_seconds
        self._oom_bump_up_ratio = oom_bump_up_ratio
        self._oom_min_bump_up_bytes = int(memory_from_bytes(oom_min_bump_up_bytes))
        self.known: Bools = np.zeros(rows, dtype=np.bool_)
        self.window_end_unix_seconds: Floats = np.zeros(rows)
        self.last_unix_seconds: Floats = np.zeros(rows)
        self.usage_peak_bytes: Ints = np.zeros(rows, dtype=np.int64)
        self.oom_peak_bytes: Ints = np.zeros(rows, dtype=np.int64)

    def grow(self, rows: int) -> None:
        """Grow to so many rows, not fewer than now."""
        new = rows - self.known.size
        self.known = np.pad(self.known, (0, new))
        self.window_end_unix_seconds = np.pad(self.window_end_unix_seconds, (0, new))
        self.last_unix_seconds = np.pad(self.last_unix_seconds, (0, new))
        self.usage_peak_bytes = np.pad(self.usage_peak_bytes, (0, new))
        self.oom_peak_bytes = np.pad(self.oom_peak_bytes, (0, new))

    def forget(self, rows: Rows) -> None:
        """Clear these rows; their histograms are the owner's to empty."""
        self.known[rows] = False
        for array in (self.window_end_unix_seconds, self.last_unix_seconds, self.usage_peak_bytes, self.oom_peak_bytes):
            array[rows] = 0

    def add_usage(self, rows: Rows, usage_bytes: ArrayLike, unix_seconds: float) -> tuple[Bools, Rows]:
        """Add one sample, whole bytes, to each of these rows, none twice; drop what is negative or older than the last.

        Returns which were accepted, and the rows whose histogram changed.
        """
        usage = np.asarray(usage_bytes, dtype=np.int64)
        accepted = (usage >= 0) & ~(self.known[rows] & (unix_seconds < self.last_unix_seconds[rows]))
        if not accepted.all():
            rows, usage = rows[accepted], usage[accepted]
        counted = self._add(rows, usage, unix_seconds)
        self.usage_peak_bytes[rows[counted]] = usage[counted]
        return accepted, rows[counted]

    def record_oom(self, row: int, request_bytes: int, unix_seconds: float) -> bool:
        """Add what a container would have needed when it was killed for want of memory; return whether it was accepted.

        That is the larger of the request and the usage peak of the window, bumped up. The peak of earlier kills is left
        out, so that kills in a row do not drive the answer up without end. One that is older than the last sample by
        more than an interval is not accepted.
        """
        if self.known[row] and unix_seconds < self.last_unix_seconds[row] - self.interval_seconds:
            return False
        used = max(request_bytes, int(self.usage_peak_bytes[row]))
        needed = max(used + self._oom_min_bump_up_bytes, int(scale(used, self._oom_bump_up_ratio)))
        rows, needs = np.array([row], dtype=np.intp), np.array([needed], dtype=np.int64)
        counted = self._add(rows, needs, unix_seconds)
        self.oom_peak_bytes[rows[counted]] = needed
        return True

    def _add(self, rows: Rows, amounts: Ints, unix_seconds: float) -> Bools:
        """Bring accepted samples into windows and histograms; say which counted as a new peak, shape ``(k,)``."""
        self.last_unix_seconds[rows] = unix_seconds
        # A first sample finds its window ended, and so opens one.
        ends = np.where(self.known[rows], self.window_end_unix_seconds[rows], unix_seconds)
        self.known[rows] = True
        old_peaks = np.maximum(self.usage_peak_bytes[rows], self.oom_peak_bytes[rows])
        opens = unix_seconds >= ends
        replaces = ~opens & (old_peaks != 0) & (amounts > old_peaks)
        if opens.any():
            opened = rows[opens]
            lapsed_intervals = np.floor_divide(unix_seconds - ends[opens], self.interval_seconds)
            ends[opens] += lapsed_intervals * self.interval_seconds + self.interval_seconds
            self.window_end_unix_seconds[opened] = ends[opens]
            self.usage_peak_bytes[opened] = 0
            self.oom_peak_bytes[opened] = 0
        if replaces.any():
            ones = np.full(int(replaces.sum()), PEAK_WEIGHT)
            self._histograms.subtract(rows[replaces], old_peaks[replaces].astype(np.float64), ones, ends[replaces])
        counted: Bools = opens | replaces
        if counted.any():
            ones = np.full(int(counted.sum()), PEAK_WEIGHT)
            self._histograms.add(rows[counted], amounts[counted].astype(np.float64), ones, ends[counted])
        return counted

    def to_arrays(self) -> dict[str, Floats | Ints]:
        """Return the state, without the histograms, as arrays of shape ``(n,)``."""
        return {
            "known": self.known.astype(np.int64),
            "window_end_unix_seconds": self.window_end_unix_seconds.copy(),
            "last_unix_seconds": self.last_unix_seconds.copy(),
            "usage_peak_bytes": self.usage_peak_bytes.copy(),
            "oom_peak_bytes": self.oom_peak_bytes.copy(),
        }

    def restore(self, arrays: Mapping[str, Floats | Ints]) -> None:
        """Restore what ``to_arrays`` returned."""
        put_all(self.known, arrays["known"])
        put_all(self.window_end_unix_seconds, arrays["window_end_unix_seconds"])
        put_all(self.last_unix_seconds, arrays["last_unix_seconds"])
        put_all(self.usage_peak_bytes, arrays["usage_peak_bytes"])
        put_all(self.oom_peak_bytes, arrays["oom_peak_bytes"])
