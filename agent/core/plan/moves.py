"""What may be moved now: from what each unit should have to what it will have after all steps. Core, pure.

Whatever may not fall keeps what it has, and its present request counts. Growth is granted in a fixed order, urgent
pods first, then by namespace and name, as long as the node holds all of it together: with everybody who is still
there, those proposed for eviction included. What is short now is granted as much as there is room for, everything else
as a whole or not at all. Whatever is not granted waits, and does not make others move.

While pods that are proposed for eviction are still there, they are moved like others (``interim``), and before all else
those who have less than their bases are brought to one common share of them, the largest that fits: whoever lacks most
rises first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agent.core.cluster.qos import pod_qos_class
from agent.core.cluster.resource import Resource
from agent.core.orders.plan_options import DaemonSetGrowth
from agent.core.orders.windows import Disruption
from agent.core.plan.needs.demand import Constraint, KeptReason
from agent.core.plan.pod_change import Setting
from agent.core.plan.sizing.container_sizing import (
    Lowering,
    below_limit,
    is_little,
    is_small,
    limit_wish,
    why_not_lowered,
)
from agent.core.plan.sizing.entry import PlanRules, PodEntry, Side, Unit
from agent.core.plan.sizing.fit import Fit
from agent.core.plan.sizing.spike_sharing import LEVELS, highest_level
from agent.core.plan.tier_room import TierRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the node has, and what everybody holds of it now as the scheduler counts; one resource."""

    allocatable: int
    held: int
    tiers: TierRoom | None = None
    """Of memory: what the QoS tiers' own limits leave; None = they have none."""

    @property
    def free(self) -> int:
        """Return what is free before anything falls."""
        return max(0, self.allocatable - self.held)


def move(entries: Sequence[PodEntry], fit: Fit, room: Room, rules: PlanRules, *, is_pressed: bool) -> None:
    """Decide what each unit of one resource has after all steps, and why not what it should have."""
    resource = fit.resource
    stopped = _stopped(fit, rules)
    survivors: list[tuple[PodEntry, Side]] = []
    small: list[tuple[Side, Unit]] = []
    for entry in entries:
        side = entry.side(resource)
        if stopped is not None or (entry.is_evicted and entry.is_infeasible):
            _keep_all(side, stopped or KeptReason.NODE_FULL)
            continue
        survivors.append((entry, side))
        for unit in side.units:
            if unit.final != unit.applied and unit.fixed is None:
                _wish(entry, side, unit, rules, small, is_pressed=is_pressed)
            elif unit.fixed is not None:
                unit.kept = unit.fixed
            elif unit.final < unit.pressing:
                unit.kept = KeptReason.NODE_FULL
            elif unit.possible is not None:
                unit.kept = KeptReason.PROTECT
            elif unit.is_lifted:
                unit.kept = KeptReason.UPWARD_ONLY
    if stopped is not None:
        return
    is_shared = any(entry.is_evicted for entry in entries)
    if small:
        _let_fall(survivors, small, fit, is_shared=is_shared)
    _grant(survivors, fit.resource, room, is_shared=is_shared)
    for entry, side in survivors:
        for unit in side.units:
            if unit.limit is not None:
                _settle_limit(entry, side, unit, unit.limit, rules, is_pressed=is_pressed)


def _stopped(fit: Fit, rules: PlanRules) -> KeptReason | None:
    if not fit.is_applied:
        return KeptReason.NOT_APPLIED
    if not rules.gates.resize:
        return KeptReason.TOO_OLD
    return KeptReason.NODE_FULL if fit.is_infeasible else None


def _keep_all(side: Side, reason: KeptReason) -> None:
    for unit in side.units:
        unit.kept = unit.fixed or (reason if unit.final != unit.applied else None)
        if unit.limit_wish is not None and unit.limit_wish != unit.limit:
            unit.limit_kept = reason


def _wish(
    entry: PodEntry, side: Side, unit: Unit, rules: PlanRules, small: list[tuple[Side, Unit]], *, is_pressed: bool
) -> None:
    before = unit.request
    if before is None:
        unit.kept = KeptReason.NOT_STATED
        return
    if unit.final < before:
        reason = _why_not_fall(entry, unit)
        if reason is None and unit.final < unit.pressing:
            # Nothing is taken from who is short, even though the room could be claimed by others.
            reason = KeptReason.NODE_FULL
        if reason is None and unit.is_capped and before == unit.limit and unit.final == below_limit(before):
            reason = KeptReason.QOS  # equal today, and no reason to part but that no plan makes them equal
        if reason is None and unit.is_pair and unit.demand is not None and unit.demand.is_limit_young:
            reason = KeptReason.UPWARD_ONLY
        if reason is None and unit.is_pair and side.resource is Resource.MEMORY:
            reason = why_not_lowered(unit.final, _in_use(unit), lowering(entry, unit, rules, is_pressed=is_pressed))
    else:
        reason = _why_not_rise(entry, unit, side.resource, Setting.REQUEST)
    if reason is None and is_small(before, unit.final, unit.edges or side.edges):
        reason = KeptReason.SMALL_CHANGE
        if unit.final < before:
            small.append((side, unit))
    if reason is None and unit.final < before:
        reason = _why_not_fall_yet(entry, unit, before)
        if reason is not None:
            small.append((side, unit))
    unit.kept = reason
    if reason is None:
        unit.applied = unit.final
        side.is_moving = True
        if unit.final < unit.pressing:
            unit.kept = KeptReason.NODE_FULL


def _in_use(unit: Unit) -> int | None:
    return unit.demand.in_use if unit.demand is not None else None


def lowering(entry: PodEntry, unit: Unit, rules: PlanRules, *, is_pressed: bool) -> Lowering:
    """Return what holds for lowering memory limits of one container."""
    own = [container for container in entry.pod.sized_containers() if unit.name in ("", container.name)]
    runtimes = [container.runtime for container in own if container.runtime is not None]
    is_possible = rules.gates.memory_limit_down
    if not is_possible:
        is_possible = any(container.name == unit.name and container.restarts_for_memory for container in own)
    return Lowering(
        is_possible=is_possible,
        is_wanted=rules.options.memory_limits_lowered,
        is_pressed=is_pressed,
        margin_ratio=rules.options.memory_limit_margin_ratio,
        is_read_at_start=any(profile.reads_limit_at_start for profile in runtimes),
        heap_floor=sum(profile.limit_floor_bytes for profile in runtimes),
    )


def _why_not_fall(entry: PodEntry, unit: Unit) -> KeptReason | None:
    if entry.only_rises:
        return KeptReason.PROTECT
    if entry.constraint.shrink is not None:
        return entry.constraint.shrink
    if entry.is_evicted:
        return KeptReason.EVICTION_PENDING
    is_held = entry.demand.is_shrink_barred or (unit.demand is not None and unit.demand.is_upward_only)
    return KeptReason.UPWARD_ONLY if is_held else _why_not_now(entry, unit, Disruption.SHRINK)


def _why_not_now(entry: PodEntry, unit: Unit, disruption: Disruption | None = None) -> KeptReason | None:
    """Return why a change waits for a time at which the pod may be disturbed so, or restarted where it would be."""
    kinds = [kind for kind in (disruption, Disruption.RESTART if unit.is_restarted else None) if kind is not None]
    waits = [entry.demand.waits[kind] for kind in kinds if kind in entry.demand.waits]
    if not waits:
        return None
    moments = [wait.until_unix_seconds for wait in waits if wait.until_unix_seconds is not None]
    unit.waits_until_seconds = max(moments) if len(moments) == len(waits) else None
    return KeptReason.WINDOW


def _why_not_fall_yet(entry: PodEntry, unit: Unit, before: int) -> KeptReason | None:
    """Return why CPU with credit is not to fall yet; None = it may, or has no credit."""
    calm_falls = unit.demand.calm_falls if unit.demand is not None else None
    if calm_falls is None:
        return None
    if entry.constraint.calm_until_seconds is not None:
        unit.waits_until_seconds = entry.constraint.calm_until_seconds
        return KeptReason.CALM
    return None if calm_falls.is_worth(before, unit.final) else KeptReason.SMALL_FALL


def _why_not_rise(entry: PodEntry, unit: Unit, resource: Resource, setting: Setting) -> KeptReason | None:
    constraint: Constraint = entry.constraint
    if unit.demand is None or not unit.demand.is_urgent:
        return constraint.grow or _why_not_now(entry, unit)
    return KeptReason.IN_FLIGHT if (unit.name, resource, setting) in constraint.rising else constraint.urgent_grow


def _let_fall(
    survivors: Sequence[tuple[PodEntry, Side]], small: list[tuple[Side, Unit]], fit: Fit, *, is_shared: bool
) -> None:
    """Make falls that are small, or held calmly, after all where keeping them takes others' room, the largest first.

    Shared: a part that is kept for one to whom it would be a small change is its room as well. What was granted of a
    part before then makes no difference to who falls.
    """
    excess = sum(_held_calmly(side, is_shared=is_shared) for _, side in survivors) - fit.room
    if excess <= 0:
        return
    for side, unit in sorted(small, key=lambda pair: pair[1].final - pair[1].applied):
        before = side.held_applied()
        unit.applied, unit.kept, unit.waits_until_seconds = unit.final, None, None
        side.is_moving = True
        excess -= before - side.held_applied()
        if excess <= 0:
            return


def _held_calmly(side: Side, *, is_shared: bool) -> int:
    """Return what it holds after all steps, without what it is given for being short: that moves nobody else.

    Nor does what is given for what other nodes saw. But what is given without a prediction is not taken back as soon as
    that is over.
    """
    if not side.is_pressed and not is_shared and all(unit.foreseen_base is None for unit in side.units):
        return side.held_applied()
    amounts = []
    for unit in side.units:
        is_part_kept = is_shared and unit.kept is KeptReason.SMALL_CHANGE
        amount = max(unit.applied, unit.final) if is_part_kept else unit.applied
        given = unit.foresight + (unit.urgent if unit.origin is None else 0)
        amounts.append(amount - max(0, given + min(amount - unit.final, 0)))
    return side.held(amounts)


_PASSING: Final = frozenset({KeptReason.SMALL_CHANGE, KeptReason.COOL_DOWN, KeptReason.IN_FLIGHT})
"""What keeps a pod from growing and passes by itself: its part of what is free is kept for it meanwhile."""


class _Wish(NamedTuple):
    """Of one pod that would grow."""

    entry: PodEntry
    side: Side
    assured: list[int]
    """What each unit has without growing; then, what it has in any case."""
    reserved: list[int]
    """The same with what is kept for those that have to wait."""
    lowest: int
    """What the pod holds by that."""


def _grant(survivors: Sequence[tuple[PodEntry, Side]], resource: Resource, room: Room, *, is_shared: bool) -> None:
    """Grant growth as long as all of it fits beside what everybody holds once all that falls has fallen.

    Shared: first of all every base is granted as far as there is room, in equal parts.
    """
    left = room.allocatable - room.held
    foreseen = [
        (entry, side, unit, unit.applied) for entry, side in survivors for unit in side.units if _is_foreseen(unit)
    ]
    for _, _, unit, _ in foreseen:  # what others saw waits until everybody has what this node saw
        own = unit.final - unit.foresight
        unit.applied = own if unit.applied < (unit.request or 0) else max(own, unit.request or 0)
    wishing: list[_Wish] = []
    lowest_held: dict[Side, int] = {}
    for entry, side in survivors:
        rises = is_shared and any(unit.kept in _PASSING and unit.final > unit.applied for unit in side.units)
        if not side.is_moving and not rises:
            continue
        falls = False
        for unit in side.units:
            before = unit.request or 0
            if unit.applied > before:
                rises = True
            elif unit.applied < before:
                falls = True
        amounts = [min(unit.applied, unit.request or 0) for unit in side.units]
        lowest = side.held(amounts) if falls else side.counted
        left += side.counted - lowest
        lowest_held[side] = lowest
        if rises:
            wishing.append(_Wish(entry, side, amounts, amounts, lowest))
    if is_shared:
        wishing, left = _assured(wishing, left)
    for entry, side, assured, reserved, lowest in sorted(wishing, key=lambda wish_of: not wish_of.entry.is_urgent):
        wished = side.held_applied()
        below = entry.constraint.cpu_below_millicores
        if resource is Resource.MEMORY:
            below = entry.constraint.memory_below_bytes
        taken = max(0, side.held(_with_reserved(side, reserved)) - lowest)
        if below is not None and wished >= below:
            _withhold(side, [min(unit.applied, unit.request or 0) for unit in side.units], KeptReason.INFEASIBLE)
            continue
        if taken > 0 and taken > left:
            taken = _grant_part(side, assured, reserved, lowest, max(0, left))
        # The tiers last: what they grant is taken off them, and what the node has no room for is not granted.
        if _tier_grants(room, entry, side.held_applied() - side.counted):
            left -= taken
        else:
            _withhold(side, [min(unit.applied, unit.request or 0) for unit in side.units], KeptReason.TIER_FULL)
    if is_shared:
        _leave_small_parts(wishing)
    for entry, side, unit, wish in foreseen:
        granted = unit.applied
        if unit.kept is None and granted >= unit.final - unit.foresight:
            before = side.held_applied()
            unit.applied = wish
            # Where it falls, the rest of what it holds now is in what is left already.
            taken = max(0, side.held_applied() - max(before, lowest_held.get(side, side.counted)))
            if taken <= left and _tier_grants(room, entry, side.held_applied() - max(before, side.counted)):
                left -= taken
                continue
        unit.applied = granted
        unit.kept = unit.kept or KeptReason.NODE_FULL


def _assured(wishing: Sequence[_Wish], left: int) -> tuple[list[_Wish], int]:
    """Assure everybody of one common share of its base, the largest that fits; return the wishes so, and what is left.

    A share does not depend on what was granted before (``fit``). Where it is not the whole, nothing is left.
    """

    def taken_at(level: int) -> int:
        return sum(max(0, wish.side.held(_at_level(wish, level)) - wish.lowest) for wish in wishing)

    level = highest_level(taken_at, max(0, left))
    left = left - taken_at(level) if level == LEVELS else 0
    assured = []
    for wish in wishing:
        reserved = _at_level(wish, level)
        amounts = [
            before if unit.kept in _PASSING else amount
            for unit, before, amount in zip(wish.side.units, wish.assured, reserved, strict=True)
        ]
        for unit, before, amount in zip(wish.side.units, wish.assured, amounts, strict=True):
            if before < amount < unit.applied and is_small(amount, unit.applied, wish.side.edges):
                unit.applied = amount  # nor would the rest be asked for when this is done
        lowest = max(wish.lowest, wish.side.held(reserved))
        assured.append(wish._replace(assured=amounts, reserved=reserved, lowest=lowest))
    return assured, left


def _leave_small_parts(wishing: Sequence[_Wish]) -> None:
    """Leave those where they are to whom their part would be a small change; it is kept for them."""
    for wish in wishing:
        for unit in wish.side.units:
            before = unit.request or 0
            if before < unit.applied < unit.final and is_small(before, unit.applied, wish.side.edges):
                unit.applied, unit.kept = before, KeptReason.SMALL_CHANGE


def _at_level(wish: _Wish, level: int) -> list[int]:
    amounts = []
    for unit, before in zip(wish.side.units, wish.assured, strict=True):
        most = min(unit.final if unit.kept in _PASSING else unit.applied, unit.base)
        amount = unit.base * level // LEVELS
        if amount < most:
            amount -= amount % wish.side.edges.unit
        amounts.append(max(before, min(amount, most)))
    return amounts


def _tier_grants(room: Room, entry: PodEntry, growth: int) -> bool:
    """Return whether the QoS tiers' limits let a pod's requests grow by so much; they are asked about memory only."""
    return room.tiers is None or room.tiers.grant(pod_qos_class(entry.pod), growth)


def _is_foreseen(unit: Unit) -> bool:
    """Return whether it is to have more for what others saw: it rises for that, or falls less."""
    return unit.foresight > 0 and unit.applied == unit.final != unit.request


def _grant_part(side: Side, assured: Sequence[int], reserved: Sequence[int], lowest: int, left: int) -> int:
    """Grant what is urgent as far as there is room, one unit after the other; return how much that takes.

    The pod holds ``lowest`` by what is assured and reserved, and may hold ``left`` beyond that.
    """
    wishes = [unit.applied for unit in side.units]
    _withhold(side, assured, KeptReason.NODE_FULL)
    amounts = _with_reserved(side, reserved)
    for place, (unit, wish) in enumerate(zip(side.units, wishes, strict=True)):
        before = unit.applied
        if wish <= before or unit.demand is None or not unit.demand.is_urgent:
            continue
        part = min(wish, side.most_at(place, amounts, lowest + left))
        if part < wish:
            part -= part % side.edges.unit
        if part > before and not is_small(before, part, unit.edges or side.edges):
            unit.applied = amounts[place] = part
            unit.kept = None if part == unit.final >= unit.pressing else KeptReason.NODE_FULL
    return max(0, side.held(amounts) - lowest)


def _with_reserved(side: Side, reserved: Sequence[int]) -> list[int]:
    return [max(unit.applied, amount) for unit, amount in zip(side.units, reserved, strict=True)]


def _withhold(side: Side, assured: Sequence[int], reason: KeptReason) -> None:
    for unit, amount in zip(side.units, assured, strict=True):
        if unit.applied > amount:
            unit.applied, unit.kept = amount, reason


def _settle_limit(entry: PodEntry, side: Side, unit: Unit, limit: int, rules: PlanRules, *, is_pressed: bool) -> None:
    is_freed = unit.fixed is KeptReason.HPA and unit.is_limit_raised
    if (unit.fixed is not None and not is_freed) or unit.is_limit_fixed:
        unit.limit_kept = unit.fixed if unit.fixed is not KeptReason.NOT_STATED else None
        return
    if unit.is_pair:
        unit.limit_applied = unit.applied
        unit.limit_kept = unit.kept
        return
    wish = unit.limit_wish
    if unit.is_limit_raised and wish is not None:
        wish = max(wish, limit)
    if wish is not None and unit.request and unit.demand is not None and unit.demand.is_limit_proportional:
        scaled = limit * unit.applied // unit.request
        wish = max(scaled, min(wish, limit)) if scaled <= limit else min(scaled, max(wish, limit))
    differs = unit.request != limit
    after = limit_wish(limit, wish, unit.applied, differs=differs)
    if after == limit:
        if unit.is_limit_protected:
            unit.limit_kept = KeptReason.PROTECT
        elif unit.demand is not None and unit.demand.is_limit_read:
            unit.limit_kept = KeptReason.READ_AT_START
        return
    # The request passes the limit, which has to follow whatever the amount.
    is_needed = limit_wish(limit, None, unit.applied, differs=differs) > limit
    if after > limit:
        reason = None if is_needed else _why_limit_stays(entry, unit, side.resource, rules)
    else:
        reason = _why_not_fall(entry, unit)
        if reason is None and side.resource is Resource.MEMORY:
            reason = why_not_lowered(after, _in_use(unit), lowering(entry, unit, rules, is_pressed=is_pressed))
    if reason is None and not is_needed and is_little(limit, after, unit.edges or side.edges):
        reason = KeptReason.SMALL_CHANGE
    unit.limit_kept = reason
    if reason is None:
        unit.limit_applied = after


def _why_limit_stays(entry: PodEntry, unit: Unit, resource: Resource, rules: PlanRules) -> KeptReason | None:
    if entry.is_daemon and rules.options.daemon_set_growth is DaemonSetGrowth.NEVER:
        return KeptReason.NOT_APPLIED
    return _why_not_rise(entry, unit, resource, Setting.LIMIT)
