"""What other nodes saw of containers, brought to the rows of a policy: peaks by hour, and memory at kills. Core, pure.

Peaks count while this node knows less than seven days of a container: its own history is the truth about its own pods,
but of hours that it has not seen it knows nothing. Memory at an out-of-memory kill anywhere counts always. DaemonSets
do other work on each node: of them only kills count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from agent.core.history.reports.directive import HOURS, ContainerDirective
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, Peaks
from agent.core.numbers.arrays import Bools, Floats
from agent.core.recommender.policy import Elsewhere, Narration, Present, Proposals, Steps

OWN_MINUTES: Final = 9072
"""Minutes known of seven days from which on the node goes by itself: nine tenths, as a restart or a rollout leaves a
few out."""
NEIGHBOUR_HOURS: Final = 1
"""On either side of this hour of the day, for a policy without an option for it: as ``cruise`` by default."""
_KILLED: Final = "memory at an out-of-memory kill elsewhere"
_COUNTS: Final = "told by the webhook; counts while this node knows less than seven days"
_UNKNOWN_HOURS: Final[tuple[int | None, ...]] = (None,) * HOURS


def elsewhere_of(directives: Sequence[ContainerDirective | None], has_own: Sequence[bool]) -> Elsewhere | None:
    """Return what other nodes saw of each row's container as arrays; None = nothing, of any.

    Rows whose peaks this node knows by itself (``has_own``) have none from elsewhere.
    """
    if not any(directive is not None for directive in directives):
        return None
    peaks = [None if is_own else directive for directive, is_own in zip(directives, has_own, strict=True)]
    cpu, has_cpu = _hours(
        [_UNKNOWN_HOURS if directive is None else directive.cpu_hour_peaks_millicores for directive in peaks]
    )
    memory, has_memory = _hours(
        [_UNKNOWN_HOURS if directive is None else directive.memory_hour_peaks_bytes for directive in peaks]
    )
    week, has_week = column([None if directive is None else directive.memory_peak_bytes for directive in peaks])
    oom, has_oom = column([None if directive is None else directive.oom_memory_bytes for directive in directives])
    return Elsewhere(
        cpu_hours_millicores=cpu,
        has_cpu_hours=has_cpu,
        memory_hours_bytes=memory,
        has_memory_hours=has_memory,
        memory_peak_bytes=week,
        has_memory_peak=has_week,
        oom_bytes=oom,
        has_oom=has_oom,
    )


def same_hour_elsewhere(present: Present, now_unix_seconds: float, neighbours: int) -> Peaks:
    """Return the largest peaks of other nodes at this UTC hour of the day and its neighbours, 0..12 on either side.

    They run on over midnight.
    """
    elsewhere = present.elsewhere
    if elsewhere is None:
        nothing, never = np.zeros(present.has_cpu.size), np.zeros(present.has_cpu.size, dtype=np.bool_)
        return Peaks(cpu_millicores=nothing, has_cpu=never, working_set_bytes=nothing, has_memory=never)
    now = int(now_unix_seconds // HOUR_SECONDS)
    hours = [hour % HOURS for hour in range(now - neighbours, now + neighbours + 1)]
    has_cpu, has_memory = elsewhere.has_cpu_hours[:, hours], elsewhere.has_memory_hours[:, hours]
    return Peaks(
        cpu_millicores=np.where(has_cpu, elsewhere.cpu_hours_millicores[:, hours], 0.0).max(axis=1),
        has_cpu=np.logical_or.reduce(has_cpu, axis=1),
        working_set_bytes=np.where(has_memory, elsewhere.memory_hours_bytes[:, hours], 0.0).max(axis=1),
        has_memory=np.logical_or.reduce(has_memory, axis=1),
    )


def raised_by_kills(proposals: Proposals, present: Present, steps: Steps | None) -> Proposals:
    """Raise memory requests to what a kill elsewhere has shown to be too little, whatever the policy.

    Those that know of base and peak have it in their answer already: nothing changes then, and no step is told.
    """
    elsewhere = present.elsewhere
    if elsewhere is None:
        return proposals
    least = np.where(proposals.has_memory & elsewhere.has_oom, elsewhere.oom_bytes, 0.0)
    if not np.count_nonzero(proposals.memory_request_bytes < least):
        return proposals
    request = np.maximum(proposals.memory_request_bytes, least)
    if steps is not None:
        note = f"on another node, told by the webhook; the request was {float(proposals.memory_request_bytes[0]):.0f}"
        steps.say("memory", _KILLED, float(request[0]), "bytes", note)
    return replace(
        proposals,
        memory_request_bytes=request,
        memory_base_bytes=np.maximum(proposals.memory_base_bytes, least),
        memory_peak_bytes=np.maximum(proposals.memory_peak_bytes, least),
    )


def say_kill_elsewhere(memory: Narration, elsewhere: Elsewhere | None) -> None:
    """Record the memory at a kill on another node; nothing where there is none."""
    if elsewhere is not None and elsewhere.has_oom[0]:
        memory.first(_KILLED, elsewhere.oom_bytes, "largest of seven days on any node, told by the webhook")


def say_week_elsewhere(memory: Narration, elsewhere: Elsewhere | None) -> None:
    """Record the largest memory of other nodes; nothing where it does not count."""
    if elsewhere is not None and elsewhere.has_memory_peak[0]:
        memory.first("largest of seven days, other nodes", elsewhere.memory_peak_bytes, _COUNTS)


def say_peak_elsewhere(narration: Narration, peak: float, neighbours: int) -> None:
    """Record the peak at this hour of the day on other nodes."""
    around = f" +- {neighbours} h" if neighbours else ""
    narration.say(f"largest at this hour{around}, other nodes", peak, _COUNTS)


def _hours(rows: Sequence[Sequence[int | None]]) -> tuple[Floats, Bools]:
    """Return values and mask, shape ``(k, 24)``; 0 where there is none. A row without hours knows none."""
    whole = [row or _UNKNOWN_HOURS for row in rows]
    values = np.array([[0.0 if amount is None else amount for amount in row] for row in whole], dtype=np.float64)
    return values, np.array([[amount is not None for amount in row] for row in whole], dtype=np.bool_)


def column(values: Sequence[float | None]) -> tuple[Floats, Bools]:
    """Return values and mask; 0 where there is none."""
    known = np.array([0.0 if value is None else value for value in values], dtype=np.float64)
    return known, np.array([value is not None for value in values], dtype=np.bool_)
