"""What was taken back of workloads, in the database: so few that all is read at once. Webhook."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.workload_setback import SetbackKind, WorkloadSetback
from agent.webhook.store.database.tables import setbacks
from agent.webhook.store.shapes import plain_text


def take(connection: Connection, setback: WorkloadSetback) -> None:
    """Write it over an older one; in a transaction that writes."""
    here = (
        setbacks.c.namespace == setback.workload.namespace,
        setbacks.c.workload_kind == setback.workload.kind,
        setbacks.c.workload_name == setback.workload.name,
        setbacks.c.what == setback.kind,
    )
    connection.execute(delete(setbacks).where(*here, setbacks.c.at_unix_seconds <= setback.at_unix_seconds))
    if connection.execute(select(setbacks.c.what).where(*here)).first() is None:
        connection.execute(
            insert(setbacks),
            {
                "namespace": setback.workload.namespace,
                "workload_kind": setback.workload.kind,
                "workload_name": setback.workload.name,
                "what": setback.kind,
                "at_unix_seconds": setback.at_unix_seconds,
                "share": setback.share,
                "reason": plain_text(setback.reason),  # a node said it, as it liked
            },
        )


def every(connection: Connection) -> list[WorkloadSetback]:
    """Return all, in order of workloads."""
    rows = connection.execute(select(setbacks).order_by(*setbacks.primary_key.columns)).mappings()
    return [
        WorkloadSetback(
            workload=Workload(namespace=row["namespace"], kind=row["workload_kind"], name=row["workload_name"]),
            kind=SetbackKind(row["what"]),
            at_unix_seconds=row["at_unix_seconds"],
            reason=row["reason"],
            share=row["share"],
        )
        for row in rows
    ]


def forget(connection: Connection, workload: Workload) -> None:
    """Delete what was taken back of a workload."""
    connection.execute(
        delete(setbacks).where(
            setbacks.c.namespace == workload.namespace,
            setbacks.c.workload_kind == workload.kind,
            setbacks.c.workload_name == workload.name,
        )
    )
