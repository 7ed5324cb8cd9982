"""What the text of a cgroup file means: bytes in, numbers or None out; native/parsers.h in plain Python.

Sensing, pure. A text counts as whole only if it ends in a newline: a number cut short would be a smaller number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_U64_MAX: Final = 2**64 - 1
_TOTAL: Final = re.compile(rb".* total=([0-9]+)", re.DOTALL)
_AVERAGES: Final = (b"avg10", b"avg60", b"avg300")
_DECIMAL: Final = re.compile(rb"[0-9]+(?:\.[0-9]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuStat:
    """cpu.stat; the throttling keys are None together, without the cpu controller."""

    usage_usec: int
    nr_periods: int | None
    nr_throttled: int | None
    throttled_usec: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureLine:
    """One line of a pressure file."""

    total_usec: int
    """Stalled time since the cgroup was made."""
    averages_percent: tuple[float, float, float] | None
    """Over 10, 60 and 300 s, as the kernel has them; None = not understood. Nothing is reckoned with them here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """The totals of a pressure file; ``full`` came to cgroups' cpu.pressure with kernel 5.13."""

    some_usec: int
    full_usec: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStat:
    """memory.stat; the last two are None together, where the kernel (before 5.9) does not count refaults of files."""

    anon_bytes: int
    inactive_file_bytes: int
    active_file_bytes: int | None
    workingset_refault_file_pages: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEventCounts:
    """The counters of a memory.events file, those of all cgroups below included."""

    oom_kill: int
    high: int
    oom: int | None
    """How often the limit was hit with nothing left to reclaim; None = not stated."""


def parse_u64(digits: bytes) -> int | None:
    """Return a number of digits only, at most 64 bits; None for anything else: a sign, a space, nothing."""
    significant = digits.lstrip(b"0")
    if not digits.isdigit() or len(significant) > 20:  # 2**64 has 20 digits, and int() refuses texts of thousands
        return None
    value = int(significant or b"0")
    return value if value <= _U64_MAX else None


def parse_keyed(text: bytes, keys: tuple[bytes, ...]) -> dict[bytes, int] | None:
    """Return the keys found in "key number" lines; None if a known key has no number or the last line is cut.

    Unknown keys are skipped; of a key that comes twice the last one counts.
    """
    if not text.endswith(b"\n"):
        return None
    values: dict[bytes, int] = {}
    for line in text.split(b"\n"):
        key, space, digits = line.partition(b" ")
        if key in keys and space:
            value = parse_u64(digits)
            if value is None:
                return None
            values[key] = value
    return values


def parse_cpu_stat(text: bytes) -> CpuStat | None:
    """Parse cpu.stat; None if it is not understood."""
    values = parse_keyed(text, (b"usage_usec", b"nr_periods", b"nr_throttled", b"throttled_usec"))
    if values is None or b"usage_usec" not in values:
        return None
    has_all = len(values) == 4
    return CpuStat(
        usage_usec=values[b"usage_usec"],
        nr_periods=values[b"nr_periods"] if has_all else None,
        nr_throttled=values[b"nr_throttled"] if has_all else None,
        throttled_usec=values[b"throttled_usec"] if has_all else None,
    )


def parse_pressure_lines(text: bytes) -> dict[str, PressureLine] | None:
    """Parse the lines ``some`` and ``full`` of a pressure file, those that are there; others are skipped.

    None if the last line is cut, or a known line does not end in its total. No line is no signal, not no pressure.
    """
    if not text.endswith(b"\n"):
        return None
    lines: dict[str, PressureLine] = {}
    for line in text.split(b"\n"):
        kind, space, fields = line.partition(b" ")
        if kind in (b"some", b"full") and space:
            match = _TOTAL.fullmatch(line)
            total = parse_u64(match[1]) if match else None
            if total is None:
                return None
            lines[kind.decode()] = PressureLine(total_usec=total, averages_percent=_averages_percent(fields))
    return lines


def _averages_percent(fields: bytes) -> tuple[float, float, float] | None:
    stated = {key: value for key, _, value in (field.partition(b"=") for field in fields.split(b" "))}
    avg10, avg60, avg300 = (_DECIMAL.fullmatch(stated.get(key, b"")) for key in _AVERAGES)
    return None if not (avg10 and avg60 and avg300) else (float(avg10[0]), float(avg60[0]), float(avg300[0]))


def parse_pressure(text: bytes) -> Pressure | None:
    """Return the totals of a pressure file, as the sampler takes them: the averages are not looked at.

    None without a ``some`` line, or if the text is not understood.
    """
    lines = parse_pressure_lines(text)
    if lines is None or "some" not in lines:
        return None
    full = lines.get("full")
    return Pressure(some_usec=lines["some"].total_usec, full_usec=None if full is None else full.total_usec)


def parse_whole_pressure(text: bytes) -> Pressure | None:
    """Return the totals, where the whole file is understood, averages too; None otherwise, and without ``some``."""
    lines = parse_pressure_lines(text)
    is_whole = lines is not None and all(line.averages_percent is not None for line in lines.values())
    return parse_pressure(text) if is_whole else None


def parse_some_usec(text: bytes) -> int | None:
    """Return the total of ``some``, where the whole file is understood; None otherwise, and without such a line."""
    pressure = parse_whole_pressure(text)
    return None if pressure is None else pressure.some_usec


def parse_number(text: bytes) -> int | None:
    """Parse a file of one number and its newline."""
    return parse_u64(text[:-1]) if text.endswith(b"\n") else None


def parse_memory_stat(text: bytes) -> MemoryStat | None:
    """Parse memory.stat; None if it is not understood."""
    values = parse_keyed(text, (b"anon", b"inactive_file", b"active_file", b"workingset_refault_file"))
    if values is None or b"anon" not in values or b"inactive_file" not in values:
        return None
    has_all = len(values) == 4
    return MemoryStat(
        anon_bytes=values[b"anon"],
        inactive_file_bytes=values[b"inactive_file"],
        active_file_bytes=values[b"active_file"] if has_all else None,
        workingset_refault_file_pages=values[b"workingset_refault_file"] if has_all else None,
    )


def parse_memory_event_counts(text: bytes) -> MemoryEventCounts | None:
    """Parse a memory.events file; None if it is not understood, or ``oom_kill`` or ``high`` is missing."""
    values = parse_keyed(text, (b"oom_kill", b"high", b"oom"))
    if values is None or b"oom_kill" not in values or b"high" not in values:
        return None
    return MemoryEventCounts(oom_kill=values[b"oom_kill"], high=values[b"high"], oom=values.get(b"oom"))


def parse_memory_events(text: bytes) -> tuple[int, int] | None:
    """Return oom_kill and high, which the sampler keeps."""
    counts = parse_memory_event_counts(text)
    return None if counts is None else (counts.oom_kill, counts.high)
