"""The arbiter's evictions and the workloads it leaves alone for a while."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the arbiter's tables, and the counter whose row is their lock."""
    counters = sa.table("counters", sa.column("name", sa.Text), sa.column("value", sa.BigInteger))
    op.bulk_insert(counters, [{"name": "eviction_turn", "value": 0}])
    op.create_table(
        "eviction_back_offs",
        sa.Column("namespace", _name, primary_key=True),
        sa.Column("workload_kind", _name, primary_key=True),
        sa.Column("workload_name", _name, primary_key=True),
        sa.Column("refusals", sa.Integer, nullable=False),
        sa.Column("until_unix_seconds", sa.Float(53), nullable=False),
    )
    op.create_table(
        "evictions",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), primary_key=True, nullable=False
        ),
        sa.Column("requested_unix_seconds", sa.Float(53), nullable=False, index=True),
        sa.Column("namespace", _name, nullable=False),
        sa.Column("workload_kind", _name, nullable=False),
        sa.Column("workload_name", _name, nullable=False),
        sa.Column("pod", _name, nullable=False),
        sa.Column("pod_uid", _name, nullable=False, unique=True),
        sa.Column("node", _name, nullable=False),
        sa.Column("reason", _name, nullable=False),
        sa.Column("state", _name, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("done_unix_seconds", sa.Float(53), nullable=True),
    )
