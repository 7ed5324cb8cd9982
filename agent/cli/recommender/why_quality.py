"""How good a container's sizing was, as a section of ``plimsoll why``. Face. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agent.cli.text.figures import ABSENT, byte_hours_text, cpu_seconds_text, percent_text
from agent.cli.text.paragraphs import Page, figure, flow
from agent.cli.text.spans import Line, Span, Tone, pad
from agent.core.history.minute.quality import (
    Against,
    PeakQuality,
    QualityWindow,
    QualityWindows,
    RequestQuality,
    ResourceQuality,
    SizingQuality,
)

_WIDTH: Final = 36
_RESOURCES: Final[tuple[tuple[str, Callable[[SizingQuality], ResourceQuality], Callable[[float], str]], ...]] = (
    ("CPU", lambda quality: quality.cpu, cpu_seconds_text),
    ("memory", lambda quality: quality.memory, byte_hours_text),
)


def quality_lines(quality: QualityWindows | None, page: Page) -> list[Line]:
    """Return risk, what was missing and in excess against both requests, and the error of predicted peaks."""
    title = Span("QUALITY", Tone.TITLE)
    if quality is None:
        return [(title, Span("  no minute was judged yet", Tone.NOTE))]
    spans = [quality.over(window) for window in QualityWindow]
    lines: list[Line] = [
        (title, Span("  usage of each minute against the request that stood when it began", Tone.DIM)),
        (Span(pad("", _WIDTH, to_right=False)), *(figure(window.value, Tone.DIM) for window in QualityWindow)),
    ]
    for name, of, amount_text in _RESOURCES:
        for against in Against:
            judged = [of(span).against(against) for span in spans]
            head = f"{name}, {against} request:"
            if not any(tally.judged_minutes for tally in judged):
                lines.append(
                    (_label(head), figure(ABSENT), Span(f"  none was {against} in a judged minute", Tone.NOTE))
                )
                continue
            lines.append(_row(f"{head} minutes above", [percent_text(tally.risk_ratio) for tally in judged]))
            lines.append(_row("  missing", [_amount(tally, tally.missing_amount, amount_text) for tally in judged]))
            lines.append(_row("  in excess", [_amount(tally, tally.excess_amount, amount_text) for tally in judged]))
        lines.append(
            _row(f"{name}, predicted peak: too large by", [_error(of(span).peak, is_over=True) for span in spans])
        )
        lines.append(_row("  too small by", [_error(of(span).peak, is_over=False) for span in spans]))
    note = "all pods of this container's workload on this node together; peaks by whole UTC hours, of all peaks seen"
    lines += flow([(Span(note, Tone.DIM),)], page)
    return lines


def _label(text: str) -> Span:
    return Span(pad(text, _WIDTH, to_right=False), Tone.DIM)


def _row(name: str, texts: list[str]) -> Line:
    return (_label(name), *(figure(text) for text in texts))


def _amount(quality: RequestQuality, amount: float, text: Callable[[float], str]) -> str:
    return text(amount) if quality.judged_minutes else ABSENT


def _error(peak: PeakQuality, *, is_over: bool) -> str:
    return percent_text(peak.over_ratio if is_over else peak.under_ratio)
