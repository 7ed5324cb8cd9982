"""What nodes decided and did, and the ledger of workloads by hour and by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _amounts() -> list[sa.Column[int]]:
    return [
        sa.Column("pods_milli", sa.BigInteger, nullable=False),
        *(
            sa.Column(f"{resource}_{figure}", sa.BigInteger, nullable=True)
            for resource in ("cpu", "memory")
            for figure in ("written", "requested", "recommended", "used", "used_p95", "short_seconds")
        ),
        sa.Column("kills", sa.BigInteger, nullable=False),
    ]


def upgrade() -> None:
    """Make the tables, and the counter of how far the ledger has come."""
    counters = sa.table("counters", sa.column("name", sa.Text), sa.column("value", sa.BigInteger))
    op.bulk_insert(counters, [{"name": "ledger_through", "value": 0}])
    op.create_table(
        "decisions",
        sa.Column("id", _id, sa.Identity(), primary_key=True),
        sa.Column("node", _name, nullable=False),
        sa.Column("incarnation", _name, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("unix_seconds", sa.Float(53), nullable=False),
        sa.Column("action", _name, nullable=False),
        sa.Column("outcome", _name, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("namespace", _name, nullable=True),
        sa.Column("workload_kind", _name, nullable=True),
        sa.Column("workload_name", _name, nullable=True),
        sa.Column("pod", _name, nullable=True),
        sa.Column("pod_uid", _name, nullable=True),
        sa.Column("changes", sa.Text, nullable=False),
        sa.Column("seconds", sa.Float(53), nullable=True),
        sa.Column("repeats", sa.BigInteger, nullable=False),
        sa.Column("asked_by", sa.Text, nullable=True),
        sa.UniqueConstraint("node", "incarnation", "sequence", name="decisions_told_once"),
    )
    op.create_index("decisions_by_time", "decisions", ["unix_seconds", "id"])
    op.create_index(
        "decisions_by_workload", "decisions", ["namespace", "workload_kind", "workload_name", "unix_seconds"]
    )
    op.create_table(
        "decision_logs",
        sa.Column("node", _name, primary_key=True),
        sa.Column("incarnation", _name, nullable=False),
        sa.Column("agent", _name, nullable=False),
        sa.Column("dropped", sa.BigInteger, nullable=False),
        sa.Column("received_unix_seconds", sa.Float(53), nullable=False),
        sa.Column("unix_day", sa.BigInteger, nullable=False),
        sa.Column("taken", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "ledger_workloads",
        sa.Column("id", _id, sa.Identity(), primary_key=True),
        sa.Column("namespace", _name, nullable=False),
        sa.Column("workload_kind", _name, nullable=False),
        sa.Column("workload_name", _name, nullable=False),
        sa.UniqueConstraint("namespace", "workload_kind", "workload_name", name="ledger_workloads_named_once"),
    )
    op.create_table(
        "ledger_hours",
        sa.Column("unix_hour", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("workload", sa.BigInteger, primary_key=True, autoincrement=False),
        *_amounts(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ledger_days",
        sa.Column("unix_day", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("workload", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hours", sa.Integer, nullable=False),
        *_amounts(),
        *(
            sa.Column(f"{resource}_{figure}", sa.BigInteger, nullable=False)
            for resource in ("cpu", "memory")
            for figure in ("freed", "possible", "needed")
        ),
        sqlite_with_rowid=False,
    )
