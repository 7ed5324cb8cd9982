"""The order of a CPU boost while a pod starts: its fields, and how the annotation's text is read. Core, pure.

The fields are those of the Vertical Pod Autoscaler (``startupBoost.cpu``). The text is parts separated by ``;``::

    factor 3 for 60s after ready; at most 4
    add 500m; limit: keep; containers: app, worker
    factor 2; request: keep; give up after 5m
    auto; at most 4
    off
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.numbers.quantity import QuantityError, parse_quantity
from agent.core.numbers.units import NANOS_PER_UNIT, to_millis

STARTUP_BOOST_ALLOWED: Final = (
    "off, or such as factor 3 for 60s after ready; at most 4; request: keep; limit: keep; containers: app, "
    "worker; give up after 10m; add 500m or auto in place of factor 3"
)
AUTO_AFTER_READY_SECONDS: Final = 60.0
"""Of a start that is learnt, where nothing else is ordered: many a server works hardest at its first calls, and without
a probe a pod is ready before it has begun."""
WITHOUT_LIMIT: Final = "request: keep raises the CPU limit alone, and there is none (CPU weight follows the request)"
"""Why a kept request without a limit leaves nothing to boost. A weight of its own can only be written into the cgroup,
where the kubelet's next resize writes its own again, and an agent that is fenced to ``pods/resize`` does not."""
LEAST_LEARNT_RATIO: Final = 1.5
"""Times the steady request: what a start needs less than that is not worth two resizes."""
TIMEOUT_SECONDS: Final = 600.0
"""For a pod that never gets ready, where nothing else is ordered."""
MOST_FACTOR: Final = 100
MOST_SECONDS: Final = 3600
"""A start that takes longer is none: such a pod needs a larger request."""
_MOST_CPU_MILLICORES: Final = 10_000_000
"""Larger than any machine; a slip such as ``500`` for ``500m`` is below it, and is bounded by what nodes have."""
_LONGEST: Final = 200
"""Characters; a directive of the webhook holds no longer text."""
_NUMBER: Final = r"(?P<{name}>[0-9A-Za-z.+-]{{1,32}})"
_HOW: Final = re.compile(
    rf"(?:factor {_NUMBER.format(name='factor')}|add {_NUMBER.format(name='added')}|(?P<auto>auto))"
    r"(?: for (?P<seconds>\S+) after ready)?",
    re.ASCII,
)
_MOST: Final = re.compile(rf"at most {_NUMBER.format(name='most')}", re.ASCII)
_TIMEOUT: Final = re.compile(r"give up after (?P<seconds>\S+)", re.ASCII)
_CONTAINERS: Final = re.compile(r"containers: ?(?P<names>[a-z0-9-]+(?:(?:, ?| )[a-z0-9-]+)*)", re.ASCII)
_SPAN: Final = re.compile(r"(?P<number>\d{1,4})(?P<unit>[smh])", re.ASCII)
_FLOAT_NOISE: Final = 1e-9
"""1.15 x 100 is 115, not 114."""
_UNIT_SECONDS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600}


class StartupBoostError(ValueError):
    """A text that is not understood; the message names the part and says what is allowed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupBoost:
    """How much more CPU the containers of a pod have while it starts, and for how long."""

    factor: float | None = None
    """Times the steady request, cut to whole millicores; at least 1. None = by ``added_millicores``."""
    added_millicores: int | None = None
    """On top of the steady request."""
    is_learnt: bool = False
    """By what the workload's earlier starts used, in place of both."""
    after_ready_seconds: float = 0.0
    """For how long after the pod got ready."""
    most_millicores: int | None = None
    """No request is boosted beyond it; None = what a node has. The bounds of steady requests do not hold for boosts."""
    is_request_kept: bool = False
    """The limit alone is boosted: it needs no room on a node."""
    is_limit_kept: bool = False
    """The limit stays and the request is boosted below it; else the limit keeps its ratio to the request."""
    containers: tuple[str, ...] = ()
    """The only ones that are boosted; empty = all that go on running."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """From the pod's start, for one that never gets ready."""

    def concerns(self, container: str) -> bool:
        """Return whether a container is boosted."""
        return not self.containers or container in self.containers

    def boosted_millicores(self, base_millicores: int, learnt_millicores: int | None = None) -> int:
        """Return the request of a start: the steady one where nothing says more.

        Args:
            base_millicores: The steady request.
            learnt_millicores: What earlier starts used, for a boost that goes by it; None = not known (yet).

        Source:
            ``resource_updates.go`` of the Vertical Pod Autoscaler's admission controller: truncate(base x factor), or
            base + quantity, at most the configured maximum.
        """
        if self.is_learnt:
            wanted = learnt_millicores or 0
            wanted = wanted if wanted >= LEAST_LEARNT_RATIO * base_millicores else base_millicores
        elif self.added_millicores is not None:
            wanted = base_millicores + self.added_millicores
        else:
            wanted = int(base_millicores * (self.factor or 1.0) + _FLOAT_NOISE)
        most = wanted if self.most_millicores is None else min(wanted, self.most_millicores)
        return max(base_millicores, most)

    def __str__(self) -> str:
        """Return the text that orders the same."""
        factor = 1.0 if self.factor is None else self.factor  # a 0 must not read as 1: it is refused
        how = f"factor {factor:g}" if self.added_millicores is None else f"add {self.added_millicores}m"
        how, usual = ("auto", AUTO_AFTER_READY_SECONDS) if self.is_learnt else (how, 0.0)
        is_usual = self.after_ready_seconds == usual
        parts = [how if is_usual else f"{how} for {self.after_ready_seconds:g}s after ready"]
        if self.most_millicores is not None:
            parts.append(f"at most {self.most_millicores}m")
        parts += ["request: keep"] * self.is_request_kept + ["limit: keep"] * self.is_limit_kept
        if self.containers:
            parts.append(f"containers: {', '.join(self.containers)}")
        if self.timeout_seconds != TIMEOUT_SECONDS:
            parts.append(f"give up after {self.timeout_seconds:g}s")
        return "; ".join(parts)


def parse_startup_boost(text: str) -> StartupBoost | None:
    """Read the order; None = ``off``: no boost, whatever a namespace or a rule says.

    Raises:
        StartupBoostError: It is not understood.
    """
    if len(text) > _LONGEST:
        raise StartupBoostError(f"{len(text)} characters, of at most {_LONGEST}")
    first, *rest = [" ".join(part.split()) for part in text.split(";")]
    if first == "off" and not rest:
        return None
    match = _HOW.fullmatch(first)
    if match is None:
        raise _refusal(first, "factor 3, add 500m, auto or off, and for 60s after ready")
    fields: dict[str, object] = {}
    if match["auto"] is not None:
        fields |= {"is_learnt": True, "after_ready_seconds": AUTO_AFTER_READY_SECONDS}
    if match["factor"] is not None:
        fields["factor"] = _factor(match["factor"])
    if match["added"] is not None:
        fields["added_millicores"] = _millicores(match["added"])
    if match["seconds"] is not None:
        fields["after_ready_seconds"] = _seconds(match["seconds"], 0)
    for part in rest:
        key, value = _further(part)
        if key in fields:
            raise _refusal(part, "each part once")
        fields[key] = value
    boost = StartupBoost(**fields)  # type: ignore[arg-type]  # each value is made for its field just above
    if boost.is_request_kept and boost.is_limit_kept:
        raise StartupBoostError("request: keep and limit: keep leave nothing to boost")
    return boost


def _further(part: str) -> tuple[str, object]:
    """Read one of the parts behind the first: the field and its value."""
    if part == "request: keep":
        return "is_request_kept", True
    if part == "limit: keep":
        return "is_limit_kept", True
    if (most := _MOST.fullmatch(part)) is not None:
        return "most_millicores", _millicores(most["most"])
    if (timeout := _TIMEOUT.fullmatch(part)) is not None:
        return "timeout_seconds", _seconds(timeout["seconds"], 1)
    if (containers := _CONTAINERS.fullmatch(part)) is not None:
        return "containers", tuple(dict.fromkeys(containers["names"].replace(",", " ").split()))
    raise _refusal(part, "at most 4, request: keep, limit: keep, containers: app, worker, give up after 10m")


def _factor(text: str) -> float:
    nanos = _nanos(text, "a number from 1 to 100 such as 3 or 1.5")
    if not NANOS_PER_UNIT <= nanos <= MOST_FACTOR * NANOS_PER_UNIT:
        raise _refusal(text, "a number from 1 to 100 such as 3 or 1.5")
    return nanos / NANOS_PER_UNIT


def _millicores(text: str) -> int:
    millicores = to_millis(_nanos(text, "CPU such as 500m or 4"))
    if not 1 <= millicores <= _MOST_CPU_MILLICORES:
        raise _refusal(text, "CPU such as 500m or 4, more than 0")
    return millicores


def _nanos(text: str, allowed: str) -> int:
    try:
        return parse_quantity(text)
    except QuantityError:
        raise _refusal(text, allowed) from None


def _seconds(text: str, least: int) -> float:
    match = _SPAN.fullmatch(text)
    seconds = -1 if match is None else int(match["number"]) * _UNIT_SECONDS[match["unit"]]
    if not least <= seconds <= MOST_SECONDS:
        raise _refusal(text, f"{least}s to 1h such as 60s or 5m")
    return float(seconds)


def _refusal(part: str, allowed: str) -> StartupBoostError:
    return StartupBoostError(f"{part[:60]!r}: {allowed}")
