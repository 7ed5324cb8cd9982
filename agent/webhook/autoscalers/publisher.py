"""Makes VerticalPodAutoscaler objects for workloads that Plimsoll sizes, for whoever reads them. Webhook; the leader.

They carry the label ``plimsoll.dev/managed``, order nothing, and go when their reason does: the workload is no longer
sized, or gone, or people made an object of their own. Where VPA's own admission controller is registered there are
none: it would size pods by them.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.admission.answer import Admission
from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import Workload
from agent.core.orders.order import Mode
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.vpa_json import GROUP_PATH, VPAS, managed_to_json
from agent.webhook.autoscalers.pods import WorkloadPods
from agent.webhook.clocks import Clocks
from agent.webhook.cluster.facts import ClusterFacts

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 60.0
CALL_SECONDS: Final = 10.0
MADE, REMOVED, REFUSED = "made", "removed", "refused"
RESULTS: Final = (MADE, REMOVED, REFUSED)
API_VERSIONS: Final[Mapping[str, str]] = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "Rollout": "argoproj.io/v1alpha1",
}
"""Of targets. A DaemonSet's pods are sized node by node, so there is no one figure to publish."""
_LONGEST_NAME: Final = 253
_DIGEST: Final = 8
_CONFLICT, _NOT_FOUND = 409, 404


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherParts:
    """Whom it asks."""

    api: Api
    facts: ClusterFacts
    workloads: Callable[[], Iterable[Workload]]
    """Those with a history."""
    admission: Callable[[Pod], Admission]
    """What becomes of a pod that is created now."""


class Publisher:
    """Keeps the objects that Plimsoll made itself."""

    def __init__(
        self,
        parts: PublisherParts,
        pods: WorkloadPods,
        *,
        may_write: Callable[[], bool],
        pause: Callable[[], None],
        clocks: Clocks,
    ) -> None:
        """Begin; ``pause`` is called before each write."""
        self._parts, self._pods = parts, pods
        self._may_write, self._pause, self._clock = may_write, pause, clocks.monotonic
        self._due_seconds = clocks.monotonic()
        self.candidates: frozenset[Workload] = frozenset()
        """Workloads that were looked at last: their pods are asked about again and again."""
        self.results: Final[Counter[str]] = Counter()

    def turn(self) -> None:
        """Make and remove what is due, once a minute.

        Raises:
            KubeError: The server is away.
        """
        if self._clock() < self._due_seconds or not self._parts.facts.serves_vpas:
            return
        self._due_seconds = self._clock() + INTERVAL_SECONDS
        wanted, unknown = self._wanted()
        standing = {orders.vpa.target: orders.vpa for orders in self._parts.facts.own_vpas() if orders.vpa.is_managed}
        for workload, vpa in standing.items():
            if workload not in wanted | unknown and self._may_write():
                path = namespaced_path(vpa.namespace, VPAS, vpa.name, group=GROUP_PATH)
                self._call("DELETE", path, {"preconditions": {"uid": vpa.uid}}, REMOVED, workload)
        for workload in sorted(wanted - standing.keys()):
            if self._may_write():
                body = managed_to_json(workload, managed_name(workload), API_VERSIONS[workload.kind])
                path = namespaced_path(workload.namespace, VPAS, group=GROUP_PATH)
                self._call("POST", path, body, MADE, workload)

    def _wanted(self) -> tuple[set[Workload], set[Workload]]:
        """Return the workloads that are to have an object, and those of which that is not known yet."""
        facts = self._parts.facts
        if facts.has_their_admission:
            self.candidates = frozenset()
            return set(), set()
        self.candidates = frozenset(
            workload
            for workload in self._parts.workloads()
            if workload.kind in API_VERSIONS and not facts.has_vpa(workload)
        )
        pods = self._pods.read(self.candidates)
        sized = {workload for workload, pod in pods.items() if pod is not None and self._is_sized(pod)}
        return sized, set(self.candidates - pods.keys())

    def _is_sized(self, pod: Pod) -> bool:
        orders = self._parts.admission(pod).orders
        return orders is not None and orders.mode is Mode.ENFORCE

    def _call(self, method: str, path: str, body: object, result: str, workload: Workload) -> None:
        self._pause()
        named = f"{workload.kind} {workload.namespace}/{workload.name}"
        try:
            self._parts.api.call(method, path, body=body, timeout_seconds=CALL_SECONDS)
        except ApiError as error:
            if error.status in (_CONFLICT, _NOT_FOUND):
                return  # somebody was quicker
            self.results[REFUSED] += 1
            log.warning("a VPA is not published", extra={"workload": named, "how": method, "cause": str(error)})
            return
        self.results[result] += 1
        log.info("VPA published", extra={"workload": named, "how": result})


def managed_name(workload: Workload) -> str:
    """Return the name of the object for a workload: ``plimsoll-deployment-web``, cut where that is too long."""
    name = f"plimsoll-{workload.kind.lower()}-{workload.name}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=_DIGEST // 2).hexdigest()
    return f"{name[: _LONGEST_NAME - _DIGEST - 1].rstrip('-.')}-{digest}"
