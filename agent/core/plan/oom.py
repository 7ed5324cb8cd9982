"""Who should go because it is killed for want of memory and cannot be given more where it is. Core, pure.

After a kill the memory that it showed to be needed is the base (``policies.cruise_oom``) and the container's limit
rises; nearly always that is all. Where the node, the kubelet or the API server does not let it rise, only another node
helps. Whether and when anybody goes is the webhook's to say, as of every proposal. A container that would have to be
restarted, which nobody allowed, is not sized at all, and nobody goes for it.

Source: facts cruisekube, sections 9 (raise in place, else evict; modes, ranking and DaemonSet rule hold) and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent.core.cluster.resource import Resource
from agent.core.numbers.amount_text import amount_text
from agent.core.plan.demand import Kept
from agent.core.plan.entry import Entry, Unit
from agent.core.plan.fit import Fit, is_candidate, returns_larger
from agent.core.plan.plan import Eviction

_STANDING: Final = frozenset(
    {
        Kept.NODE_FULL,
        Kept.TOO_OLD,
        Kept.INFEASIBLE,
        Kept.DEFERRED,
        Kept.LIMIT_RANGE,
    }
)
"""What does not pass by itself within the next turns; a cool-down or a resize under way does."""


def oom_evictions(entries: Sequence[Entry], memory: Fit) -> list[Eviction]:
    """Give who should go for its own sake, by name; the plan goes on with it, as nobody is sure to let it go.

    Args:
        entries: All pods that may be optimised, with what they are to be given.
        memory: The node's memory; nobody goes where it is not applied.
    """
    if not memory.is_applied:
        return []
    found = []
    for entry in entries:
        killed = entry.constraint.killed
        if not killed or entry.is_evicted or not is_candidate(entry, (Resource.MEMORY,)):
            continue
        short = next(
            (unit for unit in entry.memory.units if (unit.name in killed or entry.memory.inside) and _is_short(unit)),
            None,
        )
        if short is not None and returns_larger(entry.memory):
            found.append(_eviction(entry, short))
    return found


def _is_short(unit: Unit) -> bool:
    """Say whether a container lacks what it was seen to need, and will go on lacking it."""
    if unit.base > unit.applied and unit.kept in _STANDING:
        return True
    limit, wish = unit.limit_applied, unit.own_limit_wish
    if limit is None or wish is None or wish <= limit:
        return False
    return (unit.limit_kept or unit.kept) in _STANDING


def _eviction(entry: Entry, unit: Unit) -> Eviction:
    kept = unit.kept or unit.limit_kept
    needs = amount_text(max(unit.base, unit.peak), Resource.MEMORY.unit)
    return Eviction(
        ref=entry.ref,
        workload=entry.demand.workload,
        resource=Resource.MEMORY,
        ranking=entry.demand.orders.ranking,
        spike=entry.memory.lasting_spike,
        is_out_of_memory=True,
        reason=f"{unit.name} was killed for want of memory, needs {needs} and cannot be given it here ({kept})",
    )
