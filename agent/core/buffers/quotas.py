"""Which ResourceQuotas count a CapacityBuffer's chunks, and how many chunks they leave room for. Core, pure.

Buffers are served in order: what an earlier one gets is reserved in every quota that counts its chunks. Only requests
matter; ``limits.*``, ``pods`` and counts of objects do not.

Source: kubernetes-sigs/cluster-autoscaler pkg/capacitybuffer/controller/resourcequotas.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.buffers.buffer import BufferQuota, Chunk, QuotaAllocation, ScopeFault, ScopeTerm
from agent.core.buffers.chunks import clamped
from agent.core.cluster.pod import CPU, MEMORY

_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")


class QuotaScopes(StrEnum):
    """Scopes of quotas that may match a chunk; no other does."""

    NOT_TERMINATING = "NotTerminating"
    """A chunk has no end in sight."""
    BEST_EFFORT = "BestEffort"
    NOT_BEST_EFFORT = "NotBestEffort"
    PRIORITY_CLASS = "PriorityClass"
    CROSS_NAMESPACE_POD_AFFINITY = "CrossNamespacePodAffinity"


class ScopeOperator(StrEnum):
    """How a scope compares values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


def matches_scopes(chunk: Chunk, scopes: Iterable[ScopeTerm]) -> bool | ScopeFault:
    """Return whether a quota of these scopes counts it; a term that cannot be read is a fault whatever others say."""
    verdicts = [_matches(chunk, term) for term in scopes]
    fault = next((verdict for verdict in verdicts if isinstance(verdict, ScopeFault)), None)
    return all(verdicts) if fault is None else fault


def _matches(chunk: Chunk, term: ScopeTerm) -> bool | ScopeFault:
    match term.scope:
        case QuotaScopes.NOT_TERMINATING:
            return True
        case QuotaScopes.BEST_EFFORT:
            return not _has_requests(chunk)
        case QuotaScopes.NOT_BEST_EFFORT:
            return _has_requests(chunk)
        case QuotaScopes.PRIORITY_CLASS:
            return _matches_class(chunk.priority_class or "", term)
        case QuotaScopes.CROSS_NAMESPACE_POD_AFFINITY:
            return chunk.has_cross_namespace_affinity
    return False


def _has_requests(chunk: Chunk) -> bool:
    return CPU in chunk.requests or MEMORY in chunk.requests


def _matches_class(priority_class: str, term: ScopeTerm) -> bool | ScopeFault:
    fault = _class_fault(term)
    if fault is not None:
        return fault
    match term.operator:
        case ScopeOperator.IN:
            return priority_class != "" and priority_class in term.values
        case ScopeOperator.NOT_IN:
            # A chunk without a class is of none of them.
            return priority_class == "" or priority_class not in term.values
        case ScopeOperator.EXISTS:
            return priority_class != ""
    return priority_class == ""


def _class_fault(term: ScopeTerm) -> ScopeFault | None:
    if term.operator not in set(ScopeOperator):
        return ScopeFault.OPERATOR
    wants_values = term.operator in (ScopeOperator.IN, ScopeOperator.NOT_IN)
    if wants_values != bool(term.values):
        return ScopeFault.VALUES_MISSING if wants_values else ScopeFault.VALUES_FORBIDDEN
    return None if all(_LABEL_VALUE.match(value) for value in term.values) else ScopeFault.VALUE_FORM


REQUESTS_PREFIX: Final = "requests."


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaClaim:
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

    buffers: tuple[QuotaAllocation | None, ...]
    """As the claims; None = quotas were not asked: nothing is wanted, or the chunk requests nothing at all."""
    faults: tuple[str, ...]
    """Quotas that were left out, and why: the pass is to be repeated."""


def allocate(claims: Sequence[QuotaClaim], quotas: Iterable[BufferQuota]) -> Allocations:
    """Share the room in quotas among buffers, in the order in which they are served."""
    by_name = sorted(quotas, key=lambda quota: quota.name)
    faults = {f"ResourceQuota {quota.name}: {quota.fault}" for quota in by_name if quota.fault is not None}
    usable = [quota for quota in by_name if quota.fault is None]
    counting = [_counting(claim, usable, faults) for claim in claims]
    room = {quota.name: {name: hard - quota.used.get(name, 0) for name, hard in quota.hard.items()} for quota in usable}
    for claim, names in zip(claims, counting, strict=True):
        for name in names or ():
            _take(room[name], claim.held, -1)
    for quota in usable:
        # One that does not count all of these pods yet has at most all of its own room, not more.
        room[quota.name] = {name: min(left, quota.hard[name]) for name, left in room[quota.name].items()}
    allocations: list[QuotaAllocation | None] = []
    for claim, names in zip(claims, counting, strict=True):
        if claim.wanted is None or claim.chunk is None or names is None:
            allocations.append(None)
            continue
        allocation = _allocation(claim.wanted, claim.chunk, {name: room[name] for name in names})
        allocations.append(allocation)
        for name in names:
            _take(room[name], claim.chunk.requests, allocation.allowed)
    return Allocations(buffers=tuple(allocations), faults=tuple(sorted(faults)))


def _counting(claim: QuotaClaim, quotas: Iterable[BufferQuota], faults: set[str]) -> list[str] | None:
    """Return the quotas that count a claim's chunks, by name; None = they are not asked. Faults are added."""
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


def _allocation(wanted: int, chunk: Chunk, room: Mapping[str, Mapping[str, int]]) -> QuotaAllocation:
    """Return how many chunks fit into what is left, by quota that counts them; nanos by the quota's own names."""
    by_quota: dict[str, int] = {}
    for quota, left in room.items():
        fits = [
            max(0, nanos) // request for name, nanos in left.items() if (request := _request(chunk.requests, name)) > 0
        ]
        if fits:
            by_quota[quota] = min(fits)
    return QuotaAllocation(
        wanted=wanted,
        allowed=min((wanted, *by_quota.values())),
        by_quota={quota: clamped(fit) for quota, fit in by_quota.items()},
        limiting=tuple(quota for quota, fit in by_quota.items() if fit < wanted),
    )


def _request(requests: Mapping[str, int], name: str) -> int:
    """Return what is requested of a resource as a quota spells it: ``cpu`` and ``requests.cpu`` are the same."""
    return requests.get(name.removeprefix(REQUESTS_PREFIX), 0)


def _take(left: dict[str, int], requests: Mapping[str, int], times: int) -> None:
    for name in left:
        left[name] -= _request(requests, name) * times
