"""The last check before any write: what must hold whatever a plan says. Core, pure.

A plan already keeps to all of it. It is asked again here, of the pod as it is at the moment of the write, on every path
to one: plan, out-of-memory path, revert, restore, proposed eviction, admission.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.pod import MEMORY, ContainerKind, Pod
from agent.core.cluster.qos import computed_qos_class, pod_qos_class
from agent.core.cluster.resource import Resource
from agent.core.cluster.versions import Gates
from agent.core.cluster.workload import DAEMON_SET_KIND
from agent.core.numbers.units import to_units
from agent.core.orders.order import Mode, Orders, Ranking
from agent.core.orders.plan_options import DaemonSetGrowth, PlanOptions
from agent.core.orders.windows import Disruption, Wait, Windows, wait_of
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.plan import PlanStep
from agent.core.plan.pod_change import Change, Setting, changed_pod, pod_numbers, restarts, stated
from agent.core.resize.decision import Action


class WriteAction(StrEnum):
    """What a write does."""

    RESIZE_CPU = "resize_cpu"
    RESIZE_MEMORY = "resize_memory"
    EVICT_CPU = "evict_cpu"
    """Proposed for want of CPU."""
    EVICT_MEMORY = "evict_memory"
    EVICT_OOM = "evict_oom"
    """Proposed after an out-of-memory kill."""
    ADMIT_PATCH = "admit_patch"


class SparedReason(StrEnum):
    """Why a pod that may be optimised is spared this one write. Also a metric label."""

    DAEMON_SET = "daemon_set"
    """DaemonSet pods are never evicted, and grow only where ``plan.daemonSetGrowth`` lets them."""
    NO_EVICTION = "no_eviction"
    """Its ranking says so, after an out-of-memory kill too."""
    NO_PREDICTION = "no_prediction"
    """Nobody knows what its successor would be given."""
    POD_CHANGED = "pod_changed"
    """It is no longer the pod that the step was made for: decided anew."""
    UNSOUND = "unsound"
    """It would state what no pod may: a request above its limit, an amount of 0 or less, nothing at all."""


Refusal = ReservedReason | KeptReason | SparedReason

_NOTHING_FROZEN: Final = FrozenAxes()
_EVICTIONS: Final = frozenset({WriteAction.EVICT_CPU, WriteAction.EVICT_MEMORY, WriteAction.EVICT_OOM})
_RESIZES: Final = {Resource.CPU: WriteAction.RESIZE_CPU, Resource.MEMORY: WriteAction.RESIZE_MEMORY}
_OF_MEMORY: Final = frozenset({WriteAction.RESIZE_MEMORY, WriteAction.EVICT_MEMORY, WriteAction.EVICT_OOM})


def may_write(
    action: WriteAction,
    *,
    reserved: ReservedReason | None,
    kind: str,
    ranking: Ranking,
    plan: PlanOptions,
    grows: bool | None = None,
    has_prediction: bool = True,
    is_paused: bool = False,
) -> Refusal | None:
    """Return why a write of this kind may not be; None = it may.

    Whether a resize ``grows`` something may be unknown. An eviction ``has_prediction`` if each container has one.
    """
    if is_paused:
        return KeptReason.PAUSED
    if reserved is not None:
        return reserved
    if action in _OF_MEMORY and not plan.memory_applied:
        return KeptReason.NOT_APPLIED
    if action in _EVICTIONS:
        return _spared_of_eviction(kind, ranking, has_prediction=has_prediction)
    if action in _RESIZES.values() and kind == DAEMON_SET_KIND and grows is not False:
        return SparedReason.DAEMON_SET if plan.daemon_set_growth is DaemonSetGrowth.NEVER else None
    return None


def lowers_protected(step: PlanStep, orders: Orders, action: Action) -> bool:
    """Return whether a step would lower something of a pod in mode protect.

    A wish that was not granted is taken back all the same, as nothing in force is lowered; a person may put originals
    back.
    """
    is_ours = action in (Action.RESIZE, Action.UNBOOST)
    return orders.mode is Mode.PROTECT and is_ours and any(change.after < change.before for change in step.changes)


def window_wait(
    step: PlanStep, pod: Pod, windows: Windows, *, now_unix_seconds: float, lasting_seconds: float
) -> Wait | None:
    """Return until when a plan's step waits for a time at which its pod may be disturbed so; None = it may be now.

    What is urgent is held by no ``restart``, as growth is by no window at all.
    """
    kinds = []
    if any(change.after < change.before for change in step.changes):
        kinds.append(Disruption.SHRINK)
    if not step.is_urgent and any(_restarts(change, pod) for change in step.changes):
        kinds.append(Disruption.RESTART)
    waits = (wait_of(windows, kind, now_unix_seconds, lasting_seconds) for kind in kinds)
    return next((wait for wait in waits if wait is not None), None)


def may_resize(
    step: PlanStep,
    pod: Pod,
    orders: Orders,
    *,
    reserved: ReservedReason | None,
    plan: PlanOptions,
    gates: Gates,
    memory_in_use_bytes: Mapping[str, int],
    is_paused: bool = False,
    is_put_back: bool = False,
    frozen: FrozenAxes = _NOTHING_FROZEN,
) -> Refusal | None:
    """Return why a step may not be sent; None = it may. It is sent as a whole or not at all.

    ``memory_in_use_bytes`` is memory.current by container, read just now, under the empty name of the whole pod; where
    it is missing a limit is not lowered. What takes back what was done before (``is_put_back``) is no growth, whoever
    must not grow, and may change what is ``frozen``, as an HPA divides by it, and memory that is resized no more.
    """
    if is_put_back:
        plan = replace(plan, memory_applied=True, memory_limits_lowered=True)
    for resource in Resource:
        changes = [change for change in step.changes if change.resource is resource]
        if not changes:
            continue
        refusal = may_write(
            _RESIZES[resource],
            reserved=reserved,
            kind=step.workload.kind,
            ranking=orders.ranking,
            plan=plan,
            grows=not is_put_back and any(change.after > change.before for change in changes),
            is_paused=is_paused,
        )
        if refusal is not None:
            return refusal
        if not is_put_back and any(_is_held(change, frozen) for change in changes):
            return KeptReason.HPA
    numbers = pod_numbers(pod)
    if step.ref.uid != pod.uid or any(stated(numbers, change) != change.before for change in step.changes):
        return SparedReason.POD_CHANGED
    for change in step.changes:
        reason = _kept_reason(change, pod, orders, plan, gates, memory_in_use_bytes)
        if reason is not None:
            return reason
    return _unsound(step, pod)


def _is_held(change: Change, frozen: FrozenAxes) -> bool:
    """Return whether an HPA holds a number: the request it divides by, and its limit but for a CPU limit that rises."""
    is_freed = change.resource is Resource.CPU and change.setting is Setting.LIMIT and change.after > change.before
    return frozen.holds(change.resource, change.container) and not is_freed


def _spared_of_eviction(kind: str, ranking: Ranking, *, has_prediction: bool) -> SparedReason | None:
    if kind == DAEMON_SET_KIND:
        return SparedReason.DAEMON_SET
    if ranking is Ranking.NO_EVICTION:
        return SparedReason.NO_EVICTION
    return None if has_prediction else SparedReason.NO_PREDICTION


def _kept_reason(
    change: Change,
    pod: Pod,
    orders: Orders,
    plan: PlanOptions,
    gates: Gates,
    memory_in_use_bytes: Mapping[str, int],
) -> KeptReason | None:
    is_restart = _restarts(change, pod)
    is_memory_limit_down = (
        change.resource is Resource.MEMORY and change.setting is Setting.LIMIT and change.after < change.before
    )
    # A server that cannot resize a pod's own resources refuses every resize of a pod that has any (1.34.4).
    is_gate_open = gates.resize and (gates.pod_level_resize if pod.resources is not None else True)
    if change.kind is ContainerKind.INIT:
        is_gate_open &= gates.init_containers
    if is_memory_limit_down:
        is_gate_open &= gates.memory_limit_down or is_restart
    if not is_gate_open:
        return KeptReason.TOO_OLD
    if is_restart and not orders.is_restart_allowed:
        return KeptReason.RESTART_POLICY
    if not is_memory_limit_down or _is_in_force(change, pod):
        return None
    if not plan.memory_limits_lowered:
        return KeptReason.NOT_APPLIED
    in_use_bytes = memory_in_use_bytes.get(change.container)
    if in_use_bytes is None or change.after < math.ceil(in_use_bytes * plan.memory_limit_margin_ratio):
        return KeptReason.IN_USE
    return None


def _is_in_force(change: Change, pod: Pod) -> bool:
    """Return whether a lower memory limit is no more than what the kernel holds the container to already.

    So it is where a rise has been put off or has failed: to take the wish back lowers nothing.
    """
    status = pod.status_of(change.container)
    limits = None if status is None or status.actual is None else status.actual.limits
    return limits is not None and MEMORY in limits and to_units(limits[MEMORY]) <= change.after


def _restarts(change: Change, pod: Pod) -> bool:
    """Return whether any container restarts for a change."""
    return any(restarts(container, change) for container in pod.sized_containers())


def _unsound(step: PlanStep, pod: Pod) -> KeptReason | SparedReason | None:
    if not step.changes or any(change.after <= 0 for change in step.changes):
        return SparedReason.UNSOUND
    after = changed_pod(pod, step.changes)
    for resources in pod_numbers(after).values():
        for name, limit in resources.limits.items():
            if limit and resources.requests.get(name, 0) > limit:
                return SparedReason.UNSOUND
    return KeptReason.QOS if computed_qos_class(after) is not pod_qos_class(pod) else None
