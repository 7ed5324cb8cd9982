"""Connections to the store's database, and what its failures mean. Webhook.

Nothing here knows a table. A transaction that writes says so when it begins: on SQLite it then takes the one writer's
place at once, instead of finding it taken in the middle.
"""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, exc, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from agent.webhook.store.database.place import PostgresqlPlace, SqlitePlace, to_place
from agent.webhook.store.shapes import StoreAway, StoreUnusable

_NOW = text("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)")


def database_now(connection: Connection) -> float:
    """Return Unix seconds by the database's clock; SQLite's is this machine's, as its only replica's is.

    The moment of the question, not of the transaction's begin: who waited for a lock must not act by an old time.
    """
    if connection.dialect.name != "postgresql":
        return time.time()
    now: float = connection.execute(_NOW).scalar_one()
    return now


if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

SQLITE_LOG_BYTES: Final = 64 * 2**20
"""To which the log beside the file is cut after a fold let it grow; appends alone keep it at 4 MiB."""
VERIFYING_MODES: Final = ("verify-full", "verify-ca")
"""Values of libpq's ``sslmode`` with which the server's certificate is looked at."""
_BEGIN: Final = "plimsoll_begin"
"""Execution option: the words that begin a transaction on SQLite."""
INSUFFICIENT_PRIVILEGE: Final = "42501"
"""A SQLSTATE, as UNDEFINED_TABLE; appendix A of PostgreSQL's manual."""
UNDEFINED_TABLE: Final = "42P01"
_NO_ROOM: Final = ("53100", "25006")
"""The server's disk is full; it is read-only."""
_NO_ROOM_ON_FILE: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)
_AWAY_FOR_NOW: Final = (INSUFFICIENT_PRIVILEGE, UNDEFINED_TABLE)
"""Somebody took away rights or tables under us: theirs to mend, and no fault of the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePatience:
    """How long the store waits before it says that the database is away."""

    connect_seconds: int = 3
    """For a connection; an unreachable address otherwise takes minutes."""
    lock_seconds: float = 5.0
    """For a lock or SQLite's writer's place; an append holds either for milliseconds."""
    statement_seconds: float = 10.0
    long_statement_seconds: float = 120.0
    """For one of a fold, a migration or a snapshot."""
    idle_seconds: float = 30.0
    """In the middle of a transaction; a replica that froze there otherwise holds its locks, and so all others."""
    retry_seconds: float = 1.0
    """After a failed connection nobody tries again for so long: they hear at once that the database is away."""


class StoreEngine:
    """Connections for any thread, opened when needed; until the schema is known to be there, StoreAway for all."""

    def __init__(
        self,
        url: str,
        *,
        patience: StorePatience | None = None,
        is_prepared: bool = False,
        monotonic_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.place: Final = to_place(url)
        self.patience: Final = patience or StorePatience()
        self.is_prepared = is_prepared
        """The schema is there: the webhook starts, and admits pods, while its database is away."""
        self._monotonic_seconds: Final = monotonic_seconds
        self._away: tuple[float, str] | None = None
        self._told_weakness: str | None = None
        self.refuses_writes = False
        """What was to be written last was refused for want of room, or as all is read-only; to read goes on."""
        # SQLite's own waiting is sleeping and trying: the threads of one process take turns here instead.
        self._writer: Final = threading.Lock()
        is_sqlite = self.is_sqlite
        self.engine: Final = create_engine(
            "sqlite+pysqlite://" if is_sqlite else "postgresql+psycopg://",
            creator=self._connect_sqlite if is_sqlite else self._connect_postgresql,
            poolclass=QueuePool,
            pool_size=8,
            max_overflow=0,
            pool_timeout=self.patience.lock_seconds,
            pool_pre_ping=not is_sqlite,
            hide_parameters=True,
            isolation_level=None if is_sqlite else "READ COMMITTED",
        )
        if isinstance(self.place, SqlitePlace):
            _let_us_begin(self.engine)
            _notice_another_file(self.engine, self.place)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return isinstance(self.place, SqlitePlace)

    @contextmanager
    def reading(self, *, is_long: bool = False, is_setup: bool = False) -> Iterator[Connection]:
        """Open a transaction that sees one moment and writes nothing."""
        with self._translated(), self._connection(is_setup=is_setup) as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                if is_long:
                    self._allow_long_statements(connection)
                yield connection

    @contextmanager
    def writing(self, *, is_long: bool = False, is_setup: bool = False) -> Iterator[Connection]:
        """Open a transaction that writes; it commits at the end, unless an exception or a rollback came before."""
        with self._translated(), self._writers_place(), self._connection(is_setup=is_setup) as connection:
            if self.is_sqlite:
                connection = connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
            with ExitStack() as undone:
                undone.callback(connection.rollback)
                undone.push(self._note_refusal)
                connection.begin()
                if is_long:
                    self._allow_long_statements(connection)
                yield connection
                connection.commit()
                undone.pop_all()
        self.refuses_writes = False

    def close(self) -> None:
        """Close the connections that nobody uses; later calls open new ones."""
        self.engine.dispose()

    def _note_refusal(self, _: object, error: BaseException | None, __: object) -> None:
        self.refuses_writes = self.refuses_writes or _has_no_room(error)

    @contextmanager
    def _writers_place(self) -> Iterator[None]:
        if not self.is_sqlite:
            yield
            return
        if not self._writer.acquire(timeout=self.patience.lock_seconds):
            raise StoreAway(f"database {self.place} is busy: no turn to write within {self.patience.lock_seconds:g} s")
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def _connection(self, *, is_setup: bool) -> Iterator[Connection]:
        if not (self.is_prepared or is_setup):
            raise StoreAway(f"{self.place} was not reached yet")
        away = self._away
        if away and self._monotonic_seconds() < away[0]:
            raise StoreAway(away[1])
        try:
            connection = self.engine.connect()
        except exc.DBAPIError as error:
            reason = self._reason(error)
            self._away = (self._monotonic_seconds() + self.patience.retry_seconds, reason)
            raise StoreAway(reason) from error
        self._away = None
        with connection:
            yield connection

    def _allow_long_statements(self, connection: Connection) -> None:
        if not self.is_sqlite:
            milliseconds = round(self.patience.long_statement_seconds * 1000)
            connection.execute(text(f"SET LOCAL statement_timeout = {milliseconds}"))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.TimeoutError as error:
            raise StoreAway(f"database {self.place} is busy: all connections are in use") from error
        except exc.DBAPIError as error:
            if not _is_away(error):
                raise
            raise StoreAway(self._reason(error)) from error

    def _reason(self, error: exc.DBAPIError) -> str:
        lines = str(error.orig).strip().splitlines() or [type(error.orig).__name__]
        said = lines[0].removeprefix("connection failed: ")
        if isinstance(self.place, PostgresqlPlace) and self.place.password:
            said = said.replace(self.place.password, "***")
        return f"database {self.place} is away: {said}"

    def _connect_sqlite(self) -> sqlite3.Connection:
        assert isinstance(self.place, SqlitePlace)  # noqa: S101 - how the engine was made
        connection = sqlite3.connect(
            self.place.uri,
            uri=True,
            timeout=self.patience.lock_seconds,
            isolation_level=None,  # we begin transactions, the driver none
            check_same_thread=False,  # the pool lends a connection to one thread at a time
        )
        with ExitStack() as undone:
            undone.callback(connection.close)
            try:
                self._set_up_sqlite(connection)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                    raise StoreUnusable(f"database {self.place} is no SQLite file") from error
                raise
            undone.pop_all()
        return connection

    def _set_up_sqlite(self, connection: sqlite3.Connection) -> None:
        # FULL: a commit is on the disk when it returns; WAL's usual NORMAL would lose the last ones to a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {SQLITE_LOG_BYTES}")
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            return
        # Changing the mode is the one thing for which SQLite does not wait for others doing the same.
        deadline = time.monotonic() + self.patience.lock_seconds
        while True:
            try:
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        if mode != ("wal",):
            raise StoreUnusable(
                f"database {self.place}: its file system takes no write-ahead log; use a local disk, or PostgreSQL"
            )

    def _connect_postgresql(self) -> psycopg.Connection:
        import psycopg  # here: 8 MB that a webhook on SQLite has no use for
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        assert isinstance(self.place, PostgresqlPlace)  # noqa: S101 - how the engine was made
        defaults: dict[str, str | int] = {
            "connect_timeout": self.patience.connect_seconds,
            "application_name": "plimsoll-webhook",
            "client_encoding": "utf8",
            # A server whose machine vanished sends nothing: the kernel then ends the connection.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        }
        given = conninfo_to_dict(self.place.url)
        conninfo = make_conninfo(self.place.url, **{key: value for key, value in defaults.items() if key not in given})
        # No prepared statements: a pooler between us and the server may give each transaction another session.
        connection = psycopg.connect(conninfo, prepare_threshold=None)
        with ExitStack() as undone:
            undone.callback(connection.close)
            for name, seconds in (
                ("lock_timeout", self.patience.lock_seconds),
                ("statement_timeout", self.patience.statement_seconds),
                ("idle_in_transaction_session_timeout", self.patience.idle_seconds),
            ):
                connection.execute("SELECT set_config(%s, %s, false)", (name, str(round(seconds * 1000))))
            # What we acknowledge is on the disk, whatever the server's default is; a stricter default stays.
            if connection.execute("SELECT current_setting('synchronous_commit')").fetchone() == ("off",):
                connection.execute("SET synchronous_commit = on")
            connection.commit()
            self._warn_of(connection)
            undone.pop_all()
        return connection

    def _warn_of(self, connection: psycopg.Connection) -> None:
        """Report once, and when it changes, that others on the network may read or forge what the store is told."""
        weakness = weakness_of(connection)
        if weakness == self._told_weakness:
            return
        self._told_weakness = weakness
        if weakness is not None:
            log.warning(
                "database connection is open to others on the network",
                extra={"database": str(self.place), "cause": weakness, "mend": "sslmode=verify-full in its URL"},
            )


def weakness_of(connection: psycopg.Connection) -> str | None:
    """Return why others on the network may listen to a connection, or stand in for the server; None = they cannot.

    Judged by the connection as it is: by default libpq takes TLS if the server offers it, and goes on without if not.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as ours:
        if ours.family == socket.AF_UNIX:
            return None
    if not connection.pgconn.ssl_in_use:
        return "it is not encrypted"
    modes = [option.val for option in connection.pgconn.info if option.keyword == b"sslmode"]
    mode = (modes[0] or b"").decode() if modes else ""
    return None if mode in VERIFYING_MODES else f"sslmode={mode} looks at no certificate of the server's"


def sqlstate_of(error: exc.DBAPIError) -> str | None:
    """Return PostgreSQL's code of an error; None = it has none, or is SQLite's."""
    sqlstate: str | None = getattr(error.orig, "sqlstate", None)
    return sqlstate


def _is_away(error: exc.DBAPIError) -> bool:
    if error.connection_invalidated or sqlstate_of(error) in _AWAY_FOR_NOW:
        return True
    if isinstance(error.orig, sqlite3.OperationalError) and error.orig.sqlite_errorcode == sqlite3.SQLITE_ERROR:
        # SQLite's code for a wrong statement; a missing table means another file in the place of ours.
        return "no such table" in str(error.orig)
    # What remains of these is a fault of ours, and waiting mends none. A damaged file is a plain DatabaseError.
    return not isinstance(error, (exc.IntegrityError, exc.DataError, exc.ProgrammingError, exc.NotSupportedError))


def _has_no_room(error: BaseException | None) -> bool:
    if not isinstance(error, exc.DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return error.orig.sqlite_errorcode & 0xFF in _NO_ROOM_ON_FILE
    return sqlstate_of(error) in _NO_ROOM


def _let_us_begin(engine: Engine) -> None:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(str(connection.get_execution_options().get(_BEGIN, "BEGIN")))


def _notice_another_file(engine: Engine, place: SqlitePlace) -> None:
    """Open anew when the file was replaced or removed: what is written to a removed file is lost with it."""

    @event.listens_for(engine, "connect")
    def connect(_connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
        entry.info["file"] = _identity(place)

    @event.listens_for(engine, "checkout")
    def checkout(_connection: DBAPIConnection, entry: ConnectionPoolEntry, _proxy: PoolProxiedConnection) -> None:
        if entry.info["file"] != _identity(place):
            raise exc.DisconnectionError


def _identity(place: SqlitePlace) -> tuple[int, int] | None:
    try:
        status = os.stat(place.path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
