"""The budget of a pod as a whole, as an annotation states it. Core, pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from agent.core.cluster.pod import CPU, HUGEPAGES_PREFIX, MEMORY
from agent.core.numbers.quantity import QuantityError, parse_quantity
from agent.core.numbers.units import MIB, NANOS_PER_MILLI, NANOS_PER_UNIT, to_millis, to_units

POD_LIMITS_ALLOWED: Final = (
    '{"limits": {"cpu": "2", "memory": "384M"}}: one of the two or both, at least 1m and 1Mi; hugepages-2Mi and the '
    'like beside them; "requests" with the same names beside "limits"'
)
LONGEST_POD_LIMITS: Final = 4096
"""Characters. All kinds of pages that there are take a few hundred."""
_LIMITS, _REQUESTS = "limits", "requests"
_RESOURCES = (CPU, MEMORY)
_LEAST_NANOS = {CPU: NANOS_PER_MILLI, MEMORY: MIB * NANOS_PER_UNIT}
"""Less is a slip: ``512m`` of memory is half a byte."""
_LONGEST_QUANTITY = 64
"""No sensible one is longer; an annotation may hold 256 KiB of digits."""
_NO_PAGES: Final[Mapping[str, int]] = {}


class PodLimitsError(ValueError):
    """An annotation that is not understood; the message is a few words: what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimits:
    """What the containers of a pod may use together, and what is kept for them; one of the first two is there."""

    cpu_limit_millicores: int | None = None
    """None = not asked for."""
    memory_limit_bytes: int | None = None
    cpu_request_millicores: int | None = None
    memory_request_bytes: int | None = None
    hugepages_limit_bytes: Mapping[str, int] = field(default_factory=dict)
    """By resource name: ``hugepages-2Mi``."""
    hugepages_request_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_requests(self) -> bool:
        """Return whether requests of CPU or memory are stated: by them the class of the pod can be Guaranteed."""
        return self.cpu_request_millicores is not None or self.memory_request_bytes is not None


def parse_pod_limits(text: str) -> PodLimits:
    """Read the annotation's value."""
    if len(text) > LONGEST_POD_LIMITS:
        raise PodLimitsError(f"{len(text)} characters, of at most {LONGEST_POD_LIMITS}")
    try:
        # Numbers stay text: a Quantity is exact, a float is not.
        document: object = json.loads(
            text, parse_int=str, parse_float=str, parse_constant=_no_number, object_pairs_hook=_each_once
        )
    except (json.JSONDecodeError, RecursionError) as error:
        raise PodLimitsError("not JSON") from error
    stated = _only(document, (_LIMITS, _REQUESTS), "the whole")
    limits = _amounts(stated.get(_LIMITS), _LIMITS)
    requests = _amounts(stated[_REQUESTS], _REQUESTS) if _REQUESTS in stated else _NO_PAGES
    if not any(name in limits for name in _RESOURCES):
        raise PodLimitsError(f"{_LIMITS} names neither {CPU} nor {MEMORY}")
    return PodLimits(
        cpu_limit_millicores=_rounded(limits, CPU),
        memory_limit_bytes=_rounded(limits, MEMORY),
        cpu_request_millicores=_rounded(requests, CPU),
        memory_request_bytes=_rounded(requests, MEMORY),
        hugepages_limit_bytes=_pages(limits),
        hugepages_request_bytes=_pages(requests),
    )


def _amounts(value: object, what: str) -> dict[str, int]:
    """Read limits or requests; nanos by resource name."""
    stated = _object(value, what)
    for name in sorted(stated.keys() - _RESOURCES):
        if not name.startswith(HUGEPAGES_PREFIX):
            allowed = f"{', '.join(_RESOURCES)}, {HUGEPAGES_PREFIX}SIZE"
            raise PodLimitsError(f"{what} holds {name[:_LONGEST_QUANTITY]!r}, allowed: {allowed}")
        if not _page_nanos(name):
            raise PodLimitsError(f"{name[:_LONGEST_QUANTITY]!r} names no size of pages")
    return {name: _nanos(stated, name) for name in stated}


def _rounded(amounts: Mapping[str, int], name: str) -> int | None:
    if name not in amounts:
        return None
    return (to_millis if name == CPU else to_units)(amounts[name])


def _pages(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: to_units(amount) for name, amount in amounts.items() if name.startswith(HUGEPAGES_PREFIX)}


def _no_number(text: str) -> object:
    raise PodLimitsError(f"{text} is no number")


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    stated = dict(pairs)
    if len(stated) != len(pairs):
        raise PodLimitsError("a name is given twice")
    return stated


def _only(value: object, names: tuple[str, ...], what: str) -> dict[str, object]:
    stated = _object(value, what)
    unknown = sorted(set(stated) - set(names))
    if unknown:
        raise PodLimitsError(f"{what} holds {unknown[0][:_LONGEST_QUANTITY]!r}, allowed: {', '.join(names)}")
    return stated


def _object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise PodLimitsError(f"{what} is no JSON object")
    return value


def _nanos(amounts: Mapping[str, object], name: str) -> int:
    value = amounts[name]
    if not isinstance(value, str):
        raise PodLimitsError(f"{name} is no amount")
    nanos = _quantity(value)
    if nanos is None:
        raise PodLimitsError(f"{name}: {value[:_LONGEST_QUANTITY]!r} is not a quantity")
    if name in _RESOURCES:
        if nanos < _LEAST_NANOS[name]:
            raise PodLimitsError(f"{name}: {value!r} is too little")
        return nanos
    if nanos <= 0 or nanos % _page_nanos(name):
        raise PodLimitsError(f"{name}: {value!r} is no whole number of pages")
    return nanos


def _page_nanos(name: str) -> int:
    """Return the size of the pages that a resource is named after; 0 = it names none."""
    nanos = _quantity(name.removeprefix(HUGEPAGES_PREFIX)) or 0
    return nanos if nanos >= NANOS_PER_UNIT else 0


def _quantity(text: str) -> int | None:
    try:
        return parse_quantity(text) if len(text) <= _LONGEST_QUANTITY else None
    except QuantityError:
        return None
