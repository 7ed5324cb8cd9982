"""CPU of one cgroup over a window: sliding rates, percentiles, peaks, waiting and throttling.

Core, pure. Rows of the rings go in, a ``CpuWindow`` comes out; memory has ``memory.memory_window``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers.percentile import percentile
from agent.core.window.policy import WindowPolicy
from agent.core.window.rates import burst_millicores, sliding_rates
from agent.core.window.ring_rows import Has
from agent.core.window.snapshot import CpuWindow, Gap, Missing
from agent.core.window.steps import NS, PAIR_GAPS, CpuSteps, cpu_steps

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
    steps = cpu_steps(pieces, policy, until_ns=end_monotonic_ns)
    if steps.oldest_ns is None:
        return absent_cpu_window(Missing.OUT_OF_RING if steps.rows else Missing.TOO_FEW_SAMPLES)
    start_ns = end_monotonic_ns - int(policy.cpu_window_seconds * NS)
    axis_ns = steps.axis_ns
    count = axis_ns.size
    first = int(axis_ns.searchsorted(start_ns, side="right"))
    lead = max(first - 1, 0)  # the pair that ends in the first reading of the window belongs to it
    gaps = _gaps(steps, lead, start_ns)
    if first == count:
        return replace(absent_cpu_window(Missing.GAPS), gaps=gaps)

    good = steps.good[lead:]
    covered_ns = _covered_ns(steps, first, start_ns)
    observed_from_ns = max(start_ns, min(steps.oldest_ns, int(axis_ns[0])))
    gap_ratio = _gap_ratio(steps, covered_ns, policy, observed_from_ns=observed_from_ns, end_ns=end_monotonic_ns)
    has = int(np.bitwise_or.reduce(steps.has[first:]))
    missing: dict[str, Missing] = {}
    is_whole = steps.gap_code is None or np.count_nonzero(good) == good.size
    because = Missing.TOO_FEW_SAMPLES if is_whole else Missing.GAPS
    waits = because if has & _PRESSURE else Missing.NO_SIGNAL
    throttles = because if has & _THROTTLED else Missing.NO_SIGNAL

    def known(name: str, value: float | None, reason: Missing) -> float | None:
        if value is None:
            missing[name] = reason
        return value

    rates = sliding_rates(steps, policy, first=first, stop=count)
    too_many_gaps = gap_ratio > policy.max_gap_ratio
    usage_p75, usage_peak = _rank_and_peak(rates.usage, policy, peak_only=too_many_gaps)
    adjusted_p75, adjusted_peak = _rank_and_peak(rates.adjusted, policy, peak_only=too_many_gaps)
    ranks = Missing.GAPS if too_many_gaps else because
    last = good.size > 0 and bool(good[-1])
    periods = _sum(steps.nr_periods[lead:])
    throttled_known_ns = _sum(steps.throttled_ns[lead:])
    return CpuWindow(
        readings=count - first,
        gaps=gaps,
        span_seconds=int(axis_ns[-1] - axis_ns[first]) / NS,
        coverage_ratio=min(covered_ns / NS / policy.cpu_window_seconds, 1.0),
        last_usage_millicores=known(
            "last_usage_millicores", float(steps.usage_millicores[-1]) if last else None, because
        ),
        usage_p75_millicores=known("usage_p75_millicores", usage_p75, ranks),
        usage_peak_millicores=known("usage_peak_millicores", usage_peak, because),
        burst_millicores=known("burst_millicores", burst_millicores(steps, slice(lead, None)), because),
        adjusted_p75_millicores=known(
            "adjusted_p75_millicores", adjusted_p75, ranks if has & _PRESSURE else Missing.NO_SIGNAL
        ),
        adjusted_peak_millicores=known("adjusted_peak_millicores", adjusted_peak, waits),
        last_waiting_ratio=known(
            "last_waiting_ratio",
            _ratio(int(steps.waiting_usec[-1]), int(steps.waiting_ns[-1])) if last else None,
            _last_reason(steps, _PRESSURE, waits),
        ),
        waiting_ratio=known(
            "waiting_ratio", _ratio(_sum(steps.waiting_usec[lead:]), _sum(steps.waiting_ns[lead:])), waits
        ),
        last_throttled_ratio=known(
            "last_throttled_ratio",
            _ratio(int(steps.throttled_usec[-1]), int(steps.throttled_ns[-1])) if last else None,
            _last_reason(steps, _THROTTLED, throttles),
        ),
        throttled_ratio=known(
            "throttled_ratio", _ratio(_sum(steps.throttled_usec[lead:]), throttled_known_ns), throttles
        ),
        throttled_periods_ratio=known(
            "throttled_periods_ratio",
            min(_sum(steps.nr_throttled[lead:]) / periods, 1.0) if periods else None,
            # Readings without a single period: no cpu.max in force, so the kernel counts none.
            Missing.NO_SIGNAL if throttled_known_ns else throttles,
        ),
        missing=missing,
    )


def _gaps(steps: CpuSteps, lead: int, start_ns: int) -> dict[Gap, int]:
    """Count the gaps of the window by reason: pairs from ``lead`` on, and rows that could not be read."""
    counts: Counter[Gap] = Counter()
    if steps.gap_code is not None:
        numbers = np.bincount(steps.gap_code[lead:], minlength=len(PAIR_GAPS) + 1)
        counts.update({gap: int(number) for gap, number in zip(PAIR_GAPS, numbers[1:], strict=True) if number})
    if steps.failed_ns.size:
        parse = steps.failed_parse[steps.failed_ns > start_ns]
        unread = Counter({Gap.PARSE: int(parse.sum()), Gap.READ_FAILED: int((~parse).sum())})
        counts.update(+unread)
    return dict(counts)


def _covered_ns(steps: CpuSteps, first: int, start_ns: int) -> int:
    """Return how much of the window good pairs cover; the pair across the window's start counts from the start on."""
    lead = max(first - 1, 0)
    if steps.gap_code is None:
        return int(steps.axis_ns[-1]) - (start_ns if first > 0 else int(steps.axis_ns[0]))
    covered_ns = _sum((steps.elapsed_ns * steps.good)[lead:])
    if first > 0 and steps.good[lead]:
        covered_ns -= start_ns - int(steps.axis_ns[lead])
    return covered_ns


def _gap_ratio(steps: CpuSteps, covered_ns: int, policy: WindowPolicy, *, observed_from_ns: int, end_ns: int) -> float:
    """Return the share of the observed part of the window that no good pair covers, 0..1."""
    observed_ns = end_ns - observed_from_ns
    silence_ns = end_ns - int(steps.axis_ns[-1])
    if silence_ns <= policy.max_step_seconds * NS:
        observed_ns -= silence_ns  # the next reading is not overdue yet
    return (observed_ns - covered_ns) / observed_ns if observed_ns > 0 else 0.0


def _rank_and_peak(
    rates: NDArray[np.float64] | None, policy: WindowPolicy, *, peak_only: bool
) -> tuple[float | None, float | None]:
    """Return percentile and maximum; None where there are no rates."""
    if rates is None or rates.size == 0:
        return None, None
    return None if peak_only else percentile(rates, policy.percentile), float(rates.max())


def _ratio(usec: int, known_ns: int) -> float | None:
    """Return a share of time; None where it is known of no time."""
    return usec * 1000 / known_ns if known_ns else None


def _sum(values: NDArray[np.int64]) -> int:
    return int(np.add.reduce(values))


def _last_reason(steps: CpuSteps, bit: int, otherwise: Missing) -> Missing:
    """Return why a newest figure is missing: the newest reading lost the signal, or what holds for the window."""
    return otherwise if int(steps.has[-1]) & bit else Missing.NO_SIGNAL
