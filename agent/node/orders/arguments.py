"""Reads the arguments of orders given at the socket: JSON from outside, refused by ControlError. Node; pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from agent.node.sockets.control import ControlError

LONGEST_SECONDS: Final = 366 * 86_400.0
"""Of a pause or a pin with an end."""
LONGEST_AGE_SECONDS: Final = 1e11
"""As the command line takes it."""
Member = TypeVar("Member", bound=StrEnum)


def refuse_unknown(arguments: Mapping[str, object], verb: str, *known: str) -> None:
    """Refuse arguments that a verb does not know."""
    unknown = arguments.keys() - set(known)
    if unknown:
        allowed = ", ".join(known) or "none"
        raise ControlError(f"{verb}: unknown argument {min(unknown)}; allowed: {allowed}")


def read_name(arguments: Mapping[str, object], verb: str) -> str:
    """Read the name of a pod."""
    name = arguments.get("name")
    if not isinstance(name, str) or not name:
        raise ControlError(f"{verb}: name is {name!r}; allowed: a pod, namespace/pod, or a pod's uid")
    return name


def read_flag(arguments: Mapping[str, object], verb: str, name: str) -> bool:
    """Read true or false; absent = false."""
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise ControlError(f"{verb}: {name} is {value!r}; allowed: true, false")
    return value


def read_all(arguments: Mapping[str, object], verb: str) -> bool:
    """Return whether all pods are meant, and not one by its name."""
    is_all = read_flag(arguments, verb, "all")
    if is_all == (arguments.get("name") is not None):
        raise ControlError(f"{verb}: allowed: one pod's name, or all")
    return is_all


def read_seconds(arguments: Mapping[str, object], verb: str, name: str) -> float | None:
    """Read a span of time, seconds above 0; None = not given."""
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LONGEST_SECONDS:
        raise ControlError(f"{verb}: {name} is {value!r}; allowed: seconds above 0, up to {LONGEST_SECONDS:g}")
    return float(value)


def read_age(arguments: Mapping[str, object], verb: str, name: str) -> float | None:
    """Read how long ago a moment was, seconds from 0 on: nothing is too long ago to be asked for; None = not given."""
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LONGEST_AGE_SECONDS:
        raise ControlError(f"{verb}: {name} is {value!r}; allowed: seconds from 0 to {LONGEST_AGE_SECONDS:g}")
    return float(value)


def read_pattern(arguments: Mapping[str, object], name: str) -> str | None:
    """Read a name in which ``*`` is allowed; None = not given."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise ControlError(f"events: {name} is {value!r}; allowed: a name, * in it allowed")
    return value


def read_until(arguments: Mapping[str, object], verb: str, now: float) -> float | None:
    """Read ``for_seconds`` as the moment that it ends at, Unix seconds; None = no end."""
    span = read_seconds(arguments, verb, "for_seconds")
    return None if span is None else now + span


def read_members(arguments: Mapping[str, object], name: str, kind: type[Member]) -> frozenset[Member]:
    """Read a list of members of an enum; empty = not given."""
    values = arguments.get(name)
    if values is None:
        return frozenset()
    known = {member.value: member for member in kind}
    if not isinstance(values, list) or not all(isinstance(value, str) and value in known for value in values):
        raise ControlError(f"events: {name} is {values!r}; allowed: a list of {', '.join(known)}")
    return frozenset(known[value] for value in values)
