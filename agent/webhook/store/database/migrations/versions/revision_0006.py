"""Runs of Jobs, of each container of a workload the last ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table, and the counter by which replicas hear of each other's rows."""
    counters = sa.table("counters", sa.column("name", sa.Text), sa.column("value", sa.BigInteger))
    op.bulk_insert(counters, [{"name": "last_run_post", "value": 0}])
    op.create_table(
        "job_runs",
        sa.Column("namespace", _name, primary_key=True),
        sa.Column("workload_kind", _name, primary_key=True),
        sa.Column("workload_name", _name, primary_key=True),
        sa.Column("container", _name, primary_key=True),
        sa.Column("run", _name, primary_key=True),
        sa.Column("post", sa.BigInteger, nullable=False, index=True),
        sa.Column("ended_unix_seconds", sa.Float(53), nullable=False, index=True),
        sa.Column("duration_seconds", sa.Float(53), nullable=False),
        sa.Column("cpu_seconds", sa.Float(53), nullable=True),
        sa.Column("cpu_mean_millicores", sa.Float(53), nullable=True),
        sa.Column("cpu_p75_millicores", sa.Float(53), nullable=True),
        sa.Column("cpu_largest_millicores", sa.Float(53), nullable=True),
        sa.Column("memory_peak_bytes", sa.BigInteger, nullable=True),
        sa.Column("memory_need_bytes", sa.BigInteger, nullable=True),
        sa.Column("memory_at_kill_bytes", sa.BigInteger, nullable=True),
        sa.Column("exit_code", sa.Integer, nullable=True),
        sa.Column("cpu_node", sa.BigInteger, nullable=False),
        sa.Column("memory_node", sa.BigInteger, nullable=False),
    )
