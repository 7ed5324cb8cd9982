"""The next run by the last ones: the figures, and what a pod is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.admission.answer import AdmissionOutcome, LeftReason
from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.admission.run_estimate import bounded_runs, last_runs, run_estimate
from agent.core.cluster.facts import WrittenContainer
from agent.core.cluster.workload import Workload
from agent.core.history.workloads.job_run import JobRun
from agent.core.orders.annotations import MAX_MEMORY
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.run_options import RunCpu, RunOptions, WorkloadOptions
from tests.admissions import EXACT, admitted, after, new_pod
from tests.pods import container

NOW = 10_000_000.0
MIB = 1 << 20
OPTIONS = RunOptions()
CRON_JOB = Workload(namespace="shop", kind="CronJob", name="report")


def a_run(number: int, need_mib: int | None = 300, at_kill_mib: int | None = None, **more: Any) -> JobRun:
    return JobRun(
        workload=CRON_JOB,
        container="app",
        run=f"report-{number}",
        ended_unix_seconds=NOW - 60 * (100 - number),
        duration_seconds=3.0,
        memory_need_bytes=None if need_mib is None else need_mib * MIB,
        memory_at_kill_bytes=None if at_kill_mib is None else at_kill_mib * MIB,
        **{"cpu_mean_millicores": 100.0, **more},
    )


def estimated(runs: list[JobRun], options: RunOptions = OPTIONS) -> Estimate:
    answer = run_estimate(runs, options, policy=PolicyName.PLIMSOLL, now_unix_seconds=NOW)
    assert isinstance(answer, Estimate)
    return answer


def test_fewer_than_three_runs_say_nothing() -> None:
    runs = [a_run(1), a_run(2)]
    answer = run_estimate(runs, OPTIONS, policy=PolicyName.CRUISE, now_unix_seconds=NOW)
    assert answer is NoEstimate.TOO_FEW_RUNS
    assert estimated([*runs, a_run(3)]).source is EstimateSource.RUNS


def test_what_one_node_alone_claims_counts_up_to_four_times_what_another_saw() -> None:
    honest = [a_run(number, cpu_node=1, memory_node=1) for number in (1, 2)]
    lie = a_run(3, need_mib=64 << 10, at_kill_mib=64 << 10, cpu_node=2, memory_node=2, cpu_mean_millicores=64_000.0)
    lie = replace(lie, cpu_p75_millicores=64_000.0, cpu_largest_millicores=64_000.0)
    stated = WrittenContainer(name="app", memory_limit_bytes=2000 * MIB)

    def bounded(written: WrittenContainer | None) -> JobRun:
        return bounded_runs([*honest, lie], lambda: written)[-1]

    for written in (None, WrittenContainer(name="app")):
        run = bounded(written)
        assert (run.memory_need_bytes, run.memory_at_kill_bytes) == (1200 * MIB, 1200 * MIB)
        assert run.largest_cpu_millicores == 400.0
    # A kill counts up to the limit as written, and nothing is cut below the request.
    assert bounded(stated).memory_at_kill_bytes == 2000 * MIB
    large = replace(stated, memory_request_bytes=1500 * MIB, cpu_request_millicores=900)
    assert bounded(large).memory_need_bytes == 1500 * MIB
    assert bounded(large).cpu_p75_millicores == 900.0
    assert bounded_runs(honest, lambda: None) == tuple(honest)
    # Of one resource alone another node told.
    half = replace(lie, cpu_node=1)
    assert bounded_runs([*honest, half], lambda: None)[-1].cpu_mean_millicores == 64_000.0
    no_memory = [replace(run, memory_need_bytes=None) for run in honest]
    assert bounded_runs([*no_memory, lie], lambda: None)[-1].memory_need_bytes == lie.memory_need_bytes


def test_what_nobody_else_saw_is_asked_for_as_it_was_told() -> None:
    runs = [a_run(number, need_mib=9000, cpu_node=7, memory_node=7) for number in range(3)]
    assert estimated(runs).memory_max_bytes == 9000 * MIB


def test_the_newest_ten_of_thirty_days_count() -> None:
    runs = [a_run(number) for number in range(1, 13)]
    assert [run.run for run in last_runs(runs, OPTIONS, now_unix_seconds=NOW)] == [
        f"report-{number}" for number in range(12, 2, -1)
    ]
    old = replace(a_run(20, need_mib=4000), ended_unix_seconds=NOW - 30 * 86_400 - 1)
    assert old not in last_runs([old, *runs], OPTIONS, now_unix_seconds=NOW)


def test_a_hundred_runs_that_peak_at_300_mib_ask_for_15_percent_more() -> None:
    answer = estimated([a_run(number) for number in range(100)])
    assert answer.memory_request_bytes == 345 * MIB  # 300 x 1.15
    assert (answer.memory_max_bytes, answer.oom_memory_bytes, answer.pods) == (300 * MIB, None, 10)
    assert (answer.history_seconds, answer.newest_age_seconds) == (600.0, 60.0)


def test_the_next_run_after_a_kill_has_half_as_much_again() -> None:
    answer = estimated([a_run(1), a_run(2), a_run(3, None, at_kill_mib=400)])
    assert answer.oom_memory_bytes == 600 * MIB
    assert answer.memory_request_bytes == 345 * MIB


def test_a_kill_counts_until_a_run_got_through_with_more() -> None:
    killed = a_run(3, None, at_kill_mib=400)
    assert estimated([a_run(1), a_run(2), killed, a_run(4, 250)]).oom_memory_bytes == 600 * MIB
    assert estimated([a_run(1), a_run(2), killed, a_run(4, 400)]).oom_memory_bytes == 600 * MIB
    through = estimated([a_run(1), a_run(2), killed, a_run(4, 410)])
    assert through.oom_memory_bytes is None
    assert through.memory_request_bytes == -(-410 * MIB * 115 // 100)


def test_runs_that_were_all_killed_ask_by_the_kills_alone() -> None:
    answer = estimated([a_run(number, None, at_kill_mib=100 * number) for number in (1, 2, 3)])
    assert (answer.memory_request_bytes, answer.memory_max_bytes, answer.oom_memory_bytes) == (None, None, 450 * MIB)


def test_throughput_is_what_nine_of_ten_runs_used_on_the_average() -> None:
    runs = [a_run(number, cpu_mean_millicores=100.0 * number) for number in range(1, 11)]
    # Ranks 0 to 9 hold 100 to 1000; rank 8.1 is 910.
    assert estimated(runs).cpu_request_millicores == 910
    assert estimated([a_run(number, cpu_mean_millicores=None) for number in (1, 2, 3)]).cpu_request_millicores is None


def test_rate_is_the_largest_p75_of_a_run() -> None:
    options = RunOptions(cpu=RunCpu.RATE)
    runs = [a_run(1, cpu_p75_millicores=500.5), a_run(2, cpu_p75_millicores=400.0), a_run(3)]
    assert estimated(runs, options).cpu_request_millicores == 501
    # Too short for two readings: the mean is all there is.
    assert estimated([a_run(4, cpu_mean_millicores=700.0), *runs], options).cpu_request_millicores == 700


def job_pod(memory: str = "64Mi", limit: str | None = "1Gi", **more: Any) -> dict[str, Any]:
    limits = None if limit is None else {"memory": limit}
    document = new_pod(container("app", {"cpu": "500m", "memory": memory}, limits), **more)
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "reindex", "uid": "u", "controller": True}
    ]
    return document


def test_a_new_run_requests_by_the_last_ones_and_keeps_its_limit() -> None:
    given = after(job_pod(), estimated([a_run(number) for number in range(5)]))
    assert given == {"requests": {"cpu": "100m", "memory": str(345 * MIB)}, "limits": {"memory": "1Gi"}}
    # None was written, and none is added: an estimate of runs says nothing of what more would do.
    assert after(job_pod(limit=None), estimated([a_run(number) for number in range(5)]))["limits"] == {}


def test_a_run_that_fills_its_limit_is_not_given_more() -> None:
    given = after(job_pod(limit="300Mi"), estimated([a_run(number) for number in range(5)]))
    assert (given["requests"]["memory"], given["limits"]["memory"]) == (str(300 * MIB), "300Mi")


def test_a_limit_at_which_a_run_was_killed_rises_with_the_request() -> None:
    killed = [a_run(1), a_run(2), a_run(3, None, at_kill_mib=400)]
    given = after(job_pod(limit="400Mi"), estimated(killed))
    assert (given["requests"]["memory"], given["limits"]["memory"]) == (str(600 * MIB), str(600 * MIB))


@pytest.mark.parametrize(("limit", "given"), [("1Gi", str(2 << 30)), ("3Gi", "3Gi")])
def test_a_limit_at_which_runs_are_killed_again_and_again_minds_the_largest_memory_allowed(
    limit: str, given: str
) -> None:
    document = job_pod("512Mi", limit, orders={MAX_MEMORY: "1Gi"})
    leak = estimated([a_run(number, None, at_kill_mib=4096) for number in (1, 2, 3)])
    done = after(document, leak)
    assert (done["requests"]["memory"], done["limits"]["memory"]) == (str(1 << 30), given)  # 2 x, or as it was written
    notes = [note for unit in admitted(document, leak).containers for note in unit.notes]
    assert LeftReason.MAX_MEMORY in {note.left for note in notes}


def test_why_tells_of_the_runs() -> None:
    answer = admitted(job_pod(), estimated([a_run(1), a_run(2), a_run(3, None, at_kill_mib=400)]))
    assert "from its last 3 runs" in answer.why
    assert "one killed for want of memory" in answer.why
    assert answer.outcome is AdmissionOutcome.PATCHED
    assert "leastRuns" in admitted(job_pod(), NoEstimate.TOO_FEW_RUNS).why


def test_runs_that_are_not_to_be_sized_stay_as_they_came() -> None:
    settings = replace(EXACT, jobs=RunOptions(sized=False))
    answer = admitted(job_pod(), estimated([a_run(number) for number in range(5)]), settings=settings)
    assert answer.outcome is AdmissionOutcome.EXCLUDED
    assert "jobs.sized" in answer.why


@pytest.mark.parametrize(("text", "keys"), [(None, ()), ("a/b", ("a/b",)), ("a/b,,c ", ("a/b", "c"))])
def test_the_keys_of_labels_are_separated_by_commas(text: str | None, keys: tuple[str, ...]) -> None:
    assert WorkloadOptions(group_by=text).label_keys == keys
