"""What the kubelet has made of a pod's newest resize, read from the pod. Core, pure.

The API server takes a wish (spec), the kubelet allocates it, actuates it and reports what is in force. Two conditions
tell of the way: PodResizePending (not allocated: later, or never) and PodResizeInProgress (allocated, not in force yet,
or failing). It is done when neither is there, the kubelet speaks of the newest spec, and what it reports is what was
asked for, as exactly as it can be read back.

Source:
    KEP-1287; kubelet 1.37.1 (``facts`` section 6.2 says what a status is worth).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from agent.core.cluster.effective_resources import without_overhead
from agent.core.cluster.pod import (
    CPU,
    INFEASIBLE,
    MEMORY,
    RESIZE_PENDING,
    Container,
    ContainerKind,
    ContainerState,
    ContainerStatus,
    Pod,
    PodCondition,
    Reported,
    Requirements,
)
from agent.core.cluster.resource import Resource
from agent.core.numbers.amount_text import amount_text
from agent.core.numbers.units import to_millis, to_units
from agent.core.plan.pod_change import Change, Setting

RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"
ERROR: Final = "Error"

CPU_TOLERANCE_MILLICORES: Final = 10
"""systemd sets quotas in steps of a hundredth of a CPU, and below 10m there is no quota at all."""
CPU_REQUEST_TOLERANCE_RATIO: Final = 0.05
"""A request is read back from cpu.weight: 10,000 steps for 262,144 shares."""
CPU_REQUEST_TOLERANCE_MILLICORES: Final = 40
"""One step of cpu.weight is 26 shares, that is 26m, and it is rounded on the way there and back."""
MEMORY_TOLERANCE_BYTES: Final = 64 * 1024
"""The kernel cuts limits to whole pages, of 64 KiB at most."""


class ResizeState(StrEnum):
    """How far the newest wish has come. Also a metric label."""

    DONE = "done"
    """Nothing is under way: what the spec asks for is in force; so too in a pod that was never resized."""
    UNSEEN = "unseen"
    """The kubelet has not answered to the newest spec yet."""
    DEFERRED = "deferred"
    """It fits the node, but not now; the kubelet tries again by itself."""
    INFEASIBLE = "infeasible"
    """Never on this node."""
    IN_PROGRESS = "in_progress"
    """Allocated, and not in force yet."""
    ERROR = "error"
    """Allocated, and the kubelet fails to put it in force; it tries again at each sync."""
    UNKNOWN = "unknown"
    """Nothing tells: the pod does not run, or its kubelet does not report what is in force, or it reports something
    else than was asked for and no resize. It may stay so for ever, for instance under a plug-in of the runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStatus:
    """The state, and what the kubelet says about it."""

    state: ResizeState
    message: str = ""
    """The kubelet's own words, or what is still different; empty = nothing to say."""
    error: str | None = None
    """The kubelet's words where it fails at an EARLIER wish or at this one; beside DEFERRED and INFEASIBLE too."""

    @property
    def is_in_flight(self) -> bool:
        """Return whether an answer of the kubelet is still to come."""
        return self.state in (ResizeState.UNSEEN, ResizeState.DEFERRED, ResizeState.IN_PROGRESS, ResizeState.ERROR)


def resize_status(pod: Pod) -> ResizeStatus:
    """Return how far the newest resize of a pod has come.

    Of the two conditions the pending one gives the state, as it speaks of the newest wish; the other may be of an
    earlier one. A condition is believed only when the kubelet has seen the newest spec; where no generation is told, a
    pending one is over once what is allocated and in force is what is asked for.
    """
    if pod.observed_generation is not None and pod.observed_generation < (pod.generation or 0):
        message = f"generation {pod.generation} not seen yet, the status is of {pod.observed_generation}"
        return ResizeStatus(state=ResizeState.UNSEEN, message=message)
    pending, progress = _in_force(pod, RESIZE_PENDING), _in_force(pod, RESIZE_IN_PROGRESS)
    tells_generation = pod.observed_generation is not None or (
        pending is not None and pending.observed_generation is not None
    )
    if pending is not None and not tells_generation and _without_conditions(pod).state is ResizeState.DONE:
        pending = None  # before 1.34: of a wish that was taken back, and the kubelet has not looked again
    is_failing = progress is not None and progress.reason == ERROR
    error = _words(progress) if is_failing else None
    if pending is not None:
        state = ResizeState.INFEASIBLE if pending.reason == INFEASIBLE else ResizeState.DEFERRED
        return ResizeStatus(state=state, message=_words(pending), error=error)
    if progress is not None:
        state = ResizeState.ERROR if is_failing else ResizeState.IN_PROGRESS
        return ResizeStatus(state=state, message=_words(progress), error=error)
    return _without_conditions(pod)


def _in_force(pod: Pod, type_: str) -> PodCondition | None:
    """Find a condition that holds and, where nothing else tells, is not of an older spec than the pod's."""
    condition = pod.condition(type_)
    if condition is None or pod.observed_generation is not None or condition.observed_generation is None:
        # Other changes of the spec raise the generation too, and leave a condition with the number it had.
        return condition
    return condition if condition.observed_generation >= (pod.generation or 0) else None


def _words(condition: PodCondition | None) -> str:
    return " ".join((condition.message or condition.reason or "").split()) if condition is not None else ""


def _without_conditions(pod: Pod) -> ResizeStatus:
    running = [
        (container, status)
        for container in pod.sized_containers()
        if (status := pod.status_of(container.name)) is not None
        and status.state is ContainerState.RUNNING
        and container.kind is not ContainerKind.INIT  # it runs once, with what it was started with
    ]
    if not running:
        return ResizeStatus(state=ResizeState.UNKNOWN, message="no container of it runs")
    if any(status.allocated is None and status.actual is None for _, status in running):
        return ResizeStatus(state=ResizeState.UNKNOWN, message="the kubelet does not report what is in force")
    if (difference := next(_allocation_differences(pod, running), None)) is not None:
        # Before 1.34 the generation seen is not reported, and only what is allocated tells that a wish was taken up.
        state = ResizeState.UNSEEN if pod.observed_generation is None else ResizeState.UNKNOWN
        return ResizeStatus(state=state, message=difference)
    if (difference := next(_differences(pod, running), None)) is not None:
        return ResizeStatus(state=ResizeState.UNKNOWN, message=difference)
    return ResizeStatus(state=ResizeState.DONE)


def is_granted(pod: Pod, change: Change) -> bool:
    """Return whether a pod has a number already, though its newest wish as a whole is put off or refused.

    A request by what is allocated; a limit by what is in force, where that is nearer to it than to what stood before.
    """
    status = pod.status_of(change.container) if change.container else None
    allocated, actual = None, None
    if not change.container:
        allocated, actual = _budget_reported(pod)
    if status is not None:
        allocated, actual = status.allocated, status.actual
    name = CPU if change.resource is Resource.CPU else MEMORY
    if change.setting is Setting.REQUEST:
        return allocated is not None and name in allocated and _amount(change.resource, allocated) == change.after
    limits = None if actual is None else actual.limits
    if limits is None or name not in limits:
        return False
    off = abs(_amount(change.resource, limits) - change.after)
    return off <= _limit_tolerance(change.resource, change.after) and off < abs(change.after - change.before) / 2


def _budget_reported(pod: Pod) -> tuple[Mapping[str, int] | None, Reported | None]:
    """Return what is allocated to the pod as a whole, and what is in force of it, without overhead."""
    stated, allocated, actual = pod.resources or Requirements(), pod.allocated, pod.actual
    if allocated is not None:
        allocated = without_overhead(pod, stated.requests, allocated)
    if actual is not None and actual.limits is not None:
        actual = replace(actual, limits=without_overhead(pod, stated.limits, actual.limits))
    return allocated, actual


_Running = list[tuple[Container, ContainerStatus]]
_Tolerance = Callable[[Resource, int], float]
"""Millicores or bytes by which what is reported may differ from the amount asked for."""


def _allocation_differences(pod: Pod, running: _Running) -> Iterator[str]:
    for container, status in running:
        if status.allocated is not None:
            asked = container.resources.requests
            yield from _compared(container.name, "request allocated", asked, status.allocated, _exact)
    if pod.resources is not None and pod.allocated is not None:
        asked = _with_overhead(pod, pod.resources.requests, pod.allocated)
        yield from _compared("", "request allocated", asked, pod.allocated, _exact)


def _differences(pod: Pod, running: _Running) -> Iterator[str]:
    for container, status in running:
        if status.actual is not None:
            yield from _not_in_force(container.name, container.resources, status.actual)
    if pod.resources is not None and pod.actual is not None:
        # The pod's CPU request is never compared: it is the weight read back, which says little.
        asked, actual = pod.resources, pod.actual
        requests = _without_cpu(_with_overhead(pod, asked.requests, actual.requests or {}))
        limits = _with_overhead(pod, asked.limits, actual.limits or {})
        yield from _not_in_force("", Requirements(requests=requests, limits=limits), actual)


def _not_in_force(name: str, asked: Requirements, actual: Reported) -> Iterator[str]:
    if actual.requests is not None:
        yield from _compared(name, "request", asked.requests, actual.requests, _request_tolerance)
    if actual.limits is not None:
        yield from _compared(name, "limit", asked.limits, actual.limits, _limit_tolerance)


def _compared(
    name: str, setting: str, asked: Mapping[str, int], reported: Mapping[str, int], tolerance: _Tolerance
) -> Iterator[str]:
    """Return the differences between what is asked for and what is reported; what is not reported is no difference.

    A runtime may leave out what it does not know, and a difference that never goes would hold the pod up for ever.
    """
    for resource in (Resource.CPU, Resource.MEMORY):
        if resource.value not in asked or resource.value not in reported:
            continue
        wanted, actual = _amount(resource, asked), _amount(resource, reported)
        if abs(wanted - actual) > tolerance(resource, wanted):
            where = f"container {name}" if name else "the pod"
            shown, expected = amount_text(actual, resource.unit), amount_text(wanted, resource.unit)
            yield f"{where}: {resource} {setting} {shown}, asked for {expected}"


def _amount(resource: Resource, amounts: Mapping[str, int]) -> int:
    return to_millis(amounts[CPU]) if resource is Resource.CPU else to_units(amounts[MEMORY])


def _exact(_resource: Resource, _wanted: int) -> float:
    return 0  # what is allocated is the kubelet's own record, not read back


def _request_tolerance(resource: Resource, wanted: int) -> float:
    if resource is Resource.MEMORY:
        return MEMORY_TOLERANCE_BYTES
    return max(CPU_REQUEST_TOLERANCE_MILLICORES, wanted * CPU_REQUEST_TOLERANCE_RATIO)


def _limit_tolerance(resource: Resource, _wanted: int) -> float:
    return MEMORY_TOLERANCE_BYTES if resource is Resource.MEMORY else CPU_TOLERANCE_MILLICORES


def _with_overhead(pod: Pod, asked: Mapping[str, int], reported: Mapping[str, int]) -> dict[str, int]:
    """Add the overhead where the report has it in: kubelets include it in the pod's own amounts."""
    return {
        name: amount + pod.overhead[name]
        if name in pod.overhead
        and abs(amount + pod.overhead[name] - reported.get(name, amount)) < abs(amount - reported.get(name, amount))
        else amount
        for name, amount in asked.items()
    }


def _without_cpu(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if name != CPU}
