"""The pods of a node's newest report, as the store keeps them: their last rows are taken though no watch knows them.

A report may come after its pods went: it waited in the node's queue while the webhook or its database was away, or the
webhook began anew and never saw them. What was true of a pod when it was seen where it ran is still true then.

Webhook. A node can have a row taken for a pod that is gone only if its newest report told of the pod, and the pod was
seen on that very node within ``REMEMBERED_SECONDS``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from agent.core.cluster_facts import PodPlace
from agent.core.recommendation import Workload
from agent.core.rollup import RollupRow

REMEMBERED_SECONDS: Final = 86_400.0
"""After a pod was last seen. What waits for longer in a node's queue is no longer taken of pods that are gone."""
MOST_BYTES: Final = 4 << 20
"""Unpacked."""
_FAST: Final = 1


class _Remembered(msgspec.Struct, frozen=True, array_like=True):
    uid: str
    pod: str
    namespace: str
    kind: str
    workload: str
    seen_unix_seconds: float
    """When it was last known to be on the node."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[_Remembered])


class RememberedPods:
    """Those of one node, for one report; read from the store when the first pod is asked for that no watch knows."""

    def __init__(self, node: str, load: Callable[[], bytes | None], *, now_unix_seconds: float) -> None:
        """Prepare; nothing is read yet.

        Args:
            node: Which reports.
            load: Gives what ``with_rows`` gave for the node's newest report; None = there is nothing.
            now_unix_seconds: The moment.
        """
        self._node, self._load, self._now = node, load, now_unix_seconds
        self._known: dict[str, _Remembered] | None = None
        self._used: dict[str, float] = {}

    def place(self, uid: str) -> PodPlace | None:
        """Find a pod that was on the node; None = it is not remembered, or was seen too long ago."""
        if self._known is None:
            self._known = {one.uid: one for one in _decoded(self._load())}
        found = self._known.get(uid)
        if found is None or not 0.0 <= self._now - found.seen_unix_seconds <= REMEMBERED_SECONDS:
            return None
        self._used[uid] = found.seen_unix_seconds
        return PodPlace(
            uid=uid,
            namespace=found.namespace,
            name=found.pod,
            node=self._node,
            workload=Workload(namespace=found.namespace, kind=found.kind, name=found.workload),
            is_running=False,
            is_terminating=False,
        )

    def with_rows(self, rows: Iterable[RollupRow]) -> bytes:
        """Give what is to be remembered after a report with these rows was taken."""
        pods = {row.pod_uid: row for row in rows}
        told = [
            _Remembered(
                uid=uid,
                pod=row.pod,
                namespace=row.workload.namespace,
                kind=row.workload.kind,
                workload=row.workload.name,
                # One that is only remembered grows old: who reports it again and again has not seen it again.
                seen_unix_seconds=self._used.get(uid, self._now),
            )
            for uid, row in pods.items()
        ]
        return zlib.compress(_encoder.encode(told), _FAST)


def _decoded(payload: bytes | None) -> list[_Remembered]:
    """Read what was kept; what cannot be read is not remembered."""
    if payload is None:
        return []
    try:
        return _decoder.decode(zlib.decompressobj().decompress(payload, MOST_BYTES))
    except (zlib.error, msgspec.DecodeError):
        return []
