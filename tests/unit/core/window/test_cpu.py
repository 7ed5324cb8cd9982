from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.window.cpu import CPU_FIGURES, cpu_window
from agent.core.window.memory import (
    MEMORY_FIGURES,
    MEMORY_SUMS,
    memory_sums,
    memory_window,
    to_memory_sums,
)
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import Has, Status
from agent.core.window.snapshot import CpuWindow, Gap, MemoryWindow, Missing
from tests.window_rows import ALL, NS, Rows, memory, sample, steady

POLICY = WindowPolicy(capacity_millicores=2000)
SHORT = dataclasses.replace(POLICY, cpu_window_seconds=60, rate_window_seconds=10)
"""Ten-second rates over one minute: small enough to derive by hand."""


def cpu(rows: Sequence[Rows] | Rows, end: float, policy: WindowPolicy = SHORT) -> CpuWindow:
    pieces = (np.concatenate(rows) if isinstance(rows, list) else rows,)
    window = cpu_window(pieces, policy, end_monotonic_ns=round(end * NS))  # type: ignore[arg-type]
    assert_well_formed(window, policy)
    return window


def assert_well_formed(window: CpuWindow, policy: WindowPolicy) -> None:
    """What holds for any window: bounds, no NaN, and a reason for exactly the figures that are None."""
    figures = {name: getattr(window, name) for name in CPU_FIGURES}
    assert {name for name, value in figures.items() if value is None} == set(window.missing)
    for name, value in figures.items():
        if value is not None:
            assert math.isfinite(value), name
            factor = 2 if name.startswith("adjusted") else 1
            assert 0 <= value <= (factor * policy.limit_millicores if name.endswith("millicores") else 1), name
    assert 0 <= window.coverage_ratio <= 1
    assert window.span_seconds >= 0
    assert all(number > 0 for number in window.gaps.values())


# --- a steady load


def test_steady_load_over_a_full_window() -> None:
    # Readings at 1..81 s, end 81: (21, 81] holds 60 readings from 22 to 81, 59 s apart; pairs from 21 on cover 60 s.
    window = cpu(steady(range(1, 82), 500, waiting=0.2, throttled=0.1), 81)
    assert window.readings == 60
    assert window.span_seconds == 59.0
    assert window.coverage_ratio == pytest.approx(1.0)
    assert window.gaps == {}
    for value in (
        window.last_usage_millicores,
        window.usage_p75_millicores,
        window.usage_peak_millicores,
        window.burst_millicores,
    ):
        assert value == pytest.approx(500.0)
    # 0.2 waiting less 0.1 throttled is 0.1: 500 x 1.1.
    assert window.last_waiting_ratio == window.waiting_ratio == pytest.approx(0.1)
    assert window.adjusted_p75_millicores == window.adjusted_peak_millicores == pytest.approx(550.0)
    assert window.last_throttled_ratio == window.throttled_ratio == pytest.approx(0.1)
    assert window.throttled_periods_ratio == pytest.approx(0.1)
    assert window.missing == {}


def test_default_policy_gives_ten_minutes_of_sixty_second_rates() -> None:
    # Half a core up to 401 s, one core from then on; 600 readings end in (101, 701]. Rates that end at 461 or later
    # are 1000: 241 of them, and the P75 (rank 449.25) lies there. The median (rank 299.5) lies half way between the
    # 300th, which ends at 401 and is 500, and the next, with one of its 60 s at 1000: 500 + 500 / 60.
    rows = np.concatenate([steady(range(1, 401), 500), steady(range(401, 702), 1000, usage0=200_000_000)])
    window = cpu(rows, 701, POLICY)
    assert window.readings == 600
    assert window.coverage_ratio == pytest.approx(1.0)
    assert window.usage_p75_millicores == pytest.approx(1000.0)
    median = cpu(rows, 701, dataclasses.replace(POLICY, percentile=0.5))
    assert median.usage_p75_millicores == pytest.approx(500.0 + 500 / 120)


def test_burst_of_one_second_shows_in_burst_and_a_tenth_of_it_in_the_peak() -> None:
    # 100 throughout, one second at 1100 more than that: a 10 s rate holds 100 + 1000 / 10 = 200.
    rows = [sample(i, 100_000 * i + (1_000_000 if i >= 50 else 0)) for i in range(1, 82)]
    window = cpu(rows, 81)
    assert window.burst_millicores == pytest.approx(1100.0)
    assert window.usage_peak_millicores == pytest.approx(200.0)
    assert window.last_usage_millicores == pytest.approx(100.0)
    # 10 of 60 rates are 200, so the P75 is 100.
    assert window.usage_p75_millicores == pytest.approx(100.0)


def test_each_rate_is_adjusted_before_the_percentile_is_taken() -> None:
    # Busy seconds without waiting, idle ones all waiting: 400 for 30 s, then 300 with waiting 1: adjusted 600.
    rows = [steady(range(31), 400)]
    rows += [sample(30 + i, 12_000_000 + 300_000 * i, some=1_000_000 * i) for i in range(1, 51)]
    window = cpu(rows, 80)
    assert window.usage_peak_millicores == pytest.approx(400.0)
    assert window.adjusted_peak_millicores == pytest.approx(600.0)
    assert window.waiting_ratio == pytest.approx(50 / 60)


# --- window edges and stepping back


def test_rows_after_the_end_do_not_count() -> None:
    rows = np.concatenate([steady(range(1, 82), 500), steady(range(82, 200), 1500, usage0=40_000_000)])
    assert cpu(rows, 81) == cpu(steady(range(1, 82), 500), 81)


def test_window_before_all_rows_is_out_of_ring() -> None:
    window = cpu(steady(range(100, 120), 500), 99)
    assert set(window.missing.values()) == {Missing.OUT_OF_RING}
    assert window.readings == 0


@pytest.mark.parametrize("pieces", [(), (sample(1)[:0],), (sample(1)[:0], sample(1)[:0])])
def test_empty_ring_has_too_few_samples(pieces: tuple[Rows, ...]) -> None:
    window = cpu_window(pieces, POLICY, end_monotonic_ns=NS)
    assert set(window.missing.values()) == {Missing.TOO_FEW_SAMPLES}
    assert_well_formed(window, POLICY)


def test_reading_at_the_far_edge_is_outside_and_only_begins_the_first_pair() -> None:
    # (21, 81]: the reading at 21 is outside, the pair 21..22 inside: pairs cover all 60 s.
    assert cpu(steady(range(21, 82), 500), 81).readings == 60
    # A pair across the start counts from the start on: readings at 20.5, 21.5, ... 80.5: 59.5 s of 60.
    assert cpu(steady([i + 0.5 for i in range(10, 81)], 500), 81).coverage_ratio == pytest.approx(59.5 / 60)


# --- young containers


def test_single_reading_has_no_figures_yet() -> None:
    window = cpu(sample(80), 81)
    assert (window.readings, window.span_seconds, window.coverage_ratio) == (1, 0.0, 0.0)
    assert set(window.missing.values()) == {Missing.TOO_FEW_SAMPLES}


def test_two_readings_have_last_figures_but_no_percentile() -> None:
    window = cpu(steady([80, 81], 300, waiting=0.1), 81)
    assert window.last_usage_millicores == window.burst_millicores == pytest.approx(300.0)
    assert window.last_waiting_ratio == pytest.approx(0.1)
    assert window.missing == dict.fromkeys(
        [
            "usage_p75_millicores",
            "usage_peak_millicores",
            "adjusted_p75_millicores",
            "adjusted_peak_millicores",
        ],
        Missing.TOO_FEW_SAMPLES,
    )


def test_container_of_twelve_seconds_has_a_percentile_and_shows_its_youth() -> None:
    window = cpu(steady(range(100, 113), 300), 112, POLICY)
    assert window.usage_p75_millicores == pytest.approx(300.0)
    assert (window.readings, window.span_seconds) == (13, 12.0)
    assert window.coverage_ratio == pytest.approx(12 / 600)


# --- gaps


def test_counter_reset_in_the_newest_pair_leaves_no_last_figure() -> None:
    window = cpu([steady(range(1, 81), 500), sample(81, 7)], 81)
    assert window.gaps == {Gap.COUNTER_RESET: 1}
    for name in ("last_usage_millicores", "last_waiting_ratio", "last_throttled_ratio"):
        assert window.missing[name] == Missing.GAPS
    assert window.usage_p75_millicores == pytest.approx(500.0)  # 1 s of 60 is within the 20 %
    assert window.coverage_ratio == pytest.approx(59 / 60)


@pytest.mark.parametrize(
    ("pause", "is_ranked"),
    [
        (12, True),  # 12 s of 60 are exactly the fifth that may be missing
        (13, False),
    ],
)
def test_too_much_gap_leaves_no_percentile_and_all_else_stays(pause: int, is_ranked: bool) -> None:
    rows = np.concatenate([steady(range(1, 51), 500), steady(range(50 + pause, 82), 500, usage0=40_000_000)])
    window = cpu(rows, 81)
    assert window.gaps == {Gap.TOO_FAR_APART: 1}
    assert window.coverage_ratio == pytest.approx((60 - pause) / 60)
    assert window.last_usage_millicores == pytest.approx(500.0)
    assert window.usage_peak_millicores == window.adjusted_peak_millicores == pytest.approx(500.0)
    ranked = {} if is_ranked else dict.fromkeys(["usage_p75_millicores", "adjusted_p75_millicores"], Missing.GAPS)
    assert window.missing == ranked


def test_missing_signal_is_named_before_gaps() -> None:
    rows = np.concatenate([steady(range(1, 51), 500, has=0), steady(range(70, 82), 500, usage0=40_000_000, has=0)])
    window = cpu(rows, 81)
    assert window.missing["usage_p75_millicores"] == Missing.GAPS
    assert window.missing["adjusted_p75_millicores"] == Missing.NO_SIGNAL


def test_silence_before_the_end_is_a_gap_once_it_lasts_longer_than_a_step() -> None:
    # Readings up to 81: at 86 none is overdue (5 s); at 94 nothing covers 13 of 60 s.
    assert cpu(steady(range(1, 82), 500), 86).usage_p75_millicores == pytest.approx(500.0)
    silent = cpu(steady(range(1, 82), 500), 94)
    assert silent.missing == dict.fromkeys(["usage_p75_millicores", "adjusted_p75_millicores"], Missing.GAPS)
    assert silent.last_usage_millicores == pytest.approx(500.0)  # as old as the newest reading


def test_window_of_silence_is_all_gap() -> None:
    window = cpu(steady(range(1, 12), 500), 500)
    assert set(window.missing.values()) == {Missing.GAPS}
    assert (window.readings, window.coverage_ratio) == (0, 0.0)


def test_first_reading_after_a_long_pause_is_all_gap_not_young() -> None:
    window = cpu([steady(range(1, 12), 500), sample(500, 99_000_000)], 500)
    assert window.gaps == {Gap.TOO_FAR_APART: 1}
    assert set(window.missing.values()) == {Missing.GAPS}


def test_restart_after_a_pause_longer_than_the_window_is_observed_from_the_windows_start() -> None:
    # Readings up to 11 s, then from 489 to 500: 11 s of 60 are covered, so there is no percentile.
    rows = [steady(range(1, 12), 500), steady(range(489, 501), 500, usage0=99_000_000)]
    assert cpu(rows, 500).missing["usage_p75_millicores"] == Missing.GAPS


def test_gaps_in_a_young_container_are_weighed_against_its_age() -> None:
    # 20 s old with 6 s of pause: 30 % of what was observed, though only 10 % of the window.
    rows = [steady(range(61, 72), 500), steady(range(77, 82), 500, usage0=20_000_000)]
    assert cpu(rows, 81).missing["usage_p75_millicores"] == Missing.GAPS


def test_rows_that_cannot_be_read_are_counted_by_reason() -> None:
    rows = [steady(range(1, 80), 500), sample(79.5, status=Status.PARSE), sample(80, status=Status.GONE)]
    rows += [sample(80.5, status=Status.IO), sample(81, 40_000_000, throttled=0, has=0)]
    window = cpu(rows, 81)
    assert window.gaps == {Gap.PARSE: 1, Gap.READ_FAILED: 2}
    assert window.last_usage_millicores == pytest.approx(500.0)  # 1 s of CPU time in the 2 s from 79 to 81


def test_failed_rows_before_the_window_are_not_counted() -> None:
    rows = [sample(1, status=Status.PARSE), steady(range(2, 82), 500)]
    assert cpu(rows, 81).gaps == {}


def test_only_failed_rows_are_all_gap() -> None:
    window = cpu([sample(80, status=Status.IO), sample(81, status=Status.PARSE)], 81)
    assert window.gaps == {Gap.READ_FAILED: 1, Gap.PARSE: 1}
    assert set(window.missing.values()) == {Missing.GAPS}


def test_clock_step_back_and_forth_makes_gaps_and_no_rates() -> None:
    rows = [steady(range(1, 60), 500), sample(58.5, 29_000_000), sample(59.5, 29_500_000)]
    window = cpu(rows, 60)
    assert window.gaps == {Gap.CLOCK: 1}
    assert window.last_usage_millicores == pytest.approx(500.0)
    assert window.usage_peak_millicores == pytest.approx(500.0)


def test_stamps_far_in_the_future_are_left_out_as_later_than_the_end() -> None:
    rows = [sample(10_000, 0), steady(range(61, 82), 500)]
    assert cpu(rows, 81).usage_p75_millicores == pytest.approx(500.0)


def test_implausible_pair_is_neither_burst_nor_peak() -> None:
    rows = [sample(i, 100_000 * i + (5_000_000 if i >= 50 else 0)) for i in range(1, 82)]
    window = cpu(rows, 81)
    assert window.gaps == {Gap.IMPLAUSIBLE: 1}
    assert window.burst_millicores == window.usage_peak_millicores == pytest.approx(100.0)


# --- signals


def test_without_any_optional_signal_usage_is_complete() -> None:
    window = cpu(steady(range(1, 82), 500, has=0), 81)
    assert window.usage_p75_millicores == window.last_usage_millicores == pytest.approx(500.0)
    assert set(window.missing) == {
        name for name in CPU_FIGURES if not name.startswith(("usage", "last_usage", "burst"))
    }
    assert set(window.missing.values()) == {Missing.NO_SIGNAL}


def test_signal_that_appears_midway_is_used_from_then_on() -> None:
    # PSI from 52 s on, 0.5 waiting: rates that end at 62 or later know ten pairs of it.
    rows = [sample(i, 100_000 * i, some=500_000 * i, has=ALL if i >= 52 else ALL & ~Has.PRESSURE) for i in range(1, 82)]
    window = cpu(rows, 81)
    assert window.waiting_ratio == pytest.approx(0.5)
    assert window.adjusted_peak_millicores == pytest.approx(150.0)
    # Rates that end at 53 or later are adjusted: 29 of 60, so the median lies among the others.
    assert cpu(rows, 81, dataclasses.replace(SHORT, percentile=0.5)).adjusted_p75_millicores == pytest.approx(100.0)


def test_signal_that_just_appeared_has_too_few_samples() -> None:
    rows = [steady(range(1, 81), 500, has=0), sample(81, 40_000_000, has=ALL)]
    window = cpu(rows, 81)
    assert window.missing["last_waiting_ratio"] == window.missing["waiting_ratio"] == Missing.TOO_FEW_SAMPLES
    assert window.missing["adjusted_p75_millicores"] == Missing.TOO_FEW_SAMPLES
    assert window.missing["throttled_periods_ratio"] == Missing.TOO_FEW_SAMPLES


def test_signal_that_was_lost_leaves_its_mean_and_no_last_figure() -> None:
    rows = [steady(range(1, 81), 500, waiting=0.3), sample(81, 40_000_000, has=0)]
    window = cpu(rows, 81)
    assert window.waiting_ratio == pytest.approx(0.3)
    assert window.missing["last_waiting_ratio"] == window.missing["last_throttled_ratio"] == Missing.NO_SIGNAL
    assert window.last_usage_millicores is not None


def test_no_enforcement_period_in_the_window_has_no_share_of_periods() -> None:
    window = cpu([sample(i, 100_000 * i) for i in range(1, 82)], 81)
    assert window.throttled_ratio == 0.0  # measured, and none
    assert window.missing == {"throttled_periods_ratio": Missing.NO_SIGNAL}


# --- properties


@st.composite
def load(draw: st.DrawFn) -> tuple[Rows, float]:
    """Readings about a second apart of a load that jumps, with failures, resets, pauses and lost signals."""
    at, usage, some, throttled = draw(st.integers(0, 1000)), draw(st.sampled_from([0, 2**64 - 3_000_000])), 0, 0
    rows = []
    for _ in range(draw(st.integers(1, 60))):
        kind = draw(st.sampled_from(["ok"] * 12 + ["failed", "reset", "pause", "back", "no_signal"]))
        dt = draw(st.integers(500, 1500)) if kind != "pause" else draw(st.integers(4000, 40_000))
        at += -dt if kind == "back" else dt
        usage = 0 if kind == "reset" else usage + draw(st.integers(0, 2200)) * dt
        some += draw(st.integers(0, 1100)) * dt
        throttled += draw(st.sampled_from([0, 0, 500, 4000])) * dt
        rows.append(
            sample(
                max(at, 0) / 1000,
                usage,
                some=some,
                throttled=throttled,
                periods=at // 100,
                throttled_periods=throttled // 400_000,
                status=Status.IO if kind == "failed" else Status.OK,
                has=0 if kind == "no_signal" else ALL,
            )
        )
    return np.concatenate(rows), max(at, 0) / 1000 + draw(st.sampled_from([0.0, 0.3, 7.0]))


@settings(deadline=None)
@given(load())
def test_any_load_gives_bounded_figures_with_a_reason_for_each_that_is_missing(case: tuple[Rows, float]) -> None:
    cpu(case[0], case[1])


@settings(deadline=None)
@given(load(), st.integers(0, 60))
def test_splitting_the_rows_anywhere_changes_nothing(case: tuple[Rows, float], at: int) -> None:
    rows, end = case
    end_ns = round(end * NS)
    whole = cpu_window((rows,), SHORT, end_monotonic_ns=end_ns)
    before = rows.tobytes()
    assert cpu_window((rows[:at], rows[at:]), SHORT, end_monotonic_ns=end_ns) == whole
    assert rows.tobytes() == before


@settings(deadline=None)
@given(load())
def test_figures_scale_with_usage_and_capacity(case: tuple[Rows, float]) -> None:
    # Twice the usage on a node twice as large doubles millicores and leaves ratios, gaps and reasons alone. (Not with
    # a counter about to wrap, which would wrap twice.)
    rows, end = case
    doubled = rows.copy()
    doubled["usage_usec"] *= 2
    if (rows["usage_usec"] > 2**63).any():
        return
    large = dataclasses.replace(SHORT, capacity_millicores=2 * SHORT.capacity_millicores)
    window, two = cpu(rows, end), cpu(doubled, end, large)
    assert (window.gaps, window.missing, window.readings) == (two.gaps, two.missing, two.readings)
    for name in CPU_FIGURES:
        value = getattr(window, name)
        if value is not None:
            factor = 2 if name.endswith("millicores") else 1
            assert getattr(two, name) == pytest.approx(factor * value, rel=1e-9), name


@settings(deadline=None)
@given(load(), st.integers(1, 10**6))
def test_moving_all_stamps_changes_nothing(case: tuple[Rows, float], shift_seconds: int) -> None:
    rows, end = case
    moved = rows.copy()
    moved["monotonic_ns"] += np.uint64(shift_seconds * NS)
    before = cpu_window((rows,), SHORT, end_monotonic_ns=round(end * NS))
    assert cpu_window((moved,), SHORT, end_monotonic_ns=round(end * NS) + shift_seconds * NS) == before


def plain_sliding_peak(rows: Rows, end_ns: int, policy: WindowPolicy) -> float | None:
    """The rule for sliding rates once more, in plain integers and loops."""
    good = [(int(r["monotonic_ns"]), int(r["usage_usec"])) for r in rows if r["status"] == 0]
    start_ns, rates = end_ns - int(policy.cpu_window_seconds * NS), []
    for i in range(len(good)):
        j = i
        while j > 0 and good[i][0] - good[j][0] < policy.rate_window_seconds * NS:
            dt, du = good[j][0] - good[j - 1][0], (good[j][1] - good[j - 1][1]) % 2**64
            if not (0 < dt <= policy.max_step_seconds * NS and du * 1e6 / dt <= policy.limit_millicores):
                break
            j -= 1
        span = good[i][0] - good[j][0]
        if good[i][0] > start_ns and span >= min(policy.min_rate_seconds, policy.rate_window_seconds) * NS:
            rates.append((good[i][1] - good[j][1]) % 2**64 * 1e6 / span)
    return max(rates, default=None)


@settings(deadline=None)
@given(load())
def test_sliding_peak_agrees_with_plain_loops(case: tuple[Rows, float]) -> None:
    rows, end = case
    if (np.diff(rows["monotonic_ns"].astype(np.int64)) <= 0).any():
        return  # rows of a clock that fell are placed by their order, which the plain rule does not do
    window = cpu(rows, end)
    expected = plain_sliding_peak(rows, round(end * NS), SHORT)
    assert window.usage_peak_millicores == (None if expected is None else pytest.approx(expected, rel=1e-9))


# --- memory

MEMORY_POLICY = dataclasses.replace(POLICY, memory_window_seconds=100)


def mem(rows: list[Rows], end: float, policy: WindowPolicy = MEMORY_POLICY) -> MemoryWindow:
    pieces: tuple[Rows, ...] = (np.concatenate(rows),) if rows else ()
    window = memory_window(pieces, policy, end_monotonic_ns=round(end * NS))
    figures = {name: getattr(window, name) for name in MEMORY_FIGURES}
    assert {name for name, value in figures.items() if value is None} == set(window.missing)
    numbers = [value for name, value in figures.items() if value is not None and name != "cold_file"]
    assert all(value >= 0 and math.isfinite(value) for value in numbers)
    for cut in range(len(rows) + 1):
        if rows:
            split = (pieces[0][:cut], pieces[0][cut:])
            assert memory_window(split, policy, end_monotonic_ns=round(end * NS)) == window
    return window


def test_memory_window_of_growing_rows() -> None:
    # Rows each 10 s at 10..150 s, current 1000 x row number, 100 of it inactive; end 150: rows 6..15 (60..150 s).
    rows = [
        memory(10 * i, 1000 * i, inactive=100, set_peak=1000 * i - 50, lifetime_peak=5000 * i, some=100_000 * i)
        for i in range(1, 16)
    ]
    window = mem(rows, 150)
    assert (window.readings, window.span_seconds) == (10, 90.0)
    assert window.current_bytes == 15_000
    assert window.working_set_bytes == 14_900
    # 5900, 6900, ... 14,900: rank 0.75 x 9 = 6.75 is 5900 + 6750.
    assert window.working_set_p75_bytes == 12_650
    assert window.working_set_peak_bytes == 14_950
    assert window.lifetime_peak_bytes == 75_000
    assert window.pressure_some_ratio == pytest.approx(0.01)  # 0.1 s in 10 s
    assert window.oom_kills == 0
    assert window.missing == {"cold_file": Missing.TOO_FEW_SAMPLES}


def test_memory_percentile_is_rounded_up_to_a_whole_byte() -> None:
    # 1 and 2 at rank 0.75: 1.75.
    assert mem([memory(90, 1), memory(100, 2)], 100).working_set_p75_bytes == 2


def test_working_set_is_never_below_zero() -> None:
    assert mem([memory(100, 50, inactive=80)], 100).working_set_bytes == 0


def test_single_memory_row_has_sizes_but_no_differences() -> None:
    window = mem([memory(100, 500, inactive=100, set_peak=450)], 100)
    assert (window.working_set_p75_bytes, window.working_set_peak_bytes) == (400, 450)
    differences = ("pressure_some_ratio", "pressure_full_ratio", "io_pressure_some_ratio", "oom_kills", "high_events")
    assert window.missing == dict.fromkeys((*differences, "cold_file"), Missing.TOO_FEW_SAMPLES)


@pytest.mark.parametrize(
    ("counters", "kills"),
    [
        ([5, 5, 5], 0),
        ([0, 1, 3], 3),
        ([2**32 - 1, 1, 1], 2),  # wraps: 2**32 - 1 -> 2**32 + 1
        ([7, 0, 2], 2),  # began anew, then two
    ],
)
def test_kills_are_counted_across_wrap_and_reset(counters: list[int], kills: int) -> None:
    assert mem([memory(70 + 10 * i, oom_kill=n) for i, n in enumerate(counters)], 100).oom_kills == kills


def test_kill_seen_by_the_first_row_of_the_window_counts_and_older_ones_do_not() -> None:
    # (50, 150]: the rise from 40 to 55 is seen inside, that from 30 to 40 before.
    rows = [memory(30, oom_kill=0), memory(40, oom_kill=1), memory(55, oom_kill=3), memory(150, oom_kill=3)]
    assert mem(rows, 150).oom_kills == 2


def test_kill_is_told_by_the_next_row_that_has_the_counter() -> None:
    rows = [memory(80, oom_kill=0), memory(90, has=ALL & ~Has.MEMORY_EVENTS), memory(100, oom_kill=1)]
    assert mem(rows, 100).oom_kills == 1


def test_memory_without_controller_has_no_signal_but_pressure_stays() -> None:
    rows = [memory(10 * i, some=1_000_000 * i, has=int(Has.MEMORY_PRESSURE)) for i in range(1, 11)]
    window = mem(rows, 100)
    assert window.pressure_some_ratio == pytest.approx(0.1)
    stalls = {"pressure_some_ratio", "pressure_full_ratio"}
    assert window.missing == dict.fromkeys(set(MEMORY_FIGURES) - stalls, Missing.NO_SIGNAL)


def test_memory_pressure_absent_leaves_the_sizes() -> None:
    window = mem([memory(10 * i, 500, has=ALL & ~Has.MEMORY_PRESSURE) for i in range(1, 11)], 100)
    absent = ("pressure_some_ratio", "pressure_full_ratio", "cold_file")
    assert window.missing == dict.fromkeys(absent, Missing.NO_SIGNAL)


def test_stalls_events_and_anonymous_memory_are_told() -> None:
    rows = [
        memory(10 * i, 500, anon=100 + i, some=2_000_000 * i, full=1_000_000 * i, io=500_000 * i, high=2**32 - 3 + i)
        for i in range(1, 11)
    ]
    window = mem(rows, 100)
    assert window.anon_bytes == 110
    # 2, 1 and 0.5 s in each 10 s.
    assert window.pressure_some_ratio == pytest.approx(0.2)
    assert window.pressure_full_ratio == pytest.approx(0.1)
    assert window.io_pressure_some_ratio == pytest.approx(0.05)
    assert window.high_events == 9  # from row to row, across the wrap


def test_io_pressure_absent_leaves_the_memory_pressure() -> None:
    window = mem([memory(10 * i, 500, has=ALL & ~Has.IO_PRESSURE) for i in range(1, 11)], 100)
    assert window.missing == {"io_pressure_some_ratio": Missing.NO_SIGNAL, "cold_file": Missing.TOO_FEW_SAMPLES}


def test_a_total_that_fell_leaves_the_other_of_its_file() -> None:
    window = mem([memory(90, some=0, full=7), memory(100, some=1_000_000, full=3)], 100)
    assert window.pressure_some_ratio == pytest.approx(0.1)
    assert window.missing == dict.fromkeys(("pressure_full_ratio", "cold_file"), Missing.TOO_FEW_SAMPLES)


def test_newest_sizes_outlive_one_failed_memory_stat_but_not_a_lost_controller() -> None:
    lost = [memory(60 + 10 * i, 900, has=int(Has.MEMORY_EVENTS)) for i in range(1, 7)]
    window = mem([memory(60, 500, inactive=100, lifetime_peak=800), lost[0]], 70)
    assert (window.current_bytes, window.working_set_bytes, window.lifetime_peak_bytes) == (500, 400, 800)
    # At 120 s the sizes are 60 s old, more than the 50 s that a step may last; those of the window stay.
    gone = mem([memory(60, 500, inactive=100, set_peak=450), *lost], 120)
    assert (gone.current_bytes, gone.working_set_bytes, gone.lifetime_peak_bytes) == (None, None, None)
    assert (gone.working_set_p75_bytes, gone.working_set_peak_bytes) == (400, 450)
    assert gone.missing["current_bytes"] == Missing.NO_SIGNAL


def test_memory_pressure_over_pauses_resets_and_clock_steps_is_left_out() -> None:
    rows = [memory(40, some=0), memory(100, some=60_000_000), memory(110, some=5), memory(109, some=9)]
    window = mem([*rows, memory(119, some=1_000_009)], 119)
    assert window.pressure_some_ratio == pytest.approx(0.1)  # only 109..119 is believed: 1 s in 10
    assert mem(rows[:2], 100).missing["pressure_some_ratio"] == Missing.GAPS


def test_memory_pressure_is_capped_at_all_of_the_time() -> None:
    assert mem([memory(90, some=0), memory(100, some=99_000_000)], 100).pressure_some_ratio == 1.0


@pytest.mark.parametrize(
    ("moments", "is_ranked"),
    [
        ([10, 20, 30, 40, 50, 60, 70, 80, 90, 100], True),
        ([10, 20, 80, 90, 100], False),  # 60 s of the 90 observed
        ([95, 100], True),  # young, not gap
        ([10, 20, 30, 40], False),  # silent since 40
    ],
)
def test_memory_percentile_needs_rows_without_long_pauses(moments: list[int], is_ranked: bool) -> None:
    window = mem([memory(at, 500) for at in moments], 100)
    assert (window.working_set_p75_bytes == 500) == is_ranked
    if not is_ranked:
        assert window.missing["working_set_p75_bytes"] == Missing.GAPS
    assert window.working_set_peak_bytes == 500


def test_memory_rows_that_failed_leave_gaps() -> None:
    window = mem([memory(10 * i, 500, status=Status.OK if i < 4 else Status.PARSE) for i in range(1, 11)], 100)
    assert window.readings == 3
    assert window.missing["working_set_p75_bytes"] == Missing.GAPS


@pytest.mark.parametrize(
    ("rows", "end", "reason"),
    [
        ([], 100, Missing.TOO_FEW_SAMPLES),
        ([memory(200, 1)], 100, Missing.OUT_OF_RING),
        ([memory(10, 1)], 500, Missing.GAPS),
        ([memory(90, 1, status=Status.IO)], 100, Missing.GAPS),
    ],
)
def test_memory_window_without_rows_says_why(rows: list[Rows], end: float, reason: Missing) -> None:
    window = mem(rows, end)
    assert set(window.missing.values()) == {reason}
    assert (window.readings, window.span_seconds) == (0, 0.0)


def test_memory_observed_at_a_single_moment_has_a_percentile() -> None:
    assert mem([memory(100, 7)], 100).working_set_p75_bytes == 7


wide = st.integers(0, 2**50)


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            memory,
            st.integers(0, 300),
            wide,
            inactive=wide,
            set_peak=wide,
            some=wide,
            oom_kill=st.integers(0, 2**32 - 1),
            status=st.sampled_from([Status.OK, Status.OK, Status.IO]),
            has=st.integers(0, 511),
        ),
        max_size=12,
    ),
    st.integers(0, 310),
)
def test_any_memory_rows_give_bounded_figures(rows: list[Rows], end: int) -> None:
    window = mem(rows, end)
    assert window.pressure_some_ratio is None or 0 <= window.pressure_some_ratio <= 1
    if window.working_set_p75_bytes is not None:
        assert window.working_set_peak_bytes is not None
        assert window.working_set_p75_bytes <= window.working_set_peak_bytes


# --- sums as C gives them


def test_sums_survive_the_way_through_an_array_of_their_dtype() -> None:
    rows = np.concatenate([memory(10 * i, 100 + i, inactive=3, some=1000 * i, active=7) for i in range(1, 60)])
    sums = memory_sums((rows,), POLICY, end_monotonic_ns=590 * NS)
    (row,) = np.array([sums], dtype=MEMORY_SUMS).tolist()
    assert to_memory_sums(row[:-4], row[-4:]) == sums
