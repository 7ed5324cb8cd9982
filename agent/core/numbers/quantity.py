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
_TOLD_DIGITS = 40
"""Of an amount of thousands of digits, those that 64 bits could hold and more."""
_MOST_NANOS = INT64_MAX * NANOS_PER_UNIT
_LEAST_MAGNITUDE, _MOST_MAGNITUDE = -30, 40
"""Powers of ten between which an amount is worked out: below any suffix leaves less than a nano, above is more than 64
bits hold."""


class QuantityError(ValueError):
    """Text that is not a Quantity."""


class QuantitySizeError(QuantityError):
    """A Quantity with more digits, or a larger exponent, than anybody who means an amount writes."""


def parse_quantity(text: str) -> int:
    """Read a Quantity.

    Returns:
        Nanos: billionths of the resource's unit, exact but for what is finer, which is rounded away from zero. Binary
        amounts are cut to the largest signed 64-bit number of units.

    Source:
        ``ParseQuantity`` of k8s.io/apimachinery; stricter in one point: there must be a digit.
    """
    return _parse_usual(text) if len(text) <= _USUAL else _parse(text)


def cut_quantity(text: str) -> int:
    """Read a Quantity that an API server keeps, whatever its size: nanos, no further than 64 bits of units reach.

    An API server takes exponents and digits without bound, and who may create a pod may write them: what it requests
    has to be counted all the same. Nothing is computed that is as large as the text says.

    Raises:
        QuantityError: It is none.
    """
    try:
        nanos = parse_quantity(text)
    except QuantitySizeError:
        nanos = _approximate(text.strip())
    return nanos if -_MOST_NANOS <= nanos <= _MOST_NANOS else max(-_MOST_NANOS, min(nanos, _MOST_NANOS))


def _approximate(text: str) -> int:
    """Read the first digits of a Quantity and its magnitude; what is left out is rounded away from zero."""
    match = _FORM.match(text)
    digits = "" if match is None else match["whole"] + (match["fraction"] or "")
    if match is None or not digits:
        msg = f"{text[:60]!r}... is not a quantity ({ALLOWED})"
        raise QuantityError(msg)
    told = digits.lstrip("0")
    if not told:
        return 0
    magnitude = len(match["whole"]) - (len(digits) - len(told)) + _exponent(match["exponent"], match["suffix"] or "")
    if magnitude > _MOST_MAGNITUDE:
        nanos = _MOST_NANOS
    elif magnitude < _LEAST_MAGNITUDE:
        nanos = 1
    else:
        is_cut = bool(told[_TOLD_DIGITS:].strip("0"))
        whole = (int(told[:_TOLD_DIGITS]) + is_cut) << _BINARY.get(match["suffix"] or "", 0)
        shift = magnitude - min(len(told), _TOLD_DIGITS) + _NANO_DIGITS
        nanos = whole * 10**shift if shift >= 0 else -(-whole // 10**-shift)
    return -nanos if match["sign"] == "-" else nanos


def _exponent(text: str | None, suffix: str) -> int:
    """Return a power of ten; of an exponent of very many digits only that it is large counts."""
    if text is None:
        return _DECIMAL.get(suffix, 0)
    power = text.lstrip("+-").lstrip("0")[:_TOLD_DIGITS]
    largest = int(power or "0")
    return -largest if text.startswith("-") else largest


def _parse(text: str) -> int:
    if len(text) > _LONGEST:
        msg = f"{text[:60]!r}... of {len(text)} characters is not a quantity (up to {_LONGEST})"
        raise QuantitySizeError(msg)
    match = _FORM.match(text.strip())
    if match is None or not (match["whole"] or match["fraction"]):
        msg = f"{text!r} is not a quantity ({ALLOWED})"
        raise QuantityError(msg)
    fraction = match["fraction"] or ""
    digits = int((match["whole"] + fraction) or "0")
    suffix = match["suffix"] or ""
    exponent = _exponent(match["exponent"], suffix)
    if abs(exponent) > _MAX_EXPONENT:
        msg = f"{text!r} is not a quantity (an exponent from -{_MAX_EXPONENT} to {_MAX_EXPONENT})"
        raise QuantitySizeError(msg)
    if suffix in _BINARY:
        digits <<= _BINARY[suffix]
    shift = exponent + _NANO_DIGITS - len(fraction)
    scale: int = 10 ** abs(shift)
    nanos = digits * scale if shift >= 0 else -(-digits // scale)
    if suffix in _BINARY:
        nanos = min(nanos, _MOST_NANOS)
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
