"""Keeps VerticalPodAutoscaler objects of the recommender ``plimsoll``: one thread, the leader's alone writes. Webhook.

Where the cluster does not know the kind there are no objects, and nothing is asked.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent.core.autoscalers.options import Publish, VpaObjectOptions
from agent.kube.client.api import Api
from agent.kube.client.errors import KubeError
from agent.turns import TurnCounts, Turns
from agent.webhook.autoscalers.pods import WorkloadPods
from agent.webhook.autoscalers.publisher import Publisher, PublisherParts
from agent.webhook.autoscalers.statuses import Asking, VpaStatuses
from agent.webhook.clocks import REAL_CLOCKS, Clocks
from agent.webhook.cluster.facts import ClusterFacts

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Between two looks at what is due."""
SPACING_SECONDS: Final = 0.05
"""Between two calls: twenty a second at most."""
BACK_OFF_SECONDS: Final = 30.0
STOP_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaParts:
    """Whom the controller asks."""

    api: Api
    facts: ClusterFacts
    admission: Asking
    publishing: PublisherParts
    may_write: Callable[[], bool]
    """This replica leads, and nothing is paused."""
    is_ready: Callable[[], bool]
    """Cluster and history were read."""


class VpaController:
    """The controller of one replica."""

    def __init__(
        self,
        parts: VpaParts,
        options: VpaObjectOptions,
        *,
        clocks: Clocks = REAL_CLOCKS,
        counts: TurnCounts | None = None,
        spacing_seconds: float = SPACING_SECONDS,
    ) -> None:
        """Prepare; nothing is asked yet."""
        self.options: Final = options
        self._parts, self._spacing_seconds = parts, spacing_seconds
        self._stopping = threading.Event()
        self._turns = Turns("vpas", self._turn, failed=self._failed, counts=counts)
        self._pods = WorkloadPods(parts.api, parts.facts, pause=self._pause, clocks=clocks)
        self.statuses: Final = VpaStatuses(
            parts.api,
            parts.facts,
            self._pods,
            admission=parts.admission,
            may_write=self._may_write,
            pause=self._pause,
            clocks=clocks,
        )
        self.publisher: Final = Publisher(
            parts.publishing, self._pods, may_write=self._may_write, pause=self._pause, clocks=clocks
        )

    def start(self) -> None:
        """Begin, in a thread of its own; does nothing where it is not enabled."""
        if self.options.enabled:
            self._turns.start()

    def stop(self) -> None:
        """End; what is being written is written."""
        self._stopping.set()
        self._turns.stop()
        self._turns.join(STOP_SECONDS)

    def _may_write(self) -> bool:
        return self._parts.may_write() and not self._stopping.is_set()

    def _pause(self) -> None:
        self._stopping.wait(self._spacing_seconds)

    def _turn(self) -> float:
        if not self._may_write() or not self._parts.is_ready():
            return LOOK_SECONDS
        try:
            if self.options.publish is Publish.ENFORCED:
                self.publisher.turn()
            self.statuses.turn()
        except KubeError as error:
            log.info("VPAs are looked at later", extra={"cause": str(error)})
            return BACK_OFF_SECONDS
        self._pods.keep({orders.vpa.target for orders in self._parts.facts.own_vpas()} | self.publisher.candidates)
        return LOOK_SECONDS

    def _failed(self, _: Exception) -> float:
        log.exception("looking at VPAs failed")
        return BACK_OFF_SECONDS
