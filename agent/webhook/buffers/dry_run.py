"""What the API server makes of a chunk: a pod's creation that it answers in full and does not store. Webhook.

Its defaults, LimitRanges and admission webhooks shape the chunk as they would shape a pod. Plimsoll's own webhook is
asked like any other and answers from memory, without side effects.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.buffers.buffer import Shape, Unresolved
from agent.core.buffers.resolution import after_dry_run, dry_run_pod
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.kube.client.paths import namespaced_path

log = logging.getLogger(__name__)

CALL_SECONDS: Final = 35.0
"""A webhook may keep the server waiting for thirty, and where it may be passed over the answer comes only then."""
SLOW_SECONDS: Final = 5.0
REST_SECONDS: Final = 60.0
"""A namespace where a dry run failed so slowly is left for so long: one thread looks after all of them."""
WITHOUT_RIGHT_SECONDS: Final = 600.0
"""After a refusal for want of the right it is not tried again for so long."""
_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND, _INVALID = 400, 403, 404, 422
_NO_RIGHT: Final = "cannot create resource"
"""How RBAC words it; admission plugins answer 403 as well."""
_QUOTA_FULL: Final = "exceeded quota"
_NOT_SUPPORTED: Final = "does not support dry run"


class NotTriedError(KubeError):
    """A dry run came to nothing, which says nothing of the shape; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedBuffer:
    """A shape after a dry run."""

    shape: Shape | Unresolved
    """Unresolved = a pod of this shape would be refused, and why."""
    is_whole: bool = True
    """False = a quota is full at the moment, so the server did not say what it would add."""


class DryRun:
    """Shapes chunks by dry runs, where it may; for one thread."""

    def __init__(self, api: Api, *, is_wanted: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._is_wanted, self._clock = api, is_wanted, clock
        self._without_right_until: float | None = None
        self._resting: dict[str, tuple[float, str]] = {}
        """By namespace: until when nothing is tried there, and why."""

    @property
    def has_right(self) -> bool:
        """Return whether it was allowed when it was last tried."""
        return self._without_right_until is None

    def shaped(self, shape: Shape, namespace: str) -> ShapedBuffer:
        """Return the shape as the server would have it; as it is, where dry runs are not wanted, allowed or possible.

        Raises:
            NotTriedError: No answer, or one that says nothing of the shape.
        """
        until, began = self._without_right_until, self._clock()
        if not self._is_wanted or (until is not None and began < until):
            return ShapedBuffer(shape=shape)
        self._check_rest(shape, namespace, began)
        path = namespaced_path(namespace, "pods")
        body = dry_run_pod(shape.content, namespace)
        try:
            answer = self._api.call("POST", path, query={"dryRun": "All"}, body=body, timeout_seconds=CALL_SECONDS)
            if not isinstance(answer, Mapping):
                raise Unreachable(f"POST {path}: the answer is no pod")
        except KubeError as error:
            shaped = self._refused(error, shape) if isinstance(error, ApiError) else None
            if shaped is None:
                raise self._failed(error, shape, namespace, began) from error
            return shaped
        if self._without_right_until is not None:
            self._without_right_until = None
            log.info("chunks are shaped by dry runs again")
        return ShapedBuffer(shape=after_dry_run(shape, {str(key): value for key, value in answer.items()}))

    def _check_rest(self, shape: Shape, namespace: str, now: float) -> None:
        until, why = self._resting.get(namespace, (now, ""))
        if now < until:
            raise _not_tried(shape, why)
        self._resting.pop(namespace, None)

    def _failed(self, error: KubeError, shape: Shape, namespace: str, began: float) -> NotTriedError:
        why, now = (error.message if isinstance(error, ApiError) else "") or str(error), self._clock()
        if now - began >= SLOW_SECONDS:
            self._resting[namespace] = (now + REST_SECONDS, why)
        return _not_tried(shape, why)

    def _refused(self, error: ApiError, shape: Shape) -> ShapedBuffer | None:
        if error.status == _FORBIDDEN and _NO_RIGHT in error.message:
            if self._without_right_until is None:
                log.warning(
                    "without the right to create pods, chunks of buffers are not shaped by LimitRanges and webhooks",
                    extra={"cause": str(error)},
                )
            self._without_right_until = self._clock() + WITHOUT_RIGHT_SECONDS
            return ShapedBuffer(shape=shape)
        if error.status == _FORBIDDEN and _QUOTA_FULL in error.message:
            return ShapedBuffer(shape=shape, is_whole=False)  # for how many there is room, quotas are asked later
        if _NOT_SUPPORTED in error.message:
            return ShapedBuffer(shape=shape)
        if error.status in (_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND, _INVALID):
            refusal = f"a pod of {shape.source_name} is refused: {error.message or error.reason}"
            return ShapedBuffer(shape=Unresolved(reason=refusal))
        return None


def _not_tried(shape: Shape, why: str) -> NotTriedError:
    # The same words each time: they stand in a status, which is written when it changes.
    return NotTriedError(f"a pod of {shape.source_name} could not be tried out: {why}")
