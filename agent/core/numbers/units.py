"""Units and the roundings between them. Core, pure.

Requests and limits are kept as whole **nanos**: billionths of the resource's own unit (a core, a byte, a piece). That
is the finest step a Kubernetes Quantity has, so sums and comparisons are exact and rounding happens once, at the end.
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

NANOS_PER_UNIT = 1_000_000_000
"""A core, a byte or a piece in nanos."""
NANOS_PER_MILLI = 1_000_000
"""A thousandth of a core in nanos."""
INT64_MAX = 2**63 - 1
"""The largest amount Kubernetes can hand on; larger ones are cut to it."""


def divide_truncating(dividend: int, divisor: int) -> int:
    """Divide as C and Go do: towards zero, where Python's ``//`` goes down."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def to_units(nanos: int) -> int:
    """Return whole units (cores, bytes, pieces), rounded away from zero, within a signed 64-bit number.

    Source:
        ``Quantity.Value`` of k8s.io/apimachinery.
    """
    return _rounded(nanos, NANOS_PER_UNIT)


def to_millis(nanos: int) -> int:
    """Return thousandths of the unit (millicores for CPU), rounded away from zero, within a signed 64-bit number.

    Source:
        ``Quantity.MilliValue`` of k8s.io/apimachinery.
    """
    return _rounded(nanos, NANOS_PER_MILLI)


def _rounded(nanos: int, step: int) -> int:
    size = min(-(-abs(nanos) // step), INT64_MAX)
    return size if nanos >= 0 else -size
