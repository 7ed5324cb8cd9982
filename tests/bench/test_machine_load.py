"""The load that stands beside each figure of a bench."""

from __future__ import annotations

import pytest

from tests.bench.machine_load import CpuTimes, LoadMeter, MachineLoad, load_between, parse_cpu_times

STAT = "cpu  200 100 50 500 50 10 40 50 150 20\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5\n"


def test_parse_takes_guest_time_once_and_idle_and_steal_for_no_work() -> None:
    # busy: 2.0 + 1.0 + 0.5 + 0.1 + 0.4 s at 100 ticks a second; all: that and 5.0 + 0.5 idle + 0.5 stolen
    times = parse_cpu_times(STAT, ticks_per_second=100, own_seconds=1.5)

    assert times.busy_seconds == pytest.approx(4.0)
    assert times.all_seconds == pytest.approx(10.0)
    assert (times.steal_seconds, times.own_seconds) == (0.5, 1.5)


def times(all_seconds: float, busy_seconds: float, own_seconds: float, steal_seconds: float = 0.0) -> CpuTimes:
    return CpuTimes(
        all_seconds=all_seconds, busy_seconds=busy_seconds, steal_seconds=steal_seconds, own_seconds=own_seconds
    )


def test_load_is_what_was_busy_and_not_ones_own() -> None:
    # 100 s of CPU time passed, 40 busy, 25 of them one's own, 2 stolen
    load = load_between(times(50, 10, 5, 1), times(150, 50, 30, 3))

    assert load == MachineLoad(others_ratio=0.15, steal_ratio=0.02)
    assert load.is_worthless
    assert "WORTHLESS" in str(load)
    assert load.figures("plan") == {
        "others_cpu_percent_of_machine_plan": 15.0,
        "steal_percent_of_machine_plan": 2.0,
    }


def test_load_of_a_quiet_machine_is_told_without_a_warning() -> None:
    load = load_between(times(0, 0, 0), times(100, 12, 8))

    assert not load.is_worthless
    assert str(load) == "others took 4.0% of the machine's CPU time, its host 0.0%"


def test_load_of_a_moment_stays_a_share() -> None:
    # 0.05 s passed by the count that went back, 0.06 s of work and of stealing
    assert load_between(times(1, 0, 0), times(1.05, 0.06, 0, 0.06)) == MachineLoad(others_ratio=1.0, steal_ratio=1.0)


def test_load_where_no_time_passed_or_own_is_ahead_by_a_tick_is_none() -> None:
    nothing = MachineLoad(others_ratio=0.0, steal_ratio=0.0)

    assert load_between(times(5, 1, 1), times(5, 1, 1)) == nothing
    assert load_between(times(0, 0, 0), times(10, 1.0, 1.01)) == nothing


def test_meter_reads_this_machine() -> None:
    load = LoadMeter().load()

    assert 0 <= load.others_ratio <= 1
    assert 0 <= load.steal_ratio <= 1
