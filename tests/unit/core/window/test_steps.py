from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.window.policy import WindowPolicy
from agent.core.window.pressure import adjusted_demand, psi_waiting_rate
from agent.core.window.rates import SlidingRates, burst_millicores, segment_starts, sliding_rates
from agent.core.window.ring_rows import Has, Status
from agent.core.window.snapshot import Gap
from agent.core.window.steps import PAIR_GAPS, CpuSteps, cpu_steps, rise
from tests.window_rows import ALL, NS, Rows, sample, steady

POLICY = WindowPolicy(capacity_millicores=2000)
LATE = 10**6 * NS


def steps_of(*rows: Rows, policy: WindowPolicy = POLICY, until_ns: int = LATE) -> CpuSteps:
    return cpu_steps((np.concatenate(rows),) if rows else (), policy, until_ns=until_ns)


def reasons(steps: CpuSteps) -> list[Gap | None]:
    if steps.gap_code is None:
        return [None] * steps.good.size
    return [PAIR_GAPS[code - 1] if code else None for code in steps.gap_code]


def waiting_ratio(steps: CpuSteps, pair: int = 0) -> float | None:
    known_ns = int(steps.waiting_ns[pair])
    return int(steps.waiting_usec[pair]) * 1000 / known_ns if known_ns else None


# --- usage


def test_usage_half_a_core_over_two_seconds_is_500() -> None:
    # 1.0 s of CPU time in 2.0 s is half a core: 500 millicores.
    steps = steps_of(sample(10, 0), sample(12, 1_000_000))
    assert steps.usage_millicores.tolist() == [500.0]
    assert reasons(steps) == [None]
    assert steps.gap_code is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((10, 100), (10, 100), Gap.CLOCK),  # the same stamp twice
        ((10, 100), (9, 200), Gap.CLOCK),
        ((10, 100), (9, 50), Gap.CLOCK),  # the clock is named before the counter
        ((10, 100), (15, 200), None),  # five seconds are allowed
        ((10, 100), (15.000000001, 200), Gap.TOO_FAR_APART),
        ((10, 100), (20, 50), Gap.TOO_FAR_APART),  # and the pause before the counter
        ((10, 100), (11, 99), Gap.COUNTER_RESET),
        ((10, 100), (11, 100), None),  # an idle container
        ((10, 0), (11, 2_100_000), None),  # 2100 = 2000 x 1.05 exactly
        ((10, 0), (11, 2_100_001), Gap.IMPLAUSIBLE),
    ],
)
def test_pair_is_a_gap_for_one_reason(
    before: tuple[float, int], after: tuple[float, int], expected: Gap | None
) -> None:
    assert reasons(steps_of(sample(*before), sample(*after))) == [expected]


def test_halved_rate_is_no_gap_while_steps_stay_within_the_limit() -> None:
    steps = steps_of(steady([0, 2, 4, 8], 500))
    assert steps.usage_millicores.tolist() == [500.0, 500.0, 500.0]
    assert reasons(steps) == [None] * 3


def test_short_pair_may_hold_one_scheduler_tick_more_and_is_capped() -> None:
    # 50 ms on 2 CPUs are 100 ms of CPU time; one 10 ms tick on each more is 120 ms: a rate of 2400, capped at 2100.
    steps = steps_of(sample(10, 0), sample(10.05, 120_000))
    assert reasons(steps) == [None]
    assert steps.usage_millicores.tolist() == [2100.0]
    assert reasons(steps_of(sample(10, 0), sample(10.05, 120_001))) == [Gap.IMPLAUSIBLE]
    # At 0.2 s a tick is the 5 % that are allowed anyway: 420 ms.
    assert reasons(steps_of(sample(10, 0), sample(10.2, 420_001))) == [Gap.IMPLAUSIBLE]


def test_short_pair_longer_than_a_step_may_be_stays_a_gap() -> None:
    strict = dataclasses.replace(POLICY, max_step_seconds=0.05)
    assert reasons(steps_of(sample(10, 0), sample(10.1, 100), policy=strict)) == [Gap.TOO_FAR_APART]


def test_usage_wrapping_at_64_bits_is_exact() -> None:
    # From 2**64 - 250,000 up by 500,000 usec in one second: 500 millicores.
    steps = steps_of(sample(10, 2**64 - 250_000), sample(11, 2**64 + 250_000))
    assert steps.used_usec.tolist() == [500_000]
    assert steps.usage_millicores.tolist() == [500.0]


def test_rise_of_32_bits_wraps_and_falls() -> None:
    # 2**32 - 1 -> 1 is 2 up; 1 -> 0 is one down.
    assert rise(np.array([2**32 - 1, 1, 0], dtype=np.uint32)).tolist() == [2, -1]


# --- rows that cannot be read, order, edges


def test_failed_row_is_counted_and_does_not_spoil_the_pair_around_it() -> None:
    steps = steps_of(
        sample(10, 0),
        sample(11, 77, status=Status.PARSE),
        sample(12, 1_000_000),
        sample(13, 0, status=Status.IO),
    )
    assert steps.usage_millicores.tolist() == [500.0]
    assert steps.failed_ns.tolist() == [11 * NS, 13 * NS]
    assert steps.failed_parse.tolist() == [True, False]


def test_failed_rows_for_too_long_make_the_pair_a_gap() -> None:
    failed = [sample(10 + i, status=Status.IO) for i in range(1, 6)]
    assert reasons(steps_of(sample(10, 0), *failed, sample(16, 10))) == [Gap.TOO_FAR_APART]


def test_rows_outside_the_moments_asked_for_are_left_out() -> None:
    rows = (steady(range(10, 20), 100),)
    steps = cpu_steps(rows, POLICY, until_ns=15 * NS, since_ns=12 * NS)
    assert (steps.axis_ns // NS).tolist() == [12, 13, 14, 15]
    assert (steps.rows, steps.oldest_ns) == (10, 12 * NS)


def test_no_rows_give_empty_steps() -> None:
    for steps in (steps_of(), steps_of(sample(10), until_ns=9 * NS)):
        assert steps.axis_ns.size == steps.good.size == 0
        assert steps.oldest_ns is None
    assert steps_of(sample(10), until_ns=9 * NS).rows == 1


def test_single_reading_has_no_pair() -> None:
    steps = steps_of(sample(10, 5))
    assert (steps.axis_ns.size, steps.good.size, steps.oldest_ns) == (1, 0, 10 * NS)


def test_clock_that_steps_back_leaves_a_rising_axis() -> None:
    steps = steps_of(sample(10, 0), sample(11, 1), sample(10.5, 2), sample(11.5, 3))
    assert reasons(steps) == [None, Gap.CLOCK, None]
    # The newest keep their stamps; 10 and 11 move back by the half second that is told twice.
    assert steps.axis_ns.tolist() == [9_500_000_000, 10_500_000_000, 10_500_000_000, 11_500_000_000]


def test_rows_are_not_changed() -> None:
    rows = np.concatenate([sample(10, 0), sample(9, 5), sample(10, 3, status=Status.IO)])
    before = rows.copy()
    cpu_steps((rows,), POLICY, until_ns=LATE)
    assert rows.tobytes() == before.tobytes()


# --- waiting, with throttling taken out


@pytest.mark.parametrize(
    ("some", "throttled", "periods", "throttled_periods", "expected"),
    [
        (300_000, 0, 0, 0, 0.3),  # no cpu.max: all of it is contention
        (1_500_000, 0, 0, 0, 1.0),  # never more than the time there was
        (300_000, 100_000, 10, 10, 0.2),  # one CPU throttled for 0.1 s
        (300_000, 300_000, 10, 10, 0.0),  # nothing but throttling
        (200_000, 300_000, 10, 10, 0.0),  # never below 0
        # 8 CPUs throttled at once for 87.5 ms in 2 of 10 periods: 1.4 s summed up, at most 0.2 s of wall time.
        # Of 0.5 s waiting 0.3 s are left; min(throttled, elapsed) alone would leave nothing.
        (500_000, 1_400_000, 10, 2, 0.3),
        (900_000, 7_000_000, 10, 10, 0.0),  # all periods throttled on 8 CPUs
        (500_000, 100_000, 10, 0, 0.4),  # throttled time without a throttled period: the share says nothing
        (500_000, 100_000, 0, 5, 0.4),  # more throttled periods than periods: no share above 1
        (500_000, 0, 10, 0, 0.5),  # a cpu.max that never bit
    ],
)
def test_waiting_has_throttling_taken_out(
    some: int, throttled: int, periods: int, throttled_periods: int, expected: float
) -> None:
    after = sample(11, 0, some=some, throttled=throttled, periods=periods, throttled_periods=throttled_periods)
    assert waiting_ratio(steps_of(sample(10, 0), after)) == pytest.approx(expected, abs=1e-9)


def test_throttled_is_capped_at_the_elapsed_time() -> None:
    steps = steps_of(sample(10), sample(11, throttled=8_000_000, periods=10, throttled_periods=10))
    assert steps.throttled_usec.tolist() == [1_000_000]
    assert steps.throttled_ns.tolist() == [NS]
    assert (steps.nr_periods.tolist(), steps.nr_throttled.tolist()) == ([10], [10])


@pytest.mark.parametrize("has", [ALL & ~Has.PRESSURE, ALL & ~Has.THROTTLED, 0])
def test_missing_signal_is_not_known_and_leaves_the_others(has: int) -> None:
    steps = steps_of(sample(10, 0, has=has), sample(11, 500_000, some=100_000, throttled=50_000, periods=10, has=has))
    assert steps.usage_millicores.tolist() == [500.0]
    assert (steps.waiting_ns.tolist() == [NS]) == bool(has & Has.PRESSURE)
    assert (steps.throttled_ns.tolist() == [NS]) == bool(has & Has.THROTTLED)


def test_signal_that_comes_and_goes_is_known_between_two_readings_that_have_it() -> None:
    bits = [0, Has.PRESSURE, Has.PRESSURE, 0, Has.PRESSURE]
    steps = steps_of(*[sample(10 + i, 0, some=100_000 * i, has=bit) for i, bit in enumerate(bits)])
    assert steps.waiting_ns.tolist() == [0, NS, 0, 0]
    assert steps.waiting_usec.tolist() == [0, 100_000, 0, 0]


def test_pressure_or_throttling_that_falls_is_not_known_and_usage_stays() -> None:
    steps = steps_of(
        sample(10, 0, some=9000, throttled=500, periods=10, throttled_periods=3),
        sample(11, 100_000, some=8800, throttled=400, periods=12, throttled_periods=4),
    )
    assert (steps.waiting_ns.tolist(), steps.throttled_ns.tolist()) == ([0], [0])
    assert steps.usage_millicores.tolist() == [100.0]


def test_periods_wrap_at_32_bits() -> None:
    steps = steps_of(
        sample(10, periods=2**32 - 4, throttled_periods=2**32 - 2),
        sample(11, periods=2**32 + 6, throttled_periods=2**32),
    )
    assert (steps.nr_periods.tolist(), steps.nr_throttled.tolist()) == ([10], [2])


@settings(deadline=None)
@given(dt=st.integers(1, 5000), some=st.integers(0, 6_000_000), usage=st.integers(0, 2_000))
def test_waiting_and_adjusted_agree_with_the_rule_for_two_readings(dt: int, some: int, usage: int) -> None:
    seconds = dt / 1000
    policy = dataclasses.replace(POLICY, rate_window_seconds=seconds)
    steps = steps_of(sample(10, 0), sample(10 + seconds, usage * dt, some=some), policy=policy)
    rate = psi_waiting_rate(10.0, 0, 10.0 + seconds, some)
    assert rate is not None
    assert waiting_ratio(steps) == pytest.approx(rate, abs=1e-9)
    rates = sliding_rates(steps, policy, first=1, stop=2)
    assert rates.adjusted is not None
    assert rates.adjusted[0] == pytest.approx(adjusted_demand(usage, rate), rel=1e-9)


# --- sliding rates


def slide(steps: CpuSteps, policy: WindowPolicy = POLICY) -> SlidingRates:
    return sliding_rates(steps, policy, first=0, stop=steps.axis_ns.size)


def test_sliding_rate_is_the_difference_over_the_rate_window() -> None:
    # One second at 1000, then 60 at 100: the rate at 61 s covers seconds 1..61 only, the one at 60 s 0..60.
    # (1000 + 59 x 100) / 60 = 115.
    rates = slide(steps_of(sample(0, 0), *[sample(i, 1_000_000 + (i - 1) * 100_000) for i in range(1, 62)]))
    assert rates.usage[-2:] == pytest.approx([115.0, 100.0])


def test_sliding_rate_of_a_young_container_spans_what_there_is_from_ten_seconds_on() -> None:
    rates = slide(steps_of(sample(0, 0), *[sample(i, 1_000_000 + (i - 1) * 100_000) for i in range(1, 13)]))
    # At 10 s: (1000 + 9 x 100) / 10 = 190; at 11: 2000 / 11; at 12: 2100 / 12 = 175.
    assert rates.usage == pytest.approx([190.0, 2000 / 11, 175.0])


def test_sliding_rate_with_a_rate_window_below_ten_seconds_asks_for_no_more_than_that() -> None:
    policy = dataclasses.replace(POLICY, rate_window_seconds=2)
    assert slide(steps_of(steady(range(5), 300)), policy).usage == pytest.approx([300.0] * 3)


def test_sliding_rate_never_spans_a_gap() -> None:
    # A reset at 31 s: what lies before it counts for no rate after it, and the first 10 s after it have none.
    before, after = steady(range(31), 400), steady(range(31, 62), 100)
    steps = steps_of(before, after)  # 12,000,000 -> 0: the counter fell
    assert segment_starts(steps) is not None
    rates = slide(steps)
    assert rates.usage == pytest.approx([400.0] * 21 + [100.0] * 21)


def test_sliding_rates_without_gaps_have_no_segments() -> None:
    assert segment_starts(steps_of(steady(range(5), 100))) is None


def test_sliding_waiting_is_the_mean_over_the_pairs_that_know_it() -> None:
    # Ten pairs of 1 s; PSI appears at 6 s with 50 % waiting: known for 4 s of the 10, and 0.5 there.
    bits = [ALL & ~Has.PRESSURE] * 6 + [ALL] * 5
    rows = [sample(i, 100_000 * i, some=500_000 * i, has=bit) for i, bit in enumerate(bits)]
    rates = slide(steps_of(*rows))
    assert rates.usage == pytest.approx([100.0])
    assert rates.adjusted == pytest.approx([150.0])


def test_sliding_rate_without_any_waiting_known_has_no_adjusted_one() -> None:
    assert slide(steps_of(steady(range(12), 100, has=0))).adjusted is None


def test_reading_at_which_waiting_is_not_known_yet_counts_as_it_is() -> None:
    # PSI is there from 10 s on, so the rate at 10 s knows no pair with it, the one at 11 s knows one of all waiting.
    bits = [0] * 10 + [ALL] * 2
    rates = slide(steps_of(*[sample(i, 100_000 * i, some=1_000_000 * i, has=bit) for i, bit in enumerate(bits)]))
    assert rates.adjusted == pytest.approx([100.0, 200.0])


def test_burst_passes_short_pairs_over_beside_longer_ones() -> None:
    rows = (sample(0, 0), sample(1, 300_000), sample(1.02, 330_000), sample(2, 400_000))
    # 0.3 s in 1 s; 30 ms in 20 ms (1500, half of it a tick's work); 70 ms in 0.98 s.
    assert burst_millicores(steps_of(*rows), slice(0, None)) == pytest.approx(300.0)
    assert burst_millicores(steps_of(*rows), slice(1, 2)) == pytest.approx(1500.0)  # all there is
    assert burst_millicores(steps_of(sample(0)), slice(0, None)) is None


# --- policy


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity_millicores", 0),
        ("cpu_window_seconds", -1),
        ("memory_window_seconds", 0),
        ("rate_window_seconds", float("nan")),
        ("min_rate_seconds", 0),
        ("max_step_seconds", 0),
        ("memory_max_step_seconds", 0),
        ("tolerance_ratio", -0.1),
        ("percentile", 1.1),
        ("max_gap_ratio", float("nan")),
    ],
)
def test_policy_out_of_range_names_the_field_and_what_is_allowed(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"window policy: {field} is .*; allowed: "):
        dataclasses.replace(POLICY, **{field: value})  # type: ignore[arg-type]


# --- any rows at all

counters = st.one_of(st.integers(0, 3_000_000), st.integers(0, 2**64 - 1))
raw_rows = st.lists(
    st.builds(
        sample,
        st.integers(0, 200).map(lambda tenths: tenths / 10),
        counters,
        some=counters,
        throttled=counters,
        periods=st.integers(0, 2**32 - 1),
        throttled_periods=st.integers(0, 2**32 - 1),
        status=st.sampled_from([Status.OK, Status.OK, Status.OK, Status.PARSE, Status.IO]),
        has=st.sampled_from([ALL, ALL, 0, int(Has.PRESSURE), int(Has.THROTTLED)]),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(raw_rows)
def test_any_rows_give_rates_within_bounds(rows: list[Rows]) -> None:
    steps = steps_of(*rows)
    assert np.isfinite(steps.usage_millicores).all()
    assert (steps.usage_millicores[steps.good] >= 0).all()
    assert (steps.usage_millicores[steps.good] <= POLICY.limit_millicores).all()
    assert (np.diff(steps.axis_ns) >= 0).all()
    for usec, known_ns in ((steps.waiting_usec, steps.waiting_ns), (steps.throttled_usec, steps.throttled_ns)):
        assert (usec >= 0).all()
        assert (usec * 1000 <= known_ns).all()
        assert (known_ns[~steps.good] == 0).all()
    rates = slide(steps)
    assert (rates.usage >= 0).all()
    assert (rates.usage <= POLICY.limit_millicores).all()
    if rates.adjusted is not None:
        assert (rates.adjusted >= rates.usage).all()
        assert (rates.adjusted <= 2 * rates.usage).all()
