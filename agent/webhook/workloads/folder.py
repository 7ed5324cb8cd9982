"""Folds the log of reports into hourly sketches: the leader does, every few minutes. Webhook; one thread.

Sketches are whole again after each fold, in one transaction with the place in the log, so that a leader that dies
between any two steps has either folded or not. Two that believe to lead do no harm: the later one's fold is refused.

Memory stays bounded: rows are added up a few reports at a time, in arrays, and no more than ``MAX_SKETCHES`` sketches
come into one transaction. In it each is read and written once, a hundred at a time, in the room that its arrays leave.
"""

from __future__ import annotations

import logging
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Final

from agent.core.history.workloads.hour_peaks import hour_of
from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval
from agent.core.history.workloads.many_sketches import BLOCK, ManySketches
from agent.core.history.workloads.node_peaks import node_number
from agent.core.history.workloads.row_columns import RowColumns
from agent.core.history.workloads.sketch_key import KeyTexts
from agent.core.numbers.allowed_range import Between
from agent.webhook.store.entries.forget_entry import Forgetting, is_forgetting, rows_left
from agent.webhook.store.entries.import_entry import is_import
from agent.webhook.store.entries.node_hours import DAY_HOURS, with_hour
from agent.webhook.store.entries.report_payload import BadPayloadError, StoredReport, StoredRow, decode_stored
from agent.webhook.store.entries.sketch_bytes import HEAD_BYTES, BadSketchError, decode, encode
from agent.webhook.store.shapes import WRONG_CLOCK_SECONDS, FoldRaced, LogFolded, LoggedReport, NodeDay, StoredSketch
from agent.webhook.store.store import Store
from agent.webhook.workloads.shapes import NO_TURN

log = logging.getLogger(__name__)

MAX_SKETCHES: Final = 20_000
"""Of one transaction: about 30 MB in memory. More would be fewer rewrites of a sketch per fold, and more memory."""
PIECE_REPORTS: Final = 8
"""Decoded at a time: five hundred rows take 2 MB."""
OPEN_HOURS: Final = 2
"""The newest hours, into which reports still come."""
HEADS_AT_ONCE: Final = 12
"""Hours whose heads are kept after one fold: those of a fortnight within three hours, where there are none yet."""
ENCODED_AT_ONCE: Final = 128
"""Sketches between two pauses: some five milliseconds."""
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


@dataclass(frozen=True, slots=True)
class _LoggedReport:
    """A report of the log, as far as it counts."""

    report: StoredReport
    rows: Sequence[StoredRow]
    interval: ReportInterval


@dataclass(slots=True)
class _Places:
    """The rows of reports, each as often as there are sketches in which it counts; the lists are alike long."""

    rows: list[StoredRow] = field(default_factory=list)
    intervals: list[ReportInterval] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Of the sketches."""


class _MergedSketches:
    """What reports add to sketches, by hour and key."""

    def __init__(self) -> None:
        self.sketches = ManySketches()
        self.numbers: dict[int, dict[str, int]] = defaultdict(dict)
        self.places: list[tuple[int, str]] = []
        """Hour and key by number."""

    @property
    def has_room(self) -> bool:
        return len(self.places) < MAX_SKETCHES and self.sketches.has_room

    def number(self, hour: int, key: str) -> int:
        """Return the number of a sketch, a new one where there is none yet."""
        numbers = self.numbers[hour]
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(self.places)
            self.places.append((hour, key))
        return number


class _Payloads:
    """Bytes by number, a block's in one piece: so they take the room of the arrays that they were made from."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._starts: list[array[int]] = []
        """Of each piece where each begins there, and the end of the last."""

    def add(self, payloads: list[bytes]) -> None:
        """Keep the next ones: `BLOCK`, or the last few."""
        self._starts.append(array("I", [0, *accumulate(map(len, payloads))]))
        self._pieces.append(b"".join(payloads))

    def of(self, number: int) -> bytes:
        """Return those of a number."""
        piece, place = divmod(number, BLOCK)
        starts = self._starts[piece]
        return self._pieces[piece][starts[place] : starts[place + 1]]


class Folder:
    """Folds reports of the log into the store's sketches, a bounded part in each transaction."""

    def __init__(
        self,
        store: Store,
        options: FoldOptions,
        *,
        pause: Callable[[], None] = lambda: None,
        folded: Callable[[int, Iterable[str]], None] = lambda _hour, _keys: None,
        turn: AbstractContextManager[object] = NO_TURN,
    ) -> None:
        """Begin; ``pause`` is called between pieces of work of some ten milliseconds, to let others run.

        ``folded`` is told of each hour that changed and of the keys of the sketches that did; ``turn`` is held during
        each of those pieces.
        """
        self._folded = folded
        self._store = store
        self._options = options
        self._pause, self._turn = pause, turn
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
        self._keep_heads(now_unix_seconds)
        return folded

    def _keep_heads(self, now_unix_seconds: float) -> None:
        hour = hour_of(now_unix_seconds)
        for _ in range(HEADS_AT_ONCE):
            if not self._store.keep_heads(self._oldest_hour(hour), hour + 1 - OPEN_HOURS, length=HEAD_BYTES):
                break
            self._pause()

    def _oldest_hour(self, hour: int) -> int:
        return hour - self._options.retention_days * DAY_HOURS

    def _fold_some(self, now_unix_seconds: float) -> int:
        base = through = self._store.folded_through()
        # Read before any sketch: a fold that does not heed one that comes later is refused.
        forgettings = self._store.forgettings(base)
        oldest_hour = self._oldest_hour(hour_of(now_unix_seconds))
        count = 0
        days: Days = {}
        changed_days: set[tuple[int, str]] = set()
        merged = _MergedSketches()
        while merged.has_room:
            logged_reports = self._store.tail(through, PIECE_REPORTS)
            reports = list(_due(logged_reports, now_unix_seconds, self._options.log_seconds))
            if not reports:
                break
            with self._turn:
                counted = self._counted(reports, forgettings, now_unix_seconds)
                keys_by_node = _add([logged for logged in counted if logged.interval.unix_hour >= oldest_hour], merged)
            changed_days |= self._note_nodes(keys_by_node, days)
            count += len(reports)
            through = reports[-1].id
            self._pause()
            if len(reports) < PIECE_REPORTS:
                break
        if count == 0:
            return 0
        payloads = self._merge(merged)
        places = merged.places
        changed = (
            StoredSketch(key=places[number][1], unix_hour=places[number][0], payload=payloads.of(number))
            # In the order of the table: fewer pages are touched.
            for number in sorted(range(len(places)), key=places.__getitem__)
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
        for hour, numbers in merged.numbers.items():
            self._folded(hour, numbers)
        return count

    def _merge(self, merged: _MergedSketches) -> _Payloads:
        """Merge what reports add with what the store has, and return the sketches by number as they are to be."""
        payloads = _Payloads()
        for block in merged.sketches.take():
            wanted: dict[int, set[str]] = defaultdict(set)
            for number, _ in block:
                hour, key = merged.places[number]
                wanted[hour].add(key)
            stored = {
                (hour, stored_sketch.key): stored_sketch.payload
                for hour, keys in wanted.items()
                for stored_sketch in self._store.sketches_of(keys, (hour,))
            }
            encoded: list[bytes] = []
            for start in range(0, len(block), ENCODED_AT_ONCE):
                with self._turn:
                    for number, sketch in block[start : start + ENCODED_AT_ONCE]:
                        hour, key = merged.places[number]
                        payload = stored.get((hour, key))
                        if payload is not None:
                            sketch.merge(self._stored(payload, hour, key))
                        encoded.append(encode(sketch, hour))
                self._pause()
            payloads.add(encoded)
        return payloads

    def _note_nodes(self, keys_by_node: dict[tuple[str, int], set[str]], days: Days) -> set[tuple[int, str]]:
        """Record which nodes had a part in which sketches; return the days and nodes of which that was not known.

        Most reports tell of an hour and of containers that were told of before: then nothing is written.
        """
        new = {(hour // DAY_HOURS, node) for node, hour in keys_by_node} - days.keys()
        if new:
            days.update(dict.fromkeys(new))
            for node_day in self._store.node_days({day for day, _ in new}, {node for _, node in new}):
                if (node_day.unix_day, node_day.node) in new:
                    days[node_day.unix_day, node_day.node] = node_day.payload
        changed: set[tuple[int, str]] = set()
        for (node, hour), keys in keys_by_node.items():
            here = hour // DAY_HOURS, node
            payload = with_hour(days[here], keys, hour)
            if payload is not None:
                days[here] = payload
                changed.add(here)
        return changed

    def _counted(
        self, reports: list[LoggedReport], forgettings: list[Forgetting], now_unix_seconds: float
    ) -> list[_LoggedReport]:
        """Return reports with the rows that count; those that a later entry of the log forgets do not."""
        counted: list[_LoggedReport] = []
        for logged in reports:
            if is_forgetting(logged.payload) or is_import(logged.payload):
                continue
            try:
                report = decode_stored(logged.payload)
            except BadPayloadError as error:
                self.bad_reports += 1
                log.warning("report unreadable", extra={"report": logged.id, "reason": str(error)})
                continue
            interval = ReportInterval.of(
                received_unix_seconds=logged.believed_unix_seconds(now_unix_seconds),
                end_age_seconds=report.end_age_seconds,
                interval_seconds=report.interval_seconds,
            )
            rows = rows_left(report.rows, report.node, logged.id, interval.unix_hour, forgettings)
            counted.append(_LoggedReport(report, rows, interval))
        return counted

    def _stored(self, payload: bytes, hour: int, key: str) -> HourSketch:
        try:
            return decode(payload, hour)
        except BadSketchError as error:
            self.bad_sketches += 1
            log.warning("sketch unreadable: begun anew", extra={"key": key, "reason": str(error)})
            return HourSketch()


def _add(counted: list[_LoggedReport], merged: _MergedSketches) -> dict[tuple[str, int], set[str]]:
    """Add reports to what is merged already; return in which sketches each node had a part, by its name and hour."""
    places = _Places()
    keys_by_node: dict[tuple[str, int], set[str]] = defaultdict(set)
    for logged in counted:
        report, hour = logged.report, logged.interval.unix_hour
        texts, keys = KeyTexts(report.node, report.node_class), keys_by_node[report.node, hour]
        before = len(places.rows)
        for row in logged.rows:
            for key in texts.of(row.workload, row.container):
                keys.add(key)
                places.rows.append(row)
                places.numbers.append(merged.number(hour, key))
        added = len(places.rows) - before
        places.intervals.extend([logged.interval] * added)
        places.nodes.extend([node_number(report.node)] * added)
    merged.sketches.add(RowColumns.of(places.rows), places.intervals, places.nodes, places.numbers)
    return keys_by_node


def _due(reports: Iterable[LoggedReport], now_unix_seconds: float, log_seconds: float) -> Iterator[LoggedReport]:
    """Return the first reports up to one that was received too lately.

    One that was taken by a clock that was wrong is folded with the others: waiting for its time would hold up all that
    came after it, for as long as the clock was wrong.
    """
    for report in reports:
        if now_unix_seconds - log_seconds < report.received_unix_seconds <= now_unix_seconds + WRONG_CLOCK_SECONDS:
            return
        yield report
