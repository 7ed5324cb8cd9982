"""What the ledger lets happen to a pod at the moment. Core, pure; time is an argument."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from agent.core.cluster.pod import Pod
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import FREE, Constraint, KeptReason
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import changed_pod
from agent.core.recommender.calm_falls import NEVER, calm_falls_of
from agent.core.resize.decision import Action
from agent.core.resize.put_back import step_of
from agent.core.resize.record import Flight, FlightState, PodRecord
from agent.core.resize.refusal import requests_in_all
from agent.core.resize.status import ResizeState, ResizeStatus, resize_status

IN_FLIGHT: Final = Constraint(shrink=KeptReason.IN_FLIGHT, grow=KeptReason.IN_FLIGHT, urgent_grow=KeptReason.IN_FLIGHT)
"""Of a pod with a resize that has no answer."""
_DEFERRED: Final = Constraint(shrink=KeptReason.DEFERRED, grow=KeptReason.DEFERRED, urgent_grow=KeptReason.DEFERRED)
_INFEASIBLE: Final = Constraint(
    shrink=KeptReason.INFEASIBLE, grow=KeptReason.INFEASIBLE, urgent_grow=KeptReason.INFEASIBLE
)


def constraint_of(record: PodRecord | None, pod: Pod, act: ActOptions, now_seconds: float) -> Constraint:
    """Return what stands in the way of changing a pod; a resize that somebody else has begun does so as well.

    What is short now does not wait for a resize of ours that asked for something else: a kubelet takes seconds to put
    CPU in force while the pod stands still at its memory.high.
    """
    status = resize_status(pod)
    flight = record.flight if record is not None else None
    is_topped = flight is not None and may_be_topped(flight, status)
    # Of a restore nothing is withdrawn: once its pod may be sized again, what a plan says comes in its place.
    if flight is None or flight.action is not Action.RESTORE or _is_getting_on(flight, pod):
        if status.state is ResizeState.DEFERRED and (flight is None or flight.state is FlightState.DEFERRED):
            return _DEFERRED
        if not is_topped and (flight is not None or status.is_in_flight):
            return IN_FLIGHT
    if record is None:
        return FREE
    is_wanted = step_of(record, pod) is not None
    if is_wanted and record.wanted is not None and not record.wanted.is_floor:
        return IN_FLIGHT
    # A shrink that is to be taken back may have to wait for room: until then a plan may help with what there is.
    infeasible = record.infeasible
    if infeasible is not None and infeasible.is_final:
        return _INFEASIBLE
    waiting = _waiting(record, now_seconds)
    falls = waiting.get(Phase.SHRINK) or waiting.get(Phase.LIMIT_DOWN)
    rises = waiting.get(Phase.GROW)
    changed = record.changed_seconds
    age_seconds = now_seconds - changed if changed is not None else None
    constraint = Constraint(
        shrink=KeptReason.IN_FLIGHT if is_wanted else falls or _cooling(age_seconds, act.shrink_cool_down_seconds),
        grow=rises or _cooling(age_seconds, act.grow_cool_down_seconds),
        urgent_grow=rises,
        calm_until_seconds=_calm_until(record, act, now_seconds),
        cpu_below_millicores=infeasible.cpu_below_millicores if infeasible is not None else None,
        memory_below_bytes=infeasible.memory_below_bytes if infeasible is not None else None,
    )
    if flight is None or not is_topped:
        return constraint
    rising = frozenset(change.number for change in flight.step.changes if change.after > change.before)
    return replace(constraint, shrink=KeptReason.IN_FLIGHT, grow=KeptReason.IN_FLIGHT, rising=rising)


def may_be_topped(flight: Flight, status: ResizeStatus) -> bool:
    """Return whether what is short now may be asked for before a resize has come to its end.

    The API server has taken it, and the kubelet neither puts it off nor fails at it: it takes the newest spec whenever
    it gets there.
    """
    if flight.action is not Action.RESIZE or flight.state is not FlightState.ACCEPTED:
        return False
    return status.state in (ResizeState.UNSEEN, ResizeState.IN_PROGRESS, ResizeState.UNKNOWN)


def _calm_until(record: PodRecord, act: ActOptions, now_seconds: float) -> float | None:
    """Return until when CPU with credit is not to fall; None = it may now."""
    if record.cpu_fell_seconds is None and record.cpu_grown_seconds is None:
        return None
    fell, grown = (
        np.array(NEVER if seconds is None else seconds)
        for seconds in (record.cpu_fell_seconds, record.cpu_grown_seconds)
    )
    begin_seconds = float(calm_falls_of(act).begin_seconds(fell, grown))
    return begin_seconds if begin_seconds > now_seconds else None


def _cooling(age_seconds: float | None, cool_down_seconds: float) -> KeptReason | None:
    is_cooling = age_seconds is not None and age_seconds < cool_down_seconds
    return KeptReason.COOL_DOWN if is_cooling else None


def kept_back(
    step: PlanStep, record: PodRecord | None, pod: Pod, act: ActOptions, now_seconds: float, action: Action
) -> KeptReason | None:
    """Return why a step may not be sent now; None = it may.

    A restore was asked for by a person, and waits only for a resize that gets on: one that the kubelet puts off, or
    fails at, may stay so for ever, and is taken back by what comes in its place. What takes a boost back waits for any
    resize to end and for another try after a refusal, but for no cool-down: its time was set when the pod was made.
    """
    if action is Action.RESTORE:
        return KeptReason.IN_FLIGHT if _is_getting_on(record.flight if record is not None else None, pod) else None
    wanted = step_of(record, pod) if record is not None else None
    if record is not None and wanted is not None and wanted.changes == step.changes:
        return _held_up(record, wanted.phase, now_seconds)
    constraint = constraint_of(record, pod, act, now_seconds)
    if constraint in (IN_FLIGHT, _DEFERRED):
        return constraint.shrink
    # Only a plan's step is followed as one with what it goes on top of; a shrink is taken back at once, in part too.
    is_wanted = wanted is not None and set(step.changes) <= set(wanted.changes)
    if constraint.grow is KeptReason.IN_FLIGHT and action is not Action.RESIZE and not is_wanted:
        return KeptReason.IN_FLIGHT
    if action is Action.UNBOOST:
        waiting = {} if record is None else _waiting(record, now_seconds)
        return KeptReason.INFEASIBLE if constraint == _INFEASIBLE else waiting.get(step.phase)
    if any(change.after < change.before for change in step.changes) and constraint.shrink is not None:
        return constraint.shrink
    rises = [change for change in step.changes if change.after > change.before]
    if rises:
        reason = constraint.urgent_grow if step.is_urgent else constraint.grow
        if reason is not None:
            return reason
    if any(change.number in constraint.rising for change in rises):
        return KeptReason.IN_FLIGHT
    before, after = requests_in_all(pod), requests_in_all(changed_pod(pod, step.changes))
    belows = (constraint.cpu_below_millicores, constraint.memory_below_bytes)
    for now, then, below in zip(before, after, belows, strict=True):
        if below is not None and then > now and then >= below:
            return KeptReason.INFEASIBLE
    return None


def _held_up(record: PodRecord, phase: Phase, now_seconds: float) -> KeptReason | None:
    """Return why what must be put back cannot be sent yet: it has been sent, no answer to what was, or a refusal."""
    flight = record.flight
    is_held = flight is not None and (flight.state is FlightState.SENT or flight.action is Action.REVERT)
    return KeptReason.IN_FLIGHT if is_held else _waiting(record, now_seconds).get(phase)


def _is_getting_on(flight: Flight | None, pod: Pod) -> bool:
    """Return whether a resize is under way that the kubelet has not put off and does not fail at; anybody's."""
    if resize_status(pod).state in (ResizeState.UNSEEN, ResizeState.IN_PROGRESS):
        return True  # whatever became of the one before it
    return flight is not None and flight.state not in (FlightState.DEFERRED, FlightState.FAILING)


def _waiting(record: PodRecord, now_seconds: float) -> dict[Phase, KeptReason]:
    """Return the phases of which steps wait for another try, and as what that is told."""
    return {
        refusal.phase: refusal.kept
        for refusal in record.refused
        if now_seconds - refusal.since_seconds < refusal.delay_seconds
    }
