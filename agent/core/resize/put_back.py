"""What must be put back, as steps: shrinks taken back, wishes withdrawn. Core, pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting, pod_numbers, stated
from agent.core.resize.record import Flight, PodRecord, PutBack, Shrunk


def cpu_falls(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes that lower CPU, requests or limits."""
    return tuple(change for change in changes if change.resource is Resource.CPU and change.after < change.before)


def memory_falls(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes that lower memory, requests or limits."""
    return tuple(change for change in changes if change.resource is Resource.MEMORY and change.after < change.before)


def lowers_memory_limit(flight: Flight) -> bool:
    """Return whether a resize lowers a memory limit: failing at it, it stands beside a kill."""
    return any(change.setting is Setting.LIMIT for change in memory_falls(flight.step.changes))


def withdrawal(flight: Flight, reason: str, *, granted: Collection[Change] = ()) -> PutBack:
    """Return what takes a wish back to what stood before it, but for the changes that the pod was granted before."""
    targets = tuple(
        replace(change, before=change.after, after=change.before)
        for change in flight.step.changes
        if change not in granted
    )
    grows = any(target.after > target.before for target in targets)
    return PutBack(
        phase=Phase.GROW if grows else Phase.SHRINK,
        targets=targets,
        is_floor=False,
        reason=reason,
    )


def revert(shrunk: Iterable[Shrunk], container: str, reason: str) -> PutBack | None:
    """Return what puts memory back to the largest before any of these shrinks; None = none lowered memory there.

    Of one container and the pod's own budget.
    """
    return _largest_before(
        (change for shrink in shrunk for change in shrink.changes if change.container in (container, "")), reason
    )


def revert_all(shrunk: Iterable[Shrunk], reason: str) -> PutBack | None:
    """Return what puts both resources of all containers back to the largest before any of these shrinks; or None."""
    return _largest_before((change for shrink in shrunk for change in (*shrink.cpu_changes, *shrink.changes)), reason)


def _largest_before(changes: Iterable[Change], reason: str) -> PutBack | None:
    targets: dict[tuple[str, Resource, Setting], Change] = {}
    for change in changes:
        key = (change.container, change.resource, change.setting)
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
    numbers = pod_numbers(pod)
    for target in wanted.targets:
        now = stated(numbers, target)
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
