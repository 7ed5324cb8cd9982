"""How much of a node its pods hold, as scheduler and kubelet count, and whether a step fits into the rest. Core, pure.

The largest of what a spec asks for, what the kubelet has allocated and what is in force holds room: a request that has
fallen gives its room back only once the kubelet has acted on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from agent.core.cluster.effective_resources import CountingRule, pod_requests, without_overhead
from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import (
    CPU,
    INFEASIBLE,
    MEMORY,
    RESIZE_PENDING,
    Container,
    ContainerStatus,
    Pod,
    Reported,
    Requirements,
    has_ended,
)
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.plan.plan import PlanStep
from agent.core.plan.pod_change import Setting, changed_pod, unanswered

_RUNNING_RESIZES: Final = CountingRule(use_status=True)
_NOTHING: Final[Mapping[str, int]] = {}


def holds_room(pod: Pod) -> bool:
    """Return whether the pod counts at all: a pod that has ended does not, one that is being deleted still does.

    Source:
        The scheduler lists pods by ``status.phase!=Succeeded,status.phase!=Failed``.
    """
    return not has_ended(pod)


def counted(pod: Pod) -> tuple[int, int]:
    """Return what a pod holds of its node: CPU in millicores, memory in bytes; overhead and init floors included.

    Where the pod's own budget is resized, the kubelet's figures for the pod hold its overhead already, and CPU in force
    is read back from a weight with loss: what is allocated stands for it.

    Source:
        ``effective.pod_requests``; facts on KEP-1287 and KEP-5419.
    """
    if pod.init_containers or pod.resources is not None or pod.overhead:
        return _counted_in_full(pod)
    for condition in pod.conditions:
        if condition.type == RESIZE_PENDING and condition.reason == INFEASIBLE:
            return _counted_in_full(pod)
    statuses = {status.name: status for status in pod.statuses}
    cpu = memory = allocated_cpu = allocated_memory = actual_cpu = actual_memory = 0
    for container in pod.containers:
        requests = container.resources.requests
        cpu += requests.get(CPU, 0)
        memory += requests.get(MEMORY, 0)
        status = statuses.get(container.name)
        if status is not None:
            if status.allocated is not None:
                requests = status.allocated
            allocated_cpu += requests.get(CPU, 0)
            allocated_memory += requests.get(MEMORY, 0)
            if status.actual is not None and status.actual.requests is not None:
                requests = status.actual.requests
            actual_cpu += requests.get(CPU, 0)
            actual_memory += requests.get(MEMORY, 0)
        else:
            allocated_cpu += requests.get(CPU, 0)
            allocated_memory += requests.get(MEMORY, 0)
            actual_cpu += requests.get(CPU, 0)
            actual_memory += requests.get(MEMORY, 0)
    return (
        -(-max(cpu, allocated_cpu, actual_cpu) // NANOS_PER_MILLI),
        -(-max(memory, allocated_memory, actual_memory) // NANOS_PER_UNIT),
    )


def granted_pod(pod: Pod) -> Pod:
    """Return the pod without what it only wishes for: no request above what the kubelet has granted or has in force.

    Where its kubelet reports nothing of a request, that stands; beside a resize that is infeasible it counts as none,
    as the scheduler has it.

    Returns:
        The very same pod where nothing of it is a mere wish.
    """
    if not pod.statuses and pod.resources is None and not pod.is_resize_infeasible:
        return pod
    never = {CPU: 0, MEMORY: 0} if pod.is_resize_infeasible else None
    statuses = {status.name: status for status in pod.statuses}
    containers = tuple([_granted_container(part, statuses.get(part.name), never) for part in pod.containers])
    init_containers = tuple([_granted_container(part, statuses.get(part.name), never) for part in pod.init_containers])
    resources = pod.resources
    if resources is not None:
        allocated, actual = pod.allocated, pod.actual
        if pod.overhead and allocated is not None:
            allocated = without_overhead(pod, resources.requests, allocated)
        if pod.overhead and actual is not None and actual.requests is not None:
            actual = Reported(requests=without_overhead(pod, resources.requests, actual.requests))
        resources = _granted(resources, allocated, actual, never)
    every = (*containers, *init_containers, resources)
    if all(
        part is was for part, was in zip(every, (*pod.containers, *pod.init_containers, pod.resources), strict=True)
    ):
        return pod
    return replace(pod, containers=containers, init_containers=init_containers, resources=resources)


def _granted_container(
    container: Container, status: ContainerStatus | None, otherwise: Mapping[str, int] | None
) -> Container:
    if status is None:
        resources = _granted(container.resources, None, None, otherwise)
    else:
        resources = _granted(container.resources, status.allocated, status.actual, otherwise)
    return container if resources is container.resources else replace(container, resources=resources)


def _granted(
    stated: Requirements,
    allocated: Mapping[str, int] | None,
    actual: Reported | None,
    otherwise: Mapping[str, int] | None,
) -> Requirements:
    """Return what is stated with no request above the largest reported, or above this where nothing is."""
    in_force = actual.requests if actual is not None else None
    if allocated == stated.requests:
        return stated
    requests: dict[str, int] | None = None
    for name in (CPU, MEMORY):
        known = [amounts[name] for amounts in (allocated, in_force) if amounts is not None and name in amounts]
        if not known and otherwise is not None:
            known = [otherwise[name]]
        if known and max(known) < stated.requests.get(name, 0):
            requests = {**(requests or stated.requests), name: max(known)}
    return stated if requests is None else replace(stated, requests=requests)


def fits_now(state: NodeState, step: PlanStep) -> bool:
    """Return whether the node would hold all its pods if this step's wish stood in its pod's spec this moment.

    Nothing is assumed of other steps: a pod counts with whatever holds room now. What a step does not raise is not
    asked about, so that a node that is over its capacity can be relieved. A wish that the kubelet has refused holds no
    room, but what is asked for in its place does.
    """
    node = state.node
    if node is None or node.allocatable_cpu_millicores is None or node.allocatable_memory_bytes is None:
        return False
    pod = next((pod for pod in state.pods if pod.uid == step.ref.uid), None)
    if pod is None or not holds_room(pod):
        return False
    before, after = counted(pod), counted(unanswered(changed_pod(pod, step.changes)))
    requested = {change.resource for change in step.changes if change.setting is Setting.REQUEST}
    takes_cpu = Resource.CPU in requested and after[0] > before[0]
    takes_memory = Resource.MEMORY in requested and after[1] > before[1]
    if not takes_cpu and not takes_memory:
        return True
    held = [counted(other) for other in state.pods if holds_room(other)]
    cpu_millicores = sum(cpu for cpu, _ in held) - before[0] + after[0]
    memory_bytes = sum(memory for _, memory in held) - before[1] + after[1]
    return (not takes_cpu or cpu_millicores <= node.allocatable_cpu_millicores) and (
        not takes_memory or memory_bytes <= node.allocatable_memory_bytes
    )


def part_that_fits(state: NodeState, step: PlanStep) -> PlanStep | None:
    """Return the step if the node holds it now, else the part of it that needs no room; None = there is none.

    Limits need no room. A pod that is killed at a limit that was put too low is helped by its limit alone.
    """
    if fits_now(state, step):
        return step
    limits = tuple(change for change in step.changes if change.setting is Setting.LIMIT)
    if not limits:
        return None
    part = replace(step, changes=limits)
    return part if fits_now(state, part) else None


def _counted_in_full(pod: Pod) -> tuple[int, int]:
    held = pod_requests(pod, _RUNNING_RESIZES)
    if pod.resources is not None:
        actual = (pod.actual.requests if pod.actual is not None else None) or _NOTHING
        allocated = pod.allocated or _NOTHING
        for name in (CPU, MEMORY):
            if name not in pod.resources.requests:
                continue
            if pod.is_resize_infeasible and name in allocated:
                held[name] = 0
            held[name] = max(held[name], allocated.get(name, 0), actual.get(name, 0) if name == MEMORY else 0)
    return -(-held.get(CPU, 0) // NANOS_PER_MILLI), -(-held.get(MEMORY, 0) // NANOS_PER_UNIT)
