"""What was taken back of workloads since their pods fared worse."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "setbacks",
        sa.Column("namespace", _name, primary_key=True),
        sa.Column("workload_kind", _name, primary_key=True),
        sa.Column("workload_name", _name, primary_key=True),
        sa.Column("what", _name, primary_key=True),
        sa.Column("at_unix_seconds", sa.Float(53), nullable=False),
        sa.Column("share", _name, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
