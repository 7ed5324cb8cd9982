"""The one clock that all replicas share: the database's. Webhook."""

from __future__ import annotations

import time

from sqlalchemy import Connection, text

_NOW = text("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)")


def database_now(connection: Connection) -> float:
    """Give Unix seconds by the database's clock; SQLite's is this machine's, as its only replica's is.

    The moment of the question, not of the transaction's begin: who waited for a lock must not act by an old time.
    """
    if connection.dialect.name != "postgresql":
        return time.time()
    now: float = connection.execute(_NOW).scalar_one()
    return now
