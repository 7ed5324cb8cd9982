"""What the text of a cgroup file means: bytes in, numbers or None out; native/parsers.h in plain Python.

Sensing, pure. A text counts as whole only if it ends in a newline: a number cut short would be a smaller number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_U64_MAX: Final = 2**64 - 1
_TOTAL: Final = re.compile(rb".* total=([0-9]+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuStat:
    """cpu.stat; the throttling keys are None together, without the cpu controller."""

    usage_usec: int
    nr_periods: int | None
    nr_throttled: int | None
    throttled_usec: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """The totals of a pressure file; ``full`` came to cgroups' cpu.pressure with kernel 5.13."""

    some_usec: int
    full_usec: int | None


def parse_u64(digits: bytes) -> int | None:
    """Give a number of digits only, at most 64 bits; None for anything else: a sign, a space, nothing."""
    significant = digits.lstrip(b"0")
    if not digits.isdigit() or len(significant) > 20:  # 2**64 has 20 digits, and int() refuses texts of thousands
        return None
    value = int(significant or b"0")
    return value if value <= _U64_MAX else None


def parse_keyed(text: bytes, keys: tuple[bytes, ...]) -> dict[bytes, int] | None:
    """Give the keys found in "key number" lines; None if a known key has no number or the last line is cut.

    Unknown keys are skipped; of a key that comes twice the last one counts.
    """
    if not text.endswith(b"\n"):
        return None
    found: dict[bytes, int] = {}
    for line in text.split(b"\n"):
        key, space, digits = line.partition(b" ")
        if key in keys and space:
            value = parse_u64(digits)
            if value is None:
                return None
            found[key] = value
    return found


def parse_cpu_stat(text: bytes) -> CpuStat | None:
    """Parse cpu.stat; None if it is not understood."""
    found = parse_keyed(text, (b"usage_usec", b"nr_periods", b"nr_throttled", b"throttled_usec"))
    if found is None or b"usage_usec" not in found:
        return None
    has_all = len(found) == 4
    return CpuStat(
        usage_usec=found[b"usage_usec"],
        nr_periods=found[b"nr_periods"] if has_all else None,
        nr_throttled=found[b"nr_throttled"] if has_all else None,
        throttled_usec=found[b"throttled_usec"] if has_all else None,
    )


def parse_pressure(text: bytes) -> Pressure | None:
    """Parse a pressure file; None without a ``some`` line, or if a known line does not end in its total."""
    if not text.endswith(b"\n"):
        return None
    totals: dict[bytes, int] = {}
    for line in text.split(b"\n"):
        kind, space, _ = line.partition(b" ")
        if kind in (b"some", b"full") and space:
            match = _TOTAL.fullmatch(line)
            total = parse_u64(match[1]) if match else None
            if total is None:
                return None
            totals[kind] = total
    if b"some" not in totals:
        return None
    return Pressure(some_usec=totals[b"some"], full_usec=totals.get(b"full"))


def parse_number(text: bytes) -> int | None:
    """Parse a file of one number and its newline."""
    return parse_u64(text[:-1]) if text.endswith(b"\n") else None


def parse_memory_stat(text: bytes) -> tuple[int, int] | None:
    """Give anon and inactive_file in bytes."""
    found = parse_keyed(text, (b"anon", b"inactive_file"))
    return (found[b"anon"], found[b"inactive_file"]) if found is not None and len(found) == 2 else None


def parse_memory_events(text: bytes) -> tuple[int, int] | None:
    """Give oom_kill and high."""
    found = parse_keyed(text, (b"oom_kill", b"high"))
    return (found[b"oom_kill"], found[b"high"]) if found is not None and len(found) == 2 else None
