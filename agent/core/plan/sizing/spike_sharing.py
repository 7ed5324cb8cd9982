"""Sharing one resource of a node: what fits, who goes first, who gets how much of the largest spike. Core, pure.

Whole numbers of one resource, millicores or bytes. Nothing here knows pods or Kubernetes. *Fits* means that what is
sure to be handed out fits: the bases of all and the largest spike once. ``final = base + headroom x own spike / all
spikes``, so base <= final <= peak, and the finals sum up to the bases and the headroom. That is the largest spike, or
more where pods were seen to spike together and there is room: nobody has to go for that.

Source:
    The CruiseKube algorithm document; facts on CruiseKube, sections 5 to 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from agent.core.orders.order import Ranking
from agent.core.orders.plan_options import FitRule

LEVELS: Final = 1 << 20
"""In how many steps a common level rises."""
_ORDER: Final = {Ranking.LOW: 0, Ranking.MEDIUM: 1, Ranking.HIGH: 2}


def needed(*, total: int, literal_total: int, spike: int, rule: FitRule) -> int:
    """Return what must be available for a node to fit; equality fits.

    The total adds up the pods by their bases, the literal one each with its own largest spike on top.
    """
    return spike + (total if rule is FitRule.SHARED else literal_total)


def eviction_order(ranking: Ranking, spike: int, name: tuple[str, ...]) -> tuple[int, int, tuple[str, ...]] | None:
    """Return a key that sorts those who go first to the front; None = it never goes.

    The lower ranking goes first, then the larger spike, then the name, so that results can be repeated.
    """
    place = _ORDER.get(ranking)
    return None if place is None else (place, -spike, name)


def handed_out(*, spike: int, joint: int, spikes: int, claimed: int, room: int) -> int:
    """Return the headroom: the largest spike, or the joint one where that is more; of either only what is left.

    The joint one says nothing beyond all spikes in sum, as nobody is given more than its own. What is claimed of the
    room, as it presses now or is sustained, goes before what may come.
    """
    return max(0, min(max(spike, min(joint, spikes, room - claimed)), room))


def highest_level(taken_at: Callable[[int], int], left: int, *, most: int = LEVELS) -> int:
    """Return the highest level, 0 to most, at which no more is taken than what is left; at 0 nothing is."""
    if taken_at(most) <= left:
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if taken_at(middle) <= left else (low, middle)
    return low


def finals(
    bases: Sequence[int], peaks: Sequence[int], spikes: Sequence[int], *, headroom: int, unit: int
) -> tuple[list[int], list[int]]:
    """Share the headroom out by spikes, to the nearest multiple of the unit within base and peak.

    Second comes what each would be if it were rounded down: those sum up to no more than bases and headroom.
    """
    spike_sum = sum(spikes)
    if spike_sum == 0 or headroom == 0:
        return list(bases), list(bases)
    nearest: list[int] = []
    floors: list[int] = []
    for base, peak, spike in zip(bases, peaks, spikes, strict=True):
        if spike == 0:
            nearest.append(base)
            floors.append(base)
            continue
        share = headroom * spike
        down = (base + share // spike_sum) // unit * unit
        is_nearer_above = 2 * ((base - down) * spike_sum + share) >= unit * spike_sum
        final = down + unit if is_nearer_above else down
        nearest.append(base if final < base else min(final, peak))
        floors.append(max(base, down))
    return nearest, floors
