"""Nodes that were granted the overload taint and may not be seen with it yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; the arbiter's counter is its lock too."""
    op.create_table(
        "taint_grants",
        sa.Column("node", _name, primary_key=True),
        sa.Column("granted_unix_seconds", sa.Float(53), nullable=False),
        sa.Column("until_unix_seconds", sa.Float(53), nullable=False),
    )
