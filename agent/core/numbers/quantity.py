"""Kubernetes Quantities: text to exact nanos and back. Core, pure.

A Quantity is a number with a suffix: binary (Ki to Ei), decimal (n, u, m, none, k to E) or an exponent (e3, E-2).
Its finest step is a billionth; what is finer is rounded up to it, so that nobody who asks for something gets nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agent.core.numbers.units import INT64_MAX, NANOS_PER_UNIT

ALLOWED = "a number with one of the suffixes n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3"

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO_DIGITS = 9
_MAX_EXPONENT = 999
"""Far beyond any machine; an exponent without bound would make a number of any size out of a few characters."""
_LONGEST = 4000
"""Characters; Python reads no whole number of many more."""
_USUAL = 24
"""Characters of what may stand in the cache: it takes 220 KB at most."""
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?\Z"
)


class QuantityError(ValueError):
    """Text that is not a Quantity."""


def parse_quantity(text: str) -> int:
    """Read a Quantity.

    Returns:
        Nanos: billionths of the resource's unit, exact but for what is finer, which is rounded away from zero. Binary
        amounts are cut to the largest signed 64-bit number of units.

    Source:
        ``ParseQuantity`` of k8s.io/apimachinery; stricter in one point: there must be a digit.
    """
    return _parse_usual(text) if len(text) <= _USUAL else _parse(text)


def _parse(text: str) -> int:
    if len(text) > _LONGEST:
        msg = f"{text[:60]!r}... of {len(text)} characters is not a quantity (up to {_LONGEST})"
        raise QuantityError(msg)
    match = _FORM.match(text.strip())
    if match is None or not (match["whole"] or match["fraction"]):
        msg = f"{text!r} is not a quantity ({ALLOWED})"
        raise QuantityError(msg)
    fraction = match["fraction"] or ""
    digits = int((match["whole"] + fraction) or "0")
    suffix = match["suffix"] or ""
    exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL.get(suffix, 0)
    if abs(exponent) > _MAX_EXPONENT:
        msg = f"{text!r} is not a quantity (an exponent from -{_MAX_EXPONENT} to {_MAX_EXPONENT})"
        raise QuantityError(msg)
    if suffix in _BINARY:
        digits <<= _BINARY[suffix]
    shift = exponent + _NANO_DIGITS - len(fraction)
    scale: int = 10 ** abs(shift)
    nanos = digits * scale if shift >= 0 else -(-digits // scale)
    if suffix in _BINARY:
        nanos = min(nanos, INT64_MAX * NANOS_PER_UNIT)
    return -nanos if match["sign"] == "-" else nanos


_parse_usual = lru_cache(maxsize=1024)(_parse)
"""A list of pods has a handful of amounts a million times; half a microsecond each instead of five."""


def format_quantity(nanos: int, *, binary: bool = False) -> str:
    """Write a Quantity with the largest suffix that needs no fraction.

    Args:
        binary: Use Ki to Ei where the amount is a whole number of units of 1024 and more, as is usual for memory.
    """
    if nanos == 0:
        return "0"
    if binary and nanos % NANOS_PER_UNIT == 0 and abs(nanos) >= 1024 * NANOS_PER_UNIT:
        units = nanos // NANOS_PER_UNIT
        suffix, power = max(
            ((name, power) for name, power in (*_BINARY.items(), ("", 0)) if units % (1 << power) == 0),
            key=lambda candidate: candidate[1],
        )
        return f"{units >> power}{suffix}"
    suffix, power = max(
        ((name, power) for name, power in _DECIMAL.items() if nanos % 10 ** (power + _NANO_DIGITS) == 0),
        key=lambda candidate: candidate[1],
    )
    return f"{nanos // 10 ** (power + _NANO_DIGITS)}{suffix}"
