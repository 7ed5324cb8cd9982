"""What the last runs of a workload say of the next: the estimate by which a new pod of a Job is sized. Core, pure.

What one node alone claims of the runs that count is bounded as everywhere (``history.workloads.node_claims``): up to
four times what any other node saw of one, and never below what the workload's author requests; a kill up to the limit
as written, too. Runs of one node alone are bounded by what it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.cluster.facts import WrittenContainer
from agent.core.history.workloads.job_run import JobRun
from agent.core.history.workloads.node_claims import TIMES_SECOND
from agent.core.numbers.percentile import percentile
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.run_options import RunCpu, RunOptions

P90: Final = 0.9
_DAY_SECONDS: Final = 86_400.0
_Amount = TypeVar("_Amount", int, float)


def last_runs(runs: Iterable[JobRun], options: RunOptions, *, now_unix_seconds: float) -> tuple[JobRun, ...]:
    """Return the runs of one container that count, newest first."""
    oldest = now_unix_seconds - options.days * _DAY_SECONDS
    lately = (run for run in runs if run.ended_unix_seconds >= oldest)
    return tuple(sorted(lately, key=lambda run: (run.ended_unix_seconds, run.run), reverse=True)[: options.runs])


def bounded_runs(runs: Sequence[JobRun], written: Callable[[], WrittenContainer | None]) -> tuple[JobRun, ...]:
    """Return runs with what one node alone claims cut at what counts.

    Args:
        written: Returns the container as its author wrote it, asked for only where more than one node told; None = it
            is not known.
    """
    cpu = _second(runs, lambda run: (run.largest_cpu_millicores, run.cpu_node))
    memory = _second(runs, lambda run: (run.largest_memory_bytes, run.memory_node))
    if cpu is None and memory is None:
        return tuple(runs)
    stated = written() or WrittenContainer(name="")
    most_cpu = None if cpu is None else max(TIMES_SECOND * cpu, float(stated.cpu_request_millicores or 0))
    most_memory = None if memory is None else max(int(TIMES_SECOND * memory), stated.memory_request_bytes or 0)
    at_kill = None if most_memory is None else max(most_memory, stated.memory_limit_bytes or 0)
    return tuple(
        replace(
            run,
            cpu_mean_millicores=_least(run.cpu_mean_millicores, most_cpu),
            cpu_p75_millicores=_least(run.cpu_p75_millicores, most_cpu),
            cpu_largest_millicores=_least(run.cpu_largest_millicores, most_cpu),
            memory_need_bytes=_least(run.memory_need_bytes, most_memory),
            memory_at_kill_bytes=_least(run.memory_at_kill_bytes, at_kill),
        )
        for run in runs
    )


def _second(runs: Iterable[JobRun], maximum_of: Callable[[JobRun], tuple[float, int]]) -> float | None:
    """Return the largest value of another node than the one with the largest of all; None = no other told any."""
    values = [maximum for maximum in map(maximum_of, runs) if maximum[0] > 0]
    top = max(values, default=(0.0, 0))
    return max((value for value, node in values if node != top[1]), default=None)


def _least(amount: _Amount | None, most: _Amount | None) -> _Amount | None:
    return amount if amount is None or most is None else min(amount, most)


def run_estimate(
    runs: Iterable[JobRun],
    options: RunOptions,
    *,
    policy: PolicyName,
    now_unix_seconds: float,
    written: Callable[[], WrittenContainer | None] = lambda: None,
) -> Estimate | NoEstimate:
    """Return what the next run of a container needs.

    Memory is the margin over the largest need of the runs that were not killed. What was too little at an
    out-of-memory kill counts, with a larger margin, as long as no run got through with more: then the truth is known.

    Args:
        runs: Of one container of the workload, in any order.
        policy: The one that is ordered; of runs all policies know the same.
        written: As for ``bounded_runs``.
    """
    known = last_runs(runs, options, now_unix_seconds=now_unix_seconds)
    if len(known) < options.least_runs:
        return NoEstimate.TOO_FEW_RUNS
    known = bounded_runs(known, written)
    needs = [run.memory_need_bytes for run in known if run.memory_need_bytes is not None]
    need = max(needs, default=None)
    at_kill = _too_little(known, need)
    return Estimate(
        source=EstimateSource.RUNS,
        policy=policy,
        cpu_request_millicores=_cpu(known, options.cpu),
        memory_request_bytes=None if need is None else math.ceil(need * options.memory_margin_ratio),
        cpu_max_millicores=_whole([run.cpu_largest_millicores for run in known]),
        memory_max_bytes=need,
        oom_memory_bytes=None if at_kill is None else math.ceil(at_kill * options.memory_kill_ratio),
        cpu_base_millicores=None,
        memory_base_bytes=None,
        history_seconds=max(now_unix_seconds - known[-1].ended_unix_seconds, 0.0),
        pods=len(known),
        newest_age_seconds=max(now_unix_seconds - known[0].ended_unix_seconds, 0.0),
    )


def _too_little(runs: Sequence[JobRun], need: int | None) -> int | None:
    """Return the most that was too little; None = nothing was, or a run that was not killed has used more."""
    killed = [run.memory_at_kill_bytes for run in runs if run.memory_at_kill_bytes is not None]
    most = max(killed, default=None)
    return None if most is None or (need is not None and need > most) else most


def _cpu(runs: Sequence[JobRun], rule: RunCpu) -> int | None:
    means = [run.cpu_mean_millicores for run in runs if run.cpu_mean_millicores is not None]
    if rule is RunCpu.RATE:
        # A run too short for two readings has its mean alone.
        rates = [run.cpu_mean_millicores if run.cpu_p75_millicores is None else run.cpu_p75_millicores for run in runs]
        return _whole(rates)
    return math.ceil(percentile(np.array(means), P90)) if means else None


def _whole(amounts: Iterable[float | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return math.ceil(max(known)) if known else None
