"""How pods fare of workloads of which a share is enforced, by the API: restarts, and not being Ready. Node.

CPU and kills stand in the rows anyway. One thread makes rows and looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import RUNNING, Pod
from agent.core.history.reports.rollup import ShareRow
from agent.core.history.reports.rollup_schedule import NS
from agent.core.orders.order import Orders
from agent.core.plan.needs.share_ticket import share_ticket

_READY: Final = "Ready"


@dataclass(frozen=True, slots=True)
class ShareGroup:
    """One of the two groups of a workload's pods."""

    share: str
    """As it is ordered, ``10 %``."""
    is_enforced: bool


def share_group(pod: Pod, orders: Orders) -> ShareGroup | None:
    """Return in which group a pod is; None = no share of its workload is enforced."""
    share = orders.share_in_force
    return None if share is None else ShareGroup(str(share), share.holds(share_ticket(pod)))


class ShareFares:
    """Restarts and unready time of pods in shares, since the last report."""

    def __init__(self, group: Callable[[Pod], ShareGroup | None]) -> None:
        self._group = group
        self._looked_ns: int | None = None
        self._unready_ns: dict[str, int] = {}
        """By uid, since the interval began."""
        self._restarts: dict[tuple[str, str], int] = {}
        """By uid and container, as last told."""

    def look(self, pods: Callable[[], Iterable[Pod]], now_ns: int) -> None:
        """Count who is not Ready for the time since the last look; every few seconds."""
        before_ns, self._looked_ns = self._looked_ns, now_ns
        if before_ns is None or not self._restarts:
            return  # nobody was in a group when the last report was made
        for pod in pods():
            if pod.phase == RUNNING and pod.condition(_READY) is None:
                self._unready_ns[pod.uid] = self._unready_ns.get(pod.uid, 0) + max(0, now_ns - before_ns)

    def end(self, pods: Iterable[Pod]) -> dict[tuple[str, str], ShareRow]:
        """Return how the containers fared since the last time, by uid and name, and begin anew.

        Restarts are told from the second time on that a container is seen.
        """
        unready_ns, self._unready_ns = self._unready_ns, {}
        before, self._restarts = self._restarts, {}
        by_container: dict[tuple[str, str], ShareRow] = {}
        for pod in pods:
            group = self._group(pod)
            if group is None:
                continue
            for status in pod.statuses:
                key = (pod.uid, status.name)
                self._restarts[key] = status.restart_count
                by_container[key] = ShareRow(
                    share=group.share,
                    is_enforced=group.is_enforced,
                    restarts=max(0, status.restart_count - before.get(key, status.restart_count)),
                    unready_seconds=unready_ns.get(pod.uid, 0) / NS,
                )
        return by_container
