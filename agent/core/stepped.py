"""One pod from step to step: its numbers, what it holds, and what a step breaks. Core, pure.

Pods whose requests simply add up are reckoned by the changes alone, which is some ten times as fast as making each
pod anew; the others are made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from agent.core.applying import actuated, applied
from agent.core.planned import Change, PlanStep, Setting
from agent.core.pod import Pod
from agent.core.pod_change import stated
from agent.core.policies.bounds import Resource
from agent.core.qos import computed_qos_class
from agent.core.room import counted

_Key = tuple[str, Resource, Setting]
"""Container (empty = the pod's own budget), resource, and which number."""


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
        self.values: dict[_Key, int] = {}
        """Numbers that steps have changed."""
        self._pod = pod
        self._steps: list[PlanStep] = []
        self._is_plain = not pod.init_containers and pod.resources is None and not pod.overhead

    def take(self, step: PlanStep) -> Iterator[tuple[Broken, str]]:
        """Take a step; give what it breaks, and where."""
        if not step.changes:
            yield Broken.CHANGE, "it changes nothing"
        for change in step.changes:
            before = self._value(change.container, change.resource, change.setting)
            if change.before != before or change.after == before or not before or change.after <= 0:
                yield Broken.CHANGE, f"{_place(change)} from {change.before} to {change.after}, where it is {before}"
        for change in step.changes:
            self.values[change.container, change.resource, change.setting] = change.after
        self._steps.append(step)
        if not self._is_plain or not self._adds_up(step):
            yield from self._take_anew()
            return
        for change in step.changes:
            request = self._value(change.container, change.resource, Setting.REQUEST)
            limit = self._value(change.container, change.resource, Setting.LIMIT)
            if limit and request and request > limit:
                yield Broken.LIMIT, f"{_place(change)} {limit} below {request}"

    def _adds_up(self, step: PlanStep) -> bool:
        """Reckon by the changes, where each request that differed from its limit still does, and each equal one is.

        Then every container keeps its class, and so does the pod.
        """
        for change in step.changes:
            container, resource = change.container, change.resource
            request = self._original(container, resource, Setting.REQUEST)
            limit = self._original(container, resource, Setting.LIMIT)
            after = self._value(container, resource, Setting.REQUEST)
            if (after == self._value(container, resource, Setting.LIMIT)) != (request == limit):
                return False
        if len(self._steps) == 1:
            self.held = counted(actuated(self._pod))
        cpu, memory = self.held
        cpu += step.grows_by(Resource.CPU)
        memory += step.grows_by(Resource.MEMORY)
        self.held = (cpu, memory)
        return True

    def _take_anew(self) -> Iterator[tuple[Broken, str]]:
        pod = self._pod
        for step in self._steps:
            pod = applied(pod, step)
        everyone = [container.resources for container in pod.sized_containers()]
        if pod.resources is not None:
            everyone.append(pod.resources)
        for resources in everyone:
            for name, limit in resources.limits.items():
                if limit and resources.requests.get(name, 0) > limit:
                    yield Broken.LIMIT, f"{name} {limit} below {resources.requests[name]}"
        if computed_qos_class(pod) is not computed_qos_class(self._pod):
            yield Broken.QOS, f"{computed_qos_class(pod)} after {computed_qos_class(self._pod)}"
        self.held = counted(actuated(pod))

    def _value(self, container: str, resource: Resource, setting: Setting) -> int | None:
        known = self.values.get((container, resource, setting))
        return self._original(container, resource, setting) if known is None else known

    def _original(self, container: str, resource: Resource, setting: Setting) -> int | None:
        probe = Change(container=container, kind=None, resource=resource, setting=setting, before=0, after=0)
        return stated(self._pod, probe)


def _place(change: Change) -> str:
    return f"{change.container or 'pod'} {change.resource} {change.setting}"
