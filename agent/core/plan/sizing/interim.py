"""What everybody has of one resource while pods that are proposed for eviction are still here. Core, pure.

A proposal is no eviction: nobody may carry it out, the webhook may refuse, a disruption budget may forbid it. Until a
pod is gone it is on the node like any other, so the resource is shared out a second time, as if nobody went: who has
more than that gives it back, and what is free goes to those below it, those furthest below their bases first
(``moves``). The plan's own figures stay those of its end, when the proposed are gone.

Proposals must not change by what is given meanwhile. So a pod that is proposed never falls, and is never raised to all
that its successor would be admitted with; and one that is spared keeps at least as much as that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from agent.core.orders.plan_options import PlanOptions
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import JointSpike
from agent.core.plan.sizing.entry import PodEntry, Side, Unit
from agent.core.plan.sizing.fit import Fit, share


class _Figures(NamedTuple):
    """Of one unit by the plan's end."""

    unit: Unit
    base: int
    peak: int
    headroom: int
    urgent: int
    foresight: int
    final: int


class Interim:
    """The figures of now in place of those of the plan's end, from its making until ``end``."""

    def __init__(
        self, fit: Fit, entries: Sequence[PodEntry], options: PlanOptions, joint: JointSpike | None = None
    ) -> None:
        """Share out anew; ``joint`` is the spike of all that are here as one."""
        self._planned = [
            _Figures(unit, unit.base, unit.peak, unit.headroom, unit.urgent, unit.foresight, unit.final)
            for entry in entries
            for unit in entry.side(fit.resource).units
        ]
        self._sums = [
            (side, side.base_sum, side.total, side.literal_total)
            for side in (entry.side(fit.resource) for entry in entries)
        ]
        for unit, *_ in self._planned:
            if unit.origin is not None:
                unit.base = unit.final  # without a prediction what it is given becomes its base
            unit.headroom = unit.urgent = unit.foresight = 0
            unit.final = unit.base
        for side, *_ in self._sums:
            bases = [unit.base for unit in side.units]
            side.base_sum, side.total = sum(bases), side.held(bases)
            side.literal_total = max(side.total, side.base_sum + side.lasting_spike + side.overhead)
        now = replace(fit, spike=0, spike_total=0, total=0, base_total=0, headroom=0, joint=None)
        share(now, entries, options, joint, is_interim=True)
        for entry in entries:
            side = entry.side(fit.resource)
            if entry.is_evicted:
                _hold(side)
                if entry.evicted_for is fit.resource:
                    _stay_below_admitted(side)
            elif side.is_spared:
                _spare(side)

    def end(self) -> None:
        """Restore the figures of the plan's end, and say of whom what it has now is another."""
        for side, base_sum, total, literal_total in self._sums:
            side.base_sum, side.total, side.literal_total = base_sum, total, literal_total
        for unit, base, peak, headroom, urgent, foresight, final in self._planned:
            unit.base, unit.peak, unit.final = base, peak, final
            unit.headroom, unit.urgent, unit.foresight = headroom, urgent, foresight
            is_raised = unit.kept is KeptReason.NODE_FULL and unit.applied > (unit.request or 0)
            if is_raised or (unit.kept is None and unit.fixed is None and unit.applied != final):
                unit.kept = KeptReason.EVICTION_PENDING


def _hold(side: Side) -> None:
    for unit in side.units:
        unit.final = max(unit.final, unit.request or 0)


def _stay_below_admitted(side: Side) -> None:
    """Lower what one that is proposed is to have by so much that its successor would still be admitted with more.

    First by what is above bases.
    """
    stated = [unit for unit in reversed(side.units) if unit.request is not None]
    excess = sum(unit.final for unit in stated) - (side.admitted - side.edges.unit)
    for unit, floor in [(unit, unit.base) for unit in stated] + [(unit, 0) for unit in stated]:
        cut = max(0, min(excess, unit.final - max(floor, unit.request or 0)))
        unit.final -= cut
        excess -= cut


def _spare(side: Side) -> None:
    """Let one that others go for keep what makes them go and not it: no container falls below its lasting peak.

    None falls at all where another of its containers has less than that, or may come to have it.
    """
    stated = [unit for unit in side.units if unit.request is not None and unit.fixed is None]
    is_safe = len(stated) == 1 or all(unit.final < unit.lasting_peak <= (unit.request or 0) for unit in stated)
    for unit in stated:
        unit.final = max(unit.final, unit.lasting_peak if is_safe else unit.request or 0)
