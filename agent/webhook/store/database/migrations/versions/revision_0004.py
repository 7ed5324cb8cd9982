"""The pods of each node's newest report, for rows that come after they went."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; it fills with the next reports."""
    op.create_table(
        "node_pods",
        sa.Column("node", _name, primary_key=True),
        sa.Column("received_unix_seconds", sa.Float(53), nullable=False),
        sa.Column("pods", sa.LargeBinary, nullable=False),
    )
