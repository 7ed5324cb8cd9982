"""Whose certificates agents are to believe: ca.crt alone, in a ConfigMap. Webhook; the leader writes.

Not the Secret itself, of which they would mount one key: a kubelet may read the whole of each Secret that a pod of its
node names, and agents are on every node, so every node could sign as the webhook.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from agent.kube.api import MERGE_PATCH, Api
from agent.kube.errors import ApiError, KubeError

log = logging.getLogger(__name__)

AUTHORITIES: Final = "ca.crt"
AGAIN_SECONDS: Final = 600.0
"""Between two writings of the same: somebody may have changed it, and nobody watches."""
_NOT_FOUND: Final = 404


class Publication:
    """The ConfigMap; one thread."""

    def __init__(self, api: Api, namespace: str, name: str, *, clock: Callable[[], float]) -> None:
        """Prepare; nothing is asked yet.

        Args:
            api: The server.
            namespace: Of the ConfigMap.
            name: Of the ConfigMap, which the chart makes; where there is none, nobody is told.
            clock: Monotonic seconds.
        """
        self._api, self._clock = api, clock
        self._name: Final = name
        self._path: Final = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(name, safe='')}"
        self._published: bytes | None = None
        self._due_seconds = 0.0
        self.fault: str | None = None
        """Why the newest try failed, one line; None = it did not."""

    def ensure(self, bundle_pem: bytes) -> None:
        """Write the authorities where they are not known to stand; never raises for the API's sake."""
        now = self._clock()
        if bundle_pem == self._published and now < self._due_seconds:
            return
        body = {"data": {AUTHORITIES: bundle_pem.decode("ascii", errors="replace")}}
        try:
            self._api.call("PATCH", self._path, body=body, content_type=MERGE_PATCH)
        except KubeError as error:
            if not (isinstance(error, ApiError) and error.status == _NOT_FOUND):
                if self.fault is None:
                    log.warning("agents are not told whom to trust", extra={"cause": str(error)})
                self.fault = f"ConfigMap {self._name}, from which agents know whom to trust: {error}"
                return
        self._published, self._due_seconds, self.fault = bundle_pem, now + AGAIN_SECONDS, None
