"""How urgent the difference between a request and its recommendation is. Core, pure.

The bounds have already kept the request where the difference is not worth a change; what differs still, matters. A
request that is too large only costs, so it is a saving, never a loss, and never as urgent as one that is too small.
"""

from __future__ import annotations

from typing import Final

from agent.core.numbers.units import MIB
from agent.core.recommender.recommendation import RequestSeverity

LARGE_RATIO: Final = 0.5
"""Of the request. A container that lacks half of what it has asked for runs at two thirds of its need when the node is
full; one that gives back half of it makes room for another of its kind."""
LARGE_CPU_MILLICORES: Final = 100
"""A tenth of a core: below it, even a doubled request is noise on any node."""
LARGE_MEMORY_BYTES: Final = 128 * MIB
"""About what one more small pod needs."""


def cpu_severity(request_millicores: int | None, recommended_millicores: int | None) -> RequestSeverity:
    """Judge a CPU request; None = not stated (0 counts as that), or withheld."""
    return _severity(request_millicores, recommended_millicores, LARGE_CPU_MILLICORES)


def memory_severity(request_bytes: int | None, recommended_bytes: int | None) -> RequestSeverity:
    """Judge a memory request; None = not stated (0 counts as that), or withheld."""
    return _severity(request_bytes, recommended_bytes, LARGE_MEMORY_BYTES)


def _severity(request: int | None, recommended: int | None, large: int) -> RequestSeverity:
    if recommended is None:
        return RequestSeverity.UNKNOWN
    if not request:
        return RequestSeverity.UNSET
    if recommended == request:
        return RequestSeverity.GOOD
    missing = recommended - request
    is_large = abs(missing) >= max(large, LARGE_RATIO * request)
    if missing > 0:
        return RequestSeverity.VERY_SHORT if is_large else RequestSeverity.SHORT
    return RequestSeverity.LARGE_SAVING if is_large else RequestSeverity.SAVING
