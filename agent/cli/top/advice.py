"""What is recommended for units, by now: an evaluation may be a minute old, windows are of the moment. Face, pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.cli.text.figures import age_text, bytes_text
from agent.cli.text.spans import Glyphs, Line, Span, Tone, harmless, pad
from agent.cli.words.advice import BOUND_TEXTS, SEVERITY_TEXTS, SEVERITY_TONES, change_text, cpu_text, withheld_text
from agent.core.recommender.recommendation import Bound, RequestSeverity, Withheld
from agent.core.recommender.severity import cpu_severity, memory_severity
from agent.core.window.snapshot import Snapshot, UnitAdvice, UnitStatus

_AMOUNT_WIDTH = 18
"""``1500m -> 1250m`` and ``1.50GiB -> 256MiB`` stand one under the other."""


def measured_seconds(unit: UnitStatus, advice: UnitAdvice) -> float:
    """Return for how long a unit has been measured by now; the evaluation may be a minute old."""
    return max(advice.measured_seconds, unit.cpu.span_seconds, unit.memory.span_seconds)


def withheld_now(unit: UnitStatus, advice: UnitAdvice, reason: str | None) -> Withheld | None:
    """Return why a recommendation is withheld: what had no data at its evaluation is young, once it has some."""
    if reason is None:
        return None
    is_young = 0 < measured_seconds(unit, advice) < advice.min_span_seconds
    return Withheld.TOO_YOUNG if reason == Withheld.NO_DATA and is_young else Withheld(reason)


def young_notes(snapshot: Snapshot) -> tuple[str, ...]:
    """Return how long it still takes until something is recommended; nothing where something is, or nothing will be."""
    advised = [(unit, unit.advice) for unit in snapshot.units if unit.advice is not None]
    young = [
        (unit, advice)
        for unit, advice in advised
        if withheld_now(unit, advice, advice.cpu_withheld) is Withheld.TOO_YOUNG
        or withheld_now(unit, advice, advice.memory_withheld) is Withheld.TOO_YOUNG
    ]
    if not young or any(
        advice.cpu_request_millicores is not None or advice.memory_request_bytes is not None for _, advice in advised
    ):
        return ()
    least_seconds, measured = min(
        ((advice.min_span_seconds, measured_seconds(unit, advice)) for unit, advice in young),
        key=lambda pair: pair[0] - pair[1],
    )
    left_seconds = least_seconds - measured
    when = f"in {age_text(left_seconds)}" if left_seconds > 0 else "with the next evaluation"
    return (f"recommended requests begin after {age_text(least_seconds)} of readings: {when}",)


def advice_lines(unit: UnitStatus, glyphs: Glyphs, *, marks: bool) -> list[Line]:
    """Return what one unit should request, against what it does, and why; empty before the first evaluation.

    ``marks`` puts "!" before what is much too small, for output without colour.
    """
    advice, stated = unit.advice, unit.resources
    if advice is None:
        return []
    cpu, memory = advice.cpu_request_millicores, advice.memory_request_bytes
    head = (Span("SHOULD REQUEST", Tone.TITLE), Span(f"  by policy {harmless(advice.policy)}", Tone.DIM))
    return [
        head,
        _advice_line(
            "CPU",
            (stated.cpu_request_millicores, cpu, cpu_text),
            cpu_severity(stated.cpu_request_millicores, cpu),
            advice.cpu_bounds,
            _waits_for(unit, advice, advice.cpu_withheld),
            glyphs,
            marks=marks,
        ),
        _advice_line(
            "memory",
            (stated.memory_request_bytes, memory, bytes_text),
            memory_severity(stated.memory_request_bytes, memory),
            advice.memory_bounds,
            _waits_for(unit, advice, advice.memory_withheld),
            glyphs,
            marks=marks,
        ),
        (),
    ]


def _waits_for(unit: UnitStatus, advice: UnitAdvice, reason: str | None) -> str:
    withheld = withheld_now(unit, advice, reason)
    if withheld is None:
        return ""
    measured = measured_seconds(unit, advice)
    if withheld is Withheld.TOO_YOUNG and measured >= advice.min_span_seconds:
        return f"too young until the next evaluation: {age_text(measured)} are known by now"
    return withheld_text(withheld, measured_seconds=measured, min_span_seconds=advice.min_span_seconds)


def _advice_line(
    title: str,
    amounts: tuple[int | None, int | None, Callable[[float | None], str]],
    severity: RequestSeverity,
    bounds: Sequence[str],
    waits_for: str,
    glyphs: Glyphs,
    *,
    marks: bool,
) -> Line:
    now, should, text = amounts
    label = Span(f"{title:8}", Tone.DIM)
    if should is None:
        return (label, Span(pad(text(now), _AMOUNT_WIDTH, to_right=False)), Span(waits_for, Tone.NOTE))
    amount = f"{text(now)} {glyphs.becomes} {text(should)}"
    texts = [f"{change_text(now, should, text)}, {SEVERITY_TEXTS[severity]}"]
    texts += [BOUND_TEXTS[Bound(bound)] for bound in bounds if bound != Bound.ROUNDED]
    mark = "!" if marks and severity is RequestSeverity.VERY_SHORT else ""
    return (
        label,
        Span(pad(amount, _AMOUNT_WIDTH, to_right=False), SEVERITY_TONES[severity]),
        Span(f"{mark}{'; '.join(texts)}"),
    )
