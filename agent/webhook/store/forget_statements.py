"""Forgetting in the store: which sketches go, and the entry in the log by which everybody else hears of it. Webhook.

The entry takes its place in the log in the transaction in which the sketches go, and no fold that read before it is
taken (`Store.fold` looks). So what stood before it cannot come back: reports of the log that are folded later leave out
what a later entry forgets, and an index in memory meets the entry in its place.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
from sqlalchemy import Connection, bindparam, delete, func, insert, literal, select, update

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.hour_sketch import ReportInterval
from agent.core.history.workloads.node_peaks import node_number
from agent.core.history.workloads.sketch_key import keys_of, parse_key, range_of
from agent.webhook.store.database.tables import (
    FOLDED_THROUGH,
    NODE_HOURS_SINCE,
    counters,
    decisions,
    forgettings,
    job_runs,
    ledger_workloads,
    node_hours,
    node_marks,
    reports,
    setbacks,
    sketches,
)
from agent.webhook.store.entries.forget_entry import Forgetting, decode_forgetting, encode_forgetting
from agent.webhook.store.entries.node_hours import DAY_HOURS, KeyHours, decode, encode, unix_hours
from agent.webhook.store.entries.report_payload import BadPayloadError, decode_stored
from agent.webhook.store.entries.sketch_bytes import HEAD_BYTES, read_heads
from agent.webhook.store.records.decisions import forget as forget_decisions
from agent.webhook.store.records.job_runs import forget_runs
from agent.webhook.store.records.setbacks import forget as forget_setbacks
from agent.webhook.store.records.usage_ledger import forget as forget_ledger
from agent.webhook.store.records.usage_ledger import forget_hours as forget_ledger_hours
from agent.webhook.store.shapes import ForgetWish, Forgotten, NodeDay
from agent.webhook.store.snapshot import PIECE, StoreSnapshot, counter, pieces
from agent.webhook.store.statements import NEXT_ID, OLDEST_HOUR, UPSERT_NODE_HOURS

Hours = dict[str, set[int]]
_STAND_IN_LINE: Final = update(counters).where(counters.c.name == FOLDED_THROUGH).values(value=counters.c.value)
"""Behind a fold that is under way, and before the next."""
_NEWEST: Final = select(func.max(forgettings.c.id))
_AFTER: Final = select(forgettings.c.payload).where(forgettings.c.id > bindparam("b_after")).order_by(forgettings.c.id)
_NEWEST_HOUR: Final = select(func.max(sketches.c.unix_hour))
_OF_RANGE: Final = select(sketches.c.key).where(
    sketches.c.unix_hour == bindparam("b_hour"),
    sketches.c.key >= bindparam("b_from"),
    sketches.c.key < bindparam("b_before"),
)
_THESE: Final = (
    sketches.c.unix_hour == bindparam("b_hour"),
    sketches.c.key.in_(bindparam("b_keys", expanding=True)),
)
_COUNT: Final = select(func.count()).select_from(sketches).where(*_THESE)
_DELETE: Final = delete(sketches).where(*_THESE)
_DAYS: Final = select(node_hours).where(
    node_hours.c.unix_day.in_(bindparam("b_days", expanding=True)),
    node_hours.c.node.in_(bindparam("b_nodes", expanding=True)),
)


def newest(connection: Connection) -> int:
    """Return the place of the newest entry; 0 = nothing was ever forgotten."""
    place: int | None = connection.execute(_NEWEST).scalar()
    return place or 0


def entries_after(connection: Connection, after_id: int) -> list[Forgetting]:
    """Return the entries after a place in the log, in order."""
    return [decode_forgetting(bytes(row.payload)) for row in connection.execute(_AFTER, {"b_after": after_id})]


def days_of(connection: Connection, days: set[int], nodes: set[str]) -> list[NodeDay]:
    """Return what is kept of these nodes on these days."""
    rows = connection.execute(_DAYS, {"b_days": sorted(days), "b_nodes": sorted(nodes)})
    return [NodeDay(unix_day=row.unix_day, node=row.node, payload=bytes(row.payload)) for row in rows]


def looked_for(connection: Connection, wish: ForgetWish) -> Forgotten:
    """Return what would go."""
    hours, is_known = _stored_hours(connection, wish)
    rows = _each(connection, hours, is_deleted=False)
    report_count = _of_log(connection, wish, hours)
    return Forgotten(id=None, hours=hours, rows=rows, reports=report_count, is_known=is_known or report_count > 0)


def forgotten(connection: Connection, wish: ForgetWish, now_unix_seconds: float) -> Forgotten:
    """Delete it, and write the entry; in a transaction that writes."""
    connection.execute(_STAND_IN_LINE)
    hours, is_known = _stored_hours(connection, wish)
    rows = _each(connection, hours, is_deleted=True)
    if wish.workload is not None:
        forget_runs(connection, wish.workload)
        forget_setbacks(connection, wish.workload)
        forget_decisions(connection, wish.workload)
        forget_ledger(connection, wish.workload)
    if wish.node is not None:  # its marks and remembered pods stay: by them nothing is told a second time
        _forget_days(connection, wish.node, wish.since_unix_hour)
        forget_ledger_hours(connection, {(hour, parse_key(key).workload) for key in hours for hour in hours[key]})
    # Late: from here on those who append wait.
    place: int = connection.execute(NEXT_ID).scalar_one()
    report_count = _of_log(connection, wish, hours)
    payload = encode_forgetting(
        Forgetting(
            id=place,
            asked_by=wish.asked_by,
            workload=wish.workload,
            node=wish.node,
            since_unix_hour=wish.since_unix_hour,
            keys=() if wish.node is None else tuple(sorted(hours)),
        )
    )
    asked = {"id": place, "asked_unix_seconds": now_unix_seconds, "payload": payload}
    connection.execute(insert(forgettings), asked)
    in_log = {"id": place, "received_unix_seconds": now_unix_seconds, "payload": payload}
    connection.execute(insert(reports), {**in_log, "node": "", "incarnation": "", "sequence": 0, "rows": 0})
    return Forgotten(id=place, hours=hours, rows=rows, reports=report_count, is_known=is_known or report_count > 0)


def _stored_hours(connection: Connection, wish: ForgetWish) -> tuple[Hours, bool]:
    if wish.workload is not None:
        hours = _of_workload(connection, wish)
        return hours, bool(hours) or _is_recorded(connection, wish.workload)
    assert wish.node is not None  # noqa: S101 - one of the two is named
    hours = _led_before(connection, wish.node, wish.since_unix_hour)
    days = connection.execute(select(node_hours).where(node_hours.c.node == wish.node)).all()
    for row in days:
        for key, bits in decode(bytes(row.payload)).items():
            chosen = [hour for hour in unix_hours(row.unix_day, bits) if hour >= wish.since_unix_hour]
            if chosen:
                hours[key].update(chosen)
    marks = connection.execute(select(func.count()).select_from(node_marks).where(node_marks.c.node == wish.node))
    return hours, bool(days) or bool(hours) or marks.scalar_one() > 0


def _is_recorded(connection: Connection, workload: Workload) -> bool:
    """Return whether anything beside its sketches is kept of a workload, which may outlast them."""
    tables = (job_runs, setbacks, decisions, ledger_workloads)
    return any(
        connection.execute(
            select(literal(1))
            .where(
                table.c.namespace == workload.namespace,
                table.c.workload_kind == workload.kind,
                table.c.workload_name == workload.name,
            )
            .limit(1)
        ).first()
        for table in tables
    )


def _of_workload(connection: Connection, wish: ForgetWish) -> Hours:
    assert wish.workload is not None  # noqa: S101 - who calls looked
    start, end = range_of(wish.workload)
    oldest: int | None = connection.execute(OLDEST_HOUR).scalar()
    last: int | None = connection.execute(_NEWEST_HOUR).scalar()
    hours: Hours = defaultdict(set)
    if oldest is None or last is None:
        return hours
    for hour in range(oldest, last + 1):
        for row in connection.execute(_OF_RANGE, {"b_hour": hour, "b_from": start, "b_before": end}):
            hours[row.key].add(hour)
    return hours


def _led_before(connection: Connection, node: str, since_unix_hour: int) -> Hours:
    """Find the hours in which a node had the largest value, of those folded before it was kept who had a part."""
    hours: Hours = defaultdict(set)
    oldest: int | None = connection.execute(OLDEST_HOUR).scalar()
    known_since = counter(connection, NODE_HOURS_SINCE)
    if oldest is None:
        return hours
    number, snapshot = node_number(node), StoreSnapshot(connection, oldest)
    for hour in range(max(oldest, since_unix_hour), known_since):
        sketch_heads = snapshot.beginnings_at(hour, HEAD_BYTES)
        heads = read_heads(sketch_heads.joined)
        for place in np.flatnonzero((heads["cpu_node"] == number) | (heads["memory_node"] == number)).tolist():
            hours[sketch_heads.keys[place]].add(hour)
    return hours


def _each(connection: Connection, hours: Hours, *, is_deleted: bool) -> int:
    """Count the sketches that there are of these, or let them go; return how many."""
    by_hour: dict[int, list[str]] = defaultdict(list)
    for key, key_hours in hours.items():
        for hour in key_hours:
            by_hour[hour].append(key)
    count = 0
    for hour, keys in sorted(by_hour.items()):
        for piece in pieces(sorted(keys), PIECE):
            here = {"b_hour": hour, "b_keys": piece}
            if is_deleted:
                count += connection.execute(_DELETE, here).rowcount
            else:
                count += connection.execute(_COUNT, here).scalar_one()
    return count


def _forget_days(connection: Connection, node: str, since_unix_hour: int) -> None:
    for row in connection.execute(select(node_hours).where(node_hours.c.node == node)).all():
        first = row.unix_day * DAY_HOURS
        kept_bits = (1 << min(max(since_unix_hour - first, 0), DAY_HOURS)) - 1
        rest: KeyHours = {key: bits & kept_bits for key, bits in decode(bytes(row.payload)).items() if bits & kept_bits}
        if rest:
            left = {"unix_day": row.unix_day, "node": node, "payload": encode(rest)}
            connection.execute(UPSERT_NODE_HOURS.on(connection), left)
        else:
            here = (node_hours.c.unix_day == row.unix_day, node_hours.c.node == node)
            connection.execute(delete(node_hours).where(*here))


def _of_log(connection: Connection, wish: ForgetWish, hours: Hours) -> int:
    """Add the hours that a node's reports of the log would have been folded into; return how many reports."""
    if wish.node is None:
        return 0
    here = (reports.c.node == wish.node, reports.c.id > counter(connection, FOLDED_THROUGH))
    count = 0
    for row in connection.execute(select(reports.c.received_unix_seconds, reports.c.payload).where(*here)).all():
        payload = bytes(row.payload)
        try:
            report = decode_stored(payload)
        except BadPayloadError:
            continue
        hour = ReportInterval.of(
            received_unix_seconds=row.received_unix_seconds,
            end_age_seconds=report.end_age_seconds,
            interval_seconds=report.interval_seconds,
        ).unix_hour
        if hour < wish.since_unix_hour:
            continue
        count += 1
        for learnt in report.rows:
            for key in keys_of(learnt.workload, learnt.container, report.node, report.node_class):
                hours[str(key)].add(hour)
    return count
