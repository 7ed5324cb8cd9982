"""The log of reports, the marks of nodes, hourly sketches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the first tables."""
    counters = op.create_table(
        "counters",
        sa.Column("name", _name, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(counters, [{"name": "last_id", "value": 0}, {"name": "folded_through", "value": 0}])
    op.create_table(
        "reports",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("node", _name, nullable=False),
        sa.Column("incarnation", _name, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("received_unix_seconds", sa.Float(53), nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "node_marks",
        sa.Column("node", _name, primary_key=True),
        sa.Column("incarnation", _name, primary_key=True),
        sa.Column("lowest_sequence", sa.BigInteger, nullable=False),
        sa.Column("highest_sequence", sa.BigInteger, nullable=False),
        sa.Column("missing", sa.Text, nullable=False),
        sa.Column("reports", sa.BigInteger, nullable=False),
        sa.Column("lost_reports", sa.BigInteger, nullable=False),
        sa.Column("first_received_unix_seconds", sa.Float(53), nullable=False),
        sa.Column("last_received_unix_seconds", sa.Float(53), nullable=False),
    )
    op.create_table(
        "sketches",
        sa.Column("unix_hour", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", _name, primary_key=True),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "postgresql":
        # Payloads are compressed already; trying again costs the server CPU with each report.
        op.execute("ALTER TABLE reports ALTER COLUMN payload SET STORAGE EXTERNAL")
