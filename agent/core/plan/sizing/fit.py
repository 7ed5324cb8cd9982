"""Does a node fit, who should go, and what each survivor should have of one resource. Core, pure.

Works on the planner's entries, sorted by namespace and name, so that the order in which pods are listed never matters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agent.core.cluster.resource import Resource
from agent.core.numbers.amount_text import amount_text
from agent.core.orders.order import Ranking
from agent.core.orders.plan_options import FitRule, PlanOptions
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import Eviction, JointSpike
from agent.core.plan.sizing.container_sizing import is_small
from agent.core.plan.sizing.entry import PodEntry, Side, Unit
from agent.core.plan.sizing.spike_sharing import LEVELS, eviction_order, finals, handed_out, highest_level, needed


@dataclass(slots=True, kw_only=True)
class Fit:
    """One resource of the node."""

    resource: Resource
    room: int
    """Allocatable without what pods hold that may not be optimised; may be negative."""
    is_applied: bool
    is_infeasible: bool = False
    spike: int = 0
    """The largest of the survivors."""
    spike_total: int = 0
    total: int = 0
    """What the survivors hold by their bases."""
    base_total: int = 0
    headroom: int = 0
    joint: JointSpike | None = None


def evict(
    fit: Fit, entries: Sequence[PodEntry], rule: FitRule, *, applied: Collection[Resource]
) -> list[tuple[PodEntry, int]]:
    """Mark who should go until the rest fits; return them in order, with how much was lacking before each went.

    Where it does not fit and nobody else may go, the resource is infeasible. What was seen in the last seconds, or is
    remembered of a burst, has no part in it, nor has what pods were seen to demand together: nobody goes for a burst.

    A pod goes only if its successor would be admitted, by its peak, with more than the pod has now: otherwise it comes
    back to the same place. A pod whose need nobody can foretell, of any resource that is applied, stays.
    """
    if not fit.is_applied:
        return []
    total = literal_total = spike = 0
    for entry in entries:
        if not entry.is_evicted:
            side = entry.side(fit.resource)
            total += side.total
            literal_total += side.literal_total
            if side.lasting_spike > spike:
                spike = side.lasting_spike
    lacking = needed(total=total, literal_total=literal_total, spike=spike, rule=rule) - fit.room
    if lacking <= 0:
        return []
    gone: list[tuple[PodEntry, int]] = []
    for entry in _candidates(fit.resource, entries, applied):
        side = entry.side(fit.resource)
        if not returns_larger(side):
            side.is_spared = True
            continue
        entry.evicted_for = fit.resource
        gone.append((entry, lacking))
        total -= side.total
        literal_total -= side.literal_total
        if side.lasting_spike == spike:
            spike = max(
                (other.side(fit.resource).lasting_spike for other in entries if not other.is_evicted), default=0
            )
        lacking = needed(total=total, literal_total=literal_total, spike=spike, rule=rule) - fit.room
        if lacking <= 0:
            return gone
    fit.is_infeasible = True
    return gone


def is_candidate(entry: PodEntry, applied: Collection[Resource]) -> bool:
    """Return whether a pod may be proposed to go: no DaemonSet's, no unforetold one, not by its ranking or mode."""
    is_known = all(entry.side(resource).is_predicted for resource in applied)
    is_kept = entry.is_daemon or entry.only_rises or entry.demand.orders.ranking is Ranking.NO_EVICTION
    return is_known and not is_kept


def _candidates(resource: Resource, entries: Sequence[PodEntry], applied: Collection[Resource]) -> list[PodEntry]:
    """Return who may go, in order."""
    keyed = []
    for entry in entries:
        side = entry.side(resource)
        key = eviction_order(entry.demand.orders.ranking, side.lasting_spike, entry.name)
        if key is not None and not entry.is_evicted and is_candidate(entry, applied):
            keyed.append((key, entry))
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]


def returns_larger(side: Side) -> bool:
    """Return whether admission would ask for more than the pod has: only what is stated is admitted, by its peak."""
    return side.admitted > sum(unit.request or 0 for unit in side.units)


def _returns_larger_after(side: Side) -> bool:
    """Return the same of a pod that the plan goes on with: it has what it holds now, or what it is given."""
    return side.admitted > sum(max(unit.applied, unit.request or 0) for unit in side.units)


def share(
    fit: Fit,
    entries: Sequence[PodEntry],
    options: PlanOptions,
    joint: JointSpike | None = None,
    *,
    is_interim: bool = False,
) -> None:
    """Set every survivor's final request, and the sums of the node; ``joint`` is the spike of all survivors as one.

    Interim: as if nobody went, and all that are here are survivors.
    """
    sides = [entry.side(fit.resource) for entry in entries if is_interim or not entry.is_evicted]
    for side in sides:
        fit.total += side.total
        fit.base_total += side.base_sum
        if side.spike:
            fit.spike = max(fit.spike, side.spike)
            fit.spike_total += sum(unit.spike for unit in side.units)
    left, fit.joint = fit.room - fit.total, joint
    pressed = [side for side in sides if side.is_pressed]
    fit.headroom = handed_out(
        spike=fit.spike,
        joint=0 if joint is None else joint.amount,
        spikes=fit.spike_total,
        claimed=sum(_claimed(side) for side in sides) if joint is not None else 0,
        room=left,
    )
    if fit.headroom:
        _hand_out(sides, fit)
    foreseeing = [side for side in sides if any(unit.foreseen_base is not None for unit in side.units)]
    daemons = [entry.side(fit.resource) for entry in entries if entry.is_daemon]
    if pressed or daemons or foreseeing:
        left_over = _left_over(fit, entries, options.fit_rule, is_interim=is_interim)
        if is_interim and left_over < 0:
            _ask(pressed)
            return
        held = sum(side.held([unit.final for unit in side.units]) for side in sides)
        room = _RoomLeft(min(left - fit.headroom, left_over), fit.room - held)
        room = _lift(pressed, room)
        room = _fill_up(daemons, room)
        _foresee(foreseeing, sides, min(room) // 2)


class _RoomLeft(NamedTuple):
    """What is left to grow into. The two differ where pods hold more than their containers request together.

    Below that growth takes nothing, of what is above the bases less than of what is above the finals. As a part that
    was granted may become a base, both are kept: the next plan then has as much left as this one.
    """

    above_bases: int
    above_finals: int


def _claimed(side: Side) -> int:
    """Return what a pod would have beyond its bases before anybody spikes: what presses, and a DaemonSet's own base."""
    return side.held([max(unit.sustained, unit.pressing) for unit in side.units]) - side.total


def _left_over(fit: Fit, entries: Sequence[PodEntry], rule: FitRule, *, is_interim: bool) -> int:
    """Return the room into which pods may grow beyond their share so that this makes nobody go, the next time either.

    That is what the rule leaves where it was met: with those who go for want of the other resource only, as long as
    this one is asked first.
    """
    staying = [
        entry.side(fit.resource)
        for entry in entries
        if is_interim or not entry.is_evicted or (fit.resource is Resource.MEMORY and entry.evicted_for is Resource.CPU)
    ]
    total = sum(side.total for side in staying)
    literal_total = sum(side.literal_total for side in staying)
    spike = max(side.lasting_spike for side in staying)
    return fit.room - needed(total=total, literal_total=literal_total, spike=spike, rule=rule)


def _hand_out(sides: Sequence[Side], fit: Fit) -> None:
    units = [unit for side in sides if side.spike for unit in side.units if unit.spike]
    rounding = next(side.edges.unit for side in sides)
    bases = [unit.base for unit in units]
    spikes = [unit.spike for unit in units]
    peaks = [base + spike for base, spike in zip(bases, spikes, strict=True)]
    nearest, floors = finals(bases, peaks, spikes, headroom=fit.headroom, unit=rounding)
    # Against what was handed out, not against the room: what is left over belongs to the DaemonSets.
    excess = sum(nearest) - sum(bases) - fit.headroom
    for unit, final, floor in zip(units, nearest, floors, strict=True):
        if excess > 0 and final > floor:
            excess -= final - floor
            final = floor
        unit.final = final
        unit.headroom = final - unit.base


def _foresee(foreseeing: Sequence[Side], sides: Sequence[Side], left: int) -> None:
    """Raise those of whom other nodes saw more by one common share of that, the largest that fits.

    Half of what is left is the most it takes: what is granted may not fall back for some minutes (cool-down), and the
    others must be able to grow meanwhile. Of a peak it is a share, as of any.
    """
    if left <= 0 or not foreseeing:
        return
    spikes = [
        unit.spike if unit.foreseen_base is None else unit.foreseen_peak - unit.foreseen_base
        for side in sides
        for unit in side.units
    ]
    largest, total = max(spikes), max(1, sum(spikes))

    def raised(side: Side, level: int) -> list[int]:
        amounts = []
        for unit in side.units:
            amount = unit.final
            if unit.foreseen_base is not None:
                peak = unit.foreseen_peak
                wish = unit.foreseen_base + -(-largest * (peak - unit.foreseen_base) // total)
                wish = min(-(-wish // side.edges.unit) * side.edges.unit, peak)
                if wish > amount:
                    more = amount + (wish - amount) * level // LEVELS
                    amount = max(amount, more if level == LEVELS else more - more % side.edges.unit)
            amounts.append(amount)
        return amounts

    level, _ = _highest(foreseeing, raised, _RoomLeft(left, left))
    for side in foreseeing:
        for unit, amount in zip(side.units, raised(side, level), strict=True):
            unit.foresight = amount - unit.final
            unit.final = amount
            unit.peak = max(unit.peak, amount)


def _lift(pressed: Sequence[Side], left: _RoomLeft) -> _RoomLeft:
    """Raise who is short now by one common share of what is lacking, the largest that fits; return what is left then.

    Of the room that nobody else has a claim to: a burst moves nobody else. Like any level (``_fill_up``) the share does
    not depend on what was granted before.
    """
    if min(left) < 0 or not pressed:
        return left
    level, rest = _highest(pressed, _lifted, left)
    for side in pressed:
        for unit, amount in zip(side.units, _lifted(side, level), strict=True):
            unit.urgent = amount - unit.final
            unit.final = amount
    return rest


def _ask(pressed: Sequence[Side]) -> None:
    """Let those who are short now ask for all of that, on a node that is too small: they come first where room is.

    Not those without a prediction: what they are given they keep, and others would go for it.
    """
    for side in pressed:
        for unit in side.units:
            if unit.pressing > unit.final and unit.origin is None:
                unit.urgent = unit.pressing - unit.final
                unit.final = unit.pressing


def _lifted(side: Side, level: int) -> list[int]:
    amounts = []
    for unit in side.units:
        amount = unit.final
        if unit.pressing > amount:
            origin = amount if unit.origin is None else unit.origin
            raised = origin + (unit.pressing - origin) * level // LEVELS
            if raised < unit.pressing:
                raised -= raised % side.edges.unit
            amount = max(amount, raised)
        amounts.append(amount)
    return amounts


def _fill_up(daemons: Sequence[Side], left: _RoomLeft) -> _RoomLeft:
    """Raise DaemonSets to one common level, the highest that fits: a share of their bases, then of their spikes.

    A level does not depend on what was granted before, so planning again after any part of it was applied gives the
    same level. Return what is left then: what they hold beyond their bases is all that is taken.
    """
    growing = [side for side in daemons if any(unit.peak > unit.base and unit.fixed is None for unit in side.units)]
    if not growing or min(left) < 0:
        return left
    level, rest = _highest(growing, _at_level, left, most=2 * LEVELS)
    for side in growing:
        for unit, amount in zip(side.units, _at_level(side, level), strict=True):
            unit.final = amount
    return rest


def _highest(
    sides: Sequence[Side], amounts_at: Callable[[Side, int], list[int]], left: _RoomLeft, *, most: int = LEVELS
) -> tuple[int, _RoomLeft]:
    """Find the highest level at which no more is taken than what is left, and what is left then; at 0 nothing is."""
    bases = sum(side.held([unit.base for unit in side.units]) for side in sides)
    finals = sum(side.held([unit.final for unit in side.units]) for side in sides)

    def rest_at(level: int) -> _RoomLeft:
        above_bases, above_finals = left.above_bases + bases, left.above_finals + finals
        for side in sides:
            amounts = amounts_at(side, level)
            above_finals -= side.held(amounts)
            above_bases -= side.held(
                [unit.base + amount - unit.final for unit, amount in zip(side.units, amounts, strict=True)]
            )
        return _RoomLeft(above_bases, above_finals)

    level = highest_level(lambda level: -min(rest_at(level)), 0, most=most)
    return level, rest_at(level)


def _at_level(side: Side, level: int) -> list[int]:
    amounts = []
    for unit in side.units:
        if level <= LEVELS:
            amount = unit.wanted_base * level // LEVELS
        else:
            amount = unit.wanted_base + (unit.peak - unit.wanted_base) * (level - LEVELS) // LEVELS
        if amount < unit.peak:
            amount -= amount % side.edges.unit
        amounts.append(max(unit.base, min(amount, unit.peak)))
    return amounts


_STANDING: Final = frozenset(
    {
        KeptReason.NODE_FULL,
        KeptReason.TOO_OLD,
        KeptReason.INFEASIBLE,
        KeptReason.DEFERRED,
        KeptReason.LIMIT_RANGE,
        KeptReason.TIER_FULL,
        KeptReason.EVICTION_PENDING,
    }
)
"""What does not pass by itself within the next turns; a cool-down or a resize under way does."""


def oom_evictions(entries: Sequence[PodEntry], memory: Fit) -> list[Eviction]:
    """Return who should go for its own sake, by name; the plan goes on with it, as nobody is sure to let it go."""
    if not memory.is_applied:
        return []
    evictions = []
    for entry in entries:
        killed = entry.constraint.killed
        if not killed or entry.is_evicted or not is_candidate(entry, (Resource.MEMORY,)):
            continue
        short = next(
            (
                unit
                for unit in entry.memory.units
                if (unit.name in killed or entry.memory.inside) and _is_short(unit, entry.memory)
            ),
            None,
        )
        if short is not None and _returns_larger_after(entry.memory):
            evictions.append(_eviction(entry, short))
    return evictions


def _is_short(unit: Unit, side: Side) -> bool:
    """Return whether a container lacks what it was seen to need, and will go on lacking it."""
    # What it lacks beyond a part that it is given may be so little that it will not be asked for.
    is_rest_small = unit.applied > (unit.request or 0) and is_small(unit.applied, unit.base, unit.edges or side.edges)
    if unit.base > unit.applied and unit.kept in _STANDING and not is_rest_small:
        return True
    limit, wish = unit.limit_applied, unit.own_limit_wish
    if limit is None or wish is None or wish <= limit:
        return False
    return (unit.limit_kept or unit.kept) in _STANDING


def _eviction(entry: PodEntry, unit: Unit) -> Eviction:
    reason = unit.kept or unit.limit_kept
    needs = amount_text(max(unit.base, unit.peak), Resource.MEMORY.unit)
    return Eviction(
        ref=entry.ref,
        workload=entry.demand.workload,
        resource=Resource.MEMORY,
        ranking=entry.demand.orders.ranking,
        spike=entry.memory.lasting_spike,
        is_out_of_memory=True,
        reason=f"{unit.name} was killed for want of memory, needs {needs} and cannot be given it here ({reason})",
    )
