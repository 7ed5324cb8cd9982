"""Writes the status of VerticalPodAutoscaler objects, calmly. Webhook; the leader's thread.

An object is looked at once a minute, or when its spec changes, and written when its status differs by enough: at most
once a minute each, and twenty a second in all.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.core.admission.answer import Admission
from agent.core.autoscalers.vpa_orders import VpaOrders
from agent.core.autoscalers.vpa_status import VpaView, is_worth_writing, status_of
from agent.core.autoscalers.written_pod import first_of_share, to_recommend
from agent.core.cluster.pod import Pod
from agent.core.cluster.vpa import VpaObject, VpaStatus
from agent.kube.client.api import MERGE_PATCH, Api
from agent.kube.client.errors import ApiError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.vpa_json import GROUP_PATH, VPAS, status_to_json
from agent.webhook.autoscalers.pods import WorkloadPods
from agent.webhook.clocks import Clocks
from agent.webhook.cluster.facts import ClusterFacts

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 60.0
"""Between two looks at one object, and between two writes of it."""
WRITE_SECONDS: Final = 10.0
WRITTEN, REFUSED, CHANGED, KEPT = "written", "refused", "changed", "kept"
RESULTS: Final = (WRITTEN, KEPT, CHANGED, REFUSED)
_CHANGED_CODES: Final = (404, 409)
"""It is gone, or no longer what was looked at."""

Asking = Callable[[Pod, bool], Admission]
"""What a new pod would be given; True = by what the objects and annotations order, else whoever sizes it."""


@dataclass(slots=True)
class _SeenObject:
    """What was done about one object."""

    generation: int = -1
    looked_seconds: float = float("-inf")
    written_seconds: float = float("-inf")


class VpaStatuses:
    """Keeps the statuses true."""

    def __init__(
        self,
        api: Api,
        facts: ClusterFacts,
        pods: WorkloadPods,
        *,
        admission: Asking,
        may_write: Callable[[], bool],
        pause: Callable[[], None],
        clocks: Clocks,
    ) -> None:
        """Begin; ``pause`` is called before each write, and keeps it to twenty a second."""
        self._api, self._facts, self._pods = api, facts, pods
        self._admission, self._may_write, self._pause = admission, may_write, pause
        self._clock, self._wall = clocks.monotonic, clocks.wall
        self._seen: dict[str, _SeenObject] = {}
        self.results: Final[Counter[str]] = Counter()
        """Looks at objects, by how they came out."""

    def turn(self) -> None:
        """Check the objects that are due.

        Raises:
            KubeError: The server is away.
        """
        every = self._facts.own_vpas()
        self._seen = {orders.vpa.uid: self._seen.get(orders.vpa.uid, _SeenObject()) for orders in every}
        due = [orders for orders in every if self._is_due(orders.vpa)]
        if not due:
            return
        pods = self._pods.read({orders.vpa.target for orders in due})
        for orders in due:
            if not self._may_write():
                return
            if orders.vpa.target in pods:  # else it is read at one of the next turns
                self._look(orders, pods[orders.vpa.target])

    def _is_due(self, vpa: VpaObject) -> bool:
        seen, now = self._seen[vpa.uid], self._clock()
        if now - seen.written_seconds < INTERVAL_SECONDS:
            return False
        return seen.generation != vpa.generation or now - seen.looked_seconds >= INTERVAL_SECONDS

    def _look(self, orders: VpaOrders, pod: Pod | None) -> None:
        vpa = orders.vpa
        seen = self._seen[vpa.uid]
        status = status_of(self._view(orders, pod), now_unix_seconds=self._wall())
        seen.looked_seconds, seen.generation = self._clock(), vpa.generation
        if not is_worth_writing(vpa.status, status):
            self.results[KEPT] += 1
            return
        self._pause()
        seen.written_seconds = self._clock()
        result = self._written(vpa, status)
        if result == CHANGED:
            self._seen[vpa.uid] = _SeenObject()  # it is looked at again as soon as the watch has brought it
        self.results[result] += 1

    def _view(self, orders: VpaOrders, pod: Pod | None) -> VpaView:
        held_by = self._facts.held_by(orders.vpa)
        if pod is None:
            return VpaView(orders=orders, held_by=held_by)
        standing = self._admission(first_of_share(pod, unix_seconds=self._wall()), True)
        admission = None
        if standing.orders is not None and held_by is None:
            admission = self._admission(to_recommend(pod, standing.orders.mode), False)
        return VpaView(orders=orders, pod=pod, admission=admission, standing=standing, held_by=held_by)

    def _written(self, vpa: VpaObject, status: VpaStatus) -> str:
        path = namespaced_path(vpa.namespace, VPAS, vpa.name, "status", group=GROUP_PATH)
        try:
            self._api.call(
                "PATCH",
                path,
                query={"fieldManager": "plimsoll-vpa"},
                body=status_to_json(vpa, status),
                content_type=MERGE_PATCH,
                timeout_seconds=WRITE_SECONDS,
            )
        except ApiError as error:
            if error.status in _CHANGED_CODES:
                return CHANGED
            log.warning("the status of a VPA is not written", extra={"vpa": str(vpa), "cause": str(error)})
            return REFUSED
        log.info("status written", extra={"vpa": str(vpa), "conditions": _words(status)})
        return WRITTEN


def _words(status: VpaStatus) -> str:
    return ", ".join(f"{condition.type} {condition.status} ({condition.reason})" for condition in status.conditions)
