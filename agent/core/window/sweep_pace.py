"""When the next sweep is due: absolute deadlines, a rate that halves when sweeps overrun, early sweeps on contention.

Core, pure: time comes as an argument, monotonic nanoseconds; every function gives the next state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

OVERRUNS_TO_HALVE: Final = 3
"""Overruns in a row before the rate is halved: one slow sweep is a hiccup, three are a load."""
CALM_SWEEPS_TO_DOUBLE: Final = 60
"""Sweeps below a quarter of the budget before the rate is doubled again: slow to come back, so it does not swing."""
SLOWEST_FACTOR: Final = 8
"""The rate is never halved more than three times: beyond that the window statistics would be too thin to use."""


class SkipReason(StrEnum):
    """Why a sweep that was due did not happen. Also a metric label."""

    LATE = "late"
    """The loop came a whole interval or more too late."""
    SLOWED = "slowed"
    """The rate had been halved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The state of the sampling clock."""

    base_interval_ns: int
    budget_ns: int
    """A sweep that takes more CPU time is an overrun."""
    factor: int = 1
    """The interval in force is base x factor; 1, 2, 4 or 8."""
    due_ns: int
    """CLOCK_MONOTONIC moment of the next sweep."""
    overruns_in_a_row: int = 0
    calm_in_a_row: int = 0

    @property
    def interval_ns(self) -> int:
        """The interval in force."""
        return self.base_interval_ns * self.factor


def after_sweep(pace: Pace, *, now_ns: int, cost_ns: int) -> tuple[Pace, dict[SkipReason, int]]:
    """Set the next deadline after a sweep.

    Deadlines lie on a grid from the first one, so lateness never adds up; those already past are skipped, not made up
    for: a burst of sweeps would measure nothing new.

    Args:
        pace: The state in force; its ``due_ns`` is the sweep just made.
        now_ns: CLOCK_MONOTONIC.
        cost_ns: CPU time that the sweep took.

    Returns:
        The next state, and the sweeps that did not happen by reason (base-rate sweeps left out).
    """
    overruns, calm, factor = 0, 0, pace.factor
    if cost_ns > pace.budget_ns:
        overruns = pace.overruns_in_a_row + 1
        if overruns >= OVERRUNS_TO_HALVE and factor < SLOWEST_FACTOR:
            factor, overruns = factor * 2, 0
    elif cost_ns * 4 < pace.budget_ns:
        calm = pace.calm_in_a_row + 1
        if calm >= CALM_SWEEPS_TO_DOUBLE and factor > 1:
            factor, calm = factor // 2, 0
    interval_ns = pace.base_interval_ns * factor
    due_ns = pace.due_ns + interval_ns
    late = 0
    if due_ns <= now_ns:
        late = (now_ns - due_ns) // interval_ns + 1
        due_ns += late * interval_ns
    skipped = {SkipReason.LATE: late * factor, SkipReason.SLOWED: factor - 1}
    following = replace(pace, factor=factor, due_ns=due_ns, overruns_in_a_row=overruns, calm_in_a_row=calm)
    return following, {reason: count for reason, count in skipped.items() if count}


def next_on_grid(due_ns: int, step_ns: int, now_ns: int) -> int:
    """Return the first moment after now on the grid of the deadlines so far, so that lateness never adds up.

    Args:
        due_ns: The deadline just met; it may lie in the future still.
    """
    return due_ns + step_ns * max(1, (now_ns - due_ns) // step_ns + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentionPolicy:
    """When rising pressure starts a sweep early."""

    waiting_ratio: float = 0.2
    """Some task waited for CPU this share of the time between two lane readings. Two busy loops on one CPU give 1."""
    rearm_ratio: float = 0.1
    """A lane must fall below this before it may start another early sweep: a steady contention is not news."""
    memory_waiting_ratio: float = 0.1
    """Some task of a pod waited for memory this share of the time between two lane readings: then it is looked who."""
    least_spacing_seconds: float = 15.0
    """Between two early sweeps: they take rows from the 10-minute ring, whose margin holds one each 15 s."""


class LaneState(NamedTuple):
    """What is remembered of one pressure total; a tuple, since several are made at each reading."""

    monotonic_ns: int
    some_usec: int
    is_armed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWatch:
    """What is remembered of all lanes between two readings."""

    lanes: Mapping[int, LaneState] = field(default_factory=dict)
    early_sweep_ns: int | None = None
    """Moment of the newest early sweep."""


def lane_waiting_ratio(before: LaneState | None, monotonic_ns: int, some_usec: int) -> float | None:
    """Return the share of time waited since a lane's reading before; None = there is none to compare with."""
    elapsed_ns = monotonic_ns - before.monotonic_ns if before else 0
    if before is None or elapsed_ns <= 0 or some_usec < before.some_usec:
        return None
    return (some_usec - before.some_usec) * 1000 / elapsed_ns


class QuietBand(NamedTuple):
    """Shares of time waited between two readings of a lane of which nobody need know: no rise, and no arming."""

    least_ratio: float
    most_ratio: float
    """Not included."""


def quiet_band(lane: LaneState, policy: ContentionPolicy) -> QuietBand:
    """Return what is quiet of a CPU lane: no rise while it is armed, and no fall that arms it while it is not."""
    if lane.is_armed:
        return QuietBand(0.0, policy.waiting_ratio)
    return QuietBand(policy.rearm_ratio, math.inf)


def is_quiet(before: LaneState, monotonic_ns: int, some_usec: int, band: QuietBand) -> bool:
    """Return whether a lane's reading is quiet beside the one before; where they cannot be compared it is not.

    The C sampler asks the same (``pl_lane_wait``).
    """
    ratio = lane_waiting_ratio(before, monotonic_ns, some_usec)
    return ratio is not None and band.least_ratio <= ratio < band.most_ratio


def watch_lanes(
    watch: LaneWatch, readings: Mapping[int, tuple[int, int]], policy: ContentionPolicy
) -> tuple[LaneWatch, tuple[int, ...]]:
    """Compare lane readings with the ones before.

    Args:
        readings: Lane -> (monotonic_ns, some_usec); a lane that could not be read is left out and forgotten.

    Returns:
        What to remember, and the lanes on which contention rose, if a sweep may start early now; else none.
    """
    lanes: dict[int, LaneState] = {}
    risen: list[int] = []
    newest_ns = 0
    for lane, (monotonic_ns, some_usec) in readings.items():
        newest_ns = max(newest_ns, monotonic_ns)
        before = watch.lanes.get(lane)
        waiting_ratio = lane_waiting_ratio(before, monotonic_ns, some_usec)
        if before is None or waiting_ratio is None:
            lanes[lane] = LaneState(monotonic_ns, some_usec)
            continue
        is_armed = before.is_armed or waiting_ratio < policy.rearm_ratio
        if is_armed and waiting_ratio >= policy.waiting_ratio:
            risen.append(lane)
        lanes[lane] = LaneState(monotonic_ns, some_usec, is_armed)
    early_ns = watch.early_sweep_ns
    spacing_ns = int(policy.least_spacing_seconds * 1e9)
    if not risen or (early_ns is not None and newest_ns - early_ns < spacing_ns):
        # A rise that may not start a sweep now keeps its lane armed: it is told as soon as the spacing allows.
        return LaneWatch(lanes=lanes, early_sweep_ns=early_ns), ()
    for lane in risen:
        lanes[lane] = lanes[lane]._replace(is_armed=False)
    return LaneWatch(lanes=lanes, early_sweep_ns=newest_ns), tuple(risen)
