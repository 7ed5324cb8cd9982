"""Where the store is: a URL read strictly, and said again without its password. Webhook; opens nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from agent.webhook.store.shapes import StoreUnusable

POSTGRESQL_SCHEMES: Final = ("postgresql", "postgres")
FORMS: Final = "a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlitePlace:
    """A file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def uri(self) -> str:
        """For the driver: never makes the file."""
        return f"file:{quote(str(self.path))}?mode=rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresqlPlace:
    """A database of a server."""

    url: str
    """As given; with its password."""
    name: str
    """For people."""
    password: str | None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"PostgresqlPlace({self.name})"


def to_place(url: str) -> SqlitePlace | PostgresqlPlace:
    """Read the database's URL.

    Raises:
        StoreUnusable: It is none of FORMS. The text never repeats what may be a password.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _sqlite_place(url)
    if scheme == "sqlite":
        if not rest.startswith("/"):
            raise StoreUnusable("a database sqlite:// names a path after three slashes: sqlite:///PATH")
        return _sqlite_place(rest[1:])
    if scheme in POSTGRESQL_SCHEMES:
        return _postgresql_place(url)
    shown = scheme if scheme.replace("+", "").isalnum() else "this"
    raise StoreUnusable(f"a database {shown}:// is not known: {FORMS}")


def _sqlite_place(path: str) -> SqlitePlace:
    if not path or path.startswith(":") or "?" in path or "\0" in path:
        raise StoreUnusable(f"{path!r} is no path of a database file: {FORMS}")
    return SqlitePlace(path=Path(path).absolute())


def _postgresql_place(url: str) -> PostgresqlPlace:
    import psycopg  # here: 8 MB that a webhook on SQLite has no use for
    from psycopg.conninfo import conninfo_to_dict

    shape = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    # An unquoted @, / or # in a password would be taken for a host's name or a port, and shown in an error.
    if url.count("@") > 1 or "@" in url.partition("://")[2].partition("/")[2] or "#" in url:
        raise StoreUnusable(f"the database's URL ({shape}) holds an @, / or # of its own: write %40, %2F or %23")
    try:
        keys = conninfo_to_dict(url)
    except psycopg.Error:
        # Its own words may quote the password.
        raise StoreUnusable(
            f"the database's URL is not one that PostgreSQL takes: {shape}?sslmode=verify-full"
        ) from None
    port = str(keys.get("port") or "")
    if not all(part.isdigit() for part in port.split(",") if part):
        raise StoreUnusable(f"the database's URL ({shape}) names a port that is no number")
    user, host, database = (keys.get(name) for name in ("user", "host", "dbname"))
    name = (
        f"postgresql://{f'{user}@' if user else ''}{host or ''}{f':{port}' if port else ''}"
        f"{f'/{database}' if database else ''}"
    )
    password = keys.get("password")
    return PostgresqlPlace(url=url, name=name, password=str(password) if password else None)
