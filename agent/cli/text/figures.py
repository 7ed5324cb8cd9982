"""Figures for people: CPU, memory, shares and times in few characters. Face, pure."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return ``1 pod``, ``2 pods``, ``0 pods``; for nouns that take an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


ABSENT = "-"
"""What stands where there is no figure; never 0."""

_KIB = 1024


def millicores_text(millicores: float | None) -> str:
    """Return CPU as Kubernetes writes it: ``250m``, and from ten cores on in cores: ``12.5``."""
    if millicores is None:
        return ABSENT
    if 0 < millicores < 0.05:
        return "<0.1m"  # something was used: not 0
    if millicores < 9.95:
        return "0m" if millicores == 0 else f"{millicores:.1f}m"
    if millicores < 9999.5:
        return f"{millicores:.0f}m"
    return f"{millicores / 1000:.1f}"


def bytes_text(amount_bytes: float | None) -> str:
    """Return memory with three digits that count: ``512B``, ``1.50GiB``, ``123MiB``."""
    if amount_bytes is None:
        return ABSENT
    if amount_bytes < _KIB:
        return f"{amount_bytes:.0f}B"
    scaled = float(amount_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        scaled /= _KIB
        if scaled < _KIB - 0.5 or unit == "PiB":
            break
    digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    return f"{scaled:.{digits}f}{unit}"


def percent_text(ratio: float | None) -> str:
    """Return a ratio 0..1 as a percentage: ``0%``, ``<0.1%``, ``3.1%``, ``42%``."""
    if ratio is None:
        return ABSENT
    percent = ratio * 100
    if percent == 0:
        return "0%"
    if percent < 0.05:
        return "<0.1%"  # some waiting: not 0
    return f"{percent:.1f}%" if percent < 9.95 else f"{percent:.0f}%"


def age_text(seconds: float | None) -> str:
    """Return a time span in at most two units: ``0.4s``, ``45s``, ``12m05s``, ``3h07m``, ``5d02h``."""
    if seconds is None:
        return ABSENT
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def cpu_seconds_text(seconds: float | None) -> str:
    """Return CPU time: ``0.3 CPU-s``, ``350 CPU-s``, and from an hour on ``12.5 CPU-h``."""
    if seconds is None:
        return ABSENT
    if seconds < 3599.5:
        return f"{seconds:.1f} CPU-s" if 0 < seconds < 9.95 else f"{seconds:.0f} CPU-s"
    hours = seconds / 3600
    return f"{hours:.1f} CPU-h" if hours < 999.95 else f"{hours:.0f} CPU-h"


def byte_hours_text(byte_hours: float | None) -> str:
    """Return memory over time: ``1.50GiB-h``."""
    return ABSENT if byte_hours is None else f"{bytes_text(byte_hours)}-h"


def milliseconds_text(seconds: float | None) -> str:
    """Return a short time in milliseconds: ``0.42ms``, ``12ms``."""
    if seconds is None:
        return ABSENT
    milliseconds = seconds * 1000
    return f"{milliseconds:.2f}ms" if milliseconds < 9.995 else f"{milliseconds:.0f}ms"
