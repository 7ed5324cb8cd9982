from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from agent.core.history.workloads.hour_sketch import CPU_UNIT, HourSketch, ReportInterval, Samples
from agent.core.history.workloads.sketch_minutes import unfold
from agent.core.numbers.bucket_scheme import ExponentialScheme
from tests.webhook.workload_reports import MIB, NOON, row

HOUR = NOON // 3600


def sketch(
    samples: list[float] | None, *, adjusted: list[float] | None = None, memory: list[float] | None = None,
    first: int = 0, last: int = 3600,
) -> HourSketch:  # fmt: skip
    hour = HourSketch()
    interval = ReportInterval(start_unix_seconds=NOON + first, end_unix_seconds=NOON + last, unix_hour=HOUR)
    hour.add(row(cpu=samples, adjusted=adjusted, memory=memory), interval, 1)
    return hour


def minutes_of(made: HourSketch) -> list[int]:
    """Return the minutes that have data."""
    return np.flatnonzero(unfold(HOUR, {0: made}, 1).has_cpu[0]).tolist()


samples = st.lists(st.floats(min_value=0.0, max_value=20_000.0), min_size=1, max_size=60)


@given(samples)
def test_minutes_have_the_hours_maximum_and_its_distribution_to_a_bucket(values: list[float]) -> None:
    unfolded = unfold(HOUR, {0: sketch(values, memory=[64.0 * MIB])}, 1)
    minutes = np.sort(unfolded.cpu_usage_millicores[0])
    assert unfolded.has_cpu.all()
    largest = max(values)
    assert largest <= minutes[-1] <= largest + 0.001
    # The k-th of sixty minutes stands for the sample at the same rank; both lie in one bucket, so 5 % or 1m apart.
    ranked = np.sort(values)[np.ceil((np.arange(60) + 0.5) / 60 * len(values)).astype(int) - 1]
    assert (np.abs(minutes[:-1] - ranked[:-1]) <= ranked[:-1] * 0.055 + 1.1).all()


def test_rows_without_a_sketch_are_gaps() -> None:
    unfolded = unfold(HOUR, {1: sketch([100.0])}, 3)
    assert unfolded.has_cpu.any(axis=1).tolist() == [False, True, False]
    assert not unfolded.has_memory.any()
    assert unfolded.minute(7).unix_minute == HOUR * 60 + 7
    assert unfolded.minute(7).cpu_usage_millicores.shape == (3,)


def test_memory_alone_is_unfolded_too() -> None:
    unfolded = unfold(HOUR, {0: sketch(None, memory=[64.0 * MIB, 65.5 * MIB])}, 1)
    assert not unfolded.has_cpu.any()
    assert unfolded.has_memory.all()
    assert unfolded.working_set_bytes.max() == 65.5 * MIB
    assert (unfolded.working_set_bytes % 1 == 0).all()


def test_peaks_are_of_the_adjusted_samples_and_no_less_than_usage() -> None:
    unfolded = unfold(HOUR, {0: sketch([100.0, 200.0], adjusted=[150.0, 300.0])}, 1)
    assert unfolded.cpu_usage_millicores.max() == 200.0
    assert unfolded.cpu_peak_millicores.max() == 300.0
    assert (unfolded.cpu_peak_millicores >= unfolded.cpu_usage_millicores).all()


def test_an_hour_known_in_part_has_as_many_minutes() -> None:
    half = sketch([100.0], first=1800, last=2400)
    assert minutes_of(half) == list(range(30, 40))


def test_an_interval_over_the_edge_stays_within_its_hour_and_leaves_a_minute() -> None:
    assert minutes_of(sketch([1.0], first=-100, last=170)) == [0, 1, 2]
    assert minutes_of(sketch([1.0], first=3599, last=3720)) == [59]
    assert minutes_of(sketch([1.0], first=60, last=60)) == [1]


def test_neighbouring_quantiles_are_scattered() -> None:
    risen = unfold(HOUR, {0: sketch([float(value) for value in range(1, 61)])}, 1).cpu_usage_millicores[0]
    minutes = np.argsort(risen).tolist()
    assert sorted(minutes) == list(range(60))
    assert min(abs(minute - other) for minute, other in pairwise(minutes)) > 20


def test_samples_without_buckets_are_a_fault() -> None:
    broken = sketch([1.0])
    broken.cpu.buckets.clear()
    with pytest.raises(ValueError, match="in no bucket"):
        unfold(HOUR, {0: broken}, 1)


# How it was done before, one row after the other: what all rows at once must give, to the last bit.


def of_one_row(made: HourSketch) -> tuple[np.ndarray, ...]:
    start, scattered = HOUR * 3600, np.arange(60) * 37 % 60
    first = min(max((made.first_unix_seconds - start) // 60, 0), 59)
    after = min(-((start - made.last_unix_seconds) // 60), 60)
    minutes = scattered[(scattered >= first) & (scattered < max(after, first + 1))]
    usage, peak, memory = np.zeros((3, 60))
    if made.cpu.count:
        usage[minutes] = quantiles(made.cpu, CPU_BUCKETS, CPU_UNIT, minutes.size)
        peak[minutes] = np.maximum(usage[minutes], quantiles(made.demand, CPU_BUCKETS, CPU_UNIT, minutes.size))
    if made.memory.count:
        memory[minutes] = np.ceil(quantiles(made.memory, MEMORY_BUCKETS, 1, minutes.size))
    covered = np.isin(np.arange(60), minutes)
    return usage, peak, memory, covered & (made.cpu.count > 0), covered & (made.memory.count > 0)


def quantiles(samples: Samples, scheme: ExponentialScheme, unit: int, count: int) -> np.ndarray:
    buckets = np.array(sorted(samples.buckets))
    reached = np.cumsum([samples.buckets[bucket] for bucket in buckets.tolist()])
    starts, largest = scheme.starts(buckets), samples.largest / unit
    ranks = (np.arange(count) + 0.5) / count * reached[-1]
    index = np.minimum(np.searchsorted(reached, ranks), buckets.size - 1)
    within = 1.0 - (reached[index] - ranks) / np.diff(reached, prepend=0)[index]
    values: np.ndarray = np.minimum(starts[index] + within * (scheme.ends[buckets[index]] - starts[index]), largest)
    values[-1] = largest
    return values


@st.composite
def merged_sketches(draw: st.DrawFn) -> HourSketch:
    hour = HourSketch()
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(-300, 3660))
        cpu = draw(st.none() | samples)
        adjusted = None if cpu is None else draw(st.none() | st.just([value * 1.3 for value in cpu]))
        memory = draw(st.none() | st.lists(st.floats(0.0, 2.0**40), min_size=1, max_size=40))
        hour.merge(sketch(cpu, adjusted=adjusted, memory=memory, first=first, last=first + draw(st.integers(0, 900))))
    scale = draw(st.sampled_from([1, 3, 100_000]))  # of many replicas
    for each in (hour.cpu, hour.demand, hour.memory):
        each.buckets = {bucket: count * scale for bucket, count in each.buckets.items()}
        each.count *= scale
        each.largest = draw(st.sampled_from([each.largest, each.largest // 2]))  # as node claims cut it
    return hour


@given(st.dictionaries(st.integers(0, 8), merged_sketches(), max_size=6))
def test_all_rows_at_once_are_as_one_by_one(sketches: dict[int, HourSketch]) -> None:
    unfolded = unfold(HOUR, sketches, 9)
    together = (
        unfolded.cpu_usage_millicores,
        unfolded.cpu_peak_millicores,
        unfolded.working_set_bytes,
        unfolded.has_cpu,
        unfolded.has_memory,
    )
    for number in range(9):
        expected = of_one_row(sketches[number]) if number in sketches else (np.zeros(60),) * 5
        for figures, wanted in zip(together, expected, strict=True):
            assert (figures[number] == wanted).all()
