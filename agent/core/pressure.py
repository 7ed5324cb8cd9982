"""Pressure stall information: its text, its rate, and what demand it betrays. Core, pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]*)?\Z")
_WHOLE = re.compile(r"[0-9]+\Z")
_USEC_PER_SECOND = 1_000_000


class PressureFormatError(ValueError):
    """Text that is not the content of a ``*.pressure`` file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureLine:
    """One line of a ``*.pressure`` file."""

    avg10_percent: float
    """Share of wall time as the kernel averages it, 0 to 100."""
    avg60_percent: float
    avg300_percent: float
    total_usec: int
    """Stalled time since the cgroup was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """The content of a ``*.pressure`` file; a line that is not there is None."""

    some: PressureLine | None = None
    """Time in which at least one task waited."""
    full: PressureLine | None = None
    """Time in which all tasks that were not idle waited."""

    @property
    def is_available(self) -> bool:
        """Say whether there is a signal at all: no signal is not zero pressure."""
        return self.some is not None or self.full is not None


def parse_pressure(text: str) -> Pressure:
    """Read the content of a ``*.pressure`` file.

    Args:
        text: The whole file; empty = no signal. Lines and fields of other names are passed over.

    Raises:
        PressureFormatError: A ``some`` or ``full`` line lacks a field, or its value is no number.

    Source:
        Documentation/accounting/psi.rst of the kernel.
    """
    lines: dict[str, PressureLine] = {}
    for line in text.splitlines():
        name, *fields = line.split() or [""]
        if name in ("some", "full"):
            lines[name] = _parse_line(name, fields)
    return Pressure(some=lines.get("some"), full=lines.get("full"))


def _parse_line(name: str, fields: list[str]) -> PressureLine:
    values: dict[str, str] = {}
    for field in fields:
        key, separator, value = field.partition("=")
        if not separator:
            msg = f"pressure, line {name!r}: {field!r} is not KEY=VALUE"
            raise PressureFormatError(msg)
        values[key] = value

    def value_of(key: str, form: re.Pattern[str]) -> str:
        value = values.get(key)
        if value is None or not form.match(value):
            msg = f"pressure, line {name!r}: {key}={value!r} is not a number"
            raise PressureFormatError(msg)
        return value

    return PressureLine(
        avg10_percent=float(value_of("avg10", _DECIMAL)),
        avg60_percent=float(value_of("avg60", _DECIMAL)),
        avg300_percent=float(value_of("avg300", _DECIMAL)),
        total_usec=int(value_of("total", _WHOLE)),
    )


def psi_waiting_rate(t0_seconds: float, total0_usec: int, t1_seconds: float, total1_usec: int) -> float | None:
    """Give the share of time spent waiting between two readings of a PSI total.

    Returns:
        0..1; None where the pair says nothing: the total went back (another cgroup) or no time passed.
    """
    elapsed_seconds = t1_seconds - t0_seconds
    waited_usec = total1_usec - total0_usec
    if elapsed_seconds <= 0 or waited_usec < 0:
        return None
    return min(waited_usec / (elapsed_seconds * _USEC_PER_SECOND), 1.0)


def adjusted_demand(usage_millicores: float, waiting_ratio: float | None) -> float:
    """Give what would have been used without the wait: usage x (1 + waiting).

    Args:
        usage_millicores: CPU use over the same time.
        waiting_ratio: 0..1; None = no signal, then usage stands alone.
    """
    return usage_millicores * (1.0 + (waiting_ratio or 0.0))
