"""How many chunks a CapacityBuffer asks for, and what settles it. Core, pure.

The larger of a fixed number and a share of the scalable object's replicas, capped by limits; limits alone ask for as
many chunks as fit. Quotas come afterwards (``quotas``).

Source: ``getBufferNumberOfPods`` of kubernetes-sigs/cluster-autoscaler pkg/capacitybuffer/translators/replicas.go,
with two differences of our own: numbers do not wrap, and a negative limit is an error whatever the chunk requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent.core.buffers.buffer import INT32_MAX, BufferSizing, ChunkRule, NotSized, SizeSpec
from agent.core.numbers.quantity import format_quantity
from agent.core.numbers.units import NANOS_PER_MILLI

NOTHING_DEFINED: Final = "replicas, percentage and limits are not defined"
NO_COMMON_RESOURCE: Final = "resources in configured limits not found in the pod template"

_PERCENT: Final = 100


def size(spec: SizeSpec, requests: Mapping[str, int], scalable_replicas: int | None) -> BufferSizing | NotSized:
    """Return how many chunks a buffer wants before quotas.

    Without ``scalable_replicas`` (a buffer on a template, or not known) its percentage says nothing.
    """
    by_replicas = None if spec.replicas is None else clamped(spec.replicas)
    by_percentage = None
    if spec.percentage is not None and scalable_replicas is not None:
        by_percentage = share(spec.percentage, scalable_replicas)
    wish, decided_by = by_replicas, ChunkRule.REPLICAS
    if by_percentage is not None and (wish is None or by_percentage > wish):
        wish, decided_by = by_percentage, ChunkRule.PERCENTAGE
    by_limits, limiting_resource = None, None
    if spec.limits is not None:
        cap = room_in_limits(spec.limits, requests)
        if isinstance(cap, NotSized):
            return cap
        by_limits, limiting_resource = cap
        if wish is None or by_limits < wish:
            wish, decided_by = by_limits, ChunkRule.LIMITS
    if wish is None:
        return NotSized(reason=NOTHING_DEFINED)
    return BufferSizing(
        replicas=wish,
        decided_by=decided_by,
        by_replicas=by_replicas,
        by_percentage=by_percentage,
        by_limits=by_limits,
        limiting_resource=limiting_resource,
    )


def share(percentage: int, replicas: int) -> int:
    """Return a percentage of replicas, rounded up: a positive share of something is at least one chunk."""
    if percentage <= 0 or replicas <= 0:
        return 0
    return clamped(-(-percentage * replicas // _PERCENT))


def room_in_limits(limits: Mapping[str, int], requests: Mapping[str, int]) -> tuple[int, str] | NotSized:
    """Return how many chunks fit into limits, and the resource that allows no more, of equals the first by name.

    Both sides are rounded up to thousandths of the unit, as the API counts them.
    """
    negative = min((name for name, limit in limits.items() if limit < 0), default=None)
    if negative is not None:
        text = format_quantity(limits[negative])
        return NotSized(reason=f"limit {text} of {negative} is negative (0 or more is allowed)")
    rooms = [
        (_millis(limits[name]) // _millis(request), name)
        for name, request in requests.items()
        if request > 0 and name in limits
    ]
    if not rooms:
        return NotSized(reason=NO_COMMON_RESOURCE)
    chunks, name = min(rooms)
    return clamped(chunks), name


def clamped(replicas: int) -> int:
    """Cut a number of chunks to what the status can hold."""
    return max(0, min(replicas, INT32_MAX))


def _millis(nanos: int) -> int:
    """Round up without ``to_millis``'s cut at 64 bits, which would make quotients of large amounts wrong."""
    return -(-nanos // NANOS_PER_MILLI)
