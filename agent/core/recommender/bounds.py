"""What every policy's answer passes through: least and most, memory in use, rounding, limits, QoS class, small changes.

Core, pure. Many containers at once, one row each. The order of the rules is the order of ``Bound``; each is applied to
what the one before left, so a later rule wins: the most allowed over the least, memory in use over the most allowed,
a limit that stays over all of them.

The QoS class is kept row by row, as one row cannot see its whole pod. A Guaranteed pod's request and limit are equal
and move together. A Burstable pod stays Burstable as long as one request differs from its limit or is not stated, so a
request that differs from its limit now never becomes equal to it. Where they are equal in a Burstable pod they may
part: that cannot make the pod Guaranteed. Nothing is stated that was not stated before: a resize cannot add a first
request to a BestEffort pod, and adding a limit counts as lowering one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.core.cluster.resource import LARGEST, Resource
from agent.core.cluster.runtime_profile import NEARLY_FULL_RATIO
from agent.core.numbers.arrays import Bools, Floats, Ints
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.recommender.policy import CurrentAmounts, LimitRule, Proposals, Steps
from agent.core.recommender.recommendation import Bound
from agent.core.recommender.rounding import proportional_limits

_FLOAT_NOISE: Final = 1e-9
"""What a fraction may exceed a whole number by and still be it: 0.25 cores x 1000 is 250 millicores, not 251."""

_BIT: Final = {bound: 1 << index for index, bound in enumerate(Bound)}
_WORDS: Final = {
    Bound.MIN: "raised to the least allowed",
    Bound.MAX: "lowered to the most allowed",
    Bound.IN_USE: "held by the memory in use",
    Bound.HEAP: "held by the fixed heap",
    Bound.ROUNDED: "rounded up",
    Bound.UPWARD_ONLY: "kept: no prediction yet that could lower it",
    Bound.LIMIT: "lowered to the limit, which stays",
    Bound.QOS: "changed to keep the QoS class",
    Bound.SMALL_CHANGE: "kept: the change is too small to be worth making",
    Bound.LIMIT_UNFILLED: "not raised",
    Bound.LIMIT_RAISED: "raised to the request",
    Bound.READ_AT_START: "not lowered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedAnswer:
    """The answer after the bounds. Shape ``(n,)`` each; whole numbers, 0 where the mask is False."""

    cpu_request_millicores: Floats
    has_cpu: Bools
    cpu_limit_millicores: Floats
    has_cpu_limit: Bools
    """The limit changes to this; False = it stays as it is, or there is none."""
    cpu_bounds: Ints
    """Bit fields: see ``bounds_of``."""
    memory_request_bytes: Floats
    has_memory: Bools
    memory_limit_bytes: Floats
    has_memory_limit: Bools
    """As ``has_cpu_limit``."""
    memory_bounds: Ints


def bounds_of(bits: int) -> tuple[Bound, ...]:
    """Return the bounds that a bit field names, in the order in which they are applied."""
    return _BOUNDS_OF_BITS[bits]


def _all_bits() -> tuple[tuple[Bound, ...], ...]:
    return tuple(tuple(bound for bound, bit in _BIT.items() if bits & bit) for bits in range(1 << len(_BIT)))


_BOUNDS_OF_BITS: Final = _all_bits()


@dataclass(frozen=True, slots=True)
class _Edges:
    """The options of one resource."""

    least: float
    most: float
    multiple: int
    smallest: float
    ratio: float


@dataclass(frozen=True, slots=True)
class _Side:
    """One resource of all rows: what is proposed, and what is stated."""

    proposed: Floats
    has: Bools
    upward_only: Bools
    request: Floats
    has_request: Bools
    limit: Floats
    has_limit: Bools
    in_use: Floats | None
    """The least request that memory in use allows, 0 where that is not known; None = no such rule."""
    limit_floor: Floats | None
    """What a limit may be lowered to, infinite where it may not be; None = to anything."""
    own_limit: Floats | None
    """The limit the policy names, 0 where it names none; None = it names none in any row."""
    heap_floor: Floats | None = None
    """What a fixed heap needs, which the limit does not fall below, 0 where there is none; None = none in any row."""
    heap_request: Floats | None = None
    """The least request for it, 0 where there is none; None with that."""
    is_read_at_start: Bools | None = None
    """Where a runtime sized its heap by the limit, which is not lowered; None = in no row."""
    is_unfilled: Bools | None = None
    """Where a heap was sized at the start, and the limit was never nearly reached: it is not raised; None = nowhere."""


def apply(
    proposals: Proposals, stated: CurrentAmounts, options: BoundsOptions, *, steps: Steps | None = None
) -> BoundedAnswer:
    """Bound the answers of a policy; what is not finite counts as not known.

    Applying the result and asking again changes nothing more, as long as nothing else changes. A request or limit of 0
    counts as not stated, as to Kubernetes. Steps are asked for with one row only.
    """
    controlled = options.controlled_resources
    cpu = _Side(
        proposed=proposals.cpu_request_millicores,
        has=proposals.has_cpu if controlled is not ControlledResources.MEMORY else np.zeros_like(proposals.has_cpu),
        upward_only=proposals.cpu_upward_only,
        request=stated.cpu_request_millicores,
        has_request=stated.has_cpu_request,
        limit=stated.cpu_limit_millicores,
        has_limit=stated.has_cpu_limit,
        in_use=None,
        limit_floor=None,
        own_limit=None,
    )
    ratio = options.memory_in_use_ratio
    keeps = stated.keeps_memory_limit
    may_lower = stated.has_memory_current if keeps is None else stated.has_memory_current & ~keeps
    memory_edges = _Edges(
        least=max(options.min_memory_bytes, 1),
        most=min(options.max_memory_bytes or LARGEST, LARGEST),
        multiple=options.round_memory_bytes,
        smallest=options.smallest_memory_change_bytes,
        ratio=options.smallest_change_ratio,
    )
    readers = stated.limit_readers
    memory = _Side(
        proposed=proposals.memory_request_bytes,
        has=proposals.has_memory if controlled is not ControlledResources.CPU else np.zeros_like(proposals.has_memory),
        upward_only=proposals.memory_upward_only,
        request=stated.memory_request_bytes,
        has_request=stated.has_memory_request,
        limit=stated.memory_limit_bytes,
        has_limit=stated.has_memory_limit,
        in_use=np.ceil(stated.working_set_bytes * (stated.has_working_set * ratio)),
        limit_floor=np.where(may_lower, np.ceil(stated.memory_current_bytes * ratio), np.inf),
        own_limit=_own_limit(proposals, options.round_memory_bytes),
        heap_floor=stated.heap_floor_bytes,
        heap_request=_heap_request(proposals, stated, memory_edges.most),
        is_read_at_start=None if readers is None else np.array([reader is not None for reader in readers]),
    )
    memory = replace(memory, is_unfilled=_unfilled(proposals, memory, memory_edges))
    cpu_edges = _Edges(
        least=max(options.min_cpu_millicores, 1),  # a request of 0 would be none, and of another class
        most=min(options.max_cpu_millicores or LARGEST, LARGEST),
        multiple=options.round_cpu_millicores,
        smallest=options.smallest_cpu_change_millicores,
        ratio=options.smallest_change_ratio,
    )
    rule = proposals.limit_rule
    guaranteed = stated.is_guaranteed
    has_cpu = cpu.has & np.isfinite(cpu.proposed)
    cpu_marks = _Marks(Resource.CPU, has_cpu, steps)
    cpu_request, cpu_limit, has_cpu_limit = _bounded(cpu, has_cpu, cpu_edges, rule, guaranteed, cpu_marks)
    has_memory = memory.has & np.isfinite(memory.proposed)
    memory_marks = _Marks(Resource.MEMORY, has_memory, steps)
    if steps is not None and not may_lower[0]:
        reason = ": memory.coldFile is exclude" if stated.has_memory_current[0] else " while memory in use is not known"
        memory_marks.limit_note = f"not lowered{reason}"
    if steps is not None and readers is not None and readers[0] is not None:
        memory_marks.reader_note = f"{readers[0]} reads its limit at start"
    if steps is not None and memory.is_unfilled is not None:
        memory_marks.unfilled_note = (
            f"its heap was sized at the start, and no more than {NEARLY_FULL_RATIO:.0%} of it was ever used"
        )
    memory_request, memory_limit, has_memory_limit = _bounded(
        memory, has_memory, memory_edges, rule, guaranteed, memory_marks
    )
    return BoundedAnswer(
        cpu_request_millicores=cpu_request,
        has_cpu=has_cpu,
        cpu_limit_millicores=cpu_limit,
        has_cpu_limit=has_cpu_limit,
        cpu_bounds=cpu_marks.bits * has_cpu,
        memory_request_bytes=memory_request,
        has_memory=has_memory,
        memory_limit_bytes=memory_limit,
        has_memory_limit=has_memory_limit,
        memory_bounds=memory_marks.bits * has_memory,
    )


class _Marks:
    """Notes which rule changed which row, and tells the steps when someone asks."""

    def __init__(self, resource: Resource, has: Bools, steps: Steps | None) -> None:
        self.bits: Ints = np.zeros(has.size, dtype=np.int64)
        self._resource = resource
        # A row without an answer goes through the rules as well; nothing of that is told.
        self._steps = steps if steps is not None and has[0] else None
        self.limit_note = ""
        """Why the limit of the row that is told about may not be lowered."""
        self.reader_note = ""
        """The same of one that was read at the start of what runs there."""
        self.unfilled_note = ""
        """Why it is not raised."""

    def take(self, bound: Bound, before: Floats, after: Floats, *, of: str = "request") -> Floats:
        """Record the rows that a rule changed; return what it made of them."""
        self.note(bound, after != before, before, after, of=of)
        return after

    def note(self, bound: Bound, changed: Bools, before: Floats, after: Floats, *, of: str) -> None:
        self.bits |= changed * _BIT[bound]
        if self._steps is not None and changed[0]:
            unit = self._resource.unit
            note = self.limit_note if bound is Bound.IN_USE else ""
            note = self.reader_note if bound is Bound.READ_AT_START else note
            note = self.unfilled_note if bound is Bound.LIMIT_UNFILLED else note
            self._steps.say(
                self._resource.value, f"{of} {_WORDS[bound]}", float(after[0]), unit, note, before=float(before[0])
            )


def _bounded(
    side: _Side, has: Bools, edges: _Edges, rule: LimitRule, is_guaranteed: Bools, marks: _Marks
) -> tuple[Floats, Floats, Bools]:
    """Bound one resource; return the request, then the limit and whether it changes."""
    has_request = side.has_request & (side.request > 0)
    has_limit = side.has_limit & (side.limit > 0)
    value = _least_and_most(np.where(has, side.proposed, 0.0), side, edges, marks)
    if np.count_nonzero(side.upward_only):
        # To Kubernetes a limit without a request is its own request.
        present = np.where(has_request, side.request, np.where(has_limit, side.limit, 0.0))
        value = marks.take(Bound.UPWARD_ONLY, value, np.where(side.upward_only, np.maximum(value, present), value))
    if not np.count_nonzero(has_limit):
        value = _worth_changing(value, side, edges, has_request, marks)
        return value * has, np.zeros_like(value), np.zeros_like(has)

    side = _without_idle_raise(side, has_limit, marks)
    is_equal = has_limit & (~has_request | (side.request == side.limit))
    is_own = has_limit & (side.own_limit > 0) if side.own_limit is not None else np.zeros_like(has)
    is_pair = is_equal if rule is LimitRule.PROPORTIONAL else is_equal & (is_guaranteed | is_own)
    has_pair = bool(np.count_nonzero(is_pair))
    gap = (~is_equal).astype(np.float64)
    if has_pair:
        value = _as_pair(value, side, edges, is_pair, marks)
    if side.is_unfilled is not None:
        most = np.where(side.is_unfilled & has_limit, side.limit - gap, np.inf)
        value = marks.take(Bound.LIMIT_UNFILLED, value, np.minimum(value, most))
    if rule is LimitRule.KEEP:
        value = _below_limit(value, side.limit - gap, has_limit & ~is_pair & ~is_own, side.limit, marks)
    value = _worth_changing(value, side, edges, has_request, marks)
    limit = side.limit
    if rule is LimitRule.PROPORTIONAL:
        is_moved = has_limit & ~is_pair & (value != side.request)
        limit = np.where(is_moved, _proportional(side, is_moved, value), limit)
        if side.is_unfilled is not None:
            capped_limit = np.where(side.is_unfilled & is_moved, np.minimum(limit, side.limit), limit)
            limit = marks.take(Bound.LIMIT_UNFILLED, limit, capped_limit, of="limit")
    if rule is not LimitRule.KEEP or side.own_limit is not None:
        limit = _single_limits(limit, value + gap, side, edges, is_own, has_limit & ~is_pair, marks)
    if has_pair:
        pair = np.where(is_pair, value, limit)
        if rule is not LimitRule.PROPORTIONAL:
            marks.note(Bound.QOS, is_pair & ~is_own & (pair != side.limit), side.limit, pair, of="limit")
        limit = pair
    changes = has & has_limit & (limit != side.limit)
    return value * has, limit * changes, changes


def _without_idle_raise(side: _Side, has_limit: Bools, marks: _Marks) -> _Side:
    """Return a resource whose policy names no larger limit where nothing would use it."""
    if side.is_unfilled is None or side.own_limit is None:
        return side
    capped_limit = np.where(side.is_unfilled & has_limit, np.minimum(side.own_limit, side.limit), side.own_limit)
    return replace(side, own_limit=marks.take(Bound.LIMIT_UNFILLED, side.own_limit, capped_limit, of="limit"))


def _least_and_most(value: Floats, side: _Side, edges: _Edges, marks: _Marks) -> Floats:
    """Raise to the least, lower to the most, raise to the memory in use and the heap, round up."""
    value = marks.take(Bound.MIN, value, np.maximum(value, edges.least))
    value = marks.take(Bound.MAX, value, np.minimum(value, edges.most))
    if side.in_use is not None:
        value = marks.take(Bound.IN_USE, value, np.maximum(value, side.in_use))
    if side.heap_request is not None:
        value = marks.take(Bound.HEAP, value, np.maximum(value, side.heap_request))
    value = np.ceil(value - _FLOAT_NOISE)
    if edges.multiple > 1:
        # Rounding does not pass the most allowed; what is past it already is memory in use, and stays as it is.
        rounded = np.minimum(np.ceil(value / edges.multiple) * edges.multiple, edges.most)
        value = marks.take(Bound.ROUNDED, value, np.maximum(rounded, value))
    return value


def _as_pair(value: Floats, side: _Side, edges: _Edges, is_pair: Bools, marks: _Marks) -> Floats:
    """Return the request that is the limit too: at least what the policy wants as a limit and what is in use allows."""
    if side.own_limit is not None:
        wanted = np.where(is_pair, np.minimum(side.own_limit, edges.most), 0.0)
        value = marks.take(Bound.QOS, value, np.maximum(value, wanted))
    if side.limit_floor is not None:
        held = np.where(is_pair, np.minimum(side.limit_floor, side.limit), 0.0)
        value = marks.take(Bound.IN_USE, value, np.maximum(value, held))
    if side.heap_floor is not None:
        held = np.where(is_pair, np.minimum(side.heap_floor, side.limit), 0.0)
        value = marks.take(Bound.HEAP, value, np.maximum(value, held))
    if side.is_read_at_start is not None:
        held = np.where(is_pair & side.is_read_at_start, side.limit, 0.0)
        value = marks.take(Bound.READ_AT_START, value, np.maximum(value, held))
    return value


def _below_limit(value: Floats, below: Floats, is_capped: Bools, limit: Floats, marks: _Marks) -> Floats:
    """Cap by a limit that stays; by one unit less where the two differ today."""
    value = marks.take(Bound.LIMIT, value, np.where(is_capped, np.minimum(value, limit), value))
    return marks.take(Bound.QOS, value, np.where(is_capped, np.minimum(value, below), value))


def _worth_changing(value: Floats, side: _Side, edges: _Edges, has_request: Bools, marks: _Marks) -> Floats:
    """Keep the present request where the difference is small and the request is one that the bounds allow."""
    request = side.request
    least = edges.least if side.in_use is None else np.maximum(edges.least, side.in_use)
    if side.heap_request is not None:
        least = np.maximum(least, side.heap_request)
    is_kept = np.abs(value - request) < np.maximum(request * edges.ratio, edges.smallest)
    is_kept &= has_request & (request >= least) & (request <= edges.most)
    return marks.take(Bound.SMALL_CHANGE, value, np.where(is_kept, request, value))


def _single_limits(
    limit: Floats, lowest: Floats, side: _Side, edges: _Edges, is_own: Bools, is_single: Bools, marks: _Marks
) -> Floats:
    """Return the limits that do not move as one with their request; ``lowest`` is the least that goes with it."""
    if side.own_limit is not None:
        limit = np.where(is_own, side.own_limit, limit)
    limit = np.where(is_single, limit, side.limit)
    lowest = np.where(is_single, lowest, 0.0)
    limit = marks.take(Bound.LIMIT_RAISED, limit, np.maximum(limit, lowest), of="limit")
    if side.limit_floor is not None:
        held = np.maximum(limit, np.minimum(side.limit_floor, side.limit))
        limit = marks.take(Bound.IN_USE, limit, held, of="limit")
    if side.heap_floor is not None:
        held = np.maximum(limit, np.minimum(side.heap_floor, side.limit))
        limit = marks.take(Bound.HEAP, limit, held, of="limit")
    if side.is_read_at_start is not None:
        held = np.where(side.is_read_at_start, np.maximum(limit, side.limit), limit)
        limit = marks.take(Bound.READ_AT_START, limit, held, of="limit")
    if side.own_limit is not None:
        held = np.where(side.upward_only, np.maximum(limit, side.limit), limit)
        limit = marks.take(Bound.UPWARD_ONLY, limit, held, of="limit")
        is_small = np.abs(limit - side.limit) < np.maximum(side.limit * edges.ratio, edges.smallest)
        limit = np.where(is_own & is_small & (side.limit >= lowest), side.limit, limit)
    return limit


def _proportional(side: _Side, is_asked: Bools, value: Floats) -> Floats:
    """Move limits in proportion to their requests where asked, exact to the last byte; 0 elsewhere."""
    limits, requests, wanted = (
        np.minimum(amounts * is_asked, LARGEST).astype(np.int64) for amounts in (side.limit, side.request, value)
    )
    moved, *_ = proportional_limits(limits, requests * side.has_request, wanted)
    return np.minimum(moved.astype(np.float64), LARGEST)


def _heap_request(proposals: Proposals, stated: CurrentAmounts, most: float) -> Floats | None:
    """Return the least request for a fixed heap and what is beside it: at least a quarter, or what was used beyond it.

    It raises a request no further than to the most allowed; one that is larger is not lowered below what it needs.
    """
    floor = stated.heap_floor_bytes
    if floor is None:
        return None
    used = np.where(proposals.has_memory & np.isfinite(proposals.memory_peak_bytes), proposals.memory_peak_bytes, 0.0)
    needed = np.where(floor > 0, np.ceil(np.maximum(floor, used)), 0.0)
    return np.minimum(needed, np.maximum(most, stated.memory_request_bytes * stated.has_memory_request))


def _unfilled(proposals: Proposals, memory: _Side, edges: _Edges) -> Bools | None:
    """Return where a heap was sized at the start and the limit was never nearly reached; None = no such heap is there.

    As ``RuntimeProfile.leaves_unfilled``; what the least request or the memory in use need raises it as well.
    """
    if memory.heap_floor is None and memory.is_read_at_start is None:
        return None
    nothing = np.zeros_like(memory.limit)
    floor = nothing if memory.heap_floor is None else memory.heap_floor
    in_use = nothing if memory.in_use is None else memory.in_use
    peak_bytes = proposals.memory_peak_bytes if proposals.memory_seen_bytes is None else proposals.memory_seen_bytes
    seen = np.where(proposals.has_memory & np.isfinite(peak_bytes) & (peak_bytes > 0), peak_bytes, np.inf)
    has_heap = floor > 0 if memory.is_read_at_start is None else (floor > 0) | memory.is_read_at_start
    needed = np.maximum(np.maximum(floor, in_use), edges.least)
    unfilled: Bools = has_heap & (seen <= memory.limit * NEARLY_FULL_RATIO) & (needed <= memory.limit)
    return unfilled


def _own_limit(proposals: Proposals, multiple: int) -> Floats | None:
    has = proposals.has_memory_limit & np.isfinite(proposals.memory_limit_bytes)
    if not np.count_nonzero(has):
        return None
    named = np.where(has, proposals.memory_limit_bytes, 0.0)
    rounded: Floats = np.minimum(np.ceil(named / multiple) * multiple, LARGEST)
    return rounded
