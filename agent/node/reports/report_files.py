"""The files of the queue of reports: a header in one line before each packed report, and the numbering. Node.

What is damaged, or of another version, is nothing: the caller drops it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.named_file import open_named, read_named
from agent.node.files.steady_clock import BootMoment

NUMBERING_NAME: Final = "numbering"
SUFFIX: Final = ".report"
FORMAT_VERSION: Final = 1
_LONGEST_HEADER_BYTES: Final = 4096
_LARGEST_COUNT: Final = 10**12 - 1
"""A file is named by its number in twelve digits."""


@dataclass(slots=True, kw_only=True)
class Numbering:
    """What numbers one incarnation of reports."""

    incarnation: str
    sequence: int = 0
    """Of the newest report made; 0 = none yet."""
    lost: int = 0
    """Reports that will never be sent again and were not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line of a report's file."""

    incarnation: str
    sequence: int
    end: BootMoment
    end_unix_seconds: float
    size_bytes: int


def header_line(incarnation: str, sequence: int, end: BootMoment, end_unix_seconds: float) -> bytes:
    """Write the first line of a report's file."""
    header = {
        "version": FORMAT_VERSION,
        "incarnation": incarnation,
        "sequence": sequence,
        "bootId": end.boot_id,
        "endBootSeconds": end.boot_seconds,
        "endUnixSeconds": end_unix_seconds,
    }
    return json.dumps(header, separators=(",", ":")).encode() + b"\n"


def numbering_text(numbering: Numbering, newest_end: BootMoment | None) -> bytes:
    """Write the numbering, and when the newest report ended."""
    document = {
        "version": FORMAT_VERSION,
        "incarnation": numbering.incarnation,
        "sequence": numbering.sequence,
        "lost": numbering.lost,
        "bootId": None if newest_end is None else newest_end.boot_id,
        "endBootSeconds": None if newest_end is None else newest_end.boot_seconds,
    }
    return json.dumps(document).encode()


def read_header(path: Path) -> Header | None:
    """Read the header of a report's file; None = it is not whole, or of another version."""
    try:
        with open_named(path) as file:
            document = _mapping(file.readline(_LONGEST_HEADER_BYTES))
        size_bytes = path.stat().st_size
    except OSError:
        return None
    incarnation, sequence = document.get("incarnation"), _count(document.get("sequence"))
    end, unix_seconds = _moment(document), _number(document.get("endUnixSeconds"))
    if end is None or unix_seconds is None or sequence is None or not isinstance(incarnation, str):
        return None
    if document.get("version") != FORMAT_VERSION or path.name != f"{sequence:012d}{SUFFIX}":
        return None
    return Header(
        incarnation=incarnation, sequence=sequence, end=end, end_unix_seconds=unix_seconds, size_bytes=size_bytes
    )


def read_numbering(path: Path) -> tuple[Numbering, BootMoment | None] | None:
    """Read the numbering and the newest report's end; None = not there, or not whole."""
    try:
        document = _mapping(read_named(path, most_bytes=_LONGEST_HEADER_BYTES))
    except OSError:
        return None
    incarnation, sequence = document.get("incarnation"), _count(document.get("sequence"))
    lost = _count(document.get("lost"))
    if (
        document.get("version") != FORMAT_VERSION
        or not isinstance(incarnation, str)
        or sequence is None
        or lost is None
    ):
        return None
    return Numbering(incarnation=incarnation, sequence=sequence, lost=lost), _moment(document)


def _mapping(text: bytes) -> Mapping[str, object]:
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _moment(document: Mapping[str, object]) -> BootMoment | None:
    boot_id, seconds = document.get("bootId"), _number(document.get("endBootSeconds"))
    return (
        BootMoment(boot_id=boot_id, boot_seconds=seconds) if isinstance(boot_id, str) and seconds is not None else None
    )


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT
    return value if is_count and isinstance(value, int) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return number if math.isfinite(number) else None
