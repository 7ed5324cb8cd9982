"""The store's statements, and marks as rows: the same for SQLite and PostgreSQL but for one. Webhook."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Insert, RowMapping, bindparam, delete, func, insert, select, true, update
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
TAIL: Final = (
    select(counters.c.value.label("folded_through"), _NEXT_REPORTS)
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


def upsert_sketch(connection: Connection) -> Insert:
    """Return the statement that writes a sketch whether there is one or not; each dialect has its own class for it."""
    here = [sketches.c.unix_hour, sketches.c.key]
    if connection.dialect.name == "sqlite":
        on_file = sqlite.insert(sketches)
        return on_file.on_conflict_do_update(index_elements=here, set_={"payload": on_file.excluded.payload})
    on_server = postgresql.insert(sketches)
    return on_server.on_conflict_do_update(index_elements=here, set_={"payload": on_server.excluded.payload})


def upsert_pods(connection: Connection) -> Insert:
    """Return the statement that writes a node's pods whether there are some or not."""
    here, moment = [node_pods.c.node], "received_unix_seconds"
    if connection.dialect.name == "sqlite":
        on_file = sqlite.insert(node_pods)
        new = on_file.excluded
        return on_file.on_conflict_do_update(index_elements=here, set_={moment: new[moment], "pods": new.pods})
    on_server = postgresql.insert(node_pods)
    newer = on_server.excluded
    return on_server.on_conflict_do_update(index_elements=here, set_={moment: newer[moment], "pods": newer.pods})


def upsert_node_hours(connection: Connection) -> Insert:
    """Return the statement that writes a node's hours of a day whether there are some or not."""
    here = [node_hours.c.unix_day, node_hours.c.node]
    if connection.dialect.name == "sqlite":
        on_file = sqlite.insert(node_hours)
        return on_file.on_conflict_do_update(index_elements=here, set_={"payload": on_file.excluded.payload})
    on_server = postgresql.insert(node_hours)
    return on_server.on_conflict_do_update(index_elements=here, set_={"payload": on_server.excluded.payload})
