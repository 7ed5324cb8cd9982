"""The heads of an hour's sketches in one row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_hour = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the table, true of the sketches as far as they are folded: it is empty."""
    op.create_table(
        "sketch_heads",
        sa.Column("unix_hour", _hour, primary_key=True, autoincrement=False),
        sa.Column("names", sa.LargeBinary, nullable=False),
        sa.Column("joined", sa.LargeBinary, nullable=False),
    )
    op.execute(
        "INSERT INTO counters (name, value) SELECT 'heads_through', value FROM counters WHERE name = 'folded_through'"
    )
    if op.get_bind().dialect.name == "postgresql":
        # Names are compressed already, and heads are mostly numbers of nodes, which look like chance.
        op.execute("ALTER TABLE sketch_heads ALTER COLUMN names SET STORAGE EXTERNAL")
        op.execute("ALTER TABLE sketch_heads ALTER COLUMN joined SET STORAGE EXTERNAL")
