"""What a simulation found, as a table for people and as plain values for machines.

Face. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from agent.cli.table import ABSENT, Line, Span, Tone, age_text, display_width, harmless, pad, percent_text

if TYPE_CHECKING:
    from agent.core.sim_figures import Outcome, ResourceTotal, Total
    from agent.core.simulation import Rules
    from agent.core.trace import TraceSet

WORST: Final = 10
"""Containers told by name in each list of worst cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One trace and how every policy did on it."""

    trace: TraceSet
    path: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table."""

    title: str
    text: Callable[[Total], str]
    value: Callable[[Total], float | None]
    """By which policies are compared; less is better."""
    is_compared: bool = True


def amount_text(amount: float | None) -> str:
    """Give a number with at least three digits that count."""
    if amount is None:
        return ABSENT
    if amount == 0:
        return "0"
    if amount >= 100:
        return f"{amount:,.0f}"
    digits = 1 if amount >= 10 else 2 if amount >= 1 else 3
    return "<0.001" if amount < 0.0005 else f"{amount:.{digits}f}"


def _resource_figures(unit: str, part: Callable[[Total], ResourceTotal]) -> tuple[Figure, ...]:
    return (
        Figure(
            title=f"slack, {unit}",
            text=lambda total: amount_text(part(total).unused_amount_hours),
            value=lambda total: part(total).unused_amount_hours,
        ),
        Figure(
            title="slack of requested",
            text=lambda total: percent_text(part(total).slack_ratio),
            value=lambda total: part(total).slack_ratio,
        ),
        Figure(
            title="under-requested, minutes",
            text=lambda total: f"{part(total).under_minutes:,}",
            value=lambda total: part(total).under_minutes,
        ),
        Figure(
            title="under-requested, of minutes",
            text=lambda total: percent_text(part(total).under_ratio),
            value=lambda total: part(total).under_ratio,
        ),
        Figure(
            title=f"missing then, {unit}",
            text=lambda total: amount_text(part(total).missing_amount_hours),
            value=lambda total: part(total).missing_amount_hours,
        ),
        Figure(
            title="resizes",
            text=lambda total: f"{part(total).resizes:,}",
            value=lambda total: part(total).resizes,
        ),
        Figure(
            title="unsized, minutes",
            text=lambda total: f"{part(total).unsized_minutes:,}",
            value=lambda total: part(total).unsized_minutes,
            is_compared=False,
        ),
    )


def _minutes_text(minutes: float | None) -> str:
    return ABSENT if minutes is None else f"{minutes:g} min"


FIGURES: Final[dict[str, tuple[Figure, ...]]] = {
    "CPU": _resource_figures("core-hours", lambda total: total.cpu),
    "Memory": (
        *_resource_figures("GiB-hours", lambda total: total.memory),
        Figure(
            title="over limit, would-be kills",
            text=lambda total: f"{total.kills:,}",
            value=lambda total: total.kills,
        ),
        Figure(
            title="over limit, excursions",
            text=lambda total: f"{total.over_limit_excursions:,}",
            value=lambda total: total.over_limit_excursions,
        ),
        Figure(
            title="over limit, minutes",
            text=lambda total: f"{total.over_limit_minutes:,}",
            value=lambda total: total.over_limit_minutes,
        ),
    ),
    "Steps of CPU use": (
        Figure(
            title="met while sized",
            text=lambda total: f"{total.steps.steps:,}",
            value=lambda total: total.steps.steps,
            is_compared=False,
        ),
        Figure(
            title="never covered",
            text=lambda total: f"{total.steps.steps - total.steps.covered:,}",
            value=lambda total: total.steps.steps - total.steps.covered,
        ),
        Figure(
            title="reaction, median",
            text=lambda total: _minutes_text(total.steps.median_minutes),
            value=lambda total: total.steps.median_minutes,
        ),
        Figure(
            title="reaction, longest",
            text=lambda total: _minutes_text(total.steps.max_minutes),
            value=lambda total: total.steps.max_minutes,
        ),
    ),
}


def moment_text(unix_minute: int) -> str:
    """Give a minute as people write it, in UTC."""
    return datetime.fromtimestamp(unix_minute * 60, UTC).strftime("%Y-%m-%d %H:%M")


def span_text(simulated: Simulated) -> str:
    """Say what a trace spans: from, to, how long, how much."""
    trace = simulated.trace
    known = int(trace.has_cpu.sum()), int(trace.has_memory.sum())
    first, after = trace.start_unix_minute, trace.start_unix_minute + trace.minutes
    plural = "" if len(trace.containers) == 1 else "s"
    return (
        f"{moment_text(first)} to {moment_text(after)} UTC ({age_text(trace.span_seconds)}), "
        f"{len(trace.containers):,} container{plural}; minutes known: {known[0]:,} of CPU, {known[1]:,} of memory"
    )


def rules_text(rules: Rules, *, bytes_text: Callable[[float | None], str]) -> str:
    """Say in a sentence how the agent acted."""
    cpu = "none" if rules.cpu_request_millicores is None else f"{rules.cpu_request_millicores}m"
    memory = "none" if rules.memory_request_bytes is None else bytes_text(rules.memory_request_bytes)
    return (
        f"a decision every {age_text(rules.decision_interval_seconds)}, rises at once, falls "
        f"{age_text(rules.cool_down_seconds)} after the last change; requests at the start: CPU {cpu}, memory {memory}; "
        f"memory limit where the policy names none: {rules.memory_limit_ratio:g} x request"
    )


def comparison_lines(totals: Sequence[Total]) -> list[Line]:
    """Lay out the figures, a column for each policy; the best of each line is accented."""
    width = max(display_width(figure.title) for group in FIGURES.values() for figure in group) + 2
    cells = {
        (title, index): [figure.text(total) for total in totals]
        for title, group in FIGURES.items()
        for index, figure in enumerate(group)
    }
    room = max(8, *(len(total.policy) for total in totals), *(len(cell) for row in cells.values() for cell in row)) + 2
    lines: list[Line] = [
        (Span(" " * width), *(Span(pad(one.policy, room, to_right=True), Tone.TITLE) for one in totals))
    ]
    for title, group in FIGURES.items():
        lines.append((Span(title, Tone.TITLE),))
        for index, figure in enumerate(group):
            values = [figure.value(total) for total in totals]
            known = [value for value in values if value is not None]
            is_told = figure.is_compared and len(set(values)) > 1
            spans = [Span(pad(f"  {figure.title}", width, to_right=False), Tone.DIM)]
            for value, cell in zip(values, cells[title, index], strict=True):
                tone = Tone.ACCENT if is_told and value is not None and value == min(known) else Tone.PLAIN
                spans.append(Span(pad(cell, room, to_right=True), tone))
            lines.append(tuple(spans))
    return lines


# For machines


def report_json(simulated: Sequence[Simulated], alls: Sequence[Total], rules: Rules) -> dict[str, object]:
    """Give everything as plain values; every name carries its unit."""
    from agent.core.sim_figures import total

    return {
        "rules": {name: getattr(rules, name) for name in rules.__dataclass_fields__},
        "traces": [
            {
                "trace": one.path,
                "start_unix_seconds": one.trace.start_unix_minute * 60,
                "span_seconds": one.trace.span_seconds,
                "containers": len(one.trace.containers),
                "notes": list(one.trace.notes),
                "policies": [
                    {**total_json(total((outcome,))), "worst": worst_json(outcome)} for outcome in one.outcomes
                ],
            }
            for one in simulated
        ],
        "all": [total_json(one) for one in alls],
    }


def total_json(total: Total) -> dict[str, object]:
    """Give one policy's figures."""
    return {
        "policy": str(total.policy),
        "containers": total.containers,
        "span_seconds": total.span_seconds,
        "cpu": _resource_json(total.cpu, "core_hours"),
        "memory": {
            **_resource_json(total.memory, "gib_hours"),
            "over_limit_minutes": total.over_limit_minutes,
            "over_limit_excursions": total.over_limit_excursions,
            "would_be_oom_kills": total.kills,
        },
        "resizes": total.resizes,
        "steps": {
            "steps": total.steps.steps,
            "covered": total.steps.covered,
            "never_covered": total.steps.steps - total.steps.covered,
            "reaction_median_seconds": _seconds(total.steps.median_minutes),
            "reaction_max_seconds": _seconds(total.steps.max_minutes),
        },
    }


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else 60.0 * minutes


def _resource_json(one: ResourceTotal, unit: str) -> dict[str, object]:
    return {
        "known_minutes": one.known_minutes,
        "unsized_minutes": one.unsized_minutes,
        f"requested_{unit}": one.requested_amount_hours,
        f"used_{unit}": one.used_amount_hours,
        f"slack_{unit}": one.unused_amount_hours,
        "slack_ratio": one.slack_ratio,
        "under_requested_minutes": one.under_minutes,
        "under_requested_ratio": one.under_ratio,
        f"missing_{unit}": one.missing_amount_hours,
        "resizes": one.resizes,
    }


def worst_json(outcome: Outcome) -> dict[str, object]:
    """Name the containers with the most slack, the most missing, and the most memory over the limit."""
    return {
        "most_cpu_slack": _worst(outcome, outcome.cpu.unused_amount_hours.tolist(), "slack_core_hours"),
        "most_cpu_missing": _worst(outcome, outcome.cpu.missing_amount_hours.tolist(), "missing_core_hours"),
        "most_memory_slack": _worst(outcome, outcome.memory.unused_amount_hours.tolist(), "slack_gib_hours"),
        "most_memory_missing": _worst(outcome, outcome.memory.missing_amount_hours.tolist(), "missing_gib_hours"),
        "most_over_limit": _worst(outcome, outcome.memory_limit.over_minutes.tolist(), "over_limit_minutes"),
    }


def _worst(outcome: Outcome, scores: Sequence[float], unit: str) -> list[dict[str, object]]:
    order = sorted(range(len(scores)), key=lambda row: -scores[row])[:WORST]
    return [{"container": harmless(outcome.containers[row]), unit: scores[row]} for row in order if scores[row] > 0]
