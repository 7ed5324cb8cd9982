"""What one container is given of one resource, by rule: bounds, rounding, limit, smallest change. Core, pure.

The planner sizes by these rules, and a single container can be sized by them alone. Millicores or bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent.core.orders.policy_options import BoundsOptions
from agent.core.plan.needs.demand import KeptReason

MOST: Final = (1 << 63) - 1
"""Of any amount, millicores or bytes: what Kubernetes holds. Amounts are whole here, so nothing is rounded below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """The bounds of one resource."""

    least: int
    most: int
    """Wins over the least."""
    unit: int
    """Requests and limits are multiples of it."""
    smallest: int
    """A smaller change is not worth making ..."""
    ratio: float
    """... nor one below this share of what is there."""

    def narrowed(self, least: int | None, most: int | None) -> Edges:
        """Return the bounds where a pod orders its own; None = as they are, and a least of 0 leaves a request of one.

        A request of 0 would be none at all to Kubernetes, and no resize takes one away.
        """
        if least is None and most is None:
            return self
        return Edges(
            least=self.least if least is None else max(least, 1),
            most=self.most if most is None else most,
            unit=self.unit,
            smallest=self.smallest,
            ratio=self.ratio,
        )


def cpu_edges(options: BoundsOptions) -> Edges:
    """Return the bounds of CPU, millicores."""
    return Edges(
        least=options.min_cpu_millicores,
        most=min(options.max_cpu_millicores or MOST, MOST),
        unit=options.round_cpu_millicores,
        smallest=options.smallest_cpu_change_millicores,
        ratio=options.smallest_change_ratio,
    )


def memory_edges(options: BoundsOptions) -> Edges:
    """Return the bounds of memory, bytes."""
    return Edges(
        least=max(options.min_memory_bytes, 1),  # a request of 0 would be none, and of another class
        most=min(options.max_memory_bytes or MOST, MOST),
        unit=options.round_memory_bytes,
        smallest=options.smallest_memory_change_bytes,
        ratio=options.smallest_change_ratio,
    )


def bounded(amount: int, edges: Edges) -> int:
    """Raise to the least, lower to the most, round up though never past the most."""
    if amount < edges.least:
        amount = edges.least
    if amount >= edges.most:
        return edges.most
    rounded = -(-amount // edges.unit) * edges.unit
    return rounded if rounded < edges.most else edges.most


def is_little(before: int, after: int, edges: Edges) -> bool:
    """Return whether a difference is too small to be worth a change."""
    difference = after - before if after > before else before - after
    return difference < edges.smallest or difference < before * edges.ratio


def is_small(before: int, after: int, edges: Edges) -> bool:
    """Return whether a request may stay as it is: the difference is small, and the bounds allow what is there."""
    return edges.least <= before <= edges.most and is_little(before, after, edges)


def below_limit(limit: int) -> int:
    """Return the largest request below a limit that stays.

    A Burstable pod is one as long as one request differs from its limit, so what is planned always differs. (A request
    that equals its limit today is kept where it would fall by this one unit only.)
    """
    return max(limit - 1, 1)


def limit_within(wish: int, written: int | None, most_request: int, ratio: float) -> int:
    """Return a memory limit within ``ratio`` times the largest request allowed; one that was written larger stays.

    A wish above that neither lifts a limit past it nor pulls a larger one down: the author allowed that much.
    """
    most = int(most_request * ratio)
    return wish if wish <= most else max(most, written or 0)


def pair(peak: int, limit_wish: int | None) -> int:
    """Return a request that is its own limit as well: it holds the peak, and what the limit should be, by itself."""
    return peak if limit_wish is None else max(peak, limit_wish)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """What must hold for a memory limit to fall."""

    is_possible: bool
    """API server and kubelet can do it, or the container may be restarted for it."""
    is_wanted: bool
    """``plan.memoryLimitsLowered``."""
    is_pressed: bool
    """The node is short of memory: it would reclaim, then kill."""
    margin_ratio: float
    """The limit stays above this x what is in use: the kubelet refuses one that is reached already."""
    is_read_at_start: bool = False
    """What runs in the container sized its heap by it."""
    heap_floor: int = 0
    """What its fixed heap needs, bytes; 0 = it has none."""


def why_not_lowered(limit: int, in_use: int | None, lowering: Lowering) -> KeptReason | None:
    """Return why a memory limit does not fall to this; None = it may.

    What is in use includes the page cache, which counts when the kernel enforces the new limit; None = not known.
    """
    if not lowering.is_possible:
        return KeptReason.TOO_OLD
    if not lowering.is_wanted:
        return KeptReason.NOT_APPLIED
    if lowering.is_read_at_start:
        return KeptReason.READ_AT_START
    if limit < lowering.heap_floor:
        return KeptReason.HEAP
    if in_use is None or lowering.is_pressed or limit <= in_use * lowering.margin_ratio:
        return KeptReason.IN_USE
    return None


def limit_wish(limit: int, wish: int | None, request: int, *, differs: bool) -> int:
    """Return what a limit should be: the wish, else as it is; never below the request.

    Where the two differ today they go on to.
    """
    return max(limit if wish is None else wish, request + 1 if differs else request)
