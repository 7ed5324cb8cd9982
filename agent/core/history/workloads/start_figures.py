"""What a container used while its pod started, and what the starts of a workload say of the next one. Core, pure.

Starts are kept as runs are (``job_run``): one of them is the start of one pod. They stay out of the history by which
pods are sized for the rest of their time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.history.workloads.job_run import P75, JobRun, RunFigures
from agent.core.numbers.percentile import percentile
from agent.core.window.policy import WindowPolicy
from agent.core.window.rates import sliding_rates
from agent.core.window.steps import NS, cpu_steps, interval_of

RATE_SECONDS: Final = 5.0
"""A start is a matter of seconds: over a minute its peak is spread thin, from one reading to the next it is noise."""
P95: Final = 0.95
LEAST_STARTS: Final = 2
"""One may have been an accident."""
MOST_STARTS: Final = 10
"""The last so many count ..."""
KEPT_DAYS: Final = 30.0
"""... of so many days."""
_LEAST_COVERED_RATIO: Final = 0.5
_DAY_SECONDS: Final = 86_400.0
_USEC_PER_SECOND: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntStart:
    """What the last starts of a container say of the next one."""

    cpu_millicores: int
    """The P95 of what each of them used at most in five seconds."""
    starts: int
    """That counted."""


def start_figures(
    raw_pieces: Sequence[NDArray[np.void]], policy: WindowPolicy, *, started_ns: int, ended_ns: int
) -> RunFigures | None:
    """Return what a container used while its pod started, as a run of that time.

    Rates are over five seconds, or what there is of a shorter start; with what it waited for, where that is known.

    Args:
        raw_pieces: SAMPLE rows, oldest first.
        started_ns: CLOCK_MONOTONIC; when the pod's start began, or the container was seen first.
        ended_ns: When it was over.

    Returns:
        None where less than half of that time was measured: the rest may have been the busy one.
    """
    policy = replace(policy, rate_window_seconds=RATE_SECONDS, min_rate_seconds=min(policy.min_rate_seconds, 1.0))
    steps = cpu_steps(raw_pieces, policy, until_ns=ended_ns, since_ns=max(started_ns, 0))
    inside = interval_of(steps, start_ns=started_ns, end_ns=ended_ns)
    if inside is None or inside.covered_ns < _LEAST_COVERED_RATIO * (ended_ns - started_ns):
        return None
    rates = sliding_rates(steps, policy, first=inside.first, stop=inside.stop)
    values = rates.usage if rates.adjusted is None else rates.adjusted
    if not values.size:
        return None  # too short for one
    used_usec = float((steps.used_usec[inside.pairs] * inside.share).sum())
    return RunFigures(
        duration_seconds=(ended_ns - started_ns) / NS,
        cpu_seconds=used_usec / _USEC_PER_SECOND,
        cpu_p75_millicores=percentile(values, P75),
        cpu_largest_millicores=float(values.max()),
    )


def last_starts(starts: Iterable[JobRun], *, now_unix_seconds: float) -> tuple[JobRun, ...]:
    """Return the starts of one container that count, newest first."""
    oldest = now_unix_seconds - KEPT_DAYS * _DAY_SECONDS
    lately = (start for start in starts if start.ended_unix_seconds >= oldest)
    return tuple(sorted(lately, key=lambda start: (start.ended_unix_seconds, start.run), reverse=True)[:MOST_STARTS])


def learnt_start(starts: Iterable[JobRun], *, now_unix_seconds: float) -> LearntStart | None:
    """Return what the starts of one container say of its next; None = too few of them are known."""
    used = [
        start.cpu_largest_millicores
        for start in last_starts(starts, now_unix_seconds=now_unix_seconds)
        if start.cpu_largest_millicores is not None
    ]
    if len(used) < LEAST_STARTS:
        return None
    return LearntStart(cpu_millicores=math.ceil(percentile(np.array(used), P95)), starts=len(used))
