"""What can be set of Jobs and other workloads that run to an end; docstrings are the documentation. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from agent.core.numbers.allowed_range import Between, Unset

MOST_RUNS: Final = 50
"""That may count: as many are kept of one container of a workload."""


class RunCpu(StrEnum):
    """By what of the last runs the CPU request goes."""

    THROUGHPUT = "throughput"
    """What nine of ten runs used on the average: the work is done in the time it took."""
    RATE = "rate"
    """What a run used at most in three quarters of its seconds: shorter waits, at the price of room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """Which pods are one workload."""

    group_by: Annotated[str | None, Unset("nothing is grouped")] = None
    """Keys of labels, separated by commas: pods of Jobs, of workflows and without an owner that have the same value of
    the first of them are one workload, of kind Group. The agents and the webhook must have the same."""

    @property
    def label_keys(self) -> tuple[str, ...]:
        """Return the keys in their order."""
        return tuple(filter(None, (key.strip() for key in (self.group_by or "").split(","))))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How the next run of a Job is sized by the last ones; as everything, under mode enforce alone."""

    sized: bool = True
    """Size new pods of CronJobs, Jobs and groups by the last runs; false = they stay as they come."""
    runs: Annotated[int, Between(1, MOST_RUNS)] = 10
    """The last so many runs count ..."""
    days: Annotated[float, Between(1, 30)] = 30.0
    """... that ended within so many days."""
    least_runs: Annotated[int, Between(1, MOST_RUNS)] = 3
    """With fewer runs known nothing is sized."""
    cpu: RunCpu = RunCpu.THROUGHPUT
    """throughput: the request is what nine of ten runs used on the average; rate: what was used at most in three
    quarters of a run's seconds, of the run with most."""
    memory_margin_ratio: Annotated[float, Between(1, 10)] = 1.15
    """Memory request = this x the largest peak of these runs."""
    memory_kill_ratio: Annotated[float, Between(1, 10)] = 1.5
    """After an out-of-memory kill: this x what was used at it, until a run that was not killed used more."""
