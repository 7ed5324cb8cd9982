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
    from agent.core.orders.policy_options import BoundsOptions
    from agent.core.recommender.simulation.figures import (
        PolicyTotal,
        ResourceFigures,
        SimulatedOutcome,
        SimulatedResourceTotal,
        UsageCourse,
    )
    from agent.core.recommender.simulation.replay import ReplayRules

WORST: Final = 10
"""Containers told by name in each list of worst cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTrace:
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
    if count is None:
        return ABSENT
    # Where rows are shorter than a minute, or a reaction ends within one, minutes have parts.
    return f"{count:,.0f}" if count == round(count) else f"{count:,.2f}"


def ratio_text(ratio: float | None) -> str:
    """Return a share as the tables of peers have it: three digits that count from a tenth on, else four places."""
    if ratio is None:
        return ABSENT
    if ratio == 0:
        return "0"
    if ratio < 0.00005:
        return "<0.0001"
    return f"{ratio:.3f}" if ratio >= 0.1 else f"{ratio:.4f}"


def rate_text(per_day: float | None) -> str:
    """Return changes a day."""
    return ABSENT if per_day is None else f"{per_day:.1f}" if per_day >= 0.05 or per_day == 0 else "<0.1"


def judged_cells(resource: SimulatedResourceTotal) -> tuple[str, str, str, str]:
    """Return slack and deficit of what was used, risk between them, and changes a day: ``JUDGED`` names them."""
    return (
        ratio_text(resource.slack_of_used_ratio),
        ratio_text(resource.under_ratio),
        ratio_text(resource.deficit_ratio),
        rate_text(resource.changes_per_day),
    )


JUDGED: Final = ("slack", "risk", "deficit", "changes a day")
"""The four by which rules are compared: slack and deficit as shares of what was used, risk as one of the time."""


def _minutes_text(minutes: float | None) -> str:
    return ABSENT if minutes is None else f"{minutes:g} min"


def _resource_figures(unit: str, part: Callable[[PolicyTotal], SimulatedResourceTotal]) -> tuple[TableLine, ...]:
    return (
        TableLine(f"slack, {unit}", lambda total: part(total).unused_amount_hours, amount_text),
        TableLine("slack of requested", lambda total: part(total).slack_ratio, percent_text),
        TableLine("slack of used", lambda total: part(total).slack_of_used_ratio, ratio_text),
        TableLine("under-requested, minutes", lambda total: part(total).under_minutes, _count_text),
        TableLine("risk (under-requested, of time)", lambda total: part(total).under_ratio, ratio_text),
        TableLine(f"missing then, {unit}", lambda total: part(total).missing_amount_hours, amount_text),
        TableLine("deficit (missing of used)", lambda total: part(total).deficit_ratio, ratio_text),
        TableLine("resizes", lambda total: part(total).resizes, _count_text),
        TableLine("changes a day, per container", lambda total: part(total).changes_per_day, rate_text),
        TableLine("unsized, minutes", lambda total: part(total).unsized_minutes, _count_text, is_compared=False),
    )


def _node_figures(part: Callable[[PolicyTotal], SimulatedResourceTotal]) -> tuple[TableLine, ...]:
    return (
        TableLine("set aside and not used, of used", lambda total: part(total).slack_of_used_ratio, ratio_text),
        TableLine("short, minutes", lambda total: part(total).under_minutes, _count_text),
        TableLine("short, of minutes", lambda total: part(total).under_ratio, ratio_text),
        TableLine("deficit, of used", lambda total: part(total).deficit_ratio, ratio_text),
    )


FIGURES: Final[dict[str, tuple[TableLine, ...]]] = {
    "CPU": _resource_figures("core-hours", lambda total: total.cpu),
    "Memory": (
        *_resource_figures("GiB-hours", lambda total: total.memory),
        TableLine("over limit, would-be kills", lambda total: total.kills, _count_text),
        TableLine("over limit, excursions", lambda total: total.over_limit_excursions, _count_text),
        TableLine("over limit, minutes", lambda total: total.over_limit_minutes, _count_text),
    ),
    "CPU of the node: sum of requests": _node_figures(lambda total: total.node_cpu),
    "CPU of the node: bases and shared headroom": _node_figures(lambda total: total.node_planned_cpu),
    "Memory of the node": _node_figures(lambda total: total.node_memory),
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
    return {title: group for title, group in FIGURES.items() if (has_memory if title.startswith("Memory") else has_cpu)}


def moment_text(unix_minute: int) -> str:
    """Return a minute as people write it, in UTC."""
    return datetime.fromtimestamp(unix_minute * 60, UTC).strftime("%Y-%m-%d %H:%M")


def span_text(simulated: SimulatedTrace) -> str:
    """Return what a trace spans: from, to, how long, how much."""
    outcome = simulated.outcomes[0]
    first, after = outcome.start_unix_minute, outcome.start_unix_minute + outcome.minutes
    plural = "" if len(outcome.containers) == 1 else "s"
    return (
        f"{moment_text(first)} to {moment_text(after)} UTC ({age_text(outcome.span_seconds)}), "
        f"{len(outcome.containers):,} container{plural}; "
        f"minutes known: {simulated.cpu_minutes:,} of CPU, {simulated.memory_minutes:,} of memory"
    )


def rules_text(rules: ReplayRules, bounds: BoundsOptions) -> str:
    """Return in a sentence how the agent acted."""
    cpu = "none" if rules.cpu_request_millicores is None else f"{rules.cpu_request_millicores}m"
    memory = "none" if rules.memory_request_bytes is None else bytes_text(rules.memory_request_bytes)
    interval = rules.decision_interval_seconds
    parts = [
        "a decision at the end of each row" if interval is None else f"a decision every {interval:g} s",
        f"no change of less than {percent_text(bounds.smallest_change_ratio)}, of "
        f"{bounds.smallest_cpu_change_millicores}m or of {bytes_text(bounds.smallest_memory_change_bytes)}",
        f"rises at once, falls {rules.cool_down_seconds:g} s after the last change at the soonest",
    ]
    if rules.reaction_seconds is not None:
        parts.append(f"a container that is short of CPU gets what it uses after {rules.reaction_seconds:g} s")
        parts.append(
            "where the policy asks for less for that reason, CPU falls once each "
            f"{rules.shrink_interval_seconds:g} s, by {percent_text(rules.shrink_ratio)} or more, "
            f"not sooner than {rules.shrink_after_growth_seconds:g} s after such a growth"
        )
    if rules.warm_up_seconds:
        parts.append(f"each container's first {age_text(rules.warm_up_seconds)} not judged")
    ending = (
        f"; requests at the start: CPU {cpu}, memory {memory}; "
        f"memory limit where the policy names none: {rules.memory_limit_ratio:g} x request"
    )
    return ", ".join(parts) + ending


def front_text(totals: Sequence[PolicyTotal]) -> str | None:
    """Name the policies that no other beats in slack and deficit of CPU at once; None = there is no choice."""
    from agent.core.recommender.simulation.figures import undominated

    front = undominated(totals)
    if len(totals) < 2 or not front:
        return None
    names = ", ".join(totals[place].policy for place in sorted(front))
    return f"no other policy here has both less slack and less deficit of CPU than: {names}"


def series_lines(outcomes: Sequence[SimulatedOutcome]) -> list[Line]:
    """Lay out each container's four figures under each policy: of the ten that used most; none where there is one."""
    return [
        *_series_of("CPU", outcomes, [outcome.cpu for outcome in outcomes]),
        *_series_of("Memory", outcomes, [outcome.memory for outcome in outcomes]),
    ]


def _series_of(title: str, outcomes: Sequence[SimulatedOutcome], figures: Sequence[ResourceFigures]) -> list[Line]:
    used = np.max([figure.used_amount_hours for figure in figures], axis=0)
    known = np.flatnonzero(used > 0)
    if len(outcomes[0].containers) < 2 or not known.size:
        return []
    chosen = known[np.argsort(-used[known], kind="stable")][:WORST].tolist()
    left = f", the {WORST} of {known.size:,} that used most (--csv has all)" if known.size > len(chosen) else ""
    names = {row: _short(harmless(outcomes[0].containers[row])) for row in chosen}
    name_room = max(display_width(name) for name in names.values()) + 2
    policy_room = max(len(outcome.policy) for outcome in outcomes) + 2
    head = "".join(pad(name, _SERIES_ROOM, to_right=True) for name in JUDGED)
    lines: list[Line] = [
        (Span(f"{title} of each container{left}", Tone.TITLE),),
        (Span(" " * (name_room + policy_room + 2)), Span(head, Tone.DIM)),
    ]
    for row in chosen:
        for place, (outcome, figure) in enumerate(zip(outcomes, figures, strict=True)):
            name = pad(names[row] if place == 0 else "", name_room, to_right=False)
            cells = "".join(pad(cell, _SERIES_ROOM, to_right=True) for cell in judged_cells(figure.of(row)))
            lines.append((Span(f"  {name}"), Span(pad(outcome.policy, policy_room, to_right=False)), Span(cells)))
    return lines


_SERIES_ROOM: Final = 15
_LONGEST_SERIES_NAME: Final = 40


def _short(name: str) -> str:
    """Cut a name at its front: its end tells containers apart."""
    return name if len(name) <= _LONGEST_SERIES_NAME else "..." + name[3 - _LONGEST_SERIES_NAME :]


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


def report_json(
    simulated: Sequence[SimulatedTrace], alls: Sequence[PolicyTotal], rules: ReplayRules
) -> dict[str, object]:
    """Return everything as plain values; every name carries its unit."""
    from agent.core.recommender.simulation.figures import total, undominated

    def policies(totals: Sequence[PolicyTotal]) -> list[dict[str, object]]:
        front = undominated(totals)
        return [{**total_json(policy), "undominated": place in front} for place, policy in enumerate(totals)]

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
                    {**policy, "worst": worst_json(outcome), "series": series_json(outcome)}
                    for outcome, policy in zip(
                        trace.outcomes, policies([total((outcome,)) for outcome in trace.outcomes]), strict=True
                    )
                ],
            }
            for trace in simulated
        ],
        "all": policies(alls),
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
        "node": {
            "cpu": _resource_json(total.node_cpu, "core_hours"),
            "planned_cpu": _unchanging_json(total.node_planned_cpu, "core_hours"),
            "memory": _resource_json(total.node_memory, "gib_hours"),
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
        "known_minutes": _whole(resource.known_minutes),
        "unsized_minutes": _whole(resource.unsized_minutes),
        f"requested_{unit}": resource.requested_amount_hours,
        f"used_{unit}": resource.used_amount_hours,
        f"slack_{unit}": resource.unused_amount_hours,
        "slack_ratio": resource.slack_ratio,
        "slack_of_used_ratio": resource.slack_of_used_ratio,
        "under_requested_minutes": _whole(resource.under_minutes),
        "under_requested_ratio": resource.under_ratio,
        f"missing_{unit}": resource.missing_amount_hours,
        "deficit_of_used_ratio": resource.deficit_ratio,
        "resizes": resource.resizes,
        "changes_per_day": resource.changes_per_day,
    }


def _unchanging_json(resource: SimulatedResourceTotal, unit: str) -> dict[str, object]:
    """Return the figures of what is set aside and changes with each plan."""
    figures = _resource_json(resource, unit)
    return {name: figure for name, figure in figures.items() if name not in ("resizes", "changes_per_day")}


def _whole(minutes: float) -> float:
    """Write whole minutes as a whole number."""
    return int(minutes) if minutes == int(minutes) else minutes


def series_json(outcome: SimulatedOutcome) -> list[dict[str, object]]:
    """Return each container's four figures of comparison; what they follow from is in ``--csv``."""
    return [
        {
            "container": harmless(container),
            **{
                name: {
                    "slack_of_used_ratio": figures.slack_of_used_ratio,
                    "under_requested_ratio": figures.under_ratio,
                    "deficit_of_used_ratio": figures.deficit_ratio,
                    "changes_per_day": figures.changes_per_day,
                }
                for name, figures in (("cpu", outcome.cpu.of(row)), ("memory", outcome.memory.of(row)))
            },
        }
        for row, container in enumerate(outcome.containers)
    ]


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
