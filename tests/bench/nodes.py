"""The node's part of ``make bench-policies``: series side by side as nodes, by requests and by a plan's headroom.

A node is all CPU series over the time in which at least half of them are known: as they were measured, and each brought
to the same mean, so that no single one rules the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from agent.cli.simulate.runs import simulate_policies
from agent.cli.simulate.text import judged_cells
from agent.core.orders.plan_options import HeadroomRule
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.simulation.figures import SimulatedOutcome, SimulatedResourceTotal, total
from agent.core.recommender.simulation.replay import ReplayRules
from agent.core.recommender.simulation.trace import TraceSet
from agent.settings.sections import Settings

MEAN_MILLICORES: Final = 300.0
_WARM_DAY_SECONDS: Final = 86_400.0
_INTERVAL_SECONDS: Final = 3600.0
"""Bases and headroom are planned anew with each decision."""
LEGEND: Final = (
    "Each cell: set aside and not used / share of time short / deficit, of what all containers of the node used. "
    "Requests are each container's own; the plan sets aside their bases and the headroom that they share: the largest "
    "single spike, or with plimsoll what was seen together where that is more (plan.headroom)."
)


def node_of(trace: TraceSet, *, is_equal: bool) -> TraceSet:
    """Return the series as one node; ``is_equal`` brings each to the same mean."""
    busy = np.flatnonzero(2 * trace.has_cpu.sum(axis=1) >= len(trace.containers))
    minutes = slice(int(busy[0]), int(busy[-1]) + 1)
    has, cpu = trace.has_cpu[minutes], trace.cpu_millicores[minutes]
    if is_equal:
        cpu = cpu * (MEAN_MILLICORES * has.sum(axis=0) / np.maximum((cpu * has).sum(axis=0), 1.0)).astype(np.float32)
    return replace(
        trace,
        start_unix_minute=trace.start_unix_minute + minutes.start,
        cpu_millicores=cpu,
        has_cpu=has,
        memory_bytes=np.zeros(cpu.shape),
        has_memory=np.zeros(cpu.shape, np.bool_),
    )


def node_lines(trace: TraceSet) -> Iterator[str]:
    """Give the table: each node under each policy, and under plimsoll with the largest single spike alone."""
    yield _line("node", "policy", "requests, hourly", "plan, hourly")
    yield _line(*["---"] * 4)
    for name, is_equal in (("as measured", False), ("of equal means", True)):
        node = node_of(trace, is_equal=is_equal)
        for outcome in _outcomes(node, HeadroomRule.JOINT, list(PolicyName)):
            yield _line(name, f"`{outcome.policy}`", *_cells(outcome))
        for outcome in _outcomes(node, HeadroomRule.SPIKE, [PolicyName.PLIMSOLL]):
            yield _line(name, f"`{outcome.policy}`, largest spike", *_cells(outcome))


def _outcomes(node: TraceSet, headroom: HeadroomRule, policies: Sequence[PolicyName]) -> list[SimulatedOutcome]:
    rules = ReplayRules(
        decision_interval_seconds=_INTERVAL_SECONDS, warm_up_seconds=_WARM_DAY_SECONDS, headroom=headroom
    )
    return simulate_policies(node, policies, Settings(), rules, on_progress=lambda _: None)


def _cells(outcome: SimulatedOutcome) -> tuple[str, str]:
    policy_total = total([outcome])
    return _three(policy_total.node_cpu), _three(policy_total.node_planned_cpu)


def _three(resource: SimulatedResourceTotal) -> str:
    return " / ".join(judged_cells(resource)[:3])


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
