"""What recommendations are called for people: reasons, bounds, severities, changes. Face, pure.

A request that may fall is good news: it is told as what it frees, never with a minus and never in red.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent.cli.text.figures import ABSENT, age_text, bytes_text
from agent.cli.text.spans import Glyphs, Tone
from agent.core.cluster.resource import Resource
from agent.core.recommender.recommendation import Advice, Bound, RequestSeverity, Withheld

if TYPE_CHECKING:
    from agent.core.recommender.recommendation import Recommendation, Recommendations

WITHHELD_WORDS: Final = {
    Withheld.NO_DATA: "no data",
    Withheld.TOO_YOUNG: "young",
    Withheld.GAPS: "gaps",
    Withheld.NO_SIGNAL: "no signal",
    Withheld.STALE: "stale",
    Withheld.NOT_CONTROLLED: "left out",
}
"""What stands in a cell in place of a request."""
BOUND_TEXTS: Final = {
    Bound.MIN: "raised to the least allowed",
    Bound.MAX: "lowered to the most allowed",
    Bound.IN_USE: "not below memory in use",
    Bound.HEAP: "not below its fixed heap",
    Bound.ROUNDED: "rounded up",
    Bound.UPWARD_ONLY: "no prediction yet to lower it",
    Bound.LIMIT: "held at its limit",
    Bound.QOS: "QoS class kept",
    Bound.SMALL_CHANGE: "change too small",
    Bound.LIMIT_UNFILLED: "a larger limit is of no use",
    Bound.LIMIT_RAISED: "limit raised with it",
    Bound.READ_AT_START: "limit read at start",
}
SEVERITY_TEXTS: Final = {
    RequestSeverity.VERY_SHORT: "much too small",
    RequestSeverity.SHORT: "too small",
    RequestSeverity.UNSET: "no request yet",
    RequestSeverity.LARGE_SAVING: "may fall by much",
    RequestSeverity.SAVING: "may fall",
    RequestSeverity.GOOD: "fits",
    RequestSeverity.UNKNOWN: "withheld",
}
"""In the order of urgency: what endangers first, what only costs after it."""
URGENCY: Final = {severity: rank for rank, severity in enumerate(SEVERITY_TEXTS)}
"""The lower the more urgent."""
SEVERITY_TONES: Final = {
    RequestSeverity.VERY_SHORT: Tone.HOT,
    RequestSeverity.SHORT: Tone.NOTE,
    RequestSeverity.UNSET: Tone.NOTE,
    RequestSeverity.LARGE_SAVING: Tone.GAIN,
    RequestSeverity.SAVING: Tone.GAIN,
    RequestSeverity.GOOD: Tone.PLAIN,
    RequestSeverity.UNKNOWN: Tone.DIM,
}


def severity_sign(severity: RequestSeverity, glyphs: Glyphs) -> str:
    """Return a sign of two cells at most that tells severities apart without colour."""
    return {
        RequestSeverity.VERY_SHORT: "!!",
        RequestSeverity.SHORT: "!",
        RequestSeverity.UNSET: "+",
        RequestSeverity.LARGE_SAVING: glyphs.down * 2,
        RequestSeverity.SAVING: glyphs.down,
        RequestSeverity.GOOD: "=",
        RequestSeverity.UNKNOWN: "?",
    }[severity]


def worst(item: Recommendation) -> RequestSeverity:
    """Return the more urgent of the severities of CPU and memory."""
    return min(item.cpu_millicores.severity, item.memory_bytes.severity, key=URGENCY.__getitem__)


# Amounts


def cpu_text(millicores: float | None) -> str:
    """Return a stated or recommended amount: ``5m``, ``1500m``, from ten cores on ``12.5``."""
    if millicores is None:
        return ABSENT
    return f"{millicores:.0f}m" if millicores < 9999.5 else f"{millicores / 1000:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceSide:
    """One resource of a recommendation, and how it is told."""

    resource: Resource
    title: str
    text: Callable[[float | None], str]
    advice: Callable[[Recommendation], Advice]
    request: Callable[[Recommendation], int | None]
    """As stated now."""
    limit: Callable[[Recommendation], int | None]
    measured_seconds: Callable[[Recommendation], float]


CPU: Final = AdviceSide(
    resource=Resource.CPU,
    title="CPU",
    text=cpu_text,
    advice=lambda item: item.cpu_millicores,
    request=lambda item: item.resources.cpu_request_millicores,
    limit=lambda item: item.resources.cpu_limit_millicores,
    measured_seconds=lambda item: item.basis.cpu_measured_seconds,
)
MEMORY: Final = AdviceSide(
    resource=Resource.MEMORY,
    title="memory",
    text=bytes_text,
    advice=lambda item: item.memory_bytes,
    request=lambda item: item.resources.memory_request_bytes,
    limit=lambda item: item.resources.memory_limit_bytes,
    measured_seconds=lambda item: item.basis.memory_measured_seconds,
)
SIDES: Final = (CPU, MEMORY)


def change_text(now: int | None, should: int | None, text: Callable[[float | None], str]) -> str:
    """Return the difference as what is to be done: ``add 250m``, ``free 64.0MiB``, ``keep``; ``-`` = not known."""
    if should is None:
        return ABSENT
    missing = should - (now or 0)
    if now is not None and not missing:
        return "keep"
    return f"add {text(missing)}" if missing >= 0 else f"free {text(-missing)}"


def limit_text(side: AdviceSide, item: Recommendation, glyphs: Glyphs) -> str:
    """Return the limit, and what it needs to become where it changes."""
    now, should = side.limit(item), side.advice(item).limit
    if should is None or should == now:
        return side.text(now)
    return f"{side.text(now)}{glyphs.becomes}{side.text(should)}"


# Reasons


def withheld_text(
    reason: Withheld,
    *,
    measured_seconds: float,
    min_span_seconds: float,
    age_seconds: float | None = None,
    max_age_seconds: float | None = None,
) -> str:
    """Return why nothing is recommended, and what it waits for.

    Ages are of the newest reading (None = there is none, or it is not told) and how old that may be.
    """
    if reason is Withheld.TOO_YOUNG:
        return f"too young: {age_text(measured_seconds)} of {age_text(min_span_seconds)}"
    if reason is Withheld.STALE and age_seconds is not None and max_age_seconds is not None:
        return f"stale: newest reading {age_text(age_seconds)} old, {age_text(max_age_seconds)} at most"
    return _WAITING[reason]


_WAITING: Final = {
    Withheld.STALE: "stale: waits for a new reading",
    Withheld.NO_DATA: "no data: waits for readings",
    Withheld.GAPS: "gaps: too few readings in its window",
    Withheld.NO_SIGNAL: "no signal from this kernel",
    Withheld.NOT_CONTROLLED: "left out by bounds.controlledResources",
}


def withheld_by(reason: Withheld, node: Recommendations) -> str:
    """Return why nothing is recommended for several containers at once."""
    if reason is Withheld.TOO_YOUNG:
        return f"too young: less than {age_text(node.min_span_seconds)} of readings"
    if reason is Withheld.STALE:
        return f"stale: no reading for {age_text(node.max_age_seconds)}"
    return _WAITING[reason]


def withheld_reason(side: AdviceSide, item: Recommendation, node: Recommendations) -> str | None:
    """Return why one resource of a container is withheld; None = it is not."""
    reason = side.advice(item).withheld
    if reason is None:
        return None
    return withheld_text(
        reason,
        measured_seconds=side.measured_seconds(item),
        min_span_seconds=node.min_span_seconds,
        age_seconds=item.basis.sample_age_seconds,
        max_age_seconds=node.max_age_seconds,
    )


def reasons(item: Recommendation, node: Recommendations) -> str:
    """Say behind a container's row why it is what it is: what is withheld, bounds that changed the answer, peaks."""
    cpu, memory = (reason(side, item, node) for side in SIDES)
    if cpu == memory:
        return cpu
    sides = [side for side in SIDES if side.advice(item).withheld not in _SELF_EVIDENT]
    texts = {CPU: cpu, MEMORY: memory}
    return "; ".join(f"{side.title} {texts[side]}" for side in sides or SIDES)


_SELF_EVIDENT: Final = (Withheld.NO_SIGNAL, Withheld.NOT_CONTROLLED)
"""Holds for as long as nobody changes the machine or the settings; the word in the cell says enough."""


def reason(side: AdviceSide, item: Recommendation, node: Recommendations) -> str:
    """Say the same of one resource."""
    withheld = withheld_reason(side, item, node)
    if withheld is not None:
        return withheld
    advice = side.advice(item)
    # Every amount is rounded: said of each, it would hide what matters.
    texts = [BOUND_TEXTS[bound] for bound in advice.bounds if bound is not Bound.ROUNDED]
    if advice.base is not None and advice.peak is not None and advice.base < advice.peak:
        texts.insert(0, f"base {side.text(advice.base)}, peak {side.text(advice.peak)}")
    elif texts and advice.proposed is not None:
        texts.insert(0, f"policy says {side.text(advice.proposed)}")
    return ", ".join(texts) or "as the policy says"
