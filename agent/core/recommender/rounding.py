"""What the policy ``vpa`` does to an amount after estimating it: rounding, whole cores, caps, limits. Core, pure.

Source:
    recommender/model/types.go, recommender/routines/cpu_integer_post_processor.go, utils/vpa/capping.go and
    utils/vpa/limit_and_request_scaling.go of the Vertical Pod Autoscaler 1.8.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from agent.core.numbers.arrays import Bools, Ints
from agent.core.numbers.units import INT64_MAX

MILLICORES_PER_CORE = 1000


def round_up(amounts: ArrayLike, multiple: int) -> Ints:
    """Round amounts up to whole multiples of more than 0; 0 stays 0."""
    if multiple <= 0:
        msg = f"cannot round up to a multiple of {multiple}: it must be above 0"
        raise ValueError(msg)
    return np.ceil(np.asarray(amounts, dtype=np.float64) / multiple).astype(np.int64) * multiple


def whole_cores(millicores: ArrayLike, wanted: ArrayLike) -> Ints:
    """Round CPU up to whole cores where that is wanted."""
    return np.where(wanted, round_up(millicores, MILLICORES_PER_CORE), np.asarray(millicores, dtype=np.int64))


def cap(
    amounts: ArrayLike,
    *,
    min_allowed: int | None = None,
    max_allowed: int | None = None,
    global_max_allowed: int | None = None,
) -> Ints:
    """Keep amounts within what is allowed: raised to the minimum first, so that the maximum wins where they conflict.

    The maximum of a container, even a 0, beats the global one. None and 0 bound nothing.
    """
    capped = np.asarray(amounts, dtype=np.int64)
    if min_allowed:
        capped = np.maximum(capped, min_allowed)
    maximum = global_max_allowed if max_allowed is None else max_allowed
    if maximum:
        capped = np.minimum(capped, maximum)
    return capped


def proportional_limits(
    limits: ArrayLike, requests: ArrayLike, recommendations: ArrayLike, *, default_limits: ArrayLike = 0
) -> tuple[Ints, Bools, Bools]:
    """Return the limits that keep their ratio to requests: limit x recommendation / request, rounded down, exact.

    Without a request the limit counts as the request, so that the new limit is the recommendation. 0 = none, of all
    four.

    Returns:
        New limits, shape ``(k,)``; which of them are set: not for want of a limit or of a recommendation; and which
        ended at 2^63 - 1 because the ratio led beyond.
    """
    recommended = np.atleast_1d(np.asarray(recommendations, dtype=np.int64))
    old_limits = np.where(np.asarray(limits) == 0, default_limits, limits).astype(np.int64)
    old_requests = np.where(np.asarray(requests) == 0, old_limits, requests).astype(np.int64)
    is_set = (old_limits != 0) & (recommended != 0)
    new_limits, is_beyond = _floor_of_products(old_limits, recommended, np.where(is_set, old_requests, 1))
    return new_limits, is_set, is_beyond


def _floor_of_products(factors: Ints, others: Ints, divisors: Ints) -> tuple[Ints, Bools]:
    """Return floor(a x b / c) though a x b may not fit 64 bits, and which quotients do not fit either.

    The quotient of floats is off by a few units; the remainder that it leaves is small, so that it is right although
    the products it is the difference of have wrapped around. It corrects the quotient.
    """
    estimates = factors.astype(np.float64) * others / divisors
    is_simple = (estimates < 2.0**62) & ((estimates * 2.0**-51 + 2.0) * divisors < 2.0**62)
    quotients = np.floor(np.where(is_simple, estimates, 0.0)).astype(np.int64)
    quotients += np.floor_divide(factors * others - quotients * divisors, divisors)
    is_beyond = np.zeros(quotients.shape, dtype=np.bool_)
    for index in np.flatnonzero(~is_simple):
        exact = int(factors[index]) * int(others[index]) // int(divisors[index])
        is_beyond[index] = exact > INT64_MAX
        quotients[index] = min(exact, INT64_MAX)
    return quotients, is_beyond


def memory_text(amount_bytes: int) -> str:
    """Write memory with two decimals and the largest of Ki, Mi, Gi and Ti that leaves at least 1; plain below 1 Ki."""
    for suffix, shift in (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if amount_bytes >= 1 << shift:
            return f"{amount_bytes / (1 << shift):.2f}{suffix}"
    return str(amount_bytes)
