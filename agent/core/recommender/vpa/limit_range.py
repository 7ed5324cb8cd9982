"""How recommendations are fitted to the LimitRanges of a namespace, which would refuse the pod otherwise. Core, pure.

One pod at a time, one resource at a time: millicores or bytes, whole numbers. Limits are taken to follow requests in
proportion, so a bound on limits becomes one on requests.

Source:
    utils/vpa/capping.go and limit_and_request_scaling.go of the Vertical Pod Autoscaler 1.8.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from agent.core.numbers.units import INT64_MAX
from agent.core.recommender.rounding import cap, proportional_limits


class Rounding(Enum):
    """Where a fraction goes."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What a LimitRange allows of one resource; 0 = no such bound."""

    min_allowed: int = 0
    max_allowed: int = 0
    default_limit: int = 0
    """The limit of containers that state none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedAmounts:
    """One container's amounts of one resource; 0 = not stated."""

    request: int
    limit: int
    recommendation: int | None
    """None = there is none, and what it requests stays."""


def scale_in_proportion(scaled: int, base: int, result: int, rounding: Rounding = Rounding.DOWN) -> tuple[int, bool]:
    """Return what is to ``scaled`` as ``result`` is to ``base``: scaled x result / base.

    Args:
        scaled: At least 0.
        base: Above 0.
        result: At least 0.
        rounding: Of a fraction.

    Returns:
        The amount, at most 2^63 - 1; and whether it had to be cut to that.
    """
    quotient, remainder = divmod(scaled * result, base)
    if quotient > INT64_MAX:
        return INT64_MAX, True
    return quotient + (1 if remainder and rounding is Rounding.UP else 0), False


def cap_to_limit(recommendation: int, limit: int | None) -> int:
    """Keep a request at or below a limit that stays; None = no limit."""
    return recommendation if limit is None else min(recommendation, limit)


def cap_to_container_range(container: FittedAmounts, allowed: Range) -> int:
    """Fit a container's recommendation to the namespace's range for containers; the maximum wins.

    Args:
        container: With a recommendation.
        allowed: For each container.
    """
    least = max(allowed.min_allowed, _request_for_limit(container, allowed.min_allowed, allowed.default_limit))
    most = _request_for_limit(container, allowed.max_allowed, allowed.default_limit)
    return int(cap(container.recommendation or 0, min_allowed=least, max_allowed=most))


def _request_for_limit(container: FittedAmounts, limit_bound: int, default_limit: int) -> int:
    """Return the request at which the limit, kept in proportion, reaches a bound; 0 = no bound, there is no limit."""
    limit = container.limit or default_limit
    if not limit:
        return 0
    if not container.request:
        return limit_bound
    return scale_in_proportion(container.request, limit, limit_bound)[0]


def cap_to_pod_range(
    containers: Sequence[FittedAmounts], allowed: Range, *, min_rounding: Rounding
) -> list[int | None]:
    """Fit the recommendations of a pod's containers to the namespace's range for pods, in proportion.

    Args:
        containers: All of the pod. Those without a recommendation count with their request and stay as they are.
        allowed: For the sum over the pod.
        min_rounding: Of what is raised to the minimum. The original rounds CPU up but memory down, so that its sum may
            stay a byte short.

    Returns:
        The recommendations, in order; None where there was none.
    """
    amounts = [
        container.request if container.recommendation is None else container.recommendation for container in containers
    ]
    limits, _, _ = proportional_limits(
        [container.limit for container in containers],
        [container.request for container in containers],
        amounts,
        default_limits=allowed.default_limit,
    )
    limit_sum, request_sum = sum(map(int, limits)), sum(amounts)
    least, most = allowed.min_allowed, allowed.max_allowed
    if not limit_sum or (least <= limit_sum and least <= request_sum and (not most or most >= limit_sum)):
        return [container.recommendation for container in containers]
    if least > request_sum:
        base, result, rounding = request_sum, least, min_rounding
    else:
        # A pod above its maximum has to shrink, though the minimum may ask for more.
        base, result, rounding = limit_sum, most if most and most < limit_sum else least, Rounding.DOWN
    return [
        None
        if container.recommendation is None
        else scale_in_proportion(container.recommendation, base, result, rounding)[0]
        for container in containers
    ]


def with_requests(containers: Sequence[FittedAmounts]) -> list[FittedAmounts]:
    """Let containers without a recommendation take part with what they request, as at admission."""
    return [
        replace(container, recommendation=container.request)
        if container.recommendation is None and container.request
        else container
        for container in containers
    ]
