"""What nodes decided and did, in the database: each once, for thirty days, within bounds. Webhook.

A decision is known by its node, the log it stands in and its number there; told again it takes the newer wording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    RowMapping,
    and_,
    bindparam,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from agent.core.cluster.workload import Workload
from agent.webhook.store.database.tables import decision_logs, decisions
from agent.webhook.store.statements import EXPIRED_AT_ONCE_SECONDS, expiry_bound

KEPT_SECONDS: Final = 30 * 86_400.0
MOST_ROWS: Final = 500_000
"""Of all nodes; of more the oldest go. Ten thousand a day are 300,000."""
MOST_A_DAY: Final = 5000
"""Of one node that are taken: what one of them invents must not push out what all others did."""
_DAY_SECONDS: Final = 86_400
_TOLD: Final = ("unix_seconds", "outcome", "reason", "detail", "changes", "seconds", "repeats")
"""What a newer wording changes; whose it is, it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """One row; None = it is about the node, or not known."""

    node: str
    incarnation: str
    sequence: int
    unix_seconds: float
    action: str
    outcome: str
    reason: str
    detail: str
    workload: Workload | None
    pod: str | None
    pod_uid: str | None
    changes: str
    """JSON."""
    seconds: float | None
    repeats: int
    asked_by: str | None
    id: int = 0
    """Given by the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLogState:
    """How far a node's decisions have come."""

    node: str
    incarnation: str
    agent: str
    dropped: int
    received_unix_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPlace:
    """Where a page of decisions ends."""

    unix_seconds: float
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionChoice:
    """Which decisions are asked for; the default is all."""

    namespaces: frozenset[str] | None = None
    """Of the pods; None = of any, and those about nodes too."""
    workload_name: str | None = None
    workload_kind: str | None = None
    pod: str | None = None
    """``*`` matches anything."""
    node: str | None = None
    actions: frozenset[str] = field(default_factory=frozenset)
    outcomes: frozenset[str] = field(default_factory=frozenset)
    since_unix_seconds: float | None = None
    after: DecisionPlace | None = None


_LOG: Final = select(decision_logs).where(decision_logs.c.node == bindparam("b_node"))


def take(connection: Connection, state: DecisionLogState, rows: Sequence[StoredDecision]) -> int:
    """Keep decisions of one node's log, and how far that has come; in a transaction that writes.

    Returns:
        How many of the rows, from the first on, were kept: the rest is more than a node is believed in a day. What is
        there already, and is said again, is not counted.
    """
    day = int(state.received_unix_seconds // _DAY_SECONDS)
    before = connection.execute(_LOG, {"b_node": state.node}).mappings().one_or_none()
    taken = before["taken"] if before is not None and before["unix_day"] == day else 0
    known = _known(connection, state, rows)
    new = 0
    kept_rows: list[StoredDecision] = []
    for row in rows:
        if row.sequence not in known:
            if taken + new >= MOST_A_DAY:
                break
            known.add(row.sequence)
            new += 1
        kept_rows.append(row)
    values = {
        "incarnation": state.incarnation,
        "agent": state.agent,
        "dropped": state.dropped,
        "received_unix_seconds": state.received_unix_seconds,
        "unix_day": day,
        "taken": taken + new,
    }
    if before is None:
        connection.execute(insert(decision_logs), {"node": state.node, **values})
    else:
        connection.execute(update(decision_logs).where(decision_logs.c.node == state.node).values(**values))
    if kept_rows:
        connection.execute(_upsert(connection), [_values(row) for row in kept_rows])
    return len(kept_rows)


def _known(connection: Connection, state: DecisionLogState, rows: Sequence[StoredDecision]) -> set[int]:
    """Return the numbers of those rows that are there already."""
    return set(
        connection.execute(
            select(decisions.c.sequence).where(
                decisions.c.node == state.node,
                decisions.c.incarnation == state.incarnation,
                decisions.c.sequence.in_([row.sequence for row in rows]),
            )
        ).scalars()
    )


def found(connection: Connection, choice: DecisionChoice, limit: int) -> list[StoredDecision]:
    """Return those that are asked for, newest first, at most so many."""
    if choice.namespaces is not None and not choice.namespaces:
        return []
    statement = (
        select(decisions)
        .where(*_conditions(choice))
        .order_by(decisions.c.unix_seconds.desc(), decisions.c.id.desc())
        .limit(limit)
    )
    return [to_decision(row) for row in connection.execute(statement).mappings()]


# Written once: for a page of 200 workloads, building it each time takes eight times as long as asking the database.
_LAST: Final = (
    select(decisions)
    .where(
        decisions.c.namespace == bindparam("b_namespace"),
        decisions.c.workload_kind == bindparam("b_kind"),
        decisions.c.workload_name == bindparam("b_name"),
    )
    .order_by(decisions.c.unix_seconds.desc(), decisions.c.id.desc())
    .limit(1)
)


def last_of(connection: Connection, workloads: Iterable[Workload]) -> dict[Workload, StoredDecision]:
    """Return the newest decision about each of some workloads; of those without one nothing."""
    newest = {}
    for workload in workloads:
        names = {"b_namespace": workload.namespace, "b_kind": workload.kind, "b_name": workload.name}
        row = connection.execute(_LAST, names).mappings().first()
        if row is not None:
            newest[workload] = to_decision(row)
    return newest


def logs(connection: Connection) -> list[DecisionLogState]:
    """Return how far each node's decisions have come, by name."""
    rows = connection.execute(select(decision_logs).order_by(decision_logs.c.node)).mappings()
    return [
        DecisionLogState(
            node=row["node"],
            incarnation=row["incarnation"],
            agent=row["agent"],
            dropped=row["dropped"],
            received_unix_seconds=row["received_unix_seconds"],
        )
        for row in rows
    ]


def expire(connection: Connection, now_unix_seconds: float) -> int:
    """Delete those that are too old, an hour's at a time, the oldest beyond the most, and nodes long silent."""
    moment = decisions.c.unix_seconds
    oldest = expiry_bound(connection, moment, now_unix_seconds - KEPT_SECONDS, EXPIRED_AT_ONCE_SECONDS)
    gone = connection.execute(delete(decisions).where(moment < oldest)).rowcount
    connection.execute(delete(decision_logs).where(decision_logs.c.received_unix_seconds < oldest))
    count: int = connection.execute(select(func.count()).select_from(decisions)).scalar_one()
    if count > MOST_ROWS:
        excess = select(decisions.c.id).order_by(decisions.c.unix_seconds, decisions.c.id).limit(count - MOST_ROWS)
        gone += connection.execute(delete(decisions).where(decisions.c.id.in_(excess))).rowcount
    return gone


def forget(connection: Connection, workload: Workload) -> int:
    """Delete what was decided about a workload; return how many."""
    return connection.execute(
        delete(decisions).where(
            decisions.c.namespace == workload.namespace,
            decisions.c.workload_kind == workload.kind,
            decisions.c.workload_name == workload.name,
        )
    ).rowcount


def to_decision(row: RowMapping) -> StoredDecision:
    """Read a row of ``decisions``."""
    workload = None
    if row["namespace"] is not None:
        workload = Workload(
            namespace=row["namespace"], kind=row["workload_kind"] or "", name=row["workload_name"] or ""
        )
    return StoredDecision(
        id=row["id"],
        node=row["node"],
        incarnation=row["incarnation"],
        sequence=row["sequence"],
        unix_seconds=row["unix_seconds"],
        action=row["action"],
        outcome=row["outcome"],
        reason=row["reason"],
        detail=row["detail"],
        workload=workload,
        pod=row["pod"],
        pod_uid=row["pod_uid"],
        changes=row["changes"],
        seconds=row["seconds"],
        repeats=row["repeats"],
        asked_by=row["asked_by"],
    )


def _conditions(choice: DecisionChoice) -> list[ColumnElement[bool]]:
    table = decisions.c
    conditions: list[ColumnElement[bool]] = []
    if choice.namespaces is not None:
        conditions.append(table.namespace.in_(sorted(choice.namespaces)) if choice.namespaces else false())
    for column, wanted in (
        (table.workload_kind, choice.workload_kind),
        (table.workload_name, choice.workload_name),
        (table.node, choice.node),
    ):
        if wanted is not None:
            conditions.append(column == wanted)
    if choice.pod is not None:
        pattern = choice.pod.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")
        conditions.append(table.pod.like(pattern, escape="\\") if "*" in choice.pod else table.pod == choice.pod)
    if choice.actions:
        conditions.append(table.action.in_(sorted(choice.actions)))
    if choice.outcomes:
        conditions.append(table.outcome.in_(sorted(choice.outcomes)))
    if choice.since_unix_seconds is not None:
        conditions.append(table.unix_seconds >= choice.since_unix_seconds)
    if choice.after is not None:
        at = choice.after
        conditions.append(
            or_(table.unix_seconds < at.unix_seconds, and_(table.unix_seconds == at.unix_seconds, table.id < at.id))
        )
    return conditions


def _upsert(connection: Connection) -> Insert:
    """Return the statement that writes a decision once, and its newer wording in place of the older."""
    here = [decisions.c.node, decisions.c.incarnation, decisions.c.sequence]
    if connection.dialect.name == "sqlite":
        on_file = sqlite.insert(decisions)
        new = on_file.excluded
        return on_file.on_conflict_do_update(
            index_elements=here,
            set_={name: new[name] for name in _TOLD},
            where=new.repeats > decisions.c.repeats,
        )
    on_server = postgresql.insert(decisions)
    newer = on_server.excluded
    return on_server.on_conflict_do_update(
        index_elements=here,
        set_={name: newer[name] for name in _TOLD},
        where=newer.repeats > decisions.c.repeats,
    )


def _values(row: StoredDecision) -> dict[str, str | float | None]:
    workload = row.workload
    return {
        "node": row.node,
        "incarnation": row.incarnation,
        "sequence": row.sequence,
        "unix_seconds": row.unix_seconds,
        "action": row.action,
        "outcome": row.outcome,
        "reason": row.reason,
        "detail": row.detail,
        "namespace": None if workload is None else workload.namespace,
        "workload_kind": None if workload is None else workload.kind,
        "workload_name": None if workload is None else workload.name,
        "pod": row.pod,
        "pod_uid": row.pod_uid,
        "changes": row.changes,
        "seconds": row.seconds,
        "repeats": row.repeats,
        "asked_by": row.asked_by,
    }
