"""What was done to a pod, told where its owner looks: Kubernetes Events (events.k8s.io/v1), paced.

Best effort: an Event that cannot be written is counted and left. Nothing here raises, retries or waits longer than one
call; who must not even wait for that puts a queue in front.
"""

from __future__ import annotations

import http
import logging
from collections.abc import Callable
from typing import Final

from agent.core.resize.event_rate import EventPace, EventPacing, PodEvent, shortened_note
from agent.kube.client.api import MERGE_PATCH, Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.client.paths import EVENTS, namespaced_path
from agent.kube.objects.json_reader import micro_time

CONTROLLER: Final = "plimsoll.dev/agent"
PER_MINUTE: Final = 20
"""Writes of one node: at 5,000 nodes that all have something to say, 1,700 a second at worst; the usual is none."""
TIMEOUT_SECONDS: Final = 5.0
_NAME_PART: Final = 220
"""Of the pod's name in that of the Event, which may have 253 characters."""

_log = logging.getLogger(__name__)


class EventWriter:
    """Writes the Events of one node; for one thread.

    Attributes:
        written: Events made and counts written.
        held_back: Occurrences that pacing left unwritten.
        failed: Writes that the API server did not take.
    """

    def __init__(
        self,
        api: Api,
        node: str,
        *,
        unix_seconds: Callable[[], float],
        monotonic_seconds: Callable[[], float],
        per_minute: int = PER_MINUTE,
    ) -> None:
        self.written = 0
        self.held_back = 0
        self.failed = 0
        self._api = api
        self._node = node
        self._unix_seconds = unix_seconds
        self._monotonic_seconds = monotonic_seconds
        self._pacing = EventPacing(per_minute=per_minute, now_seconds=monotonic_seconds())
        self._is_failing = False

    def send(self, event: PodEvent) -> bool:
        """Report something.

        Returns:
            Whether it is written, or counted in what is written; False = left out or refused.
        """
        now = self._monotonic_seconds()
        verdict = self._pacing.next(event, now)
        if verdict.paced in (EventPace.COUNTED, EventPace.NO_BUDGET):
            self.held_back += 1
            return verdict.paced is EventPace.COUNTED
        try:
            if verdict.paced is EventPace.COUNT_UP:
                self._count_up(event, verdict.name, verdict.count)
            else:
                self._pacing.written(event, self._create(event), now)
        except KubeError as error:
            if isinstance(error, ApiError) and error.status == http.HTTPStatus.NOT_FOUND:
                self._pacing.forget(event)
            self._note_failure(error)
            return False
        self.written += 1
        self._is_failing = False
        return True

    def _create(self, event: PodEvent) -> str:
        moment = self._unix_seconds()
        # Unlike generateName, which refuses a prefix that ends in a dot, this is what other Events are called.
        name = f"{event.ref.name[:_NAME_PART].rstrip('-.')}.{int(moment * 1e9):x}"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": event.ref.namespace},
            "eventTime": micro_time(moment),
            "reportingController": CONTROLLER,
            "reportingInstance": self._node[:128],
            "action": event.reason.action,
            "reason": event.reason.value,
            "type": "Warning" if event.reason.is_warning else "Normal",
            "note": shortened_note(event.note),
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": event.ref.namespace,
                "name": event.ref.name,
                "uid": event.ref.uid,
            },
        }
        path = namespaced_path(event.ref.namespace, "events", group=EVENTS)
        self._api.call("POST", path, body=body, timeout_seconds=TIMEOUT_SECONDS)
        return name

    def _count_up(self, event: PodEvent, name: str, count: int) -> None:
        # All else of an Event is immutable.
        body = {"series": {"count": count, "lastObservedTime": micro_time(self._unix_seconds())}}
        path = namespaced_path(event.ref.namespace, "events", name, group=EVENTS)
        self._api.call("PATCH", path, body=body, content_type=MERGE_PATCH, timeout_seconds=TIMEOUT_SECONDS)

    def _note_failure(self, error: KubeError) -> None:
        self.failed += 1
        if not self._is_failing:
            _log.warning("event not written", extra={"reason": str(error)})
        self._is_failing = True
