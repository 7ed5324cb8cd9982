"""Workloads that came to this node since the webhook told last: asked about once, soon, and by lot. Node; one thread.

What the webhook knows of a workload comes with its answer to a report, and those come every five minutes. A pod that is
new here would be sized by nothing else for as long. So one report is made before its time where a workload is here of
which nothing was told: within ``FIRST_SECONDS`` and a lot of ``LOT_SECONDS``, so that a DaemonSet that begins on 5,000
nodes at once brings 125 reports a second, and no more than one in ``PAUSE_SECONDS`` of a node.
"""

from __future__ import annotations

import random as system_random
from collections.abc import Callable, Collection
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup_schedule import NS

FIRST_SECONDS: Final = 2.0
"""For the watch of the webhook to have brought the pod, too."""
LOT_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 60.0


class Newcomers:
    """The workloads of which the webhook has said nothing yet, and whether a report is due for them."""

    def __init__(
        self,
        here: Callable[[], Collection[Workload]],  # Of a kind that is sized: others come and go all the time
        directive_workloads: Callable[[], Collection[Workload]],  # Those that the newest answer spoke of
        *,
        chance: Callable[[], float] = system_random.random,
    ) -> None:
        self._here, self._told, self._chance = here, directive_workloads, chance
        self._asked: frozenset[Workload] = frozenset()
        """Of those here: asking again would bring the same answer."""
        self._earliest_ns = 0
        self.due_ns: int | None = None
        """When to make a report; None = there is nobody to ask about."""

    def look(self, now_ns: int) -> None:
        """Find who is here."""
        here = frozenset(self._here())
        self._asked &= here
        if here - self._asked <= frozenset(self._told()):
            self.due_ns = None
        elif self.due_ns is None:
            lot_ns = int((FIRST_SECONDS + self._chance() * LOT_SECONDS) * NS)
            self.due_ns = max(now_ns + lot_ns, self._earliest_ns)

    def is_due(self, now_ns: int) -> bool:
        """Return whether a report is to be made now; then it counts as made."""
        if self.due_ns is None or now_ns < self.due_ns:
            return False
        self._asked = frozenset(self._here())
        self._earliest_ns = now_ns + int(PAUSE_SECONDS * NS)
        self.due_ns = None
        return True
