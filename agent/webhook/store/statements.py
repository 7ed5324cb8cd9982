"""The store's statements, and marks as rows: the same for SQLite and PostgreSQL but for one. Webhook."""

from __future__ import annotations

from typing import Final, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    RowMapping,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from agent.webhook.store.database.tables import (
    EVICTION_TURN,
    FOLDED_THROUGH,
    LAST_ID,
    counters,
    node_hours,
    node_marks,
    node_pods,
    reports,
    sketches,
)
from agent.webhook.store.entries.marks import Mark, parse_ranges, ranges_text
from agent.webhook.store.entries.remembered_pods import REMEMBERED_SECONDS

EXPIRED_AT_ONCE_SECONDS: Final = 3600.0
"""Of what the leader looks at each ten minutes: it goes six times as fast as it comes."""
_Moment = TypeVar("_Moment", int, float)

NEXT_ID: Final = (
    update(counters).where(counters.c.name == LAST_ID).values(value=counters.c.value + 1).returning(counters.c.value)
)
TAKE_EVICTION_TURN: Final = update(counters).where(counters.c.name == EVICTION_TURN).values(value=counters.c.value + 1)
FOLD: Final = (
    update(counters)
    .where(counters.c.name == FOLDED_THROUGH, counters.c.value == bindparam("b_base"))
    .values(value=bindparam("b_through"))
)
_THIS_MARK: Final = (
    node_marks.c.node == bindparam("b_node"),
    node_marks.c.incarnation == bindparam("b_incarnation"),
)
MARK: Final = select(node_marks).where(*_THIS_MARK)
NEW_MARK: Final = insert(node_marks)
MOVE_MARK: Final = update(node_marks).where(*_THIS_MARK)
NEW_REPORT: Final = insert(reports)
_NEXT_REPORTS: Final = (
    select(reports.c.id, reports.c.node, reports.c.received_unix_seconds, reports.c.payload)
    .where(reports.c.id > bindparam("b_after"))
    .order_by(reports.c.id)
    .limit(bindparam("b_limit"))
    .subquery()
)
_OTHER_COUNTERS: Final = counters.alias()
_LAST_ID: Final = select(_OTHER_COUNTERS.c.value).where(_OTHER_COUNTERS.c.name == LAST_ID).scalar_subquery()
TAIL: Final = (
    select(counters.c.value.label("folded_through"), _LAST_ID.label("last_id"), _NEXT_REPORTS)
    .select_from(counters.outerjoin(_NEXT_REPORTS, true()))
    .where(counters.c.name == FOLDED_THROUGH)
    .order_by(_NEXT_REPORTS.c.id)
)
SKETCHES_OF: Final = select(sketches.c.key, sketches.c.unix_hour, sketches.c.payload).where(
    # Both as lists: a range of hours would be read whole, as the key stands behind it in the index.
    sketches.c.unix_hour.in_(bindparam("b_hours", expanding=True)),
    sketches.c.key.in_(bindparam("b_keys", expanding=True)),
)


OLDEST_HOUR: Final = select(func.min(sketches.c.unix_hour))
NODE_PODS: Final = select(node_pods.c.pods).where(node_pods.c.node == bindparam("b_node"))
LAST_HEARD: Final = select(func.max(node_marks.c.last_received_unix_seconds)).where(
    node_marks.c.node == bindparam("b_node")
)
_NEWEST: Final = select(func.max(node_pods.c.received_unix_seconds)).scalar_subquery()
DROP_OLD_PODS: Final = delete(node_pods).where(node_pods.c.received_unix_seconds < _NEWEST - REMEMBERED_SECONDS)


def expiry_bound(
    connection: Connection,
    column: ColumnElement[_Moment],
    bound: _Moment,
    at_once: _Moment,
    *which: ColumnElement[bool],
) -> _Moment:
    """Return before when rows go that are too old: ``bound``, or ``at_once`` after the oldest of them if that is less.

    So a leader whose clock is wrong for a while does not take all of them along.
    """
    oldest: _Moment | None = connection.execute(select(func.min(column)).where(*which)).scalar()
    return bound if oldest is None else min(bound, oldest + at_once)


def to_mark(row: RowMapping) -> Mark:
    """Read a row of ``node_marks``."""
    return Mark(
        lowest_sequence=row["lowest_sequence"],
        highest_sequence=row["highest_sequence"],
        missing=parse_ranges(row["missing"]),
        reports=row["reports"],
        lost_reports=row["lost_reports"],
        first_received_unix_seconds=row["first_received_unix_seconds"],
        last_received_unix_seconds=row["last_received_unix_seconds"],
    )


def mark_values(mark: Mark) -> dict[str, str | float]:
    """Return the columns of ``node_marks`` beside its key."""
    return {
        "lowest_sequence": mark.lowest_sequence,
        "highest_sequence": mark.highest_sequence,
        "missing": ranges_text(mark.missing),
        "reports": mark.reports,
        "lost_reports": mark.lost_reports,
        "first_received_unix_seconds": mark.first_received_unix_seconds,
        "last_received_unix_seconds": mark.last_received_unix_seconds,
    }


class Upsert:
    """The statement that writes a row whether there is one of its key or not; each dialect has its own class for it."""

    def __init__(self, table: Table, *columns: str) -> None:  # type: ignore[explicit-any]  # what its columns hold
        """Prepare it for both: made anew for each row it would take longer than SQLite does for it."""
        key = table.primary_key.columns.keys()
        on_file, on_server = sqlite.insert(table), postgresql.insert(table)
        self._on_file = on_file.on_conflict_do_update(
            index_elements=key, set_={name: on_file.excluded[name] for name in columns}
        )
        self._on_server = on_server.on_conflict_do_update(
            index_elements=key, set_={name: on_server.excluded[name] for name in columns}
        )

    def on(self, connection: Connection) -> Insert:
        """Return it for a database."""
        return self._on_file if connection.dialect.name == "sqlite" else self._on_server


UPSERT_SKETCH: Final = Upsert(sketches, "payload")
UPSERT_PODS: Final = Upsert(node_pods, "received_unix_seconds", "pods")
UPSERT_NODE_HOURS: Final = Upsert(node_hours, "payload")
