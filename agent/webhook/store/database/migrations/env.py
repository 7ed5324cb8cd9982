"""Where alembic starts: on the connection, and in the transaction, that `store_schema` hands it."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

VERSION_TABLE = "plimsoll_schema"
"""Not alembic's usual name: another program's revisions are never taken for ours."""

connection = context.config.attributes["connection"]
if not isinstance(connection, Connection):
    raise TypeError("alembic is run by agent.webhook.store.database.schema only")
context.configure(connection=connection, version_table=VERSION_TABLE)
context.run_migrations()
