from copy import deepcopy
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.reports.rollup import CPU_BUCKETS, Distribution, RollupRow
from agent.core.history.workloads.hour_sketch import (
    HourSketch,
    ReportInterval,
    Samples,
    Seconds,
    cpu_percentile_millicores,
    demand_code,
    memory_code,
    memory_percentile_bytes,
    percentile_bucket,
)
from agent.core.history.workloads.node_peaks import amount_of
from tests.examples import examples
from tests.webhook.workload_reports import MIB, NOON, row

HOUR = NOON // 3600
NOW = ReportInterval(start_unix_seconds=NOON, end_unix_seconds=NOON + 300, unix_hour=HOUR)


def test_an_interval_is_reckoned_back_from_its_age() -> None:
    # Received at 12:10:00.5, ended 400.2 s before, at 12:03:20.3; its middle is 12:00:50.3, in the hour of noon.
    interval = ReportInterval.of(received_unix_seconds=NOON + 600.5, end_age_seconds=400.2, interval_seconds=300.0)
    assert interval == ReportInterval(start_unix_seconds=NOON - 100, end_unix_seconds=NOON + 201, unix_hour=HOUR)


def test_an_interval_counts_in_the_hour_of_its_middle() -> None:
    before = ReportInterval.of(received_unix_seconds=NOON + 149.0, end_age_seconds=0.0, interval_seconds=300.0)
    after = ReportInterval.of(received_unix_seconds=NOON + 150.0, end_age_seconds=0.0, interval_seconds=300.0)
    assert (before.unix_hour, after.unix_hour) == (HOUR - 1, HOUR)


amounts = st.floats(min_value=0.0, max_value=1e6, allow_nan=False)
samples = st.lists(amounts, min_size=1, max_size=4)


@st.composite
def rows_seen(draw: st.DrawFn) -> tuple[RollupRow, ReportInterval, int]:
    cpu = draw(st.none() | samples)
    rollup = row(
        cpu=cpu,
        adjusted=None if cpu is None else draw(st.none() | samples),
        memory=draw(st.none() | samples),
        pod=f"pod-{draw(st.integers(min_value=0, max_value=20))}",
        kills=draw(st.lists(st.tuples(st.floats(0, 300), st.none() | st.integers(0, 1 << 40)), max_size=2)),
        throttled=draw(st.none() | st.floats(0, 300)),
        waiting=draw(st.none() | st.floats(0, 300)),
    )
    start = NOON + draw(st.integers(min_value=0, max_value=3300))
    interval = ReportInterval(start_unix_seconds=start, end_unix_seconds=start + 300, unix_hour=HOUR)
    return rollup, interval, draw(st.integers(min_value=1, max_value=4))


seen = st.lists(rows_seen(), max_size=12)


def sketch_of(rows: list[tuple[RollupRow, ReportInterval, int]]) -> HourSketch:
    sketch = HourSketch()
    for report in rows:
        sketch.add(*report)
    return sketch


@examples(60)
@given(seen, st.randoms(use_true_random=False), st.lists(st.integers(min_value=0, max_value=12), max_size=3))
def test_order_lateness_and_replicas_do_not_matter_to_the_last_bit(
    rows: list[tuple[RollupRow, ReportInterval, int]], random: object, cuts: list[int]
) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    edges = [0, *sorted(cuts), len(rows)]
    replicas = [sketch_of(shuffled[first:after]) for first, after in pairwise(edges)]
    random.shuffle(replicas)  # type: ignore[attr-defined]
    merged = HourSketch()
    for replica in replicas:
        merged.merge(replica)
    assert merged == sketch_of(rows)


@examples(30)
@given(seen, seen, seen)
def test_merging_is_associative(
    first: list[tuple[RollupRow, ReportInterval, int]],
    second: list[tuple[RollupRow, ReportInterval, int]],
    third: list[tuple[RollupRow, ReportInterval, int]],
) -> None:
    one, two, three = sketch_of(first), sketch_of(second), sketch_of(third)
    left = deepcopy(one)
    left.merge(two)
    left.merge(three)
    right = deepcopy(two)
    right.merge(three)
    one.merge(right)
    assert left == one


def test_a_row_is_counted_once_in_all_its_parts() -> None:
    sketch = HourSketch()
    seen = row(
        cpu=[100.0, 300.0], adjusted=[110.0, 330.0], memory=[64.0 * MIB], kills=[(10.0, 5 * MIB), (20.0, None)],
        throttled=1.5, waiting=0.25,
    )  # fmt: skip
    sketch.add(seen, NOW, 7)
    assert (sketch.cpu.count, sketch.cpu.total, sketch.cpu.largest) == (2, 400_000, 300_000)
    assert (sketch.demand.count, sketch.demand.total, sketch.demand.largest) == (2, 440_000, 330_000)
    assert (sketch.memory.count, sketch.memory.total, sketch.memory.largest) == (1, 64 * MIB, 64 * MIB)
    assert (sketch.throttled.seconds, sketch.waiting.seconds, sketch.covered.seconds) == (1.5, 0.25, 300.0)
    assert (sketch.kills.count, sketch.kills.largest_bytes) == (2, 5 * MIB)
    assert sketch.kills.newest_unix_seconds == NOON + 290
    assert (sketch.first_unix_seconds, sketch.last_unix_seconds) == (NOON, NOON + 300)
    assert sketch.pods.cpu_spread_millicores() == (200.0, 200.0)
    assert (amount_of(sketch.demand_leaders.top), sketch.demand_leaders.node) == (330 * 8, 7)
    assert amount_of(sketch.memory_leaders.top) == 64 * 1024


def test_demand_is_as_measured_where_pressure_is_not_known() -> None:
    sketch = HourSketch()
    sketch.add(row(cpu=100.0), NOW, 1)
    sketch.add(row(cpu=100.0, adjusted=150.0), NOW, 1)
    assert sketch.demand.total == 250_000
    assert sketch.cpu.total == 200_000


def test_what_is_missing_stays_missing() -> None:
    sketch = HourSketch()
    sketch.add(row(cpu=None, memory=None), NOW, 1)
    assert sketch.rows == sketch.pods.count == 1
    assert sketch.cpu.count == sketch.memory.count == sketch.demand_leaders.top == sketch.memory_leaders.top == 0
    assert sketch.throttled.seconds is None
    assert cpu_percentile_millicores(sketch.cpu, 0.5) is None
    assert memory_percentile_bytes(sketch.memory, 0.5) is None


def test_seconds_of_zero_are_known() -> None:
    seconds = Seconds()
    seconds.add(0.0)
    assert seconds.seconds == 0.0


def test_an_empty_sketch_changes_nothing() -> None:
    sketch = sketch_of([(row(), NOW, 1)])
    before = deepcopy(sketch)
    sketch.merge(HourSketch())
    assert sketch == before


def test_percentiles_are_of_all_replicas_samples() -> None:
    # Nine samples of an idle replica and one of a busy one: the P50 is the idle one's, the P95 the busy one's.
    sketch = HourSketch()
    sketch.add(row(cpu=[10.0] * 9, memory=[100.0 * MIB] * 3, pod="idle"), NOW, 1)
    sketch.add(row(cpu=[1000.0], memory=[200.0 * MIB], pod="busy"), NOW, 2)
    p50, p95 = (cpu_percentile_millicores(sketch.cpu, ratio) for ratio in (0.5, 0.95))
    assert p50 == pytest.approx(10.0, rel=0.2)
    assert p50 is not None
    assert p50 >= 10.0
    assert p95 == 1000.0  # the bucket ends above, but nothing was larger than this
    assert memory_percentile_bytes(sketch.memory, 1.0) == 200.0 * MIB


@given(st.dictionaries(st.integers(0, 300), st.integers(0, 9), max_size=8), st.floats(0, 1))
def test_percentile_bucket_is_that_of_the_samples_laid_out(buckets: dict[int, int], ratio: float) -> None:
    laid_out = [bucket for bucket in sorted(buckets) for _ in range(buckets[bucket])]
    percentile = percentile_bucket(buckets, ratio)
    if not laid_out:
        assert percentile is None
    else:
        below = sum(bucket < percentile for bucket in laid_out) if percentile is not None else -1
        upto = sum(bucket <= percentile for bucket in laid_out) if percentile is not None else -1
        assert below <= ratio * len(laid_out) <= upto


def test_maxima_are_never_told_too_small() -> None:
    samples = Samples()
    samples.add(Distribution(count=1, sum=0.1234567, max=0.1234567, buckets={0: 1}), 1000)
    assert samples.largest == 124
    assert demand_code(Distribution(count=1, sum=0.01, max=0.01, buckets={0: 1})) == 2  # an eighth of a millicore
    assert memory_code(Distribution(count=1, sum=1025.0, max=1025.0, buckets={0: 1})) == 3  # two KiB
    assert CPU_BUCKETS.count < 256


def test_two_halves_merged_are_the_whole() -> None:
    halves = [
        row(cpu=[100.0, 900.0], adjusted=[150.0, 900.0], memory=[5.0 * MIB], throttled=1.5, kills=[(1.0, 7 * MIB)]),
        row(cpu=[300.0], memory=[9.0 * MIB, 5.0 * MIB], pod="web-2", waiting=2.5),
    ]
    whole, merged = HourSketch(), HourSketch()
    for node, half in enumerate(halves, 1):
        whole.add(half, NOW, node)
        part = HourSketch()
        part.add(half, NOW, node)
        merged.merge(part)
    assert merged == whole
    assert (merged.rows, merged.cpu.count, merged.memory.count) == (2, 3, 3)
    assert (merged.throttled.seconds, merged.waiting.seconds) == (1.5, 2.5)


def test_a_bucket_that_lost_its_samples_is_passed_over() -> None:
    assert percentile_bucket({3: 0, 5: 2, 9: 0}, 0.0) == 5
    assert percentile_bucket({3: 0, 5: 2, 9: 0}, 1.0) == 5
    assert percentile_bucket({3: 0}, 0.5) is None
