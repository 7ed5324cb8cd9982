"""The limits of a pod as a whole, as an annotation states them. Core, pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import CPU, MEMORY
from agent.core.numbers.quantity import QuantityError, parse_quantity
from agent.core.numbers.units import MIB, NANOS_PER_MILLI, NANOS_PER_UNIT, to_millis, to_units

POD_LIMITS_ALLOWED: Final = '{"limits": {"cpu": "2", "memory": "384M"}}: one of the two or both, at least 1m and 1Mi'
_LIMITS = "limits"
_RESOURCES = (CPU, MEMORY)
_LEAST_NANOS = {CPU: NANOS_PER_MILLI, MEMORY: MIB * NANOS_PER_UNIT}
"""Less is a slip: ``512m`` of memory is half a byte."""
_LONGEST_QUANTITY = 64
"""No sensible one is longer; an annotation may hold 256 KiB of digits."""


class PodLimitsError(ValueError):
    """An annotation that is not understood; the message is a few words: what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimits:
    """What the containers of a pod may use together; at least one of the two is there."""

    cpu_limit_millicores: int | None = None
    """None = not asked for."""
    memory_limit_bytes: int | None = None


def parse_pod_limits(text: str) -> PodLimits:
    """Read the annotation's value.

    Raises:
        PodLimitsError: It is anything else.
    """
    try:
        # Numbers stay text: a Quantity is exact, a float is not.
        document: object = json.loads(
            text, parse_int=str, parse_float=str, parse_constant=_no_number, object_pairs_hook=_each_once
        )
    except (json.JSONDecodeError, RecursionError) as error:
        raise PodLimitsError("not JSON") from error
    limits = _only(document, (_LIMITS,), "the whole").get(_LIMITS)
    amounts = _only(limits, _RESOURCES, _LIMITS)
    if not amounts:
        raise PodLimitsError(f"{_LIMITS} names neither {CPU} nor {MEMORY}")
    cpu, memory = (_nanos(amounts, name) for name in _RESOURCES)
    return PodLimits(
        cpu_limit_millicores=None if cpu is None else to_millis(cpu),
        memory_limit_bytes=None if memory is None else to_units(memory),
    )


def _no_number(text: str) -> object:
    raise PodLimitsError(f"{text} is no number")


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    stated = dict(pairs)
    if len(stated) != len(pairs):
        raise PodLimitsError("a name is given twice")
    return stated


def _only(value: object, names: tuple[str, ...], what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise PodLimitsError(f"{what} is no JSON object")
    unknown = sorted(set(value) - set(names))
    if unknown:
        raise PodLimitsError(f"{what} holds {unknown[0]!r}, allowed: {', '.join(names)}")
    return value


def _nanos(amounts: Mapping[str, object], name: str) -> int | None:
    if name not in amounts:
        return None
    value = amounts[name]
    if not isinstance(value, str):
        raise PodLimitsError(f"{name} is no amount")
    try:
        nanos = parse_quantity(value) if len(value) <= _LONGEST_QUANTITY else None
    except QuantityError:
        nanos = None
    if nanos is None:
        raise PodLimitsError(f"{name}: {value[:_LONGEST_QUANTITY]!r} is not a quantity")
    if nanos < _LEAST_NANOS[name]:
        raise PodLimitsError(f"{name}: {value!r} is too little")
    return nanos
