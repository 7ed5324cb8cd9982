"""Which ResourceQuotas count a CapacityBuffer's chunks, and how many chunks they leave room for. Core, pure.

Buffers are served in order: what an earlier one gets is reserved in every quota that counts its chunks. Only requests
matter; ``limits.*``, ``pods`` and counts of objects do not.

Source: kubernetes-sigs/cluster-autoscaler pkg/capacitybuffer/controller/resourcequotas.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.core.buffers.buffer import Allocation, BufferQuota, Chunk, ScopeFault
from agent.core.buffers.chunks import clamped
from agent.core.buffers.scopes import matches_scopes

REQUESTS_PREFIX: Final = "requests."


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one buffer wants of the quotas."""

    wanted: int | None
    """Chunks; None = it is not sized, so quotas are not asked."""
    chunk: Chunk | None
    """None = it has none."""
    held: Mapping[str, int] = field(default_factory=dict)
    """What pods that keep its room request together, nanos: quotas count it as used, but it is the buffer's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """What quotas leave of all wishes."""

    buffers: tuple[Allocation | None, ...]
    """As the claims; None = quotas were not asked: nothing is wanted, or the chunk requests nothing at all."""
    faults: tuple[str, ...]
    """Quotas that were left out, and why: the pass is to be repeated."""


def allocate(claims: Sequence[Claim], quotas: Iterable[BufferQuota]) -> Allocations:
    """Share the room in quotas among buffers.

    Args:
        claims: In the order in which buffers are served.
        quotas: Of the namespace, in any order.
    """
    by_name = sorted(quotas, key=lambda quota: quota.name)
    faults = {f"ResourceQuota {quota.name}: {quota.fault}" for quota in by_name if quota.fault is not None}
    usable = [quota for quota in by_name if quota.fault is None]
    counting = [_counting(claim, usable, faults) for claim in claims]
    room = {quota.name: {name: hard - quota.used.get(name, 0) for name, hard in quota.hard.items()} for quota in usable}
    for claim, names in zip(claims, counting, strict=True):
        for name in names or ():
            _take(room[name], claim.held, -1)
    allocations: list[Allocation | None] = []
    for claim, names in zip(claims, counting, strict=True):
        if claim.wanted is None or claim.chunk is None or names is None:
            allocations.append(None)
            continue
        allocation = _allocation(claim.wanted, claim.chunk, {name: room[name] for name in names})
        allocations.append(allocation)
        for name in names:
            _take(room[name], claim.chunk.requests, allocation.allowed)
    return Allocations(buffers=tuple(allocations), faults=tuple(sorted(faults)))


def _counting(claim: Claim, quotas: Iterable[BufferQuota], faults: set[str]) -> list[str] | None:
    """Give the quotas that count a claim's chunks, by name; None = they are not asked. Faults are added."""
    if claim.wanted is None or claim.chunk is None or not claim.chunk.requests:
        return None
    names = []
    for quota in quotas:
        verdict = matches_scopes(claim.chunk, quota.scopes)
        if isinstance(verdict, ScopeFault):
            faults.add(f"ResourceQuota {quota.name}: its scopes are not understood: {verdict}")
        elif verdict:
            names.append(quota.name)
    return names


def _allocation(wanted: int, chunk: Chunk, room: Mapping[str, Mapping[str, int]]) -> Allocation:
    """Say how many chunks fit.

    Args:
        wanted: Chunks.
        chunk: One of them.
        room: By quota that counts it: what is left, nanos by the quota's own names.
    """
    by_quota: dict[str, int] = {}
    for quota, left in room.items():
        fits = [
            max(0, nanos) // request for name, nanos in left.items() if (request := _request(chunk.requests, name)) > 0
        ]
        if fits:
            by_quota[quota] = min(fits)
    return Allocation(
        wanted=wanted,
        allowed=min((wanted, *by_quota.values())),
        by_quota={quota: clamped(fit) for quota, fit in by_quota.items()},
        limiting=tuple(quota for quota, fit in by_quota.items() if fit < wanted),
    )


def _request(requests: Mapping[str, int], name: str) -> int:
    """Give what is requested of a resource as a quota spells it: ``cpu`` and ``requests.cpu`` are the same."""
    return requests.get(name.removeprefix(REQUESTS_PREFIX), 0)


def _take(left: dict[str, int], requests: Mapping[str, int], times: int) -> None:
    for name in left:
        left[name] -= _request(requests, name) * times
