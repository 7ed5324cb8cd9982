"""Who is short of memory by a bound of its own, looked at several times a second while somebody is.

Node, on the sampling thread. Nothing is read as long as nobody waits for memory and nobody was held back at its
memory.high; then only of those containers that may be resized and are at a bound. The rule is
``core.window.memory_shortage``'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.core.orders.plan_options import ActOptions
from agent.core.window.memory_shortage import LEAST_SECONDS, MemoryShortage, memory_shortage, waiting_ratio
from agent.sensing.spot_readings import read_memory, read_memory_waiting_usec

NEWS_NS: Final = int(LEAST_SECONDS * 1e9)
"""For so long a container counts as held back after it was, and somebody as waiting after that was seen: as long as it
takes to tell a share of the time."""


@dataclass(slots=True)
class _WaitingTimes:
    """Two readings of a container's waiting: the one to compare with, and the newest."""

    base: tuple[int, int]
    newest: tuple[int, int]


class MemoryShortages:
    """The containers that wait for memory at a bound of their own. On the sampling thread alone."""

    def __init__(
        self,
        *,
        mount: Path,
        options: ActOptions,
        limit_ratio: float,  # A memory limit becomes this x what is used
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._mount, self._options, self._limit_ratio, self._clock_ns = mount, options, limit_ratio, clock_ns
        self._held_ns: dict[str, int] = {}
        self._told_ns: dict[str, int] = {}
        self._waiting: dict[str, _WaitingTimes] = {}
        self._waiting_until_ns = 0

    def held(self, path: str) -> None:
        """Record that a cgroup's tasks were held back at its memory.high."""
        self._held_ns[path] = self._clock_ns()

    def waited(self) -> None:
        """Record that tasks of some pod have waited for memory in the last moments."""
        self._waiting_until_ns = self._clock_ns() + NEWS_NS

    @property
    def is_quiet(self) -> bool:
        """Return whether there is nothing to look at."""
        return not self._held_ns and self._clock_ns() >= self._waiting_until_ns

    def look(self, paths: Iterable[str], full: Iterable[str]) -> dict[str, MemoryShortage]:
        """Return who is short now, by cgroup path; each is told at most once in ``act.urgentIntervalSeconds``.

        Args:
            paths: Containers that may be resized.
            full: Those of them that are at their memory limit, page cache included.
        """
        now_ns = self._clock_ns()
        self._held_ns = {path: held_ns for path, held_ns in self._held_ns.items() if now_ns - held_ns <= NEWS_NS}
        spacing_ns = int(self._options.urgent_interval_seconds * 1e9)
        self._told_ns = {path: told_ns for path, told_ns in self._told_ns.items() if now_ns - told_ns < spacing_ns}
        held = self._held_ns.keys() & set(paths)
        looked_at = held | (set(full) if now_ns < self._waiting_until_ns else set())
        self._waiting = {path: waiting for path, waiting in self._waiting.items() if path in looked_at}
        shortages = {path: self._shortage(path, is_held=path in held) for path in looked_at}
        short = {path: shortage for path, shortage in shortages.items() if shortage and path not in self._told_ns}
        self._told_ns.update(dict.fromkeys(short, now_ns))
        return short

    def _shortage(self, path: str, *, is_held: bool) -> MemoryShortage | None:
        directory = self._mount / path.lstrip("/")
        is_stalled = self._is_stalled(path, directory)
        if not is_held and not is_stalled:
            return None
        reading = read_memory(directory)
        if reading is None:
            return None
        return memory_shortage(
            reading,
            is_held=is_held,
            is_stalled=is_stalled,
            fill_ratio=self._options.urgent_memory_ratio,
            limit_ratio=self._limit_ratio,
        )

    def _is_stalled(self, path: str, directory: Path) -> bool:
        some_usec = read_memory_waiting_usec(directory)
        if some_usec is None:
            self._waiting.pop(path, None)
            return False
        now = (self._clock_ns(), some_usec)
        waiting = self._waiting.setdefault(path, _WaitingTimes(base=now, newest=now))
        ratio = waiting_ratio(waiting.base, now)
        if now[0] - waiting.base[0] >= NEWS_NS:
            waiting.base = waiting.newest
        waiting.newest = now
        return ratio >= self._options.urgent_memory_waiting_ratio
