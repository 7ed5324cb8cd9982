"""CPU of one cgroup over a window: sliding rates, percentiles, peaks, waiting and throttling.

Core, pure. Rows of the rings go in, a ``CpuWindow`` comes out; ``memory`` does the same of memory. In between are sums;
native/windows.c makes the same of many cgroups at once. What follows from them is told here alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.percentile import percentile
from agent.core.window.policy import WindowPolicy
from agent.core.window.rates import burst_millicores, sliding_rates
from agent.core.window.ring_rows import Has, sums_dtype
from agent.core.window.snapshot import CpuWindow, Gap, Missing
from agent.core.window.steps import NS, PAIR_GAPS, CpuSteps, cpu_steps, gap_ratio

CPU_FIGURES: Final = (
    "last_usage_millicores",
    "usage_p75_millicores",
    "usage_peak_millicores",
    "burst_millicores",
    "adjusted_p75_millicores",
    "adjusted_peak_millicores",
    "last_waiting_ratio",
    "waiting_ratio",
    "last_throttled_ratio",
    "throttled_ratio",
    "throttled_periods_ratio",
)
"""The fields of a CpuWindow that may be None, each with its reason in ``missing``."""


_PRESSURE: Final = int(Has.PRESSURE)
_THROTTLED: Final = int(Has.THROTTLED)
# Plain numbers: enum members slow each use down, and there are hundreds of windows a minute.


def absent_cpu_window(reason: Missing) -> CpuWindow:
    """Return the window of which nothing is known, for one reason."""
    return CpuWindow(
        readings=0,
        gaps={},
        span_seconds=0.0,
        coverage_ratio=0.0,
        last_usage_millicores=None,
        usage_p75_millicores=None,
        usage_peak_millicores=None,
        burst_millicores=None,
        adjusted_p75_millicores=None,
        adjusted_peak_millicores=None,
        last_waiting_ratio=None,
        waiting_ratio=None,
        last_throttled_ratio=None,
        throttled_ratio=None,
        throttled_periods_ratio=None,
        missing=dict.fromkeys(CPU_FIGURES, reason),
    )


def cpu_window(pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int) -> CpuWindow:
    """Return the CPU figures of one cgroup over (end - window, end].

    Rates slide as ``rates.sliding_rates`` defines; each belongs to the moment at which it ends, and reaches back to
    before the window where the rings do. ``last_*`` is the newest pair of good readings: when that pair is a gap there
    is no last figure, so what is given is as old as the newest good reading. Means of waiting and throttling are over
    the pairs that know them, weighted by their length. ``throttled_ratio`` caps each pair at 1.

    More than ``max_gap_ratio`` of the observed part of the window in gaps leaves no percentile. Observed is what lies
    between the oldest row (or the window's start) and its end, so that a young container is not taken for a gap.
    Silence before the end counts once it lasts longer than a step may. Peaks, burst and means stay: they are true of
    what was seen, and a peak that was seen is a floor.

    Args:
        pieces: SAMPLE rows, oldest first, in at most two views; they are not changed.
        end_monotonic_ns: The window's end; later rows are left out, as when stepping back in time.

    Returns:
        All finite; what is not known is None with its reason. Reasons: ``no_signal`` when no reading of the window has
        the signal (or no enforcement period passed, for their share), ``gaps`` when gaps are why, ``out_of_ring`` when
        all rows are later than the end, else ``too_few_samples``.
    """
    return cpu_window_of(cpu_sums(pieces, policy, end_monotonic_ns=end_monotonic_ns), policy)


class CpuSums(NamedTuple):
    """What a CPU window is made of (``pl_cpu_sums`` in C). Without readings all but rows and gaps is 0."""

    rows: int
    """Rows given, later ones included."""
    is_seen: int
    """1 = some row is not later than the window's end."""
    clock: int
    """Pairs of the window that are a gap for this reason; the next three likewise."""
    too_far_apart: int
    counter_reset: int
    implausible: int
    read_failed: int
    """Rows of the window that could not be read; ``parse``: whose text was not understood."""
    parse: int
    readings: int
    """Good ones inside the window."""
    span_ns: int
    covered_ns: int
    """By good pairs; the pair across the window's start counts from the start on."""
    observed_ns: int
    """Of the window, since its oldest row; a silence before the end counts once it lasts longer than a step may."""
    has: int
    """``Has`` bits of any reading."""
    last_has: int
    is_last_good: int
    """1 = the newest pair is no gap."""
    waiting_usec: int
    waiting_ns: int
    """Of the pairs that know waiting; of throttling likewise."""
    throttled_usec: int
    throttled_ns: int
    nr_periods: int
    nr_throttled: int
    last_waiting_usec: int
    """Of the newest pair, 0 where that is a gap; the next three and ``last_usage_millicores`` likewise."""
    last_waiting_ns: int
    last_throttled_usec: int
    last_throttled_ns: int
    good_pairs: int
    rates: int
    """Sliding rates; without any the four figures of them are 0."""
    adjusted_rates: int
    """The same; 0 = waiting is known for none of them."""
    last_usage_millicores: float
    burst_millicores: float
    """0 without a good pair."""
    usage_rank_millicores: float
    """The percentile, and the peak, of the sliding rates; of adjusted ones likewise."""
    usage_peak_millicores: float
    adjusted_rank_millicores: float
    adjusted_peak_millicores: float

    @property
    def gap_counts(self) -> tuple[int, ...]:
        """How many gaps of each reason there are."""
        return self.clock, self.too_far_apart, self.counter_reset, self.implausible, self.read_failed, self.parse


CPU_SUMS: Final = sums_dtype(CpuSums)


def cpu_sums(pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, end_monotonic_ns: int) -> CpuSums:
    """Return the sums of one cgroup over (end - window, end]; arguments as of ``cpu_window``."""
    steps = cpu_steps(pieces, policy, until_ns=end_monotonic_ns)
    nothing = CpuSums(*(0,) * len(CpuSums._fields))._replace(rows=steps.rows)
    if steps.oldest_ns is None:
        return nothing
    start_ns = end_monotonic_ns - int(policy.cpu_window_seconds * NS)
    axis_ns = steps.axis_ns
    count = axis_ns.size
    first = int(axis_ns.searchsorted(start_ns, side="right"))
    lead = max(first - 1, 0)  # the pair that ends in the first reading of the window belongs to it
    gaps = _gap_counts(steps, lead, start_ns)
    if first == count:
        return nothing._replace(is_seen=1, **gaps)

    good = steps.good[lead:]
    last = good.size > 0 and bool(good[-1])
    rates = sliding_rates(steps, policy, first=first, stop=count)
    usage_rank, usage_peak = _rank_and_peak(rates.usage, policy)
    adjusted_rank, adjusted_peak = _rank_and_peak(rates.adjusted, policy)
    observed_from_ns = max(start_ns, min(steps.oldest_ns, int(axis_ns[0])))
    return CpuSums(
        rows=steps.rows,
        is_seen=1,
        **gaps,
        readings=count - first,
        span_ns=int(axis_ns[-1] - axis_ns[first]),
        covered_ns=_covered_ns(steps, first, start_ns),
        observed_ns=_observed_ns(steps, policy, observed_from_ns=observed_from_ns, end_ns=end_monotonic_ns),
        has=int(np.bitwise_or.reduce(steps.has[first:])),
        last_has=int(steps.has[-1]),
        is_last_good=int(last),
        waiting_usec=_sum(steps.waiting_usec[lead:]),
        waiting_ns=_sum(steps.waiting_ns[lead:]),
        throttled_usec=_sum(steps.throttled_usec[lead:]),
        throttled_ns=_sum(steps.throttled_ns[lead:]),
        nr_periods=_sum(steps.nr_periods[lead:]),
        nr_throttled=_sum(steps.nr_throttled[lead:]),
        last_waiting_usec=int(steps.waiting_usec[-1]) if last else 0,
        last_waiting_ns=int(steps.waiting_ns[-1]) if last else 0,
        last_throttled_usec=int(steps.throttled_usec[-1]) if last else 0,
        last_throttled_ns=int(steps.throttled_ns[-1]) if last else 0,
        good_pairs=int(np.count_nonzero(good)),
        rates=rates.usage.size,
        adjusted_rates=0 if rates.adjusted is None else rates.adjusted.size,
        last_usage_millicores=float(steps.usage_millicores[-1]) if last else 0.0,
        burst_millicores=burst_millicores(steps, slice(lead, None)) or 0.0,
        usage_rank_millicores=usage_rank,
        usage_peak_millicores=usage_peak,
        adjusted_rank_millicores=adjusted_rank,
        adjusted_peak_millicores=adjusted_peak,
    )


def cpu_window_of(sums: CpuSums, policy: WindowPolicy) -> CpuWindow:
    """Return the window that these sums make, as ``cpu_window`` says."""
    if not sums.is_seen:
        return absent_cpu_window(Missing.OUT_OF_RING if sums.rows else Missing.TOO_FEW_SAMPLES)
    gaps = {reason: number for reason, number in zip(_GAPS, sums.gap_counts, strict=True) if number}
    if not sums.readings:
        return replace(absent_cpu_window(Missing.GAPS), gaps=gaps)
    has = sums.has
    missing: dict[str, Missing] = {}
    is_whole = not (sums.clock or sums.too_far_apart or sums.counter_reset or sums.implausible)
    because = Missing.TOO_FEW_SAMPLES if is_whole else Missing.GAPS
    waits = because if has & _PRESSURE else Missing.NO_SIGNAL
    throttles = because if has & _THROTTLED else Missing.NO_SIGNAL

    def known(name: str, value: float | None, reason: Missing) -> float | None:
        if value is None:
            missing[name] = reason
        return value

    too_many_gaps = gap_ratio(sums.observed_ns - sums.covered_ns, sums.observed_ns) > policy.max_gap_ratio
    ranks = Missing.GAPS if too_many_gaps else because
    last, rates, adjusted = bool(sums.is_last_good), sums.rates > 0, sums.adjusted_rates > 0
    return CpuWindow(
        readings=sums.readings,
        gaps=gaps,
        span_seconds=sums.span_ns / NS,
        coverage_ratio=min(sums.covered_ns / NS / policy.cpu_window_seconds, 1.0),
        last_usage_millicores=known("last_usage_millicores", sums.last_usage_millicores if last else None, because),
        usage_p75_millicores=known(
            "usage_p75_millicores", sums.usage_rank_millicores if rates and not too_many_gaps else None, ranks
        ),
        usage_peak_millicores=known("usage_peak_millicores", sums.usage_peak_millicores if rates else None, because),
        burst_millicores=known("burst_millicores", sums.burst_millicores if sums.good_pairs else None, because),
        adjusted_p75_millicores=known(
            "adjusted_p75_millicores",
            sums.adjusted_rank_millicores if adjusted and not too_many_gaps else None,
            ranks if has & _PRESSURE else Missing.NO_SIGNAL,
        ),
        adjusted_peak_millicores=known(
            "adjusted_peak_millicores", sums.adjusted_peak_millicores if adjusted else None, waits
        ),
        # The newest reading lost the signal, or what holds for the window.
        last_waiting_ratio=known(
            "last_waiting_ratio",
            _ratio(sums.last_waiting_usec, sums.last_waiting_ns),
            waits if sums.last_has & _PRESSURE else Missing.NO_SIGNAL,
        ),
        waiting_ratio=known("waiting_ratio", _ratio(sums.waiting_usec, sums.waiting_ns), waits),
        last_throttled_ratio=known(
            "last_throttled_ratio",
            _ratio(sums.last_throttled_usec, sums.last_throttled_ns),
            throttles if sums.last_has & _THROTTLED else Missing.NO_SIGNAL,
        ),
        throttled_ratio=known("throttled_ratio", _ratio(sums.throttled_usec, sums.throttled_ns), throttles),
        throttled_periods_ratio=known(
            "throttled_periods_ratio",
            min(sums.nr_throttled / sums.nr_periods, 1.0) if sums.nr_periods else None,
            # Readings without a single period: no cpu.max in force, so the kernel counts none.
            Missing.NO_SIGNAL if sums.throttled_ns else throttles,
        ),
        missing=missing,
    )


_GAPS: Final = (*PAIR_GAPS, Gap.READ_FAILED, Gap.PARSE)
"""In the order of ``CpuSums.gap_counts``."""


def _gap_counts(steps: CpuSteps, lead: int, start_ns: int) -> dict[str, int]:
    """Count the gaps of the window by reason: pairs from ``lead`` on, and rows that could not be read."""
    counts: dict[str, int] = dict.fromkeys(_GAPS, 0)
    if steps.gap_code is not None:
        numbers = np.bincount(steps.gap_code[lead:], minlength=len(PAIR_GAPS) + 1)
        counts.update({gap: int(number) for gap, number in zip(PAIR_GAPS, numbers[1:], strict=True)})
    if steps.failed_ns.size:
        parse = steps.failed_parse[steps.failed_ns > start_ns]
        counts.update({Gap.PARSE: int(parse.sum()), Gap.READ_FAILED: int((~parse).sum())})
    return counts


def _covered_ns(steps: CpuSteps, first: int, start_ns: int) -> int:
    """Return how much of the window good pairs cover; the pair across the window's start counts from the start on."""
    lead = max(first - 1, 0)
    if steps.gap_code is None:
        return int(steps.axis_ns[-1]) - (start_ns if first > 0 else int(steps.axis_ns[0]))
    covered_ns = _sum((steps.elapsed_ns * steps.good)[lead:])
    if first > 0 and steps.good[lead]:
        covered_ns -= start_ns - int(steps.axis_ns[lead])
    return covered_ns


def _observed_ns(steps: CpuSteps, policy: WindowPolicy, *, observed_from_ns: int, end_ns: int) -> int:
    silence_ns = end_ns - int(steps.axis_ns[-1])
    if silence_ns > policy.max_step_seconds * NS:
        return end_ns - observed_from_ns
    return end_ns - observed_from_ns - silence_ns  # the next reading is not overdue yet


def _rank_and_peak(rates: NDArray[np.float64] | None, policy: WindowPolicy) -> tuple[float, float]:
    """Return percentile and maximum; 0 where there are no rates."""
    if rates is None or rates.size == 0:
        return 0.0, 0.0
    return percentile(rates, policy.percentile), float(rates.max())


def _ratio(usec: int, known_ns: int) -> float | None:
    """Return a share of time; None where it is known of no time."""
    return usec * 1000 / known_ns if known_ns else None


def _sum(values: NDArray[np.int64]) -> int:
    return int(np.add.reduce(values))
