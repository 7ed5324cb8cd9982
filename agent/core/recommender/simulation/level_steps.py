"""Where a trace steps up, and how soon a request covers the new level.

Core, pure. A **step** of CPU use is this: a minute lies at least 50 % and 50 millicores above the largest minute of the
hour before, and so do the medians of the five minutes that it begins and of the two times five that follow. Its
**level** is the median of these fifteen minutes; it ends when the median of five minutes falls below the middle between
the hour before and the level, or with the trace. At least half of the hour before and all of the fifteen minutes must
be known. A second rise within the fifteen minutes belongs to the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.recommender.simulation.trace import Floats32, TraceSet

RISE_RATIO: Final = 1.5
RISE_MILLICORES: Final = 50.0
BEFORE_MINUTES: Final = 60
BEFORE_KNOWN_MINUTES: Final = 30
MEDIAN_MINUTES: Final = 5
STAY_MINUTES: Final = 15
_BLOCK: Final = 64
"""Containers looked at together: a week of them is 2.6 MB, which a core's cache holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSteps:
    """Steps of a trace in no order that matters; shape ``(k,)`` each."""

    rows: Ints
    first_minutes: Ints
    """Counted from the trace's first."""
    end_minutes: Ints
    """The first that is no longer part of it."""
    level_millicores: Floats

    @property
    def count(self) -> int:
        """How many."""
        return self.rows.size


def demand_steps(trace: TraceSet) -> DemandSteps:
    """Find every step of every container."""
    steps: list[tuple[int, int, int, float]] = []
    for first in range(0, len(trace.containers), _BLOCK):
        block = slice(first, first + _BLOCK)
        usage = np.ascontiguousarray(trace.cpu_millicores[:, block].T)
        has = np.ascontiguousarray(trace.has_cpu[:, block].T)
        steps += [(first + row, *step) for row, step in _steps_of_block(usage, has)]
    columns = list(zip(*steps, strict=True)) or [(), (), (), ()]
    return DemandSteps(
        rows=np.array(columns[0], dtype=np.int64),
        first_minutes=np.array(columns[1], dtype=np.int64),
        end_minutes=np.array(columns[2], dtype=np.int64),
        level_millicores=np.array(columns[3], dtype=np.float64),
    )


def _steps_of_block(usage: Floats32, has: Bools) -> list[tuple[int, tuple[int, int, float]]]:
    """Return (row, (first minute, end, level)) of each step; arrays are ``(containers, minutes)``."""
    minutes = usage.shape[1]
    starts = minutes - BEFORE_MINUTES - STAY_MINUTES + 1
    if starts < 1:
        return []
    before = _sliding_max(usage, BEFORE_MINUTES)[:, :starts]
    known = np.cumsum(has, axis=1, dtype=np.int32)
    known = np.concatenate((np.zeros((has.shape[0], 1), np.int32), known), axis=1)
    medians = _median_of_five(usage)
    threshold = np.maximum(before * np.float32(RISE_RATIO), before + np.float32(RISE_MILLICORES))
    # Column s stands for a step whose fifteen minutes begin at minute s + 60.
    is_step = known[:, BEFORE_MINUTES : BEFORE_MINUTES + starts] - known[:, :starts] >= BEFORE_KNOWN_MINUTES
    is_step &= (
        known[:, BEFORE_MINUTES + STAY_MINUTES :] - known[:, BEFORE_MINUTES : BEFORE_MINUTES + starts] == STAY_MINUTES
    )
    is_step &= usage[:, BEFORE_MINUTES : BEFORE_MINUTES + starts] >= threshold
    for offset in range(BEFORE_MINUTES, BEFORE_MINUTES + STAY_MINUTES, MEDIAN_MINUTES):
        is_step &= medians[:, offset : offset + starts] >= threshold
    steps: list[tuple[int, tuple[int, int, float]]] = []
    free_from: dict[int, int] = {}
    for row, start in np.argwhere(is_step).tolist():
        first = start + BEFORE_MINUTES
        if first < free_from.get(row, 0):
            continue
        level = float(np.median(usage[row, first : first + STAY_MINUTES]))
        middle = (float(before[row, start]) + level) / 2
        low = medians[row, first + STAY_MINUTES :] < middle
        end = first + STAY_MINUTES + int(low.argmax()) if low.any() else minutes
        steps.append((row, (first, end, level)))
        free_from[row] = first + STAY_MINUTES
    return steps


def _sliding_max(values: Floats32, length: int) -> Floats32:
    """Return the maximum of each ``length`` neighbours along axis 1; ``length - 1`` columns fewer."""
    reach = 1
    best = values
    while reach * 2 <= length:
        best = np.maximum(best[:, :-reach], best[:, reach:])
        reach *= 2
    rest = length - reach
    return np.maximum(best[:, : best.shape[1] - rest], best[:, rest:])


def _median_of_five(values: Floats32) -> Floats32:
    """Return the median of each five neighbours along axis 1; four columns fewer."""
    width = values.shape[1] - 4
    a, b, c, d, e = (values[:, offset : offset + width] for offset in range(5))
    # The largest of the two pairs' smaller ones and the smallest of their larger ones enclose the median of four.
    low = np.maximum(np.minimum(a, b), np.minimum(c, d))
    high = np.minimum(np.maximum(a, b), np.maximum(c, d))
    return np.maximum(np.minimum(low, high), np.minimum(np.maximum(low, high), e))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReactions:
    """How soon requests covered the steps; shape ``(k,)`` each, in the order of ``DemandSteps``."""

    reaction_minutes: Ints
    """Minutes from the step's first until the request covers its level; 0 = it was large enough before."""
    is_covered: Bools
    """The level was covered while the step lasted; else ``reaction_minutes`` means nothing."""
    is_sized: Bools
    """The container had a request when the step began; else the step judges nobody."""


class ReactionWatch:
    """Follows the steps of a trace through a simulation, piece by piece."""

    def __init__(self, steps: DemandSteps) -> None:
        self._steps = steps
        self._reaction = np.zeros(steps.count, dtype=np.int64)
        self._is_covered = np.zeros(steps.count, dtype=np.bool_)
        self._is_sized = np.zeros(steps.count, dtype=np.bool_)

    def see(self, first_minute: int, request_millicores: Floats, has_request: Bools) -> None:
        """Check the requests in force in some minutes, shape ``(minutes, n)``; pieces come in order."""
        steps = self._steps
        after = first_minute + request_millicores.shape[0]
        is_open = (steps.first_minutes < after) & (steps.end_minutes > first_minute) & ~self._is_covered
        for index in np.flatnonzero(is_open).tolist():
            row, begin = int(steps.rows[index]), int(steps.first_minutes[index])
            if begin >= first_minute:
                self._is_sized[index] = has_request[begin - first_minute, row]
            piece = slice(max(begin - first_minute, 0), min(int(steps.end_minutes[index]), after) - first_minute)
            covers = has_request[piece, row] & (request_millicores[piece, row] >= steps.level_millicores[index])
            if covers.any():
                self._is_covered[index] = True
                self._reaction[index] = first_minute + (piece.start or 0) + int(covers.argmax()) - begin

    def reactions(self) -> StepReactions:
        """Return what was seen."""
        return StepReactions(reaction_minutes=self._reaction, is_covered=self._is_covered, is_sized=self._is_sized)
