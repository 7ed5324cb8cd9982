"""One pod of each workload, read once and kept: what its author wrote is asked of admission. Webhook; one thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from agent.core.autoscalers.written_pod import written_pod
from agent.core.cluster.facts import PodPlace
from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import Workload
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.pod_json import pod_from_json
from agent.webhook.clocks import Clocks
from agent.webhook.cluster.facts import ClusterFacts

log = logging.getLogger(__name__)

KEPT_SECONDS: Final = 1800.0
"""A pod that stays is read again after so long: its annotations may have been changed."""
MOST_READS: Final = 100
"""At once: the others come at the next turn."""
READ_SECONDS: Final = 5.0
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class _ReadPod:
    uid: str
    pod: Pod | None
    """None = it is gone or not understood: asked each turn again, a hundred of them would leave no read for others."""
    read_seconds: float


class WorkloadPods:
    """Gives a pod of a workload as it was written."""

    def __init__(self, api: Api, facts: ClusterFacts, *, pause: Callable[[], None], clocks: Clocks) -> None:
        """Begin empty; ``pause`` is called before each read."""
        self._api, self._facts, self._pause, self._clock = api, facts, pause, clocks.monotonic
        self._known: dict[Workload, _ReadPod] = {}

    def read(self, workloads: Iterable[Workload]) -> dict[Workload, Pod | None]:
        """Return a pod of each; None = it has none. Those that could not be read yet, or not understood, are left out.

        Raises:
            KubeError: The server is away.
        """
        wanted = set(workloads)
        known = {workload: read for workload in wanted if (read := self._still(workload)) is not None}
        missing = wanted - known.keys()
        places = self._facts.a_pod_of(missing) if missing else {}
        for workload, place in sorted(places.items(), key=lambda pair: pair[0])[:MOST_READS]:
            known[workload] = self._known[workload] = _ReadPod(place.uid, self._read(place), self._clock())
        understood = {workload: read.pod for workload, read in known.items() if read.pod is not None}
        return understood | dict.fromkeys(missing - places.keys())

    def keep(self, workloads: Iterable[Workload]) -> None:
        """Forget all other workloads."""
        wanted = set(workloads)
        self._known = {workload: reading for workload, reading in self._known.items() if workload in wanted}

    def _still(self, workload: Workload) -> _ReadPod | None:
        known = self._known.get(workload)
        if known is None or self._clock() - known.read_seconds > KEPT_SECONDS:
            return None
        place = self._facts.pod(known.uid)
        return None if place is None or place.is_terminating else known

    def _read(self, place: PodPlace) -> Pod | None:
        self._pause()
        try:
            document = self._api.call(
                "GET", namespaced_path(place.namespace, "pods", place.name), timeout_seconds=READ_SECONDS
            )
            return written_pod(self._facts.with_top_owner(pod_from_json(document)))
        except ConvertError as error:
            log.debug("a pod is not understood", extra={"pod": f"{place.namespace}/{place.name}", "cause": str(error)})
            return None
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
