"""One pod from step to step: its numbers, what it holds, and what a step breaks. Core, pure.

Pods whose requests simply add up are reckoned by the changes alone, which is some ten times as fast as making each
pod anew; the others are made anew. Sums are exact, and rounded once per pod, as the scheduler does: rounded container
by container, a pod with fractions of a millicore would seem to grow where it falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import CPU, MEMORY, Pod, Requirements
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.plan.node_room import counted
from agent.core.plan.plan import PlanStep
from agent.core.plan.pod_change import Change, Setting, actuated, changed_pod

_NANOS: Final = (NANOS_PER_MILLI, NANOS_PER_MILLI, NANOS_PER_UNIT, NANOS_PER_UNIT)
"""Of one unit of each of the four numbers of a container."""


class Broken(StrEnum):
    """What a step must not do to a pod."""

    CHANGE = "change"
    """Change from what is not there, to what is there, or to nothing."""
    LIMIT = "limit"
    """A request above its limit."""
    QOS = "qos"


class Stepped:
    """A pod between two steps, as if the kubelet had acted on all so far."""

    def __init__(self, pod: Pod, held: tuple[int, int]) -> None:
        self.held = held
        """Millicores and bytes; before the first step, what it holds now."""
        self.numbers = {one.name: _numbers(one.resources) for one in pod.sized_containers()}
        """Of each container, and of the pod's budget under the empty name: CPU request and limit, memory request and
        limit; millicores, bytes, 0 = not stated."""
        if pod.resources is not None:
            self.numbers[""] = _numbers(pod.resources)
        self._pod = pod
        self._steps: list[PlanStep] = []
        self._nanos = {one.name: _nanos(one.resources) for one in pod.sized_containers()}
        """The same four numbers, exact."""
        if pod.resources is not None:
            self._nanos[""] = _nanos(pod.resources)
        self._original = {name: tuple(nanos) for name, nanos in self._nanos.items()}
        self._is_plain = not pod.init_containers and pod.resources is None and not pod.overhead

    def take(self, step: PlanStep) -> Iterator[tuple[Broken, str]]:
        """Take a step; give what it breaks, and where."""
        self._steps.append(step)
        if not step.changes:
            yield Broken.CHANGE, "it changes nothing"
        for change in step.changes:
            numbers = self.numbers.get(change.container)
            place = place_of(change)
            if numbers is None or change.before != numbers[place] or change.before in (0, change.after):
                yield Broken.CHANGE, f"{_place(change)} from {change.before} to {change.after}"
            if change.after <= 0:
                yield Broken.CHANGE, f"{_place(change)} to {change.after}"
            if numbers is not None:
                numbers[place] = change.after
                self._nanos[change.container][place] = change.after * _NANOS[place]
        keeps_shape = True
        for change in step.changes:
            numbers, original = self.numbers.get(change.container), self._original.get(change.container)
            if numbers is None or original is None:
                continue
            request = place_of(change) & 2
            limit = request + 1
            if numbers[limit] and numbers[request] > numbers[limit]:
                yield Broken.LIMIT, f"{_place(change)} {numbers[limit]} below {numbers[request]}"
            nanos = self._nanos[change.container]
            if (nanos[request] == nanos[limit]) != (original[request] == original[limit]):
                keeps_shape = False
        if self._is_plain and keeps_shape:
            # Each request that equalled its limit does, each other does not: every container keeps its class.
            each = self._nanos.values()
            self.held = (
                -(-sum([one[0] for one in each]) // NANOS_PER_MILLI),
                -(-sum([one[2] for one in each]) // NANOS_PER_UNIT),
            )
            return
        pod = self._pod
        for one in self._steps:
            pod = changed_pod(pod, one.changes)
        self.held = counted(actuated(pod))
        before, after = computed_qos_class(self._pod), computed_qos_class(pod)
        if before is not after:
            yield Broken.QOS, f"{after} after {before}"


def place_of(change: Change) -> int:
    """Give the place of a change among the four numbers of its container."""
    place = 0 if change.resource is Resource.CPU else 2
    return place if change.setting is Setting.REQUEST else place + 1


def _nanos(resources: Requirements) -> list[int]:
    requests, limits = resources.requests, resources.limits
    return [requests.get(CPU, 0), limits.get(CPU, 0), requests.get(MEMORY, 0), limits.get(MEMORY, 0)]


def _numbers(resources: Requirements) -> list[int]:
    return [-(-nanos // step) for nanos, step in zip(_nanos(resources), _NANOS, strict=True)]


def _place(change: Change) -> str:
    return f"{change.container or 'pod'} {change.resource} {change.setting}"
