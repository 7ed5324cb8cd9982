"""Has placeholder pods of a node give way where a real pod on it would have to go for want of room. Webhook.

A placeholder that is gone leaves its room to whoever is on the node: the next plan there grows into it. The buffer's
controller sees that it gave way, and makes it anew after a while, where there is room.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from agent.core.buffers.placeholders import who_gives_way
from agent.core.cluster.pod import CPU, MEMORY, Pod
from agent.core.cluster.resource import Resource
from agent.core.eviction.proposal import Proposal, Reason, Ruling
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError
from agent.webhook.buffers.placeholders import remove_placeholder

log = logging.getLogger(__name__)

SPACING_SECONDS: Final = 30.0
"""Until the node has made use of what it got."""
CALL_SECONDS: Final = 2.0
"""An agent waits, and there may be several."""
_FORBIDDEN: Final = 403


class GivingWay:
    """Makes room; any thread."""

    def __init__(
        self, api: Api, *, pods: Callable[[], Iterable[Pod] | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin; ``pods`` returns all placeholder pods that there are, None = they have not been read yet."""
        self._api, self._pods, self._clock = api, pods, clock
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[float, Ruling]] = {}
        """By node: until when no more of its placeholders go, and what its proposals are answered as long."""

    def __call__(self, node: str, proposal: Proposal, doubt: Callable[[], Ruling | None], /) -> Ruling | None:
        """Make room by placeholders for what a node proposes; None = it has none that hold any of it.

        Where the proposal says how much is needed, as many go as hold that; else one. ``doubt`` says why nobody may go
        at the moment, a pause above all, None = somebody may; whoever calls has just asked it.
        """
        pods = self._pods()
        if pods is None:
            return Ruling(reason=Reason.FACTS_UNKNOWN, detail="the placeholder pods have not been read yet")
        with self._lock:
            now = self._clock()
            self._answers = {name: answer for name, answer in self._answers.items() if answer[0] > now}
            if node in self._answers:
                return self._answers[node][1]
            chosen = self._chosen(pods, node, proposal)
            if not chosen:
                return None
            until = now + SPACING_SECONDS
            making = Ruling(reason=Reason.PLACEHOLDER, detail="placeholder pods of its node are making room")
            self._answers[node] = until, making
        ruling = self._removed(node, chosen, doubt)
        with self._lock:
            self._answers[node] = until, ruling
        return ruling

    def _chosen(self, pods: Iterable[Pod], node: str, proposal: Proposal) -> tuple[Pod, ...]:
        resource = proposal.want.resource
        name, unit = (CPU, NANOS_PER_MILLI) if resource is Resource.CPU else (MEMORY, NANOS_PER_UNIT)
        needed, requested = proposal.needed.of(resource), proposal.requested.of(resource)
        lacking = 0 if needed is None or requested is None else needed - requested
        return who_gives_way(pods, node=node, resource=name, lacking_nanos=lacking * unit)

    def _removed(self, node: str, chosen: tuple[Pod, ...], doubt: Callable[[], Ruling | None]) -> Ruling:
        names: list[str] = []
        for pod in chosen:
            if names and doubt() is not None:
                break  # the arbiter says so itself, from the next proposal on
            name = f"{pod.namespace}/{pod.name}"
            try:
                remove_placeholder(
                    self._api, namespace=pod.namespace, name=pod.name, uid=pod.uid, timeout_seconds=CALL_SECONDS
                )
            except KubeError as error:
                # Not a real pod instead: it would go for want of room that stands empty.
                is_forbidden = isinstance(error, ApiError) and error.status == _FORBIDDEN
                reason = Reason.FORBIDDEN if is_forbidden else Reason.API_AWAY
                return Ruling(reason=reason, detail=f"{name}, a placeholder pod, is in its way: {error}")
            names.append(name)
        log.info("placeholder pods gave way to pods of their node", extra={"node": node, "pods": names})
        makes = "makes room, a placeholder pod" if len(names) == 1 else "make room, placeholder pods"
        return Ruling(reason=Reason.PLACEHOLDER, detail=f"{', '.join(names)} {makes} of its node")
