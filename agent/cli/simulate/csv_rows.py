"""What a simulation found as CSV: a row per trace, policy, resource and container, and one each for sum and node.

Face. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from agent.cli.text.csv_text import csv_table
from agent.core.recommender.simulation.figures import PolicyTotal, SimulatedResourceTotal, total

if TYPE_CHECKING:
    from agent.cli.simulate.text import SimulatedTrace
    from agent.core.recommender.simulation.replay import ReplayRules

_HEADER: Final = (
    "trace",
    "scope",
    "container",
    "policy",
    "resource",
    "unit",
    "slack_of_used_ratio",
    "risk_ratio",
    "deficit_of_used_ratio",
    "changes_per_day",
    "known_minutes",
    "unsized_minutes",
    "under_requested_minutes",
    "requested",
    "used",
    "slack",
    "missing",
    "resizes",
    "decision_interval_seconds",
    "reaction_seconds",
)
_UNITS: Final = {"cpu": "core-hours", "memory": "GiB-hours"}
_PLANNED: Final = "node_planned"
ALL_TRACES: Final = ""
"""Stands for the trace in the rows of all traces together."""

_Row = tuple[object, ...]


def csv_page(simulated: Sequence[SimulatedTrace], alls: Sequence[PolicyTotal], rules: ReplayRules) -> str:
    """Return the page.

    ``scope`` is ``container``, ``sum`` (of all containers), ``node`` (they as one, by their requests) or
    ``node_planned`` (by their bases and the headroom that they share, which has no changes to count). An interval that
    is empty is each row's, a reaction that is empty never comes.
    """
    return csv_table(_HEADER, _rows(simulated, alls, rules))


def _rows(simulated: Sequence[SimulatedTrace], alls: Sequence[PolicyTotal], rules: ReplayRules) -> Iterator[_Row]:
    for trace in simulated:
        for outcome in trace.outcomes:
            for row, container in enumerate(outcome.containers):
                for resource, figures in (("cpu", outcome.cpu), ("memory", outcome.memory)):
                    where = (trace.path, "container", container, str(outcome.policy), resource)
                    yield from _row(where, figures.of(row), rules)
            yield from _sums(trace.path, total((outcome,)), rules)
    for policy in alls if len(simulated) > 1 else ():
        yield from _sums(ALL_TRACES, policy, rules)


def _sums(path: str, policy: PolicyTotal, rules: ReplayRules) -> Iterator[_Row]:
    for scope, resource, figures in (
        ("sum", "cpu", policy.cpu),
        ("sum", "memory", policy.memory),
        ("node", "cpu", policy.node_cpu),
        (_PLANNED, "cpu", policy.node_planned_cpu),
        ("node", "memory", policy.node_memory),
    ):
        yield from _row((path, scope, "", str(policy.policy), resource), figures, rules)


def _row(where: tuple[str, str, str, str, str], figures: SimulatedResourceTotal, rules: ReplayRules) -> Iterator[_Row]:
    """Return the row; none where the trace tells nothing of it."""
    if not figures.known_minutes:
        return
    is_planned = where[1] == _PLANNED
    yield (
        *where,
        _UNITS[where[-1]],
        figures.slack_of_used_ratio,
        figures.under_ratio,
        figures.deficit_ratio,
        None if is_planned else figures.changes_per_day,
        figures.known_minutes,
        figures.unsized_minutes,
        figures.under_minutes,
        figures.requested_amount_hours,
        figures.used_amount_hours,
        figures.unused_amount_hours,
        figures.missing_amount_hours,
        None if is_planned else figures.resizes,
        rules.decision_interval_seconds,
        rules.reaction_seconds,
    )
