from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.job_run import (
    JobRun,
    RunFigures,
    ToldRun,
    merged_run,
    run_figures,
    run_row,
    run_words,
    runs_text,
)
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MINUTE_ROW, Has, Status
from tests.window_rows import NS, Rows, memory, sample

POLICY = WindowPolicy(capacity_millicores=4000)
MIB = 1 << 20
CRON_JOB = Workload(namespace="shop", kind="CronJob", name="report")
NO_MINUTES = np.zeros(0, dtype=MINUTE_ROW)


def reading(at: float, usage_usec: int, current_bytes: int = 0, status: int = 0) -> Rows:
    has = Has.MEMORY if current_bytes else 0
    row = sample(at, usage_usec, has=has, status=status)
    row["memory_current_bytes"] = current_bytes
    return row


def figures(raw: list[Rows], memory_rows: list[Rows] | None = None, **more: object) -> RunFigures:
    given: dict[str, object] = {"started_ns": 10 * NS, "ended_ns": 13 * NS, "is_from_beginning": True, **more}
    pieces = [np.concatenate(raw)] if raw else []
    memory_pieces = [np.concatenate(memory_rows)] if memory_rows else []
    return run_figures(pieces, memory_pieces, given.pop("minutes", NO_MINUTES), POLICY, **given)  # type: ignore[arg-type]


def test_a_run_of_three_seconds_has_its_seconds_mean_rates_and_peak() -> None:
    # The counter began at 0 and ends at 2.4 s; between the readings 0.9 s and 1.2 s of CPU in a second each.
    raw = [reading(10.5, 200_000, MIB), reading(11.5, 1_100_000, 300 * MIB), reading(12.5, 2_300_000, 250 * MIB)]
    run = figures(raw, memory_peak_bytes=305 * MIB, usage_usec=2_400_000)
    assert run.duration_seconds == 3.0
    assert run.cpu_seconds == pytest.approx(2.4)
    # Linear between ranks: 900 + 0.75 x (1200 - 900).
    assert run.cpu_p75_millicores == pytest.approx(1125.0)
    assert run.cpu_largest_millicores == pytest.approx(1200.0)
    assert (run.memory_peak_bytes, run.memory_need_bytes) == (305 * MIB, 305 * MIB)
    row = run_row(
        run,
        workload=CRON_JOB,
        container="app",
        run="report-1",
        ended_unix_seconds=5.0,
        memory_at_kill_bytes=None,
        is_killed=False,
        exit_code=0,
    )
    assert row.cpu_mean_millicores == pytest.approx(800.0)  # 2.4 s of CPU in 3 s
    assert (row.memory_need_bytes, row.memory_at_kill_bytes, row.exit_code) == (305 * MIB, None, 0)
    assert row.key == (CRON_JOB, "app")


def test_a_run_of_less_than_a_second_counts_by_what_its_pod_kept() -> None:
    run = figures([], started_ns=10 * NS, ended_ns=10 * NS + NS // 4, memory_peak_bytes=7 * MIB, usage_usec=50_000)
    assert (run.duration_seconds, run.cpu_seconds) == (0.25, 0.05)
    assert (run.cpu_p75_millicores, run.cpu_largest_millicores) == (None, None)
    assert run.memory_peak_bytes == run.memory_need_bytes == 7 * MIB


def test_a_run_of_which_nothing_was_read_has_its_duration_alone() -> None:
    assert figures([]) == RunFigures(duration_seconds=3.0)
    # What stands in the slot is of the cgroup before it; a failed reading says nothing.
    failed = reading(11, 9, 0, status=int(Status.PARSE))
    assert figures([reading(9, 5_000_000), failed]) == RunFigures(duration_seconds=3.0)


def test_the_counter_of_a_run_that_was_found_going_on_counts_from_there() -> None:
    run = figures([reading(11, 50_000_000), reading(12, 50_500_000)], is_from_beginning=False)
    assert (run.duration_seconds, run.cpu_seconds) == (2.0, 0.5)


def test_what_rose_after_the_last_slow_reading_is_no_cache() -> None:
    # At 20 s 50 MiB were charged, of them 40 in use: 10 were cache. Then 250 more came, of which nothing is known.
    raw = [reading(19.9, 1, 50 * MIB), reading(25.0, 2, 300 * MIB)]
    slow = [memory(20.0, 50 * MIB, set_peak=40 * MIB, lifetime_peak=50 * MIB)]
    run = figures(raw, slow, ended_ns=26 * NS, memory_peak_bytes=300 * MIB)
    assert (run.memory_peak_bytes, run.memory_need_bytes) == (300 * MIB, 290 * MIB)
    # Nothing that was charged was read before it: then none of it is known to be cache.
    run = figures(raw[1:], slow, ended_ns=26 * NS)
    assert run.memory_need_bytes == 300 * MIB


def test_cache_that_the_kernel_would_have_given_back_is_no_need() -> None:
    # 400 MiB charged at most, of them 100 in use: 300 were cache. The kernel's peak of 420 rose by 20 unseen.
    memory_rows = [memory(12, 400 * MIB, inactive=300 * MIB, set_peak=100 * MIB)]
    run = figures([reading(11, 1, 400 * MIB), reading(12, 2, 380 * MIB)], memory_rows, memory_peak_bytes=420 * MIB)
    assert (run.memory_peak_bytes, run.memory_need_bytes) == (420 * MIB, 120 * MIB)


def test_a_long_run_is_judged_by_its_minutes() -> None:
    minutes = np.zeros(12, dtype=MINUTE_ROW)
    minutes["cpu_mean_millicores"], minutes["cpu_peak_millicores"] = np.arange(12) * 100, np.arange(12) * 110
    minutes["coverage_255"] = 255
    minutes["coverage_255"][11] = 0  # nothing was read in it
    run = figures([reading(11, 0), reading(12, 5)], minutes=minutes, ended_ns=1000 * NS)
    # Of 0, 100, ... 1000 the rank 0.75 x 10 lies between 700 and 800.
    assert run.cpu_p75_millicores == pytest.approx(750.0)
    assert run.cpu_largest_millicores == pytest.approx(1100.0)
    minutes["coverage_255"] = 0
    assert figures([], minutes=minutes).cpu_p75_millicores is None


def a_run(run: str = "report-1", **more: object) -> JobRun:
    given: dict[str, object] = {"ended_unix_seconds": 100.0, "duration_seconds": 3.0, **more}
    return JobRun(workload=CRON_JOB, container="app", run=run, **given)  # type: ignore[arg-type]


def test_a_killed_run_has_what_was_too_little_and_no_need() -> None:
    measured = RunFigures(duration_seconds=2.0, memory_peak_bytes=64 * MIB, memory_need_bytes=60 * MIB)
    common = {"workload": CRON_JOB, "container": "app", "run": "r", "ended_unix_seconds": 1.0, "is_killed": True}
    limited = run_row(measured, **common, memory_at_kill_bytes=70 * MIB, exit_code=None)  # type: ignore[arg-type]
    assert (limited.memory_need_bytes, limited.memory_at_kill_bytes, limited.exit_code) == (None, 70 * MIB, 137)
    seen = run_row(measured, **common, memory_at_kill_bytes=None, exit_code=1)  # type: ignore[arg-type]
    assert (seen.memory_at_kill_bytes, seen.exit_code, seen.cpu_mean_millicores) == (64 * MIB, 1, None)


def test_pods_of_one_run_merge_in_any_order_and_as_often_as_told() -> None:
    pods = [
        a_run(memory_need_bytes=5, cpu_mean_millicores=10.0, ended_unix_seconds=7.0),
        a_run(memory_at_kill_bytes=9, exit_code=137, duration_seconds=8.0),
        a_run(memory_need_bytes=6, cpu_seconds=2.0),
    ]
    merged = {merged_run(merged_run(merged_run(pod, other), third), pod) for pod, other, third in permutations(pods)}
    assert merged == {
        a_run(
            memory_need_bytes=6,
            memory_at_kill_bytes=9,
            exit_code=137,
            duration_seconds=8.0,
            cpu_seconds=2.0,
            cpu_mean_millicores=10.0,
        )
    }


def test_a_run_in_words_says_what_is_known() -> None:
    run = a_run(cpu_mean_millicores=120.0, memory_peak_bytes=300 * MIB, memory_at_kill_bytes=400 * MIB, exit_code=137)
    assert run_words(run, 200.0) == (
        "report-1, ended 3 min ago: took 3 s, CPU 120m, memory 300MiB, exit 137, killed for want of memory at 400MiB"
    )
    assert run_words(a_run(), 20.0) == "report-1, ended 0 min ago: took 3 s"


def test_who_told_the_larger_answers_for_a_run() -> None:
    honest = a_run(memory_peak_bytes=9, cpu_largest_millicores=90.0, cpu_node=1, memory_node=1)
    other = a_run(memory_at_kill_bytes=10, cpu_p75_millicores=80.0, cpu_node=2, memory_node=2)
    for merged in (merged_run(honest, other), merged_run(other, honest)):
        assert (merged.cpu_node, merged.memory_node) == (1, 2)


def test_runs_are_told_with_what_is_known_of_them() -> None:
    pod_run = ToldRun(
        pod="report-1-x",
        pod_uid="u",
        ended_age_seconds=1.23456,
        row=a_run(cpu_seconds=2.4, memory_need_bytes=5),
    )
    assert json.loads(runs_text("node-1", [pod_run])) == {
        "schema": 1,
        "node": "node-1",
        "runs": [
            {
                "namespace": "shop",
                "kind": "CronJob",
                "workload": "report",
                "container": "app",
                "pod": "report-1-x",
                "podUid": "u",
                "endedAgeSeconds": 1.235,
                "durationSeconds": 3.0,
                "cpuSeconds": 2.4,
                "memoryNeedBytes": 5,
            }
        ],
    }
