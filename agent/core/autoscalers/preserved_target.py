"""An HPA's utilisation target that moves with the requests, so that its absolute set point stays. Core, pure.

A target is always worked out from what a person set and from the requests that this belonged to; both are kept on the
object, in the same write as the target. It is never worked out from the target that stands: however often it is done,
and wherever it was cut off, the answer is the same. A target that is not the one that was written is a person's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Final

from agent.core.autoscalers.options import Preserve
from agent.core.cluster.facts import WorkloadRequests
from agent.core.cluster.hpa import RESOURCE_METRIC, HpaMetric, HpaTarget, frozen_resources, moved_target
from agent.core.cluster.pod import Container, ContainerKind, Pod, QosClass
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.numbers.amount_text import amount_text
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT

CALM_RATIO: Final = 0.03
"""A target that is off by less is not written."""
URGENT_RATIO: Final = 0.08
"""A target that is off by as much does not wait: from a tenth on an HPA acts."""
TOLERANCE_RATIO: Final = 0.1
"""What an HPA overlooks (``--horizontal-pod-autoscaler-tolerance``)."""
REACHABLE_PERCENT: Final = 90
"""Of the limits: pods that come no further than their limits never use more, so a target beyond is never met."""
_LONGEST: Final = 4096
_LONGEST_LEFT: Final = 200
"""Ours are shorter; what anybody wrote there may be six times as long when it is written again."""
_UNITS: Final = {Resource.CPU: "Millicores", Resource.MEMORY: "Bytes"}
_TITLES: Final = {Resource.CPU: "CPU", Resource.MEMORY: "memory"}
_MOST: Final = (1 << 53) - 1


class PreservedError(ValueError):
    """An annotation that is not understood; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservedTarget:
    """What is kept of one target."""

    resource: Resource
    percent: int
    """As a person set it."""
    request: int
    """Of a pod, on average, when that was seen; millicores or bytes."""
    unsized_request: int
    """The same when the first target was taken: before any of them was sized."""
    written_percent: int
    """What stands by our own hand; another one is a person's."""
    left: str = ""
    """Why requests stay frozen until a person sets another target; empty = they are sized."""

    def wanted(self, request: int, most_percent: int | None = None) -> HpaTarget | None:
        """Return the target that means the same where pods request so much on average; None = nothing does."""
        return moved_target(self.percent, old_request=self.request, new_request=request, most_percent=most_percent)

    def is_followed(self, percent: int, request: int | None) -> bool:
        """Return whether the target that stands is ours and near enough to what it should be to go on sizing.

        So requests move only as long as somebody moves the target after them.
        """
        if self.left or percent != self.written_percent or request is None:
            return False
        wanted = self.wanted(request)
        return wanted is not None and _off_ratio(percent, wanted.percent) <= TOLERANCE_RATIO

    def words(self) -> str:
        """Return ``70 % of 500m CPU is kept: the target is 117 %``."""
        of = f"{self.percent} % of {amount_text(self.request, self.resource.unit)} {_TITLES[self.resource]}"
        return f"{of} is kept: the target is {self.written_percent} %{f', {self.left}' if self.left else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovableTargets:
    """One HPA, as far as its targets may be moved."""

    namespace: str
    name: str
    uid: str
    percents: Mapping[Resource, int]
    """The targets that divide by all requests of a pod, and are the only ones of their resource."""
    kept: Mapping[Resource, PreservedTarget]
    fault: str = ""
    """Why what is kept is not understood; empty = it is."""

    def preserved(self, resource: Resource, requests: WorkloadRequests | None) -> PreservedTarget | None:
        """Return what is kept of a target that is followed now; None = its requests are frozen."""
        target, percent = self.kept.get(resource), self.percents.get(resource)
        if target is None or percent is None or self.fault:
            return None
        mean = None if requests is None else requests.mean(resource)
        return target if target.is_followed(percent, mean) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLook:
    """One target of one HPA at one moment."""

    resource: Resource
    percent: int
    kept: PreservedTarget | None
    """None = it was never taken."""
    request: int | None
    """Of a pod, on average, now; None = no pod runs."""
    most_percent: int | None = None
    """None = its pods have no limits."""
    why_not: str = ""
    """Why the target is not taken; empty = it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMove:
    """What is to be written."""

    percent: int
    kept: PreservedTarget | None
    """None = nothing is kept any more."""
    why: str
    off_ratio: float = 1.0
    """How far the target is off that stands; what changes without a move counts as far."""

    @property
    def is_urgent(self) -> bool:
        """Return whether an HPA may act on the difference before long."""
        return self.off_ratio >= URGENT_RATIO


def next_move(look: TargetLook, preserve: Preserve) -> TargetMove | None:
    """Return what is to be written of one target; None = nothing."""
    target = look.kept
    if target is None or target.written_percent != look.percent:
        return _taken(look, preserve)
    if preserve is Preserve.RESTORE:
        request = target.unsized_request if look.request is None else look.request
        original = target.wanted(target.unsized_request)
        if original is not None and abs(request - target.unsized_request) < CALM_RATIO * target.unsized_request:
            why = f"{original.percent} % is put back: requests are as before they were sized"
            return TargetMove(percent=original.percent, kept=None, why=why)
    if look.request is None:
        return None
    wanted = target.wanted(look.request, look.most_percent)
    if wanted is None:
        return None
    off_ratio = _off_ratio(look.percent, wanted.percent)
    is_original = look.request == target.request  # then it is put back to the last percent
    if off_ratio == 0 or (off_ratio < CALM_RATIO and not is_original):
        return None
    left = target.left
    if wanted.is_clamped and not left:
        left = f"{wanted.equal_percent} % is not to be had: requests stay until the target is set anew"
    shown = amount_text(look.request, look.resource.unit)
    return TargetMove(
        percent=wanted.percent,
        kept=replace(target, written_percent=wanted.percent, left=left),
        why=f"pods request {shown} {_TITLES[look.resource]} on average{f'; {left}' if left else ''}",
        off_ratio=off_ratio,
    )


def _taken(look: TargetLook, preserve: Preserve) -> TargetMove | None:
    """Take a target that a person set, or let go of it."""
    is_new = look.kept is None
    if preserve is not Preserve.FOLLOW or look.why_not or look.request is None:
        if is_new:
            return None
        return TargetMove(percent=look.percent, kept=None, why=f"somebody set {look.percent} %: it stays so")
    target = PreservedTarget(
        resource=look.resource,
        percent=look.percent,
        request=look.request,
        unsized_request=look.request if look.kept is None else look.kept.unsized_request,
        written_percent=look.percent,
    )
    of = f"{look.percent} % of {amount_text(look.request, look.resource.unit)} {_TITLES[look.resource]}"
    who = "it is seen first" if is_new else "somebody set it"
    return TargetMove(percent=look.percent, kept=target, why=f"{who}: {of} is kept from now on")


def _off_ratio(now: int, wanted: int) -> float:
    return abs(now - wanted) / max(wanted, 1)


def movable_percents(metrics: Sequence[HpaMetric]) -> dict[Resource, int]:
    """Return the targets that can be moved: of all containers of a pod, and the only ones of their resource."""
    percents: dict[Resource, int] = {}
    for resource in Resource:
        of_it = [metric for metric in metrics if resource in frozen_resources([metric])]
        if len(of_it) == 1 and of_it[0].type == RESOURCE_METRIC and of_it[0].target_percent is not None:
            percents[resource] = of_it[0].target_percent
    return percents


def why_not(pod: Pod, resource: Resource) -> str:
    """Return why the targets of such pods are left; empty = they may be taken."""
    if pod.has_pod_level_resources:
        return "its pods have resources of their own"
    if QosClass.GUARANTEED in (pod.recorded_qos, computed_qos_class(pod)):
        return "its pods are Guaranteed: their limits move with their requests"
    if any(resource.value not in container.resources.requests for container in _counted(pod)):
        return f"a container of its pods requests no {_TITLES[resource]}"
    return ""


def most_percent(pod: Pod, resource: Resource, request: int) -> int | None:
    """Return the largest target that such pods can meet where they request so much; None = nothing limits them."""
    limits = [container.resources.limits.get(resource.value) for container in _counted(pod)]
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return None
    per_unit = NANOS_PER_MILLI if resource is Resource.CPU else NANOS_PER_UNIT
    return max(1, floor(REACHABLE_PERCENT * sum(known) / per_unit / request))


def _counted(pod: Pod) -> list[Container]:
    """Return the containers whose requests an HPA counts."""
    return [container for container in pod.sized_containers() if container.kind is not ContainerKind.INIT]


def preserved_to_text(targets: Iterable[PreservedTarget]) -> str:
    """Return the annotation's text."""
    return json.dumps(
        {
            target.resource.value: {
                "targetPercent": target.percent,
                f"request{_UNITS[target.resource]}": target.request,
                f"unsized{_UNITS[target.resource]}": target.unsized_request,
                "writtenPercent": target.written_percent,
                **({"left": target.left} if target.left else {}),
            }
            for target in sorted(targets, key=lambda target: target.resource.value)
        }
    )


def parse_preserved(text: str) -> dict[Resource, PreservedTarget]:
    """Read the annotation.

    Raises:
        PreservedError: It is not as it was written; nothing is guessed.
    """
    try:
        document: object = json.loads(text) if len(text) <= _LONGEST else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not document.keys() <= {resource.value for resource in Resource}:
        raise PreservedError("not what Plimsoll wrote; remove the annotation, and the target counts as it stands")
    return {Resource(key): _preserved(Resource(key), value) for key, value in document.items()}


def _preserved(resource: Resource, value: object) -> PreservedTarget:
    body = value if isinstance(value, dict) else {}

    def number(key: str) -> int:
        entry = body.get(key)
        if isinstance(entry, bool) or not isinstance(entry, int) or not 1 <= entry <= _MOST:
            raise PreservedError(f"{resource}.{key}: {str(entry)[:60]} is not allowed; allowed: a whole number from 1")
        return entry

    left = body.get("left", "")
    return PreservedTarget(
        resource=resource,
        percent=number("targetPercent"),
        request=number(f"request{_UNITS[resource]}"),
        unsized_request=number(f"unsized{_UNITS[resource]}"),
        written_percent=number("writtenPercent"),
        left=left[:_LONGEST_LEFT] if isinstance(left, str) else "not understood",
    )
