"""Folds the log of reports into hourly sketches: the leader does, every few minutes. Webhook; one thread.

Sketches are whole again after each fold, in one transaction with the place in the log, so that a leader that dies
between any two steps has either folded or not. Two that believe to lead do no harm: the later one's fold is refused.

Memory stays bounded: rows are merged a few dozen reports at a time, what was merged is kept as bytes, and no more than
``MAX_SKETCHES`` of them come into one transaction.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from agent.core.history.reports.rollup import RollupRow
from agent.core.history.workloads.hour_peaks import hour_of
from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval
from agent.core.history.workloads.node_peaks import node_number
from agent.core.history.workloads.sketch_key import keys_of
from agent.core.numbers.allowed_range import Between
from agent.webhook.store.entries.forget_entry import Forgetting, is_forgetting, rows_left
from agent.webhook.store.entries.import_entry import is_import
from agent.webhook.store.entries.node_hours import DAY_HOURS, with_hour
from agent.webhook.store.entries.report_payload import BadPayloadError, decode_report
from agent.webhook.store.entries.sketch_bytes import BadSketchError, decode, encode
from agent.webhook.store.shapes import WRONG_CLOCK_SECONDS, FoldRaced, LogFolded, LoggedReport, NodeDay, StoredSketch
from agent.webhook.store.store import Store

log = logging.getLogger(__name__)

MAX_SKETCHES: Final = 20_000
"""Of one transaction: 10 to 15 MB in memory. More would be fewer rewrites of a sketch per fold, and more memory."""
PIECE_REPORTS: Final = 16
"""Merged at a time: about a thousand rows, decoded, take 10 MB."""
Merged = dict[int, dict[str, bytes]]
"""Sketches by hour and key."""
Days = dict[tuple[int, str], bytes | None]
"""By day and node: in which hours it had a part in which sketches; None = in none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldOptions:
    """When the log of reports is folded into hourly sketches."""

    fold_interval_seconds: Annotated[float, Between(1, 3600)] = 300.0
    """Seconds between two folds."""
    log_seconds: Annotated[float, Between(0, 3600)] = 60.0
    """Seconds for which a report stays in the log, so that replicas that follow it find it there."""
    retention_days: Annotated[int, Between(1, 14)] = 14
    """Days for which hourly sketches are kept."""


class _Place(NamedTuple):
    """A row of a report, and one of the sketches in which it counts."""

    row: RollupRow
    interval: ReportInterval
    node: int
    key: str
    node_name: str


class Folder:
    """Folds reports of the log into the store's sketches, a bounded part in each transaction."""

    def __init__(
        self,
        store: Store,
        options: FoldOptions,
        *,
        pause: Callable[[], None] = lambda: None,
        folded: Callable[[int, Iterable[str]], None] = lambda _hour, _keys: None,
    ) -> None:
        """Begin; ``pause`` is called between pieces of work of some ten milliseconds, to let others run.

        ``folded`` is told of each hour that changed and of the keys of the sketches that did.
        """
        self._folded = folded
        self._store = store
        self._options = options
        self._pause = pause
        self._next_unix_seconds: float | None = None
        self.folded_reports = 0
        """Since the start, by this process."""
        self.bad_reports = 0
        """Payloads that could not be read; what they said is lost."""
        self.bad_sketches = 0
        """Sketches that could not be read and were begun anew."""

    def fold_once(self, is_leader: bool, *, now_unix_seconds: float) -> int:
        """Fold what is due, if this replica leads, and return how many reports were folded; call it every few seconds.

        Raises:
            StoreAway: The database does not answer; nothing is lost, and the next call tries again.
        """
        if not is_leader:
            self._next_unix_seconds = None
            return 0
        due = self._next_unix_seconds
        if due is not None and due - self._options.fold_interval_seconds <= now_unix_seconds < due:
            return 0
        folded = 0
        try:
            while (count := self._fold_some(now_unix_seconds)) > 0:
                folded += count
        except (FoldRaced, LogFolded) as error:
            log.info("another replica folded meanwhile", extra={"reason": str(error)})
        self._next_unix_seconds = now_unix_seconds + self._options.fold_interval_seconds
        self.folded_reports += folded
        return folded

    def _fold_some(self, now_unix_seconds: float) -> int:
        base = through = self._store.folded_through()
        # Read before any sketch: a fold that does not heed one that comes later is refused.
        forgettings = self._store.forgettings(base)
        count = 0
        days: Days = {}
        changed_days: set[tuple[int, str]] = set()
        merged: Merged = defaultdict(dict)
        while sum(map(len, merged.values())) < MAX_SKETCHES:
            found = self._store.tail(through, PIECE_REPORTS)
            reports = list(_due(found, now_unix_seconds, self._options.log_seconds))
            if not reports:
                break
            places = self._merge(reports, forgettings, merged, now_unix_seconds)
            changed_days |= self._note_nodes(places, days)
            count += len(reports)
            through = reports[-1].id
            self._pause()
            if len(reports) < PIECE_REPORTS:
                break
        if count == 0:
            return 0
        oldest_hour = hour_of(now_unix_seconds) - self._options.retention_days * DAY_HOURS
        changed = (
            StoredSketch(key=key, unix_hour=hour, payload=payload)
            for hour in sorted(merged)
            if hour >= oldest_hour
            for key, payload in sorted(merged[hour].items())  # in the order of the table: fewer pages are touched
        )
        self._store.fold(
            through,
            changed,
            oldest_hour,
            base_id=base,
            node_days=(
                NodeDay(unix_day=day, node=node, payload=payload)
                for day, node in sorted(changed_days)
                if (payload := days[day, node]) is not None and (day + 1) * DAY_HOURS > oldest_hour
            ),
            forgotten_id=max((forgetting.id for forgetting in forgettings), default=base),
        )
        for hour, sketches in merged.items():
            self._folded(hour, sketches)
        return count

    def _merge(
        self,
        reports: list[LoggedReport],
        forgettings: list[Forgetting],
        merged: Merged,
        now_unix_seconds: float,
    ) -> list[_Place]:
        """Merge reports into what is merged already, and that with what the store has; return where they counted."""
        places = list(self._places(reports, forgettings, now_unix_seconds))
        self._fetch(places, merged)
        piece: dict[tuple[int, str], HourSketch] = {}
        for place in places:
            hour = place.interval.unix_hour
            sketch = piece.get((hour, place.key))
            if sketch is None:
                sketch = piece[hour, place.key] = self._begun(merged[hour].get(place.key), hour, place.key)
            sketch.add(place.row, place.interval, place.node)
        for (hour, key), sketch in piece.items():
            merged[hour][key] = encode(sketch, hour)
        return places

    def _note_nodes(self, places: list[_Place], days: Days) -> set[tuple[int, str]]:
        """Record which nodes had a part in which sketches; return the days and nodes of which that was not known.

        Most reports tell of an hour and of containers that were told of before: then nothing is written.
        """
        told: dict[tuple[str, int], set[str]] = defaultdict(set)
        for place in places:
            told[place.node_name, place.interval.unix_hour].add(place.key)
        new = {(hour // DAY_HOURS, node) for node, hour in told} - days.keys()
        if new:
            days.update(dict.fromkeys(new))
            for found in self._store.node_days({day for day, _ in new}, {node for _, node in new}):
                if (found.unix_day, found.node) in new:
                    days[found.unix_day, found.node] = found.payload
        changed: set[tuple[int, str]] = set()
        for (node, hour), keys in told.items():
            here = hour // DAY_HOURS, node
            payload = with_hour(days[here], keys, hour)
            if payload is not None:
                days[here] = payload
                changed.add(here)
        return changed

    def _places(
        self, reports: list[LoggedReport], forgettings: list[Forgetting], now_unix_seconds: float
    ) -> Iterator[_Place]:
        """Return where the rows of reports count; those that a later entry of the log forgets count nowhere."""
        for logged in reports:
            if is_forgetting(logged.payload) or is_import(logged.payload):
                continue
            try:
                report = decode_report(logged.payload)
            except BadPayloadError as error:
                self.bad_reports += 1
                log.warning("report unreadable", extra={"report": logged.id, "reason": str(error)})
                continue
            interval = ReportInterval.of(
                received_unix_seconds=logged.believed_unix_seconds(now_unix_seconds),
                end_age_seconds=report.end_age_seconds,
                interval_seconds=report.interval_seconds,
            )
            node = node_number(report.node)
            for row in rows_left(report, logged.id, interval.unix_hour, forgettings):
                for key in keys_of(row.workload, row.container, report.node, report.node_class):
                    yield _Place(row, interval, node, str(key), report.node)

    def _fetch(self, places: list[_Place], merged: Merged) -> None:
        new: dict[int, set[str]] = defaultdict(set)
        for place in places:
            if place.key not in merged[place.interval.unix_hour]:
                new[place.interval.unix_hour].add(place.key)
        for hour, keys in new.items():
            for stored in self._store.sketches_of(keys, (hour,)):
                merged[hour][stored.key] = stored.payload

    def _begun(self, payload: bytes | None, hour: int, key: str) -> HourSketch:
        if payload is None:
            return HourSketch()
        try:
            return decode(payload, hour)
        except BadSketchError as error:
            self.bad_sketches += 1
            log.warning("sketch unreadable: begun anew", extra={"key": key, "reason": str(error)})
            return HourSketch()


def _due(reports: Iterable[LoggedReport], now_unix_seconds: float, log_seconds: float) -> Iterator[LoggedReport]:
    """Return the first reports up to one that was received too lately.

    One that was taken by a clock that was wrong is folded with the others: waiting for its time would hold up all that
    came after it, for as long as the clock was wrong.
    """
    for report in reports:
        if now_unix_seconds - log_seconds < report.received_unix_seconds <= now_unix_seconds + WRONG_CLOCK_SECONDS:
            return
        yield report
