"""What must be put back, as steps: shrinks taken back, wishes withdrawn. Core, pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting, stated
from agent.core.resize.record import Flight, PodRecord, PutBack, Shrunk


def memory_falls(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes that lower memory, requests or limits."""
    return tuple(one for one in changes if one.resource is Resource.MEMORY and one.after < one.before)


def lowers_memory_limit(flight: Flight) -> bool:
    """Return whether a resize lowers a memory limit: failing at it, it stands beside a kill."""
    return any(one.setting is Setting.LIMIT for one in memory_falls(flight.step.changes))


def withdrawal(flight: Flight, reason: str) -> PutBack:
    """Return what takes a wish back to what stood before it."""
    targets = tuple(replace(one, before=one.after, after=one.before) for one in flight.step.changes)
    grows = any(one.after > one.before for one in targets)
    return PutBack(
        phase=Phase.GROW if grows else Phase.SHRINK,
        targets=targets,
        is_floor=False,
        reason=reason,
    )


def revert(shrunk: Iterable[Shrunk], container: str, reason: str) -> PutBack | None:
    """Return what puts memory back to the largest before any of these shrinks; None = none of them lowered memory there.

    Of one container and the pod's own budget.
    """
    targets: dict[tuple[str, Setting], Change] = {}
    for change in (change for one in shrunk for change in one.changes if change.container in (container, "")):
        key = (change.container, change.setting)
        if key not in targets or change.before > targets[key].after:
            targets[key] = replace(change, before=change.after, after=change.before)
    if not targets:
        return None
    return PutBack(phase=Phase.GROW, targets=tuple(targets.values()), is_floor=True, reason=reason)


def step_of(record: PodRecord, pod: Pod) -> PlanStep | None:
    """Return the step to what is wanted from what stands now; None = nothing is wanted, or it stands already."""
    wanted = record.wanted
    if wanted is None:
        return None
    changes: list[Change] = []
    for target in wanted.targets:
        now = stated(pod, target)
        if now is None or now == target.after or (wanted.is_floor and now > target.after):
            continue
        changes.append(replace(target, before=now))
    if not changes:
        return None
    return PlanStep(
        ref=record.ref,
        workload=record.workload,
        phase=wanted.phase,
        changes=tuple(changes),
        reason=wanted.reason,
        is_urgent=True,
    )
