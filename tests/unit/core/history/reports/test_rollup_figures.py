from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution
from agent.core.history.reports.rollup_figures import RollupFigures, distribution, rollup_figures, with_short_life
from agent.core.window.cpu import cpu_window
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Has, Status
from tests.examples import examples
from tests.window_rows import ALL, NS, Rows, memory, sample, steady

POLICY = WindowPolicy(capacity_millicores=2000)
MIB = 1 << 20


def figures_of(
    raw: list[Rows], memory_rows: list[Rows], start: float, end: float, policy: WindowPolicy = POLICY
) -> RollupFigures | None:
    """The figures, after checking that they are the same from two pieces, and what holds for any."""
    raw_pieces: tuple[Rows, ...] = (np.concatenate(raw),) if raw else ()
    memory_pieces: tuple[Rows, ...] = (np.concatenate(memory_rows),) if memory_rows else ()
    start_ns, end_ns = round(start * NS), round(end * NS)
    figures = rollup_figures(raw_pieces, memory_pieces, policy, start_ns=start_ns, end_ns=end_ns)
    if raw:
        cut = raw_pieces[0].size // 3
        parts = (raw_pieces[0][:cut], raw_pieces[0][cut:])
        assert rollup_figures(parts, memory_pieces, policy, start_ns=start_ns, end_ns=end_ns) == figures
    if figures is not None:
        assert 0 < figures.covered_seconds <= end - start + 1e-6
        for signal in (figures.cpu, figures.cpu_adjusted, figures.memory):
            assert signal is None or (
                signal.count == sum(signal.buckets.values()) > 0 and signal.sum <= signal.count * signal.max * 1.001
            )
    return figures


def one(raw: list[Rows], memory_rows: list[Rows], start: float, end: float) -> RollupFigures:
    figures = figures_of(raw, memory_rows, start, end)
    assert figures is not None
    return figures


def cpu_bucket(millicores: float) -> int:
    return int(CPU_BUCKETS.find(np.array([millicores]))[0])


def test_five_minutes_of_a_steady_load() -> None:
    # (1000, 1300] s holds 300 readings, each the end of one rate. Waiting 0.3 less 0.1 throttled is 0.2: 500 x 1.2.
    raw = [steady([i + 0.5 for i in range(900, 1310)], 500, waiting=0.3, throttled=0.1)]
    rows = [memory(at, 3 * MIB, inactive=MIB, set_peak=at * 1000) for at in range(980, 1320, 10)]
    row = one(raw, rows, 1000, 1300)
    assert row.covered_seconds == pytest.approx(300.0)
    assert row.cpu is not None
    assert row.cpu.count == 300
    assert row.cpu.max == pytest.approx(500.0)
    assert row.cpu.sum == pytest.approx(150_000.0)
    assert row.cpu_adjusted is not None
    assert row.cpu_adjusted.max == pytest.approx(600.0)
    assert row.cpu_adjusted.buckets.keys() <= {cpu_bucket(599.9), cpu_bucket(600.1)}
    assert row.throttled_seconds == pytest.approx(30.0)
    assert row.waiting_seconds == pytest.approx(60.0)
    # memory rows of 1010 to 1300 s: 30 of them; 2 MiB are in use, and peaks of 1,010,000 to 1,300,000 bytes are less
    assert row.memory == Distribution(
        count=30, sum=30 * 2.0 * MIB, max=2.0 * MIB, buckets={int(MEMORY_BUCKETS.find(np.array([2.0 * MIB]))[0]): 30}
    )


def test_a_peak_between_two_memory_rows_is_a_sample() -> None:
    rows = [memory(at, 2 * MIB, set_peak=5 * MIB if at == 1150 else 0) for at in range(1010, 1310, 10)]
    row = one([steady(range(990, 1302), 10)], rows, 1000, 1300)
    assert row.memory is not None
    assert row.memory.max == 5 * MIB
    assert row.memory.sum == 29 * 2 * MIB + 5 * MIB


def test_the_rates_are_those_of_the_windows() -> None:
    random = np.random.default_rng(5)
    usage = np.cumsum(random.integers(0, 900_000, 420))
    raw = np.concatenate([sample(900 + i, int(usage[i]), some=i * 100_000, periods=i * 10) for i in range(420)])
    row = one([raw], [], 1000, 1300)
    policy = WindowPolicy(capacity_millicores=2000, cpu_window_seconds=300)
    window = cpu_window((raw,), policy, end_monotonic_ns=1300 * NS)
    assert row.cpu is not None
    assert row.cpu_adjusted is not None
    assert row.cpu.max == window.usage_peak_millicores
    assert row.cpu_adjusted.max == window.adjusted_peak_millicores
    assert len(row.cpu.buckets) > 5


def test_intervals_in_a_row_hand_out_each_second_once() -> None:
    # readings half a second off the edges, and a pair across each
    raw = [steady([i + 0.5 for i in range(900, 1910)], 300, waiting=0.2, throttled=0.05)]
    rows = [one(raw, [], start, start + 300) for start in (1000, 1300, 1600)]
    assert sum(row.covered_seconds for row in rows) == pytest.approx(900.0)
    assert sum(row.waiting_seconds or 0 for row in rows) == pytest.approx(900 * 0.15, rel=1e-3)
    assert sum(row.cpu.count for row in rows if row.cpu is not None) == 900


def test_a_gap_is_not_covered_and_no_rate_spans_it() -> None:
    # no readings from 1100 to 1200 s: the first rate after it ends 10 s later
    raw = [steady(range(900, 1101), 500), steady(range(1200, 1302), 500, usage0=10**9)]
    row = one(raw, [], 1000, 1300)
    assert row.covered_seconds == pytest.approx(200.0)
    assert row.cpu is not None
    assert row.cpu.count == 100 + 91
    assert row.cpu.max == pytest.approx(500.0)


def test_a_container_too_young_for_a_rate_tells_what_it_can() -> None:
    row = one([steady(range(1295, 1302), 500, throttled=0.1)], [memory(1300, MIB)], 1000, 1300)
    assert row.cpu is None
    assert row.cpu_adjusted is None
    assert row.covered_seconds == pytest.approx(5.0)
    assert row.throttled_seconds == pytest.approx(0.5)
    assert row.memory is not None


def test_missing_signals_are_not_zero() -> None:
    has = ALL & ~(Has.PRESSURE | Has.THROTTLED)
    row = one([steady(range(990, 1302), 500, has=has)], [memory(1300, MIB, has=ALL & ~Has.MEMORY_STAT)], 1000, 1300)
    assert row.cpu is not None
    assert (row.cpu_adjusted, row.memory, row.throttled_seconds, row.waiting_seconds) == (None, None, None, None)


def test_memory_alone_covers_what_lies_between_its_rows() -> None:
    rows = [memory(at, MIB) for at in (1100, 1110, 1120)] + [memory(1130, MIB, status=Status.IO)]
    assert one([], rows, 1000, 1300) == RollupFigures(
        covered_seconds=20.0,
        cpu=None,
        cpu_adjusted=None,
        memory=distribution(np.full(3, float(MIB)), MEMORY_BUCKETS),
        throttled_seconds=None,
        waiting_seconds=None,
    )


@pytest.mark.parametrize(
    ("raw", "rows"),
    [
        ([], []),
        ([], [memory(1100, MIB)]),  # one row covers no time
        ([sample(1100)], []),
        ([steady(range(1400, 1500), 5)], [memory(1400, MIB), memory(1410, MIB)]),  # later
        ([steady(range(800, 950), 5)], []),  # earlier
        ([np.concatenate([sample(1000 + i, 10**6 - i) for i in range(300)])], []),  # a counter that falls
    ],
)
def test_nothing_measured_is_no_row(raw: list[Rows], rows: list[Rows]) -> None:
    assert figures_of(raw, rows, 1000, 1300) is None


def test_no_samples_are_no_distribution() -> None:
    assert distribution(np.zeros(0), CPU_BUCKETS) is None


@examples(60)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3_000_000), st.sampled_from([0, 0, 0, -5])), max_size=120),
    st.integers(1, 300),
)
def test_any_readings_give_bounded_figures(readings: list[tuple[int, int, int]], length: int) -> None:
    at, usage, raw = 1000, 0, []
    for step, used, status in readings:
        at, usage = at + step, usage + used
        raw.append(sample(at, usage, some=usage // 3, status=status))
    figures = figures_of(raw, [], 1000, 1000 + length)
    if figures is not None and figures.cpu is not None:
        assert figures.cpu.max <= POLICY.limit_millicores
        assert figures.cpu_adjusted is not None
        assert figures.cpu.sum <= figures.cpu_adjusted.sum <= 2 * figures.cpu.sum


def test_cpu_of_a_start_counts_nowhere_and_memory_does() -> None:
    raw = np.concatenate([steady(range(0, 101), 900.0), steady(range(101, 301), 100.0, usage0=90_000_000 + 100_000)])
    memory_rows = np.concatenate([memory(at, 3 * MIB) for at in range(10, 301, 10)])

    def found(cpu_start: int) -> RollupFigures:
        figures = rollup_figures(
            (raw,), (memory_rows,), POLICY, start_ns=0, end_ns=300 * NS, cpu_start_ns=cpu_start * NS
        )
        assert figures is not None
        return figures

    whole, later, none = found(0), found(110), found(300)
    assert whole.cpu is not None
    assert whole.cpu.max > 800
    assert later.cpu is not None
    assert later.cpu.max == pytest.approx(100.0)
    assert later.covered_seconds == 190
    assert (none.cpu, none.covered_seconds) == (None, 290)
    assert later.memory == none.memory == whole.memory


def test_a_short_life_is_one_sample_where_none_was_as_large() -> None:
    rows = [memory(at, 30 * MIB, inactive=10 * MIB) for at in (110, 120, 130)]
    measured = figures_of([steady(range(101, 131), 500)], rows, 100, 130)
    assert measured is not None
    assert measured.memory is not None
    raised = with_short_life(measured, 300 * MIB, life_seconds=30.0)
    assert raised.memory is not None
    assert (raised.memory.count, raised.memory.max) == (4, 300 * MIB)
    assert raised.memory.sum == measured.memory.sum + 300 * MIB
    assert sum(raised.memory.buckets.values()) == 4
    assert (raised.cpu, raised.covered_seconds) == (measured.cpu, measured.covered_seconds)
    assert with_short_life(measured, int(measured.memory.max), life_seconds=30.0) is measured


@pytest.mark.parametrize(("life", "covered"), [(0.4, 0.4), (-3.0, 0.001), (90.0, 10.0)])
def test_a_short_life_that_no_sweep_saw_covers_no_more_than_its_sample(life: float, covered: float) -> None:
    figures = with_short_life(None, 300 * MIB, life_seconds=life)
    assert figures.covered_seconds == covered
    assert figures.memory == distribution(np.array([300.0 * MIB]), MEMORY_BUCKETS)
    assert (figures.cpu, figures.cpu_adjusted, figures.throttled_seconds, figures.waiting_seconds) == (None,) * 4


def test_a_short_life_beside_cpu_alone_is_the_sample_of_memory() -> None:
    measured = figures_of([steady(range(101, 131), 500)], [], 100, 130)
    assert measured is not None
    raised = with_short_life(measured, 300 * MIB, life_seconds=30.0)
    assert raised.memory == distribution(np.array([300.0 * MIB]), MEMORY_BUCKETS)
    assert raised.covered_seconds == measured.covered_seconds
