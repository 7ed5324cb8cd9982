"""What a person is told of an HPA's utilisation target where a request should change. Core, pure.

Sentences only: the target is the author's, and nothing of it is ever written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.hpa import UtilizationTarget, moved_target
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.numbers.amount_text import amount_text
from agent.core.recommender.recommendation import Advice, Recommendation
from agent.core.recommender.subject import Subject

_TITLES: Final = {Resource.CPU: "CPU", Resource.MEMORY: "memory"}
_SIDE_BY_SIDE: Final = (ContainerKind.REGULAR, ContainerKind.SIDECAR)
"""An HPA counts the requests of these."""

Targets = Callable[[Workload], Sequence[UtilizationTarget]]
"""Gives what autoscalers of a workload want in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChange:
    """The request of one container; millicores or bytes."""

    container: str
    stated: int | None
    """As it is; None = not stated."""
    recommended: int | None
    """None = it stays."""


def hpa_advice(
    targets: Iterable[UtilizationTarget], resource: Resource, containers: Sequence[RequestChange]
) -> tuple[str, ...]:
    """Return what each target of a resource means now, and which one means the same after the change.

    ``HorizontalPodAutoscaler shop/web: 70 % of 500m CPU is 350m; at 300m the equal target is 117 %``

    Args:
        containers: All that run side by side in a pod.

    Returns:
        A sentence for each target whose request changes; none where a request is not stated, as the autoscaler itself
        has nothing to divide by then.
    """
    return tuple(_sentences(targets, resource, containers))


def _sentences(
    targets: Iterable[UtilizationTarget], resource: Resource, containers: Sequence[RequestChange]
) -> Iterator[str]:
    for target in targets:
        if target.resource is not resource:
            continue
        counted = [change for change in containers if target.container in (None, change.container)]
        stated = [change.stated for change in counted if change.stated is not None]
        if len(stated) < len(counted):
            continue
        old = sum(stated)
        new = sum(change.recommended if change.recommended is not None else change.stated or 0 for change in counted)
        moved = moved_target(target.percent, old_request=old, new_request=new)
        if moved is None or old == new:
            continue
        whose = "" if target.container is None else f" of {target.container}"
        if target.container is None and len(counted) > 1:
            whose = f" of {len(counted)} containers"
        share = amount_text(old * target.percent / 100, resource.unit)
        was, becomes = amount_text(old, resource.unit), amount_text(new, resource.unit)
        yield (
            f"{target.holder}: {target.percent} % of {was} {_TITLES[resource]}{whose} is {share}; "
            f"at {becomes} the equal target is {moved.equal_percent} %"
        )


def with_hpa_advice(
    answers: Sequence[Recommendation], subjects: Sequence[Subject], targets: Targets
) -> list[Recommendation]:
    """Return answers with what the autoscalers' targets mean after the change; nothing is said of half a pod.

    Args:
        answers: One for each subject, in its order.
        subjects: With all containers of a pod, or what is said of the pod's sum is left out.
    """
    recommendations = list(answers)
    pods: dict[str, dict[str, int]] = {}
    for place, subject in enumerate(subjects):
        identity = subject.identity
        if identity.pod_uid and identity.container and subject.container_kind in _SIDE_BY_SIDE:
            pods.setdefault(identity.pod_uid, {})[identity.container] = place
    for places in pods.values():
        first = subjects[next(iter(places.values()))]
        workload_targets = () if first.workload is None else targets(first.workload)
        if len(places) < first.pod_containers or first.has_pod_level_requests:
            workload_targets = [target for target in workload_targets if target.container is not None]
        if not workload_targets:
            continue
        cpu = [
            _change(name, subjects[place].resources.cpu_request_millicores, answers[place].cpu_millicores)
            for name, place in places.items()
        ]
        memory = [
            _change(name, subjects[place].resources.memory_request_bytes, answers[place].memory_bytes)
            for name, place in places.items()
        ]
        for name, place in places.items():
            own_targets = [target for target in workload_targets if target.container in (None, name)]
            sentences = (*hpa_advice(own_targets, Resource.CPU, cpu), *hpa_advice(own_targets, Resource.MEMORY, memory))
            if sentences:
                recommendations[place] = replace(recommendations[place], hpa_advice=sentences)
    return recommendations


def _change(container: str, stated: int | None, advice: Advice) -> RequestChange:
    return RequestChange(container=container, stated=stated, recommended=advice.request)
