"""Puts the ledger down: each hour when it is over, and again where reports of it came late. Webhook; one thread.

The leader does, beside its folds. A row is worked out from the hour's sketches, which hold each report once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.hour_peaks import hour_of
from agent.core.history.workloads.hour_sketch import HourSketch
from agent.core.history.workloads.imported import is_imported
from agent.core.history.workloads.sketch_key import SketchKey, parse_key, range_of
from agent.core.history.workloads.usage_ledger import LedgerContainer, LedgerHour, ledger_hour
from agent.webhook.store.entries.node_hours import DAY_HOURS
from agent.webhook.store.entries.sketch_bytes import BadSketchError, decode
from agent.webhook.store.records.usage_ledger import MOST_AN_HOUR
from agent.webhook.store.shapes import StoreAway, StoredSketch
from agent.webhook.store.store import Store

log = logging.getLogger(__name__)

OVER_SECONDS: Final = 900.0
"""After its end an hour is put down: its last reports come five minutes later, and are folded within six more."""
BACK_HOURS: Final = 14 * DAY_HOURS
"""So far back a ledger begins that has nothing yet: what sketches there are, without what was recommended then."""
AGAIN_HOURS: Final = 8
"""So far back hours are put down again by who begins to lead: who led before may have ended with late reports folded
and not put down. It takes 0.05 ms of CPU per workload and hour, also where nothing differs."""
RECOMMENDED_HOURS: Final = 3
"""Of an hour that ended longer ago nobody knows any more what was recommended."""
MOST_LATE: Final = 50_000
"""Workloads and hours of late reports that are remembered; of more whole hours are."""
PIECE: Final = 500
"""Sketches read at a time: some ten milliseconds' work."""

Amounts = Mapping[str, LedgerContainer]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerParts:
    """What it is worked out from."""

    store: Store
    written: Callable[[Workload], Amounts]
    """The requests of a workload's containers as their author wrote them, 0 = none; empty = not known."""
    recommended: Callable[[Workload, Collection[str]], Amounts]
    """What each of these containers would be given now; those without advice are left out."""


class UsageLedger:
    """Writes the rows of hours and days of the ledger that are due. Used by the leader's ledger thread."""

    def __init__(self, parts: LedgerParts, *, pause: Callable[[], None] = lambda: None) -> None:
        """Begin; ``pause`` is called between pieces of work of some ten milliseconds, to let others run."""
        self._parts, self._pause = parts, pause
        self._lock = threading.Lock()
        self._late: dict[int, set[Workload] | None] = {}
        """Workloads by hours that reports were folded into; None = all of the hour."""
        self._days: set[int] = set()
        """Whose hours changed since the day was added up."""
        self._is_begun = False
        """This replica leads, and has heard of all reports since."""
        self._expired_day = 0

    def folded(self, unix_hour: int, keys: Iterable[str]) -> None:
        """Record that reports were folded into these sketches of an hour; any thread."""
        with self._lock:
            known = self._late.setdefault(unix_hour, set())
            if known is not None:
                known.update(parse_key(key).workload for key in keys)
            if sum(len(workloads) for workloads in self._late.values() if workloads is not None) > MOST_LATE:
                self._late = dict.fromkeys(self._late)

    def turn(self, is_leader: bool, *, now_unix_seconds: float) -> bool:
        """Record what is due, if this replica leads; return whether there is more. Call it every few seconds.

        Raises:
            StoreAway: The database does not answer; the next call tries again.
        """
        if not is_leader:
            with self._lock:
                self._late.clear()
            self._is_begun = False
            return False
        over = hour_of(now_unix_seconds - OVER_SECONDS) - 1
        through = self._parts.store.ledger_through()
        if through > over:  # of a leader whose clock was ahead: the hours since were not over
            self._parts.store.note_ledger_through(over, before=through)
            through = over
        if not self._is_begun:  # who led before may have ended between an hour and its day
            today = hour_of(now_unix_seconds) // DAY_HOURS
            again = range(max(through - AGAIN_HOURS, 0) + 1, through + 1)
            self._days = {today - 1, today} | {hour // DAY_HOURS for hour in again}
            self._is_begun = True
            with self._lock:
                self._late |= dict.fromkeys(again)
        hour = self._next(through, over)
        if hour is not None:
            with self._lock:
                self._late.pop(hour, None)
            self._put_down(hour, None, over)
            day = hour // DAY_HOURS
            if (hour + 1) % DAY_HOURS == 0:  # who leads next adds up no day before yesterday
                self._parts.store.write_ledger_day(day)
            self._days.add(day)  # before the mark, which may be moved though no answer comes
            self._parts.store.note_ledger_through(hour, before=through)
            return True  # the next hour, or the day
        late = self._take_late(through)
        if late is not None:
            try:
                is_changed = self._put_down(late[0], late[1], over)
            except StoreAway:
                self._put_back(*late)  # nobody else knows of it
                self._days.add(late[0] // DAY_HOURS)  # it may be written, and then differs no more
                raise
            if is_changed:
                self._days.add(late[0] // DAY_HOURS)
            return True
        for day in sorted(self._days):
            self._parts.store.write_ledger_day(day)
            self._days.discard(day)
            self._pause()
        today = hour_of(now_unix_seconds) // DAY_HOURS
        if self._expired_day != today:
            self._parts.store.expire_ledger(hour_of(now_unix_seconds))
            self._expired_day = today
        return False

    def _next(self, through: int, over: int) -> int | None:
        """Return the next hour that is over; None = all are put down."""
        if through >= over:
            return None
        if through and over - through <= BACK_HOURS:
            return through + 1
        oldest = self._parts.store.oldest_sketch_hour()
        return None if oldest is None or oldest > over else max(oldest, through + 1, over - BACK_HOURS + 1)

    def _take_late(self, through: int) -> tuple[int, set[Workload] | None] | None:
        """Return the next hour put down before that has had reports since, with their workloads; None = none."""
        with self._lock:
            hour = next((hour for hour in sorted(self._late) if hour <= through), None)
            return None if hour is None else (hour, self._late.pop(hour))

    def _put_back(self, hour: int, workloads: set[Workload] | None) -> None:
        with self._lock:
            since = self._late.get(hour, set())
            self._late[hour] = None if since is None or workloads is None else since | workloads

    def _put_down(self, hour: int, workloads: set[Workload] | None, over: int) -> bool:
        """Record the rows of an hour, of some workloads, None = of all; return whether any was written."""
        store = self._parts.store
        is_recommended_known = over - hour < RECOMMENDED_HOURS
        if workloads is not None:
            rows = []
            for workload in sorted(workloads):
                stored_sketches = store.sketches_between(hour, *range_of(workload))
                rows += [
                    self._row(ledger_workload, hour, sketches, is_recommended_known)
                    for ledger_workload, sketches in _by_workload(stored_sketches)
                ]
                self._pause()
            there = {row.workload for row in rows}
            return store.write_ledger_hour(hour, rows, gone=workloads - there)
        rows = []
        for ledger_workload, sketches in _by_workload(self._all_of(hour)):
            if len(rows) == MOST_AN_HOUR:
                log.warning("the ledger leaves workloads out", extra={"hour": hour, "most": MOST_AN_HOUR})
                break
            rows.append(self._row(ledger_workload, hour, sketches, is_recommended_known))
        return store.write_ledger_hour(hour, rows, gone=())

    def _all_of(self, hour: int) -> Iterator[StoredSketch]:
        after = ""
        while piece := self._parts.store.sketches_at(hour, after, PIECE):
            yield from piece
            after = piece[-1].key
            self._pause()

    def _row(
        self,
        workload: Workload,
        hour: int,
        containers: Mapping[str, HourSketch],
        is_recommended_known: bool,
    ) -> LedgerHour:
        parts = self._parts
        return ledger_hour(
            workload,
            hour,
            containers,
            written=parts.written(workload),
            recommended=parts.recommended(workload, containers) if is_recommended_known else {},
        )


def _by_workload(stored_sketches: Iterable[StoredSketch]) -> Iterator[tuple[Workload, dict[str, HourSketch]]]:
    """Combine an hour's sketches by workload and container; they come by key, so each workload's in a row."""
    keyed = ((parse_key(stored.key), stored) for stored in stored_sketches)
    for workload, sketches in groupby(keyed, key=lambda pair: pair[0].workload):
        containers: dict[str, HourSketch] = {}
        for key, stored in sketches:
            if not _counts(key):
                continue
            try:
                sketch = decode(stored.payload, stored.unix_hour, with_pods=False)
            except BadSketchError as error:
                log.warning("sketch unreadable", extra={"key": stored.key, "reason": str(error)})
                continue
            if key.container in containers:
                containers[key.container].merge(sketch)
            else:
                containers[key.container] = sketch
        if containers:
            yield workload, containers


def _counts(key: SketchKey) -> bool:
    """Return whether a sketch is a part of the whole: by node DaemonSets are counted twice, and imports are no hour."""
    return not isinstance(key.place, str) and not is_imported(key)
