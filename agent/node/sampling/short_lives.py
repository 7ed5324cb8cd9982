"""The memory of containers that ended young, until those who size take it over.

Node; the sampling thread tells and names them, two others take: each gets each life once. A container of a second is
named after its end, as a rule: the kubelet tells its id a moment later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.node.sampling.unit_table import WatchedUnit

MOST_LIVES: Final = 1000
"""That wait, at most; the oldest go first."""
UNNAMED_NS: Final = 60_000_000_000
"""What no pod names for so long is a sandbox, or its pod is gone; a pods file is read again each half minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortLife:
    """A container that has ended young."""

    unit: WatchedUnit
    """As it was; its slot is another's by now."""
    started_ns: int
    """CLOCK_MONOTONIC, as the end."""
    ended_ns: int
    working_set_bytes: int
    """The largest that it may have had."""

    @property
    def is_named(self) -> bool:
        """Whether it is known which container of which pod it was."""
        return self.unit.identity.kind is UnitKind.CONTAINER and self.unit.identity.container is not None


class ShortLives:
    """The memory peaks of containers that ended young, each given once to either taker."""

    def __init__(self) -> None:
        self._unnamed: deque[ShortLife] = deque(maxlen=MOST_LIVES)
        self._of_minutes: deque[ShortLife] = deque(maxlen=MOST_LIVES)
        self._of_report: deque[ShortLife] | None = None

    # -- the sampling thread ---------------------------------------------------------------------------------------

    def add(self, life: ShortLife) -> None:
        """Keep a life; one without a name waits for it."""
        while self._unnamed and life.ended_ns - self._unnamed[0].ended_ns > UNNAMED_NS:
            self._unnamed.popleft()
        if not life.is_named:
            self._unnamed.append(life)
            return
        self._of_minutes.append(life)
        if self._of_report is not None:
            self._of_report.append(life)

    def rename(self, name: Callable[[UnitIdentity], tuple[UnitIdentity, UnitResources]]) -> None:
        """Record the names that the pod source knows by now."""
        waiting = list(self._unnamed)
        self._unnamed.clear()
        for life in waiting:
            identity, resources = name(life.unit.identity)
            self.add(replace(life, unit=replace(life.unit, identity=identity, resources=resources)))

    # -- other threads ---------------------------------------------------------------------------------------------

    def report(self) -> None:
        """Keep lives for ``take_for_report`` too; before the threads start."""
        self._of_report = deque(maxlen=MOST_LIVES)

    def take_until(self, end_ns: int) -> list[ShortLife]:
        """Return the named lives that ended up to a moment, for the minutes; later ones wait."""
        taken = [self._of_minutes.popleft() for _ in range(len(self._of_minutes))]
        self._of_minutes.extend(life for life in taken if life.ended_ns > end_ns)
        return [life for life in taken if life.ended_ns <= end_ns]

    def take_for_report(self) -> list[ShortLife]:
        """Return the named lives that nobody has taken for a report yet."""
        of_report = self._of_report
        return [] if of_report is None else [of_report.popleft() for _ in range(len(of_report))]
