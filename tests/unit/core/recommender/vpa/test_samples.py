from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.arrays import Floats, Rows
from agent.core.recommender.vpa.samples import CpuSamples, MemoryPeaks, whole_millicores

HOUR_SECONDS = 3600.0
MIB = 1 << 20
T0 = 1_700_000_000.0


class Recorded:
    """Tells what would go into the histograms."""

    def __init__(self) -> None:
        self.operations: list[tuple[str, int, float, float, float]] = []

    def add(self, rows: Rows, values: Floats, weights: Floats, unix_seconds: Floats) -> None:
        self._record("add", rows, values, weights, unix_seconds)

    def subtract(self, rows: Rows, values: Floats, weights: Floats, unix_seconds: Floats) -> None:
        self._record("subtract", rows, values, weights, unix_seconds)

    def _record(self, name: str, *columns: Any) -> None:
        self.operations += [(name, *cells) for cells in zip(*(column.tolist() for column in columns), strict=True)]


class Windows:
    """Memory peaks of some containers, with windows of an hour."""

    def __init__(self, rows: int = 1) -> None:
        self.recorded = Recorded()
        self.peaks = MemoryPeaks(
            self.recorded, rows, interval_seconds=HOUR_SECONDS, oom_bump_up_ratio=1.2, oom_min_bump_up_bytes=100.0 * MIB
        )

    def usage(self, amount: int, seconds: float, row: int = 0) -> bool:
        return bool(self.peaks.add_usage(np.array([row]), [amount], T0 + seconds)[0][0])

    def oom(self, request: int, seconds: float, row: int = 0) -> bool:
        return self.peaks.record_oom(row, request, T0 + seconds)

    @property
    def operations(self) -> list[tuple[str, float, float]]:
        """Operation, bytes, and seconds after ``T0``."""
        return [(name, value, time - T0) for name, _, value, _, time in self.recorded.operations]


def test_whole_millicores_round_up_but_not_for_float_noise() -> None:
    assert whole_millicores([0.0, 0.1, 120.0, 120.00000000000001, 120.001]).tolist() == [0, 1, 120, 120, 121]


def test_cpu_samples_accept_what_is_newer_than_the_last() -> None:
    recorded = Recorded()
    samples = CpuSamples(recorded, 2)
    rows = np.array([0, 1])
    assert samples.add(rows, [100, -1], 60.0).tolist() == [True, False]
    assert samples.add(rows, [900, 200], 60.0).tolist() == [False, True]
    assert samples.add(rows, [1, 1], 0.0).tolist() == [False, False]
    assert samples.add(rows, [0, 300], 120.0).tolist() == [True, True]
    assert samples.counts.tolist() == [2, 2]
    assert samples.first_unix_seconds.tolist() == [60.0, 60.0]
    assert samples.last_unix_seconds.tolist() == [120.0, 120.0]
    assert recorded.operations == [
        ("add", 0, 0.1, 0.1, 60.0),
        ("add", 1, 0.2, 0.1, 60.0),
        ("add", 0, 0.0, 0.1, 120.0),
        ("add", 1, 0.3, 0.1, 120.0),
    ]


def test_cpu_samples_before_the_epoch_are_samples() -> None:
    samples = CpuSamples(Recorded(), 1)
    assert samples.add(np.array([0]), [100], -60.0).all()
    assert samples.first_unix_seconds.tolist() == [-60.0]


def test_memory_peak_is_replaced_inside_its_window_and_carries_the_windows_end() -> None:
    windows = Windows()
    assert windows.usage(5, 0)
    assert windows.usage(10, 1800)
    assert windows.usage(7, 1860)
    assert windows.usage(2, 3600)
    assert windows.operations == [("add", 5, 3600), ("subtract", 5, 3600), ("add", 10, 3600), ("add", 2, 7200)]


def test_memory_window_opens_where_the_gap_ends_in_whole_intervals_of_the_first_sample() -> None:
    windows = Windows()
    windows.usage(5, 0)
    windows.usage(6, 3 * 3600 - 1)  # the third hour ends a second later
    windows.usage(7, 10 * 3600)
    assert windows.operations == [("add", 5, 3600), ("add", 6, 3 * 3600), ("add", 7, 11 * 3600)]


def test_memory_samples_older_than_the_last_and_negative_ones_are_dropped() -> None:
    windows = Windows()
    assert windows.usage(500, 60)
    assert not windows.usage(900, 0)
    assert not windows.usage(-1, 120)
    assert windows.usage(600, 60)  # as old as the last is not older
    assert windows.operations == [("add", 500, 3660), ("subtract", 500, 3660), ("add", 600, 3660)]


def test_memory_window_that_opens_with_0_bytes_stays_at_0() -> None:
    windows = Windows()
    assert windows.usage(0, 0)
    assert windows.usage(900, 60)
    assert windows.operations == [("add", 0, 3600)]
    assert windows.usage(900, 3600)
    assert windows.operations[1:] == [("add", 900, 7200)]


@pytest.mark.parametrize(
    ("request_mib", "needed"),
    [(0, 100 * MIB), (500, 600 * MIB), (100, 200 * MIB), (1000, 1200 * MIB)],
)
def test_oom_bumps_the_request_by_the_ratio_or_100_mib(request_mib: int, needed: int) -> None:
    windows = Windows()
    assert windows.oom(request_mib * MIB, 0)
    assert windows.operations == [("add", needed, 3600)]


def test_oom_bumps_the_usage_peak_where_that_is_above_the_request() -> None:
    windows = Windows()
    windows.usage(3000 * MIB, 0)
    assert windows.oom(1000 * MIB, 0)
    assert windows.operations[-1] == ("add", 3600 * MIB, 3600)


def test_oom_kills_in_a_row_do_not_run_away() -> None:
    windows = Windows()
    windows.usage(900 * MIB, 0)
    for seconds in (60, 120, 180):
        assert windows.oom(1000 * MIB, seconds)
    # The peak of the first kill is no usage, so the next ones need no more than it did.
    assert windows.operations == [("add", 900 * MIB, 3600), ("subtract", 900 * MIB, 3600), ("add", 1200 * MIB, 3600)]


def test_oom_is_refused_when_older_than_the_last_sample_by_more_than_an_interval() -> None:
    windows = Windows()
    windows.usage(100 * MIB, 0)
    assert not windows.oom(1000 * MIB, -3601)
    assert windows.oom(1000 * MIB, -3600)


def test_oom_sets_the_time_of_the_last_sample_even_backwards() -> None:
    windows = Windows()
    windows.usage(100 * MIB, 0)
    windows.oom(1000 * MIB, -600)
    assert windows.usage(2000 * MIB, -300)
    assert windows.operations[-1] == ("add", 2000 * MIB, 3600)


def test_usage_above_an_oom_peak_replaces_it() -> None:
    windows = Windows()
    windows.oom(1000 * MIB, 0)
    windows.usage(1100 * MIB, 60)
    windows.usage(1300 * MIB, 120)
    assert windows.operations[1:] == [("subtract", 1200 * MIB, 3600), ("add", 1300 * MIB, 3600)]


def test_forgotten_rows_start_anew_and_the_others_do_not() -> None:
    windows = Windows(rows=2)
    for row in (0, 1):
        windows.usage(500, 0, row)
    windows.peaks.forget(np.array([0]))
    assert windows.usage(100, -7200, row=0)
    assert not windows.usage(100, -7200, row=1)
    assert windows.operations[-1] == ("add", 100, -3600)


def test_grown_rows_know_nothing_and_the_old_ones_all_they_knew() -> None:
    windows = Windows()
    windows.usage(500, 0)
    windows.peaks.grow(3)
    assert windows.peaks.known.tolist() == [True, False, False]
    assert windows.usage(100, -7200, row=2)
    assert not windows.usage(100, -7200, row=0)


events = st.lists(
    st.tuples(
        st.integers(0, 2),  # row
        st.sampled_from(["usage", "usage", "usage", "oom"]),
        st.integers(-1, 5_000),
        st.integers(-3, 5).map(lambda step: step * 1200.0),
    ),
    max_size=30,
)


@given(events)
def test_rows_do_not_touch_each_other(given_events: list[tuple[int, str, int, float]]) -> None:
    together, apart = Windows(rows=3), [Windows() for _ in range(3)]
    seconds = 0.0
    for row, kind, amount, step in given_events:
        seconds += step
        if kind == "oom":
            assert together.oom(abs(amount), seconds, row) == apart[row].oom(abs(amount), seconds)
        else:
            assert together.usage(amount, seconds, row) == apart[row].usage(amount, seconds)
    for row, alone in enumerate(apart):
        mine = [(name, value, time - T0) for name, of, value, _, time in together.recorded.operations if of == row]
        assert mine == alone.operations


@given(st.lists(st.lists(st.integers(-1, 5_000), min_size=3, max_size=3), max_size=30))
def test_rows_at_once_are_as_rows_one_by_one(minutes: list[list[int]]) -> None:
    at_once, one_by_one = Windows(rows=3), Windows(rows=3)
    for index, amounts in enumerate(minutes):
        seconds = index * 700.0
        accepted, changed = at_once.peaks.add_usage(np.arange(3), amounts, T0 + seconds)
        before = len(one_by_one.recorded.operations)
        assert accepted.tolist() == [one_by_one.usage(amount, seconds, row) for row, amount in enumerate(amounts)]
        assert set(changed.tolist()) == {row for _, row, *_ in one_by_one.recorded.operations[before:]}
    assert sorted(at_once.recorded.operations) == sorted(one_by_one.recorded.operations)
    for mine, others in zip(at_once.peaks.to_arrays().values(), one_by_one.peaks.to_arrays().values(), strict=True):
        assert (mine == others).all()
