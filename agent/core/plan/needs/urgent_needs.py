"""What one starving container was seen to need, remembered: first as its demand, then as a peak. Core, pure.

A burst that had to wait is planned with as sustained demand while it is fresh, so that the container is helped at once.
After that the windows know whether it was sustained. What they cannot know, as their rates are taken over a minute, is
how high the burst went: for an hour more it counts as the container's peak, and takes part in sharing the node's spike
headroom. Forgotten earlier, each burst would be followed by a shrink, and that by the next burst.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Final, TypeVar

from agent.core.plan.needs.demand import Urgent

_Number = TypeVar("_Number", int, float)

PEAK_SECONDS: Final = 3600.0
"""As long as the policy ``cruise`` counts a peak of the current prediction."""


class UrgentNeeds:
    """Of one container. Times are seconds of a clock that does not go back."""

    def __init__(self) -> None:
        self._peaks: list[tuple[float, Urgent]] = []
        """When, and how much: each larger than all that came after it."""
        self._is_pressed = False

    def add(self, seen: Urgent, now_seconds: float) -> None:
        """Remember what was seen; waiting for memory is kept for ``take_pressed`` alone."""
        self._is_pressed = self._is_pressed or seen.memory_waiting_ratio is not None
        seen = replace(seen, memory_waiting_ratio=None)
        if seen == Urgent():
            return
        self._peaks = [(when, peak) for when, peak in self._peaks if larger(seen, peak) != seen]
        self._peaks.append((now_seconds, seen))

    def take_pressed(self) -> bool:
        """Return whether it has waited for memory since the last call."""
        pressed, self._is_pressed = self._is_pressed, False
        return pressed

    def at(self, now_seconds: float, fresh_seconds: float) -> Urgent | None:
        """Return what is remembered at a moment; None = nothing is, and nothing will be.

        For ``fresh_seconds`` after it was last seen it is demand; after that it is a peak.
        """
        longest_seconds = max(PEAK_SECONDS, fresh_seconds)
        self._peaks = [(when, peak) for when, peak in self._peaks if now_seconds - when < longest_seconds]
        fresh = [peak for when, peak in self._peaks if now_seconds - when < fresh_seconds]
        if fresh:
            return reduce(larger, fresh)
        if not self._peaks:
            return Urgent(is_past=True) if self._is_pressed else None
        most = reduce(larger, (peak for _, peak in self._peaks))
        return replace(most, is_past=True, memory_limit_bytes=None, memory_short=None)


def larger(first: Urgent, other: Urgent) -> Urgent:
    """Return the larger of each figure; None where neither has it."""
    return replace(
        first,
        cpu_millicores=_most(first.cpu_millicores, other.cpu_millicores),
        cpu_waiting_ratio=_most(first.cpu_waiting_ratio, other.cpu_waiting_ratio),
        memory_bytes=_most(first.memory_bytes, other.memory_bytes),
        memory_limit_bytes=_most(first.memory_limit_bytes, other.memory_limit_bytes),
        memory_short=first.memory_short or other.memory_short,
    )


def _most(first: _Number | None, other: _Number | None) -> _Number | None:
    known = [value for value in (first, other) if value is not None]
    return max(known, default=None)
