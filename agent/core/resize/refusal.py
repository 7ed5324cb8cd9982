"""What an answer to a resize leaves in the ledger. Core, pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agent.core.cluster.effective_resources import pod_requests
from agent.core.cluster.node import Node
from agent.core.cluster.pod import CPU, MEMORY, Pod
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import to_millis, to_units
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.node_room import counted
from agent.core.plan.plan import Phase
from agent.core.resize.answer import AnswerKind, ResizeAnswer
from agent.core.resize.decision import Action
from agent.core.resize.put_back import cpu_falls, memory_falls
from agent.core.resize.record import Flight, FlightState, Infeasible, PodRecord, RefusedPhase, Shrunk

FIRST_DELAY_SECONDS: Final = 60.0
LONGEST_DELAY_SECONDS: Final = 3600.0

_KEPT: Final = {
    AnswerKind.FEATURE_MISSING: KeptReason.TOO_OLD,
    AnswerKind.FORBIDDEN: KeptReason.LIMIT_RANGE,
    AnswerKind.REJECTED: KeptReason.LIMIT_RANGE,
    AnswerKind.INVALID: KeptReason.LIMIT_RANGE,
}
"""Answers that ask to wait with the same wish."""
_NEVER_PASSES: Final = frozenset({AnswerKind.FEATURE_MISSING, AnswerKind.INVALID})
"""The same again would be refused again: the longest delay at once."""


def after_answer(
    record: PodRecord, flight: Flight, answer: ResizeAnswer, node: Node | None, now_seconds: float
) -> PodRecord:
    """Return a pod's record after an answer to the resize that is under way, given by this node as it is now."""
    if answer.kind is AnswerKind.UNKNOWN:
        return record
    if answer.kind is AnswerKind.ACCEPTED:
        return accepted(record, flight, now_seconds)
    # What was under way below it still is; and what the spec held when it was sent is nobody else's resize.
    record = replace(record, flight=record.below, below=None, spec=flight.spec_before)
    if answer.kind is AnswerKind.INFEASIBLE:
        # A shrink that is to be taken back is so whether a person's restore is feasible or not.
        wanted = record.wanted if flight.action is Action.RESTORE else None
        return replace(record, infeasible=infeasible(flight, node, answer.resources), wanted=wanted)
    reason = _KEPT.get(answer.kind)
    if reason is None:
        return record
    least = LONGEST_DELAY_SECONDS if answer.kind in _NEVER_PASSES else FIRST_DELAY_SECONDS
    return refused(record, flight.step.phase, reason, now_seconds, least_delay_seconds=least)


def accepted(record: PodRecord, flight: Flight, now_seconds: float) -> PodRecord:
    """Return the record once the pod's spec holds the wish."""
    shrunk = record.shrunk
    falls = memory_falls(flight.step.changes)
    # What a person wants back, or a boost that is over, makes CPU fall on purpose.
    cpu = cpu_falls(flight.step.changes) if flight.action is Action.RESIZE else ()
    # What takes back a wish that was never in force is no shrink.
    if (falls or cpu) and flight.action is not Action.REVERT:
        added = Shrunk(
            sent_seconds=flight.sent_seconds,
            at_seconds=now_seconds,
            changes=falls,
            cpu_changes=cpu,
            restarts=flight.restarts if flight.action is Action.RESIZE else None,
            was_ready=flight.was_ready,
        )
        shrunk = (*shrunk, added)
    return replace(
        record,
        flight=replace(flight, state=FlightState.ACCEPTED, since_seconds=now_seconds),
        below=None,
        changed_seconds=now_seconds,
        shrunk=shrunk,
    )


def refused(
    record: PodRecord,
    phase: Phase,
    reason: KeptReason,
    now_seconds: float,
    *,
    least_delay_seconds: float = FIRST_DELAY_SECONDS,
) -> PodRecord:
    """Return the record after a refusal: twice the delay of the one before, from a minute to an hour."""
    before = next((refusal for refusal in record.refused if refusal.phase is phase), None)
    doubled = 2.0 * before.delay_seconds if before is not None else 0.0
    delay = min(max(doubled, least_delay_seconds), LONGEST_DELAY_SECONDS)
    others = tuple(refusal for refusal in record.refused if refusal.phase is not phase)
    return replace(
        record,
        refused=(*others, RefusedPhase(phase=phase, kept=reason, since_seconds=now_seconds, delay_seconds=delay)),
    )


def infeasible(flight: Flight, node: Node | None, resources: tuple[Resource, ...] = ()) -> Infeasible:
    """Return what a "never" to a wish means: less of what rose may be tried; where nothing rose, nothing at all.

    The resources are those that the node has too little of, where the answer says so.
    """
    rising = {
        Resource.CPU: flight.cpu_asked_millicores,
        Resource.MEMORY: flight.memory_asked_bytes,
    }
    blamed = {resource for resource in resources if rising[resource] is not None} or set(Resource)
    cpu_below, memory_below = (
        rising[resource] if resource in blamed else None for resource in (Resource.CPU, Resource.MEMORY)
    )
    return _below(cpu_below, memory_below, node)


def infeasible_as_stated(pod: Pod, node: Node | None) -> Infeasible:
    """Return what a "never" to a wish of others, or from before the ledger began, means; the spec holds the wish."""
    asked, granted = requests_in_all(pod), counted(pod)
    cpu_below, memory_below = (wish if wish > held else None for wish, held in zip(asked, granted, strict=True))
    return _below(cpu_below, memory_below, node)


def requests_in_all(pod: Pod) -> tuple[int, int]:
    """Return what a pod requests in all by its spec: CPU in millicores, memory in bytes."""
    requests = pod_requests(pod)
    return to_millis(requests.get(CPU, 0)), to_units(requests.get(MEMORY, 0))


def _below(cpu_below: int | None, memory_below: int | None, node: Node | None) -> Infeasible:
    return Infeasible(
        cpu_below_millicores=cpu_below,
        memory_below_bytes=memory_below,
        is_final=cpu_below is None and memory_below is None,
        node_cpu_millicores=node.allocatable_cpu_millicores if node is not None else None,
        node_memory_bytes=node.allocatable_memory_bytes if node is not None else None,
    )
