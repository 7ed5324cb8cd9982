"""Follows the log of reports into the index in memory, on every replica: what any of them took, all know. Webhook.

At the start the store's sketches come first, as of one moment and with their place in the log, then the log from there
on; then the index is loaded. A replica that was away for so long that the leader has folded and dropped reports it had
not read loads the sketches again: they hold all that it knew. So does one whose database was lost, or put back to an
earlier state: it goes on from there, and keeps what it knows beyond that.

While the store is away it goes on with what it has, and says how old that is.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import AbstractContextManager
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import SampledReport
from agent.core.history.workloads.hour_peaks import hour_of
from agent.core.history.workloads.hour_sketch import ReportInterval
from agent.webhook.store.entries.forget_entry import Forgetting, decode_forgetting, is_forgetting, rows_left
from agent.webhook.store.entries.import_entry import decode_import, is_import
from agent.webhook.store.entries.report_payload import BadPayloadError, decode_stored
from agent.webhook.store.shapes import LogCutBack, LogFolded, LoggedReport, SketchHeads, StoreAway, StoredSketch
from agent.webhook.store.snapshot import StoreSnapshot
from agent.webhook.store.store import Store
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.shapes import NO_TURN

log = logging.getLogger(__name__)

PIECE_REPORTS: Final = 100
"""Read from the log at a time: a few MiB at most."""
EXPIRE_SECONDS: Final = 3600.0
MOST_TAKEN: Final = PIECE_REPORTS
"""Some hundred kB each at most; they are followed within a second."""
DAY_HOURS: Final = 24


class Tailer:
    """Follows the store's log into an index. One thread calls `advance`; any thread may ask the rest."""

    def __init__(
        self,
        store: Store,
        index: WorkloadIndex,
        *,
        pause: Callable[[], None] = lambda: None,
        taken: Callable[[SampledReport, float], None] = lambda report, received: None,
        forgotten: Callable[[Workload], None] = lambda workload: None,
        turn: AbstractContextManager[object] = NO_TURN,
    ) -> None:
        """Begin; nobody else teaches the index.

        Args:
            pause: Is called between pieces of work of a few milliseconds.
            taken: Is told of each report of the log, and when it was received, Unix seconds.
            forgotten: Is told of each workload of which all that came before is to be forgotten.
            turn: Is held while a report is learnt.
        """
        self._tell, self._tell_forgotten = taken, forgotten
        self._store = store
        self._index = index
        self._pause, self._turn = pause, turn
        self._taken: OrderedDict[int, SampledReport] = OrderedDict()
        """Reports that this replica wrote into the log just now, by their id: the log holds them as bytes."""
        self._taken_lock = threading.Lock()
        self._position: int | None = None
        self._heeded_id: int | None = None
        """Up to where the log's orders to forget were heeded; None = there is nothing in the index yet."""
        self._advanced = threading.Condition()
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
        self.forgettings = 0
        """Orders to forget that were heeded, since the start."""
        self.imports = 0
        """Orders with imported hours that were read, since the start."""
        self.bad_sketches = 0

    @property
    def position(self) -> int | None:
        """The newest report in the index; None = nothing was read yet."""
        return self._position

    def age_seconds(self, now_unix_seconds: float) -> float | None:
        """Return how long ago the index was up to date; None = it has not been yet."""
        return None if self._read_unix_seconds is None else max(now_unix_seconds - self._read_unix_seconds, 0.0)

    def offer(self, report_id: int, report: SampledReport) -> None:
        """Keep a report that this replica has just logged, so that it is not decoded again; from any thread."""
        with self._taken_lock:
            self._taken[report_id] = report
            if len(self._taken) > MOST_TAKEN:
                self._taken.popitem(last=False)

    def wait_for(self, entry_id: int, timeout_seconds: float) -> bool:
        """Wait until the index has all up to an entry of the log; False = it has not come so far in time."""
        with self._advanced:
            return self._advanced.wait_for(lambda: (self._position or 0) >= entry_id, timeout_seconds)

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
        except LogCutBack as error:
            log.warning("the database is not as it was: reading it again", extra={"reason": str(error)})
            with self._taken_lock:
                self._taken.clear()  # their numbers are given anew
            self._position = None
            return True
        except StoreAway as error:
            self.note_away(error)
            return False
        if self.is_away:
            log.info("store is back")
        self.is_away = False
        with self._advanced:
            self._advanced.notify_all()
        return more

    def note_away(self, error: StoreAway) -> None:
        """Record that the store did not answer, until it does; also for others whom the same thread asked it for."""
        if not self.is_away:
            log.warning("store away: going on from memory", extra={"reason": str(error)})
        self.is_away = True

    def _load(self, now_unix_seconds: float) -> None:
        since = hour_of(now_unix_seconds) - self._index.options.retention_days * DAY_HOURS
        with self._store.snapshot(since) as snapshot:
            if self._heeded_id is not None:  # what was forgotten is in no sketch, and so nothing would replace it
                for forgetting in self._store.forgettings(self._heeded_id):
                    if forgetting.id <= snapshot.folded_through:
                        self._heed(forgetting)
                        self.forgettings += 1
            self.bad_sketches += self._index.load(snapshot, on_piece=self._pauses())
            self._position = self._heeded_id = snapshot.folded_through
        self.loads += 1

    def _forget(self, logged: LoggedReport, now_unix_seconds: float) -> None:
        """Forget what stands before an entry; what is left of these histories is read again.

        Raises:
            LogFolded: The sketches go beyond the entry already: all is to be read again.
        """
        try:
            forgetting = decode_forgetting(logged.payload)
        except BadPayloadError as error:
            self.bad_reports += 1
            log.warning("order to forget unreadable", extra={"report": logged.id, "reason": str(error)})
            return
        self._heed(forgetting)
        if forgetting.keys:
            self._restore(forgetting, frozenset(forgetting.keys), now_unix_seconds)
        self.forgettings += 1
        what = forgetting.node if forgetting.workload is None else forgetting.workload
        log.info("forgotten", extra={"what": str(what), "asked_by": forgetting.asked_by})

    def _heed(self, forgetting: Forgetting) -> None:
        self._index.forget(forgetting)
        if forgetting.workload is not None:
            self._tell_forgotten(forgetting.workload)

    def _take_import(self, logged: LoggedReport) -> None:
        """Read the hours that an entry says are new, as they stand by now: some may have been forgotten since."""
        try:
            entry = decode_import(logged.payload)
        except BadPayloadError as error:
            self.bad_reports += 1
            log.warning("import unreadable", extra={"report": logged.id, "reason": str(error)})
            return
        with self._store.snapshot(min(entry.unix_hours, default=0)) as snapshot:
            chosen = _Chosen(snapshot, frozenset(entry.keys), entry.unix_hours)
            self.bad_sketches += self._index.load(chosen, on_piece=self._pauses())
        self.imports += 1

    def _restore(self, forgetting: Forgetting, keys: Set[str], now_unix_seconds: float) -> None:
        """Read what is left of some histories: their sketches, and the log from there to the entry."""
        last = hour_of(now_unix_seconds) + 1
        hours = range(last - self._index.options.retention_days * DAY_HOURS - 1, last + 1)
        with self._store.snapshot(hours[0]) as snapshot:
            position = snapshot.folded_through
            if position >= forgetting.id:
                raise LogFolded(after_id=forgetting.id - 1, folded_through=position)
            self.bad_sketches += self._index.load(_Chosen(snapshot, keys, hours), on_piece=self._pauses())
        forgettings = self._store.forgettings(position)
        while True:
            for logged in self._store.tail(position, PIECE_REPORTS):
                if logged.id >= forgetting.id:
                    return
                self._learn_again(logged, keys, forgettings, now_unix_seconds)
                position = logged.id
                self._pause()

    def _learn_again(
        self, logged: LoggedReport, keys: Set[str], forgettings: list[Forgetting], now_unix_seconds: float
    ) -> None:
        if is_forgetting(logged.payload) or is_import(logged.payload):
            return
        try:
            report = decode_stored(logged.payload)
        except BadPayloadError:
            return  # counted when it came
        received = logged.believed_unix_seconds(now_unix_seconds)
        hour = ReportInterval.of(
            received_unix_seconds=received,
            end_age_seconds=report.end_age_seconds,
            interval_seconds=report.interval_seconds,
        ).unix_hour
        left = rows_left(report.rows, report.node, logged.id, hour, forgettings)
        self._index.learn_again(report, left, received, keys=keys)

    def _pauses(self) -> Iterator[None]:
        while True:
            self._pause()
            yield

    def _follow(self, now_unix_seconds: float) -> bool:
        assert self._position is not None  # noqa: S101 - set by _load
        reports = self._store.tail(self._position, PIECE_REPORTS)
        for logged in reports:
            if is_forgetting(logged.payload):
                self._forget(logged, now_unix_seconds)
            elif is_import(logged.payload):
                self._take_import(logged)
            else:
                self._take(logged, now_unix_seconds)
            self._position = self._heeded_id = logged.id
            self._pause()
        if len(reports) == PIECE_REPORTS:
            return True
        self._read_unix_seconds = now_unix_seconds
        self._index.loaded()
        if self._expired_unix_seconds is None or now_unix_seconds - self._expired_unix_seconds >= EXPIRE_SECONDS:
            self._expired_unix_seconds = now_unix_seconds
            self._index.expire(now_unix_seconds)
        return False

    def _take(self, logged: LoggedReport, now_unix_seconds: float) -> None:
        with self._taken_lock:
            taken = self._taken.pop(logged.id, None)
        try:
            report: SampledReport = decode_stored(logged.payload) if taken is None else taken
        except BadPayloadError as error:
            self.bad_reports += 1
            log.warning("report unreadable", extra={"report": logged.id, "reason": str(error)})
        else:
            received = logged.believed_unix_seconds(now_unix_seconds)
            with self._turn:
                self._index.take(report, received)
                self._tell(report, received)
            self.taken_reports += 1


class _Chosen:
    """The sketches of some keys, as far as a load needs them; few enough to be held in memory."""

    def __init__(self, snapshot: StoreSnapshot, keys: Set[str], hours: Iterable[int]) -> None:
        self._snapshot = snapshot
        self._by_hour: dict[int, list[StoredSketch]] = defaultdict(list)
        for stored in snapshot.sketches_of(keys, hours):
            self._by_hour[stored.unix_hour].append(stored)

    def beginnings(self, length: int) -> Iterator[SketchHeads]:
        """Return the first bytes of all of them, the newest hour first."""
        for hour in sorted(self._by_hour, reverse=True):
            sketches = self._by_hour[hour]
            joined = b"".join(sketch.payload[:length].ljust(length, b"\0") for sketch in sketches)
            yield SketchHeads(hour, [sketch.key for sketch in sketches], joined)

    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterator[StoredSketch]:
        """Read those of these keys at these hours whole."""
        return self._snapshot.sketches_of(keys, unix_hours)
