"""Amounts of CPU and memory in sentences, as exact as a person who compares them needs. Core, pure."""

from __future__ import annotations

from agent.core.numbers.units import GIB, KIB, MIB

MILLICORES = "millicores"
BYTES = "bytes"
RATIO = "ratio"


def amount_text(amount: float, unit: str) -> str:
    """Write an amount for people: ``250m``, ``78.4m``, ``128MiB``, ``15.3MiB``; ratios bare, other units spelt out.

    Args:
        unit: As ``Step.unit`` spells it; empty = a bare number.
    """
    if unit == MILLICORES:
        return f"{_short(amount)}m"
    if unit == BYTES:
        return _bytes_text(amount)
    return _short(amount, 4) if unit == RATIO else f"{_short(amount)} {unit}".rstrip()


def _bytes_text(amount_bytes: float) -> str:
    size = abs(amount_bytes)
    if size >= GIB and amount_bytes % GIB == 0:
        return f"{amount_bytes / GIB:.0f}GiB"
    if size >= MIB:
        return f"{_short(amount_bytes / MIB)}MiB"
    if size >= KIB:
        return f"{_short(amount_bytes / KIB)}KiB"
    return f"{_short(amount_bytes)}B"


def _short(number: float, digits: int = 1) -> str:
    """Return so many digits after the point, without zeros at the end."""
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
