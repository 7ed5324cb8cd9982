from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.window.cpu import CPU_FIGURES
from agent.core.window.memory import MEMORY_FIGURES
from agent.core.window.minute_row import minute_row, minute_table, minutes_memory_window, minutes_window, without_cpu
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MINUTE_ROW, Has, Status
from agent.core.window.snapshot import Missing
from tests.window_rows import ALL, NS, Rows, memory, minute, sample, steady

POLICY = WindowPolicy(capacity_millicores=2000)
LOW = ALL & 0xFF


def row_of(raw: list[Rows], memory_rows: list[Rows], number: int, policy: WindowPolicy = POLICY) -> Rows | None:
    """The minute's row, after checking what holds for any: bounds, and the same from two pieces."""
    raw_pieces: tuple[Rows, ...] = (np.concatenate(raw),) if raw else ()
    memory_pieces: tuple[Rows, ...] = (np.concatenate(memory_rows),) if memory_rows else ()
    row = minute_row(raw_pieces, memory_pieces, policy, monotonic_minute=number)
    if raw and memory_rows:
        whole = raw_pieces[0]
        split = minute_row((whole[:7], whole[7:]), memory_pieces, policy, monotonic_minute=number)
        assert (split is None) == (row is None)
        assert split is None or row is None or split.tobytes() == row.tobytes()
    if row is not None:
        mean, peak, burst = (float(row[f"cpu_{name}_millicores"][0]) for name in ("mean", "peak", "burst"))
        assert all(math.isfinite(value) for value in (mean, peak, burst))
        assert 0 <= mean <= peak
        assert mean <= burst <= policy.limit_millicores * (1 + 1e-6)  # single precision
        assert peak <= 2 * policy.limit_millicores * (1 + 1e-6)
    return row


def one(raw: list[Rows], memory_rows: list[Rows], number: int) -> Rows:
    row = row_of(raw, memory_rows, number)
    assert row is not None
    assert row.shape == (1,)
    return row


# --- one minute


def test_minute_of_a_steady_load() -> None:
    # Minute 2 is (120, 180] s. Waiting 0.3 less 0.1 throttled is 0.2: 51 of 255, and the peak is 500 x 1.2.
    raw = [steady([i + 0.5 for i in range(200)], 500, waiting=0.3, throttled=0.1)]
    rows = [memory(at, set_peak=at * KIB + 1) for at in (120, 130, 180, 190)]
    row = one(raw, rows, 2)
    assert row["monotonic_minute"][0] == 2
    assert row["cpu_mean_millicores"][0] == pytest.approx(500.0)
    assert row["cpu_peak_millicores"][0] == pytest.approx(600.0)
    assert row["cpu_burst_millicores"][0] == pytest.approx(500.0)
    assert row["waiting_255"][0] == 51
    assert row["throttled_255"][0] == 26  # 25.5, half up
    assert row["coverage_255"][0] == 255
    assert row["working_set_peak_kib"][0] == 181  # 180 KiB and a byte, rounded up
    assert row["has"][0] == LOW


KIB = 1024


def test_minute_without_the_row_after_it_is_not_quite_covered() -> None:
    # Readings at 0.5, ... 179.5: half a second of 60 is missing: 59.5 / 60 x 255 = 252.9.
    row = one([steady([i + 0.5 for i in range(180)], 500)], [], 2)
    assert row["coverage_255"][0] == 253
    assert row["cpu_mean_millicores"][0] == pytest.approx(500.0)


def test_pair_across_the_minutes_edge_counts_by_its_share() -> None:
    # One pair of 2 s across 120 s used 1 s of CPU time: half a second each way. Minute 1 idles else, so does minute 2.
    raw = [
        *[sample(at, 0) for at in range(59, 120, 2)],
        *[sample(at, 1_000_000) for at in range(121, 190, 2)],
    ]
    for number in (1, 2):
        assert one(raw, [], number)["cpu_mean_millicores"][0] == pytest.approx(500 / 60)


def test_peak_is_the_largest_adjusted_rate_that_ends_in_the_minute() -> None:
    # 90 s at 1000 and 90 s at 100: the rate that ends at 121 s covers 61..121, 29 s of them at 1000.
    raw = [steady(range(91), 1000), steady(range(91, 200), 100, usage0=90_100_000)]
    row = one(raw, [], 2)
    assert row["cpu_peak_millicores"][0] == pytest.approx((29 * 1000 + 31 * 100) / 60)
    assert row["cpu_mean_millicores"][0] == pytest.approx(100.0)
    assert row["cpu_burst_millicores"][0] == pytest.approx(100.0)


def test_burst_is_the_largest_pair_and_not_that_of_the_next_minute() -> None:
    raw = [
        sample(at, 100_000 * at + (900_000 if at > 150 else 0) + (1_500_000 if at > 180 else 0)) for at in range(190)
    ]
    # 150..151 holds 100 + 900; 180..181, which begins with the next minute, 100 + 1500.
    assert one(raw, [], 2)["cpu_burst_millicores"][0] == pytest.approx(1000.0)
    assert one(raw, [], 3)["cpu_burst_millicores"][0] == pytest.approx(1600.0)


def test_first_seconds_of_a_container_have_their_mean_as_peak() -> None:
    # 5 s are too short for a sliding rate: the peak is the mean, adjusted by 0.4 waiting. 5 of 60 s are 21 of 255.
    row = one([steady(range(175, 181), 300, waiting=0.4)], [], 2)
    assert row["cpu_peak_millicores"][0] == pytest.approx(420.0)
    assert row["coverage_255"][0] == 21


def test_tiny_coverage_is_at_least_one() -> None:
    # 50 ms of 60 s are 0.2 of 255.
    assert one([sample(179.9, 0), sample(179.95, 1000)], [], 2)["coverage_255"][0] == 1


def test_short_pair_alone_leaves_the_burst_at_least_at_the_mean() -> None:
    # A pair of 20 ms at 1500 in the minute, one of a second at 100 across its end.
    raw = [sample(179.9, 0), sample(179.92, 30_000), sample(180.92, 130_000)]
    row = one(raw, [], 2)
    assert row["cpu_burst_millicores"][0] == row["cpu_mean_millicores"][0] == pytest.approx(380.0)  # 38 ms in 100


def test_minute_without_optional_signals_says_so_in_has() -> None:
    row = one([steady(range(200), 500, has=0)], [], 2)
    assert row["has"][0] == 0
    assert (row["waiting_255"][0], row["throttled_255"][0], row["working_set_peak_kib"][0]) == (0, 0, 0)
    assert row["cpu_peak_millicores"][0] == pytest.approx(500.0)


def test_minute_of_memory_alone_has_no_coverage() -> None:
    row = one([], [memory(150, set_peak=2048, has=int(Has.MEMORY_STAT | Has.MEMORY_EVENTS))], 2)
    assert (row["coverage_255"][0], row["working_set_peak_kib"][0]) == (0, 2)
    assert row["has"][0] == Has.MEMORY_STAT  # bits above the eighth do not fit a row


def test_working_set_beyond_the_rows_range_is_the_largest_it_holds() -> None:
    assert one([], [memory(150, set_peak=2**63)], 2)["working_set_peak_kib"][0] == 2**32 - 1


@pytest.mark.parametrize(
    ("raw", "memory_rows"),
    [
        ([], []),
        ([steady(range(100), 500)], [memory(100, set_peak=1)]),  # all before
        ([steady(range(186, 200), 500)], [memory(181, set_peak=1)]),  # all after
        ([sample(150, 1)], [memory(150, set_peak=1, has=int(Has.MEMORY))]),  # no pair, no working set
        ([sample(150, 9), sample(151, 1)], [memory(150, set_peak=1, status=Status.IO)]),  # a reset, a failed row
        ([sample(150, 1), sample(160, 1)], []),
    ],
)
def test_minute_with_nothing_measured_is_no_row(raw: list[Rows], memory_rows: list[Rows]) -> None:
    assert row_of(raw, memory_rows, 2) is None


def test_minute_with_a_gap_covers_the_rest_and_no_less() -> None:
    # A reset at 150 s: 59 of 60 s are covered, by the same rate.
    raw = [steady(range(150), 500), steady(range(150, 200), 500)]
    row = one(raw, [], 2)
    assert row["coverage_255"][0] == 251  # 250.75
    assert row["cpu_mean_millicores"][0] == pytest.approx(500.0)


moves = st.lists(
    st.tuples(st.integers(200, 7000), st.integers(0, 2400), st.integers(0, 1000), st.sampled_from([ALL, ALL, 0])),
    min_size=1,
    max_size=80,
)


def moving(steps: list[tuple[int, int, int, int]]) -> list[Rows]:
    at, usage, some, rows = 50_000, 0, 0, []
    for dt, rate, waiting, has in steps:
        at, usage, some = at + dt, usage + dt * rate, some + dt * waiting
        rows.append(sample(at / 1000, usage, some=some, has=has))
    return rows


@settings(deadline=None)
@given(moves)
def test_any_minute_is_bounded_and_ordered(steps: list[tuple[int, int, int, int]]) -> None:
    for number in range(7):
        row_of(moving(steps), [memory(100, set_peak=5)], number)


@settings(deadline=None)
@given(moves)
def test_minutes_hand_out_each_microsecond_once(steps: list[tuple[int, int, int, int]]) -> None:
    # Without gaps, means times covered seconds add up to all that was used.
    fine = [(min(dt, 5000), min(rate, 2000), waiting, has) for dt, rate, waiting, has in steps]
    raw = moving(fine)
    seconds = [float(row["monotonic_ns"][0]) / NS for row in raw]
    total = 0.0
    for number in range(9):
        row = row_of(raw, [], number)
        if row is not None:
            covered = min(seconds[-1], 60 * number + 60) - max(seconds[0], 60 * number)
            total += float(row["cpu_mean_millicores"][0]) * covered * 1000
    assert total == pytest.approx(float(raw[-1]["usage_usec"][0] - raw[0]["usage_usec"][0]), rel=1e-5, abs=1)


# --- stepping back hours


def test_minutes_window_gives_what_minutes_hold() -> None:
    rows = np.concatenate(
        [minute(n, 100 + n, peak=300 + n, burst=900 - n, waiting=51, throttled=255, coverage=204) for n in range(30)]
    )
    # The end, 20 min 30 s, leaves minute 20 out as unfinished: minutes 10..19.
    window = minutes_window((rows[:13], rows[13:]), POLICY, end_monotonic_ns=(20 * 60 + 30) * NS)
    assert (window.readings, window.span_seconds) == (10, 600.0)
    assert window.coverage_ratio == pytest.approx(0.8)
    assert window.last_usage_millicores == 119.0
    assert window.adjusted_peak_millicores == 319.0
    assert window.burst_millicores == 890.0
    assert window.waiting_ratio == window.last_waiting_ratio == pytest.approx(0.2)
    assert window.throttled_ratio == window.last_throttled_ratio == 1.0
    held = ["usage_p75_millicores", "usage_peak_millicores", "adjusted_p75_millicores", "throttled_periods_ratio"]
    assert window.missing == dict.fromkeys(held, Missing.OUT_OF_RING)


def test_minutes_window_weighs_ratios_by_coverage() -> None:
    rows = np.concatenate([minute(1, waiting=255, coverage=51), minute(2, waiting=0, coverage=204)])
    assert minutes_window((rows,), POLICY, end_monotonic_ns=180 * NS).waiting_ratio == pytest.approx(0.2)


def test_minutes_window_without_pressure_has_a_plain_peak() -> None:
    window = minutes_window((minute(1, 100, peak=300, has=0),), POLICY, end_monotonic_ns=120 * NS)
    assert window.usage_peak_millicores == 300.0
    assert window.missing == {
        "usage_p75_millicores": Missing.OUT_OF_RING,
        "throttled_periods_ratio": Missing.OUT_OF_RING,
        **dict.fromkeys(
            [
                "adjusted_p75_millicores",
                "adjusted_peak_millicores",
                "waiting_ratio",
                "last_waiting_ratio",
                "throttled_ratio",
                "last_throttled_ratio",
            ],
            Missing.NO_SIGNAL,
        ),
    }


@pytest.mark.parametrize("pieces", [(), (minute(50, 5),), (minute(1, 5, coverage=0),)])
def test_minutes_window_without_minutes_is_out_of_ring(pieces: tuple[Rows, ...]) -> None:
    window = minutes_window(pieces, POLICY, end_monotonic_ns=180 * NS)
    assert window.missing == dict.fromkeys(CPU_FIGURES, Missing.OUT_OF_RING)


def test_minutes_memory_window_holds_the_peak() -> None:
    rows = np.concatenate([minute(n, set_peak_kib=n, has=int(Has.MEMORY_STAT) if n < 19 else 0) for n in range(30)])
    window = minutes_memory_window((rows,), POLICY, end_monotonic_ns=20 * 60 * NS)
    assert window.working_set_peak_bytes == 18 * KIB
    assert (window.readings, window.span_seconds) == (19, 19 * 60.0)
    assert set(window.missing) == set(MEMORY_FIGURES) - {"working_set_peak_bytes"}
    assert set(window.missing.values()) == {Missing.OUT_OF_RING}


def test_minutes_memory_window_without_working_set_says_why() -> None:
    none = minutes_memory_window((), POLICY, end_monotonic_ns=120 * NS)
    assert none.missing == dict.fromkeys(MEMORY_FIGURES, Missing.OUT_OF_RING)
    blind = minutes_memory_window((minute(1, 100, has=0),), POLICY, end_monotonic_ns=120 * NS)
    assert blind.missing == {**none.missing, "working_set_peak_bytes": Missing.NO_SIGNAL}


def test_table_of_minutes_holds_the_rows_in_their_order() -> None:
    rows = [minute(7, 1.5, set_peak_kib=3), minute(8, 2.5, coverage=9)]
    assert minute_table(rows).tolist() == np.concatenate(rows).tolist()


def test_a_row_without_cpu_keeps_the_rest() -> None:
    row = np.zeros(1, dtype=MINUTE_ROW)
    row["coverage_255"], row["working_set_peak_kib"] = 200, 7
    blank = without_cpu(row)
    assert (int(blank["coverage_255"][0]), int(blank["working_set_peak_kib"][0])) == (0, 7)
    assert int(row["coverage_255"][0]) == 200
