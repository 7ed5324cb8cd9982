"""Follows the log of reports into the index in memory, on every replica: what any of them took, all know. Webhook.

At the start the store's sketches come first, as of one moment and with their place in the log, then the log from there
on; then the index is loaded. A replica that was away for so long that the leader has folded and dropped reports it had
not read loads the sketches again: they hold all that it knew.

While the store is away it goes on with what it has, and says how old that is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol

from agent.core.hours import hour_of
from agent.webhook.report_payload import BadPayloadError, decode_report, encode_report
from agent.webhook.store_shapes import LogFolded, LoggedReport, StoreAway
from agent.webhook.store_snapshot import Snapshot
from agent.webhook.workloads import WorkloadIndex

__all__ = ["FollowedStore", "Tailer", "decode_report", "encode_report"]

log = logging.getLogger(__name__)

PIECE_REPORTS: Final = 100
"""Read from the log at a time: a few MiB at most."""
EXPIRE_SECONDS: Final = 3600.0
DAY_HOURS: Final = 24


class FollowedStore(Protocol):
    """The store, as far as following needs it."""

    def tail(self, after_id: int, limit: int) -> list[LoggedReport]:
        """Give the next reports of the log."""
        ...

    def snapshot(self, since_unix_hour: int) -> AbstractContextManager[Snapshot]:
        """Open the sketches with their place in the log."""
        ...


class Tailer:
    """See the module's docstring. One thread calls `advance`; any may ask the rest."""

    def __init__(self, store: FollowedStore, index: WorkloadIndex, *, pause: Callable[[], None] | None = None) -> None:
        """Make one.

        Args:
            store: The store.
            index: Where it goes; nobody else teaches it.
            pause: Called between pieces of work of a few milliseconds, to let others run.
        """
        self._store = store
        self._index = index
        self._pause = pause or _go_on
        self._position: int | None = None
        self._read_unix_seconds: float | None = None
        self._expired_unix_seconds: float | None = None
        self.is_away = False
        """The store did not answer when it was asked last."""
        self.loads = 0
        """How often all sketches were read."""
        self.taken_reports = 0
        """Since the start."""
        self.bad_reports = 0
        """Payloads that could not be read, since the start."""
        self.bad_sketches = 0

    @property
    def position(self) -> int | None:
        """The newest report in the index; None = nothing was read yet."""
        return self._position

    def age_seconds(self, now_unix_seconds: float) -> float | None:
        """Give how long ago the index was up to date; None = it has not been yet."""
        return None if self._read_unix_seconds is None else max(now_unix_seconds - self._read_unix_seconds, 0.0)

    def advance(self, now_unix_seconds: float) -> bool:
        """Read the next piece of the log; the first time, and after a gap, all sketches before it.

        Returns:
            Whether there may be more at once. False: ask again in a second, or when a report was taken.
        """
        try:
            if self._position is None:
                self._load(now_unix_seconds)
            more = self._follow(now_unix_seconds)
        except LogFolded as error:
            log.info("reading the store again", extra={"reason": str(error)})
            self._position = None
            return True
        except StoreAway as error:
            if not self.is_away:
                log.warning("store away: going on from memory", extra={"reason": str(error)})
            self.is_away = True
            return False
        if self.is_away:
            log.info("store is back")
        self.is_away = False
        return more

    def _load(self, now_unix_seconds: float) -> None:
        since = hour_of(now_unix_seconds) - self._index.options.retention_days * DAY_HOURS
        with self._store.snapshot(since) as snapshot:
            self.bad_sketches += self._index.load(snapshot, on_piece=self._pauses())
            self._position = snapshot.folded_through
        self.loads += 1

    def _pauses(self) -> Iterator[None]:
        while True:
            self._pause()
            yield

    def _follow(self, now_unix_seconds: float) -> bool:
        assert self._position is not None  # noqa: S101 - set by _load
        reports = self._store.tail(self._position, PIECE_REPORTS)
        for logged in reports:
            try:
                report = decode_report(logged.payload)
            except BadPayloadError as error:
                self.bad_reports += 1
                log.warning("report unreadable", extra={"report": logged.id, "reason": str(error)})
            else:
                self._index.take(report, logged.believed_unix_seconds(now_unix_seconds))
                self.taken_reports += 1
            self._position = logged.id
            self._pause()
        if len(reports) == PIECE_REPORTS:
            return True
        self._read_unix_seconds = now_unix_seconds
        self._index.loaded()
        if self._expired_unix_seconds is None or now_unix_seconds - self._expired_unix_seconds >= EXPIRE_SECONDS:
            self._expired_unix_seconds = now_unix_seconds
            self._index.expire(now_unix_seconds)
        return False


def _go_on() -> None:
    pass
