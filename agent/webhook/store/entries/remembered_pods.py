"""What is kept of a node beside its reports: the pods of the newest one, and of which time its pods were told already.

A report may come after its pods went: it waited in the node's queue while the webhook or its database was away, or the
webhook began anew and never saw them. What was true of a pod when it was seen where it ran is still true then.

Webhook. A node can have a row taken for a pod that is gone only if its newest report told of the pod, and the pod was
seen on that very node within ``REMEMBERED_SECONDS``.

No time is told twice. Reports come oldest first, those that waited before those made since; so one that ends before
its node's former report is none of a queue's, under whatever incarnation it comes. And of one container of one pod no
UTC hour takes more than 63 minutes, in however many rows and reports they come.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from agent.core.cluster.facts import PodPlace, WrittenContainer
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import RollupRow
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.hour_sketch import ReportInterval

REMEMBERED_SECONDS: Final = 86_400.0
"""After a pod was last seen. What waits for longer in a node's queue is no longer taken of pods that are gone."""
HOUR_COVERED_SECONDS: Final = HOUR_SECONDS * 1.05
"""Of one container of one pod in one UTC hour at most."""
MARGIN_SECONDS: Final = 60.0
"""By so much a report may end before its node's former one: clocks of replicas differ, and so does the time on the way.
"""
WRONG_CLOCK_SECONDS: Final = 300.0
"""A former report that ended so far in the future was taken by a clock that was wrong."""
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
    containers: list[str] | None = None
    """Of its spec; None = not known (an older version wrote this)."""


class _KeptPods(msgspec.Struct, frozen=True, array_like=True):
    told_unix_seconds: float
    """End of the newest report."""
    pods: list[_Remembered]
    covered: dict[bytes, tuple[int, float]]
    """By pod and container: the newest hour told of, and the seconds of it that were."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_KeptPods)
_older_decoder: Final = msgspec.msgpack.Decoder(list[_Remembered])


class RememberedPods:
    """Those of one node, for one report; read from the store when they are first asked for."""

    def __init__(
        self,
        node: str,
        load: Callable[[], bytes | None],
        *,
        now_unix_seconds: float,
        last_heard: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Prepare; nothing is read yet.

        ``load`` returns what ``with_rows`` gave for the node's newest report; where it returns nothing, ``last_heard``
        returns when that was received, Unix seconds, None = the node never reported.
        """
        self._node, self._load, self._now, self._last_heard = node, load, now_unix_seconds, last_heard
        self._known: dict[str, _Remembered] | None = None
        self._told_unix_seconds: float | None = None
        self._covered: dict[bytes, tuple[int, float]] = {}
        self._used: dict[str, float] = {}
        self._interval: ReportInterval | None = None

    def place(self, uid: str) -> PodPlace | None:
        """Find a pod that was on the node; None = it is not remembered, or was seen too long ago."""
        pod = self._read().get(uid)
        if pod is None or not 0.0 <= self._now - pod.seen_unix_seconds <= REMEMBERED_SECONDS:
            return None
        self._used[uid] = pod.seen_unix_seconds
        names = pod.containers
        return PodPlace(
            uid=uid,
            namespace=pod.namespace,
            name=pod.pod,
            node=self._node,
            workload=Workload(namespace=pod.namespace, kind=pod.kind, name=pod.workload),
            is_running=False,
            is_terminating=False,
            containers=None if names is None else tuple(WrittenContainer(name=name) for name in names),
        )

    def begin(self, interval: ReportInterval) -> str | None:
        """Begin to take the rows of an interval; say why none of them may be taken, or None."""
        self._read()
        self._interval = interval
        end = self._told_unix_seconds
        if end is None:
            return None
        if end > self._now + WRONG_CLOCK_SECONDS:
            # Nor is what was counted then: else nothing would be taken of these containers until that hour comes.
            self._covered = {
                key: coverage for key, coverage in self._covered.items() if coverage[0] <= interval.unix_hour
            }
            return None
        if interval.end_unix_seconds < end - MARGIN_SECONDS:
            return f"endAgeSeconds: the node told of later minutes {end - interval.end_unix_seconds:.0f} s after these"
        return None

    def cover(self, row: RollupRow) -> str | None:
        """Count the time that a row of the interval covers; say why it may not be taken, or None."""
        assert self._interval is not None  # noqa: S101  begin was called
        key, hour = _key(row), self._interval.unix_hour
        known_hour, seconds = self._covered.get(key, (hour, 0.0))
        if hour < known_hour:
            return "coveredSeconds: a later hour of this container was told already"
        total = row.covered_seconds + (seconds if hour == known_hour else 0.0)
        if total > HOUR_COVERED_SECONDS:
            return f"coveredSeconds: {total:.0f} of one hour of this container; allowed: {HOUR_COVERED_SECONDS:.0f}"
        self._covered[key] = hour, total
        return None

    def with_rows(self, rows: Iterable[RollupRow], containers: Mapping[str, Iterable[str]] | None = None) -> bytes:
        """Return what is to be remembered after these rows; names of pods not in ``containers`` are not known."""
        names = containers or {}
        pods = {row.pod_uid: row for row in rows}
        remembered_pods = [
            _Remembered(
                uid=uid,
                pod=row.pod,
                namespace=row.workload.namespace,
                kind=row.workload.kind,
                workload=row.workload.name,
                # One that is only remembered grows old: who reports it again and again has not seen it again.
                seen_unix_seconds=self._used.get(uid, self._now),
                containers=list(names[uid]) if uid in names else None,
            )
            for uid, row in pods.items()
        ]
        end, hour = self._told_unix_seconds, 0
        if self._interval is not None:
            # A clock that was wrong is not believed any longer; else the end never goes back.
            is_believed = end is not None and end <= self._now + WRONG_CLOCK_SECONDS
            end = max(end or 0.0, self._interval.end_unix_seconds) if is_believed else self._interval.end_unix_seconds
            hour = self._interval.unix_hour
        # Of an hour before the one before this nothing more can come.
        covered = {key: coverage for key, coverage in self._covered.items() if coverage[0] >= hour - 1}
        state = _KeptPods(
            told_unix_seconds=self._now if end is None else float(end), pods=remembered_pods, covered=covered
        )
        return zlib.compress(_encoder.encode(state), _FAST)

    def _read(self) -> dict[str, _Remembered]:
        if self._known is None:
            payload = self._load()
            state, pods = _decoded(payload)
            self._known = {pod.uid: pod for pod in pods}
            if state is not None:
                self._told_unix_seconds, self._covered = state.told_unix_seconds, dict(state.covered)
            elif payload is None:
                # Forgotten as the node was silent for a day: what is older than its last word may have been told.
                self._told_unix_seconds = self._last_heard()
        return self._known


def _key(row: RollupRow) -> bytes:
    return blake2b(f"{row.pod_uid}/{row.container}".encode(errors="surrogatepass"), digest_size=8).digest()


def _decoded(payload: bytes | None) -> tuple[_KeptPods | None, list[_Remembered]]:
    """Read what was kept; what cannot be read is not remembered, and of older versions the pods alone are."""
    if payload is None:
        return None, []
    try:
        unpacked = zlib.decompressobj().decompress(payload, MOST_BYTES)
        try:
            state = _decoder.decode(unpacked)
        except msgspec.ValidationError:
            return None, _older_decoder.decode(unpacked)
    except (zlib.error, msgspec.DecodeError):
        return None, []
    return state, state.pods
