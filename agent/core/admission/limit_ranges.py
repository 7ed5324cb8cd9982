"""What LimitRanges and ResourceQuotas of a namespace allow of a new pod. Core, pure. Amounts are nanos unless said.

A patch that they would reject is not made: whoever creates the pod would be refused for what Plimsoll asked. Nor is one
that takes from a quota what further pods of the same workload need as they are written: they would be refused for it.
Of other workloads' pods that are still to come nothing is known, and nothing is kept for them beyond that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.effective_resources import pod_limits, pod_requests
from agent.core.cluster.facts import LimitRangeItem, Quota
from agent.core.cluster.pod import CPU, MEMORY, Container, Pod
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.plan.pod_change import Setting
from agent.core.resize.originals import OriginalError, annotated_original, requirements_of

UNIT_NANOS: Final = {Resource.CPU: NANOS_PER_MILLI, Resource.MEMORY: NANOS_PER_UNIT}
"""A millicore and a byte."""

RESERVED_PODS: Final = 10
"""For at least so many more pods a quota keeps room: a workload that comes from nothing is not seen in its size before
its pods are there, and ten replicas are more than most have."""

_CONTAINER: Final = "Container"
_POD: Final = "Pod"
_SIZED_NAMES: Final = frozenset(resource.value for resource in Resource)
_BEST_EFFORT_SCOPE: Final = "BestEffort"
_QUOTA_NAMES: Final = {
    (Resource.CPU, Setting.REQUEST): (CPU, "requests.cpu"),
    (Resource.MEMORY, Setting.REQUEST): (MEMORY, "requests.memory"),
    (Resource.CPU, Setting.LIMIT): ("limits.cpu",),
    (Resource.MEMORY, Setting.LIMIT): ("limits.memory",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedRange:
    """What the ranges for containers allow of one resource; millicores or bytes."""

    least: int = 0
    most: int | None = None
    """None = no bound."""
    ratio_nanos: int | None = None
    """The most that a limit may be of its request, in nanos: 2 is 2,000,000,000. None = no bound."""
    limit_kept_for: str | None = None
    """Who wants every container to have a limit, or would give it one of its own; None = nobody."""
    by: str = ""
    """The ranges that say anything of this resource."""

    def within(self, amount: int) -> int:
        """Raise to the least, lower to the most."""
        raised = max(amount, self.least)
        return raised if self.most is None else min(raised, self.most)

    def most_limit(self, request: int) -> int | None:
        """Return the largest limit that goes with a request; None = any."""
        by_ratio = None if self.ratio_nanos is None else request * self.ratio_nanos // NANOS_PER_UNIT
        bounds = [bound for bound in (self.most, by_ratio) if bound is not None]
        return min(bounds, default=None)

    def least_request(self, limit: int | None) -> int:
        """Return the smallest request that goes with a limit that stays."""
        if limit is None or not self.ratio_nanos:
            return 0
        return -(-limit * NANOS_PER_UNIT // self.ratio_nanos)


ANYTHING: Final = AllowedRange()


def allowed_for(resource: Resource, ranges: Iterable[LimitRangeItem], quotas: Iterable[Quota]) -> AllowedRange:
    """Combine what all ranges for containers say of a resource: the largest least, the smallest most.

    A limit stays where a range has a most, a ratio or a default for it (of a pod as a whole, too), or where a quota
    counts limits: without one the pod would be refused, or be given the default, which may be below its request.
    """
    name, unit = resource.value, UNIT_NANOS[resource]
    least, most, ratio, kept_for, by = 0, None, None, None, []
    for item in ranges:
        stated = (item.min, item.max, item.default, item.max_limit_request_ratio)
        if not any(name in amounts for amounts in stated):
            continue
        whose = f"LimitRange {item.name}"
        if name in item.max or name in item.max_limit_request_ratio or name in item.default:
            kept_for = kept_for or whose
        if item.type != _CONTAINER:
            continue
        by.append(whose)
        least = max(least, -(-item.min.get(name, 0) // unit))
        if name in item.max:
            most = _smaller(most, item.max[name] // unit)
        if name in item.max_limit_request_ratio:
            ratio = _smaller(ratio, item.max_limit_request_ratio[name])
    for quota in _counting(quotas):
        if f"limits.{name}" in quota.hard:
            kept_for = kept_for or f"ResourceQuota {quota.name}"
    if not by and kept_for is None:
        return ANYTHING
    return AllowedRange(
        least=least, most=most, ratio_nanos=ratio, limit_kept_for=kept_for, by=", ".join(dict.fromkeys(by))
    )


def narrowest(ranges: Iterable[LimitRangeItem]) -> tuple[LimitRangeItem, ...]:
    """Return those of a namespace's ranges that decide of a pod as all do, in order: of each bound the narrowest.

    There may be thousands, and an admission goes through them several times. Notes of it name these alone.
    """
    deciding: dict[tuple[str, str, str], tuple[int, int, LimitRangeItem]] = {}
    for place, item in enumerate(ranges):
        if item.type not in (_CONTAINER, _POD):
            continue
        for bound, sign, amounts in (
            ("min", -1, item.min),
            ("max", 1, item.max),
            ("ratio", 1, item.max_limit_request_ratio),
            ("default", 0, item.default),  # any keeps a limit
        ):
            for name in amounts.keys() & _SIZED_NAMES:
                key, rank = (item.type, bound, name), sign * amounts[name]
                if key not in deciding or rank < deciding[key][0]:
                    deciding[key] = rank, place, item
    by_place = {place: item for _, place, item in deciding.values()}
    return tuple(by_place[place] for place in sorted(by_place))


def _smaller(known: int | None, other: int) -> int:
    return other if known is None else min(known, other)


def range_fault(pod: Pod, ranges: Collection[LimitRangeItem], resource: Resource) -> str | None:
    """Return the LimitRange that would refuse a resource of a pod; None = none would.

    Source:
        ``PodValidateLimitFunc`` of plugin/pkg/admission/limitranger: least and most hold for request and limit alike, a
        least wants a request, a most a limit, a ratio both.
    """
    subjects = {type_name: tuple(_subjects(pod, type_name)) for type_name in {item.type for item in ranges}}
    for item in ranges:
        for requests, limits in subjects[item.type]:
            if _is_refused(item, resource.value, requests, limits):
                return f"LimitRange {item.name}"
    return None


def _subjects(pod: Pod, type_name: str) -> Iterator[tuple[Mapping[str, int], Mapping[str, int]]]:
    if type_name == _CONTAINER:
        for container in pod.sized_containers():
            yield container.resources.requests, container.resources.limits
    elif type_name == _POD:
        bare = replace(pod, overhead={}) if pod.overhead else pod
        yield pod_requests(bare), pod_limits(bare)


def _is_refused(item: LimitRangeItem, name: str, requests: Mapping[str, int], limits: Mapping[str, int]) -> bool:
    request, limit = requests.get(name), limits.get(name)
    least, most, ratio = item.min.get(name), item.max.get(name), item.max_limit_request_ratio.get(name)
    if least is not None and (request is None or request < least or (limit is not None and limit < least)):
        return True
    if most is not None and (limit is None or limit > most or (request or 0) > most):
        return True
    return ratio is not None and (not request or not limit or limit * NANOS_PER_UNIT > ratio * request)


def quota_fault(
    before: Pod, after: Pod, quotas: Iterable[Quota], resource: Resource, setting: Setting, *, pods: int
) -> str | None:
    """Return the quota that has no room for what a pod would have more than it came with; None = there is room.

    There is room where, with the pod as it would be, as many more pods still fit as its workload has, ``RESERVED_PODS``
    at least, as they are written: else the replicas that come first would take the room of those that come last. What
    shrinks always fits. What quotas count as used was true a moment ago: ``with_growth`` adds what is known.
    """
    was, is_now = _counted(before, resource, setting), _counted(after, resource, setting)
    if is_now <= was:
        return None
    more = max(pods, RESERVED_PODS)
    own = max(was, _counted(_as_written(before), resource, setting))
    for quota in _counting(quotas):
        for name in _QUOTA_NAMES[resource, setting]:
            if name not in quota.hard:
                continue
            left = quota.hard[name] - quota.used.get(name, 0) - is_now
            if left < 0:
                return f"ResourceQuota {quota.name}"
            if left < more * own:
                return f"ResourceQuota {quota.name}, where room for {more} more pods is kept"
    return None


def counted_growth(before: Pod, after: Pod) -> dict[str, int]:
    """Return what a quota counts more of a pod than it came with, by the quota's names; what shrinks is not in it."""
    grown: dict[str, int] = {}
    for (resource, setting), names in _QUOTA_NAMES.items():
        more = _counted(after, resource, setting) - _counted(before, resource, setting)
        if more > 0:
            grown.update(dict.fromkeys(names, more))
    return grown


def with_growth(quotas: Iterable[Quota], grown: Mapping[str, int]) -> tuple[Quota, ...]:
    """Return the quotas as if they counted so much more (``counted_growth``) of pods that they may not count yet.

    The rest of such a pod need not be added: it is one of those that room is kept for.
    """
    return tuple(
        replace(quota, used={**quota.used, **{name: quota.used.get(name, 0) + more for name, more in grown.items()}})
        for quota in quotas
    )


def _counted(pod: Pod, resource: Resource, setting: Setting) -> int:
    counted = pod_requests if setting is Setting.REQUEST else pod_limits
    return counted(pod).get(resource.value, 0)


def _as_written(pod: Pod) -> Pod:
    """Return a pod that was sized before as its annotation says that it was written; any other as it is.

    A pod that is asked about again has shrunk where it could, and is no measure of what comes from its template.
    """
    try:
        original = annotated_original(pod)
    except OriginalError:
        return pod
    if original is None:
        return pod
    stated = {amounts.container: requirements_of(amounts) for amounts in original.amounts}

    def written(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            replace(container, resources=stated.get(container.name, container.resources)) for container in containers
        )

    return replace(
        pod,
        containers=written(pod.containers),
        init_containers=written(pod.init_containers),
        resources=stated.get(""),
    )


def _counting(quotas: Iterable[Quota]) -> Iterator[Quota]:
    """Return the quotas that may count the pod: it requests something. Scopes that are not worked out count."""
    return (quota for quota in quotas if _BEST_EFFORT_SCOPE not in quota.scopes)
