from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.history.workloads.hour_peaks import HourPeak, HourPeaks, MinutePeaks, PeakRing, hour_of, is_same_hour
from tests.policy_rows import Figures, all_rows, make_minutes

KIB = 1024


def minute_at(text: str) -> int:
    """The UTC minute, from ``2026-01-28 14:05``."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) // 60


def demand(cpu: Figures, memory: Figures | None = None) -> MinutePeaks:
    return MinutePeaks.of(make_minutes(0, cpu, memory))


def hour_peaks(rows: int = 1, history_days: int = 7, neighbour_hours: int = 0) -> HourPeaks:
    return HourPeaks(rows, history_days=history_days, neighbour_hours=neighbour_hours)


def same_hour(peaks: HourPeaks, now: str, row: int = 0) -> float | None:
    largest = peaks.same_hour(np.array([row]), minute_at(now) * 60.0)
    assert largest.has_cpu[0] or largest.cpu_millicores[0] == 0.0
    return float(largest.cpu_millicores[0]) if largest.has_cpu[0] else None


# --- which hours count


@pytest.mark.parametrize(
    ("hour", "counts"),
    [(1000, True), (999, False), (1001, False), (976, True), (975, False), (1000 - 168, True), (1000 - 192, False)],
)
def test_same_hour_without_neighbours_is_today_and_seven_days_before(hour: int, counts: bool) -> None:
    assert is_same_hour(np.array([hour]), 1000, days=7, neighbours=0).tolist() == [counts]


@pytest.mark.parametrize(
    ("hour", "counts"),
    [
        (999, True),
        (998, False),
        (1001, True),
        (1002, False),
        (977, True),
        (831, True),
        (830, False),
        (1000 - 191, False),
    ],
)
def test_same_hour_with_a_neighbour_counts_one_on_either_side_of_each_day(hour: int, counts: bool) -> None:
    assert is_same_hour(np.array([hour]), 1000, days=7, neighbours=1).tolist() == [counts]


def test_same_hour_with_twelve_neighbours_is_every_hour_up_to_twelve_before_the_oldest() -> None:
    hours = np.arange(1000 - 200, 1001)
    same = is_same_hour(hours, 1000, days=7, neighbours=12)
    assert hours[same].tolist() == list(range(1000 - 180, 1001))


@given(st.integers(0, 300), st.integers(1, 7), st.integers(0, 12))
def test_same_hour_is_as_spelt_out_day_by_day(before: int, days: int, neighbours: int) -> None:
    spelt_out = any(abs(before - 24 * day) <= neighbours for day in range(days + 1))
    assert is_same_hour(np.array([5000 - before]), 5000, days=days, neighbours=neighbours).tolist() == [spelt_out]


def test_hour_of_a_full_hour_is_the_one_it_begins() -> None:
    assert [hour_of(at) for at in (7199.999, 7200.0, 7200.001)] == [1, 2, 2]


# --- a minute's demand


def test_demand_masks_what_is_not_known() -> None:
    taken = demand([None, 5.0], [7 * KIB, None])
    assert taken.values.tolist() == [[0.0, 5.0], [7 * KIB, 0.0]]
    assert taken.known.tolist() == [[False, True], [True, False]]


def test_demand_of_memory_is_never_told_too_small() -> None:
    # 16 GiB + 1 KiB has 25 significant bits, one more than single precision: upwards to 16 GiB + 2 KiB.
    exact, odd = 16 * KIB**3, 16 * KIB**3 + KIB
    taken = demand([0.1, 0.1], [exact, odd])
    assert taken.values[1].tolist() == [exact, exact + 2 * KIB]
    assert taken.values[0].tolist() == pytest.approx([0.1, 0.1], rel=1e-7)


@given(st.floats(min_value=0, max_value=1e15))
def test_demand_of_memory_is_at_most_an_eight_millionth_too_large(memory: float) -> None:
    demand_bytes = float(demand([None], [memory]).values[1, 0])
    assert memory <= demand_bytes <= memory * (1 + 2**-23) + 1e-40


# --- the ring


def test_ring_keeps_the_maximum_of_a_stretch_and_forgets_the_one_before_in_its_slot() -> None:
    ring = PeakRing(1, 3)
    for stretch, cpu in [(10, 5.0), (10, 9.0), (10, 7.0), (11, 1.0), (13, 2.0)]:
        ring.fold(stretch, demand([cpu]))
    # 13 stands where 10 stood; 12 never came.
    assert ring.of_row(0) == [(11, 1.0, None), (13, 2.0, None)]


def test_ring_largest_counts_only_the_slots_asked_for_and_used() -> None:
    ring = PeakRing(1, 4)
    ring.fold(1, demand([5.0], [KIB]))
    ring.fold(2, demand([3.0]))
    rows = all_rows(1)
    everything = ring.largest(rows, np.ones(4, dtype=np.bool_))
    assert (everything.cpu_millicores[0], everything.working_set_bytes[0]) == (5.0, KIB)
    newest = ring.largest(rows, ring.stretches == 2)
    assert (newest.cpu_millicores[0], newest.has_cpu[0], newest.has_memory[0]) == (3.0, True, False)
    nothing = ring.largest(rows, ring.stretches == 0)  # the slots that hold no stretch yet
    assert (nothing.has_cpu[0], nothing.has_memory[0]) == (False, False)
    assert ring.largest_bytes(rows, ring.stretches <= 2) == (np.array([KIB]), np.array([True]))


def test_ring_that_is_full_counts_all_of_its_slots() -> None:
    ring = PeakRing(2, 2)
    ring.fold(1, demand([5.0, None]))
    ring.fold(2, demand([3.0, 4.0]))
    assert ring.largest(all_rows(2), ring.stretches > 0).cpu_millicores.tolist() == [5.0, 4.0]


figures = st.one_of(st.none(), st.floats(min_value=0, max_value=1e6, width=32))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.lists(figures, min_size=20, max_size=20)), max_size=30), st.data())
def test_ring_gives_the_same_for_rows_asked_for_alone_and_together(
    minutes: list[tuple[int, list[float | None]]], data: st.DataObject
) -> None:
    ring = PeakRing(20, 5)
    for stretch, cpu in minutes:
        ring.fold(stretch, demand(cpu, cpu[::-1]))
    slots = np.array(data.draw(st.lists(st.booleans(), min_size=5, max_size=5)))
    together = ring.largest(all_rows(20), slots)
    for row in range(20):
        alone = ring.largest(np.array([row]), slots)
        assert alone.cpu_millicores[0] == together.cpu_millicores[row]
        assert alone.has_cpu[0] == together.has_cpu[row]
        assert alone.working_set_bytes[0] == together.working_set_bytes[row]
        assert alone.has_memory[0] == together.has_memory[row]
    backwards = ring.largest(all_rows(20)[::-1], slots)
    assert backwards.cpu_millicores.tolist() == together.cpu_millicores[::-1].tolist()


def test_ring_grows_and_forgets() -> None:
    ring = PeakRing(1, 2)
    ring.fold(1, demand([5.0]))
    ring.grow(3)
    ring.grow(2)  # is large enough already
    assert ring.rows == 3
    ring.fold(2, demand([1.0, 2.0, 3.0]))
    ring.forget(np.array([0, 2]))
    assert [ring.of_row(row) for row in range(3)] == [[], [(2, 2.0, None)], []]


# --- hours


def test_same_hour_is_the_maximum_of_the_hour_of_the_day() -> None:
    # As vector ck-peak-01: 14 h of seven days ago, of yesterday and of today count; 13 h and 15 h do not.
    peaks = hour_peaks()
    for at, cpu in [
        ("2026-01-21 14:05", 3.0),
        ("2026-01-27 14:05", 2.0),
        ("2026-01-27 15:05", 4.0),
        ("2026-01-27 20:05", 9.0),
        ("2026-01-28 13:05", 5.0),
        ("2026-01-28 14:05", 1.0),
    ]:
        peaks.fold(minute_at(at), demand([cpu]))
    assert same_hour(peaks, "2026-01-28 14:06") == 3.0


def test_same_hour_of_eight_days_ago_does_not_count() -> None:
    peaks = hour_peaks(neighbour_hours=1)
    peaks.fold(minute_at("2026-01-20 14:30"), demand([9.0]))
    peaks.fold(minute_at("2026-01-28 12:00"), demand([1.0]))
    assert same_hour(peaks, "2026-01-28 14:06") is None


@pytest.mark.parametrize(
    ("measured", "now", "counts"),
    [
        ("2026-02-28 23:59", "2026-03-01 00:10", True),  # the hour before, over the end of a month
        ("2026-02-27 23:59", "2026-03-01 00:10", True),
        ("2026-02-28 01:00", "2026-03-01 00:10", True),  # the hour after, a day ago
        ("2026-02-28 02:00", "2026-03-01 00:10", False),
        ("2026-02-28 22:59", "2026-03-01 00:10", False),
        ("2026-02-28 00:00", "2026-02-28 23:10", True),
        ("2026-02-21 23:00", "2026-02-28 23:10", True),
        ("2026-02-21 22:00", "2026-02-28 23:10", True),  # the oldest hour of all
        ("2026-02-21 21:59", "2026-02-28 23:10", False),
        ("2026-02-20 23:30", "2026-02-28 00:10", True),  # its neighbour, beyond midnight of seven days ago
    ],
)
def test_neighbour_hours_run_on_over_midnight_and_months(measured: str, now: str, counts: bool) -> None:
    peaks = hour_peaks(neighbour_hours=1)
    peaks.fold(minute_at(measured), demand([4.0]))
    assert same_hour(peaks, now) == (4.0 if counts else None)


def test_fewer_history_days_count_less() -> None:
    peaks = hour_peaks(history_days=2)
    peaks.fold(minute_at("2026-01-25 14:00"), demand([9.0], [9.0]))
    peaks.fold(minute_at("2026-01-26 14:59"), demand([2.0], [2.0]))
    assert same_hour(peaks, "2026-01-28 14:06") == 2.0
    # Memory limits go by seven days all the same.
    assert peaks.week_bytes(all_rows(1), minute_at("2026-01-28 14:06") * 60.0) == (np.array([9.0]), np.array([True]))


def test_week_ends_with_the_hour_of_seven_days_ago() -> None:
    now = minute_at("2026-01-28 14:06") * 60.0
    for measured, counts in [("2026-01-21 14:00", True), ("2026-01-21 13:59", False)]:
        peaks = hour_peaks(neighbour_hours=1)
        peaks.fold(minute_at(measured), demand([None], [5.0]))
        assert peaks.week_bytes(all_rows(1), now)[1].tolist() == [counts]


def test_clock_set_back_keeps_the_larger_maximum_of_an_hour_that_comes_again() -> None:
    peaks = hour_peaks()
    peaks.fold(minute_at("2026-01-28 14:30"), demand([5.0]))
    peaks.fold(minute_at("2026-01-28 15:00"), demand([7.0]))
    # Set back by an hour: 14 h is measured once more, with less and then with more.
    peaks.fold(minute_at("2026-01-28 14:05"), demand([2.0]))
    assert same_hour(peaks, "2026-01-28 14:06") == 5.0
    peaks.fold(minute_at("2026-01-28 14:06"), demand([6.0]))
    assert same_hour(peaks, "2026-01-28 14:07") == 6.0
    # What was measured in the hour now ahead is there when it comes.
    assert same_hour(peaks, "2026-01-28 15:00") == 7.0


def test_clock_set_forward_leaves_a_gap_and_no_more() -> None:
    peaks = hour_peaks()
    peaks.fold(minute_at("2026-01-28 14:30"), demand([5.0]))
    peaks.fold(minute_at("2026-01-29 14:00"), demand([1.0]))  # set forward by almost a day
    assert same_hour(peaks, "2026-01-29 14:01") == 5.0
    assert [hour.cpu_millicores for hour in peaks.of_row(0)] == [5.0, 1.0]


def test_clock_that_was_a_year_ahead_costs_only_the_hours_it_stood_in() -> None:
    peaks = hour_peaks()
    peaks.fold(minute_at("2026-01-27 14:30"), demand([5.0]))
    peaks.fold(minute_at("2027-01-28 00:00"), demand([900.0]))
    peaks.fold(minute_at("2026-01-28 14:00"), demand([1.0]))
    assert same_hour(peaks, "2026-01-28 14:01") == 5.0


def test_hours_of_a_row_are_told_in_order_with_what_is_known() -> None:
    peaks = hour_peaks(rows=2, neighbour_hours=1)
    for at, cpu, memory in [
        ("2026-01-27 15:10", 4.0, None),
        ("2026-01-28 14:05", None, 6 * KIB),
        ("2026-01-27 14:05", 2.0, 5 * KIB),
        ("2026-01-27 14:59", 3.0, 4 * KIB),
        ("2026-01-27 20:00", 1.0, 1 * KIB),
    ]:
        peaks.fold(minute_at(at), demand([None, cpu], [None, memory]))
    hours = (
        HourPeak(hour_unix_seconds=minute_at("2026-01-27 14:00") * 60, cpu_millicores=3.0, working_set_bytes=5 * KIB),
        HourPeak(hour_unix_seconds=minute_at("2026-01-27 15:00") * 60, cpu_millicores=4.0, working_set_bytes=None),
        HourPeak(hour_unix_seconds=minute_at("2026-01-27 20:00") * 60, cpu_millicores=1.0, working_set_bytes=KIB),
        HourPeak(hour_unix_seconds=minute_at("2026-01-28 14:00") * 60, cpu_millicores=None, working_set_bytes=6 * KIB),
    )
    assert peaks.of_row(0) == ()
    assert peaks.of_row(1) == hours
    now = minute_at("2026-01-28 14:06") * 60.0
    assert peaks.same_hours_of_row(1, now) == (*hours[:2], hours[3])


def test_hours_grow_and_forget() -> None:
    peaks = hour_peaks()
    peaks.fold(minute_at("2026-01-28 14:30"), demand([5.0]))
    peaks.grow(2)
    peaks.fold(minute_at("2026-01-28 14:31"), demand([4.0, 3.0]))
    peaks.forget(np.array([0]))
    assert [same_hour(peaks, "2026-01-28 14:32", row) for row in (0, 1)] == [None, 3.0]


def test_hours_of_a_thousand_rows_fit_two_kilobytes_each() -> None:
    # 181 hours with twelve neighbours: 4 bytes and a flag, of two resources.
    ring = hour_peaks(rows=1000, neighbour_hours=12)._ring
    assert (ring._values.nbytes + ring._known.nbytes) / 1000 == 1810


def test_ring_asked_for_few_of_its_rows_tells_what_it_tells_of_all() -> None:
    ring = PeakRing(20, 3)
    ring.fold(1, demand([float(row) for row in range(20)]))
    ring.fold(2, demand([None] * 19 + [5.0]))
    used = np.ones(3, dtype=np.bool_)
    few = ring.largest(np.array([19, 3], dtype=np.intp), used)
    assert few.cpu_millicores.tolist() == [19.0, 3.0]
    assert few.has_cpu.tolist() == [True, True]
    assert ring.largest(all_rows(20), used).cpu_millicores.tolist() == [float(row) for row in range(20)]
