"""What LimitRanges and ResourceQuotas of a namespace allow of a new pod. Core, pure. Amounts are nanos unless said.

A patch that they would reject is not made: whoever creates the pod would be refused for what Plimsoll asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster_facts import LimitRangeItem, Quota
from agent.core.effective import pod_limits, pod_requests
from agent.core.planned import Setting
from agent.core.pod import CPU, MEMORY, Pod
from agent.core.policies.bounds import Resource
from agent.core.units import NANOS_PER_MILLI, NANOS_PER_UNIT

UNIT_NANOS: Final = {Resource.CPU: NANOS_PER_MILLI, Resource.MEMORY: NANOS_PER_UNIT}
"""A millicore and a byte."""

_CONTAINER: Final = "Container"
_POD: Final = "Pod"
_BEST_EFFORT_SCOPE: Final = "BestEffort"
_QUOTA_NAMES: Final = {
    (Resource.CPU, Setting.REQUEST): (CPU, "requests.cpu"),
    (Resource.MEMORY, Setting.REQUEST): (MEMORY, "requests.memory"),
    (Resource.CPU, Setting.LIMIT): ("limits.cpu",),
    (Resource.MEMORY, Setting.LIMIT): ("limits.memory",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
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
        """Give the largest limit that goes with a request; None = any."""
        by_ratio = None if self.ratio_nanos is None else request * self.ratio_nanos // NANOS_PER_UNIT
        bounds = [bound for bound in (self.most, by_ratio) if bound is not None]
        return min(bounds, default=None)

    def least_request(self, limit: int | None) -> int:
        """Give the smallest request that goes with a limit that stays."""
        if limit is None or not self.ratio_nanos:
            return 0
        return -(-limit * NANOS_PER_UNIT // self.ratio_nanos)


ANYTHING: Final = Allowed()


def allowed_for(resource: Resource, ranges: Iterable[LimitRangeItem], quotas: Iterable[Quota]) -> Allowed:
    """Combine what all ranges for containers say of a resource: the largest least, the smallest most.

    A limit stays where a range has a most, a ratio or a default for it (of a pod as a whole, too), or where a quota
    counts limits: without one the pod would be refused, or be given the default, which may be below its request.
    """
    name, unit = resource.value, UNIT_NANOS[resource]
    least, most, ratio, kept, by = 0, None, None, None, []
    for item in ranges:
        stated = (item.min, item.max, item.default, item.max_limit_request_ratio)
        if not any(name in amounts for amounts in stated):
            continue
        whose = f"LimitRange {item.name}"
        if name in item.max or name in item.max_limit_request_ratio or name in item.default:
            kept = kept or whose
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
            kept = kept or f"ResourceQuota {quota.name}"
    if not by and kept is None:
        return ANYTHING
    return Allowed(least=least, most=most, ratio_nanos=ratio, limit_kept_for=kept, by=", ".join(dict.fromkeys(by)))


def _smaller(known: int | None, other: int) -> int:
    return other if known is None else min(known, other)


def range_fault(pod: Pod, ranges: Iterable[LimitRangeItem], resource: Resource) -> str | None:
    """Give the LimitRange that would refuse a resource of a pod; None = none would.

    Source:
        ``PodValidateLimitFunc`` of plugin/pkg/admission/limitranger: least and most hold for request and limit alike, a
        least wants a request, a most a limit, a ratio both.
    """
    for item in ranges:
        for requests, limits in _subjects(pod, item.type):
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


def quota_fault(before: Pod, after: Pod, quotas: Iterable[Quota], resource: Resource, setting: Setting) -> str | None:
    """Give the quota that has no room for what a pod would have more than it came with; None = there is room.

    What a quota counts as used was true a moment ago: several pods at once may still be too many for it.
    """
    is_request = setting is Setting.REQUEST
    counted = pod_requests if is_request else pod_limits
    was, is_now = (counted(pod).get(resource.value, 0) for pod in (before, after))
    if is_now <= was:
        return None
    for quota in _counting(quotas):
        for name in _QUOTA_NAMES[resource, setting]:
            if name in quota.hard and quota.used.get(name, 0) + is_now > quota.hard[name]:
                return f"ResourceQuota {quota.name}"
    return None


def _counting(quotas: Iterable[Quota]) -> Iterator[Quota]:
    """Give the quotas that may count the pod: it requests something. Scopes that are not worked out count."""
    return (quota for quota in quotas if _BEST_EFFORT_SCOPE not in quota.scopes)
