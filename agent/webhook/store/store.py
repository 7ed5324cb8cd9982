"""The webhook's memory that outlasts it: a log of reports, hourly sketches, and how far each node has come. Webhook.

Synchronous and for any thread; SQLite (one file) and PostgreSQL (several replicas) with the same statements. What a
call answered is committed. A report is counted once: its mark is checked and moved in the transaction that logs it.
Ids come from a counter's row: taking one locks the row until the commit, so that ids become visible in their order and
``id > last`` misses nothing; this asks no more of a database than row locks.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, delete, select, text

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.job_run import JobRun
from agent.core.history.workloads.usage_ledger import LedgerHour
from agent.core.history.workloads.workload_setback import WorkloadSetback
from agent.webhook.store import forget_statements as store_forgetting
from agent.webhook.store import hour_heads
from agent.webhook.store.database import schema as store_schema
from agent.webhook.store.database.engine import StoreEngine, StorePatience
from agent.webhook.store.database.place import SqlitePlace
from agent.webhook.store.database.tables import (
    FOLDED_THROUGH,
    LAST_ID,
    forgettings,
    metadata,
    node_hours,
    node_marks,
    reports,
    sketches,
)
from agent.webhook.store.entries.forget_entry import Forgetting
from agent.webhook.store.entries.import_entry import encode_import, import_of
from agent.webhook.store.entries.marks import first_mark, moved
from agent.webhook.store.entries.node_hours import DAY_HOURS
from agent.webhook.store.records import decisions as told_decisions
from agent.webhook.store.records import job_runs, usage_ledger
from agent.webhook.store.records import setbacks as workload_setbacks
from agent.webhook.store.records.decisions import DecisionChoice, DecisionLogState, StoredDecision
from agent.webhook.store.records.usage_ledger import LedgerSum
from agent.webhook.store.shapes import (
    AppendOutcome,
    FoldRaced,
    ForgetWish,
    Forgotten,
    ImportOutcome,
    LogCutBack,
    LogFolded,
    LoggedReport,
    NewReport,
    NodeDay,
    NodeMark,
    PodsRaced,
    StoreAway,
    StoredSketch,
)
from agent.webhook.store.snapshot import PIECE, StoreSnapshot, counter, pieces, sketches_of
from agent.webhook.store.statements import (
    DROP_OLD_PODS,
    FOLD,
    LAST_HEARD,
    MARK,
    MOVE_MARK,
    NEW_MARK,
    NEW_REPORT,
    NEXT_ID,
    NODE_PODS,
    OLDEST_HOUR,
    TAIL,
    TAKE_EVICTION_TURN,
    UPSERT_NODE_HOURS,
    UPSERT_PODS,
    UPSERT_SKETCH,
    mark_values,
    to_mark,
)

log = logging.getLogger(__name__)

RUNS_PIECE: Final = 2000
_HOUR_SECONDS: Final = 3600
_MARKS_OUTLAST_SECONDS: Final = 86_400
"""A report as old as the sketches may still be repeated; its mark must be there to tell."""


class Store:
    """The store. Every method may raise StoreAway, and then has changed nothing that was acknowledged."""

    def __init__(self, url: str, *, patience: StorePatience | None = None) -> None:
        self._engine: Final = StoreEngine(url, patience=patience)

    @property
    def place(self) -> str:
        """The database for people: no password."""
        return str(self._engine.place)

    @property
    def is_prepared(self) -> bool:
        """Whether the tables are there; until then everything else raises StoreAway."""
        return self._engine.is_prepared

    @property
    def refuses_writes(self) -> bool:
        """Whether what was to be written last found no room, or a database that only lets read."""
        return self._engine.refuses_writes

    def prepare(self) -> None:
        """Make or migrate the tables, safe with other replicas doing the same; to be tried again after StoreAway.

        Raises:
            StoreAway: The database does not answer now.
            SchemaTooNew: A newer Plimsoll was here.
            StoreUnusable: The URL, the directory or the database is not one for Plimsoll.
        """
        store_schema.prepare(self._engine)

    def ensure_prepared(self) -> bool:
        """Return whether the tables are there, made or migrated now if they were not; False = the database is away.

        Raises:
            SchemaTooNew, StoreUnusable: It is no database for this Plimsoll.
        """
        if not self.is_prepared:
            try:
                self.prepare()
            except StoreAway as error:
                log.warning("the database is away: going on without", extra={"cause": str(error)})
        return self.is_prepared

    def append(self, entry: NewReport) -> AppendOutcome:
        """Keep a report unless its node and incarnation had this sequence before: then nothing happens.

        Raises:
            PodsRaced: What the report builds on is not there any more; nothing was changed.
        """
        with self._engine.writing() as connection:
            # The counter first: its row is the lock under which marks are read and ids become visible in order.
            report_id: int = connection.execute(NEXT_ID).scalar_one()
            here = {"b_node": entry.node, "b_incarnation": entry.incarnation}
            row = connection.execute(MARK, here).mappings().one_or_none()
            before = None if row is None else to_mark(row)
            mark = first_mark(entry) if before is None else moved(before, entry)
            if mark is None:
                assert before is not None  # noqa: S101 - only then there is nothing to move to
                connection.rollback()
                return AppendOutcome(id=None, missing_reports=before.missing_reports, lost_reports=before.lost_reports)
            if entry.builds_on is not None and self._pods_of(connection, entry.node) != entry.builds_on.pods:
                raise PodsRaced(node=entry.node)
            # A fold may have dropped the mark of an old incarnation since it was read.
            if before is None or connection.execute(MOVE_MARK, {**here, **mark_values(mark)}).rowcount != 1:
                names = {"node": entry.node, "incarnation": entry.incarnation}
                connection.execute(NEW_MARK, {**names, **mark_values(mark)})
            connection.execute(
                NEW_REPORT,
                {
                    "id": report_id,
                    "node": entry.node,
                    "incarnation": entry.incarnation,
                    "sequence": entry.sequence,
                    "received_unix_seconds": entry.received_unix_seconds,
                    "rows": entry.rows,
                    "payload": entry.payload,
                },
            )
            if entry.pods is not None:
                pods = {"node": entry.node, "received_unix_seconds": entry.received_unix_seconds, "pods": entry.pods}
                connection.execute(UPSERT_PODS.on(connection), pods)
        return AppendOutcome(id=report_id, missing_reports=mark.missing_reports, lost_reports=mark.lost_reports)

    def pods_of(self, node: str) -> bytes | None:
        """Return the pods of a node's newest report; None = nothing is remembered."""
        with self._engine.reading() as connection:
            return self._pods_of(connection, node)

    @staticmethod
    def _pods_of(connection: Connection, node: str) -> bytes | None:
        payload: bytes | None = connection.execute(NODE_PODS, {"b_node": node}).scalar()
        return None if payload is None else bytes(payload)

    def last_heard(self, node: str) -> float | None:
        """Return when a node's newest report was received, Unix seconds; None = none is remembered."""
        with self._engine.reading() as connection:
            received_unix_seconds: float | None = connection.execute(LAST_HEARD, {"b_node": node}).scalar()
        return received_unix_seconds

    def tail(self, after_id: int, limit: int) -> list[LoggedReport]:
        """Return the next reports of the log, oldest first; empty = no more yet.

        Raises:
            LogFolded: Some after ``after_id`` are folded and gone: load a snapshot again. To spare other replicas
                that, the leader leaves the newest minutes in the log.
            LogCutBack: There is no report ``after_id`` any more, nor any after it: load a snapshot again.
        """
        # One statement, so one moment: rows and how far the log was folded belong together.
        with self._engine.reading() as connection:
            rows = connection.execute(TAIL, {"b_after": after_id, "b_limit": limit}).all()
        folded_through: int = rows[0].folded_through
        if folded_through > after_id:
            raise LogFolded(after_id=after_id, folded_through=folded_through)
        last_id: int = max(rows[0].last_id, folded_through)
        if last_id < after_id:
            raise LogCutBack(after_id=after_id, last_id=last_id)
        return [
            LoggedReport(
                id=row.id, node=row.node, received_unix_seconds=row.received_unix_seconds, payload=bytes(row.payload)
            )
            for row in rows
            if row.id is not None
        ]

    def last_id(self) -> int:
        """Return the newest report's id, of all ever logged; 0 = none."""
        with self._engine.reading() as connection:
            return counter(connection, LAST_ID)

    def nodes(self) -> list[NodeMark]:
        """Who reported within the time that sketches are kept, by name."""
        with self._engine.reading() as connection:
            rows = (
                connection.execute(
                    select(node_marks).order_by(node_marks.c.node, node_marks.c.last_received_unix_seconds)
                )
                .mappings()
                .all()
            )
        marks = []
        for node, group in itertools.groupby(rows, key=lambda row: str(row["node"])):
            incarnations = [(str(row["incarnation"]), to_mark(row)) for row in group]
            incarnation, newest = incarnations[-1]
            marks.append(
                NodeMark(
                    node=node,
                    incarnation=incarnation,
                    since_unix_seconds=min(mark.first_received_unix_seconds for _, mark in incarnations),
                    last_received_unix_seconds=newest.last_received_unix_seconds,
                    highest_sequence=newest.highest_sequence,
                    reports=newest.reports,
                    missing_reports=newest.missing_reports,
                    lost_reports=newest.lost_reports,
                )
            )
        return marks

    def folded_through(self) -> int:
        """Return the id up to which reports are in the sketches; 0 = none."""
        with self._engine.reading() as connection:
            return counter(connection, FOLDED_THROUGH)

    @contextmanager
    def snapshot(self, since_unix_hour: int) -> Iterator[StoreSnapshot]:
        """Open the sketches of the hours from ``since_unix_hour`` on with their place in the log."""
        with self._engine.reading(is_long=True) as connection:
            snapshot = StoreSnapshot(connection, since_unix_hour)
            try:
                yield snapshot
            finally:
                snapshot.close()

    def sketches(self, since_unix_hour: int) -> Iterator[StoredSketch]:
        """Read the sketches of one moment from an hour on, in no order, in pieces."""
        with self.snapshot(since_unix_hour) as snapshot:
            yield from snapshot.sketches

    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterator[StoredSketch]:
        """Read the sketches of these keys at these hours, as far as there are any, in no order."""
        with self._engine.reading(is_long=True) as connection:
            yield from sketches_of(connection, keys, unix_hours)

    def node_days(self, unix_days: set[int], nodes: set[str]) -> list[NodeDay]:
        """Return in which hours of these days these nodes had a part in which sketches."""
        with self._engine.reading() as connection:
            return store_forgetting.days_of(connection, unix_days, nodes)

    def forgettings(self, after_id: int) -> list[Forgetting]:
        """Return what was forgotten at somebody's order after a place in the log, in order."""
        with self._engine.reading() as connection:
            return store_forgetting.entries_after(connection, after_id)

    def would_forget(self, wish: ForgetWish) -> Forgotten:
        """Return what ``forget`` would let go."""
        with self._engine.reading(is_long=True) as connection:
            return store_forgetting.looked_for(connection, wish)

    def forget(self, wish: ForgetWish, *, now_unix_seconds: float) -> Forgotten:
        """Delete sketches and write into the log that all before is forgotten: it does not come back by a fold."""
        with self._engine.writing(is_long=True) as connection:
            return store_forgetting.forgotten(connection, wish, now_unix_seconds)

    def take_imported(
        self, sketches: Iterable[StoredSketch], *, asked_by: str, now_unix_seconds: float, replaces: bool = True
    ) -> ImportOutcome:
        """Keep hours that were imported, and write into the log that they are new.

        Hours that stand there already as they are change nothing. No fold writes under their keys.

        Args:
            replaces: Whether they take the place of those that were imported before.
        """
        given = {(sketch.unix_hour, sketch.key): sketch for sketch in sketches}
        with self._engine.writing(is_long=True) as connection:
            keys, hours = {key for _, key in given}, {hour for hour, _ in given}
            known = {(sketch.unix_hour, sketch.key): sketch.payload for sketch in sketches_of(connection, keys, hours)}
            # In the order of the table, so that two who import the same wait for each other and do not lock.
            changed = [
                given[place]
                for place in sorted(given)
                if place not in known or (replaces and known[place] != given[place].payload)
            ]
            if not changed:
                connection.rollback()
                return ImportOutcome(id=None, changed=0)
            upsert = UPSERT_SKETCH.on(connection)
            for piece in pieces(changed, PIECE):
                connection.execute(
                    upsert, [{"key": new.key, "unix_hour": new.unix_hour, "payload": new.payload} for new in piece]
                )
            # Late: from here on those who append wait.
            place: int = connection.execute(NEXT_ID).scalar_one()
            connection.execute(
                NEW_REPORT,
                {
                    **{"id": place, "node": "", "incarnation": "", "sequence": 0, "rows": 0},
                    "received_unix_seconds": now_unix_seconds,
                    "payload": encode_import(import_of(changed, asked_by)),
                },
            )
        return ImportOutcome(id=place, changed=len(changed))

    def take_runs(self, runs: Iterable[JobRun]) -> int:
        """Keep runs of Jobs, each merged with what is known of it; return the number of the post."""
        with self._engine.writing() as connection:
            return job_runs.take_runs(connection, runs)

    def runs_after(self, post: int, limit: int = RUNS_PIECE) -> tuple[list[JobRun], int]:
        """Return the runs that later posts changed, oldest post first, and the last post; the same = no more yet.

        0 = the database was lost or put back to an earlier state: it is to be read from its beginning.
        """
        with self._engine.reading() as connection:
            return job_runs.runs_after(connection, post, limit)

    def expire_runs(self, now_unix_seconds: float) -> int:
        """Delete runs that count for nothing any more; return how many."""
        with self._engine.writing() as connection:
            return job_runs.expire_runs(connection, now_unix_seconds)

    def fold(
        self,
        through_id: int,
        changed: Iterable[StoredSketch],
        drop_before_unix_hour: int,
        *,
        base_id: int,
        node_days: Iterable[NodeDay] = (),
        forgotten_id: int | None = None,
    ) -> None:
        """Fold reports into the sketches, at once: write those changed, drop old ones and the log they came from.

        Args:
            through_id: The last report that ``changed`` counts; the log goes up to it.
            changed: Sketches whole, as they are to be; at most one per key and hour.
            drop_before_unix_hour: Older sketches go, of one hour at a time, so that a leader whose clock is wrong for a
                while does not take the whole history along; so do marks of incarnations silent since a day before.
            base_id: What ``folded_through`` said before the sketches that ``changed`` builds on were read.
            node_days: Which nodes had a part in them, whole, as they are to be.
            forgotten_id: The newest of ``forgettings`` that it heeds, read before the sketches; None = it heeds all.

        Raises:
            FoldRaced: Another fold came between, or something was forgotten; nothing was changed. Read again and merge
                again.
            ValueError: ``through_id`` is before ``base_id`` or not logged yet.
        """
        if through_id < base_id:
            raise ValueError(f"a fold through report {through_id} cannot build on {base_id}")
        with self._engine.writing(is_long=True) as connection:
            if connection.execute(FOLD, {"b_base": base_id, "b_through": through_id}).rowcount != 1:
                raise FoldRaced(base_id=base_id, folded_through=counter(connection, FOLDED_THROUGH))
            # Behind the lock that `FOLD` took, in which an order to forget waits too.
            if forgotten_id is not None and store_forgetting.newest(connection) > forgotten_id:
                raise FoldRaced(base_id=base_id, folded_through=base_id)
            last_id = counter(connection, LAST_ID)
            if through_id > last_id:
                raise ValueError(f"a fold through report {through_id} finds the newest is {last_id}")
            upsert = UPSERT_SKETCH.on(connection)
            hours: set[int] = set()
            for piece in pieces(changed, PIECE):
                hours.update(new.unix_hour for new in piece)
                connection.execute(
                    upsert, [{"key": new.key, "unix_hour": new.unix_hour, "payload": new.payload} for new in piece]
                )
            upsert_days = UPSERT_NODE_HOURS.on(connection)
            for days in pieces(node_days, PIECE):
                connection.execute(
                    upsert_days, [{"unix_day": day.unix_day, "node": day.node, "payload": day.payload} for day in days]
                )
            oldest: int | None = connection.execute(OLDEST_HOUR).scalar()
            if oldest is not None:
                drop_before_unix_hour = min(drop_before_unix_hour, oldest + 1)
            connection.execute(delete(sketches).where(sketches.c.unix_hour < drop_before_unix_hour))
            connection.execute(delete(node_hours).where(node_hours.c.unix_day < drop_before_unix_hour // DAY_HOURS))
            hour_heads.drop(connection, hours, drop_before_unix_hour, base_id=base_id, through_id=through_id)
            connection.execute(delete(reports).where(reports.c.id <= through_id))
            silent_since = drop_before_unix_hour * _HOUR_SECONDS - _MARKS_OUTLAST_SECONDS
            connection.execute(delete(node_marks).where(node_marks.c.last_received_unix_seconds < silent_since))
            connection.execute(DROP_OLD_PODS)
            connection.execute(
                delete(forgettings).where(
                    forgettings.c.id <= through_id, forgettings.c.asked_unix_seconds < silent_since
                )
            )

    def keep_heads(self, since_unix_hour: int, before_unix_hour: int, *, length: int) -> bool:
        """Put the heads of the newest hour that has none kept into one row, so that a start need not look for them.

        For the leader, after a fold; the hours are over, or each fold would drop what was kept.

        Args:
            since_unix_hour: The oldest hour that counts.
            before_unix_hour: The first that may still change.
            length: Bytes of a head.

        Returns:
            Whether one was kept. False: all are, or another replica folded meanwhile.
        """
        with self.snapshot(since_unix_hour) as snapshot:
            hour = snapshot.hour_without_heads(before_unix_hour)
            if hour is None:
                return False
            heads = snapshot.beginnings_at(hour, length)
        with self._engine.writing(is_long=True) as connection:
            return hour_heads.keep(connection, heads, snapshot.folded_through)

    def take_setback(self, setback: WorkloadSetback) -> None:
        """Keep what was taken back of a workload, unless something newer of the kind is known."""
        with self._engine.writing() as connection:
            workload_setbacks.take(connection, setback)

    def setbacks(self) -> list[WorkloadSetback]:
        """Return all that was taken back."""
        with self._engine.reading() as connection:
            return workload_setbacks.every(connection)

    def size_bytes(self) -> int:
        """Return what the store takes on disk: its tables, or SQLite's file and log."""
        place = self._engine.place
        with self._engine.reading(is_long=True) as connection:
            if isinstance(place, SqlitePlace):
                pages: int = connection.execute(text("PRAGMA page_count")).scalar_one()
                page_bytes: int = connection.execute(text("PRAGMA page_size")).scalar_one()
                beside = place.path.with_name(f"{place.path.name}-wal")
                return pages * page_bytes + (beside.stat().st_size if beside.exists() else 0)
            return sum(_table_bytes(connection, name) for name in metadata.tables)

    def take_decisions(self, state: DecisionLogState, rows: Sequence[StoredDecision]) -> int:
        """Keep what a node decided; return how many rows, from the first on: the rest is too much for a day."""
        with self._engine.writing() as connection:
            return told_decisions.take(connection, state, rows)

    def decisions(self, choice: DecisionChoice, limit: int) -> list[StoredDecision]:
        """Return what nodes decided, newest first."""
        with self._engine.reading() as connection:
            return told_decisions.found(connection, choice, limit)

    def last_decisions(self, workloads: Iterable[Workload]) -> dict[Workload, StoredDecision]:
        """Return the newest decision about each of some workloads."""
        with self._engine.reading() as connection:
            return told_decisions.last_of(connection, workloads)

    def decision_logs(self) -> list[DecisionLogState]:
        """Return how far each node's decisions have come, by name."""
        with self._engine.reading() as connection:
            return told_decisions.logs(connection)

    def expire_decisions(self, now_unix_seconds: float) -> int:
        """Delete decisions that are too old or too many; return how many."""
        with self._engine.writing(is_long=True) as connection:
            return told_decisions.expire(connection, now_unix_seconds)

    # The ledger

    def ledger_through(self) -> int:
        """Return the newest hour of the ledger; 0 = none yet."""
        with self._engine.reading() as connection:
            return usage_ledger.through(connection)

    def oldest_sketch_hour(self) -> int | None:
        """Return the oldest hour that there are sketches of; None = there are none."""
        with self._engine.reading() as connection:
            return usage_ledger.oldest_sketch_hour(connection)

    def sketches_at(self, unix_hour: int, after: str, limit: int) -> list[StoredSketch]:
        """Return the next sketches of an hour, by key."""
        with self._engine.reading() as connection:
            return usage_ledger.sketches_at(connection, unix_hour, after, limit)

    def sketches_between(self, unix_hour: int, start: str, end: str) -> list[StoredSketch]:
        """Return the sketches of an hour from a key on and before another."""
        with self._engine.reading() as connection:
            return usage_ledger.sketches_between(connection, unix_hour, start, end)

    def write_ledger_hour(self, unix_hour: int, rows: Sequence[LedgerHour], gone: Iterable[Workload]) -> bool:
        """Replace an hour's rows that differ; those of workloads that are gone go. Return whether any was written."""
        with self._engine.writing(is_long=True) as connection:
            return usage_ledger.write_hour(connection, unix_hour, rows, gone)

    def note_ledger_through(self, unix_hour: int, *, before: int) -> None:
        """Record that the ledger has come to an hour, unless it is no longer where it was before."""
        with self._engine.writing() as connection:
            usage_ledger.note_through(connection, unix_hour, before)

    def write_ledger_day(self, unix_day: int) -> None:
        """Add up the hours of a day."""
        with self._engine.writing(is_long=True) as connection:
            usage_ledger.write_day(connection, unix_day)

    def newest_ledger_hour(self) -> int | None:
        """Return the newest hour that the ledger has rows of; None = it has none."""
        with self._engine.reading() as connection:
            return usage_ledger.newest_hour(connection)

    def ledger_of(self, workload: Workload, unix_hours: range) -> list[LedgerHour]:
        """Return a workload's rows of some hours, oldest first."""
        with self._engine.reading() as connection:
            return usage_ledger.hours_of(connection, workload, unix_hours)

    def ledger_at(self, unix_hour: int) -> list[LedgerHour]:
        """Return all rows of an hour, in no order."""
        with self._engine.reading(is_long=True) as connection:
            return usage_ledger.rows_at(connection, unix_hour)

    def ledger_kills(self, since_unix_hour: int) -> dict[Workload, int]:
        """Return how many kills each workload had from an hour on; those without are left out."""
        with self._engine.reading(is_long=True) as connection:
            return usage_ledger.kills_since(connection, since_unix_hour)

    def ledger_sums(self, unix_hour: int, namespaces: Collection[str] | None = None) -> dict[str, LedgerSum]:
        """Return the sums of an hour by namespace, of some alone, None = of all."""
        with self._engine.reading(is_long=True) as connection:
            return usage_ledger.sums_at(connection, unix_hour, namespaces)

    def ledger_sums_by_day(
        self, unix_days: range, namespaces: Collection[str] | None = None
    ) -> dict[tuple[str, int], LedgerSum]:
        """Return the sums of days by namespace and day."""
        with self._engine.reading(is_long=True) as connection:
            return usage_ledger.sums_by_day(connection, unix_days, namespaces)

    def expire_ledger(self, now_unix_hour: int) -> int:
        """Delete rows of the ledger that are too old; return how many."""
        with self._engine.writing(is_long=True) as connection:
            return usage_ledger.expire(connection, now_unix_hour)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a transaction for the tables of evictions, one at a time over all replicas; committed unless it raises.

        Waits for nobody who appends or folds on PostgreSQL; SQLite has one writer at a time. Keep it short.
        """
        with self._engine.writing() as connection:
            connection.execute(TAKE_EVICTION_TURN)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that only reads, of one moment."""
        with self._engine.reading() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._engine.close()


def _table_bytes(connection: Connection, name: str) -> int:
    statement = text("SELECT pg_total_relation_size(CAST(:name AS regclass))")
    size: int = connection.execute(statement, {"name": name}).scalar_one()
    return size
