"""How many pods of each workload were given a ticket of an enforced share, so that the next is counted on. No I/O.

It is of this process alone: after a restart the count begins where the workload's running pods end, and what was given
stands in the pods.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.plan.needs.share_ticket import next_ticket

MOST_WORKLOADS: Final = 10_000
"""With an enforced share; of more the ones that were longest without a new pod begin anew."""


class ShareTickets:
    """Counts; for any thread."""

    def __init__(self, running: Callable[[Workload], int | None]) -> None:
        """Begin; ``running`` counts the pods of a workload that run."""
        self._running = running
        self._guard = threading.Lock()
        self._given: OrderedDict[Workload, int] = OrderedDict()

    def next(self, workload: Workload, pod_name: str, node: str | None) -> int:
        """Return the ticket of the workload's next pod; asking again gives the same until one was ``given``."""
        return next_ticket(workload, pod_name, node=node, before=self._before(workload))

    def given(self, workload: Workload) -> None:
        """Record that a pod of a workload was given its ticket."""
        before = self._before(workload)
        with self._guard:
            # Read again: a review that takes long is answered in a thread, and others meanwhile.
            self._given[workload] = self._given.get(workload, before) + 1
            self._given.move_to_end(workload)
            if len(self._given) > MOST_WORKLOADS:
                self._given.popitem(last=False)

    def _before(self, workload: Workload) -> int:
        with self._guard:
            given = self._given.get(workload)
        return (self._running(workload) or 0) if given is None else given
