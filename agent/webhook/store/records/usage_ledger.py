"""The ledger in the database: a row per workload and hour, and per workload and day; sums by the database. Webhook.

An hour's rows are replaced where they differ, never added to: however often an hour is looked at, it counts once. What
was written and recommended then stays as it was put down first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    RowMapping,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.usage_ledger import DAILY_DAYS, HOURLY_DAYS, LedgerAmounts, LedgerHour
from agent.webhook.store.database.tables import (
    LEDGER_MARGINS,
    LEDGER_THROUGH,
    counters,
    ledger_days,
    ledger_hours,
    ledger_workloads,
    sketches,
)
from agent.webhook.store.entries.node_hours import DAY_HOURS
from agent.webhook.store.shapes import StoredSketch
from agent.webhook.store.snapshot import PIECE, counter, pieces
from agent.webhook.store.statements import expiry_bound

MOST_AN_HOUR: Final = 20_000
"""Workloads of one hour that are put down; of more those that come last by name are left out."""
EXPIRED_AT_ONCE_DAYS: Final = 2
"""The leader looks once a day: it goes twice as fast as it comes."""
_RESOURCES: Final = ("cpu", "memory")
_FIGURES: Final = ("written", "requested", "recommended", "used", "used_p95", "short_seconds")
_AMOUNTS: Final = tuple(f"{resource}_{figure}" for resource in _RESOURCES for figure in _FIGURES)
_KEPT: Final = tuple(f"{resource}_{figure}" for resource in _RESOURCES for figure in ("written", "recommended"))
"""What stays as it was put down first."""
_SKETCHES_AT: Final = (
    select(sketches.c.key, sketches.c.payload)
    .where(sketches.c.unix_hour == bindparam("b_hour"), sketches.c.key > bindparam("b_after"))
    .order_by(sketches.c.key)
    .limit(bindparam("b_limit"))
)
_RANGE_AT: Final = (
    select(sketches.c.key, sketches.c.payload)
    .where(
        sketches.c.unix_hour == bindparam("b_hour"),
        sketches.c.key >= bindparam("b_from"),
        sketches.c.key < bindparam("b_before"),
    )
    .order_by(sketches.c.key)
)
_OLDEST_SKETCH: Final = select(func.min(sketches.c.unix_hour))


class LedgerMargins(NamedTuple):
    """Of one resource, summed over workloads and hours and never netted; millicores or bytes."""

    freed: int
    """Written above what is requested."""
    possible: int
    """Requested above what is recommended."""
    needed: int
    """Recommended above what is requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSum:
    """Rows added up: amounts are sums of what is known, None = known of none."""

    hours: int
    """Over which they were added: 1, or those of a day of which any row tells."""
    workloads: int
    without_requested: int
    """Workloads of which what they request is not known."""
    without_recommended: int
    pods_milli: int
    cpu: LedgerAmounts
    memory: LedgerAmounts
    kills: int
    cpu_margins: LedgerMargins
    memory_margins: LedgerMargins


# Writing


def through(connection: Connection) -> int:
    """Return the newest hour that was put down; 0 = none yet."""
    return counter(connection, LEDGER_THROUGH)


def oldest_sketch_hour(connection: Connection) -> int | None:
    """Return the oldest hour that there are sketches of; None = there are none."""
    unix_hour: int | None = connection.execute(_OLDEST_SKETCH).scalar()
    return unix_hour


def sketches_at(connection: Connection, unix_hour: int, after: str, limit: int) -> list[StoredSketch]:
    """Return the next sketches of an hour, by key."""
    rows = connection.execute(_SKETCHES_AT, {"b_hour": unix_hour, "b_after": after, "b_limit": limit})
    return [StoredSketch(key=row.key, unix_hour=unix_hour, payload=bytes(row.payload)) for row in rows]


def sketches_between(connection: Connection, unix_hour: int, start: str, end: str) -> list[StoredSketch]:
    """Return the sketches of an hour from a key on and before another."""
    rows = connection.execute(_RANGE_AT, {"b_hour": unix_hour, "b_from": start, "b_before": end})
    return [StoredSketch(key=row.key, unix_hour=unix_hour, payload=bytes(row.payload)) for row in rows]


def write_hour(connection: Connection, unix_hour: int, rows: Sequence[LedgerHour], gone: Iterable[Workload]) -> bool:
    """Replace the rows of these workloads that differ; those of ``gone`` go. In a transaction.

    Returns:
        Whether anything was written.
    """
    numbers = _numbers(connection, [row.workload for row in rows])
    row_of = {numbers[row.workload]: row for row in rows}
    is_changed = False
    for piece in pieces(sorted({*row_of, *_numbers_of(connection, gone).values()}), PIECE):
        here = (ledger_hours.c.unix_hour == unix_hour, ledger_hours.c.workload.in_(piece))
        stood = {row["workload"]: dict(row) for row in connection.execute(select(ledger_hours).where(*here)).mappings()}
        fresh = {}
        for number in piece:
            if number in row_of:
                before = stood.get(number, {})
                values = _values(row_of[number], number) | {name: before[name] for name in _KEPT if name in before}
                if values != before:
                    fresh[number] = values
        outdated = [number for number in stood if number in fresh or number not in row_of]
        if outdated:
            connection.execute(
                delete(ledger_hours).where(ledger_hours.c.unix_hour == unix_hour, ledger_hours.c.workload.in_(outdated))
            )
        if fresh:
            connection.execute(insert(ledger_hours), list(fresh.values()))
        is_changed = is_changed or bool(outdated or fresh)
    return is_changed


def note_through(connection: Connection, unix_hour: int, before: int) -> None:
    """Record that the ledger has come to an hour; where another leader moved the mark meanwhile, that holds."""
    connection.execute(
        update(counters).where(counters.c.name == LEDGER_THROUGH, counters.c.value == before).values(value=unix_hour)
    )


def write_day(connection: Connection, unix_day: int) -> None:
    """Add up the hours of a day; what stood there goes."""
    hours = ledger_hours.c
    here = hours.unix_hour.between(unix_day * DAY_HOURS, unix_day * DAY_HOURS + DAY_HOURS - 1)
    connection.execute(delete(ledger_days).where(ledger_days.c.unix_day == unix_day))
    margins = _margins()
    names = ["unix_day", "workload", "hours", "pods_milli", *_AMOUNTS, "kills", *LEDGER_MARGINS]
    added = (
        select(
            literal(unix_day),
            hours.workload,
            func.count(),
            _whole_sum(hours.pods_milli),
            *(_whole_sum(hours[name]) for name in _AMOUNTS),
            _whole_sum(hours.kills),
            *(_whole_sum(margins[name]) for name in LEDGER_MARGINS),
        )
        .where(here)
        .group_by(hours.workload)
    )
    connection.execute(insert(ledger_days).from_select(names, added))


def expire(connection: Connection, now_unix_hour: int) -> int:
    """Delete hours and days that are too old, two days' at a time, and names that no row has; return how many rows."""
    today = now_unix_hour // DAY_HOURS
    hour, day = ledger_hours.c.unix_hour, ledger_days.c.unix_day
    oldest_hour = expiry_bound(
        connection, hour, now_unix_hour - HOURLY_DAYS * DAY_HOURS, EXPIRED_AT_ONCE_DAYS * DAY_HOURS
    )
    oldest_day = expiry_bound(connection, day, today - DAILY_DAYS, EXPIRED_AT_ONCE_DAYS)
    gone = connection.execute(delete(ledger_hours).where(hour < oldest_hour)).rowcount
    gone += connection.execute(delete(ledger_days).where(day < oldest_day)).rowcount
    # What has hours of days that are over has days; of the others the newest hours are looked at.
    recent = select(ledger_hours.c.workload).where(ledger_hours.c.unix_hour >= (today - 2) * DAY_HOURS)
    used = select(ledger_days.c.workload).union(recent)
    connection.execute(delete(ledger_workloads).where(ledger_workloads.c.id.not_in(used)))
    return gone


def forget(connection: Connection, workload: Workload) -> None:
    """Delete the rows of a workload."""
    for number in _numbers_of(connection, [workload]).values():
        connection.execute(delete(ledger_hours).where(ledger_hours.c.workload == number))
        connection.execute(delete(ledger_days).where(ledger_days.c.workload == number))
        connection.execute(delete(ledger_workloads).where(ledger_workloads.c.id == number))


def forget_hours(connection: Connection, places: Collection[tuple[int, Workload]]) -> None:
    """Delete the rows of some hours of workloads, also out of their days."""
    numbers = _numbers_of(connection, {workload for _, workload in places})
    by_hour: dict[int, set[int]] = {}
    for hour, workload in places:
        if workload in numbers:
            by_hour.setdefault(hour, set()).add(numbers[workload])
    for hour, chosen in sorted(by_hour.items()):
        for piece in pieces(sorted(chosen), PIECE):
            connection.execute(
                delete(ledger_hours).where(ledger_hours.c.unix_hour == hour, ledger_hours.c.workload.in_(piece))
            )
    for day in sorted({hour // DAY_HOURS for hour in by_hour}):
        write_day(connection, day)


# Reading


def newest_hour(connection: Connection) -> int | None:
    """Return the newest hour that any row tells of; None = there is none."""
    unix_hour: int | None = connection.execute(select(func.max(ledger_hours.c.unix_hour))).scalar()
    return unix_hour


def hours_of(connection: Connection, workload: Workload, unix_hours: range) -> list[LedgerHour]:
    """Return a workload's rows of some hours, oldest first."""
    number = _numbers_of(connection, [workload]).get(workload)
    if number is None:
        return []
    statement = (
        select(ledger_hours)
        # As a list: a range of hours would be read whole, as the workload stands behind the hour in the index.
        .where(ledger_hours.c.unix_hour.in_(list(unix_hours)), ledger_hours.c.workload == number)
        .order_by(ledger_hours.c.unix_hour)
    )
    return [_to_hour(row, workload) for row in connection.execute(statement).mappings()]


def rows_at(connection: Connection, unix_hour: int) -> list[LedgerHour]:
    """Return all rows of an hour."""
    statement = (
        select(ledger_hours, ledger_workloads)
        .join_from(ledger_hours, ledger_workloads, ledger_hours.c.workload == ledger_workloads.c.id)
        .where(ledger_hours.c.unix_hour == unix_hour)
    )
    return [_to_hour(row, _workload(row)) for row in connection.execute(statement).mappings()]


def kills_since(connection: Connection, unix_hour: int) -> dict[Workload, int]:
    """Return how many kills each workload had from an hour on; those without are left out."""
    hours = ledger_hours.c
    counted = (
        select(hours.workload, _whole_sum(hours.kills).label("counted"))
        .where(hours.unix_hour >= unix_hour, hours.kills > 0)
        .group_by(hours.workload)
        .subquery()
    )
    statement = select(ledger_workloads, counted.c.counted).join_from(
        counted, ledger_workloads, counted.c.workload == ledger_workloads.c.id
    )
    return {_workload(row): row["counted"] for row in connection.execute(statement).mappings()}


def sums_at(connection: Connection, unix_hour: int, namespaces: Collection[str] | None = None) -> dict[str, LedgerSum]:
    """Return the sums of an hour by namespace, those of ``namespaces`` alone, None = all."""
    return {
        namespace: ledger_sum
        for (namespace, _), ledger_sum in _sums(
            connection, range(unix_hour, unix_hour + 1), namespaces, is_days=False
        ).items()
    }


def sums_by_day(
    connection: Connection, unix_days: range, namespaces: Collection[str] | None = None
) -> dict[tuple[str, int], LedgerSum]:
    """Return the sums of days by namespace and day; amounts are those of all the day's hours added up."""
    return _sums(connection, unix_days, namespaces, is_days=True)


def _sums(
    connection: Connection, moments: range, namespaces: Collection[str] | None, *, is_days: bool
) -> dict[tuple[str, int], LedgerSum]:
    table = ledger_days if is_days else ledger_hours
    moment = table.c.unix_day if is_days else table.c.unix_hour
    margins = {name: table.c[name] for name in LEDGER_MARGINS} if is_days else _margins()
    of_hours = func.max(table.c.hours) if is_days else literal(1)
    statement = (
        select(
            ledger_workloads.c.namespace,
            moment.label("moment"),
            of_hours.label("of_hours"),
            func.count().label("workloads"),
            *(
                (func.count() - func.count(table.c[f"cpu_{figure}"])).label(f"without_{figure}")
                for figure in ("requested", "recommended")
            ),
            *(_whole_sum(table.c[name]).label(name) for name in ("pods_milli", *_AMOUNTS, "kills")),
            *(_whole_sum(margins[name]).label(name) for name in LEDGER_MARGINS),
        )
        .join_from(table, ledger_workloads, table.c.workload == ledger_workloads.c.id)
        .where(moment.in_(list(moments)))
        .group_by(ledger_workloads.c.namespace, moment)
    )
    if namespaces is not None:
        statement = statement.where(ledger_workloads.c.namespace.in_(sorted(namespaces)))
    return {
        (row["namespace"], row["moment"]): LedgerSum(
            hours=row["of_hours"],
            workloads=row["workloads"],
            without_requested=row["without_requested"],
            without_recommended=row["without_recommended"],
            pods_milli=row["pods_milli"],
            cpu=_of_resource(row, "cpu"),
            memory=_of_resource(row, "memory"),
            kills=row["kills"],
            cpu_margins=LedgerMargins(row["cpu_freed"], row["cpu_possible"], row["cpu_needed"]),
            memory_margins=LedgerMargins(row["memory_freed"], row["memory_possible"], row["memory_needed"]),
        )
        for row in connection.execute(statement).mappings()
    }


def _margins() -> dict[str, ColumnElement[int]]:
    """Return what is too much or too little in an hour's row, 0 where one of the two is not known."""
    margins: dict[str, ColumnElement[int]] = {}
    for resource in _RESOURCES:
        written, requested, recommended = (
            ledger_hours.c[f"{resource}_{figure}"] for figure in ("written", "requested", "recommended")
        )
        for name, more, less in (
            ("freed", written, requested),
            ("possible", requested, recommended),
            ("needed", recommended, requested),
        ):
            margins[f"{resource}_{name}"] = case((more > less, more - less), else_=0)
    return margins


def _whole_sum(column: ColumnElement[int]) -> ColumnElement[int]:
    """Return a sum as a whole number: PostgreSQL's of large whole numbers is a decimal."""
    return cast(func.sum(column), BigInteger)


def _numbers(connection: Connection, workloads: Sequence[Workload]) -> dict[Workload, int]:
    """Return the numbers of workloads, given now to those that have none."""
    numbers = _numbers_of(connection, workloads)
    new = [workload for workload in workloads if workload not in numbers]
    if new:
        connection.execute(
            insert(ledger_workloads),
            [
                {"namespace": workload.namespace, "workload_kind": workload.kind, "workload_name": workload.name}
                for workload in new
            ],
        )
        numbers |= _numbers_of(connection, new)
    return numbers


def _numbers_of(connection: Connection, workloads: Iterable[Workload]) -> dict[Workload, int]:
    wanted = set(workloads)
    numbers: dict[Workload, int] = {}
    for piece in pieces(sorted({workload.namespace for workload in wanted}), PIECE):
        rows = connection.execute(select(ledger_workloads).where(ledger_workloads.c.namespace.in_(piece))).mappings()
        numbers |= {workload: row["id"] for row in rows if (workload := _workload(row)) in wanted}
    return numbers


def _workload(row: RowMapping) -> Workload:
    return Workload(namespace=row["namespace"], kind=row["workload_kind"], name=row["workload_name"])


def _to_hour(row: RowMapping, workload: Workload) -> LedgerHour:
    return LedgerHour(
        workload=workload,
        unix_hour=row["unix_hour"],
        pods_milli=row["pods_milli"],
        cpu=_of_resource(row, "cpu"),
        memory=_of_resource(row, "memory"),
        kills=row["kills"],
    )


def _of_resource(row: RowMapping, resource: str) -> LedgerAmounts:
    return LedgerAmounts(**{figure: row[f"{resource}_{figure}"] for figure in _FIGURES})


def _values(row: LedgerHour, number: int) -> dict[str, int | None]:
    return {
        "unix_hour": row.unix_hour,
        "workload": number,
        "pods_milli": row.pods_milli,
        "kills": row.kills,
        **{
            f"{resource}_{figure}": getattr(amounts, figure)
            for resource, amounts in (("cpu", row.cpu), ("memory", row.memory))
            for figure in _FIGURES
        },
    }
