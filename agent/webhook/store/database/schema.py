"""Makes the store's tables, or brings them up to date, once, however many replicas start together. Webhook."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, exc, inspect, text

from agent.absent_module import absent
from agent.webhook.store.database import tables
from agent.webhook.store.database.engine import INSUFFICIENT_PRIVILEGE, StoreEngine, sqlstate_of
from agent.webhook.store.database.place import SqlitePlace
from agent.webhook.store.shapes import SchemaTooNew, StoreAway, StoreUnusable

SCHEMA: Final = "0009"
"""The newest revision under `migrations`."""
VERSION_TABLE: Final = "plimsoll_schema"
SQLITE_APPLICATION_ID: Final = 0x504C4D53
"""In the file's header, "PLMS": tells our files from others'."""
_MIGRATION_LOCK: Final = 0x504C4D53
"""Of PostgreSQL's advisory locks."""


def prepare(store: StoreEngine, *, schema: str = SCHEMA) -> None:
    """Leave the database at a revision of the schema, with nothing done if it is there already.

    Raises:
        StoreAway: The database does not answer.
        SchemaTooNew: It is at a revision above the newest known; nothing was changed.
        StoreUnusable: It is not ours, or no database at all, or cannot be written.
    """
    if isinstance(store.place, SqlitePlace):
        _make_file(store.place)
    try:
        with store.reading(is_setup=True) as connection:
            is_there = _present_schema(connection, store) == schema
        if not is_there:
            _migrate(store, schema)
    except StoreAway as error:
        cause = error.__cause__
        if isinstance(cause, exc.DBAPIError) and sqlstate_of(cause) == INSUFFICIENT_PRIVILEGE:
            reason = str(cause.orig).partition("\n")[0]
            raise StoreUnusable(f"database {store.place} cannot be set up: {reason}") from error
        raise
    store.is_prepared = True


def _migrate(store: StoreEngine, schema: str) -> None:
    with store.writing(is_long=True, is_setup=True) as connection:
        if not store.is_sqlite:
            connection.execute(text("SET LOCAL lock_timeout = 0"))  # another replica's migration takes its time
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        # Looked at again: the one before us in the queue may have done it.
        if _present_schema(connection, store) != schema:
            _upgrade(connection, schema)


def _present_schema(connection: Connection, store: StoreEngine) -> str | None:
    names = set(inspect(connection).get_table_names())
    if store.is_sqlite:
        mark: int = connection.execute(text("PRAGMA application_id")).scalar_one()
        if mark != SQLITE_APPLICATION_ID and (mark or names):
            raise StoreUnusable(f"database {store.place} is an SQLite file of another program")
    if VERSION_TABLE not in names:
        others = sorted(names & tables.metadata.tables.keys())
        if others:
            raise StoreUnusable(
                f"database {store.place} has tables of something else ({', '.join(others)}): give Plimsoll its own"
            )
        return None
    version = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 - a constant
    if version is None:
        return None
    if not str(version).isdigit():
        raise StoreUnusable(f"database {store.place} has an unknown schema {str(version)!r}")
    if int(version) > int(SCHEMA):
        raise SchemaTooNew(place=f"database {store.place}", found=str(version), known=SCHEMA)
    return str(version)


def _upgrade(connection: Connection, schema: str) -> None:
    # Loaded here: at most starts there is nothing to do, and alembic and its templates take 9 MB.
    with absent("pygments"):  # 4 MB more where it is installed, for colours of pages that show a template's fault
        from alembic import command
        from alembic.config import Config

    if connection.dialect.name == "sqlite":
        connection.execute(text(f"PRAGMA application_id = {SQLITE_APPLICATION_ID}"))
    config = Config()
    scripts = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, schema)


def _make_file(place: SqlitePlace) -> None:
    """Make the file for its owner alone, if there is none, and say in words what would go wrong later."""
    directory = place.path.parent
    if not directory.is_dir():
        raise StoreUnusable(f"database {place}: there is no directory {directory}")
    if place.path.is_dir():
        raise StoreUnusable(f"database {place} is a directory; name a file in it")
    try:
        os.close(os.open(place.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        # Not opened to look into it: closing it would end the locks that SQLite holds on it in this process.
        if not os.access(place.path, os.R_OK | os.W_OK):
            raise StoreUnusable(f"database {place} may not be read and written") from None
    except OSError as error:
        raise StoreUnusable(f"database {place} cannot be made: {error.strerror}") from error
    else:
        _keep_entry(directory)
    # SQLite keeps its log and its index beside the file.
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StoreUnusable(f"database {place}: directory {directory} is not writable")


def _keep_entry(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
