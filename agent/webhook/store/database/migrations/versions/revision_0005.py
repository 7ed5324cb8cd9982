"""What was forgotten at somebody's order, and in which hours each node had a part: to forget by node."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_HOUR_SECONDS = 3600
_OVERLAP_HOURS = 3
"""For which an older replica may go on folding beside the new ones."""


def upgrade() -> None:
    """Make the tables; which nodes had a part in the hours before is not known."""
    counters = sa.table("counters", sa.column("name", sa.Text), sa.column("value", sa.BigInteger))
    known_since = int(time.time()) // _HOUR_SECONDS + _OVERLAP_HOURS
    op.bulk_insert(counters, [{"name": "node_hours_since", "value": known_since}])
    op.create_table(
        "node_hours",
        sa.Column("unix_day", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("node", _name, primary_key=True),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "forgettings",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("asked_unix_seconds", sa.Float(53), nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        # Compressed already.
        op.execute("ALTER TABLE node_hours ALTER COLUMN payload SET STORAGE EXTERNAL")
