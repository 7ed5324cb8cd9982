"""Whether a ResourceQuota's scopes count a CapacityBuffer's chunks. Core, pure.

Source: ``podMatchesQuotaScope`` of kubernetes-sigs/cluster-autoscaler pkg/capacitybuffer/controller/resourcequotas.go;
stricter in that ``Exists`` and ``DoesNotExist`` may have no values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from agent.core.buffers.buffer import Chunk, ScopeFault, ScopeTerm
from agent.core.cluster.pod import CPU, MEMORY

_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")


class Scope(StrEnum):
    """Scopes of quotas that may match a chunk; no other does."""

    NOT_TERMINATING = "NotTerminating"
    """A chunk has no end in sight."""
    BEST_EFFORT = "BestEffort"
    NOT_BEST_EFFORT = "NotBestEffort"
    PRIORITY_CLASS = "PriorityClass"
    CROSS_NAMESPACE_POD_AFFINITY = "CrossNamespacePodAffinity"


class Operator(StrEnum):
    """How a scope compares values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


def matches_scopes(chunk: Chunk, scopes: Iterable[ScopeTerm]) -> bool | ScopeFault:
    """Say whether a quota of these scopes counts a chunk; a term that cannot be read is a fault whatever others say."""
    verdicts = [_matches(chunk, term) for term in scopes]
    fault = next((verdict for verdict in verdicts if isinstance(verdict, ScopeFault)), None)
    return all(verdicts) if fault is None else fault


def _matches(chunk: Chunk, term: ScopeTerm) -> bool | ScopeFault:
    match term.scope:
        case Scope.NOT_TERMINATING:
            return True
        case Scope.BEST_EFFORT:
            return not _has_requests(chunk)
        case Scope.NOT_BEST_EFFORT:
            return _has_requests(chunk)
        case Scope.PRIORITY_CLASS:
            return _matches_class(chunk.priority_class or "", term)
        case Scope.CROSS_NAMESPACE_POD_AFFINITY:
            return chunk.has_cross_namespace_affinity
    return False


def _has_requests(chunk: Chunk) -> bool:
    return CPU in chunk.requests or MEMORY in chunk.requests


def _matches_class(priority_class: str, term: ScopeTerm) -> bool | ScopeFault:
    fault = _class_fault(term)
    if fault is not None:
        return fault
    match term.operator:
        case Operator.IN:
            return priority_class != "" and priority_class in term.values
        case Operator.NOT_IN:
            # A chunk without a class is of none of them.
            return priority_class == "" or priority_class not in term.values
        case Operator.EXISTS:
            return priority_class != ""
    return priority_class == ""


def _class_fault(term: ScopeTerm) -> ScopeFault | None:
    if term.operator not in set(Operator):
        return ScopeFault.OPERATOR
    wants_values = term.operator in (Operator.IN, Operator.NOT_IN)
    if wants_values != bool(term.values):
        return ScopeFault.VALUES_MISSING if wants_values else ScopeFault.VALUES_FORBIDDEN
    return None if all(_LABEL_VALUE.match(value) for value in term.values) else ScopeFault.VALUE_FORM
