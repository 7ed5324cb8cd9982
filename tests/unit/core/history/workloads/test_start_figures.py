"""What a container used while its pod started, and what earlier starts say of the next."""

from __future__ import annotations

import numpy as np
import pytest

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.job_run import JobRun
from agent.core.history.workloads.start_figures import KEPT_DAYS, LearntStart, last_starts, learnt_start, start_figures
from agent.core.window.policy import WindowPolicy
from tests.window_rows import NS, steady

POLICY = WindowPolicy(capacity_millicores=4000)
WEB = Workload(namespace="shop", kind="Deployment", name="web")
NOW = 1_800_000_000.0
DAY_SECONDS = 86_400.0


def test_the_busiest_five_seconds_of_a_start_are_what_it_needs() -> None:
    # 20 s at two cores, 40 s at a tenth of one; then the steady load, which is none of the start.
    first = steady(range(21), 2000.0)
    second = steady(range(20, 61), 100.0, usage0=40_000_000)[1:]
    later = steady(range(60, 91), 3000.0, usage0=44_000_000)[1:]
    rows = np.concatenate([first, second, later])
    figures = start_figures((rows,), POLICY, started_ns=0, ended_ns=60 * NS)
    assert figures is not None
    assert figures.duration_seconds == 60.0
    assert figures.cpu_largest_millicores == pytest.approx(2000.0)
    assert figures.cpu_seconds == pytest.approx(44.0)  # 20 x 2 and 40 x 0.1
    assert figures.cpu_p75_millicores == pytest.approx(2000.0)


def test_what_a_start_waited_for_counts_where_it_is_known() -> None:
    rows = steady(range(31), 1000.0, waiting=0.5)
    figures = start_figures((rows,), POLICY, started_ns=0, ended_ns=30 * NS)
    assert figures is not None
    assert figures.cpu_largest_millicores == pytest.approx(1500.0)


def test_a_start_of_which_little_was_measured_tells_nothing() -> None:
    rows = steady(range(40, 61), 1000.0)
    assert start_figures((rows,), POLICY, started_ns=0, ended_ns=60 * NS) is None
    assert start_figures((rows,), POLICY, started_ns=30 * NS, ended_ns=60 * NS) is not None
    assert start_figures((), POLICY, started_ns=0, ended_ns=60 * NS) is None
    assert start_figures((steady((0.0, 0.3, 0.6), 1000.0),), POLICY, started_ns=0, ended_ns=NS // 2) is None


def start(number: int, millicores: float | None, *, days: float = 0.0) -> JobRun:
    return JobRun(
        workload=WEB,
        container="app",
        run=f"web-{number}",
        ended_unix_seconds=NOW - days * DAY_SECONDS + number,
        duration_seconds=70.0,
        cpu_largest_millicores=millicores,
    )


def test_one_start_may_be_an_accident_and_two_are_taken_at_their_p95() -> None:
    assert learnt_start([], now_unix_seconds=NOW) is None
    assert learnt_start([start(1, 900.0)], now_unix_seconds=NOW) is None
    assert learnt_start([start(1, 900.0), start(2, None)], now_unix_seconds=NOW) is None
    # 900 and 95 % of the way to 1000
    both = learnt_start([start(1, 900.0), start(2, 1000.0)], now_unix_seconds=NOW)
    assert both == LearntStart(cpu_millicores=995, starts=2)


def test_the_last_ten_starts_of_a_month_count() -> None:
    many = [start(number, 100.0 * number) for number in range(20)]
    assert [row.run for row in last_starts(many, now_unix_seconds=NOW)] == [f"web-{n}" for n in range(19, 9, -1)]
    old = [start(number, 5000.0, days=KEPT_DAYS + 1) for number in range(3)]
    learnt = learnt_start([*old, start(1, 900.0), start(2, 900.0)], now_unix_seconds=NOW)
    assert learnt == LearntStart(cpu_millicores=900, starts=2)
