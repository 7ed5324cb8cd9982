"""Whose certificates agents are to believe: ca.crt alone, in a ConfigMap. Webhook; the leader writes.

Not the Secret itself, of which they would mount one key: a kubelet may read the whole of each Secret that a pod of its
node names, and agents are on every node, so every node could sign as the webhook.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from agent.kube.client.api import MERGE_PATCH, Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.json_reader import ConvertError, Reader

log = logging.getLogger(__name__)

AUTHORITIES: Final = "ca.crt"
AGAIN_SECONDS: Final = 600.0
"""Between two writings of the same: somebody may have changed it, and nobody watches."""
MISSING_AGAIN_SECONDS: Final = 60.0
"""Between two looks at what somebody else may put there."""
_NOT_FOUND: Final = 404
_NOBODY: Final = object()


class Publication:
    """The ConfigMap; one thread."""

    def __init__(self, api: Api, namespace: str, name: str, *, clock: Callable[[], float]) -> None:
        """Prepare; nothing is asked yet. The ConfigMap is the chart's: where there is none, nobody is told."""
        self._api, self._clock = api, clock
        self._name: Final = name
        self._path: Final = namespaced_path(namespace, "configmaps", name)
        self._published: bytes | None = None
        self._looked_for: object = None
        self._due_seconds = 0.0
        self.fault: str | None = None
        """Why agents are not told, one line; None = they are, as far as is known."""

    def ensure(self, bundle_pem: bytes) -> None:
        """Write the authorities where they are not known to stand; never raises for the API's sake."""
        now = self._clock()
        if bundle_pem == self._published and now < self._due_seconds:
            return
        self._looked_for = None
        body = {"data": {AUTHORITIES: bundle_pem.decode("ascii", errors="replace")}}
        if self._patched(body) is not None:
            self._published, self._due_seconds, self.fault = bundle_pem, now + AGAIN_SECONDS, None

    def look(self, served: bytes, vouches: Callable[[bytes], bool], why: str) -> None:
        """Check whether agents are told of who vouches, by somebody else; nothing is written. Never raises for the API.

        For another certificate it is looked again at once; ``why`` nothing is known here that could be written begins a
        line.
        """
        now = self._clock()
        if served == self._looked_for and now < self._due_seconds:
            return
        self._published = None
        answer = self._patched({})  # which gives the object as it is: to read it would take another right
        if answer is None:
            return
        fault = self._fault_of(answer, vouches, why) if answer is not _NOBODY else None
        if fault is not None and fault != self.fault:
            log.warning("agents are not told whom to trust", extra={"cause": fault})
        self._looked_for, self._due_seconds, self.fault = served, now + MISSING_AGAIN_SECONDS, fault

    def forget(self) -> None:
        """Another replica does it now: what is wrong is for that one to tell."""
        self._published = self._looked_for = self.fault = None

    def _fault_of(self, answer: object, vouches: Callable[[bytes], bool], why: str) -> str | None:
        try:
            bundle_pem = (Reader(answer, "").child("data").text(AUTHORITIES) or "").encode()
        except ConvertError as error:
            return f"{why}: what ConfigMap {self._name} tells agents is not understood: {error}"
        if not bundle_pem.strip():
            return f"{why}: agents are told nobody to trust"
        return None if vouches(bundle_pem) else f"{why}: ConfigMap {self._name} tells agents to trust somebody else"

    def _patched(self, body: object) -> object | None:
        """Patch; None = it failed, which is told and tried again; ``_NOBODY`` = there is no ConfigMap."""
        try:
            answer = self._api.call("PATCH", self._path, body=body, content_type=MERGE_PATCH)
        except KubeError as error:
            if isinstance(error, ApiError) and error.status == _NOT_FOUND:
                return _NOBODY
            if self.fault is None:
                log.warning("agents are not told whom to trust", extra={"cause": str(error)})
            self.fault = f"ConfigMap {self._name}, from which agents know whom to trust: {error}"
            return None
        return {} if answer is None else answer
