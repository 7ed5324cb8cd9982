"""What a simulation found, as a table for people and as plain values for machines.

Face. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from agent.cli.text.figures import ABSENT, age_text, bytes_text, percent_text
from agent.cli.text.spans import Line, Span, Tone, display_width, harmless, pad

if TYPE_CHECKING:
    from agent.core.recommender.simulation.figures import (
        PolicyTotal,
        SimulatedOutcome,
        SimulatedResourceTotal,
        UsageCourse,
    )
    from agent.core.recommender.simulation.replay import ReplayRules

WORST: Final = 10
"""Containers told by name in each list of worst cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One trace and how every policy did on it; the trace itself is let go."""

    path: str
    notes: tuple[str, ...]
    cpu_minutes: int
    """Container-minutes with known CPU."""
    memory_minutes: int
    usage: UsageCourse
    """Thinned as the outcomes' courses are."""
    outcomes: tuple[SimulatedOutcome, ...]
    """At least one."""


@dataclass(frozen=True, slots=True)
class TableLine:
    """One line of the table."""

    title: str
    value: Callable[[PolicyTotal], float | None]
    """By which policies are compared; less is better."""
    form: Callable[[float | None], str]
    is_compared: bool = True

    def text(self, total: PolicyTotal) -> str:
        """Return the cell of a policy."""
        return self.form(self.value(total))

    def best(self, totals: Sequence[PolicyTotal]) -> frozenset[int]:
        """Return the places of the best policies; none where all are equal or none is better than another."""
        values = [self.value(total) for total in totals]
        known = [value for value in values if value is not None]
        if not self.is_compared or len(set(values)) < 2:
            return frozenset()
        return frozenset(index for index, value in enumerate(values) if value == min(known))


def amount_text(amount: float | None) -> str:
    """Return a number with at least three digits that count."""
    if amount is None:
        return ABSENT
    if amount == 0:
        return "0"
    if amount >= 100:
        return f"{amount:,.0f}"
    digits = 1 if amount >= 10 else 2 if amount >= 1 else 3
    return "<0.001" if amount < 0.0005 else f"{amount:.{digits}f}"


def _count_text(count: float | None) -> str:
    return ABSENT if count is None else f"{count:,}"


def _minutes_text(minutes: float | None) -> str:
    return ABSENT if minutes is None else f"{minutes:g} min"


def _resource_figures(unit: str, part: Callable[[PolicyTotal], SimulatedResourceTotal]) -> tuple[TableLine, ...]:
    return (
        TableLine(f"slack, {unit}", lambda total: part(total).unused_amount_hours, amount_text),
        TableLine("slack of requested", lambda total: part(total).slack_ratio, percent_text),
        TableLine("under-requested, minutes", lambda total: part(total).under_minutes, _count_text),
        TableLine("under-requested, of minutes", lambda total: part(total).under_ratio, percent_text),
        TableLine(f"missing then, {unit}", lambda total: part(total).missing_amount_hours, amount_text),
        TableLine("resizes", lambda total: part(total).resizes, _count_text),
        TableLine("unsized, minutes", lambda total: part(total).unsized_minutes, _count_text, is_compared=False),
    )


FIGURES: Final[dict[str, tuple[TableLine, ...]]] = {
    "CPU": _resource_figures("core-hours", lambda total: total.cpu),
    "Memory": (
        *_resource_figures("GiB-hours", lambda total: total.memory),
        TableLine("over limit, would-be kills", lambda total: total.kills, _count_text),
        TableLine("over limit, excursions", lambda total: total.over_limit_excursions, _count_text),
        TableLine("over limit, minutes", lambda total: total.over_limit_minutes, _count_text),
    ),
    "Steps of CPU use": (
        TableLine("met while sized", lambda total: total.steps.steps, _count_text, is_compared=False),
        TableLine("never covered", lambda total: total.steps.steps - total.steps.covered, _count_text),
        TableLine("reaction, median", lambda total: total.steps.median_minutes, _minutes_text),
        TableLine("reaction, longest", lambda total: total.steps.max_minutes, _minutes_text),
    ),
}


def told_figures(totals: Sequence[PolicyTotal]) -> dict[str, tuple[TableLine, ...]]:
    """Return the groups of figures that these traces tell anything of."""
    has_cpu = any(total.cpu.known_minutes for total in totals)
    has_memory = any(total.memory.known_minutes for total in totals)
    return {title: group for title, group in FIGURES.items() if (has_memory if title == "Memory" else has_cpu)}


def moment_text(unix_minute: int) -> str:
    """Return a minute as people write it, in UTC."""
    return datetime.fromtimestamp(unix_minute * 60, UTC).strftime("%Y-%m-%d %H:%M")


def span_text(simulated: Simulated) -> str:
    """Return what a trace spans: from, to, how long, how much."""
    outcome = simulated.outcomes[0]
    first, after = outcome.start_unix_minute, outcome.start_unix_minute + outcome.minutes
    plural = "" if len(outcome.containers) == 1 else "s"
    return (
        f"{moment_text(first)} to {moment_text(after)} UTC ({age_text(outcome.span_seconds)}), "
        f"{len(outcome.containers):,} container{plural}; "
        f"minutes known: {simulated.cpu_minutes:,} of CPU, {simulated.memory_minutes:,} of memory"
    )


def rules_text(rules: ReplayRules) -> str:
    """Say in a sentence how the agent acted."""
    cpu = "none" if rules.cpu_request_millicores is None else f"{rules.cpu_request_millicores}m"
    memory = "none" if rules.memory_request_bytes is None else bytes_text(rules.memory_request_bytes)
    return (
        f"a decision every {rules.decision_interval_seconds:g} s, rises at once, "
        f"falls {rules.cool_down_seconds:g} s after the last change at the soonest; "
        f"requests at the start: CPU {cpu}, memory {memory}; "
        f"memory limit where the policy names none: {rules.memory_limit_ratio:g} x request"
    )


def comparison_lines(totals: Sequence[PolicyTotal]) -> list[Line]:
    """Lay out the figures, a column for each policy; the best of each line is accented."""
    groups = told_figures(totals)
    width = max(display_width(figure.title) for group in groups.values() for figure in group) + 2
    cells = {
        (title, index): [figure.text(total) for total in totals]
        for title, group in groups.items()
        for index, figure in enumerate(group)
    }
    room = max(8, *(len(total.policy) for total in totals), *(len(cell) for row in cells.values() for cell in row)) + 2
    lines: list[Line] = [
        (Span(" " * width), *(Span(pad(policy.policy, room, to_right=True), Tone.TITLE) for policy in totals))
    ]
    for title, group in groups.items():
        lines.append((Span(title, Tone.TITLE),))
        for index, figure in enumerate(group):
            best = figure.best(totals)
            spans = [Span(pad(f"  {figure.title}", width, to_right=False), Tone.DIM)]
            for place, cell in enumerate(cells[title, index]):
                tone = Tone.ACCENT if place in best else Tone.PLAIN
                spans.append(Span(pad(cell, room, to_right=True), tone))
            lines.append(tuple(spans))
    return lines


# For machines


def report_json(simulated: Sequence[Simulated], alls: Sequence[PolicyTotal], rules: ReplayRules) -> dict[str, object]:
    """Return everything as plain values; every name carries its unit."""
    from agent.core.recommender.simulation.figures import total

    return {
        "rules": {name: getattr(rules, name) for name in rules.__dataclass_fields__},
        "traces": [
            {
                "trace": trace.path,
                "start_unix_seconds": trace.outcomes[0].start_unix_minute * 60,
                "span_seconds": trace.outcomes[0].span_seconds,
                "containers": len(trace.outcomes[0].containers),
                "known_cpu_minutes": trace.cpu_minutes,
                "known_memory_minutes": trace.memory_minutes,
                "notes": list(trace.notes),
                "policies": [
                    {**total_json(total((outcome,))), "worst": worst_json(outcome)} for outcome in trace.outcomes
                ],
            }
            for trace in simulated
        ],
        "all": [total_json(policy) for policy in alls],
    }


def total_json(total: PolicyTotal) -> dict[str, object]:
    """Return one policy's figures."""
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


def _resource_json(resource: SimulatedResourceTotal, unit: str) -> dict[str, object]:
    return {
        "known_minutes": resource.known_minutes,
        "unsized_minutes": resource.unsized_minutes,
        f"requested_{unit}": resource.requested_amount_hours,
        f"used_{unit}": resource.used_amount_hours,
        f"slack_{unit}": resource.unused_amount_hours,
        "slack_ratio": resource.slack_ratio,
        "under_requested_minutes": resource.under_minutes,
        "under_requested_ratio": resource.under_ratio,
        f"missing_{unit}": resource.missing_amount_hours,
        "resizes": resource.resizes,
    }


def worst_json(outcome: SimulatedOutcome) -> dict[str, object]:
    """Name the containers with the most slack, the most missing, and the most memory over the limit."""
    scores = {
        "most_cpu_slack": outcome.cpu.unused_amount_hours,
        "most_cpu_missing": outcome.cpu.missing_amount_hours,
        "most_memory_slack": outcome.memory.unused_amount_hours,
        "most_memory_missing": outcome.memory.missing_amount_hours,
        "most_over_limit": outcome.memory_limit.over_minutes,
    }
    return {
        name: [container_json(outcome, row) for row in np.argsort(-score, kind="stable")[:WORST] if score[row] > 0]
        for name, score in scores.items()
    }


def container_json(outcome: SimulatedOutcome, row: int) -> dict[str, object]:
    """Return one container's figures."""
    return {
        "container": harmless(outcome.containers[row]),
        "cpu": _resource_json(outcome.cpu.of(row), "core_hours"),
        "memory": {
            **_resource_json(outcome.memory.of(row), "gib_hours"),
            "over_limit_minutes": int(outcome.memory_limit.over_minutes[row]),
            "over_limit_excursions": int(outcome.memory_limit.excursions[row]),
            "would_be_oom_kills": int(outcome.memory_limit.kills[row]),
        },
        "resizes": int(outcome.resizes[row]),
    }
