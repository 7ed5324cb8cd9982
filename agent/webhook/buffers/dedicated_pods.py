"""How many pods fill the buffers that are for the pods of a selector. Webhook; one watch counts for each selector.

A pod counts from when it has a node until it has ended or is gone; placeholder pods never do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.buffers.buffer import Buffer
from agent.core.buffers.dedication import DEDICATED_TO, selector_fault
from agent.core.buffers.reconciliation import is_ours
from agent.core.orders.annotations import PLACEHOLDER
from agent.kube.client.api import Api
from agent.kube.client.paths import namespaced_path
from agent.kube.watch.reflector import Reflector, WatchPace, WatchSource
from agent.webhook.buffers.watches import METADATA, METADATA_LIST
from agent.webhook.clocks import REAL_CLOCKS, Clocks

_ON_A_NODE: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
STOP_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What is known of the pods that fill a buffer."""

    pods: int | None = None
    """None = not known (yet), or it is for nobody."""
    is_known: bool = True
    """False = it is for some pods, and those have not been counted yet."""
    fault: str | None = None
    """What of its selector is not understood."""
    trouble: str | None = None
    """Why they could not be counted, or not anew."""


class DedicatedPods:
    """The counts of all selectors; for the controller's thread, and ``stop`` for who ends it."""

    def __init__(
        self, api: Api, *, on_change: Callable[[str], None], pace: WatchPace | None = None, clocks: Clocks = REAL_CLOCKS
    ) -> None:
        """Begin; nothing is asked yet. ``on_change`` is told of a namespace in which a count changed."""
        self._api, self._on_change, self._clocks = api, on_change, clocks
        self._pace = replace(pace if pace is not None else WatchPace(), start_spread_seconds=0.0)
        self._lock = threading.Lock()
        """Guards what follows: the controller may be in the middle of a look when all ends."""
        self._watches: dict[tuple[str, str], Reflector[str]] = {}
        self._is_stopped = False

    def filling(self, buffer: Buffer) -> Filling:
        """Return how far a buffer is filled; the first question of a selector begins to count."""
        text = buffer.annotations.get(DEDICATED_TO)
        if text is None or not is_ours(buffer):
            return Filling()
        fault = selector_fault(text)
        if fault is not None:
            return Filling(fault=fault)
        key = (buffer.namespace, text.strip())
        with self._lock:
            watch = self._watches.get(key)
            if watch is None and self._is_stopped:
                return Filling(is_known=False)
            if watch is None:
                watch = self._watches[key] = self._watch(*key)
                watch.start()
        trouble = None if watch.trouble is None else f"pods of {text.strip()}: {watch.trouble}"
        if not watch.is_listed:
            return Filling(is_known=False, trouble=trouble)
        return Filling(pods=len(watch.kept), trouble=trouble)

    def keep_only(self, buffers: Sequence[Buffer]) -> None:
        """Count for these buffers alone from now on."""
        wanted = {(buffer.namespace, buffer.annotations.get(DEDICATED_TO, "").strip()) for buffer in buffers}
        with self._lock:
            ended = [self._watches.pop(key) for key in tuple(self._watches) if key not in wanted]
        for watch in ended:
            watch.stop()

    def stop(self) -> None:
        """End all counts."""
        with self._lock:
            self._is_stopped = True
            running = list(self._watches.values())
            self._watches.clear()
        for watch in running:
            watch.stop()
        until = time.monotonic() + STOP_SECONDS
        for watch in running:
            watch.join(max(until - time.monotonic(), 0.0))

    def _watch(self, namespace: str, selector: str) -> Reflector[str]:
        source = WatchSource(
            name="dedicated-pods",
            path=namespaced_path(namespace, "pods"),
            read=lambda _: "",
            is_same=lambda _one, _other: True,
            query={"labelSelector": f"{selector},!{PLACEHOLDER}", "fieldSelector": _ON_A_NODE},
            accept_list=METADATA_LIST,
            accept_watch=METADATA,
        )
        return Reflector(
            self._api,
            source,
            clock=self._clocks.monotonic,
            random=self._clocks.random,
            on_news=lambda: self._on_change(namespace),
            pace=self._pace,
        )
