"""Which sequence numbers of one incarnation were taken: the highest, and what is missing below it. Webhook; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent.webhook.store.shapes import NewReport

RANGES_MAX: Final = 64
"""Gaps remembered. A queue sends oldest first, so that one or two are usual; a row stays below 3 KB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The reports taken of one incarnation: each sequence once, in any order."""

    lowest_sequence: int
    """The first taken; whether anything before it was lost, nobody here can know."""
    highest_sequence: int
    missing: tuple[tuple[int, int], ...]
    """Gaps below the highest, first and last sequence, ascending; what comes late is taken only out of one of them."""
    reports: int
    lost_reports: int
    """By the node's own count."""
    first_received_unix_seconds: float
    last_received_unix_seconds: float

    @property
    def missing_reports(self) -> int:
        """How many between the lowest and the highest were not taken (yet)."""
        return self.highest_sequence - self.lowest_sequence + 1 - self.reports


def first_mark(entry: NewReport) -> Mark:
    """Begin with the first report of an incarnation that comes; earlier ones may still come."""
    return Mark(
        lowest_sequence=entry.sequence,
        highest_sequence=entry.sequence,
        missing=_between(0, entry.sequence),
        reports=1,
        lost_reports=entry.lost_reports,
        first_received_unix_seconds=entry.received_unix_seconds,
        last_received_unix_seconds=entry.received_unix_seconds,
    )


def moved(mark: Mark, entry: NewReport) -> Mark | None:
    """Return the mark with one more report, or None: its sequence was taken or given up.

    With more than ``RANGES_MAX`` gaps the oldest is given up: what belongs there is missing for good, as it could no
    longer be told from a repeat.
    """
    missing = _without(mark, entry.sequence)
    if missing is None:
        return None
    return Mark(
        lowest_sequence=min(mark.lowest_sequence, entry.sequence),
        highest_sequence=max(mark.highest_sequence, entry.sequence),
        missing=missing[-RANGES_MAX:],
        reports=mark.reports + 1,
        lost_reports=max(mark.lost_reports, entry.lost_reports),
        first_received_unix_seconds=min(mark.first_received_unix_seconds, entry.received_unix_seconds),
        last_received_unix_seconds=max(mark.last_received_unix_seconds, entry.received_unix_seconds),
    )


def _without(mark: Mark, sequence: int) -> tuple[tuple[int, int], ...] | None:
    if sequence > mark.highest_sequence:
        return (*mark.missing, *_between(mark.highest_sequence, sequence))
    for place, (first, last) in enumerate(mark.missing):
        if first <= sequence <= last:
            parts = (*_between(first - 1, sequence), *_between(sequence, last + 1))
            return (*mark.missing[:place], *parts, *mark.missing[place + 1 :])
    return None


def _between(before: int, after: int) -> tuple[tuple[int, int], ...]:
    return ((before + 1, after - 1),) if after - before > 1 else ()


def ranges_text(ranges: tuple[tuple[int, int], ...]) -> str:
    """Write ranges as "3-5 9-9"."""
    return " ".join(f"{first}-{last}" for first, last in ranges)


def parse_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Read what ``ranges_text`` wrote."""
    return tuple((int(first), int(last)) for first, _, last in (part.partition("-") for part in text.split()))
