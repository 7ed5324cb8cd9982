"""From what each unit will have to steps, in an order that keeps the node safe after each of them. Core, pure.

Growth that fits into what is free before anything falls needs to wait for nobody: urgent steps of that kind come first
of all, and a pod that falls in one place and rises in another takes one step. Then everything that falls. Then what
rises, into the room that has appeared, urgent pods first and memory before CPU alone. Memory limits fall last, each by
itself: a kubelet that refuses one must not hold up the rest of the pod.

After each prefix the node holds its pods: until the last shrink the sum only falls, but for growth that fitted into the
room free at the start, all of it together; after it the sum only rises, to what was granted. Each request stays at or
below its limit: limits that rise do so with or before their requests, limits that fall do so with or after them and
never below what the request will be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.core.cluster.resource import Resource
from agent.core.plan.moves import Room
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from agent.core.plan.sizing.entry import PodEntry, Side, Unit
from agent.core.window.memory_shortage import MemoryShort

_SHRINK_REASON: Final = "it requests more than it needs"
_GROW_REASON: Final = "what it needs, and its share of the node's spike"
_URGENT_REASON: Final = "it is short now"
_PART_REASON: Final = "its part of what is free until the proposed evictions"
_SHORT_REASONS: Final = {
    MemoryShort.HELD: "it is short now: its tasks are held back at memory.high",
    MemoryShort.STALLED: "it is short now: its tasks wait for memory at its limit",
}
_BOTH_REASON: Final = "more of one and less of another, by what it needs and its share of the node's spike"
_LIMIT_REASON: Final = "its limit"
_LIMIT_DOWN_REASON: Final = "its memory limit is far above what it needs"


@dataclass(slots=True)
class _Moves:
    entry: PodEntry
    falls: list[Change] = field(default_factory=list)
    """Requests that fall, and CPU limits that do."""
    pair_falls: list[Change] = field(default_factory=list)
    """Memory requests that are limits as well: refused by kubelets like any limit."""
    rises: list[Change] = field(default_factory=list)
    limit_downs: list[Change] = field(default_factory=list)
    is_growing: bool = False
    """A request rises."""
    is_part: bool = False
    """Of which one only as much as is free while others, or it, should go."""
    grows_memory: bool = False
    frees_memory: bool = False
    """A memory limit rises, of a pod that is held back or waits at it: as urgent as a request."""
    cpu_taken: int = 0
    """How much more it holds than now once all of it is done, >= 0."""
    memory_taken: int = 0


def steps_of(entries: Sequence[PodEntry], cpu: Room, memory: Room) -> tuple[PlanStep, ...]:
    """Order the changes of all pods into steps; nothing to do gives none."""
    moves = [pod_moves for entry in entries if (pod_moves := _moves(entry)) is not None]
    free_cpu, free_memory = cpu.free, memory.free
    first: list[PlanStep] = []
    shrinks: list[PlanStep] = []
    grows: list[tuple[bool, bool, int, PlanStep]] = []
    for place, pod_moves in sorted(enumerate(moves), key=lambda placed_moves: not placed_moves[1].entry.is_urgent):
        is_urgent = pod_moves.entry.is_urgent
        fits = pod_moves.cpu_taken <= free_cpu and pod_moves.memory_taken <= free_memory
        is_first = is_urgent and (pod_moves.is_growing or pod_moves.frees_memory)
        if pod_moves.rises and fits and (pod_moves.falls or is_first):
            free_cpu -= pod_moves.cpu_taken
            free_memory -= pod_moves.memory_taken
            has_fallen = any(change.setting is Setting.REQUEST for change in pod_moves.falls)
            phase = Phase.SHRINK if has_fallen else Phase.GROW
            step = _step(pod_moves, phase, pod_moves.falls + pod_moves.rises)
            if is_first:
                first.append(step)
            else:
                shrinks.append(step)
            continue
        if pod_moves.falls:
            shrinks.append(_step(pod_moves, Phase.SHRINK, pod_moves.falls))
        if pod_moves.rises:
            grow = _step(pod_moves, Phase.GROW, pod_moves.rises)
            grows.append((not is_urgent, not pod_moves.grows_memory, place, grow))
    shrinks.sort(key=lambda step: step.ref)
    pair_falls = [_step(pod_moves, Phase.SHRINK, pod_moves.pair_falls) for pod_moves in moves if pod_moves.pair_falls]
    limit_downs = [
        _step(pod_moves, Phase.LIMIT_DOWN, pod_moves.limit_downs) for pod_moves in moves if pod_moves.limit_downs
    ]
    grown = [grow for *_, grow in sorted(grows, key=lambda ranked_grow: ranked_grow[:3])]
    return (*first, *shrinks, *pair_falls, *grown, *limit_downs)


def _moves(entry: PodEntry) -> _Moves | None:
    moves: _Moves | None = None
    for side in (entry.cpu, entry.memory):
        is_touched = False
        for unit in side.units:
            if unit.applied == (unit.request or 0) and unit.limit_applied == unit.limit:
                continue
            if moves is None:
                moves = _Moves(entry)
            is_touched = True
            _sort_in(moves, side, unit)
        if moves is not None and is_touched:
            taken = max(0, _held_before_pairs(side) - side.counted)
            if side.resource is Resource.CPU:
                moves.cpu_taken = taken
            else:
                moves.memory_taken = taken
    return moves


def _held_before_pairs(side: Side) -> int:
    """Return what it holds after everything but the memory limits that fall with their requests."""
    if side.resource is Resource.CPU:
        return side.held_applied()
    return side.held(
        [
            unit.request or 0 if unit.is_pair and unit.applied < (unit.request or 0) else unit.applied
            for unit in side.units
        ]
    )


def _sort_in(moves: _Moves, side: Side, unit: Unit) -> None:
    is_memory = side.resource is Resource.MEMORY
    before, after = unit.request, unit.applied
    if before is not None and after != before:
        change = _change(side, unit, Setting.REQUEST, before, after)
        if after > before:
            moves.rises.append(change)
            moves.is_growing = True
            moves.is_part = moves.is_part or unit.kept is KeptReason.EVICTION_PENDING
            moves.grows_memory = moves.grows_memory or is_memory
        elif is_memory and unit.is_pair:
            moves.pair_falls.append(change)
        else:
            moves.falls.append(change)
    limit, limit_after = unit.limit, unit.limit_applied
    if limit is not None and limit_after is not None and limit_after != limit:
        change = _change(side, unit, Setting.LIMIT, limit, limit_after)
        if limit_after > limit:
            moves.rises.append(change)
            moves.frees_memory = moves.frees_memory or (is_memory and moves.entry.short is not None)
        elif not is_memory:
            moves.falls.append(change)
        elif unit.is_pair:
            moves.pair_falls.append(change)
        else:
            moves.limit_downs.append(change)


def _change(side: Side, unit: Unit, setting: Setting, before: int, after: int) -> Change:
    return Change(
        container=unit.name,
        kind=unit.kind if unit.name else None,
        resource=side.resource,
        setting=setting,
        before=before,
        after=after,
    )


def _step(moves: _Moves, phase: Phase, changes: Sequence[Change]) -> PlanStep:
    entry = moves.entry
    rises = falls = False
    is_freed = moves.frees_memory and any(change.after > change.before for change in changes)
    for change in changes:
        if change.setting is Setting.REQUEST:
            if change.after > change.before:
                rises = True
            else:
                falls = True
    if phase is Phase.LIMIT_DOWN:
        reason = _LIMIT_DOWN_REASON
    elif entry.short is not None and is_freed:
        reason = _SHORT_REASONS[entry.short]
    elif rises:
        reason = _BOTH_REASON if falls else _GROW_REASON
        if entry.is_urgent or moves.is_part:
            reason = _URGENT_REASON if entry.is_urgent else _PART_REASON
    else:
        reason = _SHRINK_REASON if falls else _LIMIT_REASON
    return PlanStep(
        ref=entry.ref,
        workload=entry.demand.workload,
        phase=phase,
        changes=_in_order(entry, changes),
        reason=reason,
        is_urgent=entry.is_urgent and (rises or is_freed),
    )


def _in_order(entry: PodEntry, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Sort by container as the pod's spec has them: the API refuses a resize that names them in another order."""
    first = changes[0].container
    for change in changes:
        if change.container != first:
            break
    else:
        return tuple(changes)
    places = {container.name: place for place, container in enumerate(entry.pod.sized_containers())}
    return tuple(sorted(changes, key=lambda change: places.get(change.container, len(places))))
